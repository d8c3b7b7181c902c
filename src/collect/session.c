/* See session.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan_worker.h"
#include "collect/session_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <math.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

/* Times what writing it took: half a percent of a CPU at most when somebody is missing in it, a tenth when
 * there are only more events. */
#define MANIFEST_PAUSE_WANTED 200
#define MANIFEST_PAUSE        1000

/* A ring of 512 KiB holds some 8,000 records: four milliseconds of the fastest program seen. */
enum { IDLE_MIN_US = 500, IDLE_MAX_US = 4000 };

/* ---- life ---- */

/* While we wait for a CPU, rings fill. So on a busy machine we get one soon, and still no more than the
 * budget allows; where we may, and unless we were told to give way. What we start is as it would be without
 * us. */
enum { NICE = -10 };

static void take_precedence(void)
{
    const struct sched_param normal = {0};
    if (sched_getscheduler(0) != SCHED_OTHER || getpriority(PRIO_PROCESS, 0) != 0 ||
        setpriority(PRIO_PROCESS, 0, NICE) < 0)
        return;
    if (sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &normal) < 0)
        (void)setpriority(PRIO_PROCESS, 0, 0);
}

static void give_precedence_back(void)
{
    if (getpriority(PRIO_PROCESS, 0) == NICE)
        (void)setpriority(PRIO_PROCESS, 0, 0);
}

