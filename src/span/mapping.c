/* See mapping.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/mapping.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"

/* Names of each part, and the column names that are taken for it (lower case, without '_', '-', '.' and ' ').
 */
static const struct {
    const char *name;
    const char *guesses[9];
} PARTS[MAPPING_PARTS] = {
    [MAPPING_TRACE] = {"trace", {"traceid", "trace", "rootid"}},
    [MAPPING_SPAN] = {"span", {"spanid", "id", "span", "activityid"}},
    [MAPPING_PARENT] = {"parent",
                        {"parentspanid", "parentid", "parent", "parentspan", "pspanid", "parentactivityid"}},
    [MAPPING_NAME] = {"name",
                      {"operationname", "spanname", "name", "functionname", "operation", "methodname",
                       "endpoint"}},
    [MAPPING_SERVICE] = {"service",
                         {"servicename", "service", "localservicename", "application", "app", "podname",
                          "cmdbid"}},
    [MAPPING_HOST] = {"host", {"hostname", "host", "nodename", "node", "podname", "cmdbid"}},
    [MAPPING_VERSION] = {"version", {"serviceversion", "softwareversion", "version"}},
    [MAPPING_START] = {"start",
                       {"starttimeunixnano", "starttime", "startns", "startus", "startms", "start",
                        "begintime", "timestamp"}},
    [MAPPING_END] = {"end", {"endtimeunixnano", "endtime", "endns", "endus", "endms", "end", "finishtime"}},
    [MAPPING_DURATION] = {"duration",
                          {"durationns", "durationus", "durationms", "duration", "executiontime",
                           "elapsedtime", "latency"}},
    [MAPPING_KIND] = {"kind", {"spankind", "kind"}},
    [MAPPING_ERROR] = {"error", {"error", "iserror"}},
};

static bool same_name(struct slice column, const char *guess)
{
    size_t g = 0;
    for (size_t i = 0; i < column.length; i++) {
        char c = column.at[i];
        if (c == '(' && g) /* a unit */
            break;
        if (c == '_' || c == '-' || c == '.' || c == ' ')
            continue;
        if (!guess[g] || tolower((unsigned char)c) != guess[g])
            return false;
        g++;
    }
    return !guess[g];
}

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

static uint64_t unit_of(const char *text)
{
    return strcmp(text, "ns") == 0   ? 1
           : strcmp(text, "us") == 0 ? NS_PER_US
           : strcmp(text, "ms") == 0 ? NS_PER_MS
           : strcmp(text, "s") == 0  ? NS_PER_S
                                     : 0;
}

static bool is_time(int part)
{
    return part == MAPPING_START || part == MAPPING_END || part == MAPPING_DURATION;
}

static int set_part(struct mapping *mapping, const char *key, char *value)
{
    if (strcmp(key, "service.form") == 0) {
        mapping->service_is_pod = strcmp(value, "pod") == 0;
        return mapping->service_is_pod ? 0 : -EINVAL;
    }
    if (strncmp(key, "attribute.", 10) == 0) {
        if (mapping->attribute_count == MAPPING_ATTRIBUTES_MAX)
            return -EINVAL;
        size_t n = mapping->attribute_count++;
        snprintf(mapping->attributes[n].key, MAPPING_NAME_MAX, "%s", key + 10);
        snprintf(mapping->attributes[n].column, MAPPING_NAME_MAX, "%s", value);
        return 0;
    }
    for (int part = 0; part < MAPPING_PARTS; part++) {
        if (strcmp(key, PARTS[part].name) != 0)
            continue;
        char *unit = strrchr(value, ' ');
        if (is_time(part) && unit) {
            mapping->unit_ns[part] = unit_of(unit + 1);
            if (!mapping->unit_ns[part])
                return -EINVAL;
            *unit = '\0';
            value = trimmed(value);
        }
        snprintf(mapping->column[part], MAPPING_NAME_MAX, "%s", value);
        return 0;
    }
    return -EINVAL;
}

