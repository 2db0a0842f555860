#include "engine/sampling/constraint.h"

#include "engine/engine.h"
#include "grammar/regex_nodes.h"

#include <string.h>

/* The limit of one mask. Beyond it the request ends with an error, so that others do not wait. */
#define MASK_STEPS 400000u

static const char *const too_many_steps =
    "the grammar: the next token takes too many steps; a simpler one is needed, with "
    "shorter patterns and fewer alternatives";
static const char *const too_small =
    "the grammar: its memory is too small for this text (server.grammar_bytes)";
static const char *const no_token = "the grammar: no token of the model's vocabulary can come next";

void constraint_set(struct constraint *c, const stator_sampling *w) {
    *c = (struct constraint){.after = c->after, .grammar = w->grammar, .open = -1};
    if (w->grammar == NULL || w->n_grammar_after == 0)
        return;
    CHECK(w->n_grammar_after <= STATOR_GRAMMAR_AFTER);
    c->open = w->grammar_open != NULL ? *w->grammar_open : -1;
    c->n_after = (uint32_t)w->n_grammar_after;
    memcpy(c->after, w->grammar_after, c->n_after * sizeof *c->after);
}

static void enter(struct constraint *c) {
    c->phase = CONSTRAINT_BEGUN;
    c->state = regex_start(c->grammar->regex);
}

void constraint_begin(struct constraint *c) {
    c->phase = CONSTRAINT_BEFORE;
    c->may_open = c->grammar != NULL && c->open >= 0;
    if (c->grammar != NULL && (c->n_after == 0 || c->may_open))
        enter(c);
}

static bool begun(const struct constraint *c) {
    return c->grammar != NULL && c->phase == CONSTRAINT_BEGUN;
}

bool constraint_leaves_forced(const struct constraint *c) {
    return !begun(c);
}

bool constraint_may_open(const struct constraint *c) {
    return c->may_open;
}

bool constraint_ended(const struct constraint *c) {
    return begun(c) && c->state == REGEX_EMPTY;
}

/* Into grammars.states: *state, and the states of all requests of its grammar. Returns how many. */
static uint32_t gather(const struct stator *s, const struct stator_grammar *g, uint32_t state) {
    uint32_t n = 0;
    s->front.grammars.states[n++] = state;
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        const struct engine_request *r = s->run.sequences[i].request;
        if (r != NULL && r->constraint.grammar == g && begun(&r->constraint))
            s->front.grammars.states[n++] = r->constraint.state;
    }
    CHECK(n <= s->planning.want.sequences + 1);
    return n;
}

/* Gives them their new numbers. */
static void scatter(struct stator *s, const struct stator_grammar *g, uint32_t *state) {
    uint32_t n = 0;
    *state = s->front.grammars.states[n++];
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        struct engine_request *r = s->run.sequences[i].request;
        if (r != NULL && r->constraint.grammar == g && begun(&r->constraint))
            r->constraint.state = s->front.grammars.states[n++];
    }
}

static const char *why_not(enum regex_result result) {
    return result == REGEX_OK ? NULL : result == REGEX_FULL ? too_small : too_many_steps;
}

/* *state: behind the bytes of the token. */
static enum regex_result advance(struct stator *s, const struct stator_grammar *g, uint32_t *state,
                                 int32_t token) {
    char bytes[TOKEN_TRIE_MAX_LENGTH];
    const uint64_t n = grammar_slots_piece(s->tokenizer, token, bytes, sizeof bytes);
    enum regex_result result = REGEX_OK;
    if (n == 0 || n > sizeof bytes) /* these no mask allows */
        *state = REGEX_DEAD;
    for (uint64_t i = 0; i < n && *state != REGEX_DEAD && result == REGEX_OK; i++) {
        result = regex_step(g->regex, *state, (uint8_t)bytes[i], state);
        if (result != REGEX_FULL)
            continue;
        regex_collect(g->regex, s->front.grammars.states, gather(s, g, *state));
        scatter(s, g, state);
        result = regex_step(g->regex, *state, (uint8_t)bytes[i], state);
    }
    return result;
}

static bool has_bit(const uint64_t *mask, int32_t token) {
    return (mask[token / 64] >> token % 64 & 1) != 0;
}

/* *state: behind the token, unless that is an end token, which leaves it. False: it is not allowed, or
 * something ran out. */
static bool try_token(struct stator *s, const struct stator_grammar *g, uint32_t *state, int32_t token) {
    CHECK(token >= 0 && (uint32_t)token < s->planning.shape->vocab);
    if (has_bit(s->front.grammars.ends, token))
        return regex_accepts(g->regex, *state);
    if ((uint32_t)token >= tokenizer_vocab(s->tokenizer))
        return false;
    return advance(s, g, state, token) == REGEX_OK && *state != REGEX_DEAD;
}

