/* The kernels of all tiers of this machine, for tests that compare them with the scalar ones. */
#ifndef STATOR_TESTS_KERNEL_TIERS_H
#define STATOR_TESTS_KERNEL_TIERS_H

#include "kernel_check.h"

#include "kernels/kernels.h"

static struct kernels tiers[KERNELS_TIERS]; /* [0]: scalar */
static int n_tiers;

/* The setup of a group of tests. */
static inline int fill_tiers(void **state) {
    (void)state;
    n_tiers = (int)kernels_best_tier() + 1;
    for (int t = 0; t < n_tiers; t++)
        kernels_init(&tiers[t], (enum kernels_tier)t);
    print_message("tiers: scalar .. %s\n", tiers[n_tiers - 1].tier);
    return 0;
}

#endif
