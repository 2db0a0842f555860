/* Pictures against what Pillow makes of the same files (tests/data/pictures/make.py), damaged files, and the
 * promise that decoding takes no memory but the caller's. */
#include "interpose.h"
#include "testing.h"

#include "picture/jpeg_memory.h"
#include "picture/picture_inside.h"
#include "picture/picture_resize.h"

static const struct picture_limits plenty = {.side = PICTURE_SIDE_MAX, .pixels = PICTURE_PIXELS_MAX};

struct file {
    uint8_t *data;
    size_t size;
};

static struct file load(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("can't open %s", path);
    fseek(f, 0, SEEK_END);
    struct file r = {.size = (size_t)ftell(f)};
    rewind(f);
    r.data = malloc(r.size);
    assert_non_null(r.data);
    assert_int_equal(fread(r.data, 1, r.size, f), r.size);
    fclose(f);
    return r;
}

/* A file of the corpora: its ending names the format. */
static struct file load_picture(const char *name) {
    char path[256];
    const char *ending = strrchr(name, '.') + 1;
    snprintf(path, sizeof path, "tests/fuzz/corpus_picture_%s/%s",
             strcmp(ending, "jpg") == 0 ? "jpeg" : ending, name);
    return load(path);
}

static struct file load_reference(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "tests/data/pictures/%s.rgb", name);
    return load(path);
}

static void *aligned(uint64_t bytes) {
    void *p = aligned_alloc(64, bytes / 64 * 64 + 64);
    assert_non_null(p);
    return p;
}

/* Looks and decodes in exactly the memory that was announced. The result's rows are walked into *rgb (owned
 * by the caller) if that is wanted. */
static stator_status decode(struct file f, struct picture_head *head, uint8_t **rgb, stator_error *e) {
    stator_status s = picture_look(f.data, f.size, &plenty, head, e);
    if (s != STATOR_OK)
        return s;
    uint8_t *pixels = malloc(head->pixel_bytes), *scratch = aligned(head->scratch_bytes);
    assert_non_null(pixels);
    struct picture p;
    const uint64_t calls = interpose_calls();
    s = picture_decode(f.data, f.size, head, pixels, scratch, &p, e);
    if (INTERPOSE_AVAILABLE)
        assert_int_equal(interpose_calls(), calls);
    if (s == STATOR_OK && rgb != NULL) {
        assert_true(p.width == head->width && p.height == head->height);
        *rgb = malloc(3 * (size_t)p.width * p.height);
        assert_non_null(*rgb);
        for (uint32_t y = 0; y < p.height; y++)
            for (uint32_t x = 0; x < p.width; x++)
                memcpy(*rgb + 3 * ((size_t)y * p.width + x), p.origin + x * p.step_x + y * p.step_y, 3);
    }
    free(pixels);
    free(scratch);
    return s;
}

static void test_pixels_are_those_of_pillow(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum picture_kind kind;
        uint32_t width, height;
    } rows[] = {
        {"full.jpg", PICTURE_JPEG, 19, 13},      {"half.jpg", PICTURE_JPEG, 33, 17},
        {"grey.jpg", PICTURE_JPEG, 9, 10},       {"progressive.jpg", PICTURE_JPEG, 35, 18},
        {"cmyk.jpg", PICTURE_JPEG, 17, 9},       {"one.jpg", PICTURE_JPEG, 1, 1},
        {"rgb.png", PICTURE_PNG, 13, 7},         {"rgba.png", PICTURE_PNG, 11, 9},
        {"grey_alpha.png", PICTURE_PNG, 8, 6},   {"bits.png", PICTURE_PNG, 13, 5},
        {"palette.png", PICTURE_PNG, 12, 8},     {"palette_alpha.png", PICTURE_PNG, 12, 8},
        {"one.png", PICTURE_PNG, 1, 1},          {"deep.png", PICTURE_PNG, 6, 4},
        {"deep_grey.png", PICTURE_PNG, 3, 5},    {"woven.png", PICTURE_PNG, 11, 13},
        {"lossy.webp", PICTURE_WEBP, 35, 19},    {"lossless.webp", PICTURE_WEBP, 21, 14},
        {"alpha.webp", PICTURE_WEBP, 23, 18},    {"lossless_alpha.webp", PICTURE_WEBP, 9, 8},
        {"animated.webp", PICTURE_WEBP, 16, 12}, {"one.webp", PICTURE_WEBP, 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct file f = load_picture(rows[i].name), want = load_reference(rows[i].name);
        struct picture_head head;
        stator_error e = {0};
        uint8_t *rgb = NULL;
        if (decode(f, &head, &rgb, &e) != STATOR_OK)
            fail_msg("%s: %s", rows[i].name, e.text);
        assert_int_equal(head.kind, rows[i].kind);
        assert_true(head.width == rows[i].width && head.height == rows[i].height && head.orientation == 1);
        assert_int_equal(want.size, 3 * head.width * head.height);
        for (size_t k = 0; k < want.size; k++)
            if (rgb[k] != want.data[k])
                fail_msg("%s: byte %zu is %u, Pillow has %u", rows[i].name, k, rgb[k], want.data[k]);
        free(rgb);
        free(f.data);
        free(want.data);
    }
}

