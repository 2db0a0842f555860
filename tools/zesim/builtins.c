/* The OpenCL built-ins that kernels may call, under the names that llvm-spirv gives them: clang's
 * `overloadable` mangles as OpenCL does. Compiled to bitcode by clang-15 and inlined into every module; only
 * what is used gets in.
 *
 * Left out on purpose are built-ins whose result is not defined to the bit (mad, native_*, half_*, exp, sqrt,
 * ...): a kernel that uses one fails to link, and the message names it.
 *
 * Work-items run on one thread, so an atomic is a plain access; waiting for others is item.wait (code.h). */
#include "code.h"

#include <limits.h>
#include <stdbool.h>

#define O      __attribute__((overloadable))
#define GLOBAL __attribute__((address_space(1)))
#define CONST  __attribute__((address_space(2)))
#define LOCAL  __attribute__((address_space(3)))
#define ANY    __attribute__((address_space(4)))
#define PRIVATE

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __fp16 half;
typedef _BitInt(128) wide; /* holds every sum and product of two longs */

#define VECTORS(T)                                                                                           \
    typedef T T##2 __attribute__((ext_vector_type(2)));                                                      \
    typedef T T##3 __attribute__((ext_vector_type(3)));                                                      \
    typedef T T##4 __attribute__((ext_vector_type(4)));                                                      \
    typedef T T##8 __attribute__((ext_vector_type(8)));                                                      \
    typedef T T##16 __attribute__((ext_vector_type(16)));
#define FOR_INTS(M) M(char) M(uchar) M(short) M(ushort) M(int) M(uint) M(long) M(ulong)
#define FOR_ALL(M)  FOR_INTS(M) M(half) M(float)
FOR_ALL(VECTORS)

enum memory_scope { scope_item, scope_group, scope_device, scope_all, scope_sub_group };
enum memory_order { order_relaxed, order_acquire = 2, order_release, order_acq_rel, order_seq_cst };

extern struct code_item zesim_item __attribute__((visibility("hidden")));
#define item zesim_item

/* ---- where a work-item is */
#define ID(name, value)                                                                                      \
    ulong O name(uint d) {                                                                                   \
        return d < 3 ? (value) : 0;                                                                          \
    }
ID(get_local_id, item.local[d])
ID(get_group_id, item.group[d])
ID(get_global_offset, item.offset[d])
ID(get_global_id, item.group[d] * item.local_size[d] + item.local[d] + item.offset[d])
#define SIZE(name, value)                                                                                    \
    ulong O name(uint d) {                                                                                   \
        return d < 3 ? (value) : 1;                                                                          \
    }
SIZE(get_local_size, item.local_size[d])
SIZE(get_enqueued_local_size, item.local_size[d])
SIZE(get_num_groups, item.groups[d])
SIZE(get_global_size, item.groups[d] * item.local_size[d])
uint O get_work_dim(void) {
    return 3;
}
ulong O get_local_linear_id(void) {
    return item.linear;
}
ulong O get_global_linear_id(void) {
    ulong x = item.groups[0] * item.local_size[0], y = item.groups[1] * item.local_size[1];
    return ((get_global_id(2) - item.offset[2]) * y + get_global_id(1) - item.offset[1]) * x +
           get_global_id(0) - item.offset[0];
}
uint O get_sub_group_local_id(void) {
    return item.linear % item.sub_group;
}
uint O get_sub_group_id(void) {
    return item.linear / item.sub_group;
}
uint O get_max_sub_group_size(void) {
    return item.sub_group;
}
uint O get_num_sub_groups(void) {
    return (item.total + item.sub_group - 1) / item.sub_group;
}
uint O get_enqueued_num_sub_groups(void) {
    return get_num_sub_groups();
}
static uint first_lane(void) {
    return item.linear / item.sub_group * item.sub_group;
}
uint O get_sub_group_size(void) {
    uint rest = item.total - first_lane();
    return rest < item.sub_group ? rest : item.sub_group;
}

/* ---- waiting and fences */
void O barrier(uint flags) {
    (void)flags;
    item.wait(1, "a barrier");
}
void O work_group_barrier(uint flags) {
    barrier(flags);
}
void O work_group_barrier(uint flags, enum memory_scope s) {
    (void)s;
    barrier(flags);
}
void O sub_group_barrier(uint flags) {
    (void)flags;
    item.wait(0, "a sub-group barrier");
}
void O sub_group_barrier(uint flags, enum memory_scope s) {
    (void)s;
    sub_group_barrier(flags);
}
void O mem_fence(uint flags) {
    (void)flags;
}
void O read_mem_fence(uint flags) {
    (void)flags;
}
void O write_mem_fence(uint flags) {
    (void)flags;
}
void O atomic_work_item_fence(uint flags, enum memory_order o, enum memory_scope s) {
    (void)flags, (void)o, (void)s;
}

