/* See follow.h. Each place is a perf event of its own for each process (perf_event_open(2), type uprobe): the
 * kernel keeps it across execve(), and puts the breakpoint into the new program's mappings itself, so that
 * what a child is about to execute need not be known when it is forked. For each event it visits all
 * processes that have the file mapped, which takes a millisecond for the C library of a host: how many are
 * followed at a time, and what that takes, is limited. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/follow.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/process_file.h"
#include "broker/apart.h"
#include "profile/sampler_parts.h"
#include "symbol/modules.h"

enum {
    FILES_MOST = 64,     /* that have places; bits of a word */
    PLACES_MOST = 32,    /* of a file */
    PROCESSES_MOST = 64, /* at a time: what is passed in one visits the breakpoints of all */
    KNOWN_MOST = 4096,   /* files without places, so that they are not read again */
};
#define BUDGET_SHARE  10               /* attaching may take a tenth of the time, */
#define BUDGET_BEGIN  NS_PER_S         /* and so much beyond that */
#define LOOK_AGAIN_NS (20 * NS_PER_MS) /* after execve(), when libraries are there */

/* One breakpoint: a program, and how it is put. */
struct put {
    int program;
    uint64_t offset, semaphore;
    uint32_t bytes;
    bool at_return;
};

struct file {
    uint64_t device, inode;
    char path[40]; /* of its descriptor */
    size_t count;
    struct put puts[2 * PLACES_MOST];
};

struct member {
    pid_t pid;
    uint64_t files; /* bits: whose places are watched */
    bool own;       /* it is one that the sampler watches itself */
    bool followed;
    uint64_t began_ns, look_ns; /* look_ns: when to look at its files; 0: not */
    ARRAY(int) events;
};

struct file_id {
    uint64_t device, inode;
};

struct follow {
    int socket, births;
    struct follow_counts *shared;
    follow_find_fn *find;
    struct place_programs programs[PLACE_FUNCTIONS];
    int hit_program;
    uint32_t event_type;
    struct file *files;
    size_t file_count;
    ARRAY(struct file_id) known;
    struct map members; /* pid -> struct member */
    size_t watched;
    uint64_t started_ns;
    struct ring_buffer *ring;
};

/* ---- files ---- */

static struct file *file_of(struct follow *f, const struct stat *st)
{
    for (size_t i = 0; i < f->file_count; i++)
        if (f->files[i].device == st->st_dev && f->files[i].inode == st->st_ino)
            return &f->files[i];
    return NULL;
}

static struct file *add_file(struct follow *f, const struct stat *st, const char *path)
{
    if (f->file_count == FILES_MOST)
        return NULL;
    struct file *file = &f->files[f->file_count++];
    *file = (struct file){.device = st->st_dev, .inode = st->st_ino};
    snprintf(file->path, sizeof(file->path), "%s", path);
    return file;
}

static void add_put(struct file *file, const struct put *put)
{
    for (size_t i = 0; i < file->count; i++)
        if (file->puts[i].program == put->program && file->puts[i].offset == put->offset)
            return;
    if (put->program >= 0 && file->count < ARRAY_SIZE(file->puts))
        file->puts[file->count++] = *put;
}

static void add_place(struct follow *f, struct file *file, const struct sampler_place *place)
{
    const struct place_programs *p = &f->programs[place->function];
    add_put(file, &(struct put){.program = p->begin, .offset = place->offset, .bytes = place->bytes});
    add_put(file, &(struct put){
                      .program = p->end, .offset = place->offset, .bytes = place->bytes, .at_return = true});
}

