/* What the public calls make of arguments that are not there, of structs of older and newer headers, and of
 * lengths that no text has. */
#include "engine_harness.h"
#include "stator_bench.h"

#define DEMO "configs/demo.gguf"

static const char *const small[] = {"memory.context=128", "memory.batch=32", "cpu.threads=1", NULL};

static stator_error e;

/* The call is refused with a text that begins with its own name and says this. */
static void check(stator_status st, const char *call, const char *part, int line) {
    char whole[128];
    snprintf(whole, sizeof whole, "%s: %s", call, part);
    if (st != STATOR_USAGE || e.code != STATOR_USAGE || strncmp(e.text, whole, strlen(whole)) != 0)
        fail_msg("line %d: status %d, \"%s\", not \"%s\"", line, (int)st, e.text, whole);
    memset(&e, 0, sizeof e);
}
#define REFUSED(call, part, arguments) check(call arguments, #call, part, __LINE__)

static void missing(void **state) {
    (void)state;
    stator *s = harness_start(DEMO, small);
    stator *other = NULL;
    stator_options o = {.size = sizeof o, .config = DEMO};
    const int32_t ids[] = {1, 2, 3};
    stator_request q = {.size = sizeof q, .tokens = ids, .n_tokens = 3, .max_new = 1};
    stator_bench b = {.size = sizeof b};
    stator_event ev = {.size = sizeof ev};
    stator_info info = {.size = sizeof info};
    stator_decoder d = {.size = sizeof d};
    stator_memory_row row = {.size = sizeof row};
    stator_audit audit = {.size = sizeof audit};
    stator_device_audit device = {.size = sizeof device};
    stator_stats stats = {.size = sizeof stats};
    stator_request_stats request = {.size = sizeof request};
    stator_chat_template chat = {.size = sizeof chat};
    stator_infill_tokens infill = {.size = sizeof infill};
    uint64_t id = 0;
    size_t n = 0;
    int have = 0;
    int32_t out_ids[8];
    char text[64];
    REFUSED(stator_open, "options is NULL", (NULL, &other, &e));
    REFUSED(stator_open, "out is NULL", (&o, NULL, &e));
    o.config = NULL;
    REFUSED(stator_open, "options.config is NULL", (&o, &other, &e));
    o.config = DEMO;
    o.n_set = 1;
    REFUSED(stator_open, "options.set is NULL", (&o, &other, &e));
    o.set = (const char *const[]){NULL};
    REFUSED(stator_open, "options.set[] is NULL", (&o, &other, &e));
    o.n_set = 0;
    o.n_devices = 1;
    REFUSED(stator_open, "options.devices is NULL", (&o, &other, &e));
    assert_null(other);
    REFUSED(stator_plan, "s is NULL", (NULL, &e));
    REFUSED(stator_prepare, "s is NULL", (NULL, &e));
    REFUSED(stator_start, "s is NULL", (NULL, &e));
    REFUSED(stator_stop, "s is NULL", (NULL, &e));
    REFUSED(stator_get_info, "s is NULL", (NULL, &info, &e));
    REFUSED(stator_get_info, "info is NULL", (s, NULL, &e));
    REFUSED(stator_submit, "s is NULL", (NULL, &q, &id, &e));
    REFUSED(stator_submit, "request is NULL", (s, NULL, &id, &e));
    REFUSED(stator_submit, "id is NULL", (s, &q, NULL, &e));
    REFUSED(stator_bench_submit, "s is NULL", (NULL, &q, &b, &id, &e));
    REFUSED(stator_bench_submit, "request is NULL", (s, NULL, &b, &id, &e));
    REFUSED(stator_bench_submit, "bench is NULL", (s, &q, NULL, &id, &e));
    REFUSED(stator_bench_submit, "id is NULL", (s, &q, &b, NULL, &e));
    REFUSED(stator_check, "s is NULL", (NULL, &q, &e));
    REFUSED(stator_check, "request is NULL", (s, NULL, &e));
    q.tokens = NULL;
    REFUSED(stator_submit, "request.tokens is NULL", (s, &q, &id, &e));
    REFUSED(stator_poll, "s is NULL", (NULL, 0, &ev, &have, &e));
    REFUSED(stator_poll, "event is NULL", (s, 0, NULL, &have, &e));
    REFUSED(stator_poll, "have is NULL", (s, 0, &ev, NULL, &e));
    REFUSED(stator_tokenize, "s is NULL", (NULL, "a", 1, 1, 1, out_ids, 8, &n, &e));
    REFUSED(stator_tokenize, "text is NULL", (s, NULL, 1, 1, 1, out_ids, 8, &n, &e));
    REFUSED(stator_tokenize, "ids is NULL", (s, "a", 1, 1, 1, NULL, 8, &n, &e));
    REFUSED(stator_tokenize, "n is NULL", (s, "a", 1, 1, 1, out_ids, 8, NULL, &e));
    REFUSED(stator_decode, "s is NULL", (NULL, &d, 1, 0, text, 64, &n, &e));
    REFUSED(stator_decode, "decoder is NULL", (s, NULL, 1, 0, text, 64, &n, &e));
    REFUSED(stator_decode, "out is NULL", (s, &d, 1, 0, NULL, 64, &n, &e));
    REFUSED(stator_decode, "n is NULL", (s, &d, 1, 0, text, 64, NULL, &e));
    REFUSED(stator_get_memory, "s is NULL", (NULL, 0, &row, &have, &e));
    REFUSED(stator_get_memory, "row is NULL", (s, 0, NULL, &have, &e));
    REFUSED(stator_get_memory, "have is NULL", (s, 0, &row, NULL, &e));
    REFUSED(stator_get_audit, "s is NULL", (NULL, &audit, &e));
    REFUSED(stator_get_audit, "audit is NULL", (s, NULL, &e));
    REFUSED(stator_audit_ranks, "s is NULL", (NULL, &e));
    REFUSED(stator_get_device_audit, "s is NULL", (NULL, 0, &device, &have, &e));
    REFUSED(stator_get_device_audit, "audit is NULL", (s, 0, NULL, &have, &e));
    REFUSED(stator_get_device_audit, "have is NULL", (s, 0, &device, NULL, &e));
    REFUSED(stator_plan_json, "s is NULL", (NULL, text, 64, &n, &e));
    REFUSED(stator_plan_json, "out is NULL", (s, NULL, 64, &n, &e));
    REFUSED(stator_plan_json, "n is NULL", (s, text, 64, NULL, &e));
    REFUSED(stator_report_json, "s is NULL", (NULL, text, 64, &n, &e));
    REFUSED(stator_report_json, "out is NULL", (s, NULL, 64, &n, &e));
    REFUSED(stator_report_json, "n is NULL", (s, text, 64, NULL, &e));
    REFUSED(stator_hold, "s is NULL", (NULL, 1, 1, &e));
    REFUSED(stator_get_stats, "s is NULL", (NULL, &stats, &e));
    REFUSED(stator_get_stats, "stats is NULL", (s, NULL, &e));
    REFUSED(stator_get_request, "s is NULL", (NULL, 1, &request, &e));
    REFUSED(stator_get_request, "stats is NULL", (s, 1, NULL, &e));
    REFUSED(stator_token_bytes, "s is NULL", (NULL, 1, text, 64, &n, &e));
    REFUSED(stator_token_bytes, "out is NULL", (s, 1, NULL, 64, &n, &e));
    REFUSED(stator_token_bytes, "n is NULL", (s, 1, text, 64, NULL, &e));
    REFUSED(stator_get_infill_tokens, "s is NULL", (NULL, &infill, &e));
    REFUSED(stator_get_infill_tokens, "tokens is NULL", (s, NULL, &e));
    REFUSED(stator_get_chat_template, "s is NULL", (NULL, &chat, &e));
    REFUSED(stator_get_chat_template, "t is NULL", (s, NULL, &e));
    assert_int_equal(stator_event_fd(NULL), -1);
    stator_cancel(NULL, 0);
    stator_close(NULL);
    /* NULL is fine where nothing is to be read or written, and for the error always. */
    assert_int_equal(stator_tokenize(s, NULL, 0, 0, 0, NULL, 0, &n, NULL), STATOR_OK);
    assert_int_equal(n, 0);
    assert_int_equal(stator_tokenize(s, "abc", 3, 0, 0, NULL, 0, &n, NULL), STATOR_USAGE);
    assert_true(n > 0);
    assert_int_equal(stator_plan_json(s, NULL, 0, &n, NULL), STATOR_USAGE);
    assert_true(n > 0);
    stator_close(s);
}

