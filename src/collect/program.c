/* See program.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

/* ---- what the process is called ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* orders.js -> orders; orders/server.js and the like -> orders */
static char *script_name(const char *script)
{
    static const char *const GENERIC[] = {"index", "server", "app", "main", "start", "service"};
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", script);
    char *dot = strrchr(path, '.');
    if (dot && dot > strrchr(path, '/'))
        *dot = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(GENERIC); i++) {
        char *base = (char *)base_name(path);
        if (strcmp(base, GENERIC[i]) == 0 && base > path + 1) {
            base[-1] = '\0';
            return strdup(base_name(path));
        }
    }
    return strdup(base_name(path));
}

static void describe(struct program *program)
{
    char path[64], exe[PATH_MAX];
    snprintf(path, sizeof(path), "/proc/%d/exe", program->pid);
    ssize_t n = readlink(path, exe, sizeof(exe) - 1);
    exe[n > 0 ? n : 0] = '\0';
    program->exe = strdup(exe);

    snprintf(path, sizeof(path), "/proc/%d/cmdline", program->pid);
    _cleanup_(freep) char *line = NULL;
    size_t length = 0;
    (void)file_read(path, 1 << 20, &line, &length);
    struct text command = {0};
    text_add(&command, exe);
    const char *script = NULL;
    for (const char *arg = line; line && arg < line + length && !script; arg += strlen(arg) + 1)
        if (arg != line && arg[0] != '-')
            script = arg;
    if (program->runtime == RUNTIME_NODE && script) {
        text_addf(&command, " %s", script);
        program->name = script_name(script);
    } else if (program->runtime == RUNTIME_REDIS && line) {
        /* Redis titles itself "redis-server 127.0.0.1:6379" only later; its port is in the arguments. */
        const char *port = "6379";
        for (const char *arg = line; arg < line + length; arg += strlen(arg) + 1)
            if (strcmp(arg, "--port") == 0 && arg + 7 < line + length)
                port = arg + 7;
        char name[64];
        snprintf(name, sizeof(name), "redis:%s", port);
        program->name = strdup(name);
    }
    if (!program->name)
        program->name = strdup(base_name(exe));
    program->command = text_take(&command);
}

