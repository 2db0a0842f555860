#include "engine/run/sampler.h"

#include "kernels/shared/num.h"

#include <string.h>

void sampler_layout(struct sampler *s, struct carve *c, uint32_t vocab) {
    s->vocab = vocab;
    s->heap = carve_take(c, vocab, sizeof *s->heap);
    s->chosen = carve_take(c, vocab, sizeof *s->chosen);
    s->weight = carve_take(c, vocab, sizeof *s->weight);
    s->count = carve_take(c, vocab, sizeof *s->count);
    if (c->base != NULL)
        memset(s->count, 0, vocab * sizeof *s->count);
}

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection with full avalanche. */
static uint64_t mix(uint64_t z) {
    z += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

float sampler_random(uint64_t seed, uint64_t position) {
    return (float)(mix(mix(seed) ^ position) >> 40) * 0x1p-24f;
}

/* Best first; ties by token id, so that the order is total. */
static int better(const struct sampler_candidate *a, const struct sampler_candidate *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

/* Of a heap with the best at its top; worst: with the worst there. */
static void sift_down(struct sampler_candidate *heap, uint32_t n, uint32_t i, bool worst) {
    struct sampler_candidate moving = heap[i];
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && better(&heap[child + 1], &heap[child]) != worst)
            child++;
        if (better(&heap[child], &moving) == worst)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

static void make_heap(struct sampler_candidate *heap, uint32_t n, bool worst) {
    for (uint32_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i, worst);
}

static struct sampler_candidate pop(struct sampler_candidate *heap, uint32_t *n) {
    struct sampler_candidate best = heap[0];
    heap[0] = heap[--*n];
    if (*n > 0)
        sift_down(heap, *n, 0, false);
    return best;
}

/* The k best, 0 < k <= vocab, best first, into chosen: one look at each candidate, few of which are among the
 * best so far. They come by token id, so one that equals the worst of these is not better. */
static void choose_best(struct sampler *s, uint32_t k) {
    struct sampler_candidate *best = s->chosen;
    memcpy(best, s->heap, k * sizeof *best);
    make_heap(best, k, true);
    for (uint32_t i = k; i < s->vocab; i++) {
        if (s->heap[i].logit <= best[0].logit)
            continue;
        best[0] = s->heap[i];
        sift_down(best, k, 0, true);
    }
    for (uint32_t n = k; n-- > 1;) {
        struct sampler_candidate worst = best[0];
        best[0] = best[n];
        best[n] = worst;
        sift_down(best, n, 0, true);
    }
}

/* Divides positive and multiplies negative logits of recent tokens, each token once. */
static void penalise(struct sampler *s, float penalty, const int32_t *tokens, uint32_t n) {
    uint32_t begin = n > SAMPLER_LAST ? n - SAMPLER_LAST : 0;
    float inverse = 1.0f / penalty;
    for (uint32_t i = begin; i < n; i++) {
        uint32_t k = begin;
        while (tokens[k] != tokens[i])
            k++;
        if (k < i)
            continue; /* seen */
        float *logit = &s->heap[tokens[i]].logit;
        *logit *= *logit > 0 ? inverse : penalty;
    }
}

/* Of the n tokens that were generated, each once: its logit less the penalties. */
static void penalise_generated(struct sampler *s, const struct sampler_settings *set, const int32_t *tokens,
                               uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        s->count[tokens[i]]++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *count = &s->count[tokens[i]];
        if (*count == 0)
            continue; /* seen */
        s->heap[tokens[i]].logit -= (float)*count * set->frequency_penalty + set->presence_penalty;
        *count = 0;
    }
}

/* The candidates that top-k, top-p and min-p leave, best first, into chosen. Their weights at temperature 1
 * decide top-p and min-p. Without top-k popping stops as soon as the filters close, so a usual call sorts a
 * few dozen candidates only. */
static uint32_t filter(struct sampler *s, const struct sampler_settings *set) {
    bool few = set->top_k > 0 && set->top_k < s->vocab;
    uint32_t limit = few ? set->top_k : s->vocab;
    uint32_t left = s->vocab;
    uint32_t n = few ? limit : 0;
    if (few)
        choose_best(s, limit);
    else
        make_heap(s->heap, s->vocab, false);
    float top = few ? s->chosen[0].logit : s->heap[0].logit;
    float total = 0;
    for (uint32_t i = 0; i < limit; i++)
        total += num_exp((few ? s->chosen : s->heap)[i].logit - top);
    float enough = set->top_p * total;
    float sum = 0;
    uint32_t kept = 0;
    while (kept < limit) {
        if (kept == n)
            s->chosen[n++] = pop(s->heap, &left);
        float w = num_exp(s->chosen[kept].logit - top);
        if (kept > 0 && w < set->min_p)
            break;
        sum += w;
        kept++;
        if (set->top_p < 1.0f && sum >= enough)
            break;
    }
    return kept;
}

bool sampler_is_plain(const struct sampler_settings *set) {
    return set->temperature <= 0 && set->repeat_penalty == 1.0f && set->presence_penalty == 0 &&
           set->frequency_penalty == 0 && set->n_bias == 0;
}

int32_t sampler_pick(struct sampler *s, const struct sampler_settings *set, const float *logits,
                     const int32_t *tokens, uint32_t n, uint32_t n_generated, uint32_t position) {
    for (uint32_t i = 0; i < s->vocab; i++)
        s->heap[i] = (struct sampler_candidate){logits[i], (int32_t)i};
    for (uint32_t i = 0; i < set->n_bias; i++)
        s->heap[set->bias[i].token].logit += set->bias[i].bias;
    if (set->repeat_penalty != 1.0f)
        penalise(s, set->repeat_penalty, tokens, n);
    if (set->presence_penalty != 0 || set->frequency_penalty != 0)
        penalise_generated(s, set, tokens + (n - n_generated), n_generated);
    if (set->temperature <= 0) {
        struct sampler_candidate best = s->heap[0];
        for (uint32_t i = 1; i < s->vocab; i++)
            if (better(&s->heap[i], &best))
                best = s->heap[i];
        return best.token;
    }
    /* Without filters nothing is sorted: the candidates are all tokens, by id. */
    bool all = (set->top_k == 0 || set->top_k >= s->vocab) && set->top_p >= 1.0f && set->min_p <= 0;
    uint32_t kept = all ? s->vocab : filter(s, set);
    const struct sampler_candidate *chosen = all ? s->heap : s->chosen;
    uint32_t best = 0;
    for (uint32_t i = 1; i < kept; i++)
        best = chosen[i].logit > chosen[best].logit ? i : best;
    float inverse = 1.0f / set->temperature;
    float total = 0;
    for (uint32_t i = 0; i < kept; i++) {
        s->weight[i] = num_exp((chosen[i].logit - chosen[best].logit) * inverse);
        total += s->weight[i];
    }
    float at = sampler_random(set->seed, position) * total;
    for (uint32_t i = 0; i < kept; i++) {
        at -= s->weight[i];
        if (at < 0)
            return chosen[i].token;
    }
    return chosen[best].token; /* the sum was rounded otherwise */
}

/* The natural logarithm of x >= 1, by addition, multiplication and division alone: libm's is not the same
 * everywhere. x = m * 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)), whose series
 * ends below 2^-53 of it. */
static double log_of(double x) {
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52 & 0x7FF) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
    double m = 0;
    memcpy(&m, &bits, sizeof m);
    if (m >= 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double z = (m - 1) / (m + 1);
    double square = z * z;
    double sum = 0;
    for (int k = 23; k >= 1; k -= 2)
        sum = sum * square + 1.0 / k;
    return 2 * z * sum + e * 0.69314718055994531;
}

uint32_t sampler_logprobs(struct sampler *s, const float *logits, int32_t token, uint32_t n, float *chosen,
                          stator_logprob *top) {
    float greatest = logits[0];
    for (uint32_t i = 1; i < s->vocab; i++)
        greatest = logits[i] > greatest ? logits[i] : greatest;
    double sum = 0;
    for (uint32_t i = 0; i < s->vocab; i++)
        sum += (double)num_exp(logits[i] - greatest);
    double log_sum = log_of(sum);
    *chosen = (float)((double)logits[token] - (double)greatest - log_sum);
    n = n < s->vocab ? n : s->vocab;
    if (n == 0)
        return 0;
    for (uint32_t i = 0; i < s->vocab; i++)
        s->heap[i] = (struct sampler_candidate){logits[i], (int32_t)i};
    choose_best(s, n);
    for (uint32_t i = 0; i < n; i++)
        top[i] =
            (stator_logprob){.token = s->chosen[i].token,
                             .logprob = (float)((double)s->chosen[i].logit - (double)greatest - log_sum)};
    return n;
}
