/* One run of the simulator: an engine on simulated devices, and clients whose every choice comes from the
 * seed. The engine's thread, the devices, the clock and the clients take turns on one thread, in the order
 * that the seed says. The engine's thread sleeps where the real one would, until something wakes its ring of
 * commands.
 *
 * Checked: each event against the naive model (sim_text.h), bit by bit; who is refused as busy; the
 * invariants of pool and checkpoints; that every request ends once, in a bounded number of rounds after the
 * last one came; that nothing is held then; with a device that fails, that every request says so. */
#ifndef STATOR_TESTS_SIM_PLAY_H
#define STATOR_TESTS_SIM_PLAY_H

#include "sim_files.h"

#include "app/selftest/selftest_model.h"

enum { SIM_CLIENTS = 16, SIM_TEXTS = 6, SIM_TOP = 3 };

struct sim_client {
    uint64_t id; /* 0: none */
    bool cancelled, held;
    stator_request q;
    struct sampler_settings set;
    stator_budget budget;
    int32_t open, close, queue[3];
    uint32_t n_prompt, n_told;
    struct sim_text text; /* with its whole answer */
    bool acts;            /* it is an action with a slot */
    stator_slot action;
};

static const char *const sim_names[] = {"a", "another one"};

static struct sim_run {
    struct sim_client clients[SIM_CLIENTS];
    uint32_t n_live;
    struct {
        uint32_t n;
        int32_t tokens[SIM_CONTEXT + 1];
    } texts[SIM_TEXTS];
    struct sampler sampler; /* the naive model's */
    uint64_t ended, cancelled, failed, busy, events, cached, kept;
    struct {
        uint64_t ended, cancelled, failed, cached;
    } before; /* the present engine */
} play;

static struct sim_client *sim_client(uint64_t id) {
    for (uint32_t i = 0; i < SIM_CLIENTS && id != 0; i++)
        if (play.clients[i].id == id)
            return &play.clients[i];
    return NULL;
}

static const struct sim_text *sim_text_of(uint64_t id) {
    const struct sim_client *c = sim_client(id);
    return c != NULL ? &c->text : NULL;
}

/* Models: states and an MTP head, attention alone, states, windows. */
enum {
    SIM_MODEL_MTP,
    SIM_MODEL_PLAIN,
    SIM_MODEL_STATES,
    SIM_MODEL_WINDOWS,
    SIM_MODELS = SIM_MODEL_WINDOWS + 3
};

static const char *sim_model(uint32_t kind) {
    static char paths[SIM_MODELS][GGUF_WRITER_PATH];
    static struct gguf_writer writers[SIM_MODEL_WINDOWS];
    static const uint32_t windows[] = {33, 1, 100};
    CHECK(kind < SIM_MODELS);
    if (paths[kind][0] != '\0')
        return paths[kind];
    if (kind < SIM_MODEL_WINDOWS) {
        struct hybrid_model m = hybrid_model_usual();
        m.interval = kind == SIM_MODEL_PLAIN ? 1 : 2;
        m.nextn = kind == SIM_MODEL_MTP;
        m.blocks += m.nextn;
        writers[kind] = gguf_writer_new();
        hybrid_model_write(&writers[kind], m);
        gguf_writer_finish(&writers[kind]);
        return gguf_writer_memory_path(&writers[kind], paths[kind]);
    }
    const struct selftest_model m = {.architecture = "gemma3",
                                     .type = BLOCK_F16,
                                     .n_layers = 7,
                                     .n_embd = 64,
                                     .n_ff = 96,
                                     .n_heads = 2,
                                     .n_kv_heads = 1,
                                     .head_dim = 32,
                                     .vocab = 97,
                                     .context = 4096,
                                     .window = windows[kind - SIM_MODEL_WINDOWS],
                                     .seed = 9};
    int fd = -1; /* open as long as the process runs */
    stator_error e = {0};
    if (selftest_model_make(&m, &fd, paths[kind], &e) != STATOR_OK)
        sim_fail("%s", e.text);
    return paths[kind];
}

