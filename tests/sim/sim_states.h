/* Coverage of the simulator: states of the engine that a run should reach, each with the number of rounds (or
 * steps) in which it was there. A state that no run reaches is something that nothing tests. */
#ifndef STATOR_TESTS_SIM_STATES_H
#define STATOR_TESTS_SIM_STATES_H

#include "testing.h"

#include "engine/engine.h"
#include "engine/cache/checkpoints.h"
#include "engine/cache/kv_disk.h"
#include "engine/run/step_fill.h"

#define SIM_STATES(X)                                                                                        \
    X(QUEUE_FULL, "a request is refused as busy")                                                            \
    X(WAITS_FOR_PLACE, "a request waits for a sequence")                                                     \
    X(WAITS_FOR_ROWS, "a request waits for the rows of a reader")                                            \
    X(OUTBOX_FULL, "a request's outbox is full")                                                             \
    X(READER_STALLS, "an ended step waits for its reader")                                                   \
    X(CHUNK_DISCARDED, "a reader's chunk is discarded and computed again")                                   \
    X(STATE_READER, "a reader of a model with states")                                                       \
    X(TWO_STEPS, "two steps are under way")                                                                  \
    X(FOUR_STEPS, "four steps are under way")                                                                \
    X(ALL_DEVICES_WORK, "three devices work at once")                                                        \
    X(GROUPS_WORK, "two groups of devices work at once")                                                     \
    X(BLOCK_SHARED, "three sequences share a block")                                                         \
    X(BLOCK_EQUAL, "two sequences compute the same block")                                                   \
    X(BLOCK_EVICTED, "a cached block was evicted")                                                           \
    X(CHECKPOINT_TAKEN, "a checkpoint was taken")                                                            \
    X(CHECKPOINT_RESUMED, "a checkpoint was resumed")                                                        \
    X(CHECKPOINT_AWAITED, "a sequence waits for the checkpoint of another")                                  \
    X(CHECKPOINTS_USED, "all checkpoints are used")                                                          \
    X(CHECKPOINTS_HELD, "all checkpoints are held by sequences")                                             \
    X(COPIED_TWICE, "a step takes a checkpoint, and another sequence resumes from it")                       \
    X(DRAFTS_KEPT, "all drafts of a step are kept")                                                          \
    X(DRAFTS_REJECTED, "no draft of a step is kept")                                                         \
    X(DRAFTS_REST, "a sequence rests from drafts")                                                           \
    X(DRAFTS_OF_STATE, "drafts in a model with states")                                                      \
    X(RING_WRAPS, "a ring has wrapped around")                                                               \
    X(HEAD_AGAIN, "the MTP head goes on from its own draft token")                                           \
    X(HEAD_NOT_FINITE, "the MTP head makes no finite logit")                                                 \
    X(HEAD_SEVERAL, "the MTP head drafts for several sequences at once")                                     \
    X(DRAFT_AGAIN, "the draft model goes on from its own draft token")                                       \
    X(DRAFT_RETURNS, "the draft model's caches keep the begin of a text")                                    \
    X(DRAFT_SEVERAL, "the draft model drafts for several sequences at once")                                 \
    X(DRAFT_NOT_FINITE, "the draft model makes no finite logit")                                             \
    X(DRAFT_STATES, "the draft model has states")                                                            \
    X(DRAFT_FAILS, "the draft model's device fails")                                                         \
    X(CONTEXT_FULL, "an answer reaches the end of the context")                                              \
    X(FORCED, "tokens are forced")                                                                           \
    X(CANCELLED_WAITING, "a waiting request was cancelled")                                                  \
    X(CANCELLED_IN_FLIGHT, "a request was cancelled while a step carries it")                                \
    X(CANCELLED_HELD, "a held request was cancelled")                                                        \
    X(ENGINE_SLEEPS, "the engine sleeps although requests run")                                              \
    X(SUBMIT_FAILS, "a device refuses a step")                                                               \
    X(DEVICE_LOST, "a device is lost")                                                                       \
    X(DEVICE_HANGS, "a device hangs")                                                                        \
    X(ROW_DAMAGED, "a row of logits is not finite")                                                          \
    X(FAULT_WHILE_WAITING, "a device fails while requests wait")                                             \
    X(FILES_AWAITED, "a sequence waits for files")                                                           \
    X(MOVE_BEHIND_STEPS, "a device copies blocks behind steps")                                              \
    X(FILES_TAKEN, "blocks of files were taken")                                                             \
    X(FILES_CHECKPOINT, "a sequence waits for the file of a checkpoint")                                     \
    X(FILES_LOST, "a block that is evicted finds no buffer")                                                 \
    X(FILES_CANCELLED, "a request that waits for files was cancelled")                                       \
    X(FILES_FULL, "a write failed, and no more is written")                                                  \
    X(SLOT_SAVED, "a slot's text was saved")                                                                 \
    X(SLOT_SAVES_BESIDE, "a save waits for steps that had begun")                                            \
    X(SLOT_RESTORED, "a slot's text was restored")                                                           \
    X(SLOT_ERASED, "a slot's text was erased")                                                               \
    X(SAVE_ABSENT, "a save that is asked for is absent")

