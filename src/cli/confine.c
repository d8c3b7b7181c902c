/* See confine.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/owner.h"
#include "base/privileges.h"
#include "broker/fetcher.h"
#include "broker/lender.h"
#include "broker/sandbox.h"
#include "broker/writer.h"

static const struct confined_command COMMANDS[] = {
    {"report", .scripts = true, .writes = "html", .temporary = "html"},
    {"spans", .scripts = true},
    {"trace", .scratch = true, .writes = "output"},
    {"convert", .scratch = true, .writes = "output", .folder = "to=ctf"},
    {"diagnose", .scripts = true, .reads = "table mapping normal", .writes = "bundle"},
    {"diff", .scripts = true, .writes = "output"},
    {"profile --merge", .writes = "output", .connects = "push"},
    {"watch", .listens = true, .named = true, .reads = "table follow", .writes = "bundle"},
    {"serve", .listens = true, .scripts = true, .reads = "table token-file send-token-file",
     .appends = "audit", .keeps = "data", .view = "no-keep", .temporary = "*"},
};

/* ---- the command line ---- */

/* Whether word is one of the words. */
static bool among(const char *word, const char *words)
{
    size_t length = strlen(word);
    for (const char *at = words; at && *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (n == length && strncmp(at, word, n) == 0)
            return true;
        at += n;
    }
    return false;
}

void confine_begin(struct confine *c, const char *command, const struct confined_command *own)
{
    *c = (struct confine){.command = own, .complete = true};
    for (size_t i = 0; !own && i < ARRAY_SIZE(COMMANDS); i++)
        if (strcmp(COMMANDS[i].name, command) == 0)
            c->command = &COMMANDS[i];
}

static void add_reading(struct confine *c, const char *path)
{
    c->complete &= array_add(&c->reads, path) >= 0;
}

void confine_option(struct confine *c, const char *option, const char *value)
{
    const struct confined_command *command = c->command;
    char set[128];
    if (!command)
        return;
    snprintf(set, sizeof(set), "%s=%s", option, value ? value : "");
    if (value && among(option, command->reads))
        add_reading(c, value);
    if (value && among(option, command->writes) && strcmp(value, "-") != 0)
        c->writes = value;
    if (value && among(option, command->appends))
        c->appends = value;
    if (value && among(option, command->keeps))
        c->keeps = value;
    c->folder |= command->folder && strcmp(set, command->folder) == 0;
    c->temporary |= among(option, command->temporary);
    c->connects |= among(option, command->connects) || among(option, command->asks);
    c->asks |= among(option, command->asks);
    c->no_view |= among(option, command->view);
}

/* ---- what is done while there are rights ---- */

