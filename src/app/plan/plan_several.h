/* stator plan of a config with several models. */
#ifndef STATOR_APP_PLAN_SEVERAL_H
#define STATOR_APP_PLAN_SEVERAL_H

#include "app/models.h"

/* Opens and plans each model beside those before it, up to one that fails; *e names it. *planned of them have
 * a plan, the last maybe one that does not fit. */
stator_status plan_several_make(const char *config, const struct options_list *devices, struct models *m,
                                uint32_t *planned, stator_error *e);
/* Prints the plans of the first `planned`, and the table of all. */
stator_status plan_several_show(const struct models *m, uint32_t planned, bool as_json, bool verbose,
                                stator_error *e);

#endif
