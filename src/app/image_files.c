#include "app/image_files.h"

#include "app/session.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 64 << 20 };

stator_status image_files_read(const struct options_list *paths, struct image_files *f, stator_error *e) {
    for (size_t i = 0; i < paths->n; i++) {
        char *data = NULL;
        size_t n = 0;
        stator_status st = session_read_file(paths->items[i], FILE_MOST, &data, &n, e);
        if (st != STATOR_OK)
            return st;
        f->items[f->n++] = (stator_picture){data, n};
    }
    return STATOR_OK;
}

void image_files_free(struct image_files *f) {
    for (size_t i = 0; i < f->n; i++)
        free((void *)(uintptr_t)f->items[i].data);
    f->n = 0;
}

stator_status image_files_print(const stator *s, const struct options_list *paths,
                                const struct image_files *f, stator_error *e) {
    for (size_t i = 0; i < f->n; i++) {
        stator_picture_size size = {.size = sizeof size};
        stator_status st = stator_measure_picture(s, &f->items[i], &size, e);
        if (st != STATOR_OK) {
            error_prefix(e, "%.200s", paths->items[i]);
            return st;
        }
        printf("%s: %ux%u pixels, seen as %ux%u: %u tokens of the prompt\n", paths->items[i], size.width,
               size.height, size.seen_width, size.seen_height, size.tokens);
    }
    return STATOR_OK;
}

char *image_files_mark(const stator *s, const struct image_files *f, const char *text, size_t length,
                       size_t *marked_length, stator_error *e) {
    stator_vision vision = {.size = sizeof vision};
    if (stator_get_vision(s, &vision, e) != STATOR_OK)
        return NULL;
    if (vision.pictures == 0) {
        error_set(e, STATOR_USAGE,
                  "--image: model.vision names no vision tower: set it to the model's mmproj file");
        return NULL;
    }
    const size_t n = strlen(vision.text);
    char *all = malloc(f->n * n + length + 1);
    if (all == NULL) {
        error_set(e, STATOR_FAILED, "no memory for the prompt");
        return NULL;
    }
    for (size_t i = 0; i < f->n; i++)
        memcpy(all + i * n, vision.text, n);
    memcpy(all + f->n * n, text, length);
    *marked_length = f->n * n + length;
    all[*marked_length] = '\0';
    return all;
}
