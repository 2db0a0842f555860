#include "app/perplexity/perplexity_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool perplexity_log_softmax(const float *logits, uint32_t n, float *log_p) {
    float most = -INFINITY;
    bool finite = true;
    for (uint32_t i = 0; i < n; i++) {
        finite = finite && isfinite(logits[i]);
        most = logits[i] > most ? logits[i] : most;
    }
    if (!finite)
        return false;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)expf(logits[i] - most);
    // cppcheck-suppress invalidFunctionArg ; the largest logit has exp(0)
    const double log_sum = log(sum);
    for (uint32_t i = 0; i < n; i++)
        log_p[i] = (float)((double)logits[i] - (double)most - log_sum);
    return true;
}

double perplexity_score(struct perplexity_window *w, const float *log_p, const float *base, uint32_t n,
                        int32_t token) {
    const double nll = -(double)log_p[token];
    w->scored++;
    w->nll += nll;
    w->nll2 += nll * nll;
    if (base == NULL)
        return 0;
    const double base_nll = -(double)base[token];
    const double change = exp(-nll) - exp(-base_nll);
    double kl = 0;
    uint32_t top = 0;
    uint32_t base_top = 0;
    for (uint32_t i = 0; i < n; i++) {
        top = log_p[i] > log_p[top] ? i : top;
        base_top = base[i] > base[base_top] ? i : base_top;
        kl += (double)expf(base[i]) * ((double)base[i] - (double)log_p[i]);
    }
    kl = kl > 0 ? kl : 0; /* it is never negative but by rounding */
    w->base += base_nll;
    w->base2 += base_nll * base_nll;
    w->product += nll * base_nll;
    w->kl += kl;
    w->kl2 += kl * kl;
    w->change2 += change * change;
    w->same_top += top == base_top;
    return kl;
}

/* Mean and standard error from sums of n values and their squares. */
static struct perplexity_estimate mean_of(double sum, double sum2, double n) {
    const double mean = sum / n;
    const double variance = sum2 / n - mean * mean;
    return (struct perplexity_estimate){mean, variance > 0 && n > 1 ? sqrt(variance / (n - 1)) : 0};
}

/* exp of an estimate; its error to first order. */
static struct perplexity_estimate exp_of(struct perplexity_estimate m) {
    return (struct perplexity_estimate){exp(m.value), exp(m.value) * m.error};
}

static int compare(const void *a, const void *b) {
    const float x = *(const float *)a;
    const float y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Of n > 0 sorted values; between two of them it is interpolated. */
static double quantile(const float *sorted, uint64_t n, double share) {
    const double at = share * (double)(n - 1);
    const uint64_t i = (uint64_t)at;
    const double part = at - (double)i;
    const uint64_t next = i + 1 < n ? i + 1 : i;
    return (1 - part) * (double)sorted[i] + part * (double)sorted[next];
}

static void against_base(const struct perplexity_window *sum, struct perplexity_figures *f) {
    const double n = (double)f->scored;
    const struct perplexity_estimate ours = mean_of(sum->nll, sum->nll2, n);
    const struct perplexity_estimate its = mean_of(sum->base, sum->base2, n);
    const double covariance = (sum->product / n - ours.value * its.value) / (n > 1 ? n - 1 : 1);
    const double variance = ours.error * ours.error + its.error * its.error - 2 * covariance;
    f->base = exp_of(its);
    f->ratio = exp_of(
        (struct perplexity_estimate){ours.value - its.value, variance > 0 && n > 1 ? sqrt(variance) : 0});
    f->correlation = covariance / (ours.error * its.error);
    f->kl = mean_of(sum->kl, sum->kl2, n);
    f->same_top = mean_of(sum->same_top, sum->same_top, n);
    f->rms_change = sqrt(sum->change2 / n);
}

void perplexity_sum(const struct perplexity_window *w, uint32_t n, float *kl, uint32_t each,
                    struct perplexity_figures *f) {
    struct perplexity_window sum = {.scored = 0};
    *f = (struct perplexity_figures){.scored = 0};
    uint64_t n_kl = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!w[i].done)
            continue;
        f->windows++;
        f->scored += w[i].scored;
        sum.nll += w[i].nll;
        sum.nll2 += w[i].nll2;
        sum.base += w[i].base;
        sum.base2 += w[i].base2;
        sum.product += w[i].product;
        sum.kl += w[i].kl;
        sum.kl2 += w[i].kl2;
        sum.change2 += w[i].change2;
        sum.same_top += w[i].same_top;
        if (kl != NULL)
            memmove(kl + n_kl, kl + (uint64_t)i * each, each * sizeof *kl);
        n_kl += each;
    }
    if (f->scored == 0)
        return;
    f->perplexity = exp_of(mean_of(sum.nll, sum.nll2, (double)f->scored));
    if (kl == NULL)
        return;
    against_base(&sum, f);
    qsort(kl, n_kl, sizeof *kl, compare);
    f->kl_median = quantile(kl, n_kl, 0.5);
    f->kl_99 = quantile(kl, n_kl, 0.99);
    f->kl_largest = (double)kl[n_kl - 1];
}