uint64_t program_stack_of(pid_t pid)
{
    enum { FIELD_STATE = 3, FIELD_START_STACK = 28 };
    char path[64];
    _cleanup_(freep) char *stat = NULL;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    char *at = file_read(path, 8192, &stat, NULL) == 0 ? strrchr(stat, ')') : NULL;
    for (int field = FIELD_STATE - 1; at && field < FIELD_START_STACK; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

pid_t program_parent_of(pid_t pid)
{
    char path[64];
    _cleanup_(freep) char *status = NULL;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if (file_read(path, 1 << 16, &status, NULL) < 0)
        return 0;
    const char *line = strstr(status, "\nPPid:");
    return line ? (pid_t)strtol(line + 6, NULL, 10) : 0;
}

/* ---- shared memory ---- */

bool program_forked(const struct program *program, pid_t pid)
{
    char path[64];
    _cleanup_(freep) char *maps = NULL;
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    if (pid == program->pid || file_read(path, 64 << 20, &maps, NULL) < 0)
        return false;
    /* addresses, rights, offset, device, inode, name */
    for (char *line = maps; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        uint64_t inode;
        int name = 0;
        if (sscanf(line, "%*s %*s %*s %*s %" SCNu64 " %n", &inode, &name) == 1 && name &&
            strncmp(line + name, "/memfd:sonde", 12) == 0 && inode == program->shared_inode)
            return true;
    }
    return false;
}

int program_new(struct target *target, struct patch_set *patches, int shared_fd, uint64_t live_address,
                struct program **ret_program, struct problem *problem)
{
    struct stat st;
    if (fstat(shared_fd, &st) < 0 || st.st_size < SONDE_PAGE || st.st_size > (1ll << 32))
        return problem_set(problem, -EINVAL, "process %d: its probe's memory has a wrong size", target->pid);
    struct program *program = calloc(1, sizeof(*program));
    if (!program)
        return -ENOMEM;
    program->shared_bytes = (size_t)st.st_size;
    program->shared_inode = st.st_ino;
    program->shared = mmap(NULL, program->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
    program->pidfd = -1;
    program->unseen.sched_fd = -1;
    if (program->shared == MAP_FAILED) {
        int r = -errno;
        free(program);
        return r;
    }
    const struct sonde_shared *s = program->shared;
    uint64_t need = SONDE_PAGE + (uint64_t)s->thread_slots * (SONDE_PAGE + (uint64_t)s->ring_bytes);
    if (s->magic != SONDE_SHARED_MAGIC || s->version != SONDE_SHARED_VERSION ||
        s->thread_slots > SONDE_THREADS || (s->ring_bytes & (s->ring_bytes - 1)) ||
        need > program->shared_bytes) {
        munmap(program->shared, program->shared_bytes);
        free(program);
        return problem_set(problem, -EINVAL, "process %d: its probe is of another version", target->pid);
    }
    program->pid = target->pid;
    program->parent = program_parent_of(target->pid);
    program->pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0);
    program->runtime = target->runtime;
    program->target = target;
    program->patches = *patches;
    *patches = (struct patch_set){0};
    program->live_address = live_address;
    program->stack_start = program_stack_of(target->pid);
    program->started_ns = clock_monotonic_ns();
    describe(program);
    if (target->code.count)
        snprintf(program->build_id, sizeof(program->build_id), "%s", elf_build_id(target->code.at[0].elf));
    *ret_program = program;
    return 0;
}

void program_free(struct program *program)
{
    if (!program)
        return;
    for (uint32_t i = 0; i < program->thread_count; i++) {
        ctf_stream_free(program->threads[i].stream);
        if (program->threads[i].sched_fd >= 0 && program->threads[i].shared)
            close(program->threads[i].sched_fd);
    }
    if (program->shared)
        munmap(program->shared, program->shared_bytes);
    if (program->unseen.sched_fd >= 0)
        close(program->unseen.sched_fd);
    if (program->pidfd >= 0)
        close(program->pidfd);
    patch_set_done(&program->patches);
    target_free(program->target);
    free(program->name);
    free(program->command);
    free(program->exe);
    free(program);
}

void program_silence(struct program *program)
{
    const uint32_t off = 0;
    if (program->target && !program->ended_ns)
        (void)target_write(program->target, program->live_address, &off, sizeof(off));
}

uint64_t program_events_written(const struct program *program)
{
    uint64_t written = 0;
    for (uint32_t i = 0; i < program->thread_count; i++)
        if (program->threads[i].shared)
            written += program->threads[i].shared->written;
    return written;
}

/* ---- threads and their rings ---- */

void program_thread_open(const struct program *program, struct program_thread *t, uint32_t tid)
{
    char path[96];
    t->tid = tid;
    snprintf(path, sizeof(path), "/proc/%d/task/%u/schedstat", program->pid, tid);
    t->sched_fd = open(path, O_RDONLY | O_CLOEXEC);
}

/* The last number of "NSpid:": what a thread is called in the innermost PID namespace; *ret_levels how many
 * it is in from ours on. 0 when the thread is gone. */
static uint32_t innermost_tid(pid_t pid, const char *tid, int *ret_levels)
{
    char path[300];
    _cleanup_(freep) char *status = NULL;
    snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, tid);
    if (file_read(path, 1 << 16, &status, NULL) < 0)
        return 0;
    const char *line = strstr(status, "\nNSpid:");
    uint32_t last = 0;
    *ret_levels = 0;
    for (char *at = line ? (char *)line + 7 : NULL, *end; at && *at != '\n'; at = end) {
        last = (uint32_t)strtoul(at, &end, 10);
        if (end == at)
            break;
        (*ret_levels)++;
    }
    return last;
}

/* A thread of the program by the number it has in its own PID namespace: the number that it has in ours. */
static uint32_t host_tid(const struct program *program, uint32_t owner)
{
    char path[64];
    int levels = 0;
    snprintf(path, sizeof(path), "%d", program->pid);
    (void)innermost_tid(program->pid, path, &levels);
    if (levels < 2)
        return owner;
    snprintf(path, sizeof(path), "/proc/%d/task", program->pid);
    DIR *tasks = opendir(path);
    uint32_t found = 0;
    for (struct dirent *entry; tasks && !found && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.' && innermost_tid(program->pid, entry->d_name, &levels) == owner)
            found = (uint32_t)strtoul(entry->d_name, NULL, 10);
    if (tasks)
        closedir(tasks);
    return found;
}

static void thread_begins(struct program *program, uint32_t slot, uint32_t owner)
{
    struct program_thread *t = &program->threads[slot];
    t->owner = owner;
    if (!t->shared) {
        char *at =
            (char *)program->shared + SONDE_PAGE + (size_t)slot * (SONDE_PAGE + program->shared->ring_bytes);
        t->shared = (struct sonde_thread *)at;
        t->ring = at + SONDE_PAGE;
    }
    program_thread_open(program, t, host_tid(program, owner));
}

/* Slots that were claimed since we last looked. */
static void follow_threads(struct program *program)
{
    uint32_t used = __atomic_load_n(&program->shared->slots_used, __ATOMIC_ACQUIRE);
    used = MIN(used, (uint32_t)SONDE_THREADS);
    for (uint32_t i = program->thread_count; i < used; i++) {
        char *at =
            (char *)program->shared + SONDE_PAGE + (size_t)i * (SONDE_PAGE + program->shared->ring_bytes);
        uint32_t owner = __atomic_load_n(&((struct sonde_thread *)at)->owner, __ATOMIC_ACQUIRE);
        if (!owner)
            break;
        program->threads[i].sched_fd = -1;
        thread_begins(program, i, owner);
        program->thread_count = i + 1;
    }
}

/* One record to the stream; its size in bytes, or 0 when it cannot be what the probe writes. */
static uint64_t write_record(struct program_thread *t, const struct clock_fit *fit, const char *at,
                             uint64_t room)
{
    const struct sonde_record *record = (const struct sonde_record *)at;
    uint64_t id = record->meta & 0xff, size = (record->meta >> 8 & 0xff) * 8, duration = record->meta >> 16;
    if (id >= SONDE_EVENT_COUNT || size > room || size < sizeof(*record) + event_catalogue[id].record_size ||
        !event_catalogue[id].probe)
        return 0;
    const struct event_description *d = &event_catalogue[id];
    const char *payload = at + sizeof(*record), *strings = payload + d->record_size;
    uint64_t strings_bytes = 0;
    for (int f = 1; f < d->field_count; f++)
        if (d->fields[f].type == FIELD_TYPE_str) {
            uint16_t length;
            memcpy(&length, payload + d->fields[f].record_offset, sizeof(length));
            strings_bytes += length;
        }
    if (sizeof(*record) + d->record_size + strings_bytes > size)
        return 0;
    ctf_stream_write(t->stream, (enum sonde_event_id)id, clock_fit_ns(fit, record->end_tsc),
                     clock_fit_duration_ns(fit, record->end_tsc, duration), payload, strings);
    return size;
}

static unsigned drain_thread(struct program *program, struct program_thread *t, struct ctf_writer *writer,
                             const struct clock_fit *fit)
{
    uint64_t head = __atomic_load_n(&t->shared->head, __ATOMIC_ACQUIRE);
    uint64_t ring_bytes = program->shared->ring_bytes, tail = t->tail;
    if (head == tail)
        return 0;
    if (head < tail || head - tail > ring_bytes || head % 8) { /* not what our probe does */
        t->unreadable++;
        t->tail = head;
        __atomic_store_n(&t->shared->tail, head, __ATOMIC_RELEASE);
        return 0;
    }
    if (!t->stream && ctf_stream_open(writer, (uint32_t)program->pid, t->tid, &t->stream) < 0)
        return 0; /* out of memory: the ring keeps them as long as it can */
    unsigned fullness = (unsigned)((head - tail) * 256 / ring_bytes);
    while (tail < head) {
        uint64_t place = tail & (ring_bytes - 1), room = ring_bytes - place;
        const char *at = t->ring + place;
        if (room < sizeof(struct sonde_record) || ((const struct sonde_record *)at)->meta == 0) {
            tail += room; /* filler to the ring's end */
            continue;
        }
        uint64_t size = write_record(t, fit, at, MIN(room, head - tail));
        if (!size) {
            t->unreadable++;
            tail = head;
            break;
        }
        program->drained_events++;
        program->seen[((const struct sonde_record *)at)->meta & 0xff]++;
        program->events[((const struct sonde_record *)at)->meta & 0xff]++;
        tail += size;
    }
    t->tail = tail;
    __atomic_store_n(&t->shared->tail, tail, __ATOMIC_RELEASE);
    return fullness;
}

unsigned program_drain(struct program *program, struct ctf_writer *writer, const struct clock_fit *fit)
{
    follow_threads(program);
    unsigned fullest = 0;
    for (uint32_t i = 0; i < program->thread_count; i++) {
        struct program_thread *t = &program->threads[i];
        uint32_t owner = __atomic_load_n(&t->shared->owner, __ATOMIC_ACQUIRE);
        if (owner && owner != t->owner) { /* the slot was given to another thread */
            ctf_stream_free(t->stream);
            t->stream = NULL;
            if (t->sched_fd >= 0)
                close(t->sched_fd);
            thread_begins(program, i, owner);
        }
        unsigned fullness = drain_thread(program, t, writer, fit);
        fullest = MAX(fullest, fullness);
    }
    return fullest;
}
