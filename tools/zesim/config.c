/* The configuration: key=value items, separated by commas in $ZESIM or by lines in the file that
 * $ZESIM_CONFIG names (README.md lists the keys). Anything that is not understood ends the process: a test
 * must not run on a wrong one. */
#include "sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sim sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .execute_token = PTHREAD_MUTEX_INITIALIZER};

static _Noreturn void wrong(const char *item, const char *why) {
    fatal("configuration: \"%s\": %s", item, why);
}

/* "16GiB", "19.3GB" is not: whole numbers only; K, M, G with iB (1024) or B (1000). */
static uint64_t parse_size(const char *item, const char *text) {
    static const struct {
        const char *unit;
        uint64_t factor;
    } units[] = {{"", 1},      {"B", 1},        {"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30},
                 {"KB", 1000}, {"MB", 1000000}, {"GB", 1000000000}};
    char *end;
    errno = 0;
    uint64_t n = strtoull(text, &end, 0), value;
    if (end == text || text[0] == '-' || errno != 0)
        wrong(item, "a whole number is expected");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].unit) == 0) {
            if (__builtin_mul_overflow(n, units[i].factor, &value))
                wrong(item, "the number is too large");
            return value;
        }
    wrong(item, "unknown unit; expected B, KiB, MiB, GiB, KB, MB or GB");
}

