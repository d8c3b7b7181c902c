/* Separate debug files. libdebuginfod is loaded when it is first needed: sonde works without it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/debugfile.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/process_file.h"

/* So long, one file is waited for; and all of them together. Sampling goes on meanwhile, in its buffer. */
#define FETCH_NS     (10 * NS_PER_S)
#define FETCH_ALL_NS (30 * NS_PER_S)

/* CRC-32 as zlib's and gdb's: polynomial 0xedb88320, reflected. */
static uint32_t checksum(const uint8_t *data, size_t size)
{
    uint32_t table[256], crc = ~0u;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    for (size_t i = 0; i < size; i++)
        crc = table[(crc ^ data[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

/* .gnu_debuglink: a name, padded to four bytes, and a checksum. */
static bool read_link(const struct elf *elf, char *ret_name, size_t size, uint32_t *ret_sum)
{
    struct elf_section section;
    if (elf_section_named(elf, ".gnu_debuglink", &section) < 0 || !section.data)
        return false;
    size_t length = strnlen((const char *)section.data, section.size), at = (length + 4) & ~(size_t)3;
    if (length == 0 || length >= size || at + 4 > section.size || memchr(section.data, '/', length))
        return false;
    memcpy(ret_name, section.data, length + 1);
    memcpy(ret_sum, section.data + at, 4);
    return true;
}

/* By build-id where there is one, else by checksum (sum NULL: not known). Takes fd, which may be a negative
 * errno. */
static int open_matching(int fd, const char *path, struct elf *elf, const uint32_t *sum,
                         struct elf **ret_debug)
{
    struct elf *debug;
    const char *id = elf_build_id(elf);
    if (fd < 0)
        return fd;
    int r = elf_open_fd(fd, path, &debug, NULL);
    close(fd);
    if (r < 0)
        return r;
    bool same = *id ? strcmp(elf_build_id(debug), id) == 0
                    : sum && checksum(elf_data(debug), elf_size(debug)) == *sum;
    if (!same) {
        elf_free(debug);
        return -ENOENT;
    }
    *ret_debug = debug;
    return 0;
}

static int by_build_id(const struct proc *whose, struct elf *elf, struct elf **ret_debug)
{
    char path[512];
    const char *id = elf_build_id(elf);
    if (strlen(id) < 4)
        return -ENOENT;
    snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
    return open_matching(process_file_of(whose, path), path, elf, NULL, ret_debug);
}

static int by_link(const struct proc *whose, const char *module, struct elf *elf, struct elf **ret_debug)
{
    char name[256], path[4800];
    uint32_t sum;
    const char *slash = strrchr(module, '/');
    int folder = slash ? (int)(slash - module) : 0;
    if (!read_link(elf, name, sizeof(name), &sum))
        return -ENOENT;
    static const char *const places[] = {"%.*s/%s", "%.*s/.debug/%s", "/usr/lib/debug%.*s/%s"};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        snprintf(path, sizeof(path), places[i], folder, module, name);
        if (open_matching(process_file_of(whose, path), path, elf, &sum, ret_debug) == 0)
            return 0;
    }
    return -ENOENT;
}

/* ---- debuginfod ---- */

struct client;
static struct {
    bool tried;
    struct client *client;
    int (*find)(struct client *client, const unsigned char *id, int length, char **ret_path);
    uint64_t until_ns, spent_ns;
} servers;

static int keep_waiting(struct client *client, long done, long all)
{
    return clock_monotonic_ns() > servers.until_ns;
}

static bool have_servers(void)
{
    if (servers.tried)
        return servers.client;
    servers.tried = true;
    const char *urls = getenv("DEBUGINFOD_URLS");
    void *library = urls && *urls ? dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        return false;
    struct client *(*begin)(void) = (struct client * (*)(void)) dlsym(library, "debuginfod_begin");
    void (*progress)(struct client *, int (*)(struct client *, long, long)) =
        (void (*)(struct client *, int (*)(struct client *, long, long)))dlsym(library,
                                                                               "debuginfod_set_progressfn");
    servers.find = (int (*)(struct client *, const unsigned char *, int, char **))dlsym(
        library, "debuginfod_find_debuginfo");
    if (!begin || !progress || !servers.find)
        return false;
    servers.client = begin();
    if (servers.client)
        progress(servers.client, keep_waiting);
    return servers.client;
}

int debugfile_fetch(const char *id)
{
    char *path = NULL;
    if (servers.spent_ns > FETCH_ALL_NS || !have_servers())
        return -ENOENT;
    uint64_t start = clock_monotonic_ns();
    servers.until_ns = start + FETCH_NS;
    int fd = servers.find(servers.client, (const unsigned char *)id, 0, &path); /* 0: it is hexadecimal */
    servers.spent_ns += clock_monotonic_ns() - start;
    free(path);
    return fd < 0 ? -ENOENT : fd;
}

static debugfile_fetch_fn *fetch = debugfile_fetch;

void debugfile_fetch_from_now_on(debugfile_fetch_fn *by)
{
    fetch = by;
}

static int by_server(struct elf *elf, struct elf **ret_debug)
{
    const char *id = elf_build_id(elf);
    return *id ? open_matching(fetch(id), "a debuginfod server's file", elf, NULL, ret_debug) : -ENOENT;
}

int debugfile_open(pid_t pid, const char *path, struct elf *elf, struct elf **ret_debug)
{
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    (void)proc_open(pid, &proc); /* whoever it is: only a file of the same build is taken */
    for (int ours = proc == NULL; ours < 2; ours++) { /* the process's root, then ours */
        const struct proc *whose = ours ? NULL : proc;
        if (by_build_id(whose, elf, ret_debug) == 0 || by_link(whose, path, elf, ret_debug) == 0)
            return 0;
    }
    return by_server(elf, ret_debug) < 0 ? -ENOENT : 0;
}
