/* See confine.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/owner.h"
#include "base/privileges.h"
#include "broker/sandbox.h"

/* Every command reads its operands. Options are named as the command names them, with a space between. */
struct confined_command {
    const char *name;
    const char *reads;     /* options whose values are files that it reads too */
    const char *writes;    /* the option whose value is the file that it writes; - is standard output */
    const char *folder;    /* "OPTION=VALUE" with which that is a directory */
    const char *temporary; /* the option with which it needs a directory for temporary files */
    const char *connects;  /* options with which it sends something somewhere */
    bool scratch;          /* may need one temporary file */
    bool scripts;          /* looks for source maps beside the scripts that a recording names */
    bool optional;         /* an operand that is no file is a process or a port: then it records */
};

static const struct confined_command COMMANDS[] = {
    {"report", .scripts = true, .writes = "html", .temporary = "html"},
    {"spans", .scripts = true},
    {"redis", .scripts = true, .optional = true},
    {"trace", .scratch = true, .writes = "output"},
    {"convert", .scratch = true, .writes = "output", .folder = "to=ctf"},
    {"diagnose", .scripts = true, .reads = "table mapping normal", .writes = "bundle"},
    {"diff", .scripts = true, .writes = "output"},
    {"profile --merge", .writes = "output", .connects = "push"},
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

void confine_begin(struct confine *c, const char *command)
{
    *c = (struct confine){.complete = true};
    for (size_t i = 0; i < ARRAY_SIZE(COMMANDS); i++)
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
    c->folder |= command->folder && strcmp(set, command->folder) == 0;
    c->temporary |= among(option, command->temporary);
    c->connects |= among(option, command->connects);
}

/* ---- what is done while there are rights ---- */

/* Another file system tree, as /proc/PID/root, is entered anew for each file, which takes capabilities. */
static bool through_process(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0;
}

/* The first operand that is not root's: everything is read as its owner. NULL: there is none. */
static const char *find_foreign(const struct confine *c)
{
    struct stat st;
    for (size_t i = c->operands_at; i < c->reads.count; i++)
        if (stat(c->reads.at[i], &st) == 0 && st.st_uid != 0)
            return c->reads.at[i];
    return NULL;
}

/* A directory of root's own becomes that of the owner of what is read. */
static void hand_over(const char *path, const char *foreign)
{
    struct stat st, owner;
    _cleanup_(file_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (foreign && fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == 0 && stat(foreign, &owner) == 0)
        (void)!fchown(fd, owner.st_uid, owner.st_gid);
}

static int prepare_writing(const struct confine *c, const char *foreign, struct problem *problem)
{
    bool there = access(c->writes, F_OK) == 0;
    int r = c->folder ? file_make_folder(c->writes) : owner_reserve(c->writes);
    if (r >= 0 && c->folder && !there)
        hand_over(c->writes, foreign);
    return r < 0 ? problem_set(problem, r, "%s: %s", c->writes, strerror(-r)) : 0;
}

/* ---- a directory for temporary files ---- */

static char temporary[PATH_MAX];

/* A directory of its own in the place of TMPDIR. Where none can be made, who needs it says so. */
static void make_temporary(const char *foreign, char base[PATH_MAX])
{
    const char *from = getenv("TMPDIR");
    snprintf(base, PATH_MAX, "%s", from && from[0] ? from : "/tmp");
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
    const char *foreign = find_foreign(c), *writes[2];
    struct sandbox_rights rights = {.writes = writes, .scripts = c->command->scripts, .network = c->connects};
    char base[PATH_MAX];
    bool there = true, sandboxed = true;
    array_foreach (&c->reads, path) {
        there &= access(*path, F_OK) == 0;
        sandboxed &= !through_process(*path);
    }
    int r = there && c->writes ? prepare_writing(c, foreign, problem) : 0;
    if (r < 0)
        return r;
    if (c->writes && c->folder)
        writes[rights.write_count++] = c->writes;
    if (c->command->scratch)
        (void)owner_reserve_temporary(); /* who needs it says that there is none */
    if (c->temporary && sandboxed) {
        make_temporary(foreign, base);
        rights.empties = base;
        writes[rights.write_count++] = temporary;
    }
    r = become_owner(c, foreign, problem);
    if (r < 0 || !sandboxed)
        return r;
    rights.reads = c->reads.at;
    rights.read_count = c->reads.count;
    on_exit(end_at_once, NULL);
    return sandbox_confine(&rights, problem);
}

int confine_end(struct confine *c, const char *const *operands, size_t count, struct problem *problem)
{
    int r = 0;
    c->operands_at = c->reads.count;
    for (size_t i = 0; i < count; i++)
        add_reading(c, operands[i]);
    bool records = c->command && c->command->optional && (!count || access(operands[0], F_OK) < 0);
    if (c->command && count && !records && geteuid() == 0)
        r = c->complete ? confine(c, problem) : problem_set(problem, -ENOMEM, "out of memory");
    array_done(&c->reads);
    return r;
}

int confine_reading(const char *command, const char *folder, struct problem *problem)
{
    struct confine c;
    confine_begin(&c, command);
    return confine_end(&c, &folder, 1, problem);
}
