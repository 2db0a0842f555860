/* The kernel table: one entry per operation, filled by the scalar tier first and then overwritten tier by
 * tier.
 *
 * The scalar functions are the definition. Every tier gives the same bits for every input that is finite;
 * tests compare by memcmp. Arithmetic is IEEE single precision, round to nearest even, nothing fused that is
 * not written fmaf, no division and no square root (kernels/shared/num.h). Kernels know numbers only: no
 * threads, no graph, no allocation.
 *
 * A sum over k uses, per output, segments of 512 values of k: each segment starts at +0 and runs in index
 * order, and total = +0; total += segment, in order.
 */
#ifndef STATOR_KERNELS_KERNELS_H
#define STATOR_KERNELS_KERNELS_H

#include "formats/panel.h"
#include "kernels/shared/act_tiles.h"
#include "kernels/shared/delta.h"
#include "kernels/shared/index.h"
#include "kernels/shared/kv_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNELS_SEGMENT    512
#define KERNELS_KV_BLOCK   KV_LAYOUT_BLOCK /* tokens in a KV block */
#define KERNELS_KV_GROUP   KV_LAYOUT_GROUP /* values of a token that share a scale, in quantised K and V */
#define KERNELS_SPLIT      256             /* tokens in an attention split, aligned to absolute position */
#define KERNELS_MAX_HEAD   512             /* largest head dimension, of V always */
#define KERNELS_MAX_KEY    640             /* of K and Q that begin with V */
#define KERNELS_MAX_GROUP  64              /* most query heads that share a KV head */
#define KERNELS_MAX_TAPS   DELTA_MAX_TAPS
#define KERNELS_MAX_STATE  DELTA_MAX_STATE
#define KERNELS_COLUMNS    DELTA_BLOCK
#define KERNELS_MAX_GROUPS 64 /* of experts */

/* Activations of `tokens` rows of k values, in the forms that the weights need (unused ones are NULL). Row t
 * of a form begins t * its row length behind the pointer, but for quants, which may be tiles (act_tiles.h).
 *
 *   f32   [tokens][k]
 *   int8 per 32 values (k a multiple of 32): q32 [tokens][k], d32 [tokens][k/32], s32 [tokens][k/32] (sum of
 *   the 32 q)
 *   int8 per 256 values (for K types; k a multiple of 256): q256 [tokens][k], d256 [tokens][k/256], s256
 *   [tokens][k/16] (sum of each 16 q)
 *
 * Pointers are aligned to 64 bytes; rows are if k is a multiple of 64. */
struct kernels_act {
    float *f32;
    int8_t *q32;
    float *d32;
    int16_t *s32;
    int8_t *q256;
    float *d256;
    int16_t *s256;
    uint32_t tile_rows; /* of q32 and q256 (act_tiles.h); 0: row after row */
};

/* Part of a product: n_panels panels, one after the other, times the activation rows first .. first + tokens
 * - 1. */
struct kernels_matmul {
    float *out;       /* row t, panel p, row r of the panel at out + p * out_panel + t * PANEL_ROWS + r */
    size_t out_panel; /* floats, >= tokens * PANEL_ROWS */
    const struct panel_layout *l;
    const uint8_t *panels;
    uint32_t n_panels; /* >= 1 */
    const struct kernels_act *a;
    uint32_t first;  /* AMX takes multiples of ACT_TILE_PAIR of tiles; the rest is AVX-512's */
    uint32_t tokens; /* >= 1 */
    void *work; /* kernels_matmul_work(tokens) bytes, aligned to 64, of the calling thread; NULL if those are
                   0 */
};

/* Bytes of work, in any tier, for calls of at most so many tokens. */
size_t kernels_matmul_work(uint32_t max_tokens);

enum kernels_kv {
    KERNELS_KV_F32 = KV_LAYOUT_F32,
    KERNELS_KV_F16 = KV_LAYOUT_F16,
    KERNELS_KV_Q8_0 = KV_LAYOUT_Q8_0,
    KERNELS_KV_Q4_0 = KV_LAYOUT_Q4_0,
    KERNELS_KV_TYPES
};

