#include "server/http/edge_pool.h"

#include "base/arith.h"
#include "base/check.h"

#include <event2/event.h>
#include <jansson.h>
#include <setjmp.h>
#include <string.h>

#define UNIT   ((size_t)16)
#define EIGHTS 8
#define LEVELS 40
#define FREE   ((size_t)1) /* in a block's size, whose last bits are 0 otherwise */

/* Blocks lie one after the other; a last one of no bytes, never free, ends them. */
struct block {
    struct block *before; /* its neighbour at lower addresses; NULL: the first */
    size_t size;          /* of the bytes behind this header, | FREE */
    struct block *next;   /* these two are there in free blocks only */
    struct block *previous;
};
#define HEADER offsetof(struct block, next)
_Static_assert(HEADER == UNIT && sizeof(struct block) == 2 * UNIT, "blocks stay aligned");

/* Of jansson's blocks, which edge_pool_try_json gives back together. */
struct link {
    struct link *next, *previous;
};
_Static_assert(sizeof(struct link) == UNIT, "blocks stay aligned");

struct region {
    unsigned char *begin;
    size_t bytes;
};

static struct {
    struct region regions[EDGE_POOL_REGIONS];
    uint32_t n_regions;
    size_t bytes; /* of all */
    size_t used, peak;
    size_t lent; /* of what is used */
    uint64_t failures;
    uint64_t levels; /* a bit for each that has free blocks, */
    uint8_t eighths[LEVELS];
    struct block *free[LEVELS][EIGHTS];
    struct link json; /* of the running edge_pool_try_json */
    bool tries_json;
    jmp_buf json_full;
} pool;

static size_t size_of(const struct block *b) {
    return b->size & ~FREE;
}

static struct block *behind(const struct block *b) {
    return (struct block *)((uintptr_t)b + HEADER + size_of(b));
}

/* The list that a free block of n bytes is in. */
static void place_of(size_t n, unsigned *level, unsigned *eighth) {
    if (n < UNIT * EIGHTS) {
        *level = 0;
        *eighth = (unsigned)(n / UNIT);
        return;
    }
    unsigned top = 63 - (unsigned)__builtin_clzll(n);
    *level = top - 6;
    *eighth = (unsigned)(n >> (top - 3)) % EIGHTS;
    CHECK(*level < LEVELS);
}

static void add_free(struct block *b) {
    unsigned level, eighth;
    place_of(size_of(b), &level, &eighth);
    struct block **head = &pool.free[level][eighth];
    b->size |= FREE;
    b->previous = NULL;
    b->next = *head;
    if (*head != NULL)
        (*head)->previous = b;
    *head = b;
    pool.levels |= (uint64_t)1 << level;
    pool.eighths[level] |= (uint8_t)(1u << eighth);
}

static void remove_free(struct block *b) {
    unsigned level, eighth;
    place_of(size_of(b), &level, &eighth);
    if (b->next != NULL)
        b->next->previous = b->previous;
    if (b->previous != NULL)
        b->previous->next = b->next;
    else
        pool.free[level][eighth] = b->next;
    if (pool.free[level][eighth] == NULL)
        pool.eighths[level] &= (uint8_t) ~(1u << eighth);
    if (pool.eighths[level] == 0)
        pool.levels &= ~((uint64_t)1 << level);
    b->size &= ~FREE;
}

/* A free block of at least n bytes: the first of the first list all of whose blocks are large enough. */
static struct block *find(size_t n) {
    unsigned level, eighth;
    if (n >= UNIT * EIGHTS)
        n += ((size_t)1 << (60 - (unsigned)__builtin_clzll(n))) - 1; /* up to the next eighth */
    place_of(n, &level, &eighth);
    unsigned here = pool.eighths[level] & (0xFFu << eighth);
    if (here == 0) {
        uint64_t above = level + 1 < 64 ? pool.levels & (~(uint64_t)0 << (level + 1)) : 0;
        if (above == 0)
            return NULL;
        level = (unsigned)__builtin_ctzll(above);
        here = pool.eighths[level];
    }
    return pool.free[level][__builtin_ctz(here)];
}

static void note_use(void) {
    pool.peak = ARITH_MAX(pool.peak, pool.used - pool.lent);
}

/* Gives back what of b is behind its first n bytes, if that is a block. */
static void cut(struct block *b, size_t n) {
    if (size_of(b) < n + sizeof(struct block))
        return;
    struct block *rest = (struct block *)((uintptr_t)b + HEADER + n);
    *rest = (struct block){.before = b, .size = size_of(b) - n - HEADER};
    b->size = n;
    struct block *next = behind(rest);
    if ((next->size & FREE) != 0) {
        remove_free(next);
        rest->size += HEADER + size_of(next);
    }
    behind(rest)->before = rest;
    add_free(rest);
}

