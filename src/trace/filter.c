/* See filter.h. A recursive-descent parser makes a tree of nodes; fields are looked up once per event class.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/filter.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"
#include "base/text.h"
#include "trace/format.h"

#define MAX_DEPTH 200
#define MAX_NODES 10000

enum node_kind {
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_COMPARE,
    NODE_TRUTH, /* a field alone */
    NODE_FIELD,
    NODE_OWN, /* $name ... */
    NODE_NUMBER,
    NODE_TEXT,
};

enum compare_op { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_LIKE, OP_UNLIKE };
enum own_field { OWN_NAME, OWN_TIME, OWN_PID, OWN_TID, OWN_HOST };

/* What an operand comes to. */
struct operand {
    enum { OPERAND_NONE, OPERAND_UNSIGNED, OPERAND_SIGNED, OPERAND_REAL, OPERAND_TEXT } kind;
    uint64_t u;
    int64_t i;
    double d;
    const char *s;
    size_t length;
    const char *label; /* of an enumeration or name, beside its number */
};

struct node {
    enum node_kind kind;
    enum compare_op op;
    enum own_field own;
    struct node *left, *right;
    struct operand constant; /* NODE_NUMBER, NODE_TEXT */
    const char *name;        /* NODE_FIELD */
    const char *source;      /* of an operand: as it was written */
    size_t column;           /* of a comparison: where it begins */
    uint32_t number;         /* NODE_FIELD: index into a binding */
    bool seen;               /* some class had it */
};

struct filter {
    struct arena arena;
    struct node *root;
    ARRAY(struct node *) fields;
    ARRAY(struct node *) comparisons;
    struct map bindings; /* class -> int32_t[fields.count] in the arena */
    const struct event_class *last_class;
    const int32_t *last_binding;
    struct text bits[2]; /* of bit maps: the names of their bits, for the two sides of a comparison */
};

struct parser {
    struct filter *filter;
    const char *text, *at;
    struct problem *problem;
    int depth, nodes;
};

/* ---- parsing ---- */

static int fail(struct parser *p, const char *expected)
{
    char shown[48];
    if (*p->at)
        snprintf(shown, sizeof(shown), "'%.20s'", p->at);
    else
        snprintf(shown, sizeof(shown), "the end");
    int r = problem_set(p->problem, -EINVAL, "filter, column %zu: expected %s before %s",
                        (size_t)(p->at - p->text) + 1, expected, shown);
    problem_remedy(p->problem, "An example: duration > 5ms && name == \"keys\"");
    return r;
}

static struct node *new_node(struct parser *p, enum node_kind kind)
{
    struct node *n = ++p->nodes > MAX_NODES ? NULL : arena_alloc(&p->filter->arena, sizeof(*n));
    if (n)
        n->kind = kind;
    return n;
}

static int no_memory(struct parser *p)
{
    return p->nodes > MAX_NODES ? problem_set(p->problem, -E2BIG, "filter: too long")
                                : problem_set(p->problem, -ENOMEM, "filter: not enough memory");
}

