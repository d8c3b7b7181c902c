/* Business functions (Atys, section 4.2). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/business.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* By language: what marks code that is not the application's. */
static const char *const JAVA[] = {"java.",
                                   "javax.",
                                   "jdk.",
                                   "sun.",
                                   "com.sun.",
                                   "kotlin.",
                                   "scala.",
                                   "org.eclipse.jetty.",
                                   "org.apache.",
                                   "org.h2.",
                                   "org.springframework.",
                                   "io.netty.",
                                   "com.fasterxml."};
static const char *const PYTHON[] = {"/site-packages/", "/dist-packages/", "/lib/python", "<frozen "};
static const char *const RUBY[] = {"/gems/", "/lib/ruby/", "<internal:"};
static const char *const JS[] = {"node:", "/node_modules/", "internal/"};
static const char *const NATIVE[] = {"lib", "ld-linux", "[vdso]", "node", "python3", "java", "ruby"};

static bool begins(const char *string, const char *prefix)
{
    return strncmp(string, prefix, strlen(prefix)) == 0;
}

int business_rules_read(struct business_rules *rules, const char *text, struct problem *problem)
{
    static const char *const sides[] = {"library", "application"};
    int number = 0;
    for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
        char copy[512], *state, *word;
        struct business_rule rule = {.kind = -1};
        int side = -1;
        end = strchrnul(line, '\n');
        number++;
        snprintf(copy, sizeof(copy), "%.*s", (int)MIN((size_t)(end - line), sizeof(copy) - 1), line);
        copy[strcspn(copy, "#\r")] = '\0';
        word = strtok_r(copy, " \t", &state);
        if (!word)
            continue;
        for (int i = 0; i < FRAME_KINDS; i++)
            if (strcmp(word, profile_kind_name((enum profile_frame_kind)i)) == 0)
                rule.kind = i;
        if (rule.kind >= 0)
            word = strtok_r(NULL, " \t", &state);
        for (int i = 0; word && i < 2; i++)
            if (strcmp(word, sides[i]) == 0)
                side = i;
        word = side >= 0 ? strtok_r(NULL, " \t", &state) : NULL;
        if (!word)
            return problem_set(problem, -EINVAL, "line %d: not \"[LANGUAGE] application|library TEXT\"",
                               number);
        rule.application = side == 1;
        rule.text = arena_strndup(&rules->texts, word, strlen(word));
        if (!rule.text || array_add(&rules->list, rule) < 0)
            return problem_set(problem, -ENOMEM, "out of memory");
    }
    return 0;
}

void business_rules_done(struct business_rules *rules)
{
    arena_done(&rules->texts);
    array_done(&rules->list);
}

/* 1: library, 0: application, -1: no rule fits. */
static int by_rules(const struct business_rules *rules, int kind, const char *const texts[3])
{
    int verdict = -1;
    for (size_t i = 0; rules && i < rules->list.count; i++) {
        const struct business_rule *r = &rules->list.at[i];
        bool fits = r->kind < 0 || r->kind == kind;
        if (fits && (strstr(texts[0], r->text) || strstr(texts[1], r->text) || strstr(texts[2], r->text)))
            verdict = !r->application;
    }
    return verdict;
}

bool business_is_library(const struct profile *p, const struct business_rules *rules, uint32_t frame)
{
    const struct profile_frame *f = &p->frames.at[frame];
    const char *texts[3] = {profile_text(p, f->name), profile_text(p, f->file), profile_text(p, f->module)};
    int verdict = by_rules(rules, f->kind, texts);
    if (verdict >= 0)
        return verdict;
    switch (f->kind) {
    case FRAME_JAVA:
        for (size_t i = 0; i < ARRAY_SIZE(JAVA); i++)
            if (begins(texts[0], JAVA[i]))
                return true;
        return false;
    case FRAME_PYTHON:
        for (size_t i = 0; i < ARRAY_SIZE(PYTHON); i++)
            if (strstr(texts[1], PYTHON[i]))
                return true;
        return !*texts[1];
    case FRAME_RUBY:
        for (size_t i = 0; i < ARRAY_SIZE(RUBY); i++)
            if (strstr(texts[1], RUBY[i]))
                return true;
        return !*texts[1];
    case FRAME_JS:
        for (size_t i = 0; i < ARRAY_SIZE(JS); i++)
            if (strstr(texts[1], JS[i]))
                return true;
        return !*texts[1];
    case FRAME_NATIVE:
        for (size_t i = 0; i < ARRAY_SIZE(NATIVE); i++)
            if (begins(texts[2], NATIVE[i]))
                return true;
        return begins(texts[0], "_start") || begins(texts[0], "_dl_") || begins(texts[0], "__libc_");
    default:
        return true;
    }
}

