/* Which service is at fault, on a public set of injected faults: ours and simple rules beside it. Half of the
 * faults (every other one) were looked at while weights were chosen; the other half is reported apart.
 *
 *     localisation NORMAL.csv SERVICE=FAULTY.csv[,FAULTY.csv...] ... */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "diagnose/diagnosis.h"
#include "diagnose/locate.h"
#include "span/files.h"

enum { SUSPECTS = 128, RULES = 3 };

static const char *const RULE_NAMES[RULES] = {"sonde", "rule: mean own time", "rule: p95 ratio"};

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

static double score(const struct suspect *s, int rule)
{
    return rule == 0 ? s->score : rule == 1 ? s->rule_self : s->rule_total;
}

static int rank(const struct suspect *suspects, size_t count, const char *truth, int rule)
{
    double own = -1e300;
    int better = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(suspects[i].service, truth) == 0)
            own = score(&suspects[i], rule);
    for (size_t i = 0; i < count; i++)
        better += strcmp(suspects[i].service, truth) != 0 && score(&suspects[i], rule) >= own;
    return better + 1;
}

int main(int argc, char **argv)
{
    int hits[2][RULES][3] = {0}, faults[2] = {0};
    if (argc < 3)
        return 2;
    struct diagnosis *normal = read_files(argv[1]);
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        struct suspect suspects[SUSPECTS];
        size_t count;
        if (!equals)
            return 2;
        *equals = '\0';
        struct diagnosis *faulty = read_files(equals + 1);
        if (locate(diagnosis_book(normal), diagnosis_book(faulty), suspects, SUSPECTS, &count) < 0)
            return 1;
        int half = i % 2;
        faults[half]++;
        printf("%-26s", argv[i]);
        for (int rule = 0; rule < RULES; rule++) {
            int place = rank(suspects, count, argv[i], rule);
            hits[half][rule][0] += place <= 1;
            hits[half][rule][1] += place <= 3;
            hits[half][rule][2] += place <= 5;
            printf(" %2d", place);
        }
        printf("  first: %s (%.2f: %s)\n", suspects[0].service, suspects[0].score, suspects[0].why);
        diagnosis_free(faulty);
    }
    for (int half = 0; half < 2; half++)
        for (int rule = 0; rule < RULES; rule++)
            printf("%s, %d faults, %-20s first %5.1f %%  in three %5.1f %%  in five %5.1f %%\n",
                   half ? "the other half" : "tuned half", faults[half], RULE_NAMES[rule],
                   100.0 * hits[half][rule][0] / MAX(faults[half], 1),
                   100.0 * hits[half][rule][1] / MAX(faults[half], 1),
                   100.0 * hits[half][rule][2] / MAX(faults[half], 1));
    diagnosis_free(normal);
    return 0;
}