#define SIM_STATE_NAME(name, text) SIM_##name,
enum sim_state { SIM_STATES(SIM_STATE_NAME) SIM_N_STATES };

static uint64_t sim_reached[SIM_N_STATES]; /* of all runs of the process */

static inline void sim_reach(enum sim_state state, bool there) {
    sim_reached[state] += there;
}

/* Tells of each state that was not reached; their number. */
static inline uint32_t sim_states_missing(void) {
#define SIM_STATE_TEXT(name, text) text,
    static const char *const texts[] = {SIM_STATES(SIM_STATE_TEXT)};
    uint32_t n = 0;
    for (uint32_t i = 0; i < SIM_N_STATES; i++) {
        if (sim_reached[i] > 0)
            continue;
        print_message("never reached: %s\n", texts[i]);
        n++;
    }
    return n;
}

static inline void sim_note_sequence(const struct stator *s, const struct engine_sequence *q) {
    const struct engine_request *r = q->request;
    sim_reach(SIM_OUTBOX_FULL, atomic_load(&r->out.stalled));
    sim_reach(SIM_CHUNK_DISCARDED, q->round > 0);
    sim_reach(SIM_STATE_READER, r->kind == STATOR_LOGITS && s->run.has_states);
    sim_reach(SIM_BLOCK_EQUAL, q->shares && q->n_kept < q->done / KV_LAYOUT_BLOCK);
    sim_reach(SIM_CHECKPOINT_AWAITED, step_fill_runs(q, STATOR_GENERATE) && checkpoints_wait(s, q));
    sim_reach(SIM_DRAFTS_KEPT, q->speculation.n > 0 && q->speculation.kept == q->speculation.n);
    sim_reach(SIM_DRAFTS_REJECTED, q->speculation.n > 0 && q->speculation.kept == 0);
    sim_reach(SIM_DRAFTS_REST, q->speculation.pace.rest > 0);
    sim_reach(SIM_DRAFTS_OF_STATE, q->speculation.n > 0 && s->run.has_states);
    sim_reach(SIM_CONTEXT_FULL, r->n_tokens == s->planning.want.context);
    sim_reach(SIM_FORCED, r->forced.inside);
    sim_reach(SIM_CANCELLED_IN_FLIGHT, step_fill_cancelled(r) && q->flights > 0);
    sim_reach(SIM_CANCELLED_HELD, step_fill_cancelled(r) && atomic_load(&r->held) == atomic_load(&r->id));
    sim_reach(SIM_FILES_AWAITED, kv_disk_waits(q));
    sim_reach(SIM_FILES_CHECKPOINT, q->restore.state == RESTORE_CHECKPOINT);
    sim_reach(SIM_FILES_CANCELLED, kv_disk_waits(q) && step_fill_cancelled(r));
    sim_reach(SIM_SLOT_SAVES_BESIDE,
              q->restore.state == RESTORE_SAVES && s->run.first_step < q->restore.barrier);
    for (uint32_t c = 0; c < s->planning.devices[0].graph.n_caches; c++)
        sim_reach(SIM_RING_WRAPS, s->planning.devices[0].graph.caches[c].kind == GRAPH_RING &&
                                      q->done > q->caches[c].n_blocks * KV_LAYOUT_BLOCK);
}

