/* See exposition.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/exposition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/map.h"

#define OTHER       "other"
#define FADES       0.9 /* what a window's time still counts for in the next, where it is asked what is hot */
#define LABEL_BYTES 200 /* longer names are cut; those that are equal then are one */

/* A function or one that may become hot; of the latter there are some more than can be exported. */
enum { CANDIDATES_PER_SERIES = 4 };

const struct exposition_options EXPOSITION_USUAL = {.hot = 10, .functions = 20, .services = 64, .rest = 360};

struct series {
    char *label;
    bool exported;
    uint64_t ns;    /* since it was exported */
    uint64_t added; /* in this window */
    double recent;
    unsigned idle; /* windows since it was hot */
};

enum family { OWN, BUSINESS, FAMILIES };
static const char *const NAMES[FAMILIES] = {"sonde_function_cpu_seconds_total",
                                            "sonde_business_function_cpu_seconds_total"};
static const char *const HELP[FAMILIES] = {
    "Sampled CPU time in the function itself.",
    "Sampled CPU time in the application's function and the libraries that it called."};

struct ranking {
    ARRAY(struct series) list;
    uint64_t other_ns;
};

struct service {
    char *label;
    struct ranking rankings[FAMILIES];
    unsigned idle; /* windows without a sample */
};

struct exposition {
    struct exposition_options options;
    ARRAY(struct service) services; /* [0] is "other" */
};

static char *new_label(const char *name)
{
    struct text text = {0};
    size_t length = strnlen(name, LABEL_BYTES);
    while (name[length] && length && ((unsigned char)name[length] & 0xc0) == 0x80) /* not within a letter */
        length--;
    text_add_utf8(&text, length ? name : "unknown", length ? length : strlen("unknown"));
    return text_take(&text);
}

static void ranking_done(struct ranking *ranking)
{
    array_foreach (&ranking->list, s)
        free(s->label);
    array_done(&ranking->list);
}

static void service_done(struct service *service)
{
    for (int f = 0; f < FAMILIES; f++)
        ranking_done(&service->rankings[f]);
    free(service->label);
}

int exposition_new(const struct exposition_options *options, struct exposition **ret_exposition)
{
    struct exposition *e = calloc(1, sizeof(*e));
    struct service other = {.label = strdup(OTHER)};
    if (!e || !other.label || array_add(&e->services, other) < 0) {
        free(other.label);
        free(e);
        return -ENOMEM;
    }
    e->options = *options;
    *ret_exposition = e;
    return 0;
}

void exposition_free(struct exposition *e)
{
    if (!e)
        return;
    array_foreach (&e->services, s)
        service_done(s);
    array_done(&e->services);
    free(e);
}

/* ---- a window ---- */

/* NULL: memory ran out. Takes the label. The number of services and functions is small. */
static struct service *service_of(struct exposition *e, char *label)
{
    struct service *longest = NULL, fresh = {.label = label};
    array_foreach (&e->services, s)
        if (strcmp(s->label, label) == 0) {
            free(label);
            return s;
        }
    if (e->services.count <= e->options.services) {
        if (array_add(&e->services, fresh) == 0)
            return &e->services.at[e->services.count - 1];
        free(label);
        return NULL;
    }
    for (size_t i = 1; i < e->services.count; i++)
        if (!longest || e->services.at[i].idle > longest->idle)
            longest = &e->services.at[i];
    if (!longest || longest->idle < e->options.rest) {
        free(label);
        return &e->services.at[0];
    }
    service_done(longest);
    *longest = fresh;
    return longest;
}

