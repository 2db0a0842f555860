/* AVX-512: norm, quantisation, silu, add, rope, argmax. Tails are masked. No state; any thread. */
#include "kernels/cpu/avx512/avx512_num.h"
#include "kernels/cpu/quantise_walk.h"
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
static inline __m512 group_scale(__m512 amax, __m512 inverse) {
    __mmask16 on = _mm512_cmp_ps_mask(amax, _mm512_set1_ps(NUM_QUANT_MIN), _CMP_NLT_UQ);
    return _mm512_maskz_mul_ps(on, amax, inverse);
}

/* What x is multiplied by. */
static inline __m512 group_factor(__m512 d) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(d, _mm512_setzero_ps(), _CMP_NEQ_OQ), avx512_rcp(d));
}

static inline __m512i quantise16(__m512 x, __m512 factor) {
    __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(x, factor));
    return _mm512_max_epi32(_mm512_min_epi32(v, _mm512_set1_epi32(127)), _mm512_set1_epi32(-127));
}

/* Sum of 16 signed bytes: they become unsigned by adding 128 each. */
static inline int sum16(__m128i q) {
    __m128i pair = _mm_sad_epu8(_mm_xor_si128(q, _mm_set1_epi8(-128)), _mm_setzero_si128());
    return _mm_cvtsi128_si32(pair) + _mm_extract_epi16(pair, 4) - 16 * 128;
}

/* 32-value groups are taken eight at a time: what is said once per group then fills the lanes of a register,
 * lane 8 * t + g for group g at scale t (of two that are tried). */
#define GROUPS QUANTISE_GROUPS

#define HALVES(a, b, part)   _mm512_shuffle_f32x4(a, b, (part) ? 0xee : 0x44)
#define QUARTERS(a, b, part) _mm512_shuffle_f32x4(a, b, (part) ? 0xdd : 0x88)
#define PAIRS(a, b, part)    _mm512_shuffle_ps(a, b, (part) ? 0xee : 0x44)
#define SINGLES(a, b, part)  _mm512_shuffle_ps(a, b, (part) ? 0xdd : 0x88)

/* The largest bits of each group's vector, in both halves of the lanes. */
static inline __m512 largest_of_groups(const __m512i size[GROUPS]) {
#define LARGER(cut, a, b)                                                                                    \
    _mm512_castsi512_ps(                                                                                     \
        _mm512_max_epi32(_mm512_castps_si512(cut(a, b, 0)), _mm512_castps_si512(cut(a, b, 1))))
    __m512 v[GROUPS];
    AVX512_UNROLL
    for (int g = 0; g < GROUPS; g++)
        v[g] = _mm512_castsi512_ps(size[g]);
    AVX512_UNROLL
    for (int g = 0; g < 4; g++)
        v[g] = LARGER(HALVES, v[2 * g], v[2 * g + 1]);
    v[0] = LARGER(QUARTERS, v[0], v[1]);
    v[1] = LARGER(QUARTERS, v[2], v[3]);
    v[0] = LARGER(PAIRS, v[0], v[1]); /* quarter q: two lanes each of groups q and q + 4 */
    v[0] = LARGER(SINGLES, v[0], v[0]);
#undef LARGER
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 4, 8, 12, 1, 5, 9, 13);
    return _mm512_permutexvar_ps(order, v[0]);
}

/* Where the vector of a lane belongs among those of sums_of. */
#define SUM_PLACE(lane) (4 * ((lane) % 4) + (lane) / 4)

/* The sums of 16 vectors, each lane i with i + 8 first, then 4, 2, 1 apart: the definition's order. */
static inline __m512 sums_of(__m512 v[16]) {
#define SUM(cut, a, b) _mm512_add_ps(cut(a, b, 0), cut(a, b, 1))
    AVX512_UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = SUM(HALVES, v[2 * i], v[2 * i + 1]);
    AVX512_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = SUM(QUARTERS, v[2 * i], v[2 * i + 1]);
    AVX512_UNROLL
    for (int i = 0; i < 2; i++)
        v[i] = SUM(PAIRS, v[2 * i], v[2 * i + 1]);
    return SUM(SINGLES, v[0], v[1]);
#undef SUM
}

