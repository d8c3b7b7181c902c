/* The names of Linux' system calls on x86-64, by number: LABEL(number, "name"). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_SYSCALLS_H
#define EVENT_SYSCALLS_H

enum { SONDE_SYSCALLS = 512, SONDE_SYSCALL_NONE = 65535 };

/* clang-format off */
#define SONDE_ENUM_syscall(L) \
    L(0, "read") L(1, "write") L(2, "open") L(3, "close") L(4, "stat") L(5, "fstat") L(6, "lstat") \
    L(7, "poll") L(8, "lseek") L(9, "mmap") L(10, "mprotect") L(11, "munmap") L(12, "brk") \
    L(13, "rt_sigaction") L(14, "rt_sigprocmask") L(15, "rt_sigreturn") L(16, "ioctl") L(17, "pread64") \
    L(18, "pwrite64") L(19, "readv") L(20, "writev") L(21, "access") L(22, "pipe") L(23, "select") \
    L(24, "sched_yield") L(25, "mremap") L(26, "msync") L(27, "mincore") L(28, "madvise") L(29, "shmget") \
    L(30, "shmat") L(31, "shmctl") L(32, "dup") L(33, "dup2") L(34, "pause") L(35, "nanosleep") \
    L(36, "getitimer") L(37, "alarm") L(38, "setitimer") L(39, "getpid") L(40, "sendfile") \
    L(41, "socket") L(42, "connect") L(43, "accept") L(44, "sendto") L(45, "recvfrom") L(46, "sendmsg") \
    L(47, "recvmsg") L(48, "shutdown") L(49, "bind") L(50, "listen") L(51, "getsockname") \
    L(52, "getpeername") L(53, "socketpair") L(54, "setsockopt") L(55, "getsockopt") L(56, "clone") \
    L(57, "fork") L(58, "vfork") L(59, "execve") L(60, "exit") L(61, "wait4") L(62, "kill") \
    L(63, "uname") L(64, "semget") L(65, "semop") L(66, "semctl") L(67, "shmdt") L(68, "msgget") \
    L(69, "msgsnd") L(70, "msgrcv") L(71, "msgctl") L(72, "fcntl") L(73, "flock") L(74, "fsync") \
    L(75, "fdatasync") L(76, "truncate") L(77, "ftruncate") L(78, "getdents") L(79, "getcwd") \
    L(80, "chdir") L(81, "fchdir") L(82, "rename") L(83, "mkdir") L(84, "rmdir") L(85, "creat") \
    L(86, "link") L(87, "unlink") L(88, "symlink") L(89, "readlink") L(90, "chmod") L(91, "fchmod") \
    L(92, "chown") L(93, "fchown") L(94, "lchown") L(95, "umask") L(96, "gettimeofday") \
    L(97, "getrlimit") L(98, "getrusage") L(99, "sysinfo") L(100, "times") L(101, "ptrace") \
    L(102, "getuid") L(103, "syslog") L(104, "getgid") L(105, "setuid") L(106, "setgid") \
    L(107, "geteuid") L(108, "getegid") L(109, "setpgid") L(110, "getppid") L(111, "getpgrp") \
    L(112, "setsid") L(113, "setreuid") L(114, "setregid") L(115, "getgroups") L(116, "setgroups") \
    L(117, "setresuid") L(118, "getresuid") L(119, "setresgid") L(120, "getresgid") L(121, "getpgid") \
    L(122, "setfsuid") L(123, "setfsgid") L(124, "getsid") L(125, "capget") L(126, "capset") \
    L(127, "rt_sigpending") L(128, "rt_sigtimedwait") L(129, "rt_sigqueueinfo") L(130, "rt_sigsuspend") \
    L(131, "sigaltstack") L(132, "utime") L(133, "mknod") L(134, "uselib") L(135, "personality") \
    L(136, "ustat") L(137, "statfs") L(138, "fstatfs") L(139, "sysfs") L(140, "getpriority") \
    L(141, "setpriority") L(142, "sched_setparam") L(143, "sched_getparam") L(144, "sched_setscheduler") \
    L(145, "sched_getscheduler") L(146, "sched_get_priority_max") L(147, "sched_get_priority_min") \
    L(148, "sched_rr_get_interval") L(149, "mlock") L(150, "munlock") L(151, "mlockall") \
    L(152, "munlockall") L(153, "vhangup") L(154, "modify_ldt") L(155, "pivot_root") L(156, "_sysctl") \
    L(157, "prctl") L(158, "arch_prctl") L(159, "adjtimex") L(160, "setrlimit") L(161, "chroot") \
    L(162, "sync") L(163, "acct") L(164, "settimeofday") L(165, "mount") L(166, "umount2") \
    L(167, "swapon") L(168, "swapoff") L(169, "reboot") L(170, "sethostname") L(171, "setdomainname") \
    L(172, "iopl") L(173, "ioperm") L(174, "create_module") L(175, "init_module") L(176, "delete_module") \
    L(177, "get_kernel_syms") L(178, "query_module") L(179, "quotactl") L(180, "nfsservctl") \
    L(181, "getpmsg") L(182, "putpmsg") L(183, "afs_syscall") L(184, "tuxcall") L(185, "security") \
    L(186, "gettid") L(187, "readahead") L(188, "setxattr") L(189, "lsetxattr") L(190, "fsetxattr") \
    L(191, "getxattr") L(192, "lgetxattr") L(193, "fgetxattr") L(194, "listxattr") L(195, "llistxattr") \
    L(196, "flistxattr") L(197, "removexattr") L(198, "lremovexattr") L(199, "fremovexattr") \
    L(200, "tkill") L(201, "time") L(202, "futex") L(203, "sched_setaffinity") \
    L(204, "sched_getaffinity") L(205, "set_thread_area") L(206, "io_setup") L(207, "io_destroy") \
    L(208, "io_getevents") L(209, "io_submit") L(210, "io_cancel") L(211, "get_thread_area") \
    L(212, "lookup_dcookie") L(213, "epoll_create") L(214, "epoll_ctl_old") L(215, "epoll_wait_old") \
    L(216, "remap_file_pages") L(217, "getdents64") L(218, "set_tid_address") L(219, "restart_syscall") \
    L(220, "semtimedop") L(221, "fadvise64") L(222, "timer_create") L(223, "timer_settime") \
    L(224, "timer_gettime") L(225, "timer_getoverrun") L(226, "timer_delete") L(227, "clock_settime") \
    L(228, "clock_gettime") L(229, "clock_getres") L(230, "clock_nanosleep") L(231, "exit_group") \
    L(232, "epoll_wait") L(233, "epoll_ctl") L(234, "tgkill") L(235, "utimes") L(236, "vserver") \
    L(237, "mbind") L(238, "set_mempolicy") L(239, "get_mempolicy") L(240, "mq_open") L(241, "mq_unlink") \
    L(242, "mq_timedsend") L(243, "mq_timedreceive") L(244, "mq_notify") L(245, "mq_getsetattr") \
    L(246, "kexec_load") L(247, "waitid") L(248, "add_key") L(249, "request_key") L(250, "keyctl") \
    L(251, "ioprio_set") L(252, "ioprio_get") L(253, "inotify_init") L(254, "inotify_add_watch") \
    L(255, "inotify_rm_watch") L(256, "migrate_pages") L(257, "openat") L(258, "mkdirat") \
    L(259, "mknodat") L(260, "fchownat") L(261, "futimesat") L(262, "newfstatat") L(263, "unlinkat") \
    L(264, "renameat") L(265, "linkat") L(266, "symlinkat") L(267, "readlinkat") L(268, "fchmodat") \
    L(269, "faccessat") L(270, "pselect6") L(271, "ppoll") L(272, "unshare") L(273, "set_robust_list") \
    L(274, "get_robust_list") L(275, "splice") L(276, "tee") L(277, "sync_file_range") L(278, "vmsplice") \
    L(279, "move_pages") L(280, "utimensat") L(281, "epoll_pwait") L(282, "signalfd") \
    L(283, "timerfd_create") L(284, "eventfd") L(285, "fallocate") L(286, "timerfd_settime") \
    L(287, "timerfd_gettime") L(288, "accept4") L(289, "signalfd4") L(290, "eventfd2") \
    L(291, "epoll_create1") L(292, "dup3") L(293, "pipe2") L(294, "inotify_init1") L(295, "preadv") \
    L(296, "pwritev") L(297, "rt_tgsigqueueinfo") L(298, "perf_event_open") L(299, "recvmmsg") \
    L(300, "fanotify_init") L(301, "fanotify_mark") L(302, "prlimit64") L(303, "name_to_handle_at") \
    L(304, "open_by_handle_at") L(305, "clock_adjtime") L(306, "syncfs") L(307, "sendmmsg") \
    L(308, "setns") L(309, "getcpu") L(310, "process_vm_readv") L(311, "process_vm_writev") \
    L(312, "kcmp") L(313, "finit_module") L(314, "sched_setattr") L(315, "sched_getattr") \
    L(316, "renameat2") L(317, "seccomp") L(318, "getrandom") L(319, "memfd_create") \
    L(320, "kexec_file_load") L(321, "bpf") L(322, "execveat") L(323, "userfaultfd") L(324, "membarrier") \
    L(325, "mlock2") L(326, "copy_file_range") L(327, "preadv2") L(328, "pwritev2") \
    L(329, "pkey_mprotect") L(330, "pkey_alloc") L(331, "pkey_free") L(332, "statx") \
    L(333, "io_pgetevents") L(334, "rseq") L(424, "pidfd_send_signal") L(425, "io_uring_setup") \
    L(426, "io_uring_enter") L(427, "io_uring_register") L(428, "open_tree") L(429, "move_mount") \
    L(430, "fsopen") L(431, "fsconfig") L(432, "fsmount") L(433, "fspick") L(434, "pidfd_open") \
    L(435, "clone3") L(436, "close_range") L(437, "openat2") L(438, "pidfd_getfd") L(439, "faccessat2") \
    L(440, "process_madvise") L(441, "epoll_pwait2") L(442, "mount_setattr") L(443, "quotactl_fd") \
    L(444, "landlock_create_ruleset") L(445, "landlock_add_rule") L(446, "landlock_restrict_self") \
    L(447, "memfd_secret") L(448, "process_mrelease") L(449, "futex_waitv") \
    L(450, "set_mempolicy_home_node") L(451, "cachestat") L(452, "fchmodat2") L(453, "map_shadow_stack") \
    L(454, "futex_wake") L(455, "futex_wait") L(456, "futex_requeue") L(457, "statmount") \
    L(458, "listmount") L(459, "lsm_get_self_attr") L(460, "lsm_set_self_attr") \
    L(461, "lsm_list_modules") L(462, "mseal") L(65535, "none")
/* clang-format on */

#endif
