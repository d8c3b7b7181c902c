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

/* The offsets that targets ask for, all numbered: SONDE_OFFSET_redis_conn_fd. What OFFSET(target, name, text)
 * lists is in src/targets/NAME/config.h. */
enum {
#define O(target, name, text) SONDE_OFFSET_##target##_##name,
    SONDE_TARGET_OFFSETS(O)
#undef O
        SONDE_OFFSETS
};
_Static_assert(SONDE_OFFSETS <= 32, "a bit for each (fields_dropped in ring.h)");

/* OFFSET(name, text): byte offsets in V8's heap objects, tagged pointers already subtracted (-1). */
#define SONDE_V8_OFFSETS(O)                   \
    O(map_instance_type, "Map.instance_type") \
    O(string_length, "String.length")         \
    O(string_chars, "SeqOneByteString.chars")

/* The names of the JavaScript functions that calls are to be seen of, each on a line; all together. */
enum { SONDE_FUNCTIONS_BYTES = 512 };

/* How it is found out which request an operation belongs to. */
enum sonde_context {
    SONDE_CONTEXT_OFF,     /* not at all: asynchronous resources are not recorded */
    SONDE_CONTEXT_BOUNDED, /* from asynchronous ids alone */
    SONDE_CONTEXT_NATIVE,  /* where Node (AsyncContextFrame) or V8 carries them itself */
    SONDE_CONTEXT_SCRIPT,  /* by the script, wherever it runs */
    SONDE_CONTEXT_AUTO,    /* as NATIVE, and by the script where that does not do */
};

/* F(field, symbol): functions of V8 and Node by which the probe runs its script. A C++ symbol names its
 * arguments; results are void or one pointer (v8::Local, v8::MaybeLocal). */
#define SONDE_SCRIPT_FUNCTIONS(F)                                                                          \
    F(isolate, "_ZN2v87Isolate13TryGetCurrentEv")                                                          \
    F(context, "_ZN2v87Isolate17GetCurrentContextEv")                                                      \
    F(handle_scope, "_ZN2v811HandleScopeC1EPNS_7IsolateE")                                                 \
    F(handle_scope_end, "_ZN2v811HandleScopeD1Ev")                                                         \
    F(try_catch, "_ZN2v88TryCatchC1EPNS_7IsolateE")                                                        \
    F(try_catch_end, "_ZN2v88TryCatchD1Ev")                                                                \
    F(terminated, "_ZNK2v88TryCatch13HasTerminatedEv")                                                     \
    F(terminate, "_ZN2v87Isolate18TerminateExecutionEv")                                                   \
    F(string, "_ZN2v86String11NewFromUtf8EPNS_7IsolateEPKcNS_13NewStringTypeEi")                           \
    F(compile, "_ZN2v86Script7CompileENS_5LocalINS_7ContextEEENS1_INS_6StringEEEPNS_12ScriptOriginE")      \
    F(run, "_ZN2v86Script3RunENS_5LocalINS_7ContextEEE")                                                   \
    F(call, "_ZN2v88Function4CallENS_5LocalINS_7ContextEEENS1_INS_5ValueEEEiPS5_")                         \
    F(function, "_ZN2v88Function3NewENS_5LocalINS_7ContextEEEPFvRKNS_20FunctionCallbackInfoINS_5ValueEEEE" \
                "NS1_IS5_EEiNS_19ConstructorBehaviorENS_14SideEffectTypeE")                                \
    F(buffer, "_ZN4node6Buffer3NewEPN2v87IsolateEPcmPFvS4_PvES5_")

enum { SONDE_OWN_WORDS = 8 };

struct sonde_config {
    uint32_t version; /* SONDE_SHARED_VERSION */
    uint32_t size;    /* sizeof(struct sonde_config) as sonde knows it */
    /* What a target's config.h asks for, by its name: config.redis.conn_fd */
#define O(target, name, text) int32_t name;
#define T(target)                 \
    struct {                      \
        SONDE_OFFSETS_##target(O) \
    } target;
    SONDE_TARGETS_WITH_OFFSETS(T)
#undef T
#undef O
#define O(name, text) int32_t name;
    struct {
        SONDE_V8_OFFSETS(O)
    } v8;
#undef O
    int32_t callback_scope_context; /* of async_context_ in node::InternalCallbackScope */
    uint32_t string_type_mask;      /* instance_type & mask == value for flat one-byte strings */
    uint32_t string_type_value;
    uint32_t not_string_mask; /* instance_type & mask == 0 for any string; 0 unknown */
    int32_t port_handle;      /* of async_ in node::worker::MessagePort */
    int32_t llhttp_status;    /* of status_code in llhttp_t, where its accessor is not there */
    uint32_t context;         /* enum sonde_context */
    uint32_t globalize_value; /* 1 when globalize takes the object itself, 0 when it takes a slot */
    /* Addresses of functions of the program, 0 when absent. */
    uint64_t zmalloc_used_memory; /* size_t (void) */
    uint64_t ssl_pending;         /* int (SSL *) */
    uint64_t ssl_get_rfd;         /* int (SSL *) */
    uint64_t llhttp_get_method;   /* returns uint8_t or int, (llhttp_t *) */
    uint64_t llhttp_get_type;     /* returns uint8_t or int, (llhttp_t *) */
    uint64_t llhttp_get_status;   /* int (llhttp_t *) */
    uint64_t h2_rcbuf;            /* nghttp2_vec (nghttp2_rcbuf *) */
    uint64_t uv_fs_work;          /* to tell what a submitted request is */
    uint64_t uv_queue_work;
    uint64_t uv_getaddrinfo_work;
    uint64_t uv_getnameinfo_work;
    uint64_t v8_heap_size;                 /* size_t (v8::internal::Heap *) */
    uint64_t globalize;                    /* v8::api_internal::GlobalizeReference(Isolate *, ...) */
    uint64_t promise_has_handler;          /* bool (v8::Promise *) */
    char functions[SONDE_FUNCTIONS_BYTES]; /* empty: none; ends with NUL when it is not full */
#define F(field, symbol) uint64_t field;
    struct {
        SONDE_SCRIPT_FUNCTIONS(F)
    } script;
#undef F
    /* Addresses, offsets or numbers for the hooks of a target that has its own (src/targets/NAME/probe.c). */
    uint64_t own[SONDE_OWN_WORDS];
    /* The value that V8 carries over promises; all 0 where one of them is absent. */
    struct {
        uint64_t get, set;        /* of a v8::Context (to V8 11), of a v8::Isolate (from 12 on) */
        uint64_t of_context;      /* the former */
        uint64_t execution_id;    /* double node::AsyncHooksGetExecutionAsyncId(Isolate *) */
        uint64_t execution_field; /* where a node::Environment has a pointer to that number; 0: unknown */
    } carried;
};

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
