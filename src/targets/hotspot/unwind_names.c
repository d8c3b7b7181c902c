/* What HotSpot's methods are called.
 *
 * Names are read later than the stacks that they are for, and by then what lay at an address may be
 * another's. Three things tell. With an interpreted method the kernel's half sends what its name was
 * recognised by. The machine counts the classes that it unloads, before it frees their memory: a method that
 * was on a stack is still there while the count is what it was then. Compiled code carries a number of its
 * own: what was in the code cache when that was read before the stack, and still is, was there, and so are
 * its methods, whose memory is freed after the code's. But that they were on no stack when their class was
 * unloaded: what is read of them then is not kept for others. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/hotspot/unwind_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "symbol/memory.h"

enum { SCOPES_LIMIT = 64, NAMES_LIMIT = 50000 };

static bool read_symbol(const struct hotspot *h, uint64_t symbol, char *buffer, size_t size)
{
    uint16_t length;
    if (!symbol || memory_read(h->pid, symbol + h->fields[SYMBOL_LENGTH], &length, sizeof(length)) < 0)
        return false;
    size_t n = MIN((size_t)length, size - 1);
    if (memory_read(h->pid, symbol + h->fields[SYMBOL_BODY], buffer, n) < 0)
        return false;
    buffer[n] = '\0';
    return n > 0;
}

/* Hidden classes carry a number that differs between instances: Foo$$Lambda/0x00007f..., Foo$$Lambda$14/0x...
 */
static void drop_instance(char *class)
{
    char *at = strstr(class, "/0x");
    if (!at)
        at = strstr(class, "+0x");
    if (at)
        *at = '\0';
    at = strstr(class, "$$Lambda$");
    if (at)
        at[8] = '\0';
    at = strstr(class, "GeneratedMethodAccessor");
    if (at)
        at[23] = '\0';
    at = strstr(class, "GeneratedConstructorAccessor");
    if (at)
        at[28] = '\0';
}

/* What lies at a Method is called, or NULL when it cannot be read; owned by the caller. */
static char *read_method_name(const struct hotspot *h, uint64_t method)
{
    char class[400], name[200], full[600];
    uint16_t index = 0;
    uint64_t constant = hotspot_word(h, method + h->fields[METHOD_CONST]);
    uint64_t pool = constant ? hotspot_word(h, constant + h->fields[CONST_POOL]) : 0;
    if (!pool || memory_read(h->pid, constant + h->fields[CONST_NAME], &index, sizeof(index)) < 0 ||
        !read_symbol(h, hotspot_word(h, pool + h->pool_size + 8ull * index), name, sizeof(name)) ||
        !read_symbol(h,
                     hotspot_word(h, hotspot_word(h, pool + h->fields[POOL_HOLDER]) + h->fields[KLASS_NAME]),
                     class, sizeof(class)))
        return NULL;
    drop_instance(class);
    for (char *c = class; *c; c++)
        *c = *c == '/' ? '.' : *c;
    snprintf(full, sizeof(full), "%s.%s", class, name);
    return strdup(full);
}

/* What lies at a Method is recognised by; 0: it cannot be read, or not be told. The same as java_identity()
 * in bpf/walk.h. */
static uint64_t read_identity(const struct hotspot *h, uint64_t method)
{
    struct sampler_java_name name = {0};
    uint16_t index = 0, length = 0;
    uint64_t constant = hotspot_word(h, method + h->fields[METHOD_CONST]);
    uint64_t pool = constant ? hotspot_word(h, constant + h->fields[CONST_POOL]) : 0;
    if (!h->java.symbol_mask || !pool ||
        memory_read(h->pid, constant + h->fields[CONST_NAME], &index, sizeof(index)) < 0)
        return 0;
    uint64_t class = hotspot_word(h, pool + h->fields[POOL_HOLDER]);
    name.method_symbol = hotspot_word(h, pool + h->pool_size + 8ull * index);
    name.class_symbol = class ? hotspot_word(h, class + h->fields[KLASS_NAME]) : 0;
    name.method_word = hotspot_word(h, name.method_symbol);
    name.class_word = hotspot_word(h, name.class_symbol);
    if (!name.method_word || !name.class_word ||
        memory_read(h->pid, name.class_symbol + h->fields[SYMBOL_LENGTH], &length, sizeof(length)) < 0)
        return 0;
    if (length >= 8)
        name.class_end = hotspot_word(h, name.class_symbol + h->fields[SYMBOL_BODY] + length - 8);
    return sampler_java_identity(&name, h->java.symbol_mask);
}

enum evidence { BY_IDENTITY, BY_COUNT };

/* A name that was read of this method; evidence: its identity, or how many classes had been unloaded while it
 * was there. */
