/* Any bytes as the older plan of `stator plan --diff`: they are compared with a plan, or refused with an
 * error that names the file. */
#include "fuzz.h"

#include "app/plan/plan_parts.h"
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"plan", NULL};

static const struct plan *now(void) {
    static struct plan p;
    if (p.n_places > 0)
        return &p;
    plan_init(&p);
    snprintf(p.model, sizeof p.model, "model");
    p.fits = true;
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu%d", i);
        struct plan_place *place = plan_add_place(&p, i < 2 ? name : "host", i == 2, 1 << 30);
        plan_add_arena(place, i < 2 ? "weights" : "engine", 1 << 20, 1 << 20);
        plan_add_arena(place, i < 2 ? "kv" : "staging", 1 << 16, 1 << 16);
    }
    plan_add_number(&p, "planner", 1);
    plan_add_text(&p, "model", "0123456789abcdef");
    plan_add_number(&p, "context", 4096);
    plan_add_text(&p, "devices.gpu0.kind", "level_zero");
    plan_hash_inputs(&p);
    return &p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size > 0 ? size : 1), *printed = NULL; /* so that a byte too many shows */
    size_t n = 0;
    stator_error e = {0};
    FILE *out = open_memstream(&printed, &n);
    CHECK(text != NULL && out != NULL);
    memcpy(text, data, size);
    stator_status st = plan_diff_print(now(), text, size, "old.json", out, &e);
    CHECK(fclose(out) == 0);
    if (st == STATOR_OK)
        fuzz_accepted("plan");
    if (st == STATOR_OK)
        CHECK(n > 0 && printed[n - 1] == '\n');
    else
        CHECK(st == STATOR_USAGE && e.code == st && strncmp(e.text, "old.json: ", 10) == 0 && n == 0);
    free(printed);
    free(text);
    return 0;
}
