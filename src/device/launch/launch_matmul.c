/* Products as launches: which kernel (by weight types, tokens and traits), how rows are cut into units of
 * work and k into segments, and where a weight that lies in several slices is cut. No state. */
#include "device/launch/launch_parts.h"

#include "kernels/kernels.h"
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

/* The families of products, in the order of modules.def. FEW, DEALT16, and from PREFILL8 on: of
 * integers; WIDE1: where registers are wide, not of sets with all (K) types. */
enum family { DECODE1, WIDE1, DECODE4, FEW, DEALT16, PREFILL, PREFILL8, DPAS8, DPAS16 };
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
_Static_assert(sizeof families / sizeof families[0] == DPAS16 + 1, "enum family is what modules.def has");

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

static uint32_t kernel_of(enum family family, uint32_t set, enum kernel kernel) {
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

/* How a product is computed. */
struct scheme {
    enum family family;
    uint32_t kernel;
    uint32_t tokens;   /* in a pass (choose_tokens) */
    uint32_t segments; /* of k */
    uint32_t split;    /* of the decode families segments at once, else tokens */
    uint32_t group;    /* work items */
    uint32_t dealt;    /* DEALT16: segments of k at once */
    bool alone;        /* DPAS16: a group has all places of a tile at once (cl_wide_sums.h) */
};

static enum family prefill_family(const struct launch_list *b, uint32_t set) {
    const bool eight = b->traits->sub_group_sizes & 1u << 3;
    if (set >= SETS_INTEGER)
        return PREFILL;
    if (b->traits->dpas)
        return eight ? DPAS8 : DPAS16;
    return eight ? PREFILL8 : PREFILL;
}

/* For one token. */
static enum family decode1_family(const struct launch_list *b, uint32_t set) {
    const bool eight = b->traits->sub_group_sizes & 1u << 3;
    return !eight && set != SET_k_all && set != SET_any ? WIDE1 : DECODE1;
}

/* How a tile of many tokens (matmul_prefill.cl) or a pass of few (matmul_few.cl) is dealt out. */
struct tile {
    uint32_t tokens; /* whose activations, or sums, local memory has room for */
    uint32_t each, rows;
};

static struct tile tile_of(enum family family, uint32_t set) {
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

static bool for_dealt(const struct graph_op *o, enum family many, uint32_t set, uint32_t rows, bool heads) {
    const bool mixed = set == SET_k && graph_op_gated(o);
    return many == DPAS16 && set < SETS_DEALT && !mixed && rows <= DEALT_MOST &&
           rows > (heads ? DEALT_HEADS_ABOVE : DEALT_ABOVE);
}

/* Whether the weights had better be read once for each eight tokens: for up to LAUNCH_FEW, and for twice as
 * many where tiles of many tokens would leave most of the device idle. Beside DPAS16 always for twice as
 * many: its sub-groups walk all of k, and on an H200 such steps took three to seven times as long. */
static bool for_few(const struct launch_list *b, const struct graph_op *o, enum family many, uint32_t set,
                    uint32_t rows) {
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
static uint32_t rows_of(const struct launch_list *b, const struct graph_op *o) {
    return o->epilogue == GRAPH_PAIRS ? 2 * b->rows : b->rows;
}

static struct scheme choose_scheme(const struct launch_list *b, const struct graph_op *o, bool heads) {
    struct scheme w = {0};
    uint32_t set = set_of(b->g, o), rows = rows_of(b, o);
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
static uint64_t staged_bytes(const struct tile *tile, enum family family, uint32_t set, uint32_t group) {
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
    const uint32_t rows = rows_of(b, o), most = ARITH_MIN(b->traits->max_group, MOST_ITEMS / 2) / 16;
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
static uint32_t dealt_segments(const struct launch_list *b, const struct scheme *w, uint32_t panels,
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
    const uint32_t rows = rows_of(b, o), least = tile_of(DPAS16, set_of(b->g, o)).rows;
    uint32_t each = 8;
    while (each > least && rows <= 64 &&
           arith_ceil_div(panels, each) * arith_ceil_div(rows, 32) * 64 < b->traits->threads)
        each /= 2;
    return each;
}

/* Tokens of a tile or a pass of FEW: so many that it fits beside what else is in local memory, for `panels`
 * of a group; of a pass so few that, if passes are dealt out to groups, `units` of these fill half of the
 * device. */
static void choose_tokens(const struct launch_list *b, const struct graph_op *o, struct scheme *w,
                          uint32_t panels, uint32_t units) {
    if (w->family < FEW)
        return;
    const uint32_t set = set_of(b->g, o), rows = rows_of(b, o);
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
static void choose_group(const struct launch_list *b, const struct graph_op *o, struct scheme *w,
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
static uint64_t sums_bytes(const struct launch_list *b, const struct graph_op *o, const struct scheme *w) {
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
static uint64_t work_bytes(const struct launch_list *b, const struct graph_op *o, const struct scheme *w,
                           uint32_t panels, uint64_t epilogue) {
    uint64_t bytes = w->alone ? 0 : sums_bytes(b, o, w);
    uint64_t words =
        ARITH_MIN(3 * (uint64_t)w->group, (uint64_t)w->tokens * OPENCL_QUANTISE_WORDS(16 * panels));
    if (w->family == DPAS16 && graph_op_gated(o))
        bytes = ARITH_MAX(bytes, WIDE_WORK(w->group));
    return ARITH_MAX(ARITH_MAX(bytes, words * sizeof(uint32_t)), ARITH_MAX(epilogue, sizeof(float)));
}

/* Bytes of a tile of so many panels. */
static uint64_t tile_bytes(const struct launch_list *b, const struct graph_op *o, const struct scheme *w,
                           uint32_t panels) {
    const uint64_t bytes = (uint64_t)w->tokens * panels * PANEL_ROWS * sizeof(float);
    return w->alone ? ARITH_MAX(bytes, sums_bytes(b, o, w)) : bytes;
}

/* A run of units whose panels lie, for each weight, in at most two pieces one after the other. */
struct run {
    uint32_t first_unit;
    uint32_t units;
    uint32_t piece[GRAPH_OP_WEIGHTS];
};

/* Panels of weight i that unit u reads; false: none. */
typedef bool panels_of(const void *shape, uint32_t unit, uint32_t i, uint32_t *first, uint32_t *end);

uint32_t launch_piece_of(const struct graph_weight *w, uint32_t panel) {
    uint32_t i = 0;
    while (panel >= w->pieces[i].first_panel + w->pieces[i].panels)
        i++;
    CHECK(i < w->n_pieces);
    return i;
}

/* The longest run from r->first_unit on. False: one unit is cut more than once. */
static bool find_run(const struct launch_list *b, const struct graph_op *o, panels_of *f, const void *shape,
                     uint32_t end_unit, struct run *r) {
    bool known[GRAPH_OP_WEIGHTS] = {false};
    CHECK(r->first_unit < end_unit && o->n_weights <= GRAPH_OP_WEIGHTS);
    r->units = 0;
    for (uint32_t i = 0; i < GRAPH_OP_WEIGHTS; i++)
        r->piece[i] = 0;
    for (uint32_t u = r->first_unit; u < end_unit; u++) {
        for (uint32_t i = 0; i < o->n_weights; i++) {
            const struct graph_weight *w = &b->g->weights[o->weight[i]];
            uint32_t first = 0, end = 0;
            if (!f(shape, u, i, &first, &end))
                continue;
            if (!known[i]) {
                r->piece[i] = launch_piece_of(w, first);
                known[i] = true;
            }
            if (launch_piece_of(w, end - 1) > r->piece[i] + 1)
                return r->units > 0;
        }
        r->units++;
    }
    return true;
}

stator_status launch_cut_too_often(const struct launch_list *b, const struct graph_op *o) {
    const struct gguf_tensor *t = b->g->weights[o->weight[0]].tensor;
    return error_set(b->e, STATOR_DEVICE,
                     "tensor '%.*s' is cut into slices smaller than the kernels' units of work: allow larger "
                     "allocations (max_alloc)",
                     (int)t->name.length, t->name.data);
}

/* What weights of the op have: OPENCL_BIAS, OPENCL_FACTOR. */
uint32_t launch_biased_bits(const struct graph_op *o) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < o->n_weights; i++) {
        bits |= o->bias[i] != GRAPH_NONE ? OPENCL_BIAS(i) : 0;
        bits |= o->factor[i] != GRAPH_NONE ? OPENCL_FACTOR(i) : 0;
    }
    return bits;
}

/* A weight from its piece on. */
struct launch_weight launch_weight_of(const struct launch_list *b, uint32_t weight, uint32_t piece) {
    const struct graph_weight *w = &b->g->weights[weight];
    const struct graph_piece *p = &w->pieces[piece];
    const struct graph_piece *next = piece + 1 < w->n_pieces ? p + 1 : p;
    CHECK(piece < w->n_pieces);
    return (struct launch_weight){
        .a = {DEVICE_WEIGHTS, p->slice, p->offset},
        .b = {DEVICE_WEIGHTS, next->slice, next->offset},
        .first = p->first_panel,
        .cut = p->first_panel + p->panels,
        .type = w->layout.type,
        .file = w->layout.file,
    };
}

/* The forms of a product. Where it is wanted as integers, nothing reads its floats. */
uint32_t launch_forms_wanted(const struct graph_value *v) {
    return v->forms == GRAPH_F32 ? GRAPH_F32 : v->forms & ~(uint32_t)GRAPH_F32;
}

/* Tiles or passes that are dealt out to groups, `together` of which share a unit. */
static uint64_t tiles_of(const struct launch_list *b, const struct graph_op *o, const struct scheme *w,
                         uint32_t together) {
    return w->family >= FEW && together == 1 ? arith_ceil_div(rows_of(b, o), w->tokens) : 1;
}

/* Where groups that share a unit are counted, if there is room for n counts; else GRAPH_NONE. */
static uint32_t arrivals_of(const struct launch_list *b, uint64_t n) {
    for (uint32_t i = 0; i < b->g->n_ops; i++) {
        const struct graph_op *o = &b->g->ops[i];
        if (o->kind != GRAPH_ATTENTION || o->attention.arrivals == GRAPH_NONE)
            continue;
        const struct graph_value *v = &b->g->values[o->attention.arrivals];
        return n <= (uint64_t)v->rows * v->width ? o->attention.arrivals : GRAPH_NONE;
    }
    return GRAPH_NONE;
}

static struct launch_at counts_at(const struct launch_list *b, uint32_t arrivals) {
    return arrivals == GRAPH_NONE ? launch_nowhere() : launch_floats(b, arrivals);
}

struct plain_shape {
    uint32_t unit; /* panels */
    uint32_t panels;
    uint32_t panels1; /* of weight 1, whose units come behind; 0: all units read both weights */
};

static bool plain_panels(const void *shape, uint32_t unit, uint32_t i, uint32_t *first, uint32_t *end) {
    const struct plain_shape *s = shape;
    const uint32_t units = (uint32_t)arith_ceil_div(s->panels, s->unit);
    const bool second = s->panels1 > 0 && unit >= units;
    if (s->panels1 > 0 && second != (i == 1))
        return false;
    *first = (second ? unit - units : unit) * s->unit;
    *end = ARITH_MIN(*first + s->unit, second ? s->panels1 : s->panels);
    return true;
}

/* How a plain product's rows are cut: a unit's panels, and how many groups share a unit. */
struct cut {
    uint32_t unit, together;
};

/* Panels of a group of DEALT16: so few that their groups are enough for the device. */
static uint32_t dealt_panels(const struct launch_list *b, const struct graph_op *o, uint32_t panels) {
    const uint32_t least = graph_op_gated(o) ? 1 : 2;
    uint32_t each = 2 * least;
    while (each > least && arith_ceil_div(panels, each) * 64 < b->traits->threads)
        each /= 2;
    return each;
}

/* Panels that a group should have: enough for its items. */
static uint32_t panels_each(const struct launch_list *b, const struct graph_op *o, const struct scheme *w,
                            uint32_t panels) {
    if (w->family == DPAS16)
        return wide_panels(b, o, panels);
    if (w->family >= PREFILL)
        return 16;
    if (w->family == DEALT16)
        return dealt_panels(b, o, panels);
    return (w->family == FEW ? OPENCL_FEW_ROWS : 1) * (uint32_t)arith_ceil_div(8, ARITH_MIN(w->segments, 8u));
}

/* Groups that share a unit of 256 outputs which share a scale: each has `each` panels or more. */
static uint32_t sharing(const struct launch_list *b, const struct graph_op *o, const struct scheme *w,
                        uint32_t each) {
    uint32_t together = 1;
    while (w->family < PREFILL && set_of(b->g, o) != SET_any && 16 / (together * 2) >= each)
        together *= 2;
    return together;
}

/* A unit has whole groups of the int8 forms that the epilogue makes. */
static struct cut plain_cut(const struct launch_list *b, const struct graph_op *o, const struct scheme *w,
                            uint32_t panels, uint32_t *arrivals) {
    uint32_t forms = b->g->values[o->out].forms, each = panels_each(b, o, w, panels);
    *arrivals = GRAPH_NONE;
    if (graph_op_gated(o) && forms & GRAPH_I8_256) {
        const struct cut c = {16, sharing(b, o, w, each)};
        if (c.together > 1)
            *arrivals = arrivals_of(b, arith_ceil_div(panels, 16));
        return *arrivals == GRAPH_NONE ? (struct cut){16, 1} : c;
    }
    each = ARITH_MIN(each, panels);
    if (graph_op_gated(o) && forms & GRAPH_I8_32)
        each = (uint32_t)arith_round_up(each, 2);
    return (struct cut){each, 1};
}

/* Families whose kernels have registers for two products (CL_PAIRS). */
static bool has_pairs(enum family family) {
    return family == WIDE1 || family == PREFILL || family == DPAS16;
}

/* o: the op, or what it does with one of its weights; or, if it is not gated and has two, the products of it
 * and of the next op, whose value is out1. */
static stator_status launch_product(struct launch_list *b, uint32_t op, const struct graph_op *o,
                                    uint32_t out1) {
    const struct graph_value *out = &b->g->values[o->out];
    const bool two = graph_op_gated(o), pair = !two && o->n_weights == 2;
    CHECK(o->n_weights == (two || pair ? 2 : 1));
    struct scheme w = choose_scheme(b, o, false);
    CHECK(!pair || has_pairs(w.family));
    const struct panel_layout *layout = &b->g->weights[o->weight[0]].layout;
    const struct panel_layout *other = &b->g->weights[o->weight[pair]].layout;
    uint32_t arrivals;
    const struct cut cut = plain_cut(b, o, &w, layout->panels + (pair ? other->panels : 0), &arrivals);
    const struct plain_shape s = {
        .unit = cut.unit, .panels = layout->panels, .panels1 = pair ? other->panels : 0};
    const uint32_t mine = (two && w.family < PREFILL ? 2 : 1) * (cut.unit / cut.together);
    const uint32_t units =
        (uint32_t)(arith_ceil_div(layout->panels, s.unit) + arith_ceil_div(s.panels1, s.unit));
    choose_tokens(b, o, &w, w.family < PREFILL || w.family == DPAS16 ? mine : 16,
                  cut.together == 1 ? units : UINT32_MAX);
    choose_group(b, o, &w, mine);
    CHECK(cut.unit % cut.together == 0 && w.tokens > 0 && w.group > 0 && w.group % 16 == 0);
    for (struct run r = {0}; r.first_unit < units; r.first_unit += r.units) {
        if (!find_run(b, o, plain_panels, &s, units, &r))
            return launch_cut_too_often(b, o);
        struct launch *l =
            launch_add(b, w.kernel, op, w.group, r.units * cut.together * tiles_of(b, o, &w, cut.together));
        launch_put_matmul(b, l,
                          &(struct launch_matmul_arguments){
                              .in = launch_source_of(b, o),
                              .w0 = launch_weight_of(b, o->weight[0], r.piece[0]),
                              .w1 = launch_weight_of(b, o->weight[two || pair], r.piece[two || pair]),
                              .rows = layout->rows,
                              .unit = s.unit,
                              .first_unit = r.first_unit,
                              .units = r.units,
                              .split = w.split,
                              .tail = o->wanted || op >= b->g->tail,
                              .epilogue = o->epilogue,
                              .out = launch_forms_of(b, o->out, two ? launch_forms_wanted(out) : GRAPH_F32),
                              .column = o->column[0],
                              .bias0 = launch_plain_weight(b, o->bias[0]),
                              .bias1 = launch_plain_weight(b, o->bias[1]),
                              .biased = launch_biased_bits(o),
                              .factor0 = launch_plain_weight(b, o->factor[0]),
                              .factor1 = launch_plain_weight(b, o->factor[1]),
                              .together = cut.together,
                              .arrivals = counts_at(b, arrivals),
                              .rows1 = pair ? other->rows : 0,
                              .out1 = pair ? launch_floats(b, out1) : launch_nowhere(),
                              .out1_width = pair ? b->g->values[out1].width : 0,
                              .column1 = o->column[pair],
                              .tile = ARITH_MAX(tile_bytes(b, o, &w, mine), 256 * sizeof(float)),
                              .work = work_bytes(b, o, &w, s.unit, 0),
                          });
    }
    return STATOR_OK;
}

/* Whether a launch may have the op's product and another one. */
static bool may_be_joined(const struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    return op < b->g->tail && o->kind == GRAPH_MATMUL && o->epilogue == GRAPH_STORE && o->n_weights == 1 &&
           o->bias[0] == GRAPH_NONE && o->factor[0] == GRAPH_NONE && !o->wanted && !launch_is_router(b, op) &&
           !launch_is_heads(b, op);
}

/* Whether the op's launch has the next one's product, too: both are of one value and one type, and store. */
static bool joins_next(const struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    if (op + 1 >= b->g->tail || o[1].in != o->in || !may_be_joined(b, op) || !may_be_joined(b, op + 1))
        return false;
    return b->g->weights[o->weight[0]].layout.type == b->g->weights[o[1].weight[0]].layout.type &&
           has_pairs(choose_scheme(b, o, false).family) && !(op > 0 && joins_next(b, op - 1));
}

static stator_status launch_pair_of(struct launch_list *b, uint32_t op) {
    struct graph_op both = b->g->ops[op];
    const struct graph_op *next = &b->g->ops[op + 1];
    both.n_weights = 2;
    both.weight[1] = next->weight[0];
    both.column[1] = next->column[0];
    return launch_product(b, op, &both, next->out);
}

stator_status launch_matmul(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    if (graph_op_gated(o))
        return launch_product(b, op, o, GRAPH_NONE);
    if (op > 0 && joins_next(b, op - 1))
        return STATOR_OK; /* launched with it */
    if (joins_next(b, op))
        return launch_pair_of(b, op);
    for (uint32_t i = 0; i < o->n_weights; i++) {
        struct graph_op one = *o;
        one.n_weights = 1;
        if (o->epilogue == GRAPH_RELU2 || o->epilogue == GRAPH_GELU_ONE)
            one.epilogue = GRAPH_STORE;
        for (uint32_t k = 1; k < GRAPH_OP_WEIGHTS; k++)
            one.weight[k] = one.bias[k] = one.factor[k] = GRAPH_NONE;
        one.weight[0] = o->weight[i];
        one.bias[0] = o->bias[i];
        one.factor[0] = o->factor[i];
        one.column[0] = o->column[i];
        stator_status st = launch_product(b, op, &one, GRAPH_NONE);
        if (st != STATOR_OK)
            return st;
    }
    if (o->epilogue == GRAPH_RELU2)
        launch_relu2(b, op, 1);
    if (o->epilogue == GRAPH_GELU_ONE)
        launch_gelu_one(b, op);
    return STATOR_OK;
}

struct heads_shape {
    uint32_t heads; /* of a unit */
    uint32_t parts; /* units of a head, if a unit has one head or less */
    uint32_t n_heads[GRAPH_OP_WEIGHTS];
    uint32_t dim[GRAPH_OP_WEIGHTS];
};

static uint32_t units_of(const struct heads_shape *s, uint32_t i) {
    return (uint32_t)arith_ceil_div(s->n_heads[i], s->heads) * s->parts;
}

static bool heads_panels(const void *shape, uint32_t unit, uint32_t i, uint32_t *first, uint32_t *end) {
    const struct heads_shape *s = shape;
    for (uint32_t j = 0; j < i; j++) {
        if (unit < units_of(s, j))
            return false;
        unit -= units_of(s, j);
    }
    if (unit >= units_of(s, i))
        return false;
    const uint32_t wide = s->dim[i] / s->parts;
    *first = unit * s->heads * wide / PANEL_ROWS;
    *end = ARITH_MIN((unit + 1) * s->heads, s->n_heads[i] * s->parts) * wide / PANEL_ROWS;
    return true;
}

stator_status launch_heads(struct launch_list *b, uint32_t op, uint32_t rope) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_rope *of = &b->g->ops[rope].rope;
    const bool normed = b->g->ops[rope].n_weights > 0;
    const bool q_only = of->kv_heads == 0;
    CHECK(o->n_weights == (q_only ? 1 : 3) && o->epilogue == GRAPH_STORE && b->g->ops[rope].in == o->out &&
          o->column[0] == 0);
    /* A kernel looks at no K and V of zero heads: they may be anything. */
    const uint32_t of_k = o->weight[q_only ? 0 : 1], of_v = o->weight[q_only ? 0 : 2];
    struct scheme w = choose_scheme(b, o, true);
    struct heads_shape s = {.n_heads = {of->heads, of->kv_heads, of->kv_heads},
                            .dim = {of->dim_k, of->dim_k, of->dim_v},
                            .parts = 1};
    uint32_t widest = ARITH_MAX(of->dim_k, of->dim_v);
    const uint32_t together = w.family == DPAS16 ? 128 / widest : 256 / widest;
    s.heads = w.family >= PREFILL ? ARITH_MAX(ARITH_MIN(together, of->kv_heads), 1u) : 1;
    uint32_t panels = s.heads * widest / PANEL_ROWS;
    uint32_t units = units_of(&s, 0) + units_of(&s, 1) + units_of(&s, 2);
    choose_tokens(b, o, &w, panels, units);
    choose_group(b, o, &w, panels);
    /* With one token, a group without room for a whole head takes half of it, if the halves do not depend on
     * each other. */
    if (w.family <= WIDE1 && w.group < 16 * w.split * panels && !normed && !of->norm_v && !of->neox &&
        of->dim_k % 64 == 0 && of->dim_v % 64 == 0) {
        s.parts = 2;
        panels /= 2;
        units *= 2;
        choose_group(b, o, &w, panels);
    }
    CHECK(panels > 0 && w.tokens > 0 && w.group > 0 && w.group % 16 == 0);
    /* Where q has angles of its own, no launch has both q and k. */
    const uint32_t of_q = of->angles_q != GRAPH_NONE ? units_of(&s, 0) : 0;
    for (struct run r = {0}; r.first_unit < units; r.first_unit += r.units) {
        const bool q_alone = r.first_unit < of_q;
        const uint32_t angles = q_alone ? of->angles_q : of->angles;
        if (!find_run(b, o, heads_panels, &s, q_alone ? of_q : units, &r))
            return launch_cut_too_often(b, o);
        struct launch *l = launch_add(b, w.kernel, op, w.group, r.units * tiles_of(b, o, &w, 1));
        struct launch_heads_arguments args = {
            .in = launch_source_of(b, o),
            .w0 = launch_weight_of(b, o->weight[0], r.piece[0]),
            .w1 = launch_weight_of(b, of_k, r.piece[1]),
            .w2 = launch_weight_of(b, of_v, r.piece[2]),
            .heads = s.heads,
            .first_unit = r.first_unit,
            .units = r.units,
            .split = w.split,
            .q = launch_floats(b, o->out),
            .width = b->g->values[o->out].width,
            .n_heads = of->heads,
            .n_kv_heads = of->kv_heads,
            .head_k = of->dim_k,
            .head_v = of->dim_v,
            .n_rot = of->n_rot,
            .rotation = launch_rotation(b, of, angles),
            .biased = launch_biased_bits(o),
            .bias0 = launch_plain_weight(b, o->bias[0]),
            .bias1 = launch_plain_weight(b, o->bias[1]),
            .bias2 = launch_plain_weight(b, o->bias[2]),
            .factor0 = launch_plain_weight(b, o->factor[0]),
            .factor1 = launch_plain_weight(b, o->factor[1]),
            .factor2 = launch_plain_weight(b, o->factor[2]),
            .normed = (normed ? OPENCL_NORMED_QK : 0u) | (of->norm_v ? OPENCL_NORMED_V : 0u) |
                      (s.parts == 2 ? OPENCL_HALVES : 0u),
            .q_norm = launch_plain_weight(b, normed ? b->g->ops[rope].weight[0] : GRAPH_NONE),
            .k_norm = launch_plain_weight(b, normed && !q_only ? b->g->ops[rope].weight[1] : GRAPH_NONE),
            .inv_head = of->norm.inv_width,
            .eps = of->norm.eps,
            .tile = tile_bytes(b, o, &w, panels),
            .work = work_bytes(b, o, &w, 0, 8 * 128 * sizeof(float)),
        };
        stator_status st = launch_cache_of(b, &b->g->ops[rope], &args.kv);
        if (st != STATOR_OK)
            return st;
        launch_put_heads(b, l, &args);
    }
    return STATOR_OK;
}

/* A unit has whole groups of the int8 forms that the epilogue makes. */
static struct cut experts_cut(const struct launch_list *b, const struct graph_op *o, const struct scheme *w,
                              uint32_t *arrivals) {
    const uint32_t forms = b->g->values[graph_op_opens_experts(o) ? o->out : o->work].forms;
    const uint32_t panels = b->g->weights[o->weight[0]].layout.panels;
    const uint32_t each = w->family == DPAS16    ? 8
                          : w->family >= PREFILL ? 16
                                                 : (uint32_t)arith_ceil_div(8, ARITH_MIN(w->segments, 8u));
    *arrivals = GRAPH_NONE;
    if (graph_op_gated(o) && forms & GRAPH_I8_256) {
        const struct cut c = {16, sharing(b, o, w, each)};
        if (c.together > 1)
            *arrivals = arrivals_of(b, (uint64_t)b->rows * o->experts.used * arith_ceil_div(panels, 16));
        return *arrivals == GRAPH_NONE ? (struct cut){16, 1} : c;
    }
    const uint32_t unit = ARITH_MIN(each, panels);
    return (struct cut){graph_op_gated(o) && forms & GRAPH_I8_32 ? (uint32_t)arith_round_up(unit, 2) : unit,
                        1};
}

struct launch_shape launch_experts_shape(const struct launch_list *b, const struct graph_op *o) {
    const uint32_t set = set_of(b->g, o);
    struct scheme w = {.tokens = launch_experts_tile(b, &o->experts)};
    w.family = w.tokens == 1 ? decode1_family(b, set) : prefill_family(b, set);
    w.kernel = kernel_of(w.family, set, EXPERTS);
    w.segments = (uint32_t)arith_ceil_div(b->g->weights[o->weight[0]].layout.cols, KERNELS_SEGMENT);
    uint32_t arrivals;
    const struct cut cut = experts_cut(b, o, &w, &arrivals);
    const uint32_t mine = cut.unit / cut.together;
    const uint32_t panels = graph_op_gated(o) && w.family < PREFILL ? 2 * mine : mine;
    choose_tokens(b, o, &w, mine, UINT32_MAX);
    choose_group(b, o, &w, panels);
    return (struct launch_shape){.kernel = w.kernel,
                                 .group = w.group,
                                 .split = w.split,
                                 .unit = cut.unit,
                                 .together = cut.together,
                                 .arrivals = counts_at(b, arrivals),
                                 .tile = ARITH_MAX(tile_bytes(b, o, &w, panels), 256 * sizeof(float)),
                                 .work = work_bytes(b, o, &w, cut.unit, 0)};
}

/* One token like a product of one, more in tiles. */
static struct scheme each_scheme(const struct launch_list *b, const struct graph_op *o) {
    const struct panel_layout *l = &b->g->weights[o->weight[0]].layout;
    const uint32_t set = each_set_of(l->type);
    struct scheme w = {.tokens = 1, .family = DECODE1, .kernel = LAUNCH_EACH + set};
    w.segments = (uint32_t)arith_ceil_div(l->cols, KERNELS_SEGMENT);
    if (b->rows == 1)
        return w;
    w.family = prefill_family(b, set_of(b->g, o));
    w.kernel += EACH_SETS;
    if (w.family != PREFILL)
        w.kernel += EACH_SETS + (w.family - PREFILL8) * EACH_INTEGER;
    return w;
}

stator_status launch_each(struct launch_list *b, uint32_t op) {
    const struct graph_op *o = &b->g->ops[op];
    const struct graph_weight *weight = &b->g->weights[o->weight[0]];
    const struct panel_layout *layout = &weight->layout;
    const struct graph_value *out = &b->g->values[o->out];
    CHECK(o->n_weights == 1 && o->bias[0] == GRAPH_NONE && out->forms == GRAPH_F32);
    struct scheme w = each_scheme(b, o);
    const uint32_t unit = ARITH_MIN(panels_each(b, o, &w, layout->panels), layout->panels);
    choose_tokens(b, o, &w, unit, UINT32_MAX);
    choose_group(b, o, &w, unit);
    const uint64_t units = arith_ceil_div(layout->panels, unit) * arith_ceil_div(b->rows, w.tokens);
    struct launch_at to = launch_floats(b, o->out);
    to.offset += o->column[0] * sizeof(float);
    for (struct launch_experts_run r = {0}; r.first < weight->matrices; r.first = r.end) {
        if (!launch_find_experts(b->g, o, 0, &r))
            return launch_cut_too_often(b, o);
        struct launch *l = launch_add(b, w.kernel, op, w.group, (r.end - r.first) * units);
        launch_put_each(b, l,
                        &(struct launch_each_arguments){
                            .in = launch_source_of(b, o),
                            .in_width = b->g->values[o->in].width,
                            .in_stride = o->heads.in_stride,
                            .w0 = launch_weight_of(b, o->weight[0], r.piece[0]),
                            .rows = layout->rows,
                            .unit = unit,
                            .split = w.split,
                            .first = r.first,
                            .end = r.end,
                            .out = to,
                            .out_width = out->width,
                            .out_stride = o->heads.out_stride,
                            .factor0 = launch_plain_weight(b, o->factor[0]),
                            .biased = launch_biased_bits(o),
                            .tile = tile_bytes(b, o, &w, unit),
                            .work = work_bytes(b, o, &w, unit, 0),
                        });
    }
    return STATOR_OK;
}
