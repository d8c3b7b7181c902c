/* A test that may be looked at every minute: evidence in e-values, which stay valid however often one looks
 * and whenever one stops (the chance that an e-value of no slow-down ever reaches 1/alpha is at most alpha).
 * For rollouts that are watched while they run. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_SEQUENTIAL_H
#define DIAGNOSE_SEQUENTIAL_H

#include "diagnose/regress.h"

struct sequential_result {
    double e_value;   /* of the middle and the tail together */
    double ratio;     /* newer / older, geometric mean */
    double low, high; /* its 95 % confidence sequence: holds at all looks together */
    size_t older_hosts, newer_hosts;
    bool paired; /* hosts before and after */
};

/* host_spread: the standard deviation between hosts that other buckets show, from regress_host_spread(). */
void sequential_test(const struct contrast *contrast, double host_spread,
                     struct sequential_result *ret_result);

/* The e-value of a log ratio (above 0: for the worse) that is known with that variance: the same mixture. */
double sequential_evidence(double difference, double variance);

/* e-BH (Wang and Ramdas, JRSS B 2022): marks those that are slower at false-discovery rate q, under any
 * dependence between the buckets. Returns how many. */
size_t sequential_select(const double *e_values, size_t count, double q, bool *selected);

#endif
