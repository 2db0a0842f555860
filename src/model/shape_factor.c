/* Tensors "NAME.scale" and "NAME.input_scale" beside a matrix (or the matrices of experts) "NAME.weight", as
 * converters of NVFP4 write them: the first is what a finished sum is multiplied with, before its bias
 * (gguf_factor). The second is how activations were scaled where the format was made: nobody who keeps them
 * in more than 4 bits needs it. Which matrices may have them, and their shapes, are those of llama.cpp. */
#include "model/shape.h"

#include "base/arith.h"
#include "formats/block.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const matrices[] = {"attn_q",
                                       "attn_k",
                                       "attn_v",
                                       "attn_output",
                                       "attn_qkv",
                                       "attn_gate",
                                       "ffn_gate",
                                       "ffn_up",
                                       "ffn_down",
                                       "ffn_gate_exps",
                                       "ffn_up_exps",
                                       "ffn_down_exps",
                                       "ffn_gate_shexp",
                                       "ffn_up_shexp",
                                       "ffn_down_shexp",
                                       "ssm_in",
                                       "ssm_out",
                                       "ssm_alpha",
                                       "ssm_beta",
                                       "shortconv.in_proj",
                                       "shortconv.out_proj",
                                       "nextn.eh_proj",
                                       "nextn.shared_head_head"};

static bool may_have(struct gguf_text stem, bool in_layer) {
    if (!in_layer)
        return gguf_text_is(stem, "output");
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++)
        if (gguf_text_is(stem, matrices[i]))
            return true;
    return false;
}

bool shape_is_factor(struct gguf_text name, bool *of_input) {
    struct gguf_text stem;
    *of_input = gguf_text_ends(name, ".input_scale", &stem);
    return *of_input || gguf_text_ends(name, ".scale", &stem);
}

stator_status shape_check_factor(const struct gguf *g, const struct shape *s, const struct gguf_tensor *t,
                                 struct gguf_text name, stator_error *e) {
    char shown[GGUF_SHOWN], of[GGUF_SHOWN], text[2 * GGUF_SHOWN];
    bool of_input;
    CHECK(shape_is_factor(t->name, &of_input));
    const size_t end = strlen(of_input ? ".input_scale" : ".scale");
    const struct gguf_text stem = {t->name.data, t->name.length - end};
    gguf_show(t->name, shown);
    gguf_show(stem, of);
    if (!may_have((struct gguf_text){name.data, name.length - end}, name.length < t->name.length))
        return gguf_error(g, e,
                          "tensor '%s' is not known for the architecture %s: '%s' is no matrix that may have "
                          "one; leaving it out would give wrong results",
                          shown, s->arch_name, of);
    snprintf(text, sizeof text, "%.*s.weight", (int)ARITH_MIN(stem.length, (uint64_t)GGUF_SHOWN), stem.data);
    const struct gguf_tensor *w = gguf_find_tensor(g, text);
    if (w == NULL)
        return gguf_error(g, e, "tensor '%s' is there, but '%s.weight', which it belongs to, is not", shown,
                          of);
    if (t->type != BLOCK_F32)
        return gguf_error(g, e, "tensor '%s' has type %s, expected f32", shown, block_info(t->type)->name);
    if (t->ne[0] != w->ne[2] || t->ne[1] != 1 || t->ne[2] != 1 || t->ne[3] != 1)
        return gguf_error(g, e,
                          "tensor '%s' has shape [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                          "], expected [%" PRIu64 "]: one number for each matrix of '%s.weight'",
                          shown, t->ne[0], t->ne[1], t->ne[2], t->ne[3], w->ne[2], of);
    if (name.length == t->name.length && w->type != BLOCK_NVFP4)
        return gguf_error(g, e,
                          "tensor '%s' is there, but '%s.weight' has type %s: only an output matrix of nvfp4 "
                          "may have one",
                          shown, of, block_info(w->type)->name);
    CHECK(of_input || gguf_factor(w) == t);
    return STATOR_OK;
}
