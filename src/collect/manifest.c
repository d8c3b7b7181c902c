/* manifest.json beside the streams: the host, the clock, the traced processes with what was hooked and what
 * could not be, and the losses by reason. Replaced in one step whenever it changes, so that a recording that
 * is killed has one too ("complete": false). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/session_internal.h"
#include "base/schema.h"
#include "collect/level.h"
#include "collect/silent.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/owner.h"
#include "base/text.h"

static json_t *host_object(void)
{
    struct utsname name;
    uname(&name);
    return json_pack("{s:s, s:s, s:s, s:i}", "name", name.nodename, "kernel", name.release, "machine",
                     name.machine, "processors", (int)sysconf(_SC_NPROCESSORS_ONLN));
}

static json_t *clock_object(const struct session *session)
{
    return json_pack("{s:s, s:I, s:f, s:f, s:I}", "name", "CLOCK_MONOTONIC", "realtime_offset_ns",
                     (json_int_t)(clock_realtime_ns() - clock_monotonic_ns()), "tsc_ticks_per_ns",
                     clock_fit_ticks_per_ns(&session->fit), "fit_error_ns_worst", session->fit.error_ns_worst,
                     "jumps", (json_int_t)session->fit.jumps);
}

static void missing_contexts(json_t *missing, const struct sonde_shared *shared)
{
    static const char *const WHY[SONDE_CONTEXT_FAILURES][2] = {
        [SONDE_CONTEXT_THREW] =
            {"sonde's script failed there: requests are distinguished by asynchronous ids alone", ""},
        [SONDE_CONTEXT_NO_MODULES] =
            {"an ECMAScript module's process shows no way to Node's modules before Node "
             "20.16: requests are distinguished by asynchronous ids alone",
             "Use Node 20.16 or newer."},
        [SONDE_CONTEXT_NOT_NATIVE] =
            {"neither this Node nor its V8 carries contexts: requests are distinguished by "
             "asynchronous ids alone",
             "Use --context script, or Node 24 or newer."},
    };
    for (int i = 0; i < SONDE_CONTEXT_FAILURES; i++)
        if (shared->context_failures[i])
            json_array_append_new(missing, json_pack("{s:s, s:s, s:s}", "what", "request contexts", "why",
                                                     WHY[i][0], "remedy", WHY[i][1]));
}

/* The script that looks for functions runs with a program's first callback of a server, in threads that tell
 * requests apart with it. */
static void missing_functions(json_t *missing, const struct session *session, const struct program *program,
                              const struct sonde_shared *s)
{
    if (session->options.functions[0] && program_tells_contexts(program) && !s->context_script &&
        !s->context_carried && !s->context_native)
        json_array_append_new(missing,
                              json_pack("{s:s, s:s, s:s}", "what", "calls of functions (--function)", "why",
                                        "sonde's script, which looks for them, has not run in this process",
                                        "remedy", ""));
}

/* Where libuv hands file operations to an io_uring nothing of them is seen but their callbacks. */
static void missing_io_uring(json_t *missing, const struct sonde_shared *shared)
{
    if (!shared->io_uring_operations)
        return;
    char why[128];
    snprintf(why, sizeof(why), "io_uring carried out %llu of them: only their callbacks are seen",
             (unsigned long long)shared->io_uring_operations);
    json_array_append_new(missing,
                          json_pack("{s:s, s:s, s:s}", "what", "when file operations begin and end", "why",
                                    why, "remedy", "Start the program with UV_USE_IO_URING=0."));
}

