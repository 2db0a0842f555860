/* Prints the plan as a table, with the figures that explain it. */
#include "app/plan/plan_parts.h"

#include "base/arith.h"
#include "base/units.h"
#include "plan/experts/hosted_estimate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST         5  /* tensors listed below the table */
#define LARGEST_VERBOSE 12 /* per arena */

static double percent(uint64_t part, uint64_t whole) {
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* Widths of the columns: those of the longest names, at least those of the headings. */
struct widths {
    int place, arena;
};

static struct widths measure(const struct plan *p) {
    struct widths w = {8, 10};
    for (uint32_t i = 0; i < p->n_places; i++) {
        w.place = ARITH_MAX(w.place, (int)strlen(p->places[i].name));
        for (uint32_t k = 0; k < p->places[i].n_arenas; k++)
            w.arena = ARITH_MAX(w.arena, (int)strlen(p->places[i].arenas[k].name));
    }
    return w;
}

static void print_row(FILE *out, const struct widths *w, const char *place, const char *arena, uint64_t bytes,
                      uint64_t bound, uint64_t budget) {
    char size[UNITS_TEXT];
    char least[UNITS_TEXT];
    fprintf(out, "%-*s %-*s %15" PRIu64 " %13s %13s %9.2f%%", w->place, place, w->arena, arena, bytes,
            units_format_size(bytes, size), units_format_size(bound, least), percent(bytes, budget));
}

static void print_place(const struct plan_place *place, FILE *out, const struct widths *w, const char *name) {
    char budget[UNITS_TEXT];
    uint64_t bound = 0;
    for (uint32_t k = 0; k < place->n_arenas; k++) {
        const struct plan_arena *a = &place->arenas[k];
        bound += a->lower_bound;
        print_row(out, w, k == 0 ? name : "", a->name, a->bytes, a->lower_bound, place->budget);
        fputc('\n', out);
    }
    print_row(out, w, "", "total", place->total, bound, place->budget);
    fprintf(out, " of %s\n", units_format_size(place->budget, budget));
}

static void print_arenas(const struct plan *p, FILE *out) {
    const struct widths w = measure(p);
    fprintf(out, "%-*s %-*s %15s %13s %13s %10s\n", w.place, "place", w.arena, "arena", "bytes", "planned",
            "lower bound", "budget");
    for (uint32_t i = 0; i < p->n_places; i++)
        print_place(&p->places[i], out, &w, p->places[i].name);
}

void plan_table_print_host(const struct plan *p, FILE *out, const char *name) {
    const struct widths w = measure(p);
    for (uint32_t i = 0; i < p->n_places; i++)
        if (p->places[i].is_host)
            print_place(&p->places[i], out, &w, name);
}

static void print_weights(const struct plan *p, FILE *out) {
    for (uint32_t i = 0; i + 1 < p->n_places; i++) {
        const struct plan_place *place = &p->places[i];
        char file[UNITS_TEXT];
        char packed[UNITS_TEXT];
        char padding[UNITS_TEXT];
        char share[64] = "";
        if (place->n_shares > 0)
            snprintf(share, sizeof share, "share %u of %u of ", place->share + 1, place->n_shares);
        fprintf(
            out,
            "weights on %s: %slayers %u to %u, %s in the file, %s in panels (%+.1f%%), %s of it padding\n",
            place->name, share, place->first_layer, place->first_layer + place->n_layers - 1,
            units_format_size(place->weights_in_file, file), units_format_size(place->weights_packed, packed),
            percent(place->weights_packed, place->weights_in_file) - 100.0,
            units_format_size(place->weights_padding, padding));
    }
}

static uint64_t input(const struct plan *p, const char *name) {
    for (uint32_t i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].is_number && strcmp(p->inputs[i].name, name) == 0)
            return p->inputs[i].number;
    return 0;
}

static bool spills(const struct plan *p) {
    bool any = false;
    for (uint32_t i = 0; i + 1 < p->n_places; i++)
        any = any || p->places[i].spill.weights + p->places[i].spill.kv > 0;
    return any;
}

