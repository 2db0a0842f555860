#include "graph/share.h"

#include <stdio.h>

#define SHARE_ENDS 4  /* the embedding, the output matrix, and those of the MTP head */
#define COARSER    16 /* a share in larger units may have this part of its rows more */

struct sharing {
    struct graph *g;
    const char *arch;
    stator_error *e;
    const struct graph_op *whole; /* the ops of the whole graph, at the end of the table */
    uint32_t n_whole;
    bool has_units[GRAPH_MAX_CACHES]; /* the cache has its number of KV heads */
    bool whole_heads;                 /* every device computes all heads of this layer */
    /* Embeddings and output matrices, which several ops may have, and whose rows are where. */
    struct {
        uint32_t weight;
        struct graph_exchanged x;
    } ends[SHARE_ENDS];
    uint32_t n_ends;
};

/* Heads [first_q, end_q) and KV heads [first_kv, end_kv). */
struct heads {
    uint32_t first_q, end_q;
    uint32_t first_kv, end_kv;
};

/* Units before those of device `index`. Every device has one at least, if there are as many as devices. */
static uint32_t begin_of(uint32_t units, const struct graph_share *share, uint32_t index) {
    uint64_t before = 0, all = 0;
    for (uint32_t i = 0; i < share->count; i++) {
        before += i < index ? share->parts[i] : 0;
        all += share->parts[i];
    }
    const uint32_t begin = (uint32_t)((units * before + all / 2) / all); /* to the nearest */
    if (units < share->count)
        return begin;
    return ARITH_MIN(ARITH_MAX(begin, index), units - (share->count - index));
}

static uint32_t even(uint32_t units, uint32_t count, uint32_t index) {
    return (uint32_t)((uint64_t)units * index / count);
}

/* If there are fewer KV heads than devices, several devices have one KV head, each with some of its heads,
 * evenly. */
static struct heads heads_of(uint32_t heads, uint32_t kv_heads, const struct graph_share *share,
                             uint32_t index) {
    const uint32_t group = heads / kv_heads, count = share->count;
    if (kv_heads >= count) {
        const uint32_t begin = begin_of(kv_heads, share, index), stop = begin_of(kv_heads, share, index + 1);
        return (struct heads){begin * group, stop * group, begin, stop};
    }
    const uint32_t kv = even(kv_heads, count, index);
    const uint32_t first = (uint32_t)arith_ceil_div((uint64_t)kv * count, kv_heads);
    const uint32_t end = (uint32_t)arith_ceil_div((uint64_t)(kv + 1) * count, kv_heads);
    return (struct heads){kv * group + even(group, end - first, index - first),
                          kv * group + even(group, end - first, index - first + 1), kv, kv + 1};
}

static struct heads own_heads(const struct sharing *s, uint32_t heads, uint32_t kv_heads) {
    return heads_of(heads, kv_heads, &s->g->want.share, s->g->want.share.index);
}

/* Rows of a matrix; of one that another product has cut already, all rows of its tensor. */
static uint32_t rows_in_all(const struct graph_weight *w) {
    return w->cut ? (uint32_t)w->tensor->ne[1] : w->layout.rows;
}

/* Rows of a matrix before those of device `index`, in units of so many rows. */
static uint32_t row_of(const struct graph_weight *w, uint32_t unit, const struct graph_share *share,
                       uint32_t index) {
    const uint32_t rows = rows_in_all(w);
    return ARITH_MIN(begin_of((uint32_t)arith_ceil_div(rows, unit), share, index) * unit, rows);
}

/* Values of a row that have one scale; 0: there is not one int8 form. */
static uint32_t scaled_together(uint32_t forms) {
    const uint32_t form = forms & ~(uint32_t)GRAPH_F32;
    return form == GRAPH_I8_32 ? 32 : form == GRAPH_I8_256 ? 256 : 0;
}

