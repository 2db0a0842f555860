#include "model/gguf_file.h"

#include "base/arith.h"
#include "os/pages.h"
#include "formats/block.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are read as they lie");

enum {
    HEADER_BYTES = 24,                        /* magic, version, tensor count, key count */
    KEY_MIN_BYTES = 8 + 1 + 4 + 1,            /* name length, name, kind, value */
    TENSOR_MIN_BYTES = 8 + 1 + 4 + 8 + 4 + 8, /* name length, name, n_dims, one dimension, type, offset */
    MAX_KEY_NAME = 65535,
    MAX_TENSOR_NAME = 256, /* ggml's own limit is 64 */
    MAX_DIMS = 4,
    DEFAULT_ALIGNMENT = 32,
    CHUNK = 64 << 10 /* read at a time */
};

static const char *const known_names[GGUF_FILE_KNOWN] = {"general.alignment", "split.no", "split.count",
                                                         "split.tensors.count"};

/* Bytes of one value; 0: not of a fixed size. */
static const uint8_t kind_bytes[GGUF_KINDS] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};

/* Where the walk is: at <= end always. What it asks for is read from the file just before. */
struct cursor {
    struct gguf_file *f;
    uint64_t at;
    uint64_t end;
    bool failed; /* to read: `why` says more than "truncated" */
    stator_error why;
};

stator_status gguf_file_read(const struct gguf_file *f, uint64_t at, uint64_t n, uint8_t *out,
                             stator_error *e) {
    for (uint64_t done = 0; done < n;) {
        ssize_t got = pread(f->fd, out + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(e, STATOR_FAILED, "reading at byte %" PRIu64 " failed: %s", at + done,
                             strerror(errno));
        if (got == 0)
            return error_set(e, STATOR_BAD_MODEL,
                             "the file ends at byte %" PRIu64 ", but had %" PRIu64
                             " bytes when it was opened: it was truncated while it was in use",
                             at + done, f->bytes);
        done += (uint64_t)got;
    }
    return STATOR_OK;
}

/* Reads on, in chunks, until the first `upto` bytes of the file are in the directory's memory. */
static bool fill(struct cursor *c, uint64_t upto) {
    struct gguf_file *f = c->f;
    if (upto <= f->filled)
        return true;
    c->failed = true;
    if (upto > f->mapped) {
        error_set(
            &c->why, STATOR_BAD_MODEL,
            "header, keys and tensor directory take more than %u bytes, the most that is supported. The "
            "file is damaged, or no model",
            GGUF_FILE_MAX_DIRECTORY);
        return false;
    }
    uint64_t n = ARITH_MIN(ARITH_MAX(upto - f->filled, (uint64_t)CHUNK), f->mapped - f->filled);
    if (gguf_file_read(f, f->filled, n, f->map + f->filled, &c->why) != STATOR_OK)
        return false;
    f->filled += n;
    c->failed = false;
    return true;
}

static const uint8_t *take(struct cursor *c, uint64_t n) {
    if (n > c->end - c->at || !fill(c, c->at + n))
        return NULL;
    const uint8_t *p = c->f->map + c->at;
    c->at += n;
    return p;
}

static bool take_u32(struct cursor *c, uint32_t *v) {
    const uint8_t *p = take(c, sizeof *v);
    if (p != NULL)
        memcpy(v, p, sizeof *v);
    return p != NULL;
}

static bool take_u64(struct cursor *c, uint64_t *v) {
    const uint8_t *p = take(c, sizeof *v);
    if (p != NULL)
        memcpy(v, p, sizeof *v);
    return p != NULL;
}

void gguf_file_prefix(stator_error *e, const char *path) {
    const size_t longest = 200;
    size_t n = strlen(path);
    if (n <= longest) {
        error_prefix(e, "%s", path);
        return;
    }
    const char *tail = path + n - longest;
    while (((unsigned char)*tail & 0xC0) == 0x80)
        tail++;
    error_prefix(e, "...%s", tail);
}

static stator_status truncated(const struct cursor *c, const char *what, stator_error *e) {
    if (c->failed) {
        error_set(e, c->why.code, "%s", c->why.text);
        error_prefix(e, "%s", what);
        return c->why.code;
    }
    return error_set(e, STATOR_BAD_MODEL,
                     "%s runs past the end of the file (%" PRIu64 " bytes; it was being read at %" PRIu64
                     "). The file is truncated or damaged",
                     what, c->end, c->at);
}

stator_status gguf_file_open(struct gguf_file *f, const char *path, uint32_t shard, stator_error *e) {
    *f = (struct gguf_file){.path = path, .fd = -1, .shard = shard};
    /* O_NONBLOCK: a FIFO must not hang us before it is refused. */
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0) {
        stator_status code =
            errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG ? STATOR_USAGE : STATOR_FAILED;
        error_set(e, code, "%s", errno == ENOENT ? "no such file" : strerror(errno));
        gguf_file_prefix(e, path);
        return code;
    }
    struct stat file;
    stator_status st = STATOR_OK;
    if (fstat(f->fd, &file) != 0)
        st = error_set(e, STATOR_FAILED, "%s", strerror(errno));
    else if (!S_ISREG(file.st_mode))
        st = error_set(e, STATOR_USAGE, "%s, not a GGUF file",
                       S_ISDIR(file.st_mode) ? "a directory" : "not a regular file");
    else if (file.st_size == 0)
        st = error_set(e, STATOR_BAD_MODEL, "the file is empty");
    if (st == STATOR_OK) {
        f->bytes = (uint64_t)file.st_size;
        f->changed = file.st_mtim;
        f->mapped = ARITH_MIN(f->bytes, (uint64_t)GGUF_FILE_MAX_DIRECTORY);
        void *map = NULL;
        st = pages_map(f->mapped, "the model's directory", &map, e);
        f->map = map;
    }
    if (st != STATOR_OK) {
        gguf_file_close(f);
        gguf_file_prefix(e, path);
    }
    return st;
}

