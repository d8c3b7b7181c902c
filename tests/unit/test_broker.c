/* A broker and its workers, among them one that is assumed to be taken over: it asks for everything, and gets
 * nothing but what is its targets'. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/broker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process_file.h"
#include "broker/domain.h"
#include "broker/protocol.h"
#include "broker/sandbox.h"
#include "held.h"
#include "symbol/memory.h"
#include "test.h"

static char secret[] = "what is in a target's memory";

static pid_t sleeper(uid_t user)
{
    char path[32];
    struct stat st;
    pid_t pid = fork();
    if (pid == 0) {
        if (user && setresuid(user, user, user) < 0)
            _exit(1);
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        for (;;)
            pause();
    }
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    while (stat(path, &st) == 0 && st.st_uid != user) /* it is of its user, who may trace it, in a moment */
        sched_yield();
    return pid;
}

/* One that this user has started with root's rights, as a program with the set-user-ID bit. */
static pid_t sleeper_with_rights(uid_t user)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (setresuid(user, 0, 0) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- the worker that was taken over ---- */

/* Whom it is to attack: the other process, the broker, and a file that only root may read. */
struct prey {
    pid_t other, broker;
    uint64_t secret;
    char file[TEST_PATH];
    bool root;
};

static char got[4000]; /* the attempts that came to something, by name */

static void note(bool success, const char *what)
{
    if (success && strlen(got) + strlen(what) + 3 < sizeof(got)) {
        strcat(got, what);
        strcat(got, "; ");
    }
}

static void call_the_kernel(const struct prey *prey)
{
    char room[64];
    struct iovec ours = {room, sizeof(room)}, theirs = {(void *)(uintptr_t)prey->secret, sizeof(room)};
    union bpf_attr attr = {0};
    note(open("/etc/passwd", O_RDONLY) >= 0, "opened a file");
    note(open(prey->file, O_RDONLY) >= 0, "opened root's file");
    note(open("/proc/self/mem", O_RDWR) >= 0, "opened its own memory");
    note(opendir("/") != NULL, "listed a directory");
    note(mkdir("/tmp/x", 0700) == 0, "made a directory");
    note(socket(AF_INET, SOCK_STREAM, 0) >= 0, "made a socket of the network");
    note(socket(AF_UNIX, SOCK_STREAM, 0) >= 0, "made a local socket");
    note(socket(AF_NETLINK, SOCK_RAW, 0) >= 0, "made a socket of the kernel");
    note(kill(prey->broker, 0) == 0, "reached the broker with a signal");
    note(kill(prey->other, SIGKILL) == 0, "killed another process");
    note(ptrace(PTRACE_SEIZE, prey->other, NULL, NULL) == 0, "traced another process");
    note(process_vm_readv(prey->other, &ours, 1, &theirs, 1, 0) > 0, "read another process");
    note(process_vm_writev(prey->other, &ours, 1, &theirs, 1, 0) > 0, "wrote another process");
    note(process_vm_readv(prey->broker, &ours, 1, &theirs, 1, 0) > 0, "read the broker");
    note(syscall(SYS_pidfd_open, prey->other, 0) >= 0, "held another process");
    note(syscall(SYS_bpf, BPF_PROG_GET_NEXT_ID, &attr, sizeof(attr)) == 0, "called BPF");
    note(syscall(SYS_memfd_create, "x", 0) >= 0, "made a file in memory");
    note(fork() > 0, "forked");
    note(unshare(CLONE_NEWUSER) == 0, "made a user namespace");
    note(mount("none", "/", "tmpfs", 0, NULL) == 0, "mounted");
    note(setuid(0) == 0 && geteuid() == 0 && prey->root, "became root");
    note(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0, "made itself open to tracers");
    note(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
             MAP_FAILED,
         "mapped code");
    char *const none[] = {NULL};
    note(execve("/bin/true", none, none) == 0, "executed a program");
}

static void ask(pid_t target, unsigned question, const char *name, uint64_t start, uint64_t end,
                const char *what)
{
    struct proc proc = {.pid = target, .directory = -1, .pidfd = -1};
    int r = proc_ask(target ? &proc : NULL, question, name, start, end);
    note(r >= 0, what);
}

static void ask_the_broker(pid_t target, const struct prey *prey)
{
    char path[TEST_PATH], long_name[9000];
    ask(prey->other, PROC_EXISTS, NULL, 0, 0, "asked about another process");
    ask(prey->other, PROC_TEXT, "maps", 0, 0, "got another process's mappings");
    ask(prey->other, PROC_FILE, "/etc/passwd", 0, 0, "got a file of another process");
    ask(prey->other, PROC_PATH, "/etc", 0, 0, "asked what is in another process's root");
    ask(prey->other, PROC_TEXT, "environ", 0, 0, "got another process's environment");
    ask(prey->other, PROC_TEXT, "cwd", 0, 0, "asked where another process is");
    ask(target, PROC_PATH, "/nowhere", 0, 0, "was told of a path that is not there");
    ask(prey->broker, PROC_TEXT, "maps", 0, 0, "got the broker's mappings");
    ask(1, PROC_TEXT, "status", 0, 0, "asked about init");
    ask(-1, PROC_TEXT, "status", 0, 0, "asked about nobody");
    static const char *const TEXTS[] = {
        "mem", "wchan", "../1/status", "task/1/mem", "fd/0", "root/etc/passwd", "maps/../mem",
        "",    "exe",   "syscall",     "stack",      "auxv", "pagemap"};
    for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
        ask(target, PROC_TEXT, TEXTS[i], 0, 0, TEXTS[i][0] ? TEXTS[i] : "a text without a name");
    ask(target, PROC_MAPPED, NULL, 0, ~0ull, "mapped everything");
    ask(target, PROC_MAPPED, NULL, 5, 4, "mapped backwards");
    ask(target, PROC_FILE, "/dev/null", 0, 0, "got a device");
    ask(target, PROC_FILE, "/", 0, 0, "got a directory");
    ask(target, PROC_FILE, NULL, 0, 0, "got no name");
    ask(target, PROC_FILE, "/proc/1/environ", 0, 0, "got init's environment");
    ask(target, PROC_FILE, "/proc/self/mem", 0, 0, "got the broker's memory");
    ask(target, PROC_FILE, "/sys/kernel/profiling", 0, 0, "got a file of the kernel");
    snprintf(path, sizeof(path), "/proc/%d/mem", prey->other);
    ask(target, PROC_FILE, path, 0, 0, "got another process's memory");
    if (prey->root)
        ask(target, PROC_FILE, prey->file, 0, 0, "got root's file");
    ask(target, PROC_OURS, "/usr/lib/debug/x", 0, 0, "asked for two things at once");
    ask(0, PROC_OURS, prey->file, 0, 0, "got our file");
    ask(0, PROC_OURS, "/usr/lib/debug/../../../etc/passwd", 0, 0, "went upwards");
    ask(0, PROC_OURS, "/etc/passwd", 0, 0, "got a file of ours");
    ask(0, PROC_EXISTS, NULL, 0, 0, "asked about 0");
    memset(long_name, 'a', sizeof(long_name));
    long_name[0] = '/';
    long_name[sizeof(long_name) - 1] = '\0';
    ask(target, PROC_FILE, long_name, 0, 0, "got a name that is too long");
    ask(target, PROC_MEMORY, NULL, 0, 0, "got memory that it was not given");
    ask(target, PROC_PROGRAM, NULL, 0, 0, "got its program by its place");
    for (unsigned kind = PROC_QUESTIONS; kind < PROC_QUESTIONS + 300; kind++)
        ask(target, kind, "maps", 0, 0, "asked what there is no question for");
    ask(target, UINT32_MAX, "maps", 0, 0, "asked the last question");
}

/* What it may. */
static bool does_its_work(pid_t target, const struct prey *prey)
{
    char copy[sizeof(secret)];
    struct proc *proc;
    struct proc_stat stat;
    struct modules;
    return proc_open(target, &proc) == 0 && proc_read_stat(proc, 0, &stat) == 0 &&
           process_has_path(proc, "/etc") && proc_read_link(proc, "cwd", copy, sizeof(copy)) > 0 &&
           memory_read(target, prey->secret, copy, sizeof(copy)) == 0 &&
           memcmp(copy, secret, sizeof(copy)) == 0 &&
           memory_read(prey->other, prey->secret, copy, sizeof(copy)) < 0;
}

static void *begin(void)
{
    return got;
}

static void forget(void *context, pid_t target)
{
}

static int attack(void *context, pid_t target, const void *bytes, size_t length, void **ret_result,
                  size_t *ret_length, struct problem *problem)
{
    const struct prey *prey = bytes;
    got[0] = '\0';
    call_the_kernel(prey);
    ask_the_broker(target, prey);
    note(!does_its_work(target, prey), "could not do its work");
    *ret_result = strdup(got);
    *ret_length = strlen(got) + 1;
    return 0;
}

static const struct worker_kind attacker = {"test:attacker", begin, attack, forget};

static void one_that_was_taken_over(void **state)
{
    struct broker *broker;
    struct problem problem = {0};
    struct prey prey = {.broker = getpid(), .secret = (uintptr_t)secret, .root = geteuid() == 0};
    struct broker_worker worker;
    char *result = NULL;
    size_t length;
    assert_int_equal(broker_new(&attacker, &broker, NULL), 0);
    int fd = mkstemp(test_path(prey.file));
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0600), 0);
    pid_t target = sleeper(prey.root ? 65534 : 0);
    prey.other = sleeper(0);
    while (prey.root && proc_status_number(held(target), "Uid") != 65534) /* until it has changed its user */
        sched_yield();
    int r = broker_work(broker, held(target), &prey, sizeof(prey), NULL, (void **)&result, &length, &problem);
    assert_string_equal(problem.what, "");
    assert_int_equal(r, 0);
    assert_string_equal(result, "");
    assert_int_equal(kill(prey.other, 0), 0);
    assert_int_equal(broker_workers(broker, &worker, 1), 1);
    assert_int_equal(worker.targets, 1);
    assert_true(worker.refused > 300);
    assert_true(worker.walls.filter);
    assert_int_equal(worker.walls.own_user, prey.root);
    assert_int_equal(worker.walls.namespaces, prey.root);
    free(result);
    unlink(prey.file);
    close(fd);
    end(target);
    end(prey.other);
    broker_free(broker);
}

