/* `sonde doctor`: a tick or a cross for each thing sonde can use on this machine, and for a process; why; and
 * the command that mends it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "attach/freezer.h"
#include "attach/inject.h"
#include "attach/patch.h"
#include "attach/plan_worker.h"
#include "attach/syscall_filter.h"
#include "base/array.h"
#include "base/file.h"
#include "base/schema.h"
#include "base/text.h"
#include "broker/apart.h"
#include "broker/broker.h"
#include "broker/protocol.h"
#include "broker/sandbox.h"
#include "cli/confine.h"
#include "cli/lsm.h"
#include "cli/options.h"
#include "collect/audit.h"
#include "observe/observe.h"
#include "profile/process.h"
#include "profile/sampler.h"
#include "symbol/demangle.h"

enum verdict { WORKS, LIMITED, FAILS };

/* One line of the answer. */
struct check {
    enum verdict verdict;
    char what[96];  /* "attach to running processes" */
    char why[512];  /* what was found */
    char mend[256]; /* the command that mends it; empty when it works */
};

/* One function of a process that would be hooked. */
struct hook_line {
    pid_t pid;
    const struct hook *hook;
    char why[300]; /* it cannot be; empty when it can */
};

struct answer {
    struct check at[64];
    size_t count;
    pid_t pid; /* whose hooks are being looked at */
    ARRAY(struct hook_line) hooks;
};

static struct check *add(struct answer *answer, const char *what)
{
    struct check *check = &answer->at[MIN(answer->count, ARRAY_SIZE(answer->at) - 1)];
    answer->count = MIN(answer->count + 1, ARRAY_SIZE(answer->at));
    *check = (struct check){.verdict = WORKS};
    snprintf(check->what, sizeof(check->what), "%s", what);
    return check;
}

static void _printf_(2, 3) because(struct check *check, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(check->why, sizeof(check->why), format, args);
    va_end(args);
}

static void fails(struct check *check, enum verdict verdict, const char *mend)
{
    check->verdict = verdict;
    snprintf(check->mend, sizeof(check->mend), "%s", mend);
}

/* ---- what the machine offers ---- */

/* A number from a file of /proc or /sys; fallback when there is none. */
static long number_in(const char *path, long fallback)
{
    _cleanup_(freep) char *text = NULL;
    return file_read(path, 64, &text, NULL) < 0 ? fallback : strtol(text, NULL, 10);
}

static bool has_capability(int capability)
{
    _cleanup_(freep) char *status = NULL;
    if (file_read("/proc/self/status", 1 << 16, &status, NULL) < 0)
        return false;
    const char *line = strstr(status, "\nCapEff:");
    return line && (strtoull(line + 8, NULL, 16) >> capability & 1);
}

static void check_clock(struct answer *answer)
{
    struct check *check = add(answer, "one clock for all CPUs");
    _cleanup_(freep) char *cpu = NULL;
    bool invariant = file_read("/proc/cpuinfo", 16 << 20, &cpu, NULL) == 0 && strstr(cpu, "constant_tsc") &&
                     strstr(cpu, "nonstop_tsc");
    because(check, invariant
                       ? "the CPUs' time stamp counters run at one constant rate"
                       : "the time stamp counter is not constant on this machine: times would be wrong");
    if (!invariant)
        fails(check, FAILS, "Use another machine or another kind of virtual machine.");
}

static void check_kernel(struct answer *answer)
{
    struct check *check = add(answer, "memory for the rings");
    struct utsname name;
    int major = 0, minor = 0;
    uname(&name);
    sscanf(name.release, "%d.%d", &major, &minor);
    int fd = memfd_create("doctor", MFD_CLOEXEC);
    if (fd < 0) {
        because(check, "memfd_create: %s", strerror(errno));
        fails(check, FAILS, "Allow memfd_create in the system call filter sonde runs under.");
    } else if (major < 5 || (major == 5 && minor < 14)) {
        because(check, "Linux %s: memory is allotted at once for 16 threads of each process", name.release);
        fails(check, LIMITED, "Linux 5.14 or later allots it thread by thread, for up to 128.");
    } else {
        because(check, "Linux %s", name.release);
    }
    if (fd >= 0)
        close(fd);
}

static void check_probe(struct answer *answer)
{
    struct check *check = add(answer, "the probe");
    _cleanup_(freep) char *path = observe_probe_path();
    if (access(path, R_OK) == 0) {
        because(check, "%s", path);
    } else {
        because(check, "%s: %s", path, strerror(errno));
        fails(check, FAILS, "make build, or name it in SONDE_PROBE");
    }
}

