/* Where an engine's log lines go: the caller's callback, or the file of log.file; as text or one JSON object
 * a line. */
#ifndef STATOR_ENGINE_LOG_SINK_H
#define STATOR_ENGINE_LOG_SINK_H

#include "base/log.h"
#include "config/config.h"

#include <stdio.h>

struct log_sink {
    struct log out; /* the caller's callback */
    FILE *file;     /* log.file, or NULL */
    bool json;
    _Atomic int failed; /* errno of a write to the file that did, or 0 */
};

/* Puts the sink between l and its callback, as the config says. STATOR_USAGE: log.file can't be opened. */
stator_status log_sink_open(struct log_sink *k, const struct config *c, struct log *l, stator_error *e);
/* STATOR_FAILED: lines could not be written to log.file (a full disk). */
stator_status log_sink_result(const struct log_sink *k, const struct config *c, stator_error *e);
void log_sink_close(struct log_sink *k);

#endif
