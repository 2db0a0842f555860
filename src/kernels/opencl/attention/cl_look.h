/* What all ways of attention share: what they look at, who sees what, and the merge of splits. Includer:
 * attention.cl. */
#ifndef STATOR_KERNELS_OPENCL_CL_LOOK_H
#define STATOR_KERNELS_OPENCL_CL_LOOK_H

#define ALL 0x7fffff00 /* more than any difference of positions; and a split less stays in an int */

/* What all rows of a group's work share. */
struct look {
    struct cl_cache cache;
    global const float *q;
    uint q_width;
    struct cl_forms out;
    uint group, head_k, head_v;
    float scale;
    float cap, cap_inverse; /* of scores; 0: none */
    int window;             /* tokens that a query sees, or ALL */
#ifdef CL_BOTH
    int ahead; /* the same of those from its own on */
#endif
    int skip;  /* the first tokens, of which a query sees none but its own */
    uint ring; /* blocks of a table that goes round; 0: it does not */
    bool has_sinks;
    global const float *sinks; /* of all heads */
#ifdef CL_BOTH
    global const struct step_window *windows; /* of the step's tokens; 0: there are none */
#endif
#ifdef CL_CHOSEN
    global const uint *lists; /* of the step's tokens (kernels/shared/index.h), */
    uint list_width, ratio, keep;
    global const uint *list; /* and of the query whose rows are worked on */
#endif
};

#define PARTS 16 /* in which maxima and sums of a row's scores are made */

/* Local memory. */
struct scratch {
    local float *q;     /* [ROWS][head_k] */
    local float *o;     /* [ROWS][head_v], merged so far */
    local float *score; /* [ROWS][SPLIT] */
    local float *part;  /* [ROWS][PARTS]: of a row's maximum or sum */
    local uint *block;  /* [SPLIT / SPOT]: where they lie in a unit (spot_of) */
    local int *end;     /* [ROWS]: tokens of the split that a row sees, */
#ifdef CL_BOTH
    local int *from; /* [ROWS]: and those before */
#endif
    local uint *to;                        /* [ROWS]: plan_row */
    local float *max, *sum, *before, *now; /* [ROWS] each: of the splits so far; factors of the next merge */
    /* Of quantised V: */
    local float *top;     /* [ROWS][head_v / 32][2], see factor_of */
    local float *largest; /* [ROWS][head_v / 32][8], put_largest; where weights are, which come later */
    local uint2 *weights; /* [ITEMS / 16][FEW][SPLIT / 4], see put_weights; latent attention has none */
};

/* Rows `first` .. first + rows of (query, head) pairs. */
struct rows {
    uint first, n;
    uint position; /* of query 0 */
    uint token;    /* of query 0, in the step */
    uint end;      /* of the chunk: the position behind its last token */
    uint head;     /* KV head */
};

/* The position behind row i's token. */
static inline int behind(const struct look *l, const struct rows *r, uint i) {
    return (int)(r->position + (r->first + i) / l->group + 1);
}

#ifdef CL_BOTH
/* Of row i's token; a chunk with windows begins at position 0. */
static inline global const struct step_window *window_of(const struct look *l, const struct rows *r, uint i) {
    return &l->windows[r->token + (r->first + min(i, r->n - 1)) / l->group];
}
#endif

/* Tokens of the split at `begin` that row i sees; 0 or less: none. */
static inline int seen(const struct look *l, const struct rows *r, uint i, uint begin) {
#ifdef CL_BOTH
    if (l->windows != 0)
        return (int)(window_of(l, r, i)->first + window_of(l, r, i)->n) - (int)begin;
    return (l->ahead < ALL ? min(behind(l, r, i) + l->ahead - 1, (int)r->end) : (int)r->end) - (int)begin;
#else
    return behind(l, r, i) - (int)begin;
#endif
}

/* Of the split at `begin`, where what a row sees begins, `end` being where it ends. */
static inline int hidden_of(const struct look *l, int end, uint begin) {
    return max(end - l->window, min(l->skip - (int)begin, end - 1));
}

