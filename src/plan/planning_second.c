#include "plan/planning_second.h"

#include "arch/arch.h"
#include "arch/vision.h"
#include "kernels/kernels.h"
#include "model/same_vocabulary.h"
#include "os/pages.h"
#include "plan/parts/device_spec.h"
#include "plan/fit.h"
#include "plan/planner.h"

#include <stdio.h>
#include <string.h>

/* Shape and tower live in the tables; the arguments are copies that go. */
static stator_status map_tables(struct planning_second *d, const struct shape *shape,
                                const struct tower *tower, stator_error *e) {
    for (int pass = 0; pass < 2; pass++) {
        struct carve c = pass == 0 ? carve_count() : carve_in(d->tables, d->tables_bytes);
        d->shape = carve_take(&c, 1, sizeof *shape);
        d->tower = tower != NULL ? carve_take(&c, 1, sizeof *tower) : NULL;
        if (pass == 1)
            *d->shape = *shape;
        if (pass == 1 && tower != NULL) {
            *d->tower = *tower;
            d->shape->tower = d->tower;
        }
        arch_layout(&d->graph, &c, pass == 1 ? d->shape : shape, 1);
        d->place_work_bytes = graph_place_work_bytes(&d->graph);
        d->place_work = carve_take(&c, d->place_work_bytes, 1);
        CHECK(pass == 0 || c.used == d->tables_bytes); /* both passes lay out the same */
        d->tables_bytes = c.used;
        stator_status st =
            pass == 0 ? pages_map(d->tables_bytes, "a second model's graph", &d->tables, e) : STATOR_OK;
        if (st != STATOR_OK)
            return st;
    }
    return STATOR_OK;
}

/* Whether its model keeps states, which its built graph says. */
static stator_status find_states(struct planning_second *d, stator_error *e) {
    CHECK(d->gguf != NULL && d->tables != NULL);
    struct graph_want want = {.batch = 1, .logits_rows = 1};
    stator_status st = arch_build(&d->graph, d->shape, &want, e);
    for (uint32_t i = 0; st == STATOR_OK && i < d->graph.n_caches; i++)
        d->has_states =
            d->has_states || (d->graph.caches[i].kind == GRAPH_STATE && d->graph.caches[i].n_layers > 0);
    return st;
}

static stator_status read_model(struct planning *s, stator_error *e) {
    struct planning_second *d = &s->draft;
    void *memory = NULL;
    stator_status st = gguf_open(s->config.speculation.model, &d->gguf, e);
    if (st == STATOR_OK)
        st = pages_map(sizeof(struct shape), "the draft model's shape", &memory, e);
    if (st != STATOR_OK)
        return st;
    struct shape *shape = memory;
    st = arch_read(d->gguf, shape, e);
    if (st == STATOR_OK)
        st = same_vocabulary(s->gguf, d->gguf, e);
    shape->pooling = SHAPE_POOL_NONE; /* it drafts tokens, whatever else it can */
    if (st == STATOR_OK && shape->sees_ahead)
        st = error_set(
            e, STATOR_USAGE,
            "speculation.model: model '%s' generates no text, because its tokens see those behind them",
            shape->model_name);
    if (st == STATOR_OK && shape->ngram.heads > 0)
        st =
            error_set(e, STATOR_USAGE,
                      "speculation.model: model '%s' has n-gram embeddings (key '%s.ple.layers'), with which "
                      "it can't be a draft model yet: take another one",
                      shape->model_name, shape->arch_name);
    if (st == STATOR_OK)
        st = map_tables(d, shape, NULL, e);
    pages_unmap(shape, sizeof *shape);
    return st == STATOR_OK ? find_states(d, e) : st;
}

