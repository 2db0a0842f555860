/* Sweeps over the time line of one part and guesses how tight blocks interlock: what ends at a border leaves
 * holes, and what begins there fills holes that lie side by side.
 *
 * The order of what is live is not decided when blocks begin but when it matters. A state of the sweep is a
 * PQ-tree of blocks and holes (pack_pq.h). Blocks that together fill the place of others demand that those
 * lie side by side: the tree is reduced to the orders in which they do, and a P-node of the new ones takes
 * their place. Where no order is left, the state dies.
 *
 * A border may be passed in many ways; the most likely states are kept (a beam). Likely is what needs no
 * luck: places that are filled exactly, and neighbours that had to lie side by side already. Each state
 * counts bits of evidence: those of sums that match, less those of the freedom that its tree loses.
 *
 * Where there is slack, sums match within a tolerance, and slots share it out; whether the whole fits is
 * found at the end, when the orders are known: each block lies on the highest of those that are below it.
 *
 * Measured on 273 tight instances of 59 to 702 blocks (grown ones and pinwheels; up to 3% slack, or up to 15%
 * left out), with pack_many_steps: 177 solved, 162 within a second of user time; 138 and 132 without sweeps.
 *
 * Guesses may be wrong, so nothing is ever proven here. */
#include "pack/pack_sweep.h"

#include "pack/pack_part.h"

#include <math.h>
#include <string.h>

#define NONE      UINT32_MAX
#define BEAM_MOST 1024
#define BYTES     3500 /* of the beam, for each item: about what other searches take */
#define TRIES     6    /* ways of placing one block that are followed */
#define WAYS      16   /* of passing one border */
#define FOLLOWED  16   /* last states whose blocks are laid */
#define ASK_AFTER 50000
#define STEP      3 /* inner steps of other searches that take as long as one here */

struct state {
    struct pq_tree tree;
    double score;
    uint64_t hash;
};

struct past {
    uint16_t parent;
    uint16_t way;
};

/* Names that took the place of others, to be taken back: each in `names`. */
struct record {
    uint32_t border;
    uint32_t run, n_run;
    uint32_t put, n_put;
    uint32_t witness; /* see struct pq */
    bool before;
};

struct sweep {
    const struct pack_part *part;
    uint64_t limit;
    struct pack_budget *budget;
    bool backwards;
    struct sweep_scale scale;
    uint64_t seed;

    uint32_t *begins, *begins_at; /* items by the border where they begin; [sections + 2] */
    struct state *now, *next;     /* [beam] */
    uint32_t n_now, n_next;
    uint32_t beam, width; /* states there is room for, and used */
    struct past *past;    /* [sections][beam] */

    /* Of one border and one state. */
    struct pq q;
    struct pq_tree
        level[SWEEP_EVENTS + 3]; /* while blocks are placed one after the other; the last two: then */
    uint32_t levels;
    struct pq_tree split;
    uint32_t border;
    uint32_t parent;
    uint32_t ways;

    /* Of a path that is followed again. */
    uint32_t wanted; /* the way, or NONE: it is no such path */
    bool found;
    bool full; /* one of what follows has no room */
    struct record *records;
    uint32_t n_records, most_records;
    struct record changed[4 * SWEEP_EVENTS]; /* at this border, as they were */
    uint32_t changed_at[4 * SWEEP_EVENTS];
    uint32_t n_changed;
    uint32_t *names;
    uint32_t n_names, most_names;
    uint32_t *order, *spare; /* names of what is live, from below; [3 n + 1] */
    uint32_t *below;         /* [n] */
    uint32_t *edges;         /* pairs */
    uint32_t n_edges, most_edges;
    uint64_t *offsets; /* [n] */
};

/* Of one state of the beam, at most: both trees, and its past. */
static uint64_t state_bytes(uint32_t kept, uint32_t sections) {
    return 2 * (sizeof(struct state) + kept * sizeof(struct pq_token)) + sections * sizeof(struct past);
}

