#include "app/quantize/quantize_plan.h"

#include "base/arith.h"
#include "base/error.h"
#include "formats/block_parts.h"
#include "formats/encode.h"
#include "model/gguf_writer.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define QUANTIZATION_VERSION 2 /* of ggml's block formats, as they are since 2023 */
#define NAME_BYTES           257

static void name_of(const struct gguf_tensor *t, char out[NAME_BYTES]) {
    const size_t n = ARITH_MIN(t->name.length, NAME_BYTES - 1); /* gguf_open has refused longer ones */
    memcpy(out, t->name.data, n);
    out[n] = '\0';
}

/* What of a key that may be one number or an array of one per layer is said for the first layer. */
static uint64_t first_of(const struct gguf *g, const char *architecture, const char *key) {
    char name[160];
    struct gguf_value v;
    snprintf(name, sizeof name, "%s.%s", architecture, key);
    if (!gguf_find(g, name, &v) || v.count == 0)
        return 0;
    const enum gguf_kind kind = v.kind == GGUF_ARRAY ? v.item : v.kind;
    if (kind == GGUF_STRING || kind == GGUF_F32 || kind == GGUF_F64 || kind == GGUF_ARRAY)
        return 0;
    const int64_t n = gguf_item_i64(&v, 0);
    return n > 0 ? (uint64_t)n : 0;
}

static void read_model(struct quantize_plan *p) {
    char architecture[96] = "";
    struct gguf_text text;
    stator_error e;
    if (gguf_read_text(p->from, "general.architecture", &text, &e) == STATOR_OK)
        snprintf(architecture, sizeof architecture, "%.*s", (int)ARITH_MIN(text.length, 95), text.data);
    const uint64_t heads = first_of(p->from, architecture, "attention.head_count");
    const uint64_t kv = first_of(p->from, architecture, "attention.head_count_kv");
    p->model.layers = (uint32_t)ARITH_MIN(first_of(p->from, architecture, "block_count"), UINT32_MAX);
    p->model.experts = (uint32_t)ARITH_MIN(first_of(p->from, architecture, "expert_count"), UINT32_MAX);
    p->model.heads_per_kv = kv > 0 ? (uint32_t)ARITH_MIN(heads / kv, UINT32_MAX) : 0;
    p->model.imatrix = p->imatrix != NULL;
}

/* In the order of layers (what is of none comes last), then of names. */
static int by_layer(const void *a, const void *b) {
    const struct gguf_text x = (*(struct quantize_tensor *const *)a)->from->name;
    const struct gguf_text y = (*(struct quantize_tensor *const *)b)->from->name;
    const uint64_t i = (uint64_t)mixture_layer_of(x), k = (uint64_t)mixture_layer_of(y);
    if (i != k)
        return i < k ? -1 : 1;
    const int c = memcmp(x.data, y.data, ARITH_MIN(x.length, y.length));
    return c != 0 ? c : (x.length > y.length) - (x.length < y.length);
}

/* A factor of the output matrix goes with NVFP4 alone (shape_factor.c); those of others with any type. */
static bool has_factor(const struct gguf *g, const struct gguf_tensor *t) {
    return gguf_text_is(t->name, "output.weight") &&
           (gguf_find_tensor(g, "output.scale") != NULL || gguf_find_tensor(g, "output.input_scale") != NULL);
}

static stator_status rank(struct quantize_plan *p, stator_error *e) {
    const bool tied = gguf_find_tensor(p->from, "output.weight") == NULL;
    struct quantize_tensor **order = malloc((p->n_tensors + 1) * sizeof(struct quantize_tensor *));
    uint32_t seen[MIXTURE_OTHER + 1] = {0};
    if (order == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "no memory for %" PRIu64 " tensors", p->n_tensors);
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        p->tensors[i].from = gguf_tensor(p->from, i);
        p->tensors[i].kind = has_factor(p->from, p->tensors[i].from)
                                 ? MIXTURE_KEPT
                                 : mixture_kind_of(p->tensors[i].from, tied);
        order[i] = &p->tensors[i];
    }
    qsort(order, p->n_tensors, sizeof(struct quantize_tensor *), by_layer);
    for (uint64_t i = 0; i < p->n_tensors; i++)
        order[i]->rank = seen[order[i]->kind]++;
    p->model.n_v = seen[MIXTURE_V];
    free(order);
    return STATOR_OK;
}

/* --tensor PATTERN=TYPE, taken apart. */
struct override {
    char pattern[NAME_BYTES];
    uint32_t type;
    uint64_t matched, kept; /* tensors; of these, kinds that stay */
};

