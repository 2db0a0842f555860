/* Any bytes as the file of --tokens-file: read whole, then either a list of ids, which written again is the
 * same list, or an error that names the file. */
#include "fuzz.h"

#include "app/session.h"
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const fuzz_kinds[] = {"ids", NULL};

static void again(const int32_t *ids, size_t n) {
    char *text = malloc(12 * n + 1);
    int32_t *second = NULL;
    size_t at = 0, m = 0;
    stator_error e;
    CHECK(text != NULL);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)sprintf(text + at, "%s%d", i % 3 == 1 ? "," : " ", ids[i]);
    CHECK(session_parse_ids(text, "again", &second, &m, &e) == STATOR_OK && m == n);
    CHECK(n == 0 || memcmp(ids, second, n * sizeof *ids) == 0);
    free(second);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    char *text = NULL;
    size_t length = 0, n = 0;
    int32_t *ids = NULL;
    stator_error e = {0};
    int fd = memfd_create("ids", MFD_CLOEXEC);
    CHECK(fd >= 0 && (size == 0 || write(fd, data, size) == (ssize_t)size));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(session_read_file(path, SESSION_TEXT_LIMIT, &text, &length, &e) == STATOR_OK);
    CHECK(length == size && memcmp(text, data, size) == 0 && text[size] == '\0');
    stator_status st = session_parse_ids(text, "ids.txt", &ids, &n, &e);
    if (st == STATOR_OK) {
        if (n > 0)
            fuzz_accepted("ids");
        for (size_t i = 0; i < n; i++)
            CHECK(ids[i] >= 0);
        again(ids, n);
        free(ids);
    } else {
        CHECK(st == STATOR_USAGE && e.code == st && strncmp(e.text, "ids.txt: ", 9) == 0);
    }
    free(text);
    close(fd);
    return 0;
}
