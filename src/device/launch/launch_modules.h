/* The SPIR-V modules of the program, which are carried as zstd frames (kernels/shared/opencl.h). No state:
 * the caller gives the memory that a module is inflated into. */
#ifndef STATOR_DEVICE_LAUNCH_MODULES_H
#define STATOR_DEVICE_LAUNCH_MODULES_H

#include "kernels/opencl/modules.def"
#include "kernels/shared/opencl.h"

/* The rows of modules.def: what a back end does with a module. A program that carries GPU kernels has all of
 * them in opencl_modules. */
struct launch_module {
    const char *name;
    uint32_t sub_group;  /* size that its kernels require; 0: they leave it to the driver's compiler */
    const char *options; /* for the driver's compiler */
};

enum launch_module_number {
#define LAUNCH_MODULE(name, ...) LAUNCH_MODULE_##name,
    OPENCL_MODULES(LAUNCH_MODULE) LAUNCH_MODULES
#undef LAUNCH_MODULE
};
extern const struct launch_module launch_modules[LAUNCH_MODULES];

/* The number of the module in opencl_modules; opencl_n_modules: there is none of that name. */
uint32_t launch_modules_find(const char *name);
/* Bytes that launch_modules_inflate needs for any module of the program; 0: there are no modules. */
uint64_t launch_modules_room(void);
/* The m->bytes bytes of a module. They lie in `room`, of launch_modules_room() bytes aligned to 64, until the
 * next call with it. Nothing is allocated. A module that does not inflate is a bug: it is part of the
 * program. */
const uint32_t *launch_modules_inflate(const struct opencl_module *m, void *room);

#endif
