/* Random packing instances in families, and a check of packings that shares nothing with the packer; for
 * tools/bench_pack and the unit tests. Owner of memory: the caller, who ends the program when there is none.
 */
#ifndef STATOR_TOOLS_PACK_INSTANCES_H
#define STATOR_TOOLS_PACK_INSTANCES_H

#include "base/arith.h"
#include "base/check.h"
#include "pack/pack.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline uint64_t pack_instances_random(uint64_t *state) { /* SplitMix64 */
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline uint64_t pack_instances_below(uint64_t *state, uint64_t n) {
    CHECK(n > 0);
    return pack_instances_random(state) % n;
}

static inline double pack_instances_unit(uint64_t *state) { /* in (0, 1] */
    return ((double)(pack_instances_random(state) >> 11) + 1) * 0x1p-53;
}

enum pack_family {
    PACK_SHORT,        /* n steps, lifetimes up to 8; sizes up to 2^20 where nothing else is said */
    PACK_MEDIUM,       /* ... up to 64 */
    PACK_LONG,         /* ... up to 1000 */
    PACK_EXPONENTIAL,  /* n steps, lifetimes exponential of mean 100 */
    PACK_CROWDED,      /* n/8 steps, lifetimes up to n/8 */
    PACK_ENDS,         /* two random end points */
    PACK_ENDS_GEO,     /* ... with exponential sizes */
    PACK_ENDS_LOG,     /* ... with log-uniform sizes */
    PACK_ENDS_POWERS,  /* ... with sizes 2^0 to 2^20 */
    PACK_HEAVY,        /* Pareto sizes and lifetimes */
    PACK_TRAINING,     /* forward and backward: kept from step i to 2 n - i, and short work */
    PACK_BURSTS,       /* begins come in bursts */
    PACK_ALIGNED,      /* like MEDIUM, alignments 1 to 256 */
    PACK_LONG_ALIGNED, /* like LONG, alignments 1 to 4096 */
    PACK_FEW_SIZES,    /* five sizes, lifetimes up to 200 */
    PACK_INVERSE,      /* what lives long is small */
    PACK_MIXED,        /* a tenth lives for a quarter of the time, the others up to 16 steps */
    PACK_TILING,       /* a rectangle of 2^20 cut until there are n: no byte may be wasted */
    PACK_LOG,          /* log-uniform lifetimes up to 2000, sizes 2^10 to 2^20 */
    PACK_WAVES,        /* begins crowd together here and there, lifetimes up to 500 */
    PACK_ZIPF,         /* sizes 2^20 / k, lifetimes up to n/20 */
    PACK_TWO_LIVES,    /* a fifth lives for n/50 steps, the others for n/1000 */
    PACK_FAMILIES
};

static inline const char *pack_family_name(enum pack_family f) {
    static const char *const names[PACK_FAMILIES] = {
        "short",    "medium",       "long",        "exponential", "crowded",  "ends",
        "ends-geo", "ends-log",     "ends-powers", "heavy",       "training", "bursts",
        "aligned",  "long-aligned", "few-sizes",   "inverse",     "mixed",    "tiling",
        "log",      "waves",        "zipf",        "two-lives"};
    return names[f];
}

/* One of n blocks to be cut: the largest of a few, so that pieces stay comparable. */
static inline size_t pack_instances_large(const struct pack_block *b, size_t n, uint64_t *rng) {
    size_t i = pack_instances_below(rng, n);
    for (int tries = 0; tries < 3; tries++) {
        size_t other = pack_instances_below(rng, n);
        if ((double)b[other].bytes * (b[other].end - b[other].first) >
            (double)b[i].bytes * (b[i].end - b[i].first))
            i = other;
    }
    return i;
}

/* Cuts a rectangle of 1024 steps and 1024 * unit bytes n - 1 times: always the largest piece, across its
 * longer side, in the middle three fifths. Pieces of much the same size and shape say little about how they
 * lay. */
