/* Runs a fuzz target over files: the corpus is part of `make test`, without libFuzzer. Fails if the target
 * accepted no input of one of its kinds. */
#include "fuzz.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KINDS 32

static bool accepted[KINDS];

void fuzz_note(const char *kind) {
    for (size_t i = 0; i < KINDS && fuzz_kinds[i] != NULL; i++)
        if (strcmp(fuzz_kinds[i], kind) == 0) {
            accepted[i] = true;
            return;
        }
    fprintf(stderr, "%s is not among the target's kinds\n", kind);
    abort();
}

static bool run(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        fprintf(stderr, "can't open %s\n", path);
        return false;
    }
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    uint8_t *data = malloc(n > 0 ? (size_t)n : 1);
    size_t got = data != NULL ? fread(data, 1, (size_t)n, f) : 0;
    fclose(f);
    if (got == (size_t)n)
        LLVMFuzzerTestOneInput(data, got);
    free(data);
    return got == (size_t)n;
}

int main(int argc, char **argv) {
    int code = 0;
    for (int i = 1; i < argc; i++)
        if (!run(argv[i]))
            return 1;
    for (size_t i = 0; i < KINDS && fuzz_kinds[i] != NULL; i++)
        if (!accepted[i]) {
            fprintf(stderr, "no input of the kind \"%s\" was accepted: the corpus proves nothing about it\n",
                    fuzz_kinds[i]);
            code = 1;
        }
    printf("%d inputs replayed\n", argc - 1);
    return code;
}