/* The value of EXIF's orientation in a file of make.py, in either order of bytes. */
static uint8_t *find_orientation(struct file f) {
    for (size_t i = 0; i + 12 <= f.size; i++) {
        if (memcmp(f.data + i, "\x01\x12\x00\x03", 4) == 0)
            return f.data + i + 9;
        if (memcmp(f.data + i, "\x12\x01\x03\x00", 4) == 0)
            return f.data + i + 8;
    }
    fail_msg("no orientation in the file");
    return NULL;
}

static void test_exif_turns(void **state) {
    (void)state;
    static const char *const names[] = {"turned.jpg", "turned.png", "turned.webp"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct file f = load_picture(names[i]), want = load_reference(names[i]);
        uint8_t *value = find_orientation(f);
        const size_t each = want.size / 8;
        for (uint8_t o = 0; o <= 9; o++) { /* 0 and 9 mean nothing: upright */
            struct picture_head head;
            stator_error e = {0};
            uint8_t *rgb = NULL;
            *value = o;
            assert_int_equal(decode(f, &head, &rgb, &e), STATOR_OK);
            const uint32_t used = o >= 1 && o <= 8 ? o : 1;
            assert_int_equal(head.orientation, used);
            assert_int_equal(each, 3 * head.width * head.height);
            assert_int_equal(head.width < head.height, used >= 5);
            if (memcmp(rgb, want.data + (used - 1) * each, each) != 0)
                fail_msg("%s: orientation %u is not Pillow's", names[i], used);
            free(rgb);
        }
        free(f.data);
        free(want.data);
    }
}

static void test_sizes_are_those_of_pillow(void **state) {
    (void)state;
    static const uint32_t sizes[][2] = {{11, 50}, {64, 9}, {37, 10}, {50, 29}, {1, 1}, {38, 30}, {37, 29}};
    static const char *const names[] = {[PICTURE_BILINEAR] = "bilinear", [PICTURE_BICUBIC] = "bicubic"};
    struct file from = load_reference("resize_from");
    const struct picture p = {.origin = from.data, .step_x = 3, .step_y = 3 * 37, .width = 37, .height = 29};
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const enum picture_filter filter = i % 2 == 0 ? PICTURE_BILINEAR : PICTURE_BICUBIC;
        const uint32_t w = sizes[i / 2][0], h = sizes[i / 2][1];
        char name[64] = "resize_from"; /* the same size: nothing changes */
        if (w != p.width || h != p.height)
            snprintf(name, sizeof name, "resize_%s_%ux%u", names[filter], w, h);
        struct file want = load_reference(name);
        const uint64_t bytes = picture_resize_bytes(p.width, p.height, w, h, filter);
        uint8_t *scratch = aligned(bytes), *rgb = malloc(3 * (size_t)w * h);
        assert_non_null(rgb);
        picture_resize(&p, w, h, filter, rgb, scratch, bytes);
        assert_int_equal(want.size, 3 * w * h);
        for (size_t k = 0; k < want.size; k++)
            if (rgb[k] != want.data[k])
                fail_msg("%s: byte %zu is %u, Pillow has %u", name, k, rgb[k], want.data[k]);
        free(rgb);
        free(scratch);
        free(want.data);
    }
    free(from.data);
}

static void expect_refused(struct file f, const char *what) {
    struct picture_head head;
    stator_error e = {0};
    assert_int_equal(decode(f, &head, NULL, &e), STATOR_USAGE);
    if (strstr(e.text, what) == NULL)
        fail_msg("expected \"%s\" in: %s", what, e.text);
}