static void skip(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static bool accept(struct parser *p, const char *word)
{
    skip(p);
    if (strncmp(p->at, word, strlen(word)) != 0)
        return false;
    p->at += strlen(word);
    return true;
}

static int parse_or(struct parser *p, struct node **ret_node);

static int parse_string(struct parser *p, struct node **ret_node)
{
    char quote = *p->at++;
    struct node *n = new_node(p, NODE_TEXT);
    char *text = arena_alloc(&p->filter->arena, strlen(p->at) + 1);
    if (!n || !text)
        return no_memory(p);
    size_t length = 0;
    while (*p->at && *p->at != quote) {
        if (*p->at == '\\' && (p->at[1] == quote || p->at[1] == '\\'))
            p->at++;
        text[length++] = *p->at++;
    }
    if (!*p->at)
        return fail(p, "the closing quote");
    p->at++;
    n->constant = (struct operand){.kind = OPERAND_TEXT, .s = text, .length = length};
    *ret_node = n;
    return 0;
}

static bool parse_unit(struct parser *p, double *ret_factor)
{
    static const struct {
        const char *unit;
        double factor;
    } UNITS[] = {{"ns", 1},  {"us", 1e3},  {"ms", 1e6},         {"min", 60e9},
                 {"s", 1e9}, {"Ki", 1024}, {"Mi", 1024 * 1024}, {"Gi", 1024.0 * 1024 * 1024},
                 {"k", 1e3}, {"M", 1e6},   {"G", 1e9}};
    if (!isalpha((unsigned char)*p->at))
        return *ret_factor = 1, true;
    for (size_t i = 0; i < ARRAY_SIZE(UNITS); i++) {
        size_t n = strlen(UNITS[i].unit);
        if (strncmp(p->at, UNITS[i].unit, n) == 0 && !isalnum((unsigned char)p->at[n])) {
            p->at += n;
            *ret_factor = UNITS[i].factor;
            return true;
        }
    }
    return false;
}

static int parse_number(struct parser *p, struct node **ret_node)
{
    struct node *n = new_node(p, NODE_NUMBER);
    if (!n)
        return no_memory(p);
    bool negative = *p->at == '-';
    const char *start = p->at + negative;
    char *end;
    errno = 0;
    uint64_t whole = strtoull(start, &end, 0);
    bool overflow = errno == ERANGE, real = *end == '.' || *end == 'e';
    double d = real ? strtod(start, &end) : (double)whole, factor;
    p->at = end;
    if (!parse_unit(p, &factor))
        return fail(p, "a unit (ns us ms s min, k M G, Ki Mi Gi)");
    if (!real && (overflow || __builtin_mul_overflow(whole, (uint64_t)factor, &whole)))
        return fail(p, "a number of 64 bits");
    d *= factor;
    if (real && d == floor(d) && d < 9e15) { /* 1.5ms is a whole number of ns */
        whole = (uint64_t)d;
        real = false;
    }
    if (negative && !real && whole > 1ull << 63)
        return fail(p, "a number of 64 bits");
    n->constant = real       ? (struct operand){.kind = OPERAND_REAL, .d = negative ? -d : d}
                  : negative ? (struct operand){.kind = OPERAND_SIGNED, .i = (int64_t)(0 - whole)}
                             : (struct operand){.kind = OPERAND_UNSIGNED, .u = whole};
    *ret_node = n;
    return 0;
}

static int parse_field(struct parser *p, struct node **ret_node)
{
    static const char *const OWN[] = {"$name", "$time", "$pid", "$tid", "$host"};
    const char *start = p->at;
    bool own = *p->at == '$';
    p->at += own;
    while (isalnum((unsigned char)*p->at) || *p->at == '_' || (*p->at == '.' && !own))
        p->at++;
    size_t length = (size_t)(p->at - start);
    struct node *n = new_node(p, own ? NODE_OWN : NODE_FIELD);
    const char *name = n ? arena_strndup(&p->filter->arena, start, length) : NULL;
    if (!name)
        return no_memory(p);
    n->name = name;
    for (size_t i = 0; own && i < ARRAY_SIZE(OWN); i++)
        if (strcmp(name, OWN[i]) == 0) {
            n->own = (enum own_field)i;
            *ret_node = n;
            return 0;
        }
    if (own) {
        p->at = start;
        return fail(p, "$name, $time, $pid, $tid or $host");
    }
    n->number = (uint32_t)p->filter->fields.count;
    *ret_node = n;
    return array_add(&p->filter->fields, n) < 0 ? no_memory(p) : 0;
}

static int parse_operand(struct parser *p, struct node **ret_node)
{
    int r;
    skip(p);
    const char *start = p->at;
    if (*p->at == '"' || *p->at == '\'')
        r = parse_string(p, ret_node);
    else if (isdigit((unsigned char)*p->at) || (*p->at == '-' && isdigit((unsigned char)p->at[1])))
        r = parse_number(p, ret_node);
    else if (isalpha((unsigned char)*p->at) || *p->at == '_' || *p->at == '$')
        r = parse_field(p, ret_node);
    else
        return fail(p, "a field, a number or a string");
    if (r < 0)
        return r;
    (*ret_node)->source = arena_strndup(&p->filter->arena, start, (size_t)(p->at - start));
    return (*ret_node)->source ? 0 : no_memory(p);
}

static int parse_comparison(struct parser *p, struct node **ret_node)
{
    static const char *const OPS[] = {"==", "!=", "<=", "<", ">=", ">", "=~", "!~"};
    static const enum compare_op CODES[] = {OP_EQ, OP_NE, OP_LE, OP_LT, OP_GE, OP_GT, OP_LIKE, OP_UNLIKE};
    struct node *left;
    skip(p);
    size_t column = (size_t)(p->at - p->text) + 1;
    int r = parse_operand(p, &left);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(OPS); i++) {
        if (!accept(p, OPS[i]))
            continue;
        struct node *n = new_node(p, NODE_COMPARE);
        if (!n || array_add(&p->filter->comparisons, n) < 0)
            return no_memory(p);
        n->op = CODES[i];
        n->column = column;
        n->left = left;
        *ret_node = n;
        if ((r = parse_operand(p, &n->right)) < 0)
            return r;
        if (n->op >= OP_LIKE && n->right->kind != NODE_TEXT)
            return fail(p, "a string pattern to the right of =~");
        return 0;
    }
    if (left->kind != NODE_FIELD || *p->at == '=')
        return fail(p, "a comparison (== != < <= > >= =~ !~)");
    struct node *n = new_node(p, NODE_TRUTH);
    if (!n)
        return no_memory(p);
    n->left = left;
    *ret_node = n;
    return 0;
}

