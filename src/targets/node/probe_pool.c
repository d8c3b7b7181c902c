/* The hooks in libuv's thread pool: operations that are submitted, worked on and completed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe.h"

#include "targets/node/probe_context.h"
#include "targets/node/probe_libuv.h"

/* What a uv__work is part of, from its work function; *ret_fs is the uv_fs_t around it, or NULL. */
static uint8_t work_kind(const void *work, uint64_t function, const void **ret_fs)
{
    *ret_fs = NULL;
    if (function == sonde_config.node.uv_fs_work) {
        const char *request = (const char *)work - UV_FS_WORK;
        if (READ(int, request, UV_REQ_TYPE) != UV_TYPE_FS)
            return 0;
        *ret_fs = request;
        return (uint8_t)READ(int, request, UV_FS_TYPE);
    }
    if (function == sonde_config.node.uv_queue_work)
        return SONDE_uv_kind_work;
    if (function == sonde_config.node.uv_getaddrinfo_work)
        return SONDE_uv_kind_getaddrinfo;
    return function == sonde_config.node.uv_getnameinfo_work ? SONDE_uv_kind_getnameinfo : 0;
}

static bool kind_has_file(uint8_t kind)
{
    return kind >= 2 && kind <= 5; /* close, read, write, sendfile; others name a path */
}

/* The request's resource, if it was made just before, gets the same time. */
static inline __attribute__((always_inline)) void record_submit(struct probe_thread *self, const void *work,
                                                                int fd, uint8_t kind)
{
    uint32_t context = context_current(self, -1);
    if (probe_stale(self))
        return;
    uint64_t now = ticks(), request = (uintptr_t)work;
    if (LIKELY(self->shared.busy == BUSY_HOLDING)) {
        if (LIKELY(short_submit_fits(fd)) &&
            record_release_short(self, now, SONDE_SHORT_uv_submit, short_operation_word(request, kind),
                                 short_submit_rest(context, fd)))
            return;
        record_release(self, now);
    }
    RECORD_WANTED(self, uv_submit, 0, now, .request = request, .fd = fd, .context = context, .kind = kind);
}

/* uv__work_submit(uv_loop_t*, struct uv__work*, enum uv__work_kind, work function, done function) */
HOOK(void, uv_submit, void *loop, void *work, int kind, void *function, void *done)
{
    struct probe_thread *self = THREAD_WANTING(uv_submit);
    if (self && !self->in_submit) {
        const void *fs;
        uint8_t what = work_kind(work, (uintptr_t)function, &fs);
        int fd = fs && kind_has_file(what) ? READ(int, fs, UV_FS_FILE) : -1;
        record_submit(self, work, fd, what);
    }
    sonde_orig_uv_submit(loop, work, kind, function, done);
}

/* uv_queue_work(uv_loop_t*, uv_work_t*, work function, after function). Compilers inline uv__work_submit into
 * it, which stands in the same file; where they do not, this is the one that records. */
HOOK(int, uv_queue_submit, void *loop, void *request, void *work, void *after)
{
    struct probe_thread *self = THREAD_WANTING(uv_submit);
    if (!self)
        return sonde_orig_uv_queue_submit(loop, request, work, after);
    if (work) /* else it is refused */
        record_submit(self, (char *)request + UV_WORK_WORK, -1, SONDE_uv_kind_work);
    self->in_submit = 1;
    int result = sonde_orig_uv_queue_submit(loop, request, work, after);
    self->in_submit = 0;
    return result;
}

/* Where libuv hands a file operation to an io_uring, none of the functions below runs. They are counted, so
 * that their absence is not taken for none. */
HOOK(void, uv_iou_submit, void *ring)
{
    if (probe_thread())
        __atomic_fetch_add(&probe_shared->io_uring_operations, 1, __ATOMIC_RELAXED);
    sonde_orig_uv_iou_submit(ring);
}