/* ---- sub-groups: each lane shows a value, all wait, each reads what it wants. The slots alternate between
 * two halves, so one wait per operation is enough: nobody writes a half again before all have read it. */
static unsigned char *slot(uint half_used, uint lane) {
    return item.slots + ((ulong)half_used * item.total + first_lane() + lane) * CODE_SLOT;
}
#define SHOW(value, operation)                                                                               \
    uint shown_ = item.parity;                                                                               \
    __builtin_memcpy(slot(shown_, get_sub_group_local_id()), &(value), sizeof(value));                       \
    item.wait(0, operation)
#define SEE(T, lane) (*(T *)slot(shown_, lane))

#define EXCHANGE(T)                                                                                          \
    T O sub_group_broadcast(T v, uint lane) {                                                                \
        SHOW(v, "sub_group_broadcast");                                                                      \
        return SEE(T, lane % item.sub_group);                                                                \
    }                                                                                                        \
    T O intel_sub_group_shuffle(T v, uint lane) {                                                            \
        SHOW(v, "intel_sub_group_shuffle");                                                                  \
        return SEE(T, lane % item.sub_group);                                                                \
    }                                                                                                        \
    T O intel_sub_group_shuffle_xor(T v, uint mask) {                                                        \
        SHOW(v, "intel_sub_group_shuffle_xor");                                                              \
        return SEE(T, (get_sub_group_local_id() ^ mask) % item.sub_group);                                   \
    }                                                                                                        \
    T O intel_sub_group_shuffle_down(T v, T next, uint delta) {                                              \
        T both[2] = {v, next};                                                                               \
        SHOW(both, "intel_sub_group_shuffle_down");                                                          \
        uint at = get_sub_group_local_id() + delta, width = item.sub_group;                                  \
        return at < width ? SEE(T, at) : ((T *)slot(shown_, at - width))[1];                                 \
    }                                                                                                        \
    T O intel_sub_group_shuffle_up(T previous, T v, uint delta) {                                            \
        T both[2] = {v, previous};                                                                           \
        SHOW(both, "intel_sub_group_shuffle_up");                                                            \
        uint lane = get_sub_group_local_id(), width = item.sub_group;                                        \
        return lane >= delta ? SEE(T, lane - delta) : ((T *)slot(shown_, lane + width - delta))[1];          \
    }
#define EXCHANGE_VECTOR(T)                                                                                   \
    T O intel_sub_group_shuffle(T v, uint lane) {                                                            \
        SHOW(v, "intel_sub_group_shuffle");                                                                  \
        return SEE(T, lane % item.sub_group);                                                                \
    }
#define EXCHANGE_VECTORS(T) EXCHANGE_VECTOR(T##2) EXCHANGE_VECTOR(T##4) EXCHANGE_VECTOR(T##8)
FOR_ALL(EXCHANGE)
EXCHANGE_VECTORS(int)
EXCHANGE_VECTORS(uint)
EXCHANGE_VECTORS(float)

#define GATHER(name, T, start, combine)                                                                      \
    T O sub_group_reduce_##name(T v) {                                                                       \
        SHOW(v, "sub_group_reduce_" #name);                                                                  \
        T r = SEE(T, 0);                                                                                     \
        for (uint i = 1; i < get_sub_group_size(); i++) {                                                    \
            T x = SEE(T, i);                                                                                 \
            r = combine;                                                                                     \
        }                                                                                                    \
        return r;                                                                                            \
    }                                                                                                        \
    T O sub_group_scan_exclusive_##name(T v) {                                                               \
        SHOW(v, "sub_group_scan_exclusive_" #name);                                                          \
        T r = start;                                                                                         \
        for (uint i = 0; i < get_sub_group_local_id(); i++) {                                                \
            T x = SEE(T, i);                                                                                 \
            r = combine;                                                                                     \
        }                                                                                                    \
        return r;                                                                                            \
    }                                                                                                        \
    T O sub_group_scan_inclusive_##name(T v) {                                                               \
        SHOW(v, "sub_group_scan_inclusive_" #name);                                                          \
        T r = SEE(T, 0);                                                                                     \
        for (uint i = 1; i <= get_sub_group_local_id(); i++) {                                               \
            T x = SEE(T, i);                                                                                 \
            r = combine;                                                                                     \
        }                                                                                                    \
        return r;                                                                                            \
    }