/* Whether no device has much more of the matrix in units of `unit` rows than in those of `fine`. */
static bool divides_as_well(const struct graph_weight *w, const struct graph_share *share, uint32_t unit,
                            uint32_t fine) {
    for (uint32_t i = 0; i < share->count; i++) {
        const uint32_t rows = row_of(w, unit, share, i + 1) - row_of(w, unit, share, i);
        const uint32_t least = row_of(w, fine, share, i + 1) - row_of(w, fine, share, i);
        if (rows == 0 || rows > least + least / COARSER)
            return false;
    }
    return true;
}

/* Rows of the op's matrix that one device has: all that become values with one scale, so that these can be
 * exchanged as int8; fewer where the shares would be too uneven. */
static uint32_t rows_together(const struct sharing *s, const struct graph_op *op,
                              const struct graph_weight *w) {
    const uint32_t fine = graph_weight_together(w);
    const bool opens = graph_op_activated(op) || (op->kind == GRAPH_EXPERTS && graph_op_opens_experts(op));
    const uint32_t unit = opens ? scaled_together(s->g->values[op->out].forms) : 0;
    if (unit == 0 || unit % fine != 0 || rows_in_all(w) % unit != 0)
        return fine;
    return divides_as_well(w, &s->g->want.share, unit, fine) ? unit : fine;
}

/* A weight of two products has the same rows in both: V may be the product of K. */
static void cut(const struct sharing *s, const struct graph_op *op, uint32_t k, uint32_t first,
                uint32_t end) {
    const struct graph_weight *w = &s->g->weights[op->weight[k]];
    if (!w->cut)
        graph_weight_cut(s->g, op->weight[k], first, end - first);
    CHECK(w->layout.rows == end - first);
    if (op->bias[k] != GRAPH_NONE)
        graph_weight_cut(s->g, op->bias[k], first, end - first);
}

/* A value for this device's columns of `whole`. */
static uint32_t own_value(const struct sharing *s, uint32_t whole, uint32_t width) {
    char name[sizeof s->g->values[whole].name];
    snprintf(name, sizeof name, "%.27s.own", s->g->values[whole].name);
    return graph_add_value(s->g, name, GRAPH_SCRATCH, s->g->values[whole].rows, width, GRAPH_F32);
}

/* The same for an exchange of all columns, in the form in which they go: whatever makes int8 of the whole
 * value makes the same of this device's columns, if no group with one scale is cut. */
static uint32_t given_value(const struct sharing *s, uint32_t whole, uint32_t width,
                            struct graph_exchanged *x) {
    const uint32_t forms = s->g->values[whole].forms, together = scaled_together(forms);
    const uint32_t own = own_value(s, whole, width);
    bool cuts = together == 0 || x->column != 0;
    for (uint32_t i = 0; i < x->count && !cuts; i++)
        cuts = x->ends[i] % together != 0;
    if (cuts)
        return own;
    x->int8 = forms & ~(uint32_t)GRAPH_F32;
    graph_value_resize(s->g, own, width, forms);
    s->g->values[own].packed = s->g->want.lands ? ARITH_MAX(x->used, 1u) : 0;
    return own;
}

/* The op before it has made this device's columns of a part of `whole`; now come the others'. The floats of a
 * value with int8 forms are of no use any more. */
static void add_exchange(const struct sharing *s, uint32_t layer, uint32_t own, uint32_t whole,
                         enum graph_epilogue epilogue, const struct graph_exchanged *x) {
    struct graph *g = s->g;
    const struct graph_value *v = &g->values[whole];
    CHECK(v->forms == GRAPH_F32 || x->ends[x->count - 1] == v->width);
    if (epilogue == GRAPH_STORE && v->forms != GRAPH_F32)
        graph_value_resize(g, whole, v->width, v->forms & ~(uint32_t)GRAPH_F32);
    struct graph_op *op = graph_add_op(g, GRAPH_EXCHANGED, layer, own, whole);
    op->epilogue = epilogue;
    op->exchanged = *x;
}

/* Whether every device gets heads of its own. Norms of all heads together need them all, and gates beside
 * heads are another value's columns. */
