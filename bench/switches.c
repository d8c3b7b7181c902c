/* What the scheduler's programs cost: two threads of one CPU wake each other in turns, with and without the
 * programs that sonde attaches at the usual level. Prints nanoseconds of a switch with its wakeup.
 *
 *     switches [ROUNDS]      300; needs root
 *
 * The threads have real-time priority for half a millisecond at a time, and the shortest window of each kind
 * counts, so that a busy machine does little harm. Where anybody has bpf_enable_stats on, as profilers may,
 * each run takes two readings of the clock more: that is said. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "activity.skel.h"
#include "base/clock.h"
#include "base/macro.h"
#include "collect/kernel_calls.h"
#include "collect/kernel_clock.h"

enum { TURNS = 100, RING_BYTES = 1 << 18 };
enum { BARE, EMPTY, OTHERS, SWITCHES, WAKEUPS, KINDS };

static int there, back;

static void die(const char *what)
{
    fprintf(stderr, "switches: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void take_cpu(void)
{
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET((int)sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
    struct sched_param first = {.sched_priority = 1};
    if (sched_setaffinity(0, sizeof(last), &last) < 0 || sched_setscheduler(0, SCHED_FIFO, &first) < 0)
        die("a CPU of its own cannot be had");
}

static void *answer(void *none)
{
    take_cpu();
    for (uint64_t n; read(there, &n, sizeof(n)) == sizeof(n);) {
        n = 1;
        if (write(back, &n, sizeof(n)) < 0)
            die("write");
    }
    return none;
}

/* Two switches and two wakeups each. */
static uint64_t turns(unsigned count)
{
    uint64_t start_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < count; i++) {
        uint64_t one = 1;
        if (write(there, &one, sizeof(one)) < 0 || read(back, &one, sizeof(one)) < 0)
            die("the other thread does not answer");
    }
    return clock_monotonic_ns() - start_ns;
}

/* What entering a program takes: one at switches that does nothing. */
static int load_empty(void)
{
    const struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
    int tracepoint = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);
    LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP,
                .attach_btf_id = (uint32_t)tracepoint);
    int program = tracepoint < 0 ? tracepoint
                                 : bpf_prog_load(BPF_PROG_TYPE_TRACING, "empty", "GPL", nothing,
                                                 ARRAY_SIZE(nothing), &options);
    if (program < 0)
        die("the empty program cannot be loaded");
    return program;
}

/* traced: these threads are. */
static struct activity_bpf *load(bool traced)
{
    struct activity_bpf *bpf = activity_bpf__open();
    if (!bpf)
        die("open");
    kernel_call_kinds((uint8_t *)bpf->rodata->call_kinds);
    bpf->rodata->counts_queues = 1;
    bpf->rodata->clocks_agree = kernel_clocks_agree();
    bpf_program__set_autoload(bpf->progs.on_switch_without_state, false);
    bpf_program__set_autoload(bpf->progs.on_wakeup, false);
    bpf_program__set_autoload(bpf->progs.on_waking, false); /* not every kernel has its symbols */
    if (activity_bpf__load(bpf) < 0)
        die("the programs cannot be loaded");
    uint32_t first = 0, pid = (uint32_t)getpid(), one = 1;
    int ring = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, RING_BYTES, NULL);
    if (ring < 0 || bpf_map_update_elem(bpf_map__fd(bpf->maps.rings), &first, &ring, BPF_ANY) < 0 ||
        bpf_map_update_elem(bpf_map__fd(bpf->maps.targets), &pid, &one, BPF_ANY) < 0)
        die("maps");
    struct bpf_link *adopt = traced ? bpf_program__attach(bpf->progs.adopt) : NULL;
    int threads = adopt ? bpf_iter_create(bpf_link__fd(adopt)) : -1;
    char none[64];
    while (threads >= 0 && read(threads, none, sizeof(none)) > 0)
        ;
    bpf->bss->families = 1u << SONDE_FAMILY_sched;
    bpf->bss->brief_ns = SONDE_BRIEF_NS;
    return bpf;
}

static bool is_timed(const struct bpf_program *program)
{
    struct bpf_prog_info info = {0};
    uint32_t size = sizeof(info);
    return bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0 && info.run_cnt;
}

int main(int argc, char **argv)
{
    static const char *const WHAT[KINDS] = {"untraced", "an empty program at switches",
                                            "sonde's, which traces other threads",
                                            "sonde's, which traces these", "and one at wakeups"};
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 300;
    uint64_t least_ns[KINDS];
    pthread_t other;
    there = eventfd(0, 0);
    back = eventfd(0, 0);
    if (there < 0 || back < 0 || pthread_create(&other, NULL, answer, NULL) != 0)
        die("threads");
    struct activity_bpf *bpf = load(true), *others = load(false);
    int empty = load_empty();
    take_cpu();
    memset(least_ns, 0xff, sizeof(least_ns));
    for (unsigned i = 0; i < rounds * KINDS; i++) {
        unsigned kind = i % KINDS;
        struct bpf_program *program = kind == OTHERS ? others->progs.on_switch : bpf->progs.on_switch;
        int at_entry = kind == EMPTY ? bpf_raw_tracepoint_open(NULL, empty) : -1;
        struct bpf_link *switches = kind > EMPTY ? bpf_program__attach(program) : NULL;
        struct bpf_link *wakeups =
            kind == WAKEUPS ? bpf_program__attach(bpf->progs.on_waking_uncounted) : NULL;
        if ((kind == EMPTY) != (at_entry >= 0) || !switches != (kind < OTHERS) ||
            !wakeups != (kind < WAKEUPS))
            die("attach");
        turns(TURNS / 10);
        uint64_t took_ns = turns(TURNS);
        least_ns[kind] = MIN(least_ns[kind], took_ns);
        if (at_entry >= 0)
            close(at_entry);
        bpf_link__destroy(switches);
        bpf_link__destroy(wakeups);
    }
    for (unsigned kind = 0; kind < KINDS; kind++)
        printf("%-36s %7.1f ns  %+7.1f\n", WHAT[kind], (double)least_ns[kind] / TURNS / 2,
               (double)(least_ns[kind] - least_ns[0]) / TURNS / 2);
    if (is_timed(bpf->progs.on_switch))
        puts("bpf_enable_stats is on: each run takes two readings of the clock more.");
    fflush(stdout);
    _exit(0); /* the other thread waits */
}
