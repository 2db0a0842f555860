/* What each GPU kernel is given, in order, once for both sides: kernels/opencl/cl_arguments.h makes
 * parameters of it, device/launch/launch_arguments.h a struct that the host fills by name. Before all of it
 * goes the step descriptor. Compiles as C and as OpenCL C.
 *
 * X(KIND, ..): BUFFER(type, name) an address in an arena; U32(name), F32(name); LOCAL(type, name) local
 * memory, its bytes. Several at once: FORMS(name) a value with the forms that it has (graph.h) and its width;
 * SOURCE(name) a value that is multiplied, its forms and columns; WEIGHT(name) panels in at most two pieces;
 * CACHE(name) where a layer lies in its KV cache; STATES(name) the same in a cache of states, and what they
 * are of. */
#ifndef STATOR_KERNELS_SHARED_KERNEL_ARGUMENTS_H
#define STATOR_KERNELS_SHARED_KERNEL_ARGUMENTS_H

#define KERNEL_ARGUMENTS_FILL(X)                                                                             \
    X(BUFFER, uchar, kv) X(U32, units) X(U32, unit_bytes) X(U32, block_stride) X(U32, cache)

/* Its descriptor is a struct step_moves. */
#define KERNEL_ARGUMENTS_MOVE(X)                                                                             \
    X(BUFFER, uchar, kv)                                                                                     \
    X(BUFFER, uchar, buffer)                                                                                 \
    X(U32, units) X(U32, first) X(U32, layer_units) X(U32, unit_bytes) X(U32, block_stride) X(U32, cache)

#define KERNEL_ARGUMENTS_EMBED(X)                                                                            \
    X(BUFFER, const uchar, piece)                                                                            \
    X(BUFFER, const float, pictures)                                                                         \
    X(U32, pictures_width)                                                                                   \
    X(BUFFER, float, x)                                                                                      \
    X(U32, type) X(U32, file) X(U32, width) X(U32, stride) X(U32, first_panel) X(U32, panels) X(F32, scale)

#define KERNEL_ARGUMENTS_ARGMAX_PARTS(X)                                                                     \
    X(BUFFER, const float, logits) X(BUFFER, uint, parts) X(U32, n_parts) X(U32, vocab)

#define KERNEL_ARGUMENTS_ARGMAX(X)                                                                           \
    X(BUFFER, const uint, parts) X(BUFFER, struct step_pick, picks) X(U32, n_parts)

#define KERNEL_ARGUMENTS_SOFTCAP(X) X(BUFFER, float, logits) X(U32, vocab) X(F32, cap) X(F32, inverse)

#define KERNEL_ARGUMENTS_NORM(X)                                                                             \
    X(BUFFER, const float, x)                                                                                \
    X(U32, weighs)                                                                                           \
    X(BUFFER, const float, weight)                                                                           \
    X(BUFFER, const float, scale)                                                                            \
    X(U32, scaled)                                                                                           \
    X(FORMS, out)                                                                                            \
    X(U32, gather)                                                                                           \
    X(U32, pairs)                                                                                            \
    X(U32, adds)                                                                                             \
    X(U32, apart)                                                                                            \
    X(U32, part)                                                                                             \
    X(F32, inv_n) X(F32, eps) X(LOCAL, float, tile) X(LOCAL, float, lane) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_CENTER(X) X(BUFFER, float, x) X(U32, width) X(F32, inv_n) X(LOCAL, float, lane)

