/* Reading a CTF trace: events per second on one core against babeltrace2 (dummy sink) in the same run, the
 * cost from 2 to 1,000 streams, and memory against the length of the trace.
 *
 *     trace_read [--events N] [--runs N] [--babeltrace-streams N]
 *     trace_read --write FOLDER [--streams N] [--events N]     only writes such a trace
 *
 * The trace is written here, with the layout of LTTng's kernel tracer (compact headers of 5 + 27 bits,
 * packets of 256 KiB at most, five event classes with integers, texts and strings). Every figure is of a
 * child process of its own: median and range over the runs, in CPU time for one thread (so that other work on
 * the machine does not count), in elapsed time for several. The numbers of streams take turns, and what more
 * streams cost is the median of the ratios to the run with 2 streams just before, so that a machine that gets
 * slower meanwhile does not count. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "trace/trace.h"

static const char METADATA[] =
    "/* CTF 1.8 */\n"
    "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
    "typealias integer { size = 5; align = 1; signed = false; } := uint5_t;\n"
    "trace { major = 1; minor = 8; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\"; byte_order = le;\n"
    "  packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; }; };\n"
    "env { hostname = \"bench\"; domain = \"kernel\"; tracer_name = \"lttng-modules\"; tracer_major = 2; "
    "tracer_minor = 12;"
    " };\n"
    "clock { name = monotonic; freq = 1000000000; offset = 1457111225177515989; };\n"
    "typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := stamp27_t;\n"
    "typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := stamp_t;\n"
    "stream { id = 0; packet.context := struct { stamp_t timestamp_begin; stamp_t timestamp_end; uint64_t "
    "content_size;\n"
    "    uint64_t packet_size; uint64_t events_discarded; uint32_t cpu_id; };\n"
    "  event.header := struct { enum : uint5_t { compact = 0 ... 30, extended = 31 } id; variant <id> {\n"
    "    struct { stamp27_t timestamp; } compact; struct { uint32_t id; stamp_t timestamp; } extended; } v; "
    "} align(8); };\n"
    "event { name = \"sched_switch\"; id = 0; stream_id = 0; fields := struct {\n"
    "  integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _prev_comm[16];\n"
    "  integer { size = 32; align = 8; signed = 1; } _prev_tid; integer { size = 32; align = 8; signed = 1; "
    "} _prev_prio;\n"
    "  integer { size = 64; align = 8; signed = 1; } _prev_state;\n"
    "  integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _next_comm[16];\n"
    "  integer { size = 32; align = 8; signed = 1; } _next_tid; integer { size = 32; align = 8; signed = 1; "
    "} _next_prio;\n"
    "}; };\n"
    "event { name = \"syscall_entry_read\"; id = 1; stream_id = 0; fields := struct { uint32_t _fd; uint64_t "
    "_count; }; };\n"
    "event { name = \"syscall_exit_read\"; id = 2; stream_id = 0; fields := struct {\n"
    "  integer { size = 64; align = 8; signed = 1; } _ret; uint64_t _buf; }; };\n"
    "event { name = \"timer_start\"; id = 3; stream_id = 0; fields := struct { uint64_t _timer; uint64_t "
    "_function;\n"
    "  uint64_t _expires; uint64_t _now; uint32_t _flags; }; };\n"
    "event { name = \"syscall_entry_open\"; id = 4; stream_id = 0; fields := struct { string _filename; "
    "uint32_t _flags; };"
    " };\n";

enum { HEADER = 24 + 44, PACKET = 256 << 10 };

struct writer {
    FILE *file;
    uint8_t *at, packet[PACKET];
    uint64_t begin, now;
    uint32_t cpu;
};

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static void put(struct writer *w, uint64_t value, unsigned bytes)
{
    memcpy(w->at, &value, bytes);
    w->at += bytes;
}

static void flush(struct writer *w)
{
    static const uint8_t UUID[16] = {0x2a, 0x64, 0x22, 0xd0, 0x6c, 0xee, 0x11, 0xe0,
                                     0x8c, 0x08, 0xcb, 0x07, 0xd7, 0xb3, 0xa5, 0x64};
    uint64_t content = (uint64_t)(w->at - w->packet), packet = (content + 4095) & ~4095ull;
    if (content <= HEADER)
        return;
    memset(w->at, 0, packet - content);
    w->at = w->packet;
    put(w, 0xc1fc1fc1, 4);
    memcpy(w->at, UUID, 16);
    w->at += 16;
    put(w, 0, 4);
    put(w, w->begin, 8);
    put(w, w->now, 8);
    put(w, content * 8, 8);
    put(w, packet * 8, 8);
    put(w, 0, 8);
    put(w, w->cpu, 4);
    if (fwrite(w->packet, 1, packet, w->file) != packet)
        abort();
    w->at = w->packet + HEADER;
}