static int parse_not(struct parser *p, struct node **ret_node)
{
    int r;
    if (++p->depth > MAX_DEPTH)
        return fail(p, "fewer brackets and negations");
    skip(p);
    if (*p->at == '!' && p->at[1] != '=' && p->at[1] != '~') {
        struct node *n = new_node(p, NODE_NOT);
        if (!n)
            return no_memory(p);
        p->at++;
        *ret_node = n;
        r = parse_not(p, &n->left);
    } else if (accept(p, "(")) {
        r = parse_or(p, ret_node);
        if (r >= 0 && !accept(p, ")"))
            r = fail(p, "')'");
    } else {
        r = parse_comparison(p, ret_node);
    }
    p->depth--;
    return r;
}

static int parse_chain(struct parser *p, const char *word, enum node_kind kind,
                       int (*next)(struct parser *, struct node **), struct node **ret_node)
{
    struct node *left;
    int r = next(p, &left);
    while (r >= 0 && accept(p, word)) {
        struct node *n = new_node(p, kind);
        if (!n)
            return no_memory(p);
        n->left = left;
        r = next(p, &n->right);
        left = n;
    }
    if (r >= 0)
        *ret_node = left;
    return r;
}

static int parse_and(struct parser *p, struct node **ret_node)
{
    return parse_chain(p, "&&", NODE_AND, parse_not, ret_node);
}

static int parse_or(struct parser *p, struct node **ret_node)
{
    return parse_chain(p, "||", NODE_OR, parse_and, ret_node);
}

int filter_parse(const char *text, struct problem *problem, struct filter **ret_filter)
{
    _cleanup_(filter_freep) struct filter *f = calloc(1, sizeof(*f));
    if (!f)
        return problem_set(problem, -ENOMEM, "filter: not enough memory");
    struct parser p = {.filter = f, .text = text, .at = text, .problem = problem};
    int r = parse_or(&p, &f->root);
    skip(&p);
    if (r >= 0 && *p.at)
        r = fail(&p, "&& or ||");
    if (r < 0)
        return r;
    *ret_filter = f;
    f = NULL;
    return 0;
}

