/* model/gguf: good files of every kind read back; every kind of bad file is refused with a text that names
 * what is wrong.
 */
#include "testing.h"

#include "base/arith.h"
#include "base/clock.h"
#include "formats/block.h"
#include "os/pages.h"
#include "model/gguf.h"
#include "tiny_model.h"

#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Opens, expects the code and that the text names the file and has the part. */
static void open_fails(const char *path, stator_status code, const char *part) {
    struct gguf *g = NULL;
    stator_error e = {0};
    stator_status st = gguf_open(path, &g, &e);
    if (st != code || g != NULL || strstr(e.text, part) == NULL || strstr(e.text, path) != e.text)
        fail_msg("%s: status %d, expected %d and \"%s\": \"%s\"", path, (int)st, (int)code, part, e.text);
}

/* Finishes the file, expects that it is refused, and frees the writer. */
static void refused(struct gguf_writer *w, const char *part) {
    char path[GGUF_WRITER_PATH];
    gguf_writer_finish(w);
    open_fails(gguf_writer_memory_path(w, path), STATOR_BAD_MODEL, part);
    gguf_writer_free(w);
}

static struct gguf *opened(struct gguf_writer *w) {
    char path[GGUF_WRITER_PATH];
    struct gguf *g = NULL;
    stator_error e = {0};
    gguf_writer_finish(w);
    if (gguf_open(gguf_writer_memory_path(w, path), &g, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return g;
}

/* A small file with every kind of value and three tensors. */
static struct gguf_writer sample(void) {
    struct gguf_writer w = gguf_writer_new();
    uint8_t u8 = 200, bytes[3] = {1, 2, 3};
    int8_t i8 = -7;
    int16_t i16 = -300;
    uint64_t u64 = UINT64_MAX;
    int64_t i64 = INT64_MIN, items[2] = {-1, INT64_MAX};
    double f64 = 0.25;
    gguf_writer_text(&w, "general.architecture", "llama");
    gguf_writer_key(&w, "a.u8", GGUF_U8, &u8, sizeof u8);
    gguf_writer_key(&w, "a.i8", GGUF_I8, &i8, sizeof i8);
    gguf_writer_u16(&w, "a.u16", 65535);
    gguf_writer_key(&w, "a.i16", GGUF_I16, &i16, sizeof i16);
    gguf_writer_u32(&w, "a.u32", 4000000000u);
    gguf_writer_i32(&w, "a.i32", -5);
    gguf_writer_f32(&w, "a.f32", 1.5f);
    gguf_writer_bool(&w, "a.bool", 1);
    gguf_writer_key(&w, "a.u64", GGUF_U64, &u64, sizeof u64);
    gguf_writer_key(&w, "a.i64", GGUF_I64, &i64, sizeof i64);
    gguf_writer_key(&w, "a.f64", GGUF_F64, &f64, sizeof f64);
    gguf_writer_array(&w, "a.bytes", GGUF_U8, 3, bytes, 3);
    gguf_writer_array(&w, "a.i64s", GGUF_I64, 2, items, sizeof items);
    gguf_writer_texts(&w, "a.texts", 3, (const char *const[]){"one", "", "three"});
    gguf_writer_array(&w, "a.none", GGUF_STRING, 0, NULL, 0);
    gguf_writer_tensor(&w, "x", BLOCK_F32, 1, (uint64_t[]){3}, (float[]){1, 2, 3});
    gguf_writer_tensor(&w, "y", BLOCK_Q8_0, 2, (uint64_t[]){32, 2}, NULL);
    gguf_writer_tensor(&w, "z", BLOCK_F16, 4, (uint64_t[]){2, 3, 1, 2}, NULL);
    return w;
}

static void a_good_file_reads_back(void **state) {
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct gguf_writer w = sample();
        w.version = version;
        struct gguf *g = opened(&w);
        struct gguf_value v;
        assert_int_equal(gguf_version(g), version);
        assert_int_equal(gguf_shards(g), 1);
        assert_int_equal(gguf_keys(g), 16);
        assert_int_equal(gguf_tensors(g), 3);
        assert_true(gguf_text_is(gguf_key(g, 3, &v), "a.u16"));
        assert_int_equal(gguf_item_i64(&v, 0), 65535);
        assert_true(gguf_find(g, "a.i8", &v) && v.kind == GGUF_I8 && gguf_item_i64(&v, 0) == -7);
        assert_true(gguf_find(g, "a.i16", &v) && gguf_item_i64(&v, 0) == -300);
        assert_true(gguf_find(g, "a.i64", &v) && gguf_item_i64(&v, 0) == INT64_MIN);
        assert_true(gguf_find(g, "a.f64", &v) && gguf_item_f32(&v, 0) == 0.25f);
        assert_true(gguf_find(g, "a.bytes", &v) && v.kind == GGUF_ARRAY && v.item == GGUF_U8 &&
                    v.count == 3 && v.bytes == 3);
        assert_int_equal(gguf_item_i64(&v, 2), 3);
        assert_true(gguf_find(g, "a.i64s", &v) && gguf_item_i64(&v, 1) == INT64_MAX);
        assert_true(gguf_find(g, "a.texts", &v) && v.item == GGUF_STRING && v.count == 3 &&
                    v.bytes == 3 * 8 + 8);
        const uint8_t *cursor = v.data;
        assert_true(gguf_text_is(gguf_next_text(&cursor), "one"));
        assert_true(gguf_text_is(gguf_next_text(&cursor), ""));
        assert_true(gguf_text_is(gguf_next_text(&cursor), "three"));
        assert_true(gguf_find(g, "a.none", &v) && v.count == 0);
        assert_false(gguf_find(g, "a.u", NULL));
        assert_false(gguf_find(g, "a.u166", NULL));
        assert_false(gguf_find(g, "", NULL));
        const struct gguf_tensor *x = gguf_find_tensor(g, "x"), *z = gguf_find_tensor(g, "z");
        float read[3];
        assert_ptr_equal(x, gguf_tensor(g, 0));
        assert_int_equal(x->bytes, 12);
        assert_int_equal(gguf_load(g, x, 0, sizeof read, read, NULL), STATOR_OK);
        assert_true(read[0] == 1 && read[1] == 2 && read[2] == 3);
        assert_int_equal(gguf_find_tensor(g, "y")->bytes, 68);
        assert_true(z->n_dims == 4 && z->ne[1] == 3 && z->ne[2] == 1 && z->ne[3] == 2 && z->bytes == 24 &&
                    z->type == BLOCK_F16);
        assert_null(gguf_find_tensor(g, "w"));
        assert_true(gguf_host_bytes(g) > 0 && gguf_host_bytes(g) <= 5 * PAGES_SIZE);
        gguf_close(g);
        gguf_writer_free(&w);
    }
    gguf_close(NULL);
}

static void typed_reads_say_what_is_wrong(void **state) {
    (void)state;
    struct gguf_writer w = sample();
    gguf_writer_f32(&w, "a.nan", (float)NAN);
    struct gguf *g = opened(&w);
    struct gguf_value value;
    struct gguf_text text;
    uint64_t u = 0;
    float f = 0;
    bool b = false;
    stator_error e;
#define WRONG(call, part)                                                                                    \
    do {                                                                                                     \
        e.text[0] = '\0';                                                                                    \
        assert_int_equal(call, STATOR_BAD_MODEL);                                                            \
        if (strstr(e.text, part) == NULL || strstr(e.text, "/proc/self/fd/") != e.text)                      \
            fail_msg("\"%s\" has no \"%s\"", e.text, part);                                                  \
    } while (0)
    assert_int_equal(gguf_read_u64(g, "a.u8", 0, 255, &u, &e), STATOR_OK);
    assert_int_equal(u, 200);
    assert_int_equal(gguf_read_u64(g, "a.u64", 0, UINT64_MAX, &u, &e), STATOR_OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(gguf_read_u64_or(g, "no", 0, 1, 77, &u, &e), STATOR_OK);
    assert_int_equal(u, 77);
    WRONG(gguf_read_u64(g, "no", 0, 9, &u, &e), "key 'no' is missing");
    WRONG(gguf_read_u64(g, "a.u8", 0, 199, &u, &e), "key 'a.u8' is 200, expected 0 to 199");
    WRONG(gguf_read_u64(g, "a.u8", 201, 999, &u, &e), "expected 201 to 999");
    WRONG(gguf_read_u64_or(g, "a.i32", 0, 9, 1, &u, &e), "key 'a.i32' is -5, expected 0 to 9");
    WRONG(gguf_read_u64(g, "a.f32", 0, 9, &u, &e), "key 'a.f32' has type f32, expected an integer");
    WRONG(gguf_read_u64(g, "a.bool", 0, 9, &u, &e), "has type bool");
    WRONG(gguf_read_u64(g, "a.texts", 0, 9, &u, &e), "has type array of string");
    assert_int_equal(gguf_read_f32(g, "a.f32", &f, &e), STATOR_OK);
    assert_true(f == 1.5f);
    assert_int_equal(gguf_read_f32_or(g, "no", 2.5f, &f, &e), STATOR_OK);
    assert_true(f == 2.5f);
    WRONG(gguf_read_f32(g, "no", &f, &e), "key 'no' is missing");
    WRONG(gguf_read_f32(g, "a.u8", &f, &e), "key 'a.u8' has type u8, expected f32");
    WRONG(gguf_read_f32_or(g, "a.nan", 1, &f, &e), "key 'a.nan' is not a finite number");
    assert_int_equal(gguf_read_bool_or(g, "a.bool", false, &b, &e), STATOR_OK);
    assert_true(b);
    assert_int_equal(gguf_read_bool_or(g, "no", true, &b, &e), STATOR_OK);
    assert_true(b);
    WRONG(gguf_read_bool_or(g, "a.u8", true, &b, &e), "key 'a.u8' has type u8, expected bool");
    assert_int_equal(gguf_read_text(g, "general.architecture", &text, &e), STATOR_OK);
    assert_true(gguf_text_is(text, "llama"));
    WRONG(gguf_read_text(g, "a.i64", &text, &e), "key 'a.i64' has type i64, expected string");
    assert_int_equal(gguf_read_array(g, "a.texts", GGUF_STRING, &value, &e), STATOR_OK);
    WRONG(gguf_read_array(g, "a.texts", GGUF_F32, &value, &e),
          "has type array of string, expected array of f32");
    WRONG(gguf_read_array(g, "a.u8", GGUF_F32, &value, &e), "has type u8, expected array of f32");
#undef WRONG
    gguf_close(g);
    gguf_writer_free(&w);
}

/* The text of a special token; a file without tokens has none, whatever its id says. */
static void token_texts(void **state) {
    (void)state;
    static const char *const words[] = {"one", "two"};
    for (uint32_t n = 0; n <= 2; n += 2) {
        char path[GGUF_WRITER_PATH];
        struct gguf_writer w = gguf_writer_new();
        struct gguf *g = NULL;
        struct gguf_text text = {0};
        stator_error e = {0};
        if (n > 0)
            gguf_writer_texts(&w, "tokenizer.ggml.tokens", n, words);
        else
            gguf_writer_array(&w, "tokenizer.ggml.tokens", GGUF_STRING, 0, NULL, 0);
        gguf_writer_u32(&w, "last", 1);
        gguf_writer_u32(&w, "behind", 2);
        gguf_writer_finish(&w);
        assert_int_equal(gguf_open(gguf_writer_memory_path(&w, path), &g, &e), STATOR_OK);
        assert_int_equal(gguf_read_token_text(g, "last", &text, &e), STATOR_OK);
        assert_true(gguf_text_is(text, n > 0 ? "two" : ""));
        assert_int_equal(gguf_read_token_text(g, "absent", &text, &e), STATOR_OK);
        assert_true(gguf_text_is(text, ""));
        assert_int_equal(gguf_read_token_text(g, "behind", &text, &e), n > 0 ? STATOR_BAD_MODEL : STATOR_OK);
        gguf_close(g);
        gguf_writer_free(&w);
    }
}

/* Bytes of mappings of this process whose line in maps has `part`. */
static uint64_t mapped_bytes(const char *part) {
    char line[512];
    unsigned long long from, to, bytes = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, part) != NULL && sscanf(line, "%llx-%llx", &from, &to) == 2)
            bytes += to - from;
    fclose(maps);
    return bytes;
}

