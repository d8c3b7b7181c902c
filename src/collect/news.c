/* What a session waits for, and which of its programs do nothing.
 *
 * A program is quiet when no thread of it has used a CPU for a while, by the kernel's account of the process.
 * Nothing is read of a quiet program: its thread times, memory, filters, children cannot have changed. It is
 * quiet no longer when the kernel's side says that one of its threads runs, or when a record of it arrives.
 *
 * With the kernel's side two looks at the account that see the same are enough, since it tells what happens
 * after the first. A service of which nothing is asked wakes up now and then, for a moment; with hundreds of
 * them, what each such moment costs is what sonde costs. Without the kernel's side a second must have passed,
 * and the account is still read afterwards, ever more seldom.
 *
 * While all programs are quiet, and the kernel's side would say when one is not, the session sleeps, the
 * longer the longer they have been quiet: the first thread that runs wakes it (bpf/activity.bpf.c), so that
 * no ring fills unseen. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/session_internal.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Long enough that what is recorded once a second has been recorded with its last value. */
static const uint64_t QUIET_AFTER_NS = 1200 * NS_PER_MS, LOOK_NS = 100 * NS_PER_MS, LOOK_MAX_NS = NS_PER_S;
static const uint64_t REPORTED_LOOK_NS = 10 * NS_PER_MS;

/* The scheduler's tracepoint misses a thread now and then, so rings of quiet programs are looked at all the
 * same: fifty times a second at first, later ten times, because with hundreds of programs these looks are
 * most of what an idle host costs. With many programs it is ten times at once, and those that do something
 * but had nothing in their rings when we looked last are left out now and then, too. */
static const uint64_t DRAIN_QUIET_NS = 20 * NS_PER_MS, DRAIN_MAX_NS = 100 * NS_PER_MS;
static const uint64_t DRAIN_QUIET_EACH_NS = NS_PER_MS / 2, DRAIN_EMPTY_EACH_NS = NS_PER_MS / 20;

/* A program that was attached to while it computed shows that within this time (watch.c). */
static const uint64_t MIDWAY_NS = 3 * NS_PER_S;

/* Ctrl-C, and whatever else the session's user looks at between two steps, waits for so long at most. */
static const uint64_t DEEP_SLEEP_NS = 100 * NS_PER_MS;

/* ---- who does nothing ---- */

