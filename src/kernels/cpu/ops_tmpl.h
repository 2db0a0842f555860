/* Norm, quantisation, silu, add, rope, argmax in the vector tiers: a template, included once by a tier's
 * source. Whole vectors come first, then what is left of one. No state; any thread.
 *
 * Before it: the tier's vec header, kernels/cpu/quantise_tmpl.h, and
 *   ops_quantise_groups    (quantise_groups_fn)
 *   OPS_QUANTISE_STEP      values that ops_quantise_step makes int8; it gives the sums of each 16 */
#include "kernels/kernels.h"

#include "base/check.h"

VEC_INLINE void ops_norm_part(float *y, const float *x, const float *w, const uint32_t n, vec r) {
    vec_store_n(y, n, vec_mul(vec_mul(vec_load_n(x, n), r), vec_load_n(w, n)));
}

/* sum128 of products; a and b may be one row. */
VEC_INLINE float ops_products(const float *a, const float *b, uint32_t n) {
    vec lane[128 / VEC];
    uint32_t i = n - n % 128;
    VEC_REPEAT
    for (uint32_t first = 0; first < 128; first += 8 * VEC) { /* 8 sums and a value fit the registers */
        vec sum[8];
        VEC_REPEAT
        for (int j = 0; j < 8; j++)
            sum[j] = vec_zero();
        for (uint32_t at = first; at < i; at += 128) {
            VEC_REPEAT
            for (int j = 0; j < 8; j++)
                sum[j] = vec_fma(vec_load(a + at + VEC * j), vec_load(b + at + VEC * j), sum[j]);
        }
        VEC_REPEAT
        for (int j = 0; j < 8; j++)
            lane[first / VEC + j] = sum[j];
    }
    for (int j = 0; i < n; j++) { /* zeros change no sum */
        const uint32_t here = n - i < VEC ? n - i : VEC;
        lane[j] = vec_fma(vec_load_n(a + i, here), vec_load_n(b + i, here), lane[j]);
        i += here;
    }
    return vec_sum128(lane);
}

static float ops_dot(const float *a, const float *b, uint32_t n) {
    return ops_products(a, b, n);
}

static void ops_rms_norm(float *y, const float *x, const float *w, uint32_t n, float inv_n, float eps) {
    const float mean = ops_products(x, x, n) * inv_n;
    const vec r = vec_set(num_rsqrt(mean + eps));
    uint32_t i = 0;
    for (; n - i >= VEC; i += VEC)
        ops_norm_part(y + i, x + i, w + i, VEC, r);
    if (i < n)
        ops_norm_part(y + i, x + i, w + i, n - i, r);
}

static void ops_center(float *x, uint32_t n, float inv_n) {
    vec lane[128 / VEC];
    VEC_REPEAT
    for (int j = 0; j < 128 / VEC; j++)
        lane[j] = vec_zero();
    for (uint32_t i = 0; i < n; i += VEC) { /* zeros change no sum */
        const uint32_t here = n - i < VEC ? n - i : VEC;
        lane[i % 128 / VEC] = vec_add(lane[i % 128 / VEC], vec_load_n(x + i, here));
    }
    const vec mean = vec_set(-(vec_sum128(lane) * inv_n));
    for (uint32_t i = 0; i < n; i += VEC) {
        const uint32_t here = n - i < VEC ? n - i : VEC;
        vec_store_n(x + i, here, vec_add(vec_load_n(x + i, here), mean));
    }
}

static void ops_quantise32(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    quantise_walk(ops_quantise_groups, x, n, q, d, s);
}

static void ops_quantise256(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    CHECK(n % 256 == 0);
    for (uint32_t g = 0; g < n / 256; g++) {
        vec_int most[4];
        VEC_REPEAT
        for (int j = 0; j < 4; j++)
            most[j] = quantise_size(x + VEC * j);
        for (int i = 4 * VEC; i < 256; i += 4 * VEC) {
            VEC_REPEAT
            for (int j = 0; j < 4; j++)
                most[j] = vec_int_max(most[j], quantise_size(x + i + VEC * j));
        }
        const vec_int all = vec_int_max(vec_int_max(most[0], most[1]), vec_int_max(most[2], most[3]));
        const vec step = quantise_scale(vec_of_bits(vec_int_largest(all)), vec_set(NUM_QUANT_INVERSE));
        const vec factor = quantise_factor(step);
        d[g] = vec_lane0(step);
        for (int i = 0; i < 256; i += OPS_QUANTISE_STEP) {
            ops_quantise_step(x, factor, q, s);
            x += OPS_QUANTISE_STEP;
            q += OPS_QUANTISE_STEP;
            s += OPS_QUANTISE_STEP / 16;
        }
    }
}

