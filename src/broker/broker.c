/* See broker.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/broker.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process_file.h"
#include "base/rights.h"
#include "broker/apart.h"
#include "broker/domain.h"
#include "broker/protocol.h"

enum {
    QUESTIONS_MAX = 20000, /* in one piece of work: a process maps some hundred files */
    LOOK_MS = 20,
    MEANWHILE_MS = 4, /* the same of what else there is to do */
    /* Reading the symbols of a large program takes seconds on a busy machine. */
    WORK_MAX_MS = 20000,
};

struct worker {
    struct domain domain; /* that its targets are of */
    int socket, pidfd;
    pid_t pid;
    struct sandbox_walls walls;
    ARRAY(struct proc *) targets;
    unsigned questions, refused;
    uint64_t cpu_ns; /* as it says */
};

struct broker {
    const struct worker_kind *kind;
    int spawner; /* socket of the process that makes workers; it ends with the socket */
    ARRAY(struct worker *) workers;
    char *bytes;           /* BROKER_BYTES_MAX, of a message */
    uint64_t ended_cpu_ns; /* of workers that have ended */
    void (*while_waiting)(void *context);
    void *context;
    uint64_t looked_ns; /* when that was called last; set when a piece of work begins */
};

/* ---- questions ---- */

/* What of /proc/PID a worker may read, which holds its memory anyway: where its code is, whether it is the
 * one it was, how it was started. */
static const char *const TEXTS[] = {"maps", "stat", "status", "comm", "cmdline", "environ"};

/* A link's text, as a file. */
static int open_link(const struct proc *proc, const char *name)
{
    char text[PATH_MAX];
    ssize_t length = proc_read_link(proc, name, text, sizeof(text));
    int file = length < 0 ? (int)length : memfd_create("sonde-link", MFD_CLOEXEC);
    if (file < 0)
        return length < 0 ? file : -errno;
    int r = file_write_all(file, text, (size_t)length);
    if (r >= 0 && lseek(file, 0, SEEK_SET) == 0)
        return file;
    close(file);
    return r < 0 ? r : -errno;
}

static int open_text(const struct proc *proc, const char *name)
{
    if (strcmp(name, "cwd") == 0)
        return open_link(proc, name);
    for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
        if (strcmp(TEXTS[i], name) == 0)
            return proc_file_open(proc, TEXTS[i], O_RDONLY);
    return -EPERM;
}

/* With a user's rights on files. */
static int open_as(int root, const char *path, uid_t user, gid_t group,
                   int (*opens)(int root, const char *path))
{
    struct file_rights ours;
    bool changes = geteuid() == 0 && user != 0;
    int r = changes ? rights_take(user, group, &ours) : 0;
    if (r < 0)
        return r;
    r = opens(root, path);
    if (changes)
        rights_give_back(&ours);
    return r;
}

/* In the target's root, with its user's rights on files: a worker that asks for what the target maps or has
 * written gets it, and nothing that only we could open. opens: how. */
static int open_as_target(const struct proc *proc, const char *path, int (*opens)(int root, const char *path))
{
    long user = proc_status_number(proc, "Uid"), group = proc_status_number(proc, "Gid");
    _cleanup_(file_closep) int root = process_root_open(proc);
    if (root < 0)
        return root;
    if (user < 0 || group < 0)
        return -ESRCH;
    return open_as(root, path, (uid_t)user, (gid_t)group, opens);
}

/* ---- files of code ---- */

/* Not root's, nor anybody's groups. */
static int open_as_nobody(const struct proc *proc, const char *path)
{
    enum { NOBODY = 65534 };
    _cleanup_(file_closep) int root = process_root_open(proc);
    return root < 0 ? root : open_as(root, path, NOBODY, NOBODY, process_file_open);
}

static bool is_code(int fd)
{
    struct {
        unsigned char ident[EI_NIDENT];
        uint16_t type;
    } head;
    return pread(fd, &head, sizeof(head), 0) == sizeof(head) && memcmp(head.ident, ELFMAG, SELFMAG) == 0 &&
           (head.type == ET_EXEC || head.type == ET_DYN || head.type == ET_REL);
}

/* Takes fd, which may be a negative errno. Who is not root can open the same himself. */
static int only_code(int fd)
{
    if (fd < 0 || geteuid() != 0 || is_code(fd))
        return fd;
    close(fd);
    return -EPERM;
}

