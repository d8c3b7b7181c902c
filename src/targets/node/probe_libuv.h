/* Where libuv's public structures keep what the Node hooks read: part of its 1.x ABI on x86-64 Linux.
 * tests/unit/test_probe_libuv.c holds these against uv.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_PROBE_LIBUV_H
#define TARGETS_NODE_PROBE_LIBUV_H

enum {
    UV_HANDLE_TYPE = 16,     /* uv_handle_t.type */
    UV_STREAM_WATCHER = 136, /* uv_stream_t.io_watcher */
    UV_IO_FD = 48,           /* uv__io_t.fd */
    UV_IO_STREAM_FD = UV_STREAM_WATCHER + UV_IO_FD,
    UV_REQ_TYPE = 8,       /* uv_req_t.type */
    UV_FS_TYPE = 64,       /* uv_fs_t.fs_type */
    UV_FS_RESULT = 88,     /* uv_fs_t.result */
    UV_FS_FILE = 280,      /* uv_fs_t.file */
    UV_FS_WORK = 336,      /* uv_fs_t.work_req */
    UV_WORK_WORK = 88,     /* uv_work_t.work_req */
    UV_WORK_NEXT = 24,     /* uv__work.wq, a queue: the next one's */
    UV_LOOP_PENDING = 72,  /* uv_loop_t.pending_queue, a queue */
    UV_LOOP_PREPARE = 384, /* uv_loop_t.prepare_handles, a queue: itself when it is empty */
    UV_LOOP_CHECK = 400,   /* ... check_handles */
    UV_LOOP_IDLE = 416,    /* ... idle_handles */
    UV_LOOP_TIMER = 520,   /* the timer that is due first, its heap_node; NULL: none */
    UV_LOOP_TIME = 544,    /* uv_loop_t.time */
    UV_TIMER_TIMEOUT = 24, /* uv_timer_t.timeout, from its heap_node */
    UV_TYPE_FS = 6,        /* UV_FS among request types */
    UV_NAMED_PIPE_TYPE = 7,
    UV_TCP_TYPE = 12,
    UV_TTY_TYPE = 14,
};

#endif