/* Gives back the memory that the directory does not need. */
static void trim(struct gguf_file *f) {
    uint64_t keep = pages_rounded(f->directory);
    uint64_t all = pages_rounded(f->mapped);
    if (keep < all)
        pages_unmap(f->map + keep, all - keep);
    f->mapped = f->filled = f->directory;
}

stator_status gguf_file_unchanged(const struct gguf_file *f, stator_error *e) {
    struct stat file;
    stator_status st = STATOR_OK;
    if (fstat(f->fd, &file) != 0)
        st = error_set(e, STATOR_FAILED, "%s", strerror(errno));
    else if ((uint64_t)file.st_size != f->bytes)
        st = error_set(e, STATOR_BAD_MODEL,
                       "the file has %" PRIu64 " bytes, but had %" PRIu64
                       " bytes when it was opened: it was changed while it was in use",
                       (uint64_t)file.st_size, f->bytes);
    else if (file.st_mtim.tv_sec != f->changed.tv_sec || file.st_mtim.tv_nsec != f->changed.tv_nsec)
        st = error_set(e, STATOR_BAD_MODEL, "the file was written to while it was in use: start again");
    if (st != STATOR_OK)
        gguf_file_prefix(e, f->path);
    return st;
}

void gguf_file_close(struct gguf_file *f) {
    pages_unmap(f->map, f->mapped);
    f->map = NULL;
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

static stator_status parse_header(struct gguf_file *f, struct cursor *c, stator_error *e) {
    char shown[GGUF_SHOWN];
    uint64_t magic_bytes = ARITH_MIN(f->bytes, 4);
    if (!fill(c, magic_bytes))
        return truncated(c, "the header (24 bytes)", e);
    if (memcmp(f->map, "GGUF", magic_bytes) != 0)
        return error_set(e, STATOR_BAD_MODEL, "not a GGUF file: it begins with \"%s\", expected \"GGUF\"",
                         gguf_show((struct gguf_text){(const char *)f->map, magic_bytes}, shown));
    uint64_t n_tensors = 0, n_keys = 0;
    if (take(c, 4) == NULL || !take_u32(c, &f->version))
        return truncated(c, "the header (24 bytes)", e);
    if (f->version != 0 && (f->version & 0xFFFF) == 0)
        return error_set(
            e, STATOR_BAD_MODEL,
            "a big-endian GGUF file (version bytes are swapped); only little-endian files are supported: "
            "convert it with gguf_convert_endian.py of llama.cpp");
    if (f->version < 2 || f->version > 3)
        return error_set(e, STATOR_BAD_MODEL, "GGUF version %" PRIu32 " is not supported (expected 2 or 3)%s",
                         f->version, f->version == 1 ? ": convert the model again" : "");
    if (!take_u64(c, &n_tensors) || !take_u64(c, &n_keys))
        return truncated(c, "the header (24 bytes)", e);
    uint64_t rest = c->end - c->at;
    if (n_keys > rest / KEY_MIN_BYTES || n_tensors > rest / TENSOR_MIN_BYTES ||
        n_keys * KEY_MIN_BYTES + n_tensors * TENSOR_MIN_BYTES > rest)
        return error_set(e, STATOR_BAD_MODEL,
                         "the header promises %" PRIu64 " keys and %" PRIu64
                         " tensors: more than the %" PRIu64
                         " bytes behind it can hold. The file is truncated or damaged",
                         n_keys, n_tensors, rest);
    if (n_keys > GGUF_FILE_MAX_KEYS || n_tensors > GGUF_FILE_MAX_TENSORS)
        return error_set(e, STATOR_BAD_MODEL,
                         "%" PRIu64 " keys and %" PRIu64 " tensors: at most %u and %u are supported", n_keys,
                         n_tensors, GGUF_FILE_MAX_KEYS, GGUF_FILE_MAX_TENSORS);
    CHECK(!f->parsed || (n_keys == f->n_keys && n_tensors == f->n_tensors));
    f->n_keys = n_keys;
    f->n_tensors = n_tensors;
    return STATOR_OK;
}

/* A length and that many bytes, 1..max of them, none of them NUL. what: "key 3". */
static stator_status parse_name(struct cursor *c, uint64_t max, const char *what, struct gguf_text *name,
                                stator_error *e) {
    char text[112];
    uint64_t n = 0;
    snprintf(text, sizeof text, "the name of %s", what);
    if (!take_u64(c, &n))
        return truncated(c, text, e);
    if (n == 0)
        return error_set(e, STATOR_BAD_MODEL, "%s has an empty name", what);
    const uint8_t *p = take(c, n);
    if (p == NULL) {
        snprintf(text, sizeof text, "the name of %s (%" PRIu64 " bytes)", what, n);
        return truncated(c, text, e);
    }
    if (n > max)
        return error_set(e, STATOR_BAD_MODEL,
                         "%s has a name of %" PRIu64 " bytes, at most %" PRIu64 " are supported", what, n,
                         max);
    *name = (struct gguf_text){(const char *)p, n};
    if (memchr(p, 0, n) != NULL) {
        char shown[GGUF_SHOWN];
        return error_set(e, STATOR_BAD_MODEL, "%s has a NUL byte in its name '%s'", what,
                         gguf_show(*name, shown));
    }
    return STATOR_OK;
}

static stator_status parse_strings(struct cursor *c, const char *key, struct gguf_value *v, stator_error *e) {
    char text[GGUF_SHOWN + 80];
    for (uint64_t i = 0; i < v->count; i++) {
        uint64_t n = 0;
        bool have = take_u64(c, &n);
        if (have && take(c, n) != NULL)
            continue;
        if (v->kind == GGUF_ARRAY)
            snprintf(text, sizeof text, "key '%s': string %" PRIu64 " of its array (%" PRIu64 " bytes)", key,
                     i, n);
        else
            snprintf(text, sizeof text, "key '%s': its string (%" PRIu64 " bytes)", key, n);
        return truncated(c, text, e);
    }
    return STATOR_OK;
}

static stator_status parse_array(struct cursor *c, const char *key, struct gguf_value *v, stator_error *e) {
    char text[GGUF_SHOWN + 80];
    uint32_t item = 0;
    snprintf(text, sizeof text, "key '%s': its array", key);
    if (!take_u32(c, &item) || !take_u64(c, &v->count))
        return truncated(c, text, e);
    if (item == GGUF_ARRAY)
        return error_set(e, STATOR_BAD_MODEL, "key '%s': nested arrays are not supported", key);
    if (item >= GGUF_KINDS)
        return error_set(e, STATOR_BAD_MODEL, "key '%s': unknown item type %" PRIu32 " of its array", key,
                         item);
    v->item = (enum gguf_kind)item;
    uint64_t each = item == GGUF_STRING ? 8 : kind_bytes[item];
    if (v->count > (c->end - c->at) / each) {
        snprintf(text, sizeof text, "key '%s': its array of %" PRIu64 " items", key, v->count);
        return truncated(c, text, e);
    }
    v->data = c->f->map + c->at;
    if (item == GGUF_STRING)
        return parse_strings(c, key, v, e);
    if (take(c, v->count * each) == NULL) {
        snprintf(text, sizeof text, "key '%s': its array of %" PRIu64 " items", key, v->count);
        return truncated(c, text, e);
    }
    return STATOR_OK;
}

static stator_status parse_value(struct cursor *c, const char *key, struct gguf_value *v, stator_error *e) {
    char text[GGUF_SHOWN + 80];
    uint32_t kind = 0;
    snprintf(text, sizeof text, "key '%s': its value", key);
    if (!take_u32(c, &kind))
        return truncated(c, text, e);
    if (kind >= GGUF_KINDS)
        return error_set(e, STATOR_BAD_MODEL, "key '%s': unknown value type %" PRIu32, key, kind);
    *v = (struct gguf_value){
        .kind = (enum gguf_kind)kind, .item = (enum gguf_kind)kind, .count = 1, .data = c->f->map + c->at};
    stator_status st = STATOR_OK;
    if (kind == GGUF_ARRAY)
        st = parse_array(c, key, v, e);
    else if (kind == GGUF_STRING)
        st = parse_strings(c, key, v, e);
    else if (take(c, kind_bytes[kind]) == NULL)
        st = truncated(c, text, e);
    if (st == STATOR_OK)
        v->bytes = (uint64_t)(c->f->map + c->at - v->data);
    return st;
}

static stator_status parse_keys(struct gguf_file *f, struct cursor *c, struct gguf_entry *keys,
                                stator_error *e) {
    char shown[GGUF_SHOWN], what[64];
    memset(f->have, 0, sizeof f->have);
    for (uint64_t i = 0; i < f->n_keys; i++) {
        struct gguf_entry entry = {0};
        snprintf(what, sizeof what, "key %" PRIu64 " of %" PRIu64, i + 1, f->n_keys);
        stator_status st = parse_name(c, MAX_KEY_NAME, what, &entry.name, e);
        if (st == STATOR_OK)
            st = parse_value(c, gguf_show(entry.name, shown), &entry.value, e);
        if (st != STATOR_OK)
            return st;
        for (int k = 0; k < GGUF_FILE_KNOWN; k++) {
            if (!gguf_text_is(entry.name, known_names[k]))
                continue;
            if (f->have[k])
                return error_set(e, STATOR_BAD_MODEL, "key '%s' is there twice", known_names[k]);
            f->have[k] = true;
            f->known[k] = entry.value;
        }
        if (keys != NULL)
            keys[i] = entry;
    }
    return STATOR_OK;
}

bool gguf_file_integer(const struct gguf_value *v, uint64_t *out) {
    if (v->kind == GGUF_U64) {
        memcpy(out, v->data, sizeof *out);
        return true;
    }
    if (v->kind == GGUF_ARRAY || v->kind == GGUF_STRING || v->kind == GGUF_F32 || v->kind == GGUF_F64 ||
        v->kind == GGUF_BOOL)
        return false;
    int64_t i = gguf_item_i64(v, 0);
    if (i < 0)
        return false;
    *out = (uint64_t)i;
    return true;
}

stator_status gguf_file_known_u64(const struct gguf_file *f, enum gguf_file_known key, uint64_t min,
                                  uint64_t max, uint64_t *v, stator_error *e) {
    const char *name = known_names[key];
    if (!f->have[key])
        return error_set(e, STATOR_BAD_MODEL, "key '%s' is missing", name);
    if (!gguf_file_integer(&f->known[key], v))
        return error_set(e, STATOR_BAD_MODEL,
                         "key '%s' has type %s or is negative, expected an unsigned integer", name,
                         gguf_kind_name(f->known[key].kind));
    if (*v < min || *v > max)
        return error_set(e, STATOR_BAD_MODEL, "key '%s' is %" PRIu64 ", expected %" PRIu64 " to %" PRIu64,
                         name, *v, min, max);
    return STATOR_OK;
}

static stator_status parse_alignment(struct gguf_file *f, stator_error *e) {
    f->alignment = DEFAULT_ALIGNMENT;
    if (!f->have[GGUF_FILE_ALIGNMENT])
        return STATOR_OK;
    const struct gguf_value *v = &f->known[GGUF_FILE_ALIGNMENT];
    if (v->kind != GGUF_U32)
        return error_set(e, STATOR_BAD_MODEL, "key '%s' has type %s, expected u32",
                         known_names[GGUF_FILE_ALIGNMENT], gguf_kind_name(v->kind));
    f->alignment = (uint64_t)gguf_item_i64(v, 0);
    if (!arith_is_pow2(f->alignment))
        return error_set(e, STATOR_BAD_MODEL, "key '%s' is %" PRIu64 ", expected a power of two",
                         known_names[GGUF_FILE_ALIGNMENT], f->alignment);
    return STATOR_OK;
}

/* Of a type that is none of ours. */
static const char *what_type(uint32_t type) {
    switch (type) {
    case 4:
    case 5:
        return "q4_2 or q4_3, which ggml gave up in 2023; make the file again, with q4_0 or a later format";
    case 31:
    case 32:
    case 33:
    case 36:
    case 37:
    case 38:
        return "q4_0 or iq4_nl rearranged for one kind of processor, which ggml no longer reads; make the "
               "file again, with q4_0 or iq4_nl";
    default:
        return "it is of another program than llama.cpp, or of a later version";
    }
}

/* Dimensions and type of one tensor: bytes fit the shape, nothing wraps. */
static stator_status parse_extent(struct cursor *c, const char *name, struct gguf_tensor *t,
                                  stator_error *e) {
    char text[GGUF_SHOWN + 40];
    snprintf(text, sizeof text, "tensor '%s': its entry in the directory", name);
    if (!take_u32(c, &t->n_dims))
        return truncated(c, text, e);
    if (t->n_dims < 1 || t->n_dims > MAX_DIMS)
        return error_set(e, STATOR_BAD_MODEL, "tensor '%s' has %" PRIu32 " dimensions, expected 1 to 4", name,
                         t->n_dims);
    uint64_t values = 1;
    for (uint32_t d = 0; d < MAX_DIMS; d++) {
        t->ne[d] = 1;
        if (d >= t->n_dims)
            continue;
        if (!take_u64(c, &t->ne[d]))
            return truncated(c, text, e);
        if (t->ne[d] == 0 || t->ne[d] > INT64_MAX)
            return error_set(e, STATOR_BAD_MODEL,
                             "tensor '%s': dimension %" PRIu32 " is %" PRId64 ", expected at least 1", name,
                             d, (int64_t)t->ne[d]);
        if (!arith_mul(values, t->ne[d], &values) || values > INT64_MAX)
            return error_set(e, STATOR_BAD_MODEL, "tensor '%s': the product of its dimensions overflows",
                             name);
    }
    if (!take_u32(c, &t->type) || !take_u64(c, &t->offset))
        return truncated(c, text, e);
    const struct block_info *b = block_info(t->type);
    if (b == NULL)
        return error_set(e, STATOR_BAD_MODEL, "tensor '%s' has an unknown type, %" PRIu32 ": %s", name,
                         t->type, what_type(t->type));
    uint64_t row = 0;
    if (t->ne[0] % b->values != 0)
        return error_set(e, STATOR_BAD_MODEL,
                         "tensor '%s': its rows of %" PRIu64 " values are not whole blocks of %s (%" PRIu32
                         " values each)",
                         name, t->ne[0], b->name, b->values);
    if (!block_row_bytes(t->type, t->ne[0], &row) || !arith_mul(row, values / t->ne[0], &t->bytes))
        return error_set(e, STATOR_BAD_MODEL, "tensor '%s': its size in bytes overflows", name);
    return STATOR_OK;
}

static stator_status parse_tensors(struct gguf_file *f, struct cursor *c, struct gguf_tensor *tensors,
                                   stator_error *e) {
    char shown[GGUF_SHOWN], what[64];
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        struct gguf_tensor t = {.shard = f->shard};
        snprintf(what, sizeof what, "tensor %" PRIu64 " of %" PRIu64, i + 1, f->n_tensors);
        stator_status st = parse_name(c, MAX_TENSOR_NAME, what, &t.name, e);
        if (st == STATOR_OK)
            st = parse_extent(c, gguf_show(t.name, shown), &t, e);
        if (st != STATOR_OK)
            return st;
        if (t.offset % f->alignment != 0)
            return error_set(e, STATOR_BAD_MODEL,
                             "tensor '%s': its offset %" PRIu64
                             " is not a multiple of the alignment %" PRIu64,
                             shown, t.offset, f->alignment);
        if (tensors != NULL)
            tensors[i] = t;
    }
    return STATOR_OK;
}

