/* The sampler's half in the kernel: how its program is opened, configured, loaded and attached. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sampler_parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "base/file.h"
#include "profile/kernel_types.h"

static int refused(struct problem *problem, int error, const char *what)
{
    problem_set(problem, error, "%s: %s", what, strerror(-error));
    if (error == -EPERM || error == -EACCES)
        problem_remedy(problem,
                       "Run as root, or grant it once: setcap " SAMPLER_CAPABILITIES
                       " on the sonde binary. Without it, profiles that others took (pprof, folded text) can "
                       "be read: sonde profile --merge, sonde diff.");
    return error;
}

static void *share(struct bpf_map *map, size_t size)
{
    long page = sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, (size + (size_t)page - 1) & ~((size_t)page - 1), PROT_READ | PROT_WRITE, MAP_SHARED,
                    bpf_map__fd(map), 0);
    return at == MAP_FAILED ? NULL : at;
}

static int no_output(enum libbpf_print_level level, const char *format, va_list arguments)
{
    return 0;
}

/* Where the kernel's structures have their members, into a file for libbpf. */
static int write_types(const struct btf *btf, int fd)
{
    uint32_t size;
    const void *own = btf__raw_data(btf, &size);
    _cleanup_(freep) void *types = own ? malloc(size) : NULL;
    if (!types)
        return -ENOMEM;
    memcpy(types, own, size);
    int r = kernel_types_correct_running(types, size, kernel_types_sampled);
    return r < 0 ? r : file_write_all(fd, types, size);
}

/* With the places of the kernel's structures in the file types; or without one, when libbpf finds them. */
static struct sampler_bpf *open_program(int types)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", types);
    LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = types < 0 ? NULL : path);
    struct sampler_bpf *bpf = sampler_bpf__open_opts(&options);
    if (!bpf || types < 0 || write_types(bpf_object__btf(bpf->obj), types) == 0)
        return bpf;
    sampler_bpf__destroy(bpf);
    return sampler_bpf__open();
}

enum { ALIVE_MOST = 1 << 18 }; /* allocations that were sampled and are not free yet */

enum { ALLOC_PROGRAMS = 13 };

/* The programs that see allocations. */
static void place_programs(const struct sampler *s, struct bpf_program *ret_programs[ALLOC_PROGRAMS])
{
    struct bpf_program *const programs[ALLOC_PROGRAMS] = {
        s->bpf->progs.on_malloc,       s->bpf->progs.on_calloc,         s->bpf->progs.on_realloc,
        s->bpf->progs.on_aligned,      s->bpf->progs.on_posix_memalign, s->bpf->progs.on_free,
        s->bpf->progs.on_alloc_return, s->bpf->progs.on_posix_return,   s->bpf->progs.on_heap_second,
        s->bpf->progs.on_heap_third,   s->bpf->progs.on_heap_page,      s->bpf->progs.on_heap_area,
        s->bpf->progs.on_heap_area_end};
    memcpy(ret_programs, programs, sizeof(programs));
}

bool sampler_options_follow(const struct sampler_options *o)
{
    bool in_programs =
        o->allocs || o->locks || (o->hits && !o->io && o->hit_place_count && !o->hit_places[0].category);
    return in_programs && !o->whole_machine && !o->cgroup;
}

