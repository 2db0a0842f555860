/* Loaders and drivers are foreign code with exceptions that nobody catches: where memory is limited (ulimit
 * -v, ulimit -d), a thrown std::bad_alloc would end the process. So they are refused where little is left,
 * and else tried in a child process first. Without such limits nothing is done. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_TRIAL_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_TRIAL_H

#include "base/error.h"

/* Before the loader is loaded. STATOR_DEVICE: it must not be, in this process. */
stator_status lz_trial(stator_error *e);

#endif
