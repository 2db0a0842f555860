/* Repairs a packing of one part: around a block that ends too high, all blocks that live within a window of
 * time are removed, and pack_skyline.c packs them again; blocks that reach beyond the window stay as
 * obstacles. A small part is a single window. (This is a large neighbourhood search.)
 *
 * A window is filled level by level, as a beam search: each level is filled many times, with varying styles
 * and noise, and the best few results are continued. Waste adds up over the levels, so selecting at each
 * level gives much less of it than as many whole attempts would. Which style suits differs from part to part:
 * those whose results were continued are drawn more often. The new packing is kept if no more of it lies
 * above the target than before.
 *
 * Selection is blind until waste shows: in mixed 1000 seed 7 (tools/pack_instances.h) nearly nothing is
 * wasted near the peak up to 13 of the 30 levels, and then much at once; pack_overlap.c
 * makes up for that. Tried without gain: a regret that also counts sections below SOFT, chains of blocks that
 * cover a valley best, styles that count sizes, few successors for each state of the beam. A NOISE of 0.6 is
 * better on twelve such instances (1.18% on average, 1.51% with 0.3; a beam of at most 16 then ends
 * at 1.28%), not over 30 seeds.
 *
 * Invariant: all offsets of the part are multiples of its largest alignment, before and after. */
#include "pack/pack_skyline.h"

#include <string.h>

#define WHOLE      30000 /* items; larger parts are repaired window by window */
#define FEW        512   /* blocks, up to which the beam is no broader than BEAM_FEW */
#define WINDOW     3000  /* blocks that a window should have */
#define ITEMS      WHOLE /* ... and may have */
#define SECTIONS   WHOLE
#define OBSTACLES  8192
#define FEWEST     16
#define LEVELS     30
#define SAMPLES    16 /* per level, at least */
#define BEAM       2  /* states that are continued, at least */
#define BEAM_MOST  64 /* ... at most, with PER_BEAM samples for each */
#define BEAM_FEW   24
#define PER_BEAM   10
#define NOISE      0.3  /* share of randomness in a block's score */
#define SOFT       0.98 /* of the target: what is wasted above it is regretted */
#define CANDIDATES 100  /* compared for one valley */
#define WINS       8    /* that each style starts with */
#define WINS_MOST  1024 /* in total, before all are halved: old ones count less */

/* Measured on families of tools/bench_pack. */
enum { STYLES = 4 };
static const struct skyline_style styles[STYLES] = {
    {.softness = 0.01, .waste_cost = 3, .squared = true, .wall = 1.5, .fit = 1.5},
    {.softness = 0.003, .waste_cost = 3, .squared = true, .wall = 1.2, .fit = 2},
    {.softness = 0.001, .waste_cost = 3, .wall = 1.2, .fit = 2},
    {.softness = 0.01, .waste_cost = 1, .wall = 1.5, .fit = 1.5},
};

struct repair {
    struct pack_part *part;
    struct skyline s;                     /* the window */
    struct skyline_state base[BEAM_MOST]; /* the beam: states filled up to a level */
    struct skyline_state next[BEAM_MOST]; /* the best states of the next level, by regret */
    double regret[BEAM_MOST];             /* of next */
    uint32_t style[BEAM_MOST];            /* ... and the style each was filled with */
    uint32_t wins[STYLES];                /* how often a state filled with it was continued */
    uint32_t n_base;
    uint32_t n_next;
    uint32_t most_beam;      /* states that there is memory for */
    uint32_t beam;           /* ... and that are used at most */
    uint32_t samples;        /* of a level */
    uint64_t cost;           /* steps of one sample over all levels; 0: not known */
    struct pack_item *items; /* the window's blocks */
    uint32_t *source;        /* ... in the part */
    uint32_t most_obstacles;
    struct pack_obstacle *left;
    struct pack_obstacle *right;
    struct pack_obstacle *found; /* left and right ones */
    struct pack_key *keys;
    struct pack_key *spare;
    uint64_t *live; /* [sections + 1] of the part */
    uint32_t *high; /* [n] blocks that end above the goal */
    uint32_t n_high;
    uint64_t goal; /* ends above it count */
    uint64_t random;
};

