/* Figures of a perplexity run: pure functions on numbers, in f64.
 *
 * A text is cut into windows; of each, the tokens of the second half are scored. What a window adds up is its
 * own, and windows are summed in their order, so the figures do not depend on which was computed first. */
#ifndef STATOR_APP_PERPLEXITY_STATS_H
#define STATOR_APP_PERPLEXITY_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sums over the scored tokens of one window. nll: -log p of the token that came; the rest against a base. */
struct perplexity_window {
    bool done; /* all of its tokens are scored */
    uint32_t scored;
    uint32_t same_top;           /* both have the same likeliest token */
    double nll, nll2;            /* sums of values and of their squares */
    double base, base2, product; /* the base's -log p, and ours times the base's */
    double kl, kl2;
    double change2; /* (p - p of the base)^2 of the token that came */
};

struct perplexity_estimate {
    double value, error; /* error: standard error of the mean */
};

struct perplexity_figures {
    uint64_t scored;
    uint32_t windows;
    struct perplexity_estimate perplexity;
    /* Against a base: */
    struct perplexity_estimate base;  /* its perplexity */
    struct perplexity_estimate ratio; /* ours / its, the errors' correlation counted */
    struct perplexity_estimate kl;    /* KL divergence of ours from the base, in nats */
    double kl_median, kl_99, kl_largest;
    struct perplexity_estimate same_top; /* share of positions */
    double correlation;                  /* of the -log p; NaN: one of them does not vary */
    double rms_change;                   /* of the probability of the token that came */
};

/* log_p[n] = natural logarithms of the softmax of n logits. False: one is not finite. */
bool perplexity_log_softmax(const float *logits, uint32_t n, float *log_p);

/* Scores a token: log_p and base (NULL: none) are of the row that predicts it. Returns the KL divergence from
 * the base. */
double perplexity_score(struct perplexity_window *w, const float *log_p, const float *base, uint32_t n,
                        int32_t token);

/* Over the windows that are done. kl: `each` values per window, in the order of the windows, or NULL; those
 * of the windows that are done are sorted into kl's beginning, so this comes last. */
void perplexity_sum(const struct perplexity_window *w, uint32_t n, float *kl, uint32_t each,
                    struct perplexity_figures *f);

#endif
