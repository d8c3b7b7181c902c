/* pprof's profile.proto, written and read by hand: the message is small, and samples come by the million.
 *
 *   Profile:  1 sample_type*, 2 sample*, 3 mapping*, 4 location*, 5 function*, 6 string_table*, 9 time_nanos,
 *             10 duration_nanos, 11 period_type, 12 period
 *   ValueType 1 type, 2 unit          Sample   1 location_id* (leaf first, packed), 2 value* (packed), 3
 * label* Location  1 id, 2 mapping_id, 3 address, 4 line*       Line     1 function_id, 2 line Function  1
 * id, 2 name, 3 system_name, 4 filename      Mapping  1 id, 5 filename
 *   Label     1 key, 2 str (numbers of strings)
 *
 * A sample's label "business_function" is the application's function that it is of (business.h), where that
 * was asked for: `pprof -tagfocus`, `-tags`.
 *
 * Comments (13, numbers of strings) have what is known of a function's share: "sonde: ...".
 *
 * sonde's own, which others skip: 1000 Windows  1 used, 2 entry*   Entry  1 location_id, 2 self* (packed, one
 * for each window), 3 total* (the same) */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/formats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "profile/intervals.h"
#include "profile/windows.h"
#include "profile/wire.h"

#define INFLATED_LIMIT (4ull << 30)

/* ---- writing ---- */

static void add_value_type(struct text *out, unsigned field, uint32_t type, uint32_t unit,
                           struct text *scratch)
{
    wire_number(scratch, 1, type);
    wire_number(scratch, 2, unit);
    wire_message(out, field, scratch);
}

/* Strings that the profile itself does not hold come after its own. */
enum extra {
    EXTRA_SAMPLES,
    EXTRA_COUNT,
    EXTRA_EVENT,
    EXTRA_UNIT,
    EXTRA_BUSINESS,
    EXTRA_KIND,
    EXTRAS = EXTRA_KIND + FRAME_KINDS
};

static void add_samples(const struct profile *p, struct text *out, struct text *scratch)
{
    struct text ids = {0};
    for (size_t i = 1; i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        if (!n->count && !n->weight)
            continue;
        for (uint32_t at = (uint32_t)i; at; at = p->nodes.at[at].parent)
            wire_varint(&ids, p->nodes.at[at].frame);
        wire_message(scratch, 1, &ids);
        wire_varint(&ids, n->count);
        wire_varint(&ids, n->weight);
        wire_message(scratch, 2, &ids);
        if (i < p->business.count && p->business.at[i]) {
            wire_number(&ids, 1, p->strings.count + EXTRA_BUSINESS);
            wire_number(&ids, 2, p->business.at[i]);
            wire_message(scratch, 3, &ids);
        }
        wire_message(out, 2, scratch);
    }
    text_done(&ids);
}

/* Of what is rarer than one part in this many nothing could be said. */
enum { WINDOWS_FIELD = 1000, WINDOWS_LEAST = 5000 };

static void add_window_values(struct text *out, unsigned field, const float *weights, uint32_t used)
{
    struct text packed = {0};
    for (uint32_t i = 0; i < used; i++)
        wire_varint(&packed, (uint64_t)(weights[i] + 0.5f));
    wire_message(out, field, &packed);
    text_done(&packed);
}

static void add_windows(const struct profile *p, struct text *out, struct text *scratch)
{
    const struct profile_windows *w = p->windows;
    struct text entry = {0};
    double all = 0;
    if (!w || w->used < 2)
        return;
    array_foreach (&w->frames, f)
        for (uint32_t i = 0; i < w->used; i++)
            all += (double)f->self[i];
    wire_number(scratch, 1, w->used);
    for (size_t frame = 1; frame < w->frames.count; frame++) {
        const struct window_weights *f = &w->frames.at[frame];
        double total = 0;
        for (uint32_t i = 0; i < w->used; i++)
            total += (double)f->total[i];
        if (total * WINDOWS_LEAST < all)
            continue;
        wire_number(&entry, 1, frame);
        add_window_values(&entry, 2, f->self, w->used);
        add_window_values(&entry, 3, f->total, w->used);
        wire_message(scratch, 2, &entry);
    }
    wire_message(out, WINDOWS_FIELD, scratch);
    text_done(&entry);
}

