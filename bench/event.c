/* What one event costs in the traced program: the probe's wrapper, patched in as src/attach patches, against
 * an LTTng-UST tracepoint with the same fields and against eBPF uprobes, in one run. bench/event.mjs starts
 * the LTTng session and the uprobes around it and reads what it prints.
 *
 *     bench_event KIND...     kinds: sonde, lttng, lttng-span, uprobe, uretprobe
 *
 * prints "KIND round nanoseconds" per call, less the cost of the bare function, kinds taking turns. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "targets/redis/probe.h"
#if HAVE_LTTNG
#include "event_lttng.h"
#endif

enum { RING_BYTES = 512 << 10, ROUNDS = 31 };

/* The function under observation, in copies. subject_sonde is as the patcher leaves a function: a
 * near jump to a thunk, which jumps to the wrapper; the wrapper calls the trampoline, which holds the
 * instructions that the jump replaced. */
void subject_bare(void *client, int flags);
void subject_lttng(void *client, int flags);
void subject_uprobe(void *client, int flags);
void subject_uretprobe(void *client, int flags);
void subject_sonde(void *client, int flags);
void subject_trampoline(void *client, int flags);
uint64_t subject_calls;
void (*subject_wrapper)(void *, int);
__asm__(".text\n"
        ".macro SUBJECT name\n"
        "  .balign 32\n  .globl \\name\n  .type \\name, @function\n"
        "\\name: push %rbp\n  mov %rsp, %rbp\n  push %rbx\n"
        "1: incq subject_calls(%rip)\n  pop %rbx\n  pop %rbp\n  ret\n"
        "  .size \\name, . - \\name\n"
        ".endm\n"
        "SUBJECT subject_bare\n"
        "SUBJECT subject_lttng\n"
        "SUBJECT subject_uprobe\n"
        "SUBJECT subject_uretprobe\n"
        "  .balign 32\n  .globl subject_sonde\n  .type subject_sonde, @function\n"
        "subject_sonde: .byte 0xe9\n  .long thunk - . - 4\n"
        "behind: incq subject_calls(%rip)\n  pop %rbx\n  pop %rbp\n  ret\n"
        "  .size subject_sonde, . - subject_sonde\n"
        "  .balign 32\n"
        "thunk: jmp *subject_wrapper(%rip)\n"
        "  .balign 32\n  .globl subject_trampoline\n"
        "subject_trampoline: push %rbp\n  mov %rsp, %rbp\n  push %rbx\n  jmp behind\n");

extern void (*sonde_orig_redis_command)(void *, int);
extern void sonde_wrap_redis_command(void *, int);

/* A client as Redis has it, as far as the wrapper reads it. */
static struct {
    uint64_t id;
    void *connection, *db, *command;
    int argc;
    uint64_t argument_bytes;
} client;
static struct {
    int fd;
} connection = {7};
static struct {
    int id;
} db;
static struct {
    char *name;
    uint64_t flags;
} command;

static struct probe_thread *prepare_probe(void)
{
    static struct sonde_shared shared;
    static char name[] = "\x18get"; /* an sds: type 0, length 3 */
    command.name = name + 1;
    command.flags = 2;
    client.connection = &connection;
    client.db = &db;
    client.command = &command;
    client.id = 42;
    client.argc = 2;
    client.argument_bytes = 40;
    sonde_config_forget(&sonde_config);
    sonde_config.redis.conn_fd = 0;
    sonde_config.redis.client_id = 0;
    sonde_config.redis.client_conn = (int32_t)((char *)&client.connection - (char *)&client);
    sonde_config.redis.client_db = (int32_t)((char *)&client.db - (char *)&client);
    sonde_config.redis.db_id = 0;
    sonde_config.redis.client_cmd = (int32_t)((char *)&client.command - (char *)&client);
    sonde_config.redis.command_name = 0;
    sonde_config.redis.command_flags = (int32_t)((char *)&command.flags - (char *)&command);
    sonde_config.redis.client_argc = (int32_t)((char *)&client.argc - (char *)&client);
    sonde_config.redis.client_argv_bytes = (int32_t)((char *)&client.argument_bytes - (char *)&client);

