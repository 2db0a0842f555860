/* stator logits: the logits of every position of given ids, as raw little-endian float32 [positions][vocab].
 */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/session.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are written as they lie in memory");

static stator_status write_rows(stator *s, const int32_t *ids, size_t n, FILE *f, const char *path,
                                stator_error *e) {
    stator_info info = {.size = sizeof info};
    stator_status st = stator_get_info(s, &info, e);
    if (st != STATOR_OK)
        return st;
    stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = ids, .n_tokens = n};
    uint64_t id = 0;
    st = stator_submit(s, &q, &id, e);
    if (st == STATOR_OK && session_signal())
        stator_cancel(s, 0); /* it came before there was a request to cancel */
    while (st == STATOR_OK) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        st = stator_poll(s, UINT64_MAX, &ev, &have, e);
        if (st != STATOR_OK || !have)
            continue;
        if (ev.kind == STATOR_EVENT_LOGITS) {
            if (fwrite(ev.logits, sizeof(float), info.vocab, f) != info.vocab)
                st = error_set(e, STATOR_FAILED, "--output %s: %s", path, strerror(errno));
            continue;
        }
        if (ev.reason == STATOR_REASON_FAILED)
            st = error_set(e, ev.status, "%s", ev.text);
        else if (ev.reason == STATOR_REASON_CANCELLED)
            st = error_set(e, STATOR_FAILED, "stopped by a signal; the output is not complete");
        break;
    }
    return st;
}

static stator_status run_logits(const char *config, const struct options_list *set, const int32_t *ids,
                                size_t n, const char *path, const char *report, stator_error *e) {
    stator *s = NULL;
    stator_status st = session_open(config, set, NULL, NULL, &s, e);
    if (st != STATOR_OK)
        return st;
    session_catch_signals(s);
    stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = ids, .n_tokens = n};
    st = stator_prepare(s, e);
    if (st == STATOR_OK)
        st = stator_check(s, &q, e); /* before the weights are loaded */
    if (st == STATOR_OK)
        st = stator_start(s, e);
    if (st == STATOR_OK) {
        FILE *f = out_open("--output", path, e);
        st = f != NULL ? write_rows(s, ids, n, f, path, e) : e->code;
        if (f != NULL)
            st = out_close(f, "--output", path, st, e);
        st = session_finish(s, NULL, report, st, e);
    }
    session_close(s);
    return st;
}

int logits_command(int argc, char **argv) {
    struct options_list set = {.n = 0};
    const char *ids_text = NULL;
    const char *ids_file = NULL;
    const char *output = NULL;
    const char *report = NULL;
    const struct options_row rows[] = {
        {.name = "tokens",
         .kind = OPTIONS_TEXT,
         .target = &ids_text,
         .value = "IDS",
         .help = "token ids: \"1 2 3\""},
        {.name = "tokens-file",
         .kind = OPTIONS_TEXT,
         .target = &ids_file,
         .value = "FILE",
         .help = "token ids from a file"},
        {.name = "output",
         .letter = 'o',
         .kind = OPTIONS_TEXT,
         .target = &output,
         .value = "FILE",
         .help = "file to write (-: standard output)"},
        OPTIONS_REPORT(&report),
        OPTIONS_SET(&set),
    };
    struct options o = {.command = "logits",
                        .usage = "CONFIG (--tokens IDS | --tokens-file FILE) --output FILE",
                        .summary = "Writes the logits of every position of the given ids: raw little-endian "
                                   "float32 [positions][vocab]. "
                                   "No BOS is added. memory.logits_rows positions are computed at a time.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0]};
    int code = 0;
    const char *argument = NULL;
    if (!options_parse_one(&o, argc, argv, &argument, &code))
        return code;
    stator_error e;
    if ((ids_text != NULL) == (ids_file != NULL))
        return out_fail("logits", STATOR_USAGE, "give one of --tokens and --tokens-file");
    if (output == NULL)
        return out_fail("logits", STATOR_USAGE, "--output FILE is missing");
    char *text = NULL;
    size_t length = 0;
    int32_t *ids = NULL;
    size_t n = 0;
    stator_status st = STATOR_OK;
    if (ids_file != NULL)
        st = session_read_file(ids_file, SESSION_TEXT_LIMIT, &text, &length, &e);
    if (st == STATOR_OK && text != NULL && strlen(text) != length)
        st = error_set(&e, STATOR_USAGE, "%s: byte %zu is NUL: numbers separated by blanks are expected",
                       ids_file, strlen(text));
    if (st == STATOR_OK)
        st = session_parse_ids(ids_file != NULL ? text : ids_text, ids_file != NULL ? ids_file : "--tokens",
                               &ids, &n, &e);
    if (st == STATOR_OK)
        st = run_logits(argument, &set, ids, n, output, report, &e);
    free(text);
    free(ids);
    return out_end("logits", st, &e);
}
