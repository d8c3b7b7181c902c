/* Queues of messages: who takes from which, and messages that waited because all of them were busy with
 * others. A consumer is a connection on which messages of a queue were taken; it is busy from taking a
 * message until that is dealt with (acknowledged, answered, or the next one asked for).
 *
 * A worker for a queue of jobs does several at a time, as many as it is configured to. How many is seen: a
 * job that waited for a place is begun when another one has ended, so that the worker then has as many as it
 * ever had, and had so many while the job waited. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "faults/faults.h"
#include "base/clock.h"

enum { CONSUMERS_MAX = 4096, PLACES_MAX = 256, CHAIN_MAX = 16 };

static const uint64_t WAIT_MIN_NS = 10 * NS_PER_MS;
/* Busy for so much of a wait, each of them; the rest is the broker's, or between the two. */
static const double BUSY_SHARE = 0.5;
/* What is left over is mentioned from this part of it on: a fifth. */
enum { LEFT_TOLD = 5 };

/* What a worker does one job at a time in. */
struct job_place {
    struct lane *lane;
    uint64_t message, since_ns; /* sequence of the one that it has; 0: none */
};

struct consumer {
    const struct process *process;
    int32_t fd;
    uint32_t generation;
    const char *broker, *queue; /* interned; queue may be NULL */
    uint64_t since_ns;          /* when it first took a message */
    uint64_t open_count, open_since_ns;
    bool settles; /* it says when it is done with a message */
    struct lane *lane;
    ARRAY(struct job_place) places; /* of jobs; in use from the first on */
    int64_t tid;                    /* the thread that took the newest */
};

struct consumer *consumer_of(struct analysis *a, const struct connection *c, const char *queue,
                             uint64_t now_ns)
{
    array_foreach (&a->consumers, place) {
        struct consumer *known = *place;
        if (known->process == c->process && known->fd == c->fd && known->generation == c->generation &&
            known->queue == queue)
            return known;
    }
    struct consumer *fresh = a->consumers.count < CONSUMERS_MAX ? calloc(1, sizeof(*fresh)) : NULL;
    if (!fresh)
        return NULL;
    *fresh = (struct consumer){.process = c->process,
                               .fd = c->fd,
                               .generation = c->generation,
                               .broker = c->peer_name,
                               .queue = queue,
                               .since_ns = now_ns};
    if (array_add(&a->consumers, fresh) < 0) {
        a->failed = true;
        free(fresh);
        return NULL;
    }
    return fresh;
}

const struct connection *consumer_connection(const struct consumer *c, int64_t pid)
{
    return c->process->pid == pid ? connection_get(c->process, c->fd, c->generation) : NULL;
}

void consumers_free(struct analysis *a)
{
    array_foreach (&a->consumers, place) {
        array_foreach (&(*place)->places, one)
            free(one->lane);
        array_done(&(*place)->places);
        free((*place)->lane);
        free(*place);
    }
    array_done(&a->consumers);
}

void consumer_takes(struct consumer *consumer, uint64_t now_ns)
{
    if (consumer && !consumer->open_count++)
        consumer->open_since_ns = now_ns;
}

/* The place that has the message; 0: the first that has none. */
static struct job_place *place_with(const struct consumer *consumer, uint64_t message)
{
    array_foreach (&consumer->places, place)
        if (place->message == message)
            return place;
    return NULL;
}

void consumer_begins(struct analysis *a, struct consumer *consumer, int64_t tid, uint64_t message,
                     uint64_t now_ns)
{
    if (!consumer)
        return;
    consumer->tid = tid;
    struct job_place *place = place_with(consumer, 0);
    if (!place && consumer->places.count < PLACES_MAX) {
        if (array_add(&consumer->places, (struct job_place){0}) < 0) {
            a->failed = true;
            return;
        }
        place = &consumer->places.at[consumer->places.count - 1];
    }
    if (place)
        place->message = message, place->since_ns = now_ns;
}

void consumer_is_done(struct analysis *a, struct consumer *consumer, const struct queue_message *m)
{
    if (!consumer)
        return;
    consumer->settles = true;
    struct job_place *place = m->is_job ? place_with(consumer, m->sequence) : NULL;
    if (place)
        place->message = 0;
    else
        consumer->open_count -= consumer->open_count > 0;
    if (place || !m->is_job)
        lane_add(a, place ? &place->lane : &consumer->lane, m->job, m->taken_ns, m->done_ns);
}

/* How much of [from, to) it was busy with other messages than the one that it took at to_ns; of jobs, every
 * place that it has. */