static void test_what_is_no_picture(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *what;
    } rows[] = {
        {"", 0, "0 bytes begin as no JPEG"},
        {"hello", 5, "begin as no JPEG, PNG or WebP"},
        {"GIF89a\1\0\1\0", 10, "is a GIF file"},
        {"\0\0\0\x1C"
         "ftypavif",
         12, "is an AVIF or HEIC file"},
        {"\xFF\xD8\xFF\xD9", 4, "JPEG picture: the data ends in its headers"},
        {"\xFF\xD8\xFF\xDA\0\3\1\0", 8, "its data comes before its frame header"},
        {"\xFF\xD8\xFF\xC0\0\x0B\x0C\0\1\0\1\1\1\x11\0\0\0", 17, "12 bits per sample"},
        {"\xFF\xD8\xFF\xC0\0\x0B\x08\0\1\0\1\1\1\x51\0\0\0", 17, "sampling factors 5x1"},
        {"\xFF\xD8\xFF\xC0\0\x0E\x08\0\1\0\1\2\1\x11\0\2\x11\0\0\0", 20, "has 2 components"},
        {"\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\0\0\0\0\0\1\x08\2\0\0\0\0\0\0\0", 33, "its size is 0x1"},
        {"\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\1\0\0\0\0\0\1\x08\2\0\0\0\0\0\0\0", 33,
         "65536x1 pixels: at most 65535"},
        {"\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\xFF\xFF\0\0\xFF\xFF\x08\2\0\0\0\0\0\0\0", 33,
         "268435456 in all"},
        {"RIFF\4\0\0\0WEBP", 12, "WebP picture: its headers are wrong"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct file f = {.data = malloc(rows[i].n + 1), .size = rows[i].n};
        assert_non_null(f.data);
        memcpy(f.data, rows[i].bytes, rows[i].n);
        expect_refused(f, rows[i].what);
        free(f.data);
    }
}

static void test_limits(void **state) {
    (void)state;
    struct file f = load_picture("half.jpg");
    struct picture_head head;
    stator_error e = {0};
    assert_int_equal(picture_look(f.data, f.size, &(struct picture_limits){33, 33 * 17}, &head, &e),
                     STATOR_OK);
    assert_int_equal(picture_look(f.data, f.size, &(struct picture_limits){32, 9999}, &head, &e),
                     STATOR_USAGE);
    assert_non_null(strstr(e.text, "JPEG picture of 33x17 pixels: at most 32 a side"));
    assert_int_equal(picture_look(f.data, f.size, &(struct picture_limits){33, 560}, &head, &e),
                     STATOR_USAGE);
    assert_non_null(strstr(e.text, "560 in all"));
    free(f.data);
}

static const char *const every[] = {"full.jpg",      "half.jpg",   "progressive.jpg",   "cmyk.jpg",
                                    "turned.jpg",    "rgb.png",    "palette_alpha.png", "woven.png",
                                    "deep.png",      "lossy.webp", "lossless.webp",     "alpha.webp",
                                    "animated.webp", "turned.webp"};

/* A copy of its own size for each length, so that a sanitizer sees every byte that is read behind the end. */
static void test_cut_files(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof every / sizeof every[0]; i++) {
        struct file f = load_picture(every[i]);
        for (size_t n = 0; n < f.size; n++) {
            struct file cut = {.data = malloc(n + 1), .size = n};
            assert_non_null(cut.data);
            memcpy(cut.data, f.data, n);
            struct picture_head head;
            stator_error e = {0};
            stator_status s = decode(cut, &head, NULL, &e);
            assert_true(s == STATOR_OK ? n > f.size / 2 : s == STATOR_USAGE && e.text[0] != '\0');
            free(cut.data);
        }
        free(f.data);
    }
}

static void test_the_data_ends_early(void **state) {
    (void)state;
    static const char *const names[] = {"half.jpg", "progressive.jpg", "rgba.png", "lossy.webp",
                                        "lossless.webp"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct file f = load_picture(names[i]);
        f.size -= f.size / 8;
        expect_refused(f, "the data ends before the picture does");
        free(f.data);
    }
}

/* One to three wrong bytes: a picture or an error, within the memory. */
static void test_damaged_files(void **state) {
    (void)state;
    uint64_t random = testing_seed("damaged files");
    for (size_t i = 0; i < sizeof every / sizeof every[0]; i++) {
        struct file f = load_picture(every[i]);
        uint8_t *whole = malloc(f.size);
        assert_non_null(whole);
        memcpy(whole, f.data, f.size);
        for (int turn = 0; turn < 400; turn++) {
            memcpy(f.data, whole, f.size);
            for (uint64_t k = testing_below(&random, 3) + 1; k > 0; k--)
                f.data[testing_below(&random, f.size)] = (uint8_t)testing_random(&random);
            struct picture_head head;
            stator_error e = {0};
            if (picture_look(f.data, f.size, &(struct picture_limits){2000, 100000}, &head, &e) == STATOR_OK)
                decode(f, &head, NULL, &e);
        }
        free(whole);
        free(f.data);
    }
}

/* libjpeg as a writer, in memory of the test. kind: 0 baseline, 1 progressive, 2 a scan per component, 3 a
 * scan per coefficient and bit. */