/* ---- keys of a device */
static const struct {
    const char *key;
    size_t at;
    uint64_t least, most;
} device_keys[] = {
#define KEY(name, least, most)                                                                               \
    { #name, offsetof(struct device, name), least, most }
    KEY(memory, SIM_DEVICE_GRANULE, 1ull << 44),
    KEY(max_alloc, SIM_DEVICE_GRANULE, 1ull << 44),
    KEY(fail_above, 1, UINT64_MAX),
    KEY(taken, 0, 1ull << 44),
    KEY(local_memory, 0, 1 << 20),
    KEY(vendor_id, 0, 0xffff),
    KEY(device_id, 0, 0xffff),
    KEY(slices, 1, 64),
    KEY(subslices, 1, 64),
    KEY(eus, 1, 64),
    KEY(threads, 1, 64),
    KEY(simd, 1, 64),
    KEY(clock_mhz, 1, 100000),
    KEY(bus_bits, 1, 65536),
    KEY(memory_mhz, 1, 100000),
    KEY(bandwidth, 0, 100000),
    KEY(timer_hz, 1, 1000000000),
    KEY(timestamp_bits, 8, 64),
    KEY(max_group, 1, 4096),
    KEY(sub_group, 1, 64),
    KEY(copy_engines, 0, 16),
    KEY(dpas, 0, 1),
    KEY(usable_memory, 0, 1),
    KEY(host_rate, 0, 1ull << 44),
#undef KEY
};

static void set_name(struct device *d, const char *item, const char *value) {
    if (strlen(value) >= sizeof d->name)
        wrong(item, "the name is too long");
    strcpy(d->name, value);
}

static void set_pci(struct device *d, const char *item, const char *value) {
    unsigned domain, bus, device, function;
    int used = 0;
    if (sscanf(value, "%4x:%2x:%2x.%1u%n", &domain, &bus, &device, &function, &used) != 4 ||
        value[used] != '\0')
        wrong(item, "a PCI address such as 0000:03:00.0 is expected");
    d->pci_domain = domain, d->pci_bus = bus, d->pci_device = device, d->pci_function = function;
}

static void set_sub_groups(struct device *d, const char *item, const char *value) {
    d->n_sub_groups = 0;
    for (const char *p = value;; p++) {
        char *end;
        unsigned long n = strtoul(p, &end, 10);
        if (end == p || n == 0 || n > 64 || d->n_sub_groups == 8 || (*end != '/' && *end != '\0'))
            wrong(item, "sub-group sizes such as 8/16/32 are expected");
        d->sub_groups[d->n_sub_groups++] = (uint32_t)n;
        if (*end == '\0')
            return;
        p = end;
    }
}

static void set_taken_later(struct device *d, const char *item, const char *value) {
    char size[64];
    const char *at = strchr(value, '@');
    if (at == NULL || (size_t)(at - value) >= sizeof size)
        wrong(item, "SIZE@N is expected: so much memory is taken by others at the N-th allocation");
    snprintf(size, sizeof size, "%.*s", (int)(at - value), value);
    d->taken_later = parse_size(item, size);
    d->taken_at = parse_size(item, at + 1);
}

static bool set_device(struct device *d, const char *item, const char *key, const char *value) {
    if (strcmp(key, "name") == 0)
        set_name(d, item, value);
    else if (strcmp(key, "pci") == 0)
        set_pci(d, item, value);
    else if (strcmp(key, "sub_groups") == 0)
        set_sub_groups(d, item, value);
    else if (strcmp(key, "taken_later") == 0)
        set_taken_later(d, item, value);
    else {
        size_t i = 0, n = sizeof device_keys / sizeof device_keys[0];
        while (i < n && strcmp(device_keys[i].key, key) != 0)
            i++;
        if (i == n)
            return false;
        uint64_t v = parse_size(item, value);
        if (v < device_keys[i].least || v > device_keys[i].most)
            wrong(item, "the value is out of range");
        memcpy((char *)d + device_keys[i].at, &v, sizeof v);
    }
    return true;
}

static void set_defaults(struct device *d, uint32_t i) {
    objects_add(&d->object, KIND_DEVICE);
    objects_add(&d->memory_module, KIND_MEMORY_MODULE);
    d->index = i;
    snprintf(d->name, sizeof d->name, "Simulated GPU %u", i);
    d->memory = 16ull << 30, d->max_alloc = (4ull << 30) - 65536, d->fail_above = UINT64_MAX;
    d->local_memory = 65536;
    d->pci_bus = 3 + i;
    d->vendor_id = 0x8086, d->device_id = 0x56a0;
    d->slices = 8, d->subslices = 4, d->eus = 16, d->threads = 8, d->simd = 8;
    d->clock_mhz = 2400, d->bus_bits = 256, d->memory_mhz = 2187;
    d->timer_hz = 19200000, d->timestamp_bits = 32;
    d->max_group = 1024, d->sub_group = 16, d->copy_engines = 1, d->dpas = 1, d->usable_memory = 1;
    d->n_sub_groups = 3, d->sub_groups[0] = 8, d->sub_groups[1] = 16, d->sub_groups[2] = 32;
    for (uint32_t j = 0; j < SIM_MAX_DEVICES; j++)
        d->peer[j].kind = PEER_OK;
}

/* ---- peers and faults */
static struct peer parse_peer(const char *item, const char *value) {
    static const char *const kinds[] = {"none", "ok", "push", "corrupt", "fail", "slow"};
    const char *colon = strchr(value, ':');
    size_t n = colon != NULL ? (size_t)(colon - value) : strlen(value);
    struct peer p = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i]) == n && strncmp(value, kinds[i], n) == 0) {
            p.kind = (enum peer_kind)i;
            if (p.kind == PEER_SLOW && (colon == NULL || (p.rate = parse_size(item, colon + 1)) == 0))
                wrong(item, "slow needs bytes per second: slow:10MB");
            if ((p.kind == PEER_CORRUPT || p.kind == PEER_FAIL) && colon != NULL)
                p.from = parse_size(item, colon + 1);
            return p;
        }
    wrong(item, "expected none, ok, push, corrupt[:BYTES], fail[:BYTES] or slow:BYTES_PER_SECOND");
}

/* "", or ".A.B": device A reaches the memory of B. */
static void set_peer(const char *item, const char *pair, const char *value) {
    unsigned a = 0, b = 0;
    int used = 0;
    struct peer p = parse_peer(item, value);
    if (pair[0] == '\0') {
        for (a = 0; a < sim.n_devices; a++)
            for (b = 0; b < sim.n_devices; b++)
                sim.device[a].peer[b] = p;
        return;
    }
    if (sscanf(pair, ".%u.%u%n", &a, &b, &used) != 2 || pair[used] != '\0')
        wrong(item, "expected peer=.. or peer.A.B=..");
    if (a >= sim.n_devices || b >= sim.n_devices)
        wrong(item, "there is no such device");
    sim.device[a].peer[b] = p;
}

