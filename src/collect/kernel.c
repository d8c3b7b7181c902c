/* See kernel.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "activity.skel.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "bpf/missed.h"
#include "collect/kernel_calls.h"
#include "collect/kernel_clock.h"
#include "collect/kernel_order.h"
#include "collect/kernel_wakers.h"

#define MISSED_GAP_NS (5 * NS_PER_S)

enum { RAN_BITS = 4096 };

/* Kernels differ: what is tried, best first. */
struct variant {
    bool counted;    /* interrupts can be told from threads by the kernel's own count */
    bool with_state; /* sched_switch tells the state of the thread that leaves (Linux 5.18) */
    bool queues;     /* the scheduler counts how long threads wait for a CPU */
};

struct kernel_side {
    struct activity_bpf *bpf;
    struct variant variant;
    uint32_t loaded;            /* families whose programs are */
    struct ring_buffer *reader; /* of all rings */
    struct kernel_ring {
        struct kernel_side *kernel;
        uint32_t number;
        int map;
        uint64_t taken_bytes; /* by the latest drain */
    } * rings;
    uint32_t ring_count;
    uint64_t ring_bytes; /* of each */
    unsigned fullest;    /* that one of them was, in parts of 256 */
    struct kernel_order order;
    struct kernel_wakers wakers;
    bool follows_wakers;   /* though no family needs them */
    uint64_t *runs_before; /* of the scheduler's programs, by CPU, at runs_looked_ns */
    uint64_t runs_looked_ns;
    uint64_t events[SONDE_FAMILY_COUNT];
    uint64_t unread;                 /* records that no memory was there for */
    uint64_t missed, missed_next_ns; /* runs that the kernel left out, and when it is asked again */
    /* Which processes and threads ran, as the records said: bits by the last digits of their numbers. */
    uint64_t ran[RAN_BITS / 64], ran_threads[RAN_BITS / 64];
    ARRAY(pid_t) filtered; /* those that have other system call filters of late */
    bool tells_filters;
};

/* ---- families ---- */

static const char *const FAMILIES[] = {
#define F(ident, name, level, text) name,
    SONDE_FAMILIES(F)
#undef F
};

const char *kernel_family_name(enum sonde_family family)
{
    return FAMILIES[family];
}

int kernel_parse_families(const char *list, uint32_t *ret_families, struct problem *problem)
{
    uint32_t families = 0;
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < ARRAY_SIZE(FAMILIES) &&
               (strlen(FAMILIES[i]) != length || strncmp(FAMILIES[i], at, length) != 0))
            i++;
        if (length == 3 && strncmp(at, "all", 3) == 0)
            families |= (1u << SONDE_FAMILY_COUNT) - 1;
        else if (i < ARRAY_SIZE(FAMILIES))
            families |= 1u << i;
        else
            return problem_set(problem, -EINVAL,
                               "'%.*s' is no family of kernel events; they are sys, sched, wakeup, tcp, "
                               "block, connect, or all",
                               (int)MIN(length, (size_t)40), at);
        at += length + (at[length] == ',');
    }
    if (!families)
        return problem_set(problem, -EINVAL, "no family of kernel events is named");
    *ret_families = families;
    return 0;
}

static enum sonde_family family_of(uint32_t event)
{
    switch (event) {
    case SONDE_EVENT_sys_call:
        return SONDE_FAMILY_sys;
    case SONDE_EVENT_sched_switch:
    case SONDE_EVENT_sched_brief:
        return SONDE_FAMILY_sched;
    case SONDE_EVENT_sched_wakeup:
        return SONDE_FAMILY_wakeup;
    case SONDE_EVENT_block_io:
        return SONDE_FAMILY_block;
    case SONDE_EVENT_tcp_connect:
    case SONDE_EVENT_tcp_retransmit:
        return SONDE_FAMILY_connect;
    default:
        return SONDE_FAMILY_tcp;
    }
}

/* ---- loading ---- */

