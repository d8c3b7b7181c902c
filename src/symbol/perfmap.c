/* perf-PID.map files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/perfmap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "base/process_file.h"

#define FILE_LIMIT (256u << 20)

struct entry {
    uint64_t start, end;
    const char *name;
};

struct perfmap {
    char *data;
    ARRAY(struct entry) entries;
};

static const char *take_hex(const char *at, uint64_t *ret)
{
    char *end;
    *ret = strtoull(at, &end, 16);
    return end == at ? NULL : end;
}

static int by_start(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name; /* the later line comes last */
}

int perfmap_parse(char *data, size_t length, struct perfmap **ret_map)
{
    struct perfmap *map = calloc(1, sizeof(*map));
    if (!map) {
        free(data);
        return -ENOMEM;
    }
    map->data = data;
    for (char *line = data, *end; line < data + length; line = end + 1) {
        uint64_t start, size;
        end = memchr(line, '\n', (size_t)(data + length - line));
        if (!end)
            break; /* a line that is still being written */
        *end = '\0';
        const char *at = take_hex(line, &start);
        at = at && *at == ' ' ? take_hex(at, &size) : NULL;
        if (!at || *at != ' ' || size == 0 || start + size < start)
            continue;
        struct entry entry = {start, start + size, at + 1};
        if (array_add(&map->entries, entry) < 0) {
            perfmap_free(map);
            return -ENOMEM;
        }
    }
    if (map->entries.count)
        qsort(map->entries.at, map->entries.count, sizeof(*map->entries.at), by_start);
    *ret_map = map;
    return 0;
}

/* A container numbers its processes anew: the last number of NSpid is the one the process itself knows. */
static pid_t inner_pid(pid_t pid)
{
    char path[64];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if (file_read(path, 1 << 16, &text, NULL) < 0)
        return pid;
    const char *at = strstr(text, "\nNSpid:");
    if (!at)
        return pid;
    at += 7;
    pid_t inner = pid;
    for (char *end; *at && *at != '\n'; at = end) {
        long number = strtol(at, &end, 10);
        if (end == at)
            break;
        inner = (pid_t)number;
    }
    return inner;
}

int perfmap_read(pid_t pid, struct perfmap **ret_map)
{
    char path[96];
    char *data;
    size_t length;
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", inner_pid(pid));
    int r = process_file_read(pid, path, FILE_LIMIT, &data, &length);
    return r < 0 ? r : perfmap_parse(data, length, ret_map);
}

void perfmap_free(struct perfmap *map)
{
    if (!map)
        return;
    array_done(&map->entries);
    free(map->data);
    free(map);
}

const char *perfmap_find(const struct perfmap *map, uint64_t address)
{
    size_t low = 0, high = map->entries.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (map->entries.at[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < map->entries.at[low - 1].end ? map->entries.at[low - 1].name : NULL;
}

size_t perfmap_count(const struct perfmap *map)
{
    return map->entries.count;
}