/* "f16" */
const char *kernels_kv_name(enum kernels_kv type);
/* Values that share a scale: head dimensions are multiples of it. */
uint32_t kernels_kv_group(enum kernels_kv type);
/* Bytes of the K, or V, of one head in a block of tokens; a multiple of 64 if dim is one of 32. */
uint64_t kernels_kv_bytes(enum kernels_kv type, uint32_t dim);

/* One query group's attention: the heads of one KV head, for n_queries consecutive positions of one sequence.
 */
struct kernels_attention {
    const float *q;  /* query i, head h of the group at q + i * q_stride + h * head_dim_k */
    float *out;      /* likewise at out + i * out_stride + h * head_dim_v */
    size_t q_stride; /* floats */
    size_t out_stride;
    uint32_t n_queries;      /* >= 1 */
    uint32_t first_position; /* of query 0; query i is at first_position + i */
    uint32_t window;         /* tokens that a query sees, the last of them its own; 0: all */
    uint32_t skip;           /* the first tokens, of which a query sees none but its own; 0 or 1 */
    uint32_t group;          /* query heads, 1..KERNELS_MAX_GROUP */
    uint32_t head_dim_k;
    uint32_t head_dim_v;
    float scale;
    float cap, cap_inverse; /* of scores: num_softcap; cap 0: none */
    enum kernels_kv type_k;
    enum kernels_kv type_v;
    const float *sinks; /* NULL, or a logit per head of the group that stands for a token without a value */
    /* Token t is slot t % 32 of the block blocks[t / 32], or with a ring of blocks[t / 32 % ring]; that
     * block's bytes for this layer and KV head are at k + blocks[..] * block_stride and v + blocks[..] *
     * block_stride. A ring has at least the blocks of all tokens that the queries of a call see. */
    uint32_t ring; /* 0: none */
    const uint8_t *k;
    const uint8_t *v; /* NULL: V of a token is the first head_dim_v values of its K, and type_v is type_k */
    uint64_t block_stride;
    const uint32_t *blocks;
    float *work; /* kernels_attention_work() floats, aligned to 64 bytes, of the calling thread */
    /* NULL: all splits, merged into out. Else (n_queries 1) splits first_split .. end_split - 1 are computed
     * and not merged: split s is at parts + (s - kernels_attention_first()) * kernels_attention_part(),
     * aligned to 64 bytes. */
    float *parts;
    uint32_t first_split;
    uint32_t end_split;
};

/* Whether the kernels take heads of these sizes. */
static inline bool kernels_attention_fits(const struct kernels_attention *a) {
    if (a->v == NULL)
        return a->head_dim_k <= KERNELS_MAX_KEY && a->head_dim_v <= KERNELS_MAX_HEAD &&
               a->head_dim_v <= a->head_dim_k && a->head_dim_k % KERNELS_KV_GROUP == 0 &&
               a->head_dim_v % KERNELS_KV_GROUP == 0 && a->type_k == a->type_v;
    return a->head_dim_k <= KERNELS_MAX_HEAD && a->head_dim_v <= KERNELS_MAX_HEAD;
}
/* The first token that a query at this position sees. */
static inline uint32_t kernels_attention_start(const struct kernels_attention *a, uint32_t position) {
    const uint32_t before = position < a->skip ? position : a->skip;
    const uint32_t hidden = a->window != 0 && position >= a->window ? position + 1 - a->window : 0;
    return hidden > before ? hidden : before;
}
/* The first split that a query at this position sees; the last is position / KERNELS_SPLIT. */
static inline uint32_t kernels_attention_first(uint32_t position, uint32_t window) {
    return window == 0 || position < window ? 0 : (position + 1 - window) / KERNELS_SPLIT;
}
/* Floats of a split's part: o, each head's padded to 16; the maxima; the sums, these too padded to 16. */
size_t kernels_attention_part(uint32_t group, uint32_t head_dim_v);
/* Queries of a call that read K and V once: more are several passes inside. */
uint32_t kernels_attention_queries(uint32_t group);
/* Floats of work for any call with these bounds. */
size_t kernels_attention_work(uint32_t max_queries, uint32_t group, uint32_t head_dim_k, uint32_t head_dim_v);

