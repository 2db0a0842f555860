#include "engine/start/placement.h"

#include "base/units.h"
#include "os/numa.h"

#include <stdio.h>

static uint32_t count(uint64_t set) {
    return (uint32_t)__builtin_popcountll(set);
}

/* The node of most GPUs, of the first of them where it is a draw; -1: none is known. */
static int node_of_gpus(const struct planning *s, const char *root, uint32_t *n_known) {
    int nodes[PLANNING_PARTS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < planning_parts(s); i++) {
        int node = s->devices[i].facts.host_memory ? -1 : numa_node_of_pci(root, s->devices[i].choice.pci);
        if (node >= 0)
            nodes[n++] = node;
    }
    int best = -1;
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t same = 0;
        for (uint32_t k = 0; k < n; k++)
            same += nodes[k] == nodes[i];
        if (same > most) {
            most = same;
            best = nodes[i];
        }
    }
    *n_known = n;
    return best;
}

static uint32_t far_gpus(const struct planning *s, const char *root, int node) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < planning_parts(s) && node >= 0; i++) {
        int own = s->devices[i].facts.host_memory ? -1 : numa_node_of_pci(root, s->devices[i].choice.pci);
        n += own >= 0 && own != node;
    }
    return n;
}

void placement_decide(struct placement *p, const struct planning *s, const char *root) {
    *p = (struct placement){.root = root, .staging = -1, .staging_is_on = -1};
    uint64_t online = numa_online(root);
    p->n_nodes = count(online);
    if (s->config.cpu.numa == CONFIG_NUMA_OFF)
        snprintf(p->why, sizeof p->why, "cpu.numa is \"off\"");
    else if (online == 0)
        snprintf(p->why, sizeof p->why, "the kernel tells of no nodes (/sys/devices/system/node/online)");
    else if (p->n_nodes == 1)
        snprintf(p->why, sizeof p->why, "the machine has one node");
    else if (!numa_is_free())
        snprintf(p->why, sizeof p->why, "the process was given a policy (numactl), which stays");
    else
        p->on = true;
    if (!p->on)
        return;
    uint32_t known = 0;
    p->staging = node_of_gpus(s, root, &known);
    p->n_far = far_gpus(s, root, p->staging);
    if (p->staging < 0)
        snprintf(p->why, sizeof p->why, "the firmware tells no GPU's node: staging lies anywhere");
    else if (p->n_far > 0)
        snprintf(p->why, sizeof p->why,
                 "staging is meant for node %d, where most GPUs are; copies of %u GPU%s on other nodes cross "
                 "sockets",
                 p->staging, p->n_far, p->n_far == 1 ? "" : "s");
    else
        snprintf(p->why, sizeof p->why, "staging is meant for node %d, where the GPUs are", p->staging);
}

void placement_begin_staging(struct placement *p) {
    if (p->on && p->staging >= 0 && !numa_prefer(p->staging)) {
        snprintf(p->why, sizeof p->why, "the kernel does not take node %d for staging", p->staging);
        p->staging = -1;
    }
}

void placement_end_staging(struct placement *p, void *memory, uint64_t bytes, bool ours) {
    if (!p->on || p->staging < 0)
        return;
    (void)numa_prefer(-1);
    if (memory == NULL)
        return;
    if (ours && !numa_place(memory, bytes, (uint64_t)1 << p->staging))
        p->refused += bytes;
    p->staging_is_on = numa_node_of(memory);
}

void placement_begin_spill(const struct placement *p, const struct planning_device *d) {
    int node = numa_node_of_pci(p->root, d->choice.pci);
    if (p->on && node >= 0)
        (void)numa_prefer(node); /* refused: the pages lie anywhere, as those of staging would */
}

void placement_end_spill(const struct placement *p) {
    if (p->on)
        (void)numa_prefer(-1);
}

void placement_slice(struct placement *p, const struct planning_device *d, void *memory, uint64_t bytes) {
    const struct device_choice *c = &d->choice;
    uint64_t nodes = 0;
    if (!p->on || !d->facts.host_memory || !c->pinned || memory == NULL)
        return;
    for (uint32_t k = 0; k < c->threads && k < sizeof c->cpus / sizeof c->cpus[0]; k++)
        nodes |= numa_node_of_cpu(p->root, (unsigned)c->cpus[k]);
    if (nodes != 0 && !numa_place(memory, bytes, nodes))
        p->refused += bytes;
}

void placement_log(const struct placement *p, const struct log *log) {
    char size[UNITS_TEXT];
    log_write(log, p->n_nodes > 1 || p->n_nodes == 0 ? STATOR_LOG_INFO : STATOR_LOG_DEBUG, "NUMA: %s",
              p->why);
    if (p->staging >= 0 && p->staging_is_on >= 0 && p->staging_is_on != p->staging)
        log_write(log, STATOR_LOG_WARN, "NUMA: staging was meant for node %d and lies on node %d", p->staging,
                  p->staging_is_on);
    if (p->refused > 0)
        log_write(log, STATOR_LOG_WARN,
                  "NUMA: the kernel would not place %s: they lie where they are first used",
                  units_format_size(p->refused, size));
}

void placement_to_json(const struct placement *p, struct json *j) {
    json_open_object(j, "numa");
    json_put_u64(j, "nodes", p->n_nodes); /* 0: not known */
    json_put_bool(j, "placed", p->on);
    json_put_i64(j, "staging_node", p->staging); /* -1: any */
    json_put_i64(j, "staging_is_on", p->staging_is_on);
    json_put_u64(j, "far_gpus", p->n_far);
    json_put_u64(j, "refused_bytes", p->refused);
    json_put_string(j, "why", p->why);
    json_close(j);
}
