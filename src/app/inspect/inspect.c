/* stator inspect MODEL [--json] [--image FILE]: what a GGUF file says (metadata, tensors, types, totals), and
 * whether stator runs it. The listing is data (stdout). A file that is broken, or of a known architecture and
 * yet unusable, ends with the error on stderr and STATOR_BAD_MODEL; a file of an unknown architecture, or
 * with a vocabulary only, can be inspected all the same. */
#include "app/commands.h"
#include "app/inspect/inspect_tower.h"
#include "app/options/options.h"
#include "app/out.h"

#include "base/json_writer.h"
#include "base/units.h"
#include "formats/block.h"
#include "arch/arch.h"
#include "arch/vision.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ARRAY_SHOWN = 6, /* items of an array */
    TEXT_SHOWN = 72, /* bytes of a string, for people */
    NAME_WIDTH_MAX = 48
};

struct report {
    const struct gguf *gguf;
    uint64_t weights; /* of all tensors */
    uint64_t bytes;
    struct {
        uint64_t tensors, weights, bytes;
    } types[BLOCK_TYPES];
    const char *why_not; /* NULL: stator can run it */
    const struct shape *shape;
    const struct tower *tower; /* NULL: the file is none */
    struct inspect_picture pictures[OPTIONS_MAX_LIST];
    size_t n_pictures;
};

static uint64_t weights_of(const struct gguf_tensor *t) {
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}

static double bits_per_weight(uint64_t bytes, uint64_t weights) {
    return weights != 0 ? 8 * (double)bytes / (double)weights : 0;
}

static void sum_up(struct report *r) {
    for (uint64_t i = 0; i < gguf_tensors(r->gguf); i++) {
        const struct gguf_tensor *t = gguf_tensor(r->gguf, i);
        r->weights += weights_of(t);
        r->bytes += t->bytes;
        r->types[t->type].tensors++;
        r->types[t->type].weights += weights_of(t);
        r->types[t->type].bytes += t->bytes;
    }
}

/* Bytes of the well-formed UTF-8 character at s (n > 0 bytes are there), 0: it is none, or a control
 * character. */
