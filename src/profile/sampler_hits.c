/* Stacks at places of the kernel or of programs (bpf/hits.h): attached, counted, and left alone when they are
 * passed too often. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sampler_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "base/file.h"
#include "profile/family.h"

enum {
    WINDOWS_A_SECOND = 10, /* HIT_WINDOW_NS */
    TRACEPOINT_TIMES = 10, /* counting at a tracepoint takes so much less than a trap */
};
#define LOOK_NS (100 * NS_PER_MS)

/* As the kernel's half has it. */
struct hits {
    uint64_t all, pending, begun_ns, stacks;
};

uint64_t sampler_trap_ns(const struct sampler *s)
{
    return s->trap_ns;
}

uint64_t sampler_hits_most(const struct sampler_options *o)
{
    bool trap = !o->io && !(o->hit_place_count && o->hit_places[0].category);
    return o->hit_limit * (trap ? 1 : TRACEPOINT_TIMES);
}

void sampler_configure_hits(struct sampler *s)
{
    const struct sampler_options *o = &s->options;
    bool tracepoint = o->hits && o->hit_place_count && o->hit_places[0].category;
    bpf_program__set_autoload(s->bpf->progs.on_tracepoint, tracepoint);
    bpf_program__set_autoload(s->bpf->progs.on_hit, o->hits && !tracepoint && !o->io);
    sampler_configure_io(s);
    if (!o->hits)
        return;
    s->bpf->rodata->hit_every = MAX(o->hit_every, (uint64_t)1);
    s->bpf->rodata->hit_limit = MAX(o->hit_limit / WINDOWS_A_SECOND, (uint64_t)1);
}

static int keep(struct sampler *s, struct bpf_link *link)
{
    if (!link)
        return -errno;
    if (array_add(&s->hit_links, link) == 0)
        return 0;
    bpf_link__destroy(link);
    return -ENOMEM;
}

/* pid: -1 for all that have the file. */
static int attach_place(struct sampler *s, const struct sampler_hit *hit, pid_t pid)
{
    LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = hit->semaphore,
                .bpf_cookie = pid > 0 ? SAMPLER_COOKIE((uint64_t)pid, 0) : 0);
    return keep(s,
                bpf_program__attach_uprobe_opts(s->bpf->progs.on_hit, pid, hit->path, hit->offset, &options));
}

/* Where tracefs is mounted; else a mount of our own that no path leads to, and that ends with its descriptor.
 */