static void check_ptrace(struct answer *answer)
{
    struct check *check = add(answer, "attach to running processes");
    long scope = number_in("/proc/sys/kernel/yama/ptrace_scope", 0);
    if (scope == 3) {
        because(check,
                "kernel.yama.ptrace_scope is 3: no process may trace, not even root's, until the next boot");
        fails(check, FAILS, "Boot with kernel.yama.ptrace_scope=1");
    } else if (has_capability(CAP_SYS_PTRACE)) {
        because(check, "this user may trace every process");
    } else if (scope == 0) {
        because(check, "this user may trace its own processes");
        fails(check, LIMITED, "sudo sonde attach ...   (for other users' processes)");
    } else {
        because(check, "kernel.yama.ptrace_scope is %ld: only children may be traced (sonde run works)",
                scope);
        fails(check, LIMITED, "sudo sonde attach ...   or   sudo sysctl kernel.yama.ptrace_scope=0");
    }
}

static void check_bpf(struct answer *answer)
{
    struct check *check = add(answer, "profiles and the kernel's side (eBPF)");
    bool allowed = has_capability(CAP_SYS_ADMIN) || (has_capability(CAP_BPF) && has_capability(CAP_PERFMON));
    if (access("/sys/kernel/btf/vmlinux", R_OK) < 0) {
        because(check, "this kernel describes no types (/sys/kernel/btf/vmlinux is not there)");
        fails(check, FAILS, "Use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions do.");
    } else if (!allowed) {
        because(check, "this user may not load eBPF programs");
        fails(check, FAILS, "sudo sonde ...   or   sudo setcap " SAMPLER_CAPABILITIES " $(command -v sonde)");
    } else {
        because(check, "the kernel describes its types, and this user may load programs");
    }
}

static void check_schedstat(struct answer *answer)
{
    struct check *check = add(answer, "waiting for a CPU distinguished from being blocked");
    _cleanup_(freep) char *text = NULL;
    unsigned long long run = 0, wait = 0;
    char path[64]; /* the shell's, which has run for a while */
    snprintf(path, sizeof(path), "/proc/%d/schedstat", getppid());
    if (file_read(path, 256, &text, NULL) == 0 && sscanf(text, "%llu %llu", &run, &wait) == 2 && run) {
        because(check, "/proc/PID/schedstat is there");
    } else {
        because(check, "/proc/PID/schedstat is empty: a busy machine may look like a blocked loop");
        fails(check, LIMITED, "sudo sysctl kernel.sched_schedstats=1, or a kernel with CONFIG_SCHED_INFO=y");
    }
}

static void check_lockdown(struct answer *answer)
{
    _cleanup_(freep) char *text = NULL;
    bool known = file_read("/sys/kernel/security/lockdown", 256, &text, NULL) == 0;
    struct check *check = add(answer, "the kernel is not locked down");
    if (known && strstr(text, "[confidentiality]")) {
        because(check, "lockdown=confidentiality: eBPF programs may not read memory");
        fails(check, LIMITED, "Boot with lockdown=integrity; tracing without the kernel's side works.");
    } else {
        because(check,
                known ? "it lets eBPF programs read memory" : "it has no lockdown, or does not show it");
    }
}

static void answer_lsm(struct check *check, const struct lsm_answer *lsm)
{
    because(check, "%s", lsm->why);
    if (lsm->verdict != LSM_FREE)
        fails(check, lsm->verdict == LSM_REFUSES ? FAILS : LIMITED, lsm->remedy);
}

static void check_security_modules(struct answer *answer)
{
    struct lsm_answer lsm;
    lsm_of_machine("", &lsm);
    answer_lsm(add(answer, "no security module in the way"), &lsm);
}

/* Also from root, once it has given its rights up to sample. */
static bool are_hidden(void)
{
    char *text = NULL, *line, *rest;
    bool hidden = false;
    if (file_read("/proc/self/mounts", 1 << 20, &text, NULL) < 0)
        return false;
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, " /proc proc "))
            hidden = strstr(line, "hidepid=") && !strstr(line, "hidepid=0") && !strstr(line, "hidepid=off");
    free(text);
    return hidden;
}

