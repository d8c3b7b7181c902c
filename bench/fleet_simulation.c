/* A day of a fleet of 200 services, each of which rolls a version out, judged by `diagnose` as it is: spans
 * go in, a judgement comes out. The generator was written before anything was tuned on it, and stays as it
 * is; what is changed is the program. Prints one line of JSON.
 *
 *     fleet_simulation KIND SEED [FACTOR]       KIND of KINDS; ten services get FACTOR times slower (1.3; 1:
 * none) fleet_simulation time KIND SEED FACTOR    minutes from a rollout's beginning to the alarm of one who
 * looks every five minutes, of 20 services that all get slower
 *
 * bench/fleet.mjs runs many of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "diagnose/diagnosis.h"
#include "diagnose/judge.h"
#include "diagnose/stats.h"

enum { SERVICES = 200, SLOWED = 10, HOSTS = 6, TENANTS_MAX = 8, WALK = 288 };

#define DAY_NS      (86400 * NS_PER_S)
#define EPOCH_NS    (1700000000 * NS_PER_S)
#define HOST_SPREAD 0.05
#define VERSION     0.01 /* harmless versions differ by this */

/* What a kind of day has beside hosts that differ and versions that differ harmlessly. */
static const struct kind {
    const char *name;
    bool drift, mix, load, shared, canary, sequential;
} KINDS[] = {{.name = "plain"},
             {.name = "drift", .drift = true},
             {.name = "mix", .mix = true},
             {.name = "load", .load = true},
             {.name = "shared", .shared = true},
             {.name = "canary", .canary = true},
             {.name = "sequential", .sequential = true},
             {.name = "all", .drift = true, .mix = true, .load = true, .shared = true, .canary = true}};

static struct stats_random random_state;

static double unit(void)
{
    return stats_random_unit(&random_state);
}

static double normal(void)
{
    return stats_random_normal(&random_state);
}

struct service {
    double base, sigma;       /* log latency */
    double tail, tail_factor; /* share of requests, log */
    double begins;            /* of the rollout, share of the day */
    double newer_share;       /* of the requests from then on */
    double grows;             /* share of the day in which a canary becomes everything; 0: it stays */
    double host[2][HOSTS];    /* log; the same on both sides where hosts are shared */
    double version, slow;     /* log */
    double walk[WALK];        /* drift over the day */
    double load;              /* how much load slows it down */
    size_t tenants;
    double level[TENANTS_MAX], share[2][TENANTS_MAX];
    double part;      /* share of requests with a sub-operation */
    double part_cost; /* log */
    unsigned requests;
};

/* Neighbours that take a machine's time for a while: six machines that all services share. */
static double machine[HOSTS][24];

static void make_shares(double *shares, size_t count, const double *near)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += shares[i] = near ? near[i] * exp(0.8 * normal()) : -log(1 - unit());
    for (size_t i = 0; i < count; i++)
        shares[i] /= sum;
}

static void make_service(const struct kind *kind, struct service *s, double slow)
{
    memset(s, 0, sizeof(*s));
    s->base = log(20e6) + 1.1 * normal();
    s->sigma = 0.2 + 0.5 * unit();
    s->tail = unit() < 0.5 ? 0.01 + 0.04 * unit() : 0;
    s->tail_factor = log(3 + 7 * unit());
    s->begins = 0.15 + 0.4 * unit();
    s->newer_share = kind->sequential ? 1 : 0.5;
    if (kind->canary && unit() < 0.7) {
        s->newer_share = 0.05;
        s->grows = unit() < 0.5 ? 0.2 : 0;
    }
    for (int h = 0; h < HOSTS; h++) {
        s->host[0][h] = HOST_SPREAD * normal();
        s->host[1][h] = kind->shared ? s->host[0][h] : HOST_SPREAD * normal();
    }
    s->version = VERSION * normal();
    s->slow = slow;
    for (int i = 1; i < WALK; i++)
        s->walk[i] = kind->drift ? s->walk[i - 1] + 0.15 / sqrt(WALK) * normal() : 0;
    s->load = kind->load ? 0.6 * unit() : 0;
    s->tenants = 1 + (size_t)(unit() * TENANTS_MAX);
    for (size_t t = 0; t < s->tenants; t++)
        s->level[t] = 0.6 * normal();
    make_shares(s->share[0], s->tenants, NULL);
    memcpy(s->share[1], s->share[0], sizeof(s->share[0]));
    if (kind->mix && unit() < 0.5)
        make_shares(s->share[1], s->tenants, s->share[0]);
    s->part = unit() < 0.5 ? 0.1 + 0.4 * unit() : 0;
    s->part_cost = 0.3 + unit();
    s->requests = (unsigned)(1500 + 3000 * unit());
}

