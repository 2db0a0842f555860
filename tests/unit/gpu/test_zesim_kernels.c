/* The kernels of tools/zesim: every built-in against plain C or a definition written here, work-items that
 * wait for each other, and errors that must be noticed. */
#include "zesim.h"

#ifndef ZESIM_ABSENT
#include <float.h>
#include <math.h>

#define N 4096

static uint64_t seed;

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static bool same(float a, float b) {
    return bits_of(a) == bits_of(b) || (a != a && b != b);
}

/* ---- half */
static double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double v = exponent == 31  ? (mantissa != 0 ? (double)NAN : (double)INFINITY)
               : exponent == 0 ? ldexp(mantissa, -24)
                               : ldexp(1024 + mantissa, exponent - 25);
    return h >> 15 ? -v : v;
}

/* To nearest, ties to even, by comparing distances. */
static uint16_t nearest_half(double v) {
    uint16_t sign = signbit(v) ? 0x8000 : 0, low = 0, high = 0x7BFF;
    double a = fabs(v);
    if (isnan(v))
        return 0x7E00;
    if (a >= 65520)
        return sign | 0x7C00;
    if (a >= 65504)
        return sign | 0x7BFF;
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (half_value(middle) <= a)
            low = middle;
        else
            high = middle;
    }
    double below = a - half_value(low), above = half_value(high) - a;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

static const char half_source[] =
    "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
    "kernel void decode(global const half *h, global float *f) { int i = get_global_id(0); f[i] = "
    "vload_half(i, h); }\n"
    "kernel void encode(global const float *f, global half *h) { int i = get_global_id(0); "
    "vstore_half_rte(f[i], i, h); }\n"
    "kernel void encode4(global const float4 *f, global half *h) { int i = get_global_id(0); "
    "vstore_half4(f[i], i, h); }\n"
    "kernel void cast(global const float *f, global half *h) { int i = get_global_id(0); h[i] = (half)f[i]; "
    "}\n"
    "kernel void sum(global const half *a, global const half *b, global half *c, global half *d) {\n"
    "  int i = get_global_id(0); c[i] = a[i] + b[i]; d[i] = fmax(a[i] * b[i], (half)-60000); }\n"
    "kernel void vectors(global const half *h, global float *f) {\n"
    "  int i = get_global_id(0); vstore4(vload_half4(i, h), i, f); }\n";

static bool half_same(uint16_t a, uint16_t b) {
    return a == b || (isnan(half_value(a)) && isnan(half_value(b)));
}

static void half_case(void) {
    begin();
    uint16_t *h = on_host(65536 * 2), *g = on_host(65536 * 2), *k = on_host(65536 * 2);
    float *f = on_host(65536 * 4);
    ze_module_handle_t m = new_module(0, half_source);
    for (int i = 0; i < 65536; i++)
        h[i] = (uint16_t)i;
    OK(LAUNCH(new_kernel(m, "decode"), 256, 256, h, f));
    for (int i = 0; i < 65536; i++)
        CHECK(same(f[i], (float)half_value((uint16_t)i)));
    memset(f, 0, 65536 * 4);
    OK(LAUNCH(new_kernel(m, "vectors"), 64, 256, h, f));
    for (int i = 0; i < 65536; i++)
        CHECK(same(f[i], (float)half_value((uint16_t)i)));
    /* Exact values, midpoints, and the floats next to midpoints. */
    for (int i = 0; i < 65536; i++) {
        uint16_t a = (uint16_t)(testing_random(&seed) % 0x7C00);
        float middle = (float)((half_value(a) + half_value((uint16_t)(a + 1 < 0x7C00 ? a + 1 : a))) / 2);
        float v = i % 4 == 0   ? (float)half_value(a)
                  : i % 4 == 1 ? middle
                               : nextafterf(middle, i % 4 == 2 ? 0 : 1e6f);
        f[i] = testing_random(&seed) % 2 ? -v : v;
    }
    f[0] = 65519.996f, f[1] = 65520, f[2] = 1e30f, f[3] = -INFINITY, f[4] = NAN, f[5] = -0.0f,
    f[6] = FLT_TRUE_MIN;
    f[7] = 0x1p-25f, f[8] = 0x1.000002p-25f;
    static const char *const stores[] = {"encode", "cast"};
    for (int s = 0; s < 2; s++) {
        memset(g, 0xFF, 65536 * 2);
        OK(LAUNCH(new_kernel(m, stores[s]), 256, 256, f, g));
        for (int i = 0; i < 65536; i++)
            CHECK(half_same(g[i], nearest_half((double)f[i])));
    }
    OK(LAUNCH(new_kernel(m, "encode4"), 64, 256, f, g));
    for (int i = 0; i < 65536; i++)
        CHECK(half_same(g[i], nearest_half((double)f[i])));
    uint16_t *d = on_host(65536 * 2);
    for (int i = 0; i < 65536; i++) {
        h[i] = (uint16_t)testing_random(&seed) & 0xBFFF;
        g[i] = (uint16_t)testing_random(&seed) & 0xBFFF;
    }
    OK(LAUNCH(new_kernel(m, "sum"), 256, 256, h, g, k, d));
    for (int i = 0; i < 65536; i++) {
        CHECK(half_same(k[i], nearest_half(half_value(h[i]) + half_value(g[i]))));
        CHECK(half_same(d[i], nearest_half(half_value(h[i]) * half_value(g[i]))));
    }
}

