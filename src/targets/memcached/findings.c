/* What is found in the model of a Memcached server: misses, and a thread that has
 * most of the work. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>

#include "base/clock.h"
#include "targets/memcached/model.h"

/* The report outlives the model. */
static void place(struct finding *f, const struct memcached_server *server, uint64_t from_ns, uint64_t to_ns)
{
    f->where = (struct finding_place){
        .service = finding_say(f, "%s", server->name), .process = server->pid, .layer = "memcached"};
    f->from_ns = from_ns;
    f->to_ns = to_ns;
}

static int report_misses(const struct memcached_server *server, struct report *report)
{
    const struct memcached_misses *m = &server->misses;
    const struct memcached_keys *storm = &m->storm;
    char took[32], before[32];
    if (!storm->asked)
        return 0;
    struct finding *f = report_add_finding(report, FINDING_memcached_misses, SEVERITY_WARNING);
    if (!f)
        return -ENOMEM;
    place(f, server, storm->from_ns, storm->to_ns);
    uint64_t flushed_ns =
        m->flushed_ns && m->flushed_ns <= storm->from_ns ? storm->from_ns - m->flushed_ns : 0;
    f->title = finding_say(f,
                           "%s did not have %" PRIu64 " of %" PRIu64
                           " keys that it was asked for: %.0f %% instead of %.0f %%",
                           server->name, storm->missed, storm->asked, 100 * memcached_missed_share(storm),
                           100 * memcached_missed_share(&m->usual));
    f->detail = finding_say(
        f, "That was within %s%s%s%s. Each of them is work for what is behind the cache.%s",
        clock_format_duration(storm->to_ns - storm->from_ns, took, sizeof(took)),
        m->flushed_ns ? ", beginning " : "",
        m->flushed_ns ? clock_format_duration(flushed_ns, before, sizeof(before)) : "",
        m->flushed_ns ? " after a flush_all" : "",
        m->flushed_ns ? "" : " Whether the cache ever had them is not known: keys are not recorded.");
    if (m->flushed_ns)
        f->remedy = "Delete keys by name or let them expire at different times; flush_all makes every client "
                    "fill the cache at once.";
    int r = finding_add_count(f, "missed_count", storm->missed);
    r = finding_add_count(f, "asked_count", storm->asked) < 0 ? -ENOMEM : r;
    r = finding_add_real(f, "missed_share", memcached_missed_share(storm)) < 0 ? -ENOMEM : r;
    r = finding_add_real(f, "usual_share", memcached_missed_share(&m->usual)) < 0 ? -ENOMEM : r;
    return m->flushed_ns && finding_add_count(f, "flushed_ns", flushed_ns) < 0 ? -ENOMEM : r;
}

static double busy_share(const struct memcached_thread *thread)
{
    uint64_t seen_ns = thread->last_ns - thread->first_ns;
    return seen_ns ? (double)(seen_ns - MIN(seen_ns, thread->wait_ns)) / (double)seen_ns : 0;
}

/* The process's first thread accepts connections and executes nothing. */
static int report_busy(const struct memcached_server *server, struct report *report)
{
    static const double BUSY = 0.9, IDLE = 0.5;
    enum { LEAST_COMMANDS = 10000 };
    static const uint64_t LEAST_SEEN_NS = NS_PER_S;
    const struct memcached_thread *busiest = NULL;
    uint64_t commands = 0;
    double others = 0;
    unsigned workers = 0;
    array_foreach (&server->threads, thread) {
        workers += thread->tid != server->pid;
        commands += thread->commands;
        if (thread->tid != server->pid && (!busiest || busy_share(thread) > busy_share(busiest)))
            busiest = thread;
    }
    array_foreach (&server->threads, thread)
        if (thread != busiest && thread->tid != server->pid)
            others = MAX(others, busy_share(thread));
    if (workers < 2 || busiest->commands < LEAST_COMMANDS || busy_share(busiest) < BUSY || others > IDLE ||
        busiest->last_ns - busiest->first_ns < LEAST_SEEN_NS)
        return 0;
    struct finding *f = report_add_finding(report, FINDING_memcached_busy_thread, SEVERITY_INFO);
    if (!f)
        return -ENOMEM;
    place(f, server, busiest->first_ns, busiest->last_ns);
    f->title = finding_say(
        f, "thread %" PRId64 " of %s was busy %.0f %% of the time, and no other more than %.0f %%",
        busiest->tid, server->name, 100 * busy_share(busiest), 100 * others);
    f->detail =
        finding_say(f,
                    "It executed %" PRIu64 " of %" PRIu64 " commands. A connection stays with the thread "
                    "that it was given to, so that what comes on others of that thread waits.",
                    busiest->commands, commands);
    int r = finding_add_count(f, "tid", (uint64_t)busiest->tid);
    r = finding_add_real(f, "busy_share", busy_share(busiest)) < 0 ? -ENOMEM : r;
    r = finding_add_real(f, "others_busy_share", others) < 0 ? -ENOMEM : r;
    r = finding_add_count(f, "commands_count", busiest->commands) < 0 ? -ENOMEM : r;
    return finding_add_real(f, "commands_share", (double)busiest->commands / (double)commands) < 0 ? -ENOMEM
                                                                                                   : r;
}

int memcached_model_report(const struct memcached_model *model, struct report *report)
{
    int r = 0;
    array_foreach (&model->servers, server) {
        if (r >= 0)
            r = report_misses(server, report);
        if (r >= 0)
            r = report_busy(server, report);
    }
    return r;
}
