/* Fuzzes the config parser: the text of a file, followed, after the first byte 1 if there is one, by a --set.
 * What was accepted must be written and read back equal. devices.facts is parsed too. */
#include "fuzz.h"

#include "base/check.h"
#include "config/config.h"
#include "config/config_table.h"
#include "plan/parts/device_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"config", "with --set", "facts", NULL};

static void round_trip(const struct config *c) {
    static char value[CONFIG_VALUE];
    static char set[CONFIG_VALUE + 64];
    static struct config again;
    char origin[64];
    stator_error e;
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        enum config_key key = (enum config_key)i;
        const struct config_row *row = &config_table[i];
        (void)config_origin_text(c, key, origin, sizeof origin);
        config_table_value(c, key, value);
        if (key == CONFIG_MODEL_PATH || key == CONFIG_DEVICES_SPLIT || strncmp(row->name, "kv_", 3) == 0)
            continue; /* checked together with other keys */
        int n =
            strcmp(row->section, "model") == 0
                ? snprintf(set, sizeof set, "model={path=\"m\";%s=%s}", row->name, value)
                : snprintf(set, sizeof set, "model={path=\"m\"} %s={%s=%s%s}", row->section, row->name, value,
                           strcmp(row->section, "memory") == 0 && key != CONFIG_MEMORY_BATCH ? ";batch=65536"
                                                                                             : "");
        stator_status st = config_parse(set, (size_t)n, "again", "/", NULL, 0, &again, &e);
        CHECK(st == STATOR_OK || key == CONFIG_MEMORY_STAGING || key == CONFIG_MEMORY_HOST_LIMIT);
        if (st != STATOR_OK)
            continue;
        char *first = strdup(value);
        CHECK(strcmp(config_table_value(&again, key, value), first) == 0);
        free(first);
    }
}

static void parse_facts(const struct config *c) {
    struct device_facts facts[DEVICE_SPEC_MAX];
    uint32_t n = 0;
    stator_error e = {0};
    stator_status st = device_spec_parse_list(c->devices.facts, "devices.facts:", facts, &n, &e);
    CHECK(st == STATOR_OK || (st == STATOR_USAGE && strlen(e.text) > 0));
    if (st == STATOR_OK && n > 0)
        fuzz_accepted("facts");
    for (uint32_t i = 0; st == STATOR_OK && i < n; i++)
        CHECK(facts[i].memory >= 1 << 20 && device_spec_find(facts, n, facts[i].name) == &facts[i]);
}

/* "fuzz:LINE: libconfig: syntax error". In any other place these are words of the input, shown to the user.
 */
static bool is_libconfigs(const char *text) {
    if (strncmp(text, "fuzz:", 5) != 0)
        return false;
    const char *at = text + 5 + strspn(text + 5, "0123456789");
    static const char wrong[] = ": libconfig: syntax error";
    return strncmp(at, wrong, sizeof wrong - 1) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct config c;
    stator_error e;
    char set[256] = "";
    const uint8_t *one = memchr(data, 1, size);
    size_t n = one != NULL ? (size_t)(one - data) : size;
    if (one != NULL)
        snprintf(set, sizeof set, "%.*s", (int)(size - n - 1 < 250 ? size - n - 1 : 250),
                 (const char *)one + 1);
    const char *sets[] = {set};
    if (config_parse((const char *)data, n, "fuzz", "/folder", sets, one != NULL, &c, &e) == STATOR_OK) {
        fuzz_accepted(one != NULL ? "with --set" : "config");
        CHECK(c.model.path[0] == '/' && c.memory.sequences <= c.memory.batch);
        round_trip(&c);
        parse_facts(&c);
    } else {
        CHECK(e.code == STATOR_USAGE && strlen(e.text) > 0);
        CHECK(!is_libconfigs(e.text)); /* config_scan finds them all: libconfig leaks */
    }
    return 0;
}
