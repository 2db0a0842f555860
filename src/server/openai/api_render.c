#include "server/openai/api_render.h"

#include "base/check.h"
#include "base/clock.h"
#include "server/http/edge_pool.h"
#include "server/http/edge_thread.h"
#include "server/openai/api_jobs.h"
#include "server/request/api_pictures.h"
#include "server/request/api_prompt.h"

#include <pthread.h>
#include <time.h>

#define WHAT "the thread that renders chat templates"
#define PATIENCE_NS                                                                                          \
    100000000 /* the loop waits so long for a rendering. Most take less, and give the lent memory back at    \
                 once */

enum state { IDLE, BEGUN, ENDED, CLOSED };

struct api_renderer {
    struct server *server; /* of any model */
    uint32_t turn;         /* of the models: whose jobs come first next */
    struct edge_thread thread;
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    enum state state;   /* under lock */
    bool loop_waits;    /* under lock: for `ended`, so it needs no call */
    atomic_int stop;    /* not 0: what runs fails soon */
    uint32_t n_waiting; /* jobs; the loop's, like all that follows but for the thread's turn */

    struct api_job_state *job; /* that is rendered; NULL: none */
    void *memory;              /* lent */
    size_t bytes;
    bool alone;

    bool ok; /* the thread's turn: from BEGUN to ENDED */
    const char *text;
    size_t length;
    struct api_failure why;
};

static void *run(void *context) {
    struct api_renderer *r = context;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (r->state != BEGUN && r->state != CLOSED)
            pthread_cond_wait(&r->begun, &r->lock);
        if (r->state == CLOSED)
            break;
        pthread_mutex_unlock(&r->lock);
        struct api *api = r->job->api;
        const struct api_picture_room room = {r->memory, r->bytes, api->server->settings.max_body};
        r->ok = api_pictures_load(api->engine, &api->model, &r->job->request, room, &r->stop, &r->why) &&
                api_prompt_render(&r->job->api->model, &r->job->request, &r->stop, r->memory, r->bytes,
                                  r->alone, &r->text, &r->length, &r->why);
        pthread_mutex_lock(&r->lock);
        if (r->state == CLOSED)
            break;
        r->state = ENDED;
        pthread_cond_signal(&r->ended);
        if (!r->loop_waits)
            server_wake(r->server);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* The thread of a model before this one; NULL: there is none. */
static struct api_renderer *find_other(const struct server *server) {
    const struct server *s;
    for (uint32_t i = 0; (s = server_at(server, i)) != NULL; i++)
        if (s->api != NULL && s->api->renderer != NULL)
            return s->api->renderer;
    return NULL;
}

stator_status api_render_open(struct api *api, stator_error *e) {
    api->renderer = find_other(api->server);
    if (api->renderer != NULL)
        return STATOR_OK;
    struct api_renderer *r = edge_pool_zeroed(1, sizeof *r);
    if (r == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "server.memory is too small for the server: raise it");
    pthread_condattr_t clock;
    r->server = api->server;
    int rc = pthread_mutex_init(&r->lock, NULL);
    rc = rc != 0 ? rc : pthread_condattr_init(&clock);
    rc = rc != 0 ? rc : pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    rc = rc != 0 ? rc : pthread_cond_init(&r->begun, NULL);
    rc = rc != 0 ? rc : pthread_cond_init(&r->ended, &clock);
    CHECK(rc == 0); /* Linux's need no memory */
    pthread_condattr_destroy(&clock);
    api->renderer = r;
    const stator_status st = edge_thread_prepare(&r->thread, WHAT, e);
    return st == STATOR_OK ? edge_thread_start(&r->thread, WHAT, run, r, e) : st;
}

void api_render_close(struct api *api) {
    struct api_renderer *r = api->renderer;
    if (r == NULL)
        return;
    atomic_store(&r->stop, 1);
    pthread_mutex_lock(&r->lock);
    r->state = CLOSED;
    pthread_cond_signal(&r->begun);
    pthread_mutex_unlock(&r->lock);
    edge_thread_join(&r->thread);
    if (r->job != NULL)
        api_pictures_unload(r->job->api->engine, &r->job->request);
    edge_thread_free(&r->thread);
    pthread_cond_destroy(&r->begun);
    pthread_cond_destroy(&r->ended);
    pthread_mutex_destroy(&r->lock);
    if (r->memory != NULL)
        edge_pool_take_back(r->memory);
    for (uint32_t i = 0; server_at(r->server, i) != NULL; i++) {
        struct api *other = server_at(r->server, i)->api;
        if (other != NULL && other->renderer == r && other != api)
            other->renderer = NULL;
    }
    edge_pool_free(r);
    api->renderer = NULL;
}

/* The job goes on with the text; it may be over afterwards. What it submitted holds the pictures itself. */
static void go_on(struct api_renderer *r) {
    struct api_job_state *job = r->job;
    struct api_text text = {0};
    if (r->ok && job->x != NULL)
        api_text_put(&text, r->text, r->length);
    edge_pool_take_back(r->memory);
    r->memory = NULL;
    r->job = NULL;
    job->render = API_RENDER_NONE;
    if (text.failed)
        api_jobs_fail(job, 503, NULL, "the server's memory has no room for the prompt now");
    else if (!r->ok)
        api_jobs_fail(job, r->why.status, r->why.param[0] != '\0' ? r->why.param : NULL, "%s", r->why.text);
    else if (job->x != NULL)
        job->rendered(job, &text);
    api_pictures_unload(job->api->engine, &job->request);
    api_text_free(&text);
    api_request_free(&job->request);
}

/* Whether it has ended, at the latest after PATIENCE_NS. */
static bool wait_for_end(struct api_renderer *r) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PATIENCE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int rc = 0;
    r->loop_waits = true;
    while (r->state == BEGUN && rc == 0)
        rc = pthread_cond_timedwait(&r->ended, &r->lock, &until);
    r->loop_waits = false;
    return r->state == ENDED;
}

