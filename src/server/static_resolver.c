/* Of the fully static binary alone. libevent can look up names of hosts, services and protocols, which stator
 * never asks for, but which its evutil.c brings in, and http_fetch.c looks up names of server.image_hosts: in
 * a static program glibc's functions for that would load shared libraries at run time. These find nothing
 * instead, so server.image_hosts takes addresses only there. */
#ifdef STATOR_STATIC

#include <netdb.h>
#include <stddef.h>

int getaddrinfo(const char *restrict node, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out) {
    (void)node;
    (void)service;
    (void)hints;
    *out = NULL;
    return EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list) {
    (void)list;
}

struct protoent *getprotobynumber(int number) {
    (void)number;
    return NULL;
}

struct servent *getservbyname(const char *name, const char *protocol) {
    (void)name;
    (void)protocol;
    return NULL;
}

#endif