/* Sizes of no header: 0, cut fields, newer than the library. */
static void wrong_sizes(void **state) {
    (void)state;
    stator *s = harness_start(DEMO, small);
    stator *other = NULL;
    stator_options o = {.config = DEMO};
    const int32_t ids[] = {1, 2, 3};
    stator_request q = {.tokens = ids, .n_tokens = 3, .max_new = 1};
    stator_bench b = {.size = sizeof b};
    stator_event ev = {.size = 0};
    stator_info info = {.size = 0};
    stator_decoder d = {.size = 0};
    stator_memory_row row = {.size = 0};
    stator_audit audit = {.size = 0};
    stator_device_audit device = {.size = 0};
    stator_stats stats = {.size = 0};
    stator_request_stats request = {.size = 0};
    stator_chat_template chat = {.size = 0};
    stator_infill_tokens infill = {.size = 0};
    uint64_t id = 0;
    size_t n = 0;
    int have = 0;
    char text[4096];
    for (int i = 0; i < 4; i++) {
#define WRONG(x) (i == 0 ? 0 : i == 1 ? sizeof(x) - 1 : i == 2 ? sizeof(x) + 8 : (size_t)-8)
        o.size = WRONG(o);
        REFUSED(stator_open, "options.size is", (&o, &other, &e));
        q.size = WRONG(q);
        REFUSED(stator_submit, "request.size is", (s, &q, &id, &e));
        REFUSED(stator_bench_submit, "request.size is", (s, &q, &b, &id, &e));
        REFUSED(stator_check, "request.size is", (s, &q, &e));
        ev.size = WRONG(ev);
        REFUSED(stator_poll, "event.size is", (s, 0, &ev, &have, &e));
        info.size = WRONG(info);
        REFUSED(stator_get_info, "info.size is", (s, &info, &e));
        d.size = WRONG(d);
        REFUSED(stator_decode, "decoder.size is", (s, &d, 1, 0, text, sizeof text, &n, &e));
        row.size = WRONG(row);
        REFUSED(stator_get_memory, "row.size is", (s, 0, &row, &have, &e));
        audit.size = WRONG(audit);
        REFUSED(stator_get_audit, "audit.size is", (s, &audit, &e));
        device.size = WRONG(device);
        REFUSED(stator_get_device_audit, "audit.size is", (s, 0, &device, &have, &e));
        stats.size = WRONG(stats);
        REFUSED(stator_get_stats, "stats.size is", (s, &stats, &e));
        request.size = WRONG(request);
        REFUSED(stator_get_request, "stats.size is", (s, 1, &request, &e));
        chat.size = WRONG(chat);
        REFUSED(stator_get_chat_template, "t.size is", (s, &chat, &e));
        infill.size = WRONG(infill);
        REFUSED(stator_get_infill_tokens, "tokens.size is", (s, &infill, &e));
    }
    q.size = sizeof q;
    b.size = sizeof b + 8;
    REFUSED(stator_bench_submit, "bench.size is", (s, &q, &b, &id, &e));
    stator_close(s);
}