/* "/tmp/perf-NUMBER.map". */
static bool is_map_of_code(const char *path)
{
    static const char BEGIN[] = "/tmp/perf-", END[] = ".map";
    size_t begin = sizeof(BEGIN) - 1;
    if (strncmp(path, BEGIN, begin) != 0)
        return false;
    size_t digits = strspn(path + begin, "0123456789");
    return digits && strcmp(path + begin + digits, END) == 0;
}

/* Not what a link of that name leads to: whoever may write to /tmp could point to any file of that user's. */
static int open_map_of_code(int root, const char *path)
{
    struct stat st;
    _cleanup_(file_closep) int folder = process_folder_open(root, "/tmp");
    int place =
        folder < 0 ? folder : openat(folder, path + sizeof("/tmp/") - 1, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0)
        return folder < 0 ? folder : -errno;
    bool link = fstat(place, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1;
    close(place);
    return link ? -EPERM : process_file_open(root, path);
}

int broker_code_file(const struct proc *proc, const char *name, size_t length)
{
    if (length < 2 || length > PATH_MAX || memchr(name, 0, length) != name + length - 1)
        return -EPERM;
    if (is_map_of_code(name))
        return open_as_target(proc, name, open_map_of_code);
    int fd = geteuid() == 0 ? open_as_nobody(proc, name) : -EACCES;
    return fd == -EACCES || fd == -EPERM ? only_code(open_as_target(proc, name, process_file_open)) : fd;
}

int broker_public_file(const char *path)
{
    struct stat st;
    int fd = open_as_nobody(NULL, path);
    if (fd < 0 || (fstat(fd, &st) == 0 && st.st_mode & S_IROTH))
        return fd;
    close(fd); /* who is not root does not become anybody */
    return -EACCES;
}

int broker_code_mapped(const struct proc *proc, uint64_t start, uint64_t end)
{
    return start < end ? only_code(process_mapped_open(proc, start, end)) : -EPERM;
}

static int has_path(int root, const char *path)
{
    int place = process_place_open(root, path);
    if (place >= 0)
        close(place);
    return MIN(place, 0);
}

/* Debug files, which everybody may read. */
static int open_ours(const char *path)
{
    static const char FOLDER[] = "/usr/lib/debug/";
    struct stat st;
    if (strncmp(path, FOLDER, sizeof(FOLDER) - 1) != 0 || strstr(path, "/../"))
        return -EPERM;
    _cleanup_(file_closep) int folder = open(FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = folder < 0 ? -errno : process_file_open(folder, path + sizeof(FOLDER) - 1);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !(st.st_mode & S_IROTH))) {
        close(fd);
        return -EPERM;
    }
    return fd;
}

int broker_answer(const struct proc *proc, uint32_t question, const char *name, size_t length, uint64_t start,
                  uint64_t end)
{
    bool named =
        question == PROC_TEXT || question == PROC_FILE || question == PROC_OURS || question == PROC_PATH;
    if (named && (length < 2 || length > PATH_MAX || memchr(name, 0, length) != name + length - 1))
        return -EPERM;
    if ((proc == NULL) != (question == PROC_OURS))
        return -EPERM;
    switch (question) {
    case PROC_EXISTS:
        return proc_exists(proc) ? 0 : -ESRCH;
    case PROC_TEXT:
        return open_text(proc, name);
    case PROC_MAPPED:
        return start < end ? process_mapped_open(proc, start, end) : -EPERM;
    case PROC_FILE:
        return open_as_target(proc, name, process_file_open);
    case PROC_PATH:
        return open_as_target(proc, name, has_path);
    case PROC_OURS:
        return open_ours(name);
    }
    return -EPERM;
}

static bool is_yes_or_no(uint32_t question)
{
    return question == PROC_EXISTS || question == PROC_PATH;
}

static struct proc *target_of(const struct worker *worker, pid_t pid)
{
    array_foreach (&worker->targets, t)
        if ((*t)->pid == pid)
            return *t;
    return NULL;
}

/* Only about its own targets; 0 is none of them. */
static int answer(struct worker *worker, const struct broker_head *asked, const char *bytes, size_t length)
{
    const struct proc *proc = asked->target ? target_of(worker, asked->target) : NULL;
    int r = asked->target && !proc
                ? -EPERM
                : broker_answer(proc, asked->question, bytes, length, asked->start, asked->end);
    worker->questions++;
    worker->refused += r == -EPERM;
    const struct broker_head head = {.verb = BROKER_ANSWER,
                                     .target = asked->target,
                                     .question = asked->question,
                                     .result = MIN(r, 0),
                                     .serial = asked->serial};
    bool has_file = r >= 0 && !is_yes_or_no(asked->question);
    int sent = broker_send(worker->socket, head, NULL, 0, has_file ? r : -1);
    if (has_file)
        close(r);
    return sent;
}

