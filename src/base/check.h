/* Invariants of our own code. Data from outside never reaches a CHECK: it gets an error_set.
 * CHECK is in every build (it must be cheap); DCHECK only where STATOR_DEBUG is defined. */
#ifndef STATOR_BASE_CHECK_H
#define STATOR_BASE_CHECK_H

_Noreturn void check_failed(const char *condition, const char *file, int line, const char *function);

#define CHECK(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__, __func__))

#ifdef STATOR_DEBUG
#define DCHECK(condition) CHECK(condition)
#else
#define DCHECK(condition) ((void)sizeof(condition))
#endif

#endif
