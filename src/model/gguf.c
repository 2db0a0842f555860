/* The index over one or more GGUF files: what they say together, in one allocation.
 *
 * Names are found by binary search in orders sorted once (heap sort: no memory of its own, n log n whatever a
 * hostile file holds, where a hash table could be made to collide). Equal neighbours are duplicates. */
#include "model/gguf_file.h"
#include "model/gguf_split.h"

#include "base/arith.h"
#include "base/carve.h"
#include "formats/block.h"
#include "os/pages.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_SHARDS = 512, /* each keeps a file open */
    SUFFIX_TEXT = 64
};

struct gguf {
    uint64_t bytes; /* of this struct with its shards and paths */
    uint64_t index_bytes;
    void *index;
    struct gguf_file *files;
    uint32_t n_files;
    uint64_t n_keys;    /* of the first file: the others repeat or hold split.* only */
    uint64_t n_tensors; /* of all files */
    struct gguf_entry *keys;
    struct gguf_tensor *tensors;
    uint32_t *key_order;       /* by name */
    uint32_t *tensor_order;    /* by name */
    struct gguf_split *splits; /* gguf_split_heads: two for each attn_kv_b of a file without attn_k_b */
    uint64_t n_splits;
};

typedef int (*order_of)(const void *items, uint32_t a, uint32_t b);

static int compare_text(struct gguf_text a, struct gguf_text b) {
    int c = memcmp(a.data, b.data, ARITH_MIN(a.length, b.length));
    return c != 0 ? c : (a.length > b.length) - (a.length < b.length);
}

static int by_key(const void *items, uint32_t a, uint32_t b) {
    const struct gguf_entry *k = items;
    return compare_text(k[a].name, k[b].name);
}

static int by_tensor(const void *items, uint32_t a, uint32_t b) {
    const struct gguf_tensor *t = items;
    return compare_text(t[a].name, t[b].name);
}

static int by_place(const void *items, uint32_t a, uint32_t b) {
    const struct gguf_tensor *t = items;
    if (t[a].shard != t[b].shard)
        return t[a].shard < t[b].shard ? -1 : 1;
    return (t[a].offset > t[b].offset) - (t[a].offset < t[b].offset);
}

static void sift(uint32_t *order, uint64_t n, uint64_t at, order_of compare, const void *items) {
    for (uint64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && compare(items, order[child], order[child + 1]) < 0)
            child++;
        if (compare(items, order[at], order[child]) >= 0)
            return;
        uint32_t t = order[at];
        order[at] = order[child];
        order[child] = t;
    }
}

