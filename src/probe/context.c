/* The request context: a small script of ours (context.js) in each of Node's threads, which keeps the number
 * of the request that is being served in an AsyncLocalStorage. From Node 24 on that costs nothing per promise
 * (AsyncContextFrame); before, Node implements it with promise hooks. There V8 carries the number
 * (carried.c), for nothing, as long as it does so through what the program does; else the script's storage
 * begins with the first operation that may be a request's: a service that only answers does not pay for it.
 *
 * The script is compiled and called with V8's exported API only, in functions whose symbol names their exact
 * signature, and only inside a callback scope of Node: there a context is entered and JavaScript may run.
 * It never runs while the process is stopped. Anything that fails ends it for this thread, and says so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/context.h"

#include "probe/carried.h"
#include "probe/node.h"

/* v8::Local and v8::MaybeLocal are one pointer to a slot. */
typedef const uint64_t *local;

enum { CURRENT, ENTER, LEAVE, LISTEN, GIVE, NOTHING, REACTION, TAKE }; /* cell[0] */
enum { LATER, NO_MODULES, NATIVE, SCRIPT, NOT_NATIVE, CARRIED };       /* cell[2] */
enum { MAY_BE_SCRIPT = 1, MAY_BE_CARRIED = 2 };                        /* cell[1] when it starts */
enum { SENT = 1, ANSWERED, ENDED, TRACED, CLOCK, MEASURED, TOLD = 0 }; /* cell[3] */
enum { CALL_BEGINS = 7, CALL_ENDS, SETTLED, NAME, CHOSEN, HANDLED };   /* the same: functions.js */
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

static struct context_cell cells[SONDE_THREADS];
static struct context_cell never = {.starts = STARTS_MAX}; /* of all threads where it could not start */
static uint32_t start_count;
static __thread struct context_cell *own __attribute__((tls_model(PROBE_TLS_MODEL)));

/* context.js and functions.js, a string literal for each line without comments. */
static const char SCRIPT_TEXT[] =
#include "context_script.h"
    ;
static const char FUNCTIONS_TEXT[] =
#include "functions_script.h"
    ;

#define FUNCTION(address, result, ...) ((result(*)(__VA_ARGS__))(uintptr_t)(address))
#define API(name, result, ...)         FUNCTION(sonde_config.script.name, result, __VA_ARGS__)

/* ---- calling ---- */

/* A v8::HandleScope and a v8::TryCatch, which are smaller than the room they have here. */
struct shelter {
    uint64_t handle_scope[8];
    uint64_t try_catch[24];
};

static void shelter_enter(struct shelter *shelter, void *isolate)
{
    API(handle_scope, void, void *, void *)(shelter->handle_scope, isolate);
    API(try_catch, void, void *, void *)(shelter->try_catch, isolate);
}

static void shelter_leave(struct shelter *shelter)
{
    API(try_catch_end, void, void *)(shelter->try_catch);
    API(handle_scope_end, void, void *)(shelter->handle_scope);
}

static void give_up(struct context_cell *c, enum sonde_context_failure why)
{
    c->function = NULL;
    c->starts = STARTS_MAX;
    __atomic_fetch_add(&probe_shared->context_failures[why], 1, __ATOMIC_RELAXED);
}

struct carried *carried_own(void)
{
    return own && own->function && own->carried.on ? &own->carried : NULL;
}

static bool ask(struct context_cell *c, uint32_t what, uint32_t value)
{
    void *isolate = API(isolate, void *, void)();
    if (isolate != c->isolate || !isolate)
        return false;
    struct shelter shelter;
    shelter_enter(&shelter, isolate);
    c->cell[0] = what;
    c->cell[1] = value;
    local context = API(context, local, void *)(isolate);
    local result = context ? API(call, local, local, local, local, int, local *)(c->function, context,
                                                                                 c->function, 0, NULL)
                           : NULL;
    /* A thread that is being ended (worker.terminate(), a timeout of vm) is so still, when we have left. */
    bool ended = !result && API(terminated, uint8_t, const void *)(shelter.try_catch);
    shelter_leave(&shelter);
    if (ended)
        API(terminate, void, void *)(isolate);
    else if (!result && ++c->failures >= FAILURES_MAX)
        give_up(c, SONDE_CONTEXT_THREW);
    return result != NULL;
}