/* What pictures need beside the tower's device. */
static void size_pictures(struct planning *s) {
    struct planning_pictures *p = &s->pictures;
    const struct tower *t = s->vision.tower;
    const uint64_t patches = tower_most_patches(t, s->config.vision.max_pixels);
    p->n = (uint32_t)s->config.vision.pictures;
    p->rows = (uint32_t)(patches / ((uint64_t)t->merge * t->merge));
    p->each = arith_round_up(
        ARITH_MAX(patches * 3 * t->patch * t->patch, (uint64_t)p->rows * tower_row_width(t) * sizeof(float)),
        CARVE_ALIGN);
    p->decode_bytes = arith_round_up(s->config.vision.decode, CARVE_ALIGN);
    p->bytes = pages_rounded(arith_must_add(arith_must_mul(p->n, p->each), p->decode_bytes));
    CHECK(p->n > 0 && p->rows > 0 && p->each > 0);
}

/* A picture's tokens see each other, and all of them are in the window of each. */
static stator_status check_gemma(const struct planning *s, const struct tower *t, const struct shape *text,
                                 stator_error *e) {
    const char *arch = t->projector == TOWER_GEMMA3 ? "gemma3" : "gemma4";
    const uint32_t lead = t->projector == TOWER_GEMMA3; /* the token in front */
    const uint32_t tokens =
        (uint32_t)(tower_most_patches(t, s->config.vision.max_pixels) / ((uint64_t)t->merge * t->merge)) +
        lead;
    if (strcmp(text->arch_name, arch) != 0)
        return error_set(e, STATOR_USAGE,
                         "model.vision: the projector %s needs a text model of the architecture %s, this one "
                         "is %s",
                         tower_projector_name(t->projector), arch, text->arch_name);
    if (text->window > 0 && text->window < tokens)
        return error_set(e, STATOR_USAGE,
                         "model.vision: a picture has up to %u tokens, which is more than the window of the "
                         "text model (%u)",
                         tokens, text->window);
    return STATOR_OK;
}

/* What a text model must be to go with the tower. */
static stator_status check_text(const struct planning *s, const struct tower *t, const struct shape *text,
                                stator_error *e) {
    if (text->n_embd != t->text_width)
        return error_set(e, STATOR_USAGE,
                         "model.vision: the tower of %s is for a text model of width %u, this one has %u",
                         s->config.model.vision, t->text_width, text->n_embd);
    if (text->layer_embd > 0)
        return error_set(
            e, STATOR_USAGE,
            "model.vision: each layer of %s models has embeddings of its own, with which pictures "
            "don't go together yet",
            text->arch_name);
    if (t->deepstacks != text->deepstacks)
        return error_set(e, STATOR_USAGE,
                         "model.vision: the tower of %s has %u layers with deepstack "
                         "(clip.vision.is_deepstack_layers), the text model adds those of %u "
                         "(%s.n_deepstack_layers): take the mmproj file of this model",
                         s->config.model.vision, t->deepstacks, text->deepstacks, text->arch_name);
    if (tower_sees_both(t))
        return check_gemma(s, t, text, e);
    if (!tower_is_qwen(t))
        return STATOR_OK;
    stator_status st = shape_check_sections(s->gguf, text, e);
    if (st != STATOR_OK)
        error_prefix(e, "model.vision: the projector %s", tower_projector_name(t->projector));
    return st;
}

/* The file of model.vision. What of the model or its devices can't go with it is refused. */
static stator_status read_tower(struct planning *s, stator_error *e) {
    struct planning_second *d = &s->vision;
    struct {
        struct shape shape, text;
        struct tower tower;
    } *read = NULL;
    void *memory = NULL;
    stator_status st = gguf_open(s->config.model.vision, &d->gguf, e);
    if (st == STATOR_OK)
        st = pages_map(sizeof *read, "the vision tower's shape", &memory, e);
    if (st != STATOR_OK)
        return st;
    read = memory;
    st = vision_read(d->gguf, s->config.vision.max_pixels, &read->tower, &read->shape, e);
    if (st == STATOR_OK)
        st = arch_read(s->gguf, &read->text, e);
    if (st == STATOR_OK)
        st = check_text(s, &read->tower, &read->text, e);
    if (st == STATOR_OK && s->config.cluster.n > 0)
        st = error_set(e, STATOR_USAGE,
                       "model.vision: pictures do not go with a run over several hosts (cluster.stages) yet");
    if (st == STATOR_OK)
        st = map_tables(d, &read->shape, &read->tower, e);
    pages_unmap(memory, sizeof *read);
    if (st == STATOR_OK)
        size_pictures(s);
    return st;
}

