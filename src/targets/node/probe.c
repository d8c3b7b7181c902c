/* The hooks in Node.js: libuv, V8, llhttp. Layouts of libuv's public structures are part of its 1.x ABI. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe.h"

#include "probe/websocket.h"
#include "targets/node/probe_carried.h"
#include "targets/node/probe_context.h"
#include "targets/node/probe_libuv.h"

#include <sys/syscall.h>

/* Loop phases, and callbacks of no resource, that are shorter than this and have nothing recorded inside are
 * not worth a record. About 2 us. */
enum { PHASE_MIN_TICKS = 5000 };

/* Encoding that takes less is not worth a record either: about 20 us. Fewer bytes do not take so long; two
 * looks at the clock would be a good part of it. */
enum { ENCODE_MIN_TICKS = 50000, ENCODE_MIN_BYTES = 1024 };

/* Present only in what has libuv; resolved by the loader, NULL elsewhere. */
extern int uv_run(void *, int) __attribute__((weak, visibility("default")));

bool probe_wants_node(void)
{
    return uv_run != NULL;
}

static bool is_stream(const void *handle)
{
    int type = READ(int, handle, UV_HANDLE_TYPE);
    return type == UV_TCP_TYPE || type == UV_NAMED_PIPE_TYPE || type == UV_TTY_TYPE;
}

static int stream_fd(const void *handle)
{
    return is_stream(handle) ? READ(int, handle, UV_IO_STREAM_FD) : -1;
}

/* ---- names ---- */

const char *v8_text(const uint64_t *handle, uint32_t *ret_length)
{
    if (sonde_config.node.string_chars < 0 || !handle)
        return NULL;
    uint64_t string = *handle;
    if (!(string & 1)) /* a small integer, not an object */
        return NULL;
    /* The offsets have the pointer's tag subtracted. */
    uint64_t map = READ(uint64_t, string, -1);
    uint32_t type = READ(uint16_t, map, sonde_config.node.map_instance_type);
    if ((type & sonde_config.node.string_type_mask) != sonde_config.node.string_type_value)
        return NULL;
    int32_t length = READ(int32_t, string, sonde_config.node.string_length);
    if (length <= 0 || length > 63)
        return NULL;
    *ret_length = (uint32_t)length;
    return (const char *)string + sonde_config.node.string_chars;
}

/* Requests to the file system: with callbacks, with promises. Their numbers, once they have some. */
static const char REQUESTS[][13] = {"FSREQCALLBACK", "FSREQPROMISE"};
static uint32_t request_names[2];

static void learn_request(const char *text, uint32_t length, uint32_t number)
{
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t n = 0;
        while (n < length && n < sizeof(REQUESTS[i]) && text[n] == REQUESTS[i][n])
            n++;
        if (n == length && (n == sizeof(REQUESTS[i]) || !REQUESTS[i][n]))
            __atomic_store_n(&request_names[i], number, __ATOMIC_RELAXED);
    }
}

uint32_t v8_name_other(struct probe_thread *self, const uint64_t *handle)
{
    self->named_string = self->named_request = 0;
    if (sonde_config.node.string_chars < 0 || !handle)
        return 0;
    /* Internalised strings hardly ever move; when one does it gets another number with the same text. */
    uint64_t string = *handle;
    uint32_t number = name_find(string), length;
    const char *text = UNLIKELY(!number) ? v8_text(handle, &length) : NULL;
    if (text && (number = name_add(self, string, text, length)))
        learn_request(text, length, number);
    self->named_string = number ? string : 0;
    self->named_request = number && (number == __atomic_load_n(&request_names[0], __ATOMIC_RELAXED) ||
                                     number == __atomic_load_n(&request_names[1], __ATOMIC_RELAXED));
    return self->named_number = number;
}

/* ---- callbacks into JavaScript ---- */

void callback_known(struct probe_thread *self, uint64_t scope, uint64_t async_id, uint64_t trigger_id)
{
    uint32_t n = self->callback_count;
    struct probe_callback *callback = n ? &self->callbacks[n - 1] : NULL;
    if (!callback || callback->self != scope || !async_id)
        return;
    callback->async_id = async_id;
    callback->trigger_id = trigger_id;
    if (callback->depth < SONDE_OPEN_SPANS)
        self->shared.open[callback->depth].argument = async_id;
}

