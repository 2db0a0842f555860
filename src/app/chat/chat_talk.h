/* A conversation: its messages, and the prompt that the chat template makes of them.
 *
 * Memory: one mapping of a size that follows from the context, written to before the engine is sealed so that
 * nothing grows later; and scratch for the template, whose pages go back to the system after each use. What
 * jansson takes meanwhile is the heap's and is freed. */
#ifndef STATOR_APP_CHAT_CHAT_TALK_H
#define STATOR_APP_CHAT_CHAT_TALK_H

#include "app/chat/chat_pictures.h"
#include "chat/chat_form.h"
#include "stator.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum chat_talk_role { CHAT_TALK_SYSTEM, CHAT_TALK_USER, CHAT_TALK_ASSISTANT };

#define CHAT_TALK_MESSAGES 8192

struct chat_talk_message {
    enum chat_talk_role role;
    size_t at, length; /* of text */
    uint32_t pictures; /* of the talk, up to its end */
};

struct chat_talk {
    const stator *engine;
    const char *template_text;
    size_t template_length;
    char *template_file; /* its text when it is a file's: malloced */
    stator_chat_template model;
    struct chat_form form; /* how the model's answers are read */
    bool no_thinking;      /* enable_thinking = false for the template */

    void *memory; /* the mapping: messages, text, ids */
    uint64_t bytes;
    char *text;
    size_t used, capacity;
    struct chat_talk_message *messages;
    uint32_t n;
    int32_t *ids; /* [context]: the prompt, after chat_talk_prompt */
    size_t n_ids, context;
    struct chat_pictures pictures; /* those behind the last message's are for the next one */
    void *scratch;
    uint64_t scratch_bytes;
    char opened[64]; /* what the prompt ends with if it opens the model's thinking: "<think>\n" */
};

/* The engine is open and planned. file: a template, or NULL for the config's or the model's. STATOR_USAGE:
 * there is none.
 */
stator_status chat_talk_open(struct chat_talk *t, stator *engine, const char *file, stator_error *e);
void chat_talk_close(struct chat_talk *t); /* all zero is allowed */

const char *chat_talk_role_name(enum chat_talk_role role); /* "user" */

/* False: there is no room for it. A user's message has the pictures that wait, their markers in front. */
bool chat_talk_add(struct chat_talk *t, enum chat_talk_role role, const char *text, size_t n);
/* The last message grows (the answer as it comes). False: there is no room. */
bool chat_talk_extend(struct chat_talk *t, const char *text, size_t n);
/* Drops messages until n are left. Their pictures wait for the next message. */
void chat_talk_cut(struct chat_talk *t, uint32_t n);

/* The prompt for an answer to the last message, into ids: after stator_prepare. More ids than the context has
 * are STATOR_OK too: n_ids says how many. */
stator_status chat_talk_prompt(struct chat_talk *t, stator_error *e);
/* Of that prompt, with its pictures. */
uint64_t chat_talk_tokens(const struct chat_talk *t);
/* Pictures of the messages, without those that wait. */
uint32_t chat_talk_pictures(const struct chat_talk *t);

/* {"messages": [..]}, as `stator template -f` takes it. */
void chat_talk_save(const struct chat_talk *t, FILE *f);

#endif