/* Of a text there was, and something more; or what another has just asked. */
static void sim_prompt(struct sim_client *c) {
    const struct sim_client *other = &play.clients[sim_below(SIM_CLIENTS)];
    const uint32_t text = (uint32_t)sim_below(SIM_TEXTS + 2);
    struct sim_text *t = &c->text;
    const uint32_t most = sim.shape.context - (uint32_t)sim_below(2);
    if (other->id != 0 && other != c && !other->acts && sim_below(2) == 0) {
        c->n_prompt = t->n = other->n_prompt;
        memcpy(t->tokens, other->text.tokens, t->n * sizeof *t->tokens);
        return;
    }
    if (text < SIM_TEXTS) {
        t->n = play.texts[text].n;
        t->n = t->n > 0 && sim_below(3) == 0 ? (uint32_t)sim_below(t->n) : t->n;
        t->n = ARITH_MIN(t->n, most - 1);
        memcpy(t->tokens, play.texts[text].tokens, t->n * sizeof *t->tokens);
    }
    for (uint64_t more = 1 + sim_below(sim_below(2) ? 3 : 90); more > 0 && t->n < most; more--)
        t->tokens[t->n++] = (int32_t)sim_below(sim_below(8) ? 4 : sim.shape.vocab);
    c->n_prompt = t->n;
}

/* All parameters are given, so that the naive model needs no defaults. */
static void sim_sampling(struct sim_client *c) {
    stator_sampling w = {.top_p = 1, .repeat_penalty = 1, .typical_p = 1, .xtc_threshold = 0.1f};
    if (sim_below(2)) {
        static const float temperatures[] = {0, 0.3f, 0.8f, 1.5f};
        w.temperature = SIM_PICK(temperatures);
        w.top_k = sim_below(2) ? 1 + (uint32_t)sim_below(20) : 0;
        w.top_p = sim_below(3) ? 1 : 0.9f;
        w.min_p = sim_below(3) ? 0 : 0.1f;
        w.repeat_penalty = sim_below(3) ? 1 : 1.2f;
        w.frequency_penalty = sim_below(3) ? 0 : 0.5f;
        w.seed = sim_below(4);
    }
#define SAMPLING_NUMBER(name, NAME, ...)                                                                     \
    w.has |= STATOR_HAS_##NAME;                                                                              \
    c->set.name = w.name;
#define SAMPLING_COUNT  SAMPLING_NUMBER
#define SAMPLING_WINDOW SAMPLING_NUMBER
#define SAMPLING_SEED   SAMPLING_NUMBER
#include "config/sampling.def"
    c->q.sampling = w;
    if (sim_below(4) != 0)
        return;
    c->open = (int32_t)sim_below(7);
    c->close = (int32_t)sim_below(7);
    for (uint32_t i = 0; i < 3; i++)
        c->queue[i] = (int32_t)sim_below(sim.shape.vocab);
    c->budget = (stator_budget){.size = sizeof c->budget,
                                .tokens = (uint32_t)sim_below(8),
                                .begun = (uint32_t)sim_below(2),
                                .open = &c->open,
                                .n_open = 1,
                                .close = &c->close,
                                .n_close = 1,
                                .queue = c->queue,
                                .n_queue = 1 + sim_below(3)};
    c->q.sampling.budget = &c->budget;
}