VEC_INLINE void ops_silu_part(float *y, const float *gate, const float *up, const uint32_t n) {
    vec_store_n(y, n, vec_mul(vec_silu(vec_load_n(gate, n)), vec_load_n(up, n)));
}

static void ops_silu_mul(float *y, const float *gate, const float *up, uint32_t n) {
    uint32_t i = 0;
    for (; n - i >= VEC; i += VEC)
        ops_silu_part(y + i, gate + i, up + i, VEC);
    if (i < n)
        ops_silu_part(y + i, gate + i, up + i, n - i);
}

VEC_INLINE void ops_sigmoid_part(float *y, const float *gate, const float *x, const uint32_t n) {
    vec_store_n(y, n, vec_mul(vec_sigmoid(vec_load_n(gate, n)), vec_load_n(x, n)));
}

static void ops_sigmoid_mul(float *y, const float *gate, const float *x, uint32_t n) {
    uint32_t i = 0;
    for (; n - i >= VEC; i += VEC)
        ops_sigmoid_part(y + i, gate + i, x + i, VEC);
    if (i < n)
        ops_sigmoid_part(y + i, gate + i, x + i, n - i);
}

VEC_INLINE void ops_gelu_part(float *y, const float *gate, const float *up, const uint32_t n) {
    const vec x = vec_load_n(gate, n);
    const vec inner = vec_fma(vec_mul(x, x), vec_set(NUM_GELU_3), vec_set(NUM_GELU_1));
    vec_store_n(y, n, vec_mul(vec_mul(x, vec_sigmoid(vec_mul(x, inner))), vec_load_n(up, n)));
}

static void ops_gelu_mul(float *y, const float *gate, const float *up, uint32_t n) {
    uint32_t i = 0;
    for (; n - i >= VEC; i += VEC)
        ops_gelu_part(y + i, gate + i, up + i, VEC);
    if (i < n)
        ops_gelu_part(y + i, gate + i, up + i, n - i);
}

VEC_INLINE void ops_relu2_part(float *y, const float *x, const uint32_t n) {
    const vec v = vec_load_n(x, n), above = vec_keep(vec_above(v, vec_set(0.0f)), v);
    vec_store_n(y, n, vec_mul(above, above));
}

static void ops_relu2(float *y, const float *x, uint32_t n) {
    uint32_t i = 0;
    for (; n - i >= VEC; i += VEC)
        ops_relu2_part(y + i, x + i, VEC);
    if (i < n)
        ops_relu2_part(y + i, x + i, n - i);
}

static void ops_softcap(float *y, const float *x, uint32_t n, float cap, float inverse) {
    const vec most = vec_set(cap), by = vec_set(inverse);
    uint32_t i = 0;
    for (; n - i >= VEC; i += VEC)
        vec_store(y + i, vec_softcap(vec_load(x + i), most, by));
    if (i < n)
        vec_store_n(y + i, n - i, vec_softcap(vec_load_n(x + i, n - i), most, by));
}

VEC_INLINE void ops_add_part(float *y, const float *a, const float *b, const uint32_t n) {
    vec_store_n(y, n, vec_add(vec_load_n(a, n), vec_load_n(b, n)));
}

static void ops_add(float *y, const float *a, const float *b, uint32_t n) {
    uint32_t i = 0;
    for (; n - i >= VEC; i += VEC)
        ops_add_part(y + i, a + i, b + i, VEC);
    if (i < n)
        ops_add_part(y + i, a + i, b + i, n - i);
}

VEC_INLINE void ops_add_scaled_part(float *y, const float *x, vec by, const uint32_t n) {
    vec_store_n(y, n, vec_fma(vec_load_n(x, n), by, vec_load_n(y, n)));
}

static void ops_add_scaled(float *y, const float *x, float by, uint32_t n) {
    const vec all = vec_set(by);
    uint32_t i = 0;
    for (; n - i >= VEC; i += VEC)
        ops_add_scaled_part(y + i, x + i, all, VEC);
    if (i < n)
        ops_add_scaled_part(y + i, x + i, all, n - i);
}