static const struct {
    const char *name;
    ze_result_t result;
} results[] = {
#define RESULT(name)                                                                                         \
    { #name, ZE_RESULT_##name }
    RESULT(NOT_READY),
    RESULT(ERROR_DEVICE_LOST),
    RESULT(ERROR_OUT_OF_HOST_MEMORY),
    RESULT(ERROR_OUT_OF_DEVICE_MEMORY),
    RESULT(ERROR_MODULE_BUILD_FAILURE),
    RESULT(ERROR_MODULE_LINK_FAILURE),
    RESULT(ERROR_NOT_AVAILABLE),
    RESULT(ERROR_UNINITIALIZED),
    RESULT(ERROR_UNSUPPORTED_VERSION),
    RESULT(ERROR_UNSUPPORTED_FEATURE),
    RESULT(ERROR_UNSUPPORTED_SIZE),
    RESULT(ERROR_INVALID_ARGUMENT),
    RESULT(ERROR_UNKNOWN),
#undef RESULT
};

static void parse_action(struct fault *f, const char *item, const char *text) {
    bool submits = f->call == CALL_zeCommandQueueExecuteCommandLists || f->call >= CALL_exec_copy;
    char *end;
    if (strcmp(text, "lost") == 0 || strcmp(text, "hang") == 0) {
        if (!submits)
            wrong(item, "lost and hang belong to zeCommandQueueExecuteCommandLists, exec.copy, exec.fill or "
                        "exec.kernel");
        f->action = text[0] == 'l' ? ACTION_LOST : ACTION_HANG;
        return;
    }
    if (strncmp(text, "mark:", 5) == 0) {
        f->action = ACTION_MARK, f->mark = strdup(text + 5);
        return;
    }
    f->action = ACTION_RETURN;
    if (f->call >= CALL_exec_copy)
        wrong(item, "an executing command returns nothing: use lost, hang or mark:NAME");
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (strcmp(text, results[i].name) == 0) {
            f->result = results[i].result;
            return;
        }
    f->result = (ze_result_t)strtoul(text, &end, 16);
    if (end == text || *end != '\0' || f->result == ZE_RESULT_SUCCESS)
        wrong(item, "expected lost, hang, mark:NAME, a result such as ERROR_OUT_OF_DEVICE_MEMORY, or its "
                    "number in hex");
}

/* ENTRY@[MARK/]N:ACTION with N a number, N+ (from it on) or *. */
static void add_fault(const char *item, const char *value) {
    char entry[128], count[128];
    int used = 0;
    if (sscanf(value, "%127[^@]@%127[^:]:%n", entry, count, &used) != 2 || used == 0)
        wrong(item, "expected fault=ENTRY@N:ACTION");
    struct fault f = {.call = calls_find(entry), .first = 1, .last = UINT64_MAX, .armed = true};
    if (f.call < 0)
        wrong(item, "no such entry point is implemented here");
    const char *n = strchr(count, '/');
    if (n != NULL) {
        f.after = strndup(count, (size_t)(n - count));
        f.armed = false;
    }
    n = n != NULL ? n + 1 : count;
    if (strcmp(n, "*") != 0) {
        char *end;
        f.first = strtoull(n, &end, 10);
        f.last = *end == '+' ? UINT64_MAX : f.first;
        if (end == n || f.first == 0 || (*end != '\0' && strcmp(end, "+") != 0))
            wrong(item, "expected a count: 3, 3+ or *");
    }
    parse_action(&f, item, value + used);
    sim.fault = realloc(sim.fault, (sim.n_faults + 1) * sizeof f);
    if (sim.fault == NULL)
        fatal("out of memory for faults");
    sim.fault[sim.n_faults++] = f;
}

/* ---- all keys */
static uint64_t one_of(const char *item, const char *value, const char *const *words, size_t n,
                       const char *why) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(value, words[i]) == 0)
            return i;
    wrong(item, why);
}

