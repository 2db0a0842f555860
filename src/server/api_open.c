#include "server/api.h"

stator_status api_open(struct server *s, stator_error *e) {
    (void)s;
    (void)e;
    return STATOR_OK;
}

void api_poll(struct server *s) {
    (void)s;
}

void api_tick(struct server *s, uint64_t now_ns) {
    (void)s;
    (void)now_ns;
}

void api_cancel_all(struct server *s, const char *why) {
    (void)s;
    (void)why;
}

uint32_t api_jobs(const struct server *s) {
    (void)s;
    return 0;
}

bool api_get_job(const struct server *s, uint32_t index, struct api_job *out) {
    (void)s;
    (void)index;
    (void)out;
    return false;
}
