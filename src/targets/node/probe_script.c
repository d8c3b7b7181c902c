/* The script of probe_context.c: how it is started, what it tells, and the functions that were chosen
 * (--function). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe_script.h"

static uint32_t start_count;

/* probe_context.js and probe_functions.js, a string literal for each line without comments. */
static const char SCRIPT_TEXT[] =
#include "probe_context_script.h"
    ;
static const char FUNCTIONS_TEXT[] =
#include "probe_functions_script.h"
    ;

static local compiled(void *isolate, local context, const char *text, size_t length)
{
    local source = API(string, local, void *, const char *, int, int)(isolate, text, 0, (int)length);
    local script = source ? API(compile, local, local, local, void *)(context, source, NULL) : NULL;
    return script ? API(run, local, local, local)(script, context) : NULL;
}

/* ---- chosen functions ---- */

void script_listen(struct context_cell *c)
{
    const char *names = sonde_config.functions;
    uint32_t length = 0;
    while (length < sizeof(sonde_config.functions) && names[length])
        length++;
    void *isolate = API(isolate, void *, void)();
    if (!length || isolate != c->isolate || !isolate) {
        script_ask(c, LISTEN, 0);
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
    if (isolate != c->isolate || !isolate || !sonde_config.node.promise_has_handler)
        return false;
    struct shelter shelter;
    shelter_enter(&shelter, isolate);
    c->cell[0] = GIVE;
    local context = API(context, local, void *)(isolate);
    local promise = context ? API(call, local, local, local, local, int, local *)(c->function, context,
                                                                                  c->function, 0, NULL)
                            : NULL;
    bool has = promise && FUNCTION(sonde_config.node.promise_has_handler, uint8_t, const void *)(promise);
    bool ended = !promise && API(terminated, uint8_t, const void *)(shelter.try_catch);
    shelter_leave(&shelter);
    if (ended)
        API(terminate, void, void *)(isolate);
    return has;
}

/* What probe_functions.js tells. */
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
    if (context_own == c)
        context_own = NULL;
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
    struct context_cell *c = context_own;
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
    return sonde_config.node.globalize_value
               ? FUNCTION(sonde_config.node.globalize, local, void *, uint64_t)(isolate, *object)
               : FUNCTION(sonde_config.node.globalize, local, void *, local)(isolate, object);
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

void script_start(struct context_cell *c)
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
        script_give_up(c, SONDE_CONTEXT_THREW);
    else if (answer == NO_MODULES && c->starts >= STARTS_WITHOUT_MODULES)
        script_give_up(c, SONDE_CONTEXT_NO_MODULES);
    else if (answer == NOT_NATIVE)
        script_give_up(c, SONDE_CONTEXT_NOT_NATIVE);
    else
        return;
    context_own = &context_never; /* the cell is free again when Node has freed the buffers around it */
}
