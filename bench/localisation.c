/* Which service is at fault, on a public set of injected faults: ours and simple rules beside it. The weights
 * of the kinds of evidence are tuned here, by a grid, on half of the faults chosen by a seed, and the other
 * half is reported; over many seeds, and with each type of fault left out in turn. Beside it what sonde
 * ships.
 *
 *     localisation NORMAL.csv SERVICE@TYPE=FAULTY.csv[,FAULTY.csv...] ... */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "diagnose/diagnosis.h"
#include "diagnose/locate.h"
#include "span/files.h"

enum { SUSPECTS = 128, FAULTS = 512, SEEDS = 50, PLACES = 3, RULES = 2 };

struct fault {
    const char *service, *type;
    struct suspect suspects[SUSPECTS];
    size_t count;
};

static struct fault faults[FAULTS];
static size_t fault_count;

/* Faults of which the service was ranked first, among three, among five. */
struct hits {
    double in[PLACES], faults;
};

static struct diagnosis *read_files(char *list)
{
    const char *paths[16];
    size_t count = 0;
    struct diagnosis *diagnosis;
    struct diagnosis_settings settings = {0};
    struct span_files files = {0};
    struct problem problem = {0};
    for (char *path; (path = strsep(&list, ",")) && count < ARRAY_SIZE(paths);)
        paths[count++] = path;
    if (diagnosis_new(&settings, &diagnosis) < 0 ||
        span_files_read(&files, paths, count, diagnosis_sink(diagnosis), &problem) < 0 ||
        diagnosis_flush(diagnosis, UINT64_MAX) < 0) {
        fprintf(stderr, "%s\n", problem.what);
        exit(1);
    }
    return diagnosis;
}

static double score(const struct suspect *s, const struct locate_weights *weights, int rule)
{
    return weights ? locate_score(s, weights) : rule == 0 ? s->rule_self : s->rule_total;
}

/* Ties count against us. */
static void count_hit(const struct fault *fault, const struct locate_weights *weights, int rule,
                      struct hits *hits)
{
    static const int places[PLACES] = {1, 3, 5};
    double own = -1e300;
    int better = 0;
    for (size_t i = 0; i < fault->count; i++)
        if (strcmp(fault->suspects[i].service, fault->service) == 0)
            own = score(&fault->suspects[i], weights, rule);
    for (size_t i = 0; i < fault->count; i++)
        better += strcmp(fault->suspects[i].service, fault->service) != 0 &&
                  score(&fault->suspects[i], weights, rule) >= own;
    for (int p = 0; p < PLACES; p++)
        hits->in[p] += better < places[p];
    hits->faults++;
}

/* The weights that do best on the faults that are chosen; of equal ones the first. */
static struct locate_weights tune(const bool *chosen)
{
    static const double into[] = {0.7, 0.85, 1, 1.15, 1.4}, out[] = {0.7, 0.85, 1, 1.2, 1.5},
                        broken[] = {2, 4, 8, 12, 20}, others[] = {0, 0.1, 0.2, 0.4};
    struct locate_weights best = LOCATE_WEIGHTS;
    double most = -1;
    for (size_t a = 0; a < ARRAY_SIZE(into); a++)
        for (size_t b = 0; b < ARRAY_SIZE(out); b++)
            for (size_t c = 0; c < ARRAY_SIZE(broken); c++)
                for (size_t d = 0; d < ARRAY_SIZE(others); d++) {
                    struct locate_weights weights = {into[a], out[b], broken[c], others[d]};
                    struct hits hits = {0};
                    for (size_t i = 0; i < fault_count; i++)
                        if (chosen[i])
                            count_hit(&faults[i], &weights, 0, &hits);
                    double value = hits.in[0] + 0.3 * hits.in[1] + 0.1 * hits.in[2];
                    if (value > most) {
                        most = value;
                        best = weights;
                    }
                }
    return best;
}

