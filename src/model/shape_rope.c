/* RoPE: which dimensions, base, and how a model's context was stretched (keys ARCH.rope.*, meanings and
 * defaults as llama.cpp has them). */
#include "model/shape.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Far beyond what models have, and so that no product of angles, queries and keys leaves the floats. */
#define MOST_MAGNITUDE 100.0f
#define LEAST_FACTOR   1e-3f
#define MOST_FACTOR    1e6f
#define MOST           1e30f
#define MOST_SECTION   4096 /* pairs */

struct reader {
    const struct gguf *g;
    const struct shape *s;
    stator_error *e;
    stator_status st; /* of the first that failed */
};

static const char *key_of(const struct reader *r, const char *name, char out[96]) {
    snprintf(out, 96, "%s.rope.%s", r->s->arch_name, name);
    return out;
}

static bool has(const struct reader *r, const char *name) {
    char key[96];
    return gguf_find(r->g, key_of(r, name, key), NULL);
}

/* A number that is at least `least`, or above it, and at most `most`; the fallback where the file has none.
 */
static float number(struct reader *r, const char *name, float fallback, float least, bool above, float most) {
    char key[96];
    float v = fallback;
    if (r->st == STATOR_OK)
        r->st = gguf_read_f32_or(r->g, key_of(r, name, key), fallback, &v, r->e);
    if (r->st == STATOR_OK && !(v <= most && (above ? v > least : v >= least)))
        r->st = gguf_error(r->g, r->e, "key '%s' is %g, expected a number %s %g, at most %g", key, (double)v,
                           above ? "above" : "of at least", (double)least, (double)most);
    return r->st == STATOR_OK ? v : fallback;
}

static void read_original(struct reader *r, struct shape *s) {
    char key[96];
    uint64_t v = 0;
    if (r->st == STATOR_OK)
        r->st = gguf_read_u64_or(r->g, key_of(r, "scaling.original_context_length", key), 1, INT32_MAX,
                                 s->context_trained, &v, r->e);
    s->rope_original = (uint32_t)v;
}

/* The pair that turns so many times over the original context. */
static double pair_of(const struct shape *s, double turns) {
    return s->n_rot * log(s->rope_original / (turns * 2 * 3.14159265358979323846)) /
           (2 * log((double)s->rope_base));
}

/* How much larger cos and sin become. A file states the whole magnitude as yarn_attn_factor (attention_factor
 * of Hugging Face's rope_parameters), which replaces 1 + 0.1 ln(factor). Older converters wrote the same
 * number of OLMo 3 as attn_factor, which multiplies the computed magnitude for every other model. */
static void yarn_magnitude(struct reader *r, struct shape *s, float multiplier) {
    const double growth = 0.1 * log((double)s->rope_scale);
    const double computed = s->rope_yarn.share != 0 ? 1 + growth : 1;
    if (s->latent &&
        multiplier != 0) { /* a tenth of mscale_all_dim, which is mscale as well: cos and sin stay */
        s->mla.score_magnitude = (float)(1 + (double)multiplier * log((double)s->rope_scale));
        return;
    }
    if (has(r, "scaling.yarn_attn_factor")) {
        s->rope_magnitude *= number(r, "scaling.yarn_attn_factor", 1, 0, true, MOST_MAGNITUDE);
        return;
    }
    if (s->rope_attn_factor_whole && fabs((double)s->rope_magnitude - computed) <= 1e-5 * computed)
        return;
    s->rope_magnitude *= (float)computed;
    if (growth > 0 && multiplier != 0)
        s->rope_magnitude /= (float)(1 + (double)multiplier * growth);
}

/* Pairs below `low` keep their frequency, those above `high` are scaled, and those between are mixed. The
 * bounds are rounded outwards unless the architecture keeps them exact. */
static void read_yarn(struct reader *r, struct shape *s) {
    struct shape_yarn *y = &s->rope_yarn;
    float fast = number(r, "scaling.yarn_beta_fast", 32, 0, true, MOST);
    float slow = number(r, "scaling.yarn_beta_slow", 1, 0, true, MOST);
    float multiplier = number(r, "scaling.yarn_log_multiplier", 0, 0, false, MOST);
    y->share = number(r, "scaling.yarn_ext_factor", 1, 0, false, 1);
    if (r->st == STATOR_OK && multiplier != 0 && !s->rope_multiplied)
        r->st = gguf_error(
            r->g, r->e,
            "key '%s.rope.scaling.yarn_log_multiplier' is %g: this architecture does not compute with it",
            s->arch_name, (double)multiplier);
    if (r->st == STATOR_OK && !(s->rope_base > 1))
        r->st = gguf_error(r->g, r->e, "key '%s.rope.freq_base' is %g, expected more than 1 with yarn",
                           s->arch_name, (double)s->rope_base);
    if (r->st != STATOR_OK)
        return;
    double low = pair_of(s, fast), high = pair_of(s, slow);
    if (!s->rope_exact_bounds) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, s->n_rot - 1);
    y->low = (float)low;
    y->width = (float)fmax(high - low, 0.001);
    yarn_magnitude(r, s, multiplier);
}

/* A missing factor, or 0, means none; the older key rope.scale_linear is a factor too. */
static void read_factor(struct reader *r, struct shape *s) {
    const char *name = has(r, "scaling.factor") ? "scaling.factor" : "scale_linear";
    char key[96];
    float factor = number(r, name, 0, 0, false, MOST_FACTOR);
    if (factor > 0 && factor < LEAST_FACTOR)
        r->st = gguf_error(r->g, r->e, "key '%s' is %g, expected 0 (none), or %g to %g", key_of(r, name, key),
                           (double)factor, (double)LEAST_FACTOR, (double)MOST_FACTOR);
    else if (factor > 0)
        s->rope_scale = factor;
}

