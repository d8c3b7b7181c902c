/* What sonde tells the probe about the program it sits in: struct offsets, sizes and addresses, found from
 * outside (src/attach) and written into the probe's memory before any hook is active. And the few words the
 * probe and sonde exchange while a program starts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_CONFIG_H
#define EVENT_CONFIG_H

#include <stdint.h>

#include "event/ring.h"
#include "event/target_config.h"

/* An offset that was not found: the field is not read, and its value in events says "unknown". */
enum { SONDE_NO_OFFSET = -1 };

/* The offsets that targets ask for, all numbered: SONDE_OFFSET_redis_conn_fd. What a target asks for is in
 * src/targets/NAME/config.h: OFFSET(target, name, text), byte offsets in the program's structures;
 * WORD(target, name, text), other numbers; FUNCTION(target, name, text), addresses of functions of the
 * program, 0 when absent. */
enum {
#define O(target, name, text) SONDE_OFFSET_##target##_##name,
    SONDE_TARGET_OFFSETS(O)
#undef O
        SONDE_OFFSETS
};
_Static_assert(SONDE_OFFSETS <= 32, "a bit for each (fields_dropped in ring.h)");

/* The names of the functions that calls are to be seen of, each on a line; all together. */
enum { SONDE_FUNCTIONS_BYTES = 512 };

/* How it is found out which request an operation belongs to. */
enum sonde_context {
    SONDE_CONTEXT_OFF,     /* not at all: asynchronous resources are not recorded */
    SONDE_CONTEXT_BOUNDED, /* from asynchronous ids alone */
    SONDE_CONTEXT_NATIVE,  /* where the runtime carries them itself */
    SONDE_CONTEXT_SCRIPT,  /* by a script of sonde's, wherever it runs */
    SONDE_CONTEXT_AUTO,    /* as NATIVE, and by the script where that does not do */
};

struct sonde_config {
    uint32_t version;    /* SONDE_SHARED_VERSION */
    uint32_t size;       /* sizeof(struct sonde_config) as sonde knows it */
    uint32_t context;    /* enum sonde_context */
    uint32_t statements; /* 1: statements of SQL are recorded, without values */
    /* What a target's config.h asks for, by its name: config.redis.conn_fd. Its offsets begin a cache line.
     */
#define O(target, name, text) int32_t name;
#define W(target, name, text) uint32_t name;
#define A(target, name, text) uint64_t name;
#define T(target)                                                                     \
    struct {                                                                          \
        SONDE_OFFSETS_##target(O) SONDE_WORDS_##target(W) SONDE_FUNCTIONS_##target(A) \
    } target __attribute__((aligned(64)));
    SONDE_TARGETS_WITH_CONFIG(T)
#undef T
#undef A
#undef W
#undef O
    char functions[SONDE_FUNCTIONS_BYTES]; /* empty: none; ends with NUL when it is not full */
};

/* As long as nothing is known of the program. */
static inline void sonde_config_forget(struct sonde_config *config)
{
#define O(target, name, text) config->target.name = SONDE_NO_OFFSET;
    SONDE_TARGET_OFFSETS(O)
#undef O
}

/* Start-up. The probe connects to the SOCK_SEQPACKET socket named by the environment variable below, says
 * hello, and then obeys until told to go on or to give up. */
#define SONDE_SOCKET_VARIABLE "SONDE_SOCKET"

enum sonde_verb {
    SONDE_HELLO = 1, /* probe: a = address of struct sonde_config, b = of the live flag, c = version */
    SONDE_FORKED, /* probe, in a forked child that goes on as a service (a daemon): as hello, but its program
                   * is patched already */
    SONDE_MEMORY, /* sonde: map the b bytes of the memory of ring.h that come with this; the probe answers
                   * with the same verb and a = 0 or a negative errno */
    SONDE_MAP,    /* sonde: map b bytes of executable memory at a; the probe answers with the same verb and
                   * a = the address or a negative errno */
    SONDE_GO,     /* sonde: patched, run */
    SONDE_LEAVE,  /* sonde: not a program for us; forget everything and run */
    SONDE_WAIT,   /* sonde: others are before you; the probe says nothing, and waits on */
};

/* Sonde coming to a program that runs already calls sonde_attach_prepare() of the probe it has loaded, and
 * reads what that returns: the hello, and the process's ends of a pair of sockets. Sonde takes one with
 * pidfd_getfd(2), makes sure that it is what it should be, and sends SONDE_MEMORY over it;
 * sonde_attach_memory() then maps what comes out of the other. Where the pools are that the patches of before
 * left (they are used again): */
enum { SONDE_POOLS = 8 };

struct sonde_pool {
    uint64_t near; /* start of the module it serves */
    uint64_t address, size;
};

/* Which sonde has its hooks in a program; pid 0: none. */
struct sonde_owner {
    uint64_t started_ticks; /* when it was started, as in /proc/PID/stat: process ids are used again */
    uint32_t pid;           /* in its own namespace */
    uint32_t pid_namespace; /* inode of /proc/PID/ns/pid */
};

struct sonde_attached {
    uint64_t config, live; /* as a and b of the hello */
    int64_t error;         /* 0, or why there are no sockets, a negative errno */
    int32_t sockets[2];    /* in the process's descriptor table */
    uint64_t version;
    uint64_t attachment; /* what sonde writes into the live flag, a word of 32 bits, once it has patched */
};

struct sonde_message {
    uint64_t verb;
    uint64_t a, b, c;
};

#endif
