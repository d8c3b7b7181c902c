/* See align.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/align.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

/* Bounds are thinned to their hull whenever so many are held. */
#define BOUNDS_MAX 65536
/* Segments sent and not yet received, over all hosts; beyond it, all are forgotten. */
#define PENDING_MAX (1u << 20)
#define HOSTS_MAX   256

/* ---- hulls ---- */

static int compare_x(const void *a, const void *b)
{
    const struct bound *p = a, *q = b;
    return p->x != q->x ? (p->x > q->x) - (p->x < q->x) : (p->y > q->y) - (p->y < q->y);
}

/* The lower (sign 1) or upper (sign -1) hull of the points, in place; returns their number. */
static size_t hull(struct bound *p, size_t count, double sign)
{
    size_t n = 0;
    if (count)
        qsort(p, count, sizeof(*p), compare_x);
    for (size_t i = 0; i < count; i++) {
        while (n >= 2 && sign * ((p[n - 1].x - p[n - 2].x) * (p[i].y - p[n - 2].y) -
                                 (p[n - 1].y - p[n - 2].y) * (p[i].x - p[n - 2].x)) <=
                             0)
            n--;
        if (n && p[n - 1].x == p[i].x && n == 1) { /* equal x: only the tighter of the two counts */
            if (sign * p[i].y < sign * p[n - 1].y)
                p[n - 1] = p[i];
            continue;
        }
        p[n++] = p[i];
    }
    return n;
}

/* The intercepts that a slope allows: [*ret_low, *ret_high]. */
static void intercepts(const struct bound *upper, size_t nu, const struct bound *lower, size_t nl,
                       double slope, double *ret_low, double *ret_high)
{
    double low = -DBL_MAX, high = DBL_MAX;
    for (size_t i = 0; i < nu; i++)
        high = fmin(high, upper[i].y - slope * upper[i].x);
    for (size_t i = 0; i < nl; i++)
        low = fmax(low, lower[i].y - slope * lower[i].x);
    *ret_low = low;
    *ret_high = high;
}

/* Every possible line passes, at x0 and x1, no further from the middle than one that touches a corner of the
 * space of lines; those have the slope of a hull's edge or an extreme slope. */
static double furthest(const struct bound *upper, size_t nu, const struct bound *lower, size_t nl,
                       double least, double most, double x0, double x1, const struct line *middle)
{
    double error = 0;
    size_t edges = (nu ? nu - 1 : 0) + (nl ? nl - 1 : 0) + 2;
    for (size_t i = 0; i < edges; i++) {
        const struct bound *p = i < nu - 1 ? &upper[i] : &lower[i - (nu - 1)];
        double slope = i == edges - 2 ? least : i == edges - 1 ? most : (p[1].y - p[0].y) / (p[1].x - p[0].x);
        double low, high;
        if (!(slope >= least && slope <= most))
            continue;
        intercepts(upper, nu, lower, nl, slope, &low, &high);
        double ends[] = {x0, x1};
        for (int e = 0; e < 2; e++) {
            double at = middle->slope * ends[e] + middle->intercept;
            error = fmax(error, fabs(slope * ends[e] + low - at));
            error = fmax(error, fabs(slope * ends[e] + high - at));
        }
    }
    return error;
}

int align_fit(struct bound *upper, size_t *upper_count, struct bound *lower, size_t *lower_count, double x0,
              double x1, struct line *ret_line)
{
    size_t nu = *upper_count = hull(upper, *upper_count, 1),
           nl = *lower_count = hull(lower, *lower_count, -1);
    if (!nu || !nl)
        return -ENODATA;
    double least = -1, most = 1; /* a clock that runs twice as fast is none */
    for (size_t i = 0; i < nu; i++)
        for (size_t j = 0; j < nl; j++) {
            double dx = upper[i].x - lower[j].x, dy = upper[i].y - lower[j].y;
            if (dx > 0)
                most = fmin(most, dy / dx);
            else if (dx < 0)
                least = fmax(least, dy / dx);
            else if (dy < 0)
                return -ERANGE;
        }
    double low, high;
    if (least > most)
        return -ERANGE;
    struct line line = {.slope = (least + most) / 2};
    intercepts(upper, nu, lower, nl, line.slope, &low, &high);
    line.intercept = (low + high) / 2;
    line.error = furthest(upper, nu, lower, nl, least, most, x0, x1, &line);
    line.error_between = furthest(upper, nu, lower, nl, least, most, fmin(upper[0].x, lower[0].x),
                                  fmax(upper[nu - 1].x, lower[nl - 1].x), &line);
    *ret_line = line;
    return 0;
}

