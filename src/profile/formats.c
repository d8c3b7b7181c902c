/* Which form a profile has or should get. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/formats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define PIPE_LIMIT (1ull << 30)

static const struct {
    const char *name;
    enum profile_format format;
} NAMES[] = {{"folded", FORMAT_FOLDED},         {"collapsed", FORMAT_FOLDED}, {"pprof", FORMAT_PPROF},
             {"speedscope", FORMAT_SPEEDSCOPE}, {"firefox", FORMAT_FIREFOX},  {"html", FORMAT_HTML},
             {"flamegraph", FORMAT_HTML},       {"otlp", FORMAT_OTLP}};

static const struct {
    const char *ending;
    enum profile_format format;
} ENDINGS[] = {{".speedscope.json", FORMAT_SPEEDSCOPE},
               {".firefox.json", FORMAT_FIREFOX},
               {".html", FORMAT_HTML},
               {".pb.gz", FORMAT_PPROF},
               {".pprof", FORMAT_PPROF},
               {".otlp", FORMAT_OTLP},
               {".folded", FORMAT_FOLDED},
               {".txt", FORMAT_FOLDED},
               {".collapsed", FORMAT_FOLDED}};

enum profile_format profile_format_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (strcmp(name, NAMES[i].name) == 0)
            return NAMES[i].format;
    return FORMAT_UNKNOWN;
}

enum profile_format profile_format_of_path(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < ARRAY_SIZE(ENDINGS); i++) {
        size_t tail = strlen(ENDINGS[i].ending);
        if (length >= tail && strcmp(path + length - tail, ENDINGS[i].ending) == 0)
            return ENDINGS[i].format;
    }
    return FORMAT_UNKNOWN;
}

int profile_write(const struct profile *profile, enum profile_format format, const char *title,
                  struct text *ret_text)
{
    switch (format) {
    case FORMAT_FOLDED:
        return folded_write(profile, ret_text);
    case FORMAT_PPROF:
        return pprof_write(profile, ret_text);
    case FORMAT_SPEEDSCOPE:
        return speedscope_write(profile, title, ret_text);
    case FORMAT_FIREFOX:
        return firefox_write(profile, title, ret_text);
    case FORMAT_OTLP:
        return otlp_write(profile, title, ret_text);
    case FORMAT_HTML:
        return page_write(profile, NULL, title, ret_text);
    default:
        return -ENOTSUP;
    }
}

/* gzip, or a message that begins with field 1 or 2 as a block; text otherwise. */
static bool looks_like_pprof(const char *data, size_t length)
{
    return length > 2 && (((unsigned char)data[0] == 0x1f && (unsigned char)data[1] == 0x8b) ||
                          data[0] == 0x0a || data[0] == 0x12);
}

/* A file's bytes: mapped, because folded text comes by the gigabyte; read when it is a pipe. */
struct bytes {
    char *at;
    size_t length;
    bool mapped;
};

static int open_bytes(const char *path, struct bytes *ret_bytes)
{
    struct stat st;
    struct bytes bytes = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        bytes.length = (size_t)st.st_size;
        bytes.at = mmap(NULL, bytes.length, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
        bytes.mapped = bytes.at != MAP_FAILED;
    }
    close(fd);
    if (!bytes.mapped) {
        int r = file_read(path, PIPE_LIMIT, &bytes.at, &bytes.length);
        if (r < 0)
            return r;
    }
    *ret_bytes = bytes;
    return 0;
}

static void close_bytes(struct bytes *bytes)
{
    if (bytes->mapped)
        munmap(bytes->at, bytes->length);
    else
        free(bytes->at);
}

int profile_add_file(struct profile *into, const char *path, struct problem *problem)
{
    struct problem inner = {0};
    struct bytes bytes = {0};
    int r = open_bytes(path, &bytes);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", path, strerror(-r));
    if (looks_like_pprof(bytes.at, bytes.length)) {
        r = pprof_read(into, bytes.at, bytes.length, &inner);
    } else {
        r = folded_read(into, bytes.at, bytes.length, &inner);
        strcpy(into->unit, "samples");
    }
    close_bytes(&bytes);
    return r < 0 ? problem_set(problem, r, "%s: %s", path, inner.what) : 0;
}

int profile_read_file(const char *path, struct profile **ret_profile, struct problem *problem)
{
    _cleanup_(profile_freep) struct profile *profile = NULL;
    if (profile_new(&profile) < 0)
        return problem_set(problem, -ENOMEM, "out of memory");
    int r = profile_add_file(profile, path, problem);
    if (r < 0)
        return r;
    *ret_profile = profile;
    profile = NULL;
    return 0;
}
