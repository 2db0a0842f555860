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

ulong get_global_id(uint d) __asm__("_Z13get_global_idj");
INLINE ulong get_global_id(uint d) {
    return get_group_id(d) * get_local_size(d) + get_local_id(d);
}
ulong get_global_size(uint d) __asm__("_Z15get_global_sizej");
INLINE ulong get_global_size(uint d) {
    return get_num_groups(d) * get_local_size(d);
}

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
/* Of a NaN and a number, the number. */
float largest(float a, float b) __asm__("_Z4fmaxff");
INLINE float largest(float a, float b) {
    return __nvvm_fmax_f(a, b);
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
int larger_int(int a, int b) __asm__("_Z3maxii");
INLINE int larger_int(int a, int b) {
    return a > b ? a : b;
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

/* The same, added to c; what the kernels add never saturates. */
int dot_add(char4 a, char4 b, int c) __asm__("_Z26__spirv_SDotAccSatKHR_RintDv4_cS_i");
INLINE int dot_add(char4 a, char4 b, int c) {
    int x, y, sum;
    __builtin_memcpy(&x, &a, sizeof x);
    __builtin_memcpy(&y, &b, sizeof y);
    __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(c));
    return sum;
}

/* ---- Intel's matrix engine, sub-groups of 16, two of which are a warp: mma.m16n8k32, one for each.
 *
 * The sub-group's b (32 x 16: item i has column i, four values of k in a word) is mma's A, of which column i
 * is row i; its a (8 x 32: item i has bytes 2 i, 2 i + 1 of each row) is mma's B. Integers, so the order of
 * the sums does not matter. A and the sums go through 256 words of local memory that each warp has: row i
 * there is what lane i has. Intel's engine needs none of this. */
typedef short short8 __attribute__((ext_vector_type(8)));
typedef unsigned char uchar;
typedef uchar uchar8 __attribute__((ext_vector_type(8)));
typedef unsigned short ushort;
typedef ushort ushort8 __attribute__((ext_vector_type(8)));
typedef uint uint2 __attribute__((ext_vector_type(2)));
typedef uint uint4 __attribute__((ext_vector_type(4)));
typedef uint uint8 __attribute__((ext_vector_type(8)));
typedef int int8 __attribute__((ext_vector_type(8)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef float float8 __attribute__((ext_vector_type(8)));

/* What the kernels of tiles (4) and of the matrix engine (8) do with vectors of sums. */
float4 fma4(float4 a, float4 b, float4 c) __asm__("_Z3fmaDv4_fS_S_");
INLINE float4 fma4(float4 a, float4 b, float4 c) {
    for (uint j = 0; j < 4; j++)
        a[j] = __nvvm_fma_rn_f(a[j], b[j], c[j]);
    return a;
}
float8 fma8(float8 a, float8 b, float8 c) __asm__("_Z3fmaDv8_fS_S_");
INLINE float8 fma8(float8 a, float8 b, float8 c) {
    for (uint j = 0; j < 8; j++)
        a[j] = __nvvm_fma_rn_f(a[j], b[j], c[j]);
    return a;
}
float8 floats_of_ints(int8 a) __asm__("_Z14convert_float8Dv8_i");
INLINE float8 floats_of_ints(int8 a) {
    return __builtin_convertvector(a, float8);
}
float8 floats_of_shorts(short8 a) __asm__("_Z14convert_float8Dv8_s");
INLINE float8 floats_of_shorts(short8 a) {
    return __builtin_convertvector(a, float8);
}
int8 ints_of_shorts(short8 a) __asm__("_Z12convert_int8Dv8_s");
INLINE int8 ints_of_shorts(short8 a) {
    return __builtin_convertvector(a, int8);
}

INLINE static uint lane_id(void) {
    return (uint)__nvvm_read_ptx_sreg_tid_x() & 31u;
}

uint sub_group_item(void) __asm__("_Z22get_sub_group_local_idv");
INLINE uint sub_group_item(void) {
    return (uint)__nvvm_read_ptx_sreg_tid_x() & 15u;
}
uint sub_group_number(void) __asm__("_Z16get_sub_group_idv");
INLINE uint sub_group_number(void) {
    return (uint)__nvvm_read_ptx_sreg_tid_x() >> 4;
}

/* Blocks: element j of a lane is p[j * lanes + lane]; all lanes give the same pointer. */
#define BLOCK_READ(name, symbol, space, T, V, n)                                                             \
    V name(const __attribute__((address_space(space))) T *p) __asm__(symbol);                                \
    INLINE V name(const __attribute__((address_space(space))) T *p) {                                        \
        V r;                                                                                                 \
        for (uint j = 0; j < n; j++)                                                                         \
            r[j] = p[j * 16 + sub_group_item()];                                                             \
        return r;                                                                                            \
    }
BLOCK_READ(read2, "_Z27intel_sub_group_block_read2PU3AS1Kj", 1, uint, uint2, 2)
BLOCK_READ(read4, "_Z27intel_sub_group_block_read4PU3AS1Kj", 1, uint, uint4, 4)
BLOCK_READ(read8, "_Z27intel_sub_group_block_read8PU3AS1Kj", 1, uint, uint8, 8)
BLOCK_READ(read_uc8, "_Z30intel_sub_group_block_read_uc8PU3AS1Kh", 1, uchar, uchar8, 8)
#if !FRAGMENTS
BLOCK_READ(read_us8, "_Z30intel_sub_group_block_read_us8PU3AS3Kt", 3, ushort, ushort8, 8)
#endif
uint read1(const __attribute__((address_space(1))) uint *p) __asm__("_Z26intel_sub_group_block_readPU3AS1Kj");
INLINE uint read1(const __attribute__((address_space(1))) uint *p) {
    return p[sub_group_item()];
}
ushort read_us(const __attribute__((address_space(1)))
               ushort *p) __asm__("_Z29intel_sub_group_block_read_usPU3AS1Kt");
INLINE ushort read_us(const __attribute__((address_space(1))) ushort *p) {
    return p[sub_group_item()];
}

/* Not volatile: what is moved twice in the same way is moved once. All lanes of the warp are here. */
INLINE static int from_lane(int x, uint lane) {
    int y;
    __asm__("shfl.sync.idx.b32 %0, %1, %2, 31, -1;" : "=r"(y) : "r"(x), "r"(lane));
    return y;
}

/* Of a number of a sub-group that all its lanes have already, as compilers are told. */
uint broadcast(uint x, uint from) __asm__("_Z19sub_group_broadcastjj");
INLINE uint broadcast(uint x, uint from) {
    return (uint)from_lane((int)x, (lane_id() & 16u) + from);
}

#define WARPS 16
static __attribute__((address_space(3))) int words_of_warps[WARPS * 256];

/* Address of four words of a row, the first or the second: of every second four rows they change places, so
 * that eight lanes that read or write four words of a row each never meet in a bank. */
INLINE static uint words_at(uint row, uint second) {
    uint warp = (uint)(ulong)words_of_warps + ((uint)__nvvm_read_ptx_sreg_tid_x() >> 5) * 1024;
    return warp + row * 32 + (second ^ (row >> 2 & 1)) * 16;
}

struct rows {
    int zero[4], one[4]; /* A of the mma of sub-group 0, and of 1 */
};

/* Not volatile: of the same weights A is made once. With FRAGMENTS word 2 q of k is where mma has word q, and
 * word 2 q + 1 where it has q + 4: in B these lie beside each other. */
INLINE static struct rows rows_of(int8 b, uint lane) {
    struct rows r;
    uint low = words_at(lane, 0), high = words_at(lane, 1);
    uint zero = words_at(lane & 15, lane >> 4), one = words_at(16 + (lane & 15), lane >> 4);
#if FRAGMENTS
    int8 w = {b.s0, b.s2, b.s4, b.s6, b.s1, b.s3, b.s5, b.s7};
#else
    int8 w = b;
#endif
    __asm__("bar.warp.sync 0xffffffff;\n\t"
            "st.shared.v4.b32 [%8], {%12, %13, %14, %15};\n\t"
            "st.shared.v4.b32 [%9], {%16, %17, %18, %19};\n\t"
            "bar.warp.sync 0xffffffff;\n\t"
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%10];\n\t"
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%4, %5, %6, %7}, [%11];"
            : "=&r"(r.zero[0]), "=&r"(r.zero[1]), "=&r"(r.zero[2]), "=&r"(r.zero[3]), "=&r"(r.one[0]),
              "=&r"(r.one[1]), "=&r"(r.one[2]), "=&r"(r.one[3])
            : "r"(low), "r"(high), "r"(zero), "r"(one), "r"(w.s0), "r"(w.s1), "r"(w.s2), "r"(w.s3), "r"(w.s4),
              "r"(w.s5), "r"(w.s6), "r"(w.s7));
    return r;
}

#if !FRAGMENTS
/* out[n] = in[(n + by) % 4] */
INLINE static void rotate(int *x, uint by) {
    int a = x[0], b = x[1], c = x[2], d = x[3];
    int e = by & 1 ? b : a, f = by & 1 ? c : b, g = by & 1 ? d : c, h = by & 1 ? a : d;
    x[0] = by & 2 ? g : e, x[1] = by & 2 ? h : f, x[2] = by & 2 ? e : g, x[3] = by & 2 ? f : h;
}

/* x[n] = x[-n] */
INLINE static void reverse(int *x) {
    int one = x[1];
    x[1] = x[3];
    x[3] = one;
}

INLINE static int joined(short low, short high) {
    return (int)((uint)(unsigned short)low | (uint)(unsigned short)high << 16);
}

INLINE static int low_halves(int a, int b) {
    return (int)(((uint)a & 0xffffu) | (uint)b << 16);
}
INLINE static int high_halves(int a, int b) {
    return (int)((uint)a >> 16 | ((uint)b & 0xffff0000u));
}

/* B of mma 0 in out[0], out[1], of mma 1 in out[2], out[3]. */
INLINE static void columns_of(short8 a, int *out, uint lane) {
    uint odd = lane & 1, c = lane >> 3;
    int even_low = joined(a.s0, a.s2), even_high = joined(a.s4, a.s6);
    int odd_low = joined(a.s1, a.s3), odd_high = joined(a.s5, a.s7);
    /* Words of k: the even lane's are of rows 0, 2, 4, 6, the odd lane's of 1, 3, 5, 7. */
    int mine_low = odd ? odd_low : even_low, mine_high = odd ? odd_high : even_high;
    int low = from_lane(odd ? even_low : odd_low, lane ^ 1);
    int high = from_lane(odd ? even_high : odd_high, lane ^ 1);
    int first_low = odd ? low : mine_low, second_low = odd ? mine_low : low;
    int first_high = odd ? high : mine_high, second_high = odd ? mine_high : high;
    int w[4] = {low_halves(first_low, second_low), high_halves(first_low, second_low),
                low_halves(first_high, second_high), high_halves(first_high, second_high)};
    /* Lane 8 c + i has word 4 (c % 2) + i / 2 of sub-group c / 2; in round n it gives row pair (c - n) % 4.
     */
    reverse(w);
    rotate(w, 0u - c);
    uint at = 2 * (lane & 3) + (lane >> 2 & 1);
    for (uint n = 0; n < 4; n++)
        out[n] = from_lane(w[n], 8 * ((n + c) & 3) + at);
    rotate(out, 0u - c);
}
#endif

INLINE static void multiply(const int *a, const int *b, int *c) {
    __asm__("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%10, %10, %10, %10};"
            : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
}

#if FRAGMENTS
/* Modules of products: their a is always what read_us8 loaded, so it lies as mma's B from the beginning,
 * words 2 q and 2 q + 1 of row `lane / 4`, for mma 0 and for mma 1. */
short8 read_rows(const __attribute__((address_space(3)))
                 ushort *p) __asm__("_Z30intel_sub_group_block_read_us8PU3AS3Kt");
INLINE short8 read_rows(const __attribute__((address_space(3))) ushort *p) {
    typedef const __attribute__((address_space(3))) uint2 *words;
    uint lane = lane_id(), mine = (uint)(ulong)p, other = (uint)from_lane((int)mine, lane ^ 16);
    words first = (words)(ulong)(lane < 16 ? mine : other), second = (words)(ulong)(lane < 16 ? other : mine);
    uint2 x = first[lane], y = second[lane];
    return (short8)(uint4){x.x, x.y, y.x, y.y}; /* the same bits */
}
#endif

/* The 8 sums of each lane, of both mma: lane 4 g + q has those of rows g and g + 8 by columns 2 q and 2 q
 * + 1. */
INLINE static int8 gather(const int *zero, const int *one, uint lane) {
    uint g = lane >> 2, q = lane & 3;
    uint to = words_at(g, q >> 1) + (q & 1) * 8, low = words_at(lane, 0), high = words_at(lane, 1);
    int r[8];
    __asm__ volatile("bar.warp.sync 0xffffffff;\n\t"
                     "st.shared.v2.b32 [%8], {%11, %12};\n\t"
                     "st.shared.v2.b32 [%8+256], {%13, %14};\n\t"
                     "st.shared.v2.b32 [%8+512], {%15, %16};\n\t"
                     "st.shared.v2.b32 [%8+768], {%17, %18};\n\t"
                     "bar.warp.sync 0xffffffff;\n\t"
                     "ld.shared.v4.b32 {%0, %1, %2, %3}, [%9];\n\t"
                     "ld.shared.v4.b32 {%4, %5, %6, %7}, [%10];"
                     : "=&r"(r[0]), "=&r"(r[1]), "=&r"(r[2]), "=&r"(r[3]), "=&r"(r[4]), "=&r"(r[5]),
                       "=&r"(r[6]), "=&r"(r[7])
                     : "r"(to), "r"(low), "r"(high), "r"(zero[0]), "r"(zero[1]), "r"(zero[2]), "r"(zero[3]),
                       "r"(one[0]), "r"(one[1]), "r"(one[2]), "r"(one[3]));
    return (int8){r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]};
}

int8 matrix_mad(short8 a, int8 b, int8 c) __asm__("_Z36intel_sub_group_i8_i8_matrix_mad_k32Dv8_sDv8_iS0_");
INLINE int8 matrix_mad(short8 a, int8 b, int8 c) {
    uint lane = lane_id();
    struct rows r = rows_of(b, lane);
#if FRAGMENTS
    uint4 x = (uint4)a;
    int w[4] = {(int)x.x, (int)x.y, (int)x.z, (int)x.w}, zero[4], one[4];
#else
    int w[4], zero[4], one[4];
    columns_of(a, w, lane);
#endif
    multiply(r.zero, w, zero);
    multiply(r.one, w + 2, one);
    return gather(zero, one, lane) + c;
}
