/* See proc_text.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc_text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"

/* ---- numbers ---- */

static const char *skip_spaces(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return INT_MAX;
}

/* Behind the number that begins at `at`; NULL when none does or it is too large. */
static const char *take_number(const char *at, const char *end, int base, uint64_t *ret)
{
    uint64_t value = 0;
    const char *begin = at;
    for (; at < end && digit(*at) < base; at++)
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit(*at), &value))
            return NULL;
    if (at == begin)
        return NULL;
    *ret = value;
    return at;
}

static const char *take_signed(const char *at, const char *end, int64_t *ret)
{
    uint64_t value;
    bool negative = at < end && *at == '-';
    at = take_number(at + negative, end, 10, &value);
    if (!at || value > INT64_MAX)
        return NULL;
    *ret = negative ? -(int64_t)value : (int64_t)value;
    return at;
}

/* Behind the character, which must be there. */
static const char *take(const char *at, const char *end, char c)
{
    return at && at < end && *at == c ? at + 1 : NULL;
}

static const char *end_of_line(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline : end;
}

/* ---- stat ---- */

/* Numbered as in proc(5). */
enum {
    FIELD_STATE = 3,
    FIELD_PARENT = 4,
    FIELD_USER = 14,
    FIELD_SYSTEM = 15,
    FIELD_STARTED = 22,
    FIELD_STACK = 28,
    FIELD_EXIT_CODE = 52
};

static void set_stat_field(struct proc_stat *stat, int field, int64_t value)
{
    switch (field) {
    case FIELD_PARENT:
        stat->parent = (pid_t)value;
        break;
    case FIELD_USER:
        stat->user_ticks = (uint64_t)value;
        break;
    case FIELD_SYSTEM:
        stat->system_ticks = (uint64_t)value;
        break;
    case FIELD_STARTED:
        stat->started_ticks = (uint64_t)value;
        break;
    case FIELD_STACK:
        stat->stack_start = (uint64_t)value;
        break;
    case FIELD_EXIT_CODE:
        stat->exit_code = (int)value;
        break;
    }
}

bool proc_parse_stat(const char *text, size_t length, struct proc_stat *ret_stat)
{
    const char *end = text + length, *at = memrchr(text, ')', length);
    at = take(at ? at + 1 : NULL, end, ' ');
    if (!at || at == end)
        return false;
    struct proc_stat stat = {.state = *at++};
    for (int field = FIELD_STATE + 1; field <= FIELD_EXIT_CODE; field++) {
        int64_t value;
        uint64_t large; /* RLIM_INFINITY and addresses need all 64 bits */
        const char *next = take(at, end, ' ');
        const char *behind = next ? take_signed(next, end, &value) : NULL;
        if (!behind && next && (behind = take_number(next, end, 10, &large)))
            value = (int64_t)large;
        if (!behind) {
            if (field == FIELD_PARENT)
                return false;
            break;
        }
        set_stat_field(&stat, field, value);
        at = behind;
    }
    *ret_stat = stat;
    return true;
}

/* ---- schedstat ---- */

bool proc_parse_runs(const char *text, size_t length, struct proc_runs *ret_runs)
{
    const char *end = text + length;
    struct proc_runs runs;
    const char *at = take(take_number(text, end, 10, &runs.ran_ns), end, ' ');
    at = at ? take(take_number(at, end, 10, &runs.waited_ns), end, ' ') : NULL;
    if (!at || !take_number(at, end, 10, &runs.times))
        return false;
    *ret_runs = runs;
    return true;
}

/* ---- status ---- */

/* What stands behind "NAME:" in a line of its own, up to *ret_end; NULL. */
static const char *status_line(const char *text, size_t length, const char *name, const char **ret_end)
{
    const char *end = text + length;
    size_t n = strlen(name);
    for (const char *line = text, *stop; line < end; line = stop + 1) {
        stop = end_of_line(line, end);
        if ((size_t)(stop - line) > n && memcmp(line, name, n) == 0 && line[n] == ':') {
            *ret_end = stop;
            return line + n + 1;
        }
    }
    return NULL;
}

bool proc_parse_status_number(const char *text, size_t length, const char *name, long *ret_number)
{
    const char *end, *at = status_line(text, length, name, &end);
    int64_t value;
    if (!at || !take_signed(skip_spaces(at, end), end, &value))
        return false;
    *ret_number = (long)value;
    return true;
}

uint64_t proc_parse_memory(const char *text, size_t length)
{
    long kilobytes;
    return proc_parse_status_number(text, length, "RssAnon", &kilobytes) && kilobytes > 0
               ? (uint64_t)kilobytes * 1024
               : 0;
}