static void sim_submit_one(void) {
    struct sim_client *c = play.clients;
    while (c < play.clients + SIM_CLIENTS && c->id != 0)
        c++;
    if (c == play.clients + SIM_CLIENTS)
        return;
    memset(c, 0, sizeof *c);
    sim_prompt(c);
    sim_sampling(c);
    c->q.size = sizeof c->q;
    const uint64_t kind = sim_below(20);
    c->q.kind = kind < 2 ? STATOR_LOGITS : kind == 2 ? STATOR_EMBED : STATOR_GENERATE;
    c->q.tokens = c->text.tokens;
    c->q.n_tokens = c->n_prompt;
    c->q.max_new = 1 + (uint32_t)sim_below(sim_below(4) ? 12 : SIM_CONTEXT);
    c->q.ignore_eos = 1;
    c->q.logprobs = c->q.kind == STATOR_GENERATE && sim_below(3) == 0;
    c->q.top_logprobs = c->q.logprobs ? (uint32_t)sim_below(SIM_TOP + 1) : 0;
    stator_error e = {0};
    uint64_t id = 0;
    const stator_status st = stator_submit(sim.s, &c->q, &id, &e);
    if ((st == STATOR_BUSY) != (play.n_live == sim.s->front.n_requests))
        sim_fail("submit with %u of %u requests there: %d %s", play.n_live, sim.s->front.n_requests, (int)st,
                 e.text);
    if (st == STATOR_BUSY) {
        sim_reach(SIM_QUEUE_FULL, true);
        play.busy++;
        return;
    }
    if (st != STATOR_OK)
        sim_fail("submit: %s", e.text);
    c->id = id;
    play.n_live++;
    if (c->q.kind == STATOR_GENERATE)
        sim_text_answer(&sim.shape, &play.sampler, &c->set, c->q.sampling.budget, c->q.max_new, &c->text);
    float logits[SIM_VOCAB];
    sim_text_logits(&sim.shape, &c->text, c->text.n - 1, logits);
}

/* Saves, restores or erases the text of a slot. Of a restore, the text must be one that was saved; what it
 * brings back is checked by the steps that use it. */
static void sim_act(void) {
    struct sim_client *c = play.clients;
    while (c < play.clients + SIM_CLIENTS && c->id != 0)
        c++;
    if (c == play.clients + SIM_CLIENTS)
        return;
    memset(c, 0, sizeof *c);
    c->acts = true;
    c->action = (stator_slot){.size = sizeof c->action,
                              .action = (stator_slot_action)sim_below(3),
                              .slot = (uint32_t)sim_below(sim.s->planning.want.sequences),
                              .name = SIM_PICK(sim_names)};
    stator_error e = {0};
    uint64_t id = 0;
    const stator_status st = stator_slot_submit(sim.s, &c->action, &id, &e);
    if ((st == STATOR_BUSY) != (play.n_live == sim.s->front.n_requests))
        sim_fail("an action with %u of %u requests there: %d %s", play.n_live, sim.s->front.n_requests,
                 (int)st, e.text);
    if (st == STATOR_USAGE && c->action.action == STATOR_SLOT_RESTORE)
        sim_reach(SIM_SAVE_ABSENT, true);
    else if (st != STATOR_OK && st != STATOR_BUSY)
        sim_fail("an action: %s", e.text);
    if (st != STATOR_OK)
        return;
    c->id = id;
    play.n_live++;
}

/* Whether an error begins with the device that failed. */
static bool sim_names_device(const char *text) {
    text += sim_cluster != NULL && text[0] != '\0' && text[1] == '/' ? 2 : 0; /* the host */
    return strncmp(text, "sim:", 4) == 0 || strncmp(text, "draft/sim:4: wait: ", 19) == 0;
}

