/* stator serve: engines behind HTTP, one for each model. The main thread opens and starts them and waits; the
 * server's thread does the rest (server/server.h). */
#include "app/commands.h"
#include "app/models.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/session.h"
#include "server/server.h"

#include "base/error.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

struct serve {
    const char *config;
    const char *expect_plan;
    const char *report;
    struct options_list set;
    struct models models;
    struct server_settings settings[MODELS_MOST];
    struct server *server;
};

/* Opens and plans each model beside those before it. */
static stator_status open_models(struct serve *v, stator_error *e) {
    struct models *m = &v->models;
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < m->n && st == STATOR_OK; i++) {
        st = server_read_settings(v->config, m->set[i].items, m->set[i].n, &v->settings[i], e);
        if (st == STATOR_OK)
            st = session_open_as(SESSION_SERVE, v->config, &m->set[i], m->several ? NULL : v->expect_plan,
                                 i > 0 ? m->engine[i - 1] : NULL, &m->engine[i], e);
        if (st == STATOR_OK)
            st = stator_plan(m->engine[i], e);
        if (st != STATOR_OK)
            models_blame(m, i, e);
    }
    if (st != STATOR_OK || !m->several)
        return st;
    char hash[33];
    st = models_hash(m, hash, e);
    if (st == STATOR_OK)
        fprintf(stderr, "all %u models: plan %s\n", m->n, hash);
    if (st == STATOR_OK && v->expect_plan != NULL && strcmp(v->expect_plan, hash) != 0)
        st = error_set(e, STATOR_DOES_NOT_FIT,
                       "the hash of all plans is %s, --expect-plan wants %.64s: a model, the config or the "
                       "devices differ",
                       hash, v->expect_plan);
    return st;
}

/* Each of them; a failure names its model. */
static stator_status each_model(struct models *m, stator_status (*f)(stator *s, stator_error *e),
                                stator_error *e) {
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < m->n && st == STATOR_OK; i++) {
        st = f(m->engine[i], e);
        if (st != STATOR_OK)
            models_blame(m, i, e);
    }
    return st;
}

static stator_status finish(struct serve *v, stator_status st, stator_error *e) {
    struct models *m = &v->models;
    stator_error why;
    if (!m->several)
        return session_finish(m->engine[0], stderr, v->report, st, e);
    const stator_status written = v->report != NULL ? models_report(m, v->report, &why) : STATOR_OK;
    if (written != STATOR_OK && st == STATOR_OK) {
        *e = why;
        st = written;
    }
    for (uint32_t i = 0; i < m->n; i++) { /* before any of them gives memory back */
        fprintf(stderr, "models[%u], \"%s\"\n", i, m->name[i]);
        const stator_status audited = session_audit(m->engine[i], stderr, &why);
        if (audited != STATOR_OK && st == STATOR_OK) {
            *e = why;
            st = audited;
        }
    }
    for (uint32_t i = 0; i < m->n; i++)
        st = session_finish(m->engine[i], NULL, NULL, st, e);
    return st;
}

static stator_status listen_and_start(struct serve *v, stator_error *e) {
    const struct server_opening opening = {.engines = v->models.engine,
                                           .settings = v->settings,
                                           .n = v->models.n,
                                           .signal = session_note_signals()};
    stator_status st = open_models(v, e);
    if (st == STATOR_OK)
        st = each_model(&v->models, stator_prepare, e);
    if (st == STATOR_OK)
        st = server_open(&opening, &v->server, e);
    if (st != STATOR_OK)
        return st;
    printf("listening on http://%s:%u\n", v->settings[0].address_text, server_port(v->server));
    fflush(stdout);
    st = each_model(&v->models, stator_start, e);
    server_started(v->server, st);
    stator_error why;
    const stator_status served = server_wait(v->server, &why);
    if (st != STATOR_OK)
        return session_signal() != 0 && st == STATOR_FAILED ? STATOR_OK : st; /* it was asked to end */
    if (served != STATOR_OK)
        *e = why;
    return finish(v, served, e);
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
            "keys and limits (`stator help config`). `stator plan --serve` prints the plan's hash. A config "
            "with "
            "a list of `models` serves all of them; requests choose one by name.\n"
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
    stator_status st = models_read(v.config, &v.set, &v.models, &e);
    if (st == STATOR_OK)
        st = listen_and_start(&v, &e);
    server_close(v.server);
    session_catch_signals(NULL);
    models_close(&v.models);
    return out_end("serve", st, &e);
}
