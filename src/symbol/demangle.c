/* Demangling with libiberty. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/demangle.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* libiberty and base/macro.h both define ARRAY_SIZE. */
#include <libiberty/demangle.h>
#undef ARRAY_SIZE

#include "base/macro.h"

/* Longer names take the demangler too long and too much stack to be worth it. */
#define NAME_LIMIT 8192

/* The length without suffixes that compilers append to parts and copies of a function. */
static size_t plain_length(const char *name)
{
    static const char *const suffixes[] = {".cold",       ".part.",     ".isra.",
                                           ".constprop.", ".lto_priv.", ".llvm."};
    size_t length = strlen(name);
    const char *dot = strchr(name, '.');
    for (; dot; dot = strchr(dot + 1, '.'))
        for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
            if (dot != name && strncmp(dot, suffixes[i], strlen(suffixes[i])) == 0)
                return (size_t)(dot - name);
    return length;
}

/* Rust's legacy mangling ends in ::h and 16 hexadecimal digits. */
static void drop_rust_hash(char *name)
{
    size_t length = strlen(name);
    if (length < 20 || strncmp(name + length - 19, "::h", 3) != 0)
        return;
    for (size_t i = length - 16; i < length; i++)
        if (!isxdigit((unsigned char)name[i]))
            return;
    name[length - 19] = '\0';
}

char *demangle(const char *name, bool parameters)
{
    size_t length = strlen(name);
    if (length > NAME_LIMIT ||
        (strncmp(name, "_Z", 2) != 0 && strncmp(name, "_R", 2) != 0 && strncmp(name, "_D", 2) != 0))
        return NULL;
    _cleanup_(freep) char *plain = strndup(name, plain_length(name));
    if (!plain)
        return NULL;
    char *readable = cplus_demangle(plain, DMGL_AUTO | DMGL_ANSI | (parameters ? DMGL_PARAMS : DMGL_NO_OPTS) |
                                               DMGL_RET_DROP);
    if (readable)
        drop_rust_hash(readable);
    return readable;
}

char *demangle_or_copy(const char *name, bool parameters)
{
    char *readable = demangle(name, parameters);
    return readable ? readable : strndup(name, plain_length(name));
}