/* ---- one that breaks the rules of the conversation ---- */

/* By which rule: the first byte of the work. The socket is the only descriptor above standard error that a
 * message can be sent on. */
static int misbehave(void *context, pid_t target, const void *bytes, size_t length, void **ret_result,
                     size_t *ret_length, struct problem *problem)
{
    static char noise[BROKER_BYTES_MAX + 60000];
    struct broker_head head = {.verb = BROKER_RESULT, .target = target, .length = 10};
    switch (*(const char *)bytes) {
    case 'd':
        abort();
    case 'l': /* it says ten bytes, and sends none */
        for (int fd = 3; fd < 9; fd++)
            (void)!write(fd, &head, sizeof(head));
        break;
    case 'b': /* more than any message may have */
        for (int fd = 3; fd < 9; fd++)
            (void)!write(fd, noise, sizeof(noise));
        break;
    case 's': /* less than a head */
        for (int fd = 3; fd < 9; fd++)
            (void)!write(fd, "x", 1);
        break;
    case 'o': /* a result for somebody else */
        for (int fd = 3; fd < 9; fd++)
            (void)!broker_send(fd, (struct broker_head){.verb = BROKER_RESULT, .target = 1}, "x", 1, -1);
        break;
    case 'v': /* a verb that there is not */
        for (int fd = 3; fd < 9; fd++)
            (void)!broker_send(fd, (struct broker_head){.verb = 77, .target = target}, "x", 1, -1);
        break;
    case 'e': /* without an end */
        for (;;)
            pause();
    case 'q': /* questions without an end */
        for (;;)
            (void)proc_ask(NULL, PROC_OURS, "/etc/passwd", 0, 0);
    }
    *ret_result = strdup("done");
    *ret_length = 5;
    return 0;
}