static bool divides_heads(const struct sharing *s, const struct graph_op *product, const struct graph_rope *r,
                          uint32_t kv_heads) {
    const uint32_t count = s->g->want.share.count;
    bool divides = !r->wide && !r->latent;
    for (uint32_t k = 0; k < product->n_weights && divides; k++)
        divides = divides && graph_weight_together(&s->g->weights[product->weight[k]]) == PANEL_ROWS;
    for (uint32_t i = 0; i < count && divides; i++) {
        const struct heads h = heads_of(r->heads, kv_heads, &s->g->want.share, i);
        divides = divides && h.first_q < h.end_q;
    }
    return divides;
}

/* The product that makes heads of q, k and v, or of q alone where the layer reads the K and V of another one.
 */
static void divide_qkv(struct sharing *s, struct graph_op *op, const struct graph_rope *r,
                       uint32_t kv_heads) {
    const struct heads h = own_heads(s, r->heads, kv_heads);
    const uint32_t first[] = {h.first_q * r->dim_k, h.first_kv * r->dim_k, h.first_kv * r->dim_v};
    const uint32_t end[] = {h.end_q * r->dim_k, h.end_kv * r->dim_k, h.end_kv * r->dim_v};
    uint32_t width = 0;
    CHECK(op->n_weights == (r->kv_heads > 0 ? 3u : 1u));
    for (uint32_t k = 0; k < op->n_weights; k++) {
        cut(s, op, k, first[k], end[k]);
        op->column[k] = width;
        width += end[k] - first[k];
    }
    graph_value_resize(s->g, op->out, width, GRAPH_F32);
}

static void divide_rope(struct sharing *s, struct graph_op *op, uint32_t kv_heads) {
    const struct heads h = own_heads(s, op->rope.heads, kv_heads);
    struct graph_cache *c = &s->g->caches[op->cache];
    const uint32_t units = h.end_kv - h.first_kv;
    op->rope.heads = h.end_q - h.first_q;
    op->rope.kv_heads = op->rope.kv_heads > 0 ? units : 0;
    CHECK(!s->has_units[op->cache] || c->units == units);
    s->has_units[op->cache] = true;
    c->units = units;
}

static void divide_attention(struct sharing *s, struct graph_op *op) {
    struct graph_attention *a = &op->attention;
    const struct heads h = own_heads(s, a->heads, a->kv_heads);
    const uint32_t whole = op->out;
    struct graph_exchanged x = {.count = s->g->want.share.count};
    for (uint32_t i = 0; i < x.count; i++)
        x.ends[i] = heads_of(a->heads, a->kv_heads, &s->g->want.share, i).end_q * a->dim_v;
    if (op->n_weights > 0) /* a sink of each head */
        graph_weight_cut(s->g, op->weight[0], h.first_q, h.end_q - h.first_q);
    a->heads = h.end_q - h.first_q;
    a->kv_heads = h.end_kv - h.first_kv;
    op->out = given_value(s, whole, a->heads * a->dim_v, &x);
    add_exchange(s, op->layer, op->out, whole, GRAPH_STORE, &x);
}

/* Where the rows of a matrix are cut. */
struct rows {
    struct graph_exchanged x;
    uint32_t first, end; /* this device's */
    bool divided;        /* false: there are too few for all devices, so each computes all */
};

static struct rows rows_of(const struct sharing *s, const struct graph_op *op, uint32_t k) {
    const struct graph_weight *w = &s->g->weights[op->weight[k]];
    const uint32_t unit = rows_together(s, op, w);
    struct rows r = {.x = {.count = s->g->want.share.count, .column = op->column[k]}, .divided = true};
    for (uint32_t i = 0; i < r.x.count; i++) {
        r.x.ends[i] = row_of(w, unit, &s->g->want.share, i + 1);
        r.divided = r.divided && r.x.ends[i] > row_of(w, unit, &s->g->want.share, i);
    }
    share_columns(&r.x, s->g->want.share.index, &r.first, &r.end);
    return r;
}

