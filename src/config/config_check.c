#include "config/config_check.h"

#include "config/config_table.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE 256 /* bytes of "FILE:LINE" in errors */

struct check {
    struct config *c;
    const char *name;
    stator_error *e;
};

bool config_check_trim(const char *text, size_t n, char *out, size_t capacity) {
    while (n > 0 && isspace((unsigned char)*text)) {
        text++;
        n--;
    }
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    if (n >= capacity)
        return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

static stator_status problem(const struct check *p, enum config_key key, const char *what) {
    char origin[WHERE];
    const struct config_row *row = &config_table[key];
    config_origin_text(p->c, key, origin, sizeof origin);
    return error_set(p->e, STATOR_USAGE, "%s: %s.%s (%s) %s", p->name, row->section, row->name, origin, what);
}

/* The next item of a list, trimmed, into out; false at the end. */
static bool next_item(const char **at, char *out, size_t capacity, bool *too_long) {
    if (*at == NULL)
        return false;
    const char *comma = strchr(*at, ',');
    size_t n = comma != NULL ? (size_t)(comma - *at) : strlen(*at);
    *too_long = !config_check_trim(*at, n, out, capacity);
    *at = comma != NULL ? comma + 1 : NULL;
    return true;
}

/* A GPU by its PCI address or a part of its model's name: "level_zero:0000:03:00.0", "level_zero:Arc A770".
 * The device's room looks for it. */
static bool gpu_name(const char *item, char *out) {
    static const char back_end[] = "level_zero:";
    size_t n = sizeof back_end - 1;
    if (strncmp(item, back_end, n) != 0 || item[n] == '\0' ||
        item[n + strspn(item + n, "0123456789")] == '\0')
        return false;
    for (const char *c = item + n; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            return false;
    int length = snprintf(out, CONFIG_NAME, "%s", item);
    return length > 0 && length < CONFIG_NAME;
}

/* "cpu" is "cpu:0"; names in lower case, an index below 1000. */
static bool device_name(const char *item, char *out) {
    if (gpu_name(item, out))
        return true;
    size_t letters = strspn(item, "abcdefghijklmnopqrstuvwxyz0123456789_");
    const char *index = item + letters;
    if (letters == 0)
        return false;
    size_t digits = *index == ':' ? strspn(index + 1, "0123456789") : 0;
    if (*index != '\0' && (digits == 0 || digits > 3 || index[1 + digits] != '\0'))
        return false;
    int n = snprintf(out, CONFIG_NAME, "%.*s:%lu", (int)letters, item,
                     digits > 0 ? strtoul(index + 1, NULL, 10) : 0ul);
    return n > 0 && n < CONFIG_NAME;
}

static stator_status check_devices(struct check *p) {
    struct config *c = p->c;
    const char *at = c->devices.use;
    char item[CONFIG_NAME] = "";
    bool too_long = false;
    c->devices.n = 0;
    if (strcmp(c->devices.use, "auto") == 0)
        return STATOR_OK;
    while (next_item(&at, item, sizeof item, &too_long)) {
        if (c->devices.n == CONFIG_MAX_DEVICES)
            return problem(p, CONFIG_DEVICES_USE, "names more than 16 devices");
        char *name = c->devices.list[c->devices.n].name;
        if (too_long || strcmp(item, "auto") == 0 || !device_name(item, name))
            return problem(
                p, CONFIG_DEVICES_USE,
                "is not a list of devices; expected \"auto\" alone or names such as \"level_zero:0, cpu:0\"");
        for (uint32_t i = 0; i < c->devices.n; i++)
            if (strcmp(c->devices.list[i].name, name) == 0)
                return problem(p, CONFIG_DEVICES_USE, "names a device twice");
        c->devices.n++;
    }
    return STATOR_OK;
}

/* "a = cpu:0; b = cpu:0, cpu:1": devices.list is that of all stages, one after the other. */
static stator_status check_stages(struct check *p) {
    struct config *c = p->c;
    char text[CONFIG_LIST];
    c->cluster.n = 0;
    if (strcmp(c->cluster.stages, "none") == 0 || c->cluster.stages[0] == '\0')
        return STATOR_OK;
    if (strcmp(c->devices.use, "auto") != 0)
        return problem(p, CONFIG_CLUSTER_STAGES,
                       "and devices.use are both given: the devices of all hosts stand in cluster.stages");
    memcpy(text, c->cluster.stages, sizeof text);
    c->devices.n = 0;
    for (char *at = text, *next = NULL; at != NULL; at = next) {
        next = strchr(at, ';');
        if (next != NULL)
            *next++ = '\0';
        char *equals = strchr(at, '=');
        char item[CONFIG_NAME] = "";
        if (c->cluster.n == CONFIG_MAX_STAGES)
            return problem(p, CONFIG_CLUSTER_STAGES, "has more than 8 stages");
        char *host = c->cluster.stage[c->cluster.n].host;
        if (equals == NULL || !config_check_trim(at, (size_t)(equals - at), host, 16) || host[0] == '\0' ||
            host[strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '\0')
            return problem(p, CONFIG_CLUSTER_STAGES,
                           "is not a list of stages; expected \"HOST = DEVICE, ..; HOST = ..\" with names of "
                           "hosts of at most 15 small letters, digits and _");
        for (uint32_t i = 0; i < c->cluster.n; i++)
            if (strcmp(c->cluster.stage[i].host, host) == 0)
                return problem(p, CONFIG_CLUSTER_STAGES, "names a host twice");
        c->cluster.stage[c->cluster.n].first = c->devices.n;
        const char *devices = equals + 1;
        bool too_long = false;
        while (next_item(&devices, item, sizeof item, &too_long)) {
            if (c->devices.n == CONFIG_MAX_DEVICES)
                return problem(p, CONFIG_CLUSTER_STAGES, "names more than 16 devices");
            char *name = c->devices.list[c->devices.n].name;
            if (too_long || strcmp(item, "auto") == 0 || !device_name(item, name) || strlen(name) > 15)
                return problem(p, CONFIG_CLUSTER_STAGES,
                               "has a stage without devices by name, such as \"cpu:0\" or \"level_zero:1\"");
            for (uint32_t i = c->cluster.stage[c->cluster.n].first; i < c->devices.n; i++)
                if (strcmp(c->devices.list[i].name, name) == 0)
                    return problem(p, CONFIG_CLUSTER_STAGES, "names a device of a host twice");
            c->devices.n++;
        }
        c->cluster.stage[c->cluster.n].n = c->devices.n - c->cluster.stage[c->cluster.n].first;
        c->cluster.n++;
    }
    return STATOR_OK;
}

static stator_status check_tensor(struct check *p) {
    const struct config *c = p->c;
    if (c->cluster.n > 0 && c->devices.n == c->cluster.n)
        return problem(
            p, CONFIG_DEVICES_SPLIT,
            "is \"tensor\": the devices of a host divide its layers, and no host of cluster.stages "
            "has two devices; take \"auto\"");
    if (c->devices.n < 2)
        return problem(p, CONFIG_DEVICES_SPLIT,
                       "is \"tensor\": that needs two devices or more by name: set devices.use");
    return STATOR_OK;
}

/* The next whole number of a list; 0: it is none. *more: there was an item. */
static uint32_t next_number(const char **at, bool *more) {
    char item[CONFIG_NAME] = "";
    bool too_long = false;
    *more = next_item(at, item, sizeof item, &too_long);
    const size_t digits = strspn(item, "0123456789");
    return *more && !too_long && digits > 0 && digits <= 6 && item[digits] == '\0'
               ? (uint32_t)strtoul(item, NULL, 10)
               : 0;
}

static stator_status check_split(struct check *p) {
    struct config *c = p->c;
    const char *at = c->devices.split;
    bool more = true;
    c->devices.n_shares = 0;
    static const char tensor[] = "tensor";
    const size_t n = sizeof tensor - 1;
    c->devices.tensor = strncmp(at, tensor, n) == 0 && (at[n] == '\0' || at[n] == ':');
    stator_status st = c->devices.tensor ? check_tensor(p) : STATOR_OK;
    if (st != STATOR_OK || strcmp(at, "auto") == 0 || strcmp(at, tensor) == 0)
        return st;
    at += c->devices.tensor ? n + 1 : 0;
    for (uint32_t share = next_number(&at, &more); more; share = next_number(&at, &more)) {
        if (share == 0 || c->devices.n_shares == CONFIG_MAX_DEVICES)
            return problem(p, CONFIG_DEVICES_SPLIT,
                           "is not \"auto\", \"tensor\" or one whole number from 1 to 999999 per device, "
                           "such as \"3,1\" or \"tensor:3,1\"");
        c->devices.share[c->devices.n_shares++] = share;
    }
    if (c->devices.n == 0)
        return problem(p, CONFIG_DEVICES_SPLIT,
                       "needs the devices by name: set devices.use, with one name per number");
    if (c->devices.n != c->devices.n_shares)
        return problem(p, CONFIG_DEVICES_SPLIT,
                       "and devices.use differ in length: give one number per device");
    return STATOR_OK;
}

/* Over several hosts, whose devices are the groups. One group: nothing was said of them. */
static stator_status check_host_groups(const struct check *p) {
    struct config *c = p->c;
    if (c->devices.n_groups != 1 && c->devices.n_groups != c->cluster.n)
        return problem(p, CONFIG_DEVICES_GROUPS,
                       "has another number of groups than cluster.stages has hosts, and the devices of each "
                       "host are one group: leave it out, or give one whole number per host");
    c->devices.n_groups = c->cluster.n;
    return STATOR_OK;
}

static stator_status check_groups(struct check *p) {
    struct config *c = p->c;
    const char *at = c->devices.groups;
    bool more = true;
    c->devices.n_groups = c->devices.n_group_layers = 0;
    for (uint32_t n = next_number(&at, &more); more; n = next_number(&at, &more)) {
        if (n == 0 || c->devices.n_group_layers == CONFIG_MAX_DEVICES)
            return problem(p, CONFIG_DEVICES_GROUPS,
                           "is not a number of groups, such as \"2\", or one whole number from 1 to 999999 "
                           "per group, such as \"20,12\"");
        c->devices.group_layers[c->devices.n_group_layers++] = n;
    }
    c->devices.n_groups = c->devices.n_group_layers;
    if (c->devices.n_groups <= 1) { /* a number of groups */
        c->devices.n_groups = c->devices.n_groups == 1 ? c->devices.group_layers[0] : 1;
        c->devices.n_group_layers = 0;
    }
    if (c->devices.tensor && c->cluster.n > 0)
        return check_host_groups(p);
    if (c->devices.n_groups == 1)
        return STATOR_OK;
    if (!c->devices.tensor)
        return problem(p, CONFIG_DEVICES_GROUPS,
                       "is for devices that divide each layer: set devices.split = \"tensor\" too");
    if (c->devices.n % c->devices.n_groups != 0 || c->devices.n / c->devices.n_groups < 2)
        return problem(p, CONFIG_DEVICES_GROUPS,
                       "does not part the devices of devices.use into groups of one size, of two devices or "
                       "more each (one device each: leave it out and set devices.split = \"auto\")");
    return STATOR_OK;
}

static stator_status check_kv(struct check *p) {
    struct config *c = p->c;
    static const enum config_key both[] = {CONFIG_MEMORY_KV_TYPE_K, CONFIG_MEMORY_KV_TYPE_V};
    const struct config_origin kv = c->origin[CONFIG_MEMORY_KV_TYPE];
    for (size_t i = 0; i < 2; i++) {
        const struct config_origin one = c->origin[both[i]];
        if (kv.source != CONFIG_FROM_DEFAULT && one.source == kv.source)
            return problem(p, both[i],
                           "and memory.kv_type are both given; give kv_type, or kv_type_k and kv_type_v");
    }
    if (c->origin[both[0]].source == CONFIG_FROM_DEFAULT || c->origin[both[0]].source == CONFIG_FROM_DERIVED)
        c->memory.kv_type_k = c->memory.kv_type;
    if (c->origin[both[1]].source == CONFIG_FROM_DEFAULT || c->origin[both[1]].source == CONFIG_FROM_DERIVED)
        c->memory.kv_type_v = c->memory.kv_type;
    return STATOR_OK;
}

static stator_status check_speculation(const struct check *p) {
    struct config *c = p->c;
    const uint64_t rows = c->speculation.tokens + 1;
    if (c->speculation.mode == CONFIG_SPECULATION_OFF)
        return STATOR_OK;
    if (c->speculation.mode == CONFIG_SPECULATION_MTP && c->cluster.n > 0)
        return problem(p, CONFIG_SPECULATION_MODE,
                       "is \"mtp\": a run over several hosts (cluster.stages) does not compute the block of "
                       "nextn; take \"ngram\" or \"off\"");
    if (c->speculation.mode == CONFIG_SPECULATION_DRAFT && c->speculation.model[0] == '\0')
        return problem(p, CONFIG_SPECULATION_MODE,
                       "is \"draft\": that needs speculation.model, the file of the draft model");
    if (c->speculation.mode == CONFIG_SPECULATION_DRAFT && c->cluster.n > 0)
        return problem(p, CONFIG_SPECULATION_MODE,
                       "is \"draft\": a run over several hosts (cluster.stages) has no draft model; take "
                       "\"ngram\" or \"off\"");
    char device[CONFIG_NAME] = "";
    if (c->speculation.device[0] != '\0' && !device_name(c->speculation.device, device))
        return problem(p, CONFIG_SPECULATION_DEVICE,
                       "is not the name of a device; expected one such as \"level_zero:0\" or \"cpu\"");
    memcpy(c->speculation.device, device, sizeof device);
    if (rows > c->memory.batch)
        return problem(p, CONFIG_SPECULATION_TOKENS,
                       "and the token before them are more than memory.batch: raise batch or lower it");
    if (c->memory.logits_rows != 0 && rows > c->memory.logits_rows)
        return problem(p, CONFIG_SPECULATION_TOKENS,
                       "and the token before them are more than memory.logits_rows: raise that, or leave it "
                       "\"auto\"");
    return STATOR_OK;
}

static stator_status check_vision(const struct check *p) {
    char device[CONFIG_NAME] = "auto";
    if (strcmp(p->c->vision.device, device) != 0 && !device_name(p->c->vision.device, device))
        return problem(p, CONFIG_VISION_DEVICE,
                       "is not the name of a device; expected \"auto\", or one such as \"level_zero:0\" or "
                       "\"cpu\"");
    memcpy(p->c->vision.device, device, sizeof device);
    return STATOR_OK;
}

stator_status config_check(struct config *c, const char *name, stator_error *e) {
    struct check *p = &(struct check){.c = c, .name = name, .e = e};
    if (c->model.path[0] == '\0')
        return error_set(
            p->e, STATOR_USAGE,
            "%s: model.path is missing; add model = { path = \"FILE.gguf\" } or --set model.path=FILE.gguf",
            p->name);
    stator_status st = check_devices(p);
    if (st == STATOR_OK)
        st = check_stages(p);
    if (st == STATOR_OK)
        st = check_split(p);
    if (st == STATOR_OK)
        st = check_groups(p);
    if (st == STATOR_OK)
        st = check_kv(p);
    if (st == STATOR_OK)
        st = check_vision(p);
    if (st != STATOR_OK)
        return st;
    if (c->memory.sequences > c->memory.batch)
        return problem(
            p, CONFIG_MEMORY_SEQUENCES,
            "is larger than memory.batch: a step takes a token of every sequence; raise batch or lower it");
    if (c->memory.logits_rows > c->memory.batch)
        return problem(
            p, CONFIG_MEMORY_LOGITS_ROWS,
            "is larger than memory.batch: a step has no more rows than tokens; raise batch or lower it");
    if (c->memory.host_limit != 0 && c->memory.staging >= c->memory.host_limit)
        return problem(p, CONFIG_MEMORY_STAGING,
                       "leaves nothing of memory.host_limit; raise that or lower it");
    if (c->models.n > 1 && c->cluster.n > 0)
        return problem(p, CONFIG_CLUSTER_STAGES, "goes with one model: this config has a list of models");
    if (c->models.n > 1 && c->server.alias[0] != '\0')
        return problem(p, CONFIG_SERVER_ALIAS, "goes with one model: in a list of models each has its name");
    if (c->memory.expert_slots > 0 && c->memory.experts == CONFIG_EXPERTS_DEVICE)
        return problem(
            p, CONFIG_MEMORY_EXPERT_SLOTS,
            "is for experts that the processors compute: set memory.experts = \"host\" or \"auto\" too");
    if (c->memory.expert_window > 0 && c->memory.expert_window != CONFIG_WINDOW_AUTO &&
        c->memory.experts == CONFIG_EXPERTS_DEVICE)
        return problem(
            p, CONFIG_MEMORY_EXPERT_WINDOW,
            "is for experts that the processors compute: set memory.experts = \"host\" or \"auto\" too");
    if (c->memory.expert_window > c->memory.batch && c->memory.expert_window != CONFIG_WINDOW_AUTO)
        return problem(p, CONFIG_MEMORY_EXPERT_WINDOW,
                       "is larger than memory.batch: no step has so many tokens; raise batch or lower it (0: "
                       "no window)");
    if (c->cache.kv_dir[0] != '\0' && !c->server.prefix_cache)
        return problem(p, CONFIG_CACHE_KV_DIR, "needs server.prefix_cache = true");
    return check_speculation(p);
}
