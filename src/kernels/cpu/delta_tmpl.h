/* Convolutions and delta rule in the vector tiers: a template, included once by a tier's source. Lanes are
 * channels, and columns of the state. No state; any thread.
 *
 * Before it: the tier's vec header, and
 *   DELTA_AHEAD    the registers hold the sums of two products with a state at a time */
#include "kernels/cpu/delta_walk.h"

#include "base/check.h"

static void delta_conv(const struct kernels_conv *c) {
    CHECK(c->taps > 0 && c->taps <= KERNELS_MAX_TAPS);
    for (uint32_t i = 0, n; i < c->channels; i += n) {
        n = VEC - (c->first + i) % VEC; /* side by side */
        n = n < c->channels - i ? n : c->channels - i;
        const float *w = delta_walk_weights(c->weights, c->panel, c->first + i);
        for (uint32_t t = 0; t < c->tokens; t++) {
            vec sum = vec_zero();
            for (uint32_t j = 0; j < c->taps; j++)
                sum = vec_fma(vec_load_n(w + (size_t)16 * j, n), vec_load_n(delta_walk_tap(c, t, j, i), n),
                              sum);
            if (c->bias != NULL)
                sum = vec_add(sum, vec_load_n(c->bias + i, n));
            vec_store_n(c->out + t * c->out_stride + i, n, vec_silu(sum));
        }
    }
}

VEC_INLINE vec delta_gated_tap(const struct kernels_gated_conv *c, uint32_t t, uint32_t j, uint32_t channel,
                               uint32_t n) {
    const float *row = NULL, *kept = delta_walk_kept(c, t, j, channel, &row);
    return kept != NULL ? vec_load_n(kept, n)
                        : vec_mul(vec_load_n(row, n), vec_load_n(row + 2 * c->width, n));
}

static void delta_gated_conv(const struct kernels_gated_conv *c) {
    CHECK(c->taps > 0 && c->taps <= KERNELS_MAX_TAPS);
    for (uint32_t i = 0, n; i < c->channels; i += n) {
        n = VEC - (c->first + i) % VEC;
        n = n < c->channels - i ? n : c->channels - i;
        const float *w = delta_walk_weights(c->weights, c->panel, c->first + i);
        for (uint32_t t = 0; t < c->tokens; t++) {
            vec sum = vec_zero();
            for (uint32_t j = 0; j < c->taps; j++)
                sum = vec_fma(vec_load_n(w + (size_t)16 * j, n), delta_gated_tap(c, t, j, i, n), sum);
            const vec gate = vec_load_n(c->in + t * c->in_stride + c->width + i, n);
            vec_store_n(c->out + t * c->out_stride + i, n, vec_mul(gate, sum));
        }
    }
}

/* Columns that are worked on together: with the four lanes of a sum, eight chains. */
#define DELTA_VECTORS 2
#define DELTA_COLUMNS (VEC * DELTA_VECTORS)

struct delta_sums {
    vec lane[4][DELTA_VECTORS];
};

VEC_INLINE void delta_clear(struct delta_sums *s) {
    VEC_REPEAT
    for (int l = 0; l < 4; l++) {
        VEC_REPEAT
        for (int m = 0; m < DELTA_VECTORS; m++)
            s->lane[l][m] = vec_zero();
    }
}

VEC_INLINE vec delta_sum4(const struct delta_sums *s, const int m) {
    return vec_add(vec_add(s->lane[0][m], s->lane[2][m]), vec_add(s->lane[1][m], s->lane[3][m]));
}

/* n <= 4 rows of the state from i on, times those of x. */
VEC_INLINE void delta_dot_part(const uint32_t n, const float *state, uint32_t i, const float *x,
                               struct delta_sums *sums) {
    VEC_REPEAT
    for (uint32_t l = 0; l < n; l++) {
        const float *row = state + (size_t)(i + l) * KERNELS_COLUMNS;
        VEC_REPEAT
        for (int m = 0; m < DELTA_VECTORS; m++)
            sums->lane[l][m] = vec_fma(vec_load(row + VEC * m), vec_set(x[i + l]), sums->lane[l][m]);
    }
}

/* part(n, ..) for all rows, the last ones with their number as a constant. */
#define DELTA_ROWS(dim, part, ...)                                                                           \
    do {                                                                                                     \
        uint32_t row_ = 0;                                                                                   \
        for (; (dim)-row_ >= 4; row_ += 4)                                                                   \
            part(4, __VA_ARGS__);                                                                            \
        if ((dim)-row_ == 3)                                                                                 \
            part(3, __VA_ARGS__);                                                                            \
        else if ((dim)-row_ == 2)                                                                            \
            part(2, __VA_ARGS__);                                                                            \
        else if ((dim)-row_ == 1)                                                                            \
            part(1, __VA_ARGS__);                                                                            \
    } while (0)

static void delta_dot(uint32_t dim, const float *state, const float *x, struct delta_sums *sums) {
    delta_clear(sums);
    DELTA_ROWS(dim, delta_dot_part, state, row_, x, sums);
}

/* What a token does to a state, and what the state is multiplied by after that: this token's query, and (or
 * NULL) the next token's key. */
struct delta_change {
    const float *q, *k, *next;
    vec decay, e[DELTA_VECTORS];
};