/* Cuts the op's first matrix, an embedding or an output matrix, unless another op has it and it is cut. */
static struct rows cut_end(struct sharing *s, const struct graph_op *op) {
    uint32_t i = 0;
    while (i < s->n_ends && s->ends[i].weight != op->weight[0])
        i++;
    if (i == s->n_ends) {
        CHECK(i < SHARE_ENDS);
        s->ends[i].weight = op->weight[0];
        s->ends[i].x = rows_of(s, op, 0).x;
        s->n_ends++;
    }
    struct rows r = {.x = s->ends[i].x, .divided = true};
    share_columns(&r.x, s->g->want.share.index, &r.first, &r.end);
    CHECK(r.first < r.end);
    cut(s, op, 0, r.first, r.end);
    return r;
}

/* Rows of the embedding, if their exchange comes next. */
static void divide_embedding(struct sharing *s, uint32_t at, const struct graph_op *op) {
    if (at + 1 < s->n_whole && s->whole[at + 1].kind == GRAPH_EXCHANGED && s->whole[at + 1].exchanged.owned)
        (void)cut_end(s, op);
}

/* The exchange behind it in the whole graph. */
static void own_rows(const struct sharing *s, struct graph_op *op) {
    if (!op->exchanged.owned)
        return;
    const bool pictures = op->exchanged.pictures;
    op->exchanged = s->ends[0].x;
    op->exchanged.owned = true;
    op->exchanged.pictures = pictures;
}

/* The input of the MTP head: the row of the embedding comes from the device that has it. */
static void divide_pair(struct sharing *s, const struct graph_op *op) {
    struct graph *g = s->g;
    struct graph_op pair = *op;
    const struct rows r = cut_end(s, op);
    g->n_ops--;
    const uint32_t row = own_value(s, pair.out, g->weights[pair.weight[0]].layout.cols);
    struct graph_op *embed = graph_add_op(g, GRAPH_EMBED, pair.layer, GRAPH_NONE, row);
    embed->scale = 1;
    embed->n_weights = 1;
    embed->weight[0] = pair.weight[0];
    embed->bias[0] = embed->factor[0] = GRAPH_NONE;
    struct graph_op *exchange = graph_add_op(g, GRAPH_EXCHANGED, pair.layer, row, pair.out);
    exchange->exchanged = r.x;
    exchange->exchanged.owned = true;
    pair.n_weights--; /* the norms alone */
    for (uint32_t k = 0; k < pair.n_weights; k++)
        pair.weight[k] = pair.weight[k + 1];
    g->ops[g->n_ops++] = pair;
}

/* The product with one matrix, or with gate and up. */
static void divide_product(struct sharing *s, struct graph_op *op, struct rows *r, bool is_shared) {
    const bool gated = graph_op_activated(op);
    const uint32_t whole = op->out;
    CHECK(op->n_weights == (graph_op_gated(op) ? 2u : 1u));
    if (!r->divided)
        return;
    for (uint32_t k = 0; k < op->n_weights; k++)
        cut(s, op, k, r->first, r->end);
    op->column[0] = 0;
    if (is_shared) { /* only the experts' sums read it, which have the same columns */
        graph_value_resize(s->g, whole, r->end - r->first, GRAPH_F32);
        return;
    }
    const enum graph_epilogue epilogue = gated ? GRAPH_STORE : op->epilogue;
    op->out =
        gated ? given_value(s, whole, r->end - r->first, &r->x) : own_value(s, whole, r->end - r->first);
    if (!gated)
        op->epilogue = GRAPH_STORE;
    add_exchange(s, op->layer, op->out, whole, epilogue, &r->x);
}

/* Products side by side in one value become one op each. */
static void divide_products(struct sharing *s, struct graph_op *op) {
    const struct graph_op all = *op;
    struct rows rows[GRAPH_OP_WEIGHTS];
    for (uint32_t k = 0; k < all.n_weights; k++)
        rows[k] = rows_of(s, &all, k);
    s->g->n_ops--;
    for (uint32_t k = 0; k < all.n_weights; k++) {
        struct graph_op *one = graph_add_op(s->g, GRAPH_MATMUL, all.layer, all.in, all.out);
        one->epilogue = all.epilogue;
        one->n_weights = 1;
        one->weight[0] = all.weight[k];
        one->bias[0] = all.bias[k];
        one->factor[0] = all.factor[k];
        one->column[0] = all.column[k];
        divide_product(s, one, &rows[k], false);
    }
}