static uint64_t printable(const unsigned char *s, uint64_t n) {
    if (s[0] < 0x80)
        return s[0] >= ' ' && s[0] != 0x7F;
    uint64_t length = s[0] >= 0xC2 && s[0] <= 0xDF   ? 2
                      : s[0] >= 0xE0 && s[0] <= 0xEF ? 3
                      : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4
                                                     : 0;
    if (length == 0 || length > n)
        return 0;
    for (uint64_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    return length == 2 && s[0] == 0xC2 && s[1] < 0xA0 ? 0 : length;
}

/* A string for the terminal: in quotes, shortened, nothing in it can move the cursor. */
static void print_text(struct gguf_text t) {
    uint64_t i = 0;
    putchar('"');
    while (i < t.length && i < TEXT_SHOWN) {
        const unsigned char *s = (const unsigned char *)t.data + i;
        uint64_t n = printable(s, t.length - i);
        if (n != 0)
            fwrite(s, 1, n, stdout);
        else if (*s == '\n' || *s == '\t')
            fputs(*s == '\n' ? "\\n" : "\\t", stdout);
        else
            putchar('?');
        i += n != 0 ? n : 1;
    }
    putchar('"');
    if (i < t.length)
        printf("... (%" PRIu64 " bytes)", t.length);
}

/* Item i of a value of a fixed-size kind. */
static void print_item(enum gguf_kind kind, const struct gguf_value *v, uint64_t i) {
    switch (kind) {
    case GGUF_F32:
    case GGUF_F64:
        printf("%g", (double)gguf_item_f32(v, i));
        break;
    case GGUF_BOOL:
        fputs(gguf_item_i64(v, i) != 0 ? "true" : "false", stdout);
        break;
    case GGUF_U64:
        printf("%" PRIu64, (uint64_t)gguf_item_i64(v, i));
        break;
    default:
        printf("%" PRId64, gguf_item_i64(v, i));
    }
}

static void print_value(const struct gguf_value *v) {
    bool array = v->kind == GGUF_ARRAY;
    enum gguf_kind kind = array ? v->item : v->kind;
    const uint8_t *cursor = v->data;
    uint64_t n = v->count < ARRAY_SHOWN ? v->count : ARRAY_SHOWN;
    if (array)
        printf("%" PRIu64 " x %s [", v->count, gguf_kind_name(kind));
    for (uint64_t i = 0; i < n; i++) {
        if (i > 0)
            fputs(", ", stdout);
        if (kind == GGUF_STRING)
            print_text(gguf_next_text(&cursor));
        else
            print_item(kind, v, i);
    }
    if (array)
        fputs(n < v->count ? ", ...]" : "]", stdout);
}

static int name_width(uint64_t longest) {
    return (int)(longest < NAME_WIDTH_MAX ? longest : NAME_WIDTH_MAX);
}

static void print_metadata(const struct gguf *g) {
    char shown[GGUF_SHOWN];
    uint64_t longest = 0;
    for (uint64_t i = 0; i < gguf_keys(g); i++) {
        uint64_t n = gguf_key(g, i, NULL).length;
        longest = n > longest ? n : longest;
    }
    printf("\nmetadata (%" PRIu64 ")\n", gguf_keys(g));
    for (uint64_t i = 0; i < gguf_keys(g); i++) {
        struct gguf_value v;
        struct gguf_text key = gguf_key(g, i, &v);
        printf("  %-*s  ", name_width(longest), gguf_show(key, shown));
        print_value(&v);
        putchar('\n');
    }
}

static void print_tensors(const struct gguf *g) {
    char shown[GGUF_SHOWN], size[UNITS_TEXT], dims[96];
    uint64_t longest = 0;
    for (uint64_t i = 0; i < gguf_tensors(g); i++) {
        uint64_t n = gguf_tensor(g, i)->name.length;
        longest = n > longest ? n : longest;
    }
    printf("\ntensors (%" PRIu64 ")\n", gguf_tensors(g));
    for (uint64_t i = 0; i < gguf_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        int n = 0;
        for (uint32_t d = 0; d < t->n_dims; d++)
            n += snprintf(dims + n, sizeof dims - (size_t)n, "%s%" PRIu64, d > 0 ? " x " : "", t->ne[d]);
        printf("  %-*s  %-8s %-20s %12s\n", name_width(longest), gguf_show(t->name, shown),
               block_info(t->type)->name, dims, units_format_size(t->bytes, size));
    }
}

static void print_types(const struct report *r) {
    char size[UNITS_TEXT];
    printf("\ntypes\n");
    for (uint32_t i = 0; i < BLOCK_TYPES; i++)
        if (r->types[i].tensors != 0)
            printf("  %-8s %8" PRIu64 " tensors %16" PRIu64 " weights %12s\n", block_info(i)->name,
                   r->types[i].tensors, r->types[i].weights, units_format_size(r->types[i].bytes, size));
    printf("  %-8s %8" PRIu64 " tensors %16" PRIu64 " weights %12s  %.3f bits per weight\n", "total",
           gguf_tensors(r->gguf), r->weights, units_format_size(r->bytes, size),
           bits_per_weight(r->bytes, r->weights));
}

static void print_report(const struct report *r) {
    const struct gguf *g = r->gguf;
    printf("%s: GGUF version %" PRIu32, gguf_path(g, 0), gguf_version(g));
    if (gguf_shards(g) > 1)
        printf(", %" PRIu32 " files", gguf_shards(g));
    putchar('\n');
    print_metadata(g);
    if (gguf_tensors(g) > 0) {
        print_tensors(g);
        print_types(r);
    }
    const struct shape *s = r->shape;
    char size[UNITS_TEXT];
    if (s->n_nextn > 0)
        printf("\nonly for speculation.mode \"mtp\": %" PRIu32 " MTP head%s, %" PRIu32 " tensor%s, %s\n",
               s->n_nextn, s->n_nextn == 1 ? "" : "s", s->nextn_tensors, s->nextn_tensors == 1 ? "" : "s",
               units_format_size(s->nextn_bytes, size));
    if (s->vision_tensors > 0)
        printf("\nnot read: a vision tower, %" PRIu32 " tensor%s, %s\n", s->vision_tensors,
               s->vision_tensors == 1 ? "" : "s", units_format_size(s->vision_bytes, size));
    if (r->tower != NULL)
        inspect_tower_print(r->tower, r->pictures, r->n_pictures);
    printf("\nruns in stator: %s%s\n",
           r->why_not == NULL ? "yes" : "no: ", r->why_not == NULL ? "" : r->why_not);
}

static void json_item(struct json *j, const char *name, enum gguf_kind kind, const struct gguf_value *v,
                      uint64_t i) {
    if (kind == GGUF_F32 || kind == GGUF_F64)
        json_put_double(j, name, (double)gguf_item_f32(v, i));
    else if (kind == GGUF_BOOL)
        json_put_bool(j, name, gguf_item_i64(v, i) != 0);
    else if (kind == GGUF_U64)
        json_put_u64(j, name, (uint64_t)gguf_item_i64(v, i));
    else
        json_put_i64(j, name, gguf_item_i64(v, i));
}

static void json_value(struct json *j, const struct gguf_value *v) {
    const uint8_t *cursor = v->data;
    bool array = v->kind == GGUF_ARRAY;
    enum gguf_kind kind = array ? v->item : v->kind;
    const char *name = array ? NULL : "value";
    json_put_string(j, "type", gguf_kind_name(v->kind));
    if (array) {
        json_put_string(j, "item", gguf_kind_name(kind));
        json_put_u64(j, "count", v->count);
        json_open_array(j, "first");
    }
    for (uint64_t i = 0; i < v->count && i < ARRAY_SHOWN; i++) {
        if (kind == GGUF_STRING) {
            struct gguf_text t = gguf_next_text(&cursor);
            json_put_string_n(j, name, t.data, t.length);
        } else {
            json_item(j, name, kind, v, i);
        }
    }
    if (array)
        json_close(j);
}

static void json_tensor(struct json *j, const struct gguf_tensor *t) {
    json_open_object(j, NULL);
    json_put_string_n(j, "name", t->name.data, t->name.length);
    json_put_string(j, "type", block_info(t->type)->name);
    json_open_array(j, "shape");
    for (uint32_t d = 0; d < t->n_dims; d++)
        json_put_u64(j, NULL, t->ne[d]);
    json_close(j);
    json_put_u64(j, "file", t->shard);
    json_put_u64(j, "offset", t->offset);
    json_put_u64(j, "bytes", t->bytes);
    json_close(j);
}

static void json_report(const struct report *r) {
    const struct gguf *g = r->gguf;
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_object(&j, NULL);
    json_open_array(&j, "files");
    for (uint32_t i = 0; i < gguf_shards(g); i++)
        json_put_string(&j, NULL, gguf_path(g, i));
    json_close(&j);
    json_put_u64(&j, "version", gguf_version(g));
    json_put_bool(&j, "runs", r->why_not == NULL);
    if (r->why_not != NULL)
        json_put_string(&j, "why_not", r->why_not);
    if (r->shape->n_nextn > 0) {
        json_open_object(&j, "nextn");
        json_put_u64(&j, "blocks", r->shape->n_nextn);
        json_put_u64(&j, "tensors", r->shape->nextn_tensors);
        json_put_u64(&j, "bytes", r->shape->nextn_bytes);
        json_close(&j);
    }
    if (r->shape->vision_tensors > 0) {
        json_open_object(&j, "vision");
        json_put_u64(&j, "tensors", r->shape->vision_tensors);
        json_put_u64(&j, "bytes", r->shape->vision_bytes);
        json_close(&j);
    }
    if (r->tower != NULL)
        inspect_tower_json(&j, r->tower, r->pictures, r->n_pictures);
    json_open_array(&j, "metadata");
    for (uint64_t i = 0; i < gguf_keys(g); i++) {
        struct gguf_value v;
        struct gguf_text key = gguf_key(g, i, &v);
        json_open_object(&j, NULL);
        json_put_string_n(&j, "key", key.data, key.length);
        json_value(&j, &v);
        json_close(&j);
    }
    json_close(&j);
    json_open_array(&j, "tensors");
    for (uint64_t i = 0; i < gguf_tensors(g); i++)
        json_tensor(&j, gguf_tensor(g, i));
    json_close(&j);
    json_open_array(&j, "types");
    for (uint32_t i = 0; i < BLOCK_TYPES; i++) {
        if (r->types[i].tensors == 0)
            continue;
        json_open_object(&j, NULL);
        json_put_string(&j, "type", block_info(i)->name);
        json_put_u64(&j, "tensors", r->types[i].tensors);
        json_put_u64(&j, "weights", r->types[i].weights);
        json_put_u64(&j, "bytes", r->types[i].bytes);
        json_close(&j);
    }
    json_close(&j);
    json_open_object(&j, "total");
    json_put_u64(&j, "tensors", gguf_tensors(g));
    json_put_u64(&j, "weights", r->weights);
    json_put_u64(&j, "bytes", r->bytes);
    json_put_double(&j, "bits_per_weight", bits_per_weight(r->bytes, r->weights));
    json_close(&j);
    json_close(&j);
    json_end(&j); /* out_finish checks that everything was written */
}

static void report(const struct report *r, bool as_json) {
    if (as_json)
        json_report(r);
    else
        print_report(r);
}

/* Prints the listing and says whether stator can run the model. The shape is large: the caller gives it. */
static stator_status inspect(struct report *r, struct shape *s, bool as_json, stator_error *e) {
    stator_status st = arch_read(r->gguf, s, e);
    if (st != STATOR_OK)
        r->why_not = e->text;
    r->shape = s;
    sum_up(r);
    report(r, as_json);
    return s->arch_unknown || gguf_tensors(r->gguf) == 0 ? STATOR_OK : st;
}

/* The same for an mmproj file, which is no model of its own. */
static stator_status inspect_tower(struct report *r, struct shape *s, const struct options_list *images,
                                   bool as_json, stator_error *e) {
    struct tower *t = malloc(sizeof *t);
    stator_status st = t != NULL ? tower_read(r->gguf, t, e) : error_set(e, STATOR_DOES_NOT_FIT, "no memory");
    if (st == STATOR_OK)
        st = inspect_pictures(t, images, r->pictures, e);
    memset(s, 0, sizeof *s);
    r->shape = s;
    r->why_not = e->text;
    if (st == STATOR_OK) {
        r->why_not = "it is a vision tower, which model.vision names beside the path of its text model";
        r->tower = t;
        r->n_pictures = images->n;
    }
    sum_up(r);
    report(r, as_json);
    free(t);
    return st;
}

int inspect_command(int argc, char **argv) {
    bool as_json = false;
    struct options_list images = {.n = 0};
    const struct options_row rows[] = {{.name = "image",
                                        .kind = OPTIONS_LIST,
                                        .target = &images,
                                        .value = "FILE",
                                        .help = "of an mmproj file: what it makes of this JPEG, PNG or WebP "
                                                "picture, and how many tokens (may be "
                                                "repeated)"},
                                       OPTIONS_JSON(&as_json)};
    struct options o = {
        .command = "inspect",
        .usage = "MODEL",
        .summary = "Metadata, tensors, types and sizes of a GGUF file (for a split model: its first file).",
        .rows = rows,
        .n_rows = sizeof rows / sizeof rows[0]};
    int code = 0;
    const char *argument = NULL;
    if (!options_parse_one(&o, argc, argv, &argument, &code))
        return code;
    stator_error e = {0};
    struct gguf *g = NULL;
    struct shape *s = malloc(sizeof *s);
    stator_status st =
        s != NULL ? gguf_open(argument, &g, &e) : error_set(&e, STATOR_DOES_NOT_FIT, "no memory");
    static struct report r; /* large */
    r = (struct report){.gguf = g};
    if (st == STATOR_OK && tower_is(g))
        st = inspect_tower(&r, s, &images, as_json, &e);
    else if (st == STATOR_OK && images.n > 0)
        st = error_set(&e, STATOR_USAGE, "--image needs an mmproj file, and %s is none", argument);
    else if (st == STATOR_OK)
        st = inspect(&r, s, as_json, &e);
    gguf_close(g);
    free(s);
    return out_end("inspect", st, &e);
}
