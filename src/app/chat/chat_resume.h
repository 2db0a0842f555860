/* A conversation that outlives the chat: `stator chat --resume FILE`. The file is what /save writes. With
 * cache.kv_dir its keys and values come from files, too; without that they are computed again. */
#ifndef STATOR_APP_CHAT_CHAT_RESUME_H
#define STATOR_APP_CHAT_CHAT_RESUME_H

#include "app/chat/chat_talk.h"

/* Adds the file's messages to an empty talk; nothing if there is no such file. STATOR_USAGE: it is no
 * conversation, or has no room; then the talk has some of its messages. STATOR_FAILED: it can't be read. */
stator_status chat_resume_read(struct chat_talk *t, const char *path, stator_error *e);
/* The same with the file's n bytes of text. */
stator_status chat_resume_parse(struct chat_talk *t, const char *path, const char *text, size_t n,
                                stator_error *e);
/* With cache.kv_dir, when the chat ends: saves the text of its slot there under the file's name, so that its
 * blocks are written now and stay longer than others. An error of stator_slot_submit, or of its end. */
stator_status chat_resume_keep(stator *engine, uint32_t slot, const char *path, stator_error *e);
/* Puts the talk into the file, for this user alone, by way of a new file that takes its place. */
stator_status chat_resume_write(const struct chat_talk *t, const char *path, stator_error *e);

#endif
