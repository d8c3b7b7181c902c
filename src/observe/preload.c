/* The probe's file, and whether a command can load it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "observe/installed.h"
#include "observe/observe_internal.h"

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

/* Reads the file's head alone, some numbers of it, here where the rights are: the command may be run as
 * another user, whose file it is. */
bool observe_is_static(const char *command)
{
    _cleanup_(freep) char *path = find_program(command);
    Elf64_Ehdr head;
    struct stat st;
    bool interpreter = false;
    _cleanup_(file_closep) int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        pread(fd, &head, sizeof(head), 0) != sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    for (uint64_t i = 0; i < head.e_phnum && !interpreter; i++) {
        Elf64_Phdr segment;
        uint64_t at;
        if (__builtin_add_overflow(head.e_phoff, i * sizeof(segment), &at) || at > INT64_MAX ||
            pread(fd, &segment, sizeof(segment), (off_t)at) != sizeof(segment))
            return false;
        interpreter = segment.p_type == PT_INTERP;
    }
    return !interpreter;
}
