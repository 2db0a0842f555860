/* AVX2: quantised K and V, and the stores into the KV cache. A query's integers have 15 bits and meet keys
 * as 16-bit pairs; lanes are two pairs of a token's dims. No state; any thread. */
#include "kernels/cpu/avx2/avx2_vec.h"
#include "kernels/cpu/kv_tier.h"

static inline __m256 clamp(__m256 x, float low, float high) {
    return _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(low)), _mm256_set1_ps(high));
}

/* 0 of 0. */
static inline __m256 inverse_of(__m256 d) {
    __m256 zero = _mm256_cmp_ps(d, _mm256_setzero_ps(), _CMP_EQ_OQ);
    return _mm256_andnot_ps(zero, avx2_rcp(d));
}

/* --- queries and keys */

/* int16 in the order of the dims; q4_0's keys are unsigned, 8 above. */
void avx2_quantise_query(const float *x, uint32_t dim, bool four, void *row) {
    int16_t *q = row;
    struct attention_query *groups = attention_walk_query_groups(row, dim);
    for (uint32_t g = 0; g < dim / KERNELS_KV_GROUP; g++, x += KERNELS_KV_GROUP, q += KERNELS_KV_GROUP) {
        __m256 v[4], most = _mm256_setzero_ps();
        for (int i = 0; i < 4; i++) {
            v[i] = _mm256_loadu_ps(x + 8 * i);
            most = _mm256_max_ps(avx2_abs(v[i]), most); /* of a NaN, max gives its second */
        }
        most = avx2_largest(most);
        __m256 tiny = _mm256_cmp_ps(most, _mm256_set1_ps(NUM_QUANT_MIN), _CMP_LT_OQ);
        __m256 d = _mm256_andnot_ps(tiny, _mm256_mul_ps(most, _mm256_set1_ps(NUM_QUANT_QUERY_INVERSE)));
        __m256 inverse = inverse_of(d);
        __m256i n[4], sum = _mm256_setzero_si256();
        for (int i = 0; i < 4; i++) {
            n[i] = _mm256_cvtps_epi32(clamp(_mm256_mul_ps(v[i], inverse), -NUM_QUANT_QUERY, NUM_QUANT_QUERY));
            sum = _mm256_add_epi32(sum, n[i]);
        }
        for (int i = 0; i < 4; i += 2)
            _mm256_storeu_si256((__m256i *)(q + 8 * i),
                                _mm256_permute4x64_epi64(_mm256_packs_epi32(n[i], n[i + 1]), 0xd8));
        __m128i part = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        part = _mm_add_epi32(part, _mm_shuffle_epi32(part, 0x4e));
        part = _mm_add_epi32(part, _mm_shuffle_epi32(part, 0xb1));
        groups[g].d = _mm256_cvtss_f32(d);
        groups[g].offset = four ? 8 * _mm_cvtsi128_si32(part) : 0;
    }
}

/* Adds four dims of eight tokens, as [4 tokens][4], times four of each query. */
VEC_INLINE void multiply(const int rows, __m256i low, __m256i high, const int16_t *const *q, size_t dim,
                         __m256i acc[TIER_KV_TILE][2]) {
    VEC_REPEAT
    for (int r = 0; r < rows; r++) {
        long long four;
        memcpy(&four, q[r] + dim, sizeof four);
        __m256i x = _mm256_set1_epi64x(four);
        acc[r][0] = _mm256_add_epi32(acc[r][0], _mm256_madd_epi16(x, low));
        acc[r][1] = _mm256_add_epi32(acc[r][1], _mm256_madd_epi16(x, high));
    }
}

VEC_INLINE __m256i widened(bool four, __m128i x) {
    return four ? _mm256_cvtepu8_epi16(x) : _mm256_cvtepi8_epi16(x);
}

/* Tokens at .. at + 7 of one group. */
VEC_INLINE void qk_group(const int rows, const bool four, const int16_t *const *q, const uint8_t *k,
                         const uint8_t *next, __m256i acc[TIER_KV_TILE][2]) {
    VEC_REPEAT
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_si256();
    for (size_t step = 0; step < (four ? 4 : 8); step++) {
        const uint8_t *at = k + step * KV_LAYOUT_STEP;
        prefetch_line(next, step * KV_LAYOUT_STEP);
        __m128i low = _mm_loadu_si128((const __m128i *)at);
        __m128i high = _mm_loadu_si128((const __m128i *)(at + 16));
        if (four) {
            const __m128i nibble = _mm_set1_epi8(15);
            __m128i low_2 = _mm_and_si128(_mm_srli_epi16(low, 4), nibble);
            __m128i high_2 = _mm_and_si128(_mm_srli_epi16(high, 4), nibble);
            multiply(rows, widened(true, low_2), widened(true, high_2), q, 4 * step + 16, acc);
            low = _mm_and_si128(low, nibble);
            high = _mm_and_si128(high, nibble);
        }
        multiply(rows, widened(four, low), widened(four, high), q, 4 * step, acc);
    }
}