void callback_begin(struct probe_thread *self, uint64_t scope, uint64_t async_id, uint64_t trigger_id)
{
    uint32_t n = self->callback_count;
    if (n && UNLIKELY(self->callbacks[n - 1].self == scope)) { /* the other constructor has it already */
        callback_known(self, scope, async_id, trigger_id);
        return;
    }
    if (n >= PROBE_CALLBACKS) {
        self->shared.lost_depth++;
        return;
    }
    struct probe_callback *callback = &self->callbacks[n];
    callback->self = scope;
    callback->depth = self->shared.depth;
    callback->written = self->shared.written;
    callback->async_id = async_id;
    callback->trigger_id = trigger_id;
    uint64_t now = boundary(self, BOUNDARY_COMPLETION);
    callback->start_tsc = span_open_at(self, now, SONDE_EVENT_node_callback, async_id, 0);
    self->callback_count = n + 1;
    if (self->request_pending)
        tell_request(self, now);
    if (UNLIKELY(self->messages_pending.messages))
        websocket_tell(self);
}

/* Which of the open callbacks of this thread has that scope: the innermost, counted from 1; 0: none. */
static inline uint32_t callback_find(const struct probe_thread *self, uint64_t scope)
{
    uint32_t place = self->callback_count;
    while (place && UNLIKELY(self->callbacks[place - 1].self != scope))
        place--;
    return place;
}

/* Its numbers are too large for a short record. */
static __attribute__((noinline, cold)) bool callback_whole(struct probe_thread *self, uint64_t start,
                                                           uint64_t end, uint64_t async_id,
                                                           uint64_t trigger_id)
{
    uint64_t written = self->shared.written;
    RECORD_WANTED(self, node_callback, start, end, .async_id = async_id, .trigger_id = trigger_id);
    return self->shared.written != written;
}

static inline bool record_callback(struct probe_thread *self, uint64_t start, uint64_t end, uint64_t async_id,
                                   uint64_t trigger_id)
{
    if (UNLIKELY(!short_callback_fits(async_id, trigger_id, end - start)))
        return callback_whole(self, start, end, async_id, trigger_id);
    return record_short_timed(self, end, SONDE_SHORT_node_callback, short_resource_word(async_id, trigger_id),
                              end - start);
}

/* It has ended, on a thread that is known to be this one; callback_count is what is open outside it. */
static inline void callback_end(struct probe_thread *self, struct probe_callback *callback)
{
    uint64_t start = callback->start_tsc, async_id = callback->async_id;
    uint64_t end = ticks();
    span_close_own(self, callback->depth);
    /* The loop's own look for immediates and timers, when there are none. */
    if (!async_id && end - start < PHASE_MIN_TICKS && self->shared.written == callback->written)
        return;
    if (LIKELY(WANTED(self, node_callback) &&
               record_callback(self, start, end, async_id, callback->trigger_id)))
        self->callback_start = start;
    boundary_is(self, BOUNDARY_CALLBACK, end);
}

/* InternalCallbackScope::Close(), which drains microtasks and ticks; it is called again by the destructor. */
HOT_HOOK(void, node_scope_close, void *scope)
{
    struct probe_thread *self = probe_thread();
    uint32_t place = self ? callback_find(self, (uintptr_t)scope) : 0;
    if (!place) {
        sonde_orig_node_scope_close(scope);
        return;
    }
    struct probe_callback *callback = &self->callbacks[place - 1];
    __asm__("" : "+r"(callback)); /* compilers would work it out anew at each use */
    struct carried *carried = carried_own();
    if (carried)
        carried_closing(carried, self, callback);
    sonde_orig_node_scope_close(scope);
    if (probe_stale(self))
        return;
    if (carried && carried == carried_own())
        carried_closed(carried, callback, place == 1);
    if (place > self->callback_count || callback->self != (uintptr_t)scope)
        return; /* an outer one has ended first */
    /* Scopes above it on the stack ended without Close(): they are gone with it. */
    self->callback_count = place - 1;
    callback_end(self, callback);
}

/* ---- loop phases ---- */

/* A phase without anything to do is not looked at: it takes less than looking. */
static inline bool queue_is_empty(const void *loop, int at)
{
    const void *queue = (const char *)loop + at;
    return READ(const void *, queue, 0) == queue;
}

