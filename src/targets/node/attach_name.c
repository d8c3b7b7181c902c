/* What a Node.js program is called: as its process manager or its own package does, else by its script. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/attach.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/process_file.h"

enum { ENVIRONMENT_MAX = 4 << 20, PACKAGE_MAX = 1 << 20, FOLDERS_UP = 6, NAME_LENGTH = 60 };

/* A name of a service: without what would disturb a line of text. */
static char *clean(const char *name)
{
    char *copy = strndup(name, NAME_LENGTH);
    proc_make_printable(copy);
    if (copy && !*copy) {
        free(copy);
        return NULL;
    }
    return copy;
}

static const char *variable(const char *environment, size_t length, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = environment; at < environment + length; at += strlen(at) + 1)
        if (strncmp(at, name, n) == 0 && at[n] == '=' && at[n + 1])
            return at + n + 1;
    return NULL;
}

static char *name_of_environment(const struct proc *proc)
{
    size_t length = 0;
    _cleanup_(freep) char *environment = NULL;
    if (proc_read(proc, "environ", ENVIRONMENT_MAX, &environment, &length) < 0)
        return NULL;
    const char *name = variable(environment, length, "OTEL_SERVICE_NAME");
    if (!name && variable(environment, length, "pm_id"))
        name = variable(environment, length, "name");
    return name ? clean(name) : NULL;
}

/* The name in a folder's package.json, as the program sees that folder. */
static char *name_of_package(const struct proc *proc, const char *folder)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/package.json", folder) >= (int)sizeof(path))
        return NULL;
    _cleanup_(file_closep) int fd = process_file_of(proc, path);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > PACKAGE_MAX)
        return NULL;
    _cleanup_(freep) char *text = malloc((size_t)st.st_size + 1);
    ssize_t length = text ? read(fd, text, (size_t)st.st_size) : -1;
    json_t *json = length > 0 ? json_loadb(text, (size_t)length, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(json, "name"));
    char *copy = name ? clean(name) : NULL;
    json_decref(json);
    return copy;
}

static bool is_generic(const char *word)
{
    static const char *const WORDS[] = {"index", "server", "main",  "app", "start",  "www", "run", "service",
                                        "bin",   "dist",   "build", "out", "output", "lib", "src", "cluster"};
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (strcmp(word, WORDS[i]) == 0)
            return true;
    return false;
}

/* The last part of a path that is cut off there; the path itself when it has no more. */
static const char *cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return path;
    *slash = '\0';
    return slash + 1;
}

char *node_service_name(const struct proc *proc, const char *script)
{
    char path[PATH_MAX], folder[PATH_MAX];
    char *name = name_of_environment(proc);
    if (name || !script)
        return name;
    if (script[0] == '/') {
        snprintf(path, sizeof(path), "%s", script);
    } else {
        if (proc_read_link(proc, "cwd", folder, sizeof(folder)) < 0)
            folder[0] = '\0';
        if (snprintf(path, sizeof(path), "%s/%s", folder, script) >= (int)sizeof(path))
            return clean(script);
    }
    const char *word = cut_last(path);
    char base[PATH_MAX];
    snprintf(base, sizeof(base), "%s", word);
    char *suffix = strrchr(base, '.');
    if (suffix && suffix != base)
        *suffix = '\0';
    if (!is_generic(base))
        return clean(base);
    for (int i = 0; i < FOLDERS_UP && path[0]; i++) {
        if ((name = name_of_package(proc, path)))
            return name;
        word = cut_last(path);
        if (word == path)
            break;
        if (*word && strcmp(word, ".") != 0 && !is_generic(word))
            return clean(word);
    }
    return clean(base);
}

/* Options of Node behind which code stands, not a script. */
static bool gives_code(const char *argument)
{
    static const char *const OPTIONS[] = {"-e", "--eval", "-p", "--print", "-pe", "-i", "--interactive", "-"};
    for (size_t i = 0; i < ARRAY_SIZE(OPTIONS); i++) {
        size_t length = strlen(OPTIONS[i]);
        if (strncmp(argument, OPTIONS[i], length) == 0 && (!argument[length] || argument[length] == '='))
            return true;
    }
    return false;
}

/* Options that take the next argument as their value, which may be a script as well. */
static bool takes_value(const char *argument)
{
    static const char *const OPTIONS[] = {
        "-r",      "--require",    "--import", "--loader",       "--conditions",         "--env-file",
        "--title", "--watch-path", "-C",       "--icu-data-dir", "--experimental-loader"};
    for (size_t i = 0; i < ARRAY_SIZE(OPTIONS); i++)
        if (strcmp(argument, OPTIONS[i]) == 0)
            return true;
    return false;
}

/* The first argument that is no option and names a file, with or without its ending. It must name one,
 * because an argument of an option, which may be anything, looks the same. */
const char *node_find_script(const struct proc *proc, const char *line, size_t length)
{
    static const char *const ENDINGS[] = {"", ".js", ".mjs", ".cjs"};
    const char *arg = proc_next_word(line, length, NULL);
    while (arg && (arg = proc_next_word(line, length, arg))) {
        char path[PATH_MAX];
        if (gives_code(arg))
            return NULL;
        if (takes_value(arg)) {
            arg = proc_next_word(line, length, arg);
            continue;
        }
        for (size_t i = 0; i < ARRAY_SIZE(ENDINGS) && arg[0] && arg[0] != '-'; i++)
            if (snprintf(path, sizeof(path), "%s%s", arg, ENDINGS[i]) < (int)sizeof(path) &&
                process_has_path(proc, path))
                return arg;
    }
    return NULL;
}