/* A described device has its facts from devices.facts or the list of --device, and runs as our processor. */
static stator_status choose_described(struct planning *s, const struct device_options *o, const char *name,
                                      struct planning_second *second, stator_error *e) {
    struct device_facts facts[DEVICE_SPEC_MAX];
    uint32_t n = 0, one = 0;
    const struct device_facts *said = NULL;
    stator_status st = device_choose("cpu:0", o, &second->choice, 1, &one, e);
    if (st == STATOR_OK)
        st = device_spec_parse_list(s->config.devices.facts, "devices.facts:", facts, &n, e);
    if (st != STATOR_OK)
        return st;
    said = device_spec_find(facts, n, name);
    for (uint32_t i = 0; i < s->n_devices && said == NULL; i++)
        if (strcmp(s->devices[i].facts.name, name) == 0)
            said = &s->devices[i].facts;
    if (said == NULL)
        return error_set(e, STATOR_USAGE, "devices.use names %s, which nothing describes", name);
    second->choice.facts = *said;
    if (said->host_memory)
        second->choice.facts.memory = 0;
    return STATOR_OK;
}

/* The key's name in what is said of devices.use. */
static void name_key(const char *key, stator_error *e) {
    static const char other[] = "devices.use";
    char rest[sizeof e->text];
    if (e == NULL || strncmp(e->text, other, sizeof other - 1) != 0)
        return;
    snprintf(rest, sizeof rest, "%s", e->text + sizeof other - 1);
    snprintf(e->text, sizeof e->text, "%s%.480s", key, rest);
}

static stator_status choose(struct planning *s, const struct device_options *o, const char *key,
                            const char *name, struct planning_second *second, stator_error *e) {
    uint32_t one = 0;
    stator_status st = s->imagined ? choose_described(s, o, name, second, e)
                                   : device_choose(name, o, &second->choice, 1, &one, e);
    if (st != STATOR_OK)
        name_key(key, e);
    return st;
}

static stator_status open_draft(struct planning *s, const struct device_options *o, stator_error *e) {
    const char *name = s->config.speculation.device;
    if (s->config.speculation.mode != CONFIG_SPECULATION_DRAFT)
        return STATOR_OK;
    stator_status st = read_model(s, e);
    return st == STATOR_OK && name[0] != '\0' ? choose(s, o, "speculation.device", name, &s->draft, e) : st;
}

static bool is_auto(const struct planning *s) {
    return strcmp(s->config.vision.device, "auto") == 0;
}

static stator_status open_tower(struct planning *s, const struct device_options *o, stator_error *e) {
    uint32_t one = 0;
    if (s->config.model.vision[0] == '\0')
        return STATOR_OK;
    stator_status st = read_tower(s, e);
    if (st != STATOR_OK)
        return st;
    s->vision_on_cpu = is_auto(s);
    return is_auto(s) ? device_choose("cpu:0", o, &s->vision.choice, 1, &one, e)
                      : choose(s, o, "vision.device", s->config.vision.device, &s->vision, e);
}

stator_status planning_second_open(struct planning *s, const struct device_options *o, stator_error *e) {
    s->draft.beside = s->vision.beside = PLANNING_NONE;
    stator_status st = open_draft(s, o, e);
    if (st == STATOR_OK)
        st = open_tower(s, o, e);
    if (st == STATOR_OK)
        planning_second_place(s);
    return st;
}

static void close_one(struct planning_second *d) {
    pages_unmap(d->tables, d->tables_bytes);
    gguf_close(d->gguf);
}

void planning_second_close(struct planning *s) {
    close_one(&s->draft);
    close_one(&s->vision);
}

