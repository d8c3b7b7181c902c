/* See stats.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

double stats_normal_above(double z)
{
    return 0.5 * erfc(z / M_SQRT2);
}

/* The continued fraction of the incomplete beta function (modified Lentz). */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m <= 500; m++) {
        for (int odd = 0; odd < 2; odd++) {
            double term = odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                              : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
            d = 1 + term * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + term / c;
            c = fabs(c) < tiny ? tiny : c;
            h *= d * c;
        }
        if (fabs(d * c - 1) < 1e-14)
            break;
    }
    return h;
}

static double incomplete_beta(double a, double b, double x)
{
    if (x <= 0)
        return 0;
    if (x >= 1)
        return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double stats_student_above(double t, double freedom)
{
    if (!(freedom > 0) || isnan(t))
        return 1;
    if (isinf(t))
        return t > 0 ? 0 : 1;
    double tail = 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
    return t > 0 ? tail : 1 - tail;
}

double stats_student_quantile(double p, double freedom)
{
    double low = -1e6, high = 1e6;
    for (int i = 0; i < 200 && high - low > 1e-12 * fmax(1, fabs(low)); i++) {
        double middle = (low + high) / 2;
        if (stats_student_above(middle, freedom) > p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* The upper incomplete gamma function, regularized: a series below its bend, a continued fraction (modified
 * Lentz) above. */
double stats_chi_square_above(double x, double freedom)
{
    double a = freedom / 2, at = x / 2;
    if (!(freedom > 0) || !(x > 0))
        return 1;
    double front = exp(a * log(at) - at - lgamma(a));
    if (at < a + 1) {
        double term = 1 / a, sum = term;
        for (int n = 1; n < 10000 && term > sum * 1e-16; n++)
            sum += term *= at / (a + n);
        return 1 - sum * front;
    }
    double b = at + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int n = 1; n < 10000; n++) {
        double factor = -n * (n - a), step;
        b += 2;
        d = 1 / (factor * d + b);
        c = b + factor / c;
        h *= step = d * c;
        if (fabs(step - 1) < 1e-15)
            break;
    }
    return front * h;
}

double stats_f_above(double x, double numerator, double denominator)
{
    if (isinf(denominator))
        return stats_chi_square_above(x * numerator, numerator);
    if (!(x > 0))
        return 1;
    return incomplete_beta(denominator / 2, numerator / 2, denominator / (denominator + numerator * x));
}

double stats_f_quantile(double p, double numerator, double denominator)
{
    double low = 0, high = 1;
    while (high < 1e12 && stats_f_above(high, numerator, denominator) > p)
        high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-12 * high; i++) {
        double middle = (low + high) / 2;
        *(stats_f_above(middle, numerator, denominator) > p ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

void stats_moments(const double *values, size_t count, double *ret_mean, double *ret_variance)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        double off = values[i] - mean;
        mean += off / (double)(i + 1);
        squares += off * (values[i] - mean);
    }
    *ret_mean = mean;
    *ret_variance = count > 1 ? squares / (double)(count - 1) : 0;
}

static struct welch finish(double difference, double variance, double freedom)
{
    struct welch w = {.difference = difference, .error = sqrt(variance), .freedom = freedom, .p = 1};
    if (w.error > 0)
        w.p = stats_student_above(difference / w.error, freedom);
    else if (difference > 0)
        w.p = 0;
    return w;
}

struct welch stats_welch(const double *a, size_t a_count, const double *b, size_t b_count)
{
    if (a_count < 2 || b_count < 2)
        return (struct welch){.p = 1};
    double a_mean, a_variance, b_mean, b_variance;
    stats_moments(a, a_count, &a_mean, &a_variance);
    stats_moments(b, b_count, &b_mean, &b_variance);
    double va = a_variance / (double)a_count, vb = b_variance / (double)b_count;
    double freedom = (va + vb) * (va + vb) /
                     fmax(va * va / (double)(a_count - 1) + vb * vb / (double)(b_count - 1), 1e-300);
    return finish(b_mean - a_mean, va + vb, freedom);
}

struct welch stats_paired(const double *differences, size_t count)
{
    if (count < 2)
        return (struct welch){.p = 1};
    double mean, variance;
    stats_moments(differences, count, &mean, &variance);
    return finish(mean, variance / (double)count, (double)(count - 1));
}

struct ranked {
    double value;
    bool of_b;
};

static int by_value(const void *x, const void *y)
{
    double a = ((const struct ranked *)x)->value, b = ((const struct ranked *)y)->value;
    return a < b ? -1 : a > b;
}

double stats_mann_whitney(const double *a, size_t a_count, const double *b, size_t b_count)
{
    size_t n = a_count + b_count;
    if (!a_count || !b_count)
        return 1;
    _cleanup_(freep) struct ranked *all = malloc(n * sizeof(*all));
    if (!all)
        return 1;
    for (size_t i = 0; i < a_count; i++)
        all[i] = (struct ranked){a[i], false};
    for (size_t i = 0; i < b_count; i++)
        all[a_count + i] = (struct ranked){b[i], true};
    qsort(all, n, sizeof(*all), by_value);
    double rank_sum = 0, ties = 0;
    for (size_t i = 0; i < n;) {
        size_t j = i;
        while (j < n && all[j].value == all[i].value)
            j++;
        double size = (double)(j - i), rank = (double)(i + j + 1) / 2;
        ties += size * size * size - size;
        for (; i < j; i++)
            rank_sum += all[i].of_b ? rank : 0;
    }
    double na = (double)a_count, nb = (double)b_count, total = na + nb;
    double u = rank_sum - nb * (nb + 1) / 2;
    double variance = na * nb / 12 * (total + 1 - ties / (total * (total - 1)));
    return variance > 0 ? stats_normal_above((u - na * nb / 2 - 0.5) / sqrt(variance)) : 1;
}

struct ordered {
    double p;
    size_t index;
};

static int by_p(const void *x, const void *y)
{
    double a = ((const struct ordered *)x)->p, b = ((const struct ordered *)y)->p;
    return a < b ? -1 : a > b;
}

size_t stats_benjamini_hochberg(const double *p, size_t count, double q, bool *rejected, double *adjusted)
{
    _cleanup_(freep) struct ordered *order = malloc((count ? count : 1) * sizeof(*order));
    memset(rejected, 0, count * sizeof(*rejected));
    if (!order)
        return 0;
    for (size_t i = 0; i < count; i++)
        order[i] = (struct ordered){p[i], i};
    qsort(order, count, sizeof(*order), by_p);
    double least = 1;
    size_t found = 0;
    for (size_t i = count; i-- > 0;) {
        least = fmin(least, order[i].p * (double)count / (double)(i + 1));
        if (adjusted)
            adjusted[order[i].index] = least;
        if (least <= q) {
            rejected[order[i].index] = true;
            found++;
        }
    }
    return found;
}

static int by_double(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

double stats_quantile(double *values, size_t count, double q)
{
    if (!count)
        return 0;
    qsort(values, count, sizeof(*values), by_double);
    double at = q * (double)(count - 1);
    size_t below = (size_t)at;
    if (below + 1 >= count)
        return values[count - 1];
    return values[below] + (at - (double)below) * (values[below + 1] - values[below]);
}

double stats_median(double *values, size_t count)
{
    return stats_quantile(values, count, 0.5);
}

double stats_maximum(double (*value)(const void *context, double x), const void *context, double low,
                     double high)
{
    const double section = (sqrt(5) - 1) / 2;
    enum { STEPS = 40 }; /* 0.618^40 of the range is left */
    double a = high - section * (high - low), b = low + section * (high - low);
    double at_a = value(context, a), at_b = value(context, b);
    double best = fmax(fmax(value(context, low), value(context, high)), fmax(at_a, at_b));
    for (int step = 0; step < STEPS; step++) {
        if (at_a < at_b) {
            low = a;
            a = b;
            at_a = at_b;
            b = low + section * (high - low);
            at_b = value(context, b);
        } else {
            high = b;
            b = a;
            at_b = at_a;
            a = high - section * (high - low);
            at_a = value(context, a);
        }
        best = fmax(best, fmax(at_a, at_b));
    }
    return best;
}

double stats_log_combinations(double values, size_t length)
{
    double n = 0;
    for (size_t i = 0; i < length; i++)
        n += log(fmax(values - (double)i, 1) / (double)(i + 1));
    return n;
}

void stats_random_init(struct stats_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) { /* splitmix64 */
        uint64_t z = (seed += 0x9e3779b97f4a7c15ull);
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        random->state[i] = z ^ z >> 31;
    }
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

uint64_t stats_random_next(struct stats_random *random)
{
    uint64_t *s = random->state, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double stats_random_unit(struct stats_random *random)
{
    return (double)(stats_random_next(random) >> 11) * 0x1p-53;
}

double stats_random_normal(struct stats_random *random)
{
    double u = 1 - stats_random_unit(random), v = stats_random_unit(random);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

uint64_t stats_random_poisson(struct stats_random *random, double mean)
{
    if (mean > 30) {
        double value = mean + sqrt(mean) * stats_random_normal(random) + 0.5;
        return value > 0 ? (uint64_t)value : 0;
    }
    double limit = exp(-mean), product = stats_random_unit(random);
    uint64_t n = 0;
    for (; product > limit; n++)
        product *= stats_random_unit(random);
    return n;
}

/* The best split of values[from, to) by the energy statistic; its value, or -1 when too short. For
 * one-dimensional data the sums of distances within and between come from adding one value after the other.
 */
static double best_split(const double *values, size_t from, size_t to, size_t minimum, size_t *ret_at)
{
    size_t n = to - from;
    double best = -1;
    if (n < 2 * minimum)
        return best;
    double within_right = 0, within_left = 0, between = 0;
    for (size_t i = from; i < to; i++)
        for (size_t j = i + 1; j < to; j++)
            within_right += fabs(values[i] - values[j]);
    for (size_t at = from; at + 1 < to; at++) {
        double to_left = 0, to_right = 0;
        for (size_t j = from; j < at; j++)
            to_left += fabs(values[at] - values[j]);
        for (size_t j = at + 1; j < to; j++)
            to_right += fabs(values[at] - values[j]);
        within_left += to_left;
        within_right -= to_right;
        between += to_right - to_left;
        double m = (double)(at + 1 - from), k = (double)(to - at - 1);
        if (m < (double)minimum || k < (double)minimum)
            continue;
        double energy = 2 * between / (m * k) - 2 * within_left / (m * fmax(m - 1, 1)) -
                        2 * within_right / (k * fmax(k - 1, 1));
        double q = m * k / (m + k) * energy;
        if (q > best) {
            best = q;
            *ret_at = at + 1;
        }
    }
    return best;
}

/* The share of shuffles of the segment whose best split is at least as good. */
static double split_p(const double *values, size_t from, size_t to, size_t minimum, double found,
                      unsigned permutations, struct stats_random *random)
{
    size_t n = to - from, ignored;
    _cleanup_(freep) double *shuffled = malloc(n * sizeof(*shuffled));
    if (!shuffled)
        return 1;
    memcpy(shuffled, values + from, n * sizeof(*shuffled));
    unsigned as_good = 0;
    for (unsigned p = 0; p < permutations; p++) {
        for (size_t i = n - 1; i > 0; i--) {
            size_t j = (size_t)(stats_random_unit(random) * (double)(i + 1));
            double swap = shuffled[i];
            shuffled[i] = shuffled[j];
            shuffled[j] = swap;
        }
        as_good += best_split(shuffled, 0, n, minimum, &ignored) >= found;
    }
    return (as_good + 1.0) / (permutations + 1.0);
}

size_t stats_change_points(const double *values, size_t count, size_t minimum, double p,
                           unsigned permutations, uint64_t seed, size_t *points, size_t room)
{
    struct stats_random random;
    stats_random_init(&random, seed);
    size_t n = 0;
    for (bool found = true; found && n < room;) {
        double best = -1;
        size_t at = 0, from = 0, best_from = 0, best_to = 0;
        for (size_t s = 0; s <= n; s++) {
            size_t to = s < n ? points[s] : count, here;
            double q = best_split(values, from, to, minimum, &here);
            if (q > best) {
                best = q;
                at = here;
                best_from = from;
                best_to = to;
            }
            from = to;
        }
        found = best > 0 && split_p(values, best_from, best_to, minimum, best, permutations, &random) <= p;
        if (!found)
            break;
        size_t place = n;
        for (; place > 0 && points[place - 1] > at; place--)
            points[place] = points[place - 1];
        points[place] = at;
        n++;
    }
    return n;
}
