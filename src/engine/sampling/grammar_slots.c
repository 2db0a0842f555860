#include "engine/sampling/grammar_slots.h"

#include "engine/arguments.h"
#include "engine/engine.h"
#include "grammar/gbnf.h"
#include "grammar/json_parts.h"

#include <string.h>

void grammar_slots_lay_out(struct grammar_slots *g, struct carve *c, uint64_t trie_bytes, uint32_t vocab,
                           void **trie) {
    struct stator_grammar *slots = carve_take(c, g->n, sizeof *slots);
    uint8_t *memory = carve_take(c, g->n, arith_round_up(g->slot_bytes, CARVE_ALIGN));
    *trie = carve_take(c, trie_bytes, 1);
    g->n_words = (vocab + 63) / 64;
    g->ends = carve_take(c, g->n_words, sizeof *g->ends);
    g->mask = carve_take(c, g->n_words, sizeof *g->mask);
    if (c->base == NULL)
        return;
    g->slots = slots;
    for (uint32_t i = 0; i < g->n; i++)
        slots[i] = (struct stator_grammar){.memory = memory + i * arith_round_up(g->slot_bytes, CARVE_ALIGN)};
}

void grammar_slots_lay_out_run(struct grammar_slots *g, struct carve *c, const struct planning_want *want) {
    if (g->n == 0)
        return;
    g->places = carve_take(c, 3 * (TOKEN_TRIE_MAX_LENGTH + 1) + (uint64_t)want->sequences, sizeof *g->places);
    g->states = carve_take(c, (uint64_t)want->sequences + 2, sizeof *g->states);
}

uint64_t grammar_slots_piece(const struct tokenizer *t, int32_t id, char *out, uint64_t capacity) {
    char text[TOKEN_TRIE_MAX_LENGTH];
    const uint64_t n = tokenizer_piece(t, id, false, text, sizeof text);
    /* A token for the byte of the mark would make a control token of the text behind it. */
    if (n > sizeof text || (n > 0 && memchr(text, JSON_PARTS_MARK, n) != NULL))
        return 0;
    if (n > 0) {
        if (capacity > 0)
            memcpy(out, text, ARITH_MIN(n, capacity));
        return n;
    }
    const uint64_t name =
        tokenizer_piece(t, id, true, capacity > 0 ? out + 1 : out, capacity > 0 ? capacity - 1 : 0);
    if (name > 0 && capacity > 0)
        out[0] = (char)JSON_PARTS_MARK;
    return name > 0 ? name + 1 : 0;
}

bool grammar_slots_have(struct grammar_slots *g, const struct stator_grammar *grammar) {
    bool has = false;
    pthread_mutex_lock(&g->lock);
    for (uint32_t i = 0; g->slots != NULL && i < g->n && !has; i++)
        has = grammar == &g->slots[i] && grammar->references > 0;
    pthread_mutex_unlock(&g->lock);
    return has;
}

void grammar_slots_hold(struct grammar_slots *g, struct stator_grammar *grammar) {
    if (grammar == NULL)
        return;
    pthread_mutex_lock(&g->lock);
    CHECK(grammar->references < UINT32_MAX);
    grammar->references++;
    pthread_mutex_unlock(&g->lock);
}

void grammar_slots_drop(struct grammar_slots *g, struct stator_grammar *grammar) {
    if (grammar == NULL)
        return;
    pthread_mutex_lock(&g->lock);
    CHECK(grammar->references > 0);
    grammar->references--;
    pthread_mutex_unlock(&g->lock);
}

static void key_of(const stator_grammar_source *source, char key[HASH_TEXT]) {
    struct hash h;
    hash_init(&h);
    hash_u64(&h, source->kind);
    hash_u64(&h, source->kind != STATOR_GRAMMAR_REGEX && source->free_space != 0);
    hash_bytes(&h, source->text, source->length);
    hash_final(&h, key);
}

/* The grammar of an equal text; else the one to compile into: an empty one, or the one that was not used for
 * the longest time. NULL: all are in use. */
static struct stator_grammar *find(struct grammar_slots *g, const char *key) {
    struct stator_grammar *best = NULL;
    for (uint32_t i = 0; i < g->n; i++) {
        struct stator_grammar *x = &g->slots[i];
        if (x->regex != NULL && strcmp(x->key, key) == 0)
            return x;
        const bool better =
            best == NULL || (best->regex != NULL && (x->regex == NULL || x->used < best->used));
        if (x->references == 0 && better)
            best = x;
    }
    return best;
}

static uint64_t bytes_of(const stator_grammar_source *source, uint32_t nodes) {
    return source->kind == STATOR_GRAMMAR_REGEX  ? regex_bytes(nodes)
           : source->kind == STATOR_GRAMMAR_GBNF ? gbnf_bytes(nodes)
                                                 : json_schema_bytes(nodes);
}