/* A causal convolution of each channel, then silu: y_t = num_silu(sum over j of w[j] * x[t - taps + 1 + j]),
 * the sum by fmaf in order of j from +0. */
struct kernels_conv {
    float *out;      /* token t, channel c at out + t * out_stride + c */
    const float *in; /* likewise; not out */
    size_t out_stride, in_stride;
    const float *before; /* the inputs of the taps - 1 tokens before the first, oldest first */
    size_t before_stride;
    const float *weights; /* F32 panels of all channels: tap j of channel c at weights + c / 16 * panel + j *
                             16 + c % 16 */
    size_t panel;         /* floats of a panel */
    uint32_t first;       /* number of channel 0 among all channels */
    uint32_t channels, tokens;
    uint32_t taps;     /* 1..KERNELS_MAX_TAPS */
    const float *bias; /* [channels], added to the sum, rounded; NULL: none */
};

/* The same of the products p = b * x, without silu, gated by c: y_t = c_t * (sum over j of w[j] *
 * p[t - taps + 1 + j]), the sum by fmaf in order of j from +0. */
struct kernels_gated_conv {
    float *out;
    size_t out_stride;
    const float *in; /* of token t: b of channel c at in + t * in_stride + c, its c `width` floats further,
                        its x two times that */
    size_t in_stride, width;
    const float *before; /* the products of the taps - 1 tokens before the first, oldest first; NULL: those
                            tokens' rows lie before `in` */
    size_t before_stride;
    const float *weights; /* as of struct kernels_conv, and so are the others */
    size_t panel;
    uint32_t first, channels, tokens, taps;
};

/* The gated delta rule over consecutive tokens of one sequence, for KERNELS_COLUMNS columns of one head's
 * state. Of token t, with decay = num_exp(num_softplus(alpha + bias) * a) and beta' = num_sigmoid(beta), both
 * 0 below DELTA_LEAST:
 *
 *   d = sum4 of S[i] * k[i]; e = fmaf(-decay, d, v) * beta'; S[i] = fmaf(k[i], e, S[i] * decay), the inner
 *   product rounded; out = (sum4 of S[i] * q[i]) * scale
 *
 * for each column, sum4: lane i % 4 accumulates by fmaf in order of i from +0, then (0 + 2) + (1 + 3).
 *
 * The state space of Mamba-2 (kernels.ssd) is the same with another change of the state: dt =
 * num_softplus(alpha + bias), 0 below DELTA_LEAST, decay = num_exp(dt * a), likewise; e = v * dt; S[i] =
 * fmaf(k[i], e, S[i] * decay); out = fmaf(skip, v, sum4 of S[i] * q[i]). beta and scale are not looked at. q,
 * k and v are what its papers call C, B and x. */
struct kernels_delta {
    float *state;           /* [dim_k][KERNELS_COLUMNS], aligned to 64 bytes */
    const float *q, *k, *v; /* of token 0; v of the first column */
    const float *beta, *alpha;
    size_t stride; /* floats from token to token, of these five */
    float *out;
    size_t out_stride;
    uint32_t tokens;
    uint32_t dim_k;   /* 1..KERNELS_MAX_STATE */
    uint32_t columns; /* 1..KERNELS_COLUMNS that v and out have; v is 0 in the others */
    float bias, a, scale;
    float skip; /* of ssd */
};

