/* Lies about its locks: it waits for more of them than anybody tells apart, in a function that is called like
 * one of pthreads, while another thread writes into them whatever may mislead: owners that are other
 * processes' threads, kinds that there are not. Runs until it is killed. Arguments: thread numbers to name as
 * owners. */
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOCKS = 40000, WORDS = 16 };

static uint32_t (*locks)[WORDS];
static _Atomic unsigned current;
static uint32_t owners[8];
static unsigned owner_count;

__attribute__((noinline)) void pthread_mutex_lock_of_liars(uint32_t *lock)
{
    syscall(SYS_futex, lock, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, NULL, NULL, 0);
}

static void *waits(void *x)
{
    pthread_setname_np(pthread_self(), "init\xff\x1b[2J");
    for (unsigned i = 0;; i++) {
        uint32_t *lock = locks[i % LOCKS];
        lock[2] = owners[i % owner_count];
        lock[4] = i % 3 ? 0 : 0xffffffff;
        lock[0] = 2;
        current = i;
        pthread_mutex_lock_of_liars(lock);
        if (i % 64 == 0)
            usleep(1000); /* others want to run, too */
    }
    return x;
}

static void *scribbles(void *x)
{
    for (unsigned i = 0;; i++) {
        uint32_t *lock = locks[current % LOCKS];
        lock[2] = owners[i % owner_count];
        lock[4] = i;
        lock[0] = 3 + i % 5;
        syscall(SYS_futex, lock, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
        if (i % 16 == 0)
            usleep(50);
    }
    return x;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    locks = calloc(LOCKS, sizeof(*locks));
    for (int i = 1; i < argc && owner_count < 8; i++)
        owners[owner_count++] = (uint32_t)strtoul(argv[i], NULL, 10);
    if (!locks || !owner_count)
        return 2;
    pthread_create(&thread, NULL, waits, NULL);
    pthread_create(&thread, NULL, scribbles, NULL);
    printf("lies\n");
    fflush(stdout);
    for (;;)
        pause();
}