static void sim_check_action(struct sim_client *c, const stator_event *ev) {
    const bool lost = sim.faulted && ev->status == STATOR_DEVICE && sim_names_device(ev->text);
    const bool refused =
        c->action.action == STATOR_SLOT_SAVE && ev->status == STATOR_FAILED &&
        (ev->n_prompt == 0 ? strstr(ev->text, "no text to save") : strstr(ev->text, "cache.kv_")) != NULL;
    const bool right =
        ev->kind == STATOR_EVENT_DONE &&
        (ev->reason == STATOR_REASON_LENGTH || (ev->reason == STATOR_REASON_CANCELLED && c->cancelled) ||
         (ev->reason == STATOR_REASON_FAILED && (lost || refused)));
    if (!right || ev->slot != c->action.slot || ev->n_cached > ev->n_prompt || ev->n_generated > 0 ||
        (c->action.action != STATOR_SLOT_ERASE && ev->n_cached % KV_LAYOUT_BLOCK != 0))
        sim_fail("action %d with slot %u ends with reason %d, status %d, \"%s\", %u of %u tokens",
                 (int)c->action.action, c->action.slot, (int)ev->reason, (int)ev->status, ev->text,
                 ev->n_cached, ev->n_prompt);
    sim_reach(SIM_SLOT_SAVED, c->action.action == STATOR_SLOT_SAVE && ev->n_cached > 0);
    sim_reach(SIM_SLOT_RESTORED, c->action.action == STATOR_SLOT_RESTORE && ev->n_cached > 0);
    sim_reach(SIM_SLOT_ERASED, c->action.action == STATOR_SLOT_ERASE && ev->n_cached > 0);
    play.ended++;
    play.cancelled += ev->reason == STATOR_REASON_CANCELLED;
    play.failed += ev->reason == STATOR_REASON_FAILED;
    play.n_live--;
    c->id = 0;
}

static void sim_check_token(struct sim_client *c, const stator_event *ev) {
    const uint32_t p = c->n_prompt + c->n_told++;
    if (p >= c->text.n || ev->position != p || ev->token != c->text.tokens[p])
        sim_fail("request %llu is told token %d at position %u; token %d at position %u is expected",
                 (unsigned long long)c->id, ev->token, ev->position, p < c->text.n ? c->text.tokens[p] : -1,
                 p);
    float logits[SIM_VOCAB], logprob = 0;
    stator_logprob top[STATOR_TOP_LOGPROBS];
    uint32_t n = 0;
    if (c->q.logprobs) {
        sim_text_logits(&sim.shape, &c->text, p - 1, logits);
        n = sampler_logprobs(&play.sampler, logits, NULL, ev->token, c->q.top_logprobs, &logprob, top);
    }
    if (n != ev->n_top || memcmp(&logprob, &ev->logprob, sizeof logprob) != 0 ||
        memcmp(top, ev->top, n * sizeof *top) != 0)
        sim_fail("request %llu: other log probabilities at position %u", (unsigned long long)c->id, p);
}

static void sim_check_row(struct sim_client *c, const stator_event *ev) {
    float logits[SIM_VOCAB];
    const uint32_t p = c->n_told++;
    if (p >= c->n_prompt || ev->position != p)
        sim_fail("request %llu is told the logits of position %u, those of %u are expected",
                 (unsigned long long)c->id, ev->position, p);
    sim_text_logits(&sim.shape, &c->text, p, logits);
    if (memcmp(logits, ev->logits, sim.shape.vocab * sizeof *logits) != 0)
        sim_fail("request %llu: other logits at position %u", (unsigned long long)c->id, p);
}

/* Without pooling a vector is the row behind the prompt. */
static void sim_check_vector(struct sim_client *c, const stator_event *ev) {
    float logits[SIM_VOCAB];
    sim_text_logits(&sim.shape, &c->text, c->n_prompt - 1, logits);
    if (c->q.kind != STATOR_EMBED || c->n_told++ > 0 || ev->n_values != sim.shape.vocab ||
        memcmp(logits, ev->logits, sim.shape.vocab * sizeof *logits) != 0)
        sim_fail("request %llu: another vector", (unsigned long long)c->id);
}