static void check_hidden_processes(struct answer *answer)
{
    struct check *check = add(answer, "all processes are seen");
    if (geteuid() == 0 && are_hidden()) {
        because(check,
                "/proc hides those of other users (hidepid) from what samples, which is not root any more");
        fails(check, LIMITED, "sonde profile: name the children, too, or mount /proc without hidepid");
        return;
    }
    if (access("/proc/1/stat", R_OK) < 0) {
        because(check, "/proc hides those of other users (hidepid)");
        fails(check, LIMITED, "sudo sonde ...   or mount /proc with gid= of a group of yours");
    } else {
        because(check, "/proc shows those of other users");
    }
}

static void check_memfd(struct answer *answer)
{
    struct check *check = add(answer, "code in memory files");
    long noexec = number_in("/proc/sys/vm/memfd_noexec", 0);
    because(check, "vm.memfd_noexec is %ld", noexec);
    if (noexec >= 2)
        fails(check, FAILS, "sudo sysctl vm.memfd_noexec=1   (in sonde's PID namespace)");
}

static void check_workers(struct answer *answer)
{
    struct check *check = add(answer, "files and stacks are read without rights");
    struct sandbox_walls walls = sandbox_available();
    if (!walls.filter) {
        because(check, "the kernel has no system call filters (CONFIG_SECCOMP_FILTER)");
        fails(check, FAILS,
              "A kernel with them. Without, sonde run, attach, profile and top, and as root what reads "
              "recordings, "
              "refuse: they parse nothing with rights.");
        return;
    }
    because(check, "by a process with few system calls%s%s%s", walls.own_user ? ", a user of its own" : "",
            walls.namespaces ? ", an empty file system" : "", walls.landlock ? ", Landlock" : "");
}

static void check_audit(struct answer *answer)
{
    struct check *check = add(answer, "attachments are written down");
    struct audit audit;
    if (audit_open(NULL, &audit, NULL) < 0)
        return;
    const char *place = audit_place(&audit);
    if (place)
        because(check, "in %s", place);
    else
        because(check, "nowhere: no system log takes lines here; sonde attach --audit FILE does");
    audit_close(&audit);
}

/* Which process of a sonde that runs holds what: those are named so (prctl(2), PR_SET_NAME). */
static void check_running(struct answer *answer)
{
    static const struct {
        const char *name, *holds;
    } ROLES[] = {
        {"sonde", "traces and records: its caller's rights"},
        {"sonde:spawner", "makes workers: its caller's rights, reads nothing"},
        {"sonde:profile", "samples: no rights but its BPF maps"},
        {"sonde:names", "reads what one user's sampled processes control: no rights"},
        {"sonde:lender", "opens for those what they read: parses nothing"},
        {"sonde:writer", "makes the files that were named: its caller's rights, reads nothing"},
        {"sonde:places", "watches places in what is started later: its caller's rights, parses nothing"},
        {"sonde:fetcher", "asks debuginfod servers: no capability"},
        {"sonde:launcher", "starts the action: its caller's rights, reads nothing"},
        {"sonde:stacks", "reads stacks and symbols: no rights"},
        {"sonde:symbols", "reads files of programs: no rights"}};
    struct text words = {0};
    size_t count;
    _cleanup_(freep) pid_t *pids = proc_all(&count);
    for (size_t p = 0; p < count; p++) {
        _cleanup_(proc_unrefp) struct proc *proc = NULL;
        char name[PROC_NAME_BYTES];
        if (pids[p] == getpid() || proc_open(pids[p], &proc) < 0)
            continue;
        proc_read_name(proc, name);
        for (size_t i = 0; i < ARRAY_SIZE(ROLES); i++)
            if (strcmp(name, ROLES[i].name) == 0)
                text_addf(&words, "%s%d (user %ld) %s", words.length ? "; " : "", proc->pid,
                          proc_status_number(proc, "Uid"), ROLES[i].holds);
    }
    if (words.length)
        because(add(answer, "sondes that run"), "%.600s", text_get(&words));
    text_done(&words);
}

/* ---- what a process offers ---- */

static const char *runtime_words(const struct target *target, char *buffer, size_t size)
{
    char kinds[60];
    target_kinds_say(kinds, sizeof(kinds));
    if (target->kind)
        target->kind->describe(target, buffer, size);
    else
        snprintf(buffer, size, "not %s, or a build without symbols", kinds);
    return buffer;
}

static void add_hook(void *context, const struct hook *hook, const char *why)
{
    struct answer *answer = context;
    struct hook_line line = {.pid = answer->pid, .hook = hook};
    snprintf(line.why, sizeof(line.why), "%s", why ? why : "");
    (void)array_add(&answer->hooks, line);
}

