/* How a product is computed: which kernel, and what a group of it has. The choice has no state; a caller
 * fills the struct in this order: choose (or experts, each), tokens, group. */
#ifndef STATOR_DEVICE_LAUNCH_SCHEME_H
#define STATOR_DEVICE_LAUNCH_SCHEME_H

#include "device/launch/launch_parts.h"

/* The families of products, in the order of modules.def. FEW, DEALT16, and from PREFILL8 on: of
 * integers; WIDE1: where registers are wide, not of sets with all (K) types. */
enum launch_family { DECODE1, WIDE1, DECODE4, FEW, DEALT16, PREFILL, PREFILL8, DPAS8, DPAS16 };

/* How a product is computed. */
struct launch_scheme {
    enum launch_family family;
    uint32_t kernel;
    uint32_t tokens;   /* in a pass (launch_scheme_tokens) */
    uint32_t segments; /* of k */
    uint32_t split;    /* of the decode families segments at once, else tokens */
    uint32_t group;    /* work items */
    uint32_t dealt;    /* DEALT16: segments of k at once */
    bool alone;        /* DPAS16: a group has all places of a tile at once (cl_wide_sums.h) */
};

/* Family, kernel and segments of a product; heads: its kernel norms, rotates and stores heads. Of experts,
 * and of a matrix per head. */
struct launch_scheme launch_scheme_choose(const struct launch_list *b, const struct graph_op *o, bool heads);
struct launch_scheme launch_scheme_experts(const struct launch_list *b, const struct graph_op *o);
struct launch_scheme launch_scheme_each(const struct launch_list *b, const struct graph_op *o);
/* Rows of activations. */
uint32_t launch_scheme_rows(const struct launch_list *b, const struct graph_op *o);
/* Panels that a group should have, of a matrix with `panels`. */
uint32_t launch_scheme_panels(const struct launch_list *b, const struct graph_op *o,
                              const struct launch_scheme *w, uint32_t panels);
/* Groups that share a unit of 256 outputs with one scale, if each has `each` panels or more. */
uint32_t launch_scheme_sharing(const struct launch_list *b, const struct graph_op *o,
                               const struct launch_scheme *w, uint32_t each);
/* Sets tokens and split, for `panels` of a group; units: of all groups, UINT32_MAX where that does not
 * matter.
 */
void launch_scheme_tokens(const struct launch_list *b, const struct graph_op *o, struct launch_scheme *w,
                          uint32_t panels, uint32_t units);
/* Sets group, and what follows from it. */
void launch_scheme_group(const struct launch_list *b, const struct graph_op *o, struct launch_scheme *w,
                         uint32_t panels);
/* Bytes of local memory: the tile of a group's outputs, and what sums and epilogues share (epilogue: what
 * that needs at least). */
uint64_t launch_scheme_tile(const struct launch_list *b, const struct graph_op *o,
                            const struct launch_scheme *w, uint32_t panels);
uint64_t launch_scheme_work(const struct launch_list *b, const struct graph_op *o,
                            const struct launch_scheme *w, uint32_t panels, uint64_t epilogue);

#endif