/* Why so many sequences fit, if the free bytes alone do not explain it. */
static const char *sequences_note(const struct plan *p) {
    if (p->sequences_fit == input(p, "batch"))
        return " (memory.batch takes no more)";
    /* A sequence takes kv_tokens / sequences. */
    if (p->sequences_fit * p->kv_tokens > (p->kv_tokens + p->room_tokens) * input(p, "sequences"))
        return " (the layers shared out anew)";
    return "";
}

/* Prints the KV of the draft model, which has its own caches for every sequence. */
static void print_draft_kv(const struct plan *p, FILE *out) {
    for (uint32_t i = 0; i + 1 < p->n_places; i++) {
        const struct plan_place *place = &p->places[i];
        char token[UNITS_TEXT];
        char sequence[UNITS_TEXT];
        if (!place->is_draft)
            continue;
        fprintf(out, "KV of the draft model: %s a token", units_format_size(place->kv_per_token, token));
        if (place->kv_per_sequence > 0)
            fprintf(out, ", windows and states of %s a sequence",
                    units_format_size(place->kv_per_sequence, sequence));
        fprintf(out, ", on %s\n", place->name);
    }
}

static void print_kv(const struct plan *p, FILE *out) {
    uint64_t per_token = 0;
    uint64_t per_sequence = 0;
    uint64_t per_checkpoint = 0;
    for (uint32_t i = 0; i + 1 < p->n_places; i++) {
        if (p->places[i].is_draft)
            continue;
        per_token += p->places[i].kv_per_token;
        per_sequence += p->places[i].kv_per_sequence;
        per_checkpoint += p->places[i].kv_per_checkpoint;
    }
    char size[UNITS_TEXT];
    char all[UNITS_TEXT];
    if (per_sequence > 0)
        fprintf(out, "windows and states: %s a sequence, whatever its tokens\n",
                units_format_size(per_sequence, size));
    if (per_checkpoint > 0 && p->checkpoints > 0)
        fprintf(out, "checkpoints: %" PRIu64 " of %s, %s in all (server.checkpoints)\n", p->checkpoints,
                units_format_size(per_checkpoint, size),
                units_format_size(p->checkpoints * per_checkpoint, all));
    else if (per_checkpoint > 0 && p->purpose == PLAN_TO_RUN)
        fprintf(
            out,
            "checkpoints: none for `run`, `bench`, `logits` and `perplexity`; what `chat` and `serve` plan, "
            "--chat and --serve show: each takes %s\n",
            units_format_size(per_checkpoint, size));
    else if (per_checkpoint > 0)
        fprintf(out, "checkpoints: none, so no prompt is shared; one would take %s (server.checkpoints)\n",
                units_format_size(per_checkpoint, size));
    uint64_t sequences = input(p, "sequences");
    fprintf(out, "KV: %s a token; planned are %" PRIu64 " tokens, %" PRIu64 " sequence%s of %" PRIu64 "\n",
            units_format_size(per_token, size), p->kv_tokens, sequences, sequences == 1 ? "" : "s",
            input(p, "context"));
    print_draft_kv(p, out);
    if (p->room_known && spills(p))
        fprintf(out, "KV: nothing is free: more of it would be spilled\n");
    else if (p->room_known)
        fprintf(out,
                "KV: what is free would hold %" PRIu64 " tokens more; at most %" PRIu64
                " sequence%s of full length fit%s\n",
                p->room_tokens, p->sequences_fit, p->sequences_fit == 1 ? "" : "s", sequences_note(p));
}

static void print_routes(const struct plan *p, FILE *out) {
    for (uint32_t i = 0; i + 1 < p->n_places; i++) {
        const struct plan_place *place = &p->places[i];
        char given[UNITS_TEXT], received[UNITS_TEXT];
        if (place->to_next.route[0] != '\0')
            fprintf(out, "copies from %s to %s: %s a token; %s: %s\n", place->name, p->places[i + 1].name,
                    units_format_size(place->next_per_token, given), place->to_next.route,
                    place->to_next.why);
        if (place->to_group.route[0] == '\0')
            continue;
        fprintf(out,
                "exchanges of %s: %u a token; it gives %s a token to each other device and gets %s in all; "
                "%s: %s\n",
                place->name, place->exchanges, units_format_size(place->given_per_token, given),
                units_format_size(place->received_per_token, received), place->to_group.route,
                place->to_group.why);
        if (place->received_per_row > 0)
            fprintf(out, "logits: the other devices give %s of each row to %s\n",
                    units_format_size(place->received_per_row, received), place->name);
    }
}