/* The functions a pool thread runs. Also called directly, on the caller's thread, by the synchronous API. */
#define WORK_HOOK(name, address)                                                                         \
    HOOK(void, name, void *work)                                                                         \
    {                                                                                                    \
        struct probe_thread *self = THREAD_WANTING(uv_run);                                              \
        if (!self) {                                                                                     \
            sonde_orig_##name(work);                                                                     \
            return;                                                                                      \
        }                                                                                                \
        uint32_t depth = self->shared.depth;                                                             \
        uint64_t start = span_open(self, SONDE_EVENT_uv_run, (uintptr_t)work, 0);                        \
        sonde_orig_##name(work);                                                                         \
        if (!span_close(self, depth) || record_left_out(&self->shared, depth))                           \
            return;                                                                                      \
        /* The loop learns of the completion only after this function, so the request is still there. */ \
        const void *fs;                                                                                  \
        uint8_t kind = work_kind(work, sonde_config.node.address, &fs);                                  \
        int64_t result = fs ? READ(int64_t, fs, UV_FS_RESULT) : 0;                                       \
        RECORD_WANTED(self, uv_run, start, ticks(), .request = (uintptr_t)work, .result = result,        \
                      .kind = kind);                                                                     \
    }
WORK_HOOK(uv_fs_work, uv_fs_work)
WORK_HOOK(uv_queue_work, uv_queue_work)
WORK_HOOK(uv_getaddrinfo_work, uv_getaddrinfo_work)
WORK_HOOK(uv_getnameinfo_work, uv_getnameinfo_work)

/* It begins and ends with its callback, where that is the newest record. */
static inline void record_done(struct probe_thread *self, const void *work, uint64_t start, int status,
                               uint8_t kind)
{
    bool called_back = self->boundary_mark == boundary_mark(self, BOUNDARY_CALLBACK);
    uint64_t end = LIKELY(called_back) ? self->boundary_tsc : ticks(), request = (uintptr_t)work;
    if (LIKELY(called_back && self->callback_start == start && !status))
        record_short(self, end, SONDE_SHORT_uv_done, short_operation_word(request, kind), 0);
    else
        RECORD_WANTED(self, uv_done, start, end, .request = request, .status = status, .kind = kind);
    boundary_is(self, BOUNDARY_COMPLETED, end);
}

/* A request's own completion. One drain of the loop's queue runs many: each has been taken out of the queue
 * when it begins, but still points at the one that follows when it ends. */
#define DONE_HOOK(name, address)                                                                             \
    HOOK(void, name, void *work, int status)                                                                 \
    {                                                                                                        \
        struct probe_thread *self = THREAD_WANTING(uv_done);                                                 \
        if (!self) {                                                                                         \
            sonde_orig_##name(work, status);                                                                 \
            return;                                                                                          \
        }                                                                                                    \
        const void *fs;                                                                                      \
        uint8_t kind = work_kind(work, sonde_config.node.address, &fs);                                      \
        uint32_t depth = self->shared.depth;                                                                 \
        uint64_t start =                                                                                     \
                     self->completed_next == (uintptr_t)work ? boundary(self, BOUNDARY_COMPLETED) : ticks(), \
                 next = READ(uint64_t, work, UV_WORK_NEXT) - UV_WORK_NEXT;                                   \
        span_open_at(self, start, SONDE_EVENT_uv_done, (uintptr_t)work, 0);                                  \
        boundary_is(self, BOUNDARY_COMPLETION, start);                                                       \
        sonde_orig_##name(work, status);                                                                     \
        if (!span_close(self, depth))                                                                        \
            return;                                                                                          \
        record_done(self, work, start, status, kind);                                                        \
        self->completed_next = next;                                                                         \
    }
DONE_HOOK(uv_fs_done, uv_fs_work)
DONE_HOOK(uv_queue_done, uv_queue_work)
DONE_HOOK(uv_getaddrinfo_done, uv_getaddrinfo_work)
DONE_HOOK(uv_getnameinfo_done, uv_getnameinfo_work)
