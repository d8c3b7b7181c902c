/* See prose.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "finding/prose.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

const struct prose_style prose_plain = {"", "", "", "", "", "", ""};

enum { LABEL_COLUMN = 13, ENDPOINTS_SHOWN = 4 };

static unsigned columns(const char *text, size_t length)
{
    unsigned n = 0;
    for (size_t i = 0; i < length; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

void prose_wrap(struct text *to, const char *words, unsigned column, unsigned indent, unsigned width)
{
    bool first = true;
    while (*words) {
        words += strspn(words, " \n");
        size_t length = strcspn(words, " \n");
        if (!length)
            break;
        unsigned wide = columns(words, length);
        if (!first && column + 1 + wide > width) {
            text_addf(to, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        if (!first) {
            text_add(to, " ");
            column++;
        }
        text_add_bytes(to, words, length);
        column += wide;
        words += length;
        first = false;
    }
}

void prose_count(struct text *to, uint64_t count, const char *singular)
{
    char digits[32], grouped[48];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
    size_t at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            grouped[at++] = ',';
        grouped[at++] = digits[i];
    }
    grouped[at] = '\0';
    text_addf(to, "%s %s%s", grouped, singular, count == 1 ? "" : "s");
}

static void label(struct text *to, const char *name, const struct prose_style *style)
{
    text_addf(to, "   %s%-*s%s", style->dim, LABEL_COLUMN - 3, name, style->none);
}

static void paragraph(struct text *to, const char *name, const char *words, const struct prose_style *style,
                      unsigned width)
{
    if (!words || !*words)
        return;
    label(to, name, style);
    prose_wrap(to, words, LABEL_COLUMN, LABEL_COLUMN, width);
    text_add(to, "\n");
}

static void add_place(struct text *to, const struct finding_place *where)
{
    const char *separator = "";
    if (where->service) {
        text_add(to, where->service);
        separator = ", ";
    }
    if (where->process > 0) {
        text_addf(to, "%sprocess %" PRId64, where->service ? " " : "", where->process);
        separator = ", ";
    }
    if (where->function && *where->function) {
        text_addf(to, "%s%s", separator, where->function);
        separator = " at ";
    }
    if (where->file && *where->file) {
        text_addf(to, "%s%s", separator, where->file);
        if (where->line)
            text_addf(to, ":%" PRIu32, where->line);
        if (where->line && where->column)
            text_addf(to, ":%" PRIu32, where->column);
        separator = ", ";
    }
    if (where->layer)
        text_addf(to, "%slayer %s", *separator ? ", " : "", where->layer);
}

/* One endpoint's requests in one role. */
struct group {
    const struct finding_affected *like; /* of them, the one that lost most */
    uint64_t count, delay_ns, worst_ns;
};

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static const char *route(const struct finding_affected *a)
{
    return a->route ? a->route : a->path;
}

static int by_delay(const void *x, const void *y)
{
    const struct group *a = x, *b = y;
    if (a->delay_ns != b->delay_ns)
        return a->delay_ns > b->delay_ns ? -1 : 1;
    return (a->count < b->count) - (a->count > b->count);
}

static size_t group_affected(const struct finding *finding, struct group *groups, size_t room)
{
    size_t count = 0;
    array_foreach (&finding->affected, a) {
        size_t i = 0;
        while (i < count &&
               !(same_text(groups[i].like->service, a->service) &&
                 same_text(groups[i].like->method, a->method) && same_text(route(groups[i].like), route(a)) &&
                 same_text(groups[i].like->role, a->role)))
            i++;
        if (i == room)
            continue;
        if (i == count)
            groups[count++] = (struct group){.like = a};
        groups[i].count += a->count;
        groups[i].delay_ns += a->delay_ns;
        if (a->delay_ns > groups[i].worst_ns) {
            groups[i].worst_ns = a->delay_ns;
            groups[i].like = a;
        }
    }
    qsort(groups, count, sizeof(*groups), by_delay);
    return count;
}

