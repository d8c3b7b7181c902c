/* See sourcemap.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sourcemap.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"

enum { FILE_MAX = 64 << 20, SECTIONS_MAX = 10000, SOURCES_MAX = 1000000 };

/* Places count from 0 here, as in the format. source, name: -1 for none. */
struct segment {
    uint32_t line, column, source_line, source_column;
    int32_t source, name;
};

struct source_map {
    ARRAY(struct segment) segments; /* by line and column once it is read */
    ARRAY(char *) sources;
    ARRAY(char *) names;
};

void source_map_free(struct source_map *map)
{
    if (!map)
        return;
    array_foreach (&map->sources, source)
        free(*source);
    array_foreach (&map->names, name)
        free(*name);
    array_done(&map->sources);
    array_done(&map->names);
    array_done(&map->segments);
    free(map);
}

/* ---- names of sources ---- */

/* "/a/b/../c/./d" becomes "/a/c/d". */
static void normalise(char *path)
{
    char *to = path;
    const char *from = path;
    while (*from) {
        size_t length = strcspn(from, "/");
        if (length == 2 && from[0] == '.' && from[1] == '.') {
            char *end = to;
            while (end > path && end[-1] == '/')
                end--;
            while (end > path && end[-1] != '/')
                end--;
            to = end;
        } else if (length && !(length == 1 && from[0] == '.')) {
            memmove(to, from, length);
            to += length;
            if (from[length])
                *to++ = '/';
        } else if (!length && to == path) {
            *to++ = '/';
        }
        from += length + (from[length] == '/');
    }
    *to = '\0';
}

/* Bundlers write "webpack://name/./src/a.ts": what follows the name is the path within the project. */
static const char *without_scheme(const char *source)
{
    const char *colon = strstr(source, "://");
    if (!colon)
        return source;
    if (strncmp(source, "file:", 5) == 0)
        return colon + 3;
    const char *slash = strchr(colon + 3, '/');
    return slash ? slash + 1 : colon + 3;
}

static char *source_name(const char *folder, const char *root, const char *source)
{
    char path[PATH_MAX];
    bool absolute = source[0] == '/' || strstr(source, "://");
    const char *name = without_scheme(source);
    if (absolute)
        snprintf(path, sizeof(path), "%s", name);
    else if (root[0] == '/' || strstr(root, "://"))
        snprintf(path, sizeof(path), "%s/%s", without_scheme(root), name);
    else
        snprintf(path, sizeof(path), "%s/%s%s%s", folder, root, *root ? "/" : "", name);
    normalise(path);
    return strdup(path);
}

/* ---- the mappings ---- */

/* One number in base 64 with a sign in its lowest bit. Returns what follows it, NULL when there is none. */
static const char *read_number(const char *at, const char *end, int64_t *ret_number)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t value = 0;
    for (unsigned shift = 0; at < end && shift < 40; shift += 5) {
        const char *digit = *at ? strchr(DIGITS, *at) : NULL;
        if (!digit)
            return NULL;
        at++;
        uint64_t bits = (uint64_t)(digit - DIGITS);
        value |= (bits & 31) << shift;
        if (bits & 32)
            continue;
        *ret_number = value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
        return at;
    }
    return NULL;
}

struct offset {
    uint32_t line, column; /* of a section of an index map; the column counts in its first line */
    size_t sources, names; /* those of the sections before it */
};

static bool fits(int64_t number)
{
    return number >= 0 && number < INT32_MAX;
}