/* How full the rings of its threads were: those that were too small, and the fullest of the others. */
static void missing_full(json_t *missing, const struct program *program)
{
    char why[200], others[80] = "";
    unsigned full = 0, fullest = 0;
    for (uint32_t i = 0; i < program->thread_count; i++) {
        const struct program_thread *t = &program->threads[i];
        full += t->lost_full > 0;
        fullest = MAX(fullest, t->lost_full ? 0 : t->fullest);
    }
    if (full < program->thread_count)
        snprintf(others, sizeof(others), "; of the other %u, the fullest was %u %% full",
                 program->thread_count - full, fullest * 100 / 256);
    snprintf(why, sizeof(why), "rings of %u of its threads were full before sonde could empty them%s", full,
             others);
    json_array_append_new(missing,
                          json_pack("{s:s, s:s, s:s}", "what", "some of its events", "why", why, "remedy",
                                    "Leave sonde a CPU, or record less with --level requests."));
}

/* Limits of sonde's own that the program has reached. */
static void missing_limits(json_t *missing, const struct program *program, const struct sonde_shared *shared)
{
    char why[200];
    if (shared->threads_without_slot) {
        snprintf(why, sizeof(why),
                 "%u of its threads found no room: sonde traces %d threads of a process at a time",
                 shared->threads_without_slot, SONDE_THREADS);
        json_array_append_new(
            missing,
            json_pack("{s:s, s:s, s:s}", "what", "what some of its threads did", "why", why, "remedy",
                      "Use smaller thread pools, or several processes; what was lost is counted as "
                      "no-thread-slot."));
    }
    if (shared->descriptors_beyond) {
        snprintf(why, sizeof(why),
                 "sonde follows descriptors below %d, and those with higher numbers were used %u times",
                 SONDE_DESCRIPTORS, shared->descriptors_beyond);
        json_array_append_new(missing,
                              json_pack("{s:s, s:s, s:s}", "what", "some of its connections", "why", why,
                                        "remedy", "Use several processes with fewer connections each."));
    }
    if (program->losses[SONDE_loss_reason_ring_full])
        missing_full(missing, program);
}

/* What could not be hooked or found, without the fields that the probe found on live objects, and with those
 * that it dropped there. */
static json_t *missing_array(const struct session *session, const struct program *program,
                             const struct sonde_shared *shared)
{
#define O(target, name, text) text,
    static const char *const FIELDS[] = {SONDE_TARGET_OFFSETS(O)};
#undef O
    json_t *missing = json_array();
    array_foreach (&program->target->missing, m) {
        bool found = false;
        for (size_t i = 0; i < ARRAY_SIZE(FIELDS); i++)
            found |= (shared->fields_found >> i & 1) && strcmp(FIELDS[i], m->what) == 0;
        if (!found)
            json_array_append_new(
                missing, json_pack("{s:s, s:s, s:s}", "what", m->what, "why", m->why, "remedy", m->remedy));
    }
    for (size_t i = 0; i < ARRAY_SIZE(FIELDS); i++)
        if (shared->fields_dropped >> i & 1)
            json_array_append_new(
                missing, json_pack("{s:s, s:s, s:s}", "what", FIELDS[i], "why",
                                   "its value failed the check on live objects: not reported", "remedy", ""));
    missing_contexts(missing, shared);
    missing_functions(missing, session, program, shared);
    missing_io_uring(missing, shared);
    missing_limits(missing, program, shared);
    if (program->calls_barred)
        json_array_append_new(
            missing,
            json_pack("{s:s, s:s, s:s}", "what", "addresses of new connections", "why",
                      "it has a new system call filter, which the probe's own calls might not survive",
                      "remedy", ""));
    const char *what;
    char why[SILENT_WORDS];
    for (unsigned n = 0; silent_hook(program, n, &what, why); n++)
        json_array_append_new(missing, json_pack("{s:s, s:s, s:s}", "what", what, "why", why, "remedy",
                                                 "Use the distribution's build, or one with less inlining."));
    return missing;
}