static int listen_for_probes(struct session *session, struct problem *problem)
{
    const char *base = file_temporary_folder();
    if (strlen(base) > 30)
        base = "/tmp";
    snprintf(session->socket_folder, sizeof(session->socket_folder), "%s/sonde-XXXXXX", base);
    if (!mkdtemp(session->socket_folder)) {
        session->socket_folder[0] = '\0';
        return problem_set(problem, -errno, "%s: no directory for the probes' socket can be created: %s",
                           base, strerror(errno));
    }
    snprintf(session->socket_path, sizeof(session->socket_path), "%s/socket", session->socket_folder);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", session->socket_path);
    session->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (session->listener < 0 || bind(session->listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(session->listener, SOMAXCONN) < 0)
        return problem_set(problem, -errno, "%s: cannot listen: %s", session->socket_path, strerror(errno));
    return 0;
}

/* Each thread costs two descriptors: what the limit allows is ours, the command keeps the limit it had. */
static void raise_descriptor_limit(struct session *session)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    session->descriptors = limit;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* While a worker reads a program, which may take longer than it takes to fill a ring. */
static void go_on_meanwhile(void *context)
{
    struct session *session = context;
    session_tell_guests_to_wait(session);
    array_foreach (&session->programs, p)
        if (!(*p)->ended_ns && !(*p)->quiet)
            (void)program_drain(*p, session->writer, &session->fit);
}

int session_new(const struct session_options *options, struct session **ret_session, struct problem *problem)
{
    _cleanup_(session_freep) struct session *session = calloc(1, sizeof(*session));
    if (!session)
        return -ENOMEM;
    session->options = *options;
    session->listener = session->child_pidfd = session->news = session->spare = session->audit.file =
        session->audit.socket = -1;
    session->idle_us = IDLE_MAX_US;
    if (!session->options.stall_ns)
        session->options.stall_ns = 20 * NS_PER_MS;
    if (!session->options.written_every_ns)
        session->options.written_every_ns = NS_PER_S / 2;
    session->probe_path = realpath(options->probe_path, NULL);
    if (!session->probe_path) {
        int r = problem_set(problem, -errno, "%s: the probe cannot be opened: %s", options->probe_path,
                            strerror(errno));
        problem_remedy(problem, r == -EACCES ? "Install sonde where everybody may read it (make install)."
                                             : "Build it with `make build`, or name it in SONDE_PROBE.");
        return r;
    }
    session->probes = probe_files_of(session->probe_path);
    int r = audit_open(options->audit_file, &session->audit, problem);
    if (r < 0)
        return r;
    r = ctf_writer_create(options->folder, &session->writer, problem);
    if (r < 0)
        return r;
    session->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    r = listen_for_probes(session, problem);
    if (r >= 0)
        r = session_news_begin(session);
    if (r >= 0)
        r = stall_sampler_new(&session->sampler);
    if (r >= 0)
        r = broker_new(&plan_worker, &session->plans, problem);
    if (r >= 0)
        broker_while_waiting(session->plans, go_on_meanwhile, session);
    if (r >= 0)
        stall_while_waiting(session->sampler, go_on_meanwhile, session);
    if (r >= 0)
        r = ctf_stream_open(session->writer, (uint32_t)getpid(), (uint32_t)getpid(), &session->own);
    if (r >= 0)
        r = session_kernel_begin(session);
    if (r >= 0)
        session_overhead_begin(session);
    if (r < 0)
        return r;
    if (options->user && (chown(session->socket_folder, options->user, (gid_t)-1) < 0 ||
                          chown(session->socket_path, options->user, (gid_t)-1) < 0))
        return problem_set(problem, -errno, "%s: cannot be given to user %u: %s", session->socket_path,
                           options->user, strerror(errno));
    raise_descriptor_limit(session);
    clock_fit_init(&session->fit);
    session->started_ns = session->flush_began_ns = clock_monotonic_ns();
    r = session_write_manifest(session, false);
    if (r < 0)
        return problem_set(problem, r, "%s: cannot be written: %s", options->folder, strerror(-r));
    take_precedence();
    *ret_session = session;
    session = NULL;
    return 0;
}

void session_free(struct session *session)
{
    if (!session)
        return;
    array_foreach (&session->programs, p)
        program_free(*p);
    array_done(&session->programs);
    ended_done(&session->ended);
    broker_free(session->plans);
    untraced_done(&session->untraced);
    array_foreach (&session->newcomers, n)
        proc_unref(n->proc);
    array_done(&session->newcomers);
    session_dismiss(session);
    machine_done(&session->machine);
    stall_sampler_free(session->sampler);
    ctf_stream_free(session->own);
    ctf_stream_free(session->kernel_stream);
    kernel_free(session->kernel);
    ctf_writer_free(session->writer);
    if (session->news >= 0)
        close(session->news);
    if (session->listener >= 0)
        close(session->listener);
    if (session->spare >= 0)
        close(session->spare);
    if (session->child_pidfd >= 0)
        close(session->child_pidfd);
    if (session->socket_path[0])
        unlink(session->socket_path);
    if (session->socket_folder[0])
        rmdir(session->socket_folder);
    audit_close(&session->audit);
    probe_files_done(&session->probes);
    free(session->probe_path);
    free(session);
}

/* ---- the command ---- */

static void set_environment(const struct session *session)
{
    setrlimit(RLIMIT_NOFILE, &session->descriptors);
    const char *others = getenv("LD_PRELOAD");
    char preload[2 * PATH_MAX];
    snprintf(preload, sizeof(preload), "%s%s%s", session->probe_path, others && others[0] ? ":" : "",
             others ? others : "");
    setenv("LD_PRELOAD", preload, 1);
    setenv(SONDE_SOCKET_VARIABLE, session->socket_path, 1);
}

/* The command runs as another user than sonde, with that user's groups and home. */
static int become_user(uid_t user)
{
    const struct passwd *entry = user ? getpwuid(user) : NULL;
    if (!user)
        return 0;
    gid_t group = entry ? entry->pw_gid : (gid_t)user;
    if ((entry ? initgroups(entry->pw_name, group) : setgroups(0, NULL)) < 0 || setgid(group) < 0 ||
        setuid(user) < 0)
        return -errno;
    if (entry) {
        setenv("HOME", entry->pw_dir, 1);
        setenv("USER", entry->pw_name, 1);
        setenv("LOGNAME", entry->pw_name, 1);
    }
    return 0;
}

enum { PROBE_UNREADABLE = 1 << 16 }; /* among errno's numbers, from the child */

static int wait_for_exec(int fd)
{
    int error = 0;
    ssize_t n;
    do
        n = read(fd, &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    return n == sizeof(error) ? -error : 0;
}

int session_spawn(struct session *session, char *const argv[], pid_t *ret_pid, struct problem *problem)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) < 0)
        return problem_set(problem, -errno, "no pipe can be made: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        set_environment(session);
        int error = -become_user(session->options.user);
        if (!error && access(session->probe_path, R_OK) < 0)
            error = PROBE_UNREADABLE;
        if (!error) {
            execvp(argv[0], argv);
            error = errno;
        }
        if (write(ready[1], &error, sizeof(error)) < 0)
            _exit(126);
        _exit(127);
    }
    int r = pid < 0 ? -errno : 0;
    close(ready[1]);
    if (r == 0)
        r = wait_for_exec(ready[0]);
    close(ready[0]);
    if (r < 0) {
        if (pid > 0)
            waitpid(pid, NULL, 0);
        if (r == -PROBE_UNREADABLE) {
            problem_set(problem, -EACCES, "%s: user %u, as whom the command would run, cannot read the probe",
                        session->probe_path, session->options.user);
            problem_remedy(problem,
                           "Install sonde where everybody may read it (make install), or give --user root.");
            return -EACCES;
        }
        problem_set(problem, r, "%s: cannot be run: %s", argv[0], strerror(-r));
        if (r == -ENOENT)
            problem_remedy(problem, "Give the command as you would type it, after `--`.");
        return r;
    }
    session->child = pid;
    session->child_pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (session->child_pidfd < 0 || session_news_add(session, session->child_pidfd, session) < 0)
        session->child_gone = true; /* it is asked every time */
    *ret_pid = pid;
    return 0;
}

