/* The table of op kinds: what planner, spill, report and devices ask of ops without knowing kinds. */
#include "graph/graph.h"

static const struct graph_kind_info kinds[GRAPH_KINDS] = {
    [GRAPH_FILL] = {.name = "fill", .rows = GRAPH_FILLED},
    [GRAPH_EMBED] = {.name = "embed", .reads = GRAPH_WORK, .writes = GRAPH_OUT, .use = GRAPH_LOOKUP},
    [GRAPH_NORM] = {.name = "norm", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_FORMS] = {.name = "quantise", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_MATMUL] = {.name = "matmul", .reads = GRAPH_IN, .writes = GRAPH_OUT, .multiplies = true},
    [GRAPH_HEADS] = {.name = "matmul of heads", .reads = GRAPH_IN, .writes = GRAPH_OUT, .multiplies = true},
    [GRAPH_ROPE_STORE] = {.name = "rope, kv store", .reads = GRAPH_IN | GRAPH_WORK, .writes = GRAPH_OUT},
    [GRAPH_ATTENTION] = {.name = "attention",
                         .reads = GRAPH_IN | GRAPH_LIST,
                         .writes = GRAPH_OUT | GRAPH_WORK | GRAPH_ARRIVALS},
    [GRAPH_INDEX] = {.name = "index keys", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_CHOOSE] = {.name = "choose blocks", .reads = GRAPH_IN, .writes = GRAPH_OUT | GRAPH_WORK},
    [GRAPH_CONV] = {.name = "convolution", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_GATED_CONV] = {.name = "gated convolution", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_NGRAM_GATE] = {.name = "n-gram gate", .reads = GRAPH_IN | GRAPH_WORK, .writes = GRAPH_OUT},
    [GRAPH_NGRAM_CONV] = {.name = "n-gram convolution", .reads = GRAPH_IN | GRAPH_OUT, .writes = GRAPH_OUT},
    [GRAPH_DELTA] = {.name = "delta rule", .reads = GRAPH_IN | GRAPH_WORK, .writes = GRAPH_OUT},
    [GRAPH_GATE] = {.name = "gate", .reads = GRAPH_IN | GRAPH_WORK, .writes = GRAPH_OUT},
    [GRAPH_ROUTE] = {.name = "route", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_EXPERTS] = {.name = "experts",
                       .reads = GRAPH_IN | GRAPH_ROUTES | GRAPH_SHARED | GRAPH_SHARED_GATE,
                       .writes = GRAPH_OUT | GRAPH_WORK,
                       .use = GRAPH_CHOSEN,
                       .multiplies = true},
    [GRAPH_GATHER_NORM] = {.name = "norm", .reads = GRAPH_IN, .writes = GRAPH_OUT, .rows = GRAPH_LOGITS_ROWS},
    [GRAPH_PAIR] = {.name = "embedding and state",
                    .reads = GRAPH_IN | GRAPH_WORK,
                    .writes = GRAPH_OUT,
                    .use = GRAPH_LOOKUP},
    [GRAPH_KEEP] = {.name = "keep states", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_CENTER] = {.name = "center", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_SILU] = {.name = "silu", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_MIX] = {.name = "mix of streams", .reads = GRAPH_IN | GRAPH_WORK, .writes = GRAPH_OUT},
    [GRAPH_INJECT] = {.name = "add to streams", .reads = GRAPH_IN | GRAPH_WORK, .writes = GRAPH_OUT},
    [GRAPH_SOFTCAP] = {.name = "softcap", .reads = GRAPH_IN, .writes = GRAPH_OUT, .rows = GRAPH_LOGITS_ROWS},
    [GRAPH_GELU] = {.name = "gelu", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_MERGE] = {.name = "merge", .reads = GRAPH_IN, .writes = GRAPH_OUT, .rows = GRAPH_LOGITS_ROWS},
    [GRAPH_PROJECT] = {.name = "project", .reads = GRAPH_IN, .writes = GRAPH_OUT, .rows = GRAPH_LOGITS_ROWS},
    [GRAPH_BLEND] = {.name = "blend",
                     .reads = GRAPH_IN | GRAPH_OUT,
                     .writes = GRAPH_OUT,
                     .use = GRAPH_LOOKUP},
    [GRAPH_FEATURES] = {.name = "picture's features", .reads = GRAPH_IN | GRAPH_OUT, .writes = GRAPH_OUT},
    [GRAPH_SPREAD] = {.name = "spread", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_ARGMAX] = {.name = "argmax",
                      .reads = GRAPH_IN,
                      .writes = GRAPH_OUT | GRAPH_WORK,
                      .rows = GRAPH_LOGITS_ROWS},
    [GRAPH_LAND] = {.name = "land", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_SEND] = {.name = "send", .reads = GRAPH_IN, .writes = GRAPH_OUT},
    [GRAPH_EXCHANGED] = {.name = "exchange",
                         .reads = GRAPH_IN | GRAPH_WORK | GRAPH_ROUTES | GRAPH_STREAM,
                         .writes = GRAPH_OUT | GRAPH_NORMED},
};