/* So nothing that happens to the file can raise a signal. */
static void nothing_stays_mapped(void **state) {
    (void)state;
    struct gguf_writer w = sample();
    gguf_writer_tensor(&w, "big", BLOCK_F32, 2, (uint64_t[]){1024, 1024}, NULL);
    struct gguf *g = opened(&w);
    assert_int_equal(mapped_bytes("memfd:gguf"), 0);
    assert_true(gguf_host_bytes(g) <= 4 * PAGES_SIZE + pages_rounded(w.directory_bytes));
    gguf_close(g);
    gguf_writer_free(&w);
}

static void changed_after_open(void **state) {
    (void)state;
    stator_error e;
    float read[3] = {0};
    struct gguf_writer w = sample();
    struct gguf *g = opened(&w);
    const struct gguf_tensor *x = gguf_find_tensor(g, "x");
    assert_int_equal(gguf_unchanged(g, &e), STATOR_OK);
    assert_int_equal(ftruncate(w.fd, (off_t)x->offset + 8), 0);
    assert_int_equal(gguf_load(g, x, 0, 8, read, &e), STATOR_OK);
    assert_true(read[0] == 1 && read[1] == 2);
    assert_int_equal(gguf_load(g, x, 4, 8, read, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, gguf_path(g, 0)));
    assert_non_null(strstr(e.text, "tensor 'x': the file ends at byte"));
    assert_int_equal(gguf_unchanged(g, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "bytes when it was opened"));
    assert_int_equal(ftruncate(w.fd, 0), 0);
    struct gguf_value v;
    assert_true(gguf_find(g, "a.i8", &v) && gguf_item_i64(&v, 0) == -7);
    gguf_close(g);
    gguf_writer_free(&w);

    w = sample();
    g = opened(&w);
    assert_int_equal(pwrite(w.fd, "x", 1, 100), 1);
    struct timespec later[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 4}};
    assert_int_equal(futimens(w.fd, later), 0); /* a clock tick is longer than this test */
    assert_int_equal(gguf_unchanged(g, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "written to while it was in use"));
    gguf_close(g);
    gguf_writer_free(&w);
}