/* Where the sampler has put breakpoints itself; of which process, 0: of those that are in no list. */
static int take_places(struct follow *f, const struct sampler_options *o)
{
    struct stat st;
    for (size_t i = 0; i < o->place_count; i++) {
        const struct sampler_place *place = &o->places[i];
        struct file *file = stat(place->path, &st) == 0 ? file_of(f, &st) : NULL;
        if (!file && !(file = add_file(f, &st, place->path)))
            continue;
        add_place(f, file, place);
        bool added;
        uint64_t *at = map_put(&f->members, (uint64_t)place->pid, &added);
        if (!at)
            return -ENOMEM;
        if (added)
            *at = (uintptr_t)calloc(1, sizeof(struct member));
        struct member *m = (struct member *)(uintptr_t)*at;
        if (!m)
            return -ENOMEM;
        m->pid = place->pid;
        m->own = true;
        m->files |= 1ull << (file - f->files);
    }
    for (size_t i = 0; i < o->hit_place_count && !o->hit_places[i].category; i++) {
        const struct sampler_hit *hit = &o->hit_places[i];
        struct file *file = stat(hit->path, &st) == 0 ? file_of(f, &st) : NULL;
        if (file || (file = add_file(f, &st, hit->path)))
            add_put(file, &(struct put){
                              .program = f->hit_program, .offset = hit->offset, .semaphore = hit->semaphore});
    }
    return 0;
}

/* ---- breakpoints ---- */

/* perf_event_open(2): config has whether it is at the return, and the semaphore in its upper half. */
static int put_one(const struct follow *f, const struct file *file, const struct put *put, pid_t pid)
{
    struct perf_event_attr attr = {.size = sizeof(attr),
                                   .type = f->event_type,
                                   .config = put->semaphore << 32 | put->at_return,
                                   .config1 = (uintptr_t)file->path,
                                   .config2 = put->offset};
    LIBBPF_OPTS(bpf_link_create_opts, options,
                .perf_event.bpf_cookie = SAMPLER_COOKIE((uint64_t)pid, put->bytes));
    int event = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (event < 0)
        return -errno;
    int link = bpf_link_create(put->program, event, BPF_PERF_EVENT, &options);
    if (link >= 0 && ioctl(event, PERF_EVENT_IOC_ENABLE, 0) < 0) {
        close(link);
        link = -errno;
    }
    close(event); /* the link keeps it */
    return link;
}

static int put_file(struct follow *f, struct member *m, size_t i)
{
    const struct file *file = &f->files[i];
    if (m->files & 1ull << i)
        return 0;
    m->files |= 1ull << i;
    for (size_t k = 0; k < file->count; k++) { /* beginnings first: an end without one is passed over */
        int link = put_one(f, file, &file->puts[k], m->pid);
        if (link < 0)
            return link;
        if (array_add(&m->events, link) < 0) {
            close(link);
            return -ENOMEM;
        }
    }
    return 0;
}

static void take_away(struct follow *f, struct member *m)
{
    array_foreach (&m->events, event)
        close(*event);
    array_done(&m->events);
    f->watched -= m->followed;
    m->followed = false;
}

/* ---- processes ---- */

static struct member *member_of(const struct follow *f, pid_t pid)
{
    uint64_t *at = map_get(&f->members, (uint64_t)pid);
    return at ? (struct member *)(uintptr_t)*at : NULL;
}

static void forget(struct follow *f, pid_t pid)
{
    struct member *m = member_of(f, pid);
    if (!m)
        return;
    take_away(f, m);
    map_remove(&f->members, (uint64_t)pid);
    free(m);
}

/* By its CPU time: on a busy machine it waits for a CPU most of the time, which costs nothing. */
static bool can_afford(const struct follow *f, uint64_t now_ns)
{
    return f->watched < PROCESSES_MOST &&
           clock_process_cpu_ns() < (now_ns - f->started_ns) / BUDGET_SHARE + BUDGET_BEGIN;
}