static void sort(uint32_t *order, uint64_t n, order_of compare, const void *items) {
    for (uint64_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (uint64_t i = n / 2; i-- > 0;)
        sift(order, n, i, compare, items);
    for (uint64_t i = n; i-- > 1;) {
        uint32_t t = order[0];
        order[0] = order[i];
        order[i] = t;
        sift(order, i, 0, compare, items);
    }
}

static stator_status order_keys(const struct gguf_file *f, const struct gguf_entry *keys, uint32_t *order,
                                stator_error *e) {
    char shown[GGUF_SHOWN];
    sort(order, f->n_keys, by_key, keys);
    for (uint64_t i = 1; i < f->n_keys; i++) {
        if (by_key(keys, order[i - 1], order[i]) != 0)
            continue;
        error_set(e, STATOR_BAD_MODEL, "key '%s' is there twice", gguf_show(keys[order[i]].name, shown));
        gguf_file_prefix(e, f->path);
        return STATOR_BAD_MODEL;
    }
    return STATOR_OK;
}

static stator_status order_tensors(struct gguf *g, stator_error *e) {
    const struct gguf_tensor *t = g->tensors;
    uint32_t *order = g->tensor_order;
    char shown[GGUF_SHOWN], other[GGUF_SHOWN];
    sort(order, g->n_tensors, by_place, t);
    for (uint64_t i = 1; i < g->n_tensors; i++) {
        const struct gguf_tensor *a = &t[order[i - 1]], *b = &t[order[i]];
        if (a->shard != b->shard || a->offset + a->bytes <= b->offset)
            continue;
        error_set(e, STATOR_BAD_MODEL,
                  "tensor '%s' (offset %" PRIu64 ", %" PRIu64 " bytes) overlaps tensor '%s' (offset %" PRIu64
                  ")",
                  gguf_show(a->name, shown), a->offset, a->bytes, gguf_show(b->name, other), b->offset);
        gguf_file_prefix(e, g->files[a->shard].path);
        return STATOR_BAD_MODEL;
    }
    sort(order, g->n_tensors, by_tensor, t);
    for (uint64_t i = 1; i < g->n_tensors; i++) {
        const struct gguf_tensor *a = &t[order[i - 1]], *b = &t[order[i]];
        if (by_tensor(t, order[i - 1], order[i]) != 0)
            continue;
        error_set(e, STATOR_BAD_MODEL, "tensor '%s' is there twice%s", gguf_show(a->name, shown),
                  a->shard != b->shard ? ", in two files of the split model" : "");
        gguf_file_prefix(e, g->files[ARITH_MAX(a->shard, b->shard)].path);
        return STATOR_BAD_MODEL;
    }
    return STATOR_OK;
}

static struct gguf_tensor *find_tensor(const struct gguf *g, struct gguf_text wanted) {
    uint64_t low = 0, high = g->n_tensors;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        struct gguf_tensor *t = &g->tensors[g->tensor_order[middle]];
        int c = compare_text(t->name, wanted);
        if (c == 0)
            return t;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool gguf_text_ends(struct gguf_text t, const char *end, struct gguf_text *rest) {
    const size_t n = strlen(end);
    if (t.length <= n || memcmp(t.data + t.length - n, end, n) != 0)
        return false;
    *rest = (struct gguf_text){t.data, t.length - n};
    return true;
}

/* After the order by name. */
static void find_factors(struct gguf *g) {
    static const char weight[] = ".weight";
    char name[256];
    struct gguf_text stem;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *f = &g->tensors[i];
        if (f->type != BLOCK_F32 || !gguf_text_ends(f->name, ".scale", &stem) ||
            stem.length + sizeof weight > sizeof name)
            continue;
        memcpy(name, stem.data, stem.length);
        memcpy(name + stem.length, weight, sizeof weight - 1);
        struct gguf_tensor *t = find_tensor(g, (struct gguf_text){name, stem.length + sizeof weight - 1});
        if (t != NULL && f->ne[0] == t->ne[2] && f->ne[1] == 1 && f->ne[2] == 1 && f->ne[3] == 1)
            t->factor = (int32_t)(f - t);
    }
}

/* "-00001-of-00003.gguf" */
static void shard_suffix(char out[SUFFIX_TEXT], uint64_t no, uint64_t count) {
    snprintf(out, SUFFIX_TEXT, "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", no + 1, count);
}

static bool ends_with(const char *path, const char *suffix) {
    size_t n = strlen(path), s = strlen(suffix);
    return n >= s && strcmp(path + n - s, suffix) == 0;
}

/* How many files the model has, according to the one that was named. It must be the first, and its name must
 * lead to the others. */
static stator_status count_shards(const struct gguf_file *f, uint32_t *count, stator_error *e) {
    uint64_t n = 1, no = 0;
    char suffix[SUFFIX_TEXT], first[SUFFIX_TEXT];
    stator_status st = STATOR_OK;
    *count = 1;
    if (f->have[GGUF_FILE_SPLIT_COUNT])
        st = gguf_file_known_u64(f, GGUF_FILE_SPLIT_COUNT, 0, MAX_SHARDS, &n, e);
    if (st == STATOR_OK && n > 1)
        st = gguf_file_known_u64(f, GGUF_FILE_SPLIT_NO, 0, n - 1, &no, e);
    if (st == STATOR_OK && n > 1) {
        shard_suffix(suffix, no, n);
        shard_suffix(first, 0, n);
        if (no != 0)
            st = error_set(e, STATOR_BAD_MODEL,
                           "this is file %" PRIu64 " of the %" PRIu64
                           " of a split model: name the first one (it ends in %s)",
                           no + 1, n, first);
        else if (!ends_with(f->path, suffix))
            st = error_set(e, STATOR_BAD_MODEL,
                           "this is the first of the %" PRIu64
                           " files of a split model, so its name must end in %s",
                           n, first);
        *count = (uint32_t)n;
    }
    if (st != STATOR_OK)
        gguf_file_prefix(e, f->path);
    return st;
}

/* The struct, its files and their paths. The first file is taken over from *first. */
static stator_status make_gguf(struct gguf_file *first, uint32_t n_files, struct gguf **out,
                               stator_error *e) {
    struct gguf *g = NULL;
    uint64_t path_bytes = strlen(first->path) + SUFFIX_TEXT, bytes = 0;
    void *memory = NULL;
    for (int pass = 0; pass < 2; pass++) {
        struct carve c = pass == 0 ? carve_count() : carve_in(memory, bytes);
        g = carve_take(&c, 1, sizeof *g);
        struct gguf_file *files = carve_take(&c, n_files, sizeof *files);
        char *paths = carve_take(&c, n_files, path_bytes);
        if (pass == 0) {
            bytes = c.used;
            stator_status st = pages_map(bytes, "model directory", &memory, e);
            if (st != STATOR_OK)
                return st;
            continue;
        }
        *g = (struct gguf){.bytes = bytes, .files = files, .n_files = n_files};
        for (uint32_t i = 0; i < n_files; i++) {
            files[i] = (struct gguf_file){.fd = -1, .path = paths + i * path_bytes};
            strcpy(paths + i * path_bytes, first->path);
            if (i > 0) {
                char suffix[SUFFIX_TEXT];
                shard_suffix(suffix, i, n_files);
                strcpy(paths + i * path_bytes + strlen(first->path) - strlen(suffix), suffix);
            }
        }
        const char *path = files[0].path;
        files[0] = *first;
        files[0].path = path;
        *first = (struct gguf_file){.fd = -1};
    }
    *out = g;
    return STATOR_OK;
}

/* Opens shard i (not the first) and checks that it is what its name says. */
static stator_status open_shard(struct gguf *g, uint32_t i, stator_error *e) {
    struct gguf_file *f = &g->files[i];
    const char *path = f->path;
    stator_status st = gguf_file_open(f, path, i, e);
    if (st == STATOR_USAGE) { /* the user named another file, which is there: the model is incomplete */
        error_prefix(e, "file %" PRIu32 " of the %" PRIu32 " of this split model", i + 1, g->n_files);
        if (e != NULL)
            e->code = STATOR_BAD_MODEL;
        return STATOR_BAD_MODEL;
    }
    if (st == STATOR_OK)
        st = gguf_file_parse(f, NULL, NULL, e);
    if (st != STATOR_OK)
        return st;
    uint64_t no = 0, count = 0;
    st = gguf_file_known_u64(f, GGUF_FILE_SPLIT_NO, i, i, &no, e);
    if (st == STATOR_OK)
        st = gguf_file_known_u64(f, GGUF_FILE_SPLIT_COUNT, g->n_files, g->n_files, &count, e);
    if (st != STATOR_OK)
        gguf_file_prefix(e, path);
    return st;
}

static stator_status check_total(const struct gguf *g, stator_error *e) {
    uint64_t said = 0;
    stator_status st = STATOR_OK;
    if (g->n_tensors > GGUF_FILE_MAX_TENSORS)
        st = error_set(e, STATOR_BAD_MODEL, "%" PRIu64 " tensors: at most %u are supported", g->n_tensors,
                       GGUF_FILE_MAX_TENSORS);
    else if (g->n_files > 1) {
        st = gguf_file_known_u64(&g->files[0], GGUF_FILE_SPLIT_TENSORS, 0, UINT64_MAX, &said, e);
        if (st == STATOR_OK && said != g->n_tensors)
            st = error_set(e, STATOR_BAD_MODEL,
                           "key 'split.tensors.count' is %" PRIu64 ", but the %" PRIu32 " files hold %" PRIu64
                           " tensors",
                           said, g->n_files, g->n_tensors);
    }
    if (st != STATOR_OK)
        gguf_file_prefix(e, g->files[0].path);
    return st;
}

/* The second pass: counts are known and true by now, so the index gets its memory and its contents. */
static stator_status make_index(struct gguf *g, stator_error *e) {
    uint64_t most_keys = 0;
    for (uint32_t i = 0; i < g->n_files; i++) {
        most_keys = ARITH_MAX(most_keys, g->files[i].n_keys);
        g->n_tensors += g->files[i].n_tensors;
    }
    g->n_keys = g->files[0].n_keys;
    stator_status st = check_total(g, e);
    struct gguf_entry *other = NULL; /* the keys of one of the other files, only to check them */
    uint32_t *other_order = NULL;
    for (int pass = 0; pass < 2 && st == STATOR_OK; pass++) {
        struct carve c = pass == 0 ? carve_count() : carve_in(g->index, g->index_bytes);
        g->keys = carve_take(&c, g->n_keys, sizeof *g->keys);
        g->key_order = carve_take(&c, g->n_keys, sizeof *g->key_order);
        g->tensors = carve_take(&c, g->n_tensors, sizeof *g->tensors);
        g->tensor_order = carve_take(&c, g->n_tensors, sizeof *g->tensor_order);
        other = carve_take(&c, g->n_files > 1 ? most_keys : 0, sizeof *other);
        other_order = carve_take(&c, g->n_files > 1 ? most_keys : 0, sizeof *other_order);
        if (pass == 0) {
            g->index_bytes = ARITH_MAX(c.used, 1);
            st = pages_map(g->index_bytes, "model directory", &g->index, e);
        }
    }
    struct gguf_tensor *tensors = g->tensors;
    for (uint32_t i = 0; i < g->n_files && st == STATOR_OK; i++) {
        struct gguf_file *f = &g->files[i];
        st = gguf_file_parse(f, i == 0 ? g->keys : other, tensors, e);
        if (st == STATOR_OK)
            st = order_keys(f, i == 0 ? g->keys : other, i == 0 ? g->key_order : other_order, e);
        tensors += f->n_tensors;
    }
    if (st == STATOR_OK)
        st = order_tensors(g, e);
    if (st == STATOR_OK)
        find_factors(g);
    return st;
}

/* Room for what gguf_split_heads may make. */
static stator_status make_splits(struct gguf *g, stator_error *e) {
    struct gguf_text rest;
    uint64_t n = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        n += gguf_text_ends(g->tensors[i].name, ".attn_kv_b.weight", &rest);
        if (gguf_text_ends(g->tensors[i].name, ".attn_k_b.weight", &rest))
            return STATOR_OK;
    }
    if (n == 0)
        return STATOR_OK;
    void *memory = NULL;
    stator_status st = pages_map(2 * n * sizeof *g->splits, "model directory", &memory, e);
    if (st == STATOR_OK) {
        g->splits = memory;
        g->n_splits = 2 * n;
    }
    return st;
}

