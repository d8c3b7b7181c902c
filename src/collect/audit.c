/* See audit.h. journald's own protocol: a datagram of lines NAME=value
 * (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/); syslog's: RFC 3164. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/audit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/owner.h"
#include "base/text.h"

enum {
    NOTICE = 5,        /* of syslog's priorities */
    AUTHPRIV = 10 * 8, /* of its facilities */
    TIME_BYTES = 32,
    UNSET = -1, /* of a login: no session of a user's */
};

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int r = -errno;
    close(fd);
    return r;
}

int audit_open_log(const char *journal, const char *syslog, struct audit *ret_audit)
{
    struct audit audit = {.file = -1, .socket = connect_to(journal)};
    audit.journal = audit.socket >= 0;
    if (!audit.journal)
        audit.socket = connect_to(syslog);
    audit.socket = MAX(audit.socket, -1);
    *ret_audit = audit;
    return 0;
}

int audit_open(const char *path, struct audit *ret_audit, struct problem *problem)
{
    if (!path)
        return audit_open_log("/run/systemd/journal/socket", "/dev/log", ret_audit);
    int file = owner_append(path);
    if (file < 0) {
        problem_set(problem, file, "%s: the audit file cannot be written: %s", path, strerror(-file));
        problem_remedy(problem, "Nothing is attached to without it; name another one (--audit FILE).");
        return file;
    }
    *ret_audit = (struct audit){.file = file, .socket = -1};
    return 0;
}

void audit_close(struct audit *audit)
{
    if (audit->file >= 0)
        close(audit->file);
    if (audit->socket >= 0)
        close(audit->socket);
    audit->file = audit->socket = -1;
}

const char *audit_place(const struct audit *audit)
{
    return audit->file >= 0 ? "a file" : audit->socket < 0 ? NULL : audit->journal ? "journald" : "syslog";
}

/* ---- the line ---- */

static const char *format_time(uint64_t ns, char text[static TIME_BYTES])
{
    time_t seconds = (time_t)(ns / NS_PER_S);
    struct tm tm;
    strftime(text, TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    return text;
}

/* Who logged in, as the kernel keeps it; sudo and su leave it as it is. */
static long login_user(void)
{
    _cleanup_(freep) char *text = NULL;
    enum { MOST = 16 };
    if (file_read("/proc/self/loginuid", MOST, &text, NULL) < 0)
        return UNSET;
    unsigned long user = strtoul(text, NULL, 10);
    return user == UINT32_MAX ? UNSET : (long)user;
}

static void add_who(struct text *line)
{
    long login = login_user();
    const char *caller = getenv("SUDO_UID");
    text_addf(line, "sonde %d of user %u", (int)getpid(), (unsigned)getuid());
    if (login != UNSET)
        text_addf(line, " (logged in as %ld)", login);
    else if (caller && geteuid() == 0)
        text_addf(line, " (through sudo by %lu)", strtoul(caller, NULL, 10));
}

static int send_line(const struct audit *audit, const struct proc *proc, long user, const char *line)
{
    struct text message = {0};
    if (audit->journal) {
        text_addf(&message,
                  "MESSAGE=%s\nPRIORITY=%d\nSYSLOG_FACILITY=%d\nSYSLOG_IDENTIFIER=sonde\nOBJECT_PID=%d\n"
                  "SONDE_TARGET_PID=%d\nSONDE_TARGET_UID=%ld\n",
                  line, NOTICE, AUTHPRIV / 8, (int)proc->pid, (int)proc->pid, user);
    } else {
        char now[TIME_BYTES];
        time_t seconds = time(NULL);
        struct tm tm;
        strftime(now, sizeof(now), "%b %e %H:%M:%S", localtime_r(&seconds, &tm));
        text_addf(&message, "<%d>%s sonde[%d]: %s", AUTHPRIV + NOTICE, now, (int)getpid(), line);
    }
    int r = message.failed ? -ENOMEM : 0;
    if (r == 0 && send(audit->socket, text_get(&message), message.length, MSG_NOSIGNAL) < 0)
        r = -errno;
    text_done(&message);
    return r;
}

int audit_attached(const struct audit *audit, const struct proc *proc, const char *name, const char *what,
                   uint64_t until_ns)
{
    if (!audit_place(audit))
        return 0;
    struct text line = {0};
    char now[TIME_BYTES], until[TIME_BYTES];
    long user = proc_status_number(proc, "Uid");
    if (audit->file >= 0)
        text_addf(&line, "%s ", format_time(clock_realtime_ns(), now));
    add_who(&line);
    text_addf(&line, " traces %s (%d) of user %ld: %s; until ", name, (int)proc->pid, user, what);
    text_add(&line, until_ns ? format_time(until_ns, until) : "it is interrupted");
    if (audit->file >= 0)
        text_add(&line, "\n");
    int r = line.failed ? -ENOMEM : 0;
    if (r == 0)
        r = audit->file >= 0 ? file_write_all(audit->file, text_get(&line), line.length)
                             : send_line(audit, proc, user, text_get(&line));
    text_done(&line);
    return r;
}