/* ---- float */
static const char float_source[] =
    "kernel void f(global const float *a, global const float *b, global const float *c, global float *r) {\n"
    "  int i = get_global_id(0);\n"
    "  global float *o = r + i * 16;\n"
    "  float x = a[i], y = b[i], z = c[i];\n"
    "  o[0] = fma(x, y, z); o[1] = x * y + z; o[2] = fabs(x); o[3] = fmin(x, y); o[4] = fmax(x, y); o[5] = "
    "rint(x);\n"
    "  o[6] = floor(x); o[7] = ceil(x); o[8] = trunc(x); o[9] = copysign(x, y); o[10] = clamp(x, -1.0f, "
    "1.0f);\n"
    "  o[11] = select(x, y, as_int(z) & 1); o[12] = max(x, y); o[13] = min(x, y);\n"
    "  o[14] = ldexp(x, (int)(i % 64) - 32); o[15] = x - y;\n"
    "}\n"
    "kernel void f4(global const float4 *a, global const float4 *b, global const float4 *c, global float4 "
    "*r) {\n"
    "  int i = get_global_id(0); r[i] = fmax(fma(a[i], b[i], c[i]), fabs(a[i])); }\n";

static float any_float(void) {
    uint32_t u = (uint32_t)testing_random(&seed);
    if (testing_random(&seed) % 4 == 0)
        u &= 0x80FFFFFF; /* subnormal, or nearly */
    else if (testing_random(&seed) % 4 != 0)
        u = (u & 0x83FFFFFF) | 0x3C000000; /* near 1 */
    float f;
    memcpy(&f, &u, sizeof f);
    return isfinite(f) ? f : 1.5f;
}

static void float_case(void) {
    begin();
    float *a = on_host(N * 4), *b = on_host(N * 4), *c = on_host(N * 4), *r = on_host(N * 64);
    ze_module_handle_t m = new_module(0, float_source);
    for (int i = 0; i < N; i++)
        a[i] = any_float(), b[i] = any_float(), c[i] = any_float();
    a[0] = 0x1.000002p0f, b[0] = 0x1.000002p0f, c[0] = 0x1p-60f; /* differs when rounded twice */
    OK(LAUNCH(new_kernel(m, "f"), N / 64, 64, a, b, c, r));
    for (int i = 0; i < N; i++) {
        const float *o = r + (size_t)i * 16;
        float x = a[i], y = b[i], z = c[i];
        volatile float product = x * y;
        float expected[16] = {fmaf(x, y, z),
                              product + z,
                              fabsf(x),
                              fminf(x, y),
                              fmaxf(x, y),
                              rintf(x),
                              floorf(x),
                              ceilf(x),
                              truncf(x),
                              copysignf(x, y),
                              x < -1  ? -1
                              : x > 1 ? 1
                                      : x,
                              bits_of(z) & 1 ? y : x,
                              x < y ? y : x,
                              y < x ? y : x,
                              ldexpf(x, i % 64 - 32),
                              x - y};
        for (int j = 0; j < 16; j++)
            if (!same(o[j], expected[j])) {
                fprintf(stderr, "item %d, result %d: %a, not %a (of %a, %a, %a)\n", i, j, o[j], expected[j],
                        x, y, z);
                _exit(99);
            }
    }
    OK(LAUNCH(new_kernel(m, "f4"), N / 4 / 64, 64, a, b, c, r));
    for (int i = 0; i < N; i++)
        CHECK(same(r[i], fmaxf(fmaf(a[i], b[i], c[i]), fabsf(a[i]))));
}

/* ---- integers */
#define INTEGER_KERNEL(T)                                                                                    \
    "kernel void " #T "_(global const " #T " *a, global const " #T " *b, global const " #T " *c, global " #T \
    " *r) {\n"                                                                                               \
    "  int i = get_global_id(0); global " #T " *o = r + i * 10; " #T " x = a[i], y = b[i], z = c[i];\n"      \
    "  o[0] = min(x, y); o[1] = max(x, y); o[2] = clamp(x, min(y, z), max(y, z)); o[3] = add_sat(x, y);\n"   \
    "  o[4] = sub_sat(x, y); o[5] = mul_hi(x, y); o[6] = rotate(x, y); o[7] = popcount(x); o[8] = clz(x);\n" \
    "  o[9] = hadd(x, y); }\n"
