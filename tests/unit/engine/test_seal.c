/* The second promise: between seal and shutdown no engine thread calls the heap or mmap. Runs whole engines
 * under the interposer: 300 tokens and more, several prompts at once, sampling, logits, a cancel. */
#include "engine_harness.h"

#include "interpose.h"

#define MODEL "configs/demo.gguf"

static void run_everything(const char *const *sets) {
    stator *s = harness_start(MODEL, sets);
    int32_t ids[64];
    for (int i = 0; i < 64; i++)
        ids[i] = 300 + 7 * i;
    struct harness_text texts[4];
    memset(texts, 0, sizeof texts);
    texts[0].id = harness_submit(s, ids, 5, 300, 0, 0);
    texts[1].id = harness_submit(s, ids, 64, 100, 0.8f, 1);
    texts[2].id = harness_submit(s, ids + 9, 33, 40, 1.5f, 2);
    texts[3].id = harness_submit(s, ids + 1, 2, 900, 0.7f, 3);
    stator_cancel(s, texts[3].id);
    harness_collect(s, texts, 4);
    assert_int_equal(texts[0].n, 300);
    assert_int_equal(texts[1].n, 100);
    assert_int_equal(texts[2].n, 40);
    assert_int_equal(texts[3].reason, STATOR_REASON_CANCELLED);
    free(harness_logits(s, ids, 64));
    stator_close(s);
}

static void nothing_is_allocated_while_sealed(void **state) {
    (void)state;
    INTERPOSE_NEED();
    static const char *const settings[][6] = {
        {"cpu.threads=2", "memory.sequences=3", "memory.context=1024", NULL},
        {"cpu.threads=1", "memory.sequences=1", "memory.batch=7", "memory.kv_type=f32", NULL},
        {"cpu.threads=3", "memory.sequences=4", "memory.logits_rows=2", "sampling.top_k=0",
         "sampling.repeat_penalty=1.2", NULL},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        interpose_reset(INTERPOSE_ABORT);
        run_everything(settings[i]);
        assert_int_equal(interpose_violations(), 0);
        assert_true(interpose_calls() > 0); /* it was listening */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_allocated_while_sealed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
