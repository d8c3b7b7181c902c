/* See moment.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/moment.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/macro.h"

int64_t moment_ns(const struct moment *m, int64_t first_ns, const struct trace *trace)
{
    const struct trace_host *h = trace_host_at(trace, 0);
    if (m->relative)
        return first_ns + m->ns;
    return m->ns - (h->own ? h->clock_origin_ns : 0);
}

bool moment_parse(const char *text, struct moment *ret_moment)
{
    struct moment m = {.given = true};
    char *end;
    if (text[0] == '+') {
        static const struct {
            const char *unit;
            double ns;
        } UNITS[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"min", 60e9}};
        double v = strtod(text + 1, &end);
        m.relative = true;
        for (size_t i = 0; i < ARRAY_SIZE(UNITS); i++) {
            if (end != text + 1 && strcmp(end, UNITS[i].unit) == 0) {
                m.ns = (int64_t)(v * UNITS[i].ns);
                *ret_moment = m;
                return true;
            }
        }
        return false;
    }
    struct tm tm = {0};
    const char *rest = strptime(text, strchr(text, 'T') ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
    if (rest) {
        double fraction = *rest == '.' ? strtod(rest, &end) : 0;
        if (*rest == '.' ? *end && strcmp(end, "Z") != 0 : *rest && strcmp(rest, "Z") != 0)
            return false;
        m.ns = (int64_t)timegm(&tm) * (int64_t)NS_PER_S + (int64_t)(fraction * 1e9 + 0.5);
    } else {
        m.ns = strtoll(text, &end, 10);
        if (end == text || *end)
            return false;
    }
    *ret_moment = m;
    return true;
}
