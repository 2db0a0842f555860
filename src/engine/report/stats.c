/* What the engine is doing, for any thread at any moment: read from what its own thread publishes.
 *
 * The slots' fields that stator_submit fills are read under its lock, so that none is filled meanwhile. */
#include "engine/engine.h"

#include "base/clock.h"
#include "engine/arguments.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <string.h>

static stator_request_state state_of(const struct engine_request *r) {
    if (atomic_load(&r->shown.ended_ns) != 0)
        return STATOR_ENDED;
    return atomic_load(&r->shown.admitted_ns) != 0 ? STATOR_RUNNING : STATOR_WAITING;
}

/* What computing the tokens that came from files would have taken, less what waiting for files took. */
static uint64_t saved_ns(const struct stator *s, uint64_t tokens, uint64_t waited_ns) {
    const uint64_t computed = atomic_load(&s->served.prompt_tokens);
    const double ns =
        computed > 0 ? (double)tokens * (double)atomic_load(&s->served.prompt_ns) / (double)computed : 0;
    return ns > (double)waited_ns ? (uint64_t)(ns - (double)waited_ns) : 0;
}

static void add_kv_files(const struct stator *s, stator_stats *all) {
    const struct kv_jobs *j = &s->run.kv_disk.jobs;
    all->kv_files = atomic_load(&j->shown.files);
    all->kv_file_bytes = atomic_load(&j->shown.bytes_held);
    all->kv_files_read = atomic_load(&j->shown.files_read);
    all->kv_bytes_read = atomic_load(&j->shown.bytes_read);
    all->kv_read_ns = atomic_load(&j->shown.read_ns);
    all->kv_files_written = atomic_load(&j->shown.files_written);
    all->kv_bytes_written = atomic_load(&j->shown.bytes_written);
    all->kv_write_ns = atomic_load(&j->shown.write_ns);
    all->kv_files_lost = atomic_load(&s->run.kv_disk.lost);
    all->kv_hits = atomic_load(&s->run.kv_disk.hits);
    all->kv_tokens = atomic_load(&s->run.kv_disk.tokens);
    all->kv_wait_ns = atomic_load(&s->run.kv_disk.wait_ns);
    all->kv_saved_ns = saved_ns(s, all->kv_tokens, all->kv_wait_ns);
    all->slots_saved = atomic_load(&s->run.kv_disk.saves);
    all->slots_restored = atomic_load(&s->run.kv_disk.restores);
}

static void add_helped(const struct stator *s, stator_stats *all) {
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++) {
        all->helped_rows += atomic_load(&s->devices[i].helped_rows);
        all->helped_ns += atomic_load(&s->devices[i].helped_ns);
        all->slot_rows += atomic_load(&s->devices[i].slot_rows);
        all->slot_copies += atomic_load(&s->devices[i].slot_copies);
        all->streamed_bytes += atomic_load(&s->devices[i].streamed_bytes);
    }
}