void filter_free(struct filter *filter)
{
    if (!filter)
        return;
    array_done(&filter->fields);
    array_done(&filter->comparisons);
    map_done(&filter->bindings);
    text_done(&filter->bits[0]);
    text_done(&filter->bits[1]);
    arena_done(&filter->arena);
    free(filter);
}

const char *filter_unknown_field(const struct filter *filter)
{
    for (size_t i = 0; i < filter->fields.count; i++)
        if (!filter->fields.at[i]->seen)
            return filter->fields.at[i]->name;
    return NULL;
}

/* ---- fields ---- */

enum { BOUND_NONE = -1, BOUND_PACKET = -2 }; /* a field of the packet's context: BOUND_PACKET - index */

/* The event's own fields hide those of its packet's context. */
static int32_t find_field(const struct event_class *class, const char *name,
                          const struct trace_field **ret_field)
{
    int32_t i = event_class_find(class, name);
    if (i >= 0) {
        *ret_field = &class->fields[i];
        return i;
    }
    for (uint32_t k = 0; k < class->packet_field_count; k++) {
        if (strcmp(class->packet_fields[k].name, name) == 0) {
            *ret_field = &class->packet_fields[k];
            return BOUND_PACKET - (int32_t)k;
        }
    }
    return BOUND_NONE;
}

/* ---- types ---- */

enum { IS_NUMBER = 1, IS_TEXT = 2 }; /* bits: what an operand can be compared as */

/* 0 when the class does not have the field. */
static unsigned operand_type(const struct node *n, const struct event_class *class)
{
    const struct trace_field *f;
    int32_t i;
    switch (n->kind) {
    case NODE_TEXT:
        return IS_TEXT;
    case NODE_OWN:
        return n->own == OWN_NAME || n->own == OWN_HOST ? IS_TEXT : IS_NUMBER;
    case NODE_FIELD:
        i = class ? find_field(class, n->name, &f) : BOUND_NONE;
        if (i == BOUND_NONE)
            return 0;
        if (f->type == TYPE_STRING || f->type == TYPE_BLOB)
            return IS_TEXT;
        return f->label_count || (i >= 0 && event_names_has_field(class, (uint32_t)i)) ? IS_NUMBER | IS_TEXT
                                                                                       : IS_NUMBER;
    default:
        return IS_NUMBER;
    }
}

static int wrong_type(const struct node *n, const struct event_class *class, struct problem *problem)
{
    bool text = operand_type(n->left, class) == IS_TEXT;
    const char *what = text ? "a string" : "a number", *other = text ? "a number" : "a string";
    const char *in = n->left->kind == NODE_FIELD ? " in " : "",
               *name = n->left->kind == NODE_FIELD ? class->name : "";
    if (n->op >= OP_LIKE)
        problem_set(problem, -EINVAL, "filter, column %zu: %s is %s%s%s, which no pattern can match",
                    n->column, n->left->source, what, in, name);
    else
        problem_set(problem, -EINVAL, "filter, column %zu: %s is %s%s%s and cannot be compared with %s, %s",
                    n->column, n->left->source, what, in, name, n->right->source, other);
    problem_remedy(problem, "Texts stand in quotes: name == \"keys\"; numbers do not: fd == 5.");
    return -EINVAL;
}

int filter_check(const struct filter *filter, const struct event_class *const *classes, size_t count,
                 struct problem *problem)
{
    for (size_t i = 0; i < filter->comparisons.count; i++) {
        const struct node *n = filter->comparisons.at[i];
        const struct event_class *wrong = NULL;
        bool possible = false, known = false;
        for (size_t j = 0; j <= count && !possible; j++) { /* the last one: without a class */
            const struct event_class *class = j < count ? classes[j] : NULL;
            unsigned left = operand_type(n->left, class), right = operand_type(n->right, class);
            unsigned both = left & right & (n->op >= OP_LIKE ? IS_TEXT : IS_TEXT | IS_NUMBER);
            possible = both != 0;
            if (left && right && !both && !known) {
                known = true;
                wrong = class;
            }
        }
        if (known && !possible)
            return wrong_type(n, wrong, problem);
    }
    return 0;
}

