/* The statistics that diagnosis rests on, each with a known-answer test. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_STATS_H
#define DIAGNOSE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* P(Z > z) of the standard normal; P(T > t) of Student's t with (any positive) degrees of freedom. */
double stats_normal_above(double z);
double stats_student_above(double t, double freedom);

/* t with P(T > t) = p. */
double stats_student_quantile(double p, double freedom);

/* P(X > x) of chi-squared, and P(X > x) of F, whose denominator's degrees of freedom may be infinite. */
double stats_chi_square_above(double x, double freedom);
double stats_f_above(double x, double numerator, double denominator);

/* x with P(X > x) = p. */
double stats_f_quantile(double p, double numerator, double denominator);

/* Mean and unbiased variance. */
void stats_moments(const double *values, size_t count, double *ret_mean, double *ret_variance);

struct welch {
    double difference; /* mean of b minus mean of a */
    double error;      /* its standard error */
    double freedom;
    double p; /* one-sided: b is larger */
};

/* Welch's test of unequal variances; p is 1 when either side has fewer than two values. */
struct welch stats_welch(const double *a, size_t a_count, const double *b, size_t b_count);

/* The same of pairs: the mean of differences against zero. */
struct welch stats_paired(const double *differences, size_t count);

/* Mann-Whitney by normal approximation with ties, one-sided: b is larger. Sorts nothing in place. -ENOMEM: 1.
 */
double stats_mann_whitney(const double *a, size_t a_count, const double *b, size_t b_count);

/* Benjamini-Hochberg: marks the hypotheses that are rejected at false-discovery rate q; returns how many.
 * adjusted (may be NULL) gets each one's adjusted p-value. */
size_t stats_benjamini_hochberg(const double *p, size_t count, double q, bool *rejected, double *adjusted);

/* The q-quantile of values, which are sorted in place; linear between ranks. */
double stats_quantile(double *values, size_t count, double q);
double stats_median(double *values, size_t count);

/* The greatest value in [low, high] of a function that rises up to one place and falls behind it (a concave
 * one does), by golden-section search (Kiefer, Proceedings of the AMS 4, 1953): the place is known to 5e-9 of
 * the range. The values at both ends count; NaN does not. */
double stats_maximum(double (*value)(const void *context, double x), const void *context, double low,
                     double high);

/* The logarithm of how many combinations of so many of the values there are. */
double stats_log_combinations(double values, size_t length);

/* Random numbers that are the same everywhere (xoshiro256**), seeded by one number. */
struct stats_random {
    uint64_t state[4];
};
void stats_random_init(struct stats_random *random, uint64_t seed);
uint64_t stats_random_next(struct stats_random *random);
double stats_random_unit(struct stats_random *random);   /* [0, 1) */
double stats_random_normal(struct stats_random *random); /* standard normal */
uint64_t stats_random_poisson(struct stats_random *random, double mean);

/* E-divisive (Matteson and James, JASA 2014) with exponent 1: the change points of a sequence, ascending.
 * Each is the index of the first value of a new regime; significant by `permutations` shuffles at level p. At
 * most room are written; returns how many. minimum is the shortest regime. */
size_t stats_change_points(const double *values, size_t count, size_t minimum, double p,
                           unsigned permutations, uint64_t seed, size_t *points, size_t room);

#endif