/* ---- messages ---- */

/* Bounds on (clock of b - clock of a) at times of a, for hosts a < b. */
struct host_pair {
    ARRAY(struct bound) upper, lower;
    uint64_t forward, backward; /* messages a to b, b to a */
};

struct pending {
    uint32_t host;
    bool ambiguous; /* sent twice: a retransmission matches neither */
    int64_t time_ns;
};

struct aligner {
    struct trace *trace;
    uint32_t hosts;
    int64_t *origin; /* of each host: its first time, so that doubles keep every ns */
    bool *started;
    struct host_pair *pairs; /* hosts * hosts, a < b used */
    struct map by_key;       /* hash of the segment -> index into pending + 1 */
    ARRAY(struct pending) pending;
    int64_t *first_ns, *last_ns;
};

enum direction { DIRECTION_NONE, DIRECTION_OUT, DIRECTION_IN };

/* How a class tells a segment. */
struct segment_class {
    enum direction direction;
    int seq, ack, flags;
};

static int ends_with(const struct event_class *class, const char *end)
{
    size_t n = strlen(end);
    for (uint32_t i = 0; i < class->field_count; i++) {
        size_t length = strlen(class->fields[i].name);
        if (length >= n && strcmp(class->fields[i].name + length - n, end) == 0)
            return (int)i;
    }
    return -1;
}

static struct segment_class describe(const struct event_class *class)
{
    static const struct {
        const char *name;
        enum direction direction;
        const char *seq, *ack, *flags;
    } KNOWN[] = {
        {"inet_sock_local_out", DIRECTION_OUT, "seq", "ack_seq", "flags"},
        {"inet_sock_local_in", DIRECTION_IN, "seq", "ack_seq", "flags"},
        {"net_dev_queue", DIRECTION_OUT, "tcp.seq", "tcp.ack_seq", "tcp.flags"},
        {"net_if_receive_skb", DIRECTION_IN, "tcp.seq", "tcp.ack_seq", "tcp.flags"},
    };
    struct segment_class c = {.direction = DIRECTION_NONE};
    for (size_t i = 0; i < ARRAY_SIZE(KNOWN); i++) {
        if (strcmp(class->name, KNOWN[i].name) != 0)
            continue;
        bool whole = !strchr(KNOWN[i].seq, '.');
        c.direction = KNOWN[i].direction;
        c.seq = whole ? event_class_find(class, KNOWN[i].seq) : ends_with(class, KNOWN[i].seq);
        c.ack = whole ? event_class_find(class, KNOWN[i].ack) : ends_with(class, KNOWN[i].ack);
        c.flags = whole ? event_class_find(class, KNOWN[i].flags) : ends_with(class, KNOWN[i].flags);
        if (c.seq < 0 || c.ack < 0)
            c.direction = DIRECTION_NONE;
    }
    return c;
}

int align_message(struct aligner *m, uint32_t from, uint32_t to, int64_t sent, int64_t received)
{
    uint32_t a = MIN(from, to), b = MAX(from, to);
    struct host_pair *p = &m->pairs[a * m->hosts + b];
    bool forward = from == a;
    int64_t at_a = forward ? sent : received, at_b = forward ? received : sent;
    struct bound bound = {(double)(at_a - m->origin[a]),
                          (double)((at_b - m->origin[b]) - (at_a - m->origin[a]))};
    if (forward) {
        p->forward++;
        if (p->upper.count >= BOUNDS_MAX)
            p->upper.count = hull(p->upper.at, p->upper.count, 1);
        return array_add(&p->upper, bound);
    }
    p->backward++;
    if (p->lower.count >= BOUNDS_MAX)
        p->lower.count = hull(p->lower.at, p->lower.count, -1);
    return array_add(&p->lower, bound);
}