#define KERNEL_ARGUMENTS_FORMS(X)                                                                            \
    X(BUFFER, const float, x)                                                                                \
    X(FORMS, out) X(U32, part) X(LOCAL, float, tile) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_MAP(X)                                                                              \
    X(BUFFER, const float, in)                                                                               \
    X(U32, in_width)                                                                                         \
    X(FORMS, out)                                                                                            \
    X(U32, how)                                                                                              \
    X(U32, wanted)                                                                                           \
    X(U32, from)                                                                                             \
    X(U32, to)                                                                                               \
    X(F32, factor)                                                                                           \
    X(U32, weighs)                                                                                           \
    X(BUFFER, const float, scale)                                                                            \
    X(BUFFER, const float, shift) X(U32, part) X(LOCAL, float, tile) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_LAYER_NORM(X)                                                                       \
    X(BUFFER, const float, x)                                                                                \
    X(BUFFER, const float, weight)                                                                           \
    X(BUFFER, const float, bias)                                                                             \
    X(FORMS, out)                                                                                            \
    X(U32, wanted)                                                                                           \
    X(F32, inv_n) X(F32, eps) X(LOCAL, float, tile) X(LOCAL, float, lane) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_STREAMS_NORM(X)                                                                     \
    X(BUFFER, const float, x)                                                                                \
    X(BUFFER, const float, weight)                                                                           \
    X(FORMS, out)                                                                                            \
    X(U32, count)                                                                                            \
    X(U32, part)                                                                                             \
    X(F32, inv_n)                                                                                            \
    X(F32, eps) X(LOCAL, float, factors) X(LOCAL, float, tile) X(LOCAL, float, lane) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_STREAMS_MIX(X)                                                                      \
    X(BUFFER, const float, in)                                                                               \
    X(BUFFER, const float, gates)                                                                            \
    X(FORMS, out) X(U32, count) X(F32, inverse) X(U32, part) X(LOCAL, float, tile) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_STREAMS_ADD(X)                                                                      \
    X(BUFFER, const float, in)                                                                               \
    X(BUFFER, const float, gates)                                                                            \
    X(BUFFER, float, x) X(U32, width) X(U32, count) X(U32, adds) X(F32, inverse) X(U32, part)

#define KERNEL_ARGUMENTS_BLEND(X)                                                                            \
    X(BUFFER, const uchar, piece)                                                                            \
    X(BUFFER, const float, blends) X(BUFFER, float, x) X(U32, type) X(U32, file) X(U32, width)

#define KERNEL_ARGUMENTS_PROJECT(X)                                                                          \
    X(BUFFER, const uchar, piece)                                                                            \
    X(BUFFER, const float, in)                                                                               \
    X(U32, in_width)                                                                                         \
    X(BUFFER, float, out)                                                                                    \
    X(U32, out_width) X(U32, column) X(U32, type) X(U32, file) X(U32, cols)

#define KERNEL_ARGUMENTS_FEATURES(X)                                                                         \
    X(BUFFER, const float, in) X(U32, stride) X(U32, first) X(BUFFER, float, x) X(U32, width)

#define KERNEL_ARGUMENTS_EXCHANGE(X)                                                                         \
    X(BUFFER, const float, from0)                                                                            \
    X(BUFFER, const float, from1)                                                                            \
    X(BUFFER, const float, from2)                                                                            \
    X(BUFFER, const float, from3)                                                                            \
    X(BUFFER, const float, from4)                                                                            \
    X(BUFFER, const float, from5)                                                                            \
    X(BUFFER, const float, from6)                                                                            \
    X(BUFFER, const float, from7)                                                                            \
    X(U32, end0)                                                                                             \
    X(U32, end1)                                                                                             \
    X(U32, end2)                                                                                             \
    X(U32, end3)                                                                                             \
    X(U32, end4)                                                                                             \
    X(U32, end5)                                                                                             \
    X(U32, end6)                                                                                             \
    X(U32, end7)                                                                                             \
    X(U32, column)                                                                                           \
    X(U32, adds)                                                                                             \
    X(BUFFER, const uint, routes)                                                                            \
    X(U32, used)                                                                                             \
    X(U32, slots)                                                                                            \
    X(U32, wanted)                                                                                           \
    X(U32, owned) X(U32, pictures) X(FORMS, out) X(U32, part) X(LOCAL, float, tile) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_EXCHANGE_INT8(X)                                                                    \
    X(BUFFER, const uchar, from0)                                                                            \
    X(BUFFER, const uchar, from1)                                                                            \
    X(BUFFER, const uchar, from2)                                                                            \
    X(BUFFER, const uchar, from3)                                                                            \
    X(BUFFER, const uchar, from4)                                                                            \
    X(BUFFER, const uchar, from5)                                                                            \
    X(BUFFER, const uchar, from6)                                                                            \
    X(BUFFER, const uchar, from7)                                                                            \
    X(U32, end0)                                                                                             \
    X(U32, end1)                                                                                             \
    X(U32, end2)                                                                                             \
    X(U32, end3)                                                                                             \
    X(U32, end4)                                                                                             \
    X(U32, end5)                                                                                             \
    X(U32, end6)                                                                                             \
    X(U32, end7)                                                                                             \
    X(U32, rows)                                                                                             \
    X(BUFFER, const uint, routes)                                                                            \
    X(U32, used)                                                                                             \
    X(U32, slots) X(FORMS, out) X(U32, part)