static const char integer_source[] = INTEGER_KERNEL(char) INTEGER_KERNEL(uchar) INTEGER_KERNEL(short)
    INTEGER_KERNEL(ushort) INTEGER_KERNEL(int) INTEGER_KERNEL(uint) INTEGER_KERNEL(long) INTEGER_KERNEL(
        ulong) "kernel void more(global const int *a, global const int *b, global const int *c, global int "
               "*r) {\n"
               "  int i = get_global_id(0); global int *o = r + i * 12; int x = a[i], y = b[i], z = c[i];\n"
               "  o[0] = mul24(x >> 8, y >> 8); o[1] = mad24(x >> 8, y >> 8, z); o[2] = abs(x); o[3] = "
               "abs_diff(x, y);\n"
               "  o[4] = select(x, y, z & 1); o[5] = bitselect(x, y, z); o[6] = dot(as_char4(x), "
               "as_char4(y));\n"
               "  o[7] = dot(as_uchar4(x), as_uchar4(y)); o[8] = dot(as_char4(x), as_uchar4(y));\n"
               "  o[9] = dot_acc_sat(as_char4(x), as_char4(y), z);\n"
               "  o[10] = as_int(dot_acc_sat(as_uchar4(x), as_uchar4(y), (uint)z)); }\n"
               "kernel void vectors(global const int4 *a, global const int4 *b, global const int4 *c, global "
               "int4 *r) {\n"
               "  int i = get_global_id(0); r[i] = select(max(a[i], b[i]), clamp(a[i], -5, 5), c[i]); }\n"
               "kernel void memory(global const short *a, global short *r, global int *s, local int *l) {\n"
               "  int i = get_global_id(0), j = get_local_id(0);\n"
               "  vstore8(vload8(i, a) + (short8)(1), i, r); vstore4((int4)(i, i + 1, i + 2, i + 3), j, l);\n"
               "  barrier(CLK_LOCAL_MEM_FENCE);\n"
               "  int4 v = vload4(get_local_size(0) - 1 - j, l); vstore3(v.wzy, i, s); }\n";

#define CHECK_INTEGERS(T, name, U)                                                                           \
    do {                                                                                                     \
        T *a = on_host(N * 8), *b = on_host(N * 8), *c = on_host(N * 8), *r = on_host(N * 80);               \
        for (int i = 0; i < N; i++) {                                                                        \
            a[i] = (T)testing_random(&seed), b[i] = (T)testing_random(&seed),                                \
            c[i] = (T)testing_random(&seed);                                                                 \
            a[i] = i % 16 == 0   ? 0                                                                         \
                   : i % 16 == 1 ? (T)-1                                                                     \
                   : i % 16 == 2 ? (T)((U)1 << (sizeof(T) * 8 - 1))                                          \
                                 : a[i];                                                                     \
        }                                                                                                    \
        OK(LAUNCH(new_kernel(m, name "_"), N / 64, 64, a, b, c, r));                                         \
        for (int i = 0; i < N; i++) {                                                                        \
            const T *o = r + (size_t)i * 10;                                                                 \
            T x = a[i], y = b[i], z = c[i], low = y < z ? y : z, high = y < z ? z : y;                       \
            unsigned bits = sizeof(T) * 8, turn = (unsigned)((U)y % bits), ones = 0, zeros = 0;              \
            __int128 least = (T)-1 < (T)1 ? -((__int128)1 << (bits - 1)) : 0;                                \
            __int128 most = ((__int128)1 << (bits - ((T)-1 < (T)1 ? 1 : 0))) - 1;                            \
            __int128 sum = (__int128)x + y, difference = (__int128)x - y;                                    \
            for (unsigned k = 0; k < bits; k++)                                                              \
                ones += (U)x >> k & 1;                                                                       \
            while (zeros < bits && !((U)x >> (bits - 1 - zeros) & 1))                                        \
                zeros++;                                                                                     \
            CHECK(o[0] == (x < y ? x : y) && o[1] == (x > y ? x : y));                                       \
            CHECK(o[2] == (x < low ? low : x > high ? high : x));                                            \
            CHECK(o[3] == (T)(sum < least ? least : sum > most ? most : sum));                               \
            CHECK(o[4] == (T)(difference < least ? least : difference > most ? most : difference));          \
            CHECK(o[5] == (T)(((unsigned __int128)x * (unsigned __int128)y) >> bits));                       \
            CHECK(o[6] == (T)(turn == 0 ? (U)x : (U)((U)x << turn) | (U)((U)x >> (bits - turn))));           \
            CHECK(o[7] == (T)ones && o[8] == (T)zeros && o[9] == (T)(sum >> 1));                             \
        }                                                                                                    \
    } while (0)

static int dot4(uint32_t x, uint32_t y, bool x_signed, bool y_signed) {
    int r = 0;
    for (int i = 0; i < 4; i++) {
        int p = (int)(x >> 8 * i & 255), q = (int)(y >> 8 * i & 255);
        r += (x_signed && p > 127 ? p - 256 : p) * (y_signed && q > 127 ? q - 256 : q);
    }
    return r;
}