/* A token's queries against the block keys of an indexer (kernels/shared/index.h). */
struct kernels_index {
    const float *q; /* [heads][dim] */
    uint32_t heads, dim;
    uint32_t ratio;       /* tokens of an index block: 4, 8, 16 or 32 */
    enum kernels_kv type; /* of the block keys: F32 or F16 */
    /* Index block i is number i % (32 / ratio) of the cache's block blocks[i / (32 / ratio)], whose block
     * keys are at keys + blocks[..] * block_stride. */
    const uint8_t *keys;
    uint64_t block_stride;
    const uint32_t *blocks;
    uint32_t first, n; /* index blocks first .. first + n - 1; both multiples of 32 / ratio */
    float *score;      /* of block first: score[0] */
};

/* A token's experts (kernels/shared/experts.h). */
struct kernels_route {
    const float *logits; /* [experts] */
    const float *bias;   /* [experts], added to what chooses, not to weights; or NULL */
    uint32_t experts;    /* 1..EXPERTS_MAX */
    uint32_t used;       /* 1..EXPERTS_MAX_USED, at most experts */
    uint32_t how;        /* EXPERTS_SIGMOID | EXPERTS_NORM */
    /* Experts are so many groups, one after the other, and those chosen are of groups_used of them; groups 0
     * or 1: of all. */
    uint32_t groups, groups_used;
    float scale;      /* of the weights */
    uint32_t *chosen; /* [used], ascending */
    float *weight;    /* [used] */
};

struct kernels {
    const char *tier; /* "scalar", "avx2", "avx512", "amx" */

    /* y[i] = (x[i] * r) * w[i], r = num_rsqrt(ss * inv_n + eps) with the product and the sum rounded each,
     * ss = sum128 of x[i]^2: lane i % 128 accumulates fmaf(x, x, lane) in order from +0, then the tree
     * lane[j] += lane[j + 64], then 32, .., 1. inv_n = 1.0f / n, made on the host. y may be x. */
    void (*rms_norm)(float *y, const float *x, const float *w, uint32_t n, float inv_n, float eps);

    /* sum128 of a[i] * b[i], as ss above. */
    float (*dot)(const float *a, const float *b, uint32_t n);

    /* x[i] = x[i] - mean, mean = sum128 of x[i] (plain sums) * inv_n, rounded each. */
    void (*center)(float *x, uint32_t n, float inv_n);

    /* Activations to int8 (one row). Per group: amax = max |x|; amax < 2^-100: d = 0, all q = 0; else
     * d = amax * (1/127 as float), q = clamp(rne(x * num_rcp(d)), -127, 127). Also the sums (struct
     * kernels_act). Groups of 32 try a second scale, amax * (1/125 as float), and take it if its squared
     * error is smaller: with r[i] = fmaf(-d, (float)q[i], x[i]), lane j < 16 is fmaf(r[j + 16], r[j + 16],
     * r[j] * r[j]), then the tree 8, 4, 2, 1. It takes 3 to 4% off the rounding noise of activations (rms of
     * log-probability errors on five quantised oracle models). */
    void (*quantise32)(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s);
    void (*quantise256)(const float *x, uint32_t n, int8_t *q, float *d, int16_t *s);
    /* What quantising left: y[i] = fmaf(-d[i / group], (float)q[i], x[i]); y may be x. */
    void (*remainder)(float *y, const float *x, const int8_t *q, const float *d, uint32_t n, uint32_t group);

    /* The outputs of struct kernels_matmul: each the sum over k of a panel's row times an activation row.
     * 32-value types: per 32-block i = exact int32 sum of q_w * q_a; acc = fmaf((float)i, rn(d_w * d_a),
     * acc); types with m: then acc = fmaf((float)s32, rn(m * d_a), acc). K types: per 256: i = exact int32
     * sum over sub-blocks of scale * (sum of q_w * q_a); acc = fmaf((float)i, rn(d_w * d_a), acc); Q4_K,
     * Q5_K: then acc = fmaf(-(float)(sum of submin_j * s_j), rn(dmin * d_a), acc), s_j = the sum of the 32 q
     * of sub-block j. (float) of an int32 rounds to nearest even. F32, F16, BF16: acc = fmaf(w, x, acc) on
     * f32. Segments of 512 k, see above. Weight bytes of any value are legal (q_w = -128 too). */
    void (*matmul[BLOCK_TYPES])(const struct kernels_matmul *m);

