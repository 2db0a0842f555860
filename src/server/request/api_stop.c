#include "server/request/api_stop.h"

#include "base/check.h"

#include <string.h>

/* Bytes of the longest stop string that held ends with, and (*which) its number; 0: none. */
static uint32_t complete(const struct api_stop *s, const struct api_stops *stops, uint32_t *which) {
    uint32_t longest = 0;
    for (uint32_t i = 0; i < stops->n; i++) {
        const struct api_stop_text *t = &stops->at[i];
        if (t->n > longest && t->n <= s->n_held && memcmp(s->held + s->n_held - t->n, t->p, t->n) == 0) {
            longest = t->n;
            *which = i;
        }
    }
    return longest;
}

/* Bytes at the end of held that a stop string may begin with. */
static uint32_t beginning(const struct api_stop *s, const struct api_stops *stops) {
    for (uint32_t n = s->n_held; n > 0; n--)
        for (uint32_t i = 0; i < stops->n; i++)
            if (n < stops->at[i].n && memcmp(s->held + s->n_held - n, stops->at[i].p, n) == 0)
                return n;
    return 0;
}

static void release(struct api_stop *s, uint32_t keep, struct api_text *out) {
    const uint32_t n = s->n_held - keep;
    if (n == 0)
        return;
    api_text_put(out, s->held, n);
    memmove(s->held, s->held + n, keep);
    s->n_held = keep;
}

bool api_stop_feed(struct api_stop *s, const struct api_stops *stops, const char *p, size_t n,
                   struct api_text *out) {
    if (s->hit)
        return false;
    if (stops == NULL || stops->n == 0) {
        api_text_put(out, p, n);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        /* Held is shorter than the longest stop string, so one byte more has room. */
        CHECK(s->n_held < API_STOP_BYTES);
        s->held[s->n_held++] = p[i];
        const uint32_t found = complete(s, stops, &s->which);
        if (found > 0) {
            release(s, found, out);
            s->n_held = 0;
            s->hit = true;
            return false;
        }
        release(s, beginning(s, stops), out);
    }
    return true;
}

void api_stop_flush(struct api_stop *s, struct api_text *out) {
    if (!s->hit)
        release(s, 0, out);
}
