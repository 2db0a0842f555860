/* The files of --image, in memory for as long as a command needs them. */
#ifndef STATOR_APP_IMAGE_FILES_H
#define STATOR_APP_IMAGE_FILES_H

#include "app/options/options.h"
#include "stator.h"

struct image_files {
    stator_picture items[OPTIONS_MAX_LIST];
    size_t n;
};

/* Reads all of them. image_files_free also after an error. */
stator_status image_files_read(const struct options_list *paths, struct image_files *f, stator_error *e);
void image_files_free(struct image_files *f);

/* A line for each: its pixels, and the tokens of a prompt that it becomes. */
stator_status image_files_print(const stator *s, const struct options_list *paths,
                                const struct image_files *f, stator_error *e);

/* The text with a picture's marker in front of it for each file, malloced; NULL: no memory. */
char *image_files_mark(const stator *s, const struct image_files *f, const char *text, size_t length,
                       size_t *marked_length, stator_error *e);

#endif
