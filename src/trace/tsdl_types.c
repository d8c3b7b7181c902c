/* The parser of TSDL, types and values: integers, enumerations, structures, variants, arrays, names for
 * types. See tsdl.c. References between fields are kept as paths and resolved by metadata.c once everything
 * is known. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "trace/tsdl_parser.h"

int tsdl_fail_at(struct tsdl_parser *p, const struct tsdl_token *token, const char *format, ...)
{
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    return problem_set(p->problem, -EINVAL, "%s:%u:%u: %s", p->meta->path, token->line, token->column,
                       message);
}

int tsdl_expected(struct tsdl_parser *p, const char *what)
{
    char shown[64];
    return tsdl_fail_at(p, &p->token, "expected %s before %s", what,
                        tsdl_token_show(&p->token, shown, sizeof(shown)));
}

int tsdl_no_memory(struct tsdl_parser *p)
{
    if (p->meta->class_count >= METADATA_MAX_CLASSES)
        return tsdl_fail_at(p, &p->token, "more than %u fields", METADATA_MAX_CLASSES);
    return problem_set(p->problem, -ENOMEM, "%s: not enough memory", p->meta->path);
}

/* ---- type names ---- */

static struct field_class *find_type(const struct tsdl_parser *p, enum type_space space, const char *name)
{
    for (size_t i = p->types.count; i-- > 0;)
        if (p->types.at[i].space == space && strcmp(p->types.at[i].name, name) == 0)
            return p->types.at[i].class;
    return NULL;
}

static int add_type(struct tsdl_parser *p, enum type_space space, const char *name, struct field_class *class)
{
    struct type_name entry = {space, name, class};
    return array_add(&p->types, entry) < 0 ? tsdl_no_memory(p) : 0;
}

static struct field_class *use_type(struct tsdl_parser *p, enum type_space space, const char *name)
{
    const struct field_class *class = find_type(p, space, name);
    return class ? field_class_copy(p->meta, class, 0) : NULL;
}

/* ---- attribute values ---- */

/* name[.name...] as one string; the first token is a name. */
int tsdl_parse_dotted(struct tsdl_parser *p, const char **ret_text)
{
    _cleanup_(text_done) struct text text = {0};
    for (;;) {
        if (p->token.kind != TOKEN_NAME)
            return tsdl_expected(p, "a name");
        text_add(&text, p->token.text);
        next(p);
        if (!accept(p, '.'))
            break;
        text_add(&text, ".");
    }
    *ret_text = text.failed ? NULL : arena_strdup(&p->meta->arena, text_get(&text));
    return *ret_text ? 0 : tsdl_no_memory(p);
}

int tsdl_parse_value(struct tsdl_parser *p, struct attribute_value *ret_value)
{
    struct attribute_value v = {0};
    if (p->token.kind == TOKEN_STRING) {
        v.kind = VALUE_STRING;
        v.text = p->token.text;
        next(p);
        /* Adjacent strings are one, as in C. */
        while (p->token.kind == TOKEN_STRING) {
            size_t a = strlen(v.text), b = strlen(p->token.text);
            char *joined = arena_alloc(&p->meta->arena, a + b + 1);
            if (!joined)
                return tsdl_no_memory(p);
            memcpy(joined, v.text, a);
            memcpy(joined + a, p->token.text, b + 1);
            v.text = joined;
            next(p);
        }
    } else if (p->token.kind == TOKEN_NAME) {
        v.kind = VALUE_NAME;
        int r = tsdl_parse_dotted(p, &v.text);
        if (r < 0)
            return r;
    } else {
        v.negative = accept(p, '-');
        if (!v.negative)
            accept(p, '+');
        if (p->token.kind != TOKEN_INTEGER)
            return tsdl_expected(p, "a value");
        v.kind = VALUE_INTEGER;
        v.magnitude = p->token.integer;
        next(p);
    }
    *ret_value = v;
    return 0;
}

int64_t tsdl_value_signed(const struct attribute_value *v)
{
    return v->negative ? (int64_t)(0 - v->magnitude) : (int64_t)v->magnitude;
}

/* key = value ; with key already read as the current token. */
int tsdl_parse_assignment(struct tsdl_parser *p, const char **ret_key, struct tsdl_token *ret_at,
                          struct attribute_value *ret_value)
{
    *ret_at = p->token;
    int r = tsdl_parse_dotted(p, ret_key);
    if (r >= 0)
        r = expect(p, '=', "'='");
    if (r >= 0)
        r = tsdl_parse_value(p, ret_value);
    if (r >= 0)
        r = expect(p, ';', "';'");
    return r;
}