static void set_all(const char *item, const char *key, const char *value) {
    static const char *const orders[] = {"forward", "reverse", "shuffle"}, *const stricts[] = {"error",
                                                                                               "abort"};
    unsigned i;
    int used = 0;
    if (strcmp(key, "strict") == 0)
        sim.abort_on_violation = one_of(item, value, stricts, 2, "expected error or abort") == 1;
    else if (strcmp(key, "order") == 0)
        sim.order = (enum order)one_of(item, value, orders, 3, "expected forward, reverse or shuffle");
    else if (strcmp(key, "seed") == 0)
        sim.seed = parse_size(item, value);
    else if (strcmp(key, "poison") == 0)
        sim.poison = parse_size(item, value);
    else if (strcmp(key, "slack") == 0)
        sim.slack = parse_size(item, value);
    else if (strcmp(key, "host_memory") == 0)
        sim.host_memory = parse_size(item, value);
    else if (strcmp(key, "keep_files") == 0)
        sim.keep_files = parse_size(item, value) != 0;
    else if (strcmp(key, "log") == 0)
        sim.log = strdup(value);
    else if (strcmp(key, "cache") == 0)
        sim.cache = strdup(value);
    else if (strncmp(key, "peer", 4) == 0)
        set_peer(item, key + 4, value);
    else if (strcmp(key, "fault") == 0)
        add_fault(item, value);
    else if (sscanf(key, "gpu%u.%n", &i, &used) == 1 && used != 0) {
        if (i >= sim.n_devices)
            wrong(item, "there is no such device");
        if (!set_device(&sim.device[i], item, key + used, value))
            wrong(item, "unknown key of a device");
    } else {
        for (i = 0; i < sim.n_devices; i++)
            if (!set_device(&sim.device[i], item, key, value))
                wrong(item, "unknown key");
        if (sim.n_devices == 0)
            wrong(item, "unknown key, or a device's key without devices");
    }
}

static char *trim(char *s) {
    s += strspn(s, " \t\r");
    size_t n = strlen(s);
    while (n > 0 && strchr(" \t\r", s[n - 1]) != NULL)
        s[--n] = '\0';
    return s;
}

/* Calls set for each item of the text; first only `devices`, then all the rest in order. */
static void each_item(const char *text, const char *separators, bool devices) {
    char *copy = strdup(text), *next = NULL;
    if (copy == NULL)
        fatal("out of memory for the configuration");
    for (char *item = strtok_r(copy, separators, &next); item != NULL;
         item = strtok_r(NULL, separators, &next)) {
        item = trim(item);
        if (item[0] == '\0' || item[0] == '#')
            continue;
        char *value = strchr(item, '=');
        if (value == NULL)
            wrong(item, "expected key=value");
        char whole[1024];
        snprintf(whole, sizeof whole, "%s", item);
        *value = '\0';
        item = trim(item), value = trim(value + 1);
        if ((strcmp(item, "devices") == 0) != devices)
            continue;
        if (!devices) {
            set_all(whole, item, value);
            continue;
        }
        uint64_t count = parse_size(whole, value);
        if (count > SIM_MAX_DEVICES)
            wrong(whole, "at most 64 devices");
        sim.n_devices = (uint32_t)count;
    }
    free(copy);
}

static char *file_text(const char *path) {
    FILE *f = fopen(path, "r");
    if (f == NULL)
        fatal("can't open ZESIM_CONFIG=%s: %s", path, strerror(errno));
    char *text = NULL;
    size_t capacity = 0;
    if (getdelim(&text, &capacity, '\0', f) < 0 && ferror(f))
        fatal("can't read ZESIM_CONFIG=%s: %s", path, strerror(errno));
    fclose(f);
    return text != NULL ? text : strdup("");
}

static void default_cache(void) {
    const char *cache = getenv("ZESIM_CACHE"), *tmp = getenv("TMPDIR");
    if (sim.cache == NULL && cache != NULL)
        sim.cache = strdup(cache);
    if (sim.cache == NULL &&
        asprintf(&sim.cache, "%s/zesim-cache-%u", tmp != NULL ? tmp : "/tmp", (unsigned)getuid()) < 0)
        fatal("out of memory for the configuration");
}

void config_load(void) {
    const char *text = getenv("ZESIM"), *path = getenv("ZESIM_CONFIG");
    char *file = path != NULL ? file_text(path) : strdup("");
    sim.initialised = true;
    sim.n_devices = 1;
    sim.poison = 16 << 20;
    sim.host_memory = UINT64_MAX;
    sim.seed = 1;
    each_item(file, "\n", true);
    each_item(text != NULL ? text : "", ",\n", true);
    objects_add(&sim.driver, KIND_DRIVER);
    for (uint32_t i = 0; i < sim.n_devices; i++)
        set_defaults(&sim.device[i], i);
    each_item(file, "\n", false);
    each_item(text != NULL ? text : "", ",\n", false);
    free(file);
    default_cache();
    memory_watch();
}