static void check_hooks(struct answer *answer, struct target *target)
{
    struct check *check = add(answer, "functions to hook");
    struct text missing = {0};
    int found = 0;
    answer->pid = target->pid;
    patch_survey(target, add_hook, answer);
    array_foreach (&answer->hooks, line) {
        if (line->pid != target->pid)
            continue;
        if (line->why[0])
            text_addf(&missing, "%s%s", missing.length ? "; " : "", hook_gives(line->hook));
        else
            found++;
    }
    array_foreach (&target->missing, copied)
        text_addf(&missing, "%ssome of %s: %s", missing.length ? "; " : "", copied->what, copied->why);
    if (missing.length) {
        because(check, "%d can be; not seen: %.400s", found, text_get(&missing));
        fails(check, found ? LIMITED : FAILS, "Use the distribution's build, or one that is not stripped.");
    } else {
        because(check, "all %d can be", found);
    }
    text_done(&missing);
}

static void check_fields(struct answer *answer, struct target *target)
{
    struct check *check = add(answer, "fields of its structures");
    struct sonde_config config;
    struct text missing = {0};
    size_t before = target->missing.count;
    target_layout(target, &config);
    for (size_t i = before; i < target->missing.count; i++)
        text_addf(&missing, "%s%s", missing.length ? ", " : "", target->missing.at[i].what);
    because(check, missing.length ? "not found: %.200s" : "all found", text_get(&missing));
    if (missing.length)
        fails(check, LIMITED, "Their values will say \"unknown\"; everything else works.");
    text_done(&missing);
}

static void check_tracer(struct answer *answer, const struct proc *proc)
{
    struct check *check = add(answer, "free to be attached to");
    long tracer = MAX(proc_status_number(proc, "TracerPid"), 0);
    because(check, tracer ? "process %ld traces it already" : "no process traces it", tracer);
    if (tracer)
        fails(check, FAILS, "End that debugger or tracer first.");
}

static void check_confinement(struct answer *answer, const struct proc *proc)
{
    struct lsm_answer lsm;
    _cleanup_(freep) char *label = NULL;
    (void)proc_read(proc, "attr/current", 4096, &label, NULL);
    lsm_of_process("", label, &lsm);
    answer_lsm(add(answer, "not confined by a security module"), &lsm);
}

/* What keeps a process from being stopped or called, whatever one's rights. */
static void check_state(struct answer *answer, const struct proc *proc)
{
    _cleanup_(freep) char *status = NULL;
    struct check *check = add(answer, "able to be called into");
    struct problem problem = {0};
    (void)proc_read(proc, "status", 1 << 16, &status, NULL);
    const char *features = status ? strstr(status, "\nx86_Thread_features:") : NULL;
    size_t length = features ? strcspn(features + 1, "\n") : 0;
    if (freezer_check(proc, &problem) < 0) {
        because(check, "%s", problem.what);
        fails(check, FAILS, problem.remedy);
    } else if (status && strstr(status, "\nState:\tT")) {
        because(check, "it is stopped (Ctrl-Z, SIGSTOP)");
        fails(check, FAILS, "Let it go on: kill -CONT PID");
    } else if (features && memmem(features, length, "shstk", 5)) {
        because(check, "it has a shadow stack, which refuses the way back from a call");
        fails(check, FAILS, "Start it with GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK, or under sonde run.");
    } else {
        because(check, "it is neither frozen nor stopped, and has no shadow stack");
    }
}

static void check_loader(struct answer *answer, const struct target *target)
{
    struct check *check = add(answer, "a way in for the probe");
    struct problem problem = {0};
    _cleanup_(freep) char *path = observe_probe_path();
    struct probe_files probes = probe_files_of(path);
    int loads = inject_check(target, &probes, &problem);
    probe_files_done(&probes);
    if (loads < 0) {
        because(check, "%s", problem.what);
        fails(check, FAILS, problem.remedy);
    } else {
        because(check, "its own loader can load it");
    }
}

static void check_filter(struct answer *answer, const struct proc *proc)
{
    struct check *check = add(answer, "its system call filter");
    struct problem problem = {0};
    if (syscall_filter_check(proc, &problem) < 0) {
        because(check, "%s", problem.what);
        fails(check, FAILS, problem.remedy);
    } else {
        because(check, "lets the probe's calls through, or there is none");
    }
}

enum { LOOK_BYTES = 16 << 10 };

/* In a process of its own, which has given its rights up as one that samples: what runs there, and how its
 * stacks are walked; two texts with their ends. */