static void print_hits(const char *name, const struct hits *hits)
{
    double n = hits->faults > 0 ? hits->faults : 1;
    printf("  %-52s first %5.1f %%  in three %5.1f %%  in five %5.1f %%\n", name, 100 * hits->in[0] / n,
           100 * hits->in[1] / n, 100 * hits->in[2] / n);
}

static void held_out_halves(void)
{
    struct hits tuned = {0}, held = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct stats_random random;
        bool chosen[FAULTS] = {0};
        size_t order[FAULTS];
        stats_random_init(&random, seed);
        for (size_t i = 0; i < fault_count; i++) {
            size_t at = (size_t)(stats_random_unit(&random) * (double)(i + 1));
            order[i] = order[at];
            order[at] = i;
        }
        for (size_t i = 0; i < fault_count / 2; i++)
            chosen[order[i]] = true;
        struct locate_weights weights = tune(chosen);
        struct hits of_seed = {0};
        for (size_t i = 0; i < fault_count; i++)
            count_hit(&faults[i], &weights, 0, chosen[i] ? &tuned : &of_seed);
        for (int p = 0; p < PLACES; p++)
            held.in[p] += of_seed.in[p];
        held.faults += of_seed.faults;
        if (seed == 1) {
            printf("  weights by seed 1: into %.2f, out of %.2f, broken %.0f, others %.1f\n", weights.into,
                   weights.out_of, weights.broken, weights.others);
            print_hits("the other half, seed 1", &of_seed);
        }
    }
    print_hits("the half tuned on, mean over 50 seeds", &tuned);
    print_hits("the other half, mean over 50 seeds", &held);
}

static void each_type_left_out(void)
{
    struct hits all = {0};
    for (size_t first = 0; first < fault_count; first++) {
        bool chosen[FAULTS] = {0}, seen = false;
        struct hits hits = {0};
        char name[80];
        for (size_t i = 0; i < first; i++)
            seen |= strcmp(faults[i].type, faults[first].type) == 0;
        if (seen)
            continue;
        for (size_t i = 0; i < fault_count; i++)
            chosen[i] = strcmp(faults[i].type, faults[first].type) != 0;
        struct locate_weights weights = tune(chosen);
        for (size_t i = 0; i < fault_count; i++)
            if (!chosen[i]) {
                count_hit(&faults[i], &weights, 0, &hits);
                count_hit(&faults[i], &weights, 0, &all);
            }
        snprintf(name, sizeof(name), "tuned without %s, on its %.0f faults", faults[first].type, hits.faults);
        print_hits(name, &hits);
    }
    print_hits("all types, each tuned without it", &all);
}

int main(int argc, char **argv)
{
    struct hits shipped = {0}, rules[RULES] = {0};
    if (argc < 3 || argc - 2 > FAULTS)
        return 2;
    struct diagnosis *normal = read_files(argv[1]);
    for (int i = 2; i < argc; i++) {
        struct fault *fault = &faults[fault_count++];
        char *equals = strchr(argv[i], '='), *at = strchr(argv[i], '@');
        if (!equals || !at || at > equals)
            return 2;
        *equals = *at = '\0';
        fault->service = argv[i];
        fault->type = at + 1;
        struct diagnosis *faulty = read_files(equals + 1);
        if (locate(diagnosis_book(normal), diagnosis_book(faulty), fault->suspects, SUSPECTS, &fault->count) <
            0)
            return 1;
        for (size_t k = 0; k < fault->count; k++) /* the book goes */
            fault->suspects[k].service = strdup(fault->suspects[k].service);
        count_hit(fault, &LOCATE_WEIGHTS, 0, &shipped);
        for (int rule = 0; rule < RULES; rule++)
            count_hit(fault, NULL, rule, &rules[rule]);
        diagnosis_free(faulty);
    }
    printf("%zu faults\n", fault_count);
    held_out_halves();
    each_type_left_out();
    print_hits("as shipped (weights chosen with all faults known)", &shipped);
    print_hits("rule: largest growth of mean own time", &rules[0]);
    print_hits("rule: largest p95 ratio of an operation", &rules[1]);
    diagnosis_free(normal);
    return 0;
}