int mapping_read(const char *text, struct mapping *ret_mapping, struct problem *problem)
{
    struct mapping mapping = {0};
    int number = 0;
    while (*text) {
        char line[256];
        size_t length = strcspn(text, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)length, text);
        text += length + (text[length] == '\n');
        number++;
        line[strcspn(line, "#")] = '\0';
        char *key = trimmed(line);
        if (!*key)
            continue;
        char *equals = strchr(key, '=');
        if (equals)
            *equals = '\0';
        if (!equals || set_part(&mapping, trimmed(key), trimmed(equals + 1)) < 0) {
            problem_set(problem, -EINVAL, "mapping, line %d: '%s' is no part of a span with a column", number,
                        key);
            problem_remedy(problem, "Lines read `PART = COLUMN`, such as `trace = TraceID` or "
                                    "`duration = Elapsed ms`; see sonde-diagnose(1).");
            return -EINVAL;
        }
    }
    *ret_mapping = mapping;
    return 0;
}

static int find_column(const struct slice *columns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_is(columns[i], name))
            return (int)i;
    return -1;
}

static int guess_column(const struct slice *columns, size_t count, int part)
{
    for (const char *const *guess = PARTS[part].guesses; *guess; guess++)
        for (size_t i = 0; i < count; i++)
            if (same_name(columns[i], *guess))
                return (int)i;
    return -1;
}

/* The unit that a column's name ends with: "start_us", "Duration (ms)", "startTimeUnixNano"; 0: none. */
static uint64_t unit_in_name(struct slice column)
{
    static const struct {
        const char *ending;
        uint64_t ns;
    } endings[] = {{"nano", 1},
                   {"nanos", 1},
                   {"ns", 1},
                   {"nanoseconds", 1},
                   {"us", NS_PER_US},
                   {"micros", NS_PER_US},
                   {"microseconds", NS_PER_US},
                   {"ms", NS_PER_MS},
                   {"millis", NS_PER_MS},
                   {"milliseconds", NS_PER_MS},
                   {"seconds", NS_PER_S}};
    while (column.length && !isalnum((unsigned char)column.at[column.length - 1]))
        column.length--;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t n = strlen(endings[i].ending);
        if (column.length < n || strncasecmp(column.at + column.length - n, endings[i].ending, n) != 0)
            continue;
        /* "status" ends with "us", but "start_us" and "startUs" mean it */
        char before = column.length > n ? column.at[column.length - n - 1] : '_';
        if (n > 2 || !isalpha((unsigned char)before) || isupper((unsigned char)column.at[column.length - n]))
            return endings[i].ns;
    }
    return 0;
}

static int missing(const struct slice *columns, size_t count, const char *what, struct problem *problem)
{
    struct text names = {0};
    for (size_t i = 0; i < count && i < 40; i++) {
        text_add(&names, i ? ", " : "");
        text_add_bytes(&names, columns[i].at, columns[i].length);
    }
    problem_set(problem, -EINVAL, "no column for the span's %s among: %s", what, text_get(&names));
    problem_remedy(problem, "Name it in a mapping file (--mapping FILE) with a line `%s = COLUMN`.", what);
    text_done(&names);
    return -EINVAL;
}

int mapping_apply(const struct mapping *mapping, const struct slice *columns, size_t count,
                  struct mapped *ret_mapped, struct problem *problem)
{
    struct mapped mapped = {.mapping = mapping};
    for (int part = 0; part < MAPPING_PARTS; part++) {
        const char *name = mapping->column[part];
        mapped.column[part] = *name ? find_column(columns, count, name) : guess_column(columns, count, part);
        if (*name && mapped.column[part] < 0)
            return missing(columns, count, PARTS[part].name, problem);
        mapped.unit_ns[part] = mapping->unit_ns[part];
        if (is_time(part) && !mapped.unit_ns[part] && mapped.column[part] >= 0)
            mapped.unit_ns[part] = unit_in_name(columns[mapped.column[part]]);
    }
    static const int needed[] = {MAPPING_TRACE, MAPPING_SPAN, MAPPING_NAME, MAPPING_START};
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (mapped.column[needed[i]] < 0)
            return missing(columns, count, PARTS[needed[i]].name, problem);
    if (mapped.column[MAPPING_END] < 0 && mapped.column[MAPPING_DURATION] < 0)
        return missing(columns, count, "duration", problem);
    for (size_t i = 0; i < mapping->attribute_count; i++) {
        mapped.attribute_column[i] = find_column(columns, count, mapping->attributes[i].column);
        if (mapped.attribute_column[i] < 0)
            return missing(columns, count, mapping->attributes[i].column, problem);
    }
    *ret_mapped = mapped;
    return 0;
}