static inline bool no_timer_is_due(const void *loop)
{
    const void *first = READ(const void *, loop, UV_LOOP_TIMER);
    return !first || READ(uint64_t, first, UV_TIMER_TIMEOUT) > READ(uint64_t, loop, UV_LOOP_TIME);
}

/* When it ended; 0: the thread is no longer this one. */
HOT static uint64_t phase_end(struct probe_thread *self, uint8_t phase, int timeout_ms, uint32_t depth,
                              uint64_t start, uint64_t written)
{
    if (!span_close(self, depth))
        return 0;
    uint64_t end = ticks();
    if (end - start > PHASE_MIN_TICKS || self->shared.written != written)
        RECORD_OWN(self, uv_phase, start, end, .timeout_ms = timeout_ms, .phase = phase);
    return end;
}

#define PHASE_HOOK(name, number, nothing, now)                                     \
    HOT_HOOK(void, name, void *loop)                                               \
    {                                                                              \
        if (LIKELY(nothing)) {                                                     \
            sonde_orig_##name(loop);                                               \
            return;                                                                \
        }                                                                          \
        struct probe_thread *self = THREAD_WANTING(uv_phase);                      \
        if (!self) {                                                               \
            sonde_orig_##name(loop);                                               \
            return;                                                                \
        }                                                                          \
        uint32_t depth = self->shared.depth;                                       \
        uint64_t written = self->shared.written;                                   \
        uint64_t start = span_open_at(self, now, SONDE_EVENT_uv_phase, number, 0); \
        sonde_orig_##name(loop);                                                   \
        phase_end(self, number, 0, depth, start, written);                         \
    }
PHASE_HOOK(uv_timers, 0, no_timer_is_due(loop), ticks())
PHASE_HOOK(uv_idle, 2, queue_is_empty(loop, UV_LOOP_IDLE), ticks())
PHASE_HOOK(uv_prepare, 3, queue_is_empty(loop, UV_LOOP_PREPARE), ticks())
PHASE_HOOK(uv_check, 5, queue_is_empty(loop, UV_LOOP_CHECK), boundary(self, BOUNDARY_POLLED))

HOT_HOOK(void, uv_poll, void *loop, int timeout_ms)
{
    struct probe_thread *self = THREAD_WANTING(uv_phase);
    if (!self) {
        sonde_orig_uv_poll(loop, timeout_ms);
        return;
    }
    uint32_t depth = self->shared.depth;
    uint64_t written = self->shared.written;
    uint64_t start = span_open(self, SONDE_EVENT_uv_phase, 4, 0);
    sonde_orig_uv_poll(loop, timeout_ms);
    uint64_t end = phase_end(self, 4, timeout_ms, depth, start, written);
    /* Then it checks, but for callbacks that were put off. */
    if (end && LIKELY(queue_is_empty(loop, UV_LOOP_PENDING)))
        boundary_is(self, BOUNDARY_POLLED, end);
}

/* ---- streams ---- */

/* uv__stream_io(uv_loop_t*, uv__io_t*, unsigned) */
HOT_HOOK(void, uv_io, void *loop, void *watcher, unsigned events)
{
    struct probe_thread *self = probe_thread();
    const char *handle = (const char *)watcher - UV_STREAM_WATCHER;
    int fd = READ(int, watcher, UV_IO_FD);
    if (!self || fd < 0 || !is_stream(handle)) {
        sonde_orig_uv_io(loop, watcher, events);
        return;
    }
    struct descriptor *d = descriptor_use(self, fd, (uintptr_t)handle);
    uint32_t generation = d ? d->generation : 0, outer_generation = self->stream_generation;
    int32_t outer_fd = self->stream_fd;
    self->stream_fd = fd;
    self->stream_generation = generation;
    self->read_parser = 0;
    uint32_t depth = self->shared.depth, bytes_before = self->stream_bytes;
    uint64_t start = span_open(self, SONDE_EVENT_stream_io, (uint64_t)fd, 0);
    sonde_orig_uv_io(loop, watcher, events);
    if (!span_close(self, depth))
        return;
    self->stream_fd = outer_fd;
    self->stream_generation = outer_generation;
    RECORD_OWN(self, stream_io, start, ticks(), .generation = generation, .fd = fd, .events = events,
               .bytes = self->stream_bytes - bytes_before);
}