bool gguf_split_heads(const struct gguf *g, const struct gguf_tensor *t, uint32_t k, uint32_t v,
                      const struct gguf_tensor *pair[2]) {
    uint64_t i = 0;
    while (i < g->n_splits && g->splits[i].of != NULL && g->splits[i].of != t)
        i += 2;
    if (i == g->n_splits || t->ne[0] > GGUF_SPLIT_COLUMNS)
        return false;
    gguf_split_make(&g->splits[i], t, k, v);
    pair[0] = &g->splits[i].t;
    pair[1] = &g->splits[i + 1].t;
    return true;
}

static const struct gguf_split *split_of(const struct gguf *g, const struct gguf_tensor *t) {
    const uintptr_t at = (uintptr_t)t, begin = (uintptr_t)g->splits; /* of which t is the first member */
    return at >= begin && at - begin < g->n_splits * sizeof *g->splits ? (const struct gguf_split *)at : NULL;
}

stator_status gguf_open(const char *path, struct gguf **out, stator_error *e) {
    struct gguf_file first;
    struct gguf *g = NULL;
    uint32_t n_files = 1;
    *out = NULL;
    stator_status st = gguf_file_open(&first, path, 0, e);
    if (st != STATOR_OK)
        return st;
    st = gguf_file_parse(&first, NULL, NULL, e);
    if (st == STATOR_OK)
        st = count_shards(&first, &n_files, e);
    if (st == STATOR_OK)
        st = make_gguf(&first, n_files, &g, e);
    gguf_file_close(&first); /* if it was not taken over */
    for (uint32_t i = 1; i < n_files && st == STATOR_OK; i++)
        st = open_shard(g, i, e);
    if (st == STATOR_OK)
        st = make_index(g, e);
    if (st == STATOR_OK)
        st = make_splits(g, e);
    if (st != STATOR_OK) {
        gguf_close(g);
        return st;
    }
    *out = g;
    return STATOR_OK;
}

