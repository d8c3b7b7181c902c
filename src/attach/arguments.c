/* See arguments.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/arguments.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/proc_text.h"

/* The value that an argument gives, with the next one (NULL: none); NULL: it is no such option. */
static const char *value_of(const char *argument, const char *next, const char *option)
{
    size_t n = strlen(option);
    bool is_long = option[1] == '-';
    if (is_long ? strncasecmp(argument, option, n) != 0 : strncmp(argument, option, n) != 0)
        return NULL;
    if (!argument[n])
        return next;
    if (!is_long)
        return argument + n;
    return argument[n] == '=' ? argument + n + 1 : NULL;
}

const char *argument_value(const char *line, size_t length, const char *const *options)
{
    const char *found = NULL;
    for (const char *argument = proc_next_word(line, length, NULL), *next; argument; argument = next) {
        next = proc_next_word(line, length, argument);
        for (const char *const *option = options; *option; option++) {
            const char *value = value_of(argument, next, *option);
            found = value ? value : found;
        }
    }
    return found;
}

int argument_port(const char *text)
{
    char *end;
    if (!text || !isdigit((unsigned char)*text))
        return -1;
    unsigned long port = strtoul(text, &end, 10);
    return port <= UINT16_MAX && !*end ? (int)port : -1;
}

char *argument_service(const char *service, int port, const char *path, uint16_t usual)
{
    enum { PATH_SHOWN = 48 };
    char *name;
    if (port > 0 || !path || !*path)
        return asprintf(&name, "%s:%d", service, port > 0 ? port : (int)usual) < 0 ? NULL : name;
    if (strlen(path) > PATH_SHOWN && strrchr(path, '/'))
        path = strrchr(path, '/') + 1;
    return asprintf(&name, "%s:%.*s", service, PATH_SHOWN, path) < 0 ? NULL : name;
}
