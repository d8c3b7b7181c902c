/* The bare timer: cpu-clock events at a rate on every CPU and nothing else, until it is ended. What a sampler
 * costs above this is its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
        struct perf_event_attr attr = {.size = sizeof(attr),
                                       .type = PERF_TYPE_SOFTWARE,
                                       .config = PERF_COUNT_SW_CPU_CLOCK,
                                       .sample_period = 1000000000ull / strtoul(argv[1], NULL, 10)};
        if (syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC) < 0) {
            perror("perf_event_open");
            return 1;
        }
    }
    pause();
    return 0;
}
