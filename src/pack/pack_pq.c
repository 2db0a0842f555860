/* PQ-trees after Booth and Lueker, on trees so small that every operation reads all of one and writes
 * another. A subtree is empty, full or partial: none, all or some of its leaves are marked. A partial one
 * below the root of the marked leaves has its empty part at one end and its full part at the other. */
#include "pack/pack_pq.h"

#include "pack/pack_part.h"

#include <math.h>
#include <string.h>

#define NONE  UINT32_MAX
#define DEPTH 64 /* nodes above the root of the marked leaves */

struct pq pack_pq_layout(struct carve *c, uint32_t most) {
    struct pq q = {.most = most};
    q.mark = carve_take(c, most, sizeof *q.mark);
    q.count = carve_take(c, most, sizeof *q.count);
    q.leaves = carve_take(c, most, sizeof *q.leaves);
    q.run = carve_take(c, most, sizeof *q.run);
    return q;
}

double pack_pq_log2(double x) {
    int exponent;
    const double root = 0x1.6a09e667f3bcdp-1; /* of 1/2 */
    double m = frexp(x, &exponent), t = (m - root) / (m + root), power = t, sum = 0;
    for (int k = 1; k <= 15; k += 2, power *= t * t) /* 2 atanh(t) = ln(m / root) */
        sum += power / k;
    return exponent - 0.5 + sum * 0x1.71547652b82fep+1; /* 2 / ln 2 */
}

void pack_pq_prepare(struct pq *q) {
    q->log_factorial[0] = q->log_factorial[1] = 0;
    for (uint32_t k = 2; k < PQ_FACTORIALS; k++)
        q->log_factorial[k] = q->log_factorial[k - 1] + pack_pq_log2(k);
}

double pack_pq_log_factorial(const struct pq *q, uint32_t n) {
    return q->log_factorial[ARITH_MIN(n, (uint32_t)PQ_FACTORIALS - 1)];
}

enum fill { EMPTY, PARTIAL, FULL };

static enum fill fill_of(const struct pq *q, uint32_t at) {
    return q->count[at] == 0 ? EMPTY : q->count[at] == q->leaves[at] ? FULL : PARTIAL;
}

static void count_marks(struct pq *q, const struct pq_tree *tree) {
    const struct pq_token *t = tree->at;
    for (uint32_t i = tree->n; i-- > 0;) {
        uint32_t leaves = 1, count = q->mark[i];
        if (!pack_pq_is_leaf(&t[i])) {
            leaves = count = 0;
            for (uint32_t c = i + 1; c < i + t[i].span; c += t[c].span) {
                leaves += q->leaves[c];
                count += q->count[c];
            }
        }
        q->leaves[i] = (uint16_t)leaves;
        q->count[i] = (uint16_t)count;
    }
    q->steps += tree->n;
}

/* A tree that is written. */
struct writer {
    struct pq_token *to;
    uint32_t n;
    uint32_t most;
    bool ok; /* there is such an order, and room */
    double lost;
};

static void copy(struct writer *w, const struct pq_token *t, uint32_t n) {
    if (w->n + n > w->most) {
        w->ok = false;
        return;
    }
    memcpy(w->to + w->n, t, n * sizeof *t);
    w->n += n;
}

static uint32_t open_node(struct writer *w, enum pq_kind kind) {
    struct pq_token t = {.kind = (uint8_t)kind, .name = NONE};
    copy(w, &t, 1);
    return w->n - 1;
}

static void close_node(struct writer *w, uint32_t at) {
    if (w->ok)
        w->to[at].span = (uint16_t)(w->n - at);
}

static void copy_kids(const struct pq *q, struct writer *w, const struct pq_token *t, uint32_t at,
                      enum fill f) {
    for (uint32_t c = at + 1; c < at + t[at].span; c += t[c].span)
        if (fill_of(q, c) == f)
            copy(w, &t[c], t[c].span);
}

struct kids {
    uint32_t n, empty, full, partial;
    uint32_t part[2]; /* the first two partial ones */
};

static struct kids kids_of(const struct pq *q, const struct pq_token *t, uint32_t at) {
    struct kids k = {0};
    for (uint32_t c = at + 1; c < at + t[at].span; c += t[c].span) {
        enum fill f = fill_of(q, c);
        k.n++;
        k.empty += f == EMPTY;
        k.full += f == FULL;
        if (f == PARTIAL && k.partial++ < 2)
            k.part[k.partial - 1] = c;
    }
    return k;
}