void edge_pool_init(void *memory, size_t bytes) {
    memset(&pool, 0, sizeof pool);
    edge_pool_add(memory, bytes);
}

void edge_pool_add(void *memory, size_t bytes) {
    CHECK(memory != NULL && (uintptr_t)memory % UNIT == 0 && bytes >= 4096);
    CHECK(pool.n_regions < EDGE_POOL_REGIONS);
    const size_t whole = bytes / UNIT * UNIT;
    pool.regions[pool.n_regions++] = (struct region){memory, whole};
    pool.bytes += whole;
    volatile unsigned char *page = memory;
    for (size_t at = 0; at < bytes; at += 4096)
        page[at] = 0; /* it is there from now on, not from the first use on */
    struct block *all = memory;
    *all = (struct block){.size = whole - 2 * HEADER};
    struct block *end = behind(all);
    end->before = all;
    end->size = 0;
    pool.used += 2 * HEADER;
    add_free(all);
    note_use();
}

static size_t rounded(size_t n) {
    return n < UNIT ? UNIT : (n + UNIT - 1) / UNIT * UNIT;
}

static struct block *take(size_t n) {
    struct block *b = n < pool.bytes ? find(rounded(n)) : NULL;
    if (b == NULL) {
        pool.failures++;
        return NULL;
    }
    remove_free(b);
    cut(b, rounded(n));
    pool.used += size_of(b) + HEADER;
    return b;
}

void *edge_pool_alloc(size_t n) {
    struct block *b = take(n);
    if (b == NULL)
        return NULL;
    note_use();
    return (void *)((uintptr_t)b + HEADER);
}

void *edge_pool_lend(size_t n) {
    CHECK(pool.lent == 0);
    struct block *b = take(n);
    if (b == NULL)
        return NULL;
    pool.lent = size_of(b) + HEADER;
    return (void *)((uintptr_t)b + HEADER);
}