/* ---- evaluating ---- */

struct evaluation {
    const struct event *event;
    const int32_t *binding;
    const char *host;
    const struct event_names *names;
    struct text *bits; /* for two operands */
};

static const int32_t *bind(struct filter *f, const struct event_class *class)
{
    if (f->last_class == class)
        return f->last_binding;
    uint64_t *place = map_put(&f->bindings, (uint64_t)(uintptr_t) class, NULL);
    if (!place)
        return NULL;
    int32_t *binding = (int32_t *)(uintptr_t)*place;
    if (!binding) {
        binding = arena_alloc(&f->arena, (f->fields.count + 1) * sizeof(*binding));
        if (!binding)
            return NULL;
        for (size_t i = 0; i < f->fields.count; i++) {
            const struct trace_field *field;
            binding[i] = find_field(class, f->fields.at[i]->name, &field);
            f->fields.at[i]->seen |= binding[i] != BOUND_NONE;
        }
        *place = (uint64_t)(uintptr_t)binding;
    }
    f->last_class = class;
    f->last_binding = binding;
    return binding;
}

static struct operand text_operand(const char *s)
{
    return s ? (struct operand){.kind = OPERAND_TEXT, .s = s, .length = strlen(s)} : (struct operand){0};
}

/* bits: room for the names of a bit map's bits. */
static struct operand field_operand(const struct evaluation *e, const struct node *n, struct text *bits)
{
    int32_t i = e->binding[n->number];
    const struct event_class *class = e->event->class;
    bool own = i >= 0;
    if (own ? !event_has(e->event, (uint32_t)i) : i == BOUND_NONE || !e->event->packet)
        return (struct operand){0};
    const struct trace_field *f = own ? &class->fields[i] : &class->packet_fields[BOUND_PACKET - i];
    const struct value *v = own ? &e->event->values[i] : &e->event->packet[BOUND_PACKET - i];
    if (v->absent)
        return (struct operand){0};
    const char *label = f->label_count ? trace_field_label(f, v)
                        : own          ? event_names_of_field(e->names, e->event, (uint32_t)i)
                                       : NULL;
    if (f->type == TYPE_BITMAP && f->label_count) {
        text_clear(bits);
        label = format_label(bits, f, v) ? text_get(bits) : "";
    }
    switch (f->type) {
    case TYPE_SIGNED:
        return (struct operand){.kind = OPERAND_SIGNED, .i = v->i, .label = label};
    case TYPE_REAL:
        return (struct operand){.kind = OPERAND_REAL, .d = v->d};
    case TYPE_STRING:
    case TYPE_BLOB:
        return (struct operand){.kind = OPERAND_TEXT, .s = v->s, .length = v->length};
    case TYPE_ARRAY:
        return (struct operand){.kind = OPERAND_UNSIGNED, .u = v->length}; /* an array counts as its length */
    default:
        return (struct operand){.kind = OPERAND_UNSIGNED, .u = v->u, .label = label};
    }
}

static struct operand own_operand(const struct evaluation *e, enum own_field own)
{
    switch (own) {
    case OWN_NAME:
        return text_operand(e->event->class->name);
    case OWN_TIME:
        return (struct operand){.kind = OPERAND_UNSIGNED, .u = e->event->time_ns};
    case OWN_PID:
        return (struct operand){.kind = OPERAND_SIGNED, .i = e->event->pid};
    case OWN_TID:
        return (struct operand){.kind = OPERAND_SIGNED, .i = e->event->tid};
    case OWN_HOST:
        return text_operand(e->host);
    }
    return (struct operand){0};
}

static struct operand evaluate(const struct evaluation *e, const struct node *n, struct text *bits)
{
    return n->kind == NODE_FIELD ? field_operand(e, n, bits)
           : n->kind == NODE_OWN ? own_operand(e, n->own)
                                 : n->constant;
}