int tsdl_want_unsigned(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                       uint64_t low, uint64_t high, uint64_t *ret_value)
{
    bool fits = v->kind == VALUE_INTEGER && !v->negative && v->magnitude >= low && v->magnitude <= high;
    if (!fits && low == high)
        return tsdl_fail_at(p, at, "expected %" PRIu64 " as the value of '%s'", low, at->text);
    if (!fits)
        return tsdl_fail_at(p, at, "expected an integer from %" PRIu64 " to %" PRIu64 " as the value of '%s'",
                            low, high, at->text);
    *ret_value = v->magnitude;
    return 0;
}

int tsdl_want_text(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                   const char **ret_text)
{
    if (v->kind == VALUE_INTEGER)
        return tsdl_fail_at(p, at, "expected a string as the value of '%s'", at->text);
    *ret_text = v->text;
    return 0;
}

int tsdl_want_bool(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                   bool *ret_value)
{
    if (v->kind == VALUE_INTEGER)
        *ret_value = v->magnitude != 0;
    else if (strcasecmp(v->text, "true") == 0)
        *ret_value = true;
    else if (strcasecmp(v->text, "false") == 0)
        *ret_value = false;
    else
        return tsdl_fail_at(p, at, "expected true or false as the value of '%s'", at->text);
    return 0;
}

static int want_align(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                      uint32_t *ret_align)
{
    uint64_t align = 0;
    int r = tsdl_want_unsigned(p, at, v, 1, 1u << 20, &align);
    if (r < 0)
        return r;
    if (align & (align - 1))
        return tsdl_fail_at(p, at, "expected a power of two as alignment, found %" PRIu64, align);
    *ret_align = (uint32_t)align;
    return 0;
}

int tsdl_want_order(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                    uint8_t *ret_order)
{
    const char *text = v->kind == VALUE_INTEGER ? "" : v->text;
    if (strcmp(text, "le") == 0)
        *ret_order = ORDER_LITTLE;
    else if (strcmp(text, "be") == 0 || strcmp(text, "network") == 0)
        *ret_order = ORDER_BIG;
    else if (strcmp(text, "native") == 0)
        *ret_order = ORDER_NATIVE;
    else
        return tsdl_fail_at(p, at, "expected le, be, network or native as byte order");
    return 0;
}

static int want_encoding(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                         uint8_t *ret_encoding)
{
    const char *text = v->kind == VALUE_INTEGER ? "" : v->text;
    if (strcasecmp(text, "utf8") == 0 || strcasecmp(text, "utf-8") == 0 || strcasecmp(text, "ascii") == 0)
        *ret_encoding = ENCODING_UTF8;
    else if (strcasecmp(text, "none") == 0)
        *ret_encoding = ENCODING_NONE;
    else
        return tsdl_fail_at(p, at, "expected UTF8, ASCII or none as encoding");
    return 0;
}