static void sim_check_end(struct sim_client *c, const stator_event *ev) {
    const uint32_t all = c->q.kind == STATOR_LOGITS  ? c->n_prompt
                         : c->q.kind == STATOR_EMBED ? 1
                                                     : c->text.n - c->n_prompt;
    const bool lost = sim.faulted && ev->status == STATOR_DEVICE && sim_names_device(ev->text);
    const bool damaged =
        sim.damaged == c->id && ev->status == STATOR_FAILED && strstr(ev->text, "finite") != NULL;
    const bool right = ev->reason == STATOR_REASON_LENGTH
                           ? c->n_told == all && (sim.damaged != c->id || c->q.kind == STATOR_LOGITS)
                       : ev->reason == STATOR_REASON_CANCELLED
                           ? c->cancelled
                           : ev->reason == STATOR_REASON_FAILED && (lost || damaged);
    if (!right)
        sim_fail("request %llu ends with reason %d, status %d, \"%s\" after %u of %u events",
                 (unsigned long long)c->id, (int)ev->reason, (int)ev->status, ev->text, c->n_told, all);
    if (ev->n_cached >= c->n_prompt || (ev->n_cached > 0 && (!eng.reuses || c->q.kind == STATOR_LOGITS)) ||
        ev->n_prompt != c->n_prompt || ev->n_kept > ev->n_guessed ||
        (c->q.kind == STATOR_GENERATE && ev->n_generated != c->n_told))
        sim_fail("request %llu ends with figures that can't be: %u of %u cached, %u of %u kept, %u generated",
                 (unsigned long long)c->id, ev->n_cached, ev->n_prompt, ev->n_kept, ev->n_guessed,
                 ev->n_generated);
    const uint32_t to = (uint32_t)sim_below(SIM_TEXTS);
    play.texts[to].n = c->n_prompt + (c->q.kind == STATOR_GENERATE ? c->n_told : 0);
    memcpy(play.texts[to].tokens, c->text.tokens, sizeof c->text.tokens);
    play.ended++;
    play.cancelled += ev->reason == STATOR_REASON_CANCELLED;
    play.failed += ev->reason == STATOR_REASON_FAILED;
    play.cached += ev->n_cached;
    play.kept += ev->n_kept;
    play.n_live--;
    c->id = 0;
}

/* False: there was none. */
static bool sim_poll(void) {
    stator_event ev = {.size = sizeof ev};
    int have = 0;
    if (stator_poll(sim.s, 0, &ev, &have, NULL) != STATOR_OK)
        sim_fail("poll is refused");
    if (!have)
        return false;
    struct sim_client *c = sim_client(ev.request);
    if (c == NULL || (c->held && !c->cancelled))
        sim_fail("an event of request %llu, which %s", (unsigned long long)ev.request,
                 c == NULL ? "has ended" : "is held");
    play.events++;
    if (c->acts)
        sim_check_action(c, &ev);
    else if (ev.kind == STATOR_EVENT_TOKEN)
        sim_check_token(c, &ev);
    else if (ev.kind == STATOR_EVENT_LOGITS)
        sim_check_row(c, &ev);
    else if (ev.kind == STATOR_EVENT_VECTOR)
        sim_check_vector(c, &ev);
    else
        sim_check_end(c, &ev);
    return true;
}

static void sim_cancel(void) {
    struct sim_client *c = &play.clients[sim_below(SIM_CLIENTS)];
    for (uint32_t i = 0; i < sim.s->planning.want.sequences; i++) /* rather one that waits for files */
        if (sim.s->run.sequences[i].request != NULL && kv_disk_waits(&sim.s->run.sequences[i]))
            c = sim_client(atomic_load(&sim.s->run.sequences[i].request->id));
    if (c == NULL || c->id == 0)
        return;
    stator_cancel(sim.s, c->id);
    c->cancelled = true;
    for (uint32_t i = 0; i < sim.s->run.n_waiting; i++)
        sim_reach(SIM_CANCELLED_WAITING,
                  atomic_load(&sim.s->front.requests[sim.s->run.waiting[i]].id) == c->id);
    if (eng.next == LOOP_COMMANDS && !eng.woken)
        sim_fail("the engine's thread sleeps although request %llu was cancelled", (unsigned long long)c->id);
}

