/* See finding.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "finding/finding.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EVIDENCE(name, text) {name, text},
#define KIND(ident, name, least, most, text, remedy, evidence) \
    static const struct finding_evidence_description evidence_##ident[] = {evidence{0}};
FINDING_KINDS(KIND)
#undef KIND
#undef EVIDENCE

const struct finding_kind_description finding_kinds[FINDING_KIND_COUNT] = {
#define KIND(ident, name, least, most, text, remedy, evidence) \
    {name, SEVERITY_##least, SEVERITY_##most, text, remedy, evidence_##ident},
    FINDING_KINDS(KIND)
#undef KIND
};

static const char *const SEVERITIES[SEVERITY_COUNT] = {"info", "warning", "critical"};

enum finding_kind finding_kind_by_name(const char *name)
{
    unsigned kind = 0;
    while (kind < FINDING_KIND_COUNT && strcmp(finding_kinds[kind].name, name) != 0)
        kind++;
    return kind;
}

const char *finding_severity_name(enum finding_severity severity)
{
    return severity < SEVERITY_COUNT ? SEVERITIES[severity] : "unknown";
}

enum finding_severity finding_severity_by_name(const char *name)
{
    unsigned severity = 0;
    while (severity < SEVERITY_COUNT && strcmp(SEVERITIES[severity], name) != 0)
        severity++;
    return severity;
}

const char *finding_say(struct finding *finding, const char *format, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(small, sizeof(small), format, args);
    va_end(args);
    const char *said = "";
    if (length >= 0 && (size_t)length < sizeof(small)) {
        said = arena_strndup(finding->arena, small, (size_t)length);
    } else if (length >= 0) {
        char *large = arena_alloc(finding->arena, (size_t)length + 1);
        if (large)
            vsnprintf(large, (size_t)length + 1, format, again);
        said = large;
    }
    va_end(again);
    return said ? said : "";
}

static const char *listed_evidence(const struct finding *finding, const char *name)
{
    for (const struct finding_evidence_description *e = finding_kinds[finding->kind].evidence; e->name; e++)
        if (strcmp(e->name, name) == 0)
            return e->name;
    return NULL;
}

static int add_evidence(struct finding *finding, const char *name, struct finding_evidence evidence)
{
    evidence.name = listed_evidence(finding, name);
    if (!evidence.name)
        return -EINVAL;
    return array_add(&finding->evidence, evidence);
}

int finding_add_count(struct finding *finding, const char *name, uint64_t value)
{
    return add_evidence(finding, name, (struct finding_evidence){.type = EVIDENCE_COUNT, .count = value});
}

int finding_add_real(struct finding *finding, const char *name, double value)
{
    return add_evidence(finding, name, (struct finding_evidence){.type = EVIDENCE_REAL, .real = value});
}

int finding_add_text(struct finding *finding, const char *name, const char *text)
{
    const char *copy = arena_strdup(finding->arena, text);
    if (!copy)
        return -ENOMEM;
    return add_evidence(finding, name, (struct finding_evidence){.type = EVIDENCE_TEXT, .text = copy});
}

const struct finding_evidence *finding_get_evidence(const struct finding *finding, const char *name)
{
    array_foreach (&finding->evidence, e)
        if (strcmp(e->name, name) == 0)
            return e;
    return NULL;
}

static const char *copy_or_null(struct arena *arena, const char *string)
{
    return string ? arena_strdup(arena, string) : NULL;
}

int finding_add_affected(struct finding *finding, const struct finding_affected *affected, size_t limit)
{
    finding->affected_count += affected->count ? affected->count : 1;
    if (finding->affected.count >= limit)
        return 0;
    struct finding_affected copy = *affected;
    copy.count = affected->count ? affected->count : 1;
    copy.id = copy_or_null(finding->arena, affected->id);
    copy.service = copy_or_null(finding->arena, affected->service);
    copy.method = copy_or_null(finding->arena, affected->method);
    copy.path = copy_or_null(finding->arena, affected->path);
    copy.route = copy_or_null(finding->arena, affected->route);
    copy.role = copy_or_null(finding->arena, affected->role);
    return array_add(&finding->affected, copy);
}

void finding_write_manual(struct text *to)
{
    text_add(
        to,
        "# Findings\n\n"
        "A finding is a verdict with its evidence. Every command that analyses something prints findings "
        "of this one shape;\n`--json` gives each `kind`, `severity`, `title`, `detail`, `where` (service, "
        "process, thread, layer, source), `from_ns`,\n`to_ns`, `evidence`, `affected`, "
        "`affected_count`, `cost_ns`, `remedy` and `link`.\n\n"
        "| severity | meaning |\n|---|---|\n"
        "| `info` | worth knowing; it is no fault, or no request suffered |\n"
        "| `warning` | requests suffered |\n"
        "| `critical` | requests suffered, and it had not ended when the trace did |\n\n"
        "Durations in evidence end in `_ns` (nanoseconds), sizes in `_bytes`, numbers of things in "
        "`_count`, shares in `_share`\n(0 to 1); the rest is text. The remedy of a kind is the general "
        "one; a finding has a more precise one where\nits cause is known. This page is made by `sonde report "
        "--kinds`.\n");
    for (unsigned kind = 0; kind < FINDING_KIND_COUNT; kind++) {
        const struct finding_kind_description *k = &finding_kinds[kind];
        text_addf(to, "\n## %s\n\n%s Severity: `%s`", k->name, k->text, SEVERITIES[k->least]);
        for (unsigned severity = k->least + 1; severity <= k->most; severity++)
            text_addf(to, "%s `%s`", severity == k->most ? " or" : ",", SEVERITIES[severity]);
        text_addf(to, ".\n\nRemedy: %s\n\n| evidence | says |\n|---|---|\n", k->remedy);
        for (const struct finding_evidence_description *e = k->evidence; e->name; e++)
            text_addf(to, "| `%s` | %s |\n", e->name, e->text);
    }
}