/* By what the threads of a process tell their requests apart. */
static json_t *context_object(const struct session *session, const struct program *program,
                              const struct sonde_shared *s)
{
    static const char *const MODES[] = {"off", "bounded", "native", "script", "carried"};
    enum { CARRIED = 4 };
    if (!program_tells_contexts(program))
        return json_null();
    const char *mode = MODES[MIN((unsigned)session->options.request_context, SONDE_CONTEXT_BOUNDED)];
    if (s->context_script || s->context_carried || s->context_native)
        mode = MODES[s->context_script    ? SONDE_CONTEXT_SCRIPT
                     : s->context_carried ? CARRIED
                                          : SONDE_CONTEXT_NATIVE];
    return json_pack("{s:s, s:i, s:i, s:i}", "mode", mode, "native_threads", (int)s->context_native,
                     "carried_threads", (int)s->context_carried, "script_threads", (int)s->context_script);
}

static json_t *process_object(const struct session *session, const struct program *program)
{
    struct sonde_shared shared;
    ring_memory_header(program->rings, &shared);
    json_t *hooks = json_array(), *missing = missing_array(session, program, &shared),
           *threads = json_array();
    array_foreach (&program->patches.patches, p)
        json_array_append_new(hooks, json_string(p->hook->symbol));
    for (uint32_t i = 0; i < program->thread_count; i++) {
        struct ring_counts counts;
        ring_counts(program->threads[i].ring, &counts);
        json_array_append_new(threads,
                              json_pack("{s:i, s:I, s:i, s:i}", "tid", (int)program->threads[i].tid,
                                        "events_written", (json_int_t)counts.written, "ring_kb",
                                        (int)(ring_size(program->threads[i].ring) >> 10), "fullest_percent",
                                        (int)(program->threads[i].fullest * 100 / 256)));
    }
    return json_pack(
        "{s:i, s:i, s:s, s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:i, s:{s:i, s:I, s:I}, s:o, s:o, s:o, s:o}",
        "pid", (int)program->pid, "parent", (int)program->parent, "runtime",
        event_label(SONDE_MEANING_runtime, program->runtime), "name", json_text(program->name), "command",
        json_text(program->command), "exe", json_text(program->exe), "build_id", program->build_id,
        "start_ns", (json_int_t)program->started_ns, "end_ns", (json_int_t)program->ended_ns,
        "events_written", (json_int_t)program_events_written(program), "threads_without_slot",
        (int)shared.threads_without_slot, "stops", "count", (int)program->stops.count, "longest_ns",
        (json_int_t)program->stops.longest_ns, "total_ns", (json_int_t)program->stops.total_ns, "threads",
        threads, "hooks", hooks, "missing", missing, "context", context_object(session, program, &shared));
}

void session_forget_ended(struct session *session)
{
    size_t kept = 0;
    array_foreach (&session->programs, p)
        if ((*p)->ended_ns) {
            json_t *object = ended_lists(&session->ended, *p) ? process_object(session, *p) : NULL;
            (void)ended_add(&session->ended, *p, object); /* -ENOMEM: it is left out */
            program_free(*p);
            session->manifest_wanted = true;
        } else {
            session->programs.at[kept++] = *p;
        }
    session->programs.count = kept;
}

/* All programs, in the order in which they began. */
static void write_processes(const struct session *session, struct text *to)
{
    const struct ended_program *ended = session->ended.programs.at,
                               *end = ended + session->ended.programs.count;
    const char *separator = "\n";
    array_foreach (&session->programs, p) {
        for (; ended < end && ended->started_ns < (*p)->started_ns; ended++, separator = ",\n") {
            text_add(to, separator);
            ended_write(ended, to);
        }
        json_t *object = process_object(session, *p);
        char *json = json_dumps(object, JSON_COMPACT);
        json_decref(object);
        text_add(to, separator);
        text_add(to, json ? json : "{}");
        to->failed |= !json;
        free(json);
        separator = ",\n";
    }
    for (; ended < end; ended++, separator = ",\n") {
        text_add(to, separator);
        ended_write(ended, to);
    }
}