/* ---- workers ---- */

static void worker_end(struct worker *worker)
{
    if (worker->pidfd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, worker->pidfd, SIGKILL, NULL, 0);
        close(worker->pidfd);
    }
    if (worker->socket >= 0)
        close(worker->socket);
    array_foreach (&worker->targets, t)
        proc_unref(*t);
    array_done(&worker->targets);
    free(worker);
}

static void forget_worker(struct broker *broker, struct worker *worker)
{
    size_t kept = 0;
    array_foreach (&broker->workers, w)
        if (*w != worker)
            broker->workers.at[kept++] = *w;
    broker->workers.count = kept;
    broker->ended_cpu_ns += worker->cpu_ns;
    worker_end(worker);
}

void broker_while_waiting(struct broker *broker, void (*while_waiting)(void *context), void *context)
{
    broker->while_waiting = while_waiting;
    broker->context = context;
}

/* Waits for a message of a worker. What else there is to do is done also while one asks and asks. */
static int await(struct broker *broker, const struct worker *worker, uint64_t deadline_ns,
                 bool (*is_ending)(void))
{
    for (;;) {
        if (is_ending && is_ending())
            return -EINTR;
        struct pollfd wait = {.fd = worker->socket, .events = POLLIN};
        int r = poll(&wait, 1, broker->while_waiting ? MEANWHILE_MS : LOOK_MS);
        if (r < 0 && errno != EINTR)
            return -errno;
        uint64_t now_ns = clock_monotonic_ns();
        if (broker->while_waiting && now_ns - broker->looked_ns >= MEANWHILE_MS * NS_PER_MS) {
            broker->while_waiting(broker->context);
            broker->looked_ns = clock_monotonic_ns();
        }
        if (r > 0)
            return 0;
        if (now_ns > deadline_ns)
            return -ETIMEDOUT;
    }
}

static uint64_t in_ms(uint64_t ms)
{
    return clock_monotonic_ns() + ms * NS_PER_MS;
}

/* What a worker says is shown: text, and ended. */
static void take_words(struct problem *problem, const char *bytes, size_t length)
{
    if (!problem || length != sizeof(*problem))
        return;
    memcpy(problem, bytes, sizeof(*problem));
    problem->what[sizeof(problem->what) - 1] = problem->remedy[sizeof(problem->remedy) - 1] = '\0';
    proc_make_printable(problem->what);
    proc_make_printable(problem->remedy);
}

/* Its first message: what keeps it in. */
static int meet(struct broker *broker, struct worker *worker, bool (*is_ending)(void),
                struct problem *problem)
{
    struct broker_head head;
    broker->looked_ns = clock_monotonic_ns();
    int r = await(broker, worker, in_ms(WORK_MAX_MS), is_ending);
    if (r == -EINTR)
        return problem_set(problem, r, "no worker was made: interrupted");
    ptrdiff_t n = r < 0 ? r : broker_receive(worker->socket, &head, broker->bytes, BROKER_BYTES_MAX, NULL);
    if (n < 0 || head.verb != BROKER_RESULT)
        return problem_set(problem, -EPIPE, "a worker ended before it began");
    if (head.result < 0) {
        take_words(problem, broker->bytes, (size_t)n);
        return head.result;
    }
    if ((size_t)n == sizeof(worker->walls))
        memcpy(&worker->walls, broker->bytes, sizeof(worker->walls));
    return 0;
}

static int begin_worker(struct broker *broker, struct worker *worker, bool (*is_ending)(void),
                        struct problem *problem)
{
    int pair[2];
    struct broker_head head = {.verb = BROKER_WORK};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return problem_set(problem, -errno, "no worker can be made: %s", strerror(errno));
    worker->socket = pair[0];
    int r = broker_send(broker->spawner, head, NULL, 0, pair[1]);
    close(pair[1]);
    if (r >= 0 && (broker_receive(broker->spawner, &head, NULL, 0, &worker->pidfd) < 0 || worker->pidfd < 0))
        r = head.result < 0 ? head.result : -EPIPE;
    if (r < 0)
        return problem_set(problem, r, "no worker can be made: %s", strerror(-r));
    worker->pid = head.target;
    return meet(broker, worker, is_ending, problem);
}

