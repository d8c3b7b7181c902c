/* `sonde attach`: trace processes that run already, and leave them as they were. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "cli/recording.h"

/* Held from where they were chosen, by name or otherwise: another process that is given such a number later
 * was not. */
struct chosen {
    struct proc **at;
    size_t count, capacity;
};

struct attach_options {
    bool all;
    double seconds; /* 0: until Ctrl-C */
    struct chosen chosen;
};

/* ---- who ---- */

static bool is_number(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!isdigit((unsigned char)*c))
            return false;
    return text[0] != '\0';
}

/* The name of a process as its user knows it: the program's, without its path. */
static bool has_name(const struct proc *proc, const char *name)
{
    char exe[PATH_MAX];
    if (proc_read_link(proc, "exe", exe, sizeof(exe)) <= 0)
        return false;
    const char *slash = strrchr(exe, '/');
    return strncmp(slash ? slash + 1 : exe, name, strlen(name)) == 0;
}

static int add_process(struct chosen *chosen, struct proc *proc)
{
    array_foreach (chosen, p)
        if ((*p)->pid == proc->pid)
            return 0;
    int r = array_add(chosen, proc);
    if (r == 0)
        proc_ref(proc);
    return r;
}

/* name (may be NULL): only if its program's name begins so. */
static bool add_pid(struct chosen *chosen, pid_t pid, const char *name)
{
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    return proc_open(pid, &proc) == 0 && (!name || has_name(proc, name)) && add_process(chosen, proc) == 0;
}

/* Every process whose program's name begins so; how many there were. */
static int add_named(struct chosen *chosen, const char *name)
{
    DIR *list = opendir("/proc");
    int found = 0;
    for (struct dirent *entry; list && (entry = readdir(list));)
        if (is_number(entry->d_name) && atoi(entry->d_name) != getpid())
            found += add_pid(chosen, atoi(entry->d_name), name);
    if (list)
        closedir(list);
    return found;
}

/* The processes of a cgroup folder and those below it (a container, a systemd unit). */
static int add_cgroup(struct chosen *chosen, const char *folder)
{
    char path[4096];
    _cleanup_(freep) char *text = NULL;
    int found = 0;
    snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
    if (file_read(path, 1 << 20, &text, NULL) < 0)
        return -1;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (is_number(line))
            found += add_pid(chosen, atoi(line), NULL);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            int below = add_cgroup(chosen, path);
            found += below > 0 ? below : 0;
        }
    if (dir)
        closedir(dir);
    return found;
}

/* A PID, a cgroup's folder, or the name of a program. */
static int add_target(const struct command *self, struct attach_options *options, const char *text)
{
    if (is_number(text)) {
        _cleanup_(proc_unrefp) struct proc *proc = NULL;
        if (cli_open_process(atoi(text), &proc) != EXIT_DONE)
            return 0; /* the others are attached to */
        return add_process(&options->chosen, proc) < 0 ? EXIT_FAILED : 0;
    }
    int found = strchr(text, '/') ? add_cgroup(&options->chosen, text) : add_named(&options->chosen, text);
    if (found < 0)
        return cli_usage(self, "%s is not a cgroup directory (it has no cgroup.procs)", text);
    if (found == 0)
        return cli_usage(
            self, strchr(text, '/') ? "no process is in %s" : "no process runs a program named %s", text);
    return 0;
}

/* ---- attaching ---- */

/* picky: what is neither Node nor Redis is told of. */
static int attach_all(struct recording *recording, const struct attach_options *options, bool picky,
                      int *ret_attached, struct problem *problem)
{
    int attached = 0, last = -ESRCH;
    *ret_attached = 0;
    array_foreach (&options->chosen, proc) {
        int r = session_attach(recording->session, *proc, problem);
        if (r >= 0) {
            attached++;
            continue;
        }
        last = r;
        if (r == -EINTR)
            break;
        if (r == -ESRCH && attached) /* one of a name or a container that ended meanwhile */
            continue;
        if ((picky || r != -ENOTSUP) && options->chosen.count > 1)
            fprintf(stderr, "sonde: %s\n", problem->what);
    }
    if (!attached && !options->chosen.count)
        problem_set(problem, -ESRCH, "no running node or redis-server can be attached to");
    *ret_attached = attached;
    return attached ? 0 : last;
}

