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

int perfmap_read(pid_t pid, struct perfmap **ret_map)
{
    char path[96];
    char *data;
    size_t length;
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    int r = proc_open(pid, &proc);
    if (r < 0)
        return r;
    /* A container numbers its processes anew: the file bears the number that the process itself knows. */
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", proc_innermost_pid(proc));
    r = process_file_read(proc, path, FILE_LIMIT, &data, &length);
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