    struct probe_thread *self = mmap(NULL, SONDE_PAGE + RING_BYTES, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (self == MAP_FAILED)
        return NULL;
    record_into(&self->shared, (char *)self + SONDE_PAGE, RING_BYTES);
    self->stream_fd = -1;
    probe_self = (struct probe_self){.thread = self, .attachment = 1};
    self->shared.owner = 1;
    probe_live.attachment = probe_live.original = 1;
    probe_shared = &shared;
    redis_checks_left = 0; /* as after the first calls */
    sonde_orig_redis_command = subject_trampoline;
    subject_wrapper = sonde_wrap_redis_command;
    return self;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Nanoseconds per call. The ring is emptied every so often, as a collector would. */
static double measure(void (*subject)(void *, int), unsigned calls, struct probe_thread *drain)
{
    uint64_t start = now_ns();
    for (unsigned i = 0; i < calls; i++) {
        subject(&client, 0);
        if (drain && i % 1024 == 0)
            __atomic_store_n(&drain->shared.tail, drain->shared.head, __ATOMIC_RELEASE);
    }
    return (double)(now_ns() - start) / calls;
}

#if HAVE_LTTNG
/* One tracepoint with the fields that the wrapper records. */
static void call_with_tracepoint(void *c, int flags)
{
    subject_lttng(c, flags);
    lttng_ust_tracepoint(sonde_bench, command, client.id, 1, client.argument_bytes, 3, connection.fd,
                         client.argc, db.id, 1, 0);
}

/* What a span takes there: an event before and one after. */
static void call_between_tracepoints(void *c, int flags)
{
    lttng_ust_tracepoint(sonde_bench, command, client.id, 1, client.argument_bytes, 3, connection.fd,
                         client.argc, db.id, 1, 0);
    subject_lttng(c, flags);
    lttng_ust_tracepoint(sonde_bench, command_end, client.id);
}
#endif

static const struct kind {
    const char *name;
    void (*subject)(void *, int);
    unsigned calls;
} KINDS[] = {
    {"sonde", subject_sonde, 400000},
#if HAVE_LTTNG
    {"lttng", call_with_tracepoint, 200000}, {"lttng-span", call_between_tracepoints, 200000},
#endif
    {"uprobe", subject_uprobe, 50000},       {"uretprobe", subject_uretprobe, 50000},
};

int main(int argc, char **argv)
{
    struct probe_thread *self = prepare_probe();
    if (!self)
        return 1;
    for (int i = 1; i < argc; i++) {
        const struct kind *kind = KINDS;
        while (kind < KINDS + sizeof(KINDS) / sizeof(KINDS[0]) && strcmp(kind->name, argv[i]) != 0)
            kind++;
        if (kind == KINDS + sizeof(KINDS) / sizeof(KINDS[0])) {
            fprintf(stderr, "bench_event: '%s' is not a kind of event, or was not built in\n", argv[i]);
            return 2;
        }
    }
    for (int round = -1; round < ROUNDS; round++) {
        for (int i = 1; i < argc; i++) {
            const struct kind *kind = KINDS;
            while (strcmp(kind->name, argv[i]) != 0)
                kind++;
            double bare = measure(subject_bare, kind->calls, NULL);
            double traced = measure(kind->subject, kind->calls, self);
            if (round >= 0) /* the first warms up */
                printf("%s %d %.2f\n", kind->name, round, traced - bare);
        }
    }
    struct sonde_thread *t = &self->shared;
    if (t->lost_full || t->lost_signal) {
        fprintf(stderr, "bench_event: records were dropped, the figures are too good\n");
        return 1;
    }
    return 0;
}