#define GATHERS(T, least, most)                                                                              \
    GATHER(add, T, 0, r + x)                                                                                 \
    GATHER(min, T, most, x < r ? x : r)                                                                      \
    GATHER(max, T, least, x > r ? x : r)
GATHERS(int, INT_MIN, INT_MAX)
GATHERS(uint, 0, UINT_MAX)
GATHERS(long, LONG_MIN, LONG_MAX)
GATHERS(ulong, 0, ULONG_MAX)
GATHERS(float, -__builtin_inff(), __builtin_inff())
int O sub_group_any(int v) {
    SHOW(v, "sub_group_any");
    int r = 0;
    for (uint i = 0; i < get_sub_group_size(); i++)
        r |= SEE(int, i) != 0;
    return r;
}
int O sub_group_all(int v) {
    SHOW(v, "sub_group_all");
    int r = 1;
    for (uint i = 0; i < get_sub_group_size(); i++)
        r &= SEE(int, i) != 0;
    return r;
}

/* Block accesses: element j of lane l is p[j * lanes + l]; all lanes give the same pointer. */
#define BLOCK_VECTOR(T, n, suffix, SPACE)                                                                    \
    T##n O intel_sub_group_block_read##suffix##n(const SPACE T *p) {                                         \
        item.wait(0, "intel_sub_group_block_read" #suffix #n);                                               \
        T##n r;                                                                                              \
        for (int j = 0; j < n; j++)                                                                          \
            r[j] = p[(ulong)j * item.sub_group + get_sub_group_local_id()];                                  \
        return r;                                                                                            \
    }                                                                                                        \
    void O intel_sub_group_block_write##suffix##n(SPACE T *p, T##n v) {                                      \
        item.wait(0, "intel_sub_group_block_write" #suffix #n);                                              \
        for (int j = 0; j < n; j++)                                                                          \
            p[(ulong)j * item.sub_group + get_sub_group_local_id()] = v[j];                                  \
    }
#define BLOCK(T, suffix, SPACE)                                                                              \
    T O intel_sub_group_block_read##suffix(const SPACE T *p) {                                               \
        item.wait(0, "intel_sub_group_block_read" #suffix);                                                  \
        return p[get_sub_group_local_id()];                                                                  \
    }                                                                                                        \
    void O intel_sub_group_block_write##suffix(SPACE T *p, T v) {                                            \
        item.wait(0, "intel_sub_group_block_write" #suffix);                                                 \
        p[get_sub_group_local_id()] = v;                                                                     \
    }                                                                                                        \
    BLOCK_VECTOR(T, 2, suffix, SPACE) BLOCK_VECTOR(T, 4, suffix, SPACE) BLOCK_VECTOR(T, 8, suffix, SPACE)
#define BLOCKS(SPACE)                                                                                        \
    BLOCK(uint, , SPACE) BLOCK(ushort, _us, SPACE) BLOCK(uchar, _uc, SPACE) BLOCK(ulong, _ul, SPACE)
BLOCKS(GLOBAL)
BLOCKS(LOCAL)

/* The matrix engine: c[m] on lane n += sum over k < 32 of A[m][k] * B[k][n]. Lane l shows bytes of A's rows:
 * with 8 lanes 4 of them (an int), with 16 lanes 2 (a short); b[i] on lane n is B[4i..4i+3][n]. */