/* Another file system tree, as /proc/PID/root, is entered anew for each file, which takes capabilities. */
static bool through_process(const char *path)
{
    return path && strncmp(path, "/proc/", 6) == 0;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool belongs_to_another(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_uid != 0;
}

/* The first operand that is not root's, or else the directory that is kept: everything is done as its owner.
 * NULL: there is none. */
static const char *find_foreign(const struct confine *c)
{
    for (size_t i = c->command->named || c->asks ? 0 : c->operands_at; i < c->reads.count; i++)
        if (belongs_to_another(c->reads.at[i]))
            return c->reads.at[i];
    return c->keeps && belongs_to_another(c->keeps) ? c->keeps : NULL;
}

/* A new directory of ours becomes that of the owner of what is read. */
static void hand_over(const char *path, const char *foreign)
{
    struct stat st, owner = {0};
    _cleanup_(file_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && (!foreign || stat(foreign, &owner) == 0) &&
        st.st_uid != owner.st_uid && (st.st_uid == 0 || owner.st_uid == 0))
        (void)!fchown(fd, owner.st_uid, owner.st_gid);
}

static int make_directory(const char *path, const char *foreign)
{
    bool there = access(path, F_OK) == 0;
    int r = file_make_folder(path);
    if (r >= 0 && !there)
        hand_over(path, foreign);
    return r;
}

/* A directory that was made for the output of this command; it does not stay empty. */
static const char *made;

static int prepare_writing(const struct confine *c, const char *foreign, struct problem *problem)
{
    made = c->folder && c->writes && access(c->writes, F_OK) < 0 ? c->writes : NULL;
    writer_may_remove(made);
    const char *path, *const files[] = {c->folder ? NULL : c->writes, c->appends};
    int r = writer_start(files, ARRAY_SIZE(files), problem);
    if (r < 0)
        return r;
    if ((path = c->writes))
        r = c->folder ? make_directory(path, foreign) : file_replaceable(path);
    if (r >= 0 && c->keeps)
        r = make_directory(path = c->keeps, foreign);
    return r < 0 ? problem_set(problem, r, "%s: %s", path, strerror(-r)) : 0;
}

/* ---- a directory for temporary files ---- */

static char temporary[PATH_MAX];

/* A directory of its own in the place of TMPDIR. Where none can be made, who needs it says so. */
static void make_temporary(const char *foreign, char base[PATH_MAX])
{
    snprintf(base, PATH_MAX, "%s", file_temporary_folder());
    if (snprintf(temporary, sizeof(temporary), "%s/sonde-read-XXXXXX", base) >= (int)sizeof(temporary) ||
        !mkdtemp(temporary)) {
        temporary[0] = '\0';
        return;
    }
    hand_over(temporary, foreign);
    setenv("TMPDIR", temporary, 1);
}

/* A build with sanitizers looks for leaks at its end by tracing itself, which a confined process may not. */
static void end_at_once(int status, void *unused)
{
    if (temporary[0])
        rmdir(temporary);
    if (made)
        (void)owner_rmdir(made);
    fflush(NULL);
    _exit(status);
}

/* ---- the whole ---- */

/* A user other than root has to be able to read all of it. */
static int become_owner(const struct confine *c, const char *foreign, struct problem *problem)
{
    int r = foreign ? privileges_leave_for(foreign, problem) : 0;
    array_foreach (&c->reads, path) {
        if (r < 0 || !foreign || access(*path, R_OK) == 0 || errno != EACCES)
            continue;
        r = problem_set(problem, -EACCES, "%s: cannot be read by user %u, as whom root reads %s", *path,
                        geteuid(), foreign);
        problem_remedy(problem, "Copy it to where that user can read it, or make both root's (chown).");
    }
    return r;
}

static int confine(struct confine *c, struct problem *problem)
{
    const struct confined_command *command = c->command;
    const char *foreign = find_foreign(c);
    ARRAY(const char *) writes = {0};
    struct sandbox_rights rights = {.scripts = command->scripts, .network = c->connects || command->listens};
    char base[PATH_MAX];
    bool there = true, sandboxed = !through_process(c->keeps);
    for (size_t i = 0; i < c->reads.count; i++) {
        const char *path = c->reads.at[i];
        there &= access(path, F_OK) == 0;
        sandboxed &= !through_process(path);
        if (i >= c->operands_at && command->view && !c->no_view && is_directory(path))
            c->complete &= array_add(&writes, path) >= 0;
    }
    int r = there ? prepare_writing(c, foreign, problem) : 0;
    if (command->scratch)
        (void)owner_reserve_temporary(); /* who needs it says that there is none */
    if (r >= 0 && c->temporary && sandboxed) {
        make_temporary(foreign, base);
        rights.empties = base;
        c->complete &= array_add(&writes, (const char *)temporary) >= 0;
    }
    if (c->writes && c->folder)
        c->complete &= array_add(&writes, c->writes) >= 0;
    if (c->keeps)
        c->complete &= array_add(&writes, c->keeps) >= 0;
    if (r >= 0)
        r = c->complete ? become_owner(c, foreign, problem) : problem_set(problem, -ENOMEM, "out of memory");
    if (r < 0 && made)
        (void)owner_rmdir(made);
    if (r >= 0 && sandboxed) {
        rights.reads = c->reads.at;
        rights.read_count = c->reads.count;
        rights.writes = writes.at;
        rights.write_count = writes.count;
        on_exit(end_at_once, NULL);
        r = sandbox_confine(&rights, problem);
    }
    array_done(&writes);
    return r;
}

int confine_end(struct confine *c, const char *const *operands, size_t count, struct problem *problem)
{
    const struct confined_command *command = c->command;
    int r = 0;
    c->operands_at = c->reads.count;
    for (size_t i = 0; command && !command->named && !c->asks && i < count; i++)
        add_reading(c, operands[i]);
    bool records = command && command->optional && !c->asks && (!count || access(operands[0], F_OK) < 0);
    bool works = command && (count || command->listens) && !records;
    if (works && geteuid() == 0) {
        c->temporary |= command->temporary && strcmp(command->temporary, "*") == 0;
        r = confine(c, problem);
    }
    array_done(&c->reads);
    return r;
}

void confine_drop(struct confine *c)
{
    array_done(&c->reads);
}

int confine_reading(const char *command, const char *folder, struct problem *problem)
{
    struct confine c;
    confine_begin(&c, command, NULL);
    return confine_end(&c, &folder, 1, problem);
}

/* ---- who samples ---- */

int confine_sampler_begin(const struct confine_sampler *c, struct problem *problem)
{
    const char *const paths[] = {c->output, c->trace, c->store};
    int r = writer_start(paths, ARRAY_SIZE(paths), problem);
    if (r >= 0)
        r = fetcher_start(problem);
    return r < 0 ? r : lender_start(c->marks, c->readers, problem);
}

/* The store is read as well as written: as who owns it. */
static uid_t sampling_user(const struct confine_sampler *c)
{
    struct stat st;
    if (!c->store)
        return SANDBOX_NOBODY_ELSE;
    (void)owner_mkdir(c->store); /* who needs it says that there is none */
    return stat(c->store, &st) == 0 ? st.st_uid : 0;
}

static int lend(const struct confine_sampler *c, struct problem *problem)
{
    int r = c->cgroup ? lender_allow_cgroup(c->cgroup) : c->pid_count || c->child ? 0 : lender_allow(0);
    for (size_t i = 0; i < c->pid_count && r >= 0; i++) {
        r = lender_allow(c->pids[i]);
        r = r == -ESRCH ? 0 : r; /* the sampler says so */
    }
    if (r >= 0 && c->child)
        r = lender_allow(c->child);
    return r < 0 ? problem_set(problem, r, "no process opens what others have: %s", strerror(-r)) : 0;
}

int confine_sampler(const struct confine_sampler *c, struct problem *problem)
{
    int r = lend(c, problem);
    if (r < 0)
        return r;
    const struct sandbox_rights rights = {.observes = true,
                                          .network = c->connects,
                                          .user = sampling_user(c),
                                          .child = c->child,
                                          /* for its maps, and to end its command */
                                          .capabilities =
                                              1ull << CAP_BPF | (c->child ? 1ull << CAP_KILL : 0)};
    on_exit(end_at_once, NULL);
    prctl(PR_SET_NAME, "sonde:profile", 0, 0, 0); /* as doctor shows it */
    r = sandbox_confine(&rights, problem);
    if (r >= 0)
        lender_begin();
    return r;
}

int confine_parse(int fd, int (*parse)(int fd, void *result), void *result, size_t size)
{
    size_t length = 0, whole = sizeof(int) + size; /* what parse() returned, and its result */
    _cleanup_(freep) uint8_t *answer = calloc(1, whole);
    int pipes[2], r;
    if (!answer)
        return -ENOMEM;
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return -errno;
    memcpy(answer + sizeof(int), result, size);
    pid_t child = fork();
    if (child == 0) {
        const int keep[] = {fd, pipes[1]};
        struct sandbox_walls walls;
        if (sandbox_enter(keep, 2, &walls, NULL) < 0)
            _exit(1);
        r = parse(fd, answer + sizeof(int));
        memcpy(answer, &r, sizeof(r));
        _exit(file_write_all(pipes[1], answer, whole) < 0);
    }
    close(pipes[1]);
    for (ssize_t n = child; n > 0 && length < whole; length += (size_t)MAX(n, 0))
        n = read(pipes[0], answer + length, whole - length);
    close(pipes[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    if (length < whole)
        return -EIO;
    memcpy(&r, answer, sizeof(r));
    memcpy(result, answer + sizeof(int), size);
    return MIN(r, 0);
}

uint64_t confine_lent_ns(void)
{
    return lender_cpu_ns();
}