/* A program of an older header: the structs end in front of later fields. What lies behind is not theirs. */
static void older_headers(void **state) {
    (void)state;
    const size_t options_then = offsetof(stator_options, expect_plan);
    const size_t info_then = offsetof(stator_info, parameters);
    const size_t event_then = offsetof(stator_event, logits);
    const size_t row_then = offsetof(stator_memory_row, used);
    stator_options o;
    memset(&o, 0xA5, sizeof o);
    memset(&o, 0, options_then);
    o.size = options_then;
    o.config = DEMO;
    o.set = small;
    o.n_set = 3;
    stator *s = NULL;
    assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
    assert_int_equal(stator_start(s, &e), STATOR_OK);
    union {
        stator_info info;
        stator_event event;
        stator_memory_row row;
        unsigned char bytes[1024];
    } u;
#define BEHIND(then)                                                                                         \
    for (size_t i = (then); i < sizeof u; i++)                                                               \
    assert_int_equal(u.bytes[i], 0xA5)
    memset(&u, 0xA5, sizeof u);
    u.info.size = info_then;
    assert_int_equal(stator_get_info(s, &u.info, &e), STATOR_OK);
    assert_int_equal(u.info.size, info_then);
    assert_int_equal(u.info.vocab, 2048);
    assert_string_equal(u.info.weight_type, "Q8_0");
    BEHIND(info_then);
    memset(&u, 0xA5, sizeof u);
    u.row.size = row_then;
    int have = 0;
    assert_int_equal(stator_get_memory(s, 0, &u.row, &have, &e), STATOR_OK);
    assert_int_equal(have, 1);
    assert_true(u.row.allocated > 0);
    BEHIND(row_then);
    /* The sampling is not there: the config's. */
    const int32_t ids[] = {1, 2, 3};
    union {
        stator_request q;
        unsigned char bytes[sizeof(stator_request)];
    } r;
    const size_t request_then = (offsetof(stator_request, ignore_eos) + sizeof(uint32_t) + 7) / 8 * 8;
    memset(&r, 0xA5, sizeof r);
    memset(&r, 0, request_then);
    r.q.size = request_then;
    r.q.tokens = ids;
    r.q.n_tokens = 3;
    r.q.max_new = 2;
    r.q.ignore_eos = 1;
    uint64_t id = 0;
    if (stator_submit(s, &r.q, &id, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    uint32_t tokens = 0;
    for (bool done = false; !done;) {
        memset(&u, 0xA5, sizeof u);
        u.event.size = event_then;
        assert_int_equal(stator_poll(s, UINT64_MAX, &u.event, &have, &e), STATOR_OK);
        BEHIND(have ? event_then : sizeof u);
        assert_int_equal(u.event.size, event_then);
        if (have) {
            assert_int_equal(u.event.request, id);
            done = u.event.kind == STATOR_EVENT_DONE;
            tokens += u.event.kind == STATOR_EVENT_TOKEN;
        }
    }
    assert_int_equal(tokens, 2);
    stator_close(s);
}

/* No length makes stator_tokenize overflow. */
static void endless_text(void **state) {
    (void)state;
    stator *s = harness_start(DEMO, small);
    const size_t lengths[] = {SIZE_MAX,        SIZE_MAX - 1, SIZE_MAX / 2,  SIZE_MAX / 16,
                              (size_t)1 << 32, 1u << 30,     (1u << 30) + 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t n = 77;
        int32_t ids[4];
        assert_int_equal(stator_tokenize(s, "abc", lengths[i], 1, 1, ids, 4, &n, &e), STATOR_USAGE);
        assert_int_equal(n, 0);
        assert_non_null(strstr(e.text, "shorten the text"));
    }
    stator_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(missing), cmocka_unit_test(wrong_sizes),
                                       cmocka_unit_test(older_headers), cmocka_unit_test(endless_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