static uint32_t kept_tokens(uint32_t live) {
    return 2 * (live + SWEEP_HOLES);
}

/* The states share what there is: two at least, and as many more as BYTES for each item will do for. */
static void layout_beam(struct carve *c, struct sweep *s, uint32_t n, uint32_t sections, uint32_t kept) {
    uint64_t each = state_bytes(kept, sections), lines = 4 * CARVE_ALIGN;
    uint64_t bytes = (uint64_t)n * BYTES + 2 * state_bytes(kept_tokens(n), n) + lines;
    uint8_t *room = carve_take(c, bytes, 1);
    if (room == NULL)
        return;
    struct carve in = carve_in(room, bytes);
    s->beam = (uint32_t)ARITH_MIN((bytes - lines) / each, (uint64_t)BEAM_MOST);
    s->now = carve_take(&in, s->beam, sizeof *s->now);
    s->next = carve_take(&in, s->beam, sizeof *s->next);
    struct pq_token *tokens = carve_take(&in, 2 * (uint64_t)s->beam * kept, sizeof *tokens);
    s->past = carve_take(&in, (uint64_t)sections * s->beam, sizeof *s->past);
    for (uint32_t k = 0; k < s->beam; k++) {
        s->now[k].tree.at = tokens + (uint64_t)2 * k * kept;
        s->next[k].tree.at = s->now[k].tree.at + kept;
    }
}

static struct sweep layout(struct carve *c, uint32_t n, uint32_t sections, uint32_t live) {
    struct sweep s = {0};
    uint32_t most = kept_tokens(live) + 2 * SWEEP_EVENTS + 4;
    layout_beam(c, &s, n, sections, kept_tokens(live));
    s.begins = carve_take(c, n, sizeof *s.begins);
    s.begins_at = carve_take(c, (uint64_t)sections + 2, sizeof *s.begins_at);
    s.levels = ARITH_MIN(n, (uint32_t)SWEEP_EVENTS) + 3;
    struct pq_token *tokens = carve_take(c, ((uint64_t)s.levels + 1) * most, sizeof *tokens);
    if (tokens != NULL) {
        for (uint32_t k = 0; k < s.levels; k++)
            s.level[k].at = tokens + (uint64_t)k * most;
        s.split.at = tokens + (uint64_t)s.levels * most;
    }
    s.q = pack_pq_layout(c, most);
    s.most_records = 6 * n;
    s.most_names = 40 * n;
    s.most_edges = 12 * n;
    s.records = carve_take(c, s.most_records, sizeof *s.records);
    s.names = carve_take(c, s.most_names, sizeof *s.names);
    s.order = carve_take(c, 3 * (uint64_t)n + 1, sizeof *s.order);
    s.spare = carve_take(c, 3 * (uint64_t)n + 1, sizeof *s.spare);
    s.below = carve_take(c, n, sizeof *s.below);
    s.edges = carve_take(c, 2 * (uint64_t)s.most_edges, sizeof *s.edges);
    s.offsets = carve_take(c, n, sizeof *s.offsets);
    return s;
}

/* Names: items from 0; the hole that an item leaves; a hole that came to be when the item was placed; the
 * hole above all at first. */
static uint32_t hole_of(const struct sweep *s, uint32_t i) {
    return s->part->n + i;
}
static uint32_t rest_of(const struct sweep *s, uint32_t i) {
    return 2 * s->part->n + i;
}
static uint32_t hole_above(const struct sweep *s) {
    return 3 * s->part->n;
}

static uint32_t lo_of(const struct sweep *s, uint32_t i) {
    const struct pack_item *it = &s->part->items[i];
    return s->backwards ? s->part->sections - it->hi : it->lo;
}
static uint32_t hi_of(const struct sweep *s, uint32_t i) {
    const struct pack_item *it = &s->part->items[i];
    return s->backwards ? s->part->sections - it->lo : it->hi;
}

/* ---- Records of a path. ---- */