/* The place of a function; NULL: none is free for it. Takes the label. */
static struct series *series_of(const struct exposition *e, struct ranking *ranking, char *label, uint64_t ns)
{
    struct series *coldest = NULL, fresh = {.label = label};
    array_foreach (&ranking->list, s) {
        if (strcmp(s->label, label) == 0) {
            free(label);
            return s;
        }
        if (!s->exported &&
            (!coldest || s->recent + (double)s->added < coldest->recent + (double)coldest->added))
            coldest = s;
    }
    if (ranking->list.count < CANDIDATES_PER_SERIES * (size_t)e->options.functions &&
        array_add(&ranking->list, fresh) == 0)
        return &ranking->list.at[ranking->list.count - 1];
    if (!coldest || coldest->recent + (double)coldest->added >= (double)ns) {
        free(label);
        return NULL;
    }
    ranking->other_ns += coldest->added; /* it is not counted otherwise */
    free(coldest->label);
    *coldest = fresh;
    return coldest;
}

static int by_recent(const void *a, const void *b)
{
    const struct series *x = a, *y = b;
    if (x->recent != y->recent)
        return x->recent > y->recent ? -1 : 1;
    return strcmp(x->label, y->label);
}

/* Who is hot gets a series, in the place of one that rests if there is no other. */
static void export_hot(const struct exposition *e, struct ranking *ranking)
{
    size_t exported = 0;
    array_foreach (&ranking->list, s)
        exported += s->exported;
    for (size_t i = 0; i < ranking->list.count && i < e->options.hot; i++) {
        struct series *hot = &ranking->list.at[i], *resting = NULL;
        if (hot->exported || !(hot->recent > 0))
            continue;
        if (exported >= e->options.functions) {
            array_foreach (&ranking->list, s)
                if (s->exported && s->idle >= e->options.rest && (!resting || s->idle > resting->idle))
                    resting = s;
            if (!resting)
                return;
            resting->exported = false;
            resting->ns = 0;
            exported--;
        }
        hot->exported = true;
        exported++;
    }
}

static void end_window(const struct exposition *e, struct ranking *ranking)
{
    array_foreach (&ranking->list, s)
        s->recent = FADES * s->recent + (double)s->added;
    if (ranking->list.count)
        qsort(ranking->list.at, ranking->list.count, sizeof(*ranking->list.at), by_recent);
    for (size_t i = 0; i < ranking->list.count; i++) {
        struct series *s = &ranking->list.at[i];
        s->idle = i < e->options.hot && s->added ? 0 : s->idle + 1;
    }
    export_hot(e, ranking);
    array_foreach (&ranking->list, s) {
        *(s->exported ? &s->ns : &ranking->other_ns) += s->added;
        s->added = 0;
    }
}

/* Adds what a window's function of a service took; frame 0: "other". */
static int count(const struct exposition *e, const struct profile *p, struct ranking *ranking, uint32_t frame,
                 uint64_t ns)
{
    char *label = frame ? new_label(profile_text(p, p->frames.at[frame].name)) : NULL;
    if (frame && !label)
        return -ENOMEM;
    if (!label || strcmp(label, OTHER) == 0) {
        free(label);
        ranking->other_ns += ns;
        return 0;
    }
    struct series *series = series_of(e, ranking, label, ns);
    if (series)
        series->added += ns;
    else
        ranking->other_ns += ns;
    return 0;
}

/* What one function of one service took in this window. */
struct taken {
    uint32_t service, frame; /* frames of the profile */
    uint64_t ns;
};

struct window {
    const struct profile *profile;
    bool *library;     /* by frame */
    uint32_t *service; /* by node: the frame of its service, 0: none */
    struct map index[FAMILIES];
    ARRAY(struct taken) taken[FAMILIES];
};

static void window_done(struct window *w)
{
    free(w->library);
    free(w->service);
    for (int f = 0; f < FAMILIES; f++) {
        map_done(&w->index[f]);
        array_done(&w->taken[f]);
    }
}

static int take(struct window *w, enum family family, uint32_t service, uint32_t frame, uint64_t ns)
{
    bool added;
    struct taken fresh = {service, frame, 0};
    uint64_t *at = map_put(&w->index[family], (uint64_t)service << 32 | frame, &added);
    if (!at || (added && array_add(&w->taken[family], fresh) < 0))
        return -ENOMEM;
    if (added)
        *at = w->taken[family].count - 1;
    w->taken[family].at[*at].ns += ns;
    return 0;
}