static uint64_t total(const struct buffer *buffers, unsigned count)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += buffers[i].length;
    return sum;
}

/* Bytes are seen once: uv_try_write may call uv_try_write2, and uv_write calls uv_write2. */
HOT static bool write_enter(struct probe_thread *self, const void *handle, int *ret_fd)
{
    *ret_fd = self && !self->in_write ? stream_fd(handle) : -1;
    if (*ret_fd < 0)
        return false;
    self->in_write = 1;
    return true;
}

HOT_HOOK(int, uv_write2, void *request, void *handle, const struct buffer *buffers, unsigned count,
         void *send, void *callback)
{
    struct probe_thread *self = probe_thread();
    int fd;
    if (!write_enter(self, handle, &fd))
        return sonde_orig_uv_write2(request, handle, buffers, count, send, callback);
    /* Before the call: the buffers may be gone after it. */
    write_seen(self, fd, (uintptr_t)handle, buffers, count, total(buffers, count), 0, ticks());
    int result = sonde_orig_uv_write2(request, handle, buffers, count, send, callback);
    self->in_write = 0;
    return result;
}

HOT_HOOK(int, uv_try_write, void *handle, const struct buffer *buffers, unsigned count)
{
    struct probe_thread *self = probe_thread();
    int fd;
    if (!write_enter(self, handle, &fd))
        return sonde_orig_uv_try_write(handle, buffers, count);
    descriptor_use(self, fd, (uintptr_t)handle);
    uint64_t now = ticks(); /* before the other end can have read it */
    int result = sonde_orig_uv_try_write(handle, buffers, count);
    if (result > 0) /* what was not taken comes again through uv_write2 */
        write_seen(self, fd, (uintptr_t)handle, buffers, count, (uint64_t)result, result, now);
    self->in_write = 0;
    return result;
}

HOT_HOOK(int, uv_try_write2, void *handle, const struct buffer *buffers, unsigned count, void *send)
{
    struct probe_thread *self = probe_thread();
    int fd;
    if (!write_enter(self, handle, &fd))
        return sonde_orig_uv_try_write2(handle, buffers, count, send);
    descriptor_use(self, fd, (uintptr_t)handle);
    uint64_t now = ticks();
    int result = sonde_orig_uv_try_write2(handle, buffers, count, send);
    if (result > 0)
        write_seen(self, fd, (uintptr_t)handle, buffers, count, (uint64_t)result, result, now);
    self->in_write = 0;
    return result;
}

HOOK(void, uv_close, void *handle, void *callback)
{
    struct probe_thread *self = probe_thread();
    if (self) {
        int fd = stream_fd(handle);
        struct descriptor *d = fd >= 0 ? descriptor_use(self, fd, (uintptr_t)handle) : NULL;
        if (d) {
            RECORD(self, stream_close, 0, ticks(), .handle = (uintptr_t)handle, .generation = d->generation,
                   .fd = fd);
            descriptor_close(fd, (uintptr_t)handle);
        }
    }
    sonde_orig_uv_close(handle, callback);
}

/* ---- HTTP parser: llhttp__on_*(llhttp_t*, const char *p, const char *end) ---- */

enum { HTTP_REQUEST = 1, HTTP_RESPONSE = 2, /* llhttp_type_t */ SWITCHING_PROTOCOLS = 101 };

static uint8_t message_type(void *parser)
{
    return sonde_config.node.llhttp_get_type ? ((uint8_t(*)(void *))sonde_config.node.llhttp_get_type)(parser)
                                             : 0;
}

/* 0 when it cannot be known. */
static int message_status(void *parser)
{
    if (sonde_config.node.llhttp_get_status)
        return ((int (*)(void *))sonde_config.node.llhttp_get_status)(parser);
    return sonde_config.node.llhttp_status >= 0 ? READ(uint16_t, parser, sonde_config.node.llhttp_status) : 0;
}