static json_t *losses_array(const struct session *session, const struct ctf_totals *totals)
{
    json_t *losses = json_array();
    array_foreach (&session->ended.losses, l)
        json_array_append_new(losses, json_pack("{s:i, s:s, s:I}", "pid", l->pid, "reason",
                                                event_label(SONDE_MEANING_loss_reason, l->reason), "count",
                                                (json_int_t)l->count));
    array_foreach (&session->programs, p)
        for (size_t i = 0; i < ARRAY_SIZE((*p)->losses); i++)
            if ((*p)->losses[i])
                json_array_append_new(losses, json_pack("{s:i, s:s, s:I}", "pid", (int)(*p)->pid, "reason",
                                                        event_label(SONDE_MEANING_loss_reason, i), "count",
                                                        (json_int_t)(*p)->losses[i]));
    for (uint32_t i = 0; i < SONDE_KERNEL_COUNTS; i++)
        if (session->kernel_lost[i])
            json_array_append_new(
                losses, json_pack("{s:i, s:s, s:I}", "pid", 0, "reason",
                                  event_label(SONDE_MEANING_loss_reason, session_kernel_loss_reason(i)),
                                  "count", (json_int_t)session->kernel_lost[i]));
    if (totals->lost_events)
        json_array_append_new(losses, json_pack("{s:i, s:s, s:I, s:s}", "pid", 0, "reason",
                                                "disk-write-failed", "count", (json_int_t)totals->lost_events,
                                                "error", strerror(-totals->write_error)));
    return losses;
}

/* Records that found a CPU's ring full. */
static void missing_kernel_full(json_t *missing, const struct session *session)
{
    uint64_t lost = 0;
    for (int i = 0; i < SONDE_FAMILY_COUNT; i++)
        lost += session->kernel_lost[i];
    if (!lost)
        return;
    struct kernel_cost cost;
    char why[160];
    kernel_cost(session->kernel, &cost);
    snprintf(
        why, sizeof(why),
        "the ring of a CPU (%u KB) was full before sonde could empty it; sonde found up to %u %% of one in "
        "use",
        (unsigned)(cost.ring_bytes >> 10), cost.fullest * 100 / 256);
    json_array_append_new(missing,
                          json_pack("{s:s, s:s, s:s}", "what", "some of the kernel's events", "why", why,
                                    "remedy", "Leave sonde a CPU, or record less with --kernel=FAMILY,..."));
}

/* What no process is to blame for. */
static json_t *session_missing_array(const struct session *session)
{
    json_t *missing = json_array();
    const struct problem *p = &session->kernel_problem;
    if (p->what[0])
        json_array_append_new(missing,
                              json_pack("{s:s, s:s, s:s}", "what",
                                        "the kernel's side: system calls, scheduling, wake-ups, TCP, disks",
                                        "why", p->what, "remedy", p->remedy));
    missing_kernel_full(missing, session);
    if (session->least_level == SONDE_level_requests)
        json_array_append_new(missing, json_pack("{s:s, s:s, s:s}", "what",
                                                 "callbacks, phases of the event loop, the thread pool, "
                                                 "garbage collection, the kernel's side",
                                                 "why", "the level of the recording was 'requests'", "remedy",
                                                 "--level usual records them, SIGUSR1 from then on."));
    struct ctf_totals totals;
    ctf_writer_totals(session->writer, &totals);
    if (totals.write_error == -EMFILE || totals.write_error == -ENFILE)
        json_array_append_new(
            missing, json_pack("{s:s, s:s, s:s}", "what", "events of some threads", "why",
                               "sonde may not have as many files open as there are threads", "remedy",
                               "Raise its hard limit: `ulimit -Hn`, LimitNOFILE= of its unit."));
    session_add_dropped(session, missing);
    return missing;
}

