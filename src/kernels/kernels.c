/* Which tier this machine can run, and the filling of the kernel table. No state; any thread. */
#include "kernels/kernels.h"

#include "base/check.h"
#include "kernels/cpu/amx/amx_batch.h"
#include "kernels/cpu/attention_walk.h"
#include "kernels/cpu/avx2/avx2_batch.h"
#include "kernels/cpu/avx512/avx512_batch.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of arch_prctl (Linux, asm/prctl.h): ask for a large register state, here the tiles' data. */
#define REQUEST_PERMISSION 0x1023
#define FEATURE_TILE_DATA  18

/* XCR0: which register state the operating system saves. */
static uint32_t saved_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has(uint32_t word, uint32_t bits) {
    return (word & bits) == bits;
}

enum kernels_tier kernels_best_tier(void) {
    const uint32_t xcr0_avx = 1u << 1 | 1u << 2;                         /* SSE, AVX */
    const uint32_t xcr0_avx512 = xcr0_avx | 1u << 5 | 1u << 6 | 1u << 7; /* opmask, upper halves, zmm16-31 */
    const uint32_t avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C))
        return KERNELS_TIER_SCALAR;
    uint32_t state = saved_state();
    if (!has(state, xcr0_avx) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, bit_AVX2))
        return KERNELS_TIER_SCALAR;
    if (!has(state, xcr0_avx512) || !has(b, avx512) || !has(c, bit_AVX512VNNI))
        return KERNELS_TIER_AVX2;
    const uint32_t xcr0_amx = 1u << 17 | 1u << 18; /* tile configuration, tile data */
    const uint32_t amx = 1u << 24 | 1u << 25;      /* AMX-TILE, AMX-INT8 */
    if (!has(state, xcr0_amx) || !has(d, amx) ||
        syscall(SYS_arch_prctl, REQUEST_PERMISSION, FEATURE_TILE_DATA) != 0)
        return KERNELS_TIER_AVX512;
    return KERNELS_TIER_AMX;
}

const char *kernels_tier_name(enum kernels_tier t) {
    static const char *const names[KERNELS_TIERS] = {"scalar", "avx2", "avx512", "amx"};
    CHECK(t < KERNELS_TIERS);
    return names[t];
}

void kernels_init(struct kernels *k, enum kernels_tier t) {
    CHECK(t <= kernels_best_tier());
    *k = (struct kernels){0};
    scalar_matmul_init(k);
    scalar_init(k);
    if (t >= KERNELS_TIER_AVX2) {
        avx2_matmul_init(k);
        avx2_init(k);
        avx2_attention_init(k);
        avx2_kv_init(k);
        avx2_delta_init(k);
        avx2_index_init(k);
    }
    if (t >= KERNELS_TIER_AVX512) {
        avx512_matmul_init(k);
        avx512_init(k);
        avx512_attention_init(k);
        avx512_delta_init(k);
    }
    if (t >= KERNELS_TIER_AMX) {
        amx_matmul32_init(k);
        amx_matmul_k_init(k);
    }
}

const char *kernels_kv_name(enum kernels_kv type) {
    static const char *const names[KERNELS_KV_TYPES] = {"f32", "f16", "q8_0", "q4_0"};
    CHECK(type < KERNELS_KV_TYPES);
    return names[type];
}

uint32_t kernels_kv_group(enum kernels_kv type) {
    return kv_layout_quantised(type) ? KERNELS_KV_GROUP : 1;
}

uint64_t kernels_kv_bytes(enum kernels_kv type, uint32_t dim) {
    static const uint32_t bits[KERNELS_KV_TYPES] = {32, 16, 8, 4};
    CHECK(type < KERNELS_KV_TYPES && dim % kernels_kv_group(type) == 0);
    uint64_t values = (uint64_t)KERNELS_KV_BLOCK * dim;
    uint64_t scales = kv_layout_quantised(type) ? values / KERNELS_KV_GROUP : 0;
    return values * bits[type] / 8 + scales * sizeof(uint16_t);
}

size_t kernels_attention_part(uint32_t group, uint32_t head_dim_v) {
    return arith_round_up(head_dim_v, 16) * group + 2 * arith_round_up(group, 16);
}

uint32_t kernels_attention_queries(uint32_t group) {
    return group < ATTENTION_WALK_ROWS ? ATTENTION_WALK_ROWS / group : 1;
}

size_t kernels_attention_work(uint32_t max_queries, uint32_t group, uint32_t head_dim_k,
                              uint32_t head_dim_v) {
    return attention_walk_floats(max_queries, group, head_dim_k, head_dim_v);
}

size_t kernels_matmul_work(uint32_t max_tokens) {
    size_t vectors = ARITH_MAX(batch_work_bytes(max_tokens), avx2_batch_bytes(max_tokens));
    return ARITH_MAX(vectors, amx_work_bytes(max_tokens));
}