/* Tokens of the split at `begin` that are before what row i sees; 0 or less: none. */
static inline int hidden(const struct look *l, const struct rows *r, uint i, uint begin) {
#ifdef CL_BOTH
    if (l->windows != 0)
        return (int)window_of(l, r, i)->first - (int)begin;
#endif
    return hidden_of(l, behind(l, r, i) - (int)begin, begin);
}

static inline bool sees_some(const struct look *l, const struct rows *r, uint i, uint begin) {
    return seen(l, r, i, begin) > 0 && hidden(l, r, i, begin) < SPLIT;
}

/* The same of any row. */
static inline bool any_sees(const struct look *l, const struct rows *r, uint begin) {
    return seen(l, r, r->n - 1, begin) > 0 && hidden(l, r, 0, begin) < SPLIT;
}

/* The first split of which row i sees something. */
static inline uint first_split(const struct look *l, const struct rows *r, uint i) {
    int before = hidden(l, r, i, 0);
    return before > 0 ? (uint)before / SPLIT : 0;
}

/* The unit in which a KV head has its tokens: of latent attention all have one. */
static inline uint unit_of(const struct rows *r) {
#ifdef CL_LATENT
    (void)r;
    return 0;
#else
    return r->head;
#endif
}

#ifdef CL_CHOSEN
/* The token in this place of the query's list. */
static inline uint token_at(const struct look *l, uint place) {
    return l->list[0] == 0 ? place : l->list[1 + place / l->ratio] * l->ratio + place % l->ratio;
}
#else
#define token_at(l, place) (place)
#endif

/* Where the token's block begins in a unit. */
static inline uint block_of(const struct look *l, global const uint *table, uint token) {
    uint block = token / KV_LAYOUT_BLOCK;
    return table[l->ring != 0 ? block % l->ring : block] * l->cache.block_stride;
}

/* SPOT tokens of a split lie side by side: where, as one word, of which spot_block is the block's begin and
 * spot_slot the slot of token t of the split. */
#ifdef CL_CHOSEN
#define SPOT 4
static inline uint spot_of(const struct look *l, global const uint *table, uint place) {
    uint token = token_at(l, place);
    return block_of(l, table, token) | token % KV_LAYOUT_BLOCK / SPOT; /* blocks begin at multiples of 64 */
}

static inline uint spot_block(uint place) {
    return place & ~(uint)(KV_LAYOUT_BLOCK / SPOT - 1);
}

static inline uint spot_slot(uint place, uint t) {
    return (place & (KV_LAYOUT_BLOCK / SPOT - 1)) * SPOT + t % SPOT;
}
#else
#define SPOT                KV_LAYOUT_BLOCK
#define spot_of             block_of
#define spot_block(place)   (place)
#define spot_slot(place, t) ((t) % KV_LAYOUT_BLOCK)
#endif

/* The scale of 32 values of a query. */
static inline float query_scale(global const float *x) {
    float amax = 0.0f;
    for (uint i = 0; i < 32; i++)
        amax = fabs(x[i]) > amax ? fabs(x[i]) : amax;
    return cl_scale(amax, NUM_QUANT_QUERY_INVERSE);
}

/* Four of them as words. */
static inline void query_word(global const float *x, float inverse, uint *high, uint *low) {
    uint h = 0, l = 0;
    for (uint b = 0; b < 4; b++) {
        float v = cl_between(x[b] * inverse, -NUM_QUANT_QUERY, NUM_QUANT_QUERY) + NUM_ROUND;
        int q = (int)(NUM_BITS(v) - NUM_ROUND_BITS);
        int top = (q + 64) >> 7;
        h |= ((uint)top & 255u) << (8 * b);
        l |= ((uint)(q - 128 * top) & 255u) << (8 * b);
    }
    *high = h;
    *low = l;
}

/* Of four scales those of tokens first .. end of the four, else 0: of tokens that no row sees they may be no
 * numbers. */
