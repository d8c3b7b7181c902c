/* The script that runs in each of Node's threads, and what the probe keeps of such a thread: probe_context.c,
 * which asks the script, and probe_script.c, which starts it and hears what it tells. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_PROBE_SCRIPT_H
#define TARGETS_NODE_PROBE_SCRIPT_H

#include "targets/node/probe_carried.h"

/* v8::Local and v8::MaybeLocal are one pointer to a slot. */
typedef const uint64_t *local;

enum { CURRENT, ENTER, LEAVE, LISTEN, GIVE, NOTHING, REACTION, TAKE }; /* cell[0] */
enum { LATER, NO_MODULES, NATIVE, SCRIPT, NOT_NATIVE, CARRIED };       /* cell[2] */
enum { MAY_BE_SCRIPT = 1, MAY_BE_CARRIED = 2 };                        /* cell[1] when it starts */
enum { SENT = 1, ANSWERED, ENDED, TRACED, CLOCK, MEASURED, TOLD = 0 }; /* cell[3] */
enum { CALL_BEGINS = 7, CALL_ENDS, SETTLED, NAME, CHOSEN, HANDLED };   /* the same: probe_functions.js */
enum { WHOSE = 13 };                                                   /* the same */
enum {
    BEGINS = 11,    /* a request's number, until the script has taken it */
    WANTED = 12,    /* somebody has asked whose an operation is */
    PROMISES = 13,  /* that were made */
    SAMPLED = 14,   /* of those, by one in 128 */
    COLLECTED = 15, /* of the sampled */
    TEXT = 16,      /* a name's bytes */
    CARRIES = 253,  /* V8 carries the number: the script asks the probe */
    SENDING = 254,  /* there: whose the next bytes on a descriptor are, and 1 + that */
    SENDING_ON = 255
};
enum { CELL_WORDS = 256, HANDLES = 1024, STREAMS = 1024, STARTS_MAX = 64, FAILURES_MAX = 3 };
/* A worker's first callback brings it the program that makes the way to Node's modules. */
enum { STARTS_WITHOUT_MODULES = 4 };
/* V8's microtasks have not been seen to run: it cannot be told whether V8 may carry numbers. */
enum { STARTS_WITHOUT_MICROTASKS = 16 };

/* One for each thread with a Node environment. Never freed: the script may hold on to cell. */
struct context_cell {
    uint32_t cell[CELL_WORDS];
    void *isolate;
    local function; /* a global handle; NULL: not started, or given up */
    uint32_t next_number;
    uint32_t handle_count;
    uint32_t streamed; /* one of streams is a request's */
    uint32_t taken;
    uint32_t start; /* the number of the newest start: its buffer is the one that counts */
    uint32_t failures;
    uint32_t starts;
    uint32_t native;
    uint32_t beginning; /* V8 carries: the request that the next scope serves; 0 */
    uint32_t measure_name;
    uint32_t promises_seen; /* cell[PROMISES] when it was last recorded */
    uint64_t promises;
    uint64_t clock_tsc, clock_written; /* when the script asked for the time, and the thread's records then */
    uint64_t handles[HANDLES];         /* async ids of handles that were made while a request was served */
    uint32_t entering_shared;          /* the next scope's resource carries others' requests too */
    uint64_t entering_stream; /* HTTP/2: async id of the stream whose request the next scope serves; 0 */
    struct {
        uint64_t async_id;
        uint32_t number;
    } streams[STREAMS]; /* HTTP/2 streams and their requests, by async id modulo: the newest of each */
    struct carried carried;
};

#pragma GCC visibility push(hidden)

/* Of a thread where it could not start. */
extern struct context_cell context_never;

/* The calling thread's; NULL: none yet. */
extern __thread struct context_cell *context_own __attribute__((tls_model(PROBE_TLS_MODEL)));

#pragma GCC visibility pop

#define FUNCTION(address, result, ...) ((result(*)(__VA_ARGS__))(uintptr_t)(address))
#define API(name, result, ...)         FUNCTION(sonde_config.node.script_##name, result, __VA_ARGS__)

/* A v8::HandleScope and a v8::TryCatch, which are smaller than the room they have here. */
struct shelter {
    uint64_t handle_scope[8];
    uint64_t try_catch[24];
};

/* What V8's inline constructor and destructor do: the handles made in between are gone with the scope. */
static inline void handles_enter(uint64_t *scope, void *isolate)
{
    scope[0] = (uintptr_t)isolate;
    scope[1] = *FUNCTION(sonde_config.node.handles_next, uint64_t *, void *)(isolate);
    scope[2] = *FUNCTION(sonde_config.node.handles_limit, uint64_t *, void *)(isolate);
    ++*FUNCTION(sonde_config.node.handles_level, int *, void *)(isolate);
}

static inline void handles_leave(const uint64_t *scope)
{
    void *isolate = (void *)(uintptr_t)scope[0];
    uint64_t *limit = FUNCTION(sonde_config.node.handles_limit, uint64_t *, void *)(isolate);
    *FUNCTION(sonde_config.node.handles_next, uint64_t *, void *)(isolate) = scope[1];
    --*FUNCTION(sonde_config.node.handles_level, int *, void *)(isolate);
    if (*limit != scope[2]) {
        *limit = scope[2];
        FUNCTION(sonde_config.node.handles_delete, void, void *)(isolate);
    }
}

static inline void shelter_enter(struct shelter *shelter, void *isolate)
{
    if (sonde_config.node.script_handle_scope && sonde_config.node.script_handle_scope_end)
        API(handle_scope, void, void *, void *)(shelter->handle_scope, isolate);
    else
        handles_enter(shelter->handle_scope, isolate);
    API(try_catch, void, void *, void *)(shelter->try_catch, isolate);
}

static inline void shelter_leave(struct shelter *shelter)
{
    API(try_catch_end, void, void *)(shelter->try_catch);
    if (sonde_config.node.script_handle_scope && sonde_config.node.script_handle_scope_end)
        API(handle_scope_end, void, void *)(shelter->handle_scope);
    else
        handles_leave(shelter->handle_scope);
}

/* Compiles the script and calls it, in a callback scope of Node. It runs when c->function is set; what failed
 * for good is counted. */
void script_start(struct context_cell *c);

/* The script listens from now on, and looks for the functions that were chosen. */
void script_listen(struct context_cell *c);

/* Calls it with a word and a value (probe_context.c); false: it did not answer. */
bool script_ask(struct context_cell *c, uint32_t what, uint32_t value);

/* It is not asked any more. */
void script_give_up(struct context_cell *c, enum sonde_context_failure why);

/* Whose code runs, by what V8 carries; 0 where nobody can be asked. */
uint32_t carried_operation(struct context_cell *c, struct probe_thread *self);

#endif
