/* Layers whose queries see a window of tokens only: which, and how wide (keys ARCH.attention.sliding_window,
 * sliding_window_pattern, ARCH.rope.freq_base_swa). */
#include "model/shape.h"

#include <math.h>
#include <stdio.h>

stator_status shape_read_window(const struct gguf *g, struct shape *s, bool zero_is_none, uint32_t pattern,
                                stator_error *e) {
    char key[96];
    uint64_t n = 0;
    snprintf(key, sizeof key, "%s.attention.sliding_window", s->arch_name);
    stator_status rc = gguf_read_u64_or(g, key, zero_is_none ? 0 : 1, INT32_MAX, 0, &n, e);
    s->window = (uint32_t)n;
    if (rc != STATOR_OK || s->window == 0 || pattern == 0)
        return rc;
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", s->arch_name);
    rc = gguf_read_u64_or(g, key, 1, SHAPE_MAX_LAYERS, pattern, &n, e);
    s->window_pattern = (uint32_t)n;
    return rc;
}

stator_status shape_read_local_base(const struct gguf *g, struct shape *s, float fallback, stator_error *e) {
    char key[96];
    snprintf(key, sizeof key, "%s.rope.freq_base_swa", s->arch_name);
    stator_status rc = gguf_read_f32_or(g, key, fallback, &s->rope_local_base, e);
    if (rc == STATOR_OK && !(isfinite(s->rope_local_base) && s->rope_local_base > 0))
        rc = gguf_error(g, e, "key '%s' is %g, expected a number above 0", key, (double)s->rope_local_base);
    return rc;
}
