/* POST /slots/ID?action=save | restore | erase, as llama-server has it: each is a request of the engine
 * (stator_slot_submit), and is answered when that has ended.
 *
 * Lives: as api_vector_jobs.h. Thread: the loop's. Memory: the pool. */
#ifndef STATOR_SERVER_API_SLOTS_H
#define STATOR_SERVER_API_SLOTS_H

#include "server/openai/api_jobs.h"

struct api_slot_job;

/* The route's function; context is the api. */
http_function api_slots_answer;
/* False: the event is of no such job. */
bool api_slots_event(struct api *api, const stator_event *ev);
/* Ends what has taken longer than longest_ns (0: no limit). */
void api_slots_tick(struct api *api, uint64_t now_ns, uint64_t longest_ns);
void api_slots_cancel_all(struct api *api, const char *why);
uint32_t api_slots_count(const struct api *api);
/* Request number `index` of these jobs, as api_get_job. */
bool api_slots_get(const struct api *api, uint32_t index, struct api_job *out);

#endif