static void on_fork(struct follow *f, const struct sampler_birth *birth)
{
    uint64_t now_ns = clock_monotonic_ns();
    forget(f, (pid_t)birth->pid); /* one that had its number before */
    if (!can_afford(f, now_ns)) {
        f->shared->busy++;
        return;
    }
    struct member *m = calloc(1, sizeof(*m));
    uint64_t *at = m ? map_put(&f->members, birth->pid, NULL) : NULL;
    if (!at) {
        free(m);
        f->shared->failed++;
        return;
    }
    *at = (uintptr_t)m;
    m->pid = (pid_t)birth->pid;
    m->began_ns = birth->time_ns;
    int r = 0;
    for (size_t i = 0; i < f->file_count && r == 0; i++)
        r = put_file(f, m, i);
    uint64_t done_ns = clock_monotonic_ns();
    if (r < 0) {
        f->shared->failed += r != -ESRCH;
        forget(f, (pid_t)birth->pid);
        return;
    }
    m->followed = true;
    f->watched++;
    f->shared->followed++;
    uint64_t late_ns = done_ns - birth->time_ns;
    f->shared->sum_ns += late_ns;
    f->shared->latest_ns = MAX(f->shared->latest_ns, late_ns);
}

static bool is_known(const struct follow *f, uint64_t device, uint64_t inode)
{
    array_foreach (&f->known, id)
        if (id->device == device && id->inode == inode)
            return true;
    return false;
}

/* A file that a process has mapped: its places, if it has any, in this process. */
static void meet_file(struct follow *f, struct member *m, int fd)
{
    struct sampler_place places[PLACES_MOST];
    struct stat st;
    char path[40];
    if (fstat(fd, &st) < 0 || is_known(f, st.st_dev, st.st_ino)) {
        close(fd);
        return;
    }
    struct file *file = file_of(f, &st);
    int count = file ? 0 : f->find(m->pid, fd, places, PLACES_MOST);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (!file && count > 0 && (file = add_file(f, &st, path))) {
        for (int i = 0; i < count; i++)
            add_place(f, file, &places[i]);
    } else {
        close(fd);
        if (!file && f->known.count < KNOWN_MOST)
            (void)array_add(&f->known, (struct file_id){st.st_dev, st.st_ino});
    }
    if (file && (m->own || m->followed)) /* one that has ended is no loss */
        (void)put_file(f, m, (size_t)(file - f->files));
}

static void look_at_files(struct follow *f, struct member *m)
{
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    _cleanup_(modules_done) struct modules modules = {0};
    struct problem ignored;
    if (proc_open(m->pid, &proc) < 0 || modules_list(proc, &modules, &ignored) < 0)
        return;
    array_foreach (&modules.mappings, map) {
        if (!map->executable || map->module == UINT32_MAX || *modules.list.at[map->module].path != '/')
            continue;
        int fd = process_mapped_open(proc, map->start, map->end);
        if (fd >= 0)
            meet_file(f, m, fd);
    }
}

static void on_exec(struct follow *f, const struct sampler_birth *birth)
{
    struct member *m = member_of(f, (pid_t)birth->pid);
    if (!m || !f->find || !(m->own || m->followed))
        return;
    look_at_files(f, m); /* of which its program is there already */
    m->look_ns = clock_monotonic_ns() + LOOK_AGAIN_NS;
}

static int on_birth(void *context, void *data, size_t size)
{
    struct follow *f = context;
    const struct sampler_birth *birth = data;
    if (size < sizeof(*birth))
        return 0;
    if (birth->kind == BIRTH_FORK)
        on_fork(f, birth);
    else if (birth->kind == BIRTH_EXEC)
        on_exec(f, birth);
    else
        forget(f, (pid_t)birth->pid);
    return 0;
}

/* The files of those whose time has come; for how long nothing is to be done, in milliseconds, -1: for good.
 */
static int look_again(struct follow *f)
{
    uint64_t now_ns = clock_monotonic_ns(), next_ns = UINT64_MAX;
    map_foreach (&f->members, slot) {
        struct member *m = (struct member *)(uintptr_t)slot->value;
        if (m->look_ns && m->look_ns <= now_ns) {
            m->look_ns = 0;
            look_at_files(f, m);
        } else if (m->look_ns) {
            next_ns = MIN(next_ns, m->look_ns);
        }
    }
    return next_ns == UINT64_MAX ? -1 : (int)((next_ns - now_ns) / NS_PER_MS) + 1;
}

