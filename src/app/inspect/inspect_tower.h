/* What `stator inspect` says of a vision tower, and of pictures for it. */
#ifndef STATOR_APP_INSPECT_TOWER_H
#define STATOR_APP_INSPECT_TOWER_H

#include "app/options/options.h"
#include "base/json_writer.h"
#include "model/tower.h"

/* A picture file and what the tower makes of it. */
struct inspect_picture {
    const char *path, *kind;
    uint32_t width, height; /* as it is seen */
    struct tower_size size;
};

/* Reads the headers of all files of the list. pictures has room for OPTIONS_MAX_LIST. */
stator_status inspect_pictures(const struct tower *t, const struct options_list *files,
                               struct inspect_picture *pictures, stator_error *e);

void inspect_tower_print(const struct tower *t, const struct inspect_picture *pictures, size_t n);
void inspect_tower_json(struct json *j, const struct tower *t, const struct inspect_picture *pictures,
                        size_t n); /* a member "tower" */

#endif
