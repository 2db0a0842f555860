/* What operators ask: /health, /metrics, /slots, /props, /plan, /report, /v1/models, and the web page. */
#ifndef STATOR_SERVER_OPS_H
#define STATOR_SERVER_OPS_H

#include "server/server.h"

void ops_add_routes(struct server *s);

#endif