/* The chosen experts' products. Of each expert a device has the same rows. */
static void divide_experts(struct sharing *s, struct graph_op *op) {
    const uint32_t whole = op->out;
    struct rows r = rows_of(s, op, 0);
    if (!r.divided)
        return;
    if (op->work != GRAPH_NONE) /* its rows before they are added up */
        graph_value_resize(s->g, op->work, r.end - r.first, GRAPH_F32);
    for (uint32_t k = 0; k < op->n_weights; k++)
        cut(s, op, k, r.first, r.end);
    const bool gated = graph_op_opens_experts(op);
    const enum graph_epilogue epilogue = gated ? GRAPH_STORE : op->epilogue;
    if (gated) {
        r.x.used = op->experts.used;
        r.x.routes = op->experts.routes;
        op->out = given_value(s, whole, r.end - r.first, &r.x);
    } else {
        op->epilogue = GRAPH_STORE;
        op->out = own_value(s, whole, r.end - r.first);
    }
    add_exchange(s, op->layer, op->out, whole, epilogue, &r.x);
}

/* Whether the product's value is that of the layer's shared expert. */
static bool is_of_shared_expert(const struct sharing *s, uint32_t at) {
    for (uint32_t i = at + 1; i < s->n_whole && s->whole[i].layer == s->whole[at].layer; i++)
        if (s->whole[i].kind == GRAPH_EXPERTS && s->whole[i].experts.shared == s->whole[at].out)
            return true;
    return false;
}

/* An op of this kind in the layer that has the product's value as its `in`; NULL: there is none. */
static const struct graph_op *reader_of(const struct sharing *s, uint32_t at, enum graph_kind kind) {
    for (uint32_t i = at + 1; i < s->n_whole && s->whole[i].layer == s->whole[at].layer; i++)
        if (s->whole[i].kind == kind && s->whole[i].in == s->whole[at].out)
            return &s->whole[i];
    return NULL;
}

/* KV heads of the attention behind the op that makes or rotates its heads. */
static uint32_t kv_heads_of(const struct sharing *s, uint32_t at) {
    const struct graph_op *attention = reader_of(s, at, GRAPH_ATTENTION);
    CHECK(attention != NULL);
    return attention->attention.kv_heads;
}

static void divide_matmul(struct sharing *s, uint32_t at, struct graph_op *op) {
    const struct graph_op *rope = reader_of(s, at, GRAPH_ROPE_STORE);
    if (rope != NULL)
        s->whole_heads = !divides_heads(s, op, &rope->rope, kv_heads_of(s, at));
    if (reader_of(s, at, GRAPH_ROUTE) != NULL || reader_of(s, at, GRAPH_INDEX) != NULL)
        return; /* a router is small, and so is an indexer: every device computes it */
    if (rope != NULL && s->whole_heads && s->g->want.lands && !rope->rope.wide && !rope->rope.late)
        return; /* a GPU rotates heads only where it makes them */
    if (rope != NULL && !s->whole_heads) {
        divide_qkv(s, op, &rope->rope, kv_heads_of(s, at));
    } else if (op->n_weights > 1 && !graph_op_gated(op)) {
        divide_products(s, op);
    } else {
        struct rows r = rows_of(s, op, 0);
        divide_product(s, op, &r, is_of_shared_expert(s, at));
    }
}