static uint32_t own_namespace(void)
{
    enum { FIRST_NAMESPACE = 0xEFFFFFFC };
    struct stat st;
    if (stat("/proc/self/ns/pid", &st) < 0 || st.st_ino == FIRST_NAMESPACE)
        return 0;
    return (uint32_t)st.st_ino;
}

enum { SYS = 1 << SONDE_FAMILY_sys, SCHED = 1 << SONDE_FAMILY_sched, WAKEUP = 1 << SONDE_FAMILY_wakeup };
enum { TCP = 1 << SONDE_FAMILY_tcp, BLOCK = 1 << SONDE_FAMILY_block, CONNECT = 1 << SONDE_FAMILY_connect };
enum { ALL = (1 << SONDE_FAMILY_COUNT) - 1 };

/* Programs and the families that need them: it is attached while one of them is on. */
enum { PARTS = 12 };
struct part {
    struct bpf_program *program;
    struct bpf_link **link;
    uint32_t families;
    bool fits;   /* this kernel */
    bool wakers; /* who ends waits: for sched alone, only while that is of interest */
};

static void list_parts(struct activity_bpf *bpf, const struct variant *variant,
                       struct part parts[static PARTS])
{
#define PART(name, families, fits, ...)                                              \
    {                                                                                \
        bpf->progs.name, &bpf->links.name, (uint32_t)(families), (fits), __VA_ARGS__ \
    }
    const struct part all[PARTS] = {
        PART(on_enter, SYS | TCP, true),
        PART(on_exit, SYS | TCP, true),
        PART(on_thread_end, SYS | TCP, true),
        PART(on_switch, SCHED, variant->with_state),
        PART(on_switch_without_state, SCHED, !variant->with_state),
        PART(on_wakeup, SCHED, !variant->queues),
        PART(on_waking, SCHED | WAKEUP, variant->counted, .wakers = true),
        PART(on_waking_uncounted, SCHED | WAKEUP, !variant->counted, .wakers = true),
        PART(on_tcp_state, CONNECT, true),
        PART(on_retransmit, CONNECT, true),
        PART(on_issue, BLOCK, true),
        PART(on_complete, BLOCK, true),
    };
#undef PART
    memcpy(parts, all, sizeof(all));
}

/* Loads what the families need. */
static int load(uint32_t families, const struct variant *variant, uint32_t rings,
                struct activity_bpf **ret_bpf)
{
    struct activity_bpf *bpf = activity_bpf__open();
    if (!bpf)
        return -errno;
    kernel_call_kinds((uint8_t *)bpf->rodata->call_kinds);
    bpf->rodata->pid_namespace = own_namespace();
    bpf->rodata->counts_queues = variant->queues;
    bpf->rodata->clocks_agree = variant->queues && kernel_clocks_agree();
    bpf->rodata->ring_count = rings;
    bpf_map__set_max_entries(bpf->maps.rings, rings);
    struct part parts[PARTS];
    list_parts(bpf, variant, parts);
    for (size_t i = 0; i < PARTS; i++)
        bpf_program__set_autoload(parts[i].program, parts[i].fits && parts[i].families & families);
    int r = activity_bpf__load(bpf);
    if (r < 0) {
        activity_bpf__destroy(bpf);
        return r;
    }
    *ret_bpf = bpf;
    return 0;
}

/* As much as this kernel takes: everything, so that families can be switched on later (a program that is
 * loaded and not attached costs nothing), or what is needed now. */
static int load_any(uint32_t families, struct kernel_side *kernel)
{
    static const struct variant VARIANTS[] = {
        {true, true, true},  {false, true, true},  {true, false, true},  {false, false, true},
        {true, true, false}, {false, true, false}, {true, false, false}, {false, false, false}};
    const uint32_t WANTED[] = {ALL, families};
    int r = -ENOTSUP;
    for (size_t w = 0; w < ARRAY_SIZE(WANTED); w++)
        for (size_t i = 0; i < ARRAY_SIZE(VARIANTS); i++) {
            r = load(WANTED[w], &VARIANTS[i], kernel->ring_count, &kernel->bpf);
            kernel->variant = VARIANTS[i];
            kernel->loaded = WANTED[w];
            if (r >= 0 || r == -EPERM)
                return r;
        }
    return r;
}