#define SIGNED_BYTE(A, x, at)   ((x) << (A)(8 * sizeof(A) - 8 - (at)) >> (A)(8 * sizeof(A) - 8))
#define UNSIGNED_BYTE(A, x, at) ((x) >> (A)(at) & (A)255)
#define MATRIX(name, A, BYTE, TB)                                                                            \
    int8 O name(A##8 a, int8 b, int8 c) {                                                                    \
        SHOW(a, #name);                                                                                      \
        for (int k = 0; k < 32; k++) {                                                                       \
            A##8 row = SEE(A##8, (uint)(k / (int)sizeof(A)));                                                \
            A##8 column = BYTE(A, row, k % (int)sizeof(A) * 8);                                              \
            c += __builtin_convertvector(column, int8) * (TB)(b[k / 4] >> k % 4 * 8);                        \
        }                                                                                                    \
        return c;                                                                                            \
    }
#define MATRICES(A)                                                                                          \
    MATRIX(intel_sub_group_i8_i8_matrix_mad_k32, A, SIGNED_BYTE, signed char)                                \
    MATRIX(intel_sub_group_i8_u8_matrix_mad_k32, A, SIGNED_BYTE, uchar)                                      \
    MATRIX(intel_sub_group_u8_i8_matrix_mad_k32, A, UNSIGNED_BYTE, signed char)                              \
    MATRIX(intel_sub_group_u8_u8_matrix_mad_k32, A, UNSIGNED_BYTE, uchar)
MATRICES(int)
MATRICES(short)

/* ---- arithmetic: a scalar form, then vectors element by element */
#define EACH1(name, R, A, n)                                                                                 \
    R##n O name(A##n a) {                                                                                    \
        R##n r;                                                                                              \
        for (int i = 0; i < n; i++)                                                                          \
            r[i] = name(a[i]);                                                                               \
        return r;                                                                                            \
    }
#define EACH2(name, R, A, B, n)                                                                              \
    R##n O name(A##n a, B##n b) {                                                                            \
        R##n r;                                                                                              \
        for (int i = 0; i < n; i++)                                                                          \
            r[i] = name(a[i], b[i]);                                                                         \
        return r;                                                                                            \
    }
#define EACH3(name, R, A, B, C, n)                                                                           \
    R##n O name(A##n a, B##n b, C##n c) {                                                                    \
        R##n r;                                                                                              \
        for (int i = 0; i < n; i++)                                                                          \
            r[i] = name(a[i], b[i], c[i]);                                                                   \
        return r;                                                                                            \
    }
#define ALL1(name, R, A)                                                                                     \
    EACH1(name, R, A, 2) EACH1(name, R, A, 3) EACH1(name, R, A, 4) EACH1(name, R, A, 8) EACH1(name, R, A, 16)
#define ALL2(name, R, A, B)                                                                                  \
    EACH2(name, R, A, B, 2)                                                                                  \
    EACH2(name, R, A, B, 3) EACH2(name, R, A, B, 4) EACH2(name, R, A, B, 8) EACH2(name, R, A, B, 16)
#define ALL3(name, R, A, B, C)                                                                               \
    EACH3(name, R, A, B, C, 2)                                                                               \
    EACH3(name, R, A, B, C, 3)                                                                               \
    EACH3(name, R, A, B, C, 4) EACH3(name, R, A, B, C, 8) EACH3(name, R, A, B, C, 16)
#define F1(name, R, A, value)                                                                                \
    R O name(A a) {                                                                                          \
        return (R)(value);                                                                                   \
    }                                                                                                        \
    ALL1(name, R, A)
#define F2(name, R, A, B, value)                                                                             \
    R O name(A a, B b) {                                                                                     \
        return (R)(value);                                                                                   \
    }                                                                                                        \
    ALL2(name, R, A, B)
#define F3(name, R, A, B, C, value)                                                                          \
    R O name(A a, B b, C c) {                                                                                \
        return (R)(value);                                                                                   \
    }                                                                                                        \
    ALL3(name, R, A, B, C)

#define INTEGER(T)                                                                                           \
    F2(min, T, T, T, a < b ? a : b)                                                                          \
    F2(max, T, T, T, a > b ? a : b)                                                                          \
    F3(clamp, T, T, T, T, a<b ? b : a> c ? c : a)                                                            \
    F3(bitselect, T, T, T, T, (a & ~c) | (b & c))                                                            \
    F2(add_sat, T, T, T, saturated_sum(a, b, (T)0))                                                          \
    F2(sub_sat, T, T, T, saturated_difference(a, b, (T)0))                                                   \
    F2(hadd, T, T, T, ((wide)a + b) >> 1)                                                                    \
    F2(rhadd, T, T, T, ((wide)a + b + 1) >> 1)                                                               \
    F2(mul_hi, T, T, T, ((wide)a * b) >> (sizeof(T) * 8))                                                    \
    F3(mad_hi, T, T, T, T, (((wide)a * b) >> (sizeof(T) * 8)) + c)
