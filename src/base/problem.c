/* See problem.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/problem.h"

#include <stdarg.h>
#include <stdio.h>

/* Words of other programs may be among ours: what a terminal would obey is not kept. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\n') || *text == 127)
            *text = '?';
}

int problem_set(struct problem *problem, int error, const char *format, ...)
{
    if (problem) {
        va_list args;
        va_start(args, format);
        vsnprintf(problem->what, sizeof(problem->what), format, args);
        va_end(args);
        make_printable(problem->what);
        problem->remedy[0] = '\0';
    }
    return error;
}

void problem_remedy(struct problem *problem, const char *format, ...)
{
    if (!problem)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(problem->remedy, sizeof(problem->remedy), format, args);
    va_end(args);
    make_printable(problem->remedy);
}
