/* Which kernel computes a product, by weight types, tokens and traits, and how a group of it divides the
 * work: tokens, segments of k, work items, local memory. No state. */
#include "device/launch/launch_scheme.h"

#include "kernels/shared/experts.h"
#include "kernels/shared/opencl.h"

/* The sets of weight types that have kernels (modules.def); the first SETS_INTEGER are of integers. */
enum {
#define SET(set, types, ...) SET_##set,
    OPENCL_SETS_FEW(SET, ) SETS_FEW,
    SETS_DEALT = SET_q2_k,
    SET_k_all = SETS_FEW,
    SETS_INTEGER,
    SET_LAST_INTEGER = SETS_INTEGER - 1,
    OPENCL_SETS_OTHER(SET, ) SETS_ALL,
    SETS_FLOAT = SET_any - SETS_INTEGER,
    SETS_WIDE = SETS_FEW + SETS_FLOAT
#undef SET
};

/* The types of a set: bits 1 << enum block_type. */
#define OPENCL_TYPE(T) 1ull << BLOCK_##T
static const uint64_t set_types[] = {
#define SET(set, types, ...) [SET_##set] = types,
    OPENCL_SETS_ALL(SET, )
#undef SET
};

/* The kernels of a product's module; a family has them up to HEADS or EXPERTS. */
enum kernel { PLAIN, HEADS, EXPERTS };

/* Kernels of the families, from LAUNCH_MATMUL on: FIRST_family is PLAIN of the family's first set. */
enum {
    BEFORE_FAMILIES = LAUNCH_MATMUL - 1,
#define FAMILY(M, family, sets, kernels, ...)                                                                \
    FIRST_##family, LAST_##family = FIRST_##family + (kernels + 1) * SETS_##sets - 1,
    OPENCL_FAMILIES(FAMILY, )
#undef FAMILY
};

static const struct {
    uint32_t first, each;
} families[] = {
#define FAMILY(M, family, sets, kernels, ...) {FIRST_##family, kernels + 1},
    OPENCL_FAMILIES(FAMILY, )
#undef FAMILY
};
_Static_assert(sizeof families / sizeof families[0] == DPAS16 + 1,
               "enum launch_family is what modules.def has");

#define MODULE(name)                                  &launch_modules[LAUNCH_MODULE_##name]
#define OWN_NAME(name, ...)                           {#name, MODULE(name)},
#define PLAIN_OF(module)                              {#module, MODULE(module)},
#define HEADS_OF(module)                              PLAIN_OF(module){#module "_heads", MODULE(module)},
#define EXPERTS_OF(module)                            HEADS_OF(module){#module "_experts", MODULE(module)},
#define SET(set, types, few, dpas16, kernels, family) kernels##_OF(family##_##set)
#define FAMILY(M, family, sets, kernels, ...)         OPENCL_SETS_##sets(SET, kernels, family)