    /* y[i] = num_silu(gate[i]) * up[i]; y may be gate or up. */
    void (*silu_mul)(float *y, const float *gate, const float *up, uint32_t n);
    /* y[i] = num_sigmoid(gate[i]) * x[i]; y may be x. */
    void (*sigmoid_mul)(float *y, const float *gate, const float *x, uint32_t n);
    /* y[i] = num_gelu(gate[i]) * up[i]; y may be gate. */
    void (*gelu_mul)(float *y, const float *gate, const float *up, uint32_t n);
    /* y[i] = the square of the larger of x[i] and +0, rounded; y may be x. */
    void (*relu2)(float *y, const float *x, uint32_t n);
    /* y[i] = num_gelu_erf(x[i]); y may be x. One function for all tiers: a picture has few rows of it. */
    void (*gelu_erf)(float *y, const float *x, uint32_t n);
    /* g = the smaller of gate[i] and limit, u = up[i] clamped to +-limit: y[i] = (num_sigmoid(g * alpha) * g)
     * * (u + 1); y may be gate. */
    void (*clamped_glu)(float *y, const float *gate, const float *up, uint32_t n, float alpha, float limit);
    /* y[i] = num_softcap(x[i], cap, inverse); y may be x. */
    void (*softcap)(float *y, const float *x, uint32_t n, float cap, float inverse);
    /* y[i] = a[i] + b[i]; y may be a. */
    void (*add)(float *y, const float *a, const float *b, uint32_t n);
    /* y[i] = fmaf(x[i], by, y[i]). */
    void (*add_scaled)(float *y, const float *x, float by, uint32_t n);

    /* Chooses the experts with the largest scores, of equals those with the lower numbers; a score is the
     * logit, with EXPERTS_SIGMOID num_sigmoid(logit) + bias (+0 without one), else with a bias num_exp(l - m)
     * * num_rcp(sum of all as sum128) + bias, each rounded. With groups the groups are chosen before,
     * likewise: a group's score is the sum of its two largest scores with EXPERTS_SIGMOID, else its largest.
     * Weights: softmax: e = num_exp(l
     * - m), m the largest logit, times num_rcp(sum of e), the sum with EXPERTS_NORM of those chosen in
     * ascending order from +0, else of all as sum128. Sigmoid: num_sigmoid(l), with EXPERTS_NORM times
     * num_rcp(the larger of their sum, in ascending order, and EXPERTS_LEAST). Then times scale. */
    void (*route)(const struct kernels_route *r);

    /* Rotates the first 2 * n_pairs of x, pair j by cos_sin[2j], cos_sin[2j + 1]. neox: the pair is (x[j],
     * x[j + n_pairs]); else (x[2j], x[2j + 1]). (a, b) -> (fmaf(a, c, -(b * s)), fmaf(a, s, b * c)), the
     * inner products rounded. */
    void (*rope)(float *x, const float *cos_sin, uint32_t n_pairs, bool neox);