static uint64_t segment_key(const struct segment_class *c, const struct event *e)
{
    uint64_t parts[3] = {e->values[c->seq].u, e->values[c->ack].u, 0};
    if (c->flags >= 0 && event_has(e, (uint32_t)c->flags))
        parts[2] = e->values[c->flags].u;
    return map_hash(parts, sizeof(parts));
}

static int match(struct aligner *m, const struct segment_class *c, const struct event *e)
{
    if (!event_has(e, (uint32_t)c->seq) || !event_has(e, (uint32_t)c->ack))
        return 0;
    /* Times of one host may lie before the other's in this order, so either side may come first: both wait.
     */
    uint64_t key = segment_key(c, e) * 2, mine = key + (c->direction == DIRECTION_IN), other = mine ^ 1;
    uint64_t *partner = map_get(&m->by_key, other);
    if (partner) {
        const struct pending *p = &m->pending.at[*partner - 1];
        bool out = c->direction == DIRECTION_OUT;
        if (p->ambiguous || p->host == e->trace)
            return 0;
        int64_t time = (int64_t)e->time_ns, then = p->time_ns;
        uint32_t host = p->host;
        map_remove(&m->by_key, other);
        return out ? align_message(m, e->trace, host, time, then)
                   : align_message(m, host, e->trace, then, time);
    }
    if (m->pending.count >= PENDING_MAX) {
        map_clear(&m->by_key);
        array_clear(&m->pending);
    }
    bool added;
    uint64_t *place = map_put(&m->by_key, mine, &added);
    if (!place)
        return -ENOMEM;
    if (!added) {
        m->pending.at[*place - 1].ambiguous = true;
        return 0;
    }
    struct pending p = {.host = e->trace, .time_ns = (int64_t)e->time_ns};
    if (array_add(&m->pending, p) < 0)
        return -ENOMEM;
    *place = m->pending.count;
    return 0;
}

void align_saw(struct aligner *m, uint32_t host, int64_t time_ns)
{
    if (!m->started[host]) {
        m->started[host] = true;
        m->origin[host] = m->first_ns[host] = time_ns;
    }
    m->last_ns[host] = time_ns;
}

static int collect(struct aligner *m, struct trace *trace)
{
    struct map classes = {0}; /* class -> index + 1 into known; 0 not looked at */
    ARRAY(struct segment_class) known = {0};
    const struct event *e;
    int r;
    while ((r = trace_next(trace, &e)) > 0) {
        align_saw(m, e->trace, (int64_t)e->time_ns);
        uint64_t *place = map_put(&classes, (uint64_t)(uintptr_t)e->class, NULL);
        if (!place || (!*place && array_add(&known, describe(e->class)) < 0)) {
            r = -ENOMEM;
            break;
        }
        if (!*place)
            *place = known.count;
        const struct segment_class *c = &known.at[*place - 1];
        if (c->direction != DIRECTION_NONE && (r = match(m, c, e)) < 0)
            break;
    }
    map_done(&classes);
    array_done(&known);
    return r;
}

/* ---- all hosts ---- */

/* Which pair a host was joined by. */
struct joint {
    uint32_t a, b, host;
};

/* A pair's line as an alignment of host b, given that of a; or the other way round. */
static void compose(const struct aligner *m, const struct line *line, bool forward, uint32_t a, uint32_t b,
                    struct alignment *out)
{
    const struct host_alignment *known = &out->hosts[forward ? a : b];
    struct host_alignment *h = &out->hosts[forward ? b : a];
    /* Times relative to the origins: tb = ta + slope * ta + intercept. */
    double slope = line->slope, intercept = line->intercept;
    double drift = forward ? slope / (1 + slope) : -slope;
    double shift = forward ? intercept / (1 + slope) : -intercept;
    uint32_t self = forward ? b : a, other = forward ? a : b;
    /* In the neighbour's clock: t' = (t - origin) - drift * (t - origin) - shift + origin of the neighbour.
     */
    int64_t to_neighbour = m->origin[self] - m->origin[other] + (int64_t)llround(shift);
    int64_t start = m->origin[self] - to_neighbour; /* the origin, in the neighbour's clock */
    double inner = known->drift;
    h->origin_ns = m->origin[self];
    h->offset_ns =
        to_neighbour + known->offset_ns + (int64_t)llround(inner * (double)(start - known->origin_ns));
    h->drift = drift + inner - drift * inner;
    h->error_ns = known->error_ns + (uint64_t)ceil(line->error);
    h->error_between_ns = known->error_between_ns + (uint64_t)ceil(line->error_between);
    h->neighbour = other;
    h->reference = out->reference;
}