static void integer_case(void) {
    begin();
    ze_module_handle_t m = new_module(0, integer_source);
    CHECK_INTEGERS(int8_t, "char", uint8_t);
    CHECK_INTEGERS(uint8_t, "uchar", uint8_t);
    CHECK_INTEGERS(int16_t, "short", uint16_t);
    CHECK_INTEGERS(uint16_t, "ushort", uint16_t);
    CHECK_INTEGERS(int32_t, "int", uint32_t);
    CHECK_INTEGERS(uint32_t, "uint", uint32_t);
    CHECK_INTEGERS(int64_t, "long", uint64_t);
    CHECK_INTEGERS(uint64_t, "ulong", uint64_t);
    int32_t *a = on_host(N * 4), *b = on_host(N * 4), *c = on_host(N * 4), *r = on_host(N * 48);
    for (int i = 0; i < N; i++) {
        a[i] = (int32_t)testing_random(&seed), b[i] = (int32_t)testing_random(&seed);
        c[i] = i % 3 == 0 ? INT32_MAX - 100 : (int32_t)testing_random(&seed);
    }
    OK(LAUNCH(new_kernel(m, "more"), N / 64, 64, a, b, c, r));
    for (int i = 0; i < N; i++) {
        const int32_t *o = r + (size_t)i * 12;
        int64_t x = a[i], y = b[i], z = c[i],
                saturated = dot4((uint32_t)a[i], (uint32_t)b[i], true, true) + z;
        saturated = saturated > INT32_MAX ? INT32_MAX : saturated < INT32_MIN ? INT32_MIN : saturated;
        CHECK(o[0] == (int32_t)((x >> 8) * (y >> 8)) && o[1] == (int32_t)(uint32_t)((x >> 8) * (y >> 8) + z));
        CHECK((uint32_t)o[2] == (uint32_t)(x < 0 ? -x : x) &&
              (uint32_t)o[3] == (uint32_t)(x < y ? y - x : x - y));
        CHECK(o[4] == (z & 1 ? b[i] : a[i]) && o[5] == ((a[i] & ~c[i]) | (b[i] & c[i])));
        CHECK(o[6] == dot4((uint32_t)a[i], (uint32_t)b[i], true, true));
        CHECK(o[7] == dot4((uint32_t)a[i], (uint32_t)b[i], false, false));
        CHECK(o[8] == dot4((uint32_t)a[i], (uint32_t)b[i], true, false));
        uint64_t unsigned_sum = (uint64_t)(uint32_t)o[7] + (uint32_t)c[i];
        CHECK(o[9] == saturated &&
              (uint32_t)o[10] == (unsigned_sum > UINT32_MAX ? UINT32_MAX : unsigned_sum));
    }
    OK(LAUNCH(new_kernel(m, "vectors"), N / 4 / 64, 64, a, b, c, r));
    for (int i = 0; i < N; i++)
        CHECK(r[i] == (c[i] < 0 ? (a[i] < -5 ? -5 : a[i] > 5 ? 5 : a[i]) : (a[i] > b[i] ? a[i] : b[i])));
    ze_kernel_handle_t memory = new_kernel(m, "memory");
    int16_t *s = on_host(N * 16);
    OK(ZE(zeKernelSetArgumentValue)(memory, 3, 32 * 16, NULL));
    OK(LAUNCH(memory, N / 8 / 32, 32, a, s, r));
    for (int i = 0; i < N; i++)
        CHECK(s[i] == (int16_t)(((int16_t *)a)[i] + 1));
    for (int i = 0; i < N / 8; i++) {
        int from = i / 32 * 32 + 31 - i % 32;
        CHECK(r[i * 3] == from + 3 && r[i * 3 + 1] == from + 2 && r[i * 3 + 2] == from + 1);
    }
}

/* ---- conversions */
static const char convert_source[] =
    "kernel void f(global const float *a, global const int *b, global int *r, global float *s) {\n"
    "  int i = get_global_id(0); float x = a[i]; int y = b[i]; global int *o = r + i * 12; global float *p = "
    "s + i * 6;\n"
    "  o[0] = convert_char_sat_rte(x); o[1] = convert_int_sat(x); o[2] = convert_uint_sat_rte(x); o[3] = "
    "convert_uchar_sat(y);\n"
    "  o[4] = convert_short_sat(y); o[5] = convert_int_rte(fmod_(x)); o[6] = convert_uchar_sat_rte(x);\n"
    "  o[7] = (int)fmod_(x); o[8] = convert_char(y); o[9] = convert_int4(as_char4(y)).z; o[10] = "
    "convert_ushort_sat(y);\n"
    "  o[11] = convert_char4_sat((int4)(y, y >> 8, y >> 16, y >> 24)).y;\n"
    "  p[0] = convert_float_rte(y); p[1] = convert_float((uint)y); p[2] = (float)y; p[3] = "
    "convert_float4(as_uchar4(y)).w;\n"
    "  p[4] = convert_float4(as_char4(y)).x; p[5] = convert_float((long)y * 1234567891l); }\n";

static int saturate(double v, double least, double most) {
    return isnan(v) ? 0 : (int)(int64_t)(v < least ? least : v > most ? most : v);
}

static void convert_case(void) {
    begin();
    char source[4096];
    snprintf(source, sizeof source, "float fmod_(float x) { return fabs(x) < 1e9f ? x : 0.0f; }\n%s",
             convert_source);
    float *a = on_host(N * 4), *s = on_host(N * 24);
    int32_t *b = on_host(N * 4), *r = on_host(N * 48);
    for (int i = 0; i < N; i++) {
        b[i] = (int32_t)testing_random(&seed) >> (i % 32);
        a[i] =
            i % 3 == 0 ? (float)((int64_t)testing_below(&seed, 2000) - 1000) / 4 : any_float() * (float)b[i];
    }
    a[0] = NAN, a[1] = INFINITY, a[2] = -INFINITY, a[3] = 2147483648.0f, a[4] = -2147483648.0f,
    a[5] = 4294967296.0f;
    a[6] = 127.5f, a[7] = -128.5f, a[8] = 0.5f, a[9] = 1.5f, a[10] = 2.5f, a[11] = -0.5f;
    OK(LAUNCH(new_kernel(new_module(0, source), "f"), N / 64, 64, a, b, r, s));
    for (int i = 0; i < N; i++) {
        const int32_t *o = r + (size_t)i * 12;
        const float *p = s + (size_t)i * 6;
        double x = (double)a[i], y = b[i], tame = fabsf(a[i]) < 1e9f ? x : 0;
        CHECK(o[0] == saturate(rint(x), -128, 127) && o[1] == saturate(trunc(x), INT32_MIN, INT32_MAX));
        CHECK(o[2] == saturate(rint(x), 0, UINT32_MAX) && o[3] == saturate(y, 0, 255));
        CHECK(o[4] == saturate(y, -32768, 32767) && o[5] == (int)rint(tame) &&
              o[6] == saturate(rint(x), 0, 255));
        CHECK(o[7] == (int)tame && o[8] == (int8_t)b[i] && o[9] == (int8_t)(b[i] >> 16) &&
              o[10] == saturate(y, 0, 65535));
        CHECK(o[11] == saturate(b[i] >> 8, -128, 127));
        CHECK(p[0] == (float)b[i] && p[1] == (float)(uint32_t)b[i] && p[2] == (float)b[i]);
        CHECK(p[3] == (float)((uint32_t)b[i] >> 24) && p[4] == (float)(int8_t)b[i]);
        CHECK(p[5] == (float)((int64_t)b[i] * 1234567891));
    }
}

