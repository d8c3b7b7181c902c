/* What a session says while it goes on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "collect/session_internal.h"

void session_note(struct session *session, const char *format, ...)
{
    if (!session->options.note)
        return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    session->options.note(session->options.context, line);
}
