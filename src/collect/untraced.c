/* See untraced.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/untraced.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/json_text.h"
#include "base/macro.h"

/* The last of them takes in what is left when there are too many. NULL: no memory. */
static struct untraced_reason *reason_of(struct untraced *untraced, const char *why)
{
    array_foreach (&untraced->reasons, reason)
        if (strcmp(reason->why, why) == 0)
            return reason;
    size_t count = untraced->reasons.count;
    if (count == UNTRACED_REASONS)
        return &untraced->reasons.at[count - 1];
    struct untraced_reason reason = {.why = strdup(count == UNTRACED_REASONS - 1 ? "various reasons" : why)};
    if (!reason.why || array_add(&untraced->reasons, reason) < 0) {
        free(reason.why);
        return NULL;
    }
    return &untraced->reasons.at[count];
}

int untraced_add(struct untraced *untraced, const char *name, pid_t pid, const char *why)
{
    char *line = NULL;
    untraced->count++;
    struct untraced_reason *reason = reason_of(untraced, why);
    if (!reason)
        return -ENOMEM;
    reason->count++;
    if (reason->count <= UNTRACED_NAMED &&
        (asprintf(&line, "%s (%d): %s", name, pid, why) < 0 || array_add(&untraced->lines, line) < 0)) {
        free(line);
        return -ENOMEM;
    }
    return (int)MIN(reason->count, (uint64_t)INT_MAX);
}

json_t *untraced_array(const struct untraced *untraced)
{
    json_t *array = json_array();
    array_foreach (&untraced->lines, line)
        json_array_append_new(array, json_text(*line));
    array_foreach (&untraced->reasons, reason)
        if (reason->count > UNTRACED_NAMED)
            json_array_append_new(array, json_sprintf("%llu more: %s",
                                                      (unsigned long long)reason->count - UNTRACED_NAMED,
                                                      reason->why));
    return array;
}

void untraced_done(struct untraced *untraced)
{
    array_foreach (&untraced->lines, line)
        free(*line);
    array_foreach (&untraced->reasons, reason)
        free(reason->why);
    array_done(&untraced->lines);
    array_done(&untraced->reasons);
    untraced->count = 0;
}