/* ---- numbers that V8 carries ---- */

/* From how many lost operations on Node is to carry, when they are more than one of so many; for how many
 * callbacks both do, so that what waits is handed over. */
enum { LOST_MIN = 2, LOST_ONE_OF = 16, FADING_CALLBACKS = 4000 };

static void stop_carrying(struct context_cell *c)
{
    carried_stop(&c->carried);
    c->cell[CARRIES] = c->beginning = 0;
}

/* From now on Node carries, where that was not excluded. */
static void go_over(struct context_cell *c)
{
    if (c->carried.fading || !c->carried.on || sonde_config.context == SONDE_CONTEXT_NATIVE)
        return;
    c->carried.fading = FADING_CALLBACKS;
    c->cell[CARRIES] = 0;
    __atomic_fetch_sub(&probe_shared->context_carried, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&probe_shared->context_script, 1, __ATOMIC_RELAXED);
}

/* The value that it would be in is somebody else's. */
static void give_way(struct context_cell *c)
{
    go_over(c);
    stop_carrying(c);
    if (sonde_config.context == SONDE_CONTEXT_NATIVE)
        give_up(c, SONDE_CONTEXT_NOT_NATIVE);
}

/* Whose code runs, by what V8 carries: 0 when that is lost. */
static uint32_t carried_number(struct context_cell *c, struct probe_thread *self)
{
    bool entered;
    uint32_t number = carried_current(&c->carried, self, &entered);
    if (UNLIKELY(c->carried.foreign)) {
        give_way(c);
        return 0;
    }
    if (LIKELY(!entered))
        return number;
    /* In a promise's reaction that Node's hooks are told of, it is to be believed; the program pays for hooks
     * then, so that Node carries from now on. */
    if (ask(c, REACTION, 0) && c->cell[1]) {
        go_over(c);
        return number;
    }
    if (c->carried.on)
        carried_drop(&c->carried);
    return 0;
}

static uint32_t carried_operation(struct context_cell *c, struct probe_thread *self)
{
    struct carried *v = &c->carried;
    uint32_t number = carried_number(c, self);
    if (number) {
        v->found += number > 1;
        return number;
    }
    if (c->next_number && ++v->lost >= LOST_MIN && v->lost > v->found / LOST_ONE_OF)
        go_over(c);
    return c->next_number ? SONDE_CONTEXT_LOST : 0;
}

/* While both carry: what the storage has, else what V8 has, which is then handed over. */
static uint32_t handed_over(struct context_cell *c, struct probe_thread *self, uint32_t fd)
{
    if (!ask(c, CURRENT, fd))
        return 0;
    uint32_t number = c->cell[1];
    if (number > 1 || !c->carried.on)
        return number;
    number = carried_number(c, self);
    if (number > 1 && c->function)
        ask(c, TAKE, number);
    return number ? number : SONDE_CONTEXT_LOST;
}

static local compiled(void *isolate, local context, const char *text, size_t length)
{
    local source = API(string, local, void *, const char *, int, int)(isolate, text, 0, (int)length);
    local script = source ? API(compile, local, local, local, void *)(context, source, NULL) : NULL;
    return script ? API(run, local, local, local)(script, context) : NULL;
}

/* ---- chosen functions ---- */

/* The script listens from now on, and looks for the functions that were chosen. */
static void listen(struct context_cell *c)
{
    const char *names = sonde_config.functions;
    uint32_t length = 0;
    while (length < sizeof(sonde_config.functions) && names[length])
        length++;
    void *isolate = API(isolate, void *, void)();
    if (!length || isolate != c->isolate || !isolate) {
        ask(c, LISTEN, 0);
        return;
    }
    struct shelter shelter;
    shelter_enter(&shelter, isolate);
    local context = API(context, local, void *)(isolate);
    local arguments[] = {
        context ? compiled(isolate, context, FUNCTIONS_TEXT, sizeof(FUNCTIONS_TEXT) - 1) : NULL,
        API(string, local, void *, const char *, int, int)(isolate, names, 0, (int)length),
    };
    bool ready = arguments[0] && arguments[1];
    c->cell[0] = LISTEN;
    local result = context ? API(call, local, local, local, local, int,
                                 local *)(c->function, context, c->function, ready ? 2 : 0, arguments)
                           : NULL;
    bool ended = !result && API(terminated, uint8_t, const void *)(shelter.try_catch);
    shelter_leave(&shelter);
    if (ended)
        API(terminate, void, void *)(isolate);
}

