/* stator plan: the memory plan, without touching a device or reading a weight. */
#include "app/commands.h"
#include "app/image_files.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/plan/plan_parts.h"
#include "app/plan/plan_several.h"
#include "app/session.h"
#include "engine/plan_view.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct asked {
    struct options_list set;
    struct options_list devices, images;
    bool json, ascii, verbose, serve, chat;
    bool svg_only; /* on standard output */
    const char *svg;
    const char *diff;
};

static enum session_purpose purpose_of(const struct asked *o) {
    return o->serve ? SESSION_SERVE : o->chat ? SESSION_CHAT : SESSION_RUN;
}

/* Whose plan it is. A chat's differs from a run's by checkpoints alone. */
static const char *purpose_text(const struct plan *p) {
    bool asks = false;
    for (uint32_t i = 0; i + 1 < p->n_places; i++)
        asks = asks || p->places[i].kv_per_checkpoint > 0;
    if (p->purpose == PLAN_TO_SERVE)
        return "`stator serve` (and of every command, if the config's section server is not all defaults)";
    if (p->purpose == PLAN_TO_RUN && asks && p->checkpoints == 0)
        return "`stator run`, `bench`, `logits` and `perplexity`";
    return p->purpose == PLAN_TO_CHAT ? "`stator chat`"
                                      : "`stator run`, `bench`, `logits`, `perplexity` and `chat`";
}

static void print_table(const stator *s, const struct plan *p, bool verbose) {
    stator_info info = {.size = sizeof info};
    if (stator_get_info(s, &info, NULL) != STATOR_OK)
        return;
    printf("model %s (%s), context %u, sequences %u, batch %u, logits rows %u\n", info.model_name,
           info.architecture, info.context, info.sequences, info.batch, info.logits_rows);
    plan_table_print(p, stdout, verbose);
    printf("this is the plan of %s\nplan %s\n", purpose_text(p), info.plan_hash);
}

static void print_json(const struct plan *p) {
    struct json j;
    json_to_file(&j, stdout, true);
    plan_to_json(p, &j, NULL);
    (void)json_end(&j); /* out_finish reports what could not be written */
}

static stator_status print_diff(const struct asked *o, const struct plan *p, stator_error *e) {
    char *text = NULL;
    size_t n = 0;
    stator_status st = session_read_file(o->diff, SESSION_JSON_LIMIT, &text, &n, e);
    if (st != STATOR_OK)
        return st;
    st = plan_diff_print(p, text, n, o->diff, o->json || o->svg_only ? stderr : stdout, e);
    free(text);
    return st;
}

/* What the hosts of the other stages have in their own memory: each as if it were planned there. The devices
 * of all are in the table of the first. STATOR_DOES_NOT_FIT: not on one of them. */
static stator_status print_hosts(const char *config, const struct asked *o, stator *first, stator_error *e) {
    const char *host;
    stator_status st = STATOR_OK;
    stator_info info = {.size = sizeof info};
    if (stator_get_info(first, &info, e) != STATOR_OK)
        return e->code;
    for (uint32_t stage = 1; st == STATOR_OK && (host = plan_view_host(first, stage)) != NULL; stage++) {
        stator *s = NULL;
        stator_info there = {.size = sizeof there};
        st = session_open_for(config, &o->set, &o->devices, stage, purpose_of(o), NULL, &s, e);
        if (st == STATOR_OK)
            st = stator_plan(s, e);
        if (st == STATOR_OK)
            st = stator_get_info(s, &there, e);
        if (st == STATOR_OK && strcmp(info.plan_hash, there.plan_hash) != 0)
            st = error_set(e, STATOR_FAILED, "stage %u, %s, would plan %s: the ranks would refuse each other",
                           stage, host, there.plan_hash);
        if (st == STATOR_OK) {
            printf("\nhost of stage %u, %s:\n", stage, host);
            plan_table_print_host(plan_view(s), stdout, host);
        }
        stator_close(s);
    }
    return st;
}

/* What the pictures of --image become. */
static stator_status print_pictures(const struct asked *o, const stator *s, stator_error *e) {
    struct image_files files = {.n = 0};
    stator_status st = image_files_read(&o->images, &files, e);
    if (st == STATOR_OK)
        st = image_files_print(s, &o->images, &files, e);
    image_files_free(&files);
    return st;
}