static uint64_t state_bytes(uint32_t n) {
    struct carve c = carve_count();
    pack_skyline_state(&c, ARITH_MIN(n, (uint32_t)ITEMS), ARITH_MIN(n, (uint32_t)SECTIONS));
    return c.used;
}

/* Memory for the states of parts of up to n items. */
static uint64_t beam_bytes(uint32_t n) {
    uint64_t most = n > FEW ? BEAM_MOST : BEAM_FEW;
    uint64_t broad = 2 * most * state_bytes(ARITH_MIN(n, (uint32_t)PACK_VALLEY_LARGEST));
    return ARITH_MAX(broad, 2 * BEAM * state_bytes(n));
}

/* Large parts get as wide a beam as there is memory for. */
static uint32_t most_beam(uint32_t n) {
    uint64_t most = ARITH_MIN(beam_bytes(n) / 2 / state_bytes(n), (uint64_t)BEAM_MOST);
    return (uint32_t)ARITH_MAX(most, (uint64_t)BEAM);
}

static struct repair layout(struct carve *c, uint32_t n) {
    struct repair m = {0};
    uint32_t items = ARITH_MIN(n, (uint32_t)ITEMS), sections = ARITH_MIN(n, (uint32_t)SECTIONS);
    uint32_t obstacles = m.most_obstacles = ARITH_MIN(n, (uint32_t)OBSTACLES);
    m.s = pack_skyline_layout(c, items, sections);
    m.items = carve_take(c, items, sizeof *m.items);
    m.source = carve_take(c, items, sizeof *m.source);
    m.left = carve_take(c, obstacles, sizeof *m.left);
    m.right = carve_take(c, obstacles, sizeof *m.right);
    m.found = carve_take(c, obstacles, sizeof *m.found);
    m.keys = carve_take(c, obstacles, sizeof *m.keys);
    m.spare = carve_take(c, obstacles, sizeof *m.spare);
    m.live = carve_take(c, (uint64_t)n + 1, sizeof *m.live);
    m.high = carve_take(c, n, sizeof *m.high);
    m.most_beam = most_beam(n);
    struct carve beam = {carve_take(c, beam_bytes(n), 1), 0, beam_bytes(n)};
    for (uint32_t k = 0; k < m.most_beam; k++) {
        m.base[k] = pack_skyline_state(&beam, items, sections);
        m.next[k] = pack_skyline_state(&beam, items, sections);
    }
    return m;
}

uint64_t pack_repair_bytes(uint32_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    return c.used;
}

static uint64_t rounded(const struct repair *m, uint64_t size) {
    return pack_part_align(size, m->part->max_align);
}

static uint64_t top_of(const struct repair *m, uint32_t i) {
    return m->part->offsets[i] + rounded(m, m->part->items[i].size);
}

static uint64_t below(struct repair *m, uint64_t n) {
    return pack_part_random(&m->random) % n;
}

bool pack_repair_can(const struct pack_part *p) {
    return p->n >= FEWEST && pack_part_is_aligned(p);
}

static void find_high(struct repair *m) {
    const struct pack_part *p = m->part;
    m->n_high = 0;
    m->goal = p->target;
    uint64_t high = p->target + (p->peak - p->target) / 4 * 3;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->offsets[i] + p->items[i].size > high)
            m->high[m->n_high++] = i;
    m->s.steps += p->n;
}

/* The window [*begin, *end) around a section. */
static void choose_window(struct repair *m, uint32_t section, uint32_t *begin, uint32_t *end) {
    const struct pack_part *p = m->part;
    uint32_t first = 0, last = 0;
    *begin = 0;
    *end = p->sections;
    if (p->n <= WHOLE)
        return;
    for (uint64_t width = 4;; width = width * 3 / 2) {
        uint64_t before = width / 3 + below(m, width / 3 + 1);
        *begin = section > before ? section - (uint32_t)before : 0;
        *end = (uint32_t)ARITH_MIN(*begin + width, (uint64_t)p->sections);
        uint32_t inside = 0, low = 0, high = p->n;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (p->items[middle].lo < *begin)
                low = middle + 1;
            else
                high = middle;
        }
        for (first = last = low; last < p->n && p->items[last].lo < *end; last++)
            inside += p->items[last].hi <= *end;
        m->s.steps += last - first;
        if (inside >= WINDOW || width * 3 / 2 > SECTIONS || (*begin == 0 && *end == p->sections))
            return;
    }
}