/* ---- the loop ---- */

static void note_write_error(struct session *session)
{
    struct ctf_totals totals;
    ctf_writer_totals(session->writer, &totals);
    if (totals.write_error && totals.write_error != session->write_error_noted) {
        session->write_error_noted = totals.write_error;
        session_note(session, "%s: events cannot be written and are lost (counted): %s",
                     ctf_writer_folder(session->writer), strerror(-totals.write_error));
    }
}

/* What belongs to no program. */
static void flush_rest(struct session *session)
{
    session_kernel_tell_losses(session);
    if (session->kernel_stream)
        (void)ctf_stream_flush(session->kernel_stream);
    (void)ctf_stream_flush(session->own);
    note_write_error(session);
}

static void flush_all(struct session *session)
{
    array_foreach (&session->programs, p) {
        session_tell_losses(session, *p);
        for (uint32_t i = 0; i < (*p)->thread_count; i++)
            if ((*p)->threads[i].stream)
                (void)ctf_stream_flush((*p)->threads[i].stream);
    }
    flush_rest(session);
}

/* Threads that are gone leave their slot to new ones: those that are certainly gone, since the probe does not
 * look whose its slot is. */
static void free_slots(struct session *session, struct program *program)
{
    for (uint32_t i = 0; i < program->thread_count; i++) {
        struct program_thread *t = &program->threads[i];
        if (!ring_owner(t->ring) || !program_thread_gone(program, t))
            continue;
        session_tell_thread_losses(session, program, t); /* what it lost is not the next one's */
        (void)ring_release(t->ring, t->owner);
    }
}

/* A thread takes some CPU time to begin and to end. */
static void check_slots(struct session *session, struct program *program)
{
    program->checks_slots = !program->quiet;
    if (program->quiet && program->cpu_ns && program->cpu_ns - program->slots_cpu_ns < NS_PER_MS / 2)
        return;
    program->slots_cpu_ns = program->cpu_ns;
    free_slots(session, program);
}

/* Every so often all that was recorded is written. With many threads that takes longer than it takes to fill
 * a ring, above all the first time, when they get their files. So it is done in turns, between which rings
 * are drained. */
static const uint64_t FLUSH_TURN_NS = NS_PER_MS;

/* False: the turn is over. */
static bool flush_program(struct session *session, struct program *program, uint64_t until_ns)
{
    if (!program->flush_next)
        session_tell_losses(session, program);
    for (; program->flush_next < program->thread_count; program->flush_next++) {
        struct ctf_stream *stream = program->threads[program->flush_next].stream;
        if (clock_monotonic_ns() > until_ns)
            return false;
        if (stream)
            (void)ctf_stream_flush(stream);
    }
    program->flush_next = 0;
    program->flushed_ns = session->flush_began_ns;
    if (!program->ended_ns && program->checks_slots)
        check_slots(session, program);
    return true;
}

static void flush_in_turns(struct session *session, uint64_t now_ns)
{
    uint64_t until_ns = clock_monotonic_ns() + FLUSH_TURN_NS;
    if (!session->flushing) {
        if (now_ns - session->flush_began_ns <= session->options.written_every_ns)
            return;
        session->flush_began_ns = now_ns;
        session->flushing = true;
    }
    array_foreach (&session->programs, p)
        if ((*p)->flushed_ns != session->flush_began_ns && !flush_program(session, *p, until_ns))
            return;
    flush_rest(session);
    session->flushing = false;
}

static void take_anchor(struct session *session)
{
    struct record_clock_jump record = {.ahead_ns = clock_fit_anchor(&session->fit)};
    if (!record.ahead_ns)
        return;
    ctf_stream_write(session->own, SONDE_EVENT_clock_jump, clock_monotonic_ns(), 0, &record, NULL);
    session_note(session, "the CPUs' time stamp counter went %s by %.3f s (a suspend, a migration?)",
                 record.ahead_ns > 0 ? "ahead" : "back", fabs((double)record.ahead_ns) / (double)NS_PER_S);
}

static bool has_living_program(const struct session *session)
{
    array_foreach (&session->programs, p)
        if (!(*p)->ended_ns)
            return true;
    return false;
}