/* "layers 11.4 tokens/s, tensor 20.3" of one sequence. */
static void print_rates(const struct plan *p, FILE *out) {
    const struct plan_rates *r = &p->rates;
    if (!r->known)
        return;
    fprintf(out, "speed, estimated: layers %.1f tokens/s, ", r->layers);
    if (r->tensor > 0)
        fprintf(out, "tensor %.1f", r->tensor);
    else
        fprintf(out, "tensor not possible");
    if (r->groups > 0)
        fprintf(out, ", tensor in %u groups %.1f", r->n_groups, r->groups);
    fprintf(out,
            "\nspeed: that is what the bytes of a token at the full context take by stated bandwidths, with "
            "%.1f GB/s from device to device%s and %.1f us a hop%s; computing takes no time in it\n",
            (double)r->link * 1e-9, r->link_assumed ? " (assumed)" : "", (double)r->hop_ns * 1e-3,
            r->hop_assumed ? " (assumed)" : "");
    if (r->choice[0] != '\0')
        fprintf(out, "devices.split = \"auto\" takes %s\n", r->choice);
    else if (r->tensor == 0)
        fprintf(out, "speed: no tensor split: %s\n", r->no_tensor);
}

/* Prints the bytes that a step of the largest batch brings over the bus. */
static void print_prompt(const struct plan *p, const struct plan_place *place, FILE *out) {
    const struct plan_spill *x = &place->spill;
    char bytes[UNITS_TEXT];
    if (x->per_batch == 0)
        return;
    fprintf(out, "spill of %s: a step of %" PRIu64 " tokens of a prompt brings weights of %s over the bus",
            place->name, input(p, "batch"), units_format_size(x->per_batch, bytes));
    if (x->stream_tokens > 0)
        fprintf(out,
                ": from %u tokens on a step copies the experts to the window ahead of use, a shorter one "
                "reads them where they lie",
                x->stream_tokens);
    fputc('\n', out);
}

static void print_hits(const struct plan_hosted *h, FILE *out) {
    char ram[UNITS_TEXT];
    if (h->n == 0)
        return;
    fprintf(out, "experts: at the full context a sequence is estimated to generate");
    for (uint32_t i = 0; i < h->n; i++)
        fprintf(out,
                i == 0 ? " %.1f tokens/s if %.0f%% of the chosen experts have slots" : ", %.1f at %.0f%%",
                h->tokens[i], 100 * h->hits[i]);
    fprintf(out, " (bytes by bandwidths; the processors read %s/s%s)\n", units_format_size(h->ram, ram),
            h->ram_assumed ? ", which is assumed: bandwidth of cpu:0 in devices.facts says it" : "");
}

/* Prints which steps copy a GPU's experts to it in place of that. */
static void print_window(const struct plan *p, const struct plan_place *place, FILE *out) {
    const struct plan_spill *x = &place->spill;
    char bytes[UNITS_TEXT];
    if (x->window_bytes == 0)
        return;
    fprintf(
        out,
        "experts of %s: a step of %u tokens or more copies all of them to the window, %s over the bus, and "
        "the GPU computes them",
        place->name, x->stream_tokens, units_format_size(x->window_bytes, bytes));
    if (x->window_seconds > 0)
        fprintf(
            out,
            ": by bandwidths that takes %.0f ms; of a step of %" PRIu64 " tokens the processors would take "
            "%.0f ms (assumed: they multiply with %d tokens what they read once)",
            1e3 * x->window_seconds, input(p, "batch"), 1e3 * x->processors_seconds, HOSTED_ESTIMATE_TOKENS);
    fputc('\n', out);
}