static void add_name(struct sweep *s, uint32_t name) {
    if (s->n_names == s->most_names)
        s->full = true;
    else
        s->names[s->n_names++] = name;
}

static void add_record(struct sweep *s, const struct record *r) {
    if (s->n_records == s->most_records)
        s->full = true;
    else
        s->records[s->n_records++] = *r;
}

/* After a reduction. */
static void record(struct sweep *s, const struct pq_put *put) {
    struct record r = {
        .border = s->border, .run = s->n_names, .witness = s->q.witness, .before = s->q.before};
    for (uint32_t k = 0; k < s->q.n_run; k++)
        add_name(s, s->q.run[k]);
    r.n_run = s->n_names - r.run;
    r.put = s->n_names;
    for (uint32_t k = 0; k < put->n; k++)
        add_name(s, put->leaf[k].name);
    r.n_put = s->n_names - r.put;
    add_record(s, &r);
}

/* A hole is two now: where it came to be, both did. */
static void record_split(struct sweep *s, uint32_t hole, uint32_t other) {
    for (uint32_t k = s->n_records; k-- > 0;) {
        struct record *r = &s->records[k];
        bool found = false;
        for (uint32_t j = 0; j < r->n_put; j++)
            found = found || s->names[r->put + j] == hole;
        if (!found)
            continue;
        if (s->n_changed == 4 * SWEEP_EVENTS) {
            s->full = true;
            return;
        }
        s->changed[s->n_changed] = *r;
        s->changed_at[s->n_changed++] = k;
        uint32_t put = s->n_names;
        for (uint32_t j = 0; j < r->n_put; j++)
            add_name(s, s->names[r->put + j]);
        add_name(s, other);
        r->put = put;
        r->n_put = s->n_names - put;
        return;
    }
}

static void take_back_records(struct sweep *s, uint32_t n_records, uint32_t n_names, uint32_t n_changed) {
    while (s->n_changed > n_changed) {
        s->n_changed--;
        s->records[s->changed_at[s->n_changed]] = s->changed[s->n_changed];
    }
    s->n_records = n_records;
    s->n_names = n_names;
}

/* ---- Passing a border. ---- */

static bool reduce(struct sweep *s, const struct pq_tree *from, const struct pq_put *put, struct pq_tree *to,
                   bool go_on, double *lost) {
    s->q.wants_run = go_on && s->wanted != NONE;
    if (!pack_pq_reduce(&s->q, from, put, to, lost))
        return false;
    if (s->q.wants_run)
        record(s, put);
    return true;
}

/* A run of holes that lie side by side in any case: leaves [*from, *from + n). Returns n, or 0. */
static uint32_t find_holes(const struct pq_tree *tree, uint32_t *from) {
    const struct pq_token *t = tree->at;
    for (uint32_t i = 0; i < tree->n; i++) {
        uint32_t holes = 0, kids = 0;
        for (uint32_t c = i + 1; !pack_pq_is_leaf(&t[i]) && c < i + t[i].span; c += t[c].span) {
            bool hole = t[c].kind == PQ_HOLE;
            if (t[i].kind == PQ_Q && hole && c > i + 1 && t[c - 1].kind == PQ_HOLE && *from == c - 1)
                return 2;
            if (hole)
                *from = c;
            holes += hole;
            kids++;
        }
        if (kids > 0 && kids == holes) {
            *from = i + 1;
            return kids;
        }
    }
    return 0;
}

static uint32_t merge_holes(struct sweep *s, uint32_t level) {
    for (;;) {
        struct pq_tree *t = &s->level[level];
        uint32_t from = 0, n = find_holes(t, &from), other = s->levels - (level == s->levels - 2 ? 1 : 2);
        if (n == 0)
            return level;
        struct pq_put put = {.n = 1, .leaf = {t->at[from]}};
        memset(s->q.mark, 0, t->n * sizeof *s->q.mark);
        for (uint32_t k = 0; k < n; k++) {
            s->q.mark[from + k] = true;
            put.leaf[0].slot += k > 0 ? t->at[from + k].slot : 0;
        }
        put.leaf[0].loose = false;
        double lost;
        if (!reduce(s, t, &put, &s->level[other], true, &lost))
            return level;
        level = other;
    }
}