static bool is_attached(const struct kernel_side *kernel, uint32_t families)
{
    return kernel->bpf->bss->families & families;
}

/* What begins now must not be taken for what began while nobody looked. */
static void begin_anew(struct kernel_side *kernel, uint32_t families)
{
    if (families & (SYS | TCP) && !is_attached(kernel, SYS | TCP))
        kernel->bpf->bss->calls_attached++;
    if (families & SCHED && !is_attached(kernel, SCHED)) {
        kernel->bpf->bss->sched_attached++;
        memset((void *)kernel->bpf->bss->lock_since_ns, 0, sizeof(kernel->bpf->bss->lock_since_ns));
    }
}

static bool is_wanted(const struct kernel_side *kernel, const struct part *part, uint32_t families)
{
    bool always = families & (SYS | WAKEUP); /* each wait has its record */
    return part->fits && part->families & families && (!part->wakers || always || kernel->follows_wakers);
}

/* 0, or why a program cannot be attached. */
static int attach(struct kernel_side *kernel, uint32_t families)
{
    struct part parts[PARTS];
    list_parts(kernel->bpf, &kernel->variant, parts);
    begin_anew(kernel, families);
    kernel->bpf->bss->families = families;
    kernel->bpf->bss->brief_ns = families & (SYS | WAKEUP) ? 0 : SONDE_BRIEF_NS;
    for (size_t i = 0; i < PARTS; i++) {
        bool wanted = is_wanted(kernel, &parts[i], families);
        if (parts[i].wakers && parts[i].fits && !wanted)
            kernel->bpf->bss->wakers_since_ns = 0;
        if (!wanted) {
            bpf_link__destroy(*parts[i].link);
            *parts[i].link = NULL;
        } else if (!*parts[i].link) {
            struct bpf_link *link = bpf_program__attach(parts[i].program);
            if (!link)
                return -errno;
            *parts[i].link = link;
            if (parts[i].wakers)
                kernel->bpf->bss->wakers_since_ns = clock_monotonic_ns();
        }
    }
    return 0;
}

/* The iterators, and the programs that see threads being made and forgotten. */
static int attach_always(struct activity_bpf *bpf)
{
    bpf->links.adopt = bpf_program__attach(bpf->progs.adopt);
    bpf->links.tell_unfinished = bpf->links.adopt ? bpf_program__attach(bpf->progs.tell_unfinished) : NULL;
    bpf->links.on_free = bpf->links.tell_unfinished ? bpf_program__attach(bpf->progs.on_free) : NULL;
    bpf->links.on_fork = bpf->links.on_free ? bpf_program__attach(bpf->progs.on_fork) : NULL;
    return bpf->links.on_fork ? 0 : -errno;
}

static int explain(int r, struct problem *problem)
{
    if (access("/sys/kernel/btf/vmlinux", R_OK) < 0) {
        r = problem_set(problem, -ENOTSUP,
                        "this kernel describes no types (/sys/kernel/btf/vmlinux is not there)");
        problem_remedy(problem, "Use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions do.");
    } else if (r == -EPERM || r == -EACCES) {
        r = problem_set(problem, -EPERM, "this user may not load eBPF programs");
        problem_remedy(problem, "sudo sonde ...   or   sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep "
                                "$(command -v sonde)");
    } else {
        problem_set(problem, r, "the kernel refuses sonde's eBPF program: %s", strerror(-r));
        problem_remedy(problem, "Linux 5.15 or later is needed; --no-kernel leaves it out.");
    }
    return r;
}

/* ---- rings ---- */

static int on_record(void *context, void *data, size_t size);

/* As many as there are CPUs, of some MB in all; of each CPU as much as a few of the recorder's pauses take.
 */
enum { RINGS_MAX = 1024, RINGS_BYTES = 4 << 20, RING_BYTES_MIN = 256 << 10 };

