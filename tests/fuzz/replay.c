/* Runs a fuzz target over files: the corpus is part of `make test`, without libFuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (f == NULL) {
            fprintf(stderr, "can't open %s\n", argv[i]);
            return 1;
        }
        fseek(f, 0, SEEK_END);
        long n = ftell(f);
        rewind(f);
        uint8_t *data = malloc(n > 0 ? (size_t)n : 1);
        size_t got = data != NULL ? fread(data, 1, (size_t)n, f) : 0;
        fclose(f);
        if (got != (size_t)n)
            return 1;
        LLVMFuzzerTestOneInput(data, got);
        free(data);
    }
    printf("%d inputs replayed\n", argc - 1);
    return 0;
}
