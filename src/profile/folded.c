/* Folded stacks, as flamegraph.pl reads them. Reading is built for gigabytes: most lines are repetitions, so
 * whole lines are counted in a hash table first, and only the distinct ones are taken apart (design: merging
 * folded text at the speed of memory). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/formats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

static void add_name(const struct profile *p, uint32_t frame, struct text *out)
{
    const struct profile_frame *f = &p->frames.at[frame];
    for (const char *c = profile_text(p, f->name); *c; c++) { /* ';' and line ends separate */
        char safe = *c == ';' ? ':' : *c == '\n' || *c == '\r' ? ' ' : *c;
        text_add_bytes(out, &safe, 1);
    }
    if (p->by_line && f->line)
        text_addf(out, ":%u", f->line);
    if (f->kind == FRAME_KERNEL)
        text_add(out, "_[k]");
    else if (f->kind == FRAME_GENERATED || f->kind == FRAME_JAVA || f->kind == FRAME_JS)
        text_add(out, "_[j]");
}

void folded_stack(const struct profile *p, uint32_t node, struct text *out)
{
    ARRAY(uint32_t) path = {0};
    for (; node && !out->failed; node = p->nodes.at[node].parent)
        out->failed = array_add(&path, p->nodes.at[node].frame) < 0;
    for (size_t depth = path.count; depth-- > 0;) {
        add_name(p, path.at[depth], out);
        text_add(out, depth ? ";" : "");
    }
    array_done(&path);
}

int folded_write(const struct profile *p, struct text *out)
{
    for (size_t i = 1; i < p->nodes.count; i++) {
        if (!p->nodes.at[i].weight)
            continue;
        folded_stack(p, (uint32_t)i, out);
        text_addf(out, " %llu\n", (unsigned long long)p->nodes.at[i].weight);
    }
    return out->failed ? -ENOMEM : 0;
}

/* ---- reading ---- */

struct line {
    uint64_t hash;
    const char *at;
    uint32_t length;
    uint64_t count, weight;
};

struct lines {
    struct line *slots;
    size_t capacity, used;
};

static uint64_t word_at(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

/* A multiply-and-fold hash over 16 bytes a step; equality is always checked on the bytes themselves. */
static uint64_t hash_line(const char *at, size_t length)
{
    const uint64_t k1 = 0xa0761d6478bd642full, k2 = 0xe7037ed1a0b428dbull;
    uint64_t hash = length * 0x9e3779b97f4a7c15ull;
    for (; length >= 16; at += 16, length -= 16) {
        __uint128_t m = (__uint128_t)(word_at(at) ^ k1 ^ hash) * (word_at(at + 8) ^ k2);
        hash = (uint64_t)m ^ (uint64_t)(m >> 64);
    }
    uint64_t a = 0, b = 0;
    if (length >= 8) {
        a = word_at(at);
        at += 8;
        length -= 8;
    }
    memcpy(&b, at, length);
    __uint128_t m = (__uint128_t)(a ^ k2 ^ hash) * (b ^ k1);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static int grow(struct lines *t)
{
    size_t capacity = t->capacity ? t->capacity * 2 : 1 << 14;
    struct line *slots = calloc(capacity, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    for (size_t i = 0; i < t->capacity; i++) {
        if (!t->slots[i].at)
            continue;
        size_t k = t->slots[i].hash & (capacity - 1);
        while (slots[k].at)
            k = (k + 1) & (capacity - 1);
        slots[k] = t->slots[i];
    }
    free(t->slots);
    t->slots = slots;
    t->capacity = capacity;
    return 0;
}

static int count_line(struct lines *t, const char *at, size_t length, uint64_t weight)
{
    if (t->used * 2 >= t->capacity && grow(t) < 0)
        return -ENOMEM;
    uint64_t hash = hash_line(at, length);
    size_t k = hash & (t->capacity - 1);
    while (t->slots[k].at && (t->slots[k].hash != hash || t->slots[k].length != length ||
                              memcmp(t->slots[k].at, at, length) != 0))
        k = (k + 1) & (t->capacity - 1);
    struct line *line = &t->slots[k];
    if (!line->at) {
        *line = (struct line){.hash = hash, .at = at, .length = (uint32_t)length};
        t->used++;
    }
    line->count++;
    line->weight += weight;
    return 0;
}

static enum profile_frame_kind kind_of(const char *at, size_t *length)
{
    static const struct {
        char letter;
        enum profile_frame_kind kind;
    } marks[] = {{'k', FRAME_KERNEL}, {'j', FRAME_GENERATED}, {'i', FRAME_NATIVE}};
    if (*length > 4 && at[*length - 4] == '_' && at[*length - 3] == '[' && at[*length - 1] == ']')
        for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
            if (at[*length - 2] == marks[i].letter) {
                *length -= 4;
                return marks[i].kind;
            }
    return FRAME_NATIVE;
}

static void insert(struct profile *p, const struct line *line)
{
    uint32_t node = 0;
    for (const char *at = line->at, *end = line->at + line->length; at <= end;) {
        const char *stop = memchr(at, ';', (size_t)(end - at));
        if (!stop)
            stop = end;
        size_t length = (size_t)(stop - at);
        if (length) {
            struct profile_frame frame = {.kind = (uint8_t)kind_of(at, &length)};
            frame.name = profile_string_n(p, at, length);
            node = profile_child(p, node, profile_add_frame(p, &frame));
        }
        at = stop + 1;
    }
    profile_count(p, node, line->count, line->weight);
}

int folded_read(struct profile *into, const char *data, size_t length, struct problem *problem)
{
    struct lines table = {0};
    int r = 0;
    size_t number = 0;
    for (const char *at = data, *end = data + length; r == 0 && at < end;) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        const char *stop = next ? next : end;
        number++;
        while (stop > at && (stop[-1] == '\r' || stop[-1] == ' '))
            stop--;
        const char *digits = stop;
        uint64_t weight = 0, unit = 1;
        while (digits > at && digits[-1] >= '0' && digits[-1] <= '9' && stop - digits < 19) {
            weight += unit * (uint64_t)(*--digits - '0');
            unit *= 10;
        }
        if (stop > at && *at != '#') {
            if (digits == stop || digits == at || digits[-1] != ' ' || stop - at > UINT32_MAX)
                r = problem_set(problem, -EBADMSG, "%sline %zu is not \"frame;frame weight\"",
                                number == 1 ? "neither pprof nor folded text: " : "", number);
            else
                r = count_line(&table, at, (size_t)(digits - 1 - at), weight);
        }
        at = next ? next + 1 : end;
    }
    for (size_t i = 0; r == 0 && i < table.capacity; i++)
        if (table.slots[i].at)
            insert(into, &table.slots[i]);
    free(table.slots);
    return r == 0 && into->failed ? problem_set(problem, -ENOMEM, "out of memory") : r;
}
