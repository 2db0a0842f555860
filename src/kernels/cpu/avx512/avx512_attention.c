/* AVX-512: attention and the f16 stores into the KV cache (those of quantised types are the AVX2 tier's). No
 * state; any thread. */
#include "kernels/cpu/avx512/avx512_vec.h"
#include "kernels/cpu/kv_tier.h"

#define ATTENTION_TILE        8
#define ATTENTION_WIDTH(rows) ((rows) > 4 ? 2 : 4)

/* The lines of what this pass reads, in the next block. */
VEC_INLINE size_t attention_ahead(uint32_t at, size_t t, size_t i, const uint32_t width) {
    (void)at;
    (void)t;
    (void)width;
    return i;
}

/* Where across() leaves row r's. */
static const uint32_t across_lane[ATTENTION_TILE] = {0, 2, 8, 10, 4, 6, 12, 14};

/* The largest lane of each v, or the tree of its sum, lane[j] += lane[j + 8], then 4, 2, 1. */
VEC_INLINE __m512 across(const bool sum, const __m512 v[ATTENTION_TILE]) {
#define JOIN(a, b) (sum ? _mm512_add_ps(a, b) : _mm512_max_ps(a, b))
    __m512 x[4], y[2];
    VEC_REPEAT
    for (int i = 0; i < 4; i++)
        x[i] = JOIN(_mm512_shuffle_f32x4(v[i], v[i + 4], 0x44), _mm512_shuffle_f32x4(v[i], v[i + 4], 0xEE));
    VEC_REPEAT
    for (int i = 0; i < 2; i++)
        y[i] = JOIN(_mm512_shuffle_f32x4(x[i], x[i + 2], 0x88), _mm512_shuffle_f32x4(x[i], x[i + 2], 0xDD));
    __m512 z = JOIN(_mm512_shuffle_ps(y[0], y[1], 0x44), _mm512_shuffle_ps(y[0], y[1], 0xEE));
    return JOIN(z, _mm512_permute_ps(z, 0xB1));
#undef JOIN
}

/* All rows see the whole split. One step for all rows at a time: none waits for another's last lanes. */
static void softmax_whole(uint32_t rows, float *score, float *max, float *sum) {
    __m512 v[ATTENTION_TILE];
    _Alignas(64) float lanes[16];
    VEC_REPEAT
    for (uint32_t r = 0; r < ATTENTION_TILE; r++) {
        const float *from = score + (r < rows ? r : 0) * KERNELS_SPLIT;
        __m512 most[4];
        VEC_REPEAT
        for (int i = 0; i < 4; i++)
            most[i] = _mm512_max_ps(
                _mm512_max_ps(_mm512_loadu_ps(from + 16 * i), _mm512_loadu_ps(from + 64 + 16 * i)),
                _mm512_max_ps(_mm512_loadu_ps(from + 128 + 16 * i), _mm512_loadu_ps(from + 192 + 16 * i)));
        v[r] = _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3]));
    }
    _mm512_store_ps(lanes, across(false, v));
    VEC_REPEAT
    for (uint32_t r = 0; r < ATTENTION_TILE; r++)
        v[r] = _mm512_setzero_ps();
    for (uint32_t r = 0; r < rows; r++, score += KERNELS_SPLIT) {
        max[r] = lanes[across_lane[r]];
        const __m512 top = _mm512_set1_ps(max[r]);
        __m512 lane[8];
        VEC_REPEAT
        for (int i = 0; i < 8; i += 2) {
            float *at = score + 16 * i;
            __m512 x[4] = {_mm512_loadu_ps(at), _mm512_loadu_ps(at + 16), _mm512_loadu_ps(at + 128),
                           _mm512_loadu_ps(at + 144)};
            VEC_REPEAT
            for (int j = 0; j < 4; j++)
                x[j] = _mm512_sub_ps(x[j], top);
            avx512_exp_below(4, x);
            VEC_REPEAT
            for (int j = 0; j < 4; j++)
                _mm512_storeu_ps(at + 128 * (j / 2) + 16 * (j % 2), x[j]);
            lane[i] = _mm512_add_ps(x[0], x[2]);
            lane[i + 1] = _mm512_add_ps(x[1], x[3]);
        }
        v[r] = avx512_sum16(lane);
    }
    _mm512_store_ps(lanes, across(true, v));
    for (uint32_t r = 0; r < rows; r++)
        sum[r] = lanes[across_lane[r]];
}

static void softmax_row(float *score, uint32_t n, float *max, float *sum) {
    __m512 most = _mm512_set1_ps(-INFINITY);
    for (uint32_t t = 0; t < n; t += 16)
        most = _mm512_mask_max_ps(most, avx512_first(n - t), most, _mm512_loadu_ps(score + t));
    *max = _mm512_reduce_max_ps(most);
    const __m512 top = _mm512_set1_ps(*max);
    /* Nothing but zeros beyond: then each lane of sum128 is the sum of two at most. */
    __m512 lane[8];
    VEC_REPEAT
    for (int i = 0; i < 8; i++)
        lane[i] = _mm512_setzero_ps();
    for (uint32_t t = 0; t < n; t += 16) {
        __m512 e = _mm512_sub_ps(_mm512_loadu_ps(score + t), top);
        avx512_exp_below(1, &e);
        e = _mm512_maskz_mov_ps(avx512_first(n - t), e);
        _mm512_storeu_ps(score + t, e);
        lane[t / 16 % 8] = _mm512_add_ps(lane[t / 16 % 8], e);
    }
    *sum = avx512_sum128(lane);
}

static void attention_softmax(uint32_t rows, float *score, const uint32_t *n, float *max, float *sum) {
    if (n[0] == KERNELS_SPLIT) { /* then all later rows see as much */
        softmax_whole(rows, score, max, sum);
        return;
    }
    for (uint32_t r = 0; r < rows; r++)
        softmax_row(score + (size_t)r * KERNELS_SPLIT, n[r], &max[r], &sum[r]);
}

static void attention_exp_all(float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16) {
        __m512 e = _mm512_loadu_ps(x + i);
        avx512_exp_below(1, &e);
        _mm512_storeu_ps(x + i, e);
    }
}

#include "kernels/cpu/attention_tmpl.h"
