#include "server/request/api_request.h"

#include "os/pages.h"
#include "server/http/edge_pool.h"

#include <time.h>

struct search {
    struct chat_form_input in;
    struct chat_form *out;
};

static void find(void *context) {
    struct search *s = context;
    chat_form_find(&s->in, s->out);
}

stator_status api_form_find(struct api_model *m, stator_error *e) {
    const time_t seconds = time(NULL);
    struct tm now;
    struct search s = {.in = {.source = m->source,
                              .length = m->source_length,
                              .bos = m->bos,
                              .eos = m->eos,
                              .bos_length = m->bos_length,
                              .eos_length = m->eos_length,
                              .now = localtime_r(&seconds, &now),
                              .stop = m->stop},
                       .out = &m->form};
    stator_status st = pages_map(CHAT_FORM_BYTES, "trial renderings of the chat template", &s.in.memory, e);
    if (st == STATOR_OK && !edge_pool_try_json(find, &s))
        st = error_set(e, STATOR_DOES_NOT_FIT,
                       "server.memory has no room for trial renderings of the chat template: raise it");
    pages_unmap(s.in.memory, CHAT_FORM_BYTES);
    return st;
}
