/* Who holds which KV blocks. Admission takes all blocks that a request can ever need, so that a running
 * request never fails for memory.
 *
 * Invariant: free blocks and the tables of the running sequences are disjoint and together all blocks.
 * Thread: the engine's. */
#include "engine/engine.h"

#include "kernels/kernels.h"

bool sequences_admit(struct stator *s, uint32_t slot) {
    struct engine_request *r = &s->requests[slot];
    uint32_t tokens = ARITH_MIN(r->n_prompt + r->max_new, s->want.context);
    uint32_t need = (uint32_t)arith_ceil_div(tokens, KERNELS_KV_BLOCK);
    CHECK(need <= s->devices[0].model.kv.blocks_per_sequence);
    struct engine_sequence *q = NULL;
    for (uint32_t i = 0; i < s->want.sequences && q == NULL; i++)
        if (s->sequences[i].request == NULL)
            q = &s->sequences[i];
    if (q == NULL || need > s->n_free_blocks)
        return false;
    for (uint32_t i = 0; i < need; i++)
        q->table[i] = s->free_blocks[--s->n_free_blocks];
    q->request = r;
    q->n_blocks = need;
    q->done = 0;
    q->fresh = true;
    q->failed = false;
    CHECK(q->flights == 0);
    q->began_ns = q->prompt_done_ns = 0;
    s->peak_blocks = ARITH_MAX(s->peak_blocks, s->devices[0].model.kv.n_blocks - s->n_free_blocks);
    return true;
}

void sequences_release(struct stator *s, struct engine_sequence *q) {
    CHECK(q->request != NULL && q->flights == 0);
    for (uint32_t i = q->n_blocks; i-- > 0;)
        s->free_blocks[s->n_free_blocks++] = q->table[i];
    CHECK(s->n_free_blocks <= s->devices[0].model.kv.n_blocks);
    q->request = NULL;
    q->n_blocks = 0;
}