/* The sums of 32 signed bytes each. */
static inline __m128i sums_of_bytes(const int8_t q[GROUPS * 32]) {
    __m512i v[4];
    AVX512_UNROLL
    for (int i = 0; i < 4; i++) { /* they become unsigned by adding 128 each */
        __m512i x = _mm512_xor_si512(_mm512_loadu_si512(q + 64 * i), _mm512_set1_epi8(-128));
        v[i] = _mm512_sad_epu8(x, _mm512_setzero_si512());
    }
    __m512i a = _mm512_add_epi64(_mm512_unpacklo_epi64(v[0], v[1]), _mm512_unpackhi_epi64(v[0], v[1]));
    __m512i b = _mm512_add_epi64(_mm512_unpacklo_epi64(v[2], v[3]), _mm512_unpackhi_epi64(v[2], v[3]));
    a = _mm512_add_epi64(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xdd));
    a = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 1, 3, 4, 6, 5, 7), a);
    return _mm_sub_epi16(_mm512_cvtepi64_epi16(a), _mm_set1_epi16(32 * 128));
}

static void quantise_groups(const float *x, int8_t *q, float *d, int16_t *s) {
    __m512i size[GROUPS];
    AVX512_UNROLL
    for (int g = 0; g < GROUPS; g++)
        size[g] = _mm512_max_epi32(size_bits(x + 32 * g), size_bits(x + 32 * g + 16));
    const __m512 inverse =
        _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(NUM_QUANT_INVERSE), _mm512_set1_ps(NUM_QUANT_SECOND));
    const __m512 scale = group_scale(largest_of_groups(size), inverse);
    _Alignas(64) float scales[2 * GROUPS], factors[2 * GROUPS];
    _mm512_store_ps(scales, scale);
    _mm512_store_ps(factors, group_factor(scale));
    _Alignas(64) int32_t tries[2][GROUPS][32];
    __m512 error[2 * GROUPS];
    AVX512_UNROLL
    for (int lane = 0; lane < 2 * GROUPS; lane++) {
        const __m512 by = _mm512_set1_ps(scales[lane]), factor = _mm512_set1_ps(factors[lane]);
        __m512 low = _mm512_loadu_ps(x + lane % GROUPS * 32);
        __m512 high = _mm512_loadu_ps(x + lane % GROUPS * 32 + 16);
        const __m512i a = quantise16(low, factor), b = quantise16(high, factor);
        _mm512_store_si512(tries[lane / GROUPS][lane % GROUPS], a);
        _mm512_store_si512(tries[lane / GROUPS][lane % GROUPS] + 16, b);
        low = _mm512_fnmadd_ps(by, _mm512_cvtepi32_ps(a), low);
        high = _mm512_fnmadd_ps(by, _mm512_cvtepi32_ps(b), high);
        error[SUM_PLACE(lane)] = _mm512_fmadd_ps(high, high, _mm512_mul_ps(low, low));
    }
    const __m512 errors = sums_of(error);
    const __mmask8 second =
        _mm256_cmp_ps_mask(_mm512_extractf32x8_ps(errors, 1), _mm512_castps512_ps256(errors), _CMP_LT_OQ);
    _mm256_storeu_ps(
        d, _mm256_mask_blend_ps(second, _mm512_castps512_ps256(scale), _mm512_extractf32x8_ps(scale, 1)));
    for (int g = 0; g < GROUPS; g++) {
        const int32_t *best = tries[second >> g & 1][g];
        _mm_storeu_si128((__m128i *)(q + 32 * g), _mm512_cvtepi32_epi8(_mm512_load_si512(best)));
        _mm_storeu_si128((__m128i *)(q + 32 * g + 16), _mm512_cvtepi32_epi8(_mm512_load_si512(best + 16)));
    }
    _mm_storeu_si128((__m128i *)s, sums_of_bytes(q));
}

static void quantise32(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    quantise_walk(quantise_groups, x, n, q, d, s);
}

static void quantise256(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s) {
    CHECK(n % 256 == 0);
    for (uint32_t g = 0; g < n / 256; g++) {
        __m512i amax = _mm512_setzero_si512();
        for (int i = 0; i < 256; i += 16)
            amax = _mm512_max_epi32(amax, size_bits(x + i));
        __m512 step = group_scale(largest(amax), _mm512_set1_ps(NUM_QUANT_INVERSE));
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
