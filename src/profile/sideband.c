/* Announcements of the kernel, from one perf event per CPU that counts nothing. Records of different CPUs
 * are put in order of time before they are applied, so that a stack is named with what was mapped when it was
 * taken. Records, after {u32 type, u16 misc, u16 size} and before {u32 pid, u32 tid, u64 time}:
 *
 *   MMAP2 u32 pid, tid; u64 address, length, offset; u32 major, minor; u64 inode, generation; u32 protection,
 *         flags; path      (with a build-id in the place of the device's numbers when misc says so: not asked
 * for) COMM  u32 pid, tid; name       misc says when it is an execve FORK  u32 pid, parent, tid, parent's
 * tid; u64 time         EXIT the same LOST  u64 id, number */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/map.h"

enum {
    RING_PAGES = 64, /* of each CPU */
    PENDING_LIMIT = 200000,
    KNOWN_LIMIT = 16384, /* processes; those that ended are forgotten first */
};
#define ENDED_KEPT_NS 2000000000ull /* samples may come later than the news of the end */
#define FORGET_NS     (ENDED_KEPT_NS / 4)

/* Most programs of a machine map the same few libraries: each path is kept once. */
struct path {
    uint64_t key; /* in sideband.paths, where it is, unless another one has that */
    size_t users;
    char text[];
};

struct note {
    uint64_t time_ns;
    uint32_t type; /* PERF_RECORD_... */
    uint32_t pid, parent;
    uint64_t start, end, offset, device, inode;
    struct path *path; /* it counts as a user until it is applied */
};

struct known {
    struct sideband_process process;
    uint64_t exit_ns; /* 0: it runs */
    ARRAY(struct note) mappings;
};

struct ring {
    int fd;
    struct perf_event_mmap_page *page;
};

struct sideband {
    struct ring *rings;
    size_t ring_count;
    ARRAY(struct note) pending;
    bool sorted;
    size_t applied;          /* of the pending ones */
    struct map processes;    /* pid -> struct known * */
    struct map paths;        /* hash of the text -> struct path * */
    uint64_t forgot_ns;      /* when those that ended were looked for last */
    uint64_t lost, lost_ns;  /* how many, and when that was last */
    uint8_t record[1 << 16]; /* one that lies across the buffer's end */
};

static size_t ring_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE) * RING_PAGES;
}

static int open_ring(int cpu, struct ring *ret_ring)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        .sample_id_all = 1,
        .mmap = 1,
        .mmap2 = 1,
        .comm = 1,
        .comm_exec = 1,
        .task = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return -errno;
    void *at =
        mmap(NULL, ring_bytes() + (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        int e = -errno;
        close(fd);
        return e;
    }
    *ret_ring = (struct ring){.fd = fd, .page = at};
    return 0;
}

int sideband_new(struct sideband **ret_sideband)
{
    struct sideband *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    *ret_sideband = s;
    return 0;
}

int sideband_open(struct sideband **ret_sideband)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    _cleanup_(sideband_freep) struct sideband *s = NULL;
    int r = sideband_new(&s);
    if (r < 0)
        return r;
    s->rings = calloc((size_t)MAX(cpus, 1l), sizeof(*s->rings));
    if (!s->rings)
        return -ENOMEM;
    for (int cpu = 0; cpu < cpus; cpu++) {
        r = open_ring(cpu, &s->rings[s->ring_count]);
        if (r == -ENODEV || r == -ENXIO) /* this CPU is off */
            continue;
        if (r < 0)
            return r;
        s->ring_count++;
    }
    *ret_sideband = s;
    s = NULL;
    return 0;
}

int sideband_watch(const struct sideband *s, int epoll)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    for (size_t i = 0; i < s->ring_count; i++)
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, s->rings[i].fd, &event) < 0)
            return -errno;
    return 0;
}

