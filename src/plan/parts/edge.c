#include "plan/parts/edge.h"

#include "base/arith.h"
#include "config/config_table.h"
#include "os/pages.h"

#include <string.h>

/* The stacks of two threads (1 MiB each), texts of answers that are kept (1 MiB), libevent, answers about the
 * server. */
#define BASE       (4u << 20)
#define CONNECTION 24576 /* a request's head (16 KiB) and the rest of a connection */
#define JOB        98304 /* of a request that runs or waits: 64 KiB of its stream, its own state */
#define BODIES     8     /* the room for bodies and what becomes of them, in longest bodies */

/* Keys of the section that are of the engine itself. */
static bool is_engines(size_t key) {
    return key == CONFIG_SERVER_MAX_QUEUE || key == CONFIG_SERVER_PREFIX_CACHE ||
           key == CONFIG_SERVER_CHECKPOINTS || key == CONFIG_SERVER_GRAMMARS ||
           key == CONFIG_SERVER_GRAMMAR_BYTES;
}

bool edge_is_server(const struct config *c) {
    for (size_t i = 0; i < CONFIG_KEYS; i++)
        if (strcmp(config_table[i].section, "server") == 0 && !is_engines(i) &&
            !config_table_is_default(c, (enum config_key)i))
            return true;
    return false;
}

uint64_t edge_bytes(const struct config *c, uint32_t context) {
    if (c->server.memory != 0)
        return pages_rounded(c->server.memory);
    const uint64_t jobs = arith_must_add(c->memory.sequences, c->server.max_queue);
    CHECK(context > 0 && jobs > 0);
    uint64_t bytes = arith_must_add(BASE, arith_must_mul(c->server.max_connections, CONNECTION));
    bytes = arith_must_add(bytes, arith_must_mul(jobs, JOB));
    return pages_rounded(
        arith_must_add(bytes, arith_must_mul(config_max_body(c->server.max_body, context), BODIES)));
}