/* ---- sub-groups */
static const char sub_group_source[] =
    "#define O __attribute__((overloadable))\n"
    "uint O intel_sub_group_shuffle_xor(uint, uint); uint O intel_sub_group_shuffle_down(uint, uint, uint);\n"
    "uint O intel_sub_group_shuffle_up(uint, uint, uint); float O intel_sub_group_shuffle(float, uint);\n"
    "int8 O intel_sub_group_shuffle(int8, uint);\n"
    "uint O intel_sub_group_block_read(const global uint *); uint4 O intel_sub_group_block_read4(const "
    "global uint *);\n"
    "void O intel_sub_group_block_write2(global uint *, uint2);\n"
    "ushort O intel_sub_group_block_read_us(const global ushort *);\n"
    "#define KERNEL(W) __attribute__((intel_reqd_sub_group_size(W))) kernel void sg##W(global const uint *a, "
    "global uint *r,\\\n"
    "    global uint *w) { BODY }\n"
    "#define BODY int i = get_global_id(0), g = get_group_id(0), l = get_sub_group_local_id(), s = "
    "get_sub_group_id();\\\n"
    "  global uint *o = r + i * 20; uint x = a[i];\\\n"
    "  o[0] = sub_group_reduce_add(x); o[1] = sub_group_reduce_min((int)x); o[2] = "
    "sub_group_reduce_max(x);\\\n"
    "  o[3] = sub_group_broadcast(x, 3); o[4] = intel_sub_group_shuffle_xor(x, 5);\\\n"
    "  o[5] = intel_sub_group_shuffle_down(x, i, 3); o[6] = intel_sub_group_shuffle_up(i, x, 3);\\\n"
    "  o[7] = as_uint(intel_sub_group_shuffle(as_float(x), (l * 5 + 1) % get_sub_group_size()));\\\n"
    "  o[8] = l; o[9] = s; o[10] = get_num_sub_groups(); o[11] = get_sub_group_size(); o[12] = "
    "get_max_sub_group_size();\\\n"
    "  o[13] = sub_group_scan_exclusive_add(x); o[14] = sub_group_scan_inclusive_max(x);\\\n"
    "  o[15] = sub_group_any(x % 64 == 0); o[16] = intel_sub_group_block_read(a + (i - l));\\\n"
    "  o[17] = intel_sub_group_block_read4(a + g * 4).s2; o[18] = intel_sub_group_block_read_us((const "
    "global ushort *)a + 8);\\\n"
    "  o[19] = intel_sub_group_shuffle((int8)(x, 1, 2, 3, 4, 5, 6, i), 1).s7;\\\n"
    "  intel_sub_group_block_write2(w + (i - l) * 2, (uint2)(x, ~x));\n"
    "KERNEL(8)\nKERNEL(16)\nKERNEL(32)\n"
    "kernel void tail(global const uint *a, global uint *r) { int i = get_global_id(0);\n"
    "  r[i * 3] = sub_group_reduce_add(a[i]); r[i * 3 + 1] = get_sub_group_size(); r[i * 3 + 2] = "
    "get_num_sub_groups(); }\n";

static void check_sub_groups(const uint32_t *a, const uint32_t *r, const uint32_t *w, int width) {
    enum { GROUP = 64 };
    for (int i = 0; i < N; i++) {
        const uint32_t *o = r + (size_t)i * 20, *first = a + i / width * width;
        int lane = i % width, base = i - lane, group = i / GROUP;
        uint32_t sum = 0, most = 0, before = 0, so_far = 0, any = 0;
        int32_t least = INT32_MAX;
        for (int k = 0; k < width; k++) {
            sum += first[k];
            least = (int32_t)first[k] < least ? (int32_t)first[k] : least;
            most = first[k] > most ? first[k] : most;
            before += k < lane ? first[k] : 0;
            so_far = k <= lane && first[k] > so_far ? first[k] : so_far;
            any |= first[k] % 64 == 0;
        }
        CHECK(o[0] == sum && (int32_t)o[1] == least && o[2] == most && o[3] == first[3] &&
              o[4] == first[(lane ^ 5) % width]);
        CHECK(o[5] == (lane + 3 < width ? first[lane + 3] : (uint32_t)(base + lane + 3 - width)));
        CHECK(o[6] == (lane >= 3 ? first[lane - 3] : (uint32_t)(base + lane - 3 + width)));
        CHECK(o[7] == first[(lane * 5 + 1) % width]);
        CHECK(o[8] == (uint32_t)lane && o[9] == (uint32_t)(i % GROUP / width) &&
              o[10] == (uint32_t)(GROUP / width));
        CHECK(o[11] == (uint32_t)width && o[12] == (uint32_t)width && o[13] == before && o[14] == so_far &&
              o[15] == any);
        CHECK(o[16] == a[i] && o[17] == a[group * 4 + 2 * width + lane]);
        CHECK(o[18] == ((const uint16_t *)a)[8 + lane] && o[19] == (uint32_t)(base + 1));
        CHECK(w[base * 2 + lane] == a[i] && w[base * 2 + width + lane] == ~a[i]);
    }
}

