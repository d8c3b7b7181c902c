/* What a Redis is called: by its port, or by the path of its socket when it has no port. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/attach.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "attach/arguments.h"
#include "base/process_file.h"

enum { USUAL_PORT = 6379, CONFIGURATION_MAX = 1 << 20 };

/* What it was told. */
struct told {
    int port; /* -1: nothing */
    char path[108];
};

static void tell_path(struct told *told, const char *path, size_t length)
{
    if (length >= 2 && (*path == '"' || *path == '\'') && path[length - 1] == *path) {
        path++;
        length -= 2;
    }
    snprintf(told->path, sizeof(told->path), "%.*s", (int)MIN(length, sizeof(told->path) - 1), path);
}

/* Once it has started it titles itself "redis-server 127.0.0.1:6379 [cluster]" or "redis-server
 * unixsocket:/run/x.sock", in one word of its arguments. False: that is no title. */
static bool read_title(const char *title, struct told *told)
{
    static const char PATH[] = "unixsocket:";
    const char *space = strchr(title, ' '), *at = space ? space + strspn(space, " ") : "";
    size_t length = strcspn(at, " ");
    char address[128];
    if (strncmp(at, PATH, sizeof(PATH) - 1) == 0) {
        tell_path(told, at + sizeof(PATH) - 1, length - (sizeof(PATH) - 1));
        return true;
    }
    snprintf(address, sizeof(address), "%.*s", (int)MIN(length, sizeof(address) - 1), at);
    const char *colon = strrchr(address, ':');
    if (colon)
        told->port = argument_port(colon + 1);
    return colon;
}

/* A line of its configuration: a directive, in any case, and its value. */
static void read_line(const char *line, size_t length, struct told *told)
{
    static const char SPACES[] = " \t\r";
    char text[256], *rest = NULL;
    if (length >= sizeof(text))
        return;
    memcpy(text, line, length);
    text[length] = '\0';
    const char *directive = strtok_r(text, SPACES, &rest), *value = strtok_r(NULL, SPACES, &rest);
    if (!directive || !value)
        return;
    if (strcasecmp(directive, "port") == 0)
        told->port = argument_port(value);
    else if (strcasecmp(directive, "unixsocket") == 0)
        tell_path(told, value, strlen(value));
}

/* Files that it includes are not looked for: until it listens, it is called by what this one says. */
static void read_configuration(const struct proc *proc, const char *path, struct told *told)
{
    char folder[PATH_MAX], whole[PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    size_t length = 0;
    if (path[0] == '/' || proc_read_link(proc, "cwd", folder, sizeof(folder)) < 0)
        folder[0] = '\0';
    if (snprintf(whole, sizeof(whole), "%s%s%s", folder, folder[0] ? "/" : "", path) >= (int)sizeof(whole) ||
        process_file_read(proc, whole, CONFIGURATION_MAX, &text, &length) < 0)
        return;
    for (const char *at = text, *end = text + length; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        read_line(at, (size_t)(stop - at), told);
        at = stop + 1;
    }
}

/* Arguments come after the file, and the last one counts. */
static void read_arguments(const struct proc *proc, const char *line, size_t length, struct told *told)
{
    static const char *const PORT[] = {"--port", NULL}, *const PATH[] = {"--unixsocket", NULL};
    const char *program = proc_next_word(line, length, NULL);
    const char *first = program ? proc_next_word(line, length, program) : NULL;
    if (first && first[0] && first[0] != '-')
        read_configuration(proc, first, told);
    const char *port = argument_value(line, length, PORT), *path = argument_value(line, length, PATH);
    if (port)
        told->port = argument_port(port);
    if (path)
        tell_path(told, path, strlen(path));
}

void redis_name(const struct target *target, const char *line, size_t length, struct target_names *names)
{
    struct told told = {.port = -1};
    const char *first = proc_next_word(line, length, NULL);
    names->service = target->versions[REDIS_IS_VALKEY] ? "valkey" : "redis";
    if (first && !read_title(first, &told))
        read_arguments(target->proc, line, length, &told);
    names->name = argument_service(names->service, told.port, told.path, USUAL_PORT);
}
