/* Architectures: what general.architecture names. One file each (llama.c, ..): the tensors that its files
 * have, the keys that it reads, and the builder of its graph, made of the shared pieces of arch/parts.
 * arch_list.c is the registry; README.md says how to add one. No state. */
#ifndef STATOR_ARCH_ARCH_H
#define STATOR_ARCH_ARCH_H

#include "graph/graph.h"
#include "model/shape.h"

struct arch {
    const char *name;   /* general.architecture, and the prefix of its keys */
    const char *models; /* what people call its models, for README.md and `stator help models` */
    struct shape_tensors tensors;
    /* The keys, into s; shape_read_dense reads what most have. */
    stator_status (*read)(const struct gguf *g, struct shape *s, stator_error *e);
    /* What tensors must be besides their rows of the table, once they are placed; or NULL. */
    stator_status (*check)(const struct gguf *g, const struct shape *s, stator_error *e);
    graph_builder *build;
    struct graph_bounds
        layer; /* of a layer's ops, values and weights, where they are more than a dense one's */
};

/* Terminated by NULL. */
extern const struct arch *const arch_list[];

const struct arch *arch_find(const char *name); /* NULL: none */

/* Fills *s from an open file. STATOR_BAD_MODEL: an unknown architecture (names it and lists the known ones),
 * missing or mistyped keys, missing tensors, shapes that contradict the metadata, tensor types that we can't
 * compute with, tensors that the architecture does not know (a silent guess otherwise); s->arch_unknown
 * then tells that the architecture is the trouble. The gguf must outlive the shape. */
stator_status arch_read(const struct gguf *g, struct shape *s, stator_error *e);

/* graph_layout and graph_build with what the architecture says. */
void arch_layout(struct graph *g, struct carve *c, const struct shape *s, uint32_t parts);
/* The same for a tensor split: in each of `stages` ranges of layers `shares` devices divide a layer. */
void arch_layout_shares(struct graph *g, struct carve *c, const struct shape *s, uint32_t stages,
                        uint32_t shares);
stator_status arch_build(struct graph *g, const struct shape *s, const struct graph_want *want,
                         stator_error *e);

#endif
