/* What latent attention makes of its products: heads of q get the ends that are rotated, and a token's row,
 * which is K and V, is normed, rotated and stored. */
#include "kernels/opencl/cl_heads.h"

/* x: rows of n_heads heads of head_k values, then the token's row. The first `latent` values of a head are
 * there; the n_rot behind them come from the ends of the heads of q, `head_q` values each; the rest is 0. A
 * token has two groups: one for its heads, one for its row. Local: tile head_k floats, lane 128 floats. */
kernel __attribute__((intel_reqd_sub_group_size(16))) void latent_store(CL_ARGUMENTS(LATENT)) {
    uint me = get_local_id(0), items = get_local_size(0), pairs = n_rot / 2, rest = head_k - latent - n_rot;
    struct cl_cache cache = CL_CACHE(kv);
    for (uint item = get_group_id(0); item < 2 * CL_STEP(step)->n_tokens; item += get_num_groups(0)) {
        uint t = item / 2;
        global const float *all =
            (global const float *)(step + CL_STEP(step)->at_rope) + t * CL_STEP(step)->rope_stride;
        global float *row = x + t * width;
        if (item % 2 == 0) {
            global const float *angles = all + rotation_q / 2;
            uint apart = rotation_q & 1 ? pairs : 1;
            for (uint i = me; i < n_heads * pairs; i += items) {
                uint j = i % pairs, at = rotation_q & 1 ? j : 2 * j;
                global const float *from = q + t * q_width + (i / pairs + 1) * head_q - n_rot + at;
                global float *to = row + i / pairs * head_k + latent + at;
                float va = from[0], vb = from[apart], c = angles[2 * j], s = angles[2 * j + 1];
                float bs = vb * s, bc = vb * c;
                to[0] = fma(va, c, -bs);
                to[apart] = fma(va, s, bc);
            }
            for (uint i = me; i < n_heads * rest; i += items)
                row[i / rest * head_k + latent + n_rot + i % rest] = 0.0f;
            continue; /* of the whole group */
        }
        global float *key = row + n_heads * head_k;
        for (uint i = me; i < head_k; i += items)
            tile[i] = i < latent + n_rot ? key[i] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        cl_norm_heads(tile, 1, latent, k_norm, inv_k, eps, lane);
        cl_rotate_heads(tile + latent, 1, n_rot, n_rot, rotation, all + rotation / 2);
        for (uint i = me; i < head_k; i += items)
            key[i] = tile[i];
        cl_store(&cache, step, t, true, cl_all_of(0, 1, head_k), tile);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
