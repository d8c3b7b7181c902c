/* The rate at which sampling costs no more than it may: what it costs depends on what the machine does (most
 * of it is reading programs that were not met before), so it is measured while sampling goes on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_COST_H
#define STEER_COST_H

struct cost_options {
    double limit;             /* seconds of CPU time a second, in the long run; above 0 */
    double least_hz, most_hz; /* no rate is below or above */
};

struct cost {
    struct cost_options options;
    double hz;      /* of now, before it is rounded */
    double each_s;  /* CPU time for each sample a second and CPU, of late; 0: not known yet */
    double saved_s; /* CPU time that was not used, up to what ten minutes allow; below 0: to be made up for */
    /* So far: */
    double elapsed_s, spent_s;
    double mean_hz, lowest_hz, highest_hz; /* of the rates; the mean by time */
};

/* It begins with the highest rate. before_s: CPU time that was taken to get ready, which is made up for, but
 * says nothing of samples. */
void cost_begin(struct cost *cost, const struct cost_options *options, double before_s);

/* The rate for now: a whole number. */
unsigned cost_hz(const struct cost *cost);

/* The last elapsed_s (above 0) took spent_s of CPU time at cost_hz(), which may be another one now. */
void cost_count(struct cost *cost, double elapsed_s, double spent_s);

#endif