stator_status stator_get_stats(stator *s, stator_stats *stats, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(stats, size);
    if (!s->front.started)
        return error_set(e, STATOR_USAGE, "stator_get_stats: call stator_start first");
    stator_stats all = {.capacity = s->front.n_requests,
                        .block_tokens = KERNELS_KV_BLOCK,
                        .blocks = s->shown.blocks,
                        .blocks_free = atomic_load(&s->shown.free_blocks),
                        .requests = atomic_load(&s->served.requests),
                        .cancelled = atomic_load(&s->shown.cancelled),
                        .failed = atomic_load(&s->shown.failed),
                        .tokens_in = atomic_load(&s->shown.tokens_in),
                        .tokens_out = atomic_load(&s->shown.tokens_out),
                        .queue_ns = atomic_load(&s->shown.queue_ns),
                        .steps = atomic_load(&s->stepped),
                        .step_ns = atomic_load(&s->shown.step_ns),
                        .last_step_ns = atomic_load(&s->shown.last_step_ns),
                        .longest_step_ns = atomic_load(&s->shown.longest_step_ns),
                        .blocks_cached = atomic_load(&s->shown.cached_blocks),
                        .blocks_evicted = atomic_load(&s->shown.evicted_blocks),
                        .prefix_hits = atomic_load(&s->shown.hits),
                        .tokens_cached = atomic_load(&s->shown.tokens_cached),
                        .checkpoints = s->run.n_checkpoints,
                        .checkpoints_used = atomic_load(&s->shown.checkpoints_used),
                        .checkpoints_taken = atomic_load(&s->shown.checkpoints_taken),
                        .checkpoints_resumed = atomic_load(&s->shown.checkpoints_resumed)};
    add_kv_files(s, &all);
    add_helped(s, &all);
    const struct speculation_shown *guesses = &s->shown.speculation;
    _Static_assert(STATOR_GUESSES == CONFIG_MOST_GUESSES, "a figure for each");
    all.turns = atomic_load(&guesses->turns);
    for (uint32_t i = 0; i < STATOR_GUESSES; i++) {
        all.kept[i] = atomic_load(&guesses->kept[i]);
        all.guessed[i] = atomic_load(&guesses->guessed[i]);
    }
    all.blocks_held = all.blocks - all.blocks_free;
    all.blocks_taken = atomic_load(&s->shown.taken_blocks);
    all.blocks_peak = atomic_load(&s->shown.peak_blocks);
    pthread_mutex_lock(&s->front.submit_lock);
    for (uint32_t i = 0; i < s->front.n_requests; i++) {
        if (atomic_load(&s->front.requests[i].id) == 0)
            continue;
        stator_request_state state = state_of(&s->front.requests[i]);
        all.running += state == STATOR_RUNNING;
        all.waiting += state == STATOR_WAITING;
        all.ended += state == STATOR_ENDED;
    }
    pthread_mutex_unlock(&s->front.submit_lock);
    uint64_t moved = atomic_load(&s->shown.moved_ns);
    uint64_t now = clock_ns();
    all.stuck_ns = moved != 0 && now > moved ? now - moved : 0;
    if (atomic_load(&s->shown.fault)) {
        all.fault = s->run.broken_why.code;
        snprintf(all.fault_text, sizeof all.fault_text, "%.255s", s->run.broken_why.text);
    }
    ARGUMENTS_WRITE(stats, &all);
    return STATOR_OK;
}

/* From one moment to the next; 0: it has not begun; `next` 0: it goes on until `end`. */
static uint64_t between(uint64_t from, uint64_t next, uint64_t end) {
    uint64_t until = next != 0 ? next : end;
    return from != 0 && until > from ? until - from : 0;
}

static void stats_of(const struct engine_request *r, uint64_t id, stator_request_stats *all) {
    const struct engine_shown *x = &r->shown;
    uint64_t admitted = atomic_load(&x->admitted_ns);
    uint64_t began = atomic_load(&x->began_ns);
    uint64_t prompt_done = atomic_load(&x->prompt_done_ns);
    uint64_t end = atomic_load(&x->ended_ns);
    end = end != 0 ? end : clock_ns();
    *all = (stator_request_stats){.kind = r->kind,
                                  .state = state_of(r),
                                  .held = atomic_load(&r->held) == id,
                                  .events = outbox_waiting(&r->out),
                                  .blocks = atomic_load(&x->blocks),
                                  .n_prompt = r->n_prompt,
                                  .n_computed = ARITH_MIN(atomic_load(&x->done), r->n_prompt),
                                  .n_generated = atomic_load(&x->n_tokens) - r->n_prompt,
                                  .max_new = r->max_new,
                                  .queue_ns = between(r->submitted_ns, admitted, end),
                                  .prompt_ns = between(began, prompt_done, end),
                                  .generate_ns = between(prompt_done, 0, end),
                                  .steps = atomic_load(&x->steps),
                                  .step_ns = atomic_load(&x->step_ns),
                                  .last_step_ns = atomic_load(&x->last_step_ns),
                                  .n_cached = atomic_load(&x->n_cached),
                                  .blocks_taken = atomic_load(&x->taken)};
}

stator_status stator_get_request(stator *s, uint64_t id, stator_request_stats *stats, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(stats, size);
    if (!s->front.started)
        return error_set(e, STATOR_USAGE, "stator_get_request: call stator_start first");
    stator_request_stats all;
    bool found = false;
    pthread_mutex_lock(&s->front.submit_lock);
    for (uint32_t i = 0; i < s->front.n_requests && !found && id != 0; i++) {
        if (atomic_load(&s->front.requests[i].id) != id)
            continue;
        stats_of(&s->front.requests[i], id, &all);
        found = true;
    }
    pthread_mutex_unlock(&s->front.submit_lock);
    if (!found)
        return error_set(
            e, STATOR_USAGE,
            "stator_get_request: there is no request %" PRIu64 ": its end was polled, or it never was", id);
    ARGUMENTS_WRITE(stats, &all);
    return STATOR_OK;
}