static void sub_group_case(void) {
    begin();
    uint32_t *a = on_host((N + 4096) * 4), *r = on_host(N * 80), *w = on_host(N * 8);
    ze_module_handle_t m = new_module(0, sub_group_source);
    for (int i = 0; i < N + 4096; i++)
        a[i] = (uint32_t)testing_random(&seed);
    for (int width = 8; width <= 32; width *= 2) {
        char name[16];
        snprintf(name, sizeof name, "sg%d", width);
        memset(r, 0, N * 80);
        OK(LAUNCH(new_kernel(m, name), N / 64, 64, a, r, w));
        check_sub_groups(a, r, w, width);
    }
    /* 40 work-items: two sub-groups of 16 and one of 8. */
    OK(LAUNCH(new_kernel(m, "tail"), 3, 40, a, r));
    for (int i = 0; i < 120; i++) {
        int first = i / 40 * 40 + i % 40 / 16 * 16, n = i % 40 < 32 ? 16 : 8;
        uint32_t sum = 0;
        for (int k = 0; k < n; k++)
            sum += a[first + k];
        CHECK(r[i * 3] == sum && r[i * 3 + 1] == (uint32_t)n && r[i * 3 + 2] == 3);
    }
}

/* ---- the matrix engine: C[8][width] += A[8][32] * B[32][width] per sub-group */
static const char matrix_source[] =
    "#define O __attribute__((overloadable))\n"
    "int8 O intel_sub_group_i8_i8_matrix_mad_k32(int8, int8, int8); int8 O "
    "intel_sub_group_i8_i8_matrix_mad_k32(short8, int8, int8);\n"
    "int8 O intel_sub_group_u8_i8_matrix_mad_k32(int8, int8, int8);\n"
    "#define LOAD_B int l = get_sub_group_local_id(), g = get_group_id(0); int8 y, z; for (int k = 0; k < 8; "
    "k++) {\\\n"
    "  y[k] = b[(g * 8 + k) * W + l]; z[k] = c[(g * 8 + k) * W + l]; }\n"
    "#define STORE for (int k = 0; k < 8; k++) c[(g * 8 + k) * W + l] = z[k];\n"
    "#define W 8\n"
    "__attribute__((intel_reqd_sub_group_size(8))) kernel void m8(global const int *a, global const int *b, "
    "global int *c) {\n"
    "  LOAD_B int8 x; for (int m = 0; m < 8; m++) x[m] = a[(g * 8 + m) * 8 + l];\n"
    "  z = intel_sub_group_i8_i8_matrix_mad_k32(x, y, z); STORE }\n"
    "__attribute__((intel_reqd_sub_group_size(8))) kernel void u8(global const int *a, global const int *b, "
    "global int *c) {\n"
    "  LOAD_B int8 x; for (int m = 0; m < 8; m++) x[m] = a[(g * 8 + m) * 8 + l];\n"
    "  z = intel_sub_group_u8_i8_matrix_mad_k32(x, y, z); STORE }\n"
    "#undef W\n#define W 16\n"
    "__attribute__((intel_reqd_sub_group_size(16))) kernel void m16(global const short *a, global const int "
    "*b, global int *c) {\n"
    "  LOAD_B short8 x; for (int m = 0; m < 8; m++) x[m] = a[(g * 8 + m) * 16 + l];\n"
    "  z = intel_sub_group_i8_i8_matrix_mad_k32(x, y, z); STORE }\n";

static void matrix_case(void) {
    enum { GROUPS = 5 };
    begin();
    ze_module_handle_t m = new_module(0, matrix_source);
    static const struct {
        const char *name;
        int width;
        bool a_signed;
    } forms[] = {{"m8", 8, true}, {"u8", 8, false}, {"m16", 16, true}};
    for (int f = 0; f < 3; f++) {
        int width = forms[f].width;
        uint8_t *a = on_host(GROUPS * 8 * 32), *b = on_host((size_t)GROUPS * 32 * (size_t)width);
        int32_t *c = on_host((size_t)GROUPS * 8 * (size_t)width * 4),
                *expected = calloc((size_t)GROUPS * 8 * (size_t)width, 4);
        CHECK(expected != NULL);
        for (int i = 0; i < GROUPS * 8 * 32; i++)
            a[i] = (uint8_t)testing_random(&seed);
        for (int i = 0; i < GROUPS * 32 * width; i++)
            b[i] = (uint8_t)testing_random(&seed);
        for (int i = 0; i < GROUPS * 8 * width; i++)
            expected[i] = c[i] = (int32_t)testing_random(&seed) / 4;
        for (int g = 0; g < GROUPS; g++)
            for (int row = 0; row < 8; row++)
                for (int n = 0; n < width; n++)
                    for (int k = 0; k < 32; k++) {
                        uint8_t x = a[(g * 8 + row) * 32 + k];
                        int8_t y = (int8_t)b[((g * 8 + k / 4) * width + n) * 4 + k % 4];
                        expected[(g * 8 + row) * width + n] += (forms[f].a_signed ? (int8_t)x : x) * y;
                    }
        OK(LAUNCH(new_kernel(m, forms[f].name), GROUPS, (uint32_t)width, a, b, c));
        CHECK(memcmp(c, expected, (size_t)GROUPS * 8 * (size_t)width * 4) == 0);
        free(expected);
    }
}

