/* Mixture of experts: the definition of routing and of what else only its layers do. No state; any thread. */
#include "kernels/kernels.h"
#include "kernels/shared/experts.h"

#include "base/check.h"

#include <math.h>

/* The softmax of all logits: num_exp(l - most) * by. */
struct softmax {
    float most, by;
};

static float score(const struct kernels_route *r, const struct softmax *all, uint32_t expert) {
    const float l = r->logits[expert];
    if (r->how & EXPERTS_SIGMOID)
        return num_sigmoid(l) + (r->bias != NULL ? r->bias[expert] : 0.0f);
    if (r->bias == NULL)
        return l;
    const float share = num_exp(l - all->most) * all->by;
    return share + r->bias[expert];
}

/* What a group of experts is chosen by: the sum of its two best scores, or its best. */
static float group_score(const struct kernels_route *r, const struct softmax *all, uint32_t group,
                         uint32_t n) {
    float best = score(r, all, group * n), second = -INFINITY;
    for (uint32_t e = group * n + 1; e < (group + 1) * n; e++) {
        const float s = score(r, all, e);
        const bool above = experts_key(s) > experts_key(best);
        second = above ? best : experts_key(s) > experts_key(second) ? s : second;
        best = above ? s : best;
    }
    return (r->how & EXPERTS_SIGMOID) && n > 1 ? best + second : best;
}

/* A bit per group that is chosen; without groups all bits. */
static uint64_t choose_groups(const struct kernels_route *r, const struct softmax *all) {
    uint64_t chosen = 0;
    uint32_t key[KERNELS_MAX_GROUPS];
    if (r->groups <= 1)
        return UINT64_MAX;
    for (uint32_t g = 0; g < r->groups; g++)
        key[g] = experts_key(group_score(r, all, g, r->experts / r->groups));
    for (uint32_t i = 0; i < r->groups_used; i++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t g = 0; g < r->groups; g++)
            if ((chosen >> g & 1) == 0 && (best == UINT32_MAX || key[g] > key[best]))
                best = g;
        chosen |= (uint64_t)1 << best;
    }
    return chosen;
}

/* The best so far in descending order: an equal one comes behind. */
static void choose(const struct kernels_route *r, const struct softmax *all) {
    const uint64_t groups = choose_groups(r, all);
    const uint32_t each = r->groups > 1 ? r->experts / r->groups : r->experts;
    uint32_t best[EXPERTS_MAX_USED], key[EXPERTS_MAX_USED], n = 0;
    for (uint32_t e = 0; e < r->experts; e++) {
        if ((groups >> e / each & 1) == 0)
            continue;
        const uint32_t k = experts_key(score(r, all, e));
        if (n == r->used && k <= key[n - 1])
            continue;
        uint32_t at = n < r->used ? n++ : n - 1;
        for (; at > 0 && key[at - 1] < k; at--) {
            key[at] = key[at - 1];
            best[at] = best[at - 1];
        }
        key[at] = k;
        best[at] = e;
    }
    for (uint32_t i = 0; i < n; i++) { /* ascending */
        uint32_t at = i;
        for (; at > 0 && r->chosen[at - 1] > best[i]; at--)
            r->chosen[at] = r->chosen[at - 1];
        r->chosen[at] = best[i];
    }
}

static float sum_all(const struct kernels_route *r, float most) {
    float lane[128] = {0};
    for (uint32_t e = 0; e < r->experts; e++)
        lane[e % 128] += num_exp(r->logits[e] - most);
    return num_sum128(lane);
}

static float largest(const struct kernels_route *r) {
    uint32_t best = 0;
    for (uint32_t e = 1; e < r->experts; e++)
        if (experts_key(r->logits[e]) > experts_key(r->logits[best]))
            best = e;
    return r->logits[best];
}

static void route(const struct kernels_route *r) {
    CHECK(r->used > 0 && r->used <= r->experts && r->used <= EXPERTS_MAX_USED && r->experts <= EXPERTS_MAX);
    CHECK(r->groups <= 1 ||
          (r->groups <= KERNELS_MAX_GROUPS && r->experts % r->groups == 0 && r->groups_used <= r->groups &&
           r->used <= r->groups_used * (r->experts / r->groups)));
    const bool sigmoid = (r->how & EXPERTS_SIGMOID) != 0, norm = (r->how & EXPERTS_NORM) != 0;
    const float most = sigmoid ? 0.0f : largest(r);
    const struct softmax all = {most, !sigmoid && r->bias != NULL ? num_rcp(sum_all(r, most)) : 0.0f};
    choose(r, &all);
    float sum = 0;
    for (uint32_t i = 0; i < r->used; i++) {
        const float l = r->logits[r->chosen[i]];
        r->weight[i] = sigmoid ? num_sigmoid(l) : num_exp(l - most);
        sum += r->weight[i];
    }
    float by = 1.0f;
    if (sigmoid && norm)
        by = num_rcp(sum > EXPERTS_LEAST ? sum : EXPERTS_LEAST);
    else if (!sigmoid)
        by = num_rcp(norm ? sum : sum_all(r, most));
    for (uint32_t i = 0; i < r->used; i++) {
        const float w = r->weight[i] * by;
        r->weight[i] = w * r->scale;
    }
}

static void clamped_glu(float *y, const float *gate, const float *up, uint32_t n, float alpha, float limit) {
    for (uint32_t i = 0; i < n; i++) {
        const float g = gate[i] < limit ? gate[i] : limit;
        const float below = up[i] < limit ? up[i] : limit, u = below > -limit ? below : -limit;
        const float s = num_sigmoid(g * alpha) * g, one = u + 1.0f;
        y[i] = s * one;
    }
}

static void add_scaled(float *y, const float *x, float by, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = fmaf(x[i], by, y[i]);
}

void scalar_experts_init(struct kernels *k) {
    k->route = route;
    k->clamped_glu = clamped_glu;
    k->add_scaled = add_scaled;
}