/* Prints what the processors compute for GPUs, and the bytes of a generated token. */
static void print_experts(const struct plan *p, FILE *out) {
    for (uint32_t i = 0; i + 1 < p->n_places; i++) {
        const struct plan_spill *x = &p->places[i].spill;
        char all[UNITS_TEXT], ram[UNITS_TEXT], bus[UNITS_TEXT];
        if (x->hosted == 0)
            continue;
        fprintf(
            out,
            "experts of %s: %s lie in host memory, and the processors compute them: for a token they read "
            "%s there, and %s of activations cross the bus\n",
            p->places[i].name, units_format_size(x->hosted, all), units_format_size(x->hosted_ram, ram),
            units_format_size(x->hosted_bus, bus));
        if (x->slots > 0)
            fprintf(out,
                    "experts of %s: it keeps %u of each layer in slots and computes these; a step copies at "
                    "most %s of "
                    "others to slots\n",
                    p->places[i].name, x->slots, units_format_size(x->slot_copies, bus));
        print_window(p, &p->places[i], out);
    }
    print_hits(&p->hosted, out);
}

/* Prints what is in no memory. */
static void print_in_file(const struct plan *p, FILE *out) {
    char all[UNITS_TEXT];
    if (p->in_file.bytes > 0)
        fprintf(
            out,
            "rows of n-grams: the table of %s stays in the model's file, of which each token reads %" PRIu64
            " rows of %" PRIu64 " bytes\n",
            units_format_size(p->in_file.bytes, all), p->in_file.rows, p->in_file.row_bytes);
}

/* Prints what each device spills to host memory, and what this costs a generated token. */
static void print_spill(const struct plan *p, FILE *out) {
    for (uint32_t i = 0; i + 1 < p->n_places; i++) {
        const struct plan_spill *x = &p->places[i].spill;
        char kv[UNITS_TEXT], weights[UNITS_TEXT], far[UNITS_TEXT], near[UNITS_TEXT];
        if (x->weights + x->kv == 0)
            continue;
        fprintf(out, "spill of %s: in host memory lie weights of %s, and ", p->places[i].name,
                units_format_size(x->weights, weights));
        if (x->kv > 0)
            fprintf(out, "KV of %s: of the last %u layers\n", units_format_size(x->kv, kv), x->kv_layers);
        else
            fprintf(out, "no KV\n");
        fprintf(out, "spill of %s: a token brings %s over the bus", p->places[i].name,
                units_format_size(x->per_step + x->per_token + x->kv_per_sequence, weights));
        if (x->kv_per_token > 0)
            fprintf(out, ", %" PRIu64 " bytes more for each token of its context: %s at the full one",
                    x->kv_per_token, units_format_size(x->far, far));
        fprintf(out, ", beside %s from the device at the full context\n", units_format_size(x->near, near));
        if (x->per_token_most > x->per_token)
            fprintf(
                out,
                "spill of %s: of experts these are as many as are to be expected; with the choice that is "
                "worst a token brings %s more\n",
                p->places[i].name, units_format_size(x->per_token_most - x->per_token, far));
        print_prompt(p, &p->places[i], out);
    }
    if (spills(p) && p->slowdown > 0)
        fprintf(out,
                "spill: at the full context a token takes about %.1f times as long as with all of it on the "
                "devices (an estimate: bytes by the bandwidths of memory and bus)\n",
                p->slowdown);
    else if (spills(p))
        fprintf(out, "spill: how much slower that is can't be said: the bandwidth of a device or its bus is "
                     "not known\n");
}

static bool lives(const struct plan_block *b, uint32_t step) {
    return b->end == 0 || (b->first <= step && step < b->end);
}

static bool in_arena(const struct plan_block *b, uint32_t place, uint32_t arena) {
    return b->place == place && b->arena == arena;
}

/* The step with the most live bytes of this arena. */
static uint32_t fullest_step(const struct plan *p, uint32_t place, uint32_t arena) {
    uint32_t steps = plan_steps(p, place, arena);
    uint32_t best = 0;
    uint64_t most = 0;
    for (uint32_t step = 0; step < steps; step++) {
        uint64_t live = 0;
        for (uint32_t i = 0; i < p->n_blocks; i++)
            if (in_arena(&p->blocks[i], place, arena) && lives(&p->blocks[i], step))
                live += p->blocks[i].bytes;
        if (live > most) {
            most = live;
            best = step;
        }
    }
    return best;
}

