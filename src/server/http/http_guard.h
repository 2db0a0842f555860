/* Who may ask: the Host that a request names, the web page that it comes from, its API key. Pure functions.
 */
#ifndef STATOR_SERVER_HTTP_GUARD_H
#define STATOR_SERVER_HTTP_GUARD_H

#include "server/server_settings.h"

/* "host", "host:port", "1.2.3.4:80", "[::1]:80": an address, localhost (and names below it), this machine's
 * name or one of server.hosts. Any other name is one that a web site could have pointed here (DNS rebinding).
 */
bool http_guard_host(const struct server_settings *s, const char *host);
/* An Origin header: the server's own (that of `host`) or one of server.cors. *cross: it is not its own, and
 * the answer must name it. */
bool http_guard_origin(const struct server_settings *s, const char *origin, const char *host, bool *cross);
/* An Authorization header (NULL: there was none) has one of the keys, or there are none. The time that it
 * takes does not depend on how much of a key is right. */
bool http_guard_key(const struct server_settings *s, const char *authorization);
/* The same for a header that is the key alone: X-Api-Key, api-key. */
bool http_guard_plain_key(const struct server_settings *s, const char *key);

#endif