static void configure(struct sampler *s)
{
    const struct sampler_options *o = &s->options;
    s->tables.row_limit = (uint32_t)((o->map_bytes ? o->map_bytes : 32u << 20) / sizeof(struct unwind_row));
    s->tables.page_limit = s->tables.row_limit / 4;
    s->bpf->rodata->row_limit = s->tables.row_limit;
    s->bpf->rodata->page_limit = s->tables.page_limit;
    s->bpf->rodata->only_targets = !o->whole_machine;
    s->bpf->rodata->want_kernel = o->kernel;
    s->bpf->rodata->want_wakers = o->waker_stacks;
    s->bpf->rodata->off_cpu_min_ns = o->off_cpu_min_ns;
    s->bpf->rodata->own_pid = (uint32_t)getpid();
    s->bpf->rodata->ticks_alone = sampler_has_ticks_alone(o);
    bool births = sampler_options_follow(o);
    s->bpf->rodata->want_births = births;
    if (births)
        bpf_map__set_max_entries(s->bpf->maps.births, SAMPLER_BIRTHS_BYTES);
    s->bpf->bss->clock_period_ns = ticks_period(o);
    s->bpf->bss->clock_limit_ns = ticks_limit(ticks_period(o));
    bpf_map__set_max_entries(s->bpf->maps.rows, s->tables.row_limit);
    bpf_map__set_max_entries(s->bpf->maps.pages, s->tables.page_limit);
    bool goroutines = o->locks && !o->whole_machine && !o->cgroup;
    unsigned slots = goroutines               ? SAMPLER_GO_SLOT + SAMPLER_ALLOC_SLOTS
                     : o->allocs || o->hits   ? SAMPLER_ALLOC_SLOTS
                     : o->off_cpu || o->locks ? 2
                                              : 1;
    bpf_map__set_max_entries(s->bpf->maps.caches, slots);
    sampler_configure_hits(s);
    if (o->allocs || o->hits || goroutines) {
        bpf_map__set_max_entries(s->bpf->maps.scratch, slots);
        bpf_map__set_max_entries(s->bpf->maps.copies, slots);
    }
    if (o->allocs) {
        allocs_decay((uint32_t *)s->bpf->rodata->alloc_decay);
        s->bpf->rodata->alloc_interval = o->alloc_interval;
        bpf_map__set_max_entries(s->bpf->maps.alloc_calls, 16384);
        bpf_map__set_max_entries(s->bpf->maps.alive, ALIVE_MOST);
        bpf_map__set_max_entries(s->bpf->maps.heap_failed, 4096);
        bpf_map__set_max_entries(s->bpf->maps.heap_owners, 4096);
    }
    struct bpf_program *programs[ALLOC_PROGRAMS];
    place_programs(s, programs);
    for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
        bpf_program__set_autoload(programs[i], o->allocs);
    bpf_map__set_max_entries(s->bpf->maps.waiting, o->off_cpu ? 2048 : 1);
    bpf_map__set_max_entries(s->bpf->maps.wakes, o->off_cpu ? 2048 : 1);
    bpf_map__set_max_entries(s->bpf->maps.lock_waits, o->locks ? 16384 : 1);
    bpf_map__set_max_entries(s->bpf->maps.goroutine_waits, goroutines ? 65536 : 1);
    bpf_map__set_max_entries(s->bpf->maps.waited_locks, goroutines ? 16384 : 1);
    bpf_program__set_autoload(s->bpf->progs.on_go_wait, goroutines);
    bpf_program__set_autoload(s->bpf->progs.on_go_back, goroutines);
    bpf_program__set_autoload(s->bpf->progs.on_go_release, goroutines);
    bpf_program__set_autoload(s->bpf->progs.on_switch, o->off_cpu);
    bpf_program__set_autoload(s->bpf->progs.on_waking, o->off_cpu);
    bpf_program__set_autoload(s->bpf->progs.on_lock_switch, o->locks);
    bpf_program__set_autoload(s->bpf->progs.on_lock_waking, o->locks);
}

int sampler_load(struct sampler *s, ring_buffer_sample_fn on_event, struct problem *problem)
{
    libbpf_set_print(no_output);
    _cleanup_(file_closep) int types = memfd_create("sonde-types", MFD_CLOEXEC);
    int r = -EINVAL;
    /* A kernel that refuses it with what we found out of its structures gets what libbpf finds; of sockets
     * and disks we find out nothing. */
    for (bool ours = types >= 0 && !s->options.io, last = false; r < 0 && !last; ours = false) {
        last = !ours;
        sampler_bpf__destroy(s->bpf);
        s->bpf = open_program(ours ? types : -1);
        if (!s->bpf)
            return refused(problem, -errno, "cannot open the BPF program");
        configure(s);
        r = sampler_bpf__load(s->bpf);
        last |= r == -EPERM;
    }
    if (r < 0)
        return refused(problem, r, "the kernel refused the BPF program");
    tables_init(&s->tables, share(s->bpf->maps.rows, (size_t)s->tables.row_limit * sizeof(struct unwind_row)),
                share(s->bpf->maps.pages, (size_t)s->tables.page_limit * sizeof(uint64_t)));
    s->ring = ring_buffer__new(bpf_map__fd(s->bpf->maps.samples), on_event, s, NULL);
    if (!s->tables.rows || !s->tables.pages || !s->ring || kernel_names_new(s->bpf, &s->kernel) < 0)
        return refused(problem, -ENOMEM, "cannot share memory with the kernel");
    return 0;
}

struct alloc_pair {
    struct bpf_program *begin, *end; /* NULL: none */
};

