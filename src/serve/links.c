/* See links.h. A finding's name within the page is made as keys() in web/src/views/findings.tsx makes it: of
 * its kind, service and place, so that it stays when the recording is analysed anew. A test follows each
 * link. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/links.h"

#include <ctype.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"

enum { NAME = 512 };

/* "coupon.js:14", the function, the command or the layer. */
static void name_place(const json_t *finding, char place[NAME])
{
    const json_t *where = json_object_get(finding, "where"), *source = json_object_get(where, "source");
    const char *file = json_string_value(json_object_get(source, "file"));
    const char *others[] = {
        json_string_value(json_object_get(source, "function")),
        json_string_value(json_object_get(json_object_get(finding, "evidence"), "command")),
        json_string_value(json_object_get(where, "layer")),
    };
    place[0] = '\0';
    if (file && *file) {
        const char *slash = strrchr(file, '/');
        snprintf(place, NAME, "%s:%lld", slash ? slash + 1 : file,
                 (long long)json_integer_value(json_object_get(source, "line")));
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (others[i]) {
            snprintf(place, NAME, "%s", others[i]);
            return;
        }
}

/* Runs of what does not belong into an address become one '_'. */
static void add_clean(struct text *to, const char *part)
{
    bool run = false;
    for (; *part; part++) {
        bool fine = isalnum((unsigned char)*part) || strchr("_.:@-", *part);
        if (fine || !run)
            text_add_bytes(to, fine ? part : "_", 1);
        run = !fine;
    }
}

static void name_finding(const json_t *finding, struct text *to)
{
    const char *service = json_string_value(json_object_get(json_object_get(finding, "where"), "service"));
    char place[NAME], joined[3 * NAME];
    name_place(finding, place);
    const char *kind = json_string_value(json_object_get(finding, "kind"));
    snprintf(joined, sizeof(joined), "%.500s%s%.500s%s%s", kind ? kind : "", service && *service ? "." : "",
             service ? service : "", *place ? "." : "", place);
    add_clean(to, joined);
}

void links_add(const char *report, const char *base, size_t number, size_t most, struct text *to)
{
    json_t *document = json_loads(report, 0, NULL), *seen = json_object();
    const json_t *findings = json_object_get(document, "findings"), *finding;
    size_t i, all = json_array_size(findings);
    json_array_foreach (findings, i, finding) {
        struct text name = {0};
        const char *title = json_string_value(json_object_get(finding, "title"));
        if (i == most) {
            text_addf(to, "  and %zu more: %s#/findings", all - most, base);
            if (number)
                text_addf(to, "?s=%zu", number);
            text_add(to, "\n");
            break;
        }
        name_finding(finding, &name);
        json_int_t times = json_integer_value(json_object_get(seen, text_get(&name))) + 1;
        json_object_set_new(seen, text_get(&name), json_integer(times));
        text_add(to, "  ");
        text_add_visible(to, title ? title : "", title ? strlen(title) : 0);
        text_addf(to, "\n    %s#/findings/", base);
        for (const char *c = text_get(&name); *c; c++) { /* as encodeURIComponent() does */
            if (*c == ':' || *c == '@')
                text_addf(to, "%%%02X", *c);
            else
                text_add_bytes(to, c, 1);
        }
        if (times > 1)
            text_addf(to, ".%lld", (long long)times);
        if (number)
            text_addf(to, "?s=%zu", number);
        text_add(to, "\n");
        text_done(&name);
    }
    json_decref(seen);
    json_decref(document);
}