/* Where a new state goes: its like, a free place, or that of the least likely; NONE: nowhere. */
static uint32_t find_place(struct sweep *s, uint64_t hash, double score) {
    uint32_t at = 0, worst = 0;
    for (; at < s->n_next && s->next[at].hash != hash; at++)
        if (s->next[at].score < s->next[worst].score)
            worst = at;
    s->q.steps += at / 2;
    if (at == s->n_next && at < s->width)
        return s->n_next++;
    if (at == s->n_next)
        at = worst;
    return s->next[at].score < score ? at : NONE;
}

/* All blocks are placed: one way more to pass the border. */
static void finish(struct sweep *s, uint32_t level, double score) {
    uint32_t way = s->ways++, at = 0, holes = 0;
    if (s->wanted != NONE && s->wanted != way)
        return;
    struct pq_tree *t = &s->level[merge_holes(s, level)];
    for (uint32_t i = 0; i < t->n; i++) {
        t->at[i].fresh = false;
        holes += t->at[i].kind == PQ_HOLE;
    }
    uint64_t hash = pack_pq_hash(t);
    s->q.steps += 2 * t->n;
    if (s->wanted != NONE)
        s->found = true; /* in next[0], as it was kept before */
    else if (holes > SWEEP_HOLES || (at = find_place(s, hash, score)) == NONE)
        return;
    struct state *to = &s->next[at];
    to->hash = hash;
    to->score = score;
    to->tree.n = t->n;
    memcpy(to->tree.at, t->at, t->n * sizeof *t->at);
    if (s->wanted == NONE)
        s->past[(uint64_t)s->border * s->beam + at] = (struct past){(uint16_t)s->parent, (uint16_t)way};
}

/* Marks the holes of a placing; returns the tree, in which one may have been split for it. */
static const struct pq_tree *mark_holes(struct sweep *s, uint32_t level, const struct placing *p,
                                        uint32_t largest, bool go_on) {
    const struct pq_tree *t = &s->level[level];
    uint32_t last = p->holes[p->n_holes - 1], piece = last, more = 0;
    if (p->part > 0) {
        memcpy(s->split.at, t->at, t->n * sizeof *t->at);
        s->split.n = t->n;
        piece = pack_pq_split(&s->split, last, p->part, rest_of(s, largest));
        more = s->split.n - t->n;
        if (go_on && s->wanted != NONE)
            record_split(s, t->at[last].name, rest_of(s, largest));
        t = &s->split;
    }
    memset(s->q.mark, 0, t->n * sizeof *s->q.mark);
    for (uint32_t k = 0; k + 1 < p->n_holes; k++)
        s->q.mark[p->holes[k] + (p->holes[k] > last ? more : 0)] = true;
    s->q.mark[piece] = true;
    return t;
}

/* A tree with some blocks placed, on the next level; false if that can't be. *lost: bits. */
static bool put_down(struct sweep *s, uint32_t level, const struct placing *p, bool go_on, double *lost) {
    const uint32_t *begins = s->begins + s->begins_at[s->border];
    uint32_t largest = NONE;
    uint64_t sum = 0, need = 0;
    for (uint32_t k = 0; p->blocks >> k != 0; k++)
        if (p->blocks >> k & 1) {
            largest = largest == NONE ? begins[k] : largest;
            need += s->part->items[begins[k]].size;
        }
    if (s->level[level].n + 2 > s->q.most)
        return false;
    const struct pq_tree *t = mark_holes(s, level, p, largest, go_on);
    for (uint32_t i = 0; i < t->n; i++)
        sum += s->q.mark[i] ? t->at[i].slot : 0;
    uint64_t rest = sum > need ? sum - need : 0;
    bool is_hole = (double)rest > s->scale.tolerance * (double)need;
    double share = is_hole ? 0 : (double)rest / (double)need;
    struct pq_put put = {.n = 0};
    for (uint32_t k = 0; p->blocks >> k != 0; k++)
        if (p->blocks >> k & 1) {
            uint64_t size = s->part->items[begins[k]].size;
            put.leaf[put.n++] = (struct pq_token){.kind = PQ_BLOCK,
                                                  .name = begins[k],
                                                  .span = 1,
                                                  .slot = size + (uint64_t)((double)size * share)};
        }
    if (is_hole)
        put.leaf[put.n++] = (struct pq_token){
            .kind = PQ_HOLE, .name = rest_of(s, largest), .span = 1, .slot = rest, .loose = true};
    return reduce(s, t, &put, &s->level[level + 1], go_on, lost);
}