static const char *known_name(const struct hotspot *h, uint64_t method, enum evidence kind, uint64_t evidence)
{
    const uint64_t key[] = {method, kind, evidence}, *at = map_get(&h->methods, map_hash(key, sizeof(key)));
    return at ? h->names.at[*at] : NULL;
}

/* Takes the name over. NULL: no memory. */
static const char *keep_name(struct hotspot *h, uint64_t method, enum evidence kind, uint64_t evidence,
                             char *name)
{
    const uint64_t key[] = {method, kind, evidence}, hash = map_hash(key, sizeof(key));
    if (h->names.count >= NAMES_LIMIT)
        hotspot_forget_names(h);
    uint64_t *at = name ? map_put(&h->methods, hash, NULL) : NULL;
    if (!at || array_add(&h->names, name) < 0) {
        if (at)
            map_remove(&h->methods, hash);
        free(name);
        return NULL;
    }
    *at = h->names.count - 1;
    return name;
}

/* The name of a method that was on a stack; NULL: what lies there now may be another's, or is none. */
static const char *counted_name(struct hotspot *h, uint64_t method, const struct hotspot_moment *when)
{
    if (when->unloads == HOTSPOT_UNKNOWN)
        return NULL;
    const char *known = known_name(h, method, BY_COUNT, when->unloads);
    if (known)
        return known;
    char *name = read_method_name(h, method);
    if (name && hotspot_unloads_now(h) == when->unloads)
        return keep_name(h, method, BY_COUNT, when->unloads, name);
    free(name);
    return NULL;
}

static const char *identified_name(struct hotspot *h, uint64_t method, uint64_t identity)
{
    const char *known = known_name(h, method, BY_IDENTITY, identity);
    if (known)
        return known;
    char *name = read_identity(h, method) == identity ? read_method_name(h, method) : NULL;
    if (name && read_identity(h, method) == identity)
        return keep_name(h, method, BY_IDENTITY, identity, name);
    free(name);
    return NULL;
}

static void add_frame(struct hotspot_frame *frames, size_t limit, size_t *count, const char *name,
                      bool is_method)
{
    if (*count < limit) {
        snprintf(frames[*count].name, sizeof(frames[*count].name), "%s", name);
        frames[*count].gone = false;
        frames[(*count)++].is_method = is_method;
    }
}

static size_t only_gone(struct hotspot_frame *frames)
{
    frames[0] = (struct hotspot_frame){.is_method = true, .gone = true};
    return 1;
}

/* UNSIGNED5: up to five bytes, the low six bits of each add up; bytes below a bound end the number. Since
 * version 20 zero bytes are left out, which moves everything by one. */
static bool take_number(const struct hotspot *h, const uint8_t **at, const uint8_t *end, uint32_t *ret)
{
    uint32_t exclude = h->major >= 20, sum = 0;
    for (int i = 0; i < 5 && *at < end; i++) {
        uint32_t byte = *(*at)++;
        sum += (byte - exclude) << (6 * i);
        if (byte < 192 || i == 4) {
            *ret = sum;
            return true;
        }
    }
    return false;
}

/* Where a method's debug information lies. */
struct scopes {
    uint64_t pcs, data,
        methods; /* PcDesc entries, what they lead to, the methods that that names by number */
    int32_t pc_count;
};

static bool find_scopes(const struct hotspot *h, const struct blob *b, struct scopes *ret)
{
    bool apart = h->has[IMMUTABLE];
    if (!h->has[SCOPES_PCS] ||
        !(apart ? h->has[SCOPES_DATA_OFFSET] : h->has[SCOPES_DATA] && h->has[DEPENDENCIES]) ||
        !(apart && h->has[MUTABLE] ? h->has[RELOCATION] : h->has[METADATA]))
        return false;
    uint64_t base = apart ? (uint64_t)hotspot_field(h, b->blob, IMMUTABLE) : b->blob;
    int64_t first = hotspot_field(h, b->blob, SCOPES_PCS);
    int64_t end = hotspot_field(h, b->blob, apart ? SCOPES_DATA_OFFSET : DEPENDENCIES);
    if (!base || first < 0 || (!apart && first == 0) || end <= first ||
        (end - first) / (int64_t)h->pc_size > 1 << 20)
        return false;
    ret->pcs = base + (uint64_t)first;
    ret->pc_count = (int32_t)((end - first) / (int64_t)h->pc_size);
    ret->data = apart ? base + (uint64_t)end : (uint64_t)hotspot_field(h, b->blob, SCOPES_DATA);
    if (apart && h->has[MUTABLE])
        ret->methods = (uint64_t)(hotspot_field(h, b->blob, MUTABLE) + hotspot_field(h, b->blob, RELOCATION));
    else
        ret->methods = b->blob + (uint64_t)(hotspot_field(h, b->blob, METADATA) +
                                            (apart ? hotspot_field(h, b->blob, BLOB_DATA) : 0));
    return true;
}