static void event(struct writer *w, uint64_t now)
{
    static const char *const FILES[] = {"/etc/ld.so.cache", "/proc/self/status",
                                        "/usr/lib/x86_64-linux-gnu/libc.so.6"};
    uint64_t r = next_random();
    if (w->at - w->packet > PACKET - 4096 - 256)
        flush(w);
    if (w->at == w->packet + HEADER)
        w->begin = now;
    uint64_t id = r % 16 < 4 ? 0 : r % 16 < 9 ? 1 : r % 16 < 13 ? 2 : r % 16 < 15 ? 3 : 4;
    if (now - w->now >= 1u << 27 && w->at > w->packet + HEADER) {
        put(w, 31, 1);
        put(w, id, 4);
        put(w, now, 8);
    } else {
        put(w, id | (now & ((1u << 27) - 1)) << 5, 4);
    }
    w->now = now;
    switch (id) {
    case 0:
        memcpy(w->at, "swapper/0\0\0\0\0\0\0\0", 16);
        w->at += 16;
        put(w, r & 0xffff, 4);
        put(w, 20, 4);
        put(w, 0, 8);
        memcpy(w->at, "redis-server\0\0\0\0", 16);
        w->at += 16;
        put(w, r >> 16 & 0xffff, 4);
        put(w, 20, 4);
        break;
    case 1:
        put(w, r >> 8 & 0xff, 4);
        put(w, r >> 16 & 0xffff, 8);
        break;
    case 2:
        put(w, r >> 16 & 0xffff, 8);
        put(w, r, 8);
        break;
    case 3:
        put(w, r, 8);
        put(w, r >> 3, 8);
        put(w, now + 1000, 8);
        put(w, now, 8);
        put(w, 0, 4);
        break;
    default: {
        const char *file = FILES[r >> 8 & 1 ? 0 : r >> 9 & 1 ? 1 : 2];
        size_t n = strlen(file) + 1;
        memcpy(w->at, file, n);
        w->at += n;
        put(w, 0x80000, 4);
    }
    }
}

static void write_trace(const char *folder, unsigned streams, uint64_t events)
{
    char path[512];
    struct writer *w = calloc(streams, sizeof(*w));
    if (!w || (mkdir(folder, 0755) < 0 && errno != EEXIST))
        abort();
    snprintf(path, sizeof(path), "%s/metadata", folder);
    FILE *m = fopen(path, "w");
    fwrite(METADATA, 1, strlen(METADATA), m);
    fclose(m);
    for (unsigned i = 0; i < streams; i++) {
        snprintf(path, sizeof(path), "%s/channel0_%u", folder, i);
        w[i].cpu = i;
        w[i].at = w[i].packet + HEADER;
        w[i].file = fopen(path, "w");
    }
    uint64_t now = 1000000000;
    for (uint64_t n = 0; n < events; n++) {
        now += next_random() % 2000;
        event(&w[next_random() % streams], now);
    }
    for (unsigned i = 0; i < streams; i++) {
        flush(&w[i]);
        fclose(w[i].file);
    }
    free(w);
}

/* What one child process did. */
struct run {
    double seconds;
    uint64_t events;
    long rss_kb;
};

/* Reads the whole trace in this process. */
static uint64_t read_ours(const char *folder, unsigned threads)
{
    struct problem problem;
    struct trace *t;
    const struct event *e;
    struct trace_options options = {.threads = threads};
    uint64_t n = 0, sum = 0;
    if (trace_open(folder, &options, &problem, &t) < 0) {
        fprintf(stderr, "%s\n", problem.what);
        exit(1);
    }
    while (trace_next(t, &e) > 0) {
        n++;
        sum += e->values[0].u ^ e->time_ns;
    }
    trace_close(t);
    return sum == 1 ? 0 : n; /* the sum is used, so that nothing is optimised away */
}

