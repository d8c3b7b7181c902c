/* What the parts of a session share: session.c (life and loop), welcome.c (a probe says hello), watch.c
 * (threads' CPU time, open callbacks), manifest.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_SESSION_INTERNAL_H
#define COLLECT_SESSION_INTERNAL_H

#include <jansson.h>
#include <limits.h>
#include <sys/resource.h>

#include "attach/inject.h"
#include "base/array.h"
#include "broker/broker.h"
#include "collect/audit.h"
#include "collect/ended.h"
#include "collect/kernel.h"
#include "collect/machine.h"
#include "event/families.h"
#include "collect/program.h"
#include "collect/session.h"
#include "collect/stall.h"
#include "collect/untraced.h"
#include "event/config.h"

/* A descendant of a program that was attached to (later.c). */
struct newcomer {
    struct proc *proc; /* since it was first seen */
    pid_t pid;
    uint64_t image; /* which file it executes */
    pid_t root;     /* the program that was attached to whose descendant it is */
    uint64_t seen_ns, met_ns, next_ns;
    unsigned tries;
    bool settled;  /* traced, or nothing for us */
    bool replaced; /* it was traced, and has executed another program since */
};

/* A process whose probe has connected, and waits for its turn (welcome.c). */
struct guest {
    int socket;
    pid_t pid;
    struct proc *proc; /* NULL: it had ended before we took it in */
    char name[PROC_NAME_BYTES];
    uint64_t since_ns, told_ns; /* that it waits: when it came, when it was last told to go on waiting */
    struct sonde_message hello; /* verb 0: it has not said it yet */
};

/* Families of events: the kernel's, then the probes'. */
enum { FAMILIES = SONDE_FAMILY_COUNT + SONDE_PROBE_FAMILY_COUNT };

/* What was left out to stay within the budget. */
struct budget_step {
    uint64_t at_ns; /* since the beginning */
    bool stopped;
    char what[96], why[160];
};

struct session {
    struct session_options options;
    char *probe_path;
    struct probe_files probes; /* at that path */
    char socket_folder[64], socket_path[96];
    int listener, child_pidfd;
    int spare; /* a descriptor to have when there are no more: for who knocks then (welcome.c) */
    struct audit audit;
    int news;                  /* epoll: the listener, the command, the programs */
    struct rlimit descriptors; /* the limit we were given */
    bool *readable;            /* of the caller: what session_also_wait() was given */
    pid_t child;               /* the command; 0 when it has ended, or there is none */
    bool child_gone;           /* it has ended, as its pidfd says, and is to be waited for */
    int command_status;
    pid_t command_group; /* its session (setsid) */
    uint64_t command_ended_ns, outlived_ns;
    bool outlived, daemon_noted; /* by a daemon, when it was looked last; said */
    struct ctf_writer *writer;
    struct ctf_stream *own;     /* the collector's events */
    struct kernel_side *kernel; /* NULL: without */
    struct ctf_stream *kernel_stream;
    struct kernel_cost kernel_cost; /* as read last */
    struct budget budget;
    struct machine machine;
    double record_ns;               /* budget_record_ns() */
    uint64_t setup_ns, measured_ns; /* CPU time of finding and patching; when it was measured last */
    uint64_t memory_worst_bytes;
    double family_costs[FAMILIES]; /* ns, at the last step */
    uint64_t stepped_ns;
    enum sonde_level level, least_level; /* now, but for what the budget left out; the lowest so far */
    uint32_t families_off;               /* of the probes, bits by enum sonde_probe_family */
    bool stopped;                        /* tracing was too dear */
    struct budget_step steps[24];
    size_t step_count;
    struct problem kernel_problem;             /* why it is missing though asked for */
    uint64_t kernel_lost[SONDE_KERNEL_COUNTS]; /* told */
    uint64_t kernel_lost_ns;                   /* when some were last told; 0: never */
    uint64_t kernel_asked_ns;                  /* for losses, last */
    struct clock_fit fit;
    struct stall_sampler *sampler;
    struct broker *plans; /* of the worker that parses files of programs (attach/plan_worker.h) */
    ARRAY(struct program *) programs;
    struct ended ended;         /* those of before */
    ARRAY(struct guest) guests; /* in the order in which they came */
    struct guest *admitted;     /* whose turn it is; NULL: nobody's */
    ARRAY(struct newcomer) newcomers;
    uint64_t followed_ns;
    uint64_t others_ns,
        noticed_ns;           /* attach.c: when all rings were drained while one program took its time */
    struct untraced untraced; /* programs that came and were not traced */
    uint64_t started_ns, flush_began_ns, tended_ns, manifest_ns;
    bool flushing;             /* what was recorded is being written, in turns (session.c) */
    uint64_t manifest_took_ns; /* of a CPU, the last one: with thousands of processes it is much */
    bool manifest_wanted;      /* it lacks somebody */
    uint64_t manifest_events;  /* that there were on disk then */
    uint64_t lost_reported;
    unsigned idle_us; /* how long the next step may sleep */
    bool finished;
    int write_error_noted;
};

/* A program, of before maybe, that a process was forked from; borrowed. */
struct session_parent {
    const struct program *program; /* NULL: it has ended */
    const char *exe;
    const struct target *target;
    const struct patch *patches;
    size_t patch_count;
};