/* Whether the program itself has a reaction to the promise that the script gives. */
static bool handled(struct context_cell *c)
{
    void *isolate = API(isolate, void *, void)();
    if (isolate != c->isolate || !isolate || !sonde_config.promise_has_handler)
        return false;
    struct shelter shelter;
    shelter_enter(&shelter, isolate);
    c->cell[0] = GIVE;
    local context = API(context, local, void *)(isolate);
    local promise = context ? API(call, local, local, local, local, int, local *)(c->function, context,
                                                                                  c->function, 0, NULL)
                            : NULL;
    bool has = promise && FUNCTION(sonde_config.promise_has_handler, uint8_t, const void *)(promise);
    bool ended = !promise && API(terminated, uint8_t, const void *)(shelter.try_catch);
    shelter_leave(&shelter);
    if (ended)
        API(terminate, void, void *)(isolate);
    return has;
}

/* What functions.js tells. */
static void told_of_function(struct probe_thread *self, struct context_cell *c)
{
    uint64_t now = ticks();
    const char *text = (const char *)&c->cell[TEXT];
    switch (c->cell[3]) {
    case CALL_BEGINS:
        c->cell[5] = (uint32_t)now;
        c->cell[6] = (uint32_t)(now >> 32);
        c->cell[7] = WANTED(self, js_function);
        break;
    case CALL_ENDS:
        RECORD(self, js_function, (uint64_t)c->cell[6] << 32 | c->cell[5], now, .name = c->cell[4],
               .context = c->cell[7], .call = c->cell[8], .threw = (uint8_t)c->cell[9]);
        break;
    case SETTLED:
        RECORD(self, js_settled, 0, now, .call = c->cell[4], .outcome = (uint8_t)c->cell[5]);
        break;
    case NAME:
        c->cell[4] = name_of_text(self, text, c->cell[9]);
        break;
    case CHOSEN: {
        uint32_t room = sizeof(c->cell) - TEXT * sizeof(c->cell[0]);
        uint16_t length = (uint16_t)(c->cell[9] < room ? c->cell[9] : room);
        RECORD_TEXT(self, js_chosen, now, text, length, .places = c->cell[5], .state = (uint8_t)c->cell[4],
                    .text_length = length);
        break;
    }
    case HANDLED:
        c->cell[1] = handled(c);
        break;
    }
}

/* ---- starting ---- */

/* Node frees the buffer around the cell when its environment ends: so does the thread's own use of it. The
 * buffer of a start that came to nothing is garbage. */
static void buffer_freed(char *data, void *hint)
{
    struct context_cell *c = (struct context_cell *)(void *)data;
    if (c->start != (uint32_t)(uintptr_t)hint)
        return;
    c->function = NULL;
    c->isolate = NULL;
    if (own == c)
        own = NULL;
    __atomic_store_n(&c->taken, 0, __ATOMIC_RELEASE);
}

static void flag_freed(char *data, void *hint)
{
    (void)data;
    (void)hint;
}

/* The program has called performance.measure: at the time that the script has just asked for, when nothing
 * was recorded since; the script may ask again cell[10] times. */
static void measured(struct probe_thread *self, struct context_cell *c)
{
    c->cell[WANTED] = 1;
    bool again = c->clock_written != self->shared.written;
    if (again && c->cell[10])
        return;
    c->cell[3] = TOLD;
    RECORD(self, js_measure, 0, again ? ticks() : c->clock_tsc,
           .ago_ns = (uint64_t)c->cell[5] << 32 | c->cell[6],
           .took_ns = (uint64_t)c->cell[7] << 32 | c->cell[8], .name = c->measure_name,
           .context = c->cell[4]);
}