static int read_mappings(struct source_map *map, const char *text, size_t length, const struct offset *offset)
{
    const char *at = text, *end = text + length;
    /* column, source, line and column in the source, name: each is relative to the one before */
    int64_t state[5] = {0};
    uint32_t line = 0;
    while (at < end) {
        if (*at == ';' || *at == ',') {
            line += *at == ';';
            state[0] = *at == ';' ? 0 : state[0];
            at++;
            continue;
        }
        size_t count = 0;
        for (int64_t number; at < end && *at != ',' && *at != ';' && count < 5; count++) {
            at = read_number(at, end, &number);
            if (!at)
                return -EINVAL;
            state[count] += number;
        }
        if (!fits(state[0]) || !fits(state[1]) || !fits(state[2]) || !fits(state[3]) || !fits(state[4]))
            return -EINVAL;
        size_t source = offset->sources + (size_t)state[1], name = offset->names + (size_t)state[4];
        struct segment segment = {.line = offset->line + line,
                                  .column = (uint32_t)state[0] + (line ? 0 : offset->column),
                                  .source = -1,
                                  .name = -1};
        if (count >= 4 && source < map->sources.count) {
            segment.source = (int32_t)source;
            segment.source_line = (uint32_t)state[2];
            segment.source_column = (uint32_t)state[3];
        }
        if (count >= 5 && name < map->names.count)
            segment.name = (int32_t)name;
        if (array_add(&map->segments, segment) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int read_section(struct source_map *map, const json_t *json, const char *folder, struct offset offset)
{
    offset.sources = map->sources.count;
    offset.names = map->names.count;
    const char *root = json_string_value(json_object_get(json, "sourceRoot"));
    const json_t *sources = json_object_get(json, "sources"), *names = json_object_get(json, "names");
    const json_t *mappings = json_object_get(json, "mappings");
    if (!json_is_array(sources) || !json_is_string(mappings) || json_array_size(sources) > SOURCES_MAX)
        return -EINVAL;
    size_t i;
    json_t *value;
    json_array_foreach (sources, i, value) {
        const char *source = json_is_string(value) ? json_string_value(value) : "(unknown)";
        char *name = source_name(folder, root ? root : "", source);
        if (!name || array_add(&map->sources, name) < 0) {
            free(name);
            return -ENOMEM;
        }
    }
    json_array_foreach (names, i, value) {
        char *name = strdup(json_is_string(value) ? json_string_value(value) : "");
        if (!name || array_add(&map->names, name) < 0) {
            free(name);
            return -ENOMEM;
        }
    }
    return read_mappings(map, json_string_value(mappings), json_string_length(mappings), &offset);
}

static int read_map(struct source_map *map, const json_t *json, const char *folder)
{
    const json_t *sections = json_object_get(json, "sections");
    if (!sections)
        return read_section(map, json, folder, (struct offset){0});
    size_t i;
    json_t *section;
    if (json_array_size(sections) > SECTIONS_MAX)
        return -EINVAL;
    json_array_foreach (sections, i, section) {
        const json_t *at = json_object_get(section, "offset");
        json_int_t line = json_integer_value(json_object_get(at, "line"));
        json_int_t column = json_integer_value(json_object_get(at, "column"));
        if (!fits(line) || !fits(column))
            return -EINVAL;
        int r = read_section(map, json_object_get(section, "map"), folder,
                             (struct offset){.line = (uint32_t)line, .column = (uint32_t)column});
        if (r < 0)
            return r;
    }
    return 0;
}

static int by_place(const void *x, const void *y)
{
    const struct segment *a = x, *b = y;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return (a->column > b->column) - (a->column < b->column);
}

int source_map_parse(const char *text, size_t length, const char *folder, struct source_map **ret_map)
{
    if (length > 4 && strncmp(text, ")]}'", 4) == 0) { /* against being loaded as a script */
        const char *line = memchr(text, '\n', length);
        length -= line ? (size_t)(line - text) : 0;
        text = line ? line : text;
    }
    json_t *json = json_loadb(text, length, 0, NULL);
    struct source_map *map = json_is_object(json) ? calloc(1, sizeof(*map)) : NULL;
    int r = map ? read_map(map, json, folder) : json_is_object(json) ? -ENOMEM : -EINVAL;
    json_decref(json);
    if (r < 0) {
        source_map_free(map);
        return r;
    }
    if (map->segments.count)
        qsort(map->segments.at, map->segments.count, sizeof(*map->segments.at), by_place);
    *ret_map = map;
    return 0;
}

bool source_map_find(const struct source_map *map, uint32_t line, uint32_t column,
                     struct source_place *ret_place)
{
    if (!line)
        return false;
    const struct segment wanted = {.line = line - 1, .column = column ? column - 1 : 0};
    size_t low = 0, high = map->segments.count;
    while (low < high) { /* the first beyond it */
        size_t middle = low + (high - low) / 2;
        if (by_place(&map->segments.at[middle], &wanted) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    const struct segment *found = low ? &map->segments.at[low - 1] : NULL;
    /* Without a column, and before the first one of its line, it is the line's first. */
    if ((!found || found->line != wanted.line) && low < map->segments.count &&
        map->segments.at[low].line == wanted.line)
        found = &map->segments.at[low];
    if (!found || found->line != wanted.line || found->source < 0 || !map->sources.at[found->source])
        return false;
    *ret_place = (struct source_place){.file = map->sources.at[found->source],
                                       .name = found->name >= 0 ? map->names.at[found->name] : NULL,
                                       .line = found->source_line + 1,
                                       .column = found->source_column + 1};
    return true;
}

/* ---- where a script's map is ---- */

/* Bytes from base 64; NULL without memory. Stops at what belongs to none. */
static char *from_base64(const char *text, size_t length, size_t *ret_length)
{
    char *bytes = malloc(length / 4 * 3 + 4);
    size_t n = 0;
    uint32_t bits = 0, count = 0;
    for (size_t i = 0; bytes && i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                    : c >= 'a' && c <= 'z' ? c - 'a' + 26
                    : c >= '0' && c <= '9' ? c - '0' + 52
                    : c == '+' || c == '-' ? 62
                    : c == '/' || c == '_' ? 63
                                           : -1;
        if (digit < 0)
            break;
        bits = bits << 6 | (uint32_t)digit;
        if (++count % 4 != 1)
            bytes[n++] = (char)(bits >> (6 - 2 * ((count - 1) % 4)));
    }
    *ret_length = n;
    return bytes;
}

/* What follows the last "//# sourceMappingURL=", to the end of its line. */
static const char *find_url(const char *text, size_t length, size_t *ret_length)
{
    static const char WORD[] = "sourceMappingURL=";
    const size_t word = sizeof(WORD) - 1;
    for (const char *end = text + length; end - text > (ptrdiff_t)word + 4;) {
        const char *hash = memrchr(text, '#', (size_t)(end - text)),
                   *at = memrchr(text, '@', (size_t)(end - text));
        const char *mark = hash > at ? hash : at;
        if (!mark || mark < text + 2)
            return NULL;
        const char *name = mark + 2;
        bool comment = mark[-1] == '/' || mark[-1] == '*';
        if (comment && (size_t)(text + length - mark) > word + 2 && memcmp(name, WORD, word) == 0) {
            const char *url = name + word;
            *ret_length = 0;
            while (url + *ret_length < text + length && !strchr(" \t\r\n'\"", url[*ret_length]))
                ++*ret_length;
            return url;
        }
        end = mark;
    }
    return NULL;
}

static int read_plain(const char *path, char **ret_data, size_t *ret_length)
{
    _cleanup_(file_closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (st.st_size > FILE_MAX)
        return -EFBIG;
    char *data = malloc((size_t)st.st_size + 1);
    if (!data)
        return -ENOMEM;
    size_t length = 0;
    for (ssize_t n = 1; n > 0 && length<(size_t)st.st_size; length += n> 0 ? (size_t)n : 0)
        n = read(fd, data + length, (size_t)st.st_size - length);
    data[length] = '\0';
    *ret_data = data;
    *ret_length = length;
    return 0;
}

/* A file below the script's folder: neither absolute nor of another scheme, and without a step upwards. */
static bool is_below(const char *url, size_t length)
{
    if (!length || url[0] == '/' || memchr(url, ':', length) || memchr(url, '\\', length) ||
        length > NAME_MAX)
        return false;
    return !memmem(url, length, "..", 2);
}

static int read_below(const char *name, size_t length, const char *folder, struct source_map **ret_map)
{
    char path[PATH_MAX];
    if (!is_below(name, length) ||
        snprintf(path, sizeof(path), "%s/%.*s", folder, (int)length, name) >= (int)sizeof(path))
        return -EINVAL;
    _cleanup_(freep) char *json = NULL;
    size_t bytes;
    int r = read_plain(path, &json, &bytes);
    /* Sources are relative to the map, which may lie below. */
    char *slash = strrchr(path, '/');
    *slash = '\0';
    return r < 0 ? r : source_map_parse(json, bytes, path, ret_map);
}

/* As it is, which bundlers write too; then as a URL (Turbopack: "%5Broot-of-the-server%5D"). */
static int read_url(const char *url, size_t length, const char *folder, struct source_map **ret_map)
{
    if (length > 5 && strncmp(url, "data:", 5) == 0) {
        const char *base64 = memmem(url, MIN(length, (size_t)200), ";base64,", 8);
        size_t bytes = 0;
        if (!base64)
            return -EINVAL;
        base64 += 8;
        _cleanup_(freep) char *json = from_base64(base64, length - (size_t)(base64 - url), &bytes);
        return json ? source_map_parse(json, bytes, folder, ret_map) : -ENOMEM;
    }
    int r = read_below(url, length, folder, ret_map);
    if (r != -ENOENT || !memchr(url, '%', length))
        return r;
    _cleanup_(freep) char *name = strndup(url, length);
    if (!name)
        return -ENOMEM;
    return text_decode_percent(name) ? read_below(name, strlen(name), folder, ret_map) : r;
}

static const char *path_of(const char *script)
{
    return strncmp(script, "file://", 7) == 0 ? script + 7 : script;
}

/* Of a package's script: the length of the path of its folder, with the slash; 0: it is of none. */
static size_t package_length(const char *path)
{
    static const char FOLDER[] = "/node_modules/";
    const char *package = NULL;
    for (const char *next = path; (next = strstr(next, FOLDER));)
        package = next += sizeof(FOLDER) - 1;
    const char *end = package ? strchr(package, '/') : NULL;
    if (end && *package == '@')
        end = strchr(end + 1, '/');
    return end ? (size_t)(end + 1 - path) : 0;
}

/* What a package's map places outside of the package was there where it was built, and is not here. */
static void forget_outside(struct source_map *map, const char *path)
{
    size_t length = package_length(path);
    array_foreach (&map->sources, source)
        if (length && strncmp(*source, path, length) != 0) {
            free(*source);
            *source = NULL;
        }
}

int source_map_of_text(const char *text, size_t length, const char *script, struct source_map **ret_map)
{
    size_t url_length = 0;
    const char *url = find_url(text, length, &url_length), *path = path_of(script),
               *slash = strrchr(path, '/');
    if (!url || !slash || path[0] != '/')
        return -ENOENT;
    _cleanup_(freep) char *folder = strndup(path, (size_t)(slash - path));
    int r = folder ? read_url(url, url_length, folder, ret_map) : -ENOMEM;
    if (r >= 0)
        forget_outside(*ret_map, path);
    return r;
}

int source_map_of_script(const char *script, struct source_map **ret_map)
{
    _cleanup_(freep) char *text = NULL;
    size_t length;
    const char *path = path_of(script);
    int r = path[0] == '/' ? read_plain(path, &text, &length) : -ENOENT;
    return r < 0 ? r : source_map_of_text(text, length, script, ret_map);
}
