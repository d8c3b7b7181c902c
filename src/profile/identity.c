/* See identity.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/identity.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static bool ends_with_number(const char *at, const char *end)
{
    while (end > at && (isxdigit((unsigned char)end[-1]) || end[-1] == '.'))
        end--;
    return end == at;
}

/* The length without ".constprop.0", ".isra.3", ".part.1", ".cold", ".llvm.77", ".lto_priv.2". */
static size_t without_clone(const char *name, size_t length)
{
    static const char *const MARKS[] = {".constprop", ".isra",     ".part",       ".cold",
                                        ".llvm",      ".lto_priv", ".localalias", ".clone"};
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < ARRAY_SIZE(MARKS); i++) {
            size_t mark = strlen(MARKS[i]);
            const char *found = memmem(name, length, MARKS[i], mark);
            if (found > name && (found + mark == name + length || found[mark] == '.') &&
                ends_with_number(found + mark, name + length)) {
                length = (size_t)(found - name);
                again = true;
            }
        }
    }
    return length;
}

/* Rust's "::h0123456789abcdef". */
static size_t without_rust_hash(const char *name, size_t length)
{
    if (length < 20 || memcmp(name + length - 19, "::h", 3) != 0)
        return length;
    for (size_t i = length - 16; i < length; i++)
        if (!isxdigit((unsigned char)name[i]))
            return length;
    return length - 19;
}

void identity_name(const char *name, struct text *out)
{
    static const char *const NUMBERED[] = {"$$Lambda", "GeneratedMethodAccessor",
                                           "GeneratedConstructorAccessor", "$Proxy", "LambdaForm$"};
    size_t length = without_rust_hash(name, without_clone(name, strlen(name)));
    for (const char *at = name, *end = name + length; at < end;) {
        size_t mark = 0;
        for (size_t i = 0; i < ARRAY_SIZE(NUMBERED) && !mark; i++)
            if (strncmp(at, NUMBERED[i], strlen(NUMBERED[i])) == 0)
                mark = strlen(NUMBERED[i]);
        text_add_bytes(out, at, mark ? mark : 1);
        at += mark ? mark : 1;
        if (mark) /* "$14/0x000001", "12", ".0x00007f" */
            while (at < end && (isdigit((unsigned char)*at) || *at == '$' || *at == '/' ||
                                (*at == '.' && at[1] == '0') || (*at == 'x' && at[-1] == '0') ||
                                (isxdigit((unsigned char)*at) && isxdigit((unsigned char)at[-1]))))
                at++;
    }
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* The length of a name without "-1.2.3" or "-v2" behind it. */
static size_t without_version(const char *name, size_t length)
{
    size_t at = length;
    while (at > 0 && (isdigit((unsigned char)name[at - 1]) || name[at - 1] == '.'))
        at--;
    bool digits = at < length && isdigit((unsigned char)name[at]);
    if (digits && at > 0 && name[at - 1] == 'v')
        at--;
    return digits && at > 1 && (name[at - 1] == '-' || name[at - 1] == '_') ? at - 1 : length;
}

void identity_module(const char *path, struct text *out)
{
    const char *base = base_of(path), *gone = strstr(base, " (deleted)"), *so = strstr(base, ".so");
    size_t length = gone ? (size_t)(gone - base) : strlen(base);
    bool library = so && so < base + length && (so[3] == '\0' || so[3] == '.' || so[3] == ' ');
    text_add_bytes(out, base, without_version(base, library ? (size_t)(so - base) : length));
    if (library)
        text_add(out, ".so");
}

/* ---- what is known of a function ---- */

struct known {
    uint64_t name, plain;  /* hashes: as identity_name() has it; without its parameters, too */
    uint64_t module, file; /* of a module's name, of a source file's without its folders; 0: unknown */
    const char *path;      /* both as they are, for ties */
    bool kernel;
};

static uint64_t hash_text(struct text *text)
{
    uint64_t hash = map_hash(text_get(text), text->length);
    text_clear(text);
    return hash ? hash : 1;
}

/* pprof has one place for both: what ends like source is source. */
static bool is_source(const char *path)
{
    static const char *const ENDINGS[] = {".c",  ".cc", ".cpp", ".cxx", ".h",  ".hpp", ".rs",   ".go",
                                          ".py", ".js", ".mjs", ".cjs", ".ts", ".S",   ".java", ".kt"};
    const char *dot = strrchr(base_of(path), '.');
    for (size_t i = 0; dot && i < ARRAY_SIZE(ENDINGS); i++)
        if (strcmp(dot, ENDINGS[i]) == 0)
            return true;
    return false;
}

static struct known known_of(const struct profile *p, uint32_t frame, struct text *scratch)
{
    const struct profile_frame *f = &p->frames.at[frame];
    const char *file = profile_text(p, f->file), *module = profile_text(p, f->module);
    struct known k = {.path = *file ? file : module, .kernel = f->kind == FRAME_KERNEL};
    if (*file && !*module && !is_source(file) && strchr(file, '/')) {
        module = file;
        file = "";
    }
    identity_name(profile_text(p, f->name), scratch);
    const char *name = text_get(scratch), *parameters = strchr(name, '(');
    k.plain = map_hash(name, parameters && parameters > name ? (size_t)(parameters - name) : scratch->length);
    k.name = hash_text(scratch);
    if (*module) {
        identity_module(module, scratch);
        k.module = hash_text(scratch);
    }
    if (*file)
        k.file = map_hash(base_of(file), strlen(base_of(file)));
    return k;
}

static struct known *know_all(const struct profile *p, const struct profile_function *functions, size_t count)
{
    struct text scratch = {0};
    struct known *all = calloc(count + 1, sizeof(*all));
    for (size_t i = 0; all && i < count; i++)
        all[i] = known_of(p, functions[i].frame, &scratch);
    if (all && scratch.failed) {
        free(all);
        all = NULL;
    }
    text_done(&scratch);
    return all;
}

/* ---- matching: from what says most to what says least ---- */

enum tier { TIER_PATH, TIER_ALL, TIER_FILE, TIER_MODULE, TIER_NAME, TIER_PLAIN, TIERS };

/* 0: this tier says nothing about it. */
static uint64_t tier_key(const struct known *k, enum tier tier)
{
    uint64_t words[5] = {tier, k->kernel, k->name, 0, 0};
    switch (tier) {
    case TIER_PATH:
        words[3] = map_hash(k->path, strlen(k->path));
        break;
    case TIER_ALL:
        words[3] = k->module;
        words[4] = k->file;
        break;
    case TIER_FILE:
        words[3] = k->file;
        if (!k->file)
            return 0;
        break;
    case TIER_MODULE:
        words[3] = k->module;
        if (!k->module)
            return 0;
        break;
    case TIER_PLAIN:
        words[2] = k->plain;
        break;
    default:
        break;
    }
    return map_hash(words, sizeof(words));
}

/* How many folders two paths have in common at their ends. */
static size_t common_end(const char *a, const char *b)
{
    size_t i = strlen(a), j = strlen(b), folders = 0;
    while (i && j && a[i - 1] == b[j - 1]) {
        folders += a[i - 1] == '/';
        i--, j--;
    }
    return folders + (!i && !j);
}

struct matching {
    const struct known *before, *after;
    size_t before_count, after_count, *match;
    bool *taken;
    struct map before_modules, after_modules;
};

static int modules_of(const struct known *list, size_t count, struct map *modules)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].module && !map_put(modules, list[i].module, NULL))
            return -ENOMEM;
    return 0;
}