static int plan_rings(struct kernel_side *kernel)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    kernel->ring_count = (uint32_t)MIN(MAX(processors, 1l), (long)RINGS_MAX);
    kernel->ring_bytes = RINGS_BYTES;
    while (kernel->ring_bytes > RING_BYTES_MIN && kernel->ring_bytes * kernel->ring_count > RINGS_BYTES)
        kernel->ring_bytes /= 2;
    kernel->rings = calloc(kernel->ring_count, sizeof(*kernel->rings));
    for (uint32_t i = 0; kernel->rings && i < kernel->ring_count; i++)
        kernel->rings[i] = (struct kernel_ring){.kernel = kernel, .number = i, .map = -1};
    return kernel->rings ? kernel_order_init(&kernel->order, kernel->ring_count) : -ENOMEM;
}

static int make_ring(struct kernel_side *kernel, struct kernel_ring *ring)
{
    ring->map = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "sonde_ring", 0, 0, (uint32_t)kernel->ring_bytes, NULL);
    if (ring->map < 0 ||
        bpf_map_update_elem(bpf_map__fd(kernel->bpf->maps.rings), &ring->number, &ring->map, BPF_ANY) < 0)
        return -errno;
    if (kernel->reader)
        return ring_buffer__add(kernel->reader, ring->map, on_record, ring);
    kernel->reader = ring_buffer__new(ring->map, on_record, ring, NULL);
    return kernel->reader ? 0 : -errno;
}

static int make_rings(struct kernel_side *kernel, struct problem *problem)
{
    int r = 0;
    for (uint32_t i = 0; r >= 0 && i < kernel->ring_count; i++)
        r = make_ring(kernel, &kernel->rings[i]);
    return r < 0 ? problem_set(problem, r, "the kernel's ring buffers cannot be made: %s", strerror(-r)) : 0;
}

/* Of each thread, since Linux 5.9. */
static bool counts_filters(void)
{
    _cleanup_(freep) char *status = NULL;
    size_t length;
    return file_read("/proc/self/status", 1 << 16, &status, &length) == 0 &&
           strstr(status, "\nSeccomp_filters:");
}

int kernel_new(uint32_t families, struct kernel_side **ret_kernel, struct problem *problem)
{
    _cleanup_(kernel_freep) struct kernel_side *kernel = calloc(1, sizeof(*kernel));
    if (!kernel)
        return -ENOMEM;
    int r = plan_rings(kernel);
    if (r < 0)
        return r;
    libbpf_print_fn_t printer = libbpf_set_print(NULL);
    kernel->follows_wakers = true;
    r = load_any(families, kernel);
    struct problem no_rings = {0};
    if (r >= 0)
        r = make_rings(kernel, &no_rings);
    if (r >= 0)
        r = attach_always(kernel->bpf);
    if (r >= 0)
        r = attach(kernel, families);
    libbpf_set_print(printer);
    if (r < 0 && no_rings.what[0])
        return problem_set(problem, r, "%s", no_rings.what);
    if (r < 0)
        return explain(r, problem);
    kernel->tells_filters = counts_filters();
    *ret_kernel = kernel;
    kernel = NULL;
    return 0;
}

void kernel_free(struct kernel_side *kernel)
{
    if (!kernel)
        return;
    ring_buffer__free(kernel->reader);
    for (uint32_t i = 0; kernel->rings && i < kernel->ring_count; i++)
        if (kernel->rings[i].map >= 0)
            close(kernel->rings[i].map);
    free(kernel->rings);
    free(kernel->runs_before);
    kernel_order_done(&kernel->order);
    array_done(&kernel->filtered);
    activity_bpf__destroy(kernel->bpf);
    free(kernel);
}

/* Runs an iterating program over all that it is attached to. */
static void iterate(const struct bpf_link *link)
{
    int iterator = link ? bpf_iter_create(bpf_link__fd(link)) : -1;
    if (iterator < 0)
        return;
    char none[64];
    while (read(iterator, none, sizeof(none)) > 0)
        ;
    close(iterator);
}

