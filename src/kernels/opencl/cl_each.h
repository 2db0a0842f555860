/* The kernel of modules with CL_HEADS: products of a matrix per head, each with columns of its own of a
 * token's row. */
#ifndef STATOR_KERNELS_OPENCL_CL_EACH_H
#define STATOR_KERNELS_OPENCL_CL_EACH_H

/* Matrices first .. end of the weight, each of `rows` rows; from one to the next in_stride columns of `in`,
 * whose rows have in_width, and out_stride columns of out. biased: OPENCL_FACTOR(0). Local: tile and work as
 * of a plain product. */
CL_KERNEL void CL_NAME(CL_ARGUMENTS(EACH)) {
    uint panels = cl_ceil_div(rows, 16), units = cl_ceil_div(panels, unit), R = 16 * unit;
    uint tokens = CL_STEP(step)->n_tokens, tiles = cl_ceil_div(tokens, CL_AT_ONCE);
    for (uint item = get_group_id(0); item < (end - first) * units * tiles; item += get_num_groups(0)) {
        uint matrix = first + item / tiles / units, at = item / tiles % units * unit;
        uint t0 = item % tiles * CL_AT_ONCE, nt = min(tokens - t0, (uint)CL_AT_ONCE);
        uint column = matrix * in_stride, row = 16 * at, here = min(16 * unit, rows - row);
        struct cl_source src = CL_SOURCE(in);
        struct cl_unit u = {
            CL_WEIGHT(w0), CL_WEIGHT(w0), matrix * panels + at, (matrix + 1) * panels, unit, unit, 0};
        src.stride = in_width;
        src.f32 += 4 * column;
        src.q32 += column, src.d32 += column / 32 * 4, src.s32 += column / 32 * 2;
        src.q256 += column, src.d256 += column / 256 * 4, src.s256 += column / 16 * 2;
        cl_sums(&src, &u, split, t0, nt, tile, R, work);
        barrier(CLK_LOCAL_MEM_FENCE);
        global float *y = out + t0 * out_width + matrix * out_stride + row;
        for (uint j = get_local_id(0); j < nt * here; j += get_local_size(0))
            y[j / here * out_width + j % here] =
                cl_scaled(biased, 0, factor0 + matrix, tile[j / here * R + j % here]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#endif
