/* The memory of the program around the engine, when that is a server: the host's arena "edge". */
#ifndef STATOR_PLAN_EDGE_H
#define STATOR_PLAN_EDGE_H

#include "config/config.h"

/* The config is a server's: its section `server` is not all defaults. (max_queue, prefix_cache,
 * checkpoints, grammars and grammar_bytes do not count: they are the engine's.) */
bool edge_is_server(const struct config *c);

/* server.memory, or what follows from the other keys and the tokens of a sequence; whole pages. */
uint64_t edge_bytes(const struct config *c, uint32_t context);

#endif