static double load_at(double share)
{
    return 0.5 - 0.5 * cos(2 * M_PI * (share - 0.15));
}

static size_t choose(const double *shares, size_t count)
{
    double at = unit();
    size_t i = 0;
    while (i + 1 < count && (at -= shares[i]) > 0)
        i++;
    return i;
}

static double newer_share_at(const struct service *s, double share)
{
    if (share < s->begins)
        return 0;
    if (s->grows > 0 && share > s->begins + s->grows)
        return 0.5;
    return s->newer_share;
}

static void add_span(struct diagnosis *diagnosis, uint64_t trace, uint64_t id, uint64_t parent,
                     const char *name, uint64_t start_ns, double ns, const struct span_resource *resource,
                     const struct span_attribute *attribute)
{
    struct span span = {.trace_low = trace,
                        .id = id,
                        .parent = parent,
                        .start_ns = start_ns,
                        .end_ns = start_ns + (uint64_t)ns,
                        .name = slice_of(name),
                        .kind = parent ? SPAN_KIND_INTERNAL : SPAN_KIND_SERVER,
                        .resource = resource,
                        .attributes = attribute,
                        .attribute_count = attribute ? 1 : 0};
    if (span_sink_put(diagnosis_sink(diagnosis), &span) < 0)
        exit(1);
}

/* One request at a share of the day. */
static void add_request(struct diagnosis *diagnosis, const struct kind *kind, const struct service *s,
                        int number, double share, uint64_t trace)
{
    bool newer = unit() < newer_share_at(s, share), part = unit() < s->part;
    int h = (int)(unit() * HOSTS);
    size_t tenant = choose(s->share[newer], s->tenants);
    char service[32], host[64], value[32];
    snprintf(service, sizeof(service), "service-%d", number);
    if (kind->shared)
        snprintf(host, sizeof(host), "machine-%d", h);
    else
        snprintf(host, sizeof(host), "host-%d-%d-%d", h, number, newer);
    snprintf(value, sizeof(value), "t%zu", tenant);
    double log_ns = s->base + s->host[newer][h] + (newer ? s->version + s->slow : 0) +
                    s->walk[(int)(share * WALK)] + s->load * load_at(share) + s->level[tenant] +
                    (part ? s->part_cost : 0) + (kind->shared ? machine[h][(int)(share * 24)] : 0) +
                    s->sigma * normal() + (unit() < s->tail ? s->tail_factor : 0);
    struct span_resource resource = {
        .service = slice_of(service), .version = newer ? SLICE("2") : SLICE("1"), .host = slice_of(host)};
    struct span_attribute attribute = {SLICE("tenant"), slice_of(value)};
    uint64_t start_ns = EPOCH_NS + (uint64_t)(share * (double)DAY_NS);
    double ns = fmin(exp(log_ns), 3600e9);
    span_resource_conventions(&resource);
    add_span(diagnosis, trace, 1, 0, "GET /", start_ns, ns, &resource, &attribute);
    if (part)
        add_span(diagnosis, trace, 2, 1, "load", start_ns, ns * (1 - exp(-s->part_cost)), &resource, NULL);
}

/* When the day's requests of a service come: more where there is more load. */
static double arrival(const struct kind *kind)
{
    for (;;) {
        double share = unit();
        if (!kind->load || unit() < 0.3 + 0.7 * load_at(share))
            return share;
    }
}

/* All requests of the day in order of time. */
struct request {
    double share;
    int service;
};

static int by_time(const void *x, const void *y)
{
    const struct request *a = x, *b = y;
    return a->share < b->share ? -1 : a->share > b->share;
}

static void start_day(uint64_t seed)
{
    stats_random_init(&random_state, seed * 7919 + 17);
    for (int h = 0; h < HOSTS; h++)
        for (int i = 0; i < 24; i++)
            machine[h][i] = unit() < 0.1 ? 0.4 * unit() : 0;
}

static struct request *plan_day(const struct kind *kind, const struct service *services, int count,
                                size_t *ret_requests)
{
    size_t n = 0, all = 0;
    for (int i = 0; i < count; i++)
        all += services[i].requests;
    struct request *requests = calloc(all, sizeof(*requests));
    if (!requests)
        exit(1);
    for (int i = 0; i < count; i++)
        for (unsigned k = 0; k < services[i].requests; k++)
            requests[n++] = (struct request){arrival(kind), i};
    qsort(requests, n, sizeof(*requests), by_time);
    *ret_requests = n;
    return requests;
}

static int service_of(const struct book *book, const struct verdict *v)
{
    return atoi(names_get(book->names, v->service) + strlen("service-"));
}