/* Adds what comes of a URL to its path, up to and with the question mark; the new length. */
static uint16_t add_path(char path[static PATH_BYTES], uint16_t n, const char *p, uint64_t length)
{
    const uint64_t ones = 0x0101010101010101ull, highs = 0x8080808080808080ull;
    if (n && path[n - 1] == '?')
        return n;
    const char *end = p + (length < (uint64_t)(PATH_BYTES - n) ? length : (uint64_t)(PATH_BYTES - n));
    for (; end - p >= 8; p += 8, n = (uint16_t)(n + 8)) {
        uint64_t word, marks;
        __builtin_memcpy(&word, p, sizeof(word));
        marks = word ^ ones * '?';
        marks = (marks - ones) & ~marks & highs;
        if (marks)
            word &= marks ^ (marks - 1); /* what comes behind is nobody's business */
        __builtin_memcpy(path + n, &word, sizeof(word));
        if (marks)
            return (uint16_t)(n + __builtin_ctzll(marks) / 8 + 1);
    }
    while (p < end) {
        path[n++] = *p;
        if (*p++ == '?')
            break;
    }
    return n;
}

/* The path grows over on_url calls, up to the query string. */
HOT_HOOK(int, llhttp_url, void *parser, const char *p, const char *end)
{
    struct probe_thread *self = probe_thread();
    if (self) {
        if (self->path_parser != (uintptr_t)parser) {
            self->path_parser = (uintptr_t)parser;
            self->path_length = 0;
        }
        self->path_length = add_path(self->path, self->path_length, p, (uint64_t)(end - p));
    }
    return sonde_orig_llhttp_url(parser, p, end);
}

/* Told inside the callback that carries the request to JavaScript. */
void tell_request(struct probe_thread *self, uint64_t now)
{
    uint32_t stream = self->request_stream;
    self->request_pending = 0;
    void *parser = (void *)(uintptr_t)self->request_parser;
    uint16_t n = self->path_parser == self->request_parser ? self->path_length : 0;
    if (n && self->path[n - 1] == '?')
        n--;
    uint8_t method = 255;
    if (stream)
        method = self->http2.method;
    else if (sonde_config.node.llhttp_get_method)
        method = ((uint8_t(*)(void *))sonde_config.node.llhttp_get_method)(parser);
    uint64_t resource = stream ? self->http2.resource : 0;
    RECORD_TEXT(self, http_request, now, self->path, n, .parser = (uintptr_t)parser, .resource = resource,
                .generation = self->stream_generation, .fd = self->stream_fd,
                .context = stream ? context_new_shared(self, resource) : context_new_request(),
                .stream = stream, .side = 0, .method = method, .path_length = n);
    self->path_parser = 0;
    self->path_length = 0;
}

/* The bytes behind the header are the new protocol's first. */
static void upgraded(struct probe_thread *self, const char *p, const char *end)
{
    struct websocket_seen seen = {0};
    struct descriptor *d = self->stream_fd >= 0 ? descriptor_get(self->stream_fd) : NULL;
    if (!d || !d->websocket_asked)
        return;
    websocket_begins(d, false);
    if (end > p)
        websocket_bytes(&d->websocket[WEBSOCKET_IN], p, (uint64_t)(end - p), &seen);
}

HOT_HOOK(int, llhttp_headers, void *parser, const char *p, const char *end)
{
    struct probe_thread *self = probe_thread();
    if (!self)
        return sonde_orig_llhttp_headers(parser, p, end);
    uint8_t type = message_type(parser);
    if (type == HTTP_RESPONSE) {
        int status = message_status(parser);
        RECORD(self, http_response, 0, ticks(), .parser = (uintptr_t)parser, .content_length = -1,
               .generation = self->stream_generation, .fd = self->stream_fd, .status = (uint16_t)status,
               .side = 1);
        if (status == SWITCHING_PROTOCOLS)
            upgraded(self, p, end);
    }
    self->request_pending = type == HTTP_REQUEST;
    self->request_stream = 0;
    self->request_parser = self->read_parser = (uintptr_t)parser;
    int result = sonde_orig_llhttp_headers(parser, p, end);
    bool carried = !self->request_pending;
    if (!carried) /* no JavaScript was called */
        tell_request(self, ticks());
    if (type == HTTP_REQUEST)
        context_parsed(self, carried);
    return result;
}