static bool is_code(const struct profile *p, uint32_t frame)
{
    return p->frames.at[frame].kind != FRAME_GROUP && p->frames.at[frame].kind != FRAME_TRUNCATED;
}

/* By function, so that labels are made and looked for once each. */
static int sum_up(struct window *w, const struct business_rules *rules)
{
    const struct profile *p = w->profile;
    w->library = calloc(p->frames.count + 1, sizeof(*w->library));
    w->service = calloc(p->nodes.count + 1, sizeof(*w->service));
    int r = w->library && w->service ? 0 : -ENOMEM;
    for (uint32_t f = 1; r == 0 && f < p->frames.count; f++)
        w->library[f] = !is_code(p, f) || business_is_library(p, rules, f);
    for (uint32_t i = 1; r == 0 && i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        w->service[i] = n->parent ? w->service[n->parent] : n->frame;
        if (!n->weight)
            continue;
        uint32_t at = i;
        while (at && w->library[p->nodes.at[at].frame])
            at = p->nodes.at[at].parent;
        r = take(w, OWN, w->service[i], is_code(p, n->frame) ? n->frame : 0, n->weight);
        if (r == 0)
            r = take(w, BUSINESS, w->service[i], at ? p->nodes.at[at].frame : 0, n->weight);
    }
    return r;
}

int exposition_add(struct exposition *e, const struct profile *services, const struct business_rules *rules)
{
    struct window w = {.profile = services};
    int r = sum_up(&w, rules);
    array_foreach (&e->services, s)
        s->idle++;
    for (int f = 0; f < FAMILIES; f++)
        for (size_t i = 0; r == 0 && i < w.taken[f].count; i++) {
            const struct taken *t = &w.taken[f].at[i];
            char *label = new_label(profile_text(services, services->frames.at[t->service].name));
            struct service *service = label ? service_of(e, label) : NULL;
            if (!service) {
                r = -ENOMEM;
                break;
            }
            service->idle = 0;
            r = count(e, services, &service->rankings[f], service == e->services.at ? 0 : t->frame, t->ns);
        }
    window_done(&w);
    array_foreach (&e->services, s)
        for (int f = 0; f < FAMILIES; f++)
            end_window(e, &s->rankings[f]);
    return r;
}

/* ---- the text ---- */

void exposition_add_label(struct text *text, const char *value)
{
    struct text clean = {0};
    text_add_utf8(&clean, value, strlen(value));
    for (const char *c = text_get(&clean); *c;) {
        size_t plain = strcspn(c, "\\\"\n");
        text_add_bytes(text, c, plain);
        c += plain;
        if (*c == '\n')
            text_add(text, "\\n");
        else if (*c)
            text_addf(text, "\\%c", *c);
        c += *c != 0;
    }
    text->failed |= clean.failed;
    text_done(&clean);
}

static void write_series(struct text *text, enum family family, const char *service, const char *function,
                         uint64_t ns)
{
    text_addf(text, "%s{service=\"", NAMES[family]);
    exposition_add_label(text, service);
    text_add(text, "\",function=\"");
    exposition_add_label(text, function);
    text_addf(text, "\"} %llu.%09llu\n", (unsigned long long)(ns / 1000000000),
              (unsigned long long)(ns % 1000000000));
}

size_t exposition_series(const struct exposition *e)
{
    size_t number = 0;
    array_foreach (&e->services, s)
        for (int f = 0; f < FAMILIES; f++) {
            number++;
            array_foreach (&s->rankings[f].list, series)
                number += series->exported;
        }
    return number;
}

void exposition_write(const struct exposition *e, struct text *text)
{
    for (int f = 0; f < FAMILIES; f++) {
        text_addf(text, "# HELP %s %s\n# TYPE %s counter\n", NAMES[f], HELP[f], NAMES[f]);
        array_foreach (&e->services, s) {
            array_foreach (&s->rankings[f].list, series)
                if (series->exported)
                    write_series(text, (enum family)f, s->label, series->label, series->ns);
            write_series(text, (enum family)f, s->label, OTHER, s->rankings[f].other_ns);
        }
    }
}