/* Into memory, which is one grammar's. */
static stator_status compile(const struct grammar_slots *g, void *memory, const stator_grammar_source *source,
                             struct regex **regex, stator_error *e) {
    uint32_t nodes = REGEX_MIN_NODES;
    while (nodes < REGEX_MAX_NODES && bytes_of(source, 2 * nodes) <= g->slot_bytes)
        nodes *= 2;
    CHECK(bytes_of(source, nodes) <= g->slot_bytes); /* the least server.grammar_bytes */
    if (source->kind == STATOR_GRAMMAR_REGEX)
        return regex_compile(memory, nodes, source->text, source->length, REGEX_WHOLE, regex, e);
    if (source->kind == STATOR_GRAMMAR_GBNF)
        return gbnf_compile(memory, nodes, source->text, source->length, regex, e);
    return (source->kind == STATOR_GRAMMAR_PARTS ? json_parts_compile : json_schema_compile)(
        memory, nodes, source->text, source->length,
        source->free_space ? JSON_SCHEMA_FREE : JSON_SCHEMA_COMPACT, regex, e);
}

static stator_status check_source(const struct stator *s, const stator_grammar_source *source,
                                  stator_error *e) {
    if (!s->start.prepared)
        return error_set(e, STATOR_USAGE,
                         "stator_grammar_compile: call stator_prepare or stator_start first");
    if (source->kind != STATOR_GRAMMAR_JSON_SCHEMA && source->kind != STATOR_GRAMMAR_REGEX &&
        source->kind != STATOR_GRAMMAR_PARTS && source->kind != STATOR_GRAMMAR_GBNF)
        return error_set(e, STATOR_USAGE, "stator_grammar_compile: unknown kind of grammar %d",
                         (int)source->kind);
    if (source->length > 0 && source->text == NULL)
        return error_set(e, STATOR_USAGE, "stator_grammar_compile: source.text is NULL");
    if (s->front.grammars.error.code != STATOR_OK)
        return error_set(e, s->front.grammars.error.code, "no grammars with this model: %s",
                         s->front.grammars.error.text);
    if (s->front.grammars.n == 0)
        return error_set(
            e, STATOR_USAGE,
            "the plan has no memory for grammars: a server needs server.grammars above 0, a program "
            "options.grammars");
    return STATOR_OK;
}

/* A reference to the grammar of the key; *compiled: it is there. Otherwise its memory is the caller's to
 * compile into, and nobody else finds it. NULL: all are in use. */
static struct stator_grammar *reserve(struct grammar_slots *g, const char *key, bool *compiled) {
    pthread_mutex_lock(&g->lock);
    struct stator_grammar *x = find(g, key);
    *compiled = x != NULL && x->regex != NULL && strcmp(x->key, key) == 0;
    if (x != NULL) {
        x->references++;
        x->used = ++g->uses;
        if (!*compiled)
            x->regex = NULL;
    }
    pthread_mutex_unlock(&g->lock);
    return x;
}

stator_status stator_grammar_compile(stator *s, const stator_grammar_source *source, stator_grammar **grammar,
                                     stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(grammar);
    *grammar = NULL;
    ARGUMENTS_SIZED(source, length);
    stator_grammar_source all;
    ARGUMENTS_READ(&all, source);
    stator_status st = check_source(s, &all, e);
    if (st != STATOR_OK)
        return st;
    struct grammar_slots *g = &s->front.grammars;
    char key[HASH_TEXT];
    bool compiled = false;
    key_of(&all, key);
    struct stator_grammar *x = *grammar = reserve(g, key, &compiled);
    if (x == NULL)
        return error_set(e, STATOR_BUSY,
                         "all %u grammars that are planned are in use (server.grammars): try again later",
                         g->n);
    if (compiled)
        return STATOR_OK;
    /* Without the lock: jansson's allocator may leave this call. */
    struct regex *regex = NULL;
    st = compile(g, x->memory, &all, &regex, e);
    if (st != STATOR_OK) {
        *grammar = NULL;
        grammar_slots_drop(g, x);
        return st;
    }
    /* What the front end needs beside the expression is free again. */
    uint8_t *behind = (uint8_t *)regex + regex_bytes(regex_nodes_planned(regex));
    mask_cache_open(&x->masks, behind, (uint64_t)((uint8_t *)x->memory + g->slot_bytes - behind),
                    token_trie_tokens(g->trie));
    pthread_mutex_lock(&g->lock);
    memcpy(x->key, key, sizeof x->key);
    x->regex = regex;
    pthread_mutex_unlock(&g->lock);
    return STATOR_OK;
}

void stator_grammar_release(stator *s, stator_grammar *grammar) {
    if (s != NULL && grammar_slots_have(&s->front.grammars, grammar))
        grammar_slots_drop(&s->front.grammars, grammar);
}
