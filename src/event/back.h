/* The way back from a function that sonde has called in somebody's thread (attach/call.h): to what the thread
 * was in the midst of, from the signal frame that the stack pointer then points into. The probe has it as a
 * function, and sonde writes it where there is no probe yet.
 *
 * Entered at its beginning it goes back, with the result in rdi; a tracer sees that by following system
 * calls. Entered at SONDE_BACK_TELLS it first sends the thread SIGURG, with the result in rbx: a tracer sees
 * that signal once and lets the thread continue as it was. Without a tracer the signal has no effect: SIGURG
 * is ignored unless the program handles it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_BACK_H
#define EVENT_BACK_H

/* Offsets: the second way in, where the thread is once it has sent the signal, and the end. */
enum { SONDE_BACK_TELLS = 10, SONDE_BACK_TOLD = 43, SONDE_BACK_BYTES = 53 };

/* Defines it as a function of that name, to be declared as char NAME[SONDE_BACK_BYTES]. */
#define SONDE_BACK(name)                                                                       \
    __asm__(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n\t" \
            "mov %rax, %rdi\n\t"                                                               \
            "mov $15, %eax\n\t" /* rt_sigreturn */                                             \
            "syscall\n\t"                                                                      \
            "mov %rax, %rbx\n\t"                                                               \
            "mov $39, %eax\n\t" /* getpid */                                                   \
            "syscall\n\t"                                                                      \
            "mov %eax, %edi\n\t"                                                               \
            "mov $186, %eax\n\t" /* gettid */                                                  \
            "syscall\n\t"                                                                      \
            "mov %eax, %esi\n\t"                                                               \
            "mov $23, %edx\n\t"  /* SIGURG */                                                  \
            "mov $234, %eax\n\t" /* tgkill */                                                  \
            "syscall\n\t"                                                                      \
            "mov %rbx, %rdi\n\t"                                                               \
            "mov $15, %eax\n\t"                                                                \
            "syscall\n"                                                                        \
            ".size " #name ", . - " #name "\n.popsection")

#endif