static int open_tracefs(void)
{
    static const char *const PLACES[] = {"/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"};
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        int fd = open(PLACES[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
    _cleanup_(file_closep) int context = fsopen("tracefs", FSOPEN_CLOEXEC);
    if (context < 0 || fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    _cleanup_(file_closep) int mount =
        fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    int fd = mount < 0 ? -1 : openat(mount, "events", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* As perf_event_open() takes it. -ENOENT: there is no such tracepoint. */
static int tracepoint_id(const struct sampler_hit *hit, uint64_t *ret_id)
{
    char path[256], text[32] = "";
    if (strchr(hit->category, '/') || strchr(hit->name, '/') || strcmp(hit->category, "..") == 0 ||
        (size_t)snprintf(path, sizeof(path), "%s/%s/id", hit->category, hit->name) >= sizeof(path))
        return -ENOENT;
    _cleanup_(file_closep) int events = open_tracefs();
    if (events < 0)
        return events;
    _cleanup_(file_closep) int fd = openat(events, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (read(fd, text, sizeof(text) - 1) <= 0)
        return -EIO;
    *ret_id = strtoull(text, NULL, 10);
    return 0;
}

/* One event is enough: the program belongs to the tracepoint, whichever CPU the event is of. */
static int attach_event(struct sampler *s, uint64_t id)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr), .type = PERF_TYPE_TRACEPOINT, .config = id, .sample_period = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct bpf_link *link = bpf_program__attach_perf_event(s->bpf->progs.on_tracepoint, fd);
    int r = keep(s, link);
    if (!link)
        close(fd);
    return r;
}

static int attach_tracepoint(struct sampler *s, const struct sampler_hit *hit, struct problem *problem)
{
    uint64_t id;
    int r = tracepoint_id(hit, &id);
    if (r >= 0)
        r = attach_event(s, id);
    if (r == -ENOENT) {
        problem_set(problem, r, "the kernel has no tracepoint %s:%s", hit->category, hit->name);
        problem_remedy(problem, "perf list, or bpftrace -l, says which there are; with tracefs mounted also "
                                "ls /sys/kernel/tracing/events.");
    } else if (r < 0) {
        problem_set(problem, r, "cannot watch %s:%s: %s", hit->category, hit->name, strerror(-r));
    }
    return r;
}

/* ---- what a trap takes here ---- */

static __attribute__((noinline)) void measured(void)
{
    __asm__ volatile("");
}

/* Where an address of ours lies in our own file; 0: not known. */
static uint64_t own_offset(uintptr_t address)
{
    unsigned long long from, until, offset, found = 0;
    _cleanup_(freep) char *maps = NULL;
    if (file_read("/proc/self/maps", 1 << 22, &maps, NULL) < 0)
        return 0;
    for (char *line = maps; line && *line && !found; line = strchr(line, '\n'), line += line != NULL)
        if (sscanf(line, "%llx-%llx %*s %llx", &from, &until, &offset) == 3 && from <= address &&
            address < until)
            found = offset + (address - from);
    return found;
}

/* Virtual machines differ twentyfold. */
static uint64_t measure_trap(struct sampler *s)
{
    enum { CALLS = 100 };
    uint64_t offset = own_offset((uintptr_t)measured);
    struct bpf_link *link =
        offset ? bpf_program__attach_uprobe(s->bpf->progs.on_hit, false, 0, "/proc/self/exe", offset) : NULL;
    if (!link)
        return 0;
    measured(); /* the first finds nothing in caches */
    uint64_t start_ns = clock_thread_cpu_ns();
    for (int i = 0; i < CALLS; i++)
        measured();
    uint64_t took_ns = (clock_thread_cpu_ns() - start_ns) / CALLS;
    bpf_link__destroy(link);
    return took_ns;
}

int sampler_attach_hits(struct sampler *s, struct problem *problem)
{
    const struct sampler_options *o = &s->options;
    size_t count = 0;
    int r = 0;
    if (o->io && (r = sampler_attach_io(s)) < 0)
        return problem_set(problem, r, "cannot watch %s: %s", o->io == IO_BLOCK ? "disks" : "connections",
                           strerror(-r));
    if (o->io)
        return 0;
    if (o->hit_places[0].category)
        return attach_tracepoint(s, &o->hit_places[0], problem);
    s->trap_ns = measure_trap(s);
    _cleanup_(freep) pid_t *family =
        o->hit_child || o->whole_machine ? NULL : family_of(o->pids, o->pid_count, &count);
    for (size_t i = 0; i < o->hit_place_count && r == 0; i++) {
        if (o->hit_child || o->whole_machine)
            r = attach_place(s, &o->hit_places[i], o->hit_child ? o->hit_child : -1);
        for (size_t k = 0; k < count && r == 0; k++)
            r = attach_place(s, &o->hit_places[i], family[k]);
    }
    return r < 0 ? problem_set(problem, r, "cannot put a probe there: %s", strerror(-r)) : 0;
}

void sampler_detach_hits(struct sampler *s)
{
    array_foreach (&s->hit_links, link)
        bpf_link__destroy(*link);
    array_done(&s->hit_links);
}

static uint64_t count_hits(struct sampler *s)
{
    uint32_t zero = 0;
    uint64_t all = 0;
    int cpus = libbpf_num_possible_cpus();
    struct hits *each = calloc((size_t)MAX(cpus, 1), sizeof(*each));
    if (each && bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.hits), &zero, each) == 0)
        for (int cpu = 0; cpu < cpus; cpu++)
            all += each[cpu].all;
    free(each);
    return all;
}

void sampler_watch_hits(struct sampler *s)
{
    uint64_t all = count_hits(s), since_ns = s->now_ns - MAX(s->hits_looked_ns, s->started_ns);
    uint64_t most = sampler_hits_most(&s->options) * MAX(since_ns, LOOK_NS) / NS_PER_S;
    if (!s->hits_stopped_ns && all - s->hits > most) {
        sampler_detach_hits(s);
        follow_stop(s->follow);
        s->hits_stopped_ns = s->now_ns;
        all = count_hits(s);
    }
    s->hits = all;
    s->hits_looked_ns = s->now_ns;
}
