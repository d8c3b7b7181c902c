/* See observe.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/observe.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/aside.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "collect/kernel.h"
#include "collect/level.h"
#include "collect/session.h"
#include "observe/observe_internal.h"

static const uint64_t PATIENCE_NS = 2 * NS_PER_S; /* what a command has to end by itself */
static const uint64_t END_NS = 5 * NS_PER_S;      /* what all programs have to let go of what was hooked */

/* Whoever is called when a descriptor can be read. */
struct waiting {
    void (*ready)(void *context);
    void *context;
};

struct observation {
    struct observe_options options;
    struct session *session;
    struct follower follower;
    const char *folder;
    char folder_name[64]; /* when it was named by us */
    pid_t command;        /* 0: none was started */
    int command_status;   /* as wait() has it */
    int events;           /* epoll: the stop below, and others' descriptors */
    int stop;             /* eventfd: how often it was stopped */
    bool readable;        /* events is; set by the session */
    bool watched;         /* the session looks at events; else it is asked after each step */
    unsigned stops;
    uint64_t first_stop_ns;
    bool ended;
    ARRAY(struct waiting *) waiting;
};

void observe_note(const struct observation *o, const char *line)
{
    if (o->options.note)
        o->options.note(o->options.context, line);
}

void observe_warn(const struct observation *o, const char *line)
{
    if (o->options.warn)
        o->options.warn(o->options.context, line);
    else
        observe_note(o, line);
}

/* ---- options ---- */

static int parse_context(const char *name, enum sonde_context *ret_context, struct problem *problem)
{
    static const struct {
        const char *name;
        enum sonde_context context;
    } MODES[] = {{"auto", SONDE_CONTEXT_AUTO},
                 {"script", SONDE_CONTEXT_SCRIPT},
                 {"native", SONDE_CONTEXT_NATIVE},
                 {"bounded", SONDE_CONTEXT_BOUNDED},
                 {"off", SONDE_CONTEXT_OFF}};
    for (size_t i = 0; i < ARRAY_SIZE(MODES); i++)
        if (strcmp(name, MODES[i].name) == 0) {
            *ret_context = MODES[i].context;
            return 0;
        }
    return problem_set(problem, -EINVAL, "invalid mode '%s' (auto, native, script, bounded, off)", name);
}

static int parse_families(const struct observe_options *o, enum sonde_level level, uint32_t *ret_families,
                          struct problem *problem)
{
    *ret_families = o->no_kernel ? 0 : level_kernel_families(o->kernel ? SONDE_level_usual : level);
    return o->kernel && o->kernel[0] ? kernel_parse_families(o->kernel, ret_families, problem) : 0;
}

/* All but what belongs to this observation. */
static int parse(const struct observe_options *o, struct session_options *ret, struct problem *problem)
{
    ret->level = SONDE_level_usual;
    ret->request_context = SONDE_CONTEXT_AUTO;
    ret->budget = BUDGET_DEFAULTS;
    ret->no_kernel = o->no_kernel;
    ret->sql = o->sql;
    ret->written_every_ns = o->written_every_ns;
    ret->audit_file = o->audit;
    int r = o->level ? level_parse(o->level, &ret->level, problem) : 0;
    if (r >= 0 && o->request_context)
        r = parse_context(o->request_context, &ret->request_context, problem);
    else if (ret->level == SONDE_level_requests) /* there is nothing to give to them */
        ret->request_context = SONDE_CONTEXT_BOUNDED;
    if (r >= 0)
        r = parse_families(o, ret->level, &ret->families, problem);
    if (r >= 0 && o->budget)
        r = budget_parse(o->budget, &ret->budget, problem);
    if (r >= 0)
        r = observe_find_user(o->user, &ret->user, problem);
    const char *functions = o->functions ? o->functions : "";
    if (r >= 0 && functions[0] && ret->request_context < SONDE_CONTEXT_NATIVE)
        r = problem_set(problem, -EINVAL, "--function works with --context auto, script or native only");
    if (r >= 0 && strlen(functions) >= sizeof(ret->functions))
        r = problem_set(problem, -EINVAL, "too many functions: their names may have %zu bytes together",
                        sizeof(ret->functions));
    if (r >= 0)
        memcpy(ret->functions, functions, strlen(functions) + 1);
    return r;
}