/* Of all threads of the process, also of those that have ended; 0 when that is not to be had. */
static uint64_t process_cpu_ns(struct program *program)
{
    struct timespec t;
    if (!program->has_cpu_clock && clock_getcpuclockid(program->pid, &program->cpu_clock) != 0)
        return 0;
    program->has_cpu_clock = true;
    if (clock_gettime(program->cpu_clock, &t) < 0)
        return 0;
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

void session_program_runs(struct program *program, bool reported, uint64_t now_ns)
{
    if (program->quiet)
        program->woke_ns = now_ns;
    program->quiet = false;
    program->checks_slots = program->checks_children = true;
    program->ran_ns = now_ns;
    program->cpu_next_ns = now_ns + (reported ? REPORTED_LOOK_NS : LOOK_NS);
}

/* May the next look at it wait until the kernel's side says that it runs? Not while something is open that
 * may be taking long without any CPU. */
static bool may_rest(const struct program *program, uint64_t now_ns)
{
    return !program_is_amid_callback(program) &&
           !(program->midway && now_ns - program->started_ns < MIDWAY_NS);
}

static void look_at_account(struct program *program, bool reported, uint64_t now_ns)
{
    uint64_t cpu_ns = process_cpu_ns(program), still_ns = now_ns - program->ran_ns;
    program->cpu_next_ns = now_ns + (reported         ? REPORTED_LOOK_NS
                                     : program->quiet ? MIN(MAX(still_ns / 20, LOOK_NS), LOOK_MAX_NS)
                                                      : LOOK_NS);
    if (cpu_ns != program->cpu_ns || !cpu_ns) {
        program->cpu_ns = cpu_ns;
        session_program_runs(program, reported, now_ns);
    } else if (!program->quiet && (still_ns > QUIET_AFTER_NS || (reported && may_rest(program, now_ns)))) {
        program->quiet = program->came_to_rest = true;
    }
}

/* The kernel's side says so of every thread that it follows, unless records of it were lost of late. */
bool session_kernel_reports(const struct session *session, uint64_t now_ns)
{
    return session->kernel && kernel_tells_running(session->kernel) &&
           !session->kernel_lost[SONDE_COUNT_THREADS_LOST] &&
           (!session->kernel_lost_ns || now_ns - session->kernel_lost_ns > QUIET_AFTER_NS);
}

void session_notice_quiet(struct session *session, uint64_t now_ns)
{
    bool all_reported = session_kernel_reports(session, now_ns);
    array_foreach (&session->programs, p) {
        struct program *program = *p;
        bool reported = all_reported && program->followed;
        if (program->ended_ns)
            continue;
        if (program->drained || (session->kernel && kernel_has_run(session->kernel, program->pid)) ||
            (program->quiet && !reported && program_is_amid_callback(program)))
            session_program_runs(program, reported, now_ns);
        else if (now_ns >= program->cpu_next_ns && !(program->quiet && reported))
            look_at_account(program, reported, now_ns);
        program->drained = false;
    }
    if (session->kernel)
        kernel_forget_running(session->kernel);
}

static uint64_t drain_gap_ns(const struct session *session, const struct program *program, uint64_t now_ns)
{
    size_t programs = session->programs.count;
    return MIN(program->quiet
                   ? MAX(MAX((now_ns - program->ran_ns) / 8, DRAIN_QUIET_NS), programs * DRAIN_QUIET_EACH_NS)
                   : programs * DRAIN_EMPTY_EACH_NS,
               DRAIN_MAX_NS);
}

bool session_skips(const struct session *session, struct program *program, uint64_t now_ns)
{
    if ((program->quiet || program->was_empty) && program->followed && !program->gone &&
        now_ns < program->drain_next_ns && !kernel_has_run(session->kernel, program->pid) &&
        session_kernel_reports(session, now_ns))
        return true;
    program->drain_next_ns = now_ns + drain_gap_ns(session, program, now_ns);
    return false;
}

/* ---- waiting ---- */

int session_news_begin(struct session *session)
{
    session->news = epoll_create1(EPOLL_CLOEXEC);
    if (session->news < 0)
        return -errno;
    return session_news_add(session, session->listener, NULL);
}

int session_news_add(struct session *session, int fd, void *whose)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = whose};
    return epoll_ctl(session->news, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int session_also_wait(struct session *session, int fd, bool *readable)
{
    session->readable = readable;
    return session_news_add(session, fd, readable);
}

void session_news_remove(struct session *session, int fd)
{
    (void)epoll_ctl(session->news, EPOLL_CTL_DEL, fd, NULL);
}

/* How long, when somebody would say that there is something to do; 0: nobody would. */
static uint64_t may_sleep_ns(const struct session *session, uint64_t now_ns)
{
    uint64_t ran_ns = 0;
    if (session->command_ended_ns || session->guests.count)
        return 0;
    bool reported = session_kernel_reports(session, now_ns);
    array_foreach (&session->programs, p) {
        if (!(*p)->ended_ns && !((*p)->quiet && (*p)->followed && reported))
            return 0;
        ran_ns = MAX(ran_ns, (*p)->ran_ns);
    }
    return MIN(MAX(now_ns - ran_ns, session->idle_us * NS_PER_US), DEEP_SLEEP_NS);
}

/* Sonde sleeps most of the time and runs soon after it is woken. When it did not, nothing did: the virtual
 * machine was paused, or has far too much work. What took long then is not the programs' fault. */
static void note_machine_stall(struct session *session, uint64_t due_ns, uint64_t awake_ns)
{
    enum { LATE_MS = 40 };
    if (awake_ns < due_ns + LATE_MS * NS_PER_MS)
        return;
    struct record_machine_stall record = {.late_ns = awake_ns - due_ns};
    ctf_stream_write(session->own, SONDE_EVENT_machine_stall, awake_ns, awake_ns - due_ns, &record, NULL);
}

/* Who has ended is marked; true: somebody knocks. */
static bool take_news(struct session *session)
{
    struct epoll_event events[64];
    bool knocks = false;
    int count = epoll_wait(session->news, events, ARRAY_SIZE(events), 0);
    for (int i = 0; i < count; i++) {
        void *whose = events[i].data.ptr;
        if (!whose)
            knocks = true;
        else if (whose == session)
            session->child_gone = true;
        else if (whose == session->readable)
            *session->readable = true;
        else
            ((struct program *)whose)->gone = true;
    }
    return knocks;
}

bool session_wait_for_news(struct session *session, bool expects)
{
    uint64_t asleep_ns = clock_monotonic_ns(), sleep_ns = session->idle_us * NS_PER_US;
    struct pollfd wait[2] = {{.fd = session->news, .events = POLLIN}};
    nfds_t count = 1;
    uint64_t may_ns = expects ? 0 : may_sleep_ns(session, asleep_ns);
    bool deep = may_ns;
    if (deep)
        sleep_ns = may_ns;
    else if (session->guests.count)
        sleep_ns = MIN(sleep_ns, NS_PER_MS);
    if (deep && session->kernel) { /* what is in its ring already ends the wait at once */
        kernel_sleep(session->kernel, true);
        wait[count++] = (struct pollfd){.fd = kernel_poll_fd(session->kernel), .events = POLLIN};
    }
    const struct timespec timeout = {.tv_nsec = (long)sleep_ns};
    int ready = ppoll(wait, count, &timeout, NULL);
    if (deep && session->kernel)
        kernel_sleep(session->kernel, false);
    note_machine_stall(session, asleep_ns + sleep_ns, clock_monotonic_ns());
    return ready > 0 && wait[0].revents & POLLIN && take_news(session);
}