static inline half4 seen_scales(half4 d, int first, int end) {
    d.x = 0 >= first && 0 < end ? d.x : (half)0.0f;
    d.y = 1 >= first && 1 < end ? d.y : (half)0.0f;
    d.z = 2 >= first && 2 < end ? d.z : (half)0.0f;
    d.w = 3 >= first && 3 < end ? d.w : (half)0.0f;
    return d;
}

/* The larger of `most` and the sizes of four scales. */
static inline float larger_scale(float most, half4 d) {
    float x = fabs((float)d.x), y = fabs((float)d.y), z = fabs((float)d.z), w = fabs((float)d.w);
    float low = x > y ? x : y, high = z > w ? z : w;
    float all = low > high ? low : high;
    return all > most ? all : most;
}

/* What e times a factor is added to, so that the low 16 bits are the weight, 128 above. */
#define WEIGHT_ROUND (NUM_ROUND + 128.0f)

/* Four such weights, as two words of bytes: high bytes, and low ones less 128. */
static inline uint2 weight_bytes(uint a, uint b, uint c, uint d) {
    uchar4 w = as_uchar4(a), x = as_uchar4(b), y = as_uchar4(c), z = as_uchar4(d);
    uint high = as_uint((uchar4)(w.y, x.y, y.y, z.y)), low = as_uint((uchar4)(w.x, x.x, y.x, z.x));
    return (uint2)(high, low ^ 0x80808080u);
}

static inline global const float *query_of(const struct look *l, const struct rows *r, uint row) {
    uint at = r->first + row;
    return l->q + (r->token + at / l->group) * l->q_width + (r->head * l->group + at % l->group) * l->head_k;
}

/* Item me < n: row me's next merge: max and sum of all splits so far, the factors of what was and what is
 * new. */
static inline void plan_merge(const struct scratch *m, uint me, bool first) {
    float max_new = m->now[me], sum_new = m->before[me];
    if (first) {
        m->max[me] = max_new;
        m->sum[me] = sum_new;
        return;
    }
    float all = max_new > m->max[me] ? max_new : m->max[me];
    float a = num_exp(m->max[me] - all), b = num_exp(max_new - all);
    float scaled = m->sum[me] * a;
    m->sum[me] = fma(sum_new, b, scaled);
    m->max[me] = all;
    m->before[me] = a;
    m->now[me] = b;
}

static inline global float *out_of(const struct look *l, const struct rows *r, uint i) {
    uint at = r->first + i;
    return (global float *)(l->out.base + l->out.f32) + (r->token + at / l->group) * l->out.width +
           (r->head * l->group + at % l->group) * l->head_v;
}

/* Item me < n: a sink is one more split, without a value: what that makes of the sum, and of o in `before`.
 */
static inline void plan_sink(const struct look *l, const struct scratch *m, const struct rows *r, uint me) {
    float sink = l->sinks[r->head * l->group + (r->first + me) % l->group];
    float all = sink > m->max[me] ? sink : m->max[me];
    float a = num_exp(m->max[me] - all), scaled = m->sum[me] * a;
    m->sum[me] = scaled + num_exp(sink - all);
    m->before[me] = a;
}

/* Group: the int8 forms of columns column .. + n of the output of tokens token .. + tokens, whose floats this
 * group has written. */
static inline void quantise_out(const struct look *l, local float *memory, uint token, uint tokens,
                                uint column, uint n) {
    if (l->out.has == OPENCL_F32)
        return;
    local uint *part = (local uint *)(memory + ROWS * SPLIT);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    uint width = min(n, (uint)(ROWS * SPLIT)), rows = ROWS * SPLIT / width;
    for (uint t = token; t < token + tokens; t += rows) {
        uint some = min(rows, token + tokens - t);
        for (uint at = 0; at < n; at += width) {
            uint here = min(n - at, width);
            global const float *from =
                (global const float *)(l->out.base + l->out.f32) + t * l->out.width + column + at;
            for (uint i = get_local_id(0); i < some * here; i += ITEMS)
                memory[i] = from[i / here * l->out.width + i % here];
            barrier(CLK_LOCAL_MEM_FENCE);
            cl_quantise_rows(&l->out, t, some, column + at, memory, here, here, false, part);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}

#endif