/* Products are divided, and attention by heads. All other ops are computed by every device. */
static stator_status divide_op(struct sharing *s, uint32_t at) {
    struct graph_op *op = &s->g->ops[s->g->n_ops++];
    *op = s->whole[at];
    switch (op->kind) {
    case GRAPH_EMBED:
        divide_embedding(s, at, op);
        break;
    case GRAPH_EXCHANGED:
        own_rows(s, op);
        break;
    case GRAPH_PAIR:
        divide_pair(s, op);
        break;
    case GRAPH_FILL:
    case GRAPH_NORM:
    case GRAPH_FORMS:
    case GRAPH_HEADS:
    case GRAPH_CENTER:
    case GRAPH_INDEX:
    case GRAPH_CHOOSE:
    case GRAPH_SILU:
    case GRAPH_MIX:
    case GRAPH_INJECT:
    case GRAPH_ROUTE:
    case GRAPH_CONV:
    case GRAPH_DELTA:
    case GRAPH_GATED_CONV:
    case GRAPH_NGRAM_GATE:
    case GRAPH_NGRAM_CONV:
    case GRAPH_GATE:
    case GRAPH_KEEP:
    case GRAPH_FEATURES:
    case GRAPH_LAND:
    case GRAPH_SEND:
        break;
    case GRAPH_EXPERTS:
        divide_experts(s, op);
        break;
    case GRAPH_MATMUL:
        divide_matmul(s, at, op);
        break;
    case GRAPH_ROPE_STORE:
        if (!s->whole_heads)
            divide_rope(s, op, kv_heads_of(s, at));
        break;
    case GRAPH_ATTENTION:
        if (!s->whole_heads)
            divide_attention(s, op);
        break;
    default:
        return error_set(
            s->e, STATOR_USAGE,
            "devices.split = \"tensor\": this model (%s) has the op '%s', which is not divided yet: "
            "take \"auto\", which divides the layers",
            s->arch, graph_op_name(op));
    }
    return STATOR_OK;
}

static uint32_t zone_value(struct graph *g, const char *name, uint64_t bytes, uint32_t halves) {
    CHECK(bytes > 0 && bytes / sizeof(float) <= UINT32_MAX);
    const uint32_t zone =
        graph_add_value(g, name, GRAPH_EXCHANGE, 1, (uint32_t)(bytes / sizeof(float)), GRAPH_F32);
    graph_value_halves(g, zone, halves);
    return zone;
}

static bool is_exchange(const struct graph_op *op) {
    return op->kind == GRAPH_EXCHANGED && !op->exchanged.wanted;
}

/* Whether op i adds to the residual stream x what the next op norms. */
static bool adds_and_norms(const struct graph *g, uint32_t i, uint32_t x) {
    const struct graph_op *add = &g->ops[i], *norm = add + 1;
    return i + 1 < g->n_ops && add->kind == GRAPH_EXCHANGED && add->epilogue == GRAPH_RESIDUAL &&
           add->out == x && add->exchanged.used == 0 && share_row(g, add) == g->values[x].width &&
           norm->kind == GRAPH_NORM && norm->epilogue == GRAPH_STORE && norm->in == x && norm->out != x &&
           norm->norm.parts <= 1 && !norm->norm.centred && !norm->wanted && norm->n_weights == 1 &&
           norm->bias[0] == GRAPH_NONE;
}

static void rename_value(uint32_t *value, uint32_t from, uint32_t to) {
    *value = *value == from ? to : *value;
}

/* The residual stream alternates between two values, so that adding to it and norming it are one launch. */
static void join_norms(struct graph *g, uint32_t x) {
    const uint32_t both[] = {
        x, graph_add_value(g, "residual.2", GRAPH_SCRATCH, g->values[x].rows, g->values[x].width, GRAPH_F32)};
    uint32_t now = 0, joined = 0;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        struct graph_op *op = &g->ops[i];
        const bool joins = adds_and_norms(g, i, x);
        if (joins) {
            op->exchanged.norms = true;
            op->exchanged.stream = both[now];
            op->exchanged.normed = op[1].out;
            now = 1 - now;
            joined++;
        }
        rename_value(&op->in, x, both[now]);
        rename_value(&op->out, x, both[now]);
        rename_value(&op->work, x, both[now]);
    }
    if (joined == 0)
        g->n_values--; /* the last one */
}

/* The residual stream, whose rows are exchanged first. */
static uint32_t stream_of(const struct graph *g) {
    uint32_t i = 0;
    while (i < g->n_ops && g->ops[i].kind != GRAPH_EXCHANGED)
        i++;
    CHECK(i < g->n_ops);
    return g->ops[i].out;
}

