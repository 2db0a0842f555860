#include "engine/draft/speculation_load.h"

#include "base/check.h"

bool speculation_load_drafts(const struct speculation_load *l) {
    return l->phase == SPECULATION_TRY_WITH || (l->phase == SPECULATION_KEEP && l->pays);
}

static void enter(struct speculation_load *l, int phase) {
    l->phase = phase;
    l->steps = 0;
}

/* More tokens per time. In floating point, as only the choice depends on it. */
static bool with_is_faster(const struct speculation_load *l) {
    return (double)l->with.tokens * (double)l->without.ns >= (double)l->without.tokens * (double)l->with.ns;
}

void speculation_load_step(struct speculation_load *l, uint64_t tokens, uint64_t ns) {
    CHECK(l->steps < SPECULATION_LOAD_KEPT);
    l->steps++;
    switch (l->phase) {
    case SPECULATION_TRY_WITH:
        l->with.tokens += tokens;
        l->with.ns += ns;
        if (l->steps == SPECULATION_LOAD_TRIAL)
            enter(l, SPECULATION_TRY_WITHOUT);
        break;
    case SPECULATION_TRY_WITHOUT:
        l->without.tokens += tokens;
        l->without.ns += ns;
        if (l->steps == SPECULATION_LOAD_TRIAL) {
            l->pays = with_is_faster(l);
            enter(l, SPECULATION_KEEP);
        }
        break;
    case SPECULATION_KEEP:
        if (l->steps == SPECULATION_LOAD_KEPT)
            *l = (struct speculation_load){0};
        break;
    }
}