#define KERNEL_ARGUMENTS_EXCHANGE_NORM(X)                                                                    \
    X(BUFFER, const float, from0)                                                                            \
    X(BUFFER, const float, from1)                                                                            \
    X(BUFFER, const float, from2)                                                                            \
    X(BUFFER, const float, from3)                                                                            \
    X(BUFFER, const float, from4)                                                                            \
    X(BUFFER, const float, from5)                                                                            \
    X(BUFFER, const float, from6)                                                                            \
    X(BUFFER, const float, from7)                                                                            \
    X(U32, end0)                                                                                             \
    X(U32, end1)                                                                                             \
    X(U32, end2)                                                                                             \
    X(U32, end3)                                                                                             \
    X(U32, end4)                                                                                             \
    X(U32, end5)                                                                                             \
    X(U32, end6)                                                                                             \
    X(U32, end7)                                                                                             \
    X(BUFFER, const float, x)                                                                                \
    X(BUFFER, float, y)                                                                                      \
    X(BUFFER, const float, weight)                                                                           \
    X(FORMS, out)                                                                                            \
    X(U32, part)                                                                                             \
    X(F32, inv_n) X(F32, eps) X(LOCAL, float, tile) X(LOCAL, float, lane) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_WIDE(X)                                                                             \
    X(BUFFER, float, x)                                                                                      \
    X(U32, width)                                                                                            \
    X(U32, n_heads)                                                                                          \
    X(U32, n_kv_heads)                                                                                       \
    X(U32, head_k)                                                                                           \
    X(U32, head_v)                                                                                           \
    X(U32, n_rot)                                                                                            \
    X(U32, rotation)                                                                                         \
    X(BUFFER, const float, q_norm)                                                                           \
    X(BUFFER, const float, k_norm)                                                                           \
    X(F32, inv_q)                                                                                            \
    X(F32, inv_k)                                                                                            \
    X(F32, eps)                                                                                              \
    X(U32, late) X(U32, normed_v) X(U32, halves) X(CACHE, kv) X(LOCAL, float, tile) X(LOCAL, float, lane)

#define KERNEL_ARGUMENTS_LATENT(X)                                                                           \
    X(BUFFER, float, x)                                                                                      \
    X(U32, width)                                                                                            \
    X(BUFFER, const float, q)                                                                                \
    X(U32, q_width)                                                                                          \
    X(U32, head_q)                                                                                           \
    X(U32, n_heads)                                                                                          \
    X(U32, head_k)                                                                                           \
    X(U32, latent)                                                                                           \
    X(U32, n_rot)                                                                                            \
    X(U32, rotation_q)                                                                                       \
    X(U32, rotation)                                                                                         \
    X(BUFFER, const float, k_norm)                                                                           \
    X(F32, inv_k) X(F32, eps) X(CACHE, kv) X(LOCAL, float, tile) X(LOCAL, float, lane)