static void add_affected(struct text *to, const struct finding *finding)
{
    struct group groups[64];
    char time[32];
    size_t count = group_affected(finding, groups, ARRAY_SIZE(groups));
    prose_count(to, finding->affected_count, "request");
    if (finding->cost_ns)
        text_addf(to, " lost %s in total", clock_format_duration(finding->cost_ns, time, sizeof(time)));
    for (size_t i = 0; i < MIN(count, (size_t)ENDPOINTS_SHOWN); i++) {
        const struct finding_affected *a = groups[i].like;
        text_add(to, i == 0 ? ": " : "; ");
        if (groups[i].count > 1)
            text_addf(to, "%" PRIu64 " x ", groups[i].count);
        text_addf(to, "%s %s", a->method ? a->method : "request", route(a) ? route(a) : "");
        if (a->service)
            text_addf(to, " of %s", a->service);
        text_addf(to, " %s", a->role ? a->role : "waited");
        if (groups[i].worst_ns)
            text_addf(to, " for %s%s", groups[i].count > 1 ? "up to " : "",
                      clock_format_duration(groups[i].worst_ns, time, sizeof(time)));
    }
    if (count > ENDPOINTS_SHOWN) {
        text_add(to, "; and ");
        prose_count(to, count - ENDPOINTS_SHOWN, "more endpoint");
    }
}

static void add_finding(struct text *to, const struct finding *finding, size_t number,
                        const struct prose_style *style, unsigned width)
{
    const char *colour = finding->severity == SEVERITY_INFO      ? style->cyan
                         : finding->severity == SEVERITY_WARNING ? style->yellow
                                                                 : style->red;
    char head[128];
    snprintf(head, sizeof(head), "%zu. %s %s: ", number, finding_severity_name(finding->severity),
             finding_kinds[finding->kind].name);
    text_addf(to, "%s%s%s%s", colour, head, style->none, style->bold);
    prose_wrap(to, finding->title, (unsigned)strlen(head), 3, width);
    text_addf(to, "%s\n", style->none);

    struct text line = {0};
    add_place(&line, &finding->where);
    paragraph(to, "where", text_get(&line), style, width);
    paragraph(to, "cause", finding->detail, style, width);
    if (finding->affected_count) {
        text_clear(&line);
        add_affected(&line, finding);
        paragraph(to, "suffered", text_get(&line), style, width);
    }
    paragraph(to, "remedy", finding->remedy, style, width);
    paragraph(to, "see", finding->link, style, width);
    text_done(&line);
}

void prose_findings(struct text *to, const struct report *report, const struct prose_style *style,
                    unsigned width)
{
    size_t number = 0;
    array_foreach (&report->findings, f) {
        if (number)
            text_add(to, "\n");
        add_finding(to, *f, ++number, style, width);
    }
    if (!number) {
        text_addf(to, "%sNo findings.%s ", style->green, style->none);
        prose_wrap(to, report->nothing ? report->nothing : "", 13, 0, width);
        text_add(to, "\n");
    }
}

void prose_limits(struct text *to, const struct report *report, const struct prose_style *style,
                  unsigned width)
{
    struct text line = {0};
    if (report->losses.count) {
        text_addf(to, "%sLost%s\n", style->bold, style->none);
        array_foreach (&report->losses, loss) {
            text_clear(&line);
            prose_count(&line, loss->count, "event");
            text_addf(&line, ": %s%s%s", loss->reason, loss->where ? ", " : "",
                      loss->where ? loss->where : "");
            text_addf(to, "   %s", style->red);
            prose_wrap(to, text_get(&line), 3, 6, width);
            text_addf(to, "%s\n", style->none);
        }
    }
    if (report->overhead.count) {
        text_addf(to, "%sCost%s\n", style->bold, style->none);
        text_clear(&line);
        array_foreach (&report->overhead, cost)
            text_addf(&line, "%s%s %.6g", cost == report->overhead.at ? "" : ", ", cost->name, cost->value);
        text_add(to, "   ");
        prose_wrap(to, text_get(&line), 3, 3, width);
        text_add(to, "\n");
    }
    if (report->missing.count) {
        text_addf(to, "%sNot seen%s\n", style->bold, style->none);
        array_foreach (&report->missing, m) {
            text_clear(&line);
            text_addf(&line, "%s: %s%s%s", m->what, m->why, m->remedy ? ". " : "",
                      m->remedy ? m->remedy : "");
            text_add(to, "   ");
            prose_wrap(to, text_get(&line), 3, 6, width);
            text_add(to, "\n");
        }
    }
    text_done(&line);
}