/* Places blocks that begin at the border, the largest first. */
static void place(struct sweep *s, uint32_t level, uint32_t blocks, double score) {
    if (blocks == 0) {
        finish(s, level, score);
        return;
    }
    struct placings c;
    c.n = 0;
    const uint32_t *begins = s->begins + s->begins_at[s->border];
    uint64_t sizes[SWEEP_EVENTS];
    for (uint32_t k = 0; blocks >> k != 0; k++)
        sizes[k] = s->part->items[begins[k]].size;
    pack_sweep_list(&s->q, &s->scale, &s->level[level], sizes, blocks, &c);
    for (uint32_t k = 0; k < c.n;) {
        double lost;
        if (put_down(s, level, &c.at[k], false, &lost))
            c.at[k++].score -= lost;
        else
            c.at[k] = c.at[--c.n];
    }
    for (uint32_t k = 0; k < c.n && k < TRIES && s->ways < WAYS && !s->found; k++) {
        uint32_t best = k, n_records = s->n_records, n_names = s->n_names, n_changed = s->n_changed;
        for (uint32_t j = k + 1; j < c.n; j++)
            if (c.at[j].score > c.at[best].score)
                best = j;
        struct placing p = c.at[best];
        c.at[best] = c.at[k];
        double lost;
        if (put_down(s, level, &p, true, &lost))
            place(s, level + 1, blocks & ~p.blocks, score + p.score);
        if (s->wanted != NONE && !s->found)
            take_back_records(s, n_records, n_names, n_changed);
    }
}

/* All ways to pass the border from a state. */
static void pass(struct sweep *s, const struct state *from) {
    struct pq_token *t = s->level[0].at;
    memcpy(t, from->tree.at, from->tree.n * sizeof *t);
    s->level[0].n = from->tree.n;
    s->ways = s->n_changed = 0;
    s->found = false;
    s->scale.random = from->hash + s->seed;
    for (uint32_t i = 0; i < from->tree.n; i++) {
        if (t[i].kind != PQ_BLOCK || hi_of(s, t[i].name) != s->border)
            continue;
        if (s->wanted != NONE) {
            struct record r = {s->border, s->n_names, 1, s->n_names + 1, 1, NONE, false};
            add_name(s, t[i].name);
            add_name(s, hole_of(s, t[i].name));
            add_record(s, &r);
        }
        t[i].kind = PQ_HOLE;
        t[i].name = hole_of(s, t[i].name);
        t[i].fresh = true;
    }
    uint32_t n = s->begins_at[s->border + 1] - s->begins_at[s->border];
    place(s, 0, (1u << n) - 1, from->score);
}