bool proc_parse_status_text(const char *text, size_t length, const char *name, char *ret_text, size_t size)
{
    const char *end, *at = status_line(text, length, name, &end);
    if (!at)
        return false;
    at = skip_spaces(at, end);
    snprintf(ret_text, size, "%.*s", (int)(end - at), at);
    return true;
}

pid_t proc_parse_innermost(const char *text, size_t length, unsigned *ret_levels)
{
    const char *end, *at = status_line(text, length, "NSpid", &end);
    uint64_t last = 0;
    unsigned levels = 0;
    while (at && (at = take_number(skip_spaces(at, end), end, 10, &last)))
        levels++;
    if (ret_levels)
        *ret_levels = levels;
    return last <= INT_MAX ? (pid_t)last : 0;
}

/* ---- maps ---- */

static bool parse_mapping(const char *line, const char *end, struct proc_mapping *ret)
{
    struct proc_mapping m = {0};
    uint64_t major, minor;
    const char *at = take_number(line, end, 16, &m.start);
    at = take(at, end, '-');
    at = at ? take_number(at, end, 16, &m.end) : NULL;
    at = take(at, end, ' ');
    if (!at || end - at < 4 || m.end <= m.start)
        return false;
    m.readable = at[0] == 'r';
    m.writable = at[1] == 'w';
    m.executable = at[2] == 'x';
    m.shared = at[3] == 's';
    at = take(at + 4, end, ' ');
    at = at ? take_number(at, end, 16, &m.offset) : NULL;
    at = take(at, end, ' ');
    at = at ? take_number(at, end, 16, &major) : NULL;
    at = take(at, end, ':');
    at = at ? take_number(at, end, 16, &minor) : NULL;
    at = take(at, end, ' ');
    at = at ? take_number(at, end, 10, &m.inode) : NULL;
    if (!at || major > UINT_MAX || minor > UINT_MAX)
        return false;
    m.major = (unsigned)major;
    m.minor = (unsigned)minor;
    m.path = skip_spaces(at, end);
    m.path_length = (size_t)(end - m.path);
    *ret = m;
    return true;
}

bool proc_next_mapping(const char **text, const char *end, struct proc_mapping *ret_mapping)
{
    while (*text < end) {
        const char *line = *text, *stop = end_of_line(line, end);
        *text = stop < end ? stop + 1 : end;
        if (parse_mapping(line, stop, ret_mapping))
            return true;
    }
    return false;
}

/* ---- cgroup ---- */

static bool parse_cgroup(const char *line, const char *end, struct proc_cgroup *ret)
{
    uint64_t id;
    struct proc_cgroup c = {0};
    c.controllers = take(take_number(line, end, 10, &id), end, ':');
    const char *colon = c.controllers ? memchr(c.controllers, ':', (size_t)(end - c.controllers)) : NULL;
    if (!colon)
        return false;
    c.controllers_length = (size_t)(colon - c.controllers);
    c.path = colon + 1;
    c.path_length = (size_t)(end - c.path);
    c.unified = id == 0 && c.controllers_length == 0;
    *ret = c;
    return true;
}

bool proc_next_cgroup(const char **text, const char *end, struct proc_cgroup *ret_cgroup)
{
    while (*text < end) {
        const char *line = *text, *stop = end_of_line(line, end);
        *text = stop < end ? stop + 1 : end;
        if (parse_cgroup(line, stop, ret_cgroup))
            return true;
    }
    return false;
}

bool proc_cgroup_controls(const struct proc_cgroup *cgroup, const char *controller)
{
    const char *at = cgroup->controllers, *end = at + cgroup->controllers_length;
    size_t n = strlen(controller);
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
        if ((size_t)(stop - at) == n && memcmp(at, controller, n) == 0)
            return true;
        at = comma ? comma + 1 : end;
    }
    return false;
}

/* ---- names ---- */

void proc_make_printable(char *text)
{
    for (; text && *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            *text = '?';
}

void proc_parse_name(const char *text, size_t length, char ret_name[static PROC_NAME_BYTES])
{
    if (length && text[length - 1] == '\n')
        length--;
    length = MIN(length, (size_t)PROC_NAME_BYTES - 1);
    memcpy(ret_name, text, length);
    ret_name[length] = '\0';
    proc_make_printable(ret_name);
}

const char *proc_next_word(const char *text, size_t length, const char *word)
{
    const char *next = word ? word + strlen(word) + 1 : text;
    return next < text + length ? next : NULL;
}
