/* Stop strings in a text that comes in pieces. The text ends in front of the stop string that is complete
 * first; of those that end at the same byte the longest counts. How the text is cut into pieces changes
 * nothing. What may be the beginning of a stop string is held back. Pure. */
#ifndef STATOR_SERVER_API_STOP_H
#define STATOR_SERVER_API_STOP_H

#include "server/request/api_text.h"

#include <stdint.h>

#define API_STOPS      16  /* strings */
#define API_STOP_BYTES 256 /* of a string, at most */

struct api_stops { /* of a request */
    uint32_t n;
    struct api_stop_text {
        uint16_t n;
        char p[API_STOP_BYTES];
    } at[];
};

struct api_stop { /* of one text; all zero: nothing came yet */
    char held[API_STOP_BYTES];
    uint32_t n_held;
    bool hit;
    uint32_t which; /* of api_stops, where hit */
};

/* n more bytes: what is certain to stay is appended to out. False: a stop string is complete; the text has
 * ended, and what comes later is dropped. stops may be NULL. */
bool api_stop_feed(struct api_stop *s, const struct api_stops *stops, const char *p, size_t n,
                   struct api_text *out);
/* The text has ended by itself: what was held back is appended to out. */
void api_stop_flush(struct api_stop *s, struct api_text *out);

#endif