/* The time of the host, since its first one, at which it is that time of the reference. */
static double time_of(const struct aligner *m, const struct host_alignment *h, uint32_t host,
                      int64_t reference)
{
    double since = (double)(reference - h->origin_ns + h->offset_ns) / (1 - h->drift);
    return since + (double)(h->origin_ns - m->origin[host]);
}

static int64_t time_at_reference(const struct host_alignment *h, int64_t time)
{
    return time - h->offset_ns - llround(h->drift * (double)(time - h->origin_ns));
}

/* Errors of all hosts over the whole trace: from the first to the last event of any of them. Which one was
 * joined by which pair is told in the order in which that was done. */
static void spread_errors(struct aligner *m, const struct joint *joints, uint32_t count,
                          struct alignment *out)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (uint32_t i = 0; i < m->hosts; i++) {
        first = MIN(first, time_at_reference(&out->hosts[i], m->first_ns[i]));
        last = MAX(last, time_at_reference(&out->hosts[i], m->last_ns[i]));
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct joint *j = &joints[i];
        struct host_pair *p = &m->pairs[j->a * m->hosts + j->b];
        struct host_alignment *h = &out->hosts[j->host], *by = &out->hosts[j->host == j->a ? j->b : j->a];
        struct line line;
        if (align_fit(p->upper.at, &p->upper.count, p->lower.at, &p->lower.count,
                      time_of(m, &out->hosts[j->a], j->a, first), time_of(m, &out->hosts[j->a], j->a, last),
                      &line) == 0)
            h->error_ns = by->error_ns + (uint64_t)ceil(line.error);
    }
}

/* Hosts join the reference one by one, the one with the smallest error first. */
static int join_hosts(struct aligner *m, struct trace *trace, struct problem *problem, struct alignment *out)
{
    bool *joined = calloc(m->hosts, sizeof(*joined));
    struct line *lines = calloc((size_t)m->hosts * m->hosts, sizeof(*lines));
    struct joint *joints = calloc(m->hosts, sizeof(*joints));
    int *fits = calloc((size_t)m->hosts * m->hosts, sizeof(*fits)), r = 0;
    if (!joined || !lines || !fits || !joints)
        r = -ENOMEM;
    for (uint32_t a = 0; r >= 0 && a < m->hosts; a++)
        for (uint32_t b = a + 1; b < m->hosts; b++) {
            struct host_pair *p = &m->pairs[a * m->hosts + b];
            fits[a * m->hosts + b] =
                align_fit(p->upper.at, &p->upper.count, p->lower.at, &p->lower.count, 0,
                          (double)(m->last_ns[a] - m->first_ns[a]), &lines[a * m->hosts + b]);
        }
    if (r >= 0)
        joined[out->reference] = true;
    for (uint32_t n = 1; r >= 0 && n < m->hosts; n++) {
        uint32_t best_a = UINT32_MAX, best_b = 0;
        double best = DBL_MAX;
        bool contradiction = false;
        for (uint32_t a = 0; a < m->hosts; a++)
            for (uint32_t b = a + 1; b < m->hosts; b++) {
                const struct line *line = &lines[a * m->hosts + b];
                if (joined[a] == joined[b])
                    continue;
                contradiction |= fits[a * m->hosts + b] == -ERANGE;
                double error = line->error + (double)out->hosts[joined[a] ? a : b].error_ns;
                if (fits[a * m->hosts + b] == 0 && error < best) {
                    best = error;
                    best_a = a;
                    best_b = b;
                }
            }
        if (best_a == UINT32_MAX) {
            uint32_t lonely = 0;
            while (joined[lonely])
                lonely++;
            r = problem_set(
                problem, contradiction ? -ERANGE : -ENODATA, "%s: %s", trace_host_at(trace, lonely)->path,
                contradiction ? "its messages contradict a steady clock (it was set during the trace?)"
                              : "no messages in both directions between this host and the others");
            problem_remedy(problem,
                           "Record inet_sock_local_in and _out, or net_dev_queue and net_if_receive_skb.");
            break;
        }
        bool forward = joined[best_a];
        compose(m, &lines[best_a * m->hosts + best_b], forward, best_a, best_b, out);
        const struct host_pair *p = &m->pairs[best_a * m->hosts + best_b];
        struct host_alignment *h = &out->hosts[forward ? best_b : best_a];
        h->sent = forward ? p->backward : p->forward;
        h->received = forward ? p->forward : p->backward;
        joined[best_a] = joined[best_b] = true;
        joints[n - 1] = (struct joint){best_a, best_b, forward ? best_b : best_a};
    }
    if (r >= 0)
        spread_errors(m, joints, m->hosts - 1, out);
    free(joints);
    free(joined);
    free(lines);
    free(fits);
    return r;
}