void gguf_close(struct gguf *g) {
    if (g == NULL)
        return;
    for (uint32_t i = 0; i < g->n_files; i++)
        gguf_file_close(&g->files[i]);
    pages_unmap(g->splits, g->n_splits * sizeof *g->splits);
    pages_unmap(g->index, g->index_bytes);
    pages_unmap(g, g->bytes);
}

uint64_t gguf_host_bytes(const struct gguf *g) {
    uint64_t bytes = pages_rounded(g->bytes) + pages_rounded(g->index_bytes) +
                     pages_rounded(g->n_splits * sizeof *g->splits);
    for (uint32_t i = 0; i < g->n_files; i++)
        bytes += pages_rounded(g->files[i].mapped);
    return bytes;
}

const char *gguf_path(const struct gguf *g, uint32_t shard) {
    CHECK(shard < g->n_files);
    return g->files[shard].path;
}

stator_status gguf_load(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n,
                        void *out, stator_error *e) {
    const struct gguf_file *f = &g->files[t->shard];
    CHECK(t->shard < g->n_files && from <= t->bytes && n <= t->bytes - from);
    const struct gguf_split *split = split_of(g, t);
    if (split != NULL)
        return gguf_split_load(g, split, from, n, out, e);
    stator_status st = gguf_file_read(f, t->offset + from, n, out, e);
    if (st != STATOR_OK) {
        char shown[GGUF_SHOWN];
        error_prefix(e, "tensor '%s'", gguf_show(t->name, shown));
        gguf_file_prefix(e, f->path);
    }
    return st;
}