static double busy_share(const struct consumer *c, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t open_since_ns = c->open_count && c->open_since_ns < to_ns ? c->open_since_ns : 0;
    double least = c->places.count ? 1 : lane_busy_share(c->lane, open_since_ns, from_ns, to_ns);
    array_foreach (&c->places, place) {
        bool open = place->message && place->since_ns < to_ns;
        double share = lane_busy_share(place->lane, open ? place->since_ns : 0, from_ns, to_ns);
        least = MIN(least, share);
    }
    return least;
}

static void add_holders(struct fault *fault, const struct consumer *c, uint64_t from_ns, uint64_t to_ns)
{
    lane_add_holders(fault, c->lane, from_ns, to_ns);
    array_foreach (&c->places, place)
        lane_add_holders(fault, place->lane, from_ns, to_ns);
}

/* What the jobs of these consumers did meanwhile. */
static void add_what_they_did(struct fault *fault, const struct consumer *c, uint64_t from_ns, uint64_t to_ns)
{
    fault->places += (uint32_t)c->places.count;
    if (!c->places.count)
        return;
    fault->busy.all_ns += to_ns - from_ns;
    fault->busy.loop_ns += loop_busy_ns(c->process, c->tid, from_ns, to_ns);
    lanes_add_peers(fault->busy.peers, c->process, c->broker, from_ns, to_ns);
}

void consumers_judge(struct analysis *a, const struct consumer *taker, struct queue_message *m)
{
    const uint64_t sent_ns = m->sent_ns, taken_ns = m->taken_ns;
    if (!taker || taken_ns < sent_ns + WAIT_MIN_NS)
        return;
    /* It has never had so many: it was not a place that was waited for. */
    if (m->is_job && !place_with(taker, 0))
        return;
    uint32_t count = 0;
    double least = 1;
    const struct consumer *first = NULL;
    array_foreach (&a->consumers, place) {
        const struct consumer *c = *place;
        const struct connection *connection = connection_get(c->process, c->fd, c->generation);
        bool left = c->process->gone || !connection || connection->closed;
        if (c->queue != taker->queue || c->broker != taker->broker || (left && c != taker))
            continue;
        /* One that came while the message waited was not there to take it before. */
        uint64_t from_ns = MAX(sent_ns, c->since_ns);
        if (!c->settles)
            return;
        double share = from_ns < taken_ns ? busy_share(c, from_ns, taken_ns) : 1;
        if (share < BUSY_SHARE)
            return;
        least = MIN(least, share);
        first = first ? first : c;
        count++;
    }
    if (!first || taker->since_ns >= taken_ns) /* until now nobody took anything */
        return;
    char key[400];
    snprintf(key, sizeof(key), "%s|%s", taker->broker ? taker->broker : "", taker->queue ? taker->queue : "");
    struct fault *fault = fault_get(a, FINDING_consumers_busy, first->process, key);
    if (!fault)
        return;
    uint64_t took_ns = (uint64_t)(least * (double)(taken_ns - sent_ns));
    m->busy_share = least;
    m->waited_at = first->process;
    m->waited_key = intern_string(a, key);
    fault->process = first->process;
    fault->pid = first->process->pid;
    fault->command = taker->queue;
    fault->asked = taker->broker;
    fault->lanes = MAX(fault->lanes, count);
    fault->count++;
    fault->total_ns += took_ns;
    fault->left_ns += taken_ns - sent_ns - took_ns;
    fault->worst_ns = MAX(fault->worst_ns, took_ns);
    fault->from_ns = MIN(fault->from_ns, sent_ns);
    fault->to_ns = MAX(fault->to_ns, taken_ns);
    fault->places = 0;
    array_foreach (&a->consumers, place) {
        if ((*place)->queue != taker->queue || (*place)->broker != taker->broker)
            continue;
        add_holders(fault, *place, sent_ns, taken_ns);
        add_what_they_did(fault, *place, sent_ns, taken_ns);
    }
}

/* Of the messages that it sent, it waited for those on its path. */
void consumers_request_done(struct analysis *a, struct request *request)
{
    array_foreach (&request->path_steps, step) {
        const struct vspan *span = step->span != VSPAN_NONE ? &request->spans.at[step->span] : NULL;
        bool waited = span && span->message && step->class == PATH_QUEUE && !step->of_child;
        const struct queue_message *m = waited ? queue_message_at(a, span->sequence) : NULL;
        struct fault *fault = m && m->waited_key && m->owner == request->serial
                                  ? fault_get(a, FINDING_consumers_busy, m->waited_at, m->waited_key)
                                  : NULL;
        if (!fault)
            continue;
        uint64_t took_ns = (uint64_t)(m->busy_share * (double)(step->end_ns - step->start_ns));
        fault_add_request(a, fault, request, took_ns, VICTIM_WAITED);
        const struct request *up = request->caller;
        for (int i = 0; up && i < CHAIN_MAX; i++, up = up->caller)
            fault_add_request(a, fault, up, took_ns, VICTIM_UPSTREAM);
    }
}

