/* devices.split = "auto" over several GPUs: by layers, or by tensor (all of them, or groups) where that is
 * estimated to be faster. */
#ifndef STATOR_PLAN_SPLIT_CHOICE_H
#define STATOR_PLAN_SPLIT_CHOICE_H

#include "plan/planning.h"

/* By tensor only if it makes so many times the tokens. */
#define SPLIT_CHOICE_GAIN 1.1

/* Before the first plan, with the devices and sizes known: fills s->rates, and with "auto" tensor and
 * n_groups of s->config.devices. rates.choice says why, where there was a choice. remap: makes the model's
 * tables anew, which a tensor split needs larger. An error is remap's. */
stator_status split_choose(struct planning *s, stator_status (*remap)(struct planning *s, stator_error *e),
                           stator_error *e);

#endif
