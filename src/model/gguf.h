/* GGUF files (v2, v3, little-endian, sharded or not): header and directory read into memory, every
 * count, size and offset checked before use. Nothing of the file is mapped. Tensor data is read with
 * gguf_load. Source of the format: the public GGUF specification of the ggml project.
 *
 * Invariants after gguf_open: keys and tensor names are unique; every string, array and tensor lies inside
 * its file; tensor offsets are multiples of the alignment and tensors do not overlap; bytes fit their shapes.
 * Owner: the caller, until gguf_close. Texts are not NUL-terminated and live as long as the gguf. Read-only
 * after open: any thread. */
#ifndef STATOR_MODEL_GGUF_H
#define STATOR_MODEL_GGUF_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct gguf;

enum gguf_kind {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_KINDS
};

struct gguf_text {
    const char *data;
    uint64_t length;
};

struct gguf_value {
    enum gguf_kind kind;
    enum gguf_kind item; /* of arrays: what the items are (never arrays) */
    uint64_t count;      /* of arrays: items; else 1 */
    const uint8_t
        *data;      /* the value in the file, unaligned; strings and string arrays: at the (first) length */
    uint64_t bytes; /* of data */
};

struct gguf_tensor {
    struct gguf_text name;
    uint32_t type; /* ggml type id; block_info(type) != NULL */
    uint32_t n_dims;
    uint64_t ne[4];  /* ne[0] is the row length; unused are 1 */
    uint64_t offset; /* in the file of its shard */
    uint64_t bytes;
    uint32_t shard;
    int32_t factor; /* gguf_factor */
};

/* "NAME.scale" beside this "NAME.weight": a float for each of its matrices, which that is multiplied with.
 * Tensors of another shape or type have other meanings. NULL: none. */
static inline const struct gguf_tensor *gguf_factor(const struct gguf_tensor *t) {
    return t->factor != 0 ? t + t->factor : NULL;
}

/* Opens path and, when the file says split.count > 1, its sibling shards (path is then the first).
 * STATOR_BAD_MODEL for a bad file (the text names the file and the key or tensor), STATOR_USAGE for a path
 * that is not a file, STATOR_FAILED when it can't be opened or read. Later changes to the file do not affect
 * what was read; gguf_load and gguf_unchanged notice them. */
stator_status gguf_open(const char *path, struct gguf **out, stator_error *e);
void gguf_close(struct gguf *g); /* NULL is allowed */

/* Bytes of memory that header, directory and the index over them take. */
uint64_t gguf_host_bytes(const struct gguf *g);
const char *gguf_path(const struct gguf *g, uint32_t shard);
/* Of a matrix "blk.N.attn_kv_b.weight" whose rows are, head after head, k rows of K and v of V, of a file
 * that has no "attn_k_b": two tensors that gguf_load reads as if they were in the file. pair[0]: the rows of
 * K, turned, as floats [k, columns, heads] with the same values; pair[1]: those of V as they are, [columns,
 * v, heads]. False: the file is another, or columns are too many. The same matrix always gives the same two.
 * Call it where nobody else reads the file yet. */
bool gguf_split_heads(const struct gguf *g, const struct gguf_tensor *t, uint32_t k, uint32_t v,
                      const struct gguf_tensor *pair[2]);
/* Bytes [from, from + n) of a tensor's data; any thread. STATOR_BAD_MODEL with the file's and the tensor's
 * name when the file has become shorter. */
stator_status gguf_load(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n,
                        void *out, stator_error *e);
/* Drops what was loaded of the tensor from the page cache. */
void gguf_uncache(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n);
/* The same of all pages in which the bytes are, with what else is in them. */
void gguf_uncache_pages(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n);
/* Has these bytes read into the page cache, and does not wait for them. */
void gguf_prefetch(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n);
/* STATOR_BAD_MODEL: a file was written to, truncated or extended since gguf_open, so what was loaded may be a
 * mix of two models. */
stator_status gguf_unchanged(const struct gguf *g, stator_error *e);
/* Bytes of a shard's file, and when it was written last, as they were when it was opened. */
void gguf_identity(const struct gguf *g, uint32_t shard, uint64_t *bytes, uint64_t *changed_ns);
uint32_t gguf_shards(const struct gguf *g);
uint32_t gguf_version(const struct gguf *g);

uint64_t gguf_keys(const struct gguf *g);
struct gguf_text gguf_key(const struct gguf *g, uint64_t i, struct gguf_value *v);
bool gguf_find(const struct gguf *g, const char *key, struct gguf_value *v);
uint64_t gguf_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor(const struct gguf *g,
                                      uint64_t i); /* in file order, shard after shard */
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name); /* NULL: not there */

/* Typed reads. Missing key: STATOR_BAD_MODEL, or *v = fallback where there is one. Wrong type:
 * STATOR_BAD_MODEL naming the key, the type found and the one expected. Any unsigned or non-negative signed
 * integer kind reads as u64. */
stator_status gguf_read_u64(const struct gguf *g, const char *key, uint64_t min, uint64_t max, uint64_t *v,
                            stator_error *e);
stator_status gguf_read_u64_or(const struct gguf *g, const char *key, uint64_t min, uint64_t max,
                               uint64_t fallback, uint64_t *v, stator_error *e);
stator_status gguf_read_f32(const struct gguf *g, const char *key, float *v,
                            stator_error *e); /* F32 or F64; finite */
stator_status gguf_read_f32_or(const struct gguf *g, const char *key, float fallback, float *v,
                               stator_error *e);
stator_status gguf_read_bool_or(const struct gguf *g, const char *key, bool fallback, bool *v,
                                stator_error *e);
stator_status gguf_read_text(const struct gguf *g, const char *key, struct gguf_text *v, stator_error *e);
stator_status gguf_read_array(const struct gguf *g, const char *key, enum gguf_kind item,
                              struct gguf_value *v, stator_error *e);

/* The next string of a string array: *cursor starts at v->data. (Strings have no index; walk them once.) */
struct gguf_text gguf_next_text(const uint8_t **cursor);

/* The text of the token whose id is the value of `key` (tokenizer.ggml.bos_token_id, say); empty, with data
 * "", if the file has no such key or no tokens. An id that is not below the number of tokens is an error. */
stator_status gguf_read_token_text(const struct gguf *g, const char *key, struct gguf_text *text,
                                   stator_error *e);
/* Item i of a fixed-size array, as the kind's C value. */
float gguf_item_f32(const struct gguf_value *v, uint64_t i);
int64_t gguf_item_i64(const struct gguf_value *v, uint64_t i);

const char *gguf_kind_name(enum gguf_kind k);

bool gguf_text_is(struct gguf_text t, const char *s);
bool gguf_text_ends(struct gguf_text t, const char *end, struct gguf_text *rest); /* with something before */
#define GGUF_SHOWN 96
/* t for an error text, in out[GGUF_SHOWN]: what is not printable ASCII becomes '?', a long text ends with
 * "...". */
const char *gguf_show(struct gguf_text t, char *out);
/* STATOR_BAD_MODEL with the (first) file's name in front: for errors that readers of the metadata find. */
__attribute__((format(printf, 3, 4))) stator_status gguf_error(const struct gguf *g, stator_error *e,
                                                               const char *fmt, ...);

#endif