/* The state of the first section. */
static void write_first(const struct sweep *s, struct state *to) {
    uint32_t n = s->begins_at[1];
    uint64_t need = 0;
    for (uint32_t k = 0; k < n; k++)
        need += s->part->items[s->begins[k]].size;
    uint64_t rest = s->limit - need;
    bool is_hole = (double)rest > s->scale.tolerance * (double)need;
    double share = is_hole ? 0 : (double)rest / (double)need;
    struct pq_token *t = to->tree.at;
    uint32_t at = 0;
    if (n + is_hole > 1)
        t[at++] = (struct pq_token){.kind = PQ_P, .name = NONE, .span = (uint16_t)(n + is_hole + 1)};
    for (uint32_t k = 0; k < n; k++) {
        uint64_t size = s->part->items[s->begins[k]].size;
        t[at++] = (struct pq_token){.kind = PQ_BLOCK,
                                    .name = s->begins[k],
                                    .span = 1,
                                    .slot = size + (uint64_t)((double)size * share)};
    }
    if (is_hole)
        t[at++] =
            (struct pq_token){.kind = PQ_HOLE, .name = hole_above(s), .span = 1, .slot = rest, .loose = true};
    to->tree.n = at;
    to->score = 0;
    to->hash = 0;
}

static bool is_larger(const struct sweep *s, uint32_t a, uint32_t b) {
    const struct pack_item *x = &s->part->items[a], *y = &s->part->items[b];
    return x->size != y->size ? x->size > y->size : a < b;
}

/* Items by border, the largest first; false if too much happens at one. */
static bool set_lists(struct sweep *s) {
    uint32_t n = s->part->n, sections = s->part->sections;
    uint32_t *at = s->begins_at, *ends = s->spare;
    s->q.steps += 8 * (uint64_t)n;
    memset(at, 0, ((uint64_t)sections + 2) * sizeof *at);
    memset(ends, 0, ((uint64_t)sections + 1) * sizeof *ends);
    for (uint32_t i = 0; i < n; i++) {
        at[lo_of(s, i) + 2]++;
        ends[hi_of(s, i)]++;
    }
    for (uint32_t k = 1; k < sections; k++)
        if (at[k + 2] > SWEEP_EVENTS || ends[k] > SWEEP_EVENTS)
            return false;
    for (uint32_t k = 2; k < sections + 2; k++)
        at[k] += at[k - 1];
    for (uint32_t i = 0; i < n; i++) /* from where border k begins to where it ends */
        s->begins[at[lo_of(s, i) + 1]++] = i;
    for (uint32_t k = 0; k < sections; k++)
        for (uint32_t i = at[k] + 1; i < at[k + 1]; i++) {
            uint32_t item = s->begins[i], to = i;
            for (; to > at[k] && is_larger(s, item, s->begins[to - 1]); to--)
                s->begins[to] = s->begins[to - 1];
            s->begins[to] = item;
        }
    return true;
}

static bool take(struct sweep *s) {
    s->q.steps *= STEP;
    return pack_budget_take(s->budget, &s->q.steps);
}

/* From the first section to the last; false if all states die. */
static bool sweep(struct sweep *s) {
    s->n_now = 1;
    s->wanted = NONE;
    write_first(s, &s->now[0]);
    for (s->border = 1; s->border < s->part->sections; s->border++) {
        s->n_next = 0;
        for (s->parent = 0; s->parent < s->n_now; s->parent++) {
            pass(s, &s->now[s->parent]);
            if (s->q.steps >= ASK_AFTER && !take(s))
                return false;
        }
        if (s->n_next == 0)
            return false;
        struct state *swap = s->now;
        s->now = s->next;
        s->next = swap;
        s->n_now = s->n_next;
    }
    return true;
}

/* ---- From a path to offsets. ---- */

/* Takes a record back: the run for what was put in its place. */
static bool take_back(struct sweep *s, const struct record *r, uint32_t *n) {
    const uint32_t *put = s->names + r->put, *run = s->names + r->run;
    uint32_t at = NONE, witness = NONE, found = 0;
    for (uint32_t i = 0; i < *n; i++) {
        bool is_put = false;
        for (uint32_t k = 0; k < r->n_put; k++)
            is_put = is_put || s->order[i] == put[k];
        if (s->order[i] == r->witness)
            witness = i;
        if (is_put && at == NONE)
            at = i;
        found += is_put && i - at == found;
    }
    if (at == NONE || found != r->n_put || *n - r->n_put + r->n_run > 3 * s->part->n + 1)
        return false;
    bool forwards = r->witness == NONE || r->before == (witness < at);
    uint32_t behind = *n - at - r->n_put;
    memcpy(s->spare, s->order + at + r->n_put, behind * sizeof *s->order);
    for (uint32_t k = 0; k < r->n_run; k++)
        s->order[at++] = run[forwards ? k : r->n_run - 1 - k];
    memcpy(s->order + at, s->spare, behind * sizeof *s->order);
    *n = at + behind;
    s->q.steps += *n;
    return true;
}

