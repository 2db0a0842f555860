/* An exchange between GPUs as one launch of one group: what Intel's command streamer does with a copy, signals, a wait and resets of
 * events in a list. Values of up to 128 KiB are pushed here; larger ones are copies before it (events.c). An item that waits for a
 * signal gives up after two minutes, so that no GPU hangs when another one is lost. */
#include "exchange.h"

#define GIVE_UP_NS 120000000000ul

static ulong now(void) {
    ulong t;
    __asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

static void all_system(void) {
    __asm__ volatile("fence.acq_rel.sys;" ::: "memory");
}

static void set(ulong at, uint value) {
    __asm__ volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

static uint get(ulong at) {
    uint v;
    __asm__ volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return v;
}

static void meet(void) {
    __asm__ volatile("bar.sync 0;" ::: "memory");
}

static void push(ulong to, ulong from, uint bytes, uint me) {
    if ((to | from | bytes) % 16 == 0)
        for (uint i = me; i < bytes / 16; i += EXCHANGE_GROUP)
            ((global uint4 *)to)[i] = ((const global uint4 *)from)[i];
    else
        for (uint i = me; i < bytes / 4; i += EXCHANGE_GROUP)
            ((global uint *)to)[i] = ((const global uint *)from)[i];
}

static void wait_for(ulong at) {
    const ulong begin = now();
    uint polls = 0;
    while (get(at) == 0)
        if (++polls % 1024 == 0 && now() - begin > GIVE_UP_NS)
            __asm__ volatile("trap;");
}

static void add_u64(ulong at, ulong v) {
    __asm__ volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(v) : "memory");
}

static void keep(ulong times, bool copies, ulong begin, ulong pushed, ulong end) {
    add_u64(times, 1);
    add_u64(times + 8, end - pushed);
    ulong bucket = (end - begin) / 500;
    bucket = bucket < EXCHANGE_BUCKETS ? bucket : EXCHANGE_BUCKETS - 1;
    if (copies)
        __asm__ volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(times + 16 + 4 * bucket) : "memory");
}

kernel void zecuda_exchange(struct exchange x) {
    const uint me = __nvvm_read_ptx_sreg_tid_x();
    const bool keeps = x.times != 0 && x.n_waits > 0 && me == 0;
    const ulong begin = keeps ? now() : 0;
    for (uint i = 0; i < x.n_copies; i++)
        push(x.to[i], x.from[i], x.bytes[i], me);
    meet();
    if (me < x.n_signals) {
        all_system();
        set(x.signal[me], 1);
    }
    const ulong pushed = keeps ? now() : 0;
    if (me < x.n_waits)
        wait_for(x.wait[me]);
    meet();
    if (me < x.n_resets)
        set(x.reset[me], 0);
    if (keeps)
        keep(x.times, x.n_copies > 0, begin, pushed, now());
}
