#include "app/quantize/imatrix.h"

#include "app/session.h"

#include "base/arith.h"
#include "base/error.h"
#include "formats/block.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES ((uint64_t)4 << 30) /* of the older form: ten times those of the largest models */

#define SUMS   ".in_sum2"
#define COUNTS ".counts"

static int compare(struct gguf_text a, struct gguf_text b) {
    const int c = memcmp(a.data, b.data, ARITH_MIN(a.length, b.length));
    return c != 0 ? c : (a.length > b.length) - (a.length < b.length);
}

static int by_name(const void *a, const void *b) {
    return compare(((const struct imatrix_entry *)a)->name, ((const struct imatrix_entry *)b)->name);
}

const struct imatrix_entry *imatrix_find(const struct imatrix *m, struct gguf_text name) {
    const struct imatrix_entry wanted = {.name = name};
    return m->n_entries == 0 ? NULL : bsearch(&wanted, m->entries, m->n_entries, sizeof *m->entries, by_name);
}

void imatrix_free(struct imatrix *m) {
    free(m->entries);
    free(m->values);
    free(m->names);
    *m = (struct imatrix){0};
}

/* Memory for n entries with n_values values and names of n_name bytes. */
static stator_status take_memory(struct imatrix *m, uint64_t n, uint64_t n_values, uint64_t n_name,
                                 stator_error *e) {
    m->entries = calloc(n > 0 ? n : 1, sizeof *m->entries);
    m->values = calloc(n_values > 0 ? n_values : 1, sizeof *m->values);
    m->names = malloc(n_name > 0 ? n_name : 1);
    m->bytes = n * sizeof *m->entries + n_values * sizeof *m->values + n_name;
    return m->entries != NULL && m->values != NULL && m->names != NULL
               ? STATOR_OK
               : error_set(e, STATOR_DOES_NOT_FIT, "no memory for its %" PRIu64 " bytes", m->bytes);
}

/* The values are sums; count of how many. */
static stator_status scale(struct imatrix_entry *entry, float *values, uint64_t n, float count,
                           stator_error *e) {
    char shown[GGUF_SHOWN];
    if (!isfinite(count) || count < 0)
        return error_set(e, STATOR_USAGE, "'%s': %g is no count", gguf_show(entry->name, shown),
                         (double)count);
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(values[i]) || values[i] < 0)
            return error_set(e, STATOR_USAGE, "'%s': value %" PRIu64 " is %g, expected a sum of squares",
                             gguf_show(entry->name, shown), i, (double)values[i]);
        values[i] = count > 0 ? values[i] / count : 1;
        if (!isfinite(values[i]))
            return error_set(e, STATOR_USAGE,
                             "'%s': value %" PRIu64 " is beyond the range of floats for a count of %g",
                             gguf_show(entry->name, shown), i, (double)count);
    }
    return STATOR_OK;
}

/* The older form. n_entries, then per entry: length of the name, name, count, n, n floats; behind them may
 * come how many chunks of text there were, and a name of the text. All integers are 32 bits. */
struct walk {
    const uint8_t *data;
    uint64_t at, end;
};

static bool take_count(struct walk *w, uint64_t *v) {
    int32_t raw;
    if (w->end - w->at < sizeof raw)
        return false;
    memcpy(&raw, w->data + w->at, sizeof raw);
    w->at += sizeof raw;
    *v = (uint64_t)raw;
    return raw >= 0;
}

struct older {
    struct gguf_text name;
    uint64_t count, n;
    const uint8_t *values;
};

static stator_status take_older(struct walk *w, uint64_t i, uint64_t n_entries, struct older *o,
                                stator_error *e) {
    bool good = take_count(w, &o->name.length) && o->name.length > 0 && o->name.length <= w->end - w->at;
    if (good) {
        o->name.data = (const char *)w->data + w->at;
        w->at += o->name.length;
        good = take_count(w, &o->count) && take_count(w, &o->n) && o->n > 0 &&
               o->n <= (w->end - w->at) / sizeof(float);
    }
    if (!good)
        return error_set(e, STATOR_USAGE,
                         "entry %" PRIu64 " of %" PRIu64 " is damaged or cut off (at byte %" PRIu64
                         "), or this is no importance matrix",
                         i + 1, n_entries, w->at);
    o->values = w->data + w->at;
    w->at += o->n * sizeof(float);
    return STATOR_OK;
}

static stator_status fill_older(struct imatrix *m, struct walk w, stator_error *e) {
    float *values = m->values;
    char *names = m->names;
    struct older o;
    for (uint64_t i = 0; i < m->n_entries; i++) {
        stator_status st = take_older(&w, i, m->n_entries, &o, e);
        CHECK(st == STATOR_OK); /* it was walked before */
        struct imatrix_entry *entry = &m->entries[i];
        memcpy(names, o.name.data, o.name.length);
        memcpy(values, o.values, o.n * sizeof *values);
        *entry = (struct imatrix_entry){{names, o.name.length}, values, o.n};
        /* llama.cpp's own reader takes sums of 0 parts as they are. */
        st = scale(entry, values, o.n, o.count > 0 ? (float)o.count : 1, e);
        if (st != STATOR_OK)
            return st;
        names += o.name.length;
        values += o.n;
    }
    return STATOR_OK;
}