static stator_status parse_override(const char *text, struct override *o, stator_error *e) {
    const char *equals = strrchr(text, '=');
    *o = (struct override){.type = BLOCK_TYPES};
    if (equals == NULL || equals == text || (size_t)(equals - text) >= sizeof o->pattern)
        return error_set(e, STATOR_USAGE, "--tensor %.200s: expected PATTERN=TYPE, such as ffn_down=q6_k",
                         text);
    memcpy(o->pattern, text, (size_t)(equals - text));
    for (uint32_t type = 0; type < BLOCK_TYPES; type++)
        if (block_info(type) != NULL && strcasecmp(block_info(type)->name, equals + 1) == 0)
            o->type = type;
    if (o->type < BLOCK_TYPES && encode_can(o->type))
        return STATOR_OK;
    char list[400] = "";
    for (uint32_t type = 0; type < BLOCK_TYPES; type++)
        if (encode_can(type)) {
            strcat(list, list[0] != '\0' ? ", " : "");
            strcat(list, block_info(type)->name);
        }
    return error_set(e, STATOR_USAGE, "--tensor %.200s: %s '%.32s', expected one of %s", text,
                     o->type < BLOCK_TYPES ? "stator can't write" : "there is no type", equals + 1, list);
}

/* A pattern without * ? [ is a part of the name. */
static bool matches(const struct override *o, const char *name) {
    return strpbrk(o->pattern, "*?[") != NULL ? fnmatch(o->pattern, name, 0) == 0
                                              : strstr(name, o->pattern) != NULL;
}

static stator_status apply_overrides(struct quantize_plan *p, const struct options_list *list,
                                     stator_error *e) {
    for (size_t i = 0; i < list->n; i++) {
        struct override o;
        char name[NAME_BYTES];
        stator_status st = parse_override(list->items[i], &o, e);
        if (st != STATOR_OK)
            return st;
        for (uint64_t k = 0; k < p->n_tensors; k++) {
            struct quantize_tensor *t = &p->tensors[k];
            name_of(t->from, name);
            if (!matches(&o, name))
                continue;
            o.matched++;
            o.kept += t->kind == MIXTURE_KEPT;
            if (t->kind != MIXTURE_KEPT)
                t->wanted = o.type;
        }
        if (o.matched == 0)
            return error_set(e, STATOR_USAGE, "--tensor %.200s: no tensor has such a name", list->items[i]);
        if (o.matched == o.kept)
            return error_set(e, STATOR_USAGE,
                             "--tensor %.200s: the %" PRIu64 " tensor%s of such a name stay%s as %s "
                             "(norms, biases, routers and the like are never quantised; nor is an "
                             "output matrix of nvfp4 that has a scale beside it)",
                             list->items[i], o.matched, o.matched == 1 ? "" : "s", o.matched == 1 ? "s" : "",
                             o.matched == 1 ? "it is" : "they are");
    }
    return STATOR_OK;
}

static stator_status weigh(struct quantize_plan *p, struct quantize_tensor *t, const char *path,
                           stator_error *e) {
    const struct imatrix_entry *entry = imatrix_find(p->imatrix, t->from->name);
    const uint64_t n = t->from->ne[0],
                   all = arith_must_mul(n, arith_must_mul(t->from->ne[2], t->from->ne[3]));
    char shown[GGUF_SHOWN];
    if (entry == NULL) {
        p->unweighted++;
        return STATOR_OK;
    }
    if (entry->n != all && entry->n != n)
        return error_set(e, STATOR_USAGE,
                         "--imatrix %.200s: '%s' has %" PRIu64 " values, the tensor %" PRIu64
                         " columns%s: it was made for another model",
                         path, gguf_show(t->from->name, shown), entry->n, all,
                         all != n ? " (of all experts)" : "");
    t->weights = entry->values;
    return STATOR_OK;
}

