/* Who wakes whom: a reader waits for a keeper, who waits for the clerk, who sleeps. Each wake-up has a
 * function of its own. Prints "ready", begins with a line of input, prints "done" and ends with the input.
 * For `sonde profile --wakers=stacks`. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 20 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER, order = PTHREAD_COND_INITIALIZER;
static atomic_int turns, orders;
static atomic_int reader_tid, keeper_tid;

__attribute__((noipa)) static void awaits_turn(int round)
{
    pthread_mutex_lock(&mutex);
    while (turns < round)
        pthread_cond_wait(&turn, &mutex);
    pthread_mutex_unlock(&mutex);
}

__attribute__((noipa)) static void awaits_order(int round)
{
    pthread_mutex_lock(&mutex);
    while (orders < round)
        pthread_cond_wait(&order, &mutex);
    pthread_mutex_unlock(&mutex);
}

__attribute__((noipa)) static void hands_over(void)
{
    pthread_mutex_lock(&mutex);
    turns++;
    pthread_mutex_unlock(&mutex);
    pthread_cond_signal(&turn);
}

__attribute__((noipa)) static void gives_order(void)
{
    pthread_mutex_lock(&mutex);
    orders++;
    pthread_mutex_unlock(&mutex);
    pthread_cond_signal(&order);
}

__attribute__((noipa)) static void pauses(void)
{
    usleep(20000);
}

static void *reads(void *unused)
{
    pthread_setname_np(pthread_self(), "reader");
    reader_tid = gettid();
    for (int i = 1; i <= ROUNDS; i++)
        awaits_turn(i);
    return unused;
}

static void *keeps(void *unused)
{
    pthread_setname_np(pthread_self(), "keeper");
    keeper_tid = gettid();
    for (int i = 1; i <= ROUNDS; i++) {
        awaits_order(i);
        hands_over();
    }
    return unused;
}

static int sleeps(int tid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
    FILE *file = tid ? fopen(path, "r") : NULL;
    size_t size = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    const char *end = size ? strrchr(text, ')') : NULL;
    return end && end[2] == 'S';
}

int main(void)
{
    pthread_t reader, keeper;
    pthread_create(&reader, NULL, reads, NULL);
    pthread_create(&keeper, NULL, keeps, NULL);
    puts("ready");
    fflush(stdout);
    getchar();
    for (int i = 0; i < ROUNDS; i++) {
        while (!sleeps(reader_tid) || !sleeps(keeper_tid))
            usleep(2000);
        pauses(); /* both wait by now: what comes next happens during their waits */
        gives_order();
        while (orders != i + 1 || turns != i + 1)
            usleep(2000);
    }
    pthread_join(keeper, NULL);
    pthread_join(reader, NULL);
    puts("done");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