static double as_real(const struct operand *o)
{
    return o->kind == OPERAND_REAL ? o->d : o->kind == OPERAND_SIGNED ? (double)o->i : (double)o->u;
}

/* -1, 0, 1; 2 when they cannot be compared (NaN). */
static int compare_numbers(const struct operand *a, const struct operand *b)
{
    if (a->kind == OPERAND_REAL || b->kind == OPERAND_REAL) {
        double x = as_real(a), y = as_real(b);
        return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
    }
    bool a_negative = a->kind == OPERAND_SIGNED && a->i < 0,
         b_negative = b->kind == OPERAND_SIGNED && b->i < 0;
    if (a_negative != b_negative)
        return a_negative ? -1 : 1;
    uint64_t x = a->kind == OPERAND_SIGNED ? (uint64_t)a->i : a->u,
             y = b->kind == OPERAND_SIGNED ? (uint64_t)b->i : b->u;
    return (x > y) - (x < y);
}

static int compare_texts(const struct operand *a, const struct operand *b)
{
    size_t shorter = a->length < b->length ? a->length : b->length;
    int r = memcmp(a->s, b->s, shorter);
    return r ? (r > 0) - (r < 0) : (a->length > b->length) - (a->length < b->length);
}

static bool like(const struct operand *text, const struct operand *pattern)
{
    char copy[4096]; /* patterns want a NUL; longer texts match by their start */
    size_t n = text->length < sizeof(copy) - 1 ? text->length : sizeof(copy) - 1;
    memcpy(copy, text->s, n);
    copy[n] = '\0';
    return fnmatch(pattern->s, copy, 0) == 0;
}

static bool compare(const struct evaluation *e, const struct node *n)
{
    struct operand a = evaluate(e, n->left, &e->bits[0]), b = evaluate(e, n->right, &e->bits[1]);
    if (a.kind != OPERAND_TEXT && b.kind == OPERAND_TEXT && a.label)
        a = text_operand(a.label);
    if (b.kind != OPERAND_TEXT && a.kind == OPERAND_TEXT && b.label)
        b = text_operand(b.label);
    if (a.kind == OPERAND_NONE || b.kind == OPERAND_NONE)
        return false;
    if ((a.kind == OPERAND_TEXT) != (b.kind == OPERAND_TEXT))
        return n->op == OP_NE || n->op == OP_UNLIKE;
    if (n->op >= OP_LIKE)
        return a.kind == OPERAND_TEXT && like(&a, &b) == (n->op == OP_LIKE);
    int order = a.kind == OPERAND_TEXT ? compare_texts(&a, &b) : compare_numbers(&a, &b);
    switch (n->op) {
    case OP_EQ:
        return order == 0;
    case OP_NE:
        return order != 0;
    case OP_LT:
        return order == -1;
    case OP_LE:
        return order == -1 || order == 0;
    case OP_GT:
        return order == 1;
    default:
        return order == 1 || order == 0;
    }
}

static bool truth(const struct evaluation *e, const struct node *n)
{
    struct operand o = evaluate(e, n, &e->bits[0]);
    return o.kind == OPERAND_TEXT ? o.length > 0 : o.kind != OPERAND_NONE && as_real(&o) != 0;
}

static bool passes(const struct evaluation *e, const struct node *n)
{
    switch (n->kind) {
    case NODE_AND:
        return passes(e, n->left) && passes(e, n->right);
    case NODE_OR:
        return passes(e, n->left) || passes(e, n->right);
    case NODE_NOT:
        return !passes(e, n->left);
    case NODE_COMPARE:
        return compare(e, n);
    default:
        return truth(e, n->left);
    }
}

bool filter_matches(struct filter *filter, const struct event *event, const char *host,
                    const struct event_names *names)
{
    struct evaluation e = {event, bind(filter, event->class), host, names, filter->bits};
    return e.binding && passes(&e, filter->root);
}