/* A file of holes whose key claims most of it: refused before so much is read. */
static void endless_directory(void **state) {
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    gguf_writer_text(&w, "long", "");
    gguf_writer_finish(&w);
    gguf_writer_memory_path(&w, path);
    const uint64_t length = 1ull << 40;
    assert_int_equal(pwrite(w.fd, &length, 8, 24 + 8 + 4 + 4), 8);
    assert_int_equal(ftruncate(w.fd, (off_t)(length + 4096)), 0);
    struct gguf *g = NULL;
    stator_error e;
    assert_int_equal(gguf_open(path, &g, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "key 'long'"));
    assert_non_null(strstr(e.text, "more than 268435456 bytes"));
    gguf_writer_free(&w);
}

/* Every prefix of the file is refused; returns how many. */
static size_t truncate_everywhere(const uint8_t *data, size_t n, size_t longest) {
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    gguf_writer_put(&w.data, data, longest);
    w.out = w.data.data;
    w.out_bytes = longest;
    w.data = (struct gguf_writer_buffer){0};
    gguf_writer_memory_path(&w, path);
    for (size_t length = longest; length-- > 0;) {
        assert_int_equal(ftruncate(w.fd, (off_t)length), 0);
        struct gguf *g = NULL;
        stator_error e = {0};
        stator_status st = gguf_open(path, &g, &e);
        if (st != STATOR_BAD_MODEL || (strstr(e.text, "truncated") == NULL && length > 0))
            fail_msg("%zu of %zu bytes: status %d \"%s\"", length, n, (int)st, e.text);
    }
    gguf_writer_free(&w);
    return longest;
}

static void truncation_at_every_byte(void **state) {
    (void)state;
    struct gguf_writer w = sample();
    gguf_writer_finish(&w);
    truncate_everywhere(w.out, w.out_bytes, w.out_bytes);
    gguf_writer_free(&w);
    struct gguf_writer m = gguf_writer_new();
    tiny_model_write(&m, tiny_model_of("qwen3"));
    gguf_writer_finish(&m);
    truncate_everywhere(m.out, m.out_bytes, m.directory_bytes + 1);
    gguf_writer_free(&m);
}

static void truncation_of_a_real_model(void **state) {
    (void)state;
    TESTING_NEED_SHARED("oracles/models/llama-tied.gguf");
    size_t n = 0;
    stator_error e;
    struct gguf *g = NULL;
    const char *path = testing_shared("oracles/models/llama-tied.gguf");
    uint8_t *data = testing_read_file(path, &n);
    assert_int_equal(gguf_open(path, &g, &e), STATOR_OK);
    size_t data_begins = (size_t)gguf_tensor(g, 0)->offset;
    gguf_close(g);
    assert_true(data_begins > 10000 && data_begins < n);
    truncate_everywhere(data, n, data_begins + 1);
    free(data);
}

