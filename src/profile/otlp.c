/* OpenTelemetry's profiles (opentelemetry-proto 1.11, profiles/v1development), as one ProfilesData message:
 *
 *   ProfilesData  1 resource_profiles {1 resource {1 attributes}, 2 scope_profiles {1 scope {1 name}, 2
 * profiles}} 2 dictionary dictionary    1 mappings {4 file name}, 2 locations {1 mapping, 3 lines {1
 * function, 2 line}, 4 attributes} 3 functions {1 name, 3 file name}, 4 links, 5 strings, 6 attributes {1
 * key, 2 value} 7 stacks {1 locations, the innermost first}; element 0 of each is empty Profile       1
 * sample type {1 type, 2 unit}, 2 samples {1 stack, 2 attributes, 4 values} 3 time, 4 duration, 5 period
 * type, 6 period
 *
 * Processes and threads, which a profile holds as frames, become attributes of samples. A request of OTLP
 * over HTTP has the same fields. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/formats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/wire.h"

/* The dictionary while it is made. */
struct writer {
    const struct profile *p;
    struct map strings, attributes, stacks, mappings; /* hash of the content -> index */
    size_t string_count, attribute_count, stack_count, mapping_count;
    struct text string_table, attribute_table, stack_table, mapping_table;
    struct text a, b; /* scratch */
    bool failed;
};

/* The index of content whose hash is key; *ret_added when it is new, and the caller writes it. */
static uint32_t index_of(struct writer *w, struct map *map, uint64_t key, size_t *count, bool *ret_added)
{
    uint64_t *at = map_put(map, key, ret_added);
    if (!at) {
        w->failed = true;
        *ret_added = false;
        return 0;
    }
    if (*ret_added)
        *at = (*count)++;
    return (uint32_t)*at;
}

static uint32_t string_index(struct writer *w, const char *string)
{
    bool added;
    uint32_t i = index_of(w, &w->strings, map_hash(string, strlen(string)), &w->string_count, &added);
    if (added)
        wire_string(&w->string_table, 5, string);
    return i;
}

/* An attribute with a text, or (text NULL) a number. */
static uint32_t attribute_index(struct writer *w, const char *key, const char *text, uint64_t number)
{
    bool added;
    struct text identity = {0};
    text_addf(&identity, "%s=%s%llu", key, text ? text : "#", text ? 0 : (unsigned long long)number);
    uint32_t i = index_of(w, &w->attributes, map_hash(text_get(&identity), identity.length),
                          &w->attribute_count, &added);
    text_done(&identity);
    if (!added)
        return i;
    wire_number(&w->a, 1, string_index(w, key));
    if (text)
        wire_string(&w->b, 1, text);
    else
        wire_number(&w->b, 3, number);
    wire_message(&w->a, 2, &w->b);
    wire_message(&w->attribute_table, 6, &w->a);
    return i;
}

static uint32_t mapping_index(struct writer *w, const char *path)
{
    bool added;
    if (!*path)
        return 0;
    uint32_t i = index_of(w, &w->mappings, map_hash(path, strlen(path)), &w->mapping_count, &added);
    if (added) {
        wire_number(&w->a, 4, string_index(w, path));
        wire_message(&w->mapping_table, 1, &w->a);
    }
    return i;
}

/* As OpenTelemetry calls them (profile.frame.type). */
static const char *frame_type(enum profile_frame_kind kind)
{
    static const char *const types[FRAME_KINDS] = {
        [FRAME_NATIVE] = "native",  [FRAME_KERNEL] = "kernel", [FRAME_PYTHON] = "cpython",
        [FRAME_JS] = "v8js",        [FRAME_JAVA] = "jvm",      [FRAME_GENERATED] = "native",
        [FRAME_RUNTIME] = "native", [FRAME_RUBY] = "ruby"};
    return types[kind];
}

/* Location and function of a frame have the frame's number. */
static void add_frame(struct writer *w, uint32_t i, struct text *locations, struct text *functions)
{
    const struct profile_frame *f = &w->p->frames.at[i];
    const char *type = frame_type((enum profile_frame_kind)f->kind);
    struct text line = {0};
    if (type) {
        uint32_t attribute = attribute_index(w, "profile.frame.type", type, 0);
        uint32_t mapping = mapping_index(w, profile_text(w->p, f->module));
        wire_number(&w->a, 1, mapping);
        wire_number(&line, 1, i);
        wire_number(&line, 2, f->line);
        wire_message(&w->a, 3, &line);
        wire_varint(&line, attribute);
        wire_message(&w->a, 4, &line);
    }
    wire_message(locations, 2, &w->a);
    if (type || f->kind == FRAME_TRUNCATED) {
        uint32_t name = string_index(w, profile_text(w->p, f->name));
        uint32_t file = string_index(w, profile_text(w->p, f->file));
        wire_number(&w->a, 1, name);
        wire_number(&w->a, 3, file);
    }
    wire_message(functions, 3, &w->a);
    text_done(&line);
}

