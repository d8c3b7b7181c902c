/* Stops the I/O threads of a Redis server within their reads of TLS connections, as a debugger would: with a
 * hardware breakpoint at SSL_read, at which each waits so many milliseconds. delays PID MS    says "delaying
 * N threads", and ends with the process or by a signal, which releases the threads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64 };

static struct {
    pid_t tid;
    uint64_t until_ns; /* it is stopped until then; 0: it runs */
} threads[THREADS_MAX];
static int thread_count;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Where libssl begins in a process; 0: nowhere. */
static uint64_t libssl_of(const char *pid)
{
    char path[64], line[512];
    unsigned long at = 0;
    snprintf(path, sizeof(path), "/proc/%s/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps && !at && fgets(line, sizeof(line), maps))
        if (strstr(line, "/libssl.so") && sscanf(line, "%lx-", &at) != 1)
            at = 0;
    if (maps)
        fclose(maps);
    return at;
}

/* The threads of the process whose name begins with "io_thd". */
static void seize(const char *pid, uint64_t address)
{
    char path[64], name[64];
    int status;
    snprintf(path, sizeof(path), "/proc/%s/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        pid_t tid = atoi(entry->d_name);
        snprintf(path, sizeof(path), "/proc/%s/task/%d/comm", pid, tid);
        FILE *comm = tid ? fopen(path, "re") : NULL;
        bool ours = comm && fgets(name, sizeof(name), comm) && strncmp(name, "io_thd", 6) == 0;
        if (comm)
            fclose(comm);
        if (!ours || thread_count == THREADS_MAX || ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0 ||
            ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 || waitpid(tid, &status, __WALL) != tid)
            continue;
        if (ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, u_debugreg[0]), address) < 0 ||
            ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, u_debugreg[7]), 1) < 0)
            perror("a hardware breakpoint");
        else
            threads[thread_count++].tid = tid;
        ptrace(PTRACE_CONT, tid, NULL, NULL);
    }
    if (tasks)
        closedir(tasks);
}

/* A thread has stopped: at the breakpoint for a while, else it goes on at once. */
static void stopped(int thread, int status, uint64_t delay_ns)
{
    pid_t tid = threads[thread].tid;
    bool event = status >> 16;
    if (WSTOPSIG(status) == SIGTRAP && !event)
        threads[thread].until_ns = now_ns() + delay_ns;
    else
        ptrace(PTRACE_CONT, tid, NULL, event ? 0 : WSTOPSIG(status));
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const uint64_t delay_ns = strtoull(argv[2], NULL, 10) * 1000000, theirs = libssl_of(argv[1]);
    const struct timespec nap = {.tv_nsec = 200000};
    void *library = dlopen("libssl.so.3", RTLD_NOW), *read = library ? dlsym(library, "SSL_read") : NULL;
    if (!theirs || !read)
        return 3;
    seize(argv[1], theirs + ((uint64_t)(uintptr_t)read - libssl_of("self")));
    if (!thread_count)
        return 1;
    printf("delaying %d threads\n", thread_count);
    fflush(stdout);
    for (;;) {
        int status;
        pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);
        if (tid < 0)
            return errno != ECHILD;
        for (int i = 0; i < thread_count; i++) {
            if (tid == threads[i].tid && WIFSTOPPED(status))
                stopped(i, status, delay_ns);
            else if (threads[i].until_ns && threads[i].until_ns <= now_ns()) {
                threads[i].until_ns = 0;
                ptrace(PTRACE_CONT, threads[i].tid, NULL, NULL);
            }
        }
        if (!tid)
            nanosleep(&nap, NULL);
    }
}