/* The worker of the process's domain of trust. */
static int worker_for(struct broker *broker, const struct proc *proc, bool (*is_ending)(void),
                      struct worker **ret_worker, struct problem *problem)
{
    struct domain domain;
    int r = domain_of(proc, &domain);
    if (r < 0)
        return problem_set(problem, r, "process %d: %s", proc->pid, strerror(-r));
    array_foreach (&broker->workers, w)
        if (domain_same(&(*w)->domain, &domain)) {
            *ret_worker = *w;
            return 0;
        }
    struct worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return -ENOMEM;
    *worker = (struct worker){.domain = domain, .socket = -1, .pidfd = -1};
    r = begin_worker(broker, worker, is_ending, problem);
    if (r == 0)
        r = array_add(&broker->workers, worker);
    if (r < 0) {
        worker_end(worker);
        return r;
    }
    *ret_worker = worker;
    return 0;
}

/* The process becomes one of the worker's targets: it may read its memory from now on. */
static int grant(struct worker *worker, struct proc *proc, struct problem *problem)
{
    const struct proc *known = target_of(worker, proc->pid);
    if (known == proc)
        return 0;
    if (known) { /* the one that had the number before */
        size_t kept = 0;
        array_foreach (&worker->targets, t)
            if (*t == known)
                proc_unref(*t);
            else
                worker->targets.at[kept++] = *t;
        worker->targets.count = kept;
    }
    _cleanup_(file_closep) int memory = proc_file_open(proc, "mem", O_RDONLY);
    if (memory < 0)
        return problem_set(problem, memory, "process %d: its memory cannot be read: %s", proc->pid,
                           strerror(-memory));
    int r = array_add(&worker->targets, proc);
    if (r < 0)
        return r;
    proc_ref(proc);
    return broker_send(worker->socket, (struct broker_head){.verb = BROKER_GRANT, .target = proc->pid}, NULL,
                       0, memory);
}

/* Questions are answered until the result comes. */
static int serve(struct broker *broker, struct worker *worker, pid_t target, bool (*is_ending)(void),
                 void **ret_result, size_t *ret_length, struct problem *problem)
{
    uint64_t deadline_ns = in_ms(WORK_MAX_MS);
    broker->looked_ns = clock_monotonic_ns();
    for (unsigned questions = 0; questions < QUESTIONS_MAX; questions++) {
        struct broker_head head;
        int r = await(broker, worker, deadline_ns, is_ending);
        ptrdiff_t n =
            r < 0 ? r : broker_receive(worker->socket, &head, broker->bytes, BROKER_BYTES_MAX, NULL);
        if (n < 0)
            return n == -ECONNRESET || n == -EPROTO ? -EPIPE : (int)n;
        if (head.verb == BROKER_QUESTION) {
            if (answer(worker, &head, broker->bytes, (size_t)n) < 0)
                return -EPIPE;
            continue;
        }
        if (head.verb != BROKER_RESULT || head.target != target)
            return -EPIPE;
        worker->cpu_ns = MAX(worker->cpu_ns, head.start);
        if (head.result < 0) {
            take_words(problem, broker->bytes, (size_t)n);
            /* Errors of our own have meanings of their own. */
            return head.result < -4095 || head.result == -EPIPE || head.result == -EINTR ? -EIO : head.result;
        }
        *ret_result = malloc((size_t)n + 1);
        if (!*ret_result)
            return -ENOMEM;
        memcpy(*ret_result, broker->bytes, (size_t)n);
        *ret_length = (size_t)n;
        return 0;
    }
    return -EPIPE; /* it asks and asks */
}

/* More than a message takes goes in a file of its own. */
static int send_work(const struct worker *worker, pid_t target, const void *bytes, size_t length)
{
    const struct broker_head head = {.verb = BROKER_WORK, .target = target};
    if (length <= BROKER_BYTES_MAX)
        return broker_send(worker->socket, head, bytes, length, -1);
    _cleanup_(file_closep) int file = memfd_create("sonde-work", MFD_CLOEXEC);
    int r = file < 0 ? -errno : file_write_all(file, bytes, length);
    return r < 0 ? r : broker_send(worker->socket, head, NULL, 0, file);
}