/* The same over one process alone. False: it cannot be asked for, before Linux 6.1. */
static bool iterate_process(struct bpf_program *program, pid_t pid)
{
    union bpf_iter_link_info which = {.task.pid = (uint32_t)pid};
    DECLARE_LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &which, .link_info_len = sizeof(which));
    libbpf_print_fn_t printer = libbpf_set_print(NULL);
    struct bpf_link *link = bpf_program__attach_iter(program, &options);
    libbpf_set_print(printer);
    iterate(link);
    bpf_link__destroy(link);
    return link;
}

int kernel_add(struct kernel_side *kernel, pid_t pid)
{
    uint32_t key = (uint32_t)pid, one = 1;
    if (bpf_map_update_elem(bpf_map__fd(kernel->bpf->maps.targets), &key, &one, BPF_ANY) < 0)
        return -errno;
    if (!iterate_process(kernel->bpf->progs.adopt, pid))
        iterate(kernel->bpf->links.adopt); /* over the threads of the whole host */
    /* The files of all processes may be very many: before Linux 6.1 the connections that this one has already
     * are not followed. */
    (void)iterate_process(kernel->bpf->progs.adopt_sockets, pid);
    return 0;
}

void kernel_remove(struct kernel_side *kernel, pid_t pid)
{
    uint32_t key = (uint32_t)pid;
    (void)bpf_map_delete_elem(bpf_map__fd(kernel->bpf->maps.targets), &key);
}

/* ---- records ---- */

static void note_running(struct kernel_side *kernel, uint32_t pid)
{
    kernel->ran[pid % RAN_BITS / 64] |= 1ull << pid % 64;
}

static void note_running_thread(struct kernel_side *kernel, uint32_t tid)
{
    kernel->ran_threads[tid % RAN_BITS / 64] |= 1ull << tid % 64;
}

bool kernel_has_run(const struct kernel_side *kernel, pid_t pid)
{
    return kernel->ran[(uint32_t)pid % RAN_BITS / 64] >> (uint32_t)pid % 64 & 1;
}

bool kernel_thread_has_run(const struct kernel_side *kernel, uint32_t tid)
{
    return kernel->ran_threads[tid % RAN_BITS / 64] >> tid % 64 & 1;
}

void kernel_forget_running(struct kernel_side *kernel)
{
    memset(kernel->ran, 0, sizeof(kernel->ran));
}

void kernel_forget_running_threads(struct kernel_side *kernel)
{
    memset(kernel->ran_threads, 0, sizeof(kernel->ran_threads));
}

bool kernel_tells_running(const struct kernel_side *kernel)
{
    return is_attached(kernel, SCHED);
}

bool kernel_tells_filters(const struct kernel_side *kernel)
{
    return is_attached(kernel, SCHED) && kernel->tells_filters;
}

pid_t kernel_take_filtered(struct kernel_side *kernel)
{
    return kernel->filtered.count ? kernel->filtered.at[--kernel->filtered.count] : 0;
}

int kernel_poll_fd(const struct kernel_side *kernel)
{
    return ring_buffer__epoll_fd(kernel->reader);
}

void kernel_sleep(struct kernel_side *kernel, bool asleep)
{
    __atomic_store_n(&kernel->bpf->bss->asleep, asleep, __ATOMIC_SEQ_CST);
}

static int on_record(void *context, void *data, size_t size)
{
    enum { RING_HEADER = 8 }; /* of each record, whose size is rounded up to as much */
    struct kernel_ring *ring = context;
    struct kernel_side *kernel = ring->kernel;
    struct kernel_record new = {0};
    ring->taken_bytes += RING_HEADER + (size + RING_HEADER - 1) / RING_HEADER * RING_HEADER;
    if (size == sizeof(struct sonde_kernel_running) && ((struct sonde_kernel_record *)data)->event == 0) {
        const struct sonde_kernel_running *running = data;
        note_running(kernel, running->pid);
        note_running_thread(kernel, running->tid);
        if (running->filtered && array_add(&kernel->filtered, (pid_t)running->pid) < 0)
            kernel->tells_filters = false; /* no memory: they are asked about again */
        return 0;
    }
    memcpy(&new, data, MIN(size, sizeof(new)));
    if (new.head.event >= SONDE_EVENT_COUNT || size < sizeof(new.head)) {
        kernel->unread++;
        return 0;
    }
    kernel->events[family_of(new.head.event)]++;
    if (new.head.event == SONDE_EVENT_sched_switch) {
        note_running(kernel, new.body.sched_switch.pid);
        note_running_thread(kernel, new.body.sched_switch.tid);
    } else if (new.head.event == SONDE_EVENT_sched_brief) {
        note_running(kernel, new.body.sched_brief.pid);
        note_running_thread(kernel, new.body.sched_brief.tid);
    }
    kernel->unread += kernel_order_add(&kernel->order, ring->number, &new) < 0;
    return 0;
}