#define LEAST(T) ((T)-1 < (T)1 ? -((wide)1 << (sizeof(T) * 8 - 1)) : (wide)0)
#define MOST(T)  ((T)-1 < (T)1 ? ((wide)1 << (sizeof(T) * 8 - 1)) - 1 : ((wide)1 << (sizeof(T) * 8)) - 1)
#define SATURATED(T)                                                                                         \
    static inline T O saturate(wide v, T t) {                                                                \
        (void)t;                                                                                             \
        return (T)(v < LEAST(T) ? LEAST(T) : v > MOST(T) ? MOST(T) : v);                                     \
    }                                                                                                        \
    static inline T O saturated_sum(T a, T b, T t) {                                                         \
        return saturate((wide)a + b, t);                                                                     \
    }                                                                                                        \
    static inline T O saturated_difference(T a, T b, T t) {                                                  \
        return saturate((wide)a - b, t);                                                                     \
    }
FOR_INTS(SATURATED)
FOR_INTS(INTEGER)

/* Bits of T through the unsigned type U of its size. */
#define BITS(T, U)                                                                                           \
    F1(popcount, T, T, __builtin_popcountl((ulong)(U)a))                                                     \
    F1(clz, T, T, a == 0 ? (int)sizeof(T) * 8 : __builtin_clzl((ulong)(U)a) - (64 - (int)sizeof(T) * 8))     \
    F1(ctz, T, T, a == 0 ? (int)sizeof(T) * 8 : __builtin_ctzl((ulong)(U)a))                                 \
    F2(rotate, T, T, T,                                                                                      \
       (U)a << ((U)b % (sizeof(T) * 8)) | (ulong)(U)a >> (sizeof(T) * 8 - (U)b % (sizeof(T) * 8)) % 64)
BITS(char, uchar)
BITS(uchar, uchar)
BITS(short, ushort)
BITS(ushort, ushort)
BITS(int, uint)
BITS(uint, uint)
BITS(long, ulong)
BITS(ulong, ulong)
#define ABSOLUTE(T, U)                                                                                       \
    F1(abs, U, T, a < 0 ? -(U)a : (U)a)                                                                      \
    F2(abs_diff, U, T, T, a > b ? (U)a - (U)b : (U)b - (U)a)                                                 \
    F1(abs, U, U, a)                                                                                         \
    F2(abs_diff, U, U, U, a > b ? a - b : b - a)
ABSOLUTE(char, uchar)
ABSOLUTE(short, ushort)
ABSOLUTE(int, uint)
ABSOLUTE(long, ulong)
#define MUL24(T)                                                                                             \
    F2(mul24, T, T, T, a *b)                                                                                 \
    F3(mad24, T, T, T, T, a *b + c)
MUL24(int)
MUL24(uint)
#define UPSAMPLE(R, A, B) F2(upsample, R, A, B, (R)((R)a << sizeof(B) * 8 | b))
UPSAMPLE(short, char, uchar)
UPSAMPLE(ushort, uchar, uchar)
UPSAMPLE(int, short, ushort)
UPSAMPLE(uint, ushort, ushort)
UPSAMPLE(long, int, uint)
UPSAMPLE(ulong, uint, uint)

F3(fma, float, float, float, float, __builtin_fmaf(a, b, c))
F1(fabs, float, float, __builtin_fabsf(a))
F1(rint, float, float, __builtin_rintf(a))
F1(floor, float, float, __builtin_floorf(a))
F1(ceil, float, float, __builtin_ceilf(a))
F1(trunc, float, float, __builtin_truncf(a))
F1(round, float, float, __builtin_roundf(a))
F2(copysign, float, float, float, __builtin_copysignf(a, b))
F2(ldexp, float, float, int, __builtin_ldexpf(a, b))
F1(fabs, half, half, __builtin_fabsf(a))
#define REAL(T)                                                                                              \
    F2(fmin, T, T, T, a < b || b != b ? a : b)                                                               \
    F2(fmax, T, T, T, a > b || b != b ? a : b)                                                               \
    F2(min, T, T, T, b < a ? b : a)                                                                          \
    F2(max, T, T, T, a < b ? b : a)                                                                          \
    F3(clamp, T, T, T, T, fmin(fmax(a, b), c))
REAL(half)
REAL(float)
int O isnan(float a) {
    return a != a;
}
int O isinf(float a) {
    return __builtin_isinf(a) != 0;
}
int O isfinite(float a) {
    return __builtin_isfinite(a);
}
int O signbit(float a) {
    return __builtin_signbitf(a) != 0;
}

