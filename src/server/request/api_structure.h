/* Structured output: the fields of a request that constrain its answer (response_format, and what other
 * servers have beside it), as a grammar of the engine. */
#ifndef STATOR_SERVER_API_STRUCTURE_H
#define STATOR_SERVER_API_STRUCTURE_H

#include "chat/chat_form.h"
#include "server/request/api_text.h"
#include "stator.h"

#include <jansson.h>

struct api_failure;
struct api_reader;
struct api_request;

/* What an answer must match. */
struct api_structure {
    const char *field; /* the field of the body that asks for it; NULL: any answer is allowed */
    stator_grammar_kind kind;
    struct api_text text; /* of the schema or expression; the pool's */
    bool whole;           /* it begins with the answer, whatever its model reasons in */
};

/* Tags of the model's syntax that are control tokens: texts of the form. */
struct api_marks {
    const char *at[CHAT_FORM_MARKS];
    size_t n;
};

/* The one that p begins with, or NULL. */
const char *api_structure_mark(const struct api_marks *marks, const char *p);

/* Where a grammar begins, of all answers of a model. All zero: with the answer. */
struct api_structure_start {
    bool always; /* behind the tokens, whether the prompt has opened reasoning or not */
    uint32_t n;  /* tokens that end reasoning */
    int32_t after[STATOR_GRAMMAR_AFTER];
    bool opens; /* an answer may begin with `open`, which opens reasoning */
    int32_t open;
};

/* After stator_prepare. */
void api_structure_open(struct api_structure_start *s, struct api_marks *marks, const stator *engine,
                        const struct chat_form *form);

/* Finds in the body what r->out->structure is to be. Runs where jansson may allocate, after the messages were
 * read. False: *r->why. */
bool api_structure_read(struct api_reader *r, const json_t *body);

/* api_calls.c: the same for calls of tools, beside what structure has already. */
bool api_calls_read(struct api_reader *r, const json_t *body);

/* Compiles it (json_spaces: server.json_whitespace is "free"): *grammar is the caller's to release, NULL
 * where any answer is allowed. False: *why. */
bool api_structure_compile(stator *engine, bool json_spaces, const struct api_request *r,
                           stator_grammar **grammar, struct api_failure *why);

/* Puts the grammar of r into a request. thinks: the prompt has opened reasoning. */
bool api_structure_set(const struct api_structure_start *s, const struct api_structure *r,
                       stator_grammar *grammar, bool thinks, stator_sampling *out, struct api_failure *why);

#endif