/* What lies on what in one section; false if something is missing. */
static bool note_edges(struct sweep *s, uint32_t n, uint32_t section) {
    uint32_t before = NONE, live = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = s->order[k];
        if (i >= s->part->n)
            continue;
        live++;
        if (lo_of(s, i) > section || hi_of(s, i) <= section)
            return false;
        if (before != NONE && s->below[i] != before) {
            if (s->n_edges == s->most_edges)
                return false;
            s->below[i] = before;
            s->edges[2 * s->n_edges] = before;
            s->edges[2 * s->n_edges++ + 1] = i;
        }
        before = i;
    }
    for (uint32_t i = 0; i < s->part->n; i++)
        live -= lo_of(s, i) <= section && section < hi_of(s, i);
    s->q.steps += s->part->n / 2;
    return live == 0;
}

/* Each block on the highest of those below it; returns the peak. */
static uint64_t lay(struct sweep *s) {
    const struct pack_item *items = s->part->items;
    uint64_t peak = 0;
    memset(s->offsets, 0, s->part->n * sizeof *s->offsets);
    bool again = true;
    for (uint32_t rounds = 0; again; rounds++) {
        if (rounds > s->part->n)
            return UINT64_MAX;
        again = false;
        for (uint32_t k = 0; k < s->n_edges; k++) {
            uint32_t a = s->edges[2 * k], b = s->edges[2 * k + 1];
            uint64_t end = s->offsets[a] + items[a].size;
            again = again || end > s->offsets[b];
            s->offsets[b] = ARITH_MAX(s->offsets[b], end);
        }
        s->q.steps += s->n_edges;
    }
    for (uint32_t i = 0; i < s->part->n; i++)
        peak = ARITH_MAX(peak, s->offsets[i] + items[i].size);
    return peak;
}

/* Goes the way to a last state again, and lays its blocks; returns the peak, or UINT64_MAX. */
static uint64_t follow(struct sweep *s, uint32_t last) {
    uint32_t sections = s->part->sections, *ways = s->order, n = 0;
    for (uint32_t k = sections; k-- > 1;) {
        const struct past *p = &s->past[(uint64_t)k * s->beam + last];
        ways[k] = p->way;
        last = p->parent;
    }
    s->n_records = s->n_names = s->n_edges = 0;
    s->full = false;
    /* In the first two of the states that are not needed any more. */
    write_first(s, &s->next[1]);
    for (s->border = 1; s->border < sections; s->border++) {
        s->wanted = ways[s->border];
        pass(s, &s->next[1]);
        if (!s->found || s->full)
            return UINT64_MAX;
        struct state swap = s->next[0];
        s->next[0] = s->next[1];
        s->next[1] = swap;
    }
    const struct pq_tree *t = &s->next[1].tree;
    for (uint32_t i = 0; i < t->n; i++)
        if (pack_pq_is_leaf(&t->at[i]))
            s->order[n++] = t->at[i].name;
    for (uint32_t i = 0; i < s->part->n; i++)
        s->below[i] = NONE;
    for (uint32_t k = sections, r = s->n_records; k-- > 0;) {
        if (!note_edges(s, n, k))
            return UINT64_MAX;
        for (; r > 0 && s->records[r - 1].border == k; r--)
            if (!take_back(s, &s->records[r - 1], &n))
                return UINT64_MAX;
    }
    return lay(s);
}

/* ---- Attempts. ---- */