static int look_into(pid_t pid, struct text *ret_words)
{
    struct process *process = NULL;
    struct native_files *files = NULL;
    struct process_shared shared = {0};
    int r = native_files_new(&files);
    if (r >= 0)
        r = process_open(pid, files, &shared, &process);
    if (r >= 0) {
        text_add_bytes(ret_words, process_runtime(process), strlen(process_runtime(process)) + 1);
        process_unwinders(process, ret_words);
    }
    process_free(process);
    process_shared_done(&shared);
    native_files_free(files);
    return r;
}

static void run_look(void *context, int socket)
{
    const pid_t *pid = context;
    const struct confine_sampler confined = {.marks = sampler_marks(), .pids = pid, .pid_count = 1};
    struct broker_head head = {.verb = BROKER_RESULT};
    struct text words = {0};
    int r = confine_sampler_begin(&confined, NULL);
    if (r >= 0)
        r = confine_sampler(&confined, NULL);
    if (r >= 0)
        r = look_into(*pid, &words);
    head.result = words.failed ? -ENOMEM : MIN(r, 0);
    (void)broker_send(socket, head, text_get(&words), MIN(words.length, LOOK_BYTES - 1u), -1);
    text_done(&words);
}

/* Which runtimes a profile will find there, and how their stacks are walked. False: it cannot be profiled. */
static bool check_profile(struct answer *answer, pid_t pid, char ret_runtime[static 64])
{
    static char words[LOOK_BYTES];
    struct check *check = add(answer, "profiles");
    struct broker_head head = {0};
    int socket = -1, r = apart_start("sonde:look", run_look, &pid, &socket, NULL);
    ptrdiff_t n = r < 0 ? r : broker_receive(socket, &head, words, sizeof(words) - 1, NULL);
    if (socket >= 0)
        close(socket);
    const char *end = n > 0 ? memchr(words, 0, (size_t)n) : NULL;
    if (!end || head.result < 0) {
        because(check, "its mappings cannot be read");
        fails(check, FAILS, "sudo sonde ...");
        return false;
    }
    words[n] = '\0';
    char *unwinders = words + (end - words) + 1;
    proc_make_printable(words);
    proc_make_printable(unwinders);
    snprintf(ret_runtime, 64, "%.63s", words);
    because(check, "%s: %s", ret_runtime, unwinders);
    return true;
}

static void check_process(struct answer *answer, pid_t pid)
{
    _cleanup_(broker_freep) struct broker *plans = NULL;
    struct target *target;
    struct problem problem = {0};
    char words[96], what[64];
    snprintf(what, sizeof(what), "process %d", pid);
    struct check *check = add(answer, what);
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    int r = proc_open(pid, &proc);
    if (r < 0)
        problem_set(&problem, r, "process %d: %s", pid, strerror(-r));
    else
        r = broker_new(&plan_worker, &plans, &problem);
    if (r >= 0)
        r = target_open(proc, plans, TARGET_WHOLE, SONDE_CONTEXT_AUTO, &target, &problem);
    if (r < 0) {
        because(check, "%s", problem.what);
        fails(check, FAILS, problem.remedy[0] ? problem.remedy : "Is the number right?");
    } else {
        because(check, "%s", runtime_words(target, words, sizeof(words)));
        char runtime[64] = "";
        bool profiled = check_profile(answer, pid, runtime);
        if (!target->kind) {
            snprintf(words, sizeof(words), "sonde profile %d shows where its time goes.", pid);
            if (profiled && strcmp(runtime, "native") != 0)
                because(check, "%s: it can be profiled, not traced", runtime);
            fails(check, profiled ? LIMITED : FAILS,
                  profiled ? words : "It can be neither traced nor profiled.");
        } else {
            check_tracer(answer, proc);
            check_confinement(answer, proc);
            check_state(answer, proc);
            check_loader(answer, target);
            check_filter(answer, proc);
            check_hooks(answer, target);
            check_fields(answer, target);
        }
        target_free(target);
    }
}

/* ---- the answer ---- */

static void print_check(const struct check *check)
{
    static const char *const SIGNS[] = {"\xe2\x9c\x93", "~", "\xe2\x9c\x97"};
    static const enum cli_style STYLES[] = {STYLE_GREEN, STYLE_YELLOW, STYLE_RED};
    printf("%s%s%s %-48s %s\n", cli_style(1, STYLES[check->verdict]), SIGNS[check->verdict],
           cli_style(1, STYLE_NONE), check->what, check->why);
    if (check->mend[0])
        printf("  %48s %s-> %s%s\n", "", cli_style(1, STYLE_BOLD), check->mend, cli_style(1, STYLE_NONE));
}

