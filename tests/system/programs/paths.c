/* Threads that wait for each other in ways whose critical path is known: the program's first thread asks, and
 * each thread that works for it notes when it did, by CLOCK_MONOTONIC. What is noted is the path: nothing
 * else can have kept the first thread waiting then. It has the functions by which sonde knows a Redis.
 *
 *   paths SCENARIO [FILE]
 *
 * It prints "FIRST thread" and then a line for each piece of the path, "FROM TO THREAD WHAT" in nanoseconds,
 * WHAT being runs (it computed), sleeps (until a time) or disk (it may have waited for one). Work is an
 * amount of CPU time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "looks_like_redis.h"

enum { MOST = 64, PIECE_NS = 4000000, LONG_NS = 40000000 };

struct piece {
    uint64_t from_ns, to_ns;
    int thread;
    const char *what;
};

/* Shared with children. */
static struct notes {
    int count;
    struct piece at[MOST];
} * notes;

static int first; /* thread */
static const char *file = "paths.data";

__attribute__((noinline, patchable_function_entry(5))) void call(void *client, int flags)
{
    (void)client;
    (void)flags;
    __asm__ volatile("");
}

static void must(int ok)
{
    if (ok)
        return;
    perror("paths");
    abort();
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void note(uint64_t from_ns, const char *what)
{
    uint64_t to_ns = now_ns(CLOCK_MONOTONIC);
    int i = __atomic_fetch_add(&notes->count, 1, __ATOMIC_SEQ_CST);
    must(i < MOST);
    notes->at[i] = (struct piece){from_ns, to_ns, (int)gettid(), what};
}

/* A thread's clock is a system call, and at the level that records each of them a thread that makes nothing
 * else fills the rings; there are some 10 us between two of them. */
static void spin(uint64_t cpu_ns)
{
    enum { BETWEEN = 10000 };
    uint64_t end_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + cpu_ns;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
        for (volatile int i = 0; i < BETWEEN; i++)
            ;
}

static void work_for(uint64_t cpu_ns)
{
    uint64_t from_ns = now_ns(CLOCK_MONOTONIC);
    spin(cpu_ns);
    note(from_ns, "runs");
}

static void work(void)
{
    work_for(PIECE_NS);
}

static pthread_t begin(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, run, argument) == 0);
    return thread;
}

/* Until this thread waits for a futex. */
static void until_waits(int thread)
{
    char path[64], text[16];
    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread);
    for (;;) {
        FILE *f = fopen(path, "r");
        must(f != NULL);
        char *got = fgets(text, sizeof(text), f);
        fclose(f);
        if (got && strncmp(text, "202 ", 4) == 0)
            return;
        usleep(500);
    }
}

/* ---- one hands over to the next ---- */

static uint32_t turns[3];

