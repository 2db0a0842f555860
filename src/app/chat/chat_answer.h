/* One turn: the conversation goes to the engine as one prompt, the answer comes back in pieces. */
#ifndef STATOR_APP_CHAT_CHAT_ANSWER_H
#define STATOR_APP_CHAT_CHAT_ANSWER_H

#include "app/chat/chat_talk.h"
#include "chat/chat_parse.h"

enum chat_answer_thinking {
    CHAT_ANSWER_SHOW, /* dimmed on a terminal, elsewhere as it comes, with its marks */
    CHAT_ANSWER_HIDE
};

struct chat_answer {
    stator *engine;
    struct chat_talk *talk;
    stator_sampling sampling;
    uint32_t max_new; /* 0: until the end token or a full context */
    enum chat_answer_thinking thinking;
    bool out_terminal; /* standard output is one that understands escapes */

    int32_t marks[CHAT_FORM_MARKS]; /* control tokens that the parser looks for, by name */
    uint32_t n_marks;
    struct chat_parse parse;
    struct chat_sink sink;
    stator_decoder decoder;
    char *piece; /* a token's text */
    size_t piece_capacity;
    bool dim;     /* what was written last */
    bool c2;      /* a first byte that is kept back */
    bool any, nl; /* something was written; it ended with a newline */
    bool no_room; /* the conversation's memory is full */
    bool broken;  /* standard output takes no more */
    stator_event done;
};

/* After stator_prepare. STATOR_USAGE: the model has no tokenizer that is known. */
stator_status chat_answer_open(struct chat_answer *a, stator_error *e);
void chat_answer_close(struct chat_answer *a);

/* The answer to the last message of the talk, whose prompt is made: onto standard output, and into the talk.
 * Ends early when session_signal says so. a->done tells how it went. STATOR_OK: also when it was
 * cancelled. */
stator_status chat_answer_get(struct chat_answer *a, stator_error *e);

#endif