/* The plan in every form that was asked for. */
static stator_status show(const char *config, const struct asked *o, stator *s, bool fits, stator_error *e) {
    const struct plan *p = plan_view(s);
    stator_status st = STATOR_OK;
    if (o->svg != NULL)
        st = plan_svg_write(p, o->svg, e);
    if (st == STATOR_OK && o->diff != NULL)
        st = print_diff(o, p, e);
    if (st != STATOR_OK)
        return st;
    if (o->json)
        print_json(p);
    else if (o->ascii)
        plan_ascii_print(p, stdout);
    else if (o->diff == NULL && !o->svg_only) {
        print_table(s, p, o->verbose);
        if (fits)
            st = print_hosts(config, o, s, e);
        if (st == STATOR_OK)
            st = print_pictures(o, s, e);
    }
    return st;
}

/* Of a config with several models. */
static int plan_all(const char *config, const struct asked *o, struct models *models) {
    stator_error e, why;
    uint32_t planned = 0;
    if (o->ascii || o->svg != NULL || o->diff != NULL || o->images.n > 0 || o->chat)
        return out_fail(
            "plan", STATOR_USAGE,
            "--svg, --ascii, --diff, --image and --chat are for one model, and the config has %u: "
            "choose it with --set model.name=%s",
            models->n, models->name[0]);
    stator_status st = plan_several_make(config, &o->devices, models, &planned, &e);
    const stator_status shown = plan_several_show(models, planned, o->json, o->verbose, &why);
    if (shown != STATOR_OK)
        st = out_error("plan", &why);
    else if (st != STATOR_OK)
        out_error("plan", &e);
    models_close(models);
    return out_finish("plan", st);
}

