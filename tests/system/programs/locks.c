/* Waits for two mutexes at three places, and keeps its own account: how long each place waited, and which
 * thread held the lock meanwhile. Beside it threads of a pool wait for work, which nobody holds. Prints the
 * account as JSON. `locks stuck` ends with a thread that never lets go: it prints "stuck" and goes on until
 * it is killed. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 40, LIMIT = 4096, THREADS = 8 };

struct span {
    uint64_t from_ns, to_ns;
    int who, where;
};

static pthread_mutex_t index_lock = PTHREAD_MUTEX_INITIALIZER, ledger_lock = PTHREAD_MUTEX_INITIALIZER,
                       work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static sem_t done;
static int jobs, ending;

static struct {
    struct span waits[LIMIT], holds[LIMIT];
    int wait_count, hold_count; /* of the lock that they are of */
} accounts[2];
static const char *const PLACES[] = {"looks_up", "books", "cancels", "rebuilds"};
static const char *const NAMES[] = {"keeper", "reader", "reader", "booking", "booking", "cancelling"};
static __thread int self;
static int tids[THREADS];

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void pass(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000l}, NULL);
}

/* Taking it, and the account of that; once it is had, nobody else writes there. Not in a function of its own:
 * the place that waits is the caller. */
#define TAKE(lock, account, place)                                          \
    uint64_t asked_ns = now_ns();                                           \
    pthread_mutex_lock(&lock);                                              \
    uint64_t got_ns = now_ns();                                             \
    accounts[account].waits[accounts[account].wait_count++] = (struct span) \
    {                                                                       \
        asked_ns, got_ns, self, place                                       \
    }
#define LEAVE(lock, account)                                                                            \
    accounts[account].holds[accounts[account].hold_count++] = (struct span){got_ns, now_ns(), self, 0}; \
    pthread_mutex_unlock(&lock)

__attribute__((noinline)) void rebuilds(void)
{
    TAKE(index_lock, 0, 3);
    pass(10);
    LEAVE(index_lock, 0);
    pass(2);
}

__attribute__((noinline)) void looks_up(void)
{
    TAKE(index_lock, 0, 0);
    LEAVE(index_lock, 0);
    pass(1);
}

__attribute__((noinline)) void books(void)
{
    TAKE(ledger_lock, 1, 1);
    pass(4);
    LEAVE(ledger_lock, 1);
    pass(1);
}

__attribute__((noinline)) void cancels(void)
{
    TAKE(ledger_lock, 1, 2);
    pass(8);
    LEAVE(ledger_lock, 1);
    pass(1);
}

__attribute__((noinline)) void awaits_work(void)
{
    pthread_mutex_lock(&work_lock);
    while (!jobs && !ending)
        pthread_cond_wait(&work, &work_lock);
    jobs -= jobs > 0;
    pthread_mutex_unlock(&work_lock);
    sem_post(&done);
}

static void *runs(void *x)
{
    static void (*const DOES[])(void) = {rebuilds, looks_up, looks_up, books, books, cancels};
    self = (int)(intptr_t)x;
    tids[self] = (int)syscall(SYS_gettid);
    pthread_setname_np(pthread_self(), NAMES[self]);
    for (int i = 0; i < ROUNDS; i++)
        DOES[self]();
    return NULL;
}

static void *pool(void *x)
{
    pthread_setname_np(pthread_self(), "pool");
    while (!ending)
        awaits_work();
    return x;
}

static uint64_t overlap(const struct span *a, const struct span *b)
{
    uint64_t from = a->from_ns > b->from_ns ? a->from_ns : b->from_ns;
    uint64_t to = a->to_ns < b->to_ns ? a->to_ns : b->to_ns;
    return to > from ? to - from : 0;
}

static void tell(int place, int account)
{
    uint64_t waited = 0, held[THREADS] = {0};
    for (int i = 0; i < accounts[account].wait_count; i++) {
        const struct span *w = &accounts[account].waits[i];
        if (w->where != place)
            continue;
        waited += w->to_ns - w->from_ns;
        for (int k = 0; k < accounts[account].hold_count; k++)
            held[accounts[account].holds[k].who] += overlap(w, &accounts[account].holds[k]);
    }
    printf("%s\"%s\": {\"lock\": \"%p\", \"waited_ns\": %llu, \"held_by\": {", place ? ", " : "",
           PLACES[place], (void *)(account ? &ledger_lock : &index_lock), (unsigned long long)waited);
    for (int k = 0; k < 6; k++)
        printf("%s\"%d\": %llu", k ? ", " : "", tids[k], (unsigned long long)held[k]);
    printf("}}");
}

__attribute__((noinline)) void keeps_for_ever(void)
{
    pthread_mutex_lock(&ledger_lock);
    printf("stuck\n");
    fflush(stdout);
    for (;;)
        pause();
}

static void *stuck(void *x)
{
    pthread_setname_np(pthread_self(), "keeper");
    keeps_for_ever();
    return x;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS], workers[2];
    sem_init(&done, 0, 0);
    pass(300); /* until its own code can be told apart */
    if (argc > 1 && strcmp(argv[1], "stuck") == 0) {
        pthread_create(&threads[0], NULL, stuck, NULL);
        pass(100);
        cancels();
        return 1;
    }
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&workers[i], NULL, pool, NULL);
    for (intptr_t i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, runs, (void *)i);
    for (int i = 0; i < 20; i++) {
        pass(20);
        pthread_mutex_lock(&work_lock);
        jobs++;
        pthread_cond_signal(&work);
        pthread_mutex_unlock(&work_lock);
        sem_wait(&done);
    }
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_lock(&work_lock);
    ending = 1;
    pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&work_lock);
    for (int i = 0; i < 2; i++)
        pthread_join(workers[i], NULL);
    printf("{");
    for (int place = 0; place < 4; place++)
        tell(place, place == 1 || place == 2);
    printf("}\n");
    return 0;
}
