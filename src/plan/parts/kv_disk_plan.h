/* The memory of cache.kv_dir: buffers between the caches and the files, the host's arena "kv_disk". With GPUs
 * they are a part of "staging" instead, so that kernels copy to and from them. */
#ifndef STATOR_PLAN_KV_DISK_PLAN_H
#define STATOR_PLAN_KV_DISK_PLAN_H

#include "plan/planning.h"

/* The sizes for the devices' present graphs and models, which it completes; all 0 if cache.kv_dir is empty.
 */
void kv_disk_plan(struct planning *s, const struct planning_want *want);
/* Whether this run can keep its caches in files. STATOR_USAGE: several hosts, a budget that holds no
 * block, or buffers beyond what a GPU reaches. */
stator_status kv_disk_plan_check(const struct planning *s, stator_error *e);

#endif
