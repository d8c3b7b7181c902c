/* A program into which a tool has put a jump at the beginning of place(), as hooks are made, for
 * tests/system/profile-hits.test.mjs. Prints "ready"; for each line calls place() and tells what came back.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Begins with an instruction of seven bytes, so that the jump ends inside it. */
__attribute__((naked, noinline)) static int place(void)
{
    __asm__("mov $1, %rax\n ret");
}

__attribute__((noinline)) static int other(void)
{
    return 2;
}

int main(void)
{
    int (*volatile call)(void) = place;
    uint8_t *code = (uint8_t *)(uintptr_t)place, *page = (uint8_t *)((uintptr_t)code & ~(uintptr_t)4095);
    int32_t distance = (int32_t)((intptr_t)other - ((intptr_t)code + 5));
    char line[16];
    if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
        return 1;
    code[0] = 0xe9;
    memcpy(code + 1, &distance, sizeof(distance));
    mprotect(page, 8192, PROT_READ | PROT_EXEC);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        printf("place says %d, other %d\n", call(), other());
        fflush(stdout);
    }
    return 0;
}