const struct graph_kind_info *graph_kind_info(enum graph_kind kind) {
    CHECK(kind < GRAPH_KINDS);
    return &kinds[kind];
}

bool graph_op_activated(const struct graph_op *op) {
    return op->kind == GRAPH_MATMUL && op->epilogue >= GRAPH_SWIGLU;
}

bool graph_op_opens_experts(const struct graph_op *op) {
    return op->kind == GRAPH_EXPERTS && op->epilogue >= GRAPH_SWIGLU;
}

bool graph_op_gated(const struct graph_op *op) {
    return (graph_op_activated(op) || graph_op_opens_experts(op)) && op->epilogue != GRAPH_RELU2 &&
           op->epilogue != GRAPH_GELU_ONE;
}

const char *graph_op_name(const struct graph_op *op) {
    if (op->kind == GRAPH_DELTA && op->delta.ssd)
        return "state space";
    if (op->kind == GRAPH_EXPERTS)
        return op->epilogue == GRAPH_SWIGLU  ? "experts swiglu"
               : op->epilogue == GRAPH_GEGLU ? "experts geglu"
               : op->epilogue == GRAPH_RELU2 ? "experts relu2"
                                             : "experts down";
    if (graph_op_activated(op))
        return op->epilogue == GRAPH_SWIGLU  ? "matmul swiglu"
               : op->epilogue == GRAPH_GEGLU ? "matmul geglu"
               : op->epilogue == GRAPH_RELU2 ? "matmul relu2"
                                             : "matmul gelu";
    return graph_kind_info(op->kind)->name;
}

uint32_t graph_op_value(const struct graph_op *op, uint32_t bit) {
    switch (bit) {
    case GRAPH_IN:
        return op->in;
    case GRAPH_OUT:
        return op->out;
    case GRAPH_WORK:
        return op->work;
    case GRAPH_ARRIVALS:
        return op->kind == GRAPH_ATTENTION ? op->attention.arrivals : GRAPH_NONE;
    default:
        CHECK(bit < GRAPH_VALUES_END);
        if (bit == GRAPH_LIST)
            return op->kind == GRAPH_ATTENTION && op->attention.ratio > 0 ? op->attention.chosen : GRAPH_NONE;
        if (op->kind == GRAPH_EXCHANGED && bit == GRAPH_ROUTES && op->exchanged.used > 0)
            return op->exchanged.routes;
        if (op->kind == GRAPH_EXCHANGED && op->exchanged.norms && bit == GRAPH_STREAM)
            return op->exchanged.stream;
        if (op->kind == GRAPH_EXCHANGED && op->exchanged.norms && bit == GRAPH_NORMED)
            return op->exchanged.normed;
        if (op->kind != GRAPH_EXPERTS || bit > GRAPH_SHARED_GATE)
            return GRAPH_NONE;
        return bit == GRAPH_ROUTES   ? op->experts.routes
               : bit == GRAPH_SHARED ? op->experts.shared
                                     : op->experts.gate;
    }
}

static bool names(const struct graph_op *op, uint32_t bits, uint32_t value) {
    bool found = false;
    for (uint32_t bit = GRAPH_IN; bit < GRAPH_VALUES_END && !found; bit *= 2)
        found = (bits & bit) && graph_op_value(op, bit) == value;
    return found && value != GRAPH_NONE;
}

bool graph_op_reads(const struct graph_op *op, uint32_t value) {
    bool adds = (op->kind == GRAPH_MATMUL || op->kind == GRAPH_NORM || op->kind == GRAPH_EXPERTS ||
                 op->kind == GRAPH_EXCHANGED || op->kind == GRAPH_INJECT) &&
                op->epilogue == GRAPH_RESIDUAL;
    return names(op, graph_kind_info(op->kind)->reads | (adds ? GRAPH_OUT : 0), value);
}

bool graph_op_writes(const struct graph_op *op, uint32_t value) {
    return names(op, graph_kind_info(op->kind)->writes, value);
}

uint64_t graph_op_macs(const struct graph *g, const struct graph_op *op) {
    uint64_t sum = 0;
    if (!graph_kind_info(op->kind)->multiplies)
        return 0;
    for (uint32_t k = 0; k < op->n_weights; k++) {
        const struct panel_layout *l = &g->weights[op->weight[k]].layout;
        sum +=
            (uint64_t)l->rows * l->cols * (op->kind == GRAPH_HEADS ? g->weights[op->weight[k]].matrices : 1);
    }
    return op->kind == GRAPH_EXPERTS ? sum * op->experts.used : sum;
}
