/* See kernel_calls.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/kernel_calls.h"

#include <stddef.h>

#include "base/macro.h"

#include <asm/unistd.h>

static const uint16_t RECEIVES[] = {__NR_read, __NR_readv, __NR_recvfrom, __NR_recvmsg};
static const uint16_t SENDS[] = {__NR_write, __NR_writev, __NR_sendto, __NR_sendmsg, __NR_sendfile};
static const uint16_t ACCEPTS[] = {__NR_accept, __NR_accept4};
static const uint16_t ABOUT_FD[] = {__NR_sendmmsg,
                                    __NR_recvmmsg,
                                    __NR_close,
                                    __NR_fstat,
                                    __NR_lseek,
                                    __NR_ioctl,
                                    __NR_pread64,
                                    __NR_pwrite64,
                                    __NR_preadv,
                                    __NR_pwritev,
                                    __NR_preadv2,
                                    __NR_pwritev2,
                                    __NR_dup,
                                    __NR_dup2,
                                    __NR_dup3,
                                    __NR_connect,
                                    __NR_shutdown,
                                    __NR_bind,
                                    __NR_listen,
                                    __NR_getsockname,
                                    __NR_getpeername,
                                    __NR_setsockopt,
                                    __NR_getsockopt,
                                    __NR_fcntl,
                                    __NR_flock,
                                    __NR_fsync,
                                    __NR_fdatasync,
                                    __NR_ftruncate,
                                    __NR_fallocate,
                                    __NR_getdents,
                                    __NR_getdents64,
                                    __NR_fchdir,
                                    __NR_fchmod,
                                    __NR_fchown,
                                    __NR_fstatfs,
                                    __NR_fadvise64,
                                    __NR_readahead,
                                    __NR_sync_file_range,
                                    __NR_syncfs,
                                    __NR_epoll_wait,
                                    __NR_epoll_pwait,
                                    __NR_epoll_pwait2,
                                    __NR_epoll_ctl,
                                    __NR_splice,
                                    __NR_tee,
                                    __NR_vmsplice,
                                    __NR_copy_file_range,
                                    __NR_fsetxattr,
                                    __NR_fgetxattr,
                                    __NR_flistxattr,
                                    __NR_fremovexattr,
                                    __NR_signalfd4,
                                    __NR_timerfd_settime,
                                    __NR_timerfd_gettime,
                                    __NR_inotify_add_watch,
                                    __NR_inotify_rm_watch,
                                    __NR_io_uring_enter,
                                    __NR_io_uring_register};
static const uint16_t WAKES[] = {__NR_futex, __NR_kill,       __NR_tkill, __NR_tgkill,
                                 __NR_exit,  __NR_exit_group, __NR_clone};

static const uint16_t SLEEPS[] = {__NR_nanosleep, __NR_clock_nanosleep};

static void set_kinds(uint8_t kinds[static SONDE_SYSCALLS], const uint16_t *calls, size_t count, uint8_t kind)
{
    for (size_t i = 0; i < count; i++)
        kinds[calls[i]] |= kind;
}

static const uint16_t POLLS[] = {__NR_epoll_wait, __NR_epoll_pwait, __NR_epoll_pwait2, __NR_poll,
                                 __NR_ppoll,      __NR_select,      __NR_pselect6};

void kernel_call_kinds(uint8_t kinds[static SONDE_SYSCALLS])
{
    set_kinds(kinds, RECEIVES, ARRAY_SIZE(RECEIVES), SONDE_CALL_FD | SONDE_CALL_RECEIVE);
    set_kinds(kinds, SENDS, ARRAY_SIZE(SENDS), SONDE_CALL_FD | SONDE_CALL_SEND);
    set_kinds(kinds, ACCEPTS, ARRAY_SIZE(ACCEPTS), SONDE_CALL_FD | SONDE_CALL_ACCEPT);
    set_kinds(kinds, ABOUT_FD, ARRAY_SIZE(ABOUT_FD), SONDE_CALL_FD);
    set_kinds(kinds, WAKES, ARRAY_SIZE(WAKES), SONDE_CALL_WAKES);
    set_kinds(kinds, POLLS, ARRAY_SIZE(POLLS), SONDE_CALL_POLLS);
    set_kinds(kinds, SLEEPS, ARRAY_SIZE(SLEEPS), SONDE_CALL_SLEEPS);
    kinds[__NR_mmap] = SONDE_CALL_FD_5;
}
