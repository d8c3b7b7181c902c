/* See kernel.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "activity.skel.h"
#include "base/array.h"
#include "base/clock.h"

#include <asm/unistd.h>

/* A processor that was stopped between reading the clock and taking its place in the ring is waited for so
 * long. */
#define SETTLE_NS (2 * NS_PER_MS)

/* Any record of the ring. */
struct pending {
    struct sonde_kernel_record head;
    union {
        struct record_sys_call sys_call;
        struct record_sched_switch sched_switch;
        struct record_sched_wakeup sched_wakeup;
        struct record_tcp_connect tcp;
        struct record_block_io block_io;
    } body;
};

struct program_cost {
    uint64_t before_ns, run_ns; /* when the window began; in all windows */
};

enum { PROGRAMS_MAX = 16 };

struct kernel_side {
    struct activity_bpf *bpf;
    struct ring_buffer *ring;
    ARRAY(struct pending) pending; /* in order of time */
    size_t first;
    uint64_t events[SONDE_FAMILY_COUNT];
    uint64_t unread; /* records that no memory was there for */
    int stats_fd;    /* while the kernel measures */
    uint64_t window_ns, watched_ns;
    struct program_cost costs[PROGRAMS_MAX];
};

/* ---- families ---- */

static const struct {
    const char *name;
    bool on;
} FAMILIES[] = {
#define F(ident, name, on, text) {name, on},
    SONDE_FAMILIES(F)
#undef F
};

uint32_t kernel_default_families(void)
{
    uint32_t families = 0;
    for (size_t i = 0; i < ARRAY_SIZE(FAMILIES); i++)
        families |= (uint32_t)FAMILIES[i].on << i;
    return families;
}

const char *kernel_family_name(enum sonde_family family)
{
    return FAMILIES[family].name;
}

int kernel_parse_families(const char *list, uint32_t *ret_families, struct problem *problem)
{
    uint32_t families = 0;
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < ARRAY_SIZE(FAMILIES) &&
               (strlen(FAMILIES[i].name) != length || strncmp(FAMILIES[i].name, at, length) != 0))
            i++;
        if (length == 3 && strncmp(at, "all", 3) == 0)
            families |= (1u << SONDE_FAMILY_COUNT) - 1;
        else if (i < ARRAY_SIZE(FAMILIES))
            families |= 1u << i;
        else
            return problem_set(problem, -EINVAL,
                               "'%.*s' is no family of kernel events; they are sys, sched, wakeup, tcp, "
                               "block, or all",
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
        return SONDE_FAMILY_sched;
    case SONDE_EVENT_sched_wakeup:
        return SONDE_FAMILY_wakeup;
    case SONDE_EVENT_block_io:
        return SONDE_FAMILY_block;
    default:
        return SONDE_FAMILY_tcp;
    }
}

/* ---- the table of calls ---- */

static const uint16_t RECEIVES[] = {__NR_read, __NR_readv, __NR_recvfrom, __NR_recvmsg};
static const uint16_t SENDS[] = {__NR_write, __NR_writev, __NR_sendto, __NR_sendmsg, __NR_sendfile};
static const uint16_t ACCEPTS[] = {__NR_accept, __NR_accept4};
static const uint16_t ABOUT_FD[] = {__NR_sendmmsg,
                                    __NR_recvmmsg,
                                    __NR_close,
                                    __NR_fstat,
                                    __NR_lseek,
                                    __NR_ioctl,
                                    __NR_pread64,
                                    __NR_pwrite64,
                                    __NR_preadv,
                                    __NR_pwritev,
                                    __NR_preadv2,
                                    __NR_pwritev2,
                                    __NR_dup,
                                    __NR_dup2,
                                    __NR_dup3,
                                    __NR_connect,
                                    __NR_shutdown,
                                    __NR_bind,
                                    __NR_listen,
                                    __NR_getsockname,
                                    __NR_getpeername,
                                    __NR_setsockopt,
                                    __NR_getsockopt,
                                    __NR_fcntl,
                                    __NR_flock,
                                    __NR_fsync,
                                    __NR_fdatasync,
                                    __NR_ftruncate,
                                    __NR_fallocate,
                                    __NR_getdents,
                                    __NR_getdents64,
                                    __NR_fchdir,
                                    __NR_fchmod,
                                    __NR_fchown,
                                    __NR_fstatfs,
                                    __NR_fadvise64,
                                    __NR_readahead,
                                    __NR_sync_file_range,
                                    __NR_syncfs,
                                    __NR_epoll_wait,
                                    __NR_epoll_pwait,
                                    __NR_epoll_pwait2,
                                    __NR_epoll_ctl,
                                    __NR_splice,
                                    __NR_tee,
                                    __NR_vmsplice,
                                    __NR_copy_file_range,
                                    __NR_fsetxattr,
                                    __NR_fgetxattr,
                                    __NR_flistxattr,
                                    __NR_fremovexattr,
                                    __NR_signalfd4,
                                    __NR_timerfd_settime,
                                    __NR_timerfd_gettime,
                                    __NR_inotify_add_watch,
                                    __NR_inotify_rm_watch,
                                    __NR_io_uring_enter,
                                    __NR_io_uring_register};