static inline void sim_note_checkpoints(const struct stator *s) {
    uint32_t held = 0;
    for (uint32_t i = 0; i < s->run.n_checkpoints; i++)
        held += s->run.checkpoints[i].holders > 0;
    sim_reach(SIM_CHECKPOINT_TAKEN, atomic_load(&s->shown.checkpoints_taken) > 0);
    sim_reach(SIM_CHECKPOINT_RESUMED, atomic_load(&s->shown.checkpoints_resumed) > 0);
    sim_reach(SIM_CHECKPOINTS_USED,
              s->run.n_checkpoints > 0 && atomic_load(&s->shown.checkpoints_used) == s->run.n_checkpoints);
    sim_reach(SIM_CHECKPOINTS_HELD, s->run.n_checkpoints > 0 && held == s->run.n_checkpoints);
}

/* After a round of the engine. sleeps: its thread waits for commands. */
static inline void sim_note_states(const struct stator *s, bool sleeps) {
    uint32_t running = 0, working = 0;
    for (uint32_t i = 0; i < s->planning.want.sequences; i++)
        if (s->run.sequences[i].request != NULL) {
            running++;
            sim_note_sequence(s, &s->run.sequences[i]);
        }
    for (uint32_t i = 0; i < s->run.n_waiting; i++) {
        const bool reads = s->front.requests[s->run.waiting[i]].kind == STATOR_LOGITS;
        sim_reach(SIM_WAITS_FOR_ROWS, reads && running < s->planning.want.sequences);
    }
    for (uint32_t i = 0; i < s->planning.n_devices; i++)
        working += s->devices[i].n_running > 0;
    for (uint32_t i = 0; i < s->run.pool.n_blocks; i++)
        sim_reach(SIM_BLOCK_SHARED, s->run.pool.blocks[i].holders > 2);
    sim_note_checkpoints(s);
    sim_reach(SIM_FILES_TAKEN, atomic_load(&s->run.kv_disk.hits) > 0);
    sim_reach(SIM_FILES_LOST, atomic_load(&s->run.kv_disk.lost) > 0);
    sim_reach(SIM_FILES_FULL, s->run.kv_disk.jobs.runs && !s->run.kv_disk.jobs.store.writes);
    sim_reach(SIM_WAITS_FOR_PLACE, s->run.n_waiting > 0 && running == s->planning.want.sequences);
    sim_reach(SIM_BLOCK_EVICTED, s->run.pool.evicted > 0);
    sim_reach(SIM_TWO_STEPS, s->run.next_step - s->run.first_step == 2);
    sim_reach(SIM_FOUR_STEPS, s->run.next_step - s->run.first_step == 4);
    sim_reach(SIM_ALL_DEVICES_WORK, working == 3);
    sim_reach(SIM_GROUPS_WORK, planning_largest_group(&s->planning) > 1 && working == 2);
    sim_reach(SIM_ENGINE_SLEEPS, sleeps && running > 0);
    if (s->run.next_step == s->run.first_step)
        return;
    const struct engine_step *step = &s->run.steps[s->run.first_step % s->run.max_steps];
    sim_reach(SIM_READER_STALLS, step->reader != NULL && !step->running &&
                                     step->at + 1 == s->planning.n_devices &&
                                     step_fill_reader_room(step->reader) == 0);
}

#endif
