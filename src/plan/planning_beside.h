/* Several models in one process: each is planned with the memory that those before it leave. */
#ifndef STATOR_PLANNING_BESIDE_H
#define STATOR_PLANNING_BESIDE_H

#include "plan/planning.h"

/* Before planning: the process's limit is that of the first model, and s->host_limit what is left of it.
 * STATOR_USAGE: those before have no plan yet. */
stator_status planning_beside_resolve(struct planning *s, stator_error *e);
/* At the start, when a driver may have refused memory to the models before this one, so that they were
 * planned again: whether this one's plan still fits beside them on the host. */
stator_status planning_beside_check(struct planning *s, stator_error *e);
/* Whether GPU i of s and GPU k of `other` are one. */
bool planning_beside_same(const struct planning *s, uint32_t i, const struct planning *other, uint32_t k);
/* Appends to *e, which says that s does not fit, what the models before it take. */
void planning_beside_explain(const struct planning *s, stator_error *e);

#endif
