/* What programs need to turn conversations into prompts, from the model's file: its chat template, which the
 * engine never looks into. */
#include "engine/engine.h"

#include "engine/arguments.h"

#include <string.h>

/* The prompt that Qwen3-Reranker was trained with, by its model card on Hugging Face; its older conversions
 * have no key. */
static const char qwen3_rerank[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    "Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: "
    "Given a "
    "web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: "
    "{document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

static stator_status find_rerank(const struct stator *s, stator_chat_template *t, stator_error *e) {
    const struct gguf *g = s->planning.gguf;
    const struct shape *shape = s->planning.shape;
    struct gguf_text own = {0};
    stator_status st = STATOR_OK;
    if (shape->pooling != SHAPE_POOL_RANK)
        return STATOR_OK;
    if (gguf_find(g, "tokenizer.chat_template.rerank", NULL))
        st = gguf_read_text(g, "tokenizer.chat_template.rerank", &own, e);
    else if (strncmp(shape->arch_name, "qwen3", 5) == 0)
        own = (struct gguf_text){.data = qwen3_rerank, .length = sizeof qwen3_rerank - 1};
    t->rerank = own.data;
    t->rerank_length = own.length;
    return st;
}

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
        st = find_rerank(s, &all, e);
    if (st == STATOR_OK)
        ARGUMENTS_WRITE(t, &all);
    return st;
}
