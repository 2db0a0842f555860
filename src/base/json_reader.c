#include "base/json_reader.h"

#include "base/arith.h"
#include "base/check.h"

#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- jansson's memory: blocks of 16 << n bytes, each behind its n; a freed one is the next of its kind */

#define UNIT  ((size_t)16)
#define KINDS 40

struct block {
    alignas(16) size_t kind;
    struct block *next; /* of those that are free */
};
_Static_assert(sizeof(struct block) == UNIT, "blocks stay aligned");

struct pool {
    unsigned char *begin;
    size_t bytes;
    size_t used;
    struct block *free[KINDS];
    /* Where the walk goes on when the memory is used up. Returning NULL is not safe: jansson 2.14 reads
     * beyond the end of a buffer that could not grow. Nothing leaks, as all it holds is in the pool. */
    jmp_buf full;
};

/* jansson's allocator is a function without a context: during a walk this is the walk's pool, else NULL. */
static _Thread_local struct pool *current;

static void *pool_take(size_t bytes) {
    struct pool *p = current;
    size_t kind = 0;
    if (p == NULL) /* not a walk's: chat/ */
        return malloc(bytes);
    while (kind < KINDS && UNIT << kind < bytes)
        kind++;
    if (kind == KINDS || (p->free[kind] == NULL && (UNIT << kind) + UNIT > p->bytes - p->used))
        longjmp(p->full, 1);
    struct block *b = p->free[kind];
    if (b != NULL) {
        p->free[kind] = b->next;
        return b + 1;
    }
    b = (struct block *)(void *)(p->begin + p->used);
    b->kind = kind;
    p->used += (UNIT << kind) + UNIT;
    return b + 1;
}

static void pool_give(void *block) {
    struct pool *p = current;
    if (p == NULL) {
        free(block);
        return;
    }
    if (block == NULL)
        return;
    struct block *b = (struct block *)block - 1;
    CHECK((unsigned char *)b >= p->begin && (unsigned char *)b < p->begin + p->used);
    CHECK(b->kind < KINDS);
    b->next = p->free[b->kind];
    p->free[b->kind] = b;
}

static void use_pools(void) {
    json_set_alloc_funcs(pool_take, pool_give);
}

size_t json_reader_bytes(size_t n) {
    uint64_t bytes = 0;
    return arith_mul(n, 32, &bytes) && arith_add(bytes, 64 << 10, &bytes) ? bytes : SIZE_MAX;
}

/* --- the walk */

struct reader {
    bool (*visit)(void *context, const struct json_value *v);
    void *context;
    stator_error *e;
    int depth;
    size_t path_length;
    char path[JSON_READER_PATH];
};

static stator_status take_value(struct reader *r, const json_t *v);

static stator_status take_scalar(struct reader *r, const json_t *v) {
    struct json_value out = {.kind = JSON_READER_NULL, .path = r->path, .text = ""};
    if (json_is_string(v)) {
        out.kind = JSON_READER_STRING;
        out.text = json_string_value(v);
    } else if (json_is_number(v)) {
        out.kind = JSON_READER_NUMBER;
        out.is_u64 = json_is_integer(v) && json_integer_value(v) >= 0;
        out.number = out.is_u64 ? (uint64_t)json_integer_value(v) : 0;
    } else if (json_is_boolean(v)) {
        out.kind = JSON_READER_BOOL;
        out.truth = json_is_true(v);
    }
    if (r->visit(r->context, &out))
        return STATOR_OK;
    return error_set(r->e, STATOR_USAGE, "unexpected value at %s", r->path);
}

/* A member of an object or an item of an array. */
static stator_status take_item(struct reader *r, const char *name, const json_t *v) {
    const size_t above = r->path_length;
    int n = snprintf(r->path + above, sizeof r->path - above, "%s%s", above > 0 ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof r->path - above)
        return error_set(r->e, STATOR_USAGE,
                         "the names of members at %.200s.. are too long: together at most %d bytes", r->path,
                         JSON_READER_PATH - 1);
    r->path_length = above + (size_t)n;
    stator_status st = take_value(r, v);
    r->path_length = above;
    r->path[above] = '\0';
    return st;
}

static stator_status take_value(struct reader *r, const json_t *v) {
    stator_status st = STATOR_OK;
    if (!json_is_object(v) && !json_is_array(v))
        return take_scalar(r, v);
    if (r->depth == JSON_READER_DEPTH)
        return error_set(r->e, STATOR_USAGE, "objects and arrays are nested deeper than %d at %.200s",
                         JSON_READER_DEPTH, r->path);
    r->depth++;
    if (json_is_object(v)) {
        void *at = json_object_iter((json_t *)(uintptr_t)v);
        for (; at != NULL && st == STATOR_OK; at = json_object_iter_next((json_t *)(uintptr_t)v, at))
            st = take_item(r, json_object_iter_key(at), json_object_iter_value(at));
    } else {
        for (size_t i = 0; i < json_array_size(v) && st == STATOR_OK; i++) {
            char index[24];
            snprintf(index, sizeof index, "%zu", i);
            st = take_item(r, index, json_array_get(v, i));
        }
    }
    r->depth--;
    return st;
}

static stator_status fail(const json_error_t *why, stator_error *e) {
    char text[sizeof why->text];
    snprintf(text, sizeof text, "%s", why->text);
    for (char *c = text; *c != '\0'; c++) /* it may quote the file */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return error_set(e, STATOR_USAGE, "line %d: %s", why->line, text);
}

stator_status json_reader_walk(const char *text, size_t n, void *memory, size_t bytes,
                               bool (*visit)(void *context, const struct json_value *v), void *context,
                               stator_error *e) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct pool pool = {.begin = memory, .bytes = bytes};
    struct reader r = {.visit = visit, .context = context, .e = e};
    CHECK(memory != NULL && (uintptr_t)memory % UNIT == 0 && current == NULL);
    CHECK(pthread_once(&once, use_pools) == 0);
    current = &pool;
    if (setjmp(pool.full) != 0) {
        current = NULL;
        return error_set(e, STATOR_USAGE, "reading this JSON takes more than %zu bytes of memory", bytes);
    }
    json_error_t why;
    json_t *v = json_loadb(text, n, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &why);
    stator_status st = v != NULL ? take_value(&r, v) : fail(&why, e);
    current = NULL; /* and with it all of v */
    return st;
}