static const struct worker_kind rude = {"test:rude", begin, misbehave, forget};

static bool now(void)
{
    return true;
}

static void one_that_breaks_the_rules(void **state)
{
    struct broker *broker;
    struct problem problem;
    void *result = NULL;
    size_t length;
    assert_int_equal(broker_new(&rude, &broker, NULL), 0);
    pid_t target = sleeper(0);
    for (const char *rule = "dlbsovq"; *rule; rule++) {
        problem = (struct problem){0};
        assert_int_equal(broker_work(broker, held(target), rule, 1, NULL, &result, &length, &problem),
                         -EPIPE);
        assert_non_null(strstr(problem.what, "died"));
        assert_int_equal(broker_workers(broker, NULL, 0), 0);
        assert_int_equal(broker_work(broker, held(target), "-", 1, NULL, &result, &length, NULL), 0);
        assert_string_equal(result, "done"); /* the next worker does its work */
        free(result);
    }
    assert_int_equal(broker_work(broker, held(target), "e", 1, now, &result, &length, NULL), -EINTR);
    char *large = calloc(1, 2 * BROKER_BYTES_MAX); /* more than a message takes */
    large[0] = '-';
    assert_int_equal(
        broker_work(broker, held(target), large, 2 * BROKER_BYTES_MAX, NULL, &result, &length, NULL), 0);
    free(result);
    free(large);
    end(target);
    broker_free(broker);
}