/* The offset of the scope at an address: that of the first description at or behind it. */
static int32_t scope_at(const struct hotspot *h, const struct scopes *s, int32_t wanted)
{
    int32_t low = 0, high = s->pc_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (hotspot_field(h, s->pcs + (uint64_t)middle * h->pc_size, PC_OFFSET) < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->pc_count ? (int32_t)hotspot_field(h, s->pcs + (uint64_t)low * h->pc_size, PC_SCOPE) : 0;
}

static size_t find_methods(const struct hotspot *h, const struct blob *b, const struct scopes *scopes,
                           uint64_t pc, uint64_t methods[SCOPES_LIMIT])
{
    size_t count = 0;
    int32_t offset = scope_at(h, scopes, (int32_t)(pc - b->start));
    while (offset > 0 && count < SCOPES_LIMIT) {
        uint8_t bytes[16];
        uint32_t sender, method;
        const uint8_t *at = bytes;
        if (memory_read(h->pid, scopes->data + (uint64_t)offset, bytes, sizeof(bytes)) < 0 ||
            !take_number(h, &at, bytes + sizeof(bytes), &sender) ||
            !take_number(h, &at, bytes + sizeof(bytes), &method) || method == 0 || method > 1 << 20)
            return 0;
        methods[count++] = hotspot_word(h, scopes->methods + 8ull * (method - 1));
        if (sender >= (uint32_t)offset)
            break;
        offset = (int32_t)sender;
    }
    return count;
}

static size_t name_methods(struct hotspot *h, const uint64_t *methods, size_t method_count, uint64_t unloads,
                           struct hotspot_frame *frames, size_t limit)
{
    size_t count = 0;
    for (size_t i = 0; i < method_count; i++) {
        const char *known = known_name(h, methods[i], BY_COUNT, unloads);
        _cleanup_(freep) char *name = known ? NULL : read_method_name(h, methods[i]);
        if (!known && !name)
            return 0;
        add_frame(frames, limit, &count, known ? known : name, true);
    }
    return count;
}

/* Of code that was there: so are its methods, and those inlined into it, if it is all there when they have
 * been read. Of a process that cannot be read any more, what the outermost one was called. */
static size_t name_compiled(struct hotspot *h, const struct blob *b, uint64_t pc,
                            const struct hotspot_moment *when, struct hotspot_frame *frames, size_t limit)
{
    struct scopes scopes = {0}, again = {0};
    uint64_t methods[SCOPES_LIMIT];
    bool found = find_scopes(h, b, &scopes);
    size_t method_count = found ? find_methods(h, b, &scopes, pc, methods) : 0;
    size_t count = name_methods(h, methods, method_count, when->unloads, frames, limit);
    if (!count) {
        methods[0] = b->method;
        count = name_methods(h, methods, 1, when->unloads, frames, limit);
    }
    if (!count || find_scopes(h, b, &again) != found || memcmp(&scopes, &again, sizeof(scopes)) != 0 ||
        !hotspot_is_there(h, b))
        return only_gone(frames);
    if (when->unloads != HOTSPOT_UNKNOWN && hotspot_unloads_now(h) == when->unloads)
        for (size_t i = 0; i < count; i++) /* nothing has left since: they hold for others */
            if (!known_name(h, methods[i], BY_COUNT, when->unloads))
                keep_name(h, methods[i], BY_COUNT, when->unloads, strdup(frames[i].name));
    return count;
}

static size_t name_interpreted(struct hotspot *h, const struct hotspot_place *place,
                               const struct hotspot_moment *when, struct hotspot_frame *frames, size_t limit)
{
    size_t count = 0;
    const char *name = place->identity ? identified_name(h, place->method, place->identity)
                                       : counted_name(h, place->method, when);
    _cleanup_(freep) char *other = name ? NULL : read_method_name(h, place->method);
    if (!name && (other || place->identity))
        return only_gone(frames);
    add_frame(frames, limit, &count, name ? name : "[interpreted method]", name != NULL);
    return count;
}

size_t hotspot_name(struct hotspot *h, const struct hotspot_place *place, const struct hotspot_moment *when,
                    struct hotspot_frame *frames, size_t limit)
{
    size_t count = 0;
    if (place->method)
        return name_interpreted(h, place, when, frames, limit);
    const struct blob *b = hotspot_blob_at(h, place->pc - place->call);
    if (!b || (b->kind == BLOB_METHOD && !hotspot_is_there(h, b)))
        return h->counter && when->time_ns < h->read_ns && hotspot_has_code(h, place->pc) ? only_gone(frames)
                                                                                          : 0;
    if (b->kind == BLOB_METHOD && !hotspot_was_there(h, b, when))
        return only_gone(frames);
    if (b->kind == BLOB_METHOD)
        return name_compiled(h, b, place->pc, when, frames, limit);
    add_frame(frames, limit, &count, b->name, false);
    return count;
}