/* What of the waits no consumer was busy for is the broker's, or the way's there and back. */
static const char *what_is_left(struct finding *f, const struct fault *fault)
{
    struct duration left;
    if (fault->left_ns * LEFT_TOLD < fault->total_ns)
        return "";
    return finding_say(
        f,
        " For another %s a consumer was between two: they were with the broker or on their way "
        "(without noDelay the kernel may keep a small write back for 40 ms).",
        say_ns(&left, fault->left_ns));
}

/* What the jobs did for most of the time. */
static const char *what_jobs_did(struct finding *f, const struct fault *fault)
{
    double share;
    const struct busy_jobs *busy = &fault->busy;
    const struct holder *peer = holder_of_most(busy->peers, &share);
    double all_ns = (double)MAX(busy->all_ns, 1u), computing = (double)busy->loop_ns / all_ns,
           waiting = MIN((double)peer->total_ns / all_ns, 1);
    if (computing >= BUSY_SHARE)
        return finding_say(f, "the event loop of %s was at work for %.0f %% of that time", fault->service,
                           computing * 100);
    if (peer->route && waiting >= BUSY_SHARE)
        return finding_say(f, "%s waited for %s for %.0f %% of that time", fault->service, peer->route,
                           waiting * 100);
    return finding_say(f,
                       "%s was at work for %.0f %% of that time, and no call to another address took most of "
                       "the rest: timers, locks of the program's own, or something that sonde does not trace",
                       fault->service, computing * 100);
}

static void verdict_jobs(struct finding *f, const struct fault *fault, const char *queue)
{
    struct duration worst, all, held;
    double share;
    const struct holder *most = holder_of_most(fault->holders, &share);
    const char *did = what_jobs_did(f, fault);
    const char *workers = fault->lanes == 1 ? "" : finding_say(f, ", of %u workers together,", fault->lanes);
    f->title = finding_say(
        f, "Jobs of %s waited for one of %u place%s of %s%s: %llu time%s, up to %s each, %s in total", queue,
        fault->places, fault->places == 1 ? "" : "s", fault->service, workers,
        (unsigned long long)fault->count, fault->count == 1 ? "" : "s", say_ns(&worst, fault->worst_ns),
        say_ns(&all, fault->total_ns));
    f->detail = finding_say(
        f,
        "They had been added to the queue%s%s, and each place was busy with another job, up to %s at a time. "
        "While they waited, %s.%s%s",
        fault->asked ? " at " : "", fault->asked ? fault->asked : "", say_ns(&held, most->worst_ns), did,
        what_is_left(f, fault), fault->victims.count ? "" : " No request was seen to wait for them.");
    finding_add_count(f, "places_count", fault->places);
    finding_add_text(f, "held_by", did);
}

static void verdict_messages(struct finding *f, const struct fault *fault, const char *queue)
{
    struct duration worst, all, held;
    double share;
    const struct holder *most = holder_of_most(fault->holders, &share);
    const char *who = fault->lanes == 1
                          ? finding_say(f, "%s, their only consumer, was", fault->service)
                          : finding_say(f, "all %u consumers (%s) were", fault->lanes, fault->service);
    f->title = finding_say(
        f, "Messages to %s waited because %s busy with others: %llu time%s, up to %s each, %s in total",
        queue, who, (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
        say_ns(&worst, fault->worst_ns), say_ns(&all, fault->total_ns));
    f->detail = finding_say(
        f, "They had been given to the broker%s%s. A consumer was busy with one message for up to %s.%s%s",
        fault->asked ? " at " : "", fault->asked ? fault->asked : "", say_ns(&held, most->worst_ns),
        what_is_left(f, fault), fault->victims.count ? "" : " No request was seen to wait for them.");
}

void verdict_consumers(struct analysis *a, struct finding *f, const struct fault *fault)
{
    double share;
    const char *queue = fault->command ? fault->command : "a queue";
    verdict_place(f, fault, "queue");
    if (fault->places)
        verdict_jobs(f, fault, queue);
    else
        verdict_messages(f, fault, queue);
    finding_add_text(f, "queue", queue);
    if (fault->asked)
        finding_add_text(f, "peer", fault->asked);
    finding_add_count(f, "consumers_count", fault->lanes);
    finding_add_count(f, "waits_count", fault->count);
    finding_add_count(f, "waited_ns", fault->total_ns);
    finding_add_count(f, "left_ns", fault->left_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "held_worst_ns", holder_of_most(fault->holders, &share)->worst_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}