HOT_HOOK(int, llhttp_complete, void *parser, const char *p, const char *end)
{
    struct probe_thread *self = probe_thread();
    if (self) {
        uint8_t type = message_type(parser);
        bool at_once = type == HTTP_REQUEST && self->read_parser == (uintptr_t)parser;
        if (type && !at_once)
            RECORD(self, http_end, 0, ticks(), .parser = (uintptr_t)parser,
                   .generation = self->stream_generation, .fd = self->stream_fd,
                   .side = type == HTTP_RESPONSE);
    }
    return sonde_orig_llhttp_complete(parser, p, end);
}

/* ---- V8 ---- */

/* The collector itself asks for this sum over its spaces at the same places. */
static uint64_t heap_size(void *heap)
{
    return sonde_config.node.v8_heap_size ? ((size_t(*)(void *))sonde_config.node.v8_heap_size)(heap) : 0;
}

/* As V8 counts it: a change by nothing answers the sum, and is what process.memoryUsage() asked for it. What
 * the collection before has freed is not in it any more, but for what its own threads still sweep. */
static uint64_t external_size(void)
{
    uint64_t isolate_of = sonde_config.node.script_isolate, external = sonde_config.node.v8_external;
    void *isolate = isolate_of && external ? ((void *(*)(void))(uintptr_t)isolate_of)() : NULL;
    int64_t bytes = isolate ? ((int64_t(*)(void *, int64_t))(uintptr_t)external)(isolate, 0) : 0;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* Heap::CallGCPrologueCallbacks(GCType, GCCallbackFlags[, GCTracer::Scope::ScopeId]), or in V8 10.2
 * Heap::GarbageCollectionPrologue(GarbageCollectionReason, GCCallbackFlags): the collection begins. */
HOOK(void, v8_gc_prologue, void *heap, int type, int flags, int scope)
{
    struct probe_thread *self = probe_thread();
    if (self) {
        self->gc_start_tsc = ticks();
        self->gc_heap_before = heap_size(heap);
        self->gc_external = external_size();
    }
    sonde_orig_v8_gc_prologue(heap, type, flags, scope);
}

static void collected(void *heap, unsigned type)
{
    struct probe_thread *self = probe_thread();
    if (self && self->gc_start_tsc) {
        RECORD(self, v8_gc, self->gc_start_tsc, ticks(), .heap_before = self->gc_heap_before,
               .heap_after = heap_size(heap), .external = self->gc_external, .type = (uint8_t)type);
        self->gc_start_tsc = 0;
        context_collected(self);
    }
}

HOOK(void, v8_gc_epilogue, void *heap, int type, int flags, int scope)
{
    sonde_orig_v8_gc_epilogue(heap, type, flags, scope);
    collected(heap, (unsigned)type);
}

/* V8 10.2: Heap::GarbageCollectionEpilogue(GarbageCollector) */
HOOK(void, v8_gc_epilogue__collector, void *heap, int collector)
{
    enum { SCAVENGER, MARK_COMPACTOR, MINOR_MARK_COMPACTOR };
    sonde_orig_v8_gc_epilogue__collector(heap, collector);
    collected(heap, collector == SCAVENGER              ? 1
                    : collector == MARK_COMPACTOR       ? 4
                    : collector == MINOR_MARK_COMPACTOR ? 2
                                                        : 0);
}

/* To V8 9.4 there was no minor-mark-sweep: what comes behind had half its present number. */
HOOK(void, v8_gc_epilogue__9, void *heap, int type, int flags)
{
    sonde_orig_v8_gc_epilogue__9(heap, type, flags);
    collected(heap, type > 1 ? (unsigned)type << 1 : (unsigned)type);
}

#define REGEXP_BODY(...)                                                               \
    {                                                                                  \
        struct probe_thread *self = probe_thread();                                    \
        if (!self)                                                                     \
            return __VA_ARGS__;                                                        \
        uint32_t depth = self->shared.depth;                                           \
        uint64_t start = span_open(self, SONDE_EVENT_v8_regexp, (uintptr_t)regexp, 0); \
        void *result = __VA_ARGS__;                                                    \
        span_close(self, depth);                                                       \
        RECORD(self, v8_regexp, start, ticks(), .regexp = (uintptr_t)regexp);          \
        return result;                                                                 \
    }

/* RegExpImpl::IrregexpExec(Isolate*, Handle<JSRegExp>, Handle<String>, int, Handle<RegExpMatchInfo>,
 * ExecQuirks): to 20. V8 enters it only until a pattern is compiled; the stall sampler sees the rest. */
HOOK(void *, v8_regexp, void *isolate, void *regexp, void *subject, int index, void *match, int quirks)
REGEXP_BODY(sonde_orig_v8_regexp(isolate, regexp, subject, index, match, quirks))

/* The same since 24: (Isolate*, DirectHandle<IrRegExpData>, Handle<String>, int, int*, unsigned) */
HOOK(void *, v8_regexp_data, void *isolate, void *regexp, void *subject, int index, int *result_offsets,
     unsigned size)
REGEXP_BODY(sonde_orig_v8_regexp_data(isolate, regexp, subject, index, result_offsets, size))

/* ---- text from objects and back ---- */

/* The length of a tagged value when it is a string. */
static uint64_t string_length(uint64_t value)
{
    if (!(value & 1) || sonde_config.node.string_length < 0 || !sonde_config.node.not_string_mask)
        return 0;
    uint64_t map = READ(uint64_t, value, -1);
    uint32_t type = READ(uint16_t, map, sonde_config.node.map_instance_type);
    int32_t length = READ(int32_t, value, sonde_config.node.string_length);
    return type & sonde_config.node.not_string_mask || length < 0 ? 0 : (uint64_t)length;
}

static bool encode_enter(struct probe_thread *self)
{
    if (!self || self->in_encode)
        return false;
    self->in_encode = 1;
    return true;
}

HOT static void encode_leave(struct probe_thread *self, uint64_t start, uint64_t bytes, uint8_t what)
{
    uint64_t end = ticks();
    self->in_encode = 0;
    if (end - start > ENCODE_MIN_TICKS)
        RECORD(self, v8_encode, start, end, .bytes = bytes, .what = what);
}

/* Address Builtin_JsonX(int argument count, Address *arguments, Isolate *): the builtins behind JSON.parse
 * and JSON.stringify. The count holds the receiver and four words of V8's own; arguments points at the last
 * argument, those before it stand below. */
enum { BUILTIN_HIDDEN_ARGUMENTS = 5, JSON_PARSE = 0, JSON_STRINGIFY = 1, BUFFER_TO_STRING = 2 };

HOOK(uint64_t, v8_json_parse, int count, uint64_t *arguments, void *isolate)
{
    int extra = count - BUILTIN_HIDDEN_ARGUMENTS - 1; /* arguments behind the first */
    uint64_t bytes = extra >= 0 ? string_length(*(arguments - extra)) : 0;
    bool is_short = extra == 0 && bytes && bytes < ENCODE_MIN_BYTES; /* a second one may be a function */
    struct probe_thread *self = is_short ? NULL : probe_thread();
    if (!encode_enter(self))
        return sonde_orig_v8_json_parse(count, arguments, isolate);
    uint64_t start = ticks();
    uint64_t result = sonde_orig_v8_json_parse(count, arguments, isolate);
    encode_leave(self, start, bytes, JSON_PARSE);
    return result;
}

HOOK(uint64_t, v8_json_stringify, int count, uint64_t *arguments, void *isolate)
{
    struct probe_thread *self = probe_thread();
    if (!encode_enter(self))
        return sonde_orig_v8_json_stringify(count, arguments, isolate);
    uint64_t start = ticks();
    uint64_t result = sonde_orig_v8_json_stringify(count, arguments, isolate);
    encode_leave(self, start, string_length(result), JSON_STRINGIFY);
    return result;
}

/* MaybeLocal<Value> StringBytes::Encode(Isolate *, const char *, size_t, encoding[, Local<Value> *]): a
 * buffer becomes a string. A MaybeLocal is one pointer. */
HOT_HOOK(void *, node_encode, void *isolate, const char *bytes, size_t length, int encoding, void *error)
{
    struct probe_thread *self = length < ENCODE_MIN_BYTES ? NULL : probe_thread();
    if (!encode_enter(self))
        return sonde_orig_node_encode(isolate, bytes, length, encoding, error);
    uint64_t start = ticks();
    void *result = sonde_orig_node_encode(isolate, bytes, length, encoding, error);
    encode_leave(self, start, length, BUFFER_TO_STRING);
    return result;
}
