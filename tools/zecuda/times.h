/* ZECUDA_TIMES: what a step costs beside its kernels, told on stderr when a queue is destroyed.
 *   ZECUDA_TIMES=steps     of each submit: its kernels, the host's time in the call, the device's time, the
 *                          gap before it; of exchanges between devices: their time, and what of it is waiting
 *   ZECUDA_TIMES=kernels   also each kernel's begin and end, by CUPTI (libcupti.so in LD_LIBRARY_PATH),
 *                          which slows kernels down */
#ifndef ZECUDA_TIMES_H
#define ZECUDA_TIMES_H

#include "zecuda.h"

bool times_wanted(void);
struct times; /* NULL: not asked for */

/* Before CUDA is opened. */
void times_begin(void);
struct times *times_open(void);
/* Around the work of a submit, in the queue's stream. */
void times_before(struct times *t, cuda_stream s);
void times_after(struct times *t, cuda_stream s, uint32_t kernels);
/* Begun and ended one wait for a fence that had been submitted. */
void times_waited(struct times *t, uint64_t ns);
void times_close(struct times *t, const struct device *d);

#endif
