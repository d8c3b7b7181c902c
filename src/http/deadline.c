/* See deadline.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/deadline.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"

#define ENDED UINT64_MAX /* in place of a time: the connection was shut down */

struct deadline {
    struct deadline *before, *next;
    int fd;
    uint64_t at_ns; /* atomic; CLOCK_MONOTONIC */
};

struct deadlines {
    pthread_t thread;
    pthread_mutex_t lock; /* for the list; a descriptor in it is not closed while it is held */
    pthread_cond_t changed;
    struct deadline *first;
    uint64_t interval_ns;
    uint64_t count; /* atomic */
    bool ended;
};

static void end_late_ones(struct deadlines *deadlines)
{
    uint64_t now_ns = clock_monotonic_ns();
    for (struct deadline *d = deadlines->first; d; d = d->next) {
        if (__atomic_load_n(&d->at_ns, __ATOMIC_RELAXED) > now_ns)
            continue;
        __atomic_store_n(&d->at_ns, ENDED, __ATOMIC_RELAXED);
        __atomic_add_fetch(&deadlines->count, 1, __ATOMIC_RELAXED);
        shutdown(d->fd, SHUT_RDWR);
    }
}

/* Sleeps as long as there is no connection. */
static void *watch(void *context)
{
    struct deadlines *deadlines = context;
    pthread_mutex_lock(&deadlines->lock);
    while (!deadlines->ended) {
        if (!deadlines->first) {
            pthread_cond_wait(&deadlines->changed, &deadlines->lock);
            continue;
        }
        uint64_t next_ns = clock_monotonic_ns() + deadlines->interval_ns;
        const struct timespec next = {.tv_sec = (time_t)(next_ns / NS_PER_S),
                                      .tv_nsec = (long)(next_ns % NS_PER_S)};
        while (!deadlines->ended &&
               pthread_cond_timedwait(&deadlines->changed, &deadlines->lock, &next) != ETIMEDOUT)
            ;
        end_late_ones(deadlines);
    }
    pthread_mutex_unlock(&deadlines->lock);
    return NULL;
}

int deadlines_new(uint64_t interval_ns, struct deadlines **ret_deadlines)
{
    pthread_condattr_t monotonic;
    struct deadlines *deadlines = calloc(1, sizeof(*deadlines));
    if (!deadlines)
        return -ENOMEM;
    deadlines->interval_ns = interval_ns;
    pthread_mutex_init(&deadlines->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&deadlines->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int r = -pthread_create(&deadlines->thread, NULL, watch, deadlines);
    if (r < 0) {
        pthread_cond_destroy(&deadlines->changed);
        pthread_mutex_destroy(&deadlines->lock);
        free(deadlines);
        return r;
    }
    *ret_deadlines = deadlines;
    return 0;
}

void deadlines_free(struct deadlines *deadlines)
{
    if (!deadlines)
        return;
    pthread_mutex_lock(&deadlines->lock);
    deadlines->ended = true;
    pthread_cond_signal(&deadlines->changed);
    pthread_mutex_unlock(&deadlines->lock);
    pthread_join(deadlines->thread, NULL);
    pthread_cond_destroy(&deadlines->changed);
    pthread_mutex_destroy(&deadlines->lock);
    free(deadlines);
}

struct deadline *deadline_add(struct deadlines *deadlines, int fd, uint64_t limit_ns)
{
    struct deadline *d = calloc(1, sizeof(*d));
    if (!d)
        return NULL;
    d->fd = fd;
    d->at_ns = clock_monotonic_ns() + limit_ns;
    pthread_mutex_lock(&deadlines->lock);
    d->next = deadlines->first;
    if (d->next)
        d->next->before = d;
    else
        pthread_cond_signal(&deadlines->changed);
    deadlines->first = d;
    pthread_mutex_unlock(&deadlines->lock);
    return d;
}

void deadline_set(struct deadline *deadline, uint64_t limit_ns)
{
    uint64_t at_ns = deadline ? __atomic_load_n(&deadline->at_ns, __ATOMIC_RELAXED) : ENDED;
    if (at_ns != ENDED) /* and has not been shut down since: then the exchange fails */
        __atomic_compare_exchange_n(&deadline->at_ns, &at_ns, clock_monotonic_ns() + limit_ns, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void deadline_remove(struct deadlines *deadlines, struct deadline *deadline)
{
    if (!deadline)
        return;
    pthread_mutex_lock(&deadlines->lock);
    if (deadline->before)
        deadline->before->next = deadline->next;
    else
        deadlines->first = deadline->next;
    if (deadline->next)
        deadline->next->before = deadline->before;
    pthread_mutex_unlock(&deadlines->lock);
    free(deadline);
}

uint64_t deadlines_count(const struct deadlines *deadlines)
{
    return __atomic_load_n(&deadlines->count, __ATOMIC_RELAXED);
}