static struct alloc_pair alloc_pair(const struct sampler *s, enum place_function function)
{
    const struct sampler_bpf *bpf = s->bpf;
    const struct alloc_pair PROGRAMS[] = {
        [ALLOC_MALLOC] = {bpf->progs.on_malloc, bpf->progs.on_alloc_return},
        [ALLOC_CALLOC] = {bpf->progs.on_calloc, bpf->progs.on_alloc_return},
        [ALLOC_REALLOC] = {bpf->progs.on_realloc, bpf->progs.on_alloc_return},
        [ALLOC_ALIGNED] = {bpf->progs.on_aligned, bpf->progs.on_alloc_return},
        [ALLOC_POSIX_MEMALIGN] = {bpf->progs.on_posix_memalign, bpf->progs.on_posix_return},
        [ALLOC_FREE] = {bpf->progs.on_free, NULL},
        [ALLOC_HEAP_SECOND] = {bpf->progs.on_heap_second, NULL},
        [ALLOC_HEAP_THIRD] = {bpf->progs.on_heap_third, NULL},
        [ALLOC_HEAP_PAGE] = {NULL, bpf->progs.on_heap_page},
        [ALLOC_HEAP_AREA] = {bpf->progs.on_heap_area, bpf->progs.on_heap_area_end},
        [GO_WAITS] = {bpf->progs.on_go_wait, NULL},
        [GO_IS_BACK] = {bpf->progs.on_go_back, NULL},
        [GO_LETS_GO] = {bpf->progs.on_go_release, NULL}};
    return PROGRAMS[function];
}

struct place_programs sampler_place_programs(const struct sampler *s, enum place_function function)
{
    struct alloc_pair pair = alloc_pair(s, function);
    return (struct place_programs){.begin = pair.begin ? bpf_program__fd(pair.begin) : -1,
                                   .end = pair.end ? bpf_program__fd(pair.end) : -1};
}

int sampler_hit_program(const struct sampler *s)
{
    return bpf_program__fd(s->bpf->progs.on_hit);
}

int sampler_births(const struct sampler *s)
{
    return bpf_map__fd(s->bpf->maps.births);
}

static int attach_allocs(struct sampler *s)
{
    for (size_t i = 0; i < s->options.place_count; i++) {
        const struct sampler_place *p = &s->options.places[i];
        if (p->function == GO_WAITS && array_add(&s->go_pids, p->pid) < 0)
            return -ENOMEM;
        for (int end = 0; end < 2; end++) { /* the beginning first: an end without one is passed over */
            struct alloc_pair pair = alloc_pair(s, p->function);
            struct bpf_program *program = end ? pair.end : pair.begin;
            LIBBPF_OPTS(bpf_uprobe_opts, options, .retprobe = end,
                        .bpf_cookie = SAMPLER_COOKIE((uint64_t)p->pid, p->bytes));
            if (!program)
                continue;
            struct bpf_link *link =
                bpf_program__attach_uprobe_opts(program, p->pid, p->path, p->offset, &options);
            if (!link)
                return -errno;
            if (array_add(&s->alloc_links, link) < 0) {
                bpf_link__destroy(link);
                return -ENOMEM;
            }
        }
    }
    return 0;
}

void sampler_detach_allocs(struct sampler *s)
{
    array_foreach (&s->alloc_links, link)
        bpf_link__destroy(*link);
    array_done(&s->alloc_links);
}

/* What takes rights, before anything of other processes is read. */
int sampler_attach(struct sampler *s, struct problem *problem)
{
    struct sampler_bpf *bpf = s->bpf; /* which owns the links */
    const char *what;
    if (sideband_open(&s->sideband) < 0)
        s->sideband = NULL;
    if (!(bpf->links.on_exec = bpf_program__attach(bpf->progs.on_exec)) ||
        !(bpf->links.on_exit = bpf_program__attach(bpf->progs.on_exit)) ||
        !(bpf->links.on_fork = bpf_program__attach(bpf->progs.on_fork)) ||
        (s->options.off_cpu && (!(bpf->links.on_waking = bpf_program__attach(bpf->progs.on_waking)) ||
                                !(bpf->links.on_switch = bpf_program__attach(bpf->progs.on_switch)))) ||
        (s->options.locks && (!(bpf->links.on_lock_waking = bpf_program__attach(bpf->progs.on_lock_waking)) ||
                              !(bpf->links.on_lock_switch = bpf_program__attach(bpf->progs.on_lock_switch)))))
        return refused(problem, -errno, "cannot watch processes");
    int attached = s->options.allocs || s->options.locks ? attach_allocs(s) : 0;
    if (attached < 0)
        return refused(problem, attached,
                       s->options.locks ? "cannot watch the locks of Go" : "cannot watch allocations");
    if (s->options.hits && (attached = sampler_attach_hits(s, problem)) < 0)
        return attached;
    /* A buffer that runs over loses samples: whoever empties it goes first, as far as we may ask for that. */
    if (setpriority(PRIO_PROCESS, (id_t)gettid(), -10) < 0)
        errno = 0;
    int r = s->options.on_cpu ? ticks_open(&s->ticks, &s->options, bpf->progs.on_tick, &what) : 0;
    if (r >= 0)
        return 0;
    refused(problem, r, what);
    if (r == -ENOENT || r == -EOPNOTSUPP)
        problem_remedy(problem, "This machine does not count it (virtual machines often lack hardware "
                                "counters); use --event cpu.");
    return r;
}