static void futex_wait(uint32_t *word)
{
    while (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void futex_wake(uint32_t *word)
{
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *hand_over(void *argument)
{
    long i = (long)argument;
    futex_wait(&turns[i]);
    work();
    futex_wake(&turns[i + 1]);
    return NULL;
}

static void scenario_futex(void)
{
    pthread_t a = begin(hand_over, (void *)0), b = begin(hand_over, (void *)1);
    work();
    futex_wake(&turns[0]);
    futex_wait(&turns[2]);
    work();
    pthread_join(a, NULL);
    pthread_join(b, NULL);
}

/* ---- through pipes, by turns ---- */

static int there[2], back[2];

static void put(int fd)
{
    must(write(fd, "x", 1) == 1);
}

static void get(int fd)
{
    char byte;
    must(read(fd, &byte, 1) == 1);
}

enum { ROUNDS = 5 };

static void *answer_pipe(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        get(there[0]);
        work();
        put(back[1]);
    }
    return unused;
}

static void scenario_pipe(void)
{
    must(pipe(there) == 0 && pipe(back) == 0);
    pthread_t other = begin(answer_pipe, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        work();
        put(there[1]);
        get(back[0]);
    }
    work();
    pthread_join(other, NULL);
}

/* ---- a server that waits in epoll, and serves somebody else first ---- */

static int asked[2], answered[2], go[2];

static void wait_event(int fd)
{
    uint64_t n;
    must(read(fd, &n, sizeof(n)) == sizeof(n));
}

static void raise_event(int fd)
{
    uint64_t one = 1;
    must(write(fd, &one, sizeof(one)) == sizeof(one));
}

static void *serve_epoll(void *unused)
{
    struct epoll_event event = {.events = EPOLLIN}, got;
    int set = epoll_create1(0);
    event.data.fd = go[0];
    must(epoll_ctl(set, EPOLL_CTL_ADD, go[0], &event) == 0);
    must(epoll_wait(set, &got, 1, -1) == 1);
    for (int i = 1; i >= 0; i--) { /* 1 is the other one's */
        wait_event(asked[i]);
        work();
        raise_event(answered[i]);
    }
    return unused;
}

static void *ask(void *unused)
{
    raise_event(asked[1]);
    put(there[1]);
    wait_event(answered[1]);
    spin(PIECE_NS);
    return unused;
}

static void scenario_epoll(void)
{
    must(pipe(go) == 0 && pipe(there) == 0);
    for (int i = 0; i < 2; i++)
        asked[i] = eventfd(0, 0), answered[i] = eventfd(0, 0);
    pthread_t server = begin(serve_epoll, NULL), other = begin(ask, NULL);
    get(there[0]);
    work();
    raise_event(asked[0]);
    put(go[1]);
    wait_event(answered[0]);
    work();
    pthread_join(server, NULL);
    pthread_join(other, NULL);
}

/* ---- one that sleeps, and one that waits for a disk ---- */

static sem_t done, held, tried;

static void *sleep_between(void *unused)
{
    sem_wait(&held);
    work();
    uint64_t from_ns = now_ns(CLOCK_MONOTONIC);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    note(from_ns, "sleeps");
    work();
    sem_post(&done);
    return unused;
}

static void *write_between(void *unused)
{
    static char bytes[1 << 18];
    sem_wait(&held);
    work();
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0);
    uint64_t from_ns = now_ns(CLOCK_MONOTONIC);
    must(write(fd, bytes, sizeof(bytes)) == sizeof(bytes) && fdatasync(fd) == 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    must(pread(fd, bytes, sizeof(bytes), 0) == sizeof(bytes));
    note(from_ns, "disk");
    close(fd);
    work();
    sem_post(&done);
    return unused;
}

static void one_other(void *(*run)(void *))
{
    pthread_t other = begin(run, NULL);
    work();
    sem_post(&held);
    sem_wait(&done);
    work();
    pthread_join(other, NULL);
}

static void scenario_timer(void)
{
    one_other(sleep_between);
}

static void scenario_disk(void)
{
    one_other(write_between);
}

/* ---- a child and its child ---- */

static void scenario_fork(void)
{
    work();
    pid_t child = fork();
    if (child == 0) {
        call(NULL, 0); /* from here on it is traced */
        work();
        pid_t grandchild = fork();
        if (grandchild == 0) {
            call(NULL, 0);
            work();
            _exit(0);
        }
        must(waitpid(grandchild, NULL, 0) == grandchild);
        work();
        _exit(0);
    }
    must(waitpid(child, NULL, 0) == child);
    work();
}

/* ---- a thread that is made, works and ends ---- */

static void *work_once(void *unused)
{
    work();
    return unused;
}

static void scenario_join(void)
{
    for (int i = 0; i < 3; i++) {
        work();
        pthread_join(begin(work_once, NULL), NULL);
    }
    work();
}

/* ---- one that is made while the first thread waits ---- */

static void *work_and_post(void *unused)
{
    work();
    sem_post(&done);
    return unused;
}

static void *make_another(void *unused)
{
    sem_wait(&held);
    until_waits(first);
    work();
    pthread_t made = begin(work_and_post, NULL);
    spin(PIECE_NS / 4);
    pthread_join(made, NULL);
    return unused;
}

static void scenario_made(void)
{
    one_other(make_another);
}

/* ---- one that a competitor takes the CPU from ---- */

static int over;

static void pin(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    must(sched_getaffinity(0, sizeof(all), &all) == 0);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    must(sched_setaffinity(0, sizeof(one), &one) == 0);
}

static void *compete(void *unused)
{
    pin();
    sem_post(&tried);
    while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST))
        ;
    return unused;
}

static void *work_pinned(void *unused)
{
    pin();
    sem_wait(&held);
    work_for(LONG_NS);
    sem_post(&done);
    return unused;
}

static void scenario_preempted(void)
{
    pthread_t competitor = begin(compete, NULL);
    sem_wait(&tried);
    one_other(work_pinned);
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    pthread_join(competitor, NULL);
}

