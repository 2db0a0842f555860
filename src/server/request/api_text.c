#include "server/request/api_text.h"

#include "base/arith.h"
#include "base/json_writer.h"
#include "server/http/edge_pool.h"

#include <string.h>

char *api_text_room(struct api_text *t, size_t n) {
    if (t->failed)
        return NULL;
    if (n <= t->capacity - t->n)
        return t->p + t->n;
    uint64_t want = 0;
    char *p = NULL;
    if (arith_add(t->n, n, &want))
        p = edge_pool_resize(t->p, ARITH_MAX(want, ARITH_MAX(t->capacity * 2, 64)));
    if (p == NULL) {
        t->failed = true;
        return NULL;
    }
    t->p = p;
    t->capacity = ARITH_MAX(want, ARITH_MAX(t->capacity * 2, 64));
    return p + t->n;
}

void api_text_put(struct api_text *t, const char *p, size_t n) {
    if (n == 0)
        return;
    char *to = api_text_room(t, n);
    if (to == NULL)
        return;
    memcpy(to, p, n);
    t->n += n;
}

void api_text_puts(struct api_text *t, const char *s) {
    api_text_put(t, s, strlen(s));
}

void api_text_json(struct api_text *t, void (*build)(struct json *j, const void *of), const void *of) {
    for (size_t room = 512;;) {
        char *to = api_text_room(t, room);
        if (to == NULL)
            return;
        struct json j;
        json_to_buffer(&j, to, t->capacity - t->n, false);
        build(&j, of);
        if (json_end(&j)) {
            t->n += j.length;
            return;
        }
        room = j.length + 1;
    }
}

void api_text_drop(struct api_text *t, size_t n) {
    CHECK(n <= t->n);
    if (n == 0)
        return;
    memmove(t->p, t->p + n, t->n - n);
    t->n -= n;
}

void *api_text_resize(void *context, void *p, size_t n) {
    (void)context;
    if (n > 0)
        return edge_pool_resize(p, n);
    edge_pool_free(p);
    return NULL;
}

void api_text_free(struct api_text *t) {
    edge_pool_free(t->p);
    *t = (struct api_text){0};
}