/* One client at most does not read. */
static void sim_hold(void) {
    struct sim_client *c = play.clients;
    while (c < play.clients + SIM_CLIENTS && !(c->id != 0 && c->held))
        c++;
    if (c == play.clients + SIM_CLIENTS)
        c = &play.clients[sim_below(SIM_CLIENTS)];
    if (c->id == 0)
        return;
    c->held = !c->held;
    if (stator_hold(sim.s, c->id, c->held, NULL) != STATOR_OK)
        sim_fail("hold of request %llu is refused", (unsigned long long)c->id);
}

static void sim_check_rest(void) {
    stator_stats t = {.size = sizeof t};
    sim_check_released();
    if (stator_get_stats(sim.s, &t, NULL) != STATOR_OK || t.requests != play.ended - play.before.ended ||
        t.cancelled != play.cancelled - play.before.cancelled ||
        t.failed != play.failed - play.before.failed || t.tokens_cached != play.cached - play.before.cached)
        sim_fail("the statistics are wrong");
}

static void sim_turn(void) {
    const uint32_t what = (uint32_t)sim_below(100);
    if (what < eng.submits_in)
        for (uint64_t n = sim_below(4) == 0 ? 1 + sim_below(6) : 1; n > 0; n--)
            sim_submit_one();
    else if (what < eng.submits_in + 1)
        sim_below(3) == 0 ? sim_cancel() : sim_hold();
    else if (what < eng.submits_in + 1 + eng.polls_in)
        for (uint64_t n = 1 + sim_below(8); n > 0 && sim_poll(); n--)
            ;
    else if (what < 95)
        sim_pass_time();
    if (files.on && sim_below(12) == 0)
        sim_act();
    if (sim_below(files.slow ? 20 : 2) == 0)
        (void)sim_file_job();
    if (sim_below(400) == 0)
        files.full = !files.full;
    for (uint64_t n = sim_below(3); n > 0; n--)
        sim_engine_round();
    if (sim.round % 16 == 0)
        sim_check_whole();
}

/* All are read, and none comes. Who is held and cancelled ends all the same. */
static void sim_drain(void) {
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        if (play.clients[i].id != 0 && play.clients[i].held && !play.clients[i].cancelled) {
            play.clients[i].held = false;
            (void)stator_hold(sim.s, play.clients[i].id, 0, NULL);
        }
    for (uint32_t i = 0; play.n_live > 0; i++, sim.round++) {
        if (i == SIM_BOUND)
            sim_fail("%u requests do not end: the engine's thread %s", play.n_live,
                     eng.next == LOOP_COMMANDS ? "sleeps" : "runs");
        sim_engine_round();
        (void)sim_file_job();
        sim_pass_time();
        while (sim_poll())
            ;
    }
    for (uint32_t i = 0; i < SIM_BOUND && !pipeline_is_empty(sim.s);
         i++) { /* what was cancelled on its way */
        sim_engine_round();
        sim_pass_time();
    }
}

/* Before another engine of the same play: ids begin anew. */
static void sim_engine_reset(void) {
    eng.next = LOOP_AGAIN;
    eng.woken = false;
    eng.last_admitted = 0;
    memset(eng.progress, 0, sizeof eng.progress);
}

/* Another engine with the same settings goes on from the files. Requests of the one before are gone: some had
 * ended, others end with it. */
static void sim_restart(const char *model, const char *const *list) {
    const bool drains = sim_below(2) == 0, killed = sim_below(2) == 0;
    if (drains) {
        sim_drain();
        sim_check_rest();
    }
    sim_files_stop(killed);
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        play.clients[i].id = 0;
    play.n_live = 0;
    play.before.ended = play.ended;
    play.before.cancelled = play.cancelled;
    play.before.failed = play.failed;
    play.before.cached = play.cached;
    if (killed)
        sim_files_crash();
    files.restarts++;
    files.kills += killed;
    files.full = false;
    sim.damaged = 0;
    sim_engine_reset();
    sim_start(model, list, false);
    interpose_reset(INTERPOSE_ABORT);
}

