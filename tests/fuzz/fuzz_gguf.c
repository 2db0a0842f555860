/* Any bytes as a GGUF file: open, walk every key, value and tensor, read the shape. What opens must lie
 * inside the file. */
#include "fuzz.h"

#include "base/check.h"
#include "arch/arch.h"
#include "arch/vision.h"
#include "model/tower.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const fuzz_kinds[] = {"file",  "dense model",    "experts", "sections",
                                  "tower", "computed tower", NULL};

/* Touches the whole value through the public reads; returns a sum so that nothing is left out. */
static uint64_t walk_value(const struct gguf_value *v, size_t size) {
    uint64_t sum = 0;
    const uint8_t *cursor = v->data;
    enum gguf_kind kind = v->kind == GGUF_ARRAY ? v->item : v->kind;
    CHECK(v->bytes <= size && v->count <= size);
    for (uint64_t i = 0; i < v->bytes; i++)
        sum += v->data[i];
    for (uint64_t i = 0; i < v->count; i++) {
        if (kind == GGUF_STRING)
            sum += gguf_next_text(&cursor).length;
        else if (kind == GGUF_F32 || kind == GGUF_F64)
            sum += gguf_item_f32(v, i) > 0;
        else
            sum += (uint64_t)gguf_item_i64(v, i);
    }
    CHECK(kind != GGUF_STRING || cursor == v->data + v->bytes);
    return sum;
}

static void walk(const struct gguf *g, size_t size) {
    static struct shape shape;
    uint64_t sum = 0;
    char shown[GGUF_SHOWN], name[300];
    stator_error e;
    for (uint64_t i = 0; i < gguf_keys(g); i++) {
        struct gguf_value v;
        struct gguf_text key = gguf_key(g, i, &v);
        sum += walk_value(&v, size) + strlen(gguf_show(key, shown));
        if (key.length < sizeof name) {
            memcpy(name, key.data, key.length);
            name[key.length] = '\0';
            uint64_t u;
            float f;
            struct gguf_text text;
            CHECK(gguf_find(g, name, NULL));
            sum += gguf_read_u64(g, name, 1, 100, &u, &e) + gguf_read_f32(g, name, &f, &e) +
                   gguf_read_text(g, name, &text, &e);
        }
    }
    for (uint64_t i = 0; i < gguf_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        CHECK(t->offset <= size && t->bytes <= size - t->offset && t->bytes > 0);
        memcpy(name, t->name.data, t->name.length);
        name[t->name.length] = '\0';
        CHECK(gguf_find_tensor(g, name) == t);
    }
    CHECK(sum != UINT64_MAX); /* used, so that no read is left out */
    if (arch_read(g, &shape, &e) == STATOR_OK) {
        if (shape_check_sections(g, &shape, &e) == STATOR_OK)
            fuzz_accepted("sections");
        else
            CHECK(e.code == STATOR_BAD_MODEL && strstr(e.text, "rope.dimension_sections") != NULL);
        const struct shape_layer *last = &shape.layers[shape.n_layers - 1];
        const bool experts = shape_has_experts(&shape, shape.n_layers - 1);
        CHECK(shape.tensor_bytes <= size && shape.n_layers >= 1);
        CHECK(experts ? last->experts.router != NULL && last->experts.down != NULL : last->down != NULL);
        fuzz_accepted(experts ? "experts" : "dense model");
        CHECK(shape.output != NULL && shape.n_heads % shape.n_kv_heads == 0 &&
              shape.n_rot <= shape.head_dim_k);
    } else {
        CHECK(e.code == STATOR_BAD_MODEL && e.text[0] != '\0');
    }
}

static void walk_tower(const struct gguf *g, size_t size) {
    static struct tower tower;
    struct tower_size seen;
    stator_error e;
    if (tower_read(g, &tower, &e) != STATOR_OK) {
        CHECK(e.code == STATOR_BAD_MODEL && e.text[0] != '\0');
        return;
    }
    CHECK(tower.tensors == gguf_tensors(g) && tower.tensor_bytes <= size);
    CHECK(tower.global[TOWER_PATCH].weight != NULL && tower.layer[0][TOWER_NORM_1].weight != NULL);
    CHECK(tower_size_of(&tower, 640, 480, TOWER_PIXELS, &seen, &e) == STATOR_OK);
    CHECK(seen.across >= 1 && seen.down >= 1 && seen.across * tower.patch * tower.merge == seen.width);
    fuzz_accepted("tower");
    static struct shape shape;
    const stator_status st = vision_read(g, TOWER_PIXELS, &tower, &shape, &e);
    CHECK(st == STATOR_OK || st == STATOR_BAD_MODEL);
    if (st == STATOR_OK) {
        CHECK(shape.head_dim_k % 32 == 0);
        CHECK(shape.n_rot <= shape.head_dim_k && shape.vocab == tower_row_width(&tower));
        fuzz_accepted("computed tower");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    CHECK(fd >= 0 && (size == 0 || write(fd, data, size) == (ssize_t)size));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct gguf *g = NULL;
    stator_error e;
    stator_status st = gguf_open(path, &g, &e);
    CHECK((st == STATOR_OK) == (g != NULL));
    if (st == STATOR_OK) {
        fuzz_accepted("file");
        CHECK(gguf_host_bytes(g) <= 64 * (uint64_t)size + 20480);
        walk(g, size);
        if (tower_is(g))
            walk_tower(g, size);
        gguf_close(g);
    } else {
        CHECK(st == STATOR_BAD_MODEL && e.code == st && strstr(e.text, path) == e.text);
    }
    close(fd);
    return 0;
}