static stator_status read_older(const uint8_t *data, uint64_t bytes, struct imatrix *m, stator_error *e) {
    struct walk w = {data, 0, bytes};
    uint64_t n = 0, n_values = 0, n_name = 0;
    struct older o;
    /* An entry has 12 bytes and more. */
    if (!take_count(&w, &n) || n == 0 || n > bytes / 12)
        return error_set(e, STATOR_USAGE,
                         "this is no importance matrix: neither GGUF nor a count of entries");
    const struct walk first = w;
    for (uint64_t i = 0; i < n; i++) {
        stator_status st = take_older(&w, i, n, &o, e);
        if (st != STATOR_OK)
            return st;
        n_values += o.n; /* within the file's bytes */
        n_name += o.name.length;
    }
    if (!take_count(&w, &m->chunks))
        m->chunks = 0;
    stator_status st = take_memory(m, n, n_values, n_name, e);
    if (st != STATOR_OK)
        return st;
    m->n_entries = n;
    return fill_older(m, first, e);
}

static bool ends(struct gguf_text name, const char *end) {
    const size_t n = strlen(end);
    return name.length > n && memcmp(name.data + name.length - n, end, n) == 0;
}

/* Sums of the matrix `name` in a GGUF, and their counts, one for each expert. */
static stator_status read_sums(const struct gguf *g, const struct gguf_tensor *t, const char *name,
                               struct imatrix_entry *entry, float *values, stator_error *e) {
    char counts_name[320];
    char shown[GGUF_SHOWN];
    snprintf(counts_name, sizeof counts_name, "%s" COUNTS, name);
    const struct gguf_tensor *c = gguf_find_tensor(g, counts_name);
    const uint64_t n = t->bytes / sizeof *values;
    const uint64_t parts = n / t->ne[0];
    if (c == NULL || c->type != BLOCK_F32 || c->bytes / sizeof *values != parts)
        return error_set(e, STATOR_USAGE,
                         "'%s' has sums for %" PRIu64 " matrices, but no tensor of as many counts (" COUNTS
                         ")",
                         gguf_show(entry->name, shown), parts);
    stator_status st = gguf_load(g, t, 0, t->bytes, values, e);
    for (uint64_t i = 0; i < parts && st == STATOR_OK; i++) {
        float count = 0;
        st = gguf_load(g, c, i * sizeof count, sizeof count, &count, e);
        if (st == STATOR_OK)
            st = scale(entry, values + i * t->ne[0], t->ne[0], count, e);
    }
    return st;
}

static stator_status read_gguf(const struct gguf *g, struct imatrix *m, stator_error *e) {
    uint64_t n = 0, n_values = 0, n_name = 0;
    for (uint64_t i = 0; i < gguf_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        if (!ends(t->name, SUMS) || t->type != BLOCK_F32)
            continue;
        n++;
        n_values += t->bytes / sizeof(float); /* within the file's bytes */
        n_name += t->name.length;
    }
    if (n == 0)
        return error_set(e, STATOR_USAGE,
                         "this is no importance matrix: no tensor of the file has a name that ends in " SUMS);
    stator_status st = gguf_read_u64_or(g, "imatrix.chunk_count", 0, UINT64_MAX, 0, &m->chunks, e);
    if (st == STATOR_OK)
        st = take_memory(m, n, n_values, n_name, e);
    float *values = m->values;
    char *names = m->names;
    for (uint64_t i = 0; i < gguf_tensors(g) && st == STATOR_OK; i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        if (!ends(t->name, SUMS) || t->type != BLOCK_F32)
            continue;
        struct imatrix_entry *entry = &m->entries[m->n_entries++];
        memcpy(names, t->name.data, t->name.length);
        names[t->name.length - strlen(SUMS)] = '\0'; /* inside of what the name takes */
        *entry =
            (struct imatrix_entry){{names, t->name.length - strlen(SUMS)}, values, t->bytes / sizeof *values};
        st = read_sums(g, t, names, entry, values, e);
        names += t->name.length;
        values += entry->n;
    }
    return st;
}

static stator_status refuse_twins(const struct imatrix *m, stator_error *e) {
    char shown[GGUF_SHOWN];
    for (uint64_t i = 1; i < m->n_entries; i++)
        if (compare(m->entries[i - 1].name, m->entries[i].name) == 0)
            return error_set(e, STATOR_USAGE, "'%s' is there twice", gguf_show(m->entries[i].name, shown));
    return STATOR_OK;
}

/* True: the file begins as GGUF files do. What can't be read says so later. */
static bool is_gguf(const char *path) {
    char magic[4] = {0};
    FILE *f = fopen(path, "re");
    const bool good = f != NULL && fread(magic, 1, sizeof magic, f) == sizeof magic;
    if (f != NULL)
        fclose(f);
    return good && memcmp(magic, "GGUF", sizeof magic) == 0;
}

stator_status imatrix_read(const char *path, struct imatrix *m, stator_error *e) {
    stator_status st;
    *m = (struct imatrix){0};
    if (is_gguf(path)) {
        struct gguf *g = NULL;
        st = gguf_open(path, &g, e);
        if (st != STATOR_OK)
            return st;
        st = read_gguf(g, m, e);
        gguf_close(g);
    } else {
        char *data = NULL;
        size_t n = 0;
        st = session_read_file(path, MAX_BYTES, &data, &n, e);
        if (st != STATOR_OK)
            return st;
        st = read_older((const uint8_t *)data, n, m, e);
        free(data);
    }
    if (st == STATOR_OK) {
        qsort(m->entries, m->n_entries, sizeof *m->entries, by_name);
        st = refuse_twins(m, e);
    }
    if (st == STATOR_USAGE) /* the others name the file themselves */
        error_prefix(e, "%.200s", path);
    if (st != STATOR_OK)
        imatrix_free(m);
    return st;
}
