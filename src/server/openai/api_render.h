/* A thread of its own decodes the pictures of requests and renders chat templates. A rendering can take
 * JINJA_SECONDS, a large picture a second, and the event loop answers /health and other clients meanwhile.
 * One rendering runs at a time; the others wait in order of arrival.
 *
 * Thread: call these functions on the loop's thread. Memory: each rendering gets most of the pool's free
 * memory lent. So while a long one runs, large bodies of other clients get 503. */
#ifndef STATOR_SERVER_API_RENDER_H
#define STATOR_SERVER_API_RENDER_H

#include "base/error.h"

struct api;
struct api_job_state;
struct api_renderer;

enum api_rendering {
    API_RENDER_NONE,  /* it was never asked for, or is over */
    API_RENDER_WAITS, /* for those before it */
    API_RENDER_RUNS
};

/* Takes its stack from the pool and starts the thread, which all models share. */
stator_status api_render_open(struct api *api, stator_error *e);
/* Ends a rendering that runs, of whatever model, and the thread. */
void api_render_close(struct api *api);

/* Renders job->request, and then calls job->rendered or fails the job: within this call where it takes no
 * longer than a tenth of a second, else from api_render_poll. The job may be over, and not yet settled, when
 * this returns. */
void api_render_begin(struct api_job_state *job);
/* A rendering may have ended: goes on with its job, and with the next one. */
void api_render_poll(struct api *api);
/* The job's exchange is over: its rendering ends soon. A job whose rendering runs must stay until then. */
void api_render_drop(struct api_job_state *job);
/* The server was asked to end: a rendering that runs fails. */
void api_render_stop(struct api *api);

#endif