static void place_one(struct planning *s, struct planning_second *second, uint32_t at) {
    struct planning_device *d = &s->devices[at];
    char name[sizeof d->facts.name];
    const bool follows =
        second->tower == NULL ? s->config.speculation.device[0] == '\0' : is_auto(s) && !s->vision_on_cpu;
    d->facts = follows ? s->devices[0].facts : second->choice.facts;
    d->choice = follows ? s->devices[0].choice : second->choice;
    d->graph = second->graph;
    d->refused = (struct planning_refusal){0};
    d->halved = d->reduced = 0;
    second->beside = PLANNING_NONE;
    for (uint32_t i = at; i-- > 0;) {
        const struct planning_device *of = &s->devices[i];
        const char *slash = strrchr(of->facts.name, '/'); /* of a draft's device */
        if (d->facts.host_memory && of->facts.host_memory)
            d->choice.joins = true;
        if (!d->facts.host_memory && strcmp(d->facts.name, slash != NULL ? slash + 1 : of->facts.name) == 0)
            second->beside = i;
    }
    snprintf(name, sizeof name, "%s/%.20s", second->tower != NULL ? "vision" : "draft", d->facts.name);
    memcpy(d->facts.name, name, sizeof name);
}

void planning_second_place(struct planning *s) {
    if (s->draft.gguf != NULL)
        place_one(s, &s->draft, planning_draft_at(s));
    if (s->vision.gguf != NULL)
        place_one(s, &s->vision, planning_vision_at(s));
}

/* Whether the model and the tower fit where they are; if not, why. */
static bool tower_fits(struct planning *s, stator_error *why) {
    const uint32_t at = planning_vision_at(s);
    struct planning_want want = s->want;
    struct plan made;
    if (s->config.memory.context == CONFIG_CONTEXT_AUTO)
        want.context = fit_largest_context(s, &want);
    stator_status st = want.context > 0 ? planner_make(s, &want, &made, why)
                                        : error_set(why, STATOR_DOES_NOT_FIT, "no context fits beside it");
    if (st == STATOR_OK)
        st = device_takes(&s->devices[at].choice, &s->devices[at].model, why);
    if (st == STATOR_OK && !made.fits)
        st = error_set(why, STATOR_DOES_NOT_FIT, "%s is short", made.missing.where);
    return st == STATOR_OK;
}

void planning_second_settle(struct planning *s) {
    stator_error why = {0};
    if (s->vision.gguf == NULL || !is_auto(s) || s->devices[0].facts.host_memory)
        return;
    s->vision_on_cpu = false;
    planning_second_place(s);
    if (tower_fits(s, &why))
        return;
    s->vision_on_cpu = true;
    planning_second_place(s);
    snprintf(s->why_vision_cpu, sizeof s->why_vision_cpu, "%s does not take it: %.200s",
             s->devices[0].facts.name, why.text);
    log_write(s->log, STATOR_LOG_WARN, "vision.device = \"auto\": the tower runs on the CPU, because %s",
              s->why_vision_cpu);
}

struct planning_want planning_second_want(const struct planning *s, uint32_t index,
                                          const struct planning_want *want) {
    const struct planning_second *second = planning_second_of(s, index);
    struct planning_want own = *want;
    CHECK(second != NULL && want->sequences > 0);
    if (second->tower != NULL) /* a picture is a step */
        return (struct planning_want){.context = second->shape->context_trained,
                                      .sequences = 1,
                                      .batch = second->shape->context_trained,
                                      .logits_rows = s->pictures.rows,
                                      .kv_type_k = KERNELS_KV_F32,
                                      .kv_type_v = KERNELS_KV_F32,
                                      .any_slice = want->any_slice};
    own.context = ARITH_MIN(want->context, second->shape->context_trained);
    own.logits_rows = want->sequences;
    own.guesses = 0;
    /* Of each sequence's states a copy, which its drafts go on with. */
    own.checkpoints = second->has_states ? want->sequences : 0;
    own.nextn = false;
    own.spill = false;
    own.hosted = false;
    return own;
}

uint32_t planning_second_blocks(const struct planning *s) {
    return (s->draft.gguf != NULL ? planner_max_blocks(&s->draft.graph, 1) : 0) +
           (s->vision.gguf != NULL ? planner_max_blocks(&s->vision.graph, 1) : 0);
}
