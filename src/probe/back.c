/* Where functions return to that sonde calls in here (attach/call.h): to what the main thread was in the
 * midst of, from the signal frame that the stack pointer then points into. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

EXPORTED void sonde_return(void);
__attribute__((naked)) void sonde_return(void)
{
    __asm__("mov %rax, %rdi\n\t" /* the result, for sonde to see */
            "mov $15, %eax\n\t"  /* rt_sigreturn */
            "syscall");
}
