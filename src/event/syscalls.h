/* The names of Linux' system calls on x86-64, by number: LABEL(enumeration, ident, number, "name"). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_SYSCALLS_H
#define EVENT_SYSCALLS_H

enum { SONDE_SYSCALLS = 512, SONDE_SYSCALL_NONE = 65535 };

/* clang-format off */
#define SONDE_ENUM_syscall(L, e) \
    L(e, read, 0, "read") L(e, write, 1, "write") L(e, open, 2, "open") L(e, close, 3, "close") L(e, stat, 4, "stat") L(e, fstat, 5, "fstat") L(e, lstat, 6, "lstat") \
    L(e, poll, 7, "poll") L(e, lseek, 8, "lseek") L(e, mmap, 9, "mmap") L(e, mprotect, 10, "mprotect") L(e, munmap, 11, "munmap") L(e, brk, 12, "brk") \
    L(e, rt_sigaction, 13, "rt_sigaction") L(e, rt_sigprocmask, 14, "rt_sigprocmask") L(e, rt_sigreturn, 15, "rt_sigreturn") L(e, ioctl, 16, "ioctl") L(e, pread64, 17, "pread64") \
    L(e, pwrite64, 18, "pwrite64") L(e, readv, 19, "readv") L(e, writev, 20, "writev") L(e, access, 21, "access") L(e, pipe, 22, "pipe") L(e, select, 23, "select") \
    L(e, sched_yield, 24, "sched_yield") L(e, mremap, 25, "mremap") L(e, msync, 26, "msync") L(e, mincore, 27, "mincore") L(e, madvise, 28, "madvise") L(e, shmget, 29, "shmget") \
    L(e, shmat, 30, "shmat") L(e, shmctl, 31, "shmctl") L(e, dup, 32, "dup") L(e, dup2, 33, "dup2") L(e, pause, 34, "pause") L(e, nanosleep, 35, "nanosleep") \
    L(e, getitimer, 36, "getitimer") L(e, alarm, 37, "alarm") L(e, setitimer, 38, "setitimer") L(e, getpid, 39, "getpid") L(e, sendfile, 40, "sendfile") \
    L(e, socket, 41, "socket") L(e, connect, 42, "connect") L(e, accept, 43, "accept") L(e, sendto, 44, "sendto") L(e, recvfrom, 45, "recvfrom") L(e, sendmsg, 46, "sendmsg") \
    L(e, recvmsg, 47, "recvmsg") L(e, shutdown, 48, "shutdown") L(e, bind, 49, "bind") L(e, listen, 50, "listen") L(e, getsockname, 51, "getsockname") \
    L(e, getpeername, 52, "getpeername") L(e, socketpair, 53, "socketpair") L(e, setsockopt, 54, "setsockopt") L(e, getsockopt, 55, "getsockopt") L(e, clone, 56, "clone") \
    L(e, fork, 57, "fork") L(e, vfork, 58, "vfork") L(e, execve, 59, "execve") L(e, exit, 60, "exit") L(e, wait4, 61, "wait4") L(e, kill, 62, "kill") \
    L(e, uname, 63, "uname") L(e, semget, 64, "semget") L(e, semop, 65, "semop") L(e, semctl, 66, "semctl") L(e, shmdt, 67, "shmdt") L(e, msgget, 68, "msgget") \
    L(e, msgsnd, 69, "msgsnd") L(e, msgrcv, 70, "msgrcv") L(e, msgctl, 71, "msgctl") L(e, fcntl, 72, "fcntl") L(e, flock, 73, "flock") L(e, fsync, 74, "fsync") \
    L(e, fdatasync, 75, "fdatasync") L(e, truncate, 76, "truncate") L(e, ftruncate, 77, "ftruncate") L(e, getdents, 78, "getdents") L(e, getcwd, 79, "getcwd") \
    L(e, chdir, 80, "chdir") L(e, fchdir, 81, "fchdir") L(e, rename, 82, "rename") L(e, mkdir, 83, "mkdir") L(e, rmdir, 84, "rmdir") L(e, creat, 85, "creat") \
    L(e, link, 86, "link") L(e, unlink, 87, "unlink") L(e, symlink, 88, "symlink") L(e, readlink, 89, "readlink") L(e, chmod, 90, "chmod") L(e, fchmod, 91, "fchmod") \
    L(e, chown, 92, "chown") L(e, fchown, 93, "fchown") L(e, lchown, 94, "lchown") L(e, umask, 95, "umask") L(e, gettimeofday, 96, "gettimeofday") \
    L(e, getrlimit, 97, "getrlimit") L(e, getrusage, 98, "getrusage") L(e, sysinfo, 99, "sysinfo") L(e, times, 100, "times") L(e, ptrace, 101, "ptrace") \
    L(e, getuid, 102, "getuid") L(e, syslog, 103, "syslog") L(e, getgid, 104, "getgid") L(e, setuid, 105, "setuid") L(e, setgid, 106, "setgid") \
    L(e, geteuid, 107, "geteuid") L(e, getegid, 108, "getegid") L(e, setpgid, 109, "setpgid") L(e, getppid, 110, "getppid") L(e, getpgrp, 111, "getpgrp") \
    L(e, setsid, 112, "setsid") L(e, setreuid, 113, "setreuid") L(e, setregid, 114, "setregid") L(e, getgroups, 115, "getgroups") L(e, setgroups, 116, "setgroups") \
    L(e, setresuid, 117, "setresuid") L(e, getresuid, 118, "getresuid") L(e, setresgid, 119, "setresgid") L(e, getresgid, 120, "getresgid") L(e, getpgid, 121, "getpgid") \
    L(e, setfsuid, 122, "setfsuid") L(e, setfsgid, 123, "setfsgid") L(e, getsid, 124, "getsid") L(e, capget, 125, "capget") L(e, capset, 126, "capset") \
    L(e, rt_sigpending, 127, "rt_sigpending") L(e, rt_sigtimedwait, 128, "rt_sigtimedwait") L(e, rt_sigqueueinfo, 129, "rt_sigqueueinfo") L(e, rt_sigsuspend, 130, "rt_sigsuspend") \
    L(e, sigaltstack, 131, "sigaltstack") L(e, utime, 132, "utime") L(e, mknod, 133, "mknod") L(e, uselib, 134, "uselib") L(e, personality, 135, "personality") \
    L(e, ustat, 136, "ustat") L(e, statfs, 137, "statfs") L(e, fstatfs, 138, "fstatfs") L(e, sysfs, 139, "sysfs") L(e, getpriority, 140, "getpriority") \
    L(e, setpriority, 141, "setpriority") L(e, sched_setparam, 142, "sched_setparam") L(e, sched_getparam, 143, "sched_getparam") L(e, sched_setscheduler, 144, "sched_setscheduler") \
    L(e, sched_getscheduler, 145, "sched_getscheduler") L(e, sched_get_priority_max, 146, "sched_get_priority_max") L(e, sched_get_priority_min, 147, "sched_get_priority_min") \
    L(e, sched_rr_get_interval, 148, "sched_rr_get_interval") L(e, mlock, 149, "mlock") L(e, munlock, 150, "munlock") L(e, mlockall, 151, "mlockall") \
    L(e, munlockall, 152, "munlockall") L(e, vhangup, 153, "vhangup") L(e, modify_ldt, 154, "modify_ldt") L(e, pivot_root, 155, "pivot_root") L(e, _sysctl, 156, "_sysctl") \
    L(e, prctl, 157, "prctl") L(e, arch_prctl, 158, "arch_prctl") L(e, adjtimex, 159, "adjtimex") L(e, setrlimit, 160, "setrlimit") L(e, chroot, 161, "chroot") \
    L(e, sync, 162, "sync") L(e, acct, 163, "acct") L(e, settimeofday, 164, "settimeofday") L(e, mount, 165, "mount") L(e, umount2, 166, "umount2") \
    L(e, swapon, 167, "swapon") L(e, swapoff, 168, "swapoff") L(e, reboot, 169, "reboot") L(e, sethostname, 170, "sethostname") L(e, setdomainname, 171, "setdomainname") \
    L(e, iopl, 172, "iopl") L(e, ioperm, 173, "ioperm") L(e, create_module, 174, "create_module") L(e, init_module, 175, "init_module") L(e, delete_module, 176, "delete_module") \
    L(e, get_kernel_syms, 177, "get_kernel_syms") L(e, query_module, 178, "query_module") L(e, quotactl, 179, "quotactl") L(e, nfsservctl, 180, "nfsservctl") \
    L(e, getpmsg, 181, "getpmsg") L(e, putpmsg, 182, "putpmsg") L(e, afs_syscall, 183, "afs_syscall") L(e, tuxcall, 184, "tuxcall") L(e, security, 185, "security") \
    L(e, gettid, 186, "gettid") L(e, readahead, 187, "readahead") L(e, setxattr, 188, "setxattr") L(e, lsetxattr, 189, "lsetxattr") L(e, fsetxattr, 190, "fsetxattr") \
    L(e, getxattr, 191, "getxattr") L(e, lgetxattr, 192, "lgetxattr") L(e, fgetxattr, 193, "fgetxattr") L(e, listxattr, 194, "listxattr") L(e, llistxattr, 195, "llistxattr") \
    L(e, flistxattr, 196, "flistxattr") L(e, removexattr, 197, "removexattr") L(e, lremovexattr, 198, "lremovexattr") L(e, fremovexattr, 199, "fremovexattr") \
    L(e, tkill, 200, "tkill") L(e, time, 201, "time") L(e, futex, 202, "futex") L(e, sched_setaffinity, 203, "sched_setaffinity") \
    L(e, sched_getaffinity, 204, "sched_getaffinity") L(e, set_thread_area, 205, "set_thread_area") L(e, io_setup, 206, "io_setup") L(e, io_destroy, 207, "io_destroy") \
    L(e, io_getevents, 208, "io_getevents") L(e, io_submit, 209, "io_submit") L(e, io_cancel, 210, "io_cancel") L(e, get_thread_area, 211, "get_thread_area") \
    L(e, lookup_dcookie, 212, "lookup_dcookie") L(e, epoll_create, 213, "epoll_create") L(e, epoll_ctl_old, 214, "epoll_ctl_old") L(e, epoll_wait_old, 215, "epoll_wait_old") \
    L(e, remap_file_pages, 216, "remap_file_pages") L(e, getdents64, 217, "getdents64") L(e, set_tid_address, 218, "set_tid_address") L(e, restart_syscall, 219, "restart_syscall") \
    L(e, semtimedop, 220, "semtimedop") L(e, fadvise64, 221, "fadvise64") L(e, timer_create, 222, "timer_create") L(e, timer_settime, 223, "timer_settime") \
    L(e, timer_gettime, 224, "timer_gettime") L(e, timer_getoverrun, 225, "timer_getoverrun") L(e, timer_delete, 226, "timer_delete") L(e, clock_settime, 227, "clock_settime") \
    L(e, clock_gettime, 228, "clock_gettime") L(e, clock_getres, 229, "clock_getres") L(e, clock_nanosleep, 230, "clock_nanosleep") L(e, exit_group, 231, "exit_group") \
    L(e, epoll_wait, 232, "epoll_wait") L(e, epoll_ctl, 233, "epoll_ctl") L(e, tgkill, 234, "tgkill") L(e, utimes, 235, "utimes") L(e, vserver, 236, "vserver") \
    L(e, mbind, 237, "mbind") L(e, set_mempolicy, 238, "set_mempolicy") L(e, get_mempolicy, 239, "get_mempolicy") L(e, mq_open, 240, "mq_open") L(e, mq_unlink, 241, "mq_unlink") \
    L(e, mq_timedsend, 242, "mq_timedsend") L(e, mq_timedreceive, 243, "mq_timedreceive") L(e, mq_notify, 244, "mq_notify") L(e, mq_getsetattr, 245, "mq_getsetattr") \
    L(e, kexec_load, 246, "kexec_load") L(e, waitid, 247, "waitid") L(e, add_key, 248, "add_key") L(e, request_key, 249, "request_key") L(e, keyctl, 250, "keyctl") \
    L(e, ioprio_set, 251, "ioprio_set") L(e, ioprio_get, 252, "ioprio_get") L(e, inotify_init, 253, "inotify_init") L(e, inotify_add_watch, 254, "inotify_add_watch") \
    L(e, inotify_rm_watch, 255, "inotify_rm_watch") L(e, migrate_pages, 256, "migrate_pages") L(e, openat, 257, "openat") L(e, mkdirat, 258, "mkdirat") \
    L(e, mknodat, 259, "mknodat") L(e, fchownat, 260, "fchownat") L(e, futimesat, 261, "futimesat") L(e, newfstatat, 262, "newfstatat") L(e, unlinkat, 263, "unlinkat") \
    L(e, renameat, 264, "renameat") L(e, linkat, 265, "linkat") L(e, symlinkat, 266, "symlinkat") L(e, readlinkat, 267, "readlinkat") L(e, fchmodat, 268, "fchmodat") \
    L(e, faccessat, 269, "faccessat") L(e, pselect6, 270, "pselect6") L(e, ppoll, 271, "ppoll") L(e, unshare, 272, "unshare") L(e, set_robust_list, 273, "set_robust_list") \
    L(e, get_robust_list, 274, "get_robust_list") L(e, splice, 275, "splice") L(e, tee, 276, "tee") L(e, sync_file_range, 277, "sync_file_range") L(e, vmsplice, 278, "vmsplice") \
    L(e, move_pages, 279, "move_pages") L(e, utimensat, 280, "utimensat") L(e, epoll_pwait, 281, "epoll_pwait") L(e, signalfd, 282, "signalfd") \
    L(e, timerfd_create, 283, "timerfd_create") L(e, eventfd, 284, "eventfd") L(e, fallocate, 285, "fallocate") L(e, timerfd_settime, 286, "timerfd_settime") \
    L(e, timerfd_gettime, 287, "timerfd_gettime") L(e, accept4, 288, "accept4") L(e, signalfd4, 289, "signalfd4") L(e, eventfd2, 290, "eventfd2") \
    L(e, epoll_create1, 291, "epoll_create1") L(e, dup3, 292, "dup3") L(e, pipe2, 293, "pipe2") L(e, inotify_init1, 294, "inotify_init1") L(e, preadv, 295, "preadv") \
    L(e, pwritev, 296, "pwritev") L(e, rt_tgsigqueueinfo, 297, "rt_tgsigqueueinfo") L(e, perf_event_open, 298, "perf_event_open") L(e, recvmmsg, 299, "recvmmsg") \
    L(e, fanotify_init, 300, "fanotify_init") L(e, fanotify_mark, 301, "fanotify_mark") L(e, prlimit64, 302, "prlimit64") L(e, name_to_handle_at, 303, "name_to_handle_at") \
    L(e, open_by_handle_at, 304, "open_by_handle_at") L(e, clock_adjtime, 305, "clock_adjtime") L(e, syncfs, 306, "syncfs") L(e, sendmmsg, 307, "sendmmsg") \
    L(e, setns, 308, "setns") L(e, getcpu, 309, "getcpu") L(e, process_vm_readv, 310, "process_vm_readv") L(e, process_vm_writev, 311, "process_vm_writev") \
    L(e, kcmp, 312, "kcmp") L(e, finit_module, 313, "finit_module") L(e, sched_setattr, 314, "sched_setattr") L(e, sched_getattr, 315, "sched_getattr") \
    L(e, renameat2, 316, "renameat2") L(e, seccomp, 317, "seccomp") L(e, getrandom, 318, "getrandom") L(e, memfd_create, 319, "memfd_create") \
    L(e, kexec_file_load, 320, "kexec_file_load") L(e, bpf, 321, "bpf") L(e, execveat, 322, "execveat") L(e, userfaultfd, 323, "userfaultfd") L(e, membarrier, 324, "membarrier") \
    L(e, mlock2, 325, "mlock2") L(e, copy_file_range, 326, "copy_file_range") L(e, preadv2, 327, "preadv2") L(e, pwritev2, 328, "pwritev2") \
    L(e, pkey_mprotect, 329, "pkey_mprotect") L(e, pkey_alloc, 330, "pkey_alloc") L(e, pkey_free, 331, "pkey_free") L(e, statx, 332, "statx") \
    L(e, io_pgetevents, 333, "io_pgetevents") L(e, rseq, 334, "rseq") L(e, pidfd_send_signal, 424, "pidfd_send_signal") L(e, io_uring_setup, 425, "io_uring_setup") \
    L(e, io_uring_enter, 426, "io_uring_enter") L(e, io_uring_register, 427, "io_uring_register") L(e, open_tree, 428, "open_tree") L(e, move_mount, 429, "move_mount") \
    L(e, fsopen, 430, "fsopen") L(e, fsconfig, 431, "fsconfig") L(e, fsmount, 432, "fsmount") L(e, fspick, 433, "fspick") L(e, pidfd_open, 434, "pidfd_open") \
    L(e, clone3, 435, "clone3") L(e, close_range, 436, "close_range") L(e, openat2, 437, "openat2") L(e, pidfd_getfd, 438, "pidfd_getfd") L(e, faccessat2, 439, "faccessat2") \
    L(e, process_madvise, 440, "process_madvise") L(e, epoll_pwait2, 441, "epoll_pwait2") L(e, mount_setattr, 442, "mount_setattr") L(e, quotactl_fd, 443, "quotactl_fd") \
    L(e, landlock_create_ruleset, 444, "landlock_create_ruleset") L(e, landlock_add_rule, 445, "landlock_add_rule") L(e, landlock_restrict_self, 446, "landlock_restrict_self") \
    L(e, memfd_secret, 447, "memfd_secret") L(e, process_mrelease, 448, "process_mrelease") L(e, futex_waitv, 449, "futex_waitv") \
    L(e, set_mempolicy_home_node, 450, "set_mempolicy_home_node") L(e, cachestat, 451, "cachestat") L(e, fchmodat2, 452, "fchmodat2") L(e, map_shadow_stack, 453, "map_shadow_stack") \
    L(e, futex_wake, 454, "futex_wake") L(e, futex_wait, 455, "futex_wait") L(e, futex_requeue, 456, "futex_requeue") L(e, statmount, 457, "statmount") \
    L(e, listmount, 458, "listmount") L(e, lsm_get_self_attr, 459, "lsm_get_self_attr") L(e, lsm_set_self_attr, 460, "lsm_set_self_attr") \
    L(e, lsm_list_modules, 461, "lsm_list_modules") L(e, mseal, 462, "mseal") L(e, none, 65535, "none")
/* clang-format on */

#endif