/* Whose rings does the process have mapped that are not its own? False: nobody's. */
bool session_find_parent(const struct session *session, const struct proc *proc,
                         struct session_parent *ret_parent);

void session_note(struct session *session, const char *format, ...) _printf_(2, 3);

/* Probes have connected: they wait for their turn. */
void session_welcome(struct session *session);

/* The next of them have their turns: each program is patched and added, or told to leave. */
void session_admit(struct session *session, uint64_t now_ns);

/* Tells those who wait for their turn, and whose turn it is, to go on waiting, while a worker (slowly) reads
 * the files of a program. */
void session_tell_guests_to_wait(struct session *session);

/* Those that have come have no turn any more. */
void session_dismiss(struct session *session);

/* A program is traced from now on. */
void session_tell_start(struct session *session, struct program *program);

/* What the session waits for (news.c): the listener and the pidfds that are added. Whose pidfd it is (a
 * program, or the session itself for its command) is marked as gone when it has ended. */
int session_news_begin(struct session *session);
int session_news_add(struct session *session, int pidfd, void *whose);
void session_news_remove(struct session *session, int fd);

/* Sleeps until there is something to be done, not for long when somebody is expected; true: a probe says
 * hello. */
bool session_wait_for_news(struct session *session, bool expects);

/* After each drain: which programs are quiet, and which no more. */
void session_notice_quiet(struct session *session, uint64_t now_ns);
void session_program_runs(struct program *program, bool reported, uint64_t now_ns);

/* Does the kernel's side say whenever a thread runs that it follows? Not while records of it are lost. */
bool session_kernel_reports(const struct session *session, uint64_t now_ns);

/* Need its rings not be looked at this time? It is quiet, or recorded nothing when we looked last, and the
 * kernel's side would have said if a thread of it had begun to run since. */
bool session_skips(const struct session *session, struct program *program, uint64_t now_ns);

/* Gives back what programs held that have ended. */
void session_forget_ended(struct session *session);

/* Puts a program among those that are traced, and takes it. */
int session_add_program(struct session *session, struct program *program);

/* Every 10 ms or so: CPU time of threads, callbacks open too long. */
void session_tend(struct session *session, uint64_t now_ns);
/* A program has stopped doing anything: what it did since it was last tended. */
void session_tend_rest(struct session *session, struct program *program, uint64_t now_ns);
/* Those that the kernel's side says have other system call filters than before. */
void session_watch_filtered(struct session *session, uint64_t now_ns);
/* What its CPU quota took, when it is due; last: the program has ended. */
void session_tell_quota(struct session *session, struct program *program, uint64_t now_ns, bool last);

/* Spans that are open now, into the trace. final: the process is gone or recording stops. */
void session_tell_open(struct session *session, struct program *program, bool final);

/* Losses since they were last told, into the trace and the program's account: all, or those of one thread. */
void session_tell_losses(struct session *session, struct program *program);
void session_tell_thread_losses(struct session *session, struct program *program, struct program_thread *t);

/* The kernel's side: begins it as far as it may, moves its records (how full its ring was, in parts of 256),
 * tells its losses, and ends it. */
int session_kernel_begin(struct session *session);
void session_kernel_follow(struct session *session, struct program *program);
unsigned session_kernel_drain(struct session *session);
void session_kernel_tell_losses(struct session *session);
uint8_t session_kernel_loss_reason(uint32_t count); /* of an index of kernel_losses() */
void session_kernel_finish(struct session *session);

/* session_attach() with a limit to how long the program may take to come to a safe point. */
int session_attach_within(struct session *session, struct proc *proc, uint64_t timeout_ns,
                          struct problem *problem);

/* Is there a runtime in the process, and a loader? False for what is just starting, and for all other
 * programs. */
bool session_may_attach(struct session *session, struct proc *proc);

/* Looks for processes that attached programs have started since, and attaches to them. */
void session_follow(struct session *session, uint64_t now_ns);

/* Are there processes that will be attached to soon? */
bool session_expects(const struct session *session);

/* What is in its rings is drained, open spans are noted. gone: there is no such program any more. */
void session_end_program(struct session *session, struct program *program, bool gone);

/* Says that a program's probe has no shared memory, and how to mend it; error, a negative errno. */
int session_no_memory(pid_t pid, int error, struct problem *problem);

/* A program runs untraced, or has ended so: said, and written to the manifest. */
void session_remember_untraced(struct session *session, const char *name, pid_t pid, const char *why);

/* Is there a daemon that the command has left behind? (daemon.c) */
bool session_outlived(struct session *session, uint64_t now_ns);

/* What tracing costs, and the budget. */
uint64_t session_cpu_ns(const struct session *session);
void session_overhead_begin(struct session *session);
void session_overhead_tick(struct session *session, uint64_t now_ns);
json_t *session_overhead_object(struct session *session);
void session_add_dropped(const struct session *session, json_t *missing);
void session_apply_families(struct session *session);
static inline void session_apply_families_to(const struct session *session, struct program_thread *thread)
{
    if (thread->ring)
        ring_switch_off(thread->ring, session->families_off);
}

/* Takes the hooks out of all programs that live on. */
void session_detach_all(struct session *session);

int session_write_manifest(struct session *session, bool complete);

#endif