static uint32_t most_live(const struct pack_part *p, uint32_t *change) {
    uint32_t live = 0, most = 0;
    memset(change, 0, ((uint64_t)p->sections + 1) * sizeof *change);
    for (uint32_t i = 0; i < p->n; i++) {
        change[p->items[i].lo]++;
        change[p->items[i].hi]--; /* modulo 2^32 */
    }
    for (uint32_t k = 0; k < p->sections; k++) {
        live += change[k];
        most = ARITH_MAX(most, live);
    }
    return most;
}

static uint64_t common_unit(const struct pack_part *p) {
    uint64_t unit = 0;
    for (uint32_t i = 0; i < p->n; i++)
        for (uint64_t x = p->items[i].size; x > 0;) {
            uint64_t rest = unit % x;
            unit = x;
            x = rest;
        }
    return unit;
}

uint64_t pack_sweep_bytes(uint32_t n) {
    struct carve c = carve_count();
    n = ARITH_MIN(n, (uint32_t)PACK_VALLEY_LARGEST);
    layout(&c, n, n, n);
    return c.used;
}

/* Kinds of attempts: direction and tolerance. */
enum { DIRECTIONS = 2, TOLERANCES = 5, KINDS = DIRECTIONS * TOLERANCES };
static const double tolerances[TOLERANCES] = {0, 0.002, 0.01, 0.02, 0.06};
#define FIRST_WIDTH 8 /* of the beam, once for each kind */
#define NEXT_WIDTH  32
#define ATTEMPTS    1000
#define PER_WIDTH   6    /* attempts, then it doubles */
#define NOISE       2.0  /* bits, of all but the first */
#define HOPELESS    -3.0 /* bits for a border, of the best kind */

/* One attempt; true if a packing is found. */
static bool attempt(struct sweep *s, struct pack_part *p, uint32_t k) {
    uint32_t j = k >= KINDS ? k - KINDS : 0;
    uint32_t kind = k < KINDS ? k : j % 2 == 0 ? p->sweep_kind : j / 2 % KINDS;
    s->backwards = kind % DIRECTIONS == 1;
    s->scale.tolerance = tolerances[kind / DIRECTIONS];
    s->width = k < KINDS ? FIRST_WIDTH : NEXT_WIDTH << ARITH_MIN(j / PER_WIDTH, 10u);
    s->width = ARITH_MIN(s->width, s->beam);
    s->scale.noise = k < KINDS + 2 ? 0 : NOISE;
    s->seed = k;
    bool crowded = !set_lists(s), passed = !crowded && sweep(s);
    double best = -HUGE_VAL;
    if (crowded)
        s->n_now = 0;
    for (uint32_t i = 0; i < s->n_now; i++)
        best = ARITH_MAX(best, s->now[i].score);
    best /= crowded ? 1 : s->border;
    if (k == 0 || (k < KINDS && best > p->sweep_bits)) {
        p->sweep_bits = (float)best;
        p->sweep_kind = kind;
    }
    for (uint32_t i = 0; passed && i < s->n_now && i < FOLLOWED; i++) {
        uint64_t peak = follow(s, i);
        if (peak <= s->limit) {
            p->peak = peak;
            memcpy(p->offsets, s->offsets, p->n * sizeof *p->offsets);
            return true;
        }
    }
    return false;
}

enum pack_outcome pack_sweep(struct pack_part *p, uint64_t limit, struct pack_budget *budget,
                             struct carve work) {
    struct carve spare = work;
    uint32_t *change = carve_take(&spare, (uint64_t)p->sections + 1, sizeof *change);
    CHECK(change != NULL); /* carved, not counted */
    struct sweep s = layout(&work, p->n, p->sections, most_live(p, change));
    s.part = p;
    s.limit = limit;
    s.budget = budget;
    s.scale.unit = common_unit(p);
    pack_pq_prepare(&s.q);
    while (take(&s) && p->sweeps < ATTEMPTS && (p->sweeps < KINDS || p->sweep_bits > HOPELESS))
        if (attempt(&s, p, p->sweeps++))
            return PACK_FOUND;
    return PACK_GAVE_UP;
}
