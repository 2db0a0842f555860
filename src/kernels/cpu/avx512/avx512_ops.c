/* AVX-512: norm, quantisation, silu, add, rope, argmax. Tails are masked. No state; any thread. */
#include "kernels/cpu/avx512/avx512_num.h"
#include "kernels/kernels.h"

#include "base/check.h"

static void rms_norm(float *y, const float *x, const float *w, uint32_t n, float inv_n, float eps) {
    __m512 lane[8];
    for (int j = 0; j < 8; j++)
        lane[j] = _mm512_setzero_ps();
    uint32_t i = 0;
    for (; n - i >= 128; i += 128) {
        for (int j = 0; j < 8; j++) {
            __m512 v = _mm512_loadu_ps(x + i + 16 * j);
            lane[j] = _mm512_fmadd_ps(v, v, lane[j]);
        }
    }
    for (int j = 0; i < n; i += 16, j++) {
        __mmask16 m = avx512_first(n - i);
        __m512 v = _mm512_maskz_loadu_ps(m, x + i);
        lane[j] = _mm512_mask3_fmadd_ps(v, v, lane[j], m);
        if (n - i < 16)
            break;
    }
    float mean = avx512_sum128(lane) * inv_n;
    __m512 r = _mm512_set1_ps(num_rsqrt(mean + eps));
    for (i = 0; i < n; i += 16) {
        __mmask16 m = avx512_first(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), r);
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, w + i)));
        if (n - i < 16)
            break;
    }
}

/* |x| compares as bits: infinities and NaNs are above all numbers. */
static inline __m512i size_bits(const float *x) {
    return _mm512_castps_si512(_mm512_abs_ps(_mm512_loadu_ps(x)));
}

/* The largest |x| from its bits, in all lanes. */
static inline __m512 largest(__m512i x) {
    x = _mm512_max_epi32(x, _mm512_shuffle_i32x4(x, x, 0x4e));
    x = _mm512_max_epi32(x, _mm512_shuffle_i32x4(x, x, 0xb1));
    x = _mm512_max_epi32(x, _mm512_shuffle_epi32(x, 0x4e));
    return _mm512_castsi512_ps(_mm512_max_epi32(x, _mm512_shuffle_epi32(x, 0xb1)));
}

/* d = amax * inverse, 0 for a group that is as good as zero. */
static inline __m512 group_scale(__m512 amax, float inverse) {
    __mmask16 on = _mm512_cmp_ps_mask(amax, _mm512_set1_ps(NUM_QUANT_MIN), _CMP_NLT_UQ);
    return _mm512_maskz_mul_ps(on, amax, _mm512_set1_ps(inverse));
}

/* What x is multiplied by. */
static inline __m512 group_factor(__m512 d) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(d, _mm512_setzero_ps(), _CMP_NEQ_OQ), avx512_rcp(d));
}

static inline __m512i quantise16(__m512 x, __m512 factor) {
    __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(x, factor));
    return _mm512_max_epi32(_mm512_min_epi32(v, _mm512_set1_epi32(127)), _mm512_set1_epi32(-127));
}

/* 32 values at one scale, and the squared error in the definition's order. */
struct group32 {
    __m512i low, high;
    __m512 d;
    float error;
};

static inline struct group32 group32_try(__m512 low, __m512 high, __m512 d) {
    __m512 factor = group_factor(d);
    struct group32 g = {.low = quantise16(low, factor), .high = quantise16(high, factor), .d = d};
    low = _mm512_fnmadd_ps(d, _mm512_cvtepi32_ps(g.low), low);
    high = _mm512_fnmadd_ps(d, _mm512_cvtepi32_ps(g.high), high);
    __m512 lanes = _mm512_fmadd_ps(high, high, _mm512_mul_ps(low, low));
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    g.error = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    return g;
}

/* Sum of 16 signed bytes: they become unsigned by adding 128 each. */
static inline int sum16(__m128i q) {
    __m128i pair = _mm_sad_epu8(_mm_xor_si128(q, _mm_set1_epi8(-128)), _mm_setzero_si128());
    return _mm_cvtsi128_si32(pair) + _mm_extract_epi16(pair, 4) - 16 * 128;
}

static void quantise32(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    CHECK(n % 32 == 0);
    for (uint32_t g = 0; g < n / 32; g++, x += 32, q += 32) {
        __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
        __m512 amax = largest(_mm512_max_epi32(size_bits(x), size_bits(x + 16)));
        struct group32 best = group32_try(low, high, group_scale(amax, NUM_QUANT_INVERSE));
        struct group32 other = group32_try(low, high, group_scale(amax, NUM_QUANT_SECOND));
        __mmask16 take = other.error < best.error ? 0xffff : 0;
        __m128i a = _mm512_cvtepi32_epi8(_mm512_mask_mov_epi32(best.low, take, other.low));
        __m128i b = _mm512_cvtepi32_epi8(_mm512_mask_mov_epi32(best.high, take, other.high));
        d[g] = _mm512_cvtss_f32(_mm512_mask_mov_ps(best.d, take, other.d));
        _mm_storeu_si128((__m128i *)q, a);
        _mm_storeu_si128((__m128i *)(q + 16), b);
        s[g] = (int16_t)(sum16(a) + sum16(b));
    }
}

