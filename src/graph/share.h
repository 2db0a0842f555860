/* A tensor split: every device of a group has a share of each of the group's layers. Of a matrix it has some
 * rows (outputs) with all of their columns, so no sum over k is cut and no bit depends on the split. Of
 * attention it has some heads, with the caches of their KV heads. What the next op needs as a whole, the
 * devices exchange (GRAPH_EXCHANGED): floats, or the int8 form that the op before has made of what only
 * products read. Values with one scale are one device's then.
 *
 * Every device keeps the whole residual stream and computes the norms itself. Every device of the first group
 * has rows of the embedding, every one of the last group rows of the output matrix, and the last one gets the
 * logits of all (graph.shared_head). The first device of another group gets the residual stream and gives it
 * to the others. Every device computes what is not divided: norms, routes, delta-net layers behind their
 * products, and heads that are normed together, have gates beside them, or are fewer than devices. */
#ifndef STATOR_GRAPH_SHARE_H
#define STATOR_GRAPH_SHARE_H

#include "graph/graph.h"

/* What a layer of a shared graph needs besides a whole one's. */
#define SHARE_OPS    14
#define SHARE_VALUES 12
/* And what the ends of the model need: ops, values and weights of each kind. */
#define SHARE_OUTSIDE 4

/* Turns the whole graph that a builder has just made of the shape into the share g->want.share of it.
 * STATOR_USAGE: the model has an op that cannot be divided yet. */
stator_status share_divide(struct graph *g, const struct shape *shape, stator_error *e);

/* Columns [*first, *end) of an exchanged row are those of device `index`. */
void share_columns(const struct graph_exchanged *x, uint32_t index, uint32_t *first, uint32_t *end);

/* Values of a row that device `index` gives in the exchange. */
uint32_t share_width(const struct graph *g, const struct graph_op *op, uint32_t index);

/* How rows of an exchange lie where they are given and where they land: floats, or the quants of all rows,
 * then all scales, then all sums. Byte offsets, and bytes of all. */
struct share_rows {
    uint64_t quants, scales, sums, bytes;
};
/* form: graph_exchanged.int8. */
struct share_rows share_rows(uint32_t form, uint64_t rows, uint32_t width);

/* Values of a row that is exchanged, in all. */
uint32_t share_row(const struct graph *g, const struct graph_op *op);

/* The exchange of logits; NULL: only the last device has the output matrix. */
const struct graph_op *share_head(const struct graph *g);

/* Bytes that the device gets from the others for each token; and in the last device for each row of logits.
 */
uint64_t share_received(const struct graph *g);
uint64_t share_received_row(const struct graph *g);
/* Bytes that it gives to each of the others for each token; and to the last device for each row of logits. */
uint64_t share_given_each(const struct graph *g);
uint64_t share_given_row(const struct graph *g);

/* Landing zones. A half of graph.zone has room for the rows that the other devices push for one exchange:
 * source by source, rows of its columns. Consecutive exchanges of a device use the halves in turn, also from
 * one step to the next, and every device tells every other one when its rows have landed. So whoever pushes
 * into a half has heard that its reader is done with what lay there: the reader's own rows of the exchange
 * before came after that.
 *
 * Rows of logits have a zone of their own in the last device, of one half. Between two of their exchanges are
 * exchanges of a body, or the host has waited for the first. */

/* Byte of a half at which the rows of `source` begin in the zone of `receiver`; source = count: bytes of all.
 */
uint64_t share_landing(const struct graph *g, const struct graph_op *op, uint32_t receiver, uint32_t source);
/* Exchanges before op `op` of the graph, but that of logits; op = n_ops: of the whole graph. */
uint32_t share_exchanges(const struct graph *g, uint32_t op);
/* Bytes of the largest rows that the device gives to the others, and of all rows of logits. */
uint64_t share_given(const struct graph *g);
uint64_t share_given_rows(const struct graph *g);

#endif
