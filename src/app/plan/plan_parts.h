/* What the files of `stator plan` share: printing one struct plan in its forms. */
#ifndef STATOR_APP_PLAN_PARTS_H
#define STATOR_APP_PLAN_PARTS_H

#include "plan/plan.h"

#include <stdio.h>

/* The table for people; verbose: also every arena's largest blocks and the slices. */
void plan_table_print(const struct plan *p, FILE *out, bool verbose);

/* One host's arenas: of another host than that of the table. */
void plan_table_print_host(const struct plan *p, FILE *out, const char *name);

/* The blocks of each arena drawn with letters. */
void plan_ascii_print(const struct plan *p, FILE *out);

/* A picture of each arena, as one SVG file. */
stator_status plan_svg_write(const struct plan *p, const char *path, stator_error *e);

/* Prints how `now` differs from the plan whose JSON is text (n bytes, from the file `name`). STATOR_USAGE:
 * the text is not a plan. */
stator_status plan_diff_print(const struct plan *now, const char *text, size_t n, const char *name, FILE *out,
                              stator_error *e);

/* What a block is, for colours and letters. */
enum plan_role {
    PLAN_ROLE_ATTENTION,
    PLAN_ROLE_FFN,
    PLAN_ROLE_NORM,
    PLAN_ROLE_TOKENS, /* embedding, output matrix, logits */
    PLAN_ROLE_KV,
    PLAN_ROLE_STREAM, /* the residual stream and its copies between devices */
    PLAN_ROLE_OTHER,
    PLAN_ROLES
};
enum plan_role plan_role_of(const struct plan_block *b);
const char *plan_role_name(enum plan_role r);
char plan_role_letter(enum plan_role r);

/* The last step in which a block of this arena lives; 0: all live always. */
uint32_t plan_steps(const struct plan *p, uint32_t place, uint32_t arena);
/* True for an arena of the host that only names a device in host memory. */
bool plan_is_reference(const struct plan *p, uint32_t place, uint32_t arena);

#endif
