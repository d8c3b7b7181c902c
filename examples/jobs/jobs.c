/* A small server that executes jobs one after the other: the program behind the example of a target
 * (src/targets/jobs). It reads lines "NAME MILLISECONDS" from standard input, executes each by waiting so
 * long, and writes "NAME done". */
/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What sonde hooks or calls stays a function of its own. */
#define SEEN __attribute__((noinline, visibility("default"), used))

enum { JOBS_MAX = 256, NAME_BYTES = 32, LINE_BYTES = 4096 };

struct job {
    char name[NAME_BYTES];
    long milliseconds;
};

struct jobs {
    struct job list[JOBS_MAX];
    unsigned first, count;
};

unsigned jobs_version(void);
const char *jobs_name(const struct job *job);
unsigned jobs_waiting(const struct jobs *jobs);
int jobs_execute(struct jobs *jobs, struct job *job);

/* Of the functions below. */
SEEN unsigned jobs_version(void)
{
    return 1;
}

SEEN const char *jobs_name(const struct job *job)
{
    return job->name;
}

SEEN unsigned jobs_waiting(const struct jobs *jobs)
{
    return jobs->count - jobs->first;
}

SEEN int jobs_execute(struct jobs *jobs, struct job *job)
{
    struct timespec time = {job->milliseconds / 1000, job->milliseconds % 1000 * 1000000};
    if (job->milliseconds < 0)
        return -1;
    while (nanosleep(&time, &time) < 0)
        ;
    printf("%s done\n", job->name);
    return 0;
}

/* Takes whole lines; returns how many bytes they have. */
static size_t take_lines(struct jobs *jobs, const char *text)
{
    const char *at = text;
    for (const char *end; (end = strchr(at, '\n')) && jobs->count < JOBS_MAX; at = end + 1) {
        struct job job;
        if (sscanf(at, "%31s %ld", job.name, &job.milliseconds) == 2)
            jobs->list[jobs->count++] = job;
    }
    return (size_t)(at - text);
}

int main(void)
{
    static struct jobs jobs;
    char line[LINE_BYTES + 1];
    size_t have = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        if (poll(&input, 1, jobs.first < jobs.count ? 0 : -1) > 0) {
            ssize_t n = read(STDIN_FILENO, line + have, LINE_BYTES - have);
            if (n <= 0 && jobs.first == jobs.count)
                return 0;
            have += n > 0 ? (size_t)n : 0;
            line[have] = '\0';
            size_t taken = take_lines(&jobs, line);
            memmove(line, line + taken, have -= taken);
        }
        if (jobs.first < jobs.count) {
            struct job *job = &jobs.list[jobs.first++];
            if (jobs_execute(&jobs, job) < 0)
                fprintf(stderr, "%s: it cannot take less than no time\n", job->name);
        }
        if (jobs.first == jobs.count)
            jobs.first = jobs.count = 0;
    }
}
