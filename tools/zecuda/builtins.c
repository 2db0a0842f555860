/* The OpenCL built-ins that the portable kernels call, for NVIDIA's targets, under the names that llvm-spirv
 * gives them; linked into every module and inlined (ptx_of). A module that calls another one is refused. */
typedef signed char char4 __attribute__((ext_vector_type(4)));
typedef unsigned int uint;
typedef unsigned long ulong;

#define INLINE __attribute__((always_inline))
#define BY_DIMENSION(name, symbol, register)                                                                 \
    ulong name(uint d) __asm__(symbol);                                                                      \
    INLINE ulong name(uint d) {                                                                              \
        return d == 0   ? (ulong)(uint)__nvvm_read_ptx_sreg_##register##_x()                                 \
               : d == 1 ? (ulong)(uint)__nvvm_read_ptx_sreg_##register##_y()                                 \
                        : (ulong)(uint)__nvvm_read_ptx_sreg_##register##_z();                                \
    }
BY_DIMENSION(get_group_id, "_Z12get_group_idj", ctaid)
BY_DIMENSION(get_local_id, "_Z12get_local_idj", tid)
BY_DIMENSION(get_local_size, "_Z14get_local_sizej", ntid)
BY_DIMENSION(get_num_groups, "_Z14get_num_groupsj", nctaid)

/* Convergent, or clang gives each side of a branch a barrier of its own, and a warp that takes both sides
 * hangs. */
void work_group_barrier(uint flags, uint scope) __asm__("_Z18work_group_barrierj12memory_scope");
__attribute__((convergent)) INLINE void work_group_barrier(uint flags, uint scope) {
    (void)flags, (void)scope;
    __nvvm_bar_sync(0);
}

/* All orders as the strongest, all scopes as the device's. */
void work_item_fence(uint flags, uint order,
                     uint scope) __asm__("_Z22atomic_work_item_fencej12memory_order12memory_scope");
INLINE void work_item_fence(uint flags, uint order, uint scope) {
    (void)flags, (void)order, (void)scope;
    __nvvm_membar_gl();
}
int fetch_add(volatile int *p, int v, uint order, uint scope) __asm__(
    "_Z25atomic_fetch_add_explicitPU3AS4VU7_Atomicii12memory_order12memory_scope");
INLINE int fetch_add(volatile int *p, int v, uint order, uint scope) {
    (void)order, (void)scope;
    __nvvm_membar_gl();
    int old = __nvvm_atom_add_gen_i((int *)p, v);
    __nvvm_membar_gl();
    return old;
}
void atomic_put(volatile int *p, int v, uint order, uint scope) __asm__(
    "_Z21atomic_store_explicitPU3AS4VU7_Atomicii12memory_order12memory_scope");
INLINE void atomic_put(volatile int *p, int v, uint order, uint scope) {
    (void)order, (void)scope;
    __nvvm_membar_gl();
    *p = v;
    __nvvm_membar_gl();
}

float fma(float a, float b, float c) __asm__("_Z3fmafff");
INLINE float fma(float a, float b, float c) {
    return __nvvm_fma_rn_f(a, b, c);
}
float absolute(float a) __asm__("_Z4fabsf");
INLINE float absolute(float a) {
    return __builtin_fabsf(a);
}
uint larger(uint a, uint b) __asm__("_Z3maxjj");
INLINE uint larger(uint a, uint b) {
    return a > b ? a : b;
}
uint smaller(uint a, uint b) __asm__("_Z3minjj");
INLINE uint smaller(uint a, uint b) {
    return a < b ? a : b;
}
int smaller_int(int a, int b) __asm__("_Z3minii");
INLINE int smaller_int(int a, int b) {
    return a < b ? a : b;
}
int clamp(int v, int least, int most) __asm__("_Z5clampiii");
INLINE int clamp(int v, int least, int most) {
    int raised = v > least ? v : least;
    return raised < most ? raised : most;
}

/* OpSDotKHR of char4: the dp4a that the target has. */
int dot(char4 a, char4 b) __asm__("_Z20__spirv_SDotKHR_RintDv4_cS_");
INLINE int dot(char4 a, char4 b) {
    int x, y, sum;
    __builtin_memcpy(&x, &a, sizeof x);
    __builtin_memcpy(&y, &b, sizeof y);
    __asm__("dp4a.s32.s32 %0, %1, %2, 0;" : "=r"(sum) : "r"(x), "r"(y));
    return sum;
}