/* Of what is rarer nothing is said. */
#define COMMENTED_SHARE 0.001

/* Intervals of the functions' shares, as comments that every reader of pprof keeps (`pprof -comments`). The
 * strings are added behind all others, the first as number `next`. */
static int add_comments(const struct profile *p, uint32_t next, struct text *out, struct text *scratch)
{
    struct map seen = {0};
    bool failed = false;
    for (uint32_t f = 1; !failed && p->intervals && f < p->frames.count; f++) {
        const struct profile_interval *i = profile_interval_of(p, f);
        bool added = false;
        if (!i || i->total < COMMENTED_SHARE)
            continue;
        failed = !map_put(&seen, profile_function_key(p, f), &added);
        if (!added)
            continue;
        text_addf(scratch,
                  "sonde: %s: itself %.3f %% [%.3f, %.3f], with what it calls %.3f %% [%.3f, %.3f] at 95 %%",
                  profile_text(p, p->frames.at[f].name), 100 * i->self, 100 * i->self_low, 100 * i->self_high,
                  100 * i->total, 100 * i->total_low, 100 * i->total_high);
        wire_bytes(out, 6, text_get(scratch), scratch->length);
        wire_number(out, 13, next++);
        failed |= scratch->failed;
        text_clear(scratch);
    }
    map_done(&seen);
    return failed ? -ENOMEM : 0;
}

static int compress_gzip(struct text *plain, struct text *out)
{
    z_stream z = {0};
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    z.next_in = (Bytef *)(uintptr_t)text_get(plain);
    z.avail_in = (uInt)plain->length;
    char buffer[65536];
    int status;
    do {
        z.next_out = (Bytef *)buffer;
        z.avail_out = sizeof(buffer);
        status = deflate(&z, Z_FINISH);
        text_add_bytes(out, buffer, sizeof(buffer) - z.avail_out);
    } while (status == Z_OK);
    deflateEnd(&z);
    return status == Z_STREAM_END && !out->failed ? 0 : -ENOMEM;
}

int pprof_write(const struct profile *p, struct text *out)
{
    struct text plain = {0}, scratch = {0}, line = {0};
    uint32_t extra = (uint32_t)p->strings.count;
    add_value_type(&plain, 1, extra + EXTRA_SAMPLES, extra + EXTRA_COUNT, &scratch);
    add_value_type(&plain, 1, extra + EXTRA_EVENT, extra + EXTRA_UNIT, &scratch);
    add_samples(p, &plain, &scratch);
    for (size_t i = 1; i < p->frames.count; i++) { /* location and function have the frame's number */
        const struct profile_frame *f = &p->frames.at[i];
        wire_number(&scratch, 1, i);
        wire_number(&line, 1, i);
        wire_number(&line, 2, f->line);
        wire_message(&scratch, 4, &line);
        wire_message(&plain, 4, &scratch);
        wire_number(&scratch, 1, i);
        wire_number(&scratch, 2, f->name);
        wire_number(&scratch, 3, extra + EXTRA_KIND + f->kind);
        wire_number(&scratch, 4, f->file ? f->file : f->module);
        wire_message(&plain, 5, &scratch);
    }
    for (size_t i = 0; i < p->strings.count; i++)
        wire_bytes(&plain, 6, p->strings.at[i], strlen(p->strings.at[i]));
    const char *extras[EXTRAS] = {"samples", "count", p->event, p->unit, "business_function"};
    for (int i = 0; i < FRAME_KINDS; i++)
        extras[EXTRA_KIND + i] = profile_kind_name((enum profile_frame_kind)i);
    for (int i = 0; i < EXTRAS; i++)
        wire_bytes(&plain, 6, extras[i], strlen(extras[i]));
    int r = add_comments(p, extra + EXTRAS, &plain, &scratch);
    wire_number(&plain, 9, p->start_ns);
    wire_number(&plain, 10, p->end_ns - p->start_ns);
    add_value_type(&plain, 11, extra + EXTRA_EVENT, extra + EXTRA_UNIT, &scratch);
    wire_number(&plain, 12, p->period);
    add_windows(p, &plain, &scratch);
    if (r == 0)
        r = plain.failed || scratch.failed || line.failed ? -ENOMEM : compress_gzip(&plain, out);
    text_done(&plain);
    text_done(&scratch);
    text_done(&line);
    return r;
}

