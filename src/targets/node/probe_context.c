/* The request context: a small script of ours (probe_context.js) in each of Node's threads, which keeps the
 * number of the request that is being served in an AsyncLocalStorage. From Node 24 on that costs nothing per
 * promise (AsyncContextFrame); before, Node implements it with promise hooks. There V8 carries the number
 * (probe_carried.c), for nothing, as long as it does so through what the program does; else the script's
 * storage begins with the first operation that may be a request's: a service that only answers does not pay
 * for it.
 *
 * The script is compiled and called with V8's exported API only, in functions whose symbol names their exact
 * signature, and only inside a callback scope of Node: there a context is entered and JavaScript may run.
 * It never runs while the process is stopped. Anything that fails ends it for this thread, and says so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe_context.h"

#include "targets/node/probe.h"
#include "targets/node/probe_script.h"

static struct context_cell cells[SONDE_THREADS];
struct context_cell context_never = {.starts = STARTS_MAX};
__thread struct context_cell *context_own __attribute__((tls_model(PROBE_TLS_MODEL)));

/* ---- calling ---- */

void script_give_up(struct context_cell *c, enum sonde_context_failure why)
{
    c->function = NULL;
    c->starts = STARTS_MAX;
    __atomic_fetch_add(&probe_shared->context_failures[why], 1, __ATOMIC_RELAXED);
}

struct carried *carried_own(void)
{
    return context_own && context_own->function && context_own->carried.on ? &context_own->carried : NULL;
}

bool script_ask(struct context_cell *c, uint32_t what, uint32_t value)
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
        script_give_up(c, SONDE_CONTEXT_THREW);
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
        script_give_up(c, SONDE_CONTEXT_NOT_NATIVE);
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
    if (script_ask(c, REACTION, 0) && c->cell[1]) {
        go_over(c);
        return number;
    }
    if (c->carried.on)
        carried_drop(&c->carried);
    return 0;
}

uint32_t carried_operation(struct context_cell *c, struct probe_thread *self)
{
    struct carried *v = &c->carried;
    uint32_t number = carried_number(c, self);
    if (number) {
        v->found += number > 1;
        return number;
    }
    if (c->next_number && !v->settling && ++v->lost >= LOST_MIN && v->lost > v->found / LOST_ONE_OF)
        go_over(c);
    return c->next_number ? SONDE_CONTEXT_LOST : 0;
}

/* While both carry: what the storage has, else what V8 has, which is then handed over. */
static uint32_t handed_over(struct context_cell *c, struct probe_thread *self, uint32_t fd)
{
    if (!script_ask(c, CURRENT, fd))
        return 0;
    uint32_t number = c->cell[1];
    if (number > 1 || !c->carried.on)
        return number;
    number = carried_number(c, self);
    if (number > 1 && c->function)
        script_ask(c, TAKE, number);
    return number ? number : SONDE_CONTEXT_LOST;
}

/* ---- for the hooks ---- */

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

/* The request that begins is entered. Nobody is to be, before somebody asks: the script would do nothing. */
static void script_enter(struct context_cell *c)
{
    if (c->cell[WANTED])
        script_ask(c, ENTER, 0);
    else
        c->cell[BEGINS] = 0;
}

