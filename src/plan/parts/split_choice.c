#include "plan/parts/split_choice.h"

#include "plan/planner.h"
#include "plan/spill.h"
#include "plan/parts/split_estimate.h"

#include <stdio.h>
#include <string.h>

/* What a tensor split of GPUs cannot do yet; NULL: nothing of this run. */
static const char *lacks(const struct planning *s) {
    if (s->may_help)
        return "tensor has no experts on the processors yet (memory.experts)";
    return NULL;
}

/* Whether the plan by tensor can be made, fits, and has kernels for all that the devices compute. */
static bool can_run(struct planning *s, char *why, size_t n) {
    struct plan made;
    stator_error e;
    if (planner_make(s, &s->want, &made, &e) != STATOR_OK) {
        snprintf(why, n, "%.180s", e.text);
        return false;
    }
    if (spill_all(&made) > 0) {
        snprintf(why, n, "by tensor it would spill");
        return false;
    }
    for (uint32_t i = 0; i < s->n_devices; i++) {
        if (made.places[i].total > made.places[i].budget) {
            snprintf(why, n, "by tensor it does not fit into %s", made.places[i].name);
            return false;
        }
        if (!s->imagined && device_takes(&s->devices[i].choice, &s->devices[i].model, &e) != STATOR_OK) {
            snprintf(why, n, "%.180s", e.text);
            return false;
        }
    }
    return true;
}

/* Plans with n_groups groups that divide each layer; *runs: the plan can be taken, else `why` says why not.
 */
static stator_status try_tensor(struct planning *s, uint32_t n_groups, bool *runs, char *why, size_t n,
                                stator_status (*remap)(struct planning *, stator_error *), stator_error *e) {
    s->config.devices.tensor = true;
    s->config.devices.n_groups = n_groups;
    stator_status st = remap(s, e);
    *runs = st == STATOR_OK && can_run(s, why, n);
    if (st != STATOR_OK || *runs)
        return st;
    s->config.devices.tensor = false;
    s->config.devices.n_groups = 1;
    return remap(s, e);
}

/* All devices together, or groups of them: the faster first. */
static stator_status try_both(struct planning *s, stator_status (*remap)(struct planning *, stator_error *),
                              stator_error *e) {
    struct plan_rates *r = &s->rates;
    char why[sizeof r->choice] = "", other[sizeof r->choice] = "";
    stator_status st = STATOR_OK;
    bool runs = false;
    for (uint32_t turn = 0; turn < 2 && st == STATOR_OK && !runs; turn++) {
        const bool groups = (turn == 0) == (r->groups > r->tensor);
        const double tokens = groups ? r->groups : r->tensor;
        if (tokens < SPLIT_CHOICE_GAIN * r->layers)
            continue;
        st = try_tensor(s, groups ? r->n_groups : 1, &runs, why[0] == '\0' ? why : other, sizeof why, remap,
                        e);
        if (runs && groups)
            snprintf(r->choice, sizeof r->choice,
                     "tensor in %u groups: an estimated %.1f tokens/s, by layers %.1f", r->n_groups, tokens,
                     r->layers);
        else if (runs)
            snprintf(r->choice, sizeof r->choice, "tensor: an estimated %.1f tokens/s, by layers %.1f",
                     tokens, r->layers);
    }
    if (!runs)
        snprintf(r->choice, sizeof r->choice, "layers: %.180s", why);
    return st;
}

stator_status split_choose(struct planning *s, stator_status (*remap)(struct planning *s, stator_error *e),
                           stator_error *e) {
    struct plan_rates *r = &s->rates;
    stator_status st = split_estimate(s, r, e);
    if (st != STATOR_OK || !r->known || strcmp(s->config.devices.split, "auto") != 0)
        return st;
    const char *no = lacks(s);
    if (no != NULL)
        snprintf(r->choice, sizeof r->choice, "layers: %s", no);
    else if (r->tensor == 0 && r->groups == 0)
        snprintf(r->choice, sizeof r->choice, "layers: %.180s", r->no_tensor);
    else if (ARITH_MAX(r->tensor, r->groups) < SPLIT_CHOICE_GAIN * r->layers)
        snprintf(r->choice, sizeof r->choice, "layers: an estimated %.1f tokens/s, by tensor %.1f", r->layers,
                 ARITH_MAX(r->tensor, r->groups));
    else
        st = try_both(s, remap, e);
    if (st == STATOR_OK)
        log_write(s->log, STATOR_LOG_INFO, "devices.split = \"auto\": %s", r->choice);
    return st;
}
