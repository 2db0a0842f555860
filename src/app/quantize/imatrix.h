/* Importance matrices, as llama-imatrix writes them: for each column of a matrix how much an error of it
 * counts (the mean square of what it was multiplied with). Its GGUF files and its older binary form.
 *
 * Owner: the caller, until imatrix_free. Read-only after imatrix_read: any thread. */
#ifndef STATOR_APP_IMATRIX_H
#define STATOR_APP_IMATRIX_H

#include "model/gguf.h"

#include <stdbool.h>
#include <stdint.h>

struct imatrix_entry {
    struct gguf_text name; /* of the matrix */
    const float *values;   /* finite, >= 0 */
    uint64_t n;            /* columns, times the experts of a matrix that has some */
};

struct imatrix {
    struct imatrix_entry *entries; /* by name */
    uint64_t n_entries;
    float *values;
    char *names;
    uint64_t bytes;  /* of memory */
    uint64_t chunks; /* of text it was made from; 0: it does not say */
};

/* STATOR_USAGE for a file that is none, with its name; *m is then empty. */
stator_status imatrix_read(const char *path, struct imatrix *m, stator_error *e);
void imatrix_free(struct imatrix *m);
/* NULL: nothing is known of that matrix. */
const struct imatrix_entry *imatrix_find(const struct imatrix *m, struct gguf_text name);

#endif