/* What makes the draft tokens of a run that has any: a model with an MTP head drafts with it, but not in a
 * tensor split, which refuses it; some others have a draft model. This takes no random numbers from the
 * turns, so that a new kind of draft does not change the other runs. */
static void sim_use_drafts(uint32_t kind, char sets[SIM_SETS][64], const char **list) {
    const uint64_t random = sim_mix(sim.seed, 2);
    bool tensor = false;
    uint32_t n = 0, mode = SIM_SETS;
    for (; list[n] != NULL; n++) {
        tensor = tensor || strcmp(list[n], "devices.split=tensor") == 0;
        mode = strcmp(list[n], "speculation.mode=ngram") == 0 ? n : mode;
    }
    if (mode == SIM_SETS)
        return;
    if (kind == SIM_MODEL_MTP && !tensor && random % 4 != 0) {
        list[mode] = "speculation.mode=mtp";
    } else if (random % 4 == 0) {
        const uint32_t windows = SIM_MODELS - SIM_MODEL_WINDOWS; /* models of one vocabulary */
        const uint32_t other = kind < SIM_MODEL_WINDOWS
                                   ? SIM_MODEL_PLAIN + (uint32_t)(random / 4 % 2)
                                   : SIM_MODEL_WINDOWS + (uint32_t)(random / 4 % windows);
        list[mode] = "speculation.mode=draft";
        snprintf(sets[n], 64, "speculation.model=%s", sim_model(other));
        list[n] = sets[n];
        list[n + 1] = "speculation.device=sim:4";
        list[n + 2] = NULL;
        if (random / 64 % 2)
            sim.fault_device = SIM_DRAFTS_ON;
        sim_reach(SIM_DRAFT_STATES, other == SIM_MODEL_STATES);
    }
}

/* A run of a script's turns. Everything follows from it. */
static void sim_play(const struct sim_script *script) {
    char sets[SIM_SETS][64], file_sets[2][128];
    const char *list[SIM_SETS];
    memset(&play, 0, sizeof play);
    sim_begin(script->seed, sim_text_of);
    sim_choose(sets, list);
    sim_files_begin(file_sets);
    if (sim_cluster != NULL)
        sim_cluster->choose(list);
    uint32_t n = 0;
    while (list[n] != NULL)
        n++;
    for (uint32_t i = 0; i < 2 && files.on; i++)
        list[n++] = file_sets[i];
    list[n++] = "log.level=error";
    list[n] = NULL;
    const uint32_t kind = (uint32_t)sim_below(SIM_MODELS);
    const char *model = sim_model(kind);
    if (sim_cluster == NULL)
        sim_use_drafts(kind, sets, list);
    sim_start(model, list, false);
    if (script->faultless) {
        sim.fault = SIM_NONE;
        files.fails_in = 0;
    }
    interpose_reset(INTERPOSE_ABORT);
    void *memory = sim_make_sampler(&play.sampler);
    for (uint32_t i = 0; i < script->turns && !(sim.faulted && sim_below(200) == 0); i++) {
        sim.round = i;
        sim_deal(i);
        if (script->left_out[i])
            continue;
        if (files.on && !sim.faulted &&
            (i == files.restart_at[0] || i == files.restart_at[1] || i == files.restart_at[2]))
            sim_restart(model, list);
        sim_turn();
        if (sim_cluster != NULL)
            sim_cluster->turn(i);
    }
    sim_deal(SIM_TURNS);
    sim_drain();
    sim_check_rest();
    sim_files_stop(false);
    free(memory);
}

#endif
