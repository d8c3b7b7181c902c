/* sonde profile: which functions burn the CPU of a command, of processes, of a container or of the whole
 * machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "cli/cli.h"
#include "cli/confine.h"
#include "cli/goroutine_places.h"
#include "cli/profile_allocs.h"
#include "cli/profile_event.h"
#include "cli/profile_hits.h"
#include "cli/profile_io.h"
#include "cli/profile_locks.h"
#include "cli/profile_options.h"
#include "cli/profile_place.h"
#include "cli/profile_report.h"
#include "cli/profile_sampling.h"
#include "cli/profile_steer.h"
#include "cli/profile_trace.h"
#include "cli/profile_wakers.h"
#include "profile/business.h"
#include "profile/follow.h"
#include "profile/formats.h"
#include "profile/identity.h"
#include "profile/intervals.h"
#include "profile/outlier.h"
#include "profile/namer.h"
#include "profile/sampler.h"
#include "profile/unread.h"
#include "profile/windows.h"
#include "steer/certainty.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted++;
}

/* ---- the command ---- */

/* Held until the sampler watches it. As the user who called sudo, when it was sudo. */
static pid_t start_command(char **command, int *ret_gate)
{
    int gate[2];
    if (pipe2(gate, O_CLOEXEC) < 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        const char *uid = getenv("SUDO_UID"), *gid = getenv("SUDO_GID");
        close(gate[1]);
        if (read(gate[0], &byte, 1) != 1)
            _exit(127);
        if (getuid() == 0 && uid && gid &&
            (setgroups(0, NULL) < 0 || setgid((gid_t)atoi(gid)) < 0 || setuid((uid_t)atoi(uid)) < 0))
            _exit(126);
        signal(SIGINT, SIG_DFL);
        execvp(command[0], command);
        fprintf(stderr, "sonde: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    close(gate[0]);
    *ret_gate = gate[1];
    return child;
}

/* The port may have been chosen by the kernel. */
static void print_metrics_address(const char *address, uint16_t port)
{
    const char *colon = strrchr(address, ':');
    fprintf(stderr, "sonde: metrics at http://%.*s:%u/metrics\n", colon ? (int)(colon - address) : 9,
            colon ? address : "127.0.0.1", port);
}

/* ---- reports ---- */

static const char *weight_text(const struct profile *p, uint64_t weight, char *buffer, size_t size)
{
    if (strcmp(p->unit, "nanoseconds") == 0)
        return clock_format_duration(weight, buffer, size);
    if (strcmp(p->unit, "bytes") == 0)
        return profile_place_bytes((double)weight, buffer, size);
    snprintf(buffer, size, "%llu", (unsigned long long)weight);
    return buffer;
}

static void print_place(FILE *to, const struct profile *p, uint32_t frame)
{
    const struct profile_frame *f = &p->frames.at[frame];
    const char *place = profile_text(p, f->file ? f->file : f->module);
    char line[16] = "";
    if (f->line && f->file)
        snprintf(line, sizeof(line), ":%u", f->line);
    cli_put(to, profile_text(p, f->name));
    if (*place)
        cli_printf(to, "  %s%s%s%s", cli_style(fileno(to), STYLE_DIM), place, line,
                   cli_style(fileno(to), STYLE_NONE));
    fputc('\n', to);
}

static void print_functions(const struct profile *p, unsigned top)
{
    size_t count;
    uint64_t *totals = profile_totals(p), all = totals ? totals[0] : 0;
    struct profile_function *list = profile_functions(p, &count);
    free(totals);
    if (!list || !all) {
        free(list);
        return;
    }
    printf("%s%12s %7s %-16s %12s %7s  function%s\n", cli_style(1, STYLE_BOLD), "self", "",
           p->intervals ? "[95 %]" : "", "total", "", cli_style(1, STYLE_NONE));
    for (size_t i = 0; i < count && top; i++) {
        char self[24], total[24], range[32] = "";
        const struct profile_interval *interval = profile_interval_of(p, list[i].frame);
        if (p->frames.at[list[i].frame].kind == FRAME_GROUP)
            continue;
        if (interval)
            snprintf(range, sizeof(range), "[%.2f, %.2f]", 100 * interval->self_low,
                     100 * interval->self_high);
        printf("%12s %6.2f%% %-16s %12s %6.2f%%  ", weight_text(p, list[i].self, self, sizeof(self)),
               100.0 * (double)list[i].self / (double)all, range,
               weight_text(p, list[i].total, total, sizeof(total)),
               100.0 * (double)list[i].total / (double)all);
        print_place(stdout, p, list[i].frame);
        top--;
    }
    free(list);
}

static void print_business(FILE *to, const struct profile *p, const struct business_rules *rules,
                           unsigned top)
{
    size_t count;
    uint64_t *totals = profile_totals(p), all = totals ? totals[0] : 0;
    struct business_function *list = business_functions(p, rules, &count);
    free(totals);
    if (!list || !all) {
        free(list);
        return;
    }
    if (!count) {
        fputs("no application function is in these stacks\n", to);
        free(list);
        return;
    }
    fprintf(to, "%sapplication functions, with the libraries they call%s\n",
            cli_style(fileno(to), STYLE_BOLD), cli_style(fileno(to), STYLE_NONE));
    for (size_t i = 0; i < count && i < top; i++) {
        char total[24], library[24];
        fprintf(to, "%12s %6.2f%%  ", weight_text(p, list[i].total, total, sizeof(total)),
                100.0 * (double)list[i].total / (double)all);
        print_place(to, p, list[i].frame);
        if (list[i].library)
            fprintf(to, "%22s of it %s in %s\n", "",
                    weight_text(p, list[i].library_weight, library, sizeof(library)),
                    profile_text(p, p->frames.at[list[i].library].name));
    }
    free(list);
}

static void print_quality(const struct sampler_counts *c, uint64_t start_ns)
{
    static const char *const names[FRAME_KINDS] = {
        [FRAME_NATIVE] = "native", [FRAME_KERNEL] = "kernel", [FRAME_PYTHON] = "Python",
        [FRAME_JS] = "Node",       [FRAME_JAVA] = "Java",     [FRAME_RUBY] = "Ruby"};
    uint64_t elapsed_ns = clock_monotonic_ns() - start_ns;
    uint64_t cpu_ns = profile_spent_ns(c) - c->program_ns;
    fprintf(stderr, "sonde: %llu stacks", (unsigned long long)c->stacks);
    if (c->stacks)
        fprintf(stderr, ", %.2f %% complete (", 100.0 * (double)c->complete / (double)c->stacks);
    const char *separator = "";
    for (int i = 0; i < FRAME_KINDS; i++)
        if (names[i] && c->runtime_stacks[i]) {
            fprintf(stderr, "%s%s %.2f %% of %llu", separator, names[i],
                    100.0 * (double)c->runtime_complete[i] / (double)c->runtime_stacks[i],
                    (unsigned long long)c->runtime_stacks[i]);
            separator = ", ";
        }
    fprintf(stderr, "%s; %llu lost; sampler %.0f ns a tick, agent %.1f %% CPU, %llu MB and %zu MB of maps",
            c->stacks ? ")" : "", (unsigned long long)c->lost,
            c->program_runs ? (double)c->program_ns / (double)c->program_runs : 0.0,
            elapsed_ns ? 100.0 * (double)cpu_ns / (double)elapsed_ns : 0.0,
            (unsigned long long)((proc_own_memory() + c->namer_bytes) >> 20), c->map_bytes >> 20);
    if (c->first_ns)
        fprintf(stderr, "; first stack after %llu ms",
                (unsigned long long)((c->first_ns - start_ns) / NS_PER_MS));
    fputc('\n', stderr);
    separator = "sonde: truncated: ";
    for (int i = 1; i < END_REASONS; i++)
        if (c->ends[i] && *sampler_end_text((enum sampler_end)i)) {
            fprintf(stderr, "%s%llu %s", separator, (unsigned long long)c->ends[i],
                    sampler_end_text((enum sampler_end)i));
            separator = ", ";
        }
    if (*separator == ',')
        fputc('\n', stderr);
    if (c->idle_waits) {
        char left_out[32];
        fprintf(stderr, "sonde: left out: %s of %llu idle waits (for work); --idle includes them\n",
                clock_format_duration(c->idle_ns, left_out, sizeof(left_out)),
                (unsigned long long)c->idle_waits);
    }
    if (c->locks_left_out)
        fprintf(stderr,
                "sonde: left out: %llu waits for more locks, places and threads than are distinguished\n",
                (unsigned long long)c->locks_left_out);
    if (c->not_followed)
        fprintf(stderr,
                "sonde: of %llu sampled allocations it was not seen whether they are freed: too many are "
                "alive; a larger --alloc-interval samples fewer\n",
                (unsigned long long)c->not_followed);
    if (c->missed)
        fprintf(stderr,
                "sonde: the kernel skipped the sampler's programs %llu times while they ran already\n",
                (unsigned long long)c->missed);
    if (c->not_kept)
        fprintf(stderr, "sonde: %llu of the lost samples were lost because sonde ran out of memory\n",
                (unsigned long long)c->not_kept);
    if (c->announcements_lost)
        fprintf(stderr,
                "sonde: %llu of the kernel's announcements were lost: some processes could not be named\n",
                (unsigned long long)c->announcements_lost);
}

/* What the profile does not tell apart any more, because memory is bounded. */
static void print_folded(const struct sampler_counts *c, const struct profile *p)
{
    uint64_t *totals = profile_totals(p), rare = profile_rare(p, totals);
    if (c->folded)
        fprintf(stderr,
                "sonde: %zu processes that ended share \"NAME (" PROFILE_ENDED
                ")\" with others of their name\n",
                c->folded);
    if (rare)
        fprintf(stderr,
                "sonde: of %.2f %% the callers are left out, as \"" PROFILE_RARE
                "\": more stacks than are kept\n",
                100.0 * (double)rare / (double)totals[0]);
    if (c->lacked_rows)
        cli_printf(
            stderr,
            "sonde: there was no room for the rules by which stacks are walked in %zu process%s, so that "
            "stacks there may end early; a larger --unwind-mb than %zu makes room\n",
            c->lacked_rows, c->lacked_rows == 1 ? "" : "es", c->unwind_bytes >> 20);
    if (c->too_large)
        fprintf(stderr,
                "sonde: %zu times the source lines of a file were left out: they take too much memory\n",
                c->too_large);
    if (c->namers_short)
        fprintf(
            stderr,
            "sonde: %zu times a worker that reads processes (sonde:names) ran out of memory and was begun "
            "anew: names are missing\n",
            c->namers_short);
    if (c->namers_failed)
        fprintf(stderr,
                "sonde: %zu times a worker that reads processes (sonde:names) died, hung or broke the rules: "
                "names are missing\n",
                c->namers_failed);
    if (c->namers_late)
        fprintf(
            stderr,
            "sonde: interrupted: %zu answers of workers that read processes (sonde:names) were not waited "
            "for any longer: names are missing\n",
            c->namers_late);
    free(totals);
}

static void print_unread(const struct sampler *sampler)
{
    for (unsigned i = 0; i < UNREAD_LANGUAGES; i++)
        if (sampler_unread(sampler, i))
            fprintf(stderr, "sonde: %s's functions are not read (process %d): %s; %s\n",
                    unread_languages[i].name, sampler_unread(sampler, i), unread_languages[i].shown,
                    unread_languages[i].helps);
}

static int write_output(const struct profile_options *o, const struct profile *p)
{
    enum profile_format format =
        o->format ? profile_format_named(o->format) : profile_format_of_path(o->output);
    struct text text = {0};
    struct problem problem;
    char title[128];
    snprintf(title, sizeof(title), "%.60s %s",
             o->command                 ? o->command[0]
             : o->sampler.whole_machine ? "this machine"
                                        : "processes",
             p->event);
    int r = profile_write(p, format, title, &text);
    if (r == 0) {
        if (o->output)
            r = file_replace(o->output, text_get(&text), text.length);
        else
            r = file_write_all(1, text_get(&text), text.length);
    }
    text_done(&text);
    if (r == 0)
        return EXIT_DONE;
    problem_set(&problem, r, "%s: %s", o->output ? o->output : "standard output", strerror(-r));
    if (r == -ENOSPC)
        problem_remedy(
            &problem,
            "Free some space or name another directory with -o; what was there before is untouched.");
    return cli_fail(EXIT_FAILED, &problem);
}

/* What runs in each process that was sampled, and what its threads' stacks were walked with. */
static void print_runtimes(struct sampler *sampler)
{
    static const char *const unwinders[FRAME_KINDS] = {
        [FRAME_NATIVE] = "unwind tables",      [FRAME_KERNEL] = "the kernel's own",
        [FRAME_PYTHON] = "CPython frames",     [FRAME_JS] = "V8 frames",
        [FRAME_JAVA] = "HotSpot frames",       [FRAME_GENERATED] = "frame pointers of generated code",
        [FRAME_RUBY] = "Ruby's control frames"};
    size_t count, shown = 0;
    struct sampler_thread *list = sampler_threads(sampler, &count);
    for (size_t i = 0; list && i < count; i++) {
        const struct sampler_thread *t = &list[i];
        const char *separator = "  ";
        if (i == 0 || list[i - 1].pid != t->pid) {
            const char *runtime = sampler_runtime(sampler, t->pid);
            bool kernel = t->kinds == 1u << FRAME_KERNEL;
            fprintf(stderr, "process %d: %s\n", t->pid,
                    runtime  ? runtime
                    : kernel ? "one of the kernel's threads"
                             : "ended");
            shown = 0;
        }
        if (shown++ >= 32)
            continue;
        fprintf(stderr, "  thread %-7d %-16s %6llu stacks, %5.1f %% complete", t->tid, t->name,
                (unsigned long long)t->stacks, 100.0 * (double)t->complete / (double)t->stacks);
        for (int kind = 0; kind < FRAME_KINDS; kind++)
            if (t->kinds >> kind & 1 && unwinders[kind]) {
                fprintf(stderr, "%s%s", separator, unwinders[kind]);
                separator = ", ";
            }
        fputc('\n', stderr);
        if (shown == 32 && i + 1 < count && list[i + 1].pid == t->pid)
            fprintf(stderr, "  ...\n");
    }
    free(list);
}

/* Everything that is wanted of a profile. */
static int deliver(const struct profile_options *o, struct profile *profile, struct profile_facts facts)
{
    struct problem problem = {0};
    struct prune_result pruned;
    _cleanup_(profile_freep) struct profile *services = NULL;
    int r = EXIT_DONE;
    if (o->prune > 0) {
        if (prune_threads(profile, o->prune, o->keep_threads, &pruned) < 0)
            return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
        facts.pruned = &pruned;
        if (!o->quiet)
            profile_steer_print_pruned(&pruned);
    }
    if (!facts.io && certainty_measure(profile) < 0)
        return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
    if (o->by_service) {
        if (profile_by_service(profile, &services) < 0 || profile_intervals_copy(services, profile) < 0)
            return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
        profile = services;
    }
    enum profile_format format = o->format   ? profile_format_named(o->format)
                                 : o->output ? profile_format_of_path(o->output)
                                             : FORMAT_UNKNOWN;
    if ((format == FORMAT_PPROF || o->push) && business_label(profile, &o->rules) < 0)
        return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
    bool listed = !o->output && !o->format && !o->json && !o->push, waits = listed && !o->sampler.on_cpu;
    if (facts.allocs && listed)
        return profile_allocs_print(facts.allocs, profile, o->top);
    if (facts.io && listed)
        return profile_io_print(facts.io, profile, &o->rules, o->sampler.whole_machine, o->top);
    if (facts.locks && listed)
        return profile_locks_print(facts.locks, profile, o->top);
    if (facts.wakers && listed) {
        r = profile_wakers_print(profile, &o->rules, o->top);
        if (waits || r)
            return r;
        putchar('\n');
    }
    if (waits) { /* the innermost functions are the kernel's, and alike: who called them comes first */
        print_business(stdout, profile, &o->rules, o->top);
        putchar('\n');
    }
    if (o->output || (o->format && !o->json))
        r = write_output(o, profile);
    else if (listed)
        print_functions(profile, o->top);
    if (r == EXIT_DONE && o->push &&
        profile_push(profile, o->push, o->service ? o->service : "sonde", &problem) < 0)
        r = cli_fail(EXIT_FAILED, &problem);
    if (r == EXIT_DONE && o->json)
        r = profile_report_json(profile, &o->rules, &facts, o->top);
    if (r == EXIT_DONE && o->business && !waits && !o->json) {
        FILE *to = o->format && !o->output ? stderr : stdout;
        fputc('\n', to);
        print_business(to, profile, &o->rules, o->top);
    }
    return r;
}

/* Profiles of instances, nodes or groups, added up: no sampling. */
static int merge_files(const struct profile_options *o, char **files, struct profile *profile)
{
    struct problem problem = {0};
    struct confine confine;
    ARRAY(size_t) ends = {0};
    size_t count = 0;
    while (files[count])
        count++;
    confine_begin(&confine, "profile --merge", NULL);
    confine_option(&confine, "output", o->output);
    confine_option(&confine, "push", o->push);
    int r = confine_end(&confine, (const char *const *)files, count, &problem);
    for (; r == 0 && *files; files++) {
        r = profile_add_file(profile, *files, &problem);
        if (r == 0 && array_add(&ends, profile->frames.count) < 0)
            r = problem_set(&problem, -ENOMEM, "out of memory");
    }
    if (r == 0 && identity_merge(profile, ends.at, ends.count) < 0)
        r = problem_set(&problem, -ENOMEM, "out of memory");
    array_done(&ends);
    if (r < 0)
        return cli_fail(EXIT_FAILED, &problem);
    if (profile->nodes.count == 1)
        fprintf(stderr, "sonde: there are no stacks in what was merged\n");
    r = deliver(o, profile, (struct profile_facts){0});
    return r ? r : profile->nodes.count == 1 ? EXIT_EMPTY : EXIT_DONE;
}

static int run_profile(const struct command *self, int argc, char **argv)
{
    _cleanup_(profile_options_done) struct profile_options o = {.sampler = {.frequency = 99,
                                                                            .kernel = true,
                                                                            .inlined = true,
                                                                            .by_process = true,
                                                                            .on_cpu = true,
                                                                            .off_cpu_min_ns = UINT64_MAX},
                                                                .top = 30};
    uint64_t start = clock_monotonic_ns();
    const char *unit = "nanoseconds";
    int r = profile_options_parse(self, argc, argv, &o, &unit);
    if (r >= 0)
        return r;
    if (o.output && o.format && strcmp(o.output, "-") == 0)
        o.output = NULL; /* a format alone goes to standard output */
    enum profile_format format = o.format   ? profile_format_named(o.format)
                                 : o.output ? profile_format_of_path(o.output)
                                            : FORMAT_FOLDED;
    if (format == FORMAT_UNKNOWN)
        return cli_usage(self,
                         "'%s' names no format; --format is folded, pprof, html, speedscope, firefox or otlp",
                         o.format ? o.format : o.output);
    if (!o.output && (format == FORMAT_PPROF || format == FORMAT_OTLP) && isatty(1))
        return cli_usage(self, "%s is no text for a terminal: name a file with -o", o.format);
    if ((o.sampler.locks || o.sampler.allocs) && format == FORMAT_FIREFOX)
        return cli_usage(self, "the Firefox Profiler shows samples in time, of which --event %s keeps none",
                         o.event);
    if (o.by_service && format == FORMAT_FIREFOX)
        return cli_usage(self, "the Firefox Profiler shows processes one by one: not with --by-service");
    _cleanup_(profile_freep) struct profile *profile = NULL;
    _cleanup_(sampler_closep) struct sampler *sampler = NULL;
    _cleanup_(ctf_writer_freep) struct ctf_writer *trace = NULL;
    _cleanup_(profile_metrics_freep) struct profile_metrics *metrics = NULL;
    struct problem problem = {0};
    int gate = -1;
    if (profile_new(&profile) < 0)
        return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
    snprintf(profile->event, sizeof(profile->event), "%s", o.event);
    snprintf(profile->unit, sizeof(profile->unit), "%s", unit);
    profile->period = o.sampler.event_period ? o.sampler.event_period : NS_PER_S / o.sampler.frequency;
    profile->by_line = o.sampler.lines;
    bool says_how_certain =
        format == FORMAT_PPROF || o.json || (!o.output && !o.format) || o.target.error > 0;
    if (says_how_certain && !o.merge && !o.sampler.allocs && !o.sampler.io &&
        profile_windows_begin(profile) < 0)
        return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
    profile->sample_limit = format == FORMAT_FIREFOX || o.trace ? 2000000 : 0;
    bool has_places = (o.sampler.locks || o.sampler.waker_stacks || o.sampler.allocs || o.sampler.io) &&
                      !o.output && !o.format;
    o.sampler.source = format != FORMAT_FOLDED || o.json || has_places;
    pid_t child = 0;
    if (o.output && (r = file_replaceable(o.output)) < 0) {
        problem_set(&problem, r, "%s: %s", o.output, strerror(-r));
        return cli_fail(EXIT_FAILED, &problem);
    }
    if ((r = profile_options_find_container(&o)))
        return r;
    if (o.merge)
        return merge_files(&o, o.command, profile);
    struct confine_sampler confined = {.marks = sampler_marks(),
                                       .readers = &namer_kind,
                                       .output = o.output,
                                       .trace = o.trace,
                                       .store = o.store,
                                       .pids = o.sampler.pids,
                                       .pid_count = o.sampler.pid_count,
                                       .cgroup = o.sampler.cgroup,
                                       .connects = o.push || o.metrics};
    if ((r = confine_sampler_begin(&confined, &problem)) < 0)
        return cli_fail(EXIT_FAILED, &problem);
    if (o.trace && (r = ctf_writer_join(o.trace, &trace, &problem)) < 0)
        return cli_fail(r == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    if (o.command) {
        child = start_command(o.command, &gate);
        if (child < 0)
            return cli_fail(EXIT_FAILED, &(struct problem){.what = "cannot start a process"});
    }
    confined.child = child;
    _cleanup_(process_places_done) struct process_places functions = {0};
    if (o.sampler.allocs)
        r = profile_allocs_find(&o.sampler, child, o.command ? o.command[0] : NULL, &functions, &problem);
    if (o.sampler.locks)
        r = goroutine_places_find(&o.sampler, child, o.command ? o.command[0] : NULL, &functions, &problem);
    o.sampler.places = functions.list.at;
    o.sampler.place_count = functions.list.count;
    _cleanup_(profile_hits_done) struct profile_hits places = {0};
    if (o.sampler.hits && !o.sampler.io)
        r = profile_hits_find(o.event, &o.sampler, o.command ? o.command[0] : NULL, &places, &problem);
    o.sampler.hit_places = places.list.at;
    o.sampler.hit_place_count = places.list.count;
    o.sampler.hit_child = child;
    if (r >= 0)
        r = sampler_open(&o.sampler, &sampler, &problem);
    if (r == 0 && o.sampler.io && !o.quiet)
        profile_io_print_price(&o.sampler);
    else if (r == 0 && o.sampler.hits && !o.quiet)
        profile_hits_print_price(o.event, &o.sampler, sampler);
    if (r == 0 && child)
        sampler_add_command(sampler, child);
    if (r == 0 && sampler_options_follow(&o.sampler))
        r = follow_start(sampler, &o.sampler,
                         o.sampler.allocs  ? profile_allocs_find_in
                         : o.sampler.locks ? goroutine_places_in
                                           : NULL,
                         &problem);
    if (r == 0)
        r = confine_sampler(&confined, &problem);
    if (r == 0)
        r = sampler_start(sampler, &problem);
    if (r == 0 && o.metrics) /* it has a thread, which has no more rights */
        r = profile_metrics_start(o.metrics, &metrics, &problem);
    if (r == 0 && metrics)
        print_metrics_address(o.metrics, profile_metrics_port(metrics));
    struct profile_sampling sampling = {.options = &o,
                                        .sampler = sampler,
                                        .profile = profile,
                                        .metrics = metrics,
                                        .interrupted = &interrupted,
                                        .child = child,
                                        .gate = gate};
    struct sigaction action = {.sa_handler = on_signal}; /* until now there is nothing to be written */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (r == 0)
        r = profile_sampling_run(&sampling, &problem);
    if (gate >= 0)
        close(gate);
    if (r < 0) {
        if (child)
            waitpid(child, NULL, 0);
        return cli_fail(r == -EPERM || r == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    }
    struct sampler_counts counts;
    struct profile_facts facts = {.counts = &counts,
                                  .locks = sampler_locks(sampler),
                                  .allocs = sampler_allocs(sampler),
                                  .io = sampler_io(sampler),
                                  .wakers = o.sampler.waker_stacks};
    sampler_counts(sampler, &counts);
    if (sampling.rate.options)
        facts.rate = &sampling.rate;
    if (!counts.stacks && WIFEXITED(sampling.status) && WEXITSTATUS(sampling.status) == 127)
        return 127; /* it could not be started, and why was said */
    if (!o.quiet)
        print_quality(&counts, start);
    if (!o.quiet)
        print_folded(&counts, profile);
    if (!o.quiet)
        print_unread(sampler);
    if (!o.quiet && !o.sampler.locks) /* only of Go's locks, and few programs are Go's */
        profile_hits_print_followed(sampler, &counts);
    if (!o.quiet && o.sampler.io)
        profile_io_print_stopped(&o.sampler, &counts, start);
    else if (!o.quiet && o.sampler.hits)
        profile_hits_print_counts(o.event, &o.sampler, &counts, start);
    if (o.target.error > 0)
        facts.target = &sampling.target;
    if (!o.quiet && facts.target)
        profile_steer_print_target(profile, &o.target, facts.target);
    if (!o.quiet && facts.rate)
        profile_steer_print_rate(facts.rate);
    if (sampling.cost.elapsed_s > 0)
        facts.cost = &sampling.cost;
    if (!o.quiet && facts.cost)
        profile_steer_print_cost(facts.cost);
    if (o.runtimes)
        print_runtimes(sampler);
    if (o.tune > 0) {
        struct tuning tuning;
        if (tuning_measure(profile, o.tune, &tuning) < 0)
            return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
        profile_steer_print_tuning(&tuning, o.tune, &sampling.rate, o.json);
        array_done(&sampling.rate.divergences);
        return profile->nodes.count == 1 ? EXIT_EMPTY : EXIT_DONE;
    }
    if (o.store) {
        if (!o.quiet)
            cli_printf(stderr, "sonde: %zu windows were added to %s, %zu could not be\n",
                       sampling.kept.windows, o.store, sampling.kept.failed);
        return sampling.kept.failed ? EXIT_FAILED : counts.lost || counts.namers_late ? EXIT_LOST : EXIT_DONE;
    }
    if (facts.allocs)
        allocs_into_profile(facts.allocs, strcmp(o.event, "alloc-live") == 0);
    if (o.sampler.allocs && !o.quiet)
        profile_allocs_print_hidden(sampler, &o.sampler, child);
    if (facts.locks)
        locks_into_profile(facts.locks);
    if (facts.io)
        io_into_profile(facts.io, profile_io_weight(profile));
    if (facts.locks && !o.quiet)
        profile_locks_print_hidden(facts.locks, profile);
    if (profile->nodes.count == 1)
        profile_event_explain_nothing(o.event, &o.sampler, &counts);
    if (!o.quiet && !o.json && !o.output && !o.format)
        profile_report_outliers(profile);
    if (trace && (r = profile_into_trace(profile, counts.lost, trace, &problem)) < 0)
        return cli_fail(EXIT_FAILED, &problem);
    r = deliver(&o, profile, facts);
    if (r)
        return r;
    if (sampling.status)
        return WIFSIGNALED(sampling.status) ? 128 + WTERMSIG(sampling.status) : WEXITSTATUS(sampling.status);
    return counts.lost || counts.namers_late ? EXIT_LOST : profile->nodes.count == 1 ? EXIT_EMPTY : EXIT_DONE;
}

const struct command command_profile = {
    .name = "profile",
    .arguments = "[OPTION...] [-o FILE] -- COMMAND [ARGUMENT...] | PID... | --process NAME | --all | "
                 "--container NAME | --merge "
                 "FILE...",
    .summary = "Show which functions use the CPU: native code, Python, Node.js, Java, Ruby, Go",
    .help =
        "Samples native code, Python 3.9 to 3.13, Node.js 16 to 26, Java 11 to 28, Ruby 3.1, Go and the "
        "kernel, "
        "with one sampler and\n"
        "without an agent, a flag or a restart; processes with all their children. LuaJIT, Erlang, .NET and "
        "others that\n"
        "generate code are named when they write a perf map (/tmp/perf-PID.map: erl +JPperf true, "
        "DOTNET_PerfMapEnabled=1);\n"
        "of PHP and other versions of Ruby the interpreter's functions are shown. Without -o the functions "
        "are listed; FILE's "
        "extension selects\n"
        "the format: .html (flame graph), .pb.gz (pprof), .folded, .speedscope.json, .firefox.json, .otlp "
        "(OpenTelemetry).\n",
    .run = run_profile,
    .options = profile_option_groups,
    .examples = "  sonde profile -o cpu.html -- python3 train.py\n"
                "  sonde profile -d 10 4711 4712\n"
                "  sonde profile --all -F 999 -d 30 -o machine.pb.gz\n"
                "  sonde profile --process nginx -d 10\n"
                "  sonde profile --event off-cpu --wakers=stacks -d 10 4711\n"
                "  sonde profile --event lock -d 10 4711\n"
                "  sonde profile --event alloc -d 60 4711\n"
                "  sonde profile --event block --all -d 10\n"
                "  sonde profile --event connect -d 10 --process node\n"
                "  sonde profile --event usdt:postgres:postgresql:transaction__start -d 10 4711\n"
                "  sonde profile --event syscalls:sys_enter_fsync --all -d 10\n"
                "  sonde profile --trace /tmp/trace -d 10 4711\n"
                "  sonde profile --error 5%@1% -d 600 --process java\n"
                "  sonde profile --all --store /var/lib/sonde/profiles\n"
                "  sonde profile --all --store /var/lib/sonde/profiles --metrics 127.0.0.1:9477\n"
                "  sonde profile --tune -F 499 -d 300 --process java\n"
                "  sonde profile --adaptive -d 3600 -o shop.pb.gz --process java\n"
                "  sonde profile --prune -d 30 -o shop.pb.gz --process java\n"
                "  sonde profile --merge --by-service -o service.html node1.pb.gz node2.pb.gz\n",
    .operands_end_options = true,
    .keeps_operand = profile_keeps_operand,
};