void gguf_uncache(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n) {
    CHECK(t->shard < g->n_files);
    if (split_of(g, t) == NULL) /* other parts of a matrix that is split are read again */
        posix_fadvise(g->files[t->shard].fd, (off_t)(t->offset + from), (off_t)n, POSIX_FADV_DONTNEED);
}

void gguf_uncache_pages(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n) {
    enum { PAGE = 4096 };
    const uint64_t first = (t->offset + from) / PAGE * PAGE;
    CHECK(t->shard < g->n_files && from <= t->bytes && n <= t->bytes - from);
    posix_fadvise(g->files[t->shard].fd, (off_t)first,
                  (off_t)(arith_round_up(t->offset + from + n, PAGE) - first), POSIX_FADV_DONTNEED);
}

void gguf_prefetch(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n) {
    CHECK(t->shard < g->n_files && from <= t->bytes && n <= t->bytes - from);
    posix_fadvise(g->files[t->shard].fd, (off_t)(t->offset + from), (off_t)n, POSIX_FADV_WILLNEED);
}

stator_status gguf_unchanged(const struct gguf *g, stator_error *e) {
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < g->n_files && st == STATOR_OK; i++)
        st = gguf_file_unchanged(&g->files[i], e);
    return st;
}

void gguf_identity(const struct gguf *g, uint32_t shard, uint64_t *bytes, uint64_t *changed_ns) {
    CHECK(shard < g->n_files);
    const struct gguf_file *f = &g->files[shard];
    *bytes = f->bytes;
    *changed_ns = (uint64_t)f->changed.tv_sec * 1000000000u + (uint64_t)f->changed.tv_nsec;
}

uint32_t gguf_shards(const struct gguf *g) {
    return g->n_files;
}

uint32_t gguf_version(const struct gguf *g) {
    return g->files[0].version;
}

uint64_t gguf_keys(const struct gguf *g) {
    return g->n_keys;
}

struct gguf_text gguf_key(const struct gguf *g, uint64_t i, struct gguf_value *v) {
    CHECK(i < g->n_keys);
    if (v != NULL)
        *v = g->keys[i].value;
    return g->keys[i].name;
}

bool gguf_find(const struct gguf *g, const char *key, struct gguf_value *v) {
    struct gguf_text name = {key, strlen(key)};
    uint64_t low = 0, high = g->n_keys;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const struct gguf_entry *k = &g->keys[g->key_order[middle]];
        int c = compare_text(k->name, name);
        if (c == 0) {
            if (v != NULL)
                *v = k->value;
            return true;
        }
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

uint64_t gguf_tensors(const struct gguf *g) {
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, uint64_t i) {
    CHECK(i < g->n_tensors);
    return &g->tensors[i];
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name) {
    return find_tensor(g, (struct gguf_text){name, strlen(name)});
}
