/* V of latent attention: the first head_v values of K, which lie as K does. Includer: cl_values.h. */
#ifndef STATOR_KERNELS_OPENCL_CL_LATENT_H
#define STATOR_KERNELS_OPENCL_CL_LATENT_H

/* Four tokens of the item's two columns, and where its next four are. Quantised: each token's word of four
 * dims, or of q4_0 eight, that has both columns. */
#if CL_KV <= KV_LAYOUT_F16
#if CL_KV == KV_LAYOUT_F16
typedef half4 four;
#else
typedef float4 four;
#endif
struct values {
    four x, y;
};
struct source {
    global const four *at;
};
#else
struct values {
    uint4 word;
    half4 scale;
};
struct source {
    global const uint4 *word;
    global const half4 *scale;
};
#endif

static inline struct source source_at(const struct look *l, global const uchar *k, uint d, uint slot) {
    struct source r;
#if CL_KV <= KV_LAYOUT_F16
    (void)l;
    r.at = (global const four *)k + (d * KV_LAYOUT_BLOCK + slot) / 4;
#else
    uint i = CL_KV == KV_LAYOUT_Q8_0 ? d % 32 : d % 16;
    r.word = (global const uint4 *)(k + kv_layout_k(CL_KV, d / 32, i / 4 * 4, slot));
    r.scale =
        (global const half4 *)(k + kv_layout_scales(CL_KV, l->head_k)) + kv_layout_scale(d / 32, slot) / 4;
#endif
    return r;
}

static inline struct values load_values(const struct look *l, struct source *from) {
    struct values r;
    (void)l;
#if CL_KV <= KV_LAYOUT_F16
    r.x = from->at[0], r.y = from->at[KV_LAYOUT_BLOCK / 4];
    from->at++;
#else
    r.word = *from->word++;
    r.scale = *from->scale++;
#endif
    return r;
}

#if CL_KV > KV_LAYOUT_F16
/* Column d of four tokens. */
static inline short4 byte_values(uint4 word, uint d) {
    uint4 x = word >> 8 * (d % 4);
    if (CL_KV == KV_LAYOUT_Q8_0)
        return (short4)((char)x.x, (char)x.y, (char)x.z, (char)x.w);
    x = (d % 32 >= 16 ? x >> 4 : x) & 15u;
    return (short4)((short)((int)x.x - 8), (short)((int)x.y - 8), (short)((int)x.z - 8),
                    (short)((int)x.w - 8));
}
#endif

#endif