/* Functions of one name in different modules are the same only when the module has another name now. */
static bool may_have_moved(const struct matching *m, const struct known *before, const struct known *after)
{
    return !before->module || !after->module || before->module == after->module ||
           !map_get(&m->after_modules, before->module) || !map_get(&m->before_modules, after->module);
}

/* Lists of after's functions with one key: the map has the first's index + 1, next[] the others'. */
static int match_tier(struct matching *m, enum tier tier, size_t *next)
{
    struct map first = {0}, counts = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < m->before_count; i++) {
        uint64_t key = m->match[i] == IDENTITY_NONE ? tier_key(&m->before[i], tier) : 0;
        uint64_t *n = key ? map_put(&counts, key, NULL) : NULL;
        if (key && !n)
            r = -ENOMEM;
        else if (n)
            ++*n;
    }
    for (size_t j = m->after_count; r == 0 && j-- > 0;) {
        uint64_t key = m->taken[j] ? 0 : tier_key(&m->after[j], tier);
        uint64_t *place = key && map_get(&counts, key) ? map_put(&first, key, NULL) : NULL;
        if (!place)
            continue;
        next[j] = *place;
        *place = j + 1;
    }
    for (size_t i = 0; r == 0 && i < m->before_count; i++) {
        uint64_t key = m->match[i] == IDENTITY_NONE ? tier_key(&m->before[i], tier) : 0;
        uint64_t *head = key ? map_get(&first, key) : NULL;
        size_t best = IDENTITY_NONE, best_common = 0, others = 0;
        for (size_t j = head ? *head : 0; j; j = next[j - 1]) {
            size_t common = common_end(m->before[i].path, m->after[j - 1].path);
            if (m->taken[j - 1] || (tier >= TIER_NAME && !may_have_moved(m, &m->before[i], &m->after[j - 1])))
                continue;
            others++;
            if (best == IDENTITY_NONE || common > best_common) {
                best = j - 1;
                best_common = common;
            }
        }
        bool only = others == 1 && *map_get(&counts, key) == 1;
        if (best == IDENTITY_NONE || (tier >= TIER_NAME && !only))
            continue;
        m->match[i] = best;
        m->taken[best] = true;
    }
    map_done(&first);
    map_done(&counts);
    return r;
}