/* ---- beginning ---- */

static void choose_folder(struct observation *o)
{
    o->folder = o->options.folder;
    if (o->folder)
        return;
    time_t now = time(NULL);
    strftime(o->folder_name, sizeof(o->folder_name), "sonde-%Y%m%d-%H%M%S", localtime(&now));
    size_t length = strlen(o->folder_name);
    for (int i = 2; access(o->folder_name, F_OK) == 0 && i < 1000; i++)
        snprintf(o->folder_name + length, sizeof(o->folder_name) - length, "-%d", i);
    o->folder = o->folder_name;
}

static int wait_for(struct observation *o, int fd, struct waiting *waiting)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = waiting};
    return epoll_ctl(o->events, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int make_events(struct observation *o)
{
    o->events = epoll_create1(EPOLL_CLOEXEC);
    o->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return o->events < 0 || o->stop < 0 ? -errno : wait_for(o, o->stop, NULL);
}

static int begin(struct observation *o, struct problem *problem)
{
    struct session_options session = {0};
    int r = parse(&o->options, &session, problem);
    _cleanup_(freep) char *found = NULL;
    if (!o->options.probe && !(found = observe_probe_path()))
        r = -ENOMEM;
    if (r >= 0)
        r = make_events(o);
    if (r >= 0) {
        choose_folder(o);
        r = follower_start(&o->follower, &o->options, o->folder, problem);
    }
    if (r < 0)
        return r;
    session.folder = o->folder;
    session.probe_path = found ? found : o->options.probe;
    session.until_ns = o->options.duration_ns ? clock_realtime_ns() + o->options.duration_ns : 0;
    session.note = o->options.note;
    session.context = o->options.context;
    r = session_new(&session, &o->session, problem);
    if (r < 0)
        return r;
    o->watched = session_also_wait(o->session, o->events, &o->readable) == 0;
    follower_go(&o->follower);
    return 0;
}

int observe_new(const struct observe_options *options, struct observation **ret_observation,
                struct problem *problem)
{
    struct observation *o = calloc(1, sizeof(*o));
    int r = o ? 0 : -ENOMEM;
    if (r >= 0) {
        o->options = *options;
        o->events = o->stop = o->follower.socket = -1;
        r = begin(o, problem);
    }
    if (r < 0) {
        observe_free(o);
        return problem && problem->what[0] ? r : problem_set(problem, r, "cannot record: %s", strerror(-r));
    }
    *ret_observation = o;
    return 0;
}

const char *observe_folder(const struct observation *o)
{
    return o->folder;
}

int observe_start(struct observation *o, char *const argv[], struct problem *problem)
{
    if (observe_is_static(argv[0])) /* said before, rather than shown as an empty report */
        observe_note(o, "this program is statically linked: it cannot be preloaded and runs untraced");
    return session_spawn(o->session, argv, &o->command, problem);
}

int observe_attach(struct observation *o, struct proc *proc, struct problem *problem)
{
    return session_attach(o->session, proc, problem);
}

int observe_clean(struct proc *proc, unsigned *ret_hooks, struct problem *problem)
{
    return session_disarm(proc, ret_hooks, problem);
}

int observe_also_wait(struct observation *o, int fd, void (*ready)(void *context), void *context)
{
    struct waiting *waiting = malloc(sizeof(*waiting));
    if (!waiting || array_add(&o->waiting, waiting) < 0) {
        free(waiting);
        return -ENOMEM;
    }
    *waiting = (struct waiting){ready, context};
    return wait_for(o, fd, waiting);
}

/* ---- recording ---- */

pid_t observe_command(const struct observation *o)
{
    return o->session && session_command_runs(o->session) ? o->command : 0;
}

void observe_change_level(struct observation *o, int by)
{
    session_change_level(o->session, by);
}

void observe_stop(struct observation *o)
{
    const uint64_t once = 1;
    int error = errno; /* of what a handler interrupted */
    (void)!write(o->stop, &once, sizeof(once));
    errno = error;
}

static void take_stop(struct observation *o)
{
    uint64_t times;
    if (read(o->stop, &times, sizeof(times)) != sizeof(times))
        return;
    if (!o->stops)
        o->first_stop_ns = clock_monotonic_ns();
    o->stops += (unsigned)MIN(times, 2u);
}

static void serve_events(struct observation *o)
{
    struct epoll_event events[8];
    int count = epoll_wait(o->events, events, ARRAY_SIZE(events), 0);
    for (int i = 0; i < count; i++) {
        const struct waiting *waiting = events[i].data.ptr;
        if (waiting)
            waiting->ready(waiting->context);
    }
    take_stop(o);
}

static bool is_stopped(const struct observation *o)
{
    return o->stops &&
           (!observe_command(o) || o->stops > 1 || clock_monotonic_ns() - o->first_stop_ns > PATIENCE_NS);
}

int observe_run(struct observation *o, struct problem *problem)
{
    uint64_t deadline_ns =
        o->options.duration_ns ? clock_monotonic_ns() + o->options.duration_ns : UINT64_MAX;
    int r;
    o->readable = true; /* what came before */
    while ((r = session_step(o->session, &o->command_status)) > 0) {
        if (o->readable)
            serve_events(o);
        o->readable = !o->watched;
        if (clock_monotonic_ns() > deadline_ns)
            break;
        if (is_stopped(o)) {
            aside_end();
            break;
        }
    }
    return r < 0 ? problem_set(problem, r, "recording failed: %s", strerror(-r)) : 0;
}

int observe_status(const struct observation *o)
{
    int status = o->command_status;
    return !o->command           ? 0
           : observe_command(o)  ? 128 + SIGINT
           : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                 : WEXITSTATUS(status);
}

/* ---- the end ---- */

static void summarise(const struct observation *o, struct observe_summary *ret_summary)
{
    struct session_summary s;
    session_summarise(o->session, &s);
    *ret_summary = (struct observe_summary){.programs = s.programs,
                                            .events = s.events,
                                            .bytes = s.bytes,
                                            .lost = s.lost,
                                            .loss_reasons = s.loss_reasons};
}

int observe_end(struct observation *o, struct observe_summary *ret_summary, struct problem *problem)
{
    aside_end_within(END_NS); /* whatever has ended it: a process may be frozen by now */
    int r = session_finish(o->session, problem);
    summarise(o, ret_summary);
    session_free(o->session);
    o->session = NULL;
    o->ended = true;
    if (r < 0)
        follower_leave(&o->follower);
    return r;
}

int observe_wait(struct observation *o)
{
    return follower_wait(&o->follower);
}

/* What was made for a recording that never began. A directory that was there before, or holds anything,
 * stays. */
static void remove_unused(const struct observation *o)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/ctf", o->folder_name);
    DIR *streams = opendir(path);
    for (struct dirent *entry; streams && (entry = readdir(streams));)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(streams), entry->d_name, 0);
    if (streams)
        closedir(streams);
    (void)rmdir(path);
    snprintf(path, sizeof(path), "%s/manifest.json", o->folder_name);
    (void)unlink(path);
    (void)rmdir(o->folder_name);
}

void observe_free(struct observation *o)
{
    struct observe_summary summary = {0};
    if (!o)
        return;
    if (o->session)
        summarise(o, &summary);
    session_free(o->session);
    follower_leave(&o->follower);
    if (!o->ended && !summary.programs && o->folder_name[0])
        remove_unused(o);
    array_foreach (&o->waiting, waiting)
        free(*waiting);
    array_done(&o->waiting);
    if (o->events >= 0)
        close(o->events);
    if (o->stop >= 0)
        close(o->stop);
    free(o);
}
