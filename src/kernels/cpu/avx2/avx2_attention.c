/* AVX2: attention. No state; any thread. */
#include "kernels/cpu/avx2/avx2_vec.h"
#include "kernels/cpu/kv_tier.h"

#define ATTENTION_TILE        6
#define ATTENTION_WIDTH(rows) ((rows) > 2 ? 2 : (rows) == 2 ? 4 : 8)

/* One line after the other, a part in each pass. */
VEC_INLINE size_t attention_ahead(uint32_t at, size_t t, size_t i, const uint32_t width) {
    (void)i;
    return (size_t)at * KERNELS_KV_BLOCK + t * VEC * width;
}

/* sum128 of a split's e, zeros behind its tokens: the lanes have at most two each. */
static float sum_of(const float *e) {
    __m256 v[16];
    VEC_REPEAT
    for (int i = 0; i < 16; i++)
        v[i] = _mm256_add_ps(_mm256_loadu_ps(e + 8 * i), _mm256_loadu_ps(e + 128 + 8 * i));
    return vec_sum128(v);
}

static __m256 largest_of(const float *score, uint32_t n) {
    __m256 most[4];
    for (int i = 0; i < 4; i++)
        most[i] = _mm256_set1_ps(-INFINITY);
    uint32_t t = 0;
    for (; n - t >= 32; t += 32) {
        VEC_REPEAT
        for (int i = 0; i < 4; i++)
            most[i] = _mm256_max_ps(most[i], _mm256_loadu_ps(score + t + 8 * i));
    }
    for (; t < n; t += 8) {
        __m256 s = _mm256_blendv_ps(most[0], _mm256_loadu_ps(score + t), vec_first(n - t));
        most[0] = _mm256_max_ps(most[0], s);
    }
    return avx2_largest(_mm256_max_ps(_mm256_max_ps(most[0], most[1]), _mm256_max_ps(most[2], most[3])));
}

/* One step for all rows at a time: none waits for another's last lanes. */
static void attention_softmax(uint32_t rows, float *score, const uint32_t *n, float *max, float *sum) {
    for (uint32_t r = 0; r < rows; r++)
        max[r] = _mm256_cvtss_f32(largest_of(score + (size_t)r * KERNELS_SPLIT, n[r]));
    for (uint32_t r = 0; r < rows; r++) {
        float *e = score + (size_t)r * KERNELS_SPLIT;
        const __m256 top = _mm256_set1_ps(max[r]);
        for (uint32_t t = 0; t < n[r]; t += 8)
            _mm256_storeu_ps(e + t, avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(e + t), top)));
    }
    for (uint32_t r = 0; r < rows; r++) {
        float *e = score + (size_t)r * KERNELS_SPLIT;
        memset(e + n[r], 0, (KERNELS_SPLIT - n[r]) * sizeof *e);
        sum[r] = sum_of(e);
    }
}

static void attention_exp_all(float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(x + i, avx2_exp(_mm256_loadu_ps(x + i)));
}

#include "kernels/cpu/attention_tmpl.h"
