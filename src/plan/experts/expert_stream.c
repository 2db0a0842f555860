#include "plan/experts/expert_stream.h"

#include "kernels/shared/opencl.h"

#include <string.h>

#define HALF_MOST  (64ull << 20)
#define HALF_PART  16 /* of what is spilled a half is at most this part, so that the window costs little */
#define MOST_TILES 32

_Static_assert(OPENCL_DPAS_TILE <= MOST_TILES && OPENCL_PREFILL_TOKENS <= MOST_TILES, "tiles");

static bool chooses(const struct graph_op *op) {
    return graph_kind_info(op->kind)->use == GRAPH_CHOSEN;
}

static uint64_t spilled(const struct graph *g, const struct graph_op *op) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < op->n_weights; k++) {
        const struct graph_weight *w = &g->weights[op->weight[k]];
        sum += w->spilled * w->layout.panel_bytes;
    }
    return sum;
}

uint64_t expert_stream_spilled(const struct graph *g) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g->n_ops; i++)
        sum += chooses(&g->ops[i]) ? spilled(g, &g->ops[i]) : 0;
    return sum;
}

/* Tokens for which a kernel reads an expert once, at best (launch_matmul.c). */
static uint32_t tile_of(const struct graph *g, const struct graph_op *op) {
    for (uint32_t k = 0; k < op->n_weights; k++) {
        const uint32_t type = g->weights[op->weight[k]].layout.type;
        if (type == BLOCK_F32 || type == BLOCK_F16 || type == BLOCK_BF16)
            return OPENCL_PREFILL_TOKENS;
    }
    return OPENCL_DPAS_TILE;
}

/* Of one expert, how often it is read: `at` has the probabilities of its tokens so far, modulo the tile; the
 * token that begins a tile makes one more. Sums and products only, so that every machine finds the same. */
struct readings {
    uint32_t tile;
    double chosen; /* the probability that a token chooses it */
    double at[MOST_TILES];
    double n;
};

static struct readings begin(const struct graph *g, const struct graph_op *op) {
    struct readings r = {.tile = tile_of(g, op),
                         .chosen = (double)op->experts.used / (double)op->experts.experts};
    r.at[0] = 1;
    CHECK(r.tile > 0 && r.tile <= MOST_TILES && op->experts.used <= op->experts.experts);
    return r;
}

static void add_token(struct readings *r) {
    double last = r->at[r->tile - 1];
    r->n += r->at[0] * r->chosen;
    for (uint32_t k = r->tile - 1; k > 0; k--)
        r->at[k] = r->at[k] * (1 - r->chosen) + r->at[k - 1] * r->chosen;
    r->at[0] = r->at[0] * (1 - r->chosen) + last * r->chosen;
}

double expert_stream_reads(const struct graph *g, uint32_t tokens) {
    double sum = 0;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *op = &g->ops[i];
        if (!chooses(op) || spilled(g, op) == 0)
            continue;
        struct readings r = begin(g, op);
        for (uint32_t t = 0; t < tokens; t++)
            add_token(&r);
        sum += r.n * (double)spilled(g, op);
    }
    return sum;
}

uint32_t expert_stream_least(const struct graph *g, uint32_t most) {
    double all = (double)expert_stream_spilled(g);
    if (all <= 0 || expert_stream_reads(g, most) <= all)
        return 0;
    uint32_t fewer = 0, enough = most;
    while (enough - fewer > 1) {
        uint32_t middle = fewer + (enough - fewer) / 2;
        if (expert_stream_reads(g, middle) > all)
            enough = middle;
        else
            fewer = middle;
    }
    return enough;
}

uint64_t expert_stream_half(const struct graph *g) {
    uint64_t least = 0, most = 0;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *op = &g->ops[i];
        uint64_t all = 0;
        for (uint32_t k = 0; chooses(op) && k < op->n_weights; k++)
            all += g->weights[op->weight[k]].bytes;
        if (all == 0)
            continue;
        least = ARITH_MAX(least, all / op->experts.experts);
        most = ARITH_MAX(most, all);
    }
    uint64_t half = ARITH_MIN(ARITH_MIN(expert_stream_spilled(g) / HALF_PART, HALF_MOST), most);
    CHECK(least <= most);
    return arith_round_up(ARITH_MAX(half, least), PANEL_ALIGN);
}