/* ---- reading ---- */

struct slice {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number;
    uint64_t value;     /* of a varint */
    struct slice bytes; /* of a length-delimited field */
    bool is_bytes;
};

static bool take_varint(struct slice *s, uint64_t *ret)
{
    uint64_t value = 0;
    for (int shift = 0; s->at < s->end && shift < 64; shift += 7) {
        uint8_t byte = *s->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

/* 1: a field, 0: the end, -EBADMSG: damaged. */
static int take_field(struct slice *s, struct field *ret)
{
    uint64_t key, length;
    if (s->at == s->end)
        return 0;
    if (!take_varint(s, &key))
        return -EBADMSG;
    *ret = (struct field){.number = (uint32_t)(key >> 3)};
    switch (key & 7) {
    case 0:
        return take_varint(s, &ret->value) ? 1 : -EBADMSG;
    case 1:
    case 5:
        length = (key & 7) == 1 ? 8 : 4;
        break;
    case 2:
        if (!take_varint(s, &length))
            return -EBADMSG;
        ret->is_bytes = true;
        break;
    default:
        return -EBADMSG;
    }
    if (length > (uint64_t)(s->end - s->at))
        return -EBADMSG;
    ret->bytes = (struct slice){s->at, s->at + length};
    s->at += length;
    return 1;
}

struct location {
    uint32_t first, count; /* in lines: frames, the innermost inlined function first */
    uint64_t address;
};

enum { LAST_DEPTH = 256 };

struct reader {
    struct profile *into;
    ARRAY(struct slice) strings;
    ARRAY(struct slice) samples;
    ARRAY(uint64_t) lines; /* function id and line << 40, then frames */
    ARRAY(struct location) locations;
    ARRAY(struct profile_frame) functions;
    struct map location_ids, function_ids;
    uint32_t *direct; /* location id -> index, for small ids */
    size_t direct_count;
    /* The last sample's locations and the nodes they led to, the outermost first: samples come in the order
     * of a trie more often than not, and share their callers with the one before. */
    uint64_t last_ids[LAST_DEPTH];
    uint32_t last_nodes[LAST_DEPTH];
    size_t last_depth;
    uint32_t unknown; /* the frame of a location that is not there */
    uint32_t value_count;
    uint64_t types[16]; /* string numbers of the sample types */
    uint64_t units[16];
    bool no_memory;
};

static uint32_t string_of(struct reader *r, uint64_t number)
{
    if (number >= r->strings.count)
        return 0;
    struct slice s = r->strings.at[number];
    const void *nul = memchr(s.at, 0, (size_t)(s.end - s.at));
    return profile_string_n(r->into, (const char *)s.at,
                            nul ? (size_t)((const uint8_t *)nul - s.at) : (size_t)(s.end - s.at));
}

static int read_function(struct reader *r, struct slice s)
{
    struct field f;
    uint64_t id = 0, system = 0;
    struct profile_frame frame = {0};
    int e;
    while ((e = take_field(&s, &f)) > 0) {
        if (f.number == 1)
            id = f.value;
        else if (f.number == 2)
            frame.name = string_of(r, f.value);
        else if (f.number == 3)
            system = f.value;
        else if (f.number == 4)
            frame.file = string_of(r, f.value);
    }
    const char *kind = profile_text(r->into, string_of(r, system));
    for (int i = 0; i < FRAME_KINDS; i++)
        if (strcmp(kind, profile_kind_name((enum profile_frame_kind)i)) == 0)
            frame.kind = (uint8_t)i;
    uint64_t *at = map_put(&r->function_ids, id, NULL);
    if (!at || array_add(&r->functions, frame) < 0)
        return -ENOMEM;
    *at = r->functions.count - 1;
    return e;
}

static int read_location(struct reader *r, struct slice s)
{
    struct field f, g;
    uint64_t id = 0;
    struct location location = {.first = (uint32_t)r->lines.count};
    int e, e2;
    while ((e = take_field(&s, &f)) > 0) {
        if (f.number == 1) {
            id = f.value;
        } else if (f.number == 3) {
            location.address = f.value;
        } else if (f.number == 4 && f.is_bytes) {
            uint64_t function = 0, line = 0;
            while ((e2 = take_field(&f.bytes, &g)) > 0) {
                if (g.number == 1)
                    function = g.value;
                else if (g.number == 2)
                    line = g.value;
            }
            if (e2 < 0)
                return e2;
            if (array_add(&r->lines, (function & 0xffffffffffull) | line << 40) < 0)
                return -ENOMEM;
            location.count++;
        }
    }
    uint64_t *at = map_put(&r->location_ids, id, NULL);
    if (!at || array_add(&r->locations, location) < 0)
        return -ENOMEM;
    *at = r->locations.count - 1;
    return e;
}

/* Lines become frames of the profile once, not for each sample that has them. */
static int make_frames(struct reader *r)
{
    array_foreach (&r->lines, line) {
        uint64_t *function = map_get(&r->function_ids, *line & 0xffffffffffull);
        struct profile_frame frame = function ? r->functions.at[*function] : (struct profile_frame){0};
        frame.line = (uint32_t)(*line >> 40);
        *line = profile_add_frame(r->into, &frame);
    }
    r->unknown = profile_named_frame(r->into, "[unknown]", FRAME_NATIVE);
    /* Writers number locations from 1 up: most are found by index. */
    map_foreach (&r->location_ids, slot)
        if (slot->key <= r->locations.count * 2ull)
            r->direct_count = MAX(r->direct_count, (size_t)slot->key + 1);
    r->direct = malloc((r->direct_count + 1) * sizeof(*r->direct));
    if (!r->direct)
        return -ENOMEM;
    memset(r->direct, 0xff, (r->direct_count + 1) * sizeof(*r->direct));
    map_foreach (&r->location_ids, slot)
        if (slot->key < r->direct_count)
            r->direct[slot->key] = (uint32_t)slot->value;
    return 0;
}

static const struct location *location_of(const struct reader *r, uint64_t id)
{
    if (id < r->direct_count)
        return r->direct[id] == UINT32_MAX ? NULL : &r->locations.at[r->direct[id]];
    uint64_t *at = map_get(&r->location_ids, id);
    return at ? &r->locations.at[*at] : NULL;
}

static uint32_t enter_location(struct reader *r, uint32_t node, uint64_t id)
{
    const struct location *l = location_of(r, id);
    if (!l)
        return profile_child(r->into, node, r->unknown);
    if (l->count == 0) {
        char name[32];
        snprintf(name, sizeof(name), "0x%llx", (unsigned long long)l->address);
        return profile_child(r->into, node, profile_named_frame(r->into, name, FRAME_NATIVE));
    }
    for (uint32_t i = l->count; i-- > 0;) /* the caller is the last line */
        node = profile_child(r->into, node, (uint32_t)r->lines.at[l->first + i]);
    return node;
}

/* Repeated numbers come packed or one by one. */
static int add_values(const struct field *f, uint64_t *values, size_t *count, size_t limit)
{
    struct slice s = f->bytes;
    if (!f->is_bytes) {
        if (*count < limit)
            values[(*count)++] = f->value;
        return 0;
    }
    uint64_t value;
    while (s.at < s.end) {
        if (!take_varint(&s, &value))
            return -EBADMSG;
        if (*count < limit)
            values[(*count)++] = value;
    }
    return 0;
}

static int read_sample(struct reader *r, struct slice s)
{
    uint64_t ids[4096], values[16];
    size_t id_count = 0, value_count = 0;
    struct field f;
    int e;
    while ((e = take_field(&s, &f)) > 0) {
        if (f.number == 1)
            e = add_values(&f, ids, &id_count, ARRAY_SIZE(ids));
        else if (f.number == 2)
            e = add_values(&f, values, &value_count, ARRAY_SIZE(values));
        if (e < 0)
            return e;
    }
    if (e < 0)
        return e;
    uint32_t node = 0;
    size_t depth = 0, limit = MIN(MIN(id_count, r->last_depth), (size_t)LAST_DEPTH);
    while (depth < limit && ids[id_count - 1 - depth] == r->last_ids[depth])
        node = r->last_nodes[depth++];
    for (; depth < id_count; depth++) {
        uint64_t id = ids[id_count - 1 - depth];
        node = enter_location(r, node, id);
        if (depth < LAST_DEPTH) {
            r->last_ids[depth] = id;
            r->last_nodes[depth] = node;
        }
    }
    r->last_depth = MIN(id_count, (size_t)LAST_DEPTH);
    /* The last value is the weight (cpu time); a first one of samples is the count. */
    uint64_t weight = value_count ? values[value_count - 1] : 0;
    profile_count(r->into, node, value_count > 1 ? values[0] : 1, weight);
    return 0;
}

/* Of an entry's self or total: nothing of what there is too much of. */
static int read_window_values(const struct field *f, float *weights)
{
    uint64_t values[WINDOWS];
    size_t count = 0;
    int e = add_values(f, values, &count, WINDOWS);
    for (size_t i = 0; e == 0 && i < count; i++)
        weights[i] += (float)values[i];
    return e;
}

static int read_window_entry(struct reader *r, struct slice s)
{
    struct window_weights weights = {0};
    struct field f;
    uint64_t id = 0;
    int e;
    while ((e = take_field(&s, &f)) > 0) {
        if (f.number == 1)
            id = f.value;
        else if (f.number == 2 || f.number == 3)
            e = read_window_values(&f, f.number == 2 ? weights.self : weights.total);
        if (e < 0)
            return e;
    }
    const struct location *l = location_of(r, id);
    if (e < 0 || !l || !l->count)
        return e;
    struct window_weights *at = profile_windows_of(r->into, (uint32_t)r->lines.at[l->first]);
    if (!at)
        return -ENOMEM;
    for (int i = 0; i < WINDOWS; i++) {
        at->self[i] += weights.self[i];
        at->total[i] += weights.total[i];
    }
    return 0;
}

static int read_windows(struct reader *r, struct slice s)
{
    struct field f;
    int e = profile_windows_begin(r->into);
    while (e >= 0 && (e = take_field(&s, &f)) > 0) {
        if (f.number == 1)
            r->into->windows->used = (uint32_t)MIN(f.value, (uint64_t)WINDOWS);
        else if (f.number == 2 && f.is_bytes)
            e = read_window_entry(r, f.bytes);
    }
    return e;
}

static void copy_text(struct reader *r, uint64_t number, char *to, size_t size)
{
    if (number && number < r->strings.count) {
        struct slice s = r->strings.at[number];
        snprintf(to, size, "%.*s", (int)MIN((size_t)(s.end - s.at), size - 1), (const char *)s.at);
    }
}

static int read_message(struct reader *r, struct slice s)
{
    struct field f, g;
    int e;
    uint64_t start = 0, duration = 0;
    struct slice whole = s;
    bool alone = r->into->nodes.count == 1; /* windows of several profiles do not go together */
    while ((e = take_field(&s, &f)) > 0) {  /* strings come last, and are needed first */
        if (f.number == 6 && f.is_bytes && array_add(&r->strings, f.bytes) < 0)
            return -ENOMEM;
        if (f.number == 9)
            start = f.value;
        else if (f.number == 10)
            duration = f.value;
        else if (f.number == 12)
            r->into->period = MAX(r->into->period, f.value);
    }
    for (s = whole; e >= 0 && (e = take_field(&s, &f)) > 0;) {
        if (!f.is_bytes)
            continue;
        if (f.number == 5)
            e = read_function(r, f.bytes);
        else if (f.number == 2 && array_add(&r->samples, f.bytes) < 0)
            e = -ENOMEM;
        else if (f.number == 1 && r->value_count < ARRAY_SIZE(r->types)) {
            while (take_field(&f.bytes, &g) > 0) {
                if (g.number == 1)
                    r->types[r->value_count] = g.value;
                else if (g.number == 2)
                    r->units[r->value_count] = g.value;
            }
            r->value_count++;
        }
    }
    for (s = whole; e >= 0 && (e = take_field(&s, &f)) > 0;)
        if (f.number == 4 && f.is_bytes)
            e = read_location(r, f.bytes);
    if (e >= 0)
        e = make_frames(r);
    if (e >= 0 && !r->strings.count) /* the first is "", always: this is something else */
        e = -EBADMSG;
    for (size_t i = 0; e >= 0 && i < r->samples.count; i++)
        e = read_sample(r, r->samples.at[i]);
    if (!alone)
        profile_windows_end(r->into);
    for (s = whole; alone && e >= 0 && (e = take_field(&s, &f)) > 0;)
        if (f.number == WINDOWS_FIELD && f.is_bytes && !r->into->windows)
            e = read_windows(r, f.bytes);
    if (e >= 0 && r->value_count) {
        copy_text(r, r->types[r->value_count - 1], r->into->event, sizeof(r->into->event));
        copy_text(r, r->units[r->value_count - 1], r->into->unit, sizeof(r->into->unit));
    }
    if (start) {
        struct profile *p = r->into;
        p->start_ns = p->start_ns ? MIN(p->start_ns, start) : start;
        p->end_ns = MAX(p->end_ns, start + duration);
    }
    return e;
}

static int inflate_gzip(const void *data, size_t length, struct text *out)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)length};
    if (inflateInit2(&z, 15 + 32) != Z_OK)
        return -ENOMEM;
    char buffer[65536];
    int status;
    do {
        z.next_out = (Bytef *)buffer;
        z.avail_out = sizeof(buffer);
        status = inflate(&z, Z_NO_FLUSH);
        text_add_bytes(out, buffer, sizeof(buffer) - z.avail_out);
        if (out->failed || out->length > INFLATED_LIMIT)
            break;
    } while (status == Z_OK);
    inflateEnd(&z);
    return out->failed ? -ENOMEM : status == Z_STREAM_END ? 0 : -EBADMSG;
}

int pprof_read(struct profile *into, const void *data, size_t length, struct problem *problem)
{
    struct text plain = {0};
    struct reader r = {.into = into};
    int e = 0;
    const uint8_t *bytes = data;
    struct slice s = {bytes, bytes + length};
    if (length > 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
        e = inflate_gzip(data, length, &plain);
        s = (struct slice){(const uint8_t *)text_get(&plain),
                           (const uint8_t *)text_get(&plain) + plain.length};
    }
    if (e == 0)
        e = read_message(&r, s);
    text_done(&plain);
    array_done(&r.strings);
    array_done(&r.samples);
    array_done(&r.lines);
    array_done(&r.locations);
    array_done(&r.functions);
    free(r.direct);
    map_done(&r.location_ids);
    map_done(&r.function_ids);
    if (e == -EBADMSG)
        return problem_set(problem, e, "not a pprof profile, or a damaged one");
    if (e < 0 || into->failed)
        return problem_set(problem, -ENOMEM, "out of memory");
    return 0;
}
