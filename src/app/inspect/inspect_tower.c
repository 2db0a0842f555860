#include "app/inspect/inspect_tower.h"

#include "app/session.h"
#include "base/units.h"
#include "picture/picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILE_MOST = 64 << 20 };

static stator_status look_at(const struct tower *t, const char *path, struct inspect_picture *p,
                             stator_error *e) {
    const struct picture_limits limits = {.side = PICTURE_SIDE_MAX, .pixels = PICTURE_PIXELS_MAX};
    char *data = NULL;
    size_t n = 0;
    struct picture_head head;
    stator_status s = session_read_file(path, FILE_MOST, &data, &n, e);
    if (s != STATOR_OK)
        return s;
    s = picture_look((const uint8_t *)data, n, &limits, &head, e);
    free(data);
    if (s == STATOR_OK) {
        *p = (struct inspect_picture){path, picture_kind_name(head.kind), head.width, head.height, {0}};
        s = tower_size_of(t, head.width, head.height, TOWER_PIXELS, &p->size, e);
    }
    if (s != STATOR_OK)
        error_prefix(e, "%.200s", path);
    return s;
}

stator_status inspect_pictures(const struct tower *t, const struct options_list *files,
                               struct inspect_picture *pictures, stator_error *e) {
    stator_status s = STATOR_OK;
    for (size_t i = 0; i < files->n && s == STATOR_OK; i++)
        s = look_at(t, files->items[i], &pictures[i], e);
    return s;
}

void inspect_tower_print(const struct tower *t, const struct inspect_picture *pictures, size_t n) {
    char size[UNITS_TEXT];
    printf("\nvision tower: %s, %" PRIu32 " layers of %" PRIu32 " with %" PRIu32
           " heads, feed-forward %" PRIu32 ", for a text model of width %" PRIu32 "\n",
           tower_projector_name(t->projector), t->layers, t->width, t->heads, t->ff, t->text_width);
    printf("  patches of %" PRIu32 "x%" PRIu32 " pixels, %" PRIu32 "x%" PRIu32 " patches are a token, ",
           t->patch, t->patch, t->merge, t->merge);
    if (t->projector == TOWER_GEMMA3)
        printf("every picture becomes %" PRIu32 "x%" PRIu32 " pixels\n", t->image_size, t->image_size);
    else if (t->projector == TOWER_PIXTRAL)
        printf("pictures have at most %" PRIu32 " pixels a side\n", t->image_size);
    else if (t->projector == TOWER_GEMMA4)
        printf("a picture becomes as large as %" PRIu64 " pixels\n", t->max_pixels);
    else
        printf("%" PRIu32 " deepstack layers\n", t->deepstacks);
    printf("  %" PRIu32 " tensors, %s\n", t->tensors, units_format_size(t->tensor_bytes, size));
    for (size_t i = 0; i < n; i++) {
        const struct inspect_picture *p = &pictures[i];
        printf("  %s: %s of %" PRIu32 "x%" PRIu32 " pixels, seen as %" PRIu32 "x%" PRIu32 ": %" PRIu32
               " tokens\n",
               p->path, p->kind, p->width, p->height, p->size.width, p->size.height, p->size.tokens);
    }
}

void inspect_tower_json(struct json *j, const struct tower *t, const struct inspect_picture *pictures,
                        size_t n) {
    const struct {
        const char *name;
        uint64_t v;
    } rows[] = {
        {"layers", t->layers},         {"width", t->width},           {"heads", t->heads},
        {"feed_forward", t->ff},       {"text_width", t->text_width}, {"patch", t->patch},
        {"merge", t->merge},           {"image_size", t->image_size}, {"deepstack_layers", t->deepstacks},
        {"min_pixels", t->min_pixels}, {"max_pixels", t->max_pixels}, {"tensors", t->tensors},
        {"bytes", t->tensor_bytes}};
    json_open_object(j, "tower");
    json_put_string(j, "projector", tower_projector_name(t->projector));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        json_put_u64(j, rows[i].name, rows[i].v);
    json_open_array(j, "pictures");
    for (size_t i = 0; i < n; i++) {
        json_open_object(j, NULL);
        json_put_string(j, "file", pictures[i].path);
        json_put_string(j, "format", pictures[i].kind);
        json_put_u64(j, "width", pictures[i].width);
        json_put_u64(j, "height", pictures[i].height);
        json_put_u64(j, "seen_width", pictures[i].size.width);
        json_put_u64(j, "seen_height", pictures[i].size.height);
        json_put_u64(j, "tokens", pictures[i].size.tokens);
        json_close(j);
    }
    json_close(j);
    json_close(j);
}
