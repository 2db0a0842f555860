#include "engine/sampling/sampler.h"

#include "base/arith.h"
#include "base/check.h"
#include "kernels/shared/num.h"

#include <math.h>
#include <string.h>

#define MOST_PENALTY 1e6f                  /* of DRY: as good as impossible */
#define XTC_STREAM   0x5854435F64726177ull /* random numbers of XTC are not those of the draw */

void sampler_layout(struct sampler *s, struct carve *c, uint32_t vocab, uint32_t most) {
    s->vocab = vocab;
    s->most = most;
    s->heap = carve_take(c, vocab, sizeof *s->heap);
    s->chosen = carve_take(c, vocab, sizeof *s->chosen);
    s->weight = carve_take(c, vocab, sizeof *s->weight);
    s->count = carve_take(c, vocab, sizeof *s->count);
    s->marks = carve_take(c, vocab, sizeof *s->marks);
    s->repeats = carve_take(c, most, sizeof *s->repeats);
    if (c->base == NULL)
        return;
    memset(s->count, 0, vocab * sizeof *s->count);
    memset(s->marks, 0, vocab * sizeof *s->marks);
}

void sampler_mark(struct sampler *s, int32_t token, bool ends, const char *text, uint64_t n) {
    CHECK(token >= 0 && (uint32_t)token < s->vocab);
    uint8_t marks = ends ? SAMPLER_ENDS : 0;
    for (uint64_t i = 0; i < n; i++)
        if (text[i] != '\0' && strchr("\n:\"*", text[i]) != NULL)
            marks |= SAMPLER_BREAKS;
    s->marks[token] = marks;
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
    CHECK(*n > 0);
    struct sampler_candidate best = heap[0];
    heap[0] = heap[--*n];
    if (*n > 0)
        sift_down(heap, *n, 0, false);
    return best;
}

/* The k best of n, 0 < k <= n, best first, into chosen: one look at each candidate, few of which are among
 * the best so far. They come by token id, so one that equals the worst of these is not better. */
static void choose_best(struct sampler *s, uint32_t n, uint32_t k) {
    CHECK(k > 0 && k <= n && n <= s->vocab);
    struct sampler_candidate *best = s->chosen;
    memcpy(best, s->heap, k * sizeof *best);
    make_heap(best, k, true);
    for (uint32_t i = k; i < n; i++) {
        if (s->heap[i].logit <= best[0].logit)
            continue;
        best[0] = s->heap[i];
        sift_down(best, k, 0, true);
    }
    for (uint32_t left = k; left-- > 1;) {
        struct sampler_candidate worst = best[0];
        best[0] = best[left];
        best[left] = worst;
        sift_down(best, left, 0, true);
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

/* How many tokens of the end, at most `limit`, also end at each earlier place: repeats[k] for the place k
 * tokens before the end, 0 < k < n. The Z algorithm (Gusfield 1997) on the tokens read backwards. */
static void count_repeats(uint32_t *repeats, const int32_t *end, uint32_t n, uint32_t limit) {
    uint32_t left = 0, right = 0; /* the match that reaches furthest: [left, right) */
    for (uint32_t k = 1; k < n; k++) {
        uint32_t length = k < right ? ARITH_MIN(right - k, repeats[k - left]) : 0;
        while (k + length < n && end[-(int64_t)length] == end[-(int64_t)(k + length)])
            length++;
        if (k + length > right) {
            left = k;
            right = k + length;
        }
        repeats[k] = length;
    }
    for (uint32_t k = 1; k < n; k++)
        repeats[k] = ARITH_MIN(repeats[k], limit);
}

/* DRY: for each token that followed an earlier appearance of the text's end, by the longest such appearance.
 */
static void penalise_repeats(struct sampler *s, const struct sampler_settings *set, const int32_t *tokens,
                             uint32_t n) {
    CHECK(n <= s->most);
    const int32_t *end = tokens + n - 1;
    n = ARITH_MIN(n, set->dry_penalty_last_n);
    uint32_t limit = 0;
    while (limit < n && (s->marks[end[-(int64_t)limit]] & SAMPLER_BREAKS) == 0)
        limit++;
    if (n <= set->dry_allowed_length || limit < set->dry_allowed_length)
        return;
    count_repeats(s->repeats, end, n, limit);
    for (uint32_t k = 1; k < n; k++) {
        uint32_t *longest = &s->count[end[1 - (int64_t)k]];
        if (s->repeats[k] >= set->dry_allowed_length)
            *longest = ARITH_MAX(*longest, s->repeats[k] + 1);
    }
    for (uint32_t k = 1; k < n; k++) {
        const int32_t token = end[1 - (int64_t)k];
        const uint32_t longest = s->count[token];
        s->count[token] = 0;
        if (longest == 0 || (s->marks[token] & SAMPLER_BREAKS) != 0)
            continue; /* seen, or has no penalty */
        float penalty = set->dry_multiplier;
        uint32_t power = set->dry_base > 1 ? longest - 1 - set->dry_allowed_length : 0;
        for (; power > 0 && penalty < MOST_PENALTY; power--)
            penalty *= set->dry_base;
        s->heap[token].logit -= ARITH_MIN(penalty, MOST_PENALTY);
    }
}

/* Leaves the allowed ones of all tokens, which are in their order. Returns how many those are. */
static uint32_t keep_allowed(struct sampler *s, const uint64_t *allowed) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->vocab; i++)
        if (allowed == NULL || (allowed[i / 64] >> i % 64 & 1) != 0)
            s->heap[n++] = s->heap[i];
    CHECK(n > 0);
    return n;
}