/* Rows of q lie attention_walk_query(dim) apart. */
VEC_INLINE void kv_qk_rows(const int rows, const bool four, const float *q, const uint8_t *k,
                           const uint8_t *next, uint32_t dim, float scale, float *score) {
    const size_t row = attention_walk_query(dim);
    const enum kernels_kv type = four ? KERNELS_KV_Q4_0 : KERNELS_KV_Q8_0;
    const uint16_t *scales = (const uint16_t *)(const void *)(k + kv_layout_scales(type, dim));
    const size_t group_bytes = (size_t)kv_layout_group(type) * KERNELS_KV_BLOCK;
    const struct attention_query *groups[TIER_KV_TILE];
    VEC_REPEAT
    for (int r = 0; r < rows; r++)
        groups[r] = attention_walk_query_groups((void *)(uintptr_t)(q + r * row), dim);
    for (size_t t = 0; t < KERNELS_KV_BLOCK; t += 8) {
        __m256 sum[TIER_KV_TILE];
        VEC_REPEAT
        for (int r = 0; r < rows; r++)
            sum[r] = _mm256_setzero_ps();
        for (size_t g = 0; g < dim / KERNELS_KV_GROUP; g++) {
            const int16_t *x[TIER_KV_TILE];
            VEC_REPEAT
            for (int r = 0; r < rows; r++)
                x[r] = (const int16_t *)(const void *)(q + r * row) + g * KERNELS_KV_GROUP;
            __m256i acc[TIER_KV_TILE][2];
            qk_group(rows, four, x, k + g * group_bytes + 4 * t, next + g * group_bytes + 4 * t, acc);
            __m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(scales + g * KERNELS_KV_BLOCK + t)));
            VEC_REPEAT
            for (int r = 0; r < rows; r++) {
                __m256i i = _mm256_permute4x64_epi64(_mm256_hadd_epi32(acc[r][0], acc[r][1]), 0xd8);
                if (four)
                    i = _mm256_sub_epi32(i, _mm256_set1_epi32(groups[r][g].offset));
                __m256 both = _mm256_mul_ps(_mm256_set1_ps(groups[r][g].d), d);
                sum[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(i), both, sum[r]);
            }
        }
        VEC_REPEAT
        for (int r = 0; r < rows; r++)
            _mm256_storeu_ps(score + r * KERNELS_SPLIT + t, _mm256_mul_ps(sum[r], _mm256_set1_ps(scale)));
    }
}

/* --- values: as 16-bit pairs of tokens */

#define KV_WIDE 2

VEC_INLINE __m256i kv_wide(const bool four, const void *p) {
    return widened(four, _mm_loadu_si128(p));
}

VEC_INLINE void kv_wide_nibbles(__m256i *low, __m256i *high) {
    const __m256i eight = _mm256_set1_epi16(8);
    *high = _mm256_sub_epi16(_mm256_srli_epi16(*low, 4), eight);
    *low = _mm256_sub_epi16(_mm256_and_si256(*low, _mm256_set1_epi16(15)), eight);
}

VEC_INLINE __m256i kv_four(const int16_t *p) {
    long long x;
    memcpy(&x, p, sizeof x);
    return _mm256_set1_epi64x(x);
}

VEC_INLINE __m256i kv_add_pairs(__m256i sum, __m256i a, __m256i b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

VEC_INLINE __m256 kv_of_pairs(__m256i a, __m256i b) {
    return _mm256_cvtepi32_ps(_mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xd8));
}

VEC_INLINE void kv_store_low(int16_t *p, __m256i a, __m256i b) {
    const __m256i low = _mm256_set1_epi32(0xffff);
    __m256i both = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(both, 0xd8));
}

#include "kernels/cpu/kv_tmpl.h"

/* --- stores */

static uint16_t to_f16(float x) {
    return (uint16_t)_cvtss_sh(x, VEC_NEAREST);
}

/* A group of 32 with one scale. */
struct group {
    uint16_t half; /* the scale */
    float error;   /* squared */
    __m256 q[4];
};