static const uint16_t WAKES[] = {__NR_futex, __NR_kill,       __NR_tkill, __NR_tgkill,
                                 __NR_exit,  __NR_exit_group, __NR_clone};

static void set_kinds(uint8_t kinds[static SONDE_SYSCALLS], const uint16_t *calls, size_t count, uint8_t kind)
{
    for (size_t i = 0; i < count; i++)
        kinds[calls[i]] |= kind;
}

static void fill_call_kinds(uint8_t kinds[static SONDE_SYSCALLS])
{
    set_kinds(kinds, RECEIVES, ARRAY_SIZE(RECEIVES), SONDE_CALL_FD | SONDE_CALL_RECEIVE);
    set_kinds(kinds, SENDS, ARRAY_SIZE(SENDS), SONDE_CALL_FD | SONDE_CALL_SEND);
    set_kinds(kinds, ACCEPTS, ARRAY_SIZE(ACCEPTS), SONDE_CALL_FD | SONDE_CALL_ACCEPT);
    set_kinds(kinds, ABOUT_FD, ARRAY_SIZE(ABOUT_FD), SONDE_CALL_FD);
    set_kinds(kinds, WAKES, ARRAY_SIZE(WAKES), SONDE_CALL_WAKES);
    kinds[__NR_mmap] = SONDE_CALL_FD_5;
}

/* ---- loading ---- */

/* Kernels differ: what is tried, best first. */
struct variant {
    bool counted;    /* interrupts can be told from threads by the kernel's own count */
    bool with_state; /* sched_switch tells the state of the thread that leaves (Linux 5.18) */
};

static uint32_t own_namespace(void)
{
    enum { FIRST_NAMESPACE = 0xEFFFFFFC };
    struct stat st;
    if (stat("/proc/self/ns/pid", &st) < 0 || st.st_ino == FIRST_NAMESPACE)
        return 0;
    return (uint32_t)st.st_ino;
}

static int load(uint32_t families, const struct variant *variant, struct activity_bpf **ret_bpf)
{
    struct activity_bpf *bpf = activity_bpf__open();
    if (!bpf)
        return -errno;
    bool sched = families & 1u << SONDE_FAMILY_sched, tcp = families & 1u << SONDE_FAMILY_tcp;
    bool block = families & 1u << SONDE_FAMILY_block;
    bool calls = tcp || (families & 1u << SONDE_FAMILY_sys);
    bool waking = sched || (families & 1u << SONDE_FAMILY_wakeup);
    fill_call_kinds((uint8_t *)bpf->rodata->call_kinds);
    bpf->rodata->pid_namespace = own_namespace();
    bpf->bss->families = families;
    bpf_program__set_autoload(bpf->progs.on_enter, calls);
    bpf_program__set_autoload(bpf->progs.on_exit, calls);
    bpf_program__set_autoload(bpf->progs.on_thread_end, calls);
    bpf_program__set_autoload(bpf->progs.on_switch, sched && variant->with_state);
    bpf_program__set_autoload(bpf->progs.on_switch_without_state, sched && !variant->with_state);
    bpf_program__set_autoload(bpf->progs.on_wakeup, sched);
    bpf_program__set_autoload(bpf->progs.on_waking, waking && variant->counted);
    bpf_program__set_autoload(bpf->progs.on_waking_uncounted, waking && !variant->counted);
    bpf_program__set_autoload(bpf->progs.on_tcp_state, tcp);
    bpf_program__set_autoload(bpf->progs.on_issue, block);
    bpf_program__set_autoload(bpf->progs.on_complete, block);
    int r = activity_bpf__load(bpf);
    if (r < 0) {
        activity_bpf__destroy(bpf);
        return r;
    }
    *ret_bpf = bpf;
    return 0;
}