/* ---- what else there is to do ---- */

static unsigned looks;

static void look(void *context)
{
    ++*(unsigned *)context;
}

static bool after_some_looks(void)
{
    return looks > 2;
}

static void others_are_served_while_a_worker_works(void **state)
{
    struct broker *broker;
    void *result = NULL;
    size_t length;
    assert_int_equal(broker_new(&rude, &broker, NULL), 0);
    pid_t target = sleeper(0);
    looks = 0;
    broker_while_waiting(broker, look, &looks);
    assert_int_equal(broker_work(broker, held(target), "e", 1, after_some_looks, &result, &length, NULL),
                     -EINTR);
    assert_int_equal(looks, 3);
    looks = 0; /* also while it asks and asks */
    assert_int_equal(broker_work(broker, held(target), "q", 1, after_some_looks, &result, &length, NULL),
                     -EINTR);
    assert_int_equal(looks, 3);
    end(target);
    broker_free(broker);
}

/* ---- domains of trust ---- */

static int say_who(void *context, pid_t target, const void *bytes, size_t length, void **ret_result,
                   size_t *ret_length, struct problem *problem)
{
    *ret_result = malloc(sizeof(pid_t));
    *(pid_t *)*ret_result = getpid();
    *ret_length = sizeof(pid_t);
    return 0;
}

static const struct worker_kind honest = {"test:honest", begin, say_who, forget};

static pid_t worker_of(struct broker *broker, pid_t target)
{
    void *result = NULL;
    size_t length;
    assert_int_equal(broker_work(broker, held(target), "", 0, NULL, &result, &length, NULL), 0);
    assert_int_equal(length, sizeof(pid_t));
    pid_t pid = *(pid_t *)result;
    free(result);
    return pid;
}

