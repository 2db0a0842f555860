/* stator serve: the engine behind HTTP. The main thread opens and starts the engine and waits; the server's
 * thread does the rest (server/server.h). */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/session.h"
#include "server/server.h"

#include "base/error.h"

#include <signal.h>
#include <stdio.h>

struct serve {
    const char *config;
    const char *expect_plan;
    const char *report;
    struct options_list set;
    struct server_settings settings;
    stator *engine;
    struct server *server;
};

static stator_status listen_and_start(struct serve *v, stator_error *e) {
    const atomic_int *signal = session_note_signals();
    stator_status st = stator_plan(v->engine, e);
    if (st == STATOR_OK)
        st = stator_prepare(v->engine, e);
    if (st == STATOR_OK)
        st = server_open(v->engine, &v->settings, signal, &v->server, e);
    if (st != STATOR_OK)
        return st;
    printf("listening on http://%s:%u\n", v->settings.address_text, server_port(v->server));
    fflush(stdout);
    st = stator_start(v->engine, e);
    server_started(v->server, st);
    stator_error why;
    const stator_status served = server_wait(v->server, &why);
    if (st != STATOR_OK)
        return session_signal() != 0 && st == STATOR_FAILED ? STATOR_OK : st; /* it was asked to end */
    if (served != STATOR_OK)
        *e = why;
    return session_finish(v->engine, stderr, v->report, served, e);
}

static bool parse(struct serve *v, int argc, char **argv, int *code) {
    const struct options_row rows[] = {
        OPTIONS_EXPECT_PLAN(&v->expect_plan),
        OPTIONS_REPORT(&v->report),
        OPTIONS_SET(&v->set),
    };
    struct options o = {
        .command = "serve",
        .usage = "CONFIG",
        .summary =
            "Serves a model over HTTP: OpenAI's API (/v1/chat/completions, /v1/completions, /v1/models), "
            "/tokenize, /detokenize, /apply-template, and for operators /health, /metrics, /slots, /memory, "
            "/props, "
            "/plan, /report; at / a web page with a chat and the map of the memory. CONFIG is a config file "
            "or a .gguf file; its section `server` has the address, "
            "keys and limits (`stator help config`). `stator plan --serve` prints the plan's hash.\n"
            "The first line on standard output is the address: \"listening on http://127.0.0.1:8080\". It "
            "listens while the model is loaded and answers /health with 503 until then. SIGTERM and SIGINT: "
            "running requests end, then exit 0. Exit 5 after the failure of a device (server.on_fault). "
            "Under "
            "systemd it tells when it is ready and that it lives (Type=notify, WatchdogSec=).",
        .rows = rows,
        .n_rows = sizeof rows / sizeof rows[0]};
    return options_parse_one(&o, argc, argv, &v->config, code);
}

int serve_command(int argc, char **argv) {
    static struct serve v; /* the keys of the settings are too large for a stack */
    int code = 0;
    signal(SIGPIPE, SIG_IGN); /* whoever reads the log may end before the server */
    if (!parse(&v, argc, argv, &code))
        return code;
    stator_error e;
    stator_status st = server_read_settings(v.config, v.set.items, v.set.n, &v.settings, &e);
    if (st == STATOR_OK)
        st = session_open_as(SESSION_SERVE, v.config, &v.set, v.expect_plan, NULL, &v.engine, &e);
    if (st == STATOR_OK)
        st = listen_and_start(&v, &e);
    server_close(v.server);
    session_close(v.engine);
    return out_end("serve", st, &e);
}
