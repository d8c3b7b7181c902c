/* How Memcached is recognised and hooked. Debian's has no symbols: it is known by its program's name and by
 * the version that its texts tell, and hooked where it calls libc. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/arguments.h"
#include "attach/target.h"

enum { MEMCACHED_1_6 = 0x10600 };

static const struct hook HOOKS[] = {
    {"memcached_read", "read", MEMCACHED_1_6, 0, "commands that clients send"},
    {"memcached_sendmsg", "sendmsg", MEMCACHED_1_6, 0, "answers, and with them hits and misses"},
    {"memcached_wait", "epoll_wait", MEMCACHED_1_6, 0, "when threads wait"},
    {"memcached_close", "close", MEMCACHED_1_6, 0, "when connections end"},
    /* int (SSL *, void *, int), in both */
    {"memcached_ssl_read", "SSL_read", MEMCACHED_1_6, 0, NULL},
    {"memcached_ssl_write", "SSL_write", MEMCACHED_1_6, 0, NULL},
};

static const struct silent_rule SILENT[] = {
    {SONDE_EVENT_memcached_command, 200, SONDE_EVENT_memcached_wait, "memcached_wait"},
};

static const char *const LIBRARIES[] = {"libssl.so", "libc.so", "ld-musl-", NULL};

/* "memcached 1.6.18" among the program's texts, as 0x10612; 0 when there is none. */
static uint32_t version_of(const struct elf *elf)
{
    static const char SAYS[] = "memcached ";
    struct elf_section texts;
    unsigned major, minor, patch;
    char said[32];
    if (elf_section_named(elf, ".rodata", &texts) < 0 || !texts.data)
        return 0;
    const uint8_t *end = texts.data + texts.size, *at = texts.data;
    while ((at = memmem(at, (size_t)(end - at), SAYS, sizeof(SAYS) - 1))) {
        at += sizeof(SAYS) - 1;
        size_t length = MIN((size_t)(end - at), sizeof(said) - 1);
        memcpy(said, at, length);
        said[length] = '\0';
        if (sscanf(said, "%3u.%3u.%3u", &major, &minor, &patch) == 3 && minor < 256 && patch < 256)
            return major << 16 | minor << 8 | patch;
    }
    return 0;
}

static bool recognise(struct target *target)
{
    const struct module *program = modules_main(&target->modules);
    const char *base = program ? strrchr(program->path, '/') : NULL;
    if (!base || strncmp(base + 1, "memcached", strlen("memcached")) != 0)
        return false;
    array_foreach (&target->code, m)
        if (m->module == program)
            target->versions[0] = version_of(m->elf);
    return target->versions[0] != 0;
}

static void layout(struct target *target, enum sonde_context context, struct sonde_config *config)
{
    config->memcached.ssl_get_fd = target_address(target, "SSL_get_fd");
    target_miss(target, "Memcached's evictions", "it calls nothing for them that can be hooked",
                "Its command `stats items` counts them by slab class.");
}

static void name(const struct target *target, const char *line, size_t length, struct target_names *names)
{
    static const char *const PORT[] = {"-p", "--port", NULL}, *const PATH[] = {"-s", "--unix-socket", NULL};
    names->service = "memcached";
    names->name = argument_service("memcached", argument_port(argument_value(line, length, PORT)),
                                   argument_value(line, length, PATH), 11211);
}

static void describe(const struct target *target, char *buffer, size_t size)
{
    target_say_version(buffer, size, "Memcached", target->versions[0]);
}

static const char *const PROGRAMS[] = {"memcached", NULL};

const struct target_kind target_kind_memcached = {.runtime = SONDE_runtime_memcached,
                                                  .called = "Memcached",
                                                  .programs = PROGRAMS,
                                                  .libraries = LIBRARIES,
                                                  .hooks = HOOKS,
                                                  .hook_count = ARRAY_SIZE(HOOKS),
                                                  .silent = SILENT,
                                                  .silent_count = ARRAY_SIZE(SILENT),
                                                  .recognise = recognise,
                                                  .layout = layout,
                                                  .name = name,
                                                  .describe = describe};