static int by_total(const void *a, const void *b)
{
    const struct business_function *x = a, *y = b;
    return x->total > y->total ? -1 : x->total < y->total;
}

/* Per (business function, library function it entered): weights, to find the largest. */
struct entered {
    size_t function;
    uint32_t library;
    uint64_t weight;
};

struct business_function *business_functions(const struct profile *p, const struct business_rules *rules,
                                             size_t *ret_count)
{
    ARRAY(struct business_function) list = {0};
    ARRAY(struct entered) entered = {0};
    struct map index = {0}, pairs = {0};
    uint8_t *library = malloc(p->frames.count + 1);
    uint32_t *ends = profile_own_ends(p);
    bool failed = !library || !ends;
    for (size_t i = 0; !failed && i < p->frames.count; i++)
        library[i] = business_is_library(p, rules, (uint32_t)i);
    for (size_t i = 1; !failed && i < p->nodes.count; i++) {
        uint64_t weight = p->nodes.at[i].weight;
        uint32_t at = ends[i], below = 0; /* below: the library function that the application called */
        while (weight && at && library[p->nodes.at[at].frame]) {
            uint32_t frame = p->nodes.at[at].frame;
            below = profile_begins_interrupt(p, frame) ? 0 : frame; /* nobody calls an interrupt */
            at = p->nodes.at[at].parent;
        }
        if (!weight || !at)
            continue;
        const struct profile_frame *f = &p->frames.at[p->nodes.at[at].frame];
        uint32_t identity[3] = {f->name, f->file, f->kind};
        bool added;
        uint64_t *known = map_put(&index, map_hash(identity, sizeof(identity)), &added);
        struct business_function fresh = {.frame = p->nodes.at[at].frame};
        if (!known || (added && array_add(&list, fresh) < 0)) {
            failed = true;
            break;
        }
        if (added)
            *known = list.count - 1;
        struct business_function *function = &list.at[*known];
        function->total += weight;
        if (!below) {
            function->own += weight;
            continue;
        }
        uint64_t *pair = map_put(&pairs, (*known + 1) << 32 | below, &added);
        struct entered first = {*known, below, 0};
        if (!pair || (added && array_add(&entered, first) < 0)) {
            failed = true;
            break;
        }
        if (added)
            *pair = entered.count - 1;
        entered.at[*pair].weight += weight;
    }
    array_foreach (&entered, e) {
        struct business_function *function = &list.at[e->function];
        if (e->weight > function->library_weight) {
            function->library = e->library;
            function->library_weight = e->weight;
        }
    }
    free(library);
    free(ends);
    map_done(&index);
    map_done(&pairs);
    array_done(&entered);
    if (failed) {
        array_done(&list);
        return NULL;
    }
    if (list.count)
        qsort(list.at, list.count, sizeof(*list.at), by_total);
    *ret_count = list.count;
    return list.at ? list.at : calloc(1, sizeof(struct business_function));
}

int business_label(struct profile *p, const struct business_rules *rules)
{
    uint8_t *library = malloc(p->frames.count + 1);
    uint32_t *ends = profile_own_ends(p);
    int r = library && ends ? array_reserve(&p->business, p->nodes.count) : -ENOMEM;
    for (size_t i = 0; r == 0 && i < p->frames.count; i++)
        library[i] = business_is_library(p, rules, (uint32_t)i);
    for (size_t i = 0; r == 0 && i < p->nodes.count; i++) {
        const struct profile_node *n = &p->nodes.at[i];
        bool own = i && ends[i] == i && !library[n->frame];
        p->business.at[i] = own ? p->frames.at[n->frame].name : i ? p->business.at[n->parent] : 0;
    }
    if (r == 0)
        p->business.count = p->nodes.count;
    free(library);
    free(ends);
    return r;
}