static struct diagnosis *new_diagnosis(void)
{
    struct diagnosis_settings settings = {0};
    struct diagnosis *diagnosis;
    if (diagnosis_new(&settings, &diagnosis) < 0)
        exit(1);
    return diagnosis;
}

static void run_day(const struct kind *kind, uint64_t seed, double factor)
{
    static struct service services[SERVICES];
    struct diagnosis *diagnosis = new_diagnosis();
    struct judge_settings judging = {0};
    struct judgement judgement;
    bool found[SERVICES] = {0}, untold[SERVICES] = {0};
    size_t count;
    start_day(seed);
    for (int i = 0; i < SERVICES; i++)
        make_service(kind, &services[i], factor > 1 && i < SLOWED ? log(factor) : 0);
    struct request *requests = plan_day(kind, services, SERVICES, &count);
    for (size_t i = 0; i < count; i++)
        add_request(diagnosis, kind, &services[requests[i].service], requests[i].service, requests[i].share,
                    i + 1);
    const struct book *book = diagnosis_book(diagnosis);
    if (diagnosis_flush(diagnosis, UINT64_MAX) < 0 || judge(book, &judging, &judgement) < 0)
        exit(1);
    array_foreach (&judgement.verdicts, v) {
        found[service_of(book, v)] |= v->outcome == OUTCOME_SLOWER && v->follows == NAMES_NONE;
        untold[service_of(book, v)] |= v->outcome == OUTCOME_CANNOT_TELL;
    }
    int right = 0, wrong = 0, silent = 0;
    for (int i = 0; i < SERVICES; i++) {
        bool slow = services[i].slow > 0;
        right += slow && found[i];
        wrong += !slow && found[i];
        silent += !found[i] && untold[i];
    }
    printf("{\"kind\": \"%s\", \"seed\": %llu, \"factor\": %g, \"slow\": %d, \"found\": %d, \"false\": %d, "
           "\"cannot_tell\": %d, \"bad_hosts\": %zu, \"requests\": %zu}\n",
           kind->name, (unsigned long long)seed, factor, factor > 1 ? SLOWED : 0, right, wrong, silent,
           judgement.bad_hosts.count, count);
    judgement_done(&judgement);
    diagnosis_free(diagnosis);
    free(requests);
}

#define TIMED        20
#define LOOK_MINUTES 5

static void run_time(const struct kind *kind, uint64_t seed, double factor)
{
    static struct service services[TIMED];
    struct diagnosis *diagnosis = new_diagnosis();
    struct judge_settings judging = {.sequential = true};
    double minutes[TIMED];
    size_t count, at = 0;
    start_day(seed);
    for (int i = 0; i < TIMED; i++) {
        make_service(kind, &services[i], log(factor));
        services[i].requests *= 10;
        minutes[i] = -1;
    }
    struct request *requests = plan_day(kind, services, TIMED, &count);
    for (int look = 1; look <= 1440 / LOOK_MINUTES; look++) {
        double until = look * LOOK_MINUTES / 1440.0;
        struct judgement judgement;
        for (; at < count && requests[at].share < until; at++)
            add_request(diagnosis, kind, &services[requests[at].service], requests[at].service,
                        requests[at].share, at + 1);
        const struct book *book = diagnosis_book(diagnosis);
        if (diagnosis_flush(diagnosis, UINT64_MAX) < 0 || judge(book, &judging, &judgement) < 0)
            exit(1);
        array_foreach (&judgement.verdicts, v) {
            int i = service_of(book, v);
            if (v->outcome == OUTCOME_SLOWER && minutes[i] < 0)
                minutes[i] = (until - services[i].begins) * 1440;
        }
        judgement_done(&judgement);
    }
    printf("{\"kind\": \"%s\", \"seed\": %llu, \"factor\": %g, \"time\": true, \"minutes\": [", kind->name,
           (unsigned long long)seed, factor);
    for (int i = 0; i < TIMED; i++)
        printf("%s%.0f", i ? ", " : "", minutes[i]);
    printf("]}\n");
    diagnosis_free(diagnosis);
    free(requests);
}

int main(int argc, char **argv)
{
    bool timed = argc > 1 && strcmp(argv[1], "time") == 0;
    char **rest = argv + 1 + timed;
    int left = argc - 1 - timed;
    for (size_t k = 0; left >= 2 && k < ARRAY_SIZE(KINDS); k++) {
        if (strcmp(KINDS[k].name, rest[0]) != 0)
            continue;
        double factor = left > 2 ? atof(rest[2]) : 1.3;
        (timed ? run_time : run_day)(&KINDS[k], strtoull(rest[1], NULL, 10), factor);
        return 0;
    }
    fprintf(stderr, "usage: fleet_simulation [time] KIND SEED [FACTOR]\n");
    return 2;
}