/* ---- the process beside ---- */

static void run_follower(void *context, int socket)
{
    struct follow *f = context;
    f->ring = ring_buffer__new(f->births, on_birth, f, NULL);
    if (!f->ring)
        return;
    struct pollfd waits[] = {{.fd = socket, .events = POLLIN},
                             {.fd = ring_buffer__epoll_fd(f->ring), .events = POLLIN}};
    for (;;) {
        int most_ms = look_again(f);
        if (poll(waits, ARRAY_SIZE(waits), most_ms) < 0 && errno != EINTR)
            return;
        if (waits[0].revents) /* nothing is ever said: it is closed */
            return;
        if (ring_buffer__consume(f->ring) < 0)
            return;
    }
}

/* ---- in the one that samples ---- */

static int keep_open(const struct follow *f, int *keep)
{
    int count = 0;
    keep[count++] = f->births;
    if (f->hit_program >= 0)
        keep[count++] = f->hit_program;
    for (size_t i = 0; i < PLACE_FUNCTIONS; i++) {
        if (f->programs[i].begin >= 0)
            keep[count++] = f->programs[i].begin;
        if (f->programs[i].end >= 0)
            keep[count++] = f->programs[i].end;
    }
    for (size_t i = 0; i < f->file_count; i++) {
        int fd;
        if (sscanf(f->files[i].path, "/proc/self/fd/%d", &fd) == 1)
            keep[count++] = fd;
    }
    return count;
}

int follow_start(struct sampler *s, const struct sampler_options *o, follow_find_fn *find,
                 struct problem *problem)
{
    _cleanup_(follow_freep) struct follow *f = calloc(1, sizeof(*f));
    _cleanup_(freep) char *type = NULL;
    int keep[FILES_MOST + 2 * PLACE_FUNCTIONS + 2]; /* less than APART_KEEP */
    if (!f || !(f->files = calloc(FILES_MOST, sizeof(*f->files))))
        return problem_set(problem, -ENOMEM, "out of memory");
    f->socket = -1;
    f->find = find;
    f->births = sampler_births(s);
    f->hit_program = o->hits ? sampler_hit_program(s) : -1;
    for (size_t i = 0; i < PLACE_FUNCTIONS; i++)
        f->programs[i] = o->allocs || o->locks ? sampler_place_programs(s, (enum place_function)i)
                                               : (struct place_programs){-1, -1};
    int r = file_read("/sys/bus/event_source/devices/uprobe/type", 64, &type, NULL);
    if (r < 0)
        return problem_set(problem, r, "the kernel's type of uprobes: %s", strerror(-r));
    f->event_type = (uint32_t)strtoul(type, NULL, 10);
    f->shared = mmap(NULL, sizeof(*f->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (f->shared == MAP_FAILED) {
        f->shared = NULL;
        return problem_set(problem, -ENOMEM, "out of memory");
    }
    if ((r = take_places(f, o)) < 0)
        return problem_set(problem, r, "out of memory");
    f->started_ns = clock_monotonic_ns();
    r = apart_start_keeping("sonde:places", run_follower, f, keep, keep_open(f, keep), &f->socket, problem);
    if (r < 0)
        return r;
    s->follow = f;
    f = NULL;
    return 0;
}

void follow_stop(struct follow *f)
{
    if (f && f->socket >= 0)
        close(f->socket);
    if (f)
        f->socket = -1;
}

struct follow_counts follow_counts(const struct sampler *s)
{
    return s->follow ? *s->follow->shared : (struct follow_counts){0};
}

void follow_free(struct follow *f)
{
    if (!f)
        return;
    follow_stop(f);
    map_foreach (&f->members, slot)
        free((void *)(uintptr_t)slot->value);
    map_done(&f->members);
    array_done(&f->known);
    if (f->shared)
        munmap(f->shared, sizeof(*f->shared));
    free(f->files);
    free(f);
}