/* Scalars choose by c != 0, vectors by the top bit of each element. */
#define SELECT_VECTOR(T, C, n)                                                                               \
    T##n O select(T##n a, T##n b, C##n c) {                                                                  \
        T##n r;                                                                                              \
        for (int i = 0; i < n; i++)                                                                          \
            r[i] = (c[i] >> (sizeof(C) * 8 - 1)) & 1 ? b[i] : a[i];                                          \
        return r;                                                                                            \
    }
#define SELECT(T, C)                                                                                         \
    T O select(T a, T b, C c) {                                                                              \
        return c != 0 ? b : a;                                                                               \
    }                                                                                                        \
    SELECT_VECTOR(T, C, 2)                                                                                   \
    SELECT_VECTOR(T, C, 3) SELECT_VECTOR(T, C, 4) SELECT_VECTOR(T, C, 8) SELECT_VECTOR(T, C, 16)
#define SELECTS(T, S, U) SELECT(T, S) SELECT(T, U)
SELECTS(char, char, uchar)
SELECTS(uchar, char, uchar)
SELECTS(short, short, ushort)
SELECTS(ushort, short, ushort)
SELECTS(half, short, ushort)
SELECTS(int, int, uint)
SELECTS(uint, int, uint)
SELECTS(float, int, uint)
SELECTS(long, long, ulong)
SELECTS(ulong, long, ulong)

/* ---- dot products of four bytes. llvm-spirv gives all of them signed operands. */
#define DOT(S, R, TA, TB)                                                                                    \
    static inline long S##_dot(char4 a, char4 b) {                                                           \
        return (long)((TA)a[0] * (TB)b[0]) + (TA)a[1] * (TB)b[1] + (TA)a[2] * (TB)b[2] +                     \
               (TA)a[3] * (TB)b[3];                                                                          \
    }                                                                                                        \
    R O __spirv_##S##DotKHR_R##R(char4 a, char4 b) {                                                         \
        return (R)S##_dot(a, b);                                                                             \
    }                                                                                                        \
    R O __spirv_##S##DotAccSatKHR_R##R(char4 a, char4 b, int c) {                                            \
        return saturate((wide)S##_dot(a, b) + (R)c, (R)0);                                                   \
    }
DOT(S, int, signed char, signed char)
DOT(U, uint, uchar, uchar)
DOT(SU, int, signed char, uchar)

/* ---- conversions: convert_int_sat(float), convert_int4_sat(float4), ... */
#define CONVERT_VECTOR(T, S, n, suffix)                                                                      \
    T##n O convert_##T##n##suffix(S##n a) {                                                                  \
        T##n r;                                                                                              \
        for (int i = 0; i < n; i++)                                                                          \
            r[i] = convert_##T##suffix(a[i]);                                                                \
        return r;                                                                                            \
    }
#define CONVERT_AS(T, S, suffix, value)                                                                      \
    T O convert_##T##suffix(S a) {                                                                           \
        return (T)(value);                                                                                   \
    }                                                                                                        \
    CONVERT_VECTOR(T, S, 2, suffix)                                                                          \
    CONVERT_VECTOR(T, S, 3, suffix)                                                                          \
    CONVERT_VECTOR(T, S, 4, suffix)                                                                          \
    CONVERT_VECTOR(T, S, 8, suffix)                                                                          \
    CONVERT_VECTOR(T, S, 16, suffix)
#define CONVERT(T, S)                                                                                        \
    CONVERT_AS(T, S, , a)                                                                                    \
    CONVERT_AS(T, S, _rte, nearest(a, (T)0))                                                                 \
    CONVERT_AS(T, S, _rtz, a)
#define CONVERT_SAT(T, S)                                                                                    \
    CONVERT_AS(T, S, _sat, clipped(a, (T)0))                                                                 \
    CONVERT_AS(T, S, _sat_rte, clipped(nearest_whole(a), (T)0))                                              \
    CONVERT_AS(T, S, _sat_rtz, clipped(a, (T)0))