/* NULL when memory ran out. */
static struct path *path_of(struct sideband *s, const char *text, size_t length)
{
    uint64_t key = map_hash(text, length), *place = map_put(&s->paths, key, NULL);
    struct path *known = place ? (struct path *)(uintptr_t)*place : NULL;
    if (known && strncmp(known->text, text, length) == 0 && !known->text[length]) {
        known->users++;
        return known;
    }
    struct path *path = malloc(sizeof(*path) + length + 1);
    if (path) {
        *path = (struct path){.key = key, .users = 1};
        memcpy(path->text, text, length);
        path->text[length] = '\0';
    }
    if (place && !known && path)
        *place = (uintptr_t)path;
    else if (place && !known)
        map_remove(&s->paths, key);
    return path;
}

/* path: may be NULL. */
static void path_unref(struct sideband *s, struct path *path)
{
    if (!path || --path->users)
        return;
    const uint64_t *place = map_get(&s->paths, path->key);
    if (place && *place == (uintptr_t)path)
        map_remove(&s->paths, path->key);
    free(path);
}

static void forget_mappings(struct sideband *s, struct known *k)
{
    array_foreach (&k->mappings, m)
        path_unref(s, m->path);
    array_clear(&k->mappings);
}

static void known_free(struct sideband *s, struct known *k)
{
    if (!k)
        return;
    forget_mappings(s, k);
    array_done(&k->mappings);
    free(k);
}

void sideband_free(struct sideband *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->ring_count; i++) {
        munmap(s->rings[i].page, ring_bytes() + (size_t)sysconf(_SC_PAGESIZE));
        close(s->rings[i].fd);
    }
    array_foreach (&s->pending, n)
        path_unref(s, n->path);
    array_done(&s->pending);
    map_foreach (&s->processes, slot)
        known_free(s, (struct known *)(uintptr_t)slot->value);
    map_done(&s->processes);
    map_done(&s->paths);
    free(s->rings);
    free(s);
}

/* ---- reading ---- */

static struct known *known_of(struct sideband *s, pid_t pid)
{
    bool added;
    uint64_t *at = map_put(&s->processes, (uint64_t)pid, &added);
    if (!at)
        return NULL;
    if (added) {
        struct known *k = calloc(1, sizeof(*k));
        if (!k) {
            map_remove(&s->processes, (uint64_t)pid);
            return NULL;
        }
        *at = (uintptr_t)k;
    }
    return (struct known *)(uintptr_t)*at;
}