/* Offsets in the directory count from the data section; the file must hold all of each tensor. Needs the end
 * of the directory, so it comes last; in the first pass (no tensors kept) it only finds the section. */
static stator_status place_tensors(struct gguf_file *f, struct gguf_tensor *tensors, stator_error *e) {
    if (!arith_align_up(f->directory, f->alignment, &f->data))
        return error_set(e, STATOR_BAD_MODEL, "the data section begins past the end of the address space");
    for (uint64_t i = 0; tensors != NULL && i < f->n_tensors; i++) {
        struct gguf_tensor *t = &tensors[i];
        uint64_t end = 0;
        char shown[GGUF_SHOWN];
        if (!arith_add(f->data, t->offset, &t->offset) || !arith_add(t->offset, t->bytes, &end) ||
            end > f->bytes)
            return error_set(e, STATOR_BAD_MODEL,
                             "tensor '%s': its %" PRIu64 " bytes at offset %" PRIu64
                             " run past the end of the file (%" PRIu64
                             " bytes). The file is truncated or damaged",
                             gguf_show(t->name, shown), t->bytes, t->offset, f->bytes);
    }
    return STATOR_OK;
}

stator_status gguf_file_parse(struct gguf_file *f, struct gguf_entry *keys, struct gguf_tensor *tensors,
                              stator_error *e) {
    struct cursor c = {.f = f, .end = f->parsed ? f->directory : f->bytes};
    stator_status st = parse_header(f, &c, e);
    if (st == STATOR_OK)
        st = parse_keys(f, &c, keys, e);
    if (st == STATOR_OK)
        st = parse_alignment(f, e);
    if (st == STATOR_OK)
        st = parse_tensors(f, &c, tensors, e);
    CHECK(!f->parsed || (st == STATOR_OK && c.at == f->directory));
    f->directory = c.at;
    if (st == STATOR_OK)
        st = place_tensors(f, tensors, e);
    if (st == STATOR_OK && !f->parsed)
        trim(f);
    f->parsed = st == STATOR_OK;
    if (st != STATOR_OK)
        gguf_file_prefix(e, f->path);
    return st;
}