/* Types, sizes and weights of all tensors. */
static stator_status choose(struct quantize_plan *p, const struct options_list *overrides,
                            const char *imatrix_path, stator_error *e) {
    uint64_t weighted = 0, quantised = 0;
    char shown[GGUF_SHOWN];
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        struct quantize_tensor *t = &p->tensors[i];
        t->wanted = mixture_choose(p->mixture, &p->model, t->from, t->kind, t->rank);
    }
    stator_status st = apply_overrides(p, overrides, e);
    for (uint64_t i = 0; i < p->n_tensors && st == STATOR_OK; i++) {
        struct quantize_tensor *t = &p->tensors[i];
        const uint64_t *ne = t->from->ne;
        t->type = mixture_fallback(t->wanted, ne[0]);
        const bool changes = t->type != t->from->type;
        if (changes && !block_info(t->from->type)->computable)
            return error_set(e, STATOR_BAD_MODEL, "tensor '%s' has type %s, which stator can't decode",
                             gguf_show(t->from->name, shown), block_info(t->from->type)->name);
        if (changes && !encode_can(t->type))
            return error_set(e, STATOR_USAGE,
                             "%s gives tensor '%s' type %s, which stator can't write yet: choose another "
                             "mixture, or give --tensor '%s=TYPE'",
                             p->mixture->name, shown, block_info(t->type)->name,
                             gguf_show(t->from->name, shown));
        t->values = arith_must_mul(arith_must_mul(ne[0], ne[1]), arith_must_mul(ne[2], ne[3]));
        uint64_t row = 0;
        if (!block_row_bytes(t->type, ne[0], &row) || !arith_mul(row, t->values / ne[0], &t->bytes))
            return error_set(e, STATOR_BAD_MODEL, "tensor '%s' is too large",
                             gguf_show(t->from->name, shown));
        p->fallbacks += t->type != t->wanted;
        p->from_quantised = p->from_quantised || (changes && block_is_quantised(t->from->type));
        if (changes && block_is_quantised(t->type) && p->imatrix != NULL) {
            quantised++;
            st = weigh(p, t, imatrix_path, e);
            weighted += t->weights != NULL;
        }
        if (changes && t->weights == NULL && mixture_needs_imatrix(p->mixture, t->kind, t->type) &&
            p->refused++ == 0)
            p->first_refused = t;
    }
    if (st == STATOR_OK && quantised > 0 && p->imatrix != NULL && weighted == 0)
        return error_set(e, STATOR_USAGE,
                         "--imatrix %.200s: none of its names is a tensor of the model: it was made for "
                         "another one",
                         imatrix_path);
    return st;
}

/* Which file each tensor lies in: as it was where there are as many, else about equally many bytes each, in
 * their order; every file has a tensor. */
static stator_status deal(struct quantize_plan *p, stator_error *e) {
    uint64_t all = 0, before = 0;
    if (p->n_tensors < p->n_shards)
        return error_set(e, STATOR_USAGE, "%" PRIu64 " tensors can't be in %" PRIu32 " files", p->n_tensors,
                         p->n_shards);
    for (uint64_t i = 0; i < p->n_tensors; i++)
        if (!arith_add(all, p->tensors[i].bytes, &all) || all > INT64_MAX / 2)
            return error_set(e, STATOR_BAD_MODEL, "the tensors are larger than a file can be");
    uint32_t shard = 0;
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        struct quantize_tensor *t = &p->tensors[i];
        const uint64_t left = p->n_tensors - i; /* with this one */
        const double end = (double)all * (shard + 1) / p->n_shards;
        if (p->shards[shard].n_tensors > 0 && shard + 1 < p->n_shards &&
            ((double)before + (double)t->bytes / 2 > end || left < p->n_shards - shard))
            shard++;
        t->shard = gguf_shards(p->from) == p->n_shards ? t->from->shard : shard;
        shard = t->shard;
        p->shards[shard].n_tensors++;
        before += t->bytes;
    }
    return STATOR_OK;
}

static bool is_ours(struct gguf_text key) {
    return gguf_text_is(key, "general.file_type") || gguf_text_is(key, "general.quantization_version") ||
           gguf_text_is(key, "split.no") || gguf_text_is(key, "split.count") ||
           gguf_text_is(key, "split.tensors.count") || gguf_text_is(key, "quantize.imatrix.file") ||
           gguf_text_is(key, "quantize.imatrix.dataset") ||
           gguf_text_is(key, "quantize.imatrix.entries_count") ||
           gguf_text_is(key, "quantize.imatrix.chunks_count");
}

static void copy_keys(const struct quantize_plan *p, const char *imatrix_path, struct gguf_writer *w) {
    for (uint64_t i = 0; i < gguf_keys(p->from); i++) {
        struct gguf_value v;
        const struct gguf_text key = gguf_key(p->from, i, &v);
        if (is_ours(key))
            continue;
        gguf_writer_put_text(&w->keys, key.data, key.length);
        gguf_writer_put_u32(&w->keys, v.kind);
        if (v.kind == GGUF_ARRAY) {
            gguf_writer_put_u32(&w->keys, v.item);
            gguf_writer_put_u64(&w->keys, v.count);
        }
        gguf_writer_put(&w->keys, v.data, v.bytes);
        w->n_keys++;
    }
    gguf_writer_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    gguf_writer_u32(w, "general.file_type", p->mixture->file_type);
    if (p->imatrix == NULL)
        return;
    const char *slash = strrchr(imatrix_path, '/'); /* paths of this machine are nobody's business */
    gguf_writer_text(w, "quantize.imatrix.file", slash != NULL ? slash + 1 : imatrix_path);
    gguf_writer_u32(w, "quantize.imatrix.entries_count",
                    (uint32_t)ARITH_MIN(p->imatrix->n_entries, UINT32_MAX));
    gguf_writer_u32(w, "quantize.imatrix.chunks_count", (uint32_t)ARITH_MIN(p->imatrix->chunks, UINT32_MAX));
}