/* The values where the others' columns land: for all exchanges, and for logits. */
static void add_zones(struct graph *g) {
    const uint32_t me = g->want.share.index;
    uint64_t most = 0, logits = 0;
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == GRAPH_EXCHANGED) {
            uint64_t *of = is_exchange(&g->ops[i]) ? &most : &logits;
            *of = ARITH_MAX(*of, share_landing(g, &g->ops[i], me, g->ops[i].exchanged.count));
        }
    g->zone = zone_value(g, "landing zone", most, 2);
    if (logits > 0 && me + 1 == g->want.share.count)
        g->head_zone = zone_value(g, "landing zone of logits", logits, 1);
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == GRAPH_EXCHANGED)
            g->ops[i].work = is_exchange(&g->ops[i]) ? g->zone : g->head_zone;
}

/* The output matrix. The other devices' logits are values of their own columns. */
static void divide_head(struct sharing *s, struct graph_op *op) {
    struct graph *g = s->g;
    const uint32_t logits = op->out;
    CHECK(op->n_weights == 1);
    struct rows r = cut_end(s, op);
    r.x.wanted = true;
    if (g->want.share.index + 1 == g->want.share.count) {
        op->out = own_value(s, logits, r.end - r.first);
    } else {
        graph_value_resize(g, logits, r.end - r.first, GRAPH_F32);
        g->logits = GRAPH_NONE;
    }
    add_exchange(s, op->layer, op->out, logits, GRAPH_STORE, &r.x);
}

stator_status share_divide(struct graph *g, const struct shape *shape, stator_error *e) {
    const char *arch = shape->arch_name;
    CHECK(g->want.share.count > 1 && g->want.share.count <= GRAPH_MAX_SHARES);
    const struct marks { uint32_t nextn, nextn_end, guess; } whole_marks = {g->nextn, g->nextn_end, g->guess};
    const uint32_t n = g->n_ops, tail = g->tail;
    if (g->want.guess_rows > 0 && g->want.end_layer == shape->n_layers && !g->shared_head)
        return error_set(e, STATOR_USAGE,
                         "speculation.mode is \"mtp\": the vocabulary of this model (%s) is too small to be "
                         "divided among %u devices (devices.split = \"tensor\"), which the MTP head needs",
                         arch, g->want.share.count);
    struct graph_op *whole = g->ops + g->max_ops - n;
    struct sharing s = {.g = g, .arch = arch, .e = e, .whole = whole, .n_whole = n};
    for (uint32_t i = n; i-- > 0;) /* upwards in the table */
        whole[i] = g->ops[i];
    g->n_ops = 0;
    for (uint32_t i = 0; i < tail; i++) {
        if (i == whole_marks.nextn)
            g->nextn = g->n_ops;
        if (i == whole_marks.nextn_end)
            g->nextn_end = g->n_ops;
        stator_status st = divide_op(&s, i);
        if (st != STATOR_OK)
            return st;
        CHECK(g->ops + g->n_ops <= whole + i + 1); /* the rest of the whole graph is still there */
    }
    g->tail = g->n_ops;
    for (uint32_t i = tail; i < n; i++) {
        if (i == whole_marks.guess)
            g->guess = g->n_ops;
        struct graph_op *op = &g->ops[g->n_ops++];
        *op = whole[i];
        if (g->shared_head && op->kind == GRAPH_MATMUL)
            divide_head(&s, op);
        CHECK(g->ops + g->n_ops <= whole + i + 1);
    }
    if (g->want.lands) {
        join_norms(g, stream_of(g));
        add_zones(g);
    }
    return STATOR_OK;
}

void share_columns(const struct graph_exchanged *x, uint32_t index, uint32_t *first, uint32_t *end) {
    CHECK(index < x->count);
    *first = index > 0 ? x->ends[index - 1] : 0;
    *end = x->ends[index];
}

uint32_t share_row(const struct graph *g, const struct graph_op *op) {
    const struct graph_exchanged *x = &op->exchanged;
    return x->owned ? g->values[op->in].width : x->ends[x->count - 1];
}