/* In the order of enum launch_rule. */
#define RULES(module)                                                                                        \
    {#module "_delta", MODULE(module)}, {#module "_delta_small", MODULE(module)},                            \
        {#module "_delta_wide", MODULE(module)}, {#module "_states", MODULE(module)}, {                      \
#module "_states_wide", MODULE(module)                                                               \
    }

const struct launch_kernel launch_kernels[] = {
    [LAUNCH_FILL] = {"fill", MODULE(ends)},
    [LAUNCH_MOVE] = {"move", MODULE(ends)},
    [LAUNCH_EMBED] = {"embed", MODULE(ends)},
    [LAUNCH_SOFTCAP] = {"softcap", MODULE(ends)},
    [LAUNCH_ARGMAX_PARTS] = {"argmax_parts", MODULE(ends)},
    [LAUNCH_ARGMAX] = {"argmax", MODULE(ends)},
    [LAUNCH_CENTER] = {"center", MODULE(norm)},
    [LAUNCH_NORM] = {"norm", MODULE(norm)},
    [LAUNCH_FORMS] = {"forms", MODULE(norm)},
    [LAUNCH_EXCHANGE] = {"exchange", MODULE(norm)},
    [LAUNCH_EXCHANGE_NORM] = {"exchange_norm", MODULE(norm)},
    [LAUNCH_EXCHANGE_INT8] = {"exchange_int8", MODULE(norm)},
    [LAUNCH_MAP] = {"tower_map", MODULE(tower)},
    [LAUNCH_LAYER_NORM] = {"layer_norm", MODULE(tower)},
    [LAUNCH_BLEND] = {"tower_blend", MODULE(tower)},
    [LAUNCH_PROJECT] = {"tower_project", MODULE(tower)},
    [LAUNCH_FEATURES] = {"tower_features", MODULE(tower)},
    [LAUNCH_STREAMS_NORM] = {"streams_norm", MODULE(streams)},
    [LAUNCH_STREAMS_MIX] = {"streams_mix", MODULE(streams)},
    [LAUNCH_STREAMS_ADD] = {"streams_add", MODULE(streams)},
    [LAUNCH_WIDE] = {"norm_wide", MODULE(norm)},
    [LAUNCH_PAIR] = {"norm_pair", MODULE(norm)},
    [LAUNCH_KEEP] = {"keep", MODULE(ends)},
    [LAUNCH_CONV] = {"delta_conv", MODULE(delta)},
    [LAUNCH_GATED_CONV] = {"gated_conv", MODULE(delta)},
    [LAUNCH_NGRAM_GATE] = {"ngram_gate", MODULE(norm)},
    [LAUNCH_NGRAM_CONV] = {"ngram_conv", MODULE(delta)},
    [LAUNCH_DELTA] = RULES(rule),
    [LAUNCH_DELTA8] = RULES(rule8),
    [LAUNCH_GATE] = {"gate", MODULE(delta)},
    [LAUNCH_LATENT_STORE] = {"latent_store", MODULE(latent)},
    [LAUNCH_INDEX_STORE] = {"index_store", MODULE(index)},
    [LAUNCH_INDEX_KEYS] = {"index_keys_of_blocks", MODULE(index)},
    [LAUNCH_INDEX_SCORES] = {"index_scores", MODULE(index)},
    [LAUNCH_INDEX_CHOOSE] = {"index_choose", MODULE(index)},
    [LAUNCH_ROUTER] = {"router", MODULE(router)},
    [LAUNCH_ROUTER8] = {"router8", MODULE(router8)},
    [LAUNCH_ROUTE] = {"route", MODULE(experts)},
    [LAUNCH_GROUP_SLOTS] = {"group_slots", MODULE(experts)},
    [LAUNCH_NEAR] = {"near_slots", MODULE(experts)},
    [LAUNCH_TAKE] = {"take_expert", MODULE(experts)},
    [LAUNCH_MIX] = {"mix", MODULE(experts)},
    /* clang-format off */
    [LAUNCH_ATTENTION] = OPENCL_ATTENTION_MODULES(OWN_NAME)
    [LAUNCH_BOTH] = OPENCL_BOTH_MODULES(OWN_NAME)
    [LAUNCH_CHOSEN] = OPENCL_CHOSEN_MODULES(OWN_NAME)
    [LAUNCH_LATENT] = OPENCL_LATENT_MODULES(OWN_NAME)
    [LAUNCH_TILES] = OPENCL_TILES_MODULES(OWN_NAME)
    [LAUNCH_EACH] = OPENCL_EACH_MODULES(OWN_NAME)
    [LAUNCH_MATMUL] = OPENCL_FAMILIES(FAMILY, )
    /* clang-format on */
};
#undef SET
#undef FAMILY
const uint32_t launch_n_kernels = sizeof launch_kernels / sizeof launch_kernels[0];

static uint32_t kernel_of(enum launch_family family, uint32_t set, enum kernel kernel) {
    CHECK(kernel < families[family].each);
    /* The sets of WIDE1 are those of FEW and the floats behind k_all. */
    CHECK(family != WIDE1 || (set != SET_k_all && set != SET_any));
    const uint32_t at = family == WIDE1 && set > SET_k_all ? set - 1 : set;
    return families[family].first + at * families[family].each + kernel;
}

/* Segments of k that a group of a decode family has in flight at a time. */
#define DECODE_SPLIT 16u

/* The sets of HEADS, in the order of their modules: integers, then floats, then all types. */
#define EACH_TYPES(M, set, types, dpas16) types,
static const uint64_t each_types[] = {OPENCL_EACH_INTEGER(EACH_TYPES, ) OPENCL_EACH_OTHER(EACH_TYPES, )};
#undef EACH_TYPES
enum {
    EACH_INTEGER = 0 OPENCL_EACH_INTEGER(LAUNCH_ONE, ),
    EACH_SETS = sizeof each_types / sizeof each_types[0]
};

static uint32_t each_set_of(uint32_t type) {
    uint32_t set = 0;
    while (!(each_types[set] >> type & 1))
        set++;
    return set;
}

/* The first set with all types of the product's weights. */
static uint32_t set_of(const struct graph *g, const struct graph_op *o) {
    uint64_t types = 0;
    for (uint32_t i = 0; i < o->n_weights; i++)
        types |= 1ull << g->weights[o->weight[i]].layout.type;
    uint32_t set = 0;
    while (set < SETS_ALL && (types & ~set_types[set]) != 0)
        set++;
    CHECK(set < SETS_ALL);
    const bool other =
        o->kind == GRAPH_HEADS && each_set_of(g->weights[o->weight[0]].layout.type) == EACH_SETS - 1;
    return other ? SET_any : set;
}

static enum launch_family prefill_family(const struct launch_list *b, uint32_t set) {
    const bool eight = b->traits->sub_group_sizes & 1u << 3;
    if (set >= SETS_INTEGER)
        return PREFILL;
    if (b->traits->dpas)
        return eight ? DPAS8 : DPAS16;
    return eight ? PREFILL8 : PREFILL;
}

/* For one token. */
static enum launch_family decode1_family(const struct launch_list *b, uint32_t set) {
    const bool eight = b->traits->sub_group_sizes & 1u << 3;
    return !eight && set != SET_k_all && set != SET_any ? WIDE1 : DECODE1;
}

/* How a tile of many tokens (matmul_prefill.cl) or a pass of few (matmul_few.cl) is dealt out. */
struct tile {
    uint32_t tokens; /* whose activations, or sums, local memory has room for */
    uint32_t each, rows;
};

static struct tile tile_of(enum launch_family family, uint32_t set) {
    if (family == FEW)
        return (struct tile){OPENCL_FEW_TOKENS, OPENCL_FEW_EACH, OPENCL_FEW_ROWS};
    if (family == DEALT16)
        return (struct tile){OPENCL_DEALT_TOKENS, OPENCL_DEALT_TOKENS / 2, 1};
    if (set >= SETS_INTEGER)
        return (struct tile){OPENCL_PREFILL_TOKENS,
                             set == SET_any ? OPENCL_PREFILL_MIXED : OPENCL_PREFILL_TOKENS, 1};
    if (family == DPAS16) {
        const bool few = set == SET_k || set == SET_k_all || set == SET_iq2_s;
        const bool two = set == SET_q8_0 || set == SET_q4_1 || set == SET_q5_1 || set == SET_iq4_nl;
        return (struct tile){OPENCL_WIDE_TILE, few ? OPENCL_WIDE_MIXED : OPENCL_WIDE_EACH,
                             two ? OPENCL_WIDE_ROWS : 1};
    }
    if (family == DPAS8)
        return (struct tile){OPENCL_DPAS_TILE, OPENCL_DPAS_EACH, OPENCL_DPAS_ROWS};
    return (struct tile){OPENCL_PREFILL_TILE, OPENCL_PREFILL_EACH, OPENCL_PREFILL_ROWS};
}

/* Rows of a list that the matrix engine with sub-groups of 16 computes with k dealt out to sub-groups
 * (DEALT16): more than these, of heads more than those, which are fewer groups, and at most DEALT_MOST.
 * Below, `few` was faster on an H200. Not where gate and up have different types: two sub-groups beside each
 * other, which may be one warp (tools/zecuda), would take different ways. */
#define DEALT_ABOVE       16
#define DEALT_HEADS_ABOVE 32
#define DEALT_MOST        64

static bool for_dealt(const struct graph_op *o, enum launch_family many, uint32_t set, uint32_t rows,
                      bool heads) {
    const bool mixed = set == SET_k && graph_op_gated(o);
    return many == DPAS16 && set < SETS_DEALT && !mixed && rows <= DEALT_MOST &&
           rows > (heads ? DEALT_HEADS_ABOVE : DEALT_ABOVE);
}

/* Whether the weights had better be read once for each eight tokens: for up to LAUNCH_FEW, and for twice as
 * many where tiles of many tokens would leave most of the device idle. Beside DPAS16 always for twice as
 * many: its sub-groups walk all of k, and on an H200 such steps took three to seven times as long. */
static bool for_few(const struct launch_list *b, const struct graph_op *o, enum launch_family many,
                    uint32_t set, uint32_t rows) {
    if (many == DPAS16 && set < SETS_FEW)
        return rows <= 2 * LAUNCH_FEW;
    if (rows <= LAUNCH_FEW || many >= DPAS8)
        return rows <= LAUNCH_FEW;
    const struct tile tile = tile_of(many, set);
    uint64_t panels = 0;
    for (uint32_t i = 0; i < (graph_op_gated(o) ? 1 : o->n_weights); i++)
        panels += b->g->weights[o->weight[i]].layout.panels;
    const uint64_t threads = arith_ceil_div(panels, tile.rows) * arith_ceil_div(rows, tile.each);
    return rows <= 2 * LAUNCH_FEW && 2 * threads < b->traits->threads;
}

/* Rows of activations. */
uint32_t launch_scheme_rows(const struct launch_list *b, const struct graph_op *o) {
    return o->epilogue == GRAPH_PAIRS ? 2 * b->rows : b->rows;
}

struct launch_scheme launch_scheme_choose(const struct launch_list *b, const struct graph_op *o, bool heads) {
    struct launch_scheme w = {0};
    uint32_t set = set_of(b->g, o), rows = launch_scheme_rows(b, o);
    w.family = prefill_family(b, set);
    if (rows == 1)
        w.family = decode1_family(b, set);
    else if (for_dealt(o, w.family, set, rows, heads))
        w.family = DEALT16;
    else if (for_few(b, o, w.family, set, rows))
        w.family = w.family == PREFILL8 || w.family == DPAS8 || set >= SET_k_all ? DECODE4 : FEW;
    w.kernel = kernel_of(w.family, set, heads ? HEADS : PLAIN);
    if (w.family <= DECODE4)
        w.tokens =
            ARITH_MIN(rows, set == SET_k_all || set == SET_any ? OPENCL_DECODE_MIXED : OPENCL_DECODE_TOKENS);
    uint32_t cols = b->g->weights[o->weight[0]].layout.cols;
    w.segments = (uint32_t)arith_ceil_div(cols, KERNELS_SEGMENT);
    return w;
}

/* Bytes of local memory that cl_sums of FEW (totals of a group's items) or a prefill family (what is staged)
 * needs beside the tile. */
static uint64_t staged_bytes(const struct tile *tile, enum launch_family family, uint32_t set,
                             uint32_t group) {
    if (family == FEW)
        return tile->each * tile->rows * (uint64_t)group * sizeof(float);
    if (family == DEALT16) /* at least, with one segment at a time */
        return ARITH_MAX(tile->tokens * (uint64_t)OPENCL_DEALT_BYTES,
                         group / 32 * (uint64_t)OPENCL_DEALT_TOTALS(tile->tokens) * sizeof(float));
    if (family == DPAS16 && set < SETS_INTEGER) /* at most; a group may have less */
        return tile->tokens * (OPENCL_WIDE_STEP + OPENCL_WIDE_STEP / 32 * sizeof(float) +
                               OPENCL_WIDE_STEP / 16 * sizeof(int16_t));
    return tile->tokens * (set >= SETS_INTEGER ? KERNELS_SEGMENT * sizeof(float)
                                               : KERNELS_SEGMENT + 16 * sizeof(float) + 32 * sizeof(int16_t));
}

/* A group is at most 64 hardware threads, and the compiler may choose 8 items per thread. */
#define MOST_ITEMS 512u

/* Local memory of DPAS16 for what epilogues need beside the tile. */
#define WIDE_WORK(group) ((uint64_t)(group)*8 * sizeof(float))

/* Places of a tile of `tokens` tokens and so many panels: each is a sub-group's (cl_wide_sums.h). */
static uint32_t wide_places(const struct tile *tile, const struct graph_op *o, uint32_t panels,
                            uint32_t tokens) {
    return (uint32_t)arith_ceil_div(panels, graph_op_gated(o) ? 1 : tile->rows) * (tokens / tile->each);
}

/* Tokens of a tile of DPAS16, a power of 2: so many that half of the largest group has all its places at once
 * (while one group stages, another one multiplies), that it fits into local memory, and that `units` of tiles
 * are enough groups for the device. */
static uint32_t wide_tokens(const struct launch_list *b, const struct graph_op *o, const struct tile *tile,
                            uint32_t panels, uint32_t units) {
    const uint32_t rows = launch_scheme_rows(b, o),
                   most = ARITH_MIN(b->traits->max_group, MOST_ITEMS / 2) / 16;
    uint32_t tokens = o->kind == GRAPH_EXPERTS ? OPENCL_DPAS_TILE : tile->tokens;
    while (tokens > tile->each &&
           (tokens / 2 >= rows || wide_places(tile, o, panels, tokens) > most ||
            tokens * 16ull * panels * sizeof(float) + WIDE_WORK(MOST_ITEMS) > b->traits->local_bytes ||
            units * arith_ceil_div(rows, tokens) * (tokens > 64 ? 64 : 128) < b->traits->threads))
        tokens /= 2;
    return tokens;
}

/* Segments of DEALT16 that a group of so many virtual panels has in flight at a time: what is left of its
 * sub-groups when each panel has one, as far as local memory has room. */
static uint32_t dealt_segments(const struct launch_list *b, const struct launch_scheme *w, uint32_t panels,
                               uint32_t sub_groups) {
    const uint64_t bytes = (uint64_t)w->tokens * OPENCL_DEALT_BYTES,
                   tile = w->tokens * 16ull * panels * sizeof(float);
    const uint64_t room = b->traits->local_bytes > tile ? b->traits->local_bytes - tile : 0;
    const uint64_t most =
        ARITH_MIN(sub_groups / arith_round_up(ARITH_MIN(panels, sub_groups), 2), room / bytes);
    return (uint32_t)ARITH_MAX(ARITH_MIN(most, w->segments), 1u);
}

/* Panels of a group of DPAS16: of few tokens so few that their groups are enough for the device. */
static uint32_t wide_panels(const struct launch_list *b, const struct graph_op *o, uint32_t panels) {
    const uint32_t rows = launch_scheme_rows(b, o), least = tile_of(DPAS16, set_of(b->g, o)).rows;
    uint32_t each = 8;
    while (each > least && rows <= 64 &&
           arith_ceil_div(panels, each) * arith_ceil_div(rows, 32) * 64 < b->traits->threads)
        each /= 2;
    return each;
}

/* Tokens of a tile or a pass of FEW: so many that it fits beside what else is in local memory, for `panels`
 * of a group; of a pass so few that, if passes are dealt out to groups, `units` of these fill half of the
 * device. */
void launch_scheme_tokens(const struct launch_list *b, const struct graph_op *o, struct launch_scheme *w,
                          uint32_t panels, uint32_t units) {
    if (w->family < FEW)
        return;
    const uint32_t set = set_of(b->g, o), rows = launch_scheme_rows(b, o);
    const struct tile tile = tile_of(w->family, set);
    w->tokens = w->family == DPAS16 ? wide_tokens(b, o, &tile, panels, units) : tile.tokens;
    if (w->family == DEALT16)
        w->tokens = rows > tile.each ? tile.tokens : tile.each;
    if (w->family == FEW) {
        w->tokens = (uint32_t)ARITH_MIN(arith_round_up(rows, tile.each), tile.tokens);
        while (w->tokens > tile.each && 64 * arith_ceil_div(rows, w->tokens) * units <= b->traits->threads)
            w->tokens = (uint32_t)arith_round_up(w->tokens / 2, tile.each);
    }
    while (w->family != DPAS16 && w->tokens > tile.each &&
           w->tokens * 16ull * panels * sizeof(float) + staged_bytes(&tile, w->family, set, MOST_ITEMS) >
               b->traits->local_bytes)
        w->tokens = (uint32_t)arith_round_up(w->tokens / 2, tile.each);
    CHECK(w->tokens > 0);
    w->split = w->tokens;
}

/* Work items of a group that has so many panels. */
void launch_scheme_group(const struct launch_list *b, const struct graph_op *o, struct launch_scheme *w,
                         uint32_t panels) {
    const uint32_t most = ARITH_MIN(b->traits->max_group, MOST_ITEMS) / 16;
    const struct tile tile = tile_of(w->family, set_of(b->g, o));
    if (w->family == FEW) {
        const uint64_t places = arith_ceil_div(panels, tile.rows) * (w->tokens / tile.each);
        /* Two groups where one would fit: while one adds its totals, the other multiplies. */
        w->group =
            16 * (uint32_t)ARITH_MIN(places * ARITH_MIN(w->segments, DECODE_SPLIT), ARITH_MAX(most / 2, 1u));
        return;
    }
    if (w->family == DEALT16) {
        /* Two groups where one would fit: while one stages, the other multiplies. */
        const uint32_t sub_groups = ARITH_MAX(most / 4 * 2, 2u);
        const uint32_t each = (uint32_t)arith_round_up(ARITH_MIN(panels, sub_groups), 2);
        w->dealt = dealt_segments(b, w, panels, sub_groups);
        w->group = 16 * each * w->dealt;
        return;
    }
    if (w->family == DPAS16) {
        const uint32_t places = wide_places(&tile, o, panels, w->tokens);
        w->group = 16 * ARITH_MIN((uint32_t)arith_round_up(places, 2), most / 2 * 2);
        w->alone = 16 * places <= w->group;
        return;
    }
    if (w->family >= PREFILL) {
        uint32_t slots = (uint32_t)arith_ceil_div(panels, tile.rows) * (w->tokens / tile.each);
        w->group = 16 * ARITH_MIN((uint32_t)arith_round_up(slots, 2), most / 2 * 2);
        return;
    }
    w->split = ARITH_MIN(w->segments, DECODE_SPLIT);
    w->group = 16 * w->split * ARITH_MAX(ARITH_MIN(panels, most / w->split), 1u);
}

/* Bytes of local memory for what cl_sums stages or adds up. */
static uint64_t sums_bytes(const struct launch_list *b, const struct graph_op *o,
                           const struct launch_scheme *w) {
    const uint32_t set = set_of(b->g, o);
    struct tile tile = tile_of(w->family, set);
    if (w->family == DEALT16)
        return ARITH_MAX((uint64_t)w->tokens * w->dealt * OPENCL_DEALT_BYTES,
                         w->group / 16 * OPENCL_DEALT_TOTALS(w->tokens) * sizeof(float));
    if (w->family == DPAS16)
        tile.tokens = w->tokens;
    return w->family < FEW ? (uint64_t)w->tokens * w->group * sizeof(float)
                           : staged_bytes(&tile, w->family, set, w->group);
}

/* Bytes of local memory that cl_sums and the epilogues share. Making int8 takes three words of each item that
 * has eight values. */
uint64_t launch_scheme_work(const struct launch_list *b, const struct graph_op *o,
                            const struct launch_scheme *w, uint32_t panels, uint64_t epilogue) {
    uint64_t bytes = w->alone ? 0 : sums_bytes(b, o, w);
    uint64_t words =
        ARITH_MIN(3 * (uint64_t)w->group, (uint64_t)w->tokens * OPENCL_QUANTISE_WORDS(16 * panels));
    if (w->family == DPAS16 && graph_op_gated(o))
        bytes = ARITH_MAX(bytes, WIDE_WORK(w->group));
    return ARITH_MAX(ARITH_MAX(bytes, words * sizeof(uint32_t)), ARITH_MAX(epilogue, sizeof(float)));
}

/* Bytes of a tile of so many panels. */
uint64_t launch_scheme_tile(const struct launch_list *b, const struct graph_op *o,
                            const struct launch_scheme *w, uint32_t panels) {
    const uint64_t bytes = (uint64_t)w->tokens * panels * PANEL_ROWS * sizeof(float);
    return w->alone ? ARITH_MAX(bytes, sums_bytes(b, o, w)) : bytes;
}

/* Panels of a group of DEALT16: so few that their groups are enough for the device. */
static uint32_t dealt_panels(const struct launch_list *b, const struct graph_op *o, uint32_t panels) {
    const uint32_t least = graph_op_gated(o) ? 1 : 2;
    uint32_t each = 2 * least;
    while (each > least && arith_ceil_div(panels, each) * 64 < b->traits->threads)
        each /= 2;
    return each;
}

/* Panels that a group should have: enough for its items. */
uint32_t launch_scheme_panels(const struct launch_list *b, const struct graph_op *o,
                              const struct launch_scheme *w, uint32_t panels) {
    if (w->family == DPAS16)
        return wide_panels(b, o, panels);
    if (w->family >= PREFILL)
        return 16;
    if (w->family == DEALT16)
        return dealt_panels(b, o, panels);
    return (w->family == FEW ? OPENCL_FEW_ROWS : 1) * (uint32_t)arith_ceil_div(8, ARITH_MIN(w->segments, 8u));
}

/* Groups that share a unit of 256 outputs which share a scale: each has `each` panels or more. */
uint32_t launch_scheme_sharing(const struct launch_list *b, const struct graph_op *o,
                               const struct launch_scheme *w, uint32_t each) {
    uint32_t together = 1;
    while (w->family < PREFILL && set_of(b->g, o) != SET_any && 16 / (together * 2) >= each)
        together *= 2;
    return together;
}

struct launch_scheme launch_scheme_experts(const struct launch_list *b, const struct graph_op *o) {
    const uint32_t set = set_of(b->g, o);
    struct launch_scheme w = {.tokens = launch_experts_tile(b, &o->experts)};
    w.family = w.tokens == 1 ? decode1_family(b, set) : prefill_family(b, set);
    w.kernel = kernel_of(w.family, set, EXPERTS);
    w.segments = (uint32_t)arith_ceil_div(b->g->weights[o->weight[0]].layout.cols, KERNELS_SEGMENT);
    return w;
}

/* One token like a product of one, more in tiles. */
struct launch_scheme launch_scheme_each(const struct launch_list *b, const struct graph_op *o) {
    const struct panel_layout *l = &b->g->weights[o->weight[0]].layout;
    const uint32_t set = each_set_of(l->type);
    struct launch_scheme w = {.tokens = 1, .family = DECODE1, .kernel = LAUNCH_EACH + set};
    w.segments = (uint32_t)arith_ceil_div(l->cols, KERNELS_SEGMENT);
    if (b->rows == 1)
        return w;
    w.family = prefill_family(b, set_of(b->g, o));
    w.kernel += EACH_SETS;
    if (w.family != PREFILL)
        w.kernel += EACH_SETS + (w.family - PREFILL8) * EACH_INTEGER;
    return w;
}