#define KERNEL_ARGUMENTS_PAIR(X)                                                                             \
    X(BUFFER, const float, states)                                                                           \
    X(BUFFER, const float, kept)                                                                             \
    X(U32, kept_rows)                                                                                        \
    X(BUFFER, uchar, state)                                                                                  \
    X(U32, block_bytes)                                                                                      \
    X(U32, cache)                                                                                            \
    X(BUFFER, const float, embedding_weight)                                                                 \
    X(BUFFER, const float, state_weight)                                                                     \
    X(U32, states_width)                                                                                     \
    X(U32, states_first)                                                                                     \
    X(FORMS, out) X(F32, inv_n) X(F32, eps) X(LOCAL, float, tile) X(LOCAL, float, lane) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_KEEP(X)                                                                             \
    X(BUFFER, const float, in)                                                                               \
    X(U32, width)                                                                                            \
    X(BUFFER, float, kept)                                                                                   \
    X(U32, kept_rows) X(U32, has_state) X(BUFFER, uchar, state) X(U32, block_bytes) X(U32, cache)

#define KERNEL_ARGUMENTS_CONV(X)                                                                             \
    X(BUFFER, const float, in)                                                                               \
    X(U32, in_width)                                                                                         \
    X(BUFFER, float, out)                                                                                    \
    X(U32, out_width)                                                                                        \
    X(BUFFER, const float, weights)                                                                          \
    X(U32, panel)                                                                                            \
    X(BUFFER, const float, bias)                                                                             \
    X(U32, biased)                                                                                           \
    X(U32, ssd) X(STATES, state) X(F32, eps) X(LOCAL, float, tile) X(LOCAL, float, lane)

#define KERNEL_ARGUMENTS_GATED_CONV(X)                                                                       \
    X(BUFFER, const float, in)                                                                               \
    X(FORMS, out)                                                                                            \
    X(BUFFER, const float, weights)                                                                          \
    X(U32, panel)                                                                                            \
    X(U32, taps)                                                                                             \
    X(BUFFER, uchar, state)                                                                                  \
    X(U32, block_bytes) X(U32, cache) X(LOCAL, float, tile) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_NGRAM_GATE(X)                                                                       \
    X(BUFFER, float, in)                                                                                     \
    X(BUFFER, const float, stream)                                                                           \
    X(BUFFER, const float, key_weight)                                                                       \
    X(BUFFER, const float, stream_weight)                                                                    \
    X(BUFFER, const float, conv_weight)                                                                      \
    X(U32, streams) X(U32, dim) X(F32, inv_n) X(F32, eps) X(F32, scale) X(LOCAL, float, lane)

#define KERNEL_ARGUMENTS_NGRAM_CONV(X)                                                                       \
    X(BUFFER, const float, in)                                                                               \
    X(BUFFER, float, out)                                                                                    \
    X(BUFFER, const float, weights)                                                                          \
    X(U32, panel)                                                                                            \
    X(U32, streams)                                                                                          \
    X(U32, dim)                                                                                              \
    X(U32, taps) X(U32, apart) X(BUFFER, uchar, state) X(U32, block_bytes) X(U32, cache)

#define KERNEL_ARGUMENTS_DELTA(X)                                                                            \
    X(BUFFER, const float, in)                                                                               \
    X(U32, in_width)                                                                                         \
    X(BUFFER, const float, raw)                                                                              \
    X(BUFFER, float, out)                                                                                    \
    X(U32, out_width)                                                                                        \
    X(BUFFER, const float, bias)                                                                             \
    X(BUFFER, const float, a)                                                                                \
    X(BUFFER, const float, skip)                                                                             \
    X(STATES, state) X(U32, beta_at) X(U32, alpha_at) X(U32, grouped) X(F32, scale) X(LOCAL, float4, memory)

