/* The one vector that an EMBED request has of its rows. It is made in the first row of the request's places
 * for rows (engine_rows). Thread: the engine's. */
#ifndef STATOR_ENGINE_POOLING_H
#define STATOR_ENGINE_POOLING_H

#include "engine/engine.h"

extern const char pooling_not_finite[]; /* why such a request fails */

/* Whether the rows of all tokens go into the vector. */
bool pooling_takes_all(const struct stator *s, const struct engine_request *r);
/* Whether all tokens of the prompt go into one step. */
bool pooling_is_whole(const struct stator *s);
/* Takes a row, in the order of positions. True: it was the last one. */
bool pooling_take(const struct stator *s, struct engine_request *r, const float *row);
/* The vector is finished: the mean, cut to the wanted dimensions, of length 1 if it is an embedding. Values.
 */
uint32_t pooling_end(const struct stator *s, struct engine_request *r);

#endif