/* "2022-08-23 12:01:25.5", "2022-08-23T12:01:25Z" and with "+02:00": of a clock that says no zone, UTC. */
static bool read_calendar_time(struct slice cell, uint64_t *ret_ns)
{
    char text[48], *rest;
    struct tm parts = {0};
    uint64_t fraction = 0, unit = NS_PER_S;
    int zone_minutes = 0, hours, minutes;
    char sign;
    if (cell.length < 19 || cell.length >= sizeof(text) || cell.at[4] != '-')
        return false;
    memcpy(text, cell.at, cell.length);
    text[cell.length] = '\0';
    text[10] = 'T';
    rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    if (!rest)
        return false;
    if (*rest == '.' || *rest == ',')
        for (rest++; isdigit((unsigned char)*rest); rest++) {
            unit /= 10;
            fraction += unit * (uint64_t)(*rest - '0');
        }
    if (sscanf(rest, "%c%2d:%2d", &sign, &hours, &minutes) == 3 && (sign == '+' || sign == '-'))
        zone_minutes = (sign == '-' ? -1 : 1) * (hours * 60 + minutes);
    else if (*rest && strcmp(rest, "Z") != 0 && strcmp(rest, " UTC") != 0)
        return false;
    time_t seconds = timegm(&parts) - zone_minutes * 60;
    if (seconds < 0)
        return false;
    *ret_ns = (uint64_t)seconds * NS_PER_S + fraction;
    return true;
}

/* The unit of a time of day that a number of the present must have: seconds have 10 digits, milliseconds 13
 * ... Smaller numbers are no such time, and taken as nanoseconds. */
static uint64_t unit_by_size(struct slice cell)
{
    size_t digits = 0;
    while (digits < cell.length && isdigit((unsigned char)cell.at[digits]))
        digits++;
    return digits == 10 ? NS_PER_S : digits == 13 ? NS_PER_MS : digits == 16 ? NS_PER_US : 1;
}

/* A number with an optional fraction, in units of unit_ns. */
static bool read_time(struct slice cell, uint64_t unit_ns, uint64_t *ret_ns)
{
    uint64_t whole = 0;
    size_t i = 0;
    for (; i < cell.length && isdigit((unsigned char)cell.at[i]); i++) {
        if (whole > (UINT64_MAX - 9) / 10)
            return false;
        whole = whole * 10 + (uint64_t)(cell.at[i] - '0');
    }
    if (i == 0 || whole > UINT64_MAX / unit_ns)
        return false;
    uint64_t ns = whole * unit_ns, part = unit_ns;
    if (i < cell.length && cell.at[i] == '.')
        for (i++; i < cell.length && isdigit((unsigned char)cell.at[i]); i++) {
            part /= 10;
            ns += part * (uint64_t)(cell.at[i] - '0');
        }
    *ret_ns = ns;
    return i == cell.length;
}

/* "frontend-579b9bff58-t2dbm" to "frontend": the pod's own suffix (5 characters) and the replica set's hash.
 */
static struct slice deployment_of(struct slice pod)
{
    size_t end = pod.length, dashes = 0, cut[2] = {0, 0};
    while (end > 0 && dashes < 2)
        if (pod.at[--end] == '-')
            cut[dashes++] = end;
    if (dashes < 2 || pod.length - cut[0] != 6)
        return pod;
    size_t hash = cut[0] - cut[1] - 1;
    return hash >= 8 && hash <= 10 ? (struct slice){pod.at, cut[1]} : pod;
}