static int want_base(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                     uint8_t *ret_base)
{
    static const struct {
        const char *name;
        uint8_t base;
    } NAMES[] = {{"decimal", 10},     {"dec", 10}, {"d", 10}, {"i", 10},     {"u", 10},
                 {"hexadecimal", 16}, {"hex", 16}, {"x", 16}, {"X", 16},     {"p", 16},
                 {"octal", 8},        {"oct", 8},  {"o", 8},  {"binary", 2}, {"b", 2}};
    if (v->kind == VALUE_INTEGER) {
        if (v->magnitude != 2 && v->magnitude != 8 && v->magnitude != 10 && v->magnitude != 16)
            return tsdl_fail_at(p, at, "expected 2, 8, 10 or 16 as base");
        *ret_base = (uint8_t)v->magnitude;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (strcmp(v->text, NAMES[i].name) == 0) {
            *ret_base = NAMES[i].base;
            return 0;
        }
    return tsdl_fail_at(p, at, "expected a base, found '%.40s'", v->text);
}

int tsdl_parse_uuid(struct tsdl_parser *p, const struct tsdl_token *at, const struct attribute_value *v,
                    uint8_t ret_uuid[16])
{
    const char *s = v->kind == VALUE_STRING ? v->text : "";
    unsigned b[16];
    if (strlen(s) != 36 ||
        sscanf(s, "%2x%2x%2x%2x-%2x%2x-%2x%2x-%2x%2x-%2x%2x%2x%2x%2x%2x", &b[0], &b[1], &b[2], &b[3], &b[4],
               &b[5], &b[6], &b[7], &b[8], &b[9], &b[10], &b[11], &b[12], &b[13], &b[14], &b[15]) != 16)
        return tsdl_fail_at(p, at, "expected a UUID in quotes");
    for (int i = 0; i < 16; i++)
        ret_uuid[i] = (uint8_t)b[i];
    return 0;
}

/* ---- scalar types ---- */

static struct clock_class *clock_of_map(struct tsdl_parser *p, const char *map)
{
    /* "clock.NAME.value"; the clock block comes before in every writer, and must. */
    if (strncmp(map, "clock.", 6) != 0)
        return NULL;
    for (struct clock_class *c = p->meta->clocks; c; c = c->next) {
        size_t n = c->name ? strlen(c->name) : 0;
        if (n && strncmp(map + 6, c->name, n) == 0 &&
            (map[6 + n] == '\0' || strcmp(map + 6 + n, ".value") == 0))
            return c;
    }
    return NULL;
}

static int integer_attribute(struct tsdl_parser *p, const struct tsdl_token *at, const char *key,
                             const struct attribute_value *v, struct field_class *c)
{
    uint64_t size = 0;
    int r;
    if (strcmp(key, "size") == 0) {
        r = tsdl_want_unsigned(p, at, v, 1, 64, &size);
        if (r >= 0)
            c->bits = (uint32_t)size;
        return r;
    }
    if (strcmp(key, "align") == 0)
        return want_align(p, at, v, &c->align);
    if (strcmp(key, "signed") == 0)
        return tsdl_want_bool(p, at, v, &c->is_signed);
    if (strcmp(key, "byte_order") == 0)
        return tsdl_want_order(p, at, v, &c->order);
    if (strcmp(key, "base") == 0)
        return want_base(p, at, v, &c->base);
    if (strcmp(key, "encoding") == 0)
        return want_encoding(p, at, v, &c->encoding);
    if (strcmp(key, "map") == 0) {
        c->clock = v->kind == VALUE_INTEGER ? NULL : clock_of_map(p, v->text);
        return c->clock
                   ? 0
                   : tsdl_fail_at(p, at, "expected a clock that is declared above, as in clock.NAME.value");
    }
    return 0; /* attributes of other tools */
}

static int real_attribute(struct tsdl_parser *p, const struct tsdl_token *at, const char *key,
                          const struct attribute_value *v, struct field_class *c)
{
    uint64_t bits = 0;
    int r;
    if (strcmp(key, "exp_dig") == 0 || strcmp(key, "mant_dig") == 0) {
        r = tsdl_want_unsigned(p, at, v, 1, 64, &bits);
        if (r >= 0)
            c->bits += (uint32_t)bits;
        return r;
    }
    if (strcmp(key, "align") == 0)
        return want_align(p, at, v, &c->align);
    if (strcmp(key, "byte_order") == 0)
        return tsdl_want_order(p, at, v, &c->order);
    return 0;
}

static int string_attribute(struct tsdl_parser *p, const struct tsdl_token *at, const char *key,
                            const struct attribute_value *v, struct field_class *c)
{
    return strcmp(key, "encoding") == 0 ? want_encoding(p, at, v, &c->encoding) : 0;
}

static int parse_scalar(struct tsdl_parser *p, enum field_kind kind, struct field_class **ret_class)
{
    struct tsdl_token start = p->token;
    next(p);
    struct field_class *c = field_class_new(p->meta, kind);
    if (!c)
        return tsdl_no_memory(p);
    c->align = 0;
    bool has_block = accept(p, '{');
    if (!has_block && kind != KIND_STRING)
        return tsdl_expected(p, "'{'");
    while (has_block && !accept(p, '}')) {
        const char *key;
        struct tsdl_token at;
        struct attribute_value v;
        int r = tsdl_parse_assignment(p, &key, &at, &v);
        if (r < 0)
            return r;
        r = kind == KIND_INTEGER ? integer_attribute(p, &at, key, &v, c)
            : kind == KIND_REAL  ? real_attribute(p, &at, key, &v, c)
                                 : string_attribute(p, &at, key, &v, c);
        if (r < 0)
            return r;
    }
    if (kind == KIND_INTEGER && c->bits == 0)
        return tsdl_fail_at(p, &start, "expected a size in this integer");
    if (kind == KIND_REAL && c->bits != 32 && c->bits != 64)
        return tsdl_fail_at(p, &start, "expected exp_dig and mant_dig of 32 or 64 bits in total, found %u",
                            c->bits);
    if (kind == KIND_STRING) {
        c->align = 8;
        c->encoding = ENCODING_UTF8;
    } else if (c->align == 0) {
        c->align = c->bits % 8 ? 1 : 8;
    }
    *ret_class = c;
    return 0;
}

/* ---- enumerations ---- */

static int parse_enumerator_value(struct tsdl_parser *p, const struct field_class *c, uint64_t *ret_value)
{
    struct attribute_value v;
    struct tsdl_token at = p->token;
    int r = tsdl_parse_value(p, &v);
    if (r < 0)
        return r;
    if (v.kind != VALUE_INTEGER || (v.negative && !c->is_signed))
        return tsdl_fail_at(p, &at, "expected %s integer for this enumerator",
                            c->is_signed ? "an" : "an unsigned");
    *ret_value = (uint64_t)tsdl_value_signed(&v);
    return 0;
}

static int parse_enumerators(struct tsdl_parser *p, struct field_class *c)
{
    ARRAY(struct trace_label) labels = {0};
    uint64_t following = 0;
    int r = 0;
    while (!accept(p, '}')) {
        if (p->token.kind != TOKEN_NAME && p->token.kind != TOKEN_STRING) {
            r = tsdl_expected(p, "an enumerator's name or '}'");
            break;
        }
        struct trace_label label = {.name = p->token.text};
        next(p);
        label.low = following;
        if (accept(p, '=') && (r = parse_enumerator_value(p, c, &label.low)) < 0)
            break;
        label.high = label.low;
        struct tsdl_token at = p->token;
        if (accept(p, 'E') && (r = parse_enumerator_value(p, c, &label.high)) < 0)
            break;
        if (c->is_signed ? label.high_signed < label.low_signed : label.high < label.low) {
            r = tsdl_fail_at(p, &at, "the range of '%.60s' ends before it starts", label.name);
            break;
        }
        following = label.high + 1;
        if (array_add(&labels, label) < 0) {
            r = tsdl_no_memory(p);
            break;
        }
        if (!accept(p, ',') && !is(p, '}')) {
            r = tsdl_expected(p, "',' or '}'");
            break;
        }
    }
    if (r >= 0 && labels.count) {
        c->labels = arena_alloc(&p->meta->arena, labels.count * sizeof(*labels.at));
        if (c->labels) {
            memcpy(c->labels, labels.at, labels.count * sizeof(*labels.at));
            c->label_count = (uint32_t)labels.count;
        } else {
            r = tsdl_no_memory(p);
        }
    }
    array_done(&labels);
    return r;
}

/* enum [NAME] [: TYPE] { ... } */
static int parse_enum(struct tsdl_parser *p, struct field_class **ret_class)
{
    const char *name = NULL;
    next(p);
    if (p->token.kind == TOKEN_NAME) {
        name = p->token.text;
        next(p);
    }
    if (!is(p, ':') && !is(p, '{')) {
        *ret_class = name ? use_type(p, SPACE_ENUM, name) : NULL;
        return *ret_class ? 0
               : name     ? tsdl_fail_at(p, &p->token, "enum '%.60s' is not declared", name)
                          : tsdl_expected(p, "'{'");
    }
    struct field_class *c = NULL;
    int r;
    struct tsdl_token at = p->token;
    if (accept(p, ':')) {
        if ((r = tsdl_parse_type(p, &c)) < 0)
            return r;
    } else {
        c = use_type(p, SPACE_ALIAS, "int");
        if (!c)
            return tsdl_fail_at(
                p, &at, "expected a container type, as in enum : uint8_t, since no 'int' is declared");
    }
    if (c->kind != KIND_INTEGER)
        return tsdl_fail_at(p, &at, "expected an integer as the container of an enum");
    c->is_enum = true;
    c->label_count = 0;
    if ((r = expect(p, '{', "'{'")) < 0 || (r = parse_enumerators(p, c)) < 0)
        return r;
    if (name && (r = add_type(p, SPACE_ENUM, name, c)) < 0)
        return r;
    *ret_class = name ? field_class_copy(p->meta, c, 0) : c;
    return *ret_class ? 0 : tsdl_no_memory(p);
}

/* ---- structures and variants ---- */

/* typealias TYPE [DECLARATOR] := NAME... ; */
int tsdl_parse_typealias(struct tsdl_parser *p)
{
    struct field_class *c;
    const char *ignored = NULL;
    next(p);
    int r = tsdl_parse_type(p, &c);
    if (r >= 0)
        r = tsdl_parse_declarator(p, c, &ignored, &c);
    if (r >= 0)
        r = expect(p, 'A', "':='");
    if (r < 0)
        return r;
    _cleanup_(text_done) struct text name = {0};
    while (p->token.kind == TOKEN_NAME || is(p, '*')) {
        bool qualifier = is_name(p, "const");
        if (name.length && !qualifier)
            text_add(&name, " ");
        if (!qualifier)
            text_add(&name, p->token.kind == TOKEN_NAME ? p->token.text : "*");
        next(p);
    }
    if (!name.length)
        return tsdl_expected(p, "a name for the type");
    const char *kept = arena_strdup(&p->meta->arena, text_get(&name));
    if (!kept || name.failed)
        return tsdl_no_memory(p);
    if ((r = expect(p, ';', "';'")) < 0)
        return r;
    return add_type(p, SPACE_ALIAS, kept, c);
}

/* typedef TYPE DECLARATOR, ... ; */
int tsdl_parse_typedef(struct tsdl_parser *p)
{
    struct field_class *base;
    next(p);
    int r = tsdl_parse_type(p, &base);
    if (r < 0)
        return r;
    do {
        struct field_class *c = field_class_copy(p->meta, base, 0);
        const char *name = NULL;
        if (!c)
            return tsdl_no_memory(p);
        if ((r = tsdl_parse_declarator(p, c, &name, &c)) < 0)
            return r;
        if (!name)
            return tsdl_expected(p, "a name for the type");
        if ((r = add_type(p, SPACE_ALIAS, name, c)) < 0)
            return r;
    } while (accept(p, ','));
    return expect(p, ';', "';'");
}

/* The members of a structure or the options of a variant, up to and with '}'. */
static int parse_members(struct tsdl_parser *p, struct field_class *c)
{
    size_t visible = p->types.count;
    ARRAY(struct field_member) members = {0};
    int r = 0;
    while (r >= 0 && !accept(p, '}')) {
        if (is_name(p, "typealias")) {
            r = tsdl_parse_typealias(p);
            continue;
        }
        if (is_name(p, "typedef")) {
            r = tsdl_parse_typedef(p);
            continue;
        }
        struct field_class *base;
        if ((r = tsdl_parse_type(p, &base)) < 0)
            break;
        if (accept(p, ';')) /* a declaration of a named structure, without a member */
            continue;
        bool first = true;
        do {
            struct field_member member = {0};
            struct field_class *own = first ? base : field_class_copy(p->meta, base, 0);
            first = false;
            if (!own) {
                r = tsdl_no_memory(p);
                break;
            }
            if ((r = tsdl_parse_declarator(p, own, &member.name, &member.class)) < 0)
                break;
            if (!member.name) {
                r = tsdl_expected(p, "a field's name");
                break;
            }
            if (array_add(&members, member) < 0)
                r = tsdl_no_memory(p);
        } while (r >= 0 && accept(p, ','));
        if (r >= 0)
            r = expect(p, ';', "';'");
    }
    if (r >= 0 && members.count) {
        c->members = arena_alloc(&p->meta->arena, members.count * sizeof(*members.at));
        if (c->members) {
            memcpy(c->members, members.at, members.count * sizeof(*members.at));
            c->member_count = (uint32_t)members.count;
        } else {
            r = tsdl_no_memory(p);
        }
    }
    array_done(&members);
    p->types.count = visible;
    return r;
}

/* a.b.c -> names; a leading scope such as stream.event.header makes it absolute. */
static int make_location(struct tsdl_parser *p, const char *path, struct field_location *ret_location)
{
    static const char *const PREFIXES[ROOT_COUNT] = {
        [ROOT_PACKET_HEADER] = "trace.packet.header.",
        [ROOT_PACKET_CONTEXT] = "stream.packet.context.",
        [ROOT_EVENT_HEADER] = "stream.event.header.",
        [ROOT_COMMON_CONTEXT] = "stream.event.context.",
        [ROOT_CONTEXT] = "event.context.",
        [ROOT_PAYLOAD] = "event.fields.",
    };
    struct field_location l = {0};
    for (int root = 1; root < ROOT_COUNT; root++) {
        size_t n = strlen(PREFIXES[root]);
        if (strncmp(path, PREFIXES[root], n) == 0) {
            l.root = (enum scope)root;
            path += n;
            break;
        }
    }
    l.count = 1;
    for (const char *c = path; *c; c++)
        l.count += *c == '.';
    l.names = arena_alloc(&p->meta->arena, l.count * sizeof(*l.names));
    if (!l.names)
        return tsdl_no_memory(p);
    for (uint32_t i = 0; i < l.count; i++) {
        size_t n = strcspn(path, ".");
        l.names[i] = arena_strndup(&p->meta->arena, path, n);
        if (!l.names[i])
            return tsdl_no_memory(p);
        path += n + (path[n] == '.');
    }
    *ret_location = l;
    return 0;
}

static int parse_align_suffix(struct tsdl_parser *p, struct field_class *c)
{
    if (!is_name(p, "align"))
        return 0;
    next(p);
    struct tsdl_token at = p->token;
    at.text = "align";
    int r = expect(p, '(', "'('");
    struct attribute_value v;
    if (r >= 0)
        r = tsdl_parse_value(p, &v);
    if (r >= 0)
        r = want_align(p, &at, &v, &c->align);
    return r < 0 ? r : expect(p, ')', "')'");
}

/* struct [NAME] [{ ... }] [align(N)] */
static int parse_struct(struct tsdl_parser *p, struct field_class **ret_class)
{
    const char *name = NULL;
    struct tsdl_token at = p->token;
    int r;
    next(p);
    if (p->token.kind == TOKEN_NAME && !is_name(p, "align")) {
        name = p->token.text;
        at = p->token;
        next(p);
    }
    if (!is(p, '{')) {
        if (!name)
            return tsdl_expected(p, "'{'");
        *ret_class = use_type(p, SPACE_STRUCT, name);
        if (!*ret_class)
            return find_type(p, SPACE_STRUCT, name)
                       ? tsdl_no_memory(p)
                       : tsdl_fail_at(p, &at, "struct '%.60s' is not declared", name);
        return parse_align_suffix(p, *ret_class);
    }
    next(p);
    struct field_class *c = field_class_new(p->meta, KIND_STRUCT);
    if (!c)
        return tsdl_no_memory(p);
    if ((r = parse_members(p, c)) < 0 || (r = parse_align_suffix(p, c)) < 0)
        return r;
    if (name) {
        if ((r = add_type(p, SPACE_STRUCT, name, c)) < 0)
            return r;
        c = field_class_copy(p->meta, c, 0);
    }
    *ret_class = c;
    return c ? 0 : tsdl_no_memory(p);
}

/* variant [NAME] [<TAG>] [{ ... }] */
static int parse_variant(struct tsdl_parser *p, struct field_class **ret_class)
{
    const char *name = NULL, *tag = NULL;
    struct tsdl_token at = p->token;
    int r;
    next(p);
    if (p->token.kind == TOKEN_NAME) {
        name = p->token.text;
        at = p->token;
        next(p);
    }
    if (accept(p, '<')) {
        if ((r = tsdl_parse_dotted(p, &tag)) < 0 || (r = expect(p, '>', "'>'")) < 0)
            return r;
    }
    struct field_class *c;
    if (accept(p, '{')) {
        c = field_class_new(p->meta, KIND_VARIANT);
        if (!c)
            return tsdl_no_memory(p);
        if ((r = parse_members(p, c)) < 0)
            return r;
        if (name) {
            if ((r = add_type(p, SPACE_VARIANT, name, c)) < 0)
                return r;
            c = field_class_copy(p->meta, c, 0);
        }
    } else {
        if (!name)
            return tsdl_expected(p, "'{'");
        if (!find_type(p, SPACE_VARIANT, name))
            return tsdl_fail_at(p, &at, "variant '%.60s' is not declared", name);
        c = use_type(p, SPACE_VARIANT, name);
    }
    if (!c)
        return tsdl_no_memory(p);
    if (tag && (r = make_location(p, tag, &c->location)) < 0)
        return r;
    *ret_class = c;
    return 0;
}

/* ---- types and declarators ---- */

static bool is_c_word(const char *name)
{
    static const char *const WORDS[] = {"void",   "char",   "short",    "int",   "long",     "float",
                                        "double", "signed", "unsigned", "_Bool", "_Complex", "_Imaginary"};
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (strcmp(name, WORDS[i]) == 0)
            return true;
    return false;
}

/* A name of one word, or of several C words ("unsigned long"); with stars behind it, it is a type of its own
 * ("char *"), which has nothing to do with the one that it seems to point to. */
static int parse_named_type(struct tsdl_parser *p, struct field_class **ret_class)
{
    struct tsdl_token at = p->token;
    _cleanup_(text_done) struct text name = {0};
    if (p->token.kind != TOKEN_NAME)
        return tsdl_expected(p, "a type");
    text_add(&name, p->token.text);
    bool words = is_c_word(p->token.text);
    next(p);
    while (words && p->token.kind == TOKEN_NAME && is_c_word(p->token.text)) {
        text_add(&name, " ");
        text_add(&name, p->token.text);
        next(p);
    }
    for (bool star; (star = accept(p, '*')) || is_name(p, "const");) {
        if (star)
            text_add(&name, " *");
        else
            next(p);
    }
    const struct field_class *found = name.failed ? NULL : find_type(p, SPACE_ALIAS, text_get(&name));
    if (!found)
        return tsdl_fail_at(p, &at, "type '%.60s' is not declared", text_get(&name));
    *ret_class = field_class_copy(p->meta, found, 0);
    return *ret_class ? 0 : tsdl_no_memory(p);
}

int tsdl_parse_type(struct tsdl_parser *p, struct field_class **ret_class)
{
    if (p->depth >= METADATA_MAX_DEPTH)
        return tsdl_fail_at(p, &p->token, "types nested deeper than %d", METADATA_MAX_DEPTH);
    p->depth++;
    while (is_name(p, "const"))
        next(p);
    int r = is_name(p, "struct")           ? parse_struct(p, ret_class)
            : is_name(p, "variant")        ? parse_variant(p, ret_class)
            : is_name(p, "enum")           ? parse_enum(p, ret_class)
            : is_name(p, "integer")        ? parse_scalar(p, KIND_INTEGER, ret_class)
            : is_name(p, "floating_point") ? parse_scalar(p, KIND_REAL, ret_class)
            : is_name(p, "string")         ? parse_scalar(p, KIND_STRING, ret_class)
                                           : parse_named_type(p, ret_class);
    while (r >= 0 && is_name(p, "const"))
        next(p);
    p->depth--;
    return r;
}

static int parse_dimension(struct tsdl_parser *p, struct field_class *array)
{
    if (p->token.kind == TOKEN_INTEGER) {
        array->length = p->token.integer;
        next(p);
    } else {
        const char *path;
        int r = tsdl_parse_dotted(p, &path);
        if (r < 0)
            return r;
        array->dynamic = true;
        if ((r = make_location(p, path, &array->location)) < 0)
            return r;
    }
    return expect(p, ']', "']'");
}

static struct field_class *new_array(struct tsdl_parser *p)
{
    struct field_class *a = field_class_new(p->meta, KIND_ARRAY);
    if (!a)
        return NULL;
    a->members = arena_alloc(&p->meta->arena, sizeof(*a->members));
    a->member_count = 1;
    return a->members ? a : NULL;
}

/* [NAME] [LENGTH]... ; the last dimension is the innermost, as in C. */
int tsdl_parse_declarator(struct tsdl_parser *p, struct field_class *class, const char **ret_name,
                          struct field_class **ret_class)
{
    if (p->token.kind == TOKEN_NAME) {
        *ret_name = p->token.text;
        next(p);
    }
    struct field_class *outer = NULL, **place = &outer;
    int dimensions = 0;
    while (accept(p, '[')) {
        if (++dimensions > METADATA_MAX_DEPTH / 2)
            return tsdl_fail_at(p, &p->token, "an array of more than %d dimensions", METADATA_MAX_DEPTH / 2);
        struct field_class *a = new_array(p);
        if (!a)
            return tsdl_no_memory(p);
        int r = parse_dimension(p, a);
        if (r < 0)
            return r;
        *place = a;
        place = &a->members[0].class;
    }
    *place = class;
    *ret_class = outer;
    return 0;
}