/* ---- atomics, static local memory, three dimensions, structures */
static const char group_source[] =
    "constant int table[4] = {10, 20, 30, 40};\n"
    "struct pair { int a; float b; char c; };\n"
    "kernel void count(global const uchar *in, global uint *bins, global uint *ends) {\n"
    "  local uint part[256]; int l = get_local_id(0);\n"
    "  for (int i = l; i < 256; i += get_local_size(0)) part[i] = 0;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE); atomic_inc(&part[in[get_global_id(0)]]); barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  for (int i = l; i < 256; i += get_local_size(0)) atomic_add(&bins[i], part[i]);\n"
    "  atomic_max(&ends[0], (uint)get_global_id(0)); atomic_min(&ends[1], (uint)get_global_id(0));\n"
    "  atomic_xchg(&ends[2], 77u); atomic_cmpxchg(&ends[3], 5u, 6u); }\n"
    "kernel void place(global uint *r, ulong salt, struct pair p) {\n"
    "  size_t i = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + "
    "get_global_id(0);\n"
    "  r[i] = get_local_id(0) + 10 * get_local_id(1) + 100 * get_local_id(2) + 1000 * get_group_id(0) + "
    "10000 * get_group_id(1) +\n"
    "    100000 * get_group_id(2) + (uint)salt + p.a + (int)p.b + p.c + table[i % 4]; }\n"
    "kernel void nothing(void) {}\n"
    "kernel void total(global const uint *in, global uint *out, local uint *l) {\n"
    "  int j = get_local_id(0); l[j] = in[get_global_id(0)];\n"
    "  for (int s = get_local_size(0) / 2; s > 0; s /= 2) { barrier(CLK_LOCAL_MEM_FENCE); if (j < s) l[j] += "
    "l[j + s]; }\n"
    "  if (j == 0) out[get_group_id(0)] = l[0]; }\n";

static void group_case(void) {
    struct pair {
        int32_t a;
        float b;
        int8_t c;
    } pair = {7, 3.75f, -2};
    begin();
    ze_module_handle_t m = new_module(0, group_source);
    uint8_t *in = on_host(N);
    uint32_t *bins = on_host(256 * 4), *ends = on_host(16), expected[256] = {0};
    memset(bins, 0, 256 * 4);
    ends[0] = 0, ends[1] = 1000, ends[2] = 1, ends[3] = 5;
    for (int i = 0; i < N; i++)
        expected[in[i] = (uint8_t)testing_random(&seed)]++;
    OK(LAUNCH(new_kernel(m, "count"), N / 128, 128, in, bins, ends));
    CHECK(memcmp(bins, expected, sizeof expected) == 0);
    CHECK(ends[0] == N - 1 && ends[1] == 0 && ends[2] == 77 && ends[3] == 6);

    uint32_t *r = on_host(4 * 6 * 10 * 4);
    uint64_t salt = 0x100000005;
    ze_kernel_handle_t place = new_kernel(m, "place");
    set_pointer(place, 0, r);
    OK(ZE(zeKernelSetArgumentValue)(place, 1, sizeof salt, &salt));
    OK(ZE(zeKernelSetArgumentValue)(place, 2, sizeof pair, &pair));
    OK(ZE(zeKernelSetGroupSize)(place, 2, 3, 5));
    OK(ZE(zeCommandListAppendLaunchKernel)(t.immediate, place, &(ze_group_count_t){2, 2, 2}, NULL, 0, NULL));
    for (uint32_t i = 0; i < 4 * 6 * 10; i++) {
        uint32_t x = i % 4, y = i / 4 % 6, z = i / 24;
        CHECK(r[i] == x % 2 + 10 * (y % 3) + 100 * (z % 5) + 1000 * (x / 2) + 10000 * (y / 3) +
                          100000 * (z / 5) + 5 + 7 + 3 - 2 + 10 * (i % 4 + 1));
    }
    OK(launch(new_kernel(m, "nothing"), 3, 8, 0, NULL));
}

static void total_case(void) {
    begin();
    ze_module_handle_t m = new_module(0, group_source);
    uint32_t *in = on_host(N * 4), *out = on_host(N * 4);
    for (int i = 0; i < N; i++)
        in[i] = (uint32_t)testing_random(&seed);
    ze_kernel_handle_t total = new_kernel(m, "total");
    OK(ZE(zeKernelSetArgumentValue)(total, 2, 256 * 4, NULL));
    OK(LAUNCH(total, N / 256, 256, in, out));
    for (int g = 0; g < N / 256; g++) {
        uint32_t sum = 0;
        for (int i = 0; i < 256; i++)
            sum += in[g * 256 + i];
        CHECK(out[g] == sum);
    }
}