int broker_work(struct broker *broker, struct proc *proc, const void *bytes, size_t length,
                bool (*is_ending)(void), void **ret_result, size_t *ret_length, struct problem *problem)
{
    struct worker *worker = NULL;
    int r = worker_for(broker, proc, is_ending, &worker, problem);
    if (r < 0)
        return r;
    r = grant(worker, proc, problem);
    if (r < 0) {
        if (r == -EPIPE || r == -ECONNRESET)
            forget_worker(broker, worker);
        return r;
    }
    r = send_work(worker, proc->pid, bytes, length);
    if (r >= 0)
        r = serve(broker, worker, proc->pid, is_ending, ret_result, ret_length, problem);
    if (r != -EPIPE && r != -ECONNRESET && r != -ETIMEDOUT && r != -EINTR)
        return r;
    forget_worker(broker, worker); /* it died, hangs, or has no more time: the next one begins afresh */
    return problem_set(problem, r, "process %d: the worker that reads it %s", proc->pid,
                       r == -ETIMEDOUT ? "took too long"
                       : r == -EINTR   ? "was ended: interrupted"
                                       : "died");
}

void broker_forget(struct broker *broker, const struct proc *proc)
{
    array_foreach (&broker->workers, w) {
        size_t kept = 0;
        array_foreach (&(*w)->targets, t) {
            if ((*t)->pid != proc->pid) {
                (*w)->targets.at[kept++] = *t;
                continue;
            }
            (void)broker_send((*w)->socket, (struct broker_head){.verb = BROKER_DROP, .target = proc->pid},
                              NULL, 0, -1);
            proc_unref(*t);
        }
        (*w)->targets.count = kept;
    }
}

size_t broker_workers(const struct broker *broker, struct broker_worker *ret_workers, size_t room)
{
    for (size_t i = 0; i < MIN(room, broker->workers.count); i++) {
        const struct worker *w = broker->workers.at[i];
        ret_workers[i] = (struct broker_worker){.pid = w->pid,
                                                .targets = (unsigned)w->targets.count,
                                                .questions = w->questions,
                                                .refused = w->refused,
                                                .walls = w->walls};
    }
    return broker->workers.count;
}

uint64_t broker_cpu_ns(const struct broker *broker)
{
    uint64_t sum = broker->ended_cpu_ns;
    array_foreach (&broker->workers, w)
        sum += (*w)->cpu_ns;
    return sum;
}

/* ---- the spawner: our memory as it was before there were targets ---- */

static int spawn(const struct worker_kind *kind, int socket, int ours)
{
    pid_t pid = fork();
    if (pid == 0) {
        close(ours);
        signal(SIGCHLD, SIG_DFL);
        worker_run(kind, socket);
    }
    int r = pid < 0 ? -errno : 0;
    int pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    const struct broker_head head = {.verb = BROKER_ANSWER, .target = pid, .result = r};
    r = broker_send(ours, head, NULL, 0, pidfd);
    if (pidfd >= 0)
        close(pidfd);
    return r;
}

/* Does nothing but fork: what is asked of it comes from the broker alone. */
static void run_spawner(void *context, int ours)
{
    const struct worker_kind *kind = context;
    sandbox_close_standard();
    if (getpriority(PRIO_PROCESS, 0) == 0) /* who was told to give way does */
        apart_go_first();
    signal(SIGCHLD, SIG_IGN); /* nobody waits for workers */
    for (struct broker_head head;;) {
        int fd = -1;
        if (broker_receive(ours, &head, NULL, 0, &fd) < 0 || fd < 0)
            return;
        int r = spawn(kind, fd, ours);
        close(fd);
        if (r < 0)
            return;
    }
}

int broker_new(const struct worker_kind *kind, struct broker **ret_broker, struct problem *problem)
{
    _cleanup_(broker_freep) struct broker *broker = calloc(1, sizeof(*broker));
    if (!broker)
        return -ENOMEM;
    broker->kind = kind;
    broker->spawner = -1;
    broker->bytes = malloc(BROKER_BYTES_MAX);
    if (!broker->bytes)
        return -ENOMEM;
    int r = apart_start("sonde:spawner", run_spawner, (void *)(uintptr_t)kind, &broker->spawner, problem);
    if (r < 0)
        return r;
    *ret_broker = broker;
    broker = NULL;
    return 0;
}

void broker_free(struct broker *broker)
{
    if (!broker)
        return;
    array_foreach (&broker->workers, w)
        worker_end(*w);
    array_done(&broker->workers);
    if (broker->spawner >= 0)
        close(broker->spawner);
    free(broker->bytes);
    free(broker);
}