/* Round to nearest even: what is whole stays, and to a floating type the processor's mode does it. */
static inline float O nearest_whole(float v) {
    return __builtin_rintf(v);
}
static inline float O nearest_whole(half v) {
    return __builtin_rintf(v);
}
#define WHOLE(T)                                                                                             \
    static inline T O nearest_whole(T v) {                                                                   \
        return v;                                                                                            \
    }                                                                                                        \
    static inline T O nearest(float v, T t) {                                                                \
        (void)t;                                                                                             \
        return (T)__builtin_rintf(v);                                                                        \
    }                                                                                                        \
    static inline T O nearest(half v, T t) {                                                                 \
        (void)t;                                                                                             \
        return (T)__builtin_rintf(v);                                                                        \
    }                                                                                                        \
    static inline T O clipped(float v, T t) {                                                                \
        (void)t;                                                                                             \
        return v != v ? 0 : v <= (float)LEAST(T) ? (T)LEAST(T) : v >= (float)MOST(T) ? (T)MOST(T) : (T)v;    \
    }                                                                                                        \
    static inline T O clipped(half v, T t) {                                                                 \
        return clipped((float)v, t);                                                                         \
    }
FOR_INTS(WHOLE)
#define FROM_WHOLE(T, S)                                                                                     \
    static inline T O nearest(S v, T t) {                                                                    \
        (void)t;                                                                                             \
        return (T)v;                                                                                         \
    }
#define CLIP_WHOLE(T, S)                                                                                     \
    static inline T O clipped(S v, T t) {                                                                    \
        return saturate(v, t);                                                                               \
    }
#define TO_INTEGER(T, S) FROM_WHOLE(T, S) CLIP_WHOLE(T, S)
#define FOR_SOURCES(M, T)                                                                                    \
    M(T, char) M(T, uchar) M(T, short) M(T, ushort) M(T, int) M(T, uint) M(T, long) M(T, ulong)
#define TARGET_INTEGER(T)                                                                                    \
    FOR_SOURCES(TO_INTEGER, T)                                                                               \
    FOR_SOURCES(CONVERT, T)                                                                                  \
    FOR_SOURCES(CONVERT_SAT, T) CONVERT(T, half) CONVERT(T, float) CONVERT_SAT(T, half) CONVERT_SAT(T, float)
FOR_INTS(TARGET_INTEGER)
#define TO_REAL(T, S)                                                                                        \
    CONVERT_AS(T, S, , a)                                                                                    \
    CONVERT_AS(T, S, _rte, a)
FOR_SOURCES(TO_REAL, float)
FOR_SOURCES(TO_REAL, half)
TO_REAL(float, half)
TO_REAL(float, float)
TO_REAL(half, float)
TO_REAL(half, half)

/* ---- vector loads and stores; half in memory is rounded to nearest even */
#define LOAD_STORE(T, n, SPACE)                                                                              \
    T##n O vload##n(ulong i, const SPACE T *p) {                                                             \
        T##n r;                                                                                              \
        for (int j = 0; j < n; j++)                                                                          \
            r[j] = p[i * n + j];                                                                             \
        return r;                                                                                            \
    }                                                                                                        \
    void O vstore##n(T##n v, ulong i, SPACE T *p) {                                                          \
        for (int j = 0; j < n; j++)                                                                          \
            p[i * n + j] = v[j];                                                                             \
    }
#define LOAD_STORES(T, SPACE)                                                                                \
    LOAD_STORE(T, 2, SPACE)                                                                                  \
    LOAD_STORE(T, 3, SPACE) LOAD_STORE(T, 4, SPACE) LOAD_STORE(T, 8, SPACE) LOAD_STORE(T, 16, SPACE)
#define HALF_VECTOR(n, stride, a, SPACE)                                                                     \
    float##n O vload##a##_half##n(ulong i, const SPACE half *p) {                                            \
        float##n r;                                                                                          \
        for (int j = 0; j < n; j++)                                                                          \
            r[j] = p[i * stride + j];                                                                        \
        return r;                                                                                            \
    }                                                                                                        \
    void O vstore##a##_half##n(float##n v, ulong i, SPACE half *p) {                                         \
        for (int j = 0; j < n; j++)                                                                          \
            p[i * stride + j] = v[j];                                                                        \
    }                                                                                                        \
    void O vstore##a##_half##n##_rte(float##n v, ulong i, SPACE half *p) {                                   \
        vstore##a##_half##n(v, i, p);                                                                        \
    }
