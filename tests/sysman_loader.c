/* A libze_loader.so.1 as newer ones are: with zesInit, zesDriverGet and zesDeviceGet, which Debian 12's
 * lacks. Its sysman lists the devices backwards, so that only their PCI addresses tell which is which. The
 * rest, and the counts, are count_loader's. */
#include "count_loader.c" // NOLINT(bugprone-suspicious-include): one library of both

typedef uint32_t (*get)(void *parent, uint32_t *n, void **out);

/* Like Debian's loader, it does not lower a count that is too large. */
static uint32_t list(get from, void *parent, uint32_t *n, void **out) {
    void *handles[64];
    uint32_t have = 0;
    uint32_t room = *n;
    uint32_t rc = from(parent, &have, NULL);
    if (rc == 0 && room == 0)
        *n = have;
    if (rc != 0 || room == 0 || have > 64)
        return rc;
    rc = from(parent, &have, handles);
    for (uint32_t i = 0; rc == 0 && i < room && i < have; i++)
        out[i] = handles[have - 1 - i];
    return rc;
}

static uint32_t drivers(void *parent, uint32_t *n, void **out) {
    (void)parent;
    return ((uint32_t(*)(uint32_t *, void **))count_loader_real_zeDriverGet)(n, out);
}

uint32_t zesInit(uint32_t flags);
uint32_t zesInit(uint32_t flags) {
    return flags == 0 ? 0 : 0x78000004; /* an invalid argument */
}

uint32_t zesDriverGet(uint32_t *n, void **out);
uint32_t zesDriverGet(uint32_t *n, void **out) {
    return list(drivers, NULL, n, out);
}

uint32_t zesDeviceGet(void *driver, uint32_t *n, void **out);
uint32_t zesDeviceGet(void *driver, uint32_t *n, void **out) {
    return list((get)count_loader_real_zeDeviceGet, driver, n, out);
}