static void print_hooks(const struct answer *answer)
{
    pid_t pid = 0;
    array_foreach (&answer->hooks, line) {
        _cleanup_(freep) char *name = demangle_or_copy(line->hook->symbol, false);
        if (line->pid != pid)
            printf("\nFunctions of process %d:\n", line->pid);
        pid = line->pid;
        printf("%s%s%s %-48.48s %s\n", cli_style(1, line->why[0] ? STYLE_RED : STYLE_GREEN),
               line->why[0] ? "\xe2\x9c\x97" : "\xe2\x9c\x93", cli_style(1, STYLE_NONE), name ? name : "",
               line->why[0] ? line->why : hook_gives(line->hook));
    }
}

/* [{"pid", "functions": [{"function", "gives", "found", "why"}]}] */
static json_t *hooks_object(const struct answer *answer)
{
    json_t *processes = json_array(), *functions = NULL;
    pid_t pid = 0;
    array_foreach (&answer->hooks, line) {
        if (line->pid != pid) {
            functions = json_array();
            json_array_append_new(processes,
                                  json_pack("{s:i, s:o}", "pid", (int)line->pid, "functions", functions));
        }
        pid = line->pid;
        json_array_append_new(functions,
                              json_pack("{s:s, s:s, s:b, s:s}", "function", line->hook->symbol, "gives",
                                        hook_gives(line->hook), "found", !line->why[0], "why", line->why));
    }
    return processes;
}

static int print_json(const struct answer *answer)
{
    static const char *const VERDICTS[] = {"works", "limited", "fails"};
    json_t *checks = json_array();
    for (size_t i = 0; i < answer->count; i++) {
        const struct check *c = &answer->at[i];
        json_array_append_new(checks, json_pack("{s:s, s:s, s:s, s:s}", "what", c->what, "verdict",
                                                VERDICTS[c->verdict], "why", c->why, "remedy", c->mend));
    }
    json_t *root = json_pack("{s:i, s:o, s:o}", "schema", SCHEMA_doctor, "checks", checks, "processes",
                             hooks_object(answer));
    return cli_print_json(root, JSON_INDENT(2)) < 0 ? EXIT_FAILED : EXIT_DONE;
}

static const struct option_row ROWS[] = {{"json", .text = "print one JSON document", .type = OPTION_FLAG},
                                         {NULL}};
static const struct option_group OPTIONS[] = {{ROWS, 0}, {NULL, 0}};

static int run(const struct command *self, int argc, char **argv)
{
    struct answer answer = {.count = 0};
    bool json = false;
    int first, status = options_parse(self, argc, argv, &json, &first);
    if (status >= 0)
        return status;
    for (int i = first; i < argc; i++)
        if (atoi(argv[i]) <= 0)
            return cli_usage(self, "invalid process ID '%s'", argv[i]);
    check_probe(&answer);
    check_clock(&answer);
    check_kernel(&answer);
    check_ptrace(&answer);
    check_lockdown(&answer);
    check_security_modules(&answer);
    check_hidden_processes(&answer);
    check_memfd(&answer);
    check_workers(&answer);
    check_audit(&answer);
    check_running(&answer);
    check_schedstat(&answer);
    check_bpf(&answer);
    for (int i = first; i < argc; i++)
        check_process(&answer, atoi(argv[i]));
    bool broken = false;
    for (size_t i = 0; i < answer.count; i++)
        broken |= answer.at[i].verdict == FAILS;
    int r = 0;
    if (json)
        r = print_json(&answer);
    for (size_t i = 0; i < answer.count && !json; i++)
        print_check(&answer.at[i]);
    if (!json)
        print_hooks(&answer);
    array_done(&answer.hooks);
    if (r)
        return r;
    return broken ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_doctor = {
    .name = "doctor",
    .arguments = "[OPTION...] [PID...]",
    .summary = "Check what works on this host and in a process, and how to fix what does not",
    .help = "\xe2\x9c\x93 works, ~ works with limitations, \xe2\x9c\x97 does not work; the arrow shows what "
            "fixes it. "
            "Nothing is changed or attached to.\nExits with 1 when something does not work.\n",
    .options = OPTIONS,
    .examples = "  sonde doctor\n"
                "  sonde doctor $(pgrep -x node)\n",
    .run = run,
};