bool session_command_runs(const struct session *session)
{
    return session->child;
}

static bool command_ended(struct session *session, uint64_t now_ns)
{
    if (!session->child_gone)
        return false;
    pid_t group = getsid(session->child); /* it has one until we wait for it */
    if (waitpid(session->child, &session->command_status, WNOHANG) != session->child)
        return false;
    session->child = 0;
    session->command_group = group;
    session->command_ended_ns = now_ns;
    if (session->child_pidfd >= 0) {
        session_news_remove(session, session->child_pidfd);
        close(session->child_pidfd);
    }
    session->child_pidfd = -1;
    return true;
}

/* At once when somebody is missing in it; as long as nothing is recorded, seldom. */
static bool manifest_is_due(const struct session *session, uint64_t now_ns)
{
    struct ctf_totals totals;
    uint64_t age_ns = now_ns - session->manifest_ns;
    ctf_writer_totals(session->writer, &totals);
    uint64_t pause_ns = session->manifest_wanted                    ? 0
                        : totals.events != session->manifest_events ? 2 * NS_PER_S
                                                                    : 60 * NS_PER_S;
    uint64_t times = session->manifest_wanted ? MANIFEST_PAUSE_WANTED : MANIFEST_PAUSE;
    return age_ns > pause_ns && age_ns > times * session->manifest_took_ns;
}

int session_step(struct session *session, int *ret_status)
{
    if (session_wait_for_news(session, session->flushing || session_expects(session)))
        session_welcome(session);
    uint64_t now = clock_monotonic_ns();
    if (session->guests.count) {
        uint64_t before_ns = session_cpu_ns(session);
        session_admit(session, now);
        session->setup_ns += session_cpu_ns(session) - before_ns;
    }
    if (clock_fit_is_due(&session->fit, now) || clock_fit_is_off(&session->fit))
        take_anchor(session);
    unsigned fullest = session_kernel_drain(session);
    session_watch_filtered(session, now);
    array_foreach (&session->programs, p) {
        if ((*p)->ended_ns || session_skips(session, *p, now))
            continue;
        unsigned fullness = program_drain(*p, session->writer, &session->fit);
        (*p)->was_empty = !fullness;
        fullest = MAX(fullest, fullness);
        if ((*p)->gone) /* before the drain: nothing comes after it */
            session_end_program(session, *p, true);
    }
    session_notice_quiet(session, now);
    array_foreach (&session->programs, p)
        if ((*p)->came_to_rest && !(*p)->ended_ns)
            session_tend_rest(session, *p, now);
    /* Rings should be about an eighth full when we come: sooner next time when they were fuller. */
    if (fullest > 32)
        session->idle_us = MAX(session->idle_us / 2, (unsigned)IDLE_MIN_US);
    else if (fullest < 16)
        session->idle_us = MIN(session->idle_us + session->idle_us / 4 + 1, (unsigned)IDLE_MAX_US);
    if (now - session->tended_ns > 9 * NS_PER_MS) {
        session->tended_ns = now;
        session_tend(session, now);
    }
    session_overhead_tick(session, now);
    flush_in_turns(session, now);
    session_follow(session, now);
    session_forget_ended(session);
    if (manifest_is_due(session, now))
        (void)session_write_manifest(session, false);
    if (session->child && !command_ended(session, now))
        return 1;
    *ret_status = session->command_status;
    return session->guests.count       ? 1
           : session->command_ended_ns ? session_outlived(session, now)
                                       : has_living_program(session) || session_expects(session);
}

int session_finish(struct session *session, struct problem *problem)
{
    if (session->finished)
        return 0;
    session->finished = true;
    session_dismiss(session);
    session_detach_all(session);
    array_foreach (&session->programs, p) {
        if ((*p)->ended_ns)
            continue;
        bool gone = proc_has_ended((*p)->proc);
        if (!gone && session->command_ended_ns)
            session_note(session, "%s (%d) runs on, untraced; `sonde attach %d` traces it again", (*p)->name,
                         (*p)->pid, (*p)->pid);
        session_end_program(session, *p, gone);
        if (!gone)
            (*p)->ended_ns = 0;
    }
    session_dismiss(session); /* who has arrived since */
    session_kernel_finish(session);
    flush_all(session);
    ctf_stream_free(session->own);
    ctf_stream_free(session->kernel_stream);
    session->own = session->kernel_stream = NULL;
    give_precedence_back();
    int r = session_write_manifest(session, true);
    if (r < 0)
        return problem_set(problem, r, "%s: the manifest cannot be written: %s",
                           ctf_writer_folder(session->writer), strerror(-r));
    return 0;
}