VEC_INLINE void quantise_with(struct group *s, const __m256 x[4], float d, float low, float high) {
    float near = d > -NUM_F16_MAX ? d : -NUM_F16_MAX;
    s->half = to_f16(near < NUM_F16_MAX ? near : NUM_F16_MAX);
    if (s->half == 0x8000)
        s->half = 0;
    const __m256 step = _mm256_set1_ps(_cvtsh_ss(s->half)), inverse = inverse_of(step);
    __m256 r[4];
    for (int i = 0; i < 4; i++) {
        s->q[i] = _mm256_round_ps(clamp(_mm256_mul_ps(x[i], inverse), low, high), VEC_NEAREST);
        r[i] = _mm256_fnmadd_ps(step, s->q[i], x[i]);
    }
    __m256 a = _mm256_fmadd_ps(r[2], r[2], _mm256_mul_ps(r[0], r[0]));
    __m256 b = _mm256_fmadd_ps(r[3], r[3], _mm256_mul_ps(r[1], r[1]));
    __m256 eight = _mm256_add_ps(a, b);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    s->error = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The group's integers in order; returns its scale. */
static uint16_t quantise(enum kernels_kv type, const float *from, int8_t q[KERNELS_KV_GROUP]) {
    __m256 x[4];
    for (int i = 0; i < 4; i++)
        x[i] = _mm256_loadu_ps(from + 8 * i);
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 top = _mm256_max_ps(_mm256_max_ps(x[0], x[1]), _mm256_max_ps(x[2], x[3]));
    __m256 bottom = _mm256_min_ps(_mm256_min_ps(x[0], x[1]), _mm256_min_ps(x[2], x[3]));
    float most = _mm256_cvtss_f32(avx2_largest(top));
    float least = -_mm256_cvtss_f32(avx2_largest(_mm256_xor_ps(bottom, sign)));
    struct group s, other;
    if (type == KERNELS_KV_Q8_0) {
        float amax = most >= -least ? most : -least;
        quantise_with(&s, x, amax * NUM_QUANT_INVERSE, -127.0f, 127.0f);
        quantise_with(&other, x, amax * NUM_QUANT_SECOND, -127.0f, 127.0f);
    } else {
        float end = most >= -least ? most : least;
        quantise_with(&s, x, end * NUM_QUANT4_INVERSE, -8.0f, 7.0f);
        quantise_with(&other, x, end * NUM_QUANT4_SECOND, -8.0f, 7.0f);
    }
    if (other.error < s.error)
        s = other;
    __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(s.q[0]), _mm256_cvtps_epi32(s.q[1]));
    __m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32(s.q[2]), _mm256_cvtps_epi32(s.q[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)q, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
    return s.half;
}

/* The group's bytes in the cache's form; returns its scale. */
static uint16_t group_bytes(enum kernels_kv type, const float *x, uint8_t bytes[KERNELS_KV_GROUP]) {
    _Alignas(32) int8_t q[KERNELS_KV_GROUP];
    uint16_t scale = quantise(type, x, q);
    if (type == KERNELS_KV_Q8_0) {
        memcpy(bytes, q, sizeof q);
        return scale;
    }
    const __m128i eight = _mm_set1_epi8(8);
    __m128i low = _mm_add_epi8(_mm_load_si128((const __m128i *)q), eight);
    __m128i high = _mm_add_epi8(_mm_load_si128((const __m128i *)(q + 16)), eight);
    _mm_storeu_si128((__m128i *)bytes, _mm_or_si128(low, _mm_slli_epi16(high, 4)));
    return scale;
}

VEC_INLINE void store_k(const enum kernels_kv type, void *k, const float *x, uint32_t dim, uint32_t slot) {
    CHECK(dim % KERNELS_KV_GROUP == 0);
    for (uint32_t g = 0; g < dim / KERNELS_KV_GROUP; g++) {
        uint8_t bytes[KERNELS_KV_GROUP];
        *kv_layout_scale_at(k, type, dim, g, slot) =
            group_bytes(type, x + (size_t)g * KERNELS_KV_GROUP, bytes);
        for (uint32_t i = 0; i < kv_layout_group(type); i += 4)
            memcpy((uint8_t *)k + kv_layout_k(type, g, i, slot), bytes + i, 4);
    }
}

VEC_INLINE void store_v(const enum kernels_kv type, void *v, const float *x, uint32_t dim, uint32_t slot) {
    CHECK(dim % KERNELS_KV_GROUP == 0);
    for (uint32_t g = 0; g < dim / KERNELS_KV_GROUP; g++) {
        uint8_t bytes[KERNELS_KV_GROUP];
        *kv_layout_scale_at(v, type, dim, g, slot) =
            group_bytes(type, x + (size_t)g * KERNELS_KV_GROUP, bytes);
        uint8_t *to = (uint8_t *)v + kv_layout_v(type, dim, g, 0, slot);
        for (uint32_t i = 0; i < kv_layout_group(type); i++)
            to[4 * (size_t)i] = bytes[i];
    }
}

static void store_k_q8_0(void *k, const float *x, uint32_t dim, uint32_t slot) {
    store_k(KERNELS_KV_Q8_0, k, x, dim, slot);
}

static void store_k_q4_0(void *k, const float *x, uint32_t dim, uint32_t slot) {
    store_k(KERNELS_KV_Q4_0, k, x, dim, slot);
}

static void store_v_q8_0(void *v, const float *x, uint32_t dim, uint32_t slot) {
    store_v(KERNELS_KV_Q8_0, v, x, dim, slot);
}

static void store_v_q4_0(void *v, const float *x, uint32_t dim, uint32_t slot) {
    store_v(KERNELS_KV_Q4_0, v, x, dim, slot);
}

void avx2_kv_init(struct kernels *k) {
    k->store_k[KERNELS_KV_Q8_0] = store_k_q8_0;
    k->store_k[KERNELS_KV_Q4_0] = store_k_q4_0;
    k->store_v[KERNELS_KV_Q8_0] = store_v_q8_0;
    k->store_v[KERNELS_KV_Q4_0] = store_v_q4_0;
}