    /* Stores one head's vector of one token into its block: K as [dim][32] (k points to the block's K of this
     * head), V as [32][dim]; slot 0..31. f16 rounds to nearest even, subnormals kept.
     *
     * q8_0, q4_0: each group of 32 values has one scale, d; a store touches no other token's bytes.
     *   q8_0: K int8 [dim/4][32][4], V int8 [32/4][dim][4].
     *   q4_0: two values in a byte, q + 8 each: value i of the group low, i + 16 high. A group has 16 of the
     *   dim / 2 rows: K [dim/8][32][4], V [32/4][dim/2][4].
     *   Behind them the scales as f16, [dim/32][32 tokens].
     *
     * Two scales are tried. q8_0: amax * (1/127 as float) and amax * (1/125 as float); q4_0: m * (-1/8) and
     * m * (-1/8.5 as float), m the largest x if that is >= -(the smallest x), else the smallest. A scale is
     * clamped to +-65504 and rounded to f16 (-0 becomes +0): d. q = rne(clamp(x * num_rcp(d))), to -127..127
     * or -8..7; 0 if d is 0. The second is taken if its squared error, as in quantise32, is smaller. */
    void (*store_k[KERNELS_KV_TYPES])(void *k, const float *x, uint32_t dim, uint32_t slot);
    void (*store_v[KERNELS_KV_TYPES])(void *v, const float *x, uint32_t dim, uint32_t slot);

    /* Per query and head, over splits of 256 tokens aligned to absolute position (the last one partial):
     *   s_t = dot * scale, with a cap then its num_softcap, dot = fmaf in dim order, without segments; m =
     * max s_t; e_t = num_exp(s_t
     * - m); l = sum128 of e_t by t % 128 inside the split (plain adds from +0, then the tree); o_d =
     * fmaf(e_t, v_t[d], o_d) in token order from +0. Merge: first split M = m, L = l, O = o; then with M' =
     * max(M, m), a = num_exp(M - M'), b = num_exp(m - M'): L = fmaf(l, b, L * a), O = fmaf(o, b, O * a)
     * (inner products rounded), M = M'. out = O * num_rcp(L). Tokens beyond the query are skipped by select,
     * never multiplied. So are those before its window (t % 128 and the splits stay those of the position),
     * and a split of which a query sees nothing is not one of its splits. With a sink z: after the splits M'
     * = max(M, z), a = num_exp(M - M'), L = L * a + num_exp(z - M') and O = O * a, each product rounded.
     *
     * Quantised K: each 32 values of the query become integers of 15 bits: amax < 2^-100: d_q = 0, q = 0;
     * else d_q = amax * (1/16256 as float), q = rne(clamp(x * num_rcp(d_q))), to +-16256. (That is 127 * 128,
     * so q = 128 * h + l, both int8.) i = exact int32 sum of q * q_k over a group; dot = fmaf((float)i,
     * rn(d_q * d_k), dot) in order of groups from +0.
     *
     * Quantised V: of each group of 32 dims D is the largest |d_v| of the split's tokens that the query sees,
     * and f = 32639 * num_rcp(D), 0 if D is 0. A token's weight is w_t = rne(e_t * rn(d_v * f)), with one
     * rounding, as 16 bits: |w_t| <= 32639 = 127 * 256 + 127, so w = 256 * h + l, both int8. With the exact
     * int32 sum i of w_t * q_v[d], at most 256 * 32639 * 127 < 2^31, o_d = rn((float)i * rn(D * r)), where r
     * is 1/32639 as float. So the order of tokens is free.
     *
     * Measured before they were fixed: KL divergence * 1e5 from f32 KV, of the oracle models qwen3,
     * llama-tied, qwen2 on 500 random tokens and of the demo model on 1000 of its held-out text:
     *
     *   K q8_0: query of 8 bits    12.8   37.8   12.9   0.16
     *           query of 15 bits    5.5   18.4    6.8   0.20   taken
     *   V q8_0: e * d_v as int8    22.1   42.2   17.6   0.22   (with one scale)
     *           e * d_v as float    7.8   11.1    4.1   0.17
     *   V q4_0: e * d_v as int8    2163   2544   1148   1.8
     *           e * d_v as float   2147   2519   1122   1.7
     *   q8_0 as defined            14.5   29.4   10.7   0.16   llama.cpp (from f16) 22.0 50.9 18.9 0.58
     *   q4_0 as defined            3415   6971   2781   3.4    llama.cpp (from f16) 3508 7693 2890 4.6
     *
     * (The last two with e * d_v as float.) Weights of 16 bits took its place later: KL of q8_0 and of q4_0
     * from f32 KV is 0.98 to 1.01 of what it was before, for 15 oracle models (1,020 tokens each;
     * 2026-11-28). */
    void (*attention)(const struct kernels_attention *a);
    /* out from the parts of all splits (n_queries 1; q, k, v and the range are not looked at): the same bits
     * as from one call of attention. */
    void (*attention_merge)(const struct kernels_attention *a);