/* Whatever byte changes: no crash, and either a clean refusal or a file that can be walked. */
static void changed_bytes(void **state) {
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    uint64_t seed = testing_seed("changed_bytes");
    char path[GGUF_WRITER_PATH];
    size_t good = 0, bad = 0;
    tiny_model_write(&w, tiny_model_of("llama"));
    gguf_writer_finish(&w);
    gguf_writer_memory_path(&w, path);
    for (size_t at = 0; at < w.directory_bytes; at++) {
        uint8_t values[3] = {0, 0xFF, (uint8_t)testing_random(&seed)};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pwrite(w.fd, &values[i], 1, (off_t)at), 1);
            struct gguf *g = NULL;
            stator_error e = {0};
            stator_status st = gguf_open(path, &g, &e);
            assert_true(st == STATOR_OK || st == STATOR_BAD_MODEL);
            st == STATOR_OK ? good++ : bad++;
            for (uint64_t k = 0; st == STATOR_OK && k < gguf_keys(g); k++) {
                struct gguf_value v;
                struct gguf_text name = gguf_key(g, k, &v);
                assert_true(name.length > 0 && v.bytes <= w.out_bytes);
            }
            gguf_close(g);
        }
        assert_int_equal(pwrite(w.fd, w.out + at, 1, (off_t)at), 1);
    }
    assert_true(good > 0 && bad > 0);
    gguf_writer_free(&w);
}

static void bad_headers(void **state) {
    (void)state;
    struct gguf_writer w;
    const struct {
        uint32_t version;
        const char *part;
    } versions[] = {{0, "GGUF version 0 is not supported"}, {1, "GGUF version 1 is not supported"},
                    {4, "GGUF version 4 is not supported"}, {0x03000000, "a big-endian GGUF file"},
                    {0x02000000, "a big-endian GGUF file"}, {UINT32_MAX, "GGUF version 4294967295"}};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        w = sample();
        w.version = versions[i].version;
        refused(&w, versions[i].part);
    }
    const uint64_t lies[] = {1ull << 63, (1ull << 63) - 20, UINT64_MAX - 16, 1ull << 32, 1ull << 60, 1000000};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        w = sample();
        w.n_keys_lie = lies[i];
        refused(&w, "keys and 3 tensors: more than the");
        w = sample();
        w.n_tensors_lie = lies[i];
        refused(&w, "the header promises 16 keys and");
    }
    char path[GGUF_WRITER_PATH];
    w = sample();
    gguf_writer_finish(&w);
    w.out[0] = 'g';
    open_fails(gguf_writer_memory_path(&w, path), STATOR_BAD_MODEL,
               "not a GGUF file: it begins with \"gGUF\"");
    w.out[0] = 1;
    open_fails(gguf_writer_memory_path(&w, path), STATOR_BAD_MODEL, "it begins with \"?GUF\"");
    w.out_bytes = 0;
    open_fails(gguf_writer_memory_path(&w, path), STATOR_BAD_MODEL, "the file is empty");
    gguf_writer_free(&w);
}

static void bad_values(void **state) {
    (void)state;
    const uint64_t lengths[] = {1, 1000, 1ull << 32, 1ull << 61, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
    struct gguf_writer w;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        w = gguf_writer_new();
        gguf_writer_key(&w, "long.text", GGUF_STRING, &lengths[i], 8);
        refused(&w, "key 'long.text': its string");
        if (lengths[i] == 1)
            continue;
        for (uint32_t item = 0; item < GGUF_KINDS; item++) {
            if (item == GGUF_ARRAY)
                continue;
            w = gguf_writer_new();
            gguf_writer_array(&w, "long.array", item, lengths[i], "0123456789abcdef", 16);
            refused(&w, "key 'long.array': ");
        }
    }
    w = gguf_writer_new();
    gguf_writer_array(&w, "texts", GGUF_STRING, 2, "\1\0\0\0\0\0\0\0a\377\0\0\0\0\0\0\0", 17);
    refused(&w, "key 'texts': string 1 of its array (255 bytes) runs past the end");
    w = gguf_writer_new();
    gguf_writer_array(&w, "nested", GGUF_ARRAY, 1, "\0\0\0\0\1\0\0\0\0\0\0\0\7", 13);
    refused(&w, "key 'nested': nested arrays are not supported");
    for (uint32_t kind = GGUF_KINDS; kind != 3; kind = kind == GGUF_KINDS ? UINT32_MAX : 3) {
        w = gguf_writer_new();
        gguf_writer_key(&w, "odd", kind, "12345678", 8);
        refused(&w, "key 'odd': unknown value type");
        w = gguf_writer_new();
        gguf_writer_array(&w, "odd", kind, 1, "12345678", 8);
        refused(&w, "key 'odd': unknown item type");
    }
    w = gguf_writer_new();
    gguf_writer_u32(&w, "", 1);
    gguf_writer_u32(&w, "padding", 1);
    refused(&w, "key 1 of 2 has an empty name");
    w = gguf_writer_new();
    gguf_writer_put_text(&w.keys, "nul\0nul", 7);
    gguf_writer_put_u32(&w.keys, GGUF_BOOL);
    gguf_writer_put(&w.keys, NULL, 1);
    w.n_keys = 1;
    refused(&w, "key 1 of 1 has a NUL byte in its name 'nul?nul'");
    w = gguf_writer_new();
    gguf_writer_put_text(&w.keys, NULL, 65536);
    gguf_writer_put(&w.keys, NULL, 8);
    w.n_keys = 1;
    refused(&w, "key 1 of 1 has a name of 65536 bytes, at most 65535");
    w = gguf_writer_new();
    gguf_writer_put_u64(&w.keys, UINT64_MAX - 3);
    gguf_writer_put(&w.keys, NULL, 32);
    w.n_keys = 1;
    refused(&w, "the name of key 1 of 1 (18446744073709551612 bytes) runs past the end");
}