static inline void pack_instances_tile_evenly(struct pack_block *b, size_t n, uint64_t unit, uint64_t *rng) {
    CHECK(n <= 4096); /* then a largest piece can be cut */
    b[0] = (struct pack_block){.bytes = 1024 * unit, .align = 1, .first = 0, .end = 1024};
    for (size_t k = 1; k < n; k++) {
        size_t i = 0;
        for (size_t j = 1; j < k; j++)
            if (b[j].bytes / unit * (b[j].end - b[j].first) > b[i].bytes / unit * (b[i].end - b[i].first))
                i = j;
        const uint64_t steps = b[i].end - b[i].first, units = b[i].bytes / unit,
                       longer = ARITH_MAX(steps, units);
        const uint64_t cut = longer / 5 + pack_instances_below(rng, longer - 2 * (longer / 5) - 1) + 1;
        b[k] = b[i];
        if (steps > units) { /* the first cut is not in time: that would make two parts */
            b[i].end = b[k].first = b[i].first + (uint32_t)cut;
        } else {
            b[i].bytes = cut * unit;
            b[k].bytes -= cut * unit;
            b[k].offset += cut * unit;
        }
    }
}

/* Takes some blocks away, in percent; returns how many stay. */
static inline size_t pack_instances_leave_out(struct pack_block *b, size_t n, unsigned percent,
                                              uint64_t *rng) {
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (pack_instances_below(rng, 100) >= percent)
            b[left++] = b[i];
    return left;
}

/* Cuts a rectangle of `span` steps and `height` bytes at random places into n blocks. Blocks' offsets are
 * where they lay. */
static inline void pack_instances_tile(struct pack_block *b, size_t n, uint32_t span, uint64_t height,
                                       uint64_t unit, uint64_t *rng) {
    b[0] = (struct pack_block){.bytes = height, .align = 1, .first = 0, .end = span};
    for (size_t k = 1; k < n;) {
        size_t i = pack_instances_large(b, k, rng);
        uint32_t steps = b[i].end - b[i].first;
        uint64_t units = b[i].bytes / unit;
        bool in_time = pack_instances_below(rng, 2) == 0;
        if (in_time ? steps < 2 : units < 2)
            continue;
        b[k] = b[i];
        if (in_time) {
            b[i].end = b[k].first = b[i].first + 1 + (uint32_t)pack_instances_below(rng, steps - 1);
        } else {
            uint64_t cut = (1 + pack_instances_below(rng, units - 1)) * unit;
            b[i].bytes = cut;
            b[k].bytes -= cut;
            b[k].offset += cut;
        }
        k++;
    }
}

/* The same, but a third of the cuts make five pieces around one in the middle: no two halves can be cut apart
 * again. span and height / unit must be large enough for n pieces. */
static inline void pack_instances_pinwheels(struct pack_block *b, size_t n, uint32_t span, uint64_t height,
                                            uint64_t unit, uint64_t *rng) {
    b[0] = (struct pack_block){.bytes = height, .align = 1, .first = 0, .end = span};
    for (size_t k = 1; k < n;) {
        size_t i = pack_instances_large(b, k, rng);
        struct pack_block whole = b[i];
        uint32_t steps = whole.end - whole.first;
        uint64_t units = whole.bytes / unit, kind = pack_instances_below(rng, 6);
        if (kind < 2 && n - k >= 4 && steps >= 3 && units >= 3) {
            /* Cuts x < y in time and u < v in bytes; the five lie around the middle one. */
            uint32_t x = 1 + (uint32_t)pack_instances_below(rng, steps - 2);
            uint32_t y = x + 1 + (uint32_t)pack_instances_below(rng, steps - x - 1);
            uint64_t u = 1 + pack_instances_below(rng, units - 2);
            uint64_t v = u + 1 + pack_instances_below(rng, units - u - 1);
            const uint64_t corners[5][4] = {
                {0, y, 0, u}, {y, steps, 0, v}, {x, steps, v, units}, {0, x, u, units}, {x, y, u, v}};
            for (size_t j = 0; j < 5; j++) {
                const uint64_t *c = corners[j];
                struct pack_block *to = &b[j == 0 ? i : k++];
                *to = whole;
                to->first = whole.first + (uint32_t)(kind == 0 ? c[0] : steps - c[1]);
                to->end = whole.first + (uint32_t)(kind == 0 ? c[1] : steps - c[0]);
                to->offset = whole.offset + c[2] * unit;
                to->bytes = (c[3] - c[2]) * unit;
            }
        } else if (kind < 4 && steps >= 2) {
            b[k] = whole;
            b[i].end = b[k].first = whole.first + 1 + (uint32_t)pack_instances_below(rng, steps - 1);
            k++;
        } else if (kind >= 4 && units >= 2) {
            b[k] = whole;
            b[i].bytes = (1 + pack_instances_below(rng, units - 1)) * unit;
            b[k].bytes -= b[i].bytes;
            b[k].offset += b[i].bytes;
            k++;
        }
    }
}

