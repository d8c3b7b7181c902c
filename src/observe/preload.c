/* The probe's file, and whether a command can load it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/installed.h"
#include "observe/observe_internal.h"
#include "symbol/elf.h"

char *observe_probe_path(void)
{
    static const char NAME[] = "libsonde-probe.so";
    const char *named = getenv("SONDE_PROBE");
    if (named && named[0])
        return strdup(named);
    char self[PATH_MAX], path[PATH_MAX + sizeof(NAME)];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) {
        snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - self), self, NAME);
        if (access(path, R_OK) == 0 || errno != ENOENT)
            return strdup(path);
    }
    snprintf(path, sizeof(path), "%s/%s", SONDE_PROBE_DIR, NAME);
    return strdup(path);
}

/* The file that execvp() would run, or NULL. */
static char *find_program(const char *name)
{
    if (strchr(name, '/'))
        return strdup(name);
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];
    for (const char *at = path ? path : "/usr/bin:/bin"; at;
         at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)strcspn(at, ":"), at, name);
        if (access(candidate, X_OK) == 0)
            return strdup(candidate);
    }
    return NULL;
}

bool observe_is_static(const char *command)
{
    _cleanup_(freep) char *path = find_program(command);
    struct elf *elf = NULL;
    if (!path || elf_open(path, &elf, NULL) < 0)
        return false;
    bool interpreter = false;
    struct elf_segment segment;
    for (size_t i = 0; elf_segment_at(elf, i, &segment) == 0; i++)
        interpreter |= segment.type == PT_INTERP;
    elf_free(elf);
    return !interpreter;
}
