/* The probe's view of libuv's structures against libuv's own header. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/probe_libuv.h"

#include <stddef.h>

#include <uv.h>

#include "test.h"

static void places_are_libuvs(void **state)
{
    (void)state;
    assert_int_equal(UV_HANDLE_TYPE, offsetof(uv_handle_t, type));
    assert_int_equal(UV_STREAM_WATCHER, offsetof(uv_stream_t, io_watcher));
    assert_int_equal(UV_IO_FD, offsetof(uv__io_t, fd));
    assert_int_equal(UV_REQ_TYPE, offsetof(uv_req_t, type));
    assert_int_equal(UV_FS_TYPE, offsetof(uv_fs_t, fs_type));
    assert_int_equal(UV_FS_RESULT, offsetof(uv_fs_t, result));
    assert_int_equal(UV_FS_FILE, offsetof(uv_fs_t, file));
    assert_int_equal(UV_FS_WORK, offsetof(uv_fs_t, work_req));
    assert_int_equal(UV_WORK_WORK, offsetof(uv_work_t, work_req));
    assert_int_equal(UV_WORK_NEXT, offsetof(struct uv__work, wq));
    assert_int_equal(UV_TYPE_FS, UV_FS);
    assert_int_equal(UV_TCP_TYPE, UV_TCP);
    assert_int_equal(UV_NAMED_PIPE_TYPE, UV_NAMED_PIPE);
    assert_int_equal(UV_TTY_TYPE, UV_TTY);
}

static void an_idle_loop_has_nothing_to_do(void **state)
{
    (void)state;
    assert_int_equal(UV_LOOP_PENDING, offsetof(uv_loop_t, pending_queue));
    assert_int_equal(UV_LOOP_PREPARE, offsetof(uv_loop_t, prepare_handles));
    assert_int_equal(UV_LOOP_CHECK, offsetof(uv_loop_t, check_handles));
    assert_int_equal(UV_LOOP_IDLE, offsetof(uv_loop_t, idle_handles));
    assert_int_equal(UV_LOOP_TIMER, offsetof(uv_loop_t, timer_heap));
    assert_int_equal(UV_LOOP_TIME, offsetof(uv_loop_t, time));
    assert_int_equal(UV_TIMER_TIMEOUT, offsetof(uv_timer_t, timeout) - offsetof(uv_timer_t, heap_node));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_libuvs),
        cmocka_unit_test(an_idle_loop_has_nothing_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