void aligner_free(struct aligner *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; m->pairs && i < m->hosts * m->hosts; i++) {
        array_done(&m->pairs[i].upper);
        array_done(&m->pairs[i].lower);
    }
    free(m->pairs);
    free(m->origin);
    free(m->started);
    free(m->first_ns);
    free(m->last_ns);
    map_done(&m->by_key);
    array_done(&m->pending);
    free(m);
}

int align_begin(struct trace *trace, struct problem *problem, struct aligner **ret_aligner)
{
    uint32_t hosts = trace_host_count(trace);
    if (hosts > HOSTS_MAX)
        return problem_set(problem, -E2BIG, "more than %d hosts to align", HOSTS_MAX);
    _cleanup_(aligner_freep) struct aligner *m = calloc(1, sizeof(*m));
    if (!m)
        return problem_set(problem, -ENOMEM, "not enough memory");
    m->trace = trace;
    m->hosts = hosts;
    m->pairs = calloc((size_t)hosts * hosts, sizeof(*m->pairs));
    m->origin = calloc(hosts, sizeof(*m->origin));
    m->started = calloc(hosts, sizeof(*m->started));
    m->first_ns = calloc(hosts, sizeof(*m->first_ns));
    m->last_ns = calloc(hosts, sizeof(*m->last_ns));
    if (!m->origin || !m->started || !m->pairs || !m->first_ns || !m->last_ns)
        return problem_set(problem, -ENOMEM, "not enough memory");
    *ret_aligner = m;
    m = NULL;
    return 0;
}

int align_end(struct aligner *m, struct problem *problem, struct alignment **ret_alignment)
{
    _cleanup_(alignment_freep) struct alignment *out = calloc(1, sizeof(*out));
    if (out)
        out->hosts = calloc(m->hosts, sizeof(*out->hosts));
    if (!out || !out->hosts)
        return problem_set(problem, -ENOMEM, "not enough memory");
    out->count = m->hosts;
    int r = join_hosts(m, m->trace, problem, out);
    if (r < 0)
        return r;
    *ret_alignment = out;
    out = NULL;
    return 0;
}

int align_trace(struct trace *trace, struct problem *problem, struct alignment **ret_alignment)
{
    _cleanup_(aligner_freep) struct aligner *m = NULL;
    _cleanup_(alignment_freep) struct alignment *out = NULL;
    int r = align_begin(trace, problem, &m);
    if (r >= 0 && (r = collect(m, trace)) == -ENOMEM)
        problem_set(problem, r, "not enough memory");
    if (r >= 0)
        r = align_end(m, problem, &out);
    int rewound = trace_rewind(trace);
    if (r >= 0 && rewound < 0)
        r = problem_set(problem, rewound, "cannot read the trace again: %s", strerror(-rewound));
    if (r < 0)
        return r;
    *ret_alignment = out;
    out = NULL;
    return 0;
}

void alignment_free(struct alignment *alignment)
{
    if (!alignment)
        return;
    free(alignment->hosts);
    free(alignment);
}
