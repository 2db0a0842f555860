#include "app/chat/chat_resume.h"

#include "app/session.h"
#include "base/error.h"
#include "base/json_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ESCAPED 6 /* bytes of JSON for a byte of text, at most */
#define AROUND  64

struct reading {
    struct chat_talk *talk;
    bool has_role;
    enum chat_talk_role role;
    bool full;
};

static bool take_role(struct reading *r, const char *name) {
    for (int i = 0; i < 3; i++)
        if (strcmp(name, chat_talk_role_name((enum chat_talk_role)i)) == 0) {
            r->role = (enum chat_talk_role)i;
            r->has_role = true;
            return r->talk->n == 0 || r->role != CHAT_TALK_SYSTEM;
        }
    return false;
}

/* "messages/N/role", then "messages/N/content", as chat_talk_save writes them. */
static bool take_value(void *context, const struct json_value *v) {
    struct reading *r = context;
    char role[64], content[64];
    if (strcmp(v->path, "add_generation_prompt") == 0)
        return v->kind == JSON_READER_BOOL;
    snprintf(role, sizeof role, "messages/%u/role", r->talk->n);
    snprintf(content, sizeof content, "messages/%u/content", r->talk->n);
    if (v->kind != JSON_READER_STRING)
        return false;
    if (!r->has_role)
        return strcmp(v->path, role) == 0 && take_role(r, v->text);
    r->has_role = false;
    if (strcmp(v->path, content) != 0)
        return false;
    r->full = !chat_talk_add(r->talk, r->role, v->text, strlen(v->text));
    return !r->full;
}

stator_status chat_resume_parse(struct chat_talk *t, const char *path, const char *text, size_t n,
                                stator_error *e) {
    struct reading r = {.talk = t};
    const size_t bytes = json_reader_bytes(n);
    void *memory = malloc(bytes);
    stator_error why = {0};
    stator_status st = memory == NULL ? error_set(&why, STATOR_FAILED, "no memory to read it")
                                      : json_reader_walk(text, n, memory, bytes, take_value, &r, &why);
    if (st == STATOR_OK && r.has_role)
        st = error_set(&why, STATOR_USAGE, "the last message has no content");
    free(memory);
    if (r.full)
        return error_set(e, STATOR_USAGE,
                         "--resume %s: the conversation is longer than the context has room for: make "
                         "memory.context larger",
                         path);
    if (st != STATOR_OK)
        return error_set(e, st, "--resume %s: %s; expected is what /save of `stator chat` writes", path,
                         why.text);
    return STATOR_OK;
}

stator_status chat_resume_read(struct chat_talk *t, const char *path, stator_error *e) {
    char *text = NULL;
    size_t length = 0;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return STATOR_OK;
    const uint64_t most = (uint64_t)t->capacity * ESCAPED + (uint64_t)CHAT_TALK_MESSAGES * AROUND;
    stator_status st = session_read_file(path, most, &text, &length, e);
    if (st == STATOR_OK)
        st = chat_resume_parse(t, path, text, length, e);
    free(text);
    return st;
}

stator_status chat_resume_keep(stator *engine, uint32_t slot, const char *path, stator_error *e) {
    const char *slash = strrchr(path, '/');
    const stator_slot save = {.size = sizeof save,
                              .action = STATOR_SLOT_SAVE,
                              .slot = slot,
                              .name = slash != NULL ? slash + 1 : path};
    uint64_t id = 0;
    stator_status st = stator_slot_submit(engine, &save, &id, e);
    stator_event ev = {.size = sizeof ev};
    for (int have = 0; st == STATOR_OK && (have == 0 || ev.request != id);)
        st = stator_poll(engine, UINT64_MAX, &ev, &have, e);
    return st == STATOR_OK && ev.reason == STATOR_REASON_FAILED ? error_set(e, ev.status, "%s", ev.text) : st;
}

static stator_status fail(const char *path, stator_error *e) {
    return error_set(e, STATOR_FAILED, "--resume %s: the conversation can't be written: %s", path,
                     strerror(errno));
}

stator_status chat_resume_write(const struct chat_talk *t, const char *path, stator_error *e) {
    char new_path[PATH_MAX];
    const int n = snprintf(new_path, sizeof new_path, "%s.new", path);
    if (n < 0 || (size_t)n >= sizeof new_path)
        return error_set(e, STATOR_USAGE, "--resume: the name of the file is longer than a path can be");
    int file = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *f = file >= 0 ? fdopen(file, "w") : NULL;
    if (f == NULL) {
        if (file >= 0)
            (void)close(file);
        return fail(path, e);
    }
    chat_talk_save(t, f);
    bool good = fflush(f) == 0 && !ferror(f);
    const int error = errno;
    good = fclose(f) == 0 && good;
    if (good && rename(new_path, path) == 0)
        return STATOR_OK;
    stator_status st = (errno = good ? errno : error, fail(path, e));
    (void)unlink(new_path);
    return st;
}
