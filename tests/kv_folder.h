/* A folder for cache.kv_dir, of one test, its files, and saves in it. */
#ifndef STATOR_TESTS_KV_FOLDER_H
#define STATOR_TESTS_KV_FOLDER_H

#include "testing.h"
#include "stator.h"

#include <dirent.h>
#include <unistd.h>

static char kv_folder[64], kv_folder_set[96]; /* its path, and the setting that names it */

static inline int kv_folder_make(void **state) {
    (void)state;
    snprintf(kv_folder, sizeof kv_folder, "/tmp/test_kv_disk.XXXXXX");
    if (mkdtemp(kv_folder) == NULL)
        return 1;
    snprintf(kv_folder_set, sizeof kv_folder_set, "cache.kv_dir=%s", kv_folder);
    return 0;
}

/* Calls f for every file of a kind ('k', 'c'; 0: of any); returns how many there are. */
static inline unsigned kv_folder_each(char kind, void (*f)(const char *path)) {
    unsigned n = 0;
    char path[400], end[8];
    DIR *d = opendir(kv_folder);
    assert_non_null(d);
    snprintf(end, sizeof end, "-%c.kv", kind);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t length = strlen(e->d_name);
        if (length < 5 || (kind != 0 && strcmp(e->d_name + length - 5, end) != 0))
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", kv_folder, e->d_name);
        if (f != NULL && strcmp(e->d_name, "lock") != 0)
            f(path);
    }
    closedir(d);
    return n;
}

static inline void kv_folder_remove_file(const char *path) {
    assert_int_equal(unlink(path), 0);
}

static inline int kv_folder_remove(void **state) {
    char path[100];
    (void)state;
    (void)kv_folder_each(0, kv_folder_remove_file);
    snprintf(path, sizeof path, "%s/lock", kv_folder);
    (void)unlink(path);
    return rmdir(kv_folder);
}

/* An action, beside what else the engine does; its end. */
static inline stator_event kv_folder_act(stator *s, stator_slot_action action, uint32_t slot,
                                         const char *name) {
    const stator_slot a = {.size = sizeof a, .action = action, .slot = slot, .name = name};
    stator_error e = {0};
    uint64_t id = 0;
    if (stator_slot_submit(s, &a, &id, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        if (!have || ev.request != id)
            continue;
        if (ev.kind != STATOR_EVENT_DONE || ev.reason == STATOR_REASON_FAILED)
            fail_msg("%s", ev.text);
        assert_int_equal(ev.slot, slot);
        return ev;
    }
}

#endif