static void duplicates(void **state) {
    (void)state;
    struct gguf_writer w = sample();
    gguf_writer_u32(&w, "a.f32", 1);
    refused(&w, "key 'a.f32' is there twice");
    w = sample();
    gguf_writer_u32(&w, "general.alignment", 32);
    gguf_writer_u32(&w, "general.alignment", 32);
    refused(&w, "key 'general.alignment' is there twice");
    w = sample();
    gguf_writer_tensor(&w, "x", BLOCK_F32, 1, (uint64_t[]){1}, NULL);
    refused(&w, "tensor 'x' is there twice");
}

static void bad_tensors(void **state) {
    (void)state;
    const uint64_t neg1 = UINT64_MAX;
    const struct {
        uint32_t type, n_dims;
        uint64_t ne[5];
        uint64_t offset;
        const char *part;
    } cases[] = {
        {0, 0, {0}, 0, "tensor 't' has 0 dimensions, expected 1 to 4"},
        {0, 5, {1, 1, 1, 1, 1}, 0, "tensor 't' has 5 dimensions, expected 1 to 4"},
        {0, 1, {0}, 0, "tensor 't': dimension 0 is 0, expected at least 1"},
        {0, 3, {4, 4, 0}, 0, "tensor 't': dimension 2 is 0, expected at least 1"},
        {0, 2, {4, neg1}, 0, "tensor 't': dimension 1 is -1, expected at least 1"},
        {0, 1, {1ull << 63}, 0, "tensor 't': dimension 0 is -9223372036854775808"},
        {0,
         3,
         {4, (1ull << 30) - 1, (1ull << 30) + 1},
         0,
         "tensor 't': its 18446744073709551600 bytes at offset"},
        {0, 3, {4, 1ull << 31, 1ull << 31}, 0, "tensor 't': the product of its dimensions overflows"},
        {0, 4, {1ull << 32, 1ull << 32, 1, 1}, 0, "tensor 't': the product of its dimensions overflows"},
        {0, 2, {1ull << 32, 1ull << 31}, 0, "tensor 't': the product of its dimensions overflows"},
        {0, 1, {1ull << 62}, 0, "tensor 't': its size in bytes overflows"},
        {4, 1, {32}, 0, "tensor 't' has an unknown type, 4"},
        {31, 1, {32}, 0, "tensor 't' has an unknown type, 31: q4_0 or iq4_nl rearranged"},
        {999, 1, {32}, 0, "tensor 't' has an unknown type, 999: it is of another program"},
        {UINT32_MAX, 1, {32}, 0, "tensor 't' has an unknown type, 4294967295"},
        {BLOCK_Q8_0,
         1,
         {33},
         0,
         "tensor 't': its rows of 33 values are not whole blocks of q8_0 (32 values each)"},
        {BLOCK_Q4_K, 2, {32, 8}, 0, "are not whole blocks of q4_k (256 values each)"},
        {0, 1, {1}, 128 + 4, "tensor 't': its offset 132 is not a multiple of the alignment 32"},
        {0, 1, {1}, 1 << 20, "tensor 't': its 4 bytes at offset"},
        {0, 1, {1}, UINT64_MAX - 31, "run past the end of the file"},
        {0, 1, {1}, (1ull << 63), "run past the end of the file"},
        {0, 1, {1000}, 256, "tensor 't': its 4000 bytes at offset"},
        {0, 1, {1}, 0, "overlaps tensor"},
        {0, 1, {17}, 0, "overlaps tensor"},
        {0, 1, {9}, 64, "overlaps tensor 'other'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gguf_writer w = gguf_writer_new();
        gguf_writer_put(&w.data, NULL, 128);
        gguf_writer_entry(&w, "first", BLOCK_F32, 1, (uint64_t[]){16}, 0);
        gguf_writer_entry(&w, "other", BLOCK_F32, 1, (uint64_t[]){8}, 96);
        gguf_writer_entry(&w, "t", cases[i].type, cases[i].n_dims, cases[i].ne, cases[i].offset);
        refused(&w, cases[i].part);
    }
    struct gguf_writer w = gguf_writer_new();
    gguf_writer_tensor(&w, "", BLOCK_F32, 1, (uint64_t[]){8}, NULL);
    refused(&w, "tensor 1 of 1 has an empty name");
    char name[258];
    memset(name, 'n', sizeof name);
    name[257] = '\0';
    w = gguf_writer_new();
    gguf_writer_tensor(&w, name, BLOCK_F32, 1, (uint64_t[]){8}, NULL);
    refused(&w, "tensor 1 of 1 has a name of 257 bytes, at most 256 are supported");
    w = gguf_writer_new();
    gguf_writer_tensor(&w, name + 1, BLOCK_F32, 1, (uint64_t[]){8}, NULL);
    struct gguf *g = opened(&w);
    assert_non_null(gguf_find_tensor(g, name + 1));
    gguf_close(g);
    gguf_writer_free(&w);
}

static void alignments(void **state) {
    (void)state;
    const struct {
        uint32_t v;
        const char *part;
    } bad[] = {{0, "key 'general.alignment' is 0, expected a power of two"},
               {3, "key 'general.alignment' is 3, expected a power of two"},
               {48, "key 'general.alignment' is 48, expected a power of two"},
               {UINT32_MAX, "key 'general.alignment' is 4294967295, expected a power of two"},
               {1u << 31, "is not a multiple of the alignment 2147483648"},
               {64, "tensor 'y': its offset 32 is not a multiple of the alignment 64"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct gguf_writer w = sample();
        gguf_writer_u32(&w, "general.alignment", bad[i].v);
        refused(&w, bad[i].part);
    }
    struct gguf_writer w = sample();
    gguf_writer_key(&w, "general.alignment", GGUF_U64, &(uint64_t){32}, 8);
    refused(&w, "key 'general.alignment' has type u64, expected u32");
    w = sample();
    gguf_writer_text(&w, "general.alignment", "32");
    refused(&w, "key 'general.alignment' has type string, expected u32");
    for (uint32_t a = 1; a <= 4096; a *= 2) {
        w = gguf_writer_new();
        w.alignment = a;
        gguf_writer_u32(&w, "general.alignment", a);
        gguf_writer_tensor(&w, "odd", BLOCK_Q4_0, 1, (uint64_t[]){32}, NULL);
        gguf_writer_tensor(&w, "t", BLOCK_F32, 1, (uint64_t[]){2}, (float[]){5, 6});
        struct gguf *g = opened(&w);
        float read[2] = {0};
        const struct gguf_tensor *t = gguf_find_tensor(g, "t");
        assert_int_equal(t->offset % a, 0);
        assert_int_equal(gguf_load(g, t, 0, sizeof read, read, NULL), STATOR_OK);
        assert_true(read[0] == 5 && read[1] == 6);
        gguf_close(g);
        gguf_writer_free(&w);
    }
}

/* Bytes [from, from + n) of a derived tensor, whose whole is `want`. */
static void part_is(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n,
                    const uint8_t *want) {
    uint8_t got[8192];
    assert_true(n <= sizeof got);
    assert_int_equal(gguf_load(g, t, from, n, got, NULL), STATOR_OK);
    assert_memory_equal(got, want + from, n);
}

/* attn_kv_b as its two halves: K turned and in floats, V as it is; any bytes of them. */
static void split_heads(void **state) {
    (void)state;
    enum { COLUMNS = 64, HEADS = 3, K = 10, V = 5, ROWS = HEADS * (K + V), ROW = COLUMNS / 32 * 34 };
    static uint8_t data[ROWS * ROW], values[HEADS * V * ROW];
    static float keys[HEADS][COLUMNS][K], row[COLUMNS];
    for (uint32_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    for (uint32_t i = 0; i < sizeof data; i += 34)
        block_put_scales(BLOCK_Q8_0, data + i, 0.01f * (float)(i % 7 + 1), 0);
    for (uint32_t h = 0; h < HEADS; h++) {
        memcpy(values + h * V * ROW, data + (h * (K + V) + K) * ROW, V * ROW);
        for (uint32_t j = 0; j < K; j++) {
            block_decode_row(BLOCK_Q8_0, data + (h * (K + V) + j) * ROW, row, COLUMNS);
            for (uint32_t c = 0; c < COLUMNS; c++)
                keys[h][c][j] = row[c];
        }
    }
    const struct gguf_tensor *pair[2], *again[2];
    struct gguf_writer w = gguf_writer_new();
    gguf_writer_tensor(&w, "blk.7.attn_kv_b.weight", BLOCK_Q8_0, 2, (uint64_t[]){COLUMNS, ROWS}, data);
    struct gguf *g = opened(&w);
    assert_true(gguf_split_heads(g, gguf_tensor(g, 0), K, V, pair));
    assert_true(gguf_split_heads(g, gguf_tensor(g, 0), K, V, again));
    assert_true(pair[0] == again[0] && pair[1] == again[1]);
    assert_true(gguf_text_is(pair[0]->name, "blk.7.attn_k_b.weight") && pair[0]->type == BLOCK_F32);
    assert_true(pair[0]->ne[0] == K && pair[0]->ne[1] == COLUMNS && pair[0]->ne[2] == HEADS);
    assert_true(gguf_text_is(pair[1]->name, "blk.7.attn_v_b.weight") && pair[1]->type == BLOCK_Q8_0);
    assert_true(pair[1]->ne[0] == COLUMNS && pair[1]->ne[1] == V && pair[1]->ne[2] == HEADS);
    assert_true(pair[0]->bytes == sizeof keys && pair[1]->bytes == sizeof values);
    part_is(g, pair[0], 0, sizeof keys, (const uint8_t *)keys);
    part_is(g, pair[1], 0, sizeof values, values);
    for (uint64_t from = 0; from < sizeof keys; from += 37)
        part_is(g, pair[0], from, ARITH_MIN(sizeof keys - from, from % 419), (const uint8_t *)keys);
    for (uint64_t from = 0; from < sizeof values; from += 29)
        part_is(g, pair[1], from, ARITH_MIN(sizeof values - from, from % 831), values);
    gguf_uncache(g, pair[0], 0, pair[0]->bytes);
    gguf_close(g);
    gguf_writer_tensor(&w, "blk.6.attn_k_b.weight", BLOCK_F32, 1, (uint64_t[]){1}, NULL);
    g = opened(&w);
    assert_false(gguf_split_heads(g, gguf_find_tensor(g, "blk.7.attn_kv_b.weight"), K, V, pair));
    gguf_close(g);
    gguf_writer_free(&w);
}

/* Hostile counts that are really there: sorting, not comparing each with each. */
static void many_names(void **state) {
    (void)state;
    enum { KEYS = 60000, TENSORS = 100000 };
    struct gguf_writer w = gguf_writer_new();
    char name[32];
    for (int i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "%d", i * 7919 % KEYS);
        gguf_writer_bool(&w, name, 0);
    }
    gguf_writer_put(&w.data, NULL, 32ull * TENSORS);
    for (int i = 0; i < TENSORS; i++) {
        snprintf(name, sizeof name, "t%d", i);
        gguf_writer_entry(&w, name, BLOCK_F32, 1, (uint64_t[]){8},
                          32ull * (uint64_t)((long)i * 7919 % TENSORS));
    }
    clock_t start = clock();
    struct gguf *g = opened(&w);
    assert_non_null(gguf_find_tensor(g, "t99999"));
    assert_true(gguf_find(g, "59999", NULL));
    gguf_close(g);
    gguf_writer_entry(&w, "t500", BLOCK_F32, 1, (uint64_t[]){8}, 32ull * TENSORS);
    gguf_writer_put(&w.data, NULL, 32);
    refused(&w, "tensor 't500' is there twice");
    assert_true(clock() - start < 10 * CLOCKS_PER_SEC); /* of the processor: the machine may be busy */

    w = gguf_writer_new(); /* more than any model has: refused before an index is made */
    gguf_writer_put(&w.data, NULL, 32);
    for (int i = 0; i <= 65536; i++) {
        snprintf(name, sizeof name, "%d", i);
        gguf_writer_bool(&w, name, 0);
    }
    refused(&w, "65537 keys and 0 tensors: at most 65536");
}

/* One file of a split model: tensor "tI" of 8 floats I. */
static void write_shard(const char *folder, int file_no, int split_no, int count, int total, int tensor,
                        uint64_t alignment) {
    struct gguf_writer w = gguf_writer_new();
    char path[160], name[16];
    float values[8];
    snprintf(path, sizeof path, "%s/m-%05d-of-%05d.gguf", folder, file_no + 1, count);
    if (split_no == 0)
        gguf_writer_text(&w, "general.architecture", "llama");
    gguf_writer_u16(&w, "split.no", (uint16_t)split_no);
    gguf_writer_u16(&w, "split.count", (uint16_t)count);
    if (total >= 0)
        gguf_writer_i32(&w, "split.tensors.count", total);
    if (alignment != 32)
        gguf_writer_u32(&w, "general.alignment", (uint32_t)alignment);
    w.alignment = alignment;
    for (int i = 0; i < 8; i++)
        values[i] = (float)tensor;
    snprintf(name, sizeof name, "t%d", tensor);
    gguf_writer_tensor(&w, name, BLOCK_F32, 1, (uint64_t[]){8}, values);
    gguf_writer_finish(&w);
    assert_true(gguf_writer_save(&w, path));
    gguf_writer_free(&w);
}

static void remove_folder(const char *folder) {
    char command[160];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

static void split_models(void **state) {
    (void)state;
    char folder[] = "/tmp/stator-split-XXXXXX", first[160], other[160];
    struct gguf *g = NULL;
    stator_error e = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(first, sizeof first, "%s/m-00001-of-00003.gguf", folder);
    const uint64_t alignments_of[3] = {32, 128, 64};
    for (int i = 0; i < 3; i++)
        write_shard(folder, i, i, 3, 3, i, alignments_of[i]);
    if (gguf_open(first, &g, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    assert_int_equal(gguf_shards(g), 3);
    assert_int_equal(gguf_tensors(g), 3);
    assert_int_equal(gguf_keys(g), 4);
    for (uint32_t i = 0; i < 3; i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        float read[8];
        assert_int_equal(t->shard, i);
        assert_int_equal(t->offset % alignments_of[i], 0);
        assert_int_equal(gguf_load(g, t, 0, sizeof read, read, NULL), STATOR_OK);
        assert_true(read[0] == (float)i && read[7] == (float)i);
        snprintf(other, sizeof other, "%s/m-%05u-of-00003.gguf", folder, i + 1);
        assert_string_equal(gguf_path(g, i), other);
    }
    /* Any of the files may be cut while they are in use. */
    snprintf(other, sizeof other, "%s/m-00002-of-00003.gguf", folder);
    assert_int_equal(gguf_unchanged(g, &e), STATOR_OK);
    assert_int_equal(truncate(other, 0), 0);
    float lost[8];
    assert_int_equal(gguf_load(g, gguf_tensor(g, 1), 0, sizeof lost, lost, &e), STATOR_BAD_MODEL);
    assert_true(strstr(e.text, other) == e.text &&
                strstr(e.text, "tensor 't1': the file ends at byte") != NULL);
    assert_int_equal(gguf_unchanged(g, &e), STATOR_BAD_MODEL);
    assert_true(strstr(e.text, other) == e.text);
    assert_int_equal(gguf_load(g, gguf_tensor(g, 2), 0, sizeof lost, lost, &e), STATOR_OK);
    gguf_close(g);
    write_shard(folder, 1, 1, 3, 3, 1, 128);

    open_fails(other, STATOR_BAD_MODEL, "name the first one (it ends in -00001-of-00003.gguf)");
    write_shard(folder, 2, 1, 3, 3, 2, 32);
    snprintf(other, sizeof other, "%s/m-00003-of-00003.gguf", folder);
    assert_int_equal(gguf_open(first, &g, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "m-00003-of-00003.gguf: key 'split.no' is 1, expected 2 to 2"));
    write_shard(folder, 2, 2, 3, 3, 1, 32);
    assert_int_equal(gguf_open(first, &g, &e), STATOR_BAD_MODEL);
    assert_non_null(
        strstr(e.text, "m-00003-of-00003.gguf: tensor 't1' is there twice, in two files of the split model"));
    unlink(other);
    assert_int_equal(gguf_open(first, &g, &e), STATOR_BAD_MODEL);
    assert_int_equal(e.code, STATOR_BAD_MODEL);
    assert_true(strstr(e.text, "file 3 of the 3 of this split model: /tmp/stator-split-") == e.text);
    assert_non_null(strstr(e.text, "-00003-of-00003.gguf: no such file"));
    assert_int_equal(gguf_open(first, &g, NULL), STATOR_BAD_MODEL);
    write_shard(folder, 2, 2, 3, 3, 2, 32);
    write_shard(folder, 0, 0, 3, 4, 0, 32);
    open_fails(first, STATOR_BAD_MODEL, "key 'split.tensors.count' is 4, but the 3 files hold 3 tensors");
    write_shard(folder, 0, 0, 3, -1, 0, 32);
    open_fails(first, STATOR_BAD_MODEL, "key 'split.tensors.count' is missing");
    write_shard(folder, 0, 0, 600, 3, 0, 32);
    snprintf(other, sizeof other, "%s/m-00001-of-00600.gguf", folder);
    open_fails(other, STATOR_BAD_MODEL, "key 'split.count' is 600, expected 0 to 512");
    snprintf(first, sizeof first, "%s/renamed.gguf", folder);
    write_shard(folder, 0, 0, 2, 3, 0, 32);
    snprintf(other, sizeof other, "%s/m-00001-of-00002.gguf", folder);
    assert_int_equal(rename(other, first), 0);
    open_fails(first, STATOR_BAD_MODEL, "so its name must end in -00001-of-00002.gguf");
    remove_folder(folder);

    struct gguf_writer w = sample();
    gguf_writer_text(&w, "split.count", "3");
    refused(&w, "key 'split.count' has type string");
}

static void paths_that_are_no_files(void **state) {
    (void)state;
    char folder[] = "/tmp/stator-paths-XXXXXX", path[160];
    assert_non_null(mkdtemp(folder));
    open_fails(folder, STATOR_USAGE, "a directory, not a GGUF file");
    open_fails("/dev/null", STATOR_USAGE, "not a regular file");
    snprintf(path, sizeof path, "%s/absent.gguf", folder);
    open_fails(path, STATOR_USAGE, "no such file");
    assert_int_equal(symlink(path, path), 0);
    open_fails(path, STATOR_FAILED, "symbolic links");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    open_fails(path, STATOR_USAGE, "not a regular file");
    remove_folder(folder);
    char long_path[700];
    memset(long_path, 'p', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    struct gguf *g = NULL;
    stator_error e = {0};
    assert_int_equal(gguf_open(long_path, &g, &e), STATOR_USAGE);
    assert_true(strstr(e.text, "...ppp") == e.text && strstr(e.text, "name too long") != NULL);
}

static void texts_in_errors_are_printable(void **state) {
    (void)state;
    char out[GGUF_SHOWN], long_text[300];
    assert_string_equal(gguf_show((struct gguf_text){"a\n\x1b\xff", 4}, out), "a???");
    memset(long_text, 'x', sizeof long_text);
    gguf_show((struct gguf_text){long_text, sizeof long_text}, out);
    assert_int_equal(strlen(out), GGUF_SHOWN - 1);
    assert_string_equal(out + GGUF_SHOWN - 4, "...");
}

static void every_reference_file_opens(void **state) {
    (void)state;
    TESTING_NEED_SHARED("oracles/models/llama-tied.gguf");
    TESTING_NEED_SHARED("vocab/ggml-vocab-gpt-2.gguf");
    static const char *const files[] = {
        "oracles/models/gemma3.gguf",         "oracles/models/llama-tied.gguf",
        "oracles/models/llama-untied.gguf",   "oracles/models/phi3.gguf",
        "oracles/models/quant-iq3_s.gguf",    "oracles/models/quant-iq4_nl.gguf",
        "oracles/models/quant-iq4_xs.gguf",   "oracles/models/quant-q2_k.gguf",
        "oracles/models/quant-q3_k.gguf",     "oracles/models/quant-q4_0.gguf",
        "oracles/models/quant-q4_k.gguf",     "oracles/models/qwen2.gguf",
        "oracles/models/qwen3.gguf",          "oracles/models/qwen35.gguf",
        "oracles/models/qwen35moe.gguf",      "oracles/models/qwen3moe.gguf",
        "vocab/ggml-vocab-deepseek-llm.gguf", "vocab/ggml-vocab-falcon.gguf",
        "vocab/ggml-vocab-gpt-2.gguf",        "vocab/ggml-vocab-llama-bpe.gguf",
        "vocab/ggml-vocab-llama-spm.gguf",    "vocab/ggml-vocab-phi-3.gguf",
        "vocab/ggml-vocab-qwen2.gguf",        "vocab/ggml-vocab-starcoder.gguf"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct gguf *g = NULL;
        stator_error e = {0};
        const char *path = testing_shared(files[i]);
        assert_non_null(path);
        if (gguf_open(path, &g, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        assert_true(gguf_find(g, "general.architecture", NULL));
        gguf_close(g);
    }
}

int main(void) {
    /* A large allocation for a small file would fail with another code than the tests expect. */
    struct rlimit limit = {.rlim_cur = 512ull << 20, .rlim_max = RLIM_INFINITY};
    if (!SANITIZED && setrlimit(RLIMIT_AS, &limit) != 0 && getrlimit(RLIMIT_AS, &limit) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_texts),
        cmocka_unit_test(a_good_file_reads_back),
        cmocka_unit_test(typed_reads_say_what_is_wrong),
        cmocka_unit_test(nothing_stays_mapped),
        cmocka_unit_test(changed_after_open),
        cmocka_unit_test(endless_directory),
        cmocka_unit_test(truncation_at_every_byte),
        cmocka_unit_test(truncation_of_a_real_model),
        cmocka_unit_test(changed_bytes),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(bad_values),
        cmocka_unit_test(duplicates),
        cmocka_unit_test(bad_tensors),
        cmocka_unit_test(alignments),
        cmocka_unit_test(split_heads),
        cmocka_unit_test(many_names),
        cmocka_unit_test(split_models),
        cmocka_unit_test(paths_that_are_no_files),
        cmocka_unit_test(texts_in_errors_are_printable),
        cmocka_unit_test(every_reference_file_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
