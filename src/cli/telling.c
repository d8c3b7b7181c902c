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

const char *telling_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void make_key(char *to, size_t size, const json_t *finding)
{
    static const char *const IDENTITY[] = {"pattern", "command",   "occupied_by",
                                           "called",  "operation", "peer"};
    const json_t *where = json_object_get(finding, "where"), *source = json_object_get(where, "source");
    const json_t *evidence = json_object_get(finding, "evidence");
    int n = snprintf(to, size, "%s|%s|%s|%s", telling_text(finding, "kind"), telling_text(where, "service"),
                     telling_text(source, "function"), telling_text(source, "file"));
    for (size_t i = 0; i < ARRAY_SIZE(IDENTITY) && n > 0 && (size_t)n < size; i++)
        n += snprintf(to + n, size - (size_t)n, "|%s", telling_text(evidence, IDENTITY[i]));
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

static void tell(const struct telling *telling, const char *state, const json_t *finding)
{
    char time_text[16];
    time_t now = time(NULL);
    if (telling->json) {
        json_t *line = json_pack("{s:i, s:s, s:I, s:O}", "schema", SCHEMA_line, "state", state, "read_to_ns",
                                 (json_int_t)telling->read_ns, "finding", finding);
        json_dumpf(line, stdout, JSON_COMPACT);
        json_decref(line);
        putchar('\n');
    } else {
        strftime(time_text, sizeof(time_text), "%H:%M:%S", localtime(&now));
        cli_printf(stdout, "%s %-5s %s %s: %s\n", time_text, state, telling_text(finding, "severity"),
                   telling_text(finding, "kind"), telling_text(finding, "title"));
    }
    fflush(stdout);
}

void telling_changes(struct telling *telling, uint64_t read_ns, const json_t *findings)
{
    telling->read_ns = read_ns;
    size_t i;
    json_t *finding;
    array_foreach (&telling->list, known)
        known->there = false;
    json_array_foreach (findings, i, finding) {
        char key[2048];
        make_key(key, sizeof(key), finding);
        struct told *known = told_get(telling, key);
        if (!known)
            return;
        json_int_t cost_ns = json_integer_value(json_object_get(finding, "cost_ns"));
        bool fresh = !known->title;
        bool worse = !fresh && (strcmp(known->severity, telling_text(finding, "severity")) != 0 ||
                                cost_ns >= known->cost_ns * TELL_AGAIN + (json_int_t)NS_PER_MS);
        known->there = true;
        if (!fresh && !worse)
            continue;
        tell(telling, fresh ? "new" : "more", finding);
        free(known->title);
        free(known->severity);
        known->title = strdup(telling_text(finding, "title"));
        known->severity = strdup(telling_text(finding, "severity"));
        known->cost_ns = cost_ns;
    }
    for (i = 0; i < telling->list.count; i++) {
        struct told gone = telling->list.at[i];
        if (gone.there || !gone.title)
            continue;
        json_t *said =
            json_pack("{s:s, s:s, s:s}", "severity", gone.severity, "kind", "no longer", "title", gone.title);
        tell(telling, "gone", said);
        json_decref(said);
        free(gone.title);
        free(gone.severity);
        telling->list.at[i].title = telling->list.at[i].severity = NULL;
    }
}

void telling_done(struct telling *telling)
{
    array_foreach (&telling->list, told) {
        free(told->key);
        free(told->title);
        free(told->severity);
    }
    array_done(&telling->list);
}