/* Whether a Q-node's children are empty, then one partial at most, then full; *forwards: as they are written,
 * else from their end. */
static bool can_split(const struct pq *q, const struct pq_token *t, uint32_t at, bool *forwards) {
    uint32_t last = at + 1, partial = 0;
    for (uint32_t c = at + 1; c < at + t[at].span; c += t[c].span)
        last = c;
    enum fill a = fill_of(q, at + 1), b = fill_of(q, last);
    *forwards = a < b || (a == b && a == EMPTY);
    enum fill was = *forwards ? EMPTY : FULL;
    for (uint32_t c = at + 1; c < at + t[at].span; c += t[c].span) {
        enum fill f = fill_of(q, c);
        partial += f == PARTIAL;
        if (*forwards ? f < was : f > was)
            return false;
        was = f;
    }
    return partial <= 1;
}

/* The child of a Q-node that ends right before `end`. */
static uint32_t kid_before(const struct pq_token *t, uint32_t at, uint32_t end) {
    uint32_t c = at + 1;
    while (c + t[c].span < end)
        c += t[c].span;
    return c;
}

static uint32_t write_empty(struct pq *q, struct writer *w, const struct pq_token *t, uint32_t at,
                            bool outer_first);

static uint32_t write_empty_p(struct pq *q, struct writer *w, const struct pq_token *t, uint32_t at,
                              bool outer_first) {
    struct kids k = kids_of(q, t, at);
    if (k.partial > 1) {
        w->ok = false;
        return 0;
    }
    w->lost +=
        pack_pq_log_factorial(q, k.n) - pack_pq_log_factorial(q, k.empty) - pack_pq_log_factorial(q, k.full);
    uint32_t n = k.empty > 0;
    if (!outer_first && k.partial == 1)
        n += write_empty(q, w, t, k.part[0], outer_first);
    uint32_t node = k.empty > 1 ? open_node(w, PQ_P) : 0;
    copy_kids(q, w, t, at, EMPTY);
    if (k.empty > 1)
        close_node(w, node);
    if (outer_first && k.partial == 1)
        n += write_empty(q, w, t, k.part[0], outer_first);
    return n;
}

/* Writes what is empty in a partial subtree as children of a Q-node, from the outer to the inner or the other
 * way round; returns how many. */
static uint32_t write_empty(struct pq *q, struct writer *w, const struct pq_token *t, uint32_t at,
                            bool outer_first) {
    if (t[at].kind == PQ_P)
        return write_empty_p(q, w, t, at, outer_first);
    bool forwards;
    if (!can_split(q, t, at, &forwards)) {
        w->ok = false;
        return 0;
    }
    w->lost += 1;
    uint32_t n = 0, begin = at + 1, end = at + t[at].span;
    while (begin < end && w->ok) {
        uint32_t c = forwards == outer_first ? begin : kid_before(t, at, end);
        if (forwards == outer_first)
            begin += t[c].span;
        else
            end = c;
        if (fill_of(q, c) == EMPTY) {
            copy(w, &t[c], t[c].span);
            n++;
        } else if (fill_of(q, c) == PARTIAL) {
            n += write_empty(q, w, t, c, outer_first);
        }
    }
    return n;
}

static void name_leaves(struct pq *q, const struct pq_token *t, uint32_t at) {
    for (uint32_t i = at; i < at + t[at].span; i++)
        if (pack_pq_is_leaf(&t[i]))
            q->run[q->n_run++] = t[i].name;
}