#define HALVES(SPACE)                                                                                        \
    float O vload_half(ulong i, const SPACE half *p) {                                                       \
        return p[i];                                                                                         \
    }                                                                                                        \
    void O vstore_half(float v, ulong i, SPACE half *p) {                                                    \
        p[i] = v;                                                                                            \
    }                                                                                                        \
    void O vstore_half_rte(float v, ulong i, SPACE half *p) {                                                \
        p[i] = v;                                                                                            \
    }                                                                                                        \
    HALF_VECTOR(2, 2, , SPACE)                                                                               \
    HALF_VECTOR(3, 3, , SPACE)                                                                               \
    HALF_VECTOR(4, 4, , SPACE)                                                                               \
    HALF_VECTOR(8, 8, , SPACE)                                                                               \
    HALF_VECTOR(16, 16, , SPACE)                                                                             \
    HALF_VECTOR(2, 2, a, SPACE)                                                                              \
    HALF_VECTOR(3, 4, a, SPACE)                                                                              \
    HALF_VECTOR(4, 4, a, SPACE)                                                                              \
    HALF_VECTOR(8, 8, a, SPACE)                                                                              \
    HALF_VECTOR(16, 16, a, SPACE)
#define IN_SPACE(SPACE)                                                                                      \
    LOAD_STORES(char, SPACE)                                                                                 \
    LOAD_STORES(uchar, SPACE)                                                                                \
    LOAD_STORES(short, SPACE)                                                                                \
    LOAD_STORES(ushort, SPACE)                                                                               \
    LOAD_STORES(int, SPACE)                                                                                  \
    LOAD_STORES(uint, SPACE)                                                                                 \
    LOAD_STORES(long, SPACE)                                                                                 \
    LOAD_STORES(ulong, SPACE) LOAD_STORES(half, SPACE) LOAD_STORES(float, SPACE) HALVES(SPACE)
IN_SPACE(GLOBAL)
IN_SPACE(CONST)
IN_SPACE(LOCAL)
IN_SPACE(ANY)
IN_SPACE(PRIVATE)

/* ---- atomics */
#define FETCH(name, T, value)                                                                                \
    T O atomic_fetch_##name##_explicit(volatile ANY _Atomic(T) *at, T v, enum memory_order o,                \
                                       enum memory_scope s) {                                                \
        (void)o, (void)s;                                                                                    \
        volatile ANY T *p = (volatile ANY T *)at;                                                            \
        T old = *p;                                                                                          \
        *p = (value);                                                                                        \
        return old;                                                                                          \
    }
#define ATOMIC(T)                                                                                            \
    T O atomic_load_explicit(volatile ANY _Atomic(T) *at, enum memory_order o, enum memory_scope s) {        \
        (void)o, (void)s;                                                                                    \
        return *(volatile ANY T *)at;                                                                        \
    }                                                                                                        \
    void O atomic_store_explicit(volatile ANY _Atomic(T) *at, T v, enum memory_order o,                      \
                                 enum memory_scope s) {                                                      \
        (void)o, (void)s;                                                                                    \
        *(volatile ANY T *)at = v;                                                                           \
    }                                                                                                        \
    T O atomic_exchange_explicit(volatile ANY _Atomic(T) *at, T v, enum memory_order o,                      \
                                 enum memory_scope s) {                                                      \
        (void)o, (void)s;                                                                                    \
        T old = *(volatile ANY T *)at;                                                                       \
        *(volatile ANY T *)at = v;                                                                           \
        return old;                                                                                          \
    }
#define ATOMIC_INTEGER(T)                                                                                    \
    ATOMIC(T)                                                                                                \
    FETCH(add, T, old + v)                                                                                   \
    FETCH(sub, T, old - v)                                                                                   \
    FETCH(or, T, old | v)                                                                                    \
    FETCH(and, T, old &v)                                                                                    \
    FETCH(xor, T, old ^ v)                                                                                   \
    FETCH(min, T, v < old ? v : old)                                                                         \
    FETCH(max, T, v > old ? v : old)                                                                         \
    bool O atomic_compare_exchange_strong_explicit(volatile ANY _Atomic(T) *at, ANY T *expected, T v,        \
                                                   enum memory_order o, enum memory_order f,                 \
                                                   enum memory_scope s) {                                    \
        (void)o, (void)f, (void)s;                                                                           \
        T old = *(volatile ANY T *)at;                                                                       \
        bool same = old == *expected;                                                                        \
        if (same)                                                                                            \
            *(volatile ANY T *)at = v;                                                                       \
        else                                                                                                 \
            *expected = old;                                                                                 \
        return same;                                                                                         \
    }
ATOMIC_INTEGER(int)
ATOMIC_INTEGER(uint)
ATOMIC_INTEGER(long)
ATOMIC_INTEGER(ulong)
ATOMIC(float)