#define KERNEL_ARGUMENTS_GATE(X)                                                                             \
    X(BUFFER, const float, in)                                                                               \
    X(BUFFER, const float, gates)                                                                            \
    X(U32, gates_width)                                                                                      \
    X(U32, column)                                                                                           \
    X(FORMS, out)                                                                                            \
    X(BUFFER, const float, weight)                                                                           \
    X(U32, how)                                                                                              \
    X(U32, each)                                                                                             \
    X(U32, heads)                                                                                            \
    X(U32, dim)                                                                                              \
    X(U32, together)                                                                                         \
    X(F32, inv_n) X(F32, eps) X(LOCAL, float, tile) X(LOCAL, float, lane) X(LOCAL, uint, work)

#define KERNEL_ARGUMENTS_ATTENTION(X)                                                                        \
    X(BUFFER, const float, q)                                                                                \
    X(U32, q_width)                                                                                          \
    X(FORMS, out)                                                                                            \
    X(U32, group)                                                                                            \
    X(U32, head_k)                                                                                           \
    X(U32, head_v)                                                                                           \
    X(F32, scale)                                                                                            \
    X(F32, cap)                                                                                              \
    X(F32, cap_inverse)                                                                                      \
    X(CACHE, kv)                                                                                             \
    X(U32, n_kv_heads)                                                                                       \
    X(U32, heads)                                                                                            \
    X(U32, window)                                                                                           \
    X(U32, skip)                                                                                             \
    X(BUFFER, const float, sinks)                                                                            \
    X(U32, has_sinks)                                                                                        \
    X(BUFFER, const uint, windows)                                                                           \
    X(U32, has_windows)                                                                                      \
    X(U32, pictures)                                                                                         \
    X(BUFFER, const uint, lists)                                                                             \
    X(U32, list_width)                                                                                       \
    X(U32, ratio)                                                                                            \
    X(U32, keep)                                                                                             \
    X(BUFFER, float, cells) X(BUFFER, uint, arrivals) X(U32, n_cells) X(LOCAL, float4, whole)

/* Of both kernels of INDEX. */
#define KERNEL_ARGUMENTS_INDEX(X)                                                                            \
    X(BUFFER, float, x)                                                                                      \
    X(U32, width)                                                                                            \
    X(U32, n_heads)                                                                                          \
    X(U32, dim)                                                                                              \
    X(U32, ratio)                                                                                            \
    X(U32, n_rot)                                                                                            \
    X(U32, rotation)                                                                                         \
    X(BUFFER, const float, q_norm)                                                                           \
    X(BUFFER, const float, k_norm)                                                                           \
    X(F32, inv_n) X(F32, eps) X(F32, share) X(CACHE, kv) X(LOCAL, float, tile) X(LOCAL, float, lane)

/* Of CHOOSE's two. */
#define KERNEL_ARGUMENTS_SCORES(X)                                                                           \
    X(BUFFER, const float, x)                                                                                \
    X(U32, width)                                                                                            \
    X(U32, n_heads)                                                                                          \
    X(U32, dim)                                                                                              \
    X(U32, ratio) X(U32, keep) X(BUFFER, float, scores) X(U32, stride) X(CACHE, kv) X(LOCAL, float, tile)
#define KERNEL_ARGUMENTS_CHOOSE(X)                                                                           \
    X(BUFFER, const uint, scores)                                                                            \
    X(U32, stride)                                                                                           \
    X(U32, ratio) X(U32, keep) X(BUFFER, uint, list) X(U32, list_width) X(LOCAL, uint, count)
#define KERNEL_ARGUMENTS_ROUTER(X)                                                                           \
    X(BUFFER, const float, in)                                                                               \
    X(U32, cols)                                                                                             \
    X(BUFFER, const float, w0)                                                                               \
    X(BUFFER, const float, w1)                                                                               \
    X(U32, panel)                                                                                            \
    X(U32, rows0)                                                                                            \
    X(U32, rows1)                                                                                            \
    X(BUFFER, float, out)                                                                                    \
    X(U32, column0)                                                                                          \
    X(U32, column1)                                                                                          \
    X(BUFFER, const float, bias0)                                                                            \
    X(BUFFER, const float, bias1)                                                                            \
    X(U32, biased) X(LOCAL, float4, stage) X(LOCAL, float, x) X(LOCAL, float, totals)