/* By bottom, and to the edge that they reach. */
static void sort_obstacles(struct repair *m, uint32_t n) {
    struct skyline *s = &m->s;
    s->n_left = s->n_right = 0;
    for (uint32_t i = 0; i < n; i++)
        m->keys[i] = (struct pack_key){m->found[i].bottom, 0, i};
    pack_part_sort(m->keys, m->spare, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct pack_obstacle *o = &m->found[m->keys[i].index];
        if (o->lo == 0)
            m->left[s->n_left++] = *o;
        else
            m->right[s->n_right++] = *o;
    }
    m->s.steps += 20 * (uint64_t)n;
}

/* Sets up the window: the blocks that live within [begin, end) will be packed again. False if it holds too
 * many items or obstacles. */
static bool open_window(struct repair *m, uint32_t begin, uint32_t end) {
    const struct pack_part *p = m->part;
    struct skyline *s = &m->s;
    uint32_t n_found = 0;
    s->n = 0;
    s->sections = end - begin;
    s->live = m->live + begin;
    for (uint32_t i = 0; i < p->n && p->items[i].lo < end; i++) {
        const struct pack_item *it = &p->items[i];
        if (it->hi <= begin)
            continue;
        uint32_t lo = it->lo > begin ? it->lo - begin : 0, hi = ARITH_MIN(it->hi, end) - begin;
        if (begin <= it->lo && it->hi <= end) {
            if (s->n == ITEMS)
                return false;
            m->items[s->n] = *it;
            m->items[s->n].lo = lo;
            m->items[s->n].hi = hi;
            m->source[s->n++] = i;
        } else {
            if (n_found == m->most_obstacles)
                return false;
            m->found[n_found++] = (struct pack_obstacle){p->offsets[i], top_of(m, i), lo, hi};
        }
        m->s.steps += 4;
    }
    sort_obstacles(m, n_found);
    return true;
}

/* The excess above the goal, squared, so that one high block counts more than two lower ones. */
static double excess(const struct repair *m, uint64_t top) {
    double e = top > m->goal ? (double)(top - m->goal) : 0;
    return e * e;
}

/* How much the waste so far will hurt: it adds to the live sum of its section. */
static double regret(struct repair *m, uint64_t *bound) {
    const struct skyline *s = &m->s;
    *bound = 0;
    double sum = 0, goal = (double)m->goal * SOFT;
    for (uint32_t k = 0; k < s->sections; k++) {
        uint64_t all = s->live[k] + s->now.wasted[k];
        double over = (double)all - goal;
        *bound = ARITH_MAX(*bound, all);
        if (over > 0)
            sum += over * over * over * over;
    }
    m->s.steps += s->sections;
    return sum;
}

static void swap_states(struct skyline_state *a, struct skyline_state *b) {
    struct skyline_state t = *a;
    *a = *b;
    *b = t;
}

/* Inserts the current state among the best of this level, if it belongs there. */
static void keep_sample(struct repair *m, double r, uint32_t style) {
    if (m->n_next == m->beam && r >= m->regret[m->beam - 1])
        return;
    uint32_t at = m->n_next < m->beam ? m->n_next++ : m->beam - 1;
    swap_states(&m->next[at], &m->s.now);
    for (; at > 0 && r < m->regret[at - 1]; at--) {
        swap_states(&m->next[at], &m->next[at - 1]);
        m->regret[at] = m->regret[at - 1];
        m->style[at] = m->style[at - 1];
    }
    m->regret[at] = r;
    m->style[at] = style;
}

/* At random, weighted by wins. */
static uint32_t draw_style(struct repair *m) {
    uint64_t all = 0;
    for (uint32_t k = 0; k < STYLES; k++)
        all += m->wins[k];
    uint64_t at = below(m, all);
    uint32_t style = 0;
    while (at >= m->wins[style])
        at -= m->wins[style++];
    return style;
}

static void count_wins(struct repair *m) {
    uint32_t all = 0;
    for (uint32_t k = 0; k < m->n_next; k++)
        m->wins[m->style[k]]++;
    for (uint32_t k = 0; k < STYLES; k++)
        all += m->wins[k];
    for (uint32_t k = 0; k < STYLES && all > WINS_MOST; k++)
        m->wins[k] = (m->wins[k] + 1) / 2; /* none falls to 0 */
}

