/* What is told to a service manager that reads late: signs of life may be lost, states are not. */
#include "server/http/notify.h"

#include "testing.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static int manager = -1;

static int listen_as_manager(void **state) {
    (void)state;
    struct sockaddr_un at = {.sun_family = AF_UNIX}; /* an abstract name: no file */
    char name[32];
    const int n = snprintf(name, sizeof name, "@stator-notify-%d", (int)getpid());
    memcpy(at.sun_path + 1, name + 1, (size_t)n - 1);
    manager = socket(AF_UNIX, SOCK_DGRAM, 0);
    setsockopt(manager, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 300}, sizeof(struct timeval));
    setenv("NOTIFY_SOCKET", name, 1);
    setenv("WATCHDOG_USEC", "30000000", 1);
    const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n);
    return manager < 0 || bind(manager, (struct sockaddr *)&at, length) != 0 ? -1 : 0;
}

static int end(void **state) {
    (void)state;
    return close(manager);
}

/* Reads until a state comes; counts the signs of life before it. */
static void *read_late(void *argument) {
    int *signs = argument;
    char text[256] = "";
    usleep(50000);
    while (strncmp(text, "READY=1", 7) != 0) {
        ssize_t n = recv(manager, text, sizeof text - 1, 0);
        if (n < 0)
            return "nothing comes";
        text[n] = '\0';
        *signs += strcmp(text, "WATCHDOG=1") == 0;
    }
    return NULL;
}

static void full_queue(void **state) {
    (void)state;
    struct notify n;
    notify_open(&n);
    assert_true(n.fd >= 0);
    assert_int_equal(n.watchdog_ns, 30000000000ull);
    n.patience_ms = 600000;
    int sent = 0, signs = 0;
    while (send(n.fd, "WATCHDOG=1", 10, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        sent++;
    notify_send(&n, "WATCHDOG=1"); /* does not wait, though nobody reads */
    pthread_t reader;
    void *problem = NULL;
    assert_int_equal(pthread_create(&reader, NULL, read_late, &signs), 0);
    notify_send(&n, "READY=1\nSTATUS=serving");
    assert_int_equal(pthread_join(reader, &problem), 0);
    assert_null(problem);
    assert_true(sent > 0);
    assert_int_equal(signs, sent);
    notify_close(&n);
    notify_send(&n, "READY=1"); /* nobody listens: nothing happens */
}

/* A manager that never reads holds nobody up for longer than is said. */
static void nobody_reads(void **state) {
    (void)state;
    struct notify n;
    notify_open(&n);
    n.patience_ms = 1;
    while (send(n.fd, "WATCHDOG=1", 10, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
    notify_send(&n, "STATUS=loading");
    notify_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(full_queue, listen_as_manager, end),
                                       cmocka_unit_test_setup_teardown(nobody_reads, listen_as_manager, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