static void quantise256(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    CHECK(n % 256 == 0);
    for (uint32_t g = 0; g < n / 256; g++) {
        __m512i amax = _mm512_setzero_si512();
        for (int i = 0; i < 256; i += 16)
            amax = _mm512_max_epi32(amax, size_bits(x + i));
        __m512 step = group_scale(largest(amax), NUM_QUANT_INVERSE);
        __m512 factor = group_factor(step);
        d[g] = _mm512_cvtss_f32(step);
        for (int i = 0; i < 256; i += 16, x += 16, q += 16) {
            __m128i a = _mm512_cvtepi32_epi8(quantise16(_mm512_loadu_ps(x), factor));
            _mm_storeu_si128((__m128i *)q, a);
            *s++ = (int16_t)sum16(a);
        }
    }
}

static void silu_mul(float *y, const float *gate, const float *up, uint32_t n) {
    for (uint32_t left = n; left > 0;) {
        uint32_t i = n - left;
        __mmask16 m = avx512_first(left);
        __m512 g = avx512_silu(_mm512_maskz_loadu_ps(m, gate + i));
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(g, _mm512_maskz_loadu_ps(m, up + i)));
        left -= left < 16 ? left : 16;
    }
}

static void add(float *y, const float *a, const float *b, uint32_t n) {
    for (uint32_t left = n; left > 0;) {
        uint32_t i = n - left;
        __mmask16 m = avx512_first(left);
        _mm512_mask_storeu_ps(
            y + i, m, _mm512_add_ps(_mm512_maskz_loadu_ps(m, a + i), _mm512_maskz_loadu_ps(m, b + i)));
        left -= left < 16 ? left : 16;
    }
}

static void rope_neox(float *x, const float *cos_sin, uint32_t n_pairs) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (uint32_t left = n_pairs; left > 0;) {
        uint32_t j = n_pairs - left;
        __mmask16 m = avx512_first(left);
        __m512 low = _mm512_maskz_loadu_ps(avx512_first(2 * left), cos_sin + 2 * (size_t)j);
        __m512 high =
            _mm512_maskz_loadu_ps(left > 8 ? avx512_first(2 * left - 16) : 0, cos_sin + 2 * (size_t)j + 16);
        __m512 c = _mm512_permutex2var_ps(low, even, high), s = _mm512_permutex2var_ps(low, odd, high);
        __m512 a = _mm512_maskz_loadu_ps(m, x + j), b = _mm512_maskz_loadu_ps(m, x + j + n_pairs);
        _mm512_mask_storeu_ps(x + j, m, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
        _mm512_mask_storeu_ps(x + j + n_pairs, m, _mm512_fmadd_ps(a, s, _mm512_mul_ps(b, c)));
        left -= left < 16 ? left : 16;
    }
}

static void rope_pairs(float *x, const float *cos_sin, uint32_t n_pairs) {
    for (uint32_t left = 2 * n_pairs; left > 0;) {
        uint32_t i = 2 * n_pairs - left;
        __mmask16 m = avx512_first(left);
        __m512 v = _mm512_maskz_loadu_ps(m, x + i), cs = _mm512_maskz_loadu_ps(m, cos_sin + i);
        __m512 inner = _mm512_mul_ps(_mm512_movehdup_ps(v), _mm512_permute_ps(cs, 0xb1)); /* b s, b c */
        _mm512_mask_storeu_ps(x + i, m, _mm512_fmaddsub_ps(_mm512_moveldup_ps(v), cs, inner));
        left -= left < 16 ? left : 16;
    }
}

static void rope(float *x, const float *cos_sin, uint32_t n_pairs, bool neox) {
    if (neox)
        rope_neox(x, cos_sin, n_pairs);
    else
        rope_pairs(x, cos_sin, n_pairs);
}

/* Each lane keeps its first largest; then the first of the largest lanes. */
static uint32_t argmax(const float *x, uint32_t n, bool *finite) {
    const __m512 infinity = _mm512_set1_ps(INFINITY);
    __m512 best = _mm512_set1_ps(-INFINITY);
    __m512i at = _mm512_set1_epi32(-1),
            here = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __mmask16 bad = 0;
    for (uint32_t left = n; left > 0;) {
        __mmask16 m = avx512_first(left);
        __m512 v = _mm512_maskz_loadu_ps(m, x + (n - left));
        bad |= _mm512_cmp_ps_mask(_mm512_abs_ps(v), infinity, _CMP_NLT_UQ);
        __mmask16 more = _mm512_mask_cmp_ps_mask(m, v, best, _CMP_GT_OQ);
        best = _mm512_mask_mov_ps(best, more, v);
        at = _mm512_mask_mov_epi32(at, more, here);
        here = _mm512_add_epi32(here, _mm512_set1_epi32(16));
        left -= left < 16 ? left : 16;
    }
    *finite = bad == 0;
    if (bad != 0)
        return 0;
    float value[16];
    uint32_t index[16];
    _mm512_storeu_ps(value, best);
    _mm512_storeu_si512(index, at);
    uint32_t lane = 0;
    for (uint32_t i = 1; i < 16; i++)
        if (value[i] > value[lane] || (value[i] == value[lane] && index[i] < index[lane]))
            lane = i;
    return index[lane];
}

void avx512_init(struct kernels *k) {
    k->tier = "avx512";
    k->rms_norm = rms_norm;
    k->quantise32 = quantise32;
    k->quantise256 = quantise256;
    k->silu_mul = silu_mul;
    k->add = add;
    k->rope = rope;
    k->argmax = argmax;
    avx512_attention_init(k);
}
