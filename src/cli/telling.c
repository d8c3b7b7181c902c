/* See telling.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/telling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/schema.h"
#include "cli/cli.h"

enum { TELL_AGAIN = 2 };

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static void make_key(char *to, size_t size, const struct finding *f)
{
    static const char *const IDENTITY[] = {"pattern", "command",   "occupied_by",
                                           "called",  "operation", "peer"};
    int n = snprintf(to, size, "%s|%s|%s|%s", finding_kinds[f->kind].name, or_empty(f->where.service),
                     or_empty(f->where.function), or_empty(f->where.file));
    for (size_t i = 0; i < ARRAY_SIZE(IDENTITY) && n > 0 && (size_t)n < size; i++) {
        const struct finding_evidence *e = finding_get_evidence(f, IDENTITY[i]);
        n +=
            snprintf(to + n, size - (size_t)n, "|%s", e && e->type == EVIDENCE_TEXT ? or_empty(e->text) : "");
    }
}

static struct told *told_get(struct telling *telling, const char *key)
{
    array_foreach (&telling->list, known)
        if (strcmp(known->key, key) == 0)
            return known;
    struct told fresh = {.key = strdup(key)};
    return !fresh.key || array_add(&telling->list, fresh) < 0 ? NULL
                                                              : &telling->list.at[telling->list.count - 1];
}

/* finding: of one that is there, owned by the caller; else NULL. */
static void tell(const struct telling *telling, const char *state, enum finding_severity severity,
                 const char *kind, const char *title, const struct finding *finding)
{
    char time_text[16];
    time_t now = time(NULL);
    if (telling->json) {
        json_t *json = finding ? finding_json(finding)
                               : json_pack("{s:s, s:s, s:s}", "severity", finding_severity_name(severity),
                                           "kind", kind, "title", title);
        json_t *line = json_pack("{s:i, s:s, s:I, s:o}", "schema", SCHEMA_line, "state", state, "read_to_ns",
                                 (json_int_t)telling->read_ns, "finding", json);
        cli_print_json(line, JSON_COMPACT);
    } else {
        strftime(time_text, sizeof(time_text), "%H:%M:%S", localtime(&now));
        cli_printf(stdout, "%s %-5s %s %s: %s\n", time_text, state, finding_severity_name(severity), kind,
                   title);
    }
    fflush(stdout);
}

static void see(struct telling *telling, const struct finding *f)
{
    char key[2048];
    make_key(key, sizeof(key), f);
    struct told *known = told_get(telling, key);
    if (!known)
        return;
    bool fresh = !known->title;
    bool worse =
        !fresh && (known->severity != f->severity || f->cost_ns >= known->cost_ns * TELL_AGAIN + NS_PER_MS);
    known->there = true;
    if (!fresh && !worse)
        return;
    tell(telling, fresh ? "new" : "more", f->severity, finding_kinds[f->kind].name, or_empty(f->title), f);
    free(known->title);
    known->title = strdup(or_empty(f->title));
    known->severity = f->severity;
    known->cost_ns = f->cost_ns;
}

void telling_changes(struct telling *telling, uint64_t read_ns, const struct report *report)
{
    telling->read_ns = read_ns;
    array_foreach (&telling->list, known)
        known->there = false;
    array_foreach (&report->findings, f)
        see(telling, *f);
    array_foreach (&telling->list, gone) {
        if (gone->there || !gone->title)
            continue;
        tell(telling, "gone", gone->severity, "no longer", gone->title, NULL);
        free(gone->title);
        gone->title = NULL;
    }
}

void telling_done(struct telling *telling)
{
    array_foreach (&telling->list, told) {
        free(told->key);
        free(told->title);
    }
    array_done(&telling->list);
}

void telling_list(struct text *to, const struct report *report, size_t most, unsigned width,
                  const struct prose_style *style)
{
    const int room = (int)width - 10;
    for (size_t i = 0; i < report->findings.count && i < most; i++) {
        const struct finding *f = report->findings.at[i];
        const char *title = or_empty(f->title);
        text_addf(to, "%s%-8s%s %.*s%s\n", f->severity > SEVERITY_INFO ? style->red : style->dim,
                  finding_severity_name(f->severity), style->none, room, title,
                  (int)strlen(title) > room ? "…" : "");
    }
    if (report->findings.count > most)
        text_addf(to, "and %zu more\n", report->findings.count - most);
}