/* Names of the full leaves of a subtree, those at its empty end first or last. */
static void name_full(struct pq *q, const struct pq_token *t, uint32_t at, bool outer_first) {
    if (fill_of(q, at) == FULL)
        name_leaves(q, t, at);
    if (fill_of(q, at) != PARTIAL)
        return;
    if (t[at].kind == PQ_P) {
        struct kids k = kids_of(q, t, at);
        if (outer_first && k.partial > 0)
            name_full(q, t, k.part[0], outer_first);
        for (uint32_t c = at + 1; c < at + t[at].span; c += t[c].span)
            if (fill_of(q, c) == FULL)
                name_leaves(q, t, c);
        if (!outer_first && k.partial > 0)
            name_full(q, t, k.part[0], outer_first);
        return;
    }
    bool forwards;
    can_split(q, t, at, &forwards);
    uint32_t begin = at + 1, end = at + t[at].span;
    while (begin < end) {
        uint32_t c = forwards == outer_first ? begin : kid_before(t, at, end);
        if (forwards == outer_first)
            begin += t[c].span;
        else
            end = c;
        name_full(q, t, c, outer_first);
    }
}

/* The order of the marked leaves below their root. */
static void name_run(struct pq *q, const struct pq_token *t, uint32_t at) {
    q->n_run = 0;
    if (fill_of(q, at) == FULL) {
        name_leaves(q, t, at);
    } else if (t[at].kind == PQ_P) {
        struct kids k = kids_of(q, t, at);
        if (k.partial > 0)
            name_full(q, t, k.part[0], true);
        for (uint32_t c = at + 1; c < at + t[at].span; c += t[c].span)
            if (fill_of(q, c) == FULL)
                name_leaves(q, t, c);
        if (k.partial > 1)
            name_full(q, t, k.part[1], false);
    } else {
        bool first = true;
        for (uint32_t c = at + 1; c < at + t[at].span; c += t[c].span)
            if (fill_of(q, c) != EMPTY) {
                name_full(q, t, c, first);
                first = false;
            }
    }
}

static uint32_t first_name(const struct pq_token *t) {
    while (!pack_pq_is_leaf(t))
        t++;
    return t->name;
}

static void write_put(struct writer *w, const struct pq_put *put) {
    uint32_t node = put->n > 1 ? open_node(w, PQ_P) : 0;
    copy(w, put->leaf, put->n);
    if (put->n > 1)
        close_node(w, node);
}

/* Closes a Q-node around what was put, with so many children before and behind it. */
static void close_around(struct pq *q, struct writer *w, uint32_t node, uint32_t left, uint32_t right) {
    if (!w->ok)
        return;
    if (left + right == 1)
        w->to[node].kind = PQ_P; /* the same for two, and P-nodes allow more later */
    close_node(w, node);
    uint32_t second = node + 1 + w->to[node + 1].span;
    q->before = left > 0;
    q->witness = first_name(&w->to[left > 0 ? node + 1 : second]);
}

static void write_p(struct pq *q, struct writer *w, const struct pq_token *t, uint32_t at,
                    const struct pq_put *put) {
    struct kids k = kids_of(q, t, at);
    if (k.partial > 2) {
        w->ok = false;
        return;
    }
    uint32_t whole = k.empty > 0 ? open_node(w, PQ_P) : 0, left = 0, right = 0;
    copy_kids(q, w, t, at, EMPTY);
    w->lost += pack_pq_log_factorial(q, k.n) - pack_pq_log_factorial(q, k.empty + 1) -
               pack_pq_log_factorial(q, k.full);
    if (k.partial == 0) {
        write_put(w, put);
    } else {
        w->lost -= 1; /* the Q-node has two orders */
        uint32_t node = open_node(w, PQ_Q);
        left = write_empty(q, w, t, k.part[0], true);
        write_put(w, put);
        if (k.partial == 2)
            right = write_empty(q, w, t, k.part[1], false);
        close_around(q, w, node, left, right);
    }
    if (k.empty > 0)
        close_node(w, whole);
}

/* Empty children, a partial one, full ones, a partial one, empty ones; any may be missing. */
static void write_q(struct pq *q, struct writer *w, const struct pq_token *t, uint32_t at,
                    const struct pq_put *put) {
    enum { BEFORE, IN, BEHIND } stage = BEFORE;
    uint32_t left = 0, right = 0, node = open_node(w, PQ_Q);
    for (uint32_t c = at + 1; c < at + t[at].span && w->ok; c += t[c].span) {
        enum fill f = fill_of(q, c);
        if (f == EMPTY) {
            if (stage == IN)
                stage = BEHIND;
            copy(w, &t[c], t[c].span);
            left += stage == BEFORE;
            right += stage != BEFORE;
            continue;
        }
        if (stage == BEHIND)
            w->ok = false;
        if (stage == BEFORE) {
            if (f == PARTIAL)
                left += write_empty(q, w, t, c, true);
            write_put(w, put);
            stage = IN;
        } else if (f == PARTIAL) {
            right += write_empty(q, w, t, c, false);
            stage = BEHIND;
        }
    }
    close_around(q, w, node, left, right);
}