static uint64_t word(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint32_t half(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static int take_mapping(struct sideband *s, const uint8_t *body, size_t size, uint16_t misc, struct note *n)
{
    if (size < 64 + 1 || misc & PERF_RECORD_MISC_MMAP_BUILD_ID)
        return -EBADMSG;
    n->start = word(body + 8);
    n->end = n->start + word(body + 16);
    n->offset = word(body + 24);
    n->device = makedev(half(body + 32), half(body + 36));
    n->inode = word(body + 40);
    size_t length = strnlen((const char *)body + 64, size - 64);
    if (n->end < n->start || length == size - 64)
        return -EBADMSG;
    n->path = path_of(s, (const char *)body + 64, length);
    return n->path ? 0 : -ENOMEM;
}

int sideband_take(struct sideband *s, const void *record, size_t size)
{
    struct perf_event_header header;
    enum { TRAILER = 16 };
    const uint8_t *body = (const uint8_t *)record + sizeof(header);
    struct note n = {0};
    int r = 0;
    if (size < sizeof(header))
        return -EBADMSG;
    memcpy(&header, record, sizeof(header));
    if (header.size != size || size < sizeof(header) + TRAILER + 8)
        return -EBADMSG;
    size -= sizeof(header) + TRAILER;
    n.type = header.type;
    n.time_ns = word(body + size + 8);
    n.pid = half(body);
    switch (header.type) {
    case PERF_RECORD_MMAP2:
        r = take_mapping(s, body, size, header.misc, &n);
        break;
    case PERF_RECORD_COMM:
        if (!(header.misc & PERF_RECORD_MISC_COMM_EXEC))
            return 0;
        break;
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        if (size < 24)
            return -EBADMSG;
        n.parent = half(body + 4);
        if (n.pid != half(body + 8)) /* a thread */
            return 0;
        break;
    case PERF_RECORD_LOST:
        s->lost += size >= 16 ? word(body + 8) : 1;
        s->lost_ns = MAX(s->lost_ns, n.time_ns);
        return 0;
    default:
        return 0;
    }
    if (r < 0)
        return r;
    struct known *k = n.type == PERF_RECORD_COMM ? known_of(s, (pid_t)n.pid) : NULL;
    if (k)
        k->process.next_exec_ns = n.time_ns;
    if (s->pending.count >= PENDING_LIMIT || array_add(&s->pending, n) < 0) {
        path_unref(s, n.path);
        s->lost++;
        s->lost_ns = MAX(s->lost_ns, n.time_ns);
    }
    s->sorted = false;
    return 0;
}

static void read_ring(struct sideband *s, struct ring *ring)
{
    const uint8_t *data = (const uint8_t *)ring->page + sysconf(_SC_PAGESIZE);
    uint64_t mask = ring_bytes() - 1, tail = ring->page->data_tail;
    uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
    while (head - tail >= sizeof(struct perf_event_header)) {
        struct perf_event_header header;
        memcpy(&header, data + (tail & mask), sizeof(header)); /* records are aligned: it never wraps */
        if (header.size < sizeof(header) || header.size > head - tail)
            break;
        size_t first = MIN((size_t)header.size, (size_t)(mask + 1 - (tail & mask)));
        memcpy(s->record, data + (tail & mask), first);
        memcpy(s->record + first, data, header.size - first);
        sideband_take(s, s->record, header.size);
        tail += header.size;
    }
    __atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
}

static int by_time(const void *a, const void *b)
{
    const struct note *x = a, *y = b;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

void sideband_read(struct sideband *s)
{
    if (s->applied) { /* what is applied is gone */
        memmove(s->pending.at, s->pending.at + s->applied,
                (s->pending.count - s->applied) * sizeof(*s->pending.at));
        s->pending.count -= s->applied;
        s->applied = 0;
    }
    for (size_t i = 0; i < s->ring_count; i++)
        read_ring(s, &s->rings[i]);
}

/* ---- applying ---- */

static void forget_ended(struct sideband *s, uint64_t now_ns)
{
    bool crowded = s->processes.count > KNOWN_LIMIT;
    ARRAY(uint64_t) gone = {0};
    if (!crowded && now_ns < s->forgot_ns + FORGET_NS)
        return;
    s->forgot_ns = now_ns;
    map_foreach (&s->processes, slot) {
        struct known *k = (struct known *)(uintptr_t)slot->value;
        if (k && k->exit_ns && (crowded || k->exit_ns + ENDED_KEPT_NS < now_ns))
            (void)array_add(&gone, slot->key);
    }
    array_foreach (&gone, pid) {
        uint64_t *at = map_get(&s->processes, *pid);
        if (at) {
            known_free(s, (struct known *)(uintptr_t)*at);
            map_remove(&s->processes, *pid);
        }
    }
    array_done(&gone);
}

/* A program that maps code again and again at the same place does not fill memory. */
static void forget_covered(struct sideband *s, struct known *k, const struct note *by)
{
    size_t kept = 0;
    array_foreach (&k->mappings, m) {
        if (m->start >= by->start && m->end <= by->end)
            path_unref(s, m->path);
        else
            k->mappings.at[kept++] = *m;
    }
    k->mappings.count = kept;
}

static bool apply(struct sideband *s, struct note *n)
{
    struct known *k = known_of(s, (pid_t)n->pid);
    if (!k)
        return false;
    switch (n->type) {
    case PERF_RECORD_MMAP2:
        forget_covered(s, k, n);
        if (array_add(&k->mappings, *n) < 0)
            return false;
        n->path = NULL;
        return true;
    case PERF_RECORD_COMM:
        forget_mappings(s, k);
        k->process.exec_ns = n->time_ns;
        if (k->process.next_exec_ns <= n->time_ns)
            k->process.next_exec_ns = 0;
        return false;
    case PERF_RECORD_FORK:
        forget_mappings(s, k);
        k->process =
            (struct sideband_process){.parent = (pid_t)n->parent, .next_exec_ns = k->process.next_exec_ns};
        k->exit_ns = 0;
        return false;
    default: /* the end */
        k->exit_ns = n->time_ns;
        return false;
    }
}

static void sort(struct sideband *s)
{
    if (!s->sorted && s->pending.count > s->applied)
        qsort(s->pending.at + s->applied, s->pending.count - s->applied, sizeof(*s->pending.at), by_time);
    s->sorted = true;
}

void sideband_apply(struct sideband *s, uint64_t until_ns, sideband_changed_fn *changed, void *context)
{
    sort(s);
    size_t before = s->applied;
    while (s->applied < s->pending.count && s->pending.at[s->applied].time_ns <= until_ns) {
        struct note *n = &s->pending.at[s->applied++];
        bool mapped = apply(s, n);
        path_unref(s, n->path);
        n->path = NULL;
        if (mapped && changed)
            changed(context, (pid_t)n->pid, n->time_ns);
    }
    if (until_ns == UINT64_MAX && s->applied > before)
        forget_ended(s, s->pending.at[s->applied - 1].time_ns);
}

bool sideband_find(const struct sideband *s, pid_t pid, struct sideband_process *ret_process)
{
    uint64_t *at = map_get(&s->processes, (uint64_t)pid);
    if (!at)
        return false;
    const struct known *k = (const struct known *)(uintptr_t)*at;
    *ret_process = k->process;
    ret_process->mapping_count = k->mappings.count;
    return true;
}

int sideband_notes(const struct sideband *s, pid_t pid, struct mapping_note **ret_notes, size_t *ret_count)
{
    uint64_t *at = map_get(&s->processes, (uint64_t)pid);
    const struct known *k = at ? (const struct known *)(uintptr_t)*at : NULL;
    if (!k || !k->mappings.count)
        return -ENOENT;
    struct mapping_note *notes = calloc(k->mappings.count, sizeof(*notes));
    if (!notes)
        return -ENOMEM;
    for (size_t i = 0; i < k->mappings.count; i++) {
        const struct note *n = &k->mappings.at[i];
        notes[i] = (struct mapping_note){n->start, n->end, n->offset, n->device, n->inode, n->path->text};
    }
    *ret_notes = notes;
    *ret_count = k->mappings.count;
    return 0;
}

typedef ARRAY(struct mapping_note) note_list;

static int add_note(note_list *list, const struct note *n)
{
    const struct mapping_note note = {n->start, n->end, n->offset, n->device, n->inode, n->path->text};
    size_t kept = 0;
    array_foreach (list, at)
        if (at->start < note.start || at->end > note.end)
            list->at[kept++] = *at;
    list->count = kept;
    return array_add(list, note);
}

int sideband_notes_ahead(struct sideband *s, pid_t pid, struct mapping_note **ret_notes, size_t *ret_count)
{
    uint64_t *at = map_get(&s->processes, (uint64_t)pid);
    const struct known *k = at ? (const struct known *)(uintptr_t)*at : NULL;
    uint64_t exec_ns = k ? k->process.exec_ns : 0;
    note_list list = {0};
    int r = 0;
    sort(s);
    for (size_t i = 0; k && r == 0 && i < k->mappings.count; i++)
        r = add_note(&list, &k->mappings.at[i]);
    for (size_t i = s->applied; r == 0 && i < s->pending.count; i++) {
        const struct note *n = &s->pending.at[i];
        if (n->pid != (uint32_t)pid)
            continue;
        if (n->type == PERF_RECORD_MMAP2) {
            r = add_note(&list, n);
        } else if (n->type != PERF_RECORD_EXIT) {
            array_clear(&list);
            exec_ns = n->type == PERF_RECORD_COMM ? n->time_ns : 0;
        }
    }
    if (r == 0 && (!exec_ns || exec_ns <= s->lost_ns || !list.count))
        r = -ENOENT;
    if (r < 0) {
        array_done(&list);
        return r;
    }
    *ret_notes = list.at;
    *ret_count = list.count;
    return 0;
}

uint64_t sideband_lost(const struct sideband *s)
{
    return s->lost;
}
