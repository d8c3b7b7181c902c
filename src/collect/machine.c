/* See machine.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"

static const uint64_t GAP_NS = 100 * NS_PER_MS;
/* Reading takes no more than this part of one CPU. */
enum { COST_PART = 1000, TEXT_BYTES = 1 << 15 };

bool machine_parse(struct machine *machine, const char *text, long ticks_per_second,
                   struct machine_counts *ret_counts)
{
    unsigned long long idle, waiting, stolen;
    unsigned cpu;
    if (ticks_per_second <= 0 || sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &stolen) != 1)
        return false;
    uint64_t tick_ns = NS_PER_S / (uint64_t)ticks_per_second;
    struct machine_counts counts = {.stolen_ns = stolen * tick_ns};
    for (const char *line = strchr(text, '\n');
         line && sscanf(line + 1, "cpu%u %*u %*u %*u %llu %llu", &cpu, &idle, &waiting) == 3;
         line = strchr(line + 1, '\n')) {
        counts.cpus++;
        if (cpu >= MACHINE_CPUS_MAX)
            continue;
        uint64_t idle_ns = (idle + waiting) * tick_ns, before_ns = machine->idle_ns[cpu];
        if (before_ns && idle_ns > before_ns)
            counts.idlest_ns = MAX(counts.idlest_ns, idle_ns - before_ns);
        machine->idle_ns[cpu] = idle_ns;
    }
    *ret_counts = counts;
    return true;
}

bool machine_read(struct machine *machine, uint64_t now_ns, struct machine_counts *ret_counts)
{
    char text[TEXT_BYTES];
    if (now_ns < machine->next_ns)
        return false;
    if (!machine->fd)
        machine->fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    uint64_t begun_ns = clock_monotonic_ns();
    ssize_t n = machine->fd > 0 ? pread(machine->fd, text, sizeof(text) - 1, 0) : -1;
    machine->next_ns = now_ns + MAX(GAP_NS, (clock_monotonic_ns() - begun_ns) * COST_PART);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return machine_parse(machine, text, sysconf(_SC_CLK_TCK), ret_counts);
}

void machine_done(struct machine *machine)
{
    if (machine->fd > 0)
        close(machine->fd);
    machine->fd = 0;
}