/* "NAME (NUMBER)" of a process, "thread NAME (NUMBER)" of a thread. */
static void add_group(struct writer *w, uint32_t frame, struct text *indices)
{
    char name[256];
    snprintf(name, sizeof(name), "%s", profile_text(w->p, w->p->frames.at[frame].name));
    bool thread = strncmp(name, "thread ", 7) == 0;
    char *open = strrchr(name, '(');
    if (open && open > name && open[-1] == ' ') {
        uint64_t number = strtoull(open + 1, NULL, 10);
        open[-1] = '\0';
        wire_varint(indices, attribute_index(w, thread ? "thread.id" : "process.pid", NULL, number));
    }
    wire_varint(indices, attribute_index(w, thread ? "thread.name" : "process.executable.name",
                                         thread ? name + 7 : name, 0));
}

static void add_sample(struct writer *w, uint32_t node, struct text *samples)
{
    struct text ids = {0}, groups = {0};
    const struct profile *p = w->p;
    bool added;
    for (uint32_t at = node; at; at = p->nodes.at[at].parent) {
        uint32_t frame = p->nodes.at[at].frame;
        if (p->frames.at[frame].kind == FRAME_GROUP)
            add_group(w, frame, &groups);
        else
            wire_varint(&ids, frame);
    }
    uint32_t stack = index_of(w, &w->stacks, map_hash(text_get(&ids), ids.length), &w->stack_count, &added);
    if (added) {
        wire_message(&w->a, 1, &ids);
        wire_message(&w->stack_table, 7, &w->a);
    }
    wire_number(&w->a, 1, stack);
    if (groups.length)
        wire_message(&w->a, 2, &groups);
    text_clear(&ids);
    wire_varint(&ids, p->nodes.at[node].weight);
    wire_message(&w->a, 4, &ids);
    wire_message(samples, 2, &w->a);
    text_done(&ids);
    text_done(&groups);
}

static void add_value_type(struct writer *w, struct text *out, unsigned field)
{
    uint32_t type = string_index(w, w->p->event), unit = string_index(w, w->p->unit);
    wire_number(&w->a, 1, type);
    wire_number(&w->a, 2, unit);
    wire_message(out, field, &w->a);
}

/* Element 0 of each table is empty, and means none. */
static void begin(struct writer *w, struct text *locations, struct text *functions)
{
    static const char ids[24];
    (void)string_index(w, "");
    wire_bytes(&w->attribute_table, 6, "", 0);
    wire_bytes(&w->mapping_table, 1, "", 0);
    w->attribute_count = w->mapping_count = 1;
    wire_bytes(&w->stack_table, 7, "", 0);
    bool added;
    (void)index_of(w, &w->stacks, map_hash("", 0), &w->stack_count, &added);
    wire_bytes(locations, 2, "", 0);
    wire_bytes(functions, 3, "", 0);
    wire_bytes(&w->b, 1, ids, 16); /* of links */
    wire_bytes(&w->b, 2, ids, 8);
    wire_message(functions, 4, &w->b);
}

static void add_resource(struct text *out, const char *service)
{
    struct text value = {0}, attribute = {0}, resource = {0};
    wire_string(&value, 1, service);
    wire_string(&attribute, 1, "service.name");
    wire_message(&attribute, 2, &value);
    wire_message(&resource, 1, &attribute);
    wire_message(out, 1, &resource);
    text_done(&value);
    text_done(&attribute);
    text_done(&resource);
}

int otlp_write(const struct profile *p, const char *service, struct text *out)
{
    struct writer w = {.p = p};
    struct text locations = {0}, functions = {0}, profile = {0}, scope = {0}, resource = {0},
                dictionary = {0};
    begin(&w, &locations, &functions);
    for (size_t i = 1; i < p->frames.count; i++)
        add_frame(&w, (uint32_t)i, &locations, &functions);
    add_value_type(&w, &profile, 1);
    for (size_t i = 1; i < p->nodes.count; i++)
        if (p->nodes.at[i].weight)
            add_sample(&w, (uint32_t)i, &profile);
    wire_fixed64(&profile, 3, p->start_ns);
    wire_number(&profile, 4, p->end_ns - p->start_ns);
    add_value_type(&w, &profile, 5);
    wire_number(&profile, 6, p->period);
    wire_string(&w.b, 1, "sonde");
    wire_message(&scope, 1, &w.b);
    wire_message(&scope, 2, &profile);
    add_resource(&resource, service);
    wire_message(&resource, 2, &scope);
    wire_message(out, 1, &resource);
    struct text *tables[] = {&w.mapping_table, &locations,         &functions,
                             &w.string_table,  &w.attribute_table, &w.stack_table};
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        text_add_bytes(&dictionary, text_get(tables[i]), tables[i]->length);
        w.failed |= tables[i]->failed;
        text_done(tables[i]);
    }
    wire_message(out, 2, &dictionary);
    struct text *rest[] = {&profile, &scope, &resource, &dictionary, &w.a, &w.b};
    for (size_t i = 0; i < ARRAY_SIZE(rest); i++) {
        w.failed |= rest[i]->failed;
        text_done(rest[i]);
    }
    map_done(&w.strings);
    map_done(&w.attributes);
    map_done(&w.stacks);
    map_done(&w.mappings);
    return w.failed || out->failed ? -ENOMEM : 0;
}