int plan_command(int argc, char **argv) {
    struct asked o = {.json = false};
    const struct options_row rows[] = {
        OPTIONS_JSON(&o.json),
        {.name = "device",
         .kind = OPTIONS_LIST,
         .target = &o.devices,
         .value = "NAME=SIZE[,..]",
         .help = "plan for this device instead of those of this machine (may be repeated): "
                 "gpu0=24GiB,max_alloc=19GiB,bandwidth=456GB/s,bus=31GB/s; or a card by name, gpu0=b60; "
                 "link=SIZE/s and hop=12us are from GPU to GPU, for the estimate of a split's speed"},
        {.name = "svg",
         .kind = OPTIONS_TEXT,
         .target = &o.svg,
         .value = "FILE",
         .help = "write a picture of every arena"},
        {.name = "ascii", .kind = OPTIONS_FLAG, .target = &o.ascii, .help = "draw every arena with letters"},
        {.name = "diff",
         .kind = OPTIONS_TEXT,
         .target = &o.diff,
         .value = "OLD.json",
         .help = "say what changed since the plan in OLD.json (made by --json), and why"},
        {.name = "serve",
         .kind = OPTIONS_FLAG,
         .target = &o.serve,
         .help =
             "as `stator serve` plans: with the server's memory and checkpoints (also without this if the "
             "config's section server says anything but the defaults)"},
        {.name = "chat",
         .kind = OPTIONS_FLAG,
         .target = &o.chat,
         .help = "as `stator chat` plans: with checkpoints, if the model has windows or recurrent states"},
        {.name = "image",
         .kind = OPTIONS_LIST,
         .target = &o.images,
         .value = "FILE",
         .help = "say how many tokens of a prompt a picture becomes (with model.vision; may be repeated)"},
        {.name = "verbose",
         .letter = 'v',
         .kind = OPTIONS_FLAG,
         .target = &o.verbose,
         .help = "also list the largest blocks of every arena"},
        OPTIONS_SET(&o.set)};
    struct options options = {
        .command = "plan",
        .usage = "CONFIG",
        .summary =
            "Prints the memory plan: every arena of every device and of the host, in bytes. CONFIG is a "
            "config file or\n"
            "a .gguf file. Exit 3 when the plan does not fit.\n\n"
            "--json: {format: 1, model, hash, fits, for, inputs: {name: value}, devices: [{name, budget, "
            "total, "
            "layers {first, count},\n"
            "share {index, of, received_bytes_per_token, given_bytes_per_token (to each), "
            "received_bytes_per_row,\ngiven_bytes_per_row (of logits), exchanges_per_token, route, "
            "why}\n(tensor split),\n"
            "weights {in_file, packed, padding}, kv_bytes_per_token, kv_bytes_per_sequence (of windows and "
            "states), spill {bytes,\n"
            "weights, kv, kv_layers, bus_bytes_per_step, bus_bytes_per_token, bus_bytes_per_token_most,\n"
            "bus_bytes_per_batch (a step of memory.batch tokens), stream_from_tokens (where a step of so "
            "many copies\n"
            "experts to the arena \"window\"), bus_bytes_per_token_of_context, "
            "bus_bytes_per_sequence (windows and\n"
            "states), bus_bytes_at_full_context} (where it spills), experts {on, bytes, "
            "ram_bytes_per_token,\n"
            "bus_bytes_per_token, slots (of a layer), copied_bytes_per_step_most, window_from_tokens,\n"
            "window_bytes_per_step, window_seconds_per_batch, processors_seconds_per_batch} (where the\n"
            "processors compute them),\n"
            "to_next {route, why, bytes_per_token} (where the next device has other layers),\n"
            "arenas: [{name, bytes, lower_bound, slices: [bytes],\n"
            "blocks: [{name, slice, offset, bytes, first, end}]}]}], host: {name, limit, total, arenas},\n"
            "kv {tokens, room_tokens, sequences_fit (both where it fits)}, spill_slowdown (where it is "
            "known),\n"
            "in_file {bytes, rows_per_token, row_bytes} (of a table of n-grams, which is in no memory),\n"
            "hosted {ram_bytes_per_second, ram_assumed, estimates: [{hits, tokens_per_second}]} (where the "
            "processors\ncompute experts, and bandwidths are known),\n"
            "estimate {link_bytes_per_second, link_assumed, hop_ns, hop_assumed, layers_tokens_per_second,\n"
            "tensor_tokens_per_second (or no_tensor), groups_tokens_per_second, choice} (GPUs with "
            "bandwidths),\n"
            "short {where, bytes, slice_bytes, slice_limit (both only where a slice is too small),\n"
            "largest_context, largest_batch, largest_sequences, kv_type (if a smaller type would fit)} "
            "(where it does "
            "not fit)}.\n"
            "An arena \"spill NAME\" of the host is what the device NAME is too small for (memory.on_oom),\n"
            "and its experts that the processors compute (memory.experts).\n"
            "A block lives in steps first to end - 1 (0, 0: always). Members may be added, these stay.\n"
            "Of a config with a list of models: {format: 1, hash (of all), fits, devices: [{name, budget, "
            "total}], host {limit,\ntotal}, models: [{name, plan: as above}]}.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof rows[0],
        .min_arguments = 1,
        .max_arguments = 1};
    int code = 0;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    o.svg_only = o.svg != NULL && strcmp(o.svg, "-") == 0;
    if (o.json + o.ascii + o.svg_only > 1)
        return out_fail("plan", STATOR_USAGE,
                        "--json, --ascii and --svg - print to standard output: give one of them");
    if (o.serve && o.chat)
        return out_fail("plan", STATOR_USAGE, "--serve and --chat are two plans: give one of them");
    stator *s = NULL;
    stator_error e;
    struct models models;
    if (models_read(options.arguments[0], &o.set, &models, &e) != STATOR_OK)
        return out_error("plan", &e);
    if (models.several)
        return plan_all(options.arguments[0], &o, &models);
    stator_status st =
        session_open_for(options.arguments[0], &o.set, &o.devices, 0, purpose_of(&o), NULL, &s, &e);
    if (st != STATOR_OK)
        return out_error("plan", &e);
    st = stator_plan(s, &e);
    if (st == STATOR_OK || st == STATOR_DOES_NOT_FIT) {
        stator_error why;
        stator_status shown = show(options.arguments[0], &o, s, st == STATOR_OK, &why);
        if (shown != STATOR_OK)
            st = out_error("plan", &why);
        else if (st != STATOR_OK)
            out_error("plan", &e);
    } else {
        out_error("plan", &e);
    }
    stator_close(s);
    return out_finish("plan", st);
}