static json_t *kernel_object(const struct session *session)
{
    if (!session->kernel)
        return json_null();
    struct kernel_cost cost;
    uint64_t lost[SONDE_KERNEL_COUNTS];
    kernel_cost(session->kernel, &cost);
    kernel_losses(session->kernel, lost);
    json_t *families = json_object();
    for (int i = 0; i < SONDE_FAMILY_COUNT; i++)
        if (session->options.families & 1u << i)
            json_object_set_new(families, kernel_family_name((enum sonde_family)i),
                                json_pack("{s:b, s:I, s:I, s:I, s:I}", "on",
                                          kernel_families(session->kernel) >> i & 1, "events",
                                          (json_int_t)cost.events[i], "lost", (json_int_t)lost[i], "runs",
                                          (json_int_t)cost.runs[i], "run_ns", (json_int_t)cost.run_ns[i]));
    return json_pack("{s:o, s:I, s:i}", "families", families, "memory_bytes", (json_int_t)cost.memory_bytes,
                     "fullest_percent", (int)(cost.fullest * 100 / 256));
}

/* Room on the disk that is kept for the last manifest: when the disk is full, that is the one file which must
 * still be written, because it says what was lost. */
enum { RESERVE_BYTES = 256 << 10 };

static void reserve_path(const struct session *session, char path[static PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/.reserve", ctf_writer_folder(session->writer));
}

/* Best effort: without it the manifest may not fit, no more. */
static void reserve_room(const struct session *session)
{
    char path[PATH_MAX];
    reserve_path(session, path);
    _cleanup_(file_closep) int fd = owner_open(path, O_WRONLY | O_CREAT);
    if (fd < 0 || fallocate(fd, 0, 0, RESERVE_BYTES) < 0)
        (void)owner_unlink(path);
}

static void give_up_reserve(const struct session *session)
{
    char path[PATH_MAX];
    reserve_path(session, path);
    (void)owner_unlink(path);
}

int session_write_manifest(struct session *session, bool complete)
{
    if (!session->manifest_ns)
        reserve_room(session);
    /* CPU time: on a busy machine the writing takes longer, but costs no more. */
    uint64_t begin_ns = clock_thread_cpu_ns();
    struct ctf_totals totals;
    struct session_summary summary;
    ctf_writer_totals(session->writer, &totals);
    session_summarise(session, &summary);
    uint64_t now = clock_monotonic_ns();
    json_t *root = json_pack(
        "{s:i, s:s, s:b, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o}",
        "schema", SCHEMA_manifest, "version", SONDE_VERSION, "complete", complete, "written_every_ms",
        (json_int_t)(session->options.written_every_ns / NS_PER_MS), "level", level_name(session->level),
        "start_ns", (json_int_t)session->started_ns, "end_ns", (json_int_t)now, "events",
        (json_int_t)totals.events, "bytes", (json_int_t)totals.bytes, "collector_cpu_ns",
        (json_int_t)summary.collector_cpu_ns, "host", host_object(), "clock", clock_object(session),
        "untraced", untraced_array(&session->untraced), "untraced_count", (json_int_t)session->untraced.count,
        "processes_alike", ended_alike_array(&session->ended), "losses", losses_array(session, &totals),
        "missing", session_missing_array(session), "kernel", kernel_object(session), "overhead",
        session_overhead_object(session));
    session->manifest_ns = now;
    _cleanup_(text_done) struct text text = {0};
    char *json = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!json)
        return -ENOMEM;
    text_add_bytes(&text, json, strlen(json) - 2); /* the end of the line, and a brace */
    free(json);
    text_add(&text, ",\n  \"processes\": [");
    write_processes(session, &text);
    text_add(&text, "]\n}");
    if (text.failed)
        return -ENOMEM;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/manifest.json", ctf_writer_folder(session->writer));
    if (complete)
        give_up_reserve(session);
    int r = file_replace(path, text.at, text.length);
    session->manifest_wanted = false;
    session->manifest_events = totals.events;
    session->manifest_took_ns = clock_thread_cpu_ns() - begin_ns;
    return r;
}
