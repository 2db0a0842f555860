#include "tokenizer/infill.h"

#include "tokenizer/vocab.h"

/* older: the key of files from before the present ones; NULL: there was none. */
static const struct role {
    const char *key, *older;
    const char *names[9];
} roles[INFILL_ROLES] = {
    [INFILL_PREFIX] = {"tokenizer.ggml.fim_pre_token_id",
                       "tokenizer.ggml.prefix_token_id",
                       {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<PRE>", "\u2581<PRE>",
                        "<|prefix|>", "<|code_prefix|>", "<｜fim▁begin｜>"}},
    [INFILL_SUFFIX] = {"tokenizer.ggml.fim_suf_token_id",
                       "tokenizer.ggml.suffix_token_id",
                       {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<SUF>", "\u2581<SUF>",
                        "<|suffix|>", "<|code_suffix|>", "<｜fim▁hole｜>"}},
    [INFILL_MIDDLE] = {"tokenizer.ggml.fim_mid_token_id",
                       "tokenizer.ggml.middle_token_id",
                       {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<MID>", "\u2581<MID>",
                        "<|middle|>", "<|code_middle|>", "<｜fim▁end｜>"}},
    [INFILL_REPOSITORY] = {"tokenizer.ggml.fim_rep_token_id",
                           NULL,
                           {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<reponame>"}},
    [INFILL_FILE] = {"tokenizer.ggml.fim_sep_token_id", NULL, {"<|file_sep|>", "<file_sep>"}},
    [INFILL_PAD] = {"tokenizer.ggml.fim_pad_token_id", NULL, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>"}},
};

stator_status infill_read(const struct gguf *g, struct vocab *v, struct infill *out, stator_error *e) {
    for (int i = 0; i < INFILL_ROLES; i++) {
        const struct role *r = &roles[i];
        int32_t *id = &out->ids[i];
        *id = -1;
        stator_status s = r->older != NULL ? vocab_read_id(g, v, r->older, -1, id, e) : STATOR_OK;
        if (s == STATOR_OK)
            s = vocab_read_id(g, v, r->key, *id, id, e);
        if (s != STATOR_OK)
            return s;
        if (*id >= 0 && i >= INFILL_REPOSITORY)
            v->bits[*id] |= VOCAB_END;
        for (const char *const *name = r->names; *id < 0 && *name != NULL; name++)
            *id = vocab_find_name(v, *name);
    }
    return STATOR_OK;
}