/* Header, keys and directory of one file; offsets of its tensors. */
static stator_status write_header(struct quantize_plan *p, uint32_t no, const char *imatrix_path,
                                  stator_error *e) {
    struct quantize_shard *s = &p->shards[no];
    struct gguf_writer w = gguf_writer_new();
    char name[NAME_BYTES];
    uint64_t at = 0;
    if (no == 0)
        copy_keys(p, imatrix_path, &w);
    if (p->n_shards > 1) {
        const int32_t n = (int32_t)p->n_tensors;
        gguf_writer_u16(&w, "split.no", (uint16_t)no);
        gguf_writer_u16(&w, "split.count", (uint16_t)p->n_shards);
        gguf_writer_i32(&w, "split.tensors.count", n);
        if (no > 0 && p->alignment != w.alignment)
            gguf_writer_u32(&w, "general.alignment", (uint32_t)p->alignment);
    }
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        struct quantize_tensor *t = &p->tensors[i];
        if (t->shard != no)
            continue;
        name_of(t->from, name);
        t->offset = at;
        gguf_writer_entry(&w, name, t->type, t->from->n_dims, t->from->ne, at);
        at = arith_round_up(at + t->bytes, p->alignment); /* deal has bounded their sum */
    }
    bool good = gguf_writer_finish(&w);
    if (good) { /* up to where the data begin */
        s->header_bytes = arith_round_up(w.out_bytes, p->alignment);
        s->header = calloc(1, s->header_bytes);
        good = s->header != NULL;
    }
    if (good) {
        memcpy(s->header, w.out, w.out_bytes);
        for (uint64_t i = 0; i < p->n_tensors; i++)
            if (p->tensors[i].shard == no)
                p->tensors[i].offset += s->header_bytes;
        s->bytes = arith_must_add(s->header_bytes, at);
        p->header_bytes += s->header_bytes;
    }
    gguf_writer_free(&w);
    return good ? STATOR_OK
                : error_set(e, STATOR_DOES_NOT_FIT, "no memory for the file's header and directory");
}

stator_status quantize_plan_make(struct quantize_plan *p, const struct gguf *from, const struct mixture *m,
                                 const struct options_list *overrides, const struct imatrix *imatrix,
                                 const char *imatrix_path, uint32_t n_shards, stator_error *e) {
    *p = (struct quantize_plan){.from = from,
                                .mixture = m,
                                .imatrix = imatrix,
                                .n_tensors = gguf_tensors(from),
                                .n_shards = n_shards};
    if (p->n_tensors == 0)
        return error_set(e, STATOR_BAD_MODEL, "%.300s has no tensors", gguf_path(from, 0));
    p->tensors = calloc(p->n_tensors, sizeof *p->tensors);
    p->shards = calloc(n_shards, sizeof *p->shards);
    if (p->tensors == NULL || p->shards == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "no memory for %" PRIu64 " tensors", p->n_tensors);
    stator_status st =
        gguf_read_u64_or(from, "general.alignment", 1, UINT32_MAX, 32, &p->alignment, e); /* a power of 2 */
    read_model(p);
    if (st == STATOR_OK)
        st = rank(p, e);
    if (st == STATOR_OK)
        st = choose(p, overrides, imatrix_path, e);
    if (st == STATOR_OK)
        st = deal(p, e);
    for (uint32_t i = 0; i < n_shards && st == STATOR_OK; i++)
        st = write_header(p, i, imatrix_path, e);
    return st;
}

void quantize_plan_free(struct quantize_plan *p) {
    for (uint32_t i = 0; p->shards != NULL && i < p->n_shards; i++)
        free(p->shards[i].header);
    free(p->shards);
    free(p->tensors);
    *p = (struct quantize_plan){0};
}

uint64_t quantize_plan_bytes(const struct quantize_plan *p) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_shards; i++)
        bytes += p->shards[i].bytes;
    return bytes;
}

double quantize_plan_bits(const struct quantize_plan *p) {
    double bytes = 0, values = 0;
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        bytes += (double)p->tensors[i].bytes;
        values += (double)p->tensors[i].values;
    }
    return 8 * bytes / values;
}