/* False: the script, too, is to hear of it. */
static bool carried_scope_entered(struct context_cell *c, struct probe_thread *self, uint64_t async_id)
{
    struct carried *v = &c->carried;
    uint32_t number = c->beginning;
    c->beginning = 0;
    carried_scope(v, self, async_id, number, number && !c->entering_shared);
    if (number && c->entering_shared && c->entering_stream)
        carried_keep(v, c->entering_stream, number);
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

void context_scope(struct probe_thread *self, const void *environment, uint64_t async_id)
{
    struct context_cell *c = context_own;
    if (UNLIKELY(!c || !c->function)) {
        /* Ids up to 1 are the main script's, which is not the loop's first callback. */
        if (sonde_config.context < SONDE_CONTEXT_NATIVE || async_id <= 1 || self->callback_count != 1)
            return;
        if (!c && !(c = context_own = take_cell()))
            return;
        if (c->starts >= STARTS_MAX)
            return;
        c->starts++;
        bool later;
        if (sonde_config.context != SONDE_CONTEXT_SCRIPT && !carried_possible(&later) && later &&
            c->starts < STARTS_WITHOUT_MICROTASKS)
            return;
        script_start(c);
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
        script_listen(c);
    }
    if (c->carried.on) {
        if (UNLIKELY(c->carried.settling && environment))
            carried_environment(&c->carried, environment);
        if (carried_scope_entered(c, self, async_id))
            return;
    }
    uint32_t place = (uint32_t)(async_id % STREAMS);
    if (UNLIKELY(self->context_entering)) {
        self->context_entering = 0;
        enter_shared(c, async_id);
        script_enter(c);
    } else if (UNLIKELY(c->streamed && async_id && c->streams[place].async_id == async_id)) {
        c->cell[BEGINS] = c->streams[place].number;
        script_enter(c);
    } else if (UNLIKELY(made_by_request(c, async_id))) {
        script_ask(c, LEAVE, 0);
    }
}

uint32_t context_new_request(void)
{
    struct context_cell *c = context_own;
    if (!c || !c->function)
        return 0;
    if (++c->next_number < 2)
        c->next_number = 2;
    return c->beginning = c->cell[BEGINS] = c->next_number;
}

void context_parsed(struct probe_thread *self, bool carried)
{
    struct context_cell *c = context_own;
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
        go_over(context_own);
    if (number) {
        context_own->entering_shared = 1;
        context_own->entering_stream = stream;
        self->context_entering = 1;
    }
    return number;
}

/* Where no number is kept: what is around the operation says whose it is as long as its callback's own code
 * runs (0). What that continues afterwards, in ticks and microtasks, can be anybody's. */
static uint32_t unnumbered(const struct probe_thread *self)
{
    uint32_t open = self->callback_count;
    if (!open || sonde_config.context == SONDE_CONTEXT_OFF)
        return 0;
    uint64_t async_id = self->callbacks[open - 1].async_id;
    return async_id && running_async_id() == async_id ? 0 : SONDE_CONTEXT_LOST;
}

uint32_t context_current(struct probe_thread *self, int fd)
{
    struct context_cell *c = context_own;
    if (!c || !c->function)
        return unnumbered(self);
    /* Node enters no callback scope for the end of an addon's operation, but what goes on with it runs in
     * microtasks, to which V8 carries the number. */
    if (UNLIKELY(!self->callback_count) && !(c->cell[CARRIES] && c->carried.in_microtasks))
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
        return unnumbered(self);
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
    if (LIKELY(type && *type & TAG && sonde_config.node.string_length == LENGTH - TAG))
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

static __attribute__((noinline)) void context_resource(struct context_cell *c, struct probe_thread *self,
                                                       const void *environment, const uint64_t *type,
                                                       uint64_t async_id)
{
    enum lifetime lifetime = lifetime_of(type);
    if (c->carried.on) {
        bool entered = false;
        carried_environment(&c->carried, environment);
        uint32_t number = lifetime == OF_REQUEST ? carried_current(&c->carried, self, &entered) : NO_REQUEST;
        carried_keep(&c->carried, async_id, entered ? 0 : number);
        if (LIKELY(!c->carried.fading))
            return;
    }
    if (lifetime == OF_MANY && context_current(self, -1) >= 2)
        add_handle(c, async_id);
}

static __attribute__((noinline)) void record_resource(struct probe_thread *self, uint64_t async_id,
                                                      uint64_t trigger_id, uint32_t name)
{
    if (LIKELY(short_resource_fits(async_id, trigger_id)))
        record_short_timed(self, ticks(), SONDE_SHORT_node_async_init,
                           short_resource_word(async_id, trigger_id), name);
    else
        RECORD_WANTED(self, node_async_init, 0, ticks(), .async_id = async_id, .trigger_id = trigger_id,
                      .type = name);
}

void resource_made(struct probe_thread *self, const void *environment, const uint64_t *type,
                   uint64_t async_id, uint64_t trigger_id)
{
    if (UNLIKELY(self->http2.beginning)) {
        self->http2.beginning = 0;
        self->http2.resource = async_id;
    }
    if (UNLIKELY(sonde_config.context == SONDE_CONTEXT_OFF))
        return;
    uint32_t off = self->shared.families_off;
    bool wanted = LIKELY(!(off & sonde_family_bit(SONDE_EVENT_node_async_init)));
    uint32_t name = wanted ? v8_name(self, type) : 0;
    struct context_cell *c = context_own;
    if (c && c->function && self->callback_count && c->cell[WANTED]) {
        context_resource(c, self, environment, type, async_id);
        wanted &= !probe_stale(self);
    }
    if (UNLIKELY(!wanted))
        return;
    /* A request to the file system is submitted next. */
    bool submits = self->named_request && !(off & sonde_family_bit(SONDE_EVENT_uv_submit));
    if (submits && LIKELY(!self->shared.busy && short_resource_fits(async_id, trigger_id)))
        record_short_later(self, SONDE_SHORT_node_async_init, short_resource_word(async_id, trigger_id),
                           name);
    else
        record_resource(self, async_id, trigger_id, name);
}

void context_collected(struct probe_thread *self)
{
    struct context_cell *c = context_own;
    uint32_t more = c ? c->cell[PROMISES] - c->promises_seen : 0;
    if (!more)
        return;
    c->promises_seen += more;
    c->promises += more;
    RECORD(self, js_promises, 0, ticks(), .created = c->promises, .sampled = c->cell[SAMPLED],
           .collected = c->cell[COLLECTED]);
}
