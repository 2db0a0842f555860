/* Writes the C file that carries the SPIR-V modules in a program (kernels/shared/opencl.h), and beside it the
 * file of their compressed bytes, which the C file includes through the assembler. A module is one zstd
 * frame. embed_modules OUT.c REASON [MODULE.spv...]    REASON: why there are none, "" where there are some */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define LEVEL 16 /* 8.7 MB of 39 in 5 s; level 12 makes 9.7 in 2, level 19 makes 8.6 in 9 */

static void *need(const char *what, void *p) {
    if (p == NULL) {
        perror(what);
        exit(1);
    }
    return p;
}

static void *read_file(const char *path, size_t *bytes) {
    FILE *f = need(path, fopen(path, "rb"));
    long n = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    if (n <= 0 || n % 4 != 0) {
        fprintf(stderr, "embed_modules: %s is not a SPIR-V module (%ld bytes)\n", path, n);
        exit(1);
    }
    rewind(f);
    *bytes = (size_t)n;
    void *data = need(path, malloc(*bytes));
    if (fread(data, 1, *bytes, f) != *bytes) {
        perror(path);
        exit(1);
    }
    fclose(f);
    return data;
}

/* Appends the frame of a module. Returns its bytes. */
static size_t pack(FILE *to, const char *to_path, const void *data, size_t bytes) {
    size_t room = ZSTD_compressBound(bytes);
    void *frame = need("memory", malloc(room));
    size_t n = ZSTD_compress(frame, room, data, bytes, LEVEL);
    if (ZSTD_isError(n)) {
        fprintf(stderr, "embed_modules: %s\n", ZSTD_getErrorName(n));
        exit(1);
    }
    if (fwrite(frame, 1, n, to) != n) {
        perror(to_path);
        exit(1);
    }
    free(frame);
    return n;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: embed_modules OUT.c REASON [MODULE.spv...]\n");
        return 2;
    }
    size_t length = strlen(argv[1]);
    char *path = need("memory", malloc(length + sizeof ".zst"));
    sprintf(path, "%s.zst", argv[1]);
    FILE *c = need(argv[1], fopen(argv[1], "w"));
    FILE *packed = need(path, fopen(path, "wb"));
    fprintf(c, "/* Made by tools/embed_modules.c. */\n#include \"kernels/shared/opencl.h\"\n");
    if (argc > 3)
        fprintf(c,
                "__asm__(\".pushsection .rodata\\n.balign 16\\nopencl_packed:\\n.incbin "
                "\\\"%s\\\"\\n.popsection\\n\");\n"
                "extern const uint8_t opencl_packed[];\n",
                path);
    fprintf(c, "const struct opencl_module opencl_modules[] = {\n");
    size_t at = 0;
    for (int i = 3; i < argc; i++) {
        const char *slash = strrchr(argv[i], '/'), *name = slash != NULL ? slash + 1 : argv[i];
        size_t bytes = 0;
        void *data = read_file(argv[i], &bytes);
        size_t n = pack(packed, path, data, bytes);
        fprintf(c, "    {\"%.*s\", opencl_packed + %zu, %zu, %zu},\n", (int)strcspn(name, "."), name, at, n,
                bytes);
        free(data);
        at += n;
    }
    fprintf(c, "    {0},\n};\nconst uint32_t opencl_n_modules = %d;\nconst char opencl_missing[] = \"%s\";\n",
            argc - 3, argv[2]);
    if (fclose(packed) != 0 || fclose(c) != 0) {
        perror(argv[1]);
        return 1;
    }
    free(path);
    return 0;
}
