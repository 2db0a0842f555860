/* What programs need to turn conversations into prompts, from the model's file: its chat template, which the
 * engine never looks into. */
#include "engine/engine.h"

#include "engine/arguments.h"

/* The text of the token that key names; empty if there is none. */
static stator_status read_token(const struct gguf *g, const char *key, const char **text, size_t *length,
                                stator_error *e) {
    struct gguf_value tokens;
    uint64_t id = 0;
    *text = "";
    if (!gguf_find(g, key, &tokens) || !gguf_find(g, "tokenizer.ggml.tokens", &tokens))
        return STATOR_OK;
    stator_status st = gguf_read_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, e);
    if (st == STATOR_OK && tokens.count > 0)
        st = gguf_read_u64(g, key, 0, tokens.count - 1, &id, e);
    if (st != STATOR_OK || tokens.count == 0)
        return st;
    const uint8_t *cursor = tokens.data;
    struct gguf_text token = gguf_next_text(&cursor);
    for (; id > 0; id--)
        token = gguf_next_text(&cursor);
    *text = token.data;
    *length = token.length;
    return STATOR_OK;
}

stator_status stator_get_chat_template(const stator *s, stator_chat_template *t, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(t, eos_length);
    const struct gguf *g = s->planning.gguf;
    struct gguf_value there;
    struct gguf_text own = {0};
    stator_chat_template all = {.file = s->planning.config.chat.template};
    stator_status st = STATOR_OK;
    if (gguf_find(g, "tokenizer.chat_template", &there))
        st = gguf_read_text(g, "tokenizer.chat_template", &own, e);
    all.text = own.data;
    all.length = own.length;
    if (st == STATOR_OK)
        st = read_token(g, "tokenizer.ggml.bos_token_id", &all.bos, &all.bos_length, e);
    if (st == STATOR_OK)
        st = read_token(g, "tokenizer.ggml.eos_token_id", &all.eos, &all.eos_length, e);
    if (st == STATOR_OK)
        ARGUMENTS_WRITE(t, &all);
    return st;
}