/* ---- many wait for one condition, and the first thread for one of them ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int state, waiters, asks;

static void wait_for_change(void)
{
    pthread_mutex_lock(&lock);
    waiters++;
    while (!state)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void *wait_and_work(void *argument)
{
    wait_for_change();
    if (!argument) {
        spin(PIECE_NS / 4);
        return NULL;
    }
    while (!__atomic_load_n(&asks, __ATOMIC_SEQ_CST))
        usleep(500);
    until_waits(first);
    work_for(LONG_NS);
    sem_post(&done);
    return NULL;
}

static void *change(void *unused)
{
    for (int all = 0; !all; usleep(500)) {
        pthread_mutex_lock(&lock);
        all = waiters == 4;
        pthread_mutex_unlock(&lock);
    }
    until_waits(first);
    work();
    pthread_mutex_lock(&lock);
    state = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return unused;
}

static void scenario_broadcast(void)
{
    pthread_t waiting[3], changing = begin(change, NULL);
    for (long i = 0; i < 3; i++)
        waiting[i] = begin(wait_and_work, (void *)(i == 1 ? 1l : 0l));
    work();
    wait_for_change();
    __atomic_store_n(&asks, 1, __ATOMIC_SEQ_CST);
    sem_wait(&done);
    work();
    for (int i = 0; i < 3; i++)
        pthread_join(waiting[i], NULL);
    pthread_join(changing, NULL);
}

/* ---- a server on the loopback ---- */

static int listener;

static void *serve_tcp(void *unused)
{
    int fd = accept(listener, NULL, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        get(fd);
        work();
        put(fd);
    }
    close(fd);
    return unused;
}

static void scenario_loopback(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0);
    must(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pthread_t server = begin(serve_tcp, NULL);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(fd, (struct sockaddr *)&address, size) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        work();
        put(fd);
        get(fd);
    }
    work();
    pthread_join(server, NULL);
}

/* ---- a lock whose holder waits for another lock ---- */

static int middle; /* thread */

static void *hold_inner(void *unused)
{
    pthread_mutex_lock(&inner);
    sem_post(&held);
    sem_wait(&tried);
    until_waits(__atomic_load_n(&middle, __ATOMIC_SEQ_CST));
    until_waits(first);
    work();
    pthread_mutex_unlock(&inner);
    return unused;
}

static void *hold_outer(void *unused)
{
    __atomic_store_n(&middle, (int)gettid(), __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&lock);
    sem_post(&done);
    sem_post(&tried);
    pthread_mutex_lock(&inner);
    work();
    pthread_mutex_unlock(&inner);
    pthread_mutex_unlock(&lock);
    return unused;
}

static void scenario_nested(void)
{
    pthread_t a = begin(hold_inner, NULL);
    sem_wait(&held);
    pthread_t b = begin(hold_outer, NULL);
    sem_wait(&done);
    work();
    pthread_mutex_lock(&lock);
    work();
    pthread_mutex_unlock(&lock);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
}

/* ---- which ---- */

static const struct scenario {
    const char *name;
    void (*run)(void);
} SCENARIOS[] = {
    {"futex", scenario_futex},       {"pipe", scenario_pipe},           {"epoll", scenario_epoll},
    {"timer", scenario_timer},       {"disk", scenario_disk},           {"fork", scenario_fork},
    {"join", scenario_join},         {"preempted", scenario_preempted}, {"broadcast", scenario_broadcast},
    {"loopback", scenario_loopback}, {"nested", scenario_nested},       {"made", scenario_made},
};

int main(int argc, char **argv)
{
    first = (int)gettid();
    notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(argc > 1 && notes != MAP_FAILED);
    if (argc > 2)
        file = argv[2];
    sem_init(&done, 0, 0);
    sem_init(&held, 0, 0);
    sem_init(&tried, 0, 0);
    call(NULL, 0);
    for (size_t i = 0; i < sizeof(SCENARIOS) / sizeof(*SCENARIOS); i++)
        if (strcmp(argv[1], SCENARIOS[i].name) == 0)
            SCENARIOS[i].run();
    printf("%d thread\n", first);
    for (int i = 0; i < notes->count; i++)
        printf("%llu %llu %d %s\n", (unsigned long long)notes->at[i].from_ns,
               (unsigned long long)notes->at[i].to_ns, notes->at[i].thread, notes->at[i].what);
    return 0;
}