/* v8::FunctionCallback: the script tells of a request that undici has sent, of its answer, or of a measure.
 */
static void told(const void *information)
{
    (void)information;
    struct probe_thread *self = probe_thread();
    struct context_cell *c = own;
    if (!self || !c) {
        if (c && c->cell[3] == CALL_BEGINS)
            c->cell[7] = 0;
        if (c && c->cell[3] == WHOSE)
            c->cell[1] = 0;
        return;
    }
    if (c->cell[3] == WHOSE) {
        c->cell[1] = c->carried.on ? carried_operation(c, self) : 0;
        if (c->cell[1] == SONDE_CONTEXT_LOST)
            c->cell[1] = 0;
        return;
    }
    if (c->cell[3] >= CALL_BEGINS) {
        told_of_function(self, c);
        return;
    }
    if (c->cell[3] == CLOCK) {
        c->measure_name = name_of_text(self, (const char *)&c->cell[TEXT], c->cell[9]);
        c->clock_tsc = ticks();
        c->clock_written = self->shared.written;
        return;
    }
    if (c->cell[3] == MEASURED) {
        measured(self, c);
        return;
    }
    if (c->cell[3] == TRACED) {
        RECORD(self, http_trace, 0, ticks(), .trace_high = (uint64_t)c->cell[5] << 32 | c->cell[6],
               .trace_low = (uint64_t)c->cell[7] << 32 | c->cell[8],
               .parent = (uint64_t)c->cell[9] << 32 | c->cell[10], .context = c->cell[4]);
        return;
    }
    int fd = (int)c->cell[4];
    uint32_t generation;
    if (!descriptor_generation(fd, &generation))
        return;
    if (c->cell[3] == ANSWERED)
        RECORD(self, http_response, 0, ticks(), .content_length = -1, .generation = generation, .fd = fd,
               .status = (uint16_t)c->cell[5], .side = 1);
    else if (c->cell[3] == ENDED)
        RECORD(self, http_end, 0, ticks(), .generation = generation, .fd = fd, .side = 1);
}