/* Fills the window level by level, each many times; the samples with the least regret are continued. False
 * when none can end below the present peak. */
static bool fill_by_levels(struct repair *m) {
    struct skyline *s = &m->s;
    uint64_t step = m->part->peak / LEVELS + 1;
    pack_skyline_begin(s);
    pack_skyline_copy(s, &m->base[0], &s->now);
    m->n_base = 1;
    for (uint32_t level = 1; m->base[0].left > 0; level++) {
        m->n_next = 0;
        for (uint32_t k = 0; k < m->samples; k++) {
            uint32_t style = draw_style(m);
            struct skyline_style t = styles[style];
            t.noise = NOISE;
            pack_skyline_copy(s, &s->now, &m->base[k % m->n_base]);
            pack_skyline_set_style(s, &t, pack_part_random(&m->random));
            pack_skyline_fill(s, &t, level < LEVELS ? level * step : UINT64_MAX);
            if (s->out_of_steps)
                return false;
            uint64_t bound;
            double r = regret(m, &bound);
            if (bound < m->part->peak)
                keep_sample(m, r, style);
        }
        if (m->n_next == 0)
            return false;
        count_wins(m);
        for (uint32_t k = 0; k < m->n_next; k++)
            swap_states(&m->base[k], &m->next[k]);
        m->n_base = m->n_next;
    }
    swap_states(&s->now, &m->base[0]);
    return true;
}

/* Fills the window; true if the packing changed. */
static bool refill(struct repair *m) {
    struct pack_part *p = m->part;
    struct skyline *s = &m->s;
    double before = 0, after = 0;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < s->n; i++)
        before += excess(m, p->offsets[m->source[i]] + m->items[i].size);
    pack_skyline_prepare(s);
    if (!fill_by_levels(m))
        return false;
    for (uint32_t i = 0; i < s->n; i++) {
        after += excess(m, s->now.offsets[i] + m->items[i].size);
        peak = ARITH_MAX(peak, s->now.offsets[i] + m->items[i].size);
    }
    if (after > before || peak > p->peak)
        return false;
    for (uint32_t i = 0; i < s->n; i++)
        p->offsets[m->source[i]] = s->now.offsets[i];
    return true;
}

static void measure(struct repair *m) {
    struct pack_part *p = m->part;
    pack_part_measure(p);
    find_high(m);
}

static struct repair prepare(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    struct repair m = layout(&work, p->n);
    CHECK(m.live != NULL); /* carved, not counted */
    m.part = p;
    m.s.items = m.items;
    m.s.max_align = p->max_align;
    m.s.candidates = CANDIDATES;
    m.s.budget = budget;
    m.s.left = m.left;
    m.s.right = m.right;
    m.random = p->seed++;
    for (uint32_t k = 0; k < STYLES; k++)
        m.wins[k] = WINS;
    pack_part_live(p, p->max_align, m.live);
    return m;
}

void pack_repair_run(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    struct repair m = prepare(p, budget, work);
    measure(&m);
    while (p->peak > p->target && !m.s.out_of_steps && pack_budget_spend(budget, &m.s.steps)) {
        uint64_t left = budget->steps;
        m.beam = BEAM;
        if (m.cost > 0 && p->n <= WHOLE) /* of many windows, each is repaired quickly */
            m.beam = (uint32_t)ARITH_MIN(left / (PER_BEAM * m.cost), (uint64_t)m.most_beam);
        m.beam = ARITH_MAX(m.beam, (uint32_t)BEAM);
        m.samples = ARITH_MAX(PER_BEAM * m.beam, (uint32_t)SAMPLES);
        uint32_t i = m.high[below(&m, m.n_high)], begin, end;
        uint32_t section = p->items[i].lo + (uint32_t)below(&m, p->items[i].hi - p->items[i].lo);
        choose_window(&m, section, &begin, &end);
        m.s.limit = p->target + (p->peak - p->target) / 2;
        if (open_window(&m, begin, end) && m.s.n >= 2 && refill(&m))
            measure(&m);
        m.cost = (left - budget->steps + m.s.steps) / m.samples;
    }
    pack_budget_spend(budget, &m.s.steps);
}
