/* The way back from a call that was put into a thread from outside: a signal frame on the thread's stack, as
 * the kernel makes one for a signal handler. The call returns to the C library's own way out of a handler,
 * which is rt_sigreturn, and that takes everything the thread was in the midst of from the frame. So a call
 * needs nobody to end it: whatever becomes of its tracer, the thread goes on where it was. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_CALL_H
#define ATTACH_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/problem.h"
#include "event/back.h"
#include "symbol/modules.h"

enum { CALL_XSTATE_MAX = 16 << 10 }; /* with AVX-512 and AMX it takes 11 KB */

/* What a thread is in the midst of. */
struct call_state {
    struct user_regs_struct regs;
    _Alignas(64) char xstate[CALL_XSTATE_MAX]; /* as XSAVE writes it, uncompacted */
    size_t xstate_bytes;
    uint64_t signals; /* blocked */
};

/* Of a stopped thread; 0 or a negative errno. restore: what was not restored is as before. */
int call_state_save(pid_t tid, struct call_state *ret_state);
int call_state_restore(pid_t tid, const struct call_state *state);

/* The floating-point state that the kernel gives to a signal handler (initial, but for PKRU, which stays). */
int call_state_begin(pid_t tid, const struct call_state *state);

/* The registers with which the thread goes on by itself: a system call that was interrupted is made again
 * where the kernel would (its codes -512 to -514, arch/x86/kernel/signal.c), and ends with EINTR where only
 * the kernel knows how to go on with it (-516). */
struct user_regs_struct call_resumed(const struct user_regs_struct *regs);

/* The frame: bytes for the stack, to be written at address, and what the thread begins the call with. */
struct call_frame {
    uint64_t address; /* of the frame; the return address is its first word */
    size_t bytes;
    char data[CALL_XSTATE_MAX + 1024];
};

/* Makes the frame that leads back to state, below the address under. back: the restorer of
 * call_find_restorer(), or a stub that does the same. The frame's address is that of a stack pointer at a
 * function's entry. */
void call_frame_make(const struct call_state *state, uint64_t under, uint64_t back,
                     struct call_frame *ret_frame);

/* The instructions `mov $15, %eax; syscall` of the process's C library, which every signal handler returns
 * to. memory: its /proc/PID/mem. -ENOSYS when there are none. */
int call_find_restorer(const struct modules *modules, int memory, uint64_t *ret_address,
                       struct problem *problem);

/* Does the process that memory belongs to still exist, with those instructions at that address? After an exec
 * it does not. */
bool call_restorer_stands(int memory, uint64_t address);

/* A stub in the place of the restorer, which destroys the result of a call: this one keeps it (event/back.h).
 */
extern const uint8_t call_stub[SONDE_BACK_BYTES];

/* Is a thread with these registers about to enter the frame's rt_sigreturn? */
bool call_is_over(const struct user_regs_struct *regs, const struct call_frame *frame, uint64_t back);

/* Has it returned to a stub that tells (SONDE_BACK_TELLS), and sent its signal? */
bool call_has_told(const struct user_regs_struct *regs, const struct call_frame *frame, uint64_t stub);

#endif
