/* Fuzzes `stator pack`'s reader and, on what is small enough, the packer: an accepted text gives blocks with
 * sane numbers, and a packing without overlaps. */
#include "fuzz.h"

#include "base/check.h"
#include "pack/pack_csv.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"blocks", NULL};

static bool lives(const struct pack_block *b) {
    return b->bytes > 0 && b->first < b->end;
}

static bool overlap(const struct pack_block *x, const struct pack_block *y) {
    return lives(x) && lives(y) && x->first < y->end && y->first < x->end &&
           x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

static void pack(struct pack_block *b, size_t n) {
    uint64_t bytes = pack_work_bytes(n);
    void *work = aligned_alloc(64, bytes);
    struct pack_options o = {.steps = 200000};
    struct pack_result r;
    stator_error e;
    if (pack_solve_with(b, n, &o, work, bytes, &r, &e) == STATOR_OK) {
        CHECK(r.lower_bound <= r.proven && r.proven <= r.peak);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < i; k++)
                CHECK(!overlap(&b[i], &b[k]));
        for (size_t i = 0; i < n; i++)
            CHECK(!lives(&b[i]) || b[i].offset + b[i].bytes <= r.peak);
    }
    free(work);
}

static bool same_id(const struct pack_csv_row *a, const struct pack_csv_row *b) {
    return a->id_length == b->id_length && memcmp(a->id, b->id, a->id_length) == 0;
}

/* Says "twice" exactly if an id is there twice. */
static void check_ids(const struct pack_csv_row *rows, size_t n) {
    const struct pack_csv_row **sorted = calloc(n + 1, sizeof *sorted);
    stator_error e = {0};
    bool unique = pack_csv_check_ids(rows, n, "fuzz", sorted, &e) == STATOR_OK, twice = false;
    for (size_t i = 0; i < n && n <= 1000; i++)
        for (size_t k = 0; k < i; k++)
            twice = twice || same_id(&rows[i], &rows[k]);
    CHECK(n > 1000 || unique == !twice);
    free((void *)sorted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    size_t most = pack_csv_most_rows(text, size), n = 0;
    struct pack_csv_row *rows = calloc(most, sizeof *rows);
    struct pack_block *blocks = calloc(most, sizeof *blocks);
    uint64_t *spare = calloc(most, 2 * sizeof *spare);
    stator_error e = {0};
    if (pack_csv_parse(text, size, "fuzz", rows, &n, &e) == STATOR_OK) {
        CHECK(n < most);
        if (n > 1)
            fuzz_accepted("blocks");
        check_ids(rows, n);
        pack_csv_blocks(rows, n, blocks, spare);
        for (size_t i = 0; i < n; i++) {
            CHECK(rows[i].lower <= rows[i].upper && blocks[i].first <= blocks[i].end);
            CHECK((rows[i].lower < rows[i].upper) == (blocks[i].first < blocks[i].end));
            CHECK(rows[i].id >= text && rows[i].id + rows[i].id_length <= text + size);
        }
        if (n <= 60)
            pack(blocks, n);
    } else {
        CHECK(e.code == STATOR_USAGE && strncmp(e.text, "fuzz:", 5) == 0);
    }
    free(rows);
    free(blocks);
    free(spare);
    return 0;
}
