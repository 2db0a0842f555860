#include "app/chat/chat_pictures.h"

#include "base/arith.h"
#include "base/error.h"
#include "base/units.h"
#include "os/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

stator_status chat_pictures_open(struct chat_pictures *p, const stator *engine, stator_error *e) {
    stator_vision vision = {.size = sizeof vision};
    p->engine = engine;
    p->marker_id = -1;
    stator_status st = stator_get_vision(engine, &vision, e);
    if (st != STATOR_OK || vision.pictures == 0)
        return st;
    _Static_assert(sizeof p->marker == sizeof vision.text, "one text");
    memcpy(p->marker, vision.text, sizeof vision.text);
    p->marker_length = strlen(p->marker);
    const uint64_t files = vision.pictures * CHAT_PICTURES_EACH;
    const uint64_t items = vision.pictures * sizeof *p->items, are = vision.pictures * sizeof *p->are;
    st = pages_map(files + items + are, "the conversation's pictures", &p->memory, e);
    if (st != STATOR_OK)
        return st;
    p->bytes = files + items + are;
    memset(p->memory, 0, p->bytes); /* in RAM from now on */
    p->files = p->memory;
    p->items = (stator_picture *)(void *)(p->files + files);
    p->are = (stator_picture_size *)(void *)(p->files + files + items);
    p->most = vision.pictures;
    p->capacity = files;
    p->marker_id = vision.marker;
    return STATOR_OK;
}

void chat_pictures_close(struct chat_pictures *p) {
    pages_unmap(p->memory, p->bytes);
}

/* The file's bytes behind those that are there; *n of them. */
static stator_status read_file(struct chat_pictures *p, const char *path, uint64_t *n, stator_error *e) {
    /* Not to wait for the other end of a pipe that is no picture. */
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat is;
    *n = 0;
    if (file < 0)
        return error_set(e, STATOR_USAGE, "/image: %.300s can't be opened: %s", path, strerror(errno));
    stator_status st = STATOR_OK;
    if (fstat(file, &is) != 0 || !S_ISREG(is.st_mode))
        st = error_set(e, STATOR_USAGE, "/image: %.300s is no file: a JPEG, PNG or WebP file is expected",
                       path);
    for (ssize_t got = 1; st == STATOR_OK && got > 0 && *n < p->capacity - p->used; *n += (uint64_t)got) {
        got = read(file, p->files + p->used + *n, p->capacity - p->used - *n);
        if (got < 0) {
            st = error_set(e, STATOR_USAGE, "/image: %.300s can't be read: %s", path, strerror(errno));
            got = 0;
        }
    }
    char byte = 0, all[UNITS_TEXT], there[UNITS_TEXT];
    if (st == STATOR_OK && *n == p->capacity - p->used && read(file, &byte, 1) > 0)
        st = error_set(e, STATOR_USAGE,
                       "/image: there is no room for %.300s: a conversation's pictures have %s together, of "
                       "which %s are used; /clear begins anew, or make the file smaller",
                       path, units_format_size(p->capacity, all), units_format_size(p->used, there));
    (void)close(file);
    return st;
}

stator_status chat_pictures_attach(struct chat_pictures *p, const char *path, stator_error *e) {
    uint64_t n = 0;
    if (p->most == 0)
        return error_set(e, STATOR_USAGE,
                         "/image: model.vision names no vision tower: set it to the model's mmproj file");
    if (p->n == p->most)
        return error_set(e, STATOR_USAGE,
                         "/image: the conversation has %u pictures, as many as vision.pictures allows: raise "
                         "it, or begin anew with /clear",
                         p->n);
    stator_status st = read_file(p, path, &n, e);
    if (st != STATOR_OK)
        return st;
    const stator_picture item = {p->files + p->used, n};
    stator_picture_size is = {.size = sizeof is};
    st = stator_measure_picture(p->engine, &item, &is, e);
    if (st != STATOR_OK) {
        error_prefix(e, "/image: %.300s", path);
        return st;
    }
    p->items[p->n] = item;
    p->are[p->n++] = is;
    p->used = arith_must_add(p->used, n);
    return STATOR_OK;
}

void chat_pictures_cut(struct chat_pictures *p, uint32_t n) {
    if (n >= p->n)
        return;
    p->n = n;
    p->used =
        n > 0 ? (uint64_t)((const uint8_t *)p->items[n - 1].data - p->files) + p->items[n - 1].length : 0;
}

uint64_t chat_pictures_tokens(const struct chat_pictures *p, uint32_t n) {
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < n; i++)
        tokens += p->are[i].tokens - 1; /* less its marker */
    return tokens;
}