static void users_have_workers_of_their_own(void **state)
{
    struct broker *broker;
    if (geteuid() != 0)
        skip();
    assert_int_equal(broker_new(&honest, &broker, NULL), 0);
    pid_t a = sleeper(0), b = sleeper(0), c = sleeper(65534);
    while (proc_status_number(held(c), "Uid") != 65534)
        sched_yield();
    pid_t first = worker_of(broker, a);
    assert_int_equal(worker_of(broker, b), first);
    assert_int_not_equal(worker_of(broker, c), first);
    struct broker_worker workers[2];
    assert_int_equal(broker_workers(broker, workers, 2), 2);
    pid_t d = sleeper_with_rights(65534);
    while (proc_status_number(held(d), "Uid") != 65534)
        sched_yield();
    pid_t with_rights = worker_of(broker, d);
    assert_int_not_equal(with_rights, first);
    assert_int_not_equal(with_rights, worker_of(broker, c));
    end(d);
    assert_int_equal(broker_workers(broker, workers, 2), 3);
    assert_int_equal(workers[0].targets, 2);
    assert_int_equal(workers[1].targets, 1);
    broker_forget(broker, held(a));
    assert_int_equal(broker_workers(broker, workers, 2), 3);
    assert_int_equal(workers[0].targets, 1);
    assert_int_equal(worker_of(broker, a), first); /* and becomes a target again */
    end(a);
    end(b);
    end(c);
    broker_free(broker);
}

static struct domain domain_for(pid_t pid, uid_t user)
{
    struct domain domain;
    while (proc_status_number(held(pid), "Uid") != (long)user)
        sched_yield();
    assert_int_equal(domain_of(held(pid), &domain), 0);
    return domain;
}

/* One that its user may not trace, as who runs a program with more rights, is not in its user's domain. */
static void what_its_user_may_not_trace_is_apart(void **state)
{
    if (geteuid() != 0)
        skip();
    pid_t a = sleeper(65534), b = fork();
    if (b == 0) {
        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
            _exit(1);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        pause();
    }
    struct domain first = domain_for(a, 65534), second = domain_for(b, 65534);
    struct domain_owner owner;
    assert_false(domain_same(&first, &second));
    assert_false(domain_owner(&second, &owner));
    end(a);
    end(b);
}

/* Each has a user of its own, and the kernel says that user owns it; still they are one domain, so that a
 * host with hundreds of them needs no hundreds of workers. */
static void confined_processes_are_one_domain(void **state)
{
    enum { NOBODY_ELSE = 1560281088 + 4711 };
    if (geteuid() != 0)
        skip();
    assert_true(sandbox_is_nobody_else(NOBODY_ELSE));
    pid_t a = sleeper(NOBODY_ELSE), b = sleeper(NOBODY_ELSE + 1), c = sleeper(65534),
          d = sleeper_with_rights(NOBODY_ELSE);
    struct domain first = domain_for(a, NOBODY_ELSE), second = domain_for(b, NOBODY_ELSE + 1),
                  user = domain_for(c, 65534), with_rights = domain_for(d, NOBODY_ELSE);
    assert_true(domain_same(&first, &second));
    assert_false(domain_same(&first, &user));
    assert_false(domain_same(&first, &with_rights));
    struct domain_owner owner;
    struct domain ended = domain_of_ended(65534);
    struct stat namespace;
    assert_int_equal(stat("/proc/self/ns/user", &namespace), 0);
    assert_true(domain_owner(&user, &owner));
    for (size_t i = 0; i < ARRAY_SIZE(owner.users); i++)
        assert_int_equal(owner.users[i], 65534);
    assert_int_equal(owner.user_namespace, namespace.st_ino);
    assert_false(domain_owner(&first, &owner)); /* of many users */
    assert_false(domain_owner(&ended, &owner)); /* of any namespace */
    end(a);
    end(b);
    end(c);
    end(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_was_taken_over),
        cmocka_unit_test(one_that_breaks_the_rules),
        cmocka_unit_test(others_are_served_while_a_worker_works),
        cmocka_unit_test(users_have_workers_of_their_own),
        cmocka_unit_test(what_its_user_may_not_trace_is_apart),
        cmocka_unit_test(confined_processes_are_one_domain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