int identity_match(const struct profile *before, const struct profile_function *before_functions,
                   size_t before_count, const struct profile *after,
                   const struct profile_function *after_functions, size_t after_count, size_t *ret_match)
{
    struct known *b = know_all(before, before_functions, before_count),
                 *a = know_all(after, after_functions, after_count);
    struct matching m = {.before = b,
                         .after = a,
                         .before_count = before_count,
                         .after_count = after_count,
                         .match = ret_match,
                         .taken = calloc(after_count + 1, sizeof(bool))};
    size_t *next = calloc(after_count + 1, sizeof(*next));
    int r = b && a && m.taken && next ? 0 : -ENOMEM;
    for (size_t i = 0; i < before_count; i++)
        ret_match[i] = IDENTITY_NONE;
    if (r == 0)
        r = modules_of(b, before_count, &m.before_modules);
    if (r == 0)
        r = modules_of(a, after_count, &m.after_modules);
    for (int tier = 0; r == 0 && tier < TIERS; tier++)
        r = match_tier(&m, (enum tier)tier, next);
    map_done(&m.before_modules);
    map_done(&m.after_modules);
    free(m.taken);
    free(next);
    free(b);
    free(a);
    return r;
}

/* ---- merging ---- */

/* become[frame]: the frame whose function it belongs to; itself at first. */
static uint32_t replacement(void *context, struct profile *p, uint32_t frame)
{
    uint32_t like = ((const uint32_t *)context)[frame];
    if (like == frame)
        return frame;
    struct profile_frame f = p->frames.at[like];
    if (p->by_line)
        f.line = p->frames.at[frame].line;
    return profile_add_frame(p, &f);
}

/* Lines of one function are one. */
static uint64_t function_of(const struct profile_frame *f)
{
    uint32_t words[4] = {f->name, f->file, f->module, f->kind};
    return map_hash(words, sizeof(words));
}

/* Frames [from, end) came with a later file: those that are of functions of [1, from) become like these. */
static int match_file(struct profile *p, size_t from, size_t end, uint32_t *become)
{
    size_t old = 0, fresh = 0;
    struct map seen = {0}; /* function -> index into `before`, or that into `after` behind them */
    struct profile_function *before = calloc(from + 1, sizeof(*before)),
                            *after = calloc(end - from + 1, sizeof(*after));
    size_t *match = calloc(from + 1, sizeof(*match));
    uint32_t *now = calloc(end - from + 1, sizeof(*now));
    int r = before && after && match && now ? 0 : -ENOMEM;
    for (size_t i = 1; r == 0 && i < end; i++) {
        const struct profile_frame *f = &p->frames.at[i];
        bool is_new,
            by_name = (!f->file && !f->module) || f->kind == FRAME_GROUP || f->kind == FRAME_TRUNCATED;
        if (by_name || become[i] != i) /* it is the same already */
            continue;
        uint64_t *place = map_put(&seen, function_of(f), &is_new);
        if (!place)
            r = -ENOMEM;
        else if (is_new && i < from)
            before[ *place = old++].frame = (uint32_t)i;
        else if (is_new)
            after[ *place = fresh++].frame = (uint32_t)i;
    }
    if (r == 0)
        r = identity_match(p, before, old, p, after, fresh, match);
    for (size_t i = 0; r == 0 && i < old; i++)
        if (match[i] != IDENTITY_NONE)
            now[match[i]] = before[i].frame;
    for (size_t i = from; r == 0 && i < end; i++) {
        const uint64_t *place = map_get(&seen, function_of(&p->frames.at[i]));
        if (place && *place < fresh &&
            function_of(&p->frames.at[after[*place].frame]) == function_of(&p->frames.at[i]) && now[*place])
            become[i] = now[*place];
    }
    map_done(&seen);
    free(before);
    free(after);
    free(match);
    free(now);
    return r;
}

int identity_merge(struct profile *p, const size_t *ends, size_t count)
{
    uint32_t *become = calloc(p->frames.count, sizeof(*become));
    int r = become ? 0 : -ENOMEM;
    bool any = false;
    for (size_t i = 0; r == 0 && i < p->frames.count; i++)
        become[i] = (uint32_t)i;
    for (size_t i = 1; r == 0 && i < count; i++)
        if (ends[i] > ends[i - 1])
            r = match_file(p, ends[i - 1], ends[i], become);
    for (size_t i = 0; r == 0 && i < p->frames.count; i++)
        any |= become[i] != i;
    if (r == 0 && any)
        r = profile_fold(p, SIZE_MAX, replacement, become);
    free(become);
    return r;
}
