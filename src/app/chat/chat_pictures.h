/* The files of a conversation's pictures, in one mapping for all of them: every turn submits the whole
 * conversation again, with its pictures. The mapping is written to before the engine is sealed, so that
 * nothing grows later. Without a vision tower there is none. */
#ifndef STATOR_APP_CHAT_CHAT_PICTURES_H
#define STATOR_APP_CHAT_CHAT_PICTURES_H

#include "stator.h"

#include <stddef.h>
#include <stdint.h>

#define CHAT_PICTURES_EACH   ((uint64_t)8 << 20) /* bytes of files: this, times vision.pictures */
#define CHAT_PICTURES_MARKER 64                  /* bytes of the marker's text, at most */

struct chat_pictures {
    const stator *engine;
    void *memory;
    uint64_t bytes;
    stator_picture *items;    /* [most] */
    stator_picture_size *are; /* [most] */
    uint32_t n, most;
    uint8_t *files; /* of items, one behind the other */
    uint64_t used, capacity;
    char marker[CHAT_PICTURES_MARKER]; /* what stands for a picture in a message */
    size_t marker_length;
    int32_t marker_id; /* -1: there is no tower */
};

/* After stator_prepare. */
stator_status chat_pictures_open(struct chat_pictures *p, const stator *engine, stator_error *e);
void chat_pictures_close(struct chat_pictures *p); /* all zero is allowed */

/* Reads one more. STATOR_USAGE: no tower, no file, no picture, or no room; then nothing has changed. */
stator_status chat_pictures_attach(struct chat_pictures *p, const char *path, stator_error *e);
/* Drops pictures until n are left. */
void chat_pictures_cut(struct chat_pictures *p, uint32_t n);
/* Tokens of a prompt that the first n become, beside their markers. */
uint64_t chat_pictures_tokens(const struct chat_pictures *p, uint32_t n);

#endif