    /* Attention to chosen blocks. An indexer names a query's index blocks (kernels/shared/index.h): of the
     * whole ones, tokens ratio * b .. ratio * b + ratio - 1, at most the query's own included, the `keep`
     * with the largest scores, of equals those with the lower numbers. Is no whole block left out, attention
     * is as above. Else the tokens of those blocks, ascending, and behind them the tokens behind the last
     * whole block are a list, and attention is that of its last token in a text of them alone: token i of
     * the list has the place i, which says its split, its lane and its turn, and all of a quantised value's
     * split is the list's. So what it costs grows with the list, not with the text.
     *
     * A score is the sum over the heads, in their order from +0, of the larger of dot and +0 (+0 for a NaN);
     * dot = fmaf of query and block key in dim order from +0. The block key: the mean of the raw keys
     * (plain sums in their order, times 1 / ratio rounded), rms_norm, rope with the angles of the block's
     * first token. Raw keys are rounded to the cache's type before, block keys behind. */
    void (*index_scores)(const struct kernels_index *x);
    /* chosen[0 .. keep - 1]: the numbers, ascending, of the `keep` largest of n scores, of equals the lower
     * numbers. keep < n; scores are not below +0. One function for all tiers. */
    void (*index_choose)(const float *score, uint32_t n, uint32_t keep, uint32_t *chosen);

    void (*conv)(const struct kernels_conv *c);
    void (*gated_conv)(const struct kernels_gated_conv *c);
    void (*delta)(const struct kernels_delta *d);
    void (*ssd)(const struct kernels_delta *d);

    /* Index of the largest x (the first of equals); *finite = false if any x is not finite (the index is then
     * any). */
    uint32_t (*argmax)(const float *x, uint32_t n, bool *finite);
};

enum kernels_tier {
    KERNELS_TIER_SCALAR,
    KERNELS_TIER_AVX2,
    KERNELS_TIER_AVX512,
    KERNELS_TIER_AMX,
    KERNELS_TIERS
};

/* The best tier that this CPU and its operating system allow (CPUID and XCR0 together; for AMX the process
 * asks the kernel for its tiles). */
enum kernels_tier kernels_best_tier(void);
const char *kernels_tier_name(enum kernels_tier t);
/* Fills the table up to and including the tier; the tier must not be above kernels_best_tier(). */
void kernels_init(struct kernels *k, enum kernels_tier t);

/* Called by kernels_init, one per tier folder; each overwrites what it does better. */
void scalar_matmul_init(struct kernels *k);
void scalar_init(struct kernels *k);
void avx2_matmul_init(struct kernels *k);
void avx2_init(struct kernels *k);
void avx2_attention_init(struct kernels *k);
void avx2_kv_init(struct kernels *k);
void avx2_delta_init(struct kernels *k);
void avx2_index_init(struct kernels *k);
void avx512_matmul_init(struct kernels *k);
void avx512_init(struct kernels *k);
void avx512_attention_init(struct kernels *k);
void avx512_delta_init(struct kernels *k);
void amx_matmul32_init(struct kernels *k);
void amx_matmul_k_init(struct kernels *k);
/* Called by the tier's init above. */
void scalar_attention_init(struct kernels *k);
void scalar_kv_init(struct kernels *k);
void scalar_delta_init(struct kernels *k);
void scalar_index_init(struct kernels *k);
/* Of other ratios than a tier has vectors for. */
void scalar_index_scores(const struct kernels_index *x);
void scalar_experts_init(struct kernels *k);

#endif
