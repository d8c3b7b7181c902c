/* See ended.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/ended.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"

/* The programs of a host are of a few builds: their lists are the same. The text is taken. */
static const char *shared_text(struct ended *ended, char *text)
{
    array_foreach (&ended->texts, known)
        if (text && strcmp(*known, text) == 0) {
            free(text);
            return *known;
        }
    if (!text || array_add(&ended->texts, text) < 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* A field of the object as text, which is taken out of it. */
static const char *take_field(struct ended *ended, json_t *object, const char *name)
{
    char *text = json_dumps(json_object_get(object, name), JSON_COMPACT);
    json_object_del(object, name);
    return shared_text(ended, text);
}

static bool is_alike(const struct ended_alike *alike, const struct program *program)
{
    return strcmp(alike->name, program->name) == 0 && strcmp(alike->command, program->command) == 0;
}

/* Those of its command; NULL: none were seen, and there is room for one more. */
static struct ended_alike *find_alike(const struct ended *ended, const struct program *program)
{
    array_foreach (&ended->alike, alike)
        if (is_alike(alike, program))
            return alike;
    return ended->alike.count < ENDED_COMMANDS ? NULL : &ended->alike.at[ended->alike.count - 1];
}

static struct ended_alike *alike_of(struct ended *ended, const struct program *program)
{
    struct ended_alike *found = find_alike(ended, program);
    if (found)
        return found;
    bool last = ended->alike.count == ENDED_COMMANDS - 1;
    struct ended_alike alike = {.name = strdup(last ? "others" : program->name),
                                .command = strdup(last ? "" : program->command)};
    if (!alike.name || !alike.command || array_add(&ended->alike, alike) < 0) {
        free(alike.name);
        free(alike.command);
        return NULL;
    }
    return &ended->alike.at[ended->alike.count - 1];
}

bool ended_lists(const struct ended *ended, const struct program *program)
{
    const struct ended_alike *alike = find_alike(ended, program);
    return !alike || alike->listed < ENDED_LISTED;
}

/* In order of time: programs end in nearly the order in which they began. */
static int insert(struct ended *ended, const struct ended_program *program)
{
    if (array_add(&ended->programs, *program) < 0)
        return -ENOMEM;
    struct ended_program *at = &ended->programs.at[ended->programs.count - 1];
    for (; at > ended->programs.at && at[-1].started_ns > program->started_ns; at--)
        *at = at[-1];
    *at = *program;
    return 0;
}

static int keep_object(struct ended *ended, const struct program *program, json_t *object)
{
    struct ended_program kept = {.started_ns = program->started_ns,
                                 .hooks = take_field(ended, object, "hooks"),
                                 .missing = take_field(ended, object, "missing")};
    kept.fields = json_dumps(object, JSON_COMPACT);
    size_t length = kept.fields ? strlen(kept.fields) : 0;
    if (!kept.hooks || !kept.missing || length < 2 ||
        (kept.fields[length - 1] = '\0', insert(ended, &kept))) {
        free(kept.fields);
        return -ENOMEM;
    }
    return 0;
}

static int keep_loss(struct ended *ended, int pid, uint8_t reason, uint64_t count)
{
    array_foreach (&ended->losses, loss)
        if (!pid && !loss->pid && loss->reason == reason) {
            loss->count += count;
            return 0;
        }
    return array_add(&ended->losses, (struct ended_loss){pid, reason, count});
}

static int keep_losses(struct ended *ended, const struct program *program, bool listed)
{
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(program->losses); i++) {
        ended->lost += program->losses[i];
        if (program->losses[i] &&
            keep_loss(ended, listed ? program->pid : 0, (uint8_t)i, program->losses[i]) < 0)
            r = -ENOMEM;
    }
    return r;
}

static void keep_together(struct ended_alike *alike, const struct program *program)
{
    if (!alike->count++)
        alike->first_start_ns = program->started_ns;
    alike->first_start_ns = MIN(alike->first_start_ns, program->started_ns);
    alike->last_end_ns = MAX(alike->last_end_ns, program->ended_ns);
    alike->events_written += program_events_written(program);
}

static void parent_done(struct ended_parent *parent)
{
    free(parent->exe);
    target_free(parent->target);
    array_done(&parent->patches);
}

static void keep_parent(struct ended *ended, const struct program *program)
{
    struct ended_parent *parent = &ended->parents[ended->count % ENDED_PARENTS];
    parent_done(parent);
    *parent = (struct ended_parent){.rings = ring_memory_inode(program->rings), .exe = strdup(program->exe)};
    array_foreach (&program->patches.patches, p)
        (void)array_add(&parent->patches, *p);
    if (!parent->exe || parent->patches.count != program->patches.patches.count ||
        (program->target && target_inherit(program->target, NULL, -1, &parent->target) < 0)) {
        parent_done(parent);
        *parent = (struct ended_parent){0};
    }
}

int ended_add(struct ended *ended, const struct program *program, json_t *object)
{
    struct ended_alike *alike = alike_of(ended, program);
    const bool listed = alike && alike->listed < ENDED_LISTED;
    int r = alike && (object || !listed) ? 0 : -ENOMEM;
    if (r == 0 && listed)
        r = keep_object(ended, program, object);
    if (r == 0 && listed)
        alike->listed++;
    else if (alike)
        keep_together(alike, program);
    json_decref(object);
    if (keep_losses(ended, program, listed) < 0)
        r = -ENOMEM;
    for (int i = 0; i < SONDE_EVENT_COUNT; i++)
        ended->events[i] += program->events[i];
    keep_parent(ended, program);
    ended->count++;
    return r;
}

void ended_write(const struct ended_program *program, struct text *to)
{
    text_addf(to, "%s,\"hooks\":%s,\"missing\":%s}", program->fields, program->hooks, program->missing);
}

json_t *ended_alike_array(const struct ended *ended)
{
    json_t *array = json_array();
    array_foreach (&ended->alike, alike)
        if (alike->count)
            json_array_append_new(
                array,
                json_pack("{s:o, s:o, s:I, s:I, s:I, s:I}", "name", json_text(alike->name), "command",
                          json_text(alike->command), "count", (json_int_t)alike->count, "events_written",
                          (json_int_t)alike->events_written, "start_ns", (json_int_t)alike->first_start_ns,
                          "end_ns", (json_int_t)alike->last_end_ns));
    return array;
}

const struct ended_parent *ended_parent_of(const struct ended *ended, const uint64_t *rings, size_t count)
{
    for (uint64_t i = 0; i < MIN(ended->count, (uint64_t)ENDED_PARENTS); i++) {
        const struct ended_parent *parent = &ended->parents[(ended->count - 1 - i) % ENDED_PARENTS];
        for (size_t k = 0; k < count; k++)
            if (parent->exe && parent->rings == rings[k])
                return parent;
    }
    return NULL;
}

void ended_done(struct ended *ended)
{
    array_foreach (&ended->programs, p)
        free(p->fields);
    array_foreach (&ended->alike, alike) {
        free(alike->name);
        free(alike->command);
    }
    array_foreach (&ended->texts, text)
        free(*text);
    for (size_t i = 0; i < ENDED_PARENTS; i++)
        parent_done(&ended->parents[i]);
    array_done(&ended->programs);
    array_done(&ended->alike);
    array_done(&ended->losses);
    array_done(&ended->texts);
}