bool constraint_allows(struct stator *s, const struct engine_request *r, int32_t token) {
    const struct constraint *c = &r->constraint;
    uint32_t state = c->state;
    if (c->grammar == NULL)
        return true;
    if (!begun(c))
        return !has_bit(s->front.grammars.ends, token);
    return (c->may_open && token == c->open) || try_token(s, c->grammar, &state, token);
}

#define ONLY_TEXT 64 /* bytes that are looked ahead */

/* The only byte that may follow *state, which goes on behind it; -1: there is none. */
static int only_byte(struct stator *s, const struct stator_grammar *g, uint32_t *state) {
    int byte = -1;
    uint32_t next = *state;
    enum regex_result result = regex_only_step(g->regex, *state, &byte, &next);
    if (result == REGEX_FULL) {
        regex_collect(g->regex, s->front.grammars.states, gather(s, g, *state));
        scatter(s, g, state);
        result = regex_only_step(g->regex, *state, &byte, &next);
    }
    *state = next;
    return result == REGEX_OK ? byte : -1;
}

int32_t constraint_only(struct stator *s, const struct engine_request *r) {
    const struct constraint *c = &r->constraint;
    uint8_t text[ONLY_TEXT];
    uint32_t n = 0, state = c->state;
    bool beyond = false;
    if (!begun(c) || c->may_open)
        return -1;
    for (int byte; n < ONLY_TEXT && (byte = only_byte(s, c->grammar, &state)) >= 0;)
        text[n++] = (uint8_t)byte;
    const int32_t token = n > 0 ? token_trie_longest(s->front.grammars.trie, text, n, &beyond) : -1;
    return beyond ? -1 : token;
}

bool constraint_is_empty(const struct stator *s, const uint64_t *mask) {
    for (uint32_t i = 0; i < s->front.grammars.n_words; i++)
        if (mask[i] != 0)
            return false;
    return true;
}

/* All but end tokens. */
static void mask_before(const struct stator *s) {
    const struct grammar_slots *g = &s->front.grammars;
    for (uint32_t i = 0; i < g->n_words; i++)
        g->mask[i] = ~g->ends[i];
}

const char *constraint_mask(struct stator *s, const struct engine_request *r, const uint64_t **mask) {
    const struct constraint *c = &r->constraint;
    const struct grammar_slots *g = &s->front.grammars;
    *mask = c->grammar != NULL ? g->mask : NULL;
    if (c->grammar == NULL)
        return NULL;
    if (!begun(c)) {
        mask_before(s);
        return constraint_is_empty(s, g->mask) ? no_token : NULL;
    }
    const uint32_t n = gather(s, c->grammar, c->state);
    const enum regex_result result = mask_cache_mask(&c->grammar->masks, g->trie, c->grammar->regex,
                                                     g->states, n, g->places, MASK_STEPS, g->mask);
    uint32_t state;
    scatter(s, c->grammar, &state);
    if (result != REGEX_OK)
        return why_not(result);
    const bool ends = regex_accepts(c->grammar->regex, c->state);
    for (uint32_t i = 0; i < g->n_words && ends; i++)
        g->mask[i] |= g->ends[i];
    if (c->may_open)
        g->mask[c->open / 64] |= 1ull << c->open % 64;
    return !ends && constraint_is_empty(s, g->mask) ? no_token : NULL;
}

uint32_t constraint_drafts(struct stator *s, const struct engine_request *r, const int32_t *tokens,
                           uint32_t n) {
    const struct constraint *c = &r->constraint;
    uint32_t state = c->state;
    if (!begun(c) || (c->may_open && n > 0 && tokens[0] == c->open))
        return n;
    for (uint32_t i = 0; i < n; i++) {
        if (!try_token(s, c->grammar, &state, tokens[i]))
            return i;
        if (has_bit(s->front.grammars.ends, tokens[i]))
            return i + 1;
    }
    return n;
}

const char *constraint_took(struct stator *s, struct engine_request *r, bool forces) {
    struct constraint *c = &r->constraint;
    const int32_t *end = r->tokens + r->n_tokens;
    if (c->grammar == NULL)
        return NULL;
    const bool opens = c->may_open && end[-1] == c->open;
    c->may_open = false;
    if (opens)
        c->phase = CONSTRAINT_BEFORE;
    if (begun(c)) {
        uint32_t state = c->state;
        const enum regex_result result = advance(s, c->grammar, &state, end[-1]);
        CHECK(result != REGEX_OK || state != REGEX_DEAD);
        c->state = result == REGEX_OK ? state : c->state;
        return why_not(result);
    }
    if (c->phase == CONSTRAINT_BEFORE && r->n_tokens - r->n_prompt >= c->n_after &&
        memcmp(end - c->n_after, c->after, c->n_after * sizeof *end) == 0)
        c->phase = CONSTRAINT_DUE;
    if (c->phase == CONSTRAINT_DUE && !forces)
        enter(c);
    return NULL;
}
