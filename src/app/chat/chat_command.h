/* What begins with a slash at the prompt of a chat. */
#ifndef STATOR_APP_CHAT_CHAT_COMMAND_H
#define STATOR_APP_CHAT_CHAT_COMMAND_H

#include "app/chat/chat_talk.h"

#include <stdbool.h>

struct chat_command_place { /* what commands work on */
    stator *engine;
    struct chat_talk *talk;
    uint32_t n_system; /* messages that /clear leaves */
    bool keeps;        /* the conversation is kept in a file (--resume) */
    bool leaves;       /* set by /exit */
};

/* A slash, letters, and then nothing or a blank: "/usr/bin" is text. */
bool chat_command_is(const char *line);
/* Errors are for the user; the chat can go on. */
stator_status chat_command_run(struct chat_command_place *p, const char *line, stator_error *e);
void chat_command_help(FILE *f);

#endif
