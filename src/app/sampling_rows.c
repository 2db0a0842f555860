#include "app/sampling_rows.h"

stator_sampling sampling_rows_get(const struct sampling_rows *s) {
    stator_sampling out = {.temperature = (float)s->temperature,
                           .top_k = (uint32_t)s->top_k,
                           .top_p = (float)s->top_p,
                           .min_p = (float)s->min_p,
                           .repeat_penalty = (float)s->repeat_penalty,
                           .presence_penalty = (float)s->presence_penalty,
                           .frequency_penalty = (float)s->frequency_penalty,
                           .seed = s->seed};
    out.has = (s->has_temperature ? STATOR_HAS_TEMPERATURE : 0) | (s->has_top_k ? STATOR_HAS_TOP_K : 0) |
              (s->has_top_p ? STATOR_HAS_TOP_P : 0) | (s->has_min_p ? STATOR_HAS_MIN_P : 0) |
              (s->has_repeat_penalty ? STATOR_HAS_REPEAT_PENALTY : 0) |
              (s->has_presence_penalty ? STATOR_HAS_PRESENCE_PENALTY : 0) |
              (s->has_frequency_penalty ? STATOR_HAS_FREQUENCY_PENALTY : 0) |
              (s->has_seed ? STATOR_HAS_SEED : 0);
    return out;
}