/* How full the fullest ring was; all begin anew to count. */
static unsigned take_fullness(struct kernel_side *kernel)
{
    uint64_t most_bytes = 0;
    for (uint32_t i = 0; i < kernel->ring_count; i++) {
        most_bytes = MAX(most_bytes, kernel->rings[i].taken_bytes);
        kernel->rings[i].taken_bytes = 0;
    }
    unsigned fullness = (unsigned)MIN(most_bytes * 256 / kernel->ring_bytes, 256ull);
    kernel->fullest = MAX(kernel->fullest, fullness);
    return fullness;
}

/* What the programs ran and took, by CPU; NULL when that cannot be had. */
static struct sonde_kernel_runs *read_runs(const struct kernel_side *kernel, int *ret_processors)
{
    const uint32_t all = 0;
    int processors = *ret_processors = libbpf_num_possible_cpus();
    struct sonde_kernel_runs *runs = processors > 0 ? calloc((size_t)processors, sizeof(*runs)) : NULL;
    if (!runs || bpf_map_lookup_elem(bpf_map__fd(kernel->bpf->maps.runs), &all, runs) == 0)
        return runs;
    free(runs);
    return NULL;
}

/* How often the scheduler's programs have run since the last time, on the CPU where they ran most. */
static uint64_t take_most_runs(struct kernel_side *kernel)
{
    int processors;
    uint64_t most = 0;
    _cleanup_(freep) struct sonde_kernel_runs *runs = read_runs(kernel, &processors);
    if (runs && !kernel->runs_before)
        kernel->runs_before = calloc((size_t)processors, sizeof(*kernel->runs_before));
    for (int i = 0; runs && kernel->runs_before && i < processors; i++) {
        uint64_t count = runs[i].of[SONDE_FAMILY_sched].count;
        most = MAX(most, count - kernel->runs_before[i]);
        kernel->runs_before[i] = count;
    }
    return most;
}

/* Who ends waits is found out while it is of interest. What cannot be attached is not tried at once again. */
static void follow_wakers(struct kernel_side *kernel, uint64_t now_ns)
{
    enum { LOOK_NS = NS_PER_S / 2 };
    struct activity_bpf__bss *shared = kernel->bpf->bss;
    if (!is_attached(kernel, SCHED))
        return;
    if (now_ns - kernel->runs_looked_ns >= LOOK_NS) {
        uint64_t runs = take_most_runs(kernel), passed_ns = now_ns - kernel->runs_looked_ns;
        if (kernel->runs_looked_ns)
            kernel_wakers_cost(&kernel->wakers, runs, passed_ns, kernel->follows_wakers);
        kernel->runs_looked_ns = now_ns;
    }
    uint64_t waited_ns =
        shared->lock_waited_ns ? __atomic_exchange_n(&shared->lock_waited_ns, 0, __ATOMIC_RELAXED) : 0;
    bool follow = kernel_wakers_look(&kernel->wakers, (const volatile uint64_t *)shared->lock_since_ns,
                                     waited_ns, now_ns);
    if (follow == kernel->follows_wakers)
        return;
    kernel->follows_wakers = follow;
    (void)attach(kernel, shared->families);
}