/* ---- what must be noticed */
static const char wrong_source[] =
    "kernel void diverge(global uint *r) { if (get_local_id(0) < 3) barrier(CLK_GLOBAL_MEM_FENCE); r[0] = 1; "
    "}\n"
    "kernel void split(global uint *r) { uint x = get_local_id(0);\n"
    "  if (x % 16 < 8) r[x] = sub_group_reduce_add(x); else r[x] = sub_group_broadcast(x, 0); }\n"
    "kernel void race(global uint *r, local uint *l) { uint j = get_local_id(0), n = get_local_size(0);\n"
    "  l[j] = j; r[j] = j > 0 ? l[j - 1] : 0; if (r == 0) barrier(CLK_LOCAL_MEM_FENCE); }\n"
    "kernel void over(global uint *r) { r[get_global_id(0)] = 1; }\n";

static void divergence_case(void) {
    begin();
    uint32_t *r = on_host(4096);
    ze_module_handle_t m = new_module(0, wrong_source);
    CHECK_RESULT(LAUNCH(new_kernel(m, "diverge"), 1, 16, r), ZE_RESULT_ERROR_DEVICE_LOST);
    CHECK(zesim_counter("violations") == 1);
}

static void split_case(void) {
    begin();
    uint32_t *r = on_host(4096);
    CHECK_RESULT(LAUNCH(new_kernel(new_module(0, wrong_source), "split"), 1, 16, r),
                 ZE_RESULT_ERROR_DEVICE_LOST);
}

/* Without its barrier this kernel is right in one order of the work-items only. */
static bool race_is_right(void) {
    begin();
    uint32_t *r = on_host(4096), wrong = 0;
    ze_kernel_handle_t race = new_kernel(new_module(0, wrong_source), "race");
    OK(ZE(zeKernelSetArgumentValue)(race, 1, 64 * 4, NULL));
    OK(LAUNCH(race, 1, 64, r));
    for (uint32_t j = 1; j < 64; j++)
        wrong += r[j] != j - 1;
    return wrong == 0;
}
static void race_forward(void) {
    CHECK(race_is_right());
}
static void race_reverse(void) {
    CHECK(!race_is_right());
}

static void overrun_case(void) {
    begin();
    uint32_t *r = on_device(0, 64 * 4);
    ze_kernel_handle_t over = new_kernel(new_module(0, wrong_source), "over");
    OK(LAUNCH(over, 1, 64, r));
    LAUNCH(over, 1, 65, r);
}

static void no_builtin_case(void) {
    size_t size, length = 0;
    begin();
    uint8_t *spirv = zesim_spirv("kernel void k(global float *a) { a[0] = native_exp(a[1]); }\n", &size);
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = ZE_MODULE_FORMAT_IL_SPIRV,
                             .inputSize = size,
                             .pInputModule = spirv};
    ze_module_handle_t module;
    ze_module_build_log_handle_t log;
    CHECK_RESULT(ZE(zeModuleCreate)(t.context, t.device[0], &desc, &module, &log),
                 ZE_RESULT_ERROR_MODULE_LINK_FAILURE);
    OK(ZE(zeModuleBuildLogGetString)(log, &length, NULL));
    char *text = malloc(length);
    CHECK(text != NULL);
    OK(ZE(zeModuleBuildLogGetString)(log, &length, text));
    CHECK(strstr(text, "native_exp") != NULL);
    desc.inputSize = 3;
    CHECK_RESULT(ZE(zeModuleCreate)(t.context, t.device[0], &desc, &module, NULL),
                 ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
    free(text);
    free(spirv);
}

/* ---- tests: each case also with work-items in other orders */
static void all_orders(void (*f)(void)) {
    ZESIM_NEED();
    seed = testing_seed("zesim_kernels");
    zesim_run("", f);
    zesim_run("order=reverse", f);
    zesim_run("order=shuffle,seed=3", f);
}
#define IN_ALL_ORDERS(name)                                                                                  \
    static void name(void **state) {                                                                         \
        (void)state;                                                                                         \
        all_orders(name##_case);                                                                             \
    }
IN_ALL_ORDERS(sub_group)
IN_ALL_ORDERS(matrix)
IN_ALL_ORDERS(group)
IN_ALL_ORDERS(total)

static void arithmetic(void **state) {
    (void)state;
    ZESIM_NEED();
    seed = testing_seed("zesim_kernels");
    zesim_run("", half_case);
    zesim_run("", float_case);
    zesim_run("", integer_case);
    zesim_run("", convert_case);
}

static void wrong_kernels(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run_says("", divergence_case, "are at a barrier, others at the end");
    zesim_run_says("", split_case, "sub_group_broadcast");
    zesim_run("", race_forward);
    zesim_run("order=reverse", race_reverse);
    zesim_run_dies("", overrun_case, SIGSEGV, "in kernel over touched");
    zesim_run("", no_builtin_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic), cmocka_unit_test(sub_group), cmocka_unit_test(matrix),
        cmocka_unit_test(group),      cmocka_unit_test(total),     cmocka_unit_test(wrong_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