/* "scratch on gpu0: 92.53 MiB in step 4, the fullest of 643: residual 16.00 MiB + .." */
static void print_scratch(const struct plan *p, FILE *out) {
    for (uint32_t i = 0; i + 1 < p->n_places; i++) {
        for (uint32_t k = 0; k < p->places[i].n_arenas; k++) {
            uint32_t steps = plan_steps(p, i, k);
            if (steps == 0)
                continue;
            char size[UNITS_TEXT];
            uint32_t step = fullest_step(p, i, k);
            fprintf(out, "%s on %s: step %u of %u is the fullest:", p->places[i].arenas[k].name,
                    p->places[i].name, step, steps);
            const char *sign = "";
            for (uint32_t b = 0; b < p->n_blocks; b++) {
                if (!in_arena(&p->blocks[b], i, k) || !lives(&p->blocks[b], step))
                    continue;
                fprintf(out, "%s %s %s", sign, p->blocks[b].name,
                        units_format_size(p->blocks[b].bytes, size));
                sign = " +";
            }
            fputc('\n', out);
        }
    }
}

static int by_size(const void *a, const void *b) {
    const struct plan_block *x = *(const struct plan_block *const *)a;
    const struct plan_block *y = *(const struct plan_block *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* Prints the largest blocks of an arena. place UINT32_MAX: of the weights of all devices. */
static void print_largest(const struct plan *p, FILE *out, uint32_t place, uint32_t arena, size_t count) {
    const struct plan_block **list = malloc((p->n_blocks + 1) * sizeof *list);
    const struct widths w = measure(p);
    size_t n = 0;
    if (list == NULL)
        return;
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const struct plan_block *b = &p->blocks[i];
        if (place == UINT32_MAX ? !p->places[b->place].is_host &&
                                      strcmp(p->places[b->place].arenas[b->arena].name, "weights") == 0
                                : in_arena(b, place, arena))
            list[n++] = b;
    }
    qsort(list, n, sizeof *list, by_size);
    for (size_t i = 0; i < n && i < count; i++) {
        const struct plan_place *where = &p->places[list[i]->place];
        char size[UNITS_TEXT];
        fprintf(out, "    %-*s %-32s %13s %9.2f%%\n", w.place, where->name, list[i]->name,
                units_format_size(list[i]->bytes, size), percent(list[i]->bytes, where->budget));
    }
    if (n > count)
        fprintf(out, "    and %zu more\n", n - count);
    free(list);
}

static void print_every_arena(const struct plan *p, FILE *out) {
    for (uint32_t i = 0; i < p->n_places; i++) {
        for (uint32_t k = 0; k < p->places[i].n_arenas; k++) {
            const struct plan_arena *a = &p->places[i].arenas[k];
            if (plan_is_reference(p, i, k))
                continue;
            fprintf(out, "\n%s, %s: %u slice%s", p->places[i].name, a->name, a->n_slices,
                    a->n_slices == 1 ? "" : "s");
            for (uint32_t n = 0; n < a->n_slices; n++) {
                char size[UNITS_TEXT];
                fprintf(out, "%s %s", n == 0 ? " of" : " +", units_format_size(a->slices[n], size));
            }
            fputc('\n', out);
            print_largest(p, out, i, k, LARGEST_VERBOSE);
        }
    }
}

void plan_table_print(const struct plan *p, FILE *out, bool verbose) {
    print_arenas(p, out);
    if (p->n_blocks == 0)
        return;
    fputc('\n', out);
    print_weights(p, out);
    print_kv(p, out);
    print_routes(p, out);
    print_rates(p, out);
    print_in_file(p, out);
    print_experts(p, out);
    print_spill(p, out);
    print_scratch(p, out);
    if (verbose) {
        print_every_arena(p, out);
        return;
    }
    fprintf(out, "largest tensors:\n");
    print_largest(p, out, UINT32_MAX, UINT32_MAX, LARGEST);
}
