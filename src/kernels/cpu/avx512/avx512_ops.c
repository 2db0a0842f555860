/* AVX-512: norm, quantisation, silu, add, rope, argmax. No state; any thread. */
#include "kernels/cpu/avx512/avx512_vec.h"
#include "kernels/cpu/quantise_tmpl.h"

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
    VEC_REPEAT
    for (int g = 0; g < GROUPS; g++)
        v[g] = _mm512_castsi512_ps(size[g]);
    VEC_REPEAT
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
    VEC_REPEAT
    for (int i = 0; i < 8; i++)
        v[i] = SUM(HALVES, v[2 * i], v[2 * i + 1]);
    VEC_REPEAT
    for (int i = 0; i < 4; i++)
        v[i] = SUM(QUARTERS, v[2 * i], v[2 * i + 1]);
    VEC_REPEAT
    for (int i = 0; i < 2; i++)
        v[i] = SUM(PAIRS, v[2 * i], v[2 * i + 1]);
    return SUM(SINGLES, v[0], v[1]);
#undef SUM
}

/* The sums of 32 signed bytes each. */
static inline __m128i sums_of_bytes(const int8_t q[GROUPS * 32]) {
    __m512i v[4];
    VEC_REPEAT
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

static void ops_quantise_groups(const float *x, int8_t *q, float *d, int16_t *s) {
    __m512i size[GROUPS];
    VEC_REPEAT
    for (int g = 0; g < GROUPS; g++)
        size[g] = _mm512_max_epi32(quantise_size(x + 32 * g), quantise_size(x + 32 * g + 16));
    const __m512 inverse =
        _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(NUM_QUANT_INVERSE), _mm512_set1_ps(NUM_QUANT_SECOND));
    const __m512 scale = quantise_scale(largest_of_groups(size), inverse);
    _Alignas(64) float scales[2 * GROUPS], factors[2 * GROUPS];
    _mm512_store_ps(scales, scale);
    _mm512_store_ps(factors, quantise_factor(scale));
    _Alignas(64) int32_t tries[2][GROUPS][32];
    __m512 error[2 * GROUPS];
    VEC_REPEAT
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

#define OPS_QUANTISE_STEP 16

static inline void ops_quantise_step(const float *x, __m512 factor, int8_t *q, int16_t *s) {
    __m128i bytes = _mm512_cvtepi32_epi8(quantise16(_mm512_loadu_ps(x), factor));
    _mm_storeu_si128((__m128i *)q, bytes);
    *s = (int16_t)sum16(bytes);
}

#include "kernels/cpu/ops_tmpl.h"
