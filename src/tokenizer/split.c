/* Running the patterns: pcre2 in given memory, word starts as a bitmap. */
#include "tokenizer/split.h"

#include "base/carve.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define POOL_ALIGN 16
#define POOL_SLACK 1024 /* over what one compilation took: the same build takes the same, always */

/* Memory for pcre2: handed out in order, never taken back. Without base the heap is used, and counted. */
struct pool {
    uint8_t *base;
    size_t used, size;
};

struct splitter {
    struct pool pool;
    pcre2_match_context *limits;
    int n;
    pcre2_code *code[SPLIT_PATTERNS];
};

static void *pool_take(size_t size, void *data) {
    struct pool *p = data;
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
    size_t at = p->used;
    p->used += size;
    if (p->base == NULL)
        return malloc(size);
    if (p->used > p->size) {
        p->used = at;
        return NULL;
    }
    return p->base + at;
}

static void pool_give(void *memory, void *data) {
    struct pool *p = data;
    if (p->base == NULL)
        free(memory);
}

static stator_status no_memory(stator_error *e) {
    return error_set(e, STATOR_FAILED,
                     "pcre2 wants more memory for the pre-tokenizer's patterns than was measured");
}

/* Compiles pattern i of the kind; the context's memory hooks decide where it lives. */
static stator_status compile(const struct split_kind *kind, int i, pcre2_compile_context *context,
                             pcre2_code **out, stator_error *e) {
    int code = 0;
    PCRE2_SIZE where = 0;
    *out = pcre2_compile((PCRE2_SPTR)kind->patterns[i], PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C, &code,
                         &where, context);
    if (*out != NULL)
        return STATOR_OK;
    PCRE2_UCHAR text[128] = "";
    pcre2_get_error_message(code, text, sizeof text);
    return error_set(e, STATOR_FAILED, "pattern %d of pre-tokenizer \"%s\" does not compile at %zu: %s",
                     i + 1, kind->names, (size_t)where, (const char *)text);
}

static int count_patterns(const struct split_kind *kind) {
    int n = 0;
    while (n < SPLIT_PATTERNS && kind->patterns[n] != NULL)
        n++;
    return n;
}

stator_status split_measure(const struct split_kind *kind, uint64_t *bytes, stator_error *e) {
    struct pool pool = {NULL, 0, 0};
    stator_status st = STATOR_OK;
    pcre2_general_context *general = pcre2_general_context_create(pool_take, pool_give, &pool);
    pcre2_compile_context *context = general != NULL ? pcre2_compile_context_create(general) : NULL;
    pcre2_match_context *limits = general != NULL ? pcre2_match_context_create(general) : NULL;
    if (context == NULL || limits == NULL)
        st = no_memory(e);
    for (int i = 0; st == STATOR_OK && i < count_patterns(kind); i++) {
        pcre2_code *code = NULL;
        st = compile(kind, i, context, &code, e);
        pcre2_code_free(code);
    }
    pcre2_match_context_free(limits);
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    *bytes = arith_round_up(sizeof(struct splitter), CARVE_ALIGN) + pool.used + POOL_SLACK;
    return st;
}

stator_status split_create(const struct split_kind *kind, void *memory, uint64_t bytes, struct splitter **out,
                           stator_error *e) {
    struct splitter *s = memory;
    uint64_t head = arith_round_up(sizeof *s, CARVE_ALIGN);
    CHECK(bytes > head && (uintptr_t)memory % CARVE_ALIGN == 0);
    memset(s, 0, sizeof *s);
    s->pool = (struct pool){(uint8_t *)memory + head, 0, bytes - head};
    pcre2_general_context *general = pcre2_general_context_create(pool_take, pool_give, &s->pool);
    pcre2_compile_context *context = general != NULL ? pcre2_compile_context_create(general) : NULL;
    s->limits = general != NULL ? pcre2_match_context_create(general) : NULL;
    if (context == NULL || s->limits == NULL)
        return no_memory(e);
    /* Steps are bounded by the patterns themselves, memory by the pool. */
    pcre2_set_match_limit(s->limits, UINT32_MAX);
    pcre2_set_depth_limit(s->limits, UINT32_MAX);
    s->n = count_patterns(kind);
    for (int i = 0; i < s->n; i++) {
        stator_status st = compile(kind, i, context, &s->code[i], e);
        if (st != STATOR_OK)
            return st;
    }
    *out = s;
    return STATOR_OK;
}

static void mark(uint64_t *starts, uint64_t at) {
    starts[at / 64] |= 1ull << at % 64;
}

uint64_t split_next(const uint64_t *starts, uint64_t at) {
    at++;
    uint64_t word = starts[at / 64] >> at % 64;
    if (word != 0)
        return at + (uint64_t)__builtin_ctzll(word);
    at = (at / 64 + 1) * 64;
    while (starts[at / 64] == 0)
        at += 64;
    return at + (uint64_t)__builtin_ctzll(starts[at / 64]);
}

static stator_status run_pattern(const struct splitter *s, int pattern, const char *text, uint64_t n,
                                 uint64_t *starts, pcre2_match_data *match, stator_error *e) {
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(match);
    for (uint64_t begin = 0, end; begin < n; begin = end) {
        end = split_next(starts, begin);
        for (uint64_t at = begin; at < end;) {
            /* Each piece is a subject of its own: what a pattern looks at ends where the piece ends. */
            int rc = pcre2_match(s->code[pattern], (PCRE2_SPTR)text + begin, end - begin, at - begin,
                                 PCRE2_NO_UTF_CHECK, match, s->limits);
            if (rc == PCRE2_ERROR_NOMATCH)
                break;
            if (rc < 0) {
                PCRE2_UCHAR message[128] = "";
                pcre2_get_error_message(rc, message, sizeof message);
                return error_set(e, STATOR_FAILED, "cutting the text into words failed: pcre2: %s",
                                 (char *)message);
            }
            CHECK(found[1] > found[0] && begin + found[1] > at); /* no pattern matches nothing */
            mark(starts, begin + found[0]);
            mark(starts, begin + found[1]);
            at = begin + found[1];
        }
    }
    return STATOR_OK;
}

stator_status split_text(const struct splitter *s, const char *text, uint64_t n, uint64_t *starts, void *pool,
                         stator_error *e) {
    memset(starts, 0, (n / 64 + 1) * sizeof *starts);
    mark(starts, 0);
    mark(starts, n);
    struct pool p = {pool, 0, SPLIT_POOL};
    pcre2_general_context *general = pcre2_general_context_create(pool_take, pool_give, &p);
    pcre2_match_data *match = general != NULL ? pcre2_match_data_create(1, general) : NULL;
    if (match == NULL)
        return no_memory(e);
    stator_status st = STATOR_OK;
    for (int i = 0; st == STATOR_OK && i < s->n; i++)
        st = run_pattern(s, i, text, n, starts, match, e);
    return st;
}