/* Makes each block smaller, by a share of `slack` on average; a packing stays one. */
static inline void pack_instances_shrink(struct pack_block *b, size_t n, double slack, uint64_t *rng) {
    for (size_t i = 0; i < n; i++)
        b[i].bytes -= (uint64_t)((double)b[i].bytes * 2 * slack * (1 - pack_instances_unit(rng)));
}

static inline void pack_family_fill(enum pack_family f, struct pack_block *b, size_t n, uint64_t seed) {
    uint64_t rng = seed * (PACK_TILING + 1) + f, burst = 0; /* so that those there were stay the same */
    uint64_t steps = f == PACK_CROWDED ? n / 8 + 1 : n;
    if (f == PACK_TILING) {
        pack_instances_tile(b, n, (uint32_t)n, 1 << 20, 1, &rng);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t first = pack_instances_below(&rng, steps), length = 1;
        uint64_t bytes = 1 + pack_instances_below(&rng, 1 << 20), align = 1;
        double chance = pack_instances_unit(&rng), other = pack_instances_unit(&rng);
        switch (f) {
        case PACK_SHORT:
            length += pack_instances_below(&rng, 8);
            break;
        case PACK_ALIGNED:
            align = 1ull << pack_instances_below(&rng, 9);
            length += pack_instances_below(&rng, 64);
            break;
        case PACK_MEDIUM:
            length += pack_instances_below(&rng, 64);
            break;
        case PACK_LONG_ALIGNED:
            align = 1ull << pack_instances_below(&rng, 13);
            length += pack_instances_below(&rng, 1000);
            break;
        case PACK_LONG:
            length += pack_instances_below(&rng, 1000);
            break;
        case PACK_EXPONENTIAL:
            length += (uint64_t)(-100 * log(chance));
            break;
        case PACK_CROWDED:
            length += pack_instances_below(&rng, steps);
            break;
        case PACK_ENDS:
        case PACK_ENDS_GEO:
        case PACK_ENDS_LOG:
        case PACK_ENDS_POWERS: {
            uint64_t second = pack_instances_below(&rng, steps);
            length += first < second ? second - first : first - second;
            first = first < second ? first : second;
            if (f == PACK_ENDS_GEO)
                bytes = 1 + (uint64_t)(-65536 * log(chance));
            else if (f == PACK_ENDS_LOG)
                bytes = (uint64_t)pow(2, 20 * chance);
            else if (f == PACK_ENDS_POWERS)
                bytes = 1ull << pack_instances_below(&rng, 21);
            break;
        }
        case PACK_HEAVY:
            bytes = (uint64_t)(1000 * pow(chance, -1 / 1.2));
            length += (uint64_t)(2 * pow(other, -1 / 1.2));
            break;
        case PACK_TRAINING:
            if (i % 2 == 0) {
                first = i / 2;
                length = 2 * (n - i / 2) - first;
            } else {
                first = pack_instances_below(&rng, 2 * n);
                length += pack_instances_below(&rng, 4);
            }
            break;
        case PACK_BURSTS:
            if (i % 50 == 0)
                burst = first;
            first = burst + pack_instances_below(&rng, 4);
            length += pack_instances_below(&rng, 300);
            break;
        case PACK_FEW_SIZES: {
            static const uint64_t sizes[] = {4096, 12288, 65536, 100000, 7777};
            bytes = sizes[pack_instances_below(&rng, 5)];
            length += pack_instances_below(&rng, 200);
            break;
        }
        case PACK_INVERSE:
            length += pack_instances_below(&rng, 1000);
            bytes = 1 + bytes / length;
            break;
        case PACK_MIXED:
            length += pack_instances_below(&rng, i % 10 == 0 ? steps / 4 + 1 : 16);
            break;
        case PACK_LOG:
            length = (uint64_t)pow(2000, chance);
            bytes = (uint64_t)pow(2, 10 + 10 * other);
            break;
        case PACK_WAVES:
            first = (uint64_t)((double)n * (0.5 + 0.5 * sin(12 * chance) * other));
            length += pack_instances_below(&rng, 500);
            break;
        case PACK_ZIPF:
            bytes = (1 << 20) / (1 + pack_instances_below(&rng, 64));
            length += pack_instances_below(&rng, n / 20 + 1);
            break;
        case PACK_TWO_LIVES:
            length += i % 5 == 0 ? n / 50 : n / 1000;
            break;
        case PACK_TILING:
        case PACK_FAMILIES:
            abort();
        }
        b[i] = (struct pack_block){
            .bytes = bytes, .align = align, .first = (uint32_t)first, .end = (uint32_t)(first + length)};
    }
}