/* Long and short divisors come as tensors; how much larger cos and sin become, a missing key leaves to the
 * lengths of the contexts. */
static void read_longrope(struct reader *r, struct shape *s) {
    s->rope_long = true;
    if (has(r, "scaling.attn_factor") || s->rope_original < 2 || s->context_trained <= s->rope_original)
        return;
    double stretch = (double)s->context_trained / s->rope_original;
    s->rope_magnitude = (float)sqrt(1 + log(stretch) / log((double)s->rope_original));
}

/* A missing type means linear, or longrope where the file has its tensors. */
static void read_scaling(struct reader *r, struct shape *s) {
    char key[96], shown[GGUF_SHOWN];
    struct gguf_text type = {"linear", 6};
    if (has(r, "scaling.type"))
        r->st = gguf_read_text(r->g, key_of(r, "scaling.type", key), &type, r->e);
    else if (gguf_find_tensor(r->g, "rope_factors_long.weight") != NULL)
        type = (struct gguf_text){"longrope", 8};
    if (r->st != STATOR_OK || gguf_text_is(type, "none"))
        return;
    bool yarn = gguf_text_is(type, "yarn"), longrope = gguf_text_is(type, "longrope");
    s->rope_needs_freqs = gguf_text_is(type, "llama3");
    if (!yarn && !longrope && !s->rope_needs_freqs && !gguf_text_is(type, "linear")) {
        r->st = gguf_error(
            r->g, r->e,
            "key '%s': RoPE scaling '%s' is not supported (none, linear, yarn, llama3 and longrope are)", key,
            gguf_show(type, shown));
        return;
    }
    s->rope_magnitude = number(r, "scaling.attn_factor", 1, 0, true, MOST_MAGNITUDE);
    if (!longrope && !s->rope_needs_freqs)
        read_factor(r, s);
    read_original(r, s);
    if (yarn && r->st == STATOR_OK)
        read_yarn(r, s);
    if (longrope && r->st == STATOR_OK)
        read_longrope(r, s);
}

stator_status shape_read_rope(const struct gguf *g, struct shape *s, stator_error *e) {
    struct reader r = {g, s, e, STATOR_OK};
    char key[96];
    uint64_t n = 0;
    s->rope_scale = s->rope_magnitude = 1;
    stator_status st =
        gguf_read_u64_or(g, key_of(&r, "dimension_count", key), 2, s->head_dim_k, s->head_dim_k, &n, e);
    s->n_rot = (uint32_t)n;
    if (st == STATOR_OK && n % 2 != 0)
        st = gguf_error(g, e, "key '%s' is %" PRIu64 ", expected an even number", key, n);
    if (st != STATOR_OK)
        return st;
    s->rope_base = number(&r, "freq_base", 10000, 0, true, MOST);
    if (r.st == STATOR_OK)
        read_scaling(&r, s);
    return r.st;
}

/* Whether each section gets as many pairs as it says, interleaved or in order. */
static bool sections_fit(const struct shape *s) {
    const uint32_t pairs = s->n_rot / 2;
    uint64_t sum = 0;
    for (uint32_t k = 0; k < 3; k++) {
        const uint32_t n = s->rope_sections[k];
        sum += n;
        if (n > pairs || (k > 0 && n > 0 && 3 * (n - 1) + k >= pairs && !s->rope_in_order))
            return false;
    }
    return sum == pairs;
}

stator_status shape_read_sections(const struct gguf *g, struct shape *s, stator_error *e) {
    struct reader r = {g, s, e, STATOR_OK};
    char key[96];
    struct gguf_value v;
    stator_status st = shape_read_u32_or(g, s, "n_deepstack_layers", 0, s->n_layers, 0, &s->deepstacks, e);
    key_of(&r, "dimension_sections", key);
    if (st != STATOR_OK || !gguf_find(g, key, &v))
        return st;
    /* Writers differ: converters write signed numbers. */
    st = gguf_read_array(g, key, v.kind == GGUF_ARRAY && v.item == GGUF_U32 ? GGUF_U32 : GGUF_I32, &v, e);
    if (st != STATOR_OK)
        return st;
    if (v.count < 3 || v.count > 4)
        return gguf_error(g, e, "key '%s' has %" PRIu64 " values, expected 3 or 4", key, v.count);
    for (uint64_t i = 0; i < v.count; i++) {
        const int64_t n = gguf_item_i64(&v, i);
        if (n < 0 || n > MOST_SECTION)
            return gguf_error(g, e, "key '%s': value %" PRIu64 " is %" PRId64 ", expected 0 to %d", key, i, n,
                              MOST_SECTION);
        if (i < 3)
            s->rope_sections[i] = (uint32_t)n;
    }
    return STATOR_OK;
}

stator_status shape_check_sections(const struct gguf *g, const struct shape *s, stator_error *e) {
    const uint32_t *n = s->rope_sections;
    if (n[0] + n[1] + n[2] == 0)
        return gguf_error(g, e,
                          "there is no key '%s.rope.dimension_sections': only tokens of qwen2vl, qwen3vl, "
                          "qwen3vlmoe, qwen35 and qwen35moe have places in time, rows and columns",
                          s->arch_name);
    if (!sections_fit(s))
        return gguf_error(g, e,
                          "key '%s.rope.dimension_sections' is %u, %u, %u: %s they don't divide the %u "
                          "pairs of rope.dimension_count %u",
                          s->arch_name, n[0], n[1], n[2], s->rope_in_order ? "in order" : "interleaved",
                          s->n_rot / 2, s->n_rot);
    return STATOR_OK;
}