unsigned kernel_drain(struct kernel_side *kernel, struct ctf_stream *stream, bool final)
{
    uint64_t drained_ns = clock_monotonic_ns();
    if (!final)
        follow_wakers(kernel, drained_ns);
    (void)ring_buffer__consume(kernel->reader);
    uint64_t until_ns = final ? UINT64_MAX : kernel_order_watermark(&kernel->order, drained_ns);
    kernel_order_begin(&kernel->order);
    for (const struct kernel_record *r; (r = kernel_order_take(&kernel->order, until_ns));)
        ctf_stream_write(stream, (enum sonde_event_id)r->head.event, r->head.end_ns, r->head.duration_ns,
                         &r->body, NULL);
    kernel_order_end(&kernel->order);
    if (final)
        kernel->missed_next_ns = 0; /* asked once more */
    return take_fullness(kernel);
}

void kernel_tell_unfinished(struct kernel_side *kernel)
{
    iterate(kernel->bpf->links.tell_unfinished);
}

/* ---- losses and costs ---- */

/* A system call for each program: most of what an idle recording would ask of the kernel. */
static uint64_t missed_runs(struct kernel_side *kernel)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (now_ns >= kernel->missed_next_ns) {
        kernel->missed = bpf_missed_runs(kernel->bpf->obj);
        kernel->missed_next_ns = now_ns + MISSED_GAP_NS;
    }
    return kernel->missed;
}

void kernel_losses(struct kernel_side *kernel, uint64_t ret_counts[static SONDE_KERNEL_COUNTS])
{
    int processors = libbpf_num_possible_cpus();
    memset(ret_counts, 0, SONDE_KERNEL_COUNTS * sizeof(*ret_counts));
    const uint32_t all = 0;
    struct sonde_kernel_counts *parts = processors > 0 ? calloc((size_t)processors, sizeof(*parts)) : NULL;
    if (parts && bpf_map_lookup_elem(bpf_map__fd(kernel->bpf->maps.counts), &all, parts) == 0)
        for (uint32_t i = 0; i < SONDE_KERNEL_COUNTS; i++)
            for (int k = 0; k < processors; k++)
                ret_counts[i] += parts[k].of[i];
    free(parts);
    ret_counts[SONDE_COUNT_MISSED_RUNS] += missed_runs(kernel);
}

uint32_t kernel_families(const struct kernel_side *kernel)
{
    return kernel->bpf->bss->families;
}

uint32_t kernel_switch(struct kernel_side *kernel, uint32_t families)
{
    uint32_t before = kernel->bpf->bss->families;
    families &= kernel->loaded;
    if (attach(kernel, families) < 0)
        (void)attach(kernel, families & before); /* those can stay */
    return kernel->bpf->bss->families;
}

void kernel_stop(struct kernel_side *kernel)
{
    kernel_switch(kernel, 0);
    bpf_link__destroy(kernel->bpf->links.on_fork);
    bpf_link__destroy(kernel->bpf->links.on_free);
    kernel->bpf->links.on_fork = kernel->bpf->links.on_free = NULL;
}

/* What a run takes before and behind the part that is timed, in which the clock is read once: the way in and
 * out of a program, and the count. Measured here, rounded. */
enum { AROUND_RUN_NS = 20 };

void kernel_cost(const struct kernel_side *kernel, struct kernel_cost *ret_cost)
{
    struct kernel_cost cost = {.memory_bytes = kernel->ring_bytes * kernel->ring_count +
                                               kernel_order_bytes(&kernel->order),
                               .ring_bytes = kernel->ring_bytes,
                               .fullest = kernel->fullest};
    memcpy(cost.events, kernel->events, sizeof(cost.events));
    int processors;
    struct sonde_kernel_runs *parts = read_runs(kernel, &processors);
    for (uint32_t i = 0; parts && i < SONDE_FAMILY_COUNT; i++)
        for (int k = 0; k < processors; k++) {
            cost.runs[i] += parts[k].of[i].count;
            cost.run_ns[i] +=
                parts[k].of[i].timed_ns * SONDE_TIMED_RUNS + parts[k].of[i].count * AROUND_RUN_NS;
        }
    free(parts);
    *ret_cost = cost;
}
