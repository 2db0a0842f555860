/* Packing instances as text: a header that names the columns id, lower, upper and size in any order, then a
 * row for each block, which lives in [lower, upper). A column `offset`, as `stator pack` writes it, is
 * ignored; any other is refused (an alignment, say, would be lost silently). Blank lines, blanks around
 * fields, CRLF and a byte order mark are fine; there is no quoting. Ids are texts, printed as they are.
 *
 * No allocation; ids point into the text. */
#ifndef STATOR_PACK_PACK_CSV_H
#define STATOR_PACK_PACK_CSV_H

#include "pack/pack.h"

struct pack_csv_row {
    const char *id;
    size_t id_length;
    uint64_t lower;
    uint64_t upper;
    uint64_t size;
    uint64_t line; /* of the text, from 1 */
};

/* The most rows that a text can have. */
size_t pack_csv_most_rows(const char *text, size_t n);

/* Fills rows[pack_csv_most_rows]. name: the file's, for errors; they are STATOR_USAGE and name line and
 * reason. Whether ids are unique is for pack_csv_check_ids. */
stator_status pack_csv_parse(const char *text, size_t n, const char *name, struct pack_csv_row *rows,
                             size_t *n_rows, stator_error *e);

/* STATOR_USAGE, with both lines, when two rows have the same id. sorted[n]: memory for that. */
stator_status pack_csv_check_ids(const struct pack_csv_row *rows, size_t n, const char *name,
                                 const struct pack_csv_row **sorted, stator_error *e);

/* Blocks of rows. Steps above 2^32 - 1 become their ranks, which keeps all that matters; spare[2 * n] is
 * memory for that. */
void pack_csv_blocks(const struct pack_csv_row *rows, size_t n, struct pack_block *blocks, uint64_t *spare);

#endif