/* n pairs (first[j], second[j]). */
VEC_INLINE void ops_rope_halves(float *first, float *second, const float *cos_sin, const uint32_t n) {
    const vec low = vec_load_n(cos_sin, 2 * n);
    const vec high = 2 * n > VEC ? vec_load_n(cos_sin + VEC, 2 * n - VEC) : vec_zero();
    const vec a = vec_load_n(first, n), b = vec_load_n(second, n);
    vec c, s;
    vec_unzip(low, high, &c, &s);
    vec_store_n(first, n, vec_fms(a, c, vec_mul(b, s)));
    vec_store_n(second, n, vec_fma(a, s, vec_mul(b, c)));
}

static void ops_rope_neox(float *x, const float *cos_sin, uint32_t n_pairs) {
    uint32_t j = 0;
    for (; n_pairs - j >= VEC; j += VEC)
        ops_rope_halves(x + j, x + n_pairs + j, cos_sin + 2 * (size_t)j, VEC);
    if (j < n_pairs)
        ops_rope_halves(x + j, x + n_pairs + j, cos_sin + 2 * (size_t)j, n_pairs - j);
}

static void ops_rope_pairs(float *x, const float *cos_sin, uint32_t n_pairs) {
    uint32_t i = 0;
    const uint32_t n = 2 * n_pairs;
    for (; n - i >= VEC; i += VEC)
        vec_store(x + i, vec_rotate_pairs(vec_load(x + i), vec_load(cos_sin + i)));
    if (i < n)
        vec_store_n(x + i, n - i, vec_rotate_pairs(vec_load_n(x + i, n - i), vec_load_n(cos_sin + i, n - i)));
}

static void ops_rope(float *x, const float *cos_sin, uint32_t n_pairs, bool neox) {
    if (neox)
        ops_rope_neox(x, cos_sin, n_pairs);
    else
        ops_rope_pairs(x, cos_sin, n_pairs);
}

/* Of each lane the first largest so far, and the indices of the next numbers. */
struct ops_largest {
    vec best;
    vec_int at, here;
    vec_mask bad; /* a number that is not finite was there */
};

VEC_INLINE void ops_argmax_part(struct ops_largest *l, const float *x, const uint32_t n) {
    const vec v = vec_load_n(x, n);
    vec_mask more = vec_above(v, l->best);
    if (n < VEC)
        more = vec_both(more, vec_first(n));
    l->bad = vec_either(l->bad, vec_not_below(vec_abs(v), vec_set(INFINITY)));
    l->best = vec_select(more, v, l->best);
    l->at = vec_int_select(more, l->here, l->at);
    l->here = vec_int_add(l->here, vec_int_set(VEC));
}

/* Each lane keeps its first largest; then the first of the largest lanes. */
static uint32_t ops_argmax(const float *x, uint32_t n, bool *finite) {
    struct ops_largest l = {
        .best = vec_set(-INFINITY), .at = vec_int_set(-1), .here = vec_lanes(), .bad = vec_none()};
    uint32_t i = 0;
    for (; n - i >= VEC; i += VEC)
        ops_argmax_part(&l, x + i, VEC);
    if (i < n)
        ops_argmax_part(&l, x + i, n - i);
    *finite = !vec_any(l.bad);
    if (!*finite)
        return 0;
    float value[VEC];
    uint32_t index[VEC];
    vec_store(value, l.best);
    vec_store_int(index, l.at);
    uint32_t lane = 0;
    for (uint32_t j = 1; j < VEC; j++)
        if (value[j] > value[lane] || (value[j] == value[lane] && index[j] < index[lane]))
            lane = j;
    return index[lane];
}

void TIER(init)(struct kernels *k) {
    k->tier = TIER_NAME;
    k->rms_norm = ops_rms_norm;
    k->dot = ops_dot;
    k->center = ops_center;
    k->quantise32 = ops_quantise32;
    k->quantise256 = ops_quantise256;
    k->silu_mul = ops_silu_mul;
    k->sigmoid_mul = ops_sigmoid_mul;
    k->gelu_mul = ops_gelu_mul;
    k->relu2 = ops_relu2;
    k->softcap = ops_softcap;
    k->add = ops_add;
    k->add_scaled = ops_add_scaled;
    k->rope = ops_rope;
    k->argmax = ops_argmax;
}
