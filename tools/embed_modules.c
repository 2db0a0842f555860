/* Writes the C file that carries the SPIR-V modules in a program (kernels/shared/opencl.h), and beside it the
 * file of their compressed bytes, which the C file includes through the assembler. A module is one zstd
 * frame. Modules of a family (the name up to its first '_') are alike, so a frame may have the bytes of an
 * earlier module of its family as its dictionary, its base.
 *
 *     embed_modules OUT.c REASON [MODULE.spv...]    sorted; REASON: why there are none, "" where there are
 * some */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define LEVEL 12 /* 8.1 MB of 50 in 5 s; level 16 makes 7.5 in 20 */
/* Modules of a family that are tried as a base: the last ones that have none themselves. */
#define TRIED 2

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

struct module {
    const char *name;
    int length; /* of the name */
    void *data;
    size_t bytes;
    int base; /* number of the module that is its frame's dictionary; -1: none */
};

static struct module module_of(const char *path) {
    const char *slash = strrchr(path, '/');
    struct module m = {slash != NULL ? slash + 1 : path, 0, NULL, 0, -1};
    m.length = (int)strcspn(m.name, ".");
    m.data = read_file(path, &m.bytes);
    return m;
}

static int same_family(const struct module *a, const struct module *b) {
    size_t n = strcspn(a->name, "_");
    return n == strcspn(b->name, "_") && strncmp(a->name, b->name, n) == 0;
}

struct frame {
    void *data;
    size_t bytes;
};

static struct frame frame_of(ZSTD_CCtx *context, const struct module *m, const struct module *base) {
    size_t room = ZSTD_compressBound(m->bytes);
    struct frame f = {need("memory", malloc(room)), 0};
    f.bytes =
        ZSTD_compress_usingDict(context, f.data, room, m->data, m->bytes, base != NULL ? base->data : NULL,
                                base != NULL ? base->bytes : 0, LEVEL);
    if (ZSTD_isError(f.bytes)) {
        fprintf(stderr, "embed_modules: %s\n", ZSTD_getErrorName(f.bytes));
        exit(1);
    }
    return f;
}

/* The smallest frame of module i; its base, if that saves at least a quarter. */
static struct frame pack(ZSTD_CCtx *context, struct module *modules, int i) {
    struct frame best = frame_of(context, &modules[i], NULL);
    const size_t enough = best.bytes / 4 * 3;
    for (int b = i - 1, tried = 0; b >= 0 && tried < TRIED && same_family(&modules[b], &modules[i]); b--) {
        if (modules[b].base >= 0)
            continue;
        tried++;
        struct frame f = frame_of(context, &modules[i], &modules[b]);
        const int better = f.bytes < best.bytes && f.bytes < enough;
        free(better ? best.data : f.data);
        if (better) {
            best = f;
            modules[i].base = b;
        }
    }
    return best;
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
    ZSTD_CCtx *context = need("memory", ZSTD_createCCtx());
    const int count = argc - 3;
    struct module *modules = need("memory", calloc((size_t)count + 1, sizeof *modules));
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        struct module *m = &modules[i];
        *m = module_of(argv[3 + i]);
        struct frame f = pack(context, modules, i);
        if (fwrite(f.data, 1, f.bytes, packed) != f.bytes) {
            perror(path);
            return 1;
        }
        fprintf(c, "    {\"%.*s\", opencl_packed + %zu, %zu, %zu, ", m->length, m->name, at, f.bytes,
                m->bytes);
        fprintf(c, m->base >= 0 ? "&opencl_modules[%d]},\n" : "0},\n", m->base);
        free(f.data);
        at += f.bytes;
    }
    for (int i = 0; i < count; i++)
        free(modules[i].data);
    free(modules);
    ZSTD_freeCCtx(context);
    fprintf(c, "    {0},\n};\nconst uint32_t opencl_n_modules = %d;\nconst char opencl_missing[] = \"%s\";\n",
            argc - 3, argv[2]);
    if (fclose(packed) != 0 || fclose(c) != 0) {
        perror(argv[1]);
        return 1;
    }
    free(path);
    return 0;
}
