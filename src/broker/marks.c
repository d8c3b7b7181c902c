/* See marks.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/marks.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/map.h"
#include "base/process_file.h"

enum {
    MAPS_MAX = 64 << 20,
    FILE_MAX = 256 << 20, /* what lies behind is not searched */
    CHUNK = 256 << 10,
    MARK_MAX = 64,
    FILES_MAX = 4096,
    PROCESSES = 256
};

/* One that has a mark. */
struct marked {
    pid_t pid;
    uint64_t started_ticks, device, inode; /* device, inode: of the program */
};

struct marks {
    const char *const *marks;
    struct map files; /* what a file is -> 0 or 1: it has a mark */
    struct marked processes[PROCESSES];
    char bytes[MARK_MAX + CHUNK];
};

int marks_new(const char *const *list, struct marks **ret_marks)
{
    struct marks *marks = calloc(1, sizeof(*marks));
    if (!marks)
        return -ENOMEM;
    marks->marks = list;
    *ret_marks = marks;
    return 0;
}

void marks_free(struct marks *marks)
{
    if (!marks)
        return;
    map_done(&marks->files);
    free(marks);
}

static bool has_mark(const struct marks *marks, size_t length)
{
    for (size_t i = 0; marks->marks[i]; i++)
        if (memmem(marks->bytes, length, marks->marks[i], strlen(marks->marks[i])))
            return true;
    return false;
}

/* Parts overlap: a mark may lie across two. */
static bool search(struct marks *marks, int fd)
{
    size_t kept = 0;
    for (size_t done = 0; done < FILE_MAX;) {
        ssize_t n = read(fd, marks->bytes + kept, CHUNK);
        if (n <= 0)
            return false;
        done += (size_t)n;
        size_t length = kept + (size_t)n;
        if (has_mark(marks, length))
            return true;
        kept = MIN(length, (size_t)MARK_MAX - 1);
        memmove(marks->bytes, marks->bytes + length - kept, kept);
    }
    return false;
}

static bool file_has_mark(struct marks *marks, int fd)
{
    struct stat st;
    bool added;
    if (fstat(fd, &st) < 0)
        return false;
    const uint64_t identity[] = {st.st_dev, st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_ctim.tv_sec,
                                 (uint64_t)st.st_ctim.tv_nsec};
    if (marks->files.count > FILES_MAX)
        map_clear(&marks->files);
    uint64_t *known = map_put(&marks->files, map_hash(identity, sizeof(identity)), &added);
    if (!known)
        return search(marks, fd);
    if (added)
        *known = search(marks, fd);
    return *known;
}

/* By its mapping, or where that is not to be had by its name. */
static int open_mapped(const struct proc *proc, const struct proc_mapping *mapping)
{
    char path[PATH_MAX];
    int fd = process_mapped_open(proc, mapping->start, mapping->end);
    if (fd >= 0 || mapping->path_length >= sizeof(path))
        return fd;
    memcpy(path, mapping->path, mapping->path_length);
    path[mapping->path_length] = '\0';
    return process_file_of(proc, path);
}

static bool maps_mark(struct marks *marks, const struct proc *proc)
{
    _cleanup_(freep) char *text = NULL;
    struct proc_mapping mapping;
    size_t length;
    if (proc_read(proc, "maps", MAPS_MAX, &text, &length) < 0)
        return false;
    for (const char *at = text; proc_next_mapping(&at, text + length, &mapping);) {
        if (!mapping.executable || !mapping.inode || !mapping.path_length)
            continue;
        _cleanup_(file_closep) int fd = open_mapped(proc, &mapping);
        if (fd >= 0 && file_has_mark(marks, fd))
            return true;
    }
    return false;
}

bool marks_in(struct marks *marks, const struct proc *proc)
{
    struct proc_stat stat;
    struct stat program;
    if (proc_read_stat(proc, 0, &stat) < 0 || fstatat(proc->directory, "exe", &program, 0) < 0)
        return false;
    const struct marked now = {proc->pid, stat.started_ticks, program.st_dev, program.st_ino};
    struct marked *known = &marks->processes[(unsigned)proc->pid % PROCESSES];
    if (known->pid == now.pid && known->started_ticks == now.started_ticks && known->device == now.device &&
        known->inode == now.inode)
        return true;
    if (!maps_mark(marks, proc))
        return false;
    *known = now;
    return true;
}