void *edge_pool_zeroed(size_t n, size_t size) {
    uint64_t bytes = 0;
    if (!arith_mul(n, size, &bytes)) {
        pool.failures++;
        return NULL;
    }
    void *p = edge_pool_alloc(bytes);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

/* Bytes from `at` to the end of its region; 0: it is in none. */
static size_t left_behind(uintptr_t at) {
    for (uint32_t i = 0; i < pool.n_regions; i++) {
        const uintptr_t begin = (uintptr_t)pool.regions[i].begin, end = begin + pool.regions[i].bytes;
        if (at >= begin + HEADER && at < end)
            return end - at;
    }
    return 0;
}

static struct block *block_of(void *p) {
    const uintptr_t at = (uintptr_t)p;
    const size_t left = left_behind(at);
    CHECK(left > 0 && at % UNIT == 0);
    struct block *b = (struct block *)(at - HEADER);
    CHECK((b->size & FREE) == 0 && size_of(b) >= UNIT && size_of(b) <= left - HEADER);
    CHECK(behind(b)->before == b);
    return b;
}

void edge_pool_free(void *p) {
    if (p == NULL)
        return;
    struct block *b = block_of(p);
    pool.used -= size_of(b) + HEADER;
    struct block *next = behind(b);
    if ((next->size & FREE) != 0) {
        remove_free(next);
        b->size += HEADER + size_of(next);
    }
    struct block *before = b->before;
    if (before != NULL && (before->size & FREE) != 0) {
        remove_free(before);
        before->size += HEADER + size_of(b);
        b->size = 0; /* a second give-back of it is seen */
        b = before;
    }
    behind(b)->before = b;
    add_free(b);
}

void edge_pool_take_back(void *p) {
    CHECK(p != NULL && pool.lent == size_of(block_of(p)) + HEADER);
    pool.lent = 0;
    edge_pool_free(p);
}

void *edge_pool_resize(void *p, size_t n) {
    if (p == NULL)
        return edge_pool_alloc(n);
    struct block *b = block_of(p);
    const size_t have = size_of(b);
    struct block *next = behind(b);
    if (n < pool.bytes && (next->size & FREE) != 0 && have < rounded(n) &&
        have + HEADER + size_of(next) >= rounded(n)) {
        remove_free(next);
        b->size += HEADER + size_of(next);
        behind(b)->before = b;
    }
    if (n < pool.bytes && size_of(b) >= rounded(n)) {
        cut(b, rounded(n));
        pool.used = pool.used - have + size_of(b);
        note_use();
        return p;
    }
    void *to = edge_pool_alloc(n);
    if (to == NULL)
        return NULL;
    memcpy(to, p, have);
    edge_pool_free(p);
    return to;
}

size_t edge_pool_largest(void) {
    if (pool.levels == 0)
        return 0;
    unsigned level = 63 - (unsigned)__builtin_clzll(pool.levels);
    unsigned eighth = 31 - (unsigned)__builtin_clz(pool.eighths[level]);
    return level == 0 ? eighth * UNIT : (((size_t)EIGHTS + eighth) << (level + 3));
}

void edge_pool_get_figures(struct edge_pool_figures *out) {
    *out = (struct edge_pool_figures){
        .bytes = pool.bytes, .used = pool.used, .peak = pool.peak, .failures = pool.failures};
}

/* Blocks in the lists; UINT64_MAX: one is in a wrong list, or a bit says otherwise. */
static uint64_t count_listed(void) {
    uint64_t n = 0;
    for (unsigned l = 0; l < LEVELS; l++)
        for (unsigned e = 0; e < EIGHTS; e++) {
            const bool marked = (pool.levels >> l & 1) != 0 && (pool.eighths[l] >> e & 1) != 0;
            if (marked != (pool.free[l][e] != NULL))
                return UINT64_MAX;
            for (const struct block *b = pool.free[l][e]; b != NULL; b = b->next, n++) {
                unsigned level, eighth;
                place_of(size_of(b), &level, &eighth);
                if (level != l || eighth != e || (b->size & FREE) == 0 || n > pool.bytes / UNIT)
                    return UINT64_MAX;
            }
        }
    return n;
}

/* Adds a region's used bytes and free blocks. */
static bool region_is_whole(const struct region *r, size_t *sum_used, uint64_t *sum_free) {
    const struct block *before = NULL;
    size_t used = 2 * HEADER, all = HEADER;
    uint64_t n_free = 0;
    bool was_free = false;
    const struct block *b = (const struct block *)(const void *)r->begin;
    for (; size_of(b) > 0; before = b, b = behind(b)) {
        const bool is_free = (b->size & FREE) != 0;
        all += size_of(b) + HEADER;
        if (b->before != before || all > r->bytes || (is_free && was_free))
            return false;
        used += is_free ? 0 : size_of(b) + HEADER;
        n_free += is_free;
        was_free = is_free;
    }
    *sum_used += used;
    *sum_free += n_free;
    return b->before == before && all == r->bytes;
}

bool edge_pool_is_whole(void) {
    size_t used = 0;
    uint64_t n_free = 0;
    for (uint32_t i = 0; i < pool.n_regions; i++)
        if (!region_is_whole(&pool.regions[i], &used, &n_free))
            return false;
    return used == pool.used && pool.lent <= pool.used && count_listed() == n_free;
}

static void *json_take(size_t n) {
    struct link *l = n < pool.bytes ? edge_pool_alloc(n + sizeof *l) : NULL;
    if (l == NULL) {
        if (pool.tries_json)
            longjmp(pool.json_full, 1);
        return NULL;
    }
    *l = (struct link){NULL, NULL};
    if (pool.tries_json) {
        *l = (struct link){.next = pool.json.next, .previous = &pool.json};
        if (l->next != NULL)
            l->next->previous = l;
        pool.json.next = l;
    }
    return l + 1;
}

static void json_give(void *p) {
    if (p == NULL)
        return;
    struct link *l = (struct link *)p - 1;
    if (l->previous != NULL)
        l->previous->next = l->next;
    if (l->next != NULL)
        l->next->previous = l->previous;
    edge_pool_free(l);
}

/* What was taken and not given back: given back, or no longer listed. */
static void end_try(bool give_back) {
    pool.tries_json = false;
    for (struct link *l = pool.json.next; l != NULL;) {
        struct link *next = l->next;
        *l = (struct link){NULL, NULL};
        if (give_back)
            edge_pool_free(l);
        l = next;
    }
    pool.json.next = NULL;
}

bool edge_pool_try_json(void (*f)(void *context), void *context) {
    CHECK(!pool.tries_json);
    pool.json = (struct link){NULL, NULL};
    pool.tries_json = true;
    if (setjmp(pool.json_full) != 0) {
        end_try(true);
        return false;
    }
    f(context);
    end_try(false);
    return true;
}

void edge_pool_serve_libraries(void) {
    event_set_mem_functions(edge_pool_alloc, edge_pool_resize, edge_pool_free);
    json_set_alloc_funcs(json_take, json_give);
}
