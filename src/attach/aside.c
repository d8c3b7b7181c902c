/* See aside.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/aside.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What parent and child share: the result, then the context. */
struct sheet {
    int result;
    _Alignas(16) char context[];
};

int aside_run(int (*work)(void *context), void *context, size_t size)
{
    size_t length = sizeof(struct sheet) + size;
    struct sheet *sheet = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sheet == MAP_FAILED)
        return -ENOMEM;
    memcpy(sheet->context, context, size);
    sheet->result = -ECHILD;
    pid_t child = fork();
    if (child == 0) {
        setsid();
        sheet->result = work(sheet->context);
        _exit(0);
    }
    int r = child < 0 ? -errno : 0;
    if (child > 0) {
        while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
            ;
        memcpy(context, sheet->context, size);
        r = sheet->result;
    }
    munmap(sheet, length);
    return r;
}