static struct file write_jpeg(uint32_t width, uint32_t height, uint32_t components, const int sampling[2],
                              int kind, struct picture_arena *arena) {
    struct jpeg_compress_struct c = {0};
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long n = 0;
    jpeg_memory_use((j_common_ptr)&c, arena);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &n);
    c.image_width = width;
    c.image_height = height;
    c.input_components = (int)components;
    c.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&c);
    c.comp_info[0].h_samp_factor = sampling[0];
    c.comp_info[0].v_samp_factor = sampling[1];
    if (kind == 1)
        jpeg_simple_progression(&c);
    jpeg_scan_info apart[4];
    for (int i = 0; i < 4; i++) /* several scans without being progressive */
        apart[i] = (jpeg_scan_info){.comps_in_scan = 1, .component_index = {i}, .Se = 63};
    if (kind == 2) {
        c.scan_info = apart;
        c.num_scans = (int)components;
    }
    jpeg_scan_info single[1 + 2 * 63] = {{.comps_in_scan = 1}};
    for (int i = 0; i < 2 * 63; i++) /* each coefficient and each last bit */
        single[1 + i] = (jpeg_scan_info){
            .comps_in_scan = 1, .Ss = i % 63 + 1, .Se = i % 63 + 1, .Ah = i / 63, .Al = 1 - i / 63};
    if (kind == 3) {
        c.scan_info = single;
        c.num_scans = sizeof single / sizeof single[0];
    }
    jpeg_start_compress(&c, TRUE);
    uint8_t *row = malloc((size_t)width * components);
    assert_non_null(row);
    for (uint32_t y = 0; y < height; y++) {
        for (size_t i = 0; i < (size_t)width * components; i++)
            row[i] = (uint8_t)(i * 7 + y * y);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    free(row);
    return (struct file){.data = out, .size = n};
}

/* Every shape of JPEG finds the announced memory enough. */
static void test_jpeg_scratch_is_enough(void **state) {
    (void)state;
    static const int samplings[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {3, 2}, {1, 4}};
    static const uint32_t sizes[][2] = {{1, 1},   {1, 97},     {131, 1},   {64, 64},
                                        {65, 33}, {1000, 700}, {40, 3000}, {9000, 20}};
    static const uint32_t components[] = {1, 3, 4};
    const uint64_t bytes = 64 << 20;
    struct picture_arena arena = {.base = aligned(bytes), .capacity = bytes};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t m = 0; m < sizeof samplings / sizeof samplings[0]; m++)
            for (uint32_t i = 0; i < 9; i++) {
                arena.used = 0;
                struct file f =
                    write_jpeg(sizes[s][0], sizes[s][1], components[i % 3], samplings[m], (int)i / 3, &arena);
                struct picture_head head;
                stator_error e = {0};
                if (decode(f, &head, NULL, &e) != STATOR_OK)
                    fail_msg("%ux%u, %u components, %dx%d, kind %u: %s", sizes[s][0], sizes[s][1],
                             components[i % 3], samplings[m][0], samplings[m][1], i / 3, e.text);
                free(f.data);
            }
    free(arena.base);
}

/* Each scan walks the whole picture, so many of them would cost much time for few bytes. */
static void test_too_many_scans(void **state) {
    (void)state;
    const uint64_t bytes = 4 << 20;
    struct picture_arena arena = {.base = aligned(bytes), .capacity = bytes};
    struct file f = write_jpeg(64, 64, 1, (const int[]){1, 1}, 3, &arena);
    expect_refused(f, "it has more than 64 scans");
    free(f.data);
    free(arena.base);
}

/* Less memory than announced is an error, too. */
static void test_no_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof every / sizeof every[0]; i++) {
        struct file f = load_picture(every[i]);
        struct picture_head head;
        struct picture p;
        stator_error e = {0};
        assert_int_equal(picture_look(f.data, f.size, &plenty, &head, &e), STATOR_OK);
        uint8_t *pixels = malloc(head.pixel_bytes), *scratch = aligned(head.scratch_bytes);
        const uint64_t step = head.scratch_bytes / 60 + 1;
        bool failed = false;
        for (uint64_t n = 0; n < head.scratch_bytes; n += step) {
            struct picture_head less = head;
            less.scratch_bytes = n;
            stator_status s = picture_decode(f.data, f.size, &less, pixels, scratch, &p, &e);
            assert_true(s == STATOR_OK || s == STATOR_DOES_NOT_FIT);
            failed = failed || s != STATOR_OK;
        }
        assert_true(failed);
        free(pixels);
        free(scratch);
        free(f.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pixels_are_those_of_pillow),
        cmocka_unit_test(test_exif_turns),
        cmocka_unit_test(test_sizes_are_those_of_pillow),
        cmocka_unit_test(test_what_is_no_picture),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_cut_files),
        cmocka_unit_test(test_the_data_ends_early),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_jpeg_scratch_is_enough),
        cmocka_unit_test(test_too_many_scans),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
