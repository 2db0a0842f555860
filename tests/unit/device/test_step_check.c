/* device/step_check.c: a good descriptor has no flaw, and each flaw is found. */
#include "device/device.h"
#include "kernels/shared/kv_layout.h"
#include "testing.h"

#include <string.h>

enum { BATCH = 8, ROWS = 3, SEQUENCES = 3, STRIDE = 2, BLOCKS = SEQUENCES * STRIDE };

struct descriptor {
    struct step_header header;
    int32_t tokens[BATCH];
    struct step_chunk chunks[SEQUENCES];
    uint32_t rows[ROWS];
    struct step_fill fill[BLOCKS];
    uint32_t tables[SEQUENCES * STRIDE];
};

static struct graph graph;
static struct device_model model;

/* Two sequences: three tokens at the end of one's first block and behind it, two of another. */
static struct descriptor good(void) {
    graph = (struct graph){.want = {.batch = BATCH, .logits_rows = ROWS}, .n_caches = 1};
    graph.caches[0] = (struct graph_cache){.kind = GRAPH_PAGED, .units = 1};
    struct descriptor d = {
        .header = {.run_body = 1, .n_tokens = 5, .n_chunks = 2, .n_rows = 2, .n_caches = 1}};
    struct step_header *h = &d.header;
    h->at_tokens = offsetof(struct descriptor, tokens);
    h->at_chunks = offsetof(struct descriptor, chunks);
    h->at_rows = offsetof(struct descriptor, rows);
    h->at_rope = sizeof d;
    h->cache[0] = (struct step_cache){.n_fill = 2,
                                      .table_stride = STRIDE,
                                      .at_fill = offsetof(struct descriptor, fill),
                                      .at_tables = offsetof(struct descriptor, tables)};
    model = (struct device_model){.graph = &graph, .sequences = SEQUENCES, .step = *h};
    model.caches[0] = (struct device_cache){.n_blocks = BLOCKS, .per_sequence = STRIDE};
    d.chunks[0] = (struct step_chunk){.slot = 2, .first = 0, .n = 3, .position = KV_LAYOUT_BLOCK - 1};
    d.chunks[1] = (struct step_chunk){.slot = 0, .first = 3, .n = 2};
    d.rows[0] = 2;
    d.rows[1] = 4;
    d.fill[0] = (struct step_fill){5, STEP_ZEROS};
    d.fill[1] = (struct step_fill){0, 4};
    d.tables[2 * STRIDE] = 5;
    d.tables[2 * STRIDE + 1] = 1;
    d.tables[0] = 3;
    d.tables[1] = BLOCKS; /* of positions that the step has not: it may be anything */
    return d;
}

static void expect(const struct descriptor *d, const char *step, const char *tables) {
    const char *flaw = device_step_flaw(&model, d);
    if (step != NULL)
        assert_string_equal(flaw, step);
    else
        assert_null(flaw);
    if (step != NULL)
        return;
    flaw = device_tables_flaw(&model, d);
    if (tables != NULL)
        assert_string_equal(flaw, tables);
    else
        assert_null(flaw);
}

static void a_good_one_has_none(void **state) {
    (void)state;
    struct descriptor d = good();
    expect(&d, NULL, NULL);
    d.header.run_body = 0;
    d.header.n_rows = 0;
    expect(&d, NULL, NULL);
    d = good();
    graph.caches[0].kind = GRAPH_STATE; /* one block, wherever the sequence is */
    d.chunks[0].position = 100000;
    d.tables[2 * STRIDE + 1] = BLOCKS;
    expect(&d, NULL, NULL);
}

#define FLAW(change, says)                                                                                   \
    do {                                                                                                     \
        struct descriptor d = good();                                                                        \
        change;                                                                                              \
        expect(&d, says, NULL);                                                                              \
    } while (0)

static void each_flaw_of_a_step_is_found(void **state) {
    (void)state;
    FLAW(d.header.n_tokens = 0, "tokens are not 1 to batch");
    FLAW(d.header.n_tokens = BATCH + 1, "tokens are not 1 to batch");
    FLAW(d.header.n_rows = ROWS + 1, "more rows of logits than planned");
    FLAW(d.header.n_chunks = 0, "chunks are not 1 to sequences, each with a token");
    FLAW(d.header.n_chunks = SEQUENCES + 1, "chunks are not 1 to sequences, each with a token");
    FLAW(d.header.n_caches = 0, "caches or angles are not the graph's");
    FLAW(d.header.rope_stride = 2, "caches or angles are not the graph's");
    FLAW(d.header.at_rows += 4, "arrays are not where they were planned");
    FLAW(d.header.cache[0].table_stride = 1, "a cache's tables are not where they were planned");
    FLAW(d.header.cache[0].n_fill = BLOCKS + 1, "more blocks to set than there are");
    FLAW(d.chunks[1].slot = SEQUENCES, "a chunk of no sequence");
    FLAW(d.chunks[1].first = 2, "chunks do not follow one another");
    FLAW(d.chunks[0].n = 0, "chunks do not follow one another");
    FLAW(d.chunks[1].n = 3, "chunks do not follow one another");
    FLAW(d.chunks[1].n = UINT32_MAX, "chunks do not follow one another");
    FLAW(d.chunks[1].n = 1, "tokens of no chunk");
    FLAW(d.rows[1] = 5, "logits of no token are wanted");
}

#define TABLE_FLAW(change, says)                                                                             \
    do {                                                                                                     \
        struct descriptor d = good();                                                                        \
        change;                                                                                              \
        expect(&d, NULL, says);                                                                              \
    } while (0)

static void each_flaw_of_its_tables_is_found(void **state) {
    (void)state;
    TABLE_FLAW(d.chunks[1].slot = 2, "two chunks of one sequence");
    TABLE_FLAW(d.fill[1].block = BLOCKS, "a block to set, or where from, is none of the cache");
    TABLE_FLAW(d.fill[1].from = BLOCKS, "a block to set, or where from, is none of the cache");
    TABLE_FLAW(d.fill[1].block = 5, "a block is set twice, or set and copied");
    TABLE_FLAW(d.fill[1].from = 5, "a block is set twice, or set and copied");
    TABLE_FLAW(d.fill[1].from = 0, "a block is set twice, or set and copied");
    TABLE_FLAW(d.tables[2 * STRIDE + 1] = BLOCKS, "a block of a chunk is none of the cache");
    TABLE_FLAW(d.chunks[1].position = STRIDE * KV_LAYOUT_BLOCK - 1,
               "a chunk lies behind the end of its block table");
    TABLE_FLAW(d.chunks[1].position = UINT32_MAX, "a chunk lies behind the end of its block table");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_good_one_has_none),
                                       cmocka_unit_test(each_flaw_of_a_step_is_found),
                                       cmocka_unit_test(each_flaw_of_its_tables_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