bool pack_pq_append(const struct pq *q, struct pq_tree *t, struct pq_token leaf) {
    if (t->n == q->most)
        return false;
    leaf.span = 1;
    t->at[t->n++] = leaf;
    return true;
}

bool pack_pq_reduce(struct pq *q, const struct pq_tree *from, const struct pq_put *put, struct pq_tree *to,
                    double *lost) {
    const struct pq_token *t = from->at;
    uint32_t at = 0, path[DEPTH], depth = 0;
    count_marks(q, from);
    for (bool inner = true; inner;) { /* down to the root of the marked leaves */
        inner = false;
        for (uint32_t c = at + 1; c < at + t[at].span && !inner; c += t[c].span)
            if (q->count[c] == q->count[0]) {
                if (depth == DEPTH)
                    return false;
                path[depth++] = at;
                at = c;
                inner = true;
            }
    }
    struct writer w = {.to = to->at, .most = q->most, .ok = true};
    q->witness = NONE;
    q->before = false;
    copy(&w, t, at);
    if (fill_of(q, at) == FULL)
        write_put(&w, put);
    else if (t[at].kind == PQ_P)
        write_p(q, &w, t, at, put);
    else
        write_q(q, &w, t, at, put);
    uint32_t was = at + t[at].span, is = w.n;
    copy(&w, t + was, from->n - was);
    if (!w.ok)
        return false;
    for (uint32_t k = 0; k < depth; k++)
        to->at[path[k]].span = (uint16_t)(to->at[path[k]].span + is - was);
    to->n = w.n;
    *lost = w.lost;
    q->steps += w.n;
    if (q->wants_run)
        name_run(q, t, at);
    return true;
}

uint32_t pack_pq_split(struct pq_tree *tree, uint32_t at, uint64_t part, uint32_t name) {
    struct pq_token *t = tree->at;
    uint32_t parent = NONE;
    for (uint32_t i = 0; i < at; i++)
        if (!pack_pq_is_leaf(&t[i]) && at < i + t[i].span)
            parent = i;
    /* Side by side they stay in a node of their own, unless they may part. */
    bool apart = t[at].loose && parent != NONE && t[parent].kind == PQ_P;
    uint32_t more = apart ? 1 : 2;
    for (uint32_t i = 0; i < at; i++)
        if (!pack_pq_is_leaf(&t[i]) && at < i + t[i].span)
            t[i].span = (uint16_t)(t[i].span + more);
    memmove(t + at + 1 + more, t + at + 1, (tree->n - at - 1) * sizeof *t);
    tree->n += more;
    if (!apart) {
        t[at + 1] = t[at];
        t[at] = (struct pq_token){.kind = PQ_P, .name = NONE, .span = 3};
        at++;
    }
    CHECK(part < t[at].slot);
    t[at].slot -= part;
    t[at + 1] = t[at];
    t[at + 1].slot = part;
    t[at + 1].name = name;
    return at + 1;
}

static uint64_t mix(uint64_t x) {
    return pack_part_random(&x);
}

static uint64_t hash_node(const struct pq_token *t) {
    static const uint64_t odd = 0x9E3779B97F4A7C15u;
    if (pack_pq_is_leaf(t))
        return mix(t->kind == PQ_BLOCK ? t->name : (t->slot * 2 + t->loose) ^ (uint64_t)1 << 63);
    uint64_t sum = 0, forth = 0, back = 0, power = 1;
    for (uint32_t c = 1; c < t->span; c += t[c].span) {
        uint64_t h = hash_node(&t[c]);
        sum += mix(h);
        forth = forth * odd + h;
        back += power * h;
        power *= odd;
    }
    if (t->kind == PQ_P)
        return mix(sum + odd);
    return mix(ARITH_MIN(forth, back)) ^ mix(ARITH_MAX(forth, back) + odd);
}

uint64_t pack_pq_hash(const struct pq_tree *t) {
    return hash_node(t->at);
}