const struct graph_op *share_head(const struct graph *g) {
    for (uint32_t i = g->tail; i < g->n_ops; i++)
        if (g->ops[i].kind == GRAPH_EXCHANGED)
            return &g->ops[i];
    return NULL;
}

uint32_t share_width(const struct graph *g, const struct graph_op *op, uint32_t index) {
    uint32_t first = 0, end = 0;
    share_columns(&op->exchanged, index, &first, &end);
    return op->exchanged.owned ? g->values[op->in].width : end - first;
}

struct share_rows share_rows(uint32_t form, uint64_t rows, uint32_t width) {
    if (form == 0)
        return (struct share_rows){.bytes = rows * width * sizeof(float)};
    const uint32_t scaled = scaled_together(form), summed = form == GRAPH_I8_256 ? 16 : 32;
    struct share_rows r = {.scales = arith_round_up(rows * width, CARVE_ALIGN)};
    CHECK(width % scaled == 0);
    r.sums = arith_round_up(r.scales + rows * (width / scaled) * sizeof(float), CARVE_ALIGN);
    r.bytes = arith_round_up(r.sums + rows * (width / summed) * sizeof(int16_t), CARVE_ALIGN);
    return r;
}

/* Bytes of a token's rows in one exchange, the device's own or the others'. */
static uint64_t row_bytes(const struct graph *g, const struct graph_op *op, bool own) {
    const uint32_t form = op->exchanged.int8, scaled = scaled_together(form);
    uint64_t width = 0;
    for (uint32_t i = 0; i < op->exchanged.count; i++)
        width += own == (i == g->want.share.index) ? share_width(g, op, i) : 0;
    const uint64_t bytes = form == 0 ? width * sizeof(float)
                                     : width + width / scaled * sizeof(float) +
                                           width / (form == GRAPH_I8_256 ? 16 : 32) * sizeof(int16_t);
    return bytes * ARITH_MAX(op->exchanged.used, 1u);
}

static uint64_t exchanged_bytes(const struct graph *g, bool own) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->n_ops; i++)
        bytes += is_exchange(&g->ops[i]) ? row_bytes(g, &g->ops[i], own) : 0;
    return bytes;
}

/* Of the exchange of logits. */
static uint64_t logits_bytes(const struct graph *g, bool own) {
    const struct graph_op *head = share_head(g);
    const bool last = g->want.share.index + 1 == g->want.share.count;
    return head == NULL || own == last ? 0 : row_bytes(g, head, own);
}

uint64_t share_received(const struct graph *g) {
    return exchanged_bytes(g, false);
}

uint64_t share_given_each(const struct graph *g) {
    return exchanged_bytes(g, true);
}

uint64_t share_received_row(const struct graph *g) {
    return logits_bytes(g, false);
}

uint64_t share_given_row(const struct graph *g) {
    return logits_bytes(g, true);
}

uint64_t share_given_rows(const struct graph *g) {
    return share_given_row(g) * g->want.logits_rows;
}

uint64_t share_landing(const struct graph *g, const struct graph_op *op, uint32_t receiver, uint32_t source) {
    const struct graph_exchanged *x = &op->exchanged;
    uint64_t at = 0;
    CHECK(op->kind == GRAPH_EXCHANGED && receiver < x->count && source <= x->count);
    for (uint32_t i = 0; i < source; i++)
        if (i != receiver)
            at += arith_round_up(share_rows(x->int8, g->values[op->in].rows, share_width(g, op, i)).bytes,
                                 CARVE_ALIGN);
    return at;
}

uint32_t share_exchanges(const struct graph *g, uint32_t op) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < op; i++)
        n += is_exchange(&g->ops[i]);
    return n;
}

uint64_t share_given(const struct graph *g) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        if (!is_exchange(&g->ops[i]))
            continue;
        const uint32_t width = share_width(g, &g->ops[i], g->want.share.index);
        const struct share_rows given =
            share_rows(g->ops[i].exchanged.int8, g->values[g->ops[i].in].rows, width);
        most = ARITH_MAX(most, given.bytes);
    }
    return most;
}
