#include "server/openai/api_settings.h"

#include "base/json_writer.h"

static bool has(const stator_sampling *asked, uint32_t bit) {
    return asked != NULL && (asked->has & bit) != 0;
}

static void put_count(struct json *j, const char *name, uint64_t v, uint64_t special) {
    if (v == special)
        json_put_i64(j, name, -1);
    else
        json_put_u64(j, name, v);
}

void api_settings_put_sampling(struct json *j, const struct config_sampling *config,
                               const stator_sampling *asked, uint32_t which) {
#define SAMPLING_NUMBER(name, NAME, ...)                                                                     \
    if ((which & STATOR_HAS_##NAME) != 0 && has(asked, STATOR_HAS_##NAME))                                   \
        json_put_float(j, #name, asked->name);                                                               \
    else if ((which & STATOR_HAS_##NAME) != 0)                                                               \
        json_put_double(j, #name, config->name);
#define WHOLE(name, NAME, special)                                                                           \
    if ((which & STATOR_HAS_##NAME) != 0)                                                                    \
        put_count(j, #name, has(asked, STATOR_HAS_##NAME) ? asked->name : config->name, special);
#define SAMPLING_COUNT(name, NAME, ...)  WHOLE(name, NAME, UINT64_MAX)
#define SAMPLING_WINDOW(name, NAME, ...) WHOLE(name, NAME, UINT32_MAX)
#define SAMPLING_SEED(name, NAME, ...)   WHOLE(name, NAME, CONFIG_SEED_RANDOM)
#include "config/sampling.def"
#undef WHOLE
}
