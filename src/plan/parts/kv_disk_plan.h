/* The memory of cache.kv_dir: buffers between the caches and the files, the host's arena "kv_disk". */
#ifndef STATOR_PLAN_KV_DISK_PLAN_H
#define STATOR_PLAN_KV_DISK_PLAN_H

#include "plan/planning.h"

/* The sizes for the devices' present graphs and models; all 0 if cache.kv_dir is empty. */
void kv_disk_plan(struct planning *s, const struct planning_want *want);
/* Whether this run can keep its caches in files. STATOR_USAGE: a device whose caches are not host memory,
 * several hosts, or a budget that holds no block. */
stator_status kv_disk_plan_check(const struct planning *s, stator_error *e);

#endif
