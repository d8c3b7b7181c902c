/* See server.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/server.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/listening.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/text.h"
#include "cli/confine.h"

static bool is_number(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!isdigit((unsigned char)*c))
            return false;
    return text[0] != '\0';
}

/* The sockets that listen on a port in one network namespace: each is asked once, however many processes it
 * has. */
struct listeners {
    char namespace[32]; /* "net:[4026531992]" */
    uint64_t inodes[8];
    size_t count;
};

struct namespaces {
    ARRAY(struct listeners) list;
};

static bool listens(const struct proc *proc, uint16_t port, struct namespaces *known)
{
    struct listeners listeners = {.count = 0};
    if (proc_read_link(proc, "ns/net", listeners.namespace, sizeof(listeners.namespace)) <= 0)
        return false;
    array_foreach (&known->list, k)
        if (strcmp(k->namespace, listeners.namespace) == 0)
            return listening_holds(proc, k->inodes, k->count);
    size_t count = listening_sockets(proc, port, listeners.inodes, ARRAY_SIZE(listeners.inodes));
    listeners.count = MIN(count, ARRAY_SIZE(listeners.inodes));
    return array_add(&known->list, listeners) == 0 &&
           listening_holds(proc, listeners.inodes, listeners.count);
}

/* The process that listens on a TCP port. 1 with *ret_proc (the caller's), 0: none does; -EUSERS: several, as
 * in containers of their own; *pids names them. */
static int find_listener(uint16_t port, struct text *pids, struct proc **ret_proc)
{
    _cleanup_(proc_unrefp) struct proc *found = NULL;
    struct namespaces namespaces = {0};
    unsigned count = 0;
    size_t all_count;
    _cleanup_(freep) pid_t *all = proc_all(&all_count);
    for (size_t i = 0; i < all_count; i++) {
        _cleanup_(proc_unrefp) struct proc *proc = NULL;
        if (proc_open(all[i], &proc) < 0 || !listens(proc, port, &namespaces))
            continue;
        text_addf(pids, "%s%d", count ? ", " : "", all[i]);
        if (!count++)
            found = proc_ref(proc);
    }
    array_done(&namespaces.list);
    if (count > 1)
        return -EUSERS;
    *ret_proc = found;
    found = NULL;
    return (int)count;
}

int server_find(const struct command *self, const char *said, struct proc **ret_proc)
{
    _cleanup_(text_done) struct text pids = {0};
    bool port_only = said[0] == ':', pid_only = strncmp(said, "pid:", 4) == 0;
    const char *digits = said + (port_only ? 1 : pid_only ? 4 : 0);
    double number = 0;
    if (!is_number(digits) || !cli_number(digits, 1, port_only ? 65535 : 4194304, &number))
        return cli_usage(self, "'%s' is neither a port nor a process", said);
    int r = pid_only || number > 65535 ? 0 : find_listener((uint16_t)number, &pids, ret_proc);
    if (r > 0)
        return EXIT_DONE;
    if (r == 0 && !port_only)
        return cli_open_process((pid_t)number, ret_proc);
    struct problem problem = {0};
    if (r == 0) {
        problem_set(&problem, -ESRCH, "no process that sonde may look at listens on port %s", digits);
        problem_remedy(&problem, "Run sonde as the server's user or as root, or give the server's PID.");
    } else {
        problem_set(&problem, r, "several processes listen on port %s: %s", digits, text_get(&pids));
        problem_remedy(&problem, "Give the PID of the one that you mean: pid:NUMBER.");
    }
    return cli_fail(EXIT_FAILED, &problem);
}

bool server_is_meant(const char *operand)
{
    return access(operand, F_OK) < 0 &&
           (is_number(operand) || operand[0] == ':' || strncmp(operand, "pid:", 4) == 0);
}

int server_record(const struct command *self, struct recording *recording, struct proc *server,
                  double seconds, char **ret_folder)
{
    struct problem problem = {0};
    recording->observe.duration_ns = (uint64_t)(seconds * (double)NS_PER_S);
    int r = recording_open(recording, &problem);
    recording_hold_signals();
    if (r >= 0)
        r = observe_attach(recording->observation, server, &problem);
    if (r >= 0 && !recording->quiet)
        fprintf(stderr, "sonde: attached to process %d; %s\n", server->pid,
                recording->observe.duration_ns ? "Ctrl-C ends earlier" : "Ctrl-C ends and reports");
    if (r >= 0)
        r = recording_run(recording, &problem);
    bool recorded = r >= 0 && !recording->follow;
    _cleanup_(freep) char *folder =
        recording->observation ? strdup(observe_folder(recording->observation)) : NULL;
    r = recording_close(recording, r, &problem);
    if (!recorded || (r != EXIT_DONE && r != EXIT_LOST))
        return r;
    if (!folder || confine_reading(self->name, folder, &problem) < 0)
        return cli_fail(EXIT_FAILED, &problem);
    *ret_folder = folder;
    folder = NULL;
    return r;
}
