/* What programs need to turn conversations into prompts, from the model's file: its chat template, which the
 * engine never looks into. */
#include "engine/engine.h"

#include "engine/arguments.h"

stator_status stator_get_chat_template(const stator *s, stator_chat_template *t, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(t, eos_length);
    const struct gguf *g = s->planning.gguf;
    struct gguf_value there;
    struct gguf_text own = {0}, bos = {.data = ""}, eos = {.data = ""};
    stator_chat_template all = {.file = s->planning.config.chat.template};
    stator_status st = STATOR_OK;
    if (gguf_find(g, "tokenizer.chat_template", &there))
        st = gguf_read_text(g, "tokenizer.chat_template", &own, e);
    all.text = own.data;
    all.length = own.length;
    if (st == STATOR_OK)
        st = gguf_read_token_text(g, "tokenizer.ggml.bos_token_id", &bos, e);
    if (st == STATOR_OK)
        st = gguf_read_token_text(g, "tokenizer.ggml.eos_token_id", &eos, e);
    all.bos = bos.data;
    all.bos_length = bos.length;
    all.eos = eos.data;
    all.eos_length = eos.length;
    if (st == STATOR_OK)
        ARGUMENTS_WRITE(t, &all);
    return st;
}
