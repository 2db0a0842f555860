/* The web page: a chat and the map of the memory, for a browser. Its files are carried in the binary; it asks
 * nothing but this server, by the routes that others use too. */
#ifndef STATOR_SERVER_PAGE_H
#define STATOR_SERVER_PAGE_H

#include "server/server.h"

void page_add_routes(struct server *s);

#endif