/* Leaves out the tokens that end an answer, unless all do, which then stay as they are. Returns how many
 * candidates are left. */
static uint32_t drop_ends(struct sampler *s, uint32_t n) {
    CHECK(n > 0 && n <= s->vocab);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((s->marks[s->heap[i].token] & SAMPLER_ENDS) == 0)
            s->heap[kept++] = s->heap[i];
    return kept > 0 ? kept : n;
}

/* Top-n-sigma (Tang et al. 2024): leaves the candidates whose logit is at most n standard deviations below
 * the greatest. Sums are in double, by token. */
static uint32_t keep_near_top(struct sampler *s, float n_sigma, uint32_t n) {
    CHECK(n > 0 && n <= s->vocab);
    double sum = 0, squares = 0;
    double greatest = (double)s->heap[0].logit;
    for (uint32_t i = 0; i < n; i++) {
        const double logit = (double)s->heap[i].logit;
        greatest = logit > greatest ? logit : greatest;
        sum += logit;
    }
    const double mean = sum / n;
    for (uint32_t i = 0; i < n; i++) {
        const double off = (double)s->heap[i].logit - mean;
        squares += off * off;
    }
    const double least = greatest - (double)n_sigma * sqrt(squares / n);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((double)s->heap[i].logit >= least)
            s->heap[kept++] = s->heap[i];
    return kept;
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

/* Locally typical sampling (Meister et al. 2022), behind top-k: leaves the candidates whose -log p is closest
 * to the entropy, until their probabilities exceed typical_p. Of equally close ones the earlier comes first.
 */
static uint32_t keep_typical(struct sampler *s, const struct sampler_settings *set, uint32_t n) {
    if (set->top_k > 0 && set->top_k < n) {
        choose_best(s, n, set->top_k);
        n = set->top_k;
        memcpy(s->heap, s->chosen, n * sizeof *s->heap);
    }
    float top = s->heap[0].logit;
    for (uint32_t i = 1; i < n; i++)
        top = s->heap[i].logit > top ? s->heap[i].logit : top;
    double total = 0, entropy = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->weight[i] = num_exp(s->heap[i].logit - top);
        total += (double)s->weight[i];
    }
    const double log_total = log_of(total);
    for (uint32_t i = 0; i < n; i++)
        entropy += (double)s->weight[i] / total * (log_total - (double)(s->heap[i].logit - top));
    for (uint32_t i = 0; i < n; i++) {
        const double off = log_total - (double)(s->heap[i].logit - top) - entropy;
        s->chosen[i] = (struct sampler_candidate){-(float)(off < 0 ? -off : off), (int32_t)i};
    }
    make_heap(s->chosen, n, false);
    const double enough = (double)set->typical_p * total;
    double sum = 0;
    for (uint32_t left = n; left > 0 && sum <= enough;) {
        const int32_t i = pop(s->chosen, &left).token;
        sum += (double)s->weight[i];
        s->weight[i] = -1; /* it stays */
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (s->weight[i] < 0)
            s->heap[kept++] = s->heap[i];
    CHECK(kept > 0);
    return kept;
}

/* XTC, "exclude top choices": of the candidates that have at least the probability xtc_threshold only the
 * least likely one stays. */
static uint32_t exclude_top(struct sampler_candidate *c, float threshold, uint32_t n) {
    CHECK(n > 0);
    float top = c[0].logit;
    for (uint32_t i = 1; i < n; i++)
        top = c[i].logit > top ? c[i].logit : top;
    float total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += num_exp(c[i].logit - top);
    const float least = threshold * total;
    uint32_t last = n, kept = 0; /* last: the least likely of those above */
    for (uint32_t i = 0; i < n; i++)
        if (num_exp(c[i].logit - top) >= least && (last == n || better(&c[last], &c[i])))
            last = i;
    for (uint32_t i = 0; i < n; i++)
        if (i == last || num_exp(c[i].logit - top) < least)
            c[kept++] = c[i];
    return kept;
}

/* The candidates that top-k, top-p and min-p leave, best first, into chosen. Their weights at temperature 1
 * decide top-p and min-p. Without top-k popping stops as soon as the filters close, so a usual call sorts a
 * few dozen candidates only. */
static uint32_t filter(struct sampler *s, const struct sampler_settings *set, uint32_t n_candidates) {
    bool few = set->top_k > 0 && set->top_k < n_candidates;
    uint32_t limit = few ? set->top_k : n_candidates;
    uint32_t left = n_candidates;
    uint32_t n = few ? limit : 0;
    if (few)
        choose_best(s, n_candidates, limit);
    else
        make_heap(s->heap, n_candidates, false);
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

/* One of the candidates, at random by their probabilities at the temperature. */
static int32_t draw(struct sampler *s, const struct sampler_settings *set,
                    const struct sampler_candidate *chosen, uint32_t kept, uint32_t position) {
    CHECK(kept > 0 && kept <= s->vocab);
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

bool sampler_is_plain(const struct sampler_settings *set) {
    return set->temperature <= 0 && set->repeat_penalty == 1.0f && set->presence_penalty == 0 &&
           set->frequency_penalty == 0 && set->dry_multiplier <= 0 && set->min_tokens == 0 &&
           set->n_bias == 0;
}

int32_t sampler_pick(struct sampler *s, const struct sampler_settings *set, const float *logits,
                     const uint64_t *allowed, const int32_t *tokens, uint32_t n, uint32_t n_generated,
                     uint32_t position) {
    for (uint32_t i = 0; i < s->vocab; i++)
        s->heap[i] = (struct sampler_candidate){logits[i], (int32_t)i};
    for (uint32_t i = 0; i < set->n_bias; i++)
        s->heap[set->bias[i].token].logit += set->bias[i].bias;
    if (set->repeat_penalty != 1.0f)
        penalise(s, set->repeat_penalty, tokens, n);
    if (set->presence_penalty != 0 || set->frequency_penalty != 0)
        penalise_generated(s, set, tokens + (n - n_generated), n_generated);
    if (set->dry_multiplier > 0 && set->dry_base >= 1 && set->dry_penalty_last_n > 0 && n > 0)
        penalise_repeats(s, set, tokens, n);
    uint32_t left = allowed != NULL ? keep_allowed(s, allowed) : s->vocab;
    if (n_generated < set->min_tokens)
        left = drop_ends(s, left);
    if (set->temperature <= 0) {
        struct sampler_candidate best = s->heap[0];
        for (uint32_t i = 1; i < left; i++)
            if (better(&s->heap[i], &best))
                best = s->heap[i];
        return best.token;
    }
    if (set->top_n_sigma > 0)
        left = keep_near_top(s, set->top_n_sigma, left);
    if (set->typical_p < 1)
        left = keep_typical(s, set, left);
    /* Without filters nothing is sorted: the candidates are those that are left, by id. */
    bool all = (set->top_k == 0 || set->top_k >= left) && set->top_p >= 1.0f && set->min_p <= 0;
    uint32_t kept = all ? left : filter(s, set, left);
    struct sampler_candidate *chosen = all ? s->heap : s->chosen;
    if (set->xtc_threshold <= 0.5f && sampler_random(set->seed ^ XTC_STREAM, position) < set->xtc_probability)
        kept = exclude_top(chosen, set->xtc_threshold, kept);
    return draw(s, set, chosen, kept, position);
}

uint32_t sampler_logprobs(struct sampler *s, const float *logits, const uint64_t *allowed, int32_t token,
                          uint32_t n, float *chosen, stator_logprob *top) {
    for (uint32_t i = 0; i < s->vocab; i++)
        s->heap[i] = (struct sampler_candidate){logits[i], (int32_t)i};
    const uint32_t all = keep_allowed(s, allowed);
    float greatest = s->heap[0].logit;
    for (uint32_t i = 1; i < all; i++)
        greatest = s->heap[i].logit > greatest ? s->heap[i].logit : greatest;
    double sum = 0;
    for (uint32_t i = 0; i < all; i++)
        sum += (double)num_exp(s->heap[i].logit - greatest);
    double log_sum = log_of(sum);
    *chosen = (float)((double)logits[token] - (double)greatest - log_sum);
    n = ARITH_MIN(n, all);
    if (n == 0)
        return 0;
    choose_best(s, all, n);
    for (uint32_t i = 0; i < n; i++)
        top[i] =
            (stator_logprob){.token = s->chosen[i].token,
                             .logprob = (float)((double)s->chosen[i].logit - (double)greatest - log_sum)};
    return n;
}