/* No other job, of whatever model. */
static bool is_alone(const struct api_job_state *job) {
    const struct server *s;
    for (uint32_t i = 0; (s = server_at(job->api->server, i)) != NULL; i++)
        if (s->api != NULL && s->api->first != NULL && (s->api->first != job || s->api->last != job))
            return false;
    return true;
}

static void start(struct api_renderer *r, struct api_job_state *job) {
    CHECK(r->job == NULL && r->memory == NULL);
    /* All that is free now, but for room for the text. */
    r->bytes = api_prompt_room();
    r->memory = edge_pool_lend(r->bytes);
    if (r->memory == NULL) {
        job->render = API_RENDER_NONE;
        api_jobs_fail(job, 503, NULL, "the server's memory has no room for the prompt now");
        return;
    }
    r->job = job;
    r->alone = is_alone(job);
    r->why = (struct api_failure){0};
    job->render = API_RENDER_RUNS;
    atomic_store(&r->stop, 0);
    pthread_mutex_lock(&r->lock);
    CHECK(r->state == IDLE);
    r->state = BEGUN;
    pthread_cond_signal(&r->begun);
    const bool ended = wait_for_end(r);
    r->state = ended ? IDLE : r->state;
    pthread_mutex_unlock(&r->lock);
    if (ended)
        go_on(r);
}

void api_render_begin(struct api_job_state *job) {
    struct api_renderer *r = job->api->renderer;
    if (r->job == NULL && r->n_waiting == 0) {
        start(r, job);
        return;
    }
    job->render = API_RENDER_WAITS;
    r->n_waiting++;
}

/* Starts one waiting job, of which there is one; the models take turns. The others wait for further turns of
 * the loop, so that it is not held up. */
static void start_next(struct api_renderer *r) {
    struct api_job_state *job = NULL;
    for (uint32_t i = 0; job == NULL; i++) {
        CHECK(i < 2 * SERVER_MODELS);
        const struct server *s = server_at(r->server, r->turn++);
        r->turn = s == NULL ? 0 : r->turn;
        job = s != NULL && s->api != NULL ? s->api->first : NULL;
        while (job != NULL && job->render != API_RENDER_WAITS)
            job = job->next;
    }
    r->n_waiting--;
    start(r, job);
    if (r->n_waiting > 0 && r->job == NULL)
        server_wake(r->server);
    api_jobs_settle(job);
}

void api_render_poll(struct api *api) {
    struct api_renderer *r = api->renderer;
    if (r->job != NULL) {
        pthread_mutex_lock(&r->lock);
        const bool ended = r->state == ENDED;
        r->state = ended ? IDLE : r->state;
        pthread_mutex_unlock(&r->lock);
        if (!ended)
            return;
        struct api_job_state *job = r->job;
        go_on(r);
        api_jobs_settle(job);
    }
    if (r->n_waiting > 0)
        start_next(r);
}

void api_render_drop(struct api_job_state *job) {
    struct api_renderer *r = job->api->renderer;
    if (job->render == API_RENDER_RUNS)
        atomic_store(&r->stop, 1);
    if (job->render != API_RENDER_WAITS)
        return;
    CHECK(r->n_waiting > 0);
    r->n_waiting--;
    job->render = API_RENDER_NONE;
}

void api_render_stop(struct api *api) {
    atomic_store(&api->renderer->stop, 1);
}
