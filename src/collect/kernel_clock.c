/* See kernel_clock.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/kernel_clock.h"

#include <stdio.h>
#include <string.h>

#include "base/macro.h"

/* The scheduler's clock is the time-stamp counter, or in a virtual machine what the host makes of it: these
 * sources go like it. It has others where the counter is of no use; CLOCK_MONOTONIC then comes from some
 * timer (hpet, acpi_pm). */
static const char *const SOURCES[] = {"tsc", "kvm-clock"};

bool kernel_clock_source_agrees(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(SOURCES); i++)
        if (strcmp(name, SOURCES[i]) == 0)
            return true;
    return false;
}

bool kernel_clocks_agree(void)
{
    char name[32] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    bool is_read = file && fgets(name, sizeof(name), file);
    if (file)
        fclose(file);
    name[strcspn(name, "\n")] = '\0';
    return is_read && kernel_clock_source_agrees(name);
}