/* Largest ends of what was placed, over ranges of time: a tree over slots, where `all` covers the whole of a
 * node and `most` a part of it at least. */
struct pack_instances_tree {
    uint64_t *all;
    uint64_t *most;
    uint32_t leaves;
};

static inline uint64_t pack_instances_reach(struct pack_instances_tree *t, uint32_t node, uint32_t from,
                                            uint32_t size, uint32_t lo, uint32_t hi, uint64_t end) {
    if (hi <= from || from + size <= lo)
        return 0;
    if (end > 0 && t->most[node] < end)
        t->most[node] = end;
    if (lo <= from && from + size <= hi) {
        if (end > 0)
            t->all[node] = end;
        return t->most[node];
    }
    uint64_t l = pack_instances_reach(t, 2 * node, from, size / 2, lo, hi, end);
    uint64_t r = pack_instances_reach(t, 2 * node + 1, from + size / 2, size / 2, lo, hi, end);
    uint64_t most = l > r ? l : r;
    return most > t->all[node] ? most : t->all[node];
}

static inline int pack_instances_by_offset(const void *x, const void *y) {
    const struct pack_block *a = *(const struct pack_block *const *)x,
                            *b = *(const struct pack_block *const *)y;
    return a->offset != b->offset ? (a->offset < b->offset ? -1 : 1) : 0;
}

/* In order of offset, each block must lie on top of all before it that it shares a step with: O(n log n).
 * NULL if the packing is valid and its peak no more than `peak`, else what is wrong. */
static inline const char *pack_instances_check(const struct pack_block *b, size_t n, uint64_t peak) {
    const struct pack_block **sorted = calloc(n + 1, sizeof *sorted);
    uint32_t last = 1;
    size_t live = 0;
    const char *wrong = NULL;
    for (size_t i = 0; i < n; i++) {
        if (b[i].bytes == 0 || b[i].first >= b[i].end)
            continue;
        sorted[live++] = &b[i];
        last = b[i].end > last ? b[i].end : last;
    }
    struct pack_instances_tree t = {.leaves = 1};
    while (t.leaves < last)
        t.leaves *= 2;
    t.all = calloc(2 * (size_t)t.leaves, sizeof *t.all);
    t.most = calloc(2 * (size_t)t.leaves, sizeof *t.most);
    qsort(sorted, live, sizeof *sorted, pack_instances_by_offset);
    for (size_t i = 0; i < live && wrong == NULL; i++) {
        const struct pack_block *it = sorted[i];
        if (it->offset % it->align != 0)
            wrong = "an offset is not aligned";
        if (it->offset + it->bytes > peak)
            wrong = "a block ends above the peak";
        if (pack_instances_reach(&t, 1, 0, t.leaves, it->first, it->end, 0) > it->offset)
            wrong = "two blocks overlap";
        pack_instances_reach(&t, 1, 0, t.leaves, it->first, it->end, it->offset + it->bytes);
    }
    free(t.all);
    free(t.most);
    free(sorted);
    return wrong;
}

#endif