static struct run measure(const char *folder, unsigned threads, const char *peer)
{
    struct run run = {0};
    int fds[2];
    if (pipe(fds) < 0)
        abort();
    uint64_t start = clock_monotonic_ns();
    pid_t pid = fork();
    if (pid == 0) {
        if (peer) {
            int null = open("/dev/null", O_WRONLY);
            dup2(null, 1);
            dup2(null, 2);
            execlp("babeltrace2", "babeltrace2", "--component", "sink.utils.dummy", folder, (char *)NULL);
            _exit(127);
        }
        uint64_t n = read_ours(folder, threads);
        if (write(fds[1], &n, sizeof(n)) != sizeof(n))
            _exit(1);
        _exit(0);
    }
    close(fds[1]);
    if (read(fds[0], &run.events, sizeof(run.events)) < 0)
        abort();
    close(fds[0]);
    struct rusage usage;
    int status;
    wait4(pid, &status, 0, &usage);
    run.seconds = (double)(clock_monotonic_ns() - start) / 1e9;
    if (threads <= 1)
        run.seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                      (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    run.rss_kb = usage.ru_maxrss;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "%s failed\n", peer ? peer : "reading");
        exit(1);
    }
    return run;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_seconds(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

enum { RUNS_MAX = 64 };

/* The median of runs of so many events; prints it with its range. */
static struct run print_median(const char *what, struct run *all, unsigned runs, uint64_t events)
{
    qsort(all, runs, sizeof(*all), by_seconds);
    struct run m = all[runs / 2];
    printf("%-34s %7.2f M events/s (%.2f to %.2f), %4.0f ns an event, %6.1f MB\n", what,
           (double)events / m.seconds / 1e6, (double)events / all[runs - 1].seconds / 1e6,
           (double)events / all[0].seconds / 1e6, m.seconds * 1e9 / (double)events, (double)m.rss_kb / 1000);
    fflush(stdout);
    return m;
}

static struct run median(const char *what, const char *folder, unsigned threads, const char *peer,
                         unsigned runs, uint64_t events)
{
    struct run all[RUNS_MAX];
    for (unsigned i = 0; i < runs; i++)
        all[i] = measure(folder, threads, peer);
    return print_median(what, all, runs, events);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
    return remove(path);
}

static void remove_folder(const char *folder)
{
    if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) < 0)
        fprintf(stderr, "cannot remove %s: %s\n", folder, strerror(errno));
}

int main(int argc, char **argv)
{
    uint64_t events = 4000000, peer_streams = 2;
    unsigned runs = 5, streams = 8;
    const char *write_to = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--events") == 0)
            events = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--runs") == 0)
            runs = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--babeltrace-streams") == 0)
            peer_streams = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--streams") == 0)
            streams = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--write") == 0)
            write_to = argv[i + 1];
    }
    if (write_to) {
        write_trace(write_to, streams, events);
        return 0;
    }
    const char *temporary = getenv("TMPDIR");
    char base[256], folder[300], what[64];
    snprintf(base, sizeof(base), "%s/sonde-bench-XXXXXX", temporary && temporary[0] ? temporary : "/tmp");
    if (!mkdtemp(base)) {
        fprintf(stderr, "cannot create %s: %s\n", base, strerror(errno));
        return 1;
    }
    static const unsigned STREAMS[] = {2, 8, 100, 1000};
    enum { STREAMS_COUNT = sizeof(STREAMS) / sizeof(*STREAMS) };
    static struct run all[STREAMS_COUNT][RUNS_MAX];
    static double ratios[STREAMS_COUNT][RUNS_MAX];
    char folders[STREAMS_COUNT][300];
    runs = runs > RUNS_MAX ? RUNS_MAX : runs ? runs : 1;
    for (size_t i = 0; i < STREAMS_COUNT; i++) {
        snprintf(folders[i], sizeof(folders[i]), "%s/s%u", base, STREAMS[i]);
        write_trace(folders[i], STREAMS[i], events);
        read_ours(folders[i], 0); /* into the page cache */
    }
    for (unsigned r = 0; r < runs; r++)
        for (size_t i = 0; i < STREAMS_COUNT; i++) {
            all[i][r] = measure(folders[i], 0, NULL);
            ratios[i][r] = all[i][r].seconds / all[0][r].seconds;
        }
    for (size_t i = 0; i < STREAMS_COUNT; i++) {
        snprintf(what, sizeof(what), "sonde, %u streams", STREAMS[i]);
        struct run ours = print_median(what, all[i], runs, events);
        qsort(ratios[i], runs, sizeof(double), by_value);
        if (i)
            printf("    cost against 2 streams: %.2f (%.2f to %.2f)\n", ratios[i][runs / 2], ratios[i][0],
                   ratios[i][runs - 1]);
        snprintf(what, sizeof(what), "sonde, %u streams, 2 threads, elapsed", STREAMS[i]);
        median(what, folders[i], 2, NULL, runs, events);
        if (STREAMS[i] == peer_streams) {
            struct run theirs =
                median("babeltrace2, the same", folders[i], 0, "babeltrace2", runs > 3 ? 3 : runs, events);
            printf("    sonde is %.1f times as fast\n", theirs.seconds / ours.seconds);
        }
        remove_folder(folders[i]);
    }
    for (unsigned factor = 1; factor <= 4; factor *= 4) {
        snprintf(folder, sizeof(folder), "%s/length", base);
        write_trace(folder, 8, events / 2 * factor);
        snprintf(what, sizeof(what), "sonde, 8 streams, %" PRIu64 " M events", events / 2 * factor / 1000000);
        median(what, folder, 0, NULL, runs > 3 ? 3 : runs, events / 2 * factor);
        remove_folder(folder);
    }
    rmdir(base);
    return 0;
}