#define KERNEL_ARGUMENTS_ROUTE(X)                                                                            \
    X(BUFFER, const float, logits)                                                                           \
    X(U32, width)                                                                                            \
    X(BUFFER, uint, routes)                                                                                  \
    X(BUFFER, const float, bias)                                                                             \
    X(U32, biased)                                                                                           \
    X(U32, experts)                                                                                          \
    X(U32, used)                                                                                             \
    X(U32, groups)                                                                                           \
    X(U32, groups_used)                                                                                      \
    X(U32, slots)                                                                                            \
    X(U32, how)                                                                                              \
    X(F32, scale)                                                                                            \
    X(U32, rows)                                                                                             \
    X(U32, align) X(LOCAL, uint, key) X(LOCAL, uint, flag) X(LOCAL, float, weight) X(LOCAL, float, lane)

#define KERNEL_ARGUMENTS_GROUP_SLOTS(X)                                                                      \
    X(BUFFER, uint, routes)                                                                                  \
    X(U32, experts)                                                                                          \
    X(U32, used)                                                                                             \
    X(U32, slots)                                                                                            \
    X(U32, rows)                                                                                             \
    X(U32, align)                                                                                            \
    X(U32, tile)                                                                                             \
    X(LOCAL, uint, count)                                                                                    \
    X(LOCAL, uint, taken) X(LOCAL, uint, items) X(LOCAL, uint, begin) X(LOCAL, uint, some)

#define KERNEL_ARGUMENTS_MIX(X)                                                                              \
    X(BUFFER, const uint, routes)                                                                            \
    X(U32, used)                                                                                             \
    X(U32, slots)                                                                                            \
    X(BUFFER, const float, y)                                                                                \
    X(BUFFER, float, x)                                                                                      \
    X(U32, width)                                                                                            \
    X(BUFFER, const float, shared)                                                                           \
    X(U32, has_shared)                                                                                       \
    X(BUFFER, const float, gate)                                                                             \
    X(U32, gate_width)                                                                                       \
    X(U32, gate_column)                                                                                      \
    X(U32, has_gate) X(U32, stores) X(BUFFER, const float, own) X(BUFFER, const uint, near) X(U32, has_near)

#define KERNEL_ARGUMENTS_NEAR(X)                                                                             \
    X(BUFFER, const uint, routes)                                                                            \
    X(BUFFER, uint, near) X(BUFFER, const uint, map) X(U32, used) X(U32, slots) X(LOCAL, uint, some)

#define KERNEL_ARGUMENTS_TAKE(X)                                                                             \
    X(BUFFER, const uint, list)                                                                              \
    X(WEIGHT, w)                                                                                             \
    X(U32, panels)                                                                                           \
    X(U32, panel_bytes)                                                                                      \
    X(U32, first)                                                                                            \
    X(U32, end)                                                                                              \
    X(BUFFER, uchar, slots)                                                                                  \
    X(BUFFER, const float, bias)                                                                             \
    X(BUFFER, float, slot_bias)                                                                              \
    X(U32, bias_words)                                                                                       \
    X(BUFFER, const float, factor) X(BUFFER, float, slot_factor) X(U32, has_factor)

#define KERNEL_ARGUMENTS_MATMUL(X)                                                                           \
    X(SOURCE, in)                                                                                            \
    X(WEIGHT, w0)                                                                                            \
    X(WEIGHT, w1)                                                                                            \
    X(U32, rows)                                                                                             \
    X(U32, unit)                                                                                             \
    X(U32, first_unit)                                                                                       \
    X(U32, units)                                                                                            \
    X(U32, split)                                                                                            \
    X(U32, tail)                                                                                             \
    X(U32, epilogue)                                                                                         \
    X(FORMS, out)                                                                                            \
    X(U32, column)                                                                                           \
    X(BUFFER, const float, bias0)                                                                            \
    X(BUFFER, const float, bias1)                                                                            \
    X(U32, biased)                                                                                           \
    X(BUFFER, const float, factor0)                                                                          \
    X(BUFFER, const float, factor1)                                                                          \
    X(U32, together)                                                                                         \
    X(BUFFER, uint, arrivals)                                                                                \
    X(U32, rows1)                                                                                            \
    X(BUFFER, float, out1)                                                                                   \
    X(U32, out1_width) X(U32, column1) X(LOCAL, float, tile) X(LOCAL, uchar, work)