VEC_INLINE void delta_update_part(const uint32_t n, const bool ahead, float *state, uint32_t i,
                                  const struct delta_change *c, struct delta_sums *out,
                                  struct delta_sums *found) {
    VEC_REPEAT
    for (uint32_t l = 0; l < n; l++) {
        float *row = state + (size_t)(i + l) * KERNELS_COLUMNS;
        VEC_REPEAT
        for (int m = 0; m < DELTA_VECTORS; m++) {
            const vec now =
                vec_fma(vec_set(c->k[i + l]), c->e[m], vec_mul(vec_load(row + VEC * m), c->decay));
            vec_store(row + VEC * m, now);
            out->lane[l][m] = vec_fma(now, vec_set(c->q[i + l]), out->lane[l][m]);
            if (ahead)
                found->lane[l][m] = vec_fma(now, vec_set(c->next[i + l]), found->lane[l][m]);
        }
    }
}

VEC_INLINE void delta_update(uint32_t dim, const bool ahead, float *state, const struct delta_change *c,
                             struct delta_sums *out, struct delta_sums *found) {
    delta_clear(out);
    if (ahead)
        delta_clear(found);
    DELTA_ROWS(dim, delta_update_part, ahead, state, row_, c, out, found);
}

/* DELTA_COLUMNS columns from `first` on. With DELTA_AHEAD the state is read and written once per token: what
 * the next token's key finds in it is summed up on the way. */
static void delta_columns(const struct kernels_delta *d, uint32_t first) {
    float *state = d->state + first;
    const uint32_t columns = d->columns > first ? d->columns - first : 0;
    struct delta_sums found, out;
    struct delta_token x = delta_walk_token(d, 0);
    delta_dot(d->dim_k, state, x.k, &found);
    for (uint32_t t = 0; t < d->tokens; t++) {
        const bool more = t + 1 < d->tokens;
        struct delta_change c = {.q = x.q, .k = x.k, .decay = vec_set(x.decay)};
        VEC_REPEAT
        for (int m = 0; m < DELTA_VECTORS; m++) {
            const uint32_t at = VEC * (uint32_t)m, n = columns > at ? columns - at : 0;
            const vec v = n > 0 ? vec_load_n(d->v + t * d->stride + first + at, n) : vec_zero();
            c.e[m] = vec_mul(vec_fma(vec_set(-x.decay), delta_sum4(&found, m), v), vec_set(x.beta));
        }
        if (more)
            x = delta_walk_token(d, t + 1);
        c.next = x.k;
        if (more && DELTA_AHEAD)
            delta_update(d->dim_k, true, state, &c, &out, &found);
        else
            delta_update(d->dim_k, false, state, &c, &out, &found);
        if (more && !DELTA_AHEAD)
            delta_dot(d->dim_k, state, x.k, &found);
        VEC_REPEAT
        for (int m = 0; m < DELTA_VECTORS; m++) {
            const uint32_t at = VEC * (uint32_t)m;
            if (columns > at)
                vec_store_n(d->out + t * d->out_stride + first + at, columns - at,
                            vec_mul(delta_sum4(&out, m), vec_set(d->scale)));
        }
    }
}

static void delta_rule(const struct kernels_delta *d) {
    CHECK(d->dim_k > 0 && d->dim_k <= KERNELS_MAX_STATE && d->columns > 0 && d->columns <= KERNELS_COLUMNS);
    for (uint32_t j = 0; j < KERNELS_COLUMNS; j += DELTA_COLUMNS)
        delta_columns(d, j);
}

static void delta_ssd_columns(const struct kernels_delta *d, uint32_t first) {
    const uint32_t columns = d->columns > first ? d->columns - first : 0;
    struct delta_sums out;
    for (uint32_t t = 0; t < d->tokens; t++) {
        const struct delta_token x = delta_walk_ssd_token(d, t);
        struct delta_change c = {.q = x.q, .k = x.k, .decay = vec_set(x.decay)};
        vec v[DELTA_VECTORS];
        VEC_REPEAT
        for (int m = 0; m < DELTA_VECTORS; m++) {
            const uint32_t at = VEC * (uint32_t)m, n = columns > at ? columns - at : 0;
            v[m] = n > 0 ? vec_load_n(d->v + t * d->stride + first + at, n) : vec_zero();
            c.e[m] = vec_mul(v[m], vec_set(x.beta));
        }
        delta_update(d->dim_k, false, d->state + first, &c, &out, NULL);
        VEC_REPEAT
        for (int m = 0; m < DELTA_VECTORS; m++) {
            const uint32_t at = VEC * (uint32_t)m;
            if (columns > at)
                vec_store_n(d->out + t * d->out_stride + first + at, columns - at,
                            vec_fma(vec_set(d->skip), v[m], delta_sum4(&out, m)));
        }
    }
}

static void delta_ssd(const struct kernels_delta *d) {
    CHECK(d->dim_k > 0 && d->dim_k <= KERNELS_MAX_STATE && d->columns > 0 && d->columns <= KERNELS_COLUMNS);
    for (uint32_t j = 0; j < KERNELS_COLUMNS; j += DELTA_COLUMNS)
        delta_ssd_columns(d, j);
}

void TIER(delta_init)(struct kernels *k) {
    k->conv = delta_conv;
    k->gated_conv = delta_gated_conv;
    k->delta = delta_rule;
    k->ssd = delta_ssd;
}