static int load_any(uint32_t families, struct activity_bpf **ret_bpf)
{
    static const struct variant VARIANTS[] = {{true, true}, {false, true}, {true, false}, {false, false}};
    int r = -ENOTSUP;
    for (size_t i = 0; i < ARRAY_SIZE(VARIANTS); i++) {
        r = load(families, &VARIANTS[i], ret_bpf);
        if (r >= 0 || r == -EPERM)
            return r;
    }
    return r;
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

static int on_record(void *context, void *data, size_t size);

int kernel_new(uint32_t families, struct kernel_side **ret_kernel, struct problem *problem)
{
    _cleanup_(kernel_freep) struct kernel_side *kernel = calloc(1, sizeof(*kernel));
    if (!kernel)
        return -ENOMEM;
    kernel->stats_fd = -1;
    libbpf_print_fn_t printer = libbpf_set_print(NULL);
    int r = load_any(families, &kernel->bpf);
    if (r >= 0)
        r = activity_bpf__attach(kernel->bpf);
    libbpf_set_print(printer);
    if (r < 0)
        return explain(r, problem);
    kernel->ring = ring_buffer__new(bpf_map__fd(kernel->bpf->maps.events), on_record, kernel, NULL);
    if (!kernel->ring)
        return problem_set(problem, -errno, "the kernel's ring buffer cannot be mapped: %s", strerror(errno));
    *ret_kernel = kernel;
    kernel = NULL;
    return 0;
}

void kernel_free(struct kernel_side *kernel)
{
    if (!kernel)
        return;
    if (kernel->stats_fd >= 0)
        close(kernel->stats_fd);
    ring_buffer__free(kernel->ring);
    activity_bpf__destroy(kernel->bpf);
    array_done(&kernel->pending);
    free(kernel);
}

/* Runs an iterating program over all threads. */
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

void kernel_add(struct kernel_side *kernel, pid_t pid)
{
    uint32_t key = (uint32_t)pid, one = 1;
    (void)bpf_map_update_elem(bpf_map__fd(kernel->bpf->maps.targets), &key, &one, BPF_ANY);
    iterate(kernel->bpf->links.adopt);
}

void kernel_remove(struct kernel_side *kernel, pid_t pid)
{
    uint32_t key = (uint32_t)pid;
    (void)bpf_map_delete_elem(bpf_map__fd(kernel->bpf->maps.targets), &key);
}

/* ---- records ---- */

/* Nearly in order as they come: one that is late moves forward past few. */
static int on_record(void *context, void *data, size_t size)
{
    struct kernel_side *kernel = context;
    struct pending new = {0};
    memcpy(&new, data, MIN(size, sizeof(new)));
    if (new.head.event >= SONDE_EVENT_COUNT || size < sizeof(new.head)) {
        kernel->unread++;
        return 0;
    }
    kernel->events[family_of(new.head.event)]++;
    if (array_add(&kernel->pending, new) < 0) {
        kernel->unread++;
        return 0;
    }
    struct pending *at = &kernel->pending.at[kernel->pending.count - 1];
    const struct pending *first = kernel->pending.at + kernel->first;
    for (; at > first && at[-1].head.end_ns > new.head.end_ns; at--)
        *at = at[-1];
    *at = new;
    return 0;
}

static unsigned fullness(const struct kernel_side *kernel, size_t taken)
{
    uint64_t bytes = bpf_map__max_entries(kernel->bpf->maps.events);
    return (unsigned)MIN(taken * (sizeof(struct pending) + 8) * 256 / bytes, 256ull);
}

unsigned kernel_drain(struct kernel_side *kernel, struct ctf_stream *stream, bool final)
{
    uint64_t settled_ns = clock_monotonic_ns() - SETTLE_NS;
    size_t before = kernel->pending.count;
    (void)ring_buffer__consume(kernel->ring);
    size_t taken = kernel->pending.count - before;
    while (kernel->first < kernel->pending.count) {
        const struct pending *p = &kernel->pending.at[kernel->first];
        if (p->head.end_ns > settled_ns && !final)
            break;
        ctf_stream_write(stream, (enum sonde_event_id)p->head.event, p->head.end_ns, p->head.duration_ns,
                         &p->body, NULL);
        kernel->first++;
    }
    size_t left = kernel->pending.count - kernel->first;
    if (kernel->first > left) { /* moved seldom, and few */
        memmove(kernel->pending.at, kernel->pending.at + kernel->first, left * sizeof(struct pending));
        kernel->pending.count = left;
        kernel->first = 0;
    }
    return fullness(kernel, taken);
}

void kernel_tell_unfinished(struct kernel_side *kernel)
{
    iterate(kernel->bpf->links.tell_unfinished);
}

/* ---- losses and costs ---- */

void kernel_losses(const struct kernel_side *kernel, uint64_t ret_counts[static SONDE_KERNEL_COUNTS])
{
    int processors = libbpf_num_possible_cpus();
    memset(ret_counts, 0, SONDE_KERNEL_COUNTS * sizeof(*ret_counts));
    uint64_t *parts = processors > 0 ? calloc((size_t)processors, sizeof(*parts)) : NULL;
    for (uint32_t i = 0; parts && i < SONDE_KERNEL_COUNTS; i++) {
        if (bpf_map_lookup_elem(bpf_map__fd(kernel->bpf->maps.counts), &i, parts) < 0)
            continue;
        for (int k = 0; k < processors; k++)
            ret_counts[i] += parts[k];
    }
    free(parts);
}

uint32_t kernel_families(const struct kernel_side *kernel)
{
    return kernel->bpf->bss->families;
}

static void unlink_program(struct bpf_link **link)
{
    bpf_link__destroy(*link);
    *link = NULL;
}

void kernel_drop(struct kernel_side *kernel, enum sonde_family family)
{
    struct activity_bpf *bpf = kernel->bpf;
    uint32_t left = bpf->bss->families & ~(1u << family);
    bpf->bss->families = left;
    if (!(left & 1u << SONDE_FAMILY_sched)) {
        unlink_program(&bpf->links.on_switch);
        unlink_program(&bpf->links.on_switch_without_state);
        unlink_program(&bpf->links.on_wakeup);
        if (!(left & 1u << SONDE_FAMILY_wakeup)) {
            unlink_program(&bpf->links.on_waking);
            unlink_program(&bpf->links.on_waking_uncounted);
        }
    }
    if (!(left & 1u << SONDE_FAMILY_tcp))
        unlink_program(&bpf->links.on_tcp_state);
    if (!(left & 1u << SONDE_FAMILY_block)) {
        unlink_program(&bpf->links.on_issue);
        unlink_program(&bpf->links.on_complete);
    }
    if (!(left & (1u << SONDE_FAMILY_sys | 1u << SONDE_FAMILY_tcp))) {
        unlink_program(&bpf->links.on_enter);
        unlink_program(&bpf->links.on_exit);
        unlink_program(&bpf->links.on_thread_end);
    }
    if (!left)
        unlink_program(&bpf->links.on_fork);
}

/* Whose cost a program is: what every family needs counts as sys. */
static enum sonde_family program_family(const char *name)
{
    static const struct {
        const char *begins;
        enum sonde_family family;
    } BEGINS[] = {{"on_switch", SONDE_FAMILY_sched},
                  {"on_wak", SONDE_FAMILY_sched},
                  {"on_tcp", SONDE_FAMILY_tcp},
                  {"on_issue", SONDE_FAMILY_block},
                  {"on_complete", SONDE_FAMILY_block}};
    for (size_t i = 0; i < ARRAY_SIZE(BEGINS); i++)
        if (strncmp(name, BEGINS[i].begins, strlen(BEGINS[i].begins)) == 0)
            return BEGINS[i].family;
    return SONDE_FAMILY_sys;
}

static uint64_t program_run_ns(const struct bpf_program *program)
{
    struct bpf_prog_info info = {0};
    uint32_t size = sizeof(info);
    int fd = bpf_program__fd(program);
    return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0 ? info.run_time_ns : 0;
}

/* The kernel's measuring costs two readings of a clock at each run of a program, so it is on for a small part
 * of the time. */
enum { WINDOW_MS = 20, PERIOD_MS = 500 };

void kernel_measure(struct kernel_side *kernel, uint64_t now_ns)
{
    bool open = kernel->stats_fd >= 0;
    if (now_ns - kernel->window_ns < (open ? WINDOW_MS : PERIOD_MS) * NS_PER_MS || !kernel_families(kernel))
        return;
    if (!open) {
        kernel->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
        kernel->window_ns = now_ns;
        if (kernel->stats_fd < 0)
            return; /* CAP_SYS_ADMIN is not ours: the cost is estimated */
    }
    struct bpf_program *program;
    size_t i = 0;
    bpf_object__for_each_program(program, kernel->bpf->obj)
    {
        if (i == PROGRAMS_MAX)
            break;
        struct program_cost *cost = &kernel->costs[i++];
        uint64_t run_ns = program_run_ns(program);
        if (open)
            cost->run_ns += run_ns - MIN(run_ns, cost->before_ns);
        cost->before_ns = run_ns;
    }
    if (!open)
        return;
    close(kernel->stats_fd);
    kernel->stats_fd = -1;
    kernel->watched_ns += now_ns - kernel->window_ns;
    kernel->window_ns = now_ns;
}

void kernel_cost(const struct kernel_side *kernel, struct kernel_cost *ret_cost)
{
    struct kernel_cost cost = {.watched_ns = kernel->watched_ns,
                               .memory_bytes = bpf_map__max_entries(kernel->bpf->maps.events) +
                                               kernel->pending.capacity * sizeof(struct pending)};
    memcpy(cost.events, kernel->events, sizeof(cost.events));
    struct bpf_program *program;
    size_t i = 0;
    bpf_object__for_each_program(program, kernel->bpf->obj)
    {
        if (i < PROGRAMS_MAX)
            cost.run_ns[program_family(bpf_program__name(program))] += kernel->costs[i++].run_ns;
    }
    *ret_cost = cost;
}