#define KERNEL_ARGUMENTS_HEADS(X)                                                                            \
    X(SOURCE, in)                                                                                            \
    X(WEIGHT, w0)                                                                                            \
    X(WEIGHT, w1)                                                                                            \
    X(WEIGHT, w2)                                                                                            \
    X(U32, heads)                                                                                            \
    X(U32, first_unit)                                                                                       \
    X(U32, units)                                                                                            \
    X(U32, split)                                                                                            \
    X(BUFFER, float, q)                                                                                      \
    X(U32, width)                                                                                            \
    X(U32, n_heads)                                                                                          \
    X(U32, n_kv_heads)                                                                                       \
    X(U32, head_k)                                                                                           \
    X(U32, head_v)                                                                                           \
    X(U32, n_rot)                                                                                            \
    X(U32, rotation)                                                                                         \
    X(U32, biased)                                                                                           \
    X(BUFFER, const float, bias0)                                                                            \
    X(BUFFER, const float, bias1)                                                                            \
    X(BUFFER, const float, bias2)                                                                            \
    X(BUFFER, const float, factor0)                                                                          \
    X(BUFFER, const float, factor1)                                                                          \
    X(BUFFER, const float, factor2)                                                                          \
    X(U32, normed)                                                                                           \
    X(BUFFER, const float, q_norm)                                                                           \
    X(BUFFER, const float, k_norm)                                                                           \
    X(F32, inv_head) X(F32, eps) X(CACHE, kv) X(LOCAL, float, tile) X(LOCAL, uchar, work)

#define KERNEL_ARGUMENTS_EACH(X)                                                                             \
    X(SOURCE, in)                                                                                            \
    X(U32, in_width)                                                                                         \
    X(U32, in_stride)                                                                                        \
    X(WEIGHT, w0)                                                                                            \
    X(U32, rows)                                                                                             \
    X(U32, unit)                                                                                             \
    X(U32, split)                                                                                            \
    X(U32, first)                                                                                            \
    X(U32, end)                                                                                              \
    X(BUFFER, float, out)                                                                                    \
    X(U32, out_width)                                                                                        \
    X(U32, out_stride)                                                                                       \
    X(BUFFER, const float, factor0) X(U32, biased) X(LOCAL, float, tile) X(LOCAL, uchar, work)

#define KERNEL_ARGUMENTS_EXPERTS(X)                                                                          \
    X(SOURCE, in)                                                                                            \
    X(WEIGHT, w0)                                                                                            \
    X(WEIGHT, w1)                                                                                            \
    X(U32, rows)                                                                                             \
    X(U32, unit)                                                                                             \
    X(U32, split)                                                                                            \
    X(U32, gated)                                                                                            \
    X(U32, gather)                                                                                           \
    X(BUFFER, const uint, routes)                                                                            \
    X(U32, slots)                                                                                            \
    X(U32, first)                                                                                            \
    X(U32, end)                                                                                              \
    X(FORMS, out)                                                                                            \
    X(BUFFER, const float, bias0)                                                                            \
    X(BUFFER, const float, bias1)                                                                            \
    X(BUFFER, const float, factor0)                                                                          \
    X(BUFFER, const float, factor1)                                                                          \
    X(U32, biased)                                                                                           \
    X(U32, clamped)                                                                                          \
    X(F32, alpha)                                                                                            \
    X(F32, limit)                                                                                            \
    X(U32, together) X(BUFFER, uint, arrivals) X(LOCAL, float, tile) X(LOCAL, uchar, work)

#endif