static uint8_t kind_of(struct slice text)
{
    static const char *const names[] = {"unspecified", "internal", "server",
                                        "client",      "producer", "consumer"};
    if (text.length > 10 && strncasecmp(text.at, "SPAN_KIND_", 10) == 0)
        text = (struct slice){text.at + 10, text.length - 10};
    for (uint8_t i = 0; i < 6; i++)
        if (text.length == strlen(names[i]) && strncasecmp(text.at, names[i], text.length) == 0)
            return i;
    return text.length == 1 && text.at[0] >= '0' && text.at[0] <= '5' ? (uint8_t)(text.at[0] - '0') : 0;
}

static struct slice cell(const struct mapped *mapped, const struct slice *cells, size_t count, int part)
{
    int column = mapped->column[part];
    return column >= 0 && (size_t)column < count ? cells[column] : (struct slice){0};
}

static bool read_moment(struct slice cell, uint64_t unit_ns, uint64_t *ret_ns)
{
    return read_time(cell, unit_ns ? unit_ns : unit_by_size(cell), ret_ns) ||
           read_calendar_time(cell, ret_ns);
}

static bool read_times(const struct mapped *mapped, const struct slice *cells, size_t count,
                       struct span *span)
{
    const uint64_t *unit = mapped->unit_ns;
    uint64_t duration;
    if (!read_moment(cell(mapped, cells, count, MAPPING_START), unit[MAPPING_START], &span->start_ns))
        return false;
    struct slice end = cell(mapped, cells, count, MAPPING_END);
    if (mapped->column[MAPPING_END] >= 0)
        return end.length == 0 || read_moment(end, unit[MAPPING_END], &span->end_ns);
    struct slice text = cell(mapped, cells, count, MAPPING_DURATION);
    if (text.length == 0)
        return true;
    if (!read_time(text, unit[MAPPING_DURATION] ? unit[MAPPING_DURATION] : NS_PER_US, &duration) ||
        duration > UINT64_MAX - span->start_ns)
        return false;
    span->end_ns = span->start_ns + duration;
    return true;
}

static bool is_root_mark(struct slice parent)
{
    return parent.length == 0 || slice_is(parent, "root") || slice_is(parent, "null") ||
           slice_is(parent, "None") || slice_is(parent, "-1");
}

int mapping_row(const struct mapped *mapped, const struct slice *cells, size_t count, struct span_sink *sink)
{
    struct span_attribute attributes[MAPPING_ATTRIBUTES_MAX];
    struct span_resource resource = {.attributes = attributes};
    struct span span = {.resource = &resource, .attributes = attributes};
    uint64_t ignored;
    span_id_parse(cell(mapped, cells, count, MAPPING_TRACE), &span.trace_high, &span.trace_low);
    span_id_parse(cell(mapped, cells, count, MAPPING_SPAN), &ignored, &span.id);
    struct slice parent = cell(mapped, cells, count, MAPPING_PARENT);
    if (!is_root_mark(parent))
        span_id_parse(parent, &ignored, &span.parent);
    span.name = cell(mapped, cells, count, MAPPING_NAME);
    span.kind = kind_of(cell(mapped, cells, count, MAPPING_KIND));
    struct slice error = cell(mapped, cells, count, MAPPING_ERROR);
    span.error =
        error.length && !slice_is(error, "false") && !slice_is(error, "0") && !slice_is(error, "False");
    if (!read_times(mapped, cells, count, &span)) {
        sink->counts.malformed++;
        return 0;
    }
    for (size_t i = 0; i < mapped->mapping->attribute_count; i++) {
        int column = mapped->attribute_column[i];
        attributes[resource.attribute_count++] =
            (struct span_attribute){slice_of(mapped->mapping->attributes[i].key),
                                    (size_t)column < count ? cells[column] : (struct slice){0}};
    }
    resource.service = cell(mapped, cells, count, MAPPING_SERVICE);
    resource.host = cell(mapped, cells, count, MAPPING_HOST);
    resource.version = cell(mapped, cells, count, MAPPING_VERSION);
    bool pod =
        mapped->mapping->service_is_pod || (!*mapped->mapping->column[MAPPING_SERVICE] &&
                                            mapped->column[MAPPING_SERVICE] == mapped->column[MAPPING_HOST]);
    if (pod)
        resource.service = deployment_of(resource.service);
    span_resource_conventions(&resource);
    return span_sink_put(sink, &span);
}
