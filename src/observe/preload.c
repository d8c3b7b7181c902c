/* The probe's file, and whether a command can load it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Reads the file's head alone, some numbers of it, here where the rights are: the command may be run as
 * another user, whose file it is. */
bool observe_is_static(const char *command)
{
    Elf64_Ehdr head;
    bool interpreter = false;
    _cleanup_(file_closep) int fd = file_open_program(command);
    if (fd < 0 || pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof(Elf64_Phdr))
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