static int attach(struct recording *recording, const struct attach_options *options)
{
    struct problem problem = {0};
    if (options->seconds > 0)
        recording->until_ns = clock_realtime_ns() + (uint64_t)(options->seconds * (double)NS_PER_S);
    int ignored = 0, attached = 0, r = recording_open(recording, &problem);
    recording_hold_signals();
    if (r >= 0)
        r = attach_all(recording, options, !options->all, &attached, &problem);
    uint64_t deadline_ns = 0;
    if (options->seconds > 0)
        deadline_ns = clock_monotonic_ns() + (uint64_t)(options->seconds * (double)NS_PER_S);
    if (r >= 0 && !recording->quiet)
        fprintf(stderr, "sonde: attached to %d process%s; %s\n", attached, attached == 1 ? "" : "es",
                deadline_ns ? "Ctrl-C ends earlier" : "Ctrl-C ends and reports");
    if (r >= 0)
        r = recording_loop(recording, 0, deadline_ns, &ignored, &problem);
    return recording_close(recording, r, 0, &problem);
}

/* What the command line says. */
struct attach_command {
    struct recording recording;
    struct attach_options options;
};

#define AT(member) offsetof(struct attach_command, member)

static const struct option_row ROWS[] = {
    {"duration", 'd', "SECONDS", "stop after this time", OPTION_SECONDS, .at = AT(options.seconds)},
    {"all", 'a', .text = "every node and redis-server on this host", .type = OPTION_FLAG,
     .at = AT(options.all)},
    {"audit", .value = "FILE",
     .text =
         "append a line about each attachment (who, whom, what, until when) to FILE (default: journald or "
         "syslog)",
     .type = OPTION_TEXT, .at = AT(recording.audit)},
    {NULL},
};

static const struct option_group OPTIONS[] = {
    {ROWS, 0}, {recording_rows, AT(recording)}, {recording_report_rows, AT(recording)}, {NULL, 0}};

static int run(const struct command *self, int argc, char **argv)
{
    struct attach_command said = {.recording = {.request_context = SONDE_CONTEXT_AUTO, .report = true}};
    struct attach_options *options = &said.options;
    int first, r = options_parse(self, argc, argv, &said, &first);
    if (r >= 0)
        return r;
    if (first == argc && !options->all)
        return cli_usage(self, "missing processes: give PIDs, names, a cgroup's directory, or --all");
    r = 0;
    if (options->all) {
        add_named(&options->chosen, "node");
        add_named(&options->chosen, "redis-server");
    }
    for (; first < argc && r == 0; first++)
        r = add_target(self, options, argv[first]);
    if (r == 0 && !options->chosen.count && !options->all)
        r = EXIT_FAILED; /* it was said why */
    if (r == 0)
        r = attach(&said.recording, options);
    array_foreach (&options->chosen, proc)
        proc_unref(*proc);
    array_done(&options->chosen);
    return r;
}

const struct command command_attach = {
    .name = "attach",
    .arguments = "[OPTION...] PID|NAME|CGROUP...|--all",
    .summary = "Trace running Node and Redis processes, and leave them as they were",
    .help =
        "Nothing is restarted: the probe is loaded into the running process, its functions are redirected "
        "while\n"
        "all threads are stopped for about a millisecond, and restored at the end. Ctrl-C ends and reports.\n"
        "A target is a PID, the name of a program (every process of it), or the directory of a cgroup (a "
        "container,\n"
        "a systemd unit). Needs the right to trace the process: the same user, or root.\n",
    .options = OPTIONS,
    .examples = "  sonde attach 4711\n"
                "  sonde attach --duration 30 node redis-server\n"
                "  sonde attach -o /tmp/trace /sys/fs/cgroup/system.slice/redis-server.service\n",
    .run = run,
};