static struct context_cell *take_cell(void)
{
    for (uint32_t i = 0; i < SONDE_THREADS; i++) {
        uint32_t nobody = 0;
        if (!__atomic_compare_exchange_n(&cells[i].taken, &nobody, 1, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        cells[i].function = NULL;
        cells[i].isolate = NULL;
        cells[i].failures = cells[i].starts = cells[i].handle_count = cells[i].streamed = 0;
        cells[i].cell[BEGINS] = cells[i].cell[WANTED] = 0;
        cells[i].cell[CARRIES] = cells[i].cell[SENDING_ON] = 0;
        cells[i].carried.on = cells[i].beginning = 0;
        cells[i].cell[PROMISES] = cells[i].cell[SAMPLED] = cells[i].cell[COLLECTED] = 0;
        cells[i].promises = cells[i].promises_seen = 0;
        for (uint32_t k = 0; k < HANDLES; k++)
            cells[i].handles[k] = 0;
        for (uint32_t k = 0; k < STREAMS; k++)
            cells[i].streams[k].async_id = 0;
        return &cells[i];
    }
    return NULL;
}

/* The script's function(cell, alive, tell), called: what asks it, or NULL. */
static local start_script(struct context_cell *c, void *isolate, local context)
{
    local install = compiled(isolate, context, SCRIPT_TEXT, sizeof(SCRIPT_TEXT) - 1);
    c->start = __atomic_add_fetch(&start_count, 1, __ATOMIC_RELAXED);
    local arguments[] = {
        API(buffer, local, void *, char *, size_t, void (*)(char *, void *),
            void *)(isolate, (char *)c->cell, sizeof(c->cell), buffer_freed, (void *)(uintptr_t)c->start),
        API(buffer, local, void *, char *, size_t, void (*)(char *, void *),
            void *)(isolate, (char *)&probe_live, sizeof(probe_live.attachment), flag_freed, NULL),
        API(function, local, local, void (*)(const void *), local, int, int, int)(context, told, NULL, 0, 0,
                                                                                  0),
    };
    if (!install || !arguments[0] || !arguments[1] || !arguments[2])
        return NULL;
    bool later, carried = sonde_config.context != SONDE_CONTEXT_SCRIPT && carried_possible(&later);
    c->cell[1] =
        (sonde_config.context != SONDE_CONTEXT_NATIVE ? MAY_BE_SCRIPT : 0) | (carried ? MAY_BE_CARRIED : 0);
    return API(call, local, local, local, local, int, local *)(install, context, install, 3, arguments);
}

static local globalized(void *isolate, local object)
{
    return sonde_config.globalize_value
               ? FUNCTION(sonde_config.globalize, local, void *, uint64_t)(isolate, *object)
               : FUNCTION(sonde_config.globalize, local, void *, local)(isolate, object);
}

/* The script runs; V8 is to carry the number. A call of the script that asks for nothing returns undefined.
 */
static bool start_carrying(struct context_cell *c, void *isolate, local context)
{
    c->cell[0] = NOTHING;
    local undefined =
        API(call, local, local, local, local, int, local *)(c->function, context, c->function, 0, NULL);
    if (!undefined ||
        !carried_start(&c->carried, isolate, (void *)(uintptr_t)globalized(isolate, context), *undefined))
        return false;
    c->cell[CARRIES] = c->cell[WANTED] = 1;
    return true;
}

static void start(struct context_cell *c)
{
    void *isolate = API(isolate, void *, void)();
    if (!isolate)
        return;
    struct shelter shelter;
    shelter_enter(&shelter, isolate);
    local context = API(context, local, void *)(isolate);
    c->cell[2] = LATER;
    local function = context ? start_script(c, isolate, context) : NULL;
    uint32_t answer = c->cell[2];
    bool started = function && (answer == NATIVE || answer == SCRIPT || answer == CARRIED);
    if (started) {
        c->function = globalized(isolate, function);
        c->isolate = isolate;
    }
    if (started && answer == CARRIED && !start_carrying(c, isolate, context) &&
        sonde_config.context == SONDE_CONTEXT_NATIVE) {
        started = false;
        c->function = NULL;
        answer = NOT_NATIVE;
    }
    bool ended = !function && API(terminated, uint8_t, const void *)(shelter.try_catch);
    shelter_leave(&shelter);
    if (ended)
        API(terminate, void, void *)(isolate);
    c->native = answer == NATIVE;
    if (started || ended)
        return;
    if (function == NULL)
        give_up(c, SONDE_CONTEXT_THREW);
    else if (answer == NO_MODULES && c->starts >= STARTS_WITHOUT_MODULES)
        give_up(c, SONDE_CONTEXT_NO_MODULES);
    else if (answer == NOT_NATIVE)
        give_up(c, SONDE_CONTEXT_NOT_NATIVE);
    else
        return;
    own = &never; /* the cell is free again when Node has freed the buffers around it */
}

/* ---- for the hooks ---- */

static uint32_t handle_place(const struct context_cell *c, uint64_t async_id)
{
    uint32_t place = (uint32_t)((async_id * 0x9E3779B97F4A7C15ull) >> 54);
    while (c->handles[place] && c->handles[place] != async_id)
        place = (place + 1) % HANDLES;
    return place;
}

/* Handles that were made in a request's context: their callbacks leave it. When the table is full, all do. */
static bool made_by_request(const struct context_cell *c, uint64_t async_id)
{
    return c->handle_count && (c->handle_count >= HANDLES * 3 / 4 || c->handles[handle_place(c, async_id)]);
}

static void add_handle(struct context_cell *c, uint64_t async_id)
{
    uint32_t place = handle_place(c, async_id);
    if (c->handle_count >= HANDLES * 3 / 4 || !async_id || c->handles[place] == async_id)
        return;
    c->handles[place] = async_id;
    c->handle_count++;
}

static void enter_shared(struct context_cell *c, uint64_t async_id)
{
    if (!c->entering_shared)
        return;
    c->entering_shared = 0;
    add_handle(c, async_id);
    if (c->entering_stream) {
        c->streamed = 1;
        c->streams[c->entering_stream % STREAMS].async_id = c->entering_stream;
        c->streams[c->entering_stream % STREAMS].number = c->cell[BEGINS];
    }
}

/* False: the script, too, is to hear of it. */
static bool carried_scope_entered(struct context_cell *c, struct probe_thread *self, uint64_t async_id)
{
    struct carried *v = &c->carried;
    uint32_t number = c->beginning;
    c->beginning = 0;
    carried_scope(v, self, async_id, number, number && !c->entering_shared);
    if (UNLIKELY(v->foreign)) {
        give_way(c);
        return !c->function;
    }
    if (LIKELY(!v->fading)) {
        self->context_entering = c->entering_shared = 0;
        return true;
    }
    if (!--v->fading)
        stop_carrying(c);
    return false;
}

void context_scope(struct probe_thread *self, uint64_t async_id)
{
    struct context_cell *c = own;
    if (UNLIKELY(!c || !c->function)) {
        /* Ids up to 1 are the main script's, which is not the loop's first callback. */
        if (sonde_config.context < SONDE_CONTEXT_NATIVE || async_id <= 1 || self->callback_count != 1)
            return;
        if (!c && !(c = own = take_cell()))
            return;
        if (c->starts >= STARTS_MAX)
            return;
        c->starts++;
        bool later;
        if (sonde_config.context != SONDE_CONTEXT_SCRIPT && !carried_possible(&later) && later &&
            c->starts < STARTS_WITHOUT_MICROTASKS)
            return;
        start(c);
        if (!c->function)
            return;
    }
    if (UNLIKELY(!self->context_counted)) { /* sonde may be here for the second time */
        self->context_counted = 1;
        bool carries = c->carried.on && !c->carried.fading;
        __atomic_fetch_add(c->native ? &probe_shared->context_native
                           : carries ? &probe_shared->context_carried
                                     : &probe_shared->context_script,
                           1, __ATOMIC_RELAXED);
        if (c->carried.on)
            carried_again(&c->carried);
        if (sonde_config.context == SONDE_CONTEXT_SCRIPT)
            go_over(c);
        listen(c);
    }
    if (c->carried.on && carried_scope_entered(c, self, async_id))
        return;
    uint32_t place = (uint32_t)(async_id % STREAMS);
    if (UNLIKELY(self->context_entering)) {
        self->context_entering = 0;
        enter_shared(c, async_id);
        ask(c, ENTER, 0);
    } else if (UNLIKELY(c->streamed && async_id && c->streams[place].async_id == async_id)) {
        c->cell[BEGINS] = c->streams[place].number;
        ask(c, ENTER, 0);
    } else if (UNLIKELY(made_by_request(c, async_id))) {
        ask(c, LEAVE, 0);
    }
}

uint32_t context_new_request(void)
{
    struct context_cell *c = own;
    if (!c || !c->function)
        return 0;
    if (++c->next_number < 2)
        c->next_number = 2;
    return c->beginning = c->cell[BEGINS] = c->next_number;
}

void context_parsed(struct probe_thread *self, bool carried)
{
    struct context_cell *c = own;
    if (!c || !c->function)
        return;
    if (!carried)
        c->cell[BEGINS] = c->entering_shared = c->beginning = 0;
    self->context_entering = c->cell[BEGINS] != 0 && !c->cell[CARRIES];
}

uint32_t context_new_shared(struct probe_thread *self, uint64_t stream)
{
    uint32_t number = context_new_request();
    if (number && stream) /* a session's requests go on in ticks, several in one turn: V8 would lose most */
        go_over(own);
    if (number) {
        own->entering_shared = 1;
        own->entering_stream = stream;
        self->context_entering = 1;
    }
    return number;
}

uint32_t context_current(struct probe_thread *self, int fd)
{
    struct context_cell *c = own;
    if (!c || !c->function || !self->callback_count)
        return 0;
    if (c->cell[CARRIES]) {
        if (UNLIKELY(c->cell[SENDING_ON] && c->cell[SENDING_ON] == (uint32_t)fd + 1)) {
            c->cell[SENDING_ON] = 0;
            return c->cell[SENDING];
        }
        return carried_operation(c, self);
    }
    if (UNLIKELY(!c->cell[WANTED])) {
        c->cell[WANTED] = 1;
        return 0;
    }
    return handed_over(c, self, (uint32_t)fd);
}

/* TCPWRAP, PIPEWRAP, ... */
static bool outlives_requests(const char *type, uint32_t length)
{
    static const struct {
        char name[18];
        uint8_t length;
    } TYPES[] = {{"TCPWRAP", 7},        {"PIPEWRAP", 8},        {"TLSWRAP", 7},      {"UDPWRAP", 7},
                 {"TTYWRAP", 7},        {"JSSTREAM", 8},        {"MESSAGEPORT", 11}, {"WORKER", 6},
                 {"HTTP2SESSION", 12},  {"SIGNALWRAP", 10},     {"FSEVENTWRAP", 11}, {"STATWATCHER", 11},
                 {"TCPSERVERWRAP", 13}, {"PIPESERVERWRAP", 14}, {"DNSCHANNEL", 10}};
    for (uint32_t i = 0; i < sizeof(TYPES) / sizeof(TYPES[0]); i++) {
        if (TYPES[i].length != length)
            continue;
        uint32_t n = 0;
        while (n < length && type[n] == TYPES[i].name[n])
            n++;
        if (n == length)
            return true;
    }
    return false;
}

/* What becomes of a resource of that type. Looking through the table is done once for each: a string's hash
 * and its length stand side by side in V8 (since 7.0), and the hash of one that is neither a number nor
 * without a hash yet ends in 2. */
enum lifetime { UNKNOWN, OF_REQUEST, OF_MANY };

static enum lifetime lifetime_of(const uint64_t *type)
{
    enum { PLACES = 64, HASH = 8, LENGTH = 12, TAG = 1, LENGTH_MAX = 63, VERDICT = 56 };
    static uint64_t known[PLACES];
    uint64_t key = 0;
    if (LIKELY(type && *type & TAG && sonde_config.v8.string_length == LENGTH - TAG))
        __builtin_memcpy(&key, (const char *)*type + HASH - TAG, sizeof(key));
    bool whole = (key & 3) == 2 && key >> 32 <= LENGTH_MAX;
    uint64_t *place = &known[key >> 2 & (PLACES - 1)];
    uint64_t found = __atomic_load_n(place, __ATOMIC_RELAXED);
    if (LIKELY(whole && (found & ((1ull << VERDICT) - 1)) == key))
        return (enum lifetime)(found >> VERDICT);
    uint32_t length;
    const char *text = v8_text(type, &length);
    enum lifetime lifetime = !text ? UNKNOWN : outlives_requests(text, length) ? OF_MANY : OF_REQUEST;
    if (whole && text)
        __atomic_store_n(place, key | (uint64_t)lifetime << VERDICT, __ATOMIC_RELAXED);
    return lifetime;
}

void context_resource(struct probe_thread *self, const void *environment, const uint64_t *type,
                      uint64_t async_id)
{
    struct context_cell *c = own;
    if (!c || !c->function || !self->callback_count || !c->cell[WANTED])
        return;
    enum lifetime lifetime = lifetime_of(type);
    if (c->carried.on) {
        bool entered;
        carried_environment(&c->carried, environment);
        uint32_t number = lifetime == OF_REQUEST ? carried_current(&c->carried, self, &entered) : 0;
        carried_keep(&c->carried, async_id, number && !entered ? number : 0);
        if (LIKELY(!c->carried.fading))
            return;
    }
    if (lifetime == OF_MANY && context_current(self, -1) >= 2)
        add_handle(c, async_id);
}

void context_collected(struct probe_thread *self)
{
    struct context_cell *c = own;
    uint32_t more = c ? c->cell[PROMISES] - c->promises_seen : 0;
    if (!more)
        return;
    c->promises_seen += more;
    c->promises += more;
    RECORD(self, js_promises, 0, ticks(), .created = c->promises, .sampled = c->cell[SAMPLED],
           .collected = c->cell[COLLECTED]);
}
