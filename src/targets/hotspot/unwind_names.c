/* What HotSpot's methods are called.
 *
 * Names are read later than the stacks that they are for, and by then what lay at an address may be
 * another's. Two things tell. The machine counts the classes that it unloads, before it frees their memory: a
 * name that was read while the count was what it had been with the stack is right. Compiled code carries a
 * number of its own: what was in the code cache when that was read before the stack, and still is, was there.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/hotspot/unwind_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "symbol/memory.h"

enum { SCOPES_LIMIT = 64 };

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

static struct method_name *known_name(struct hotspot *h, uint64_t method)
{
    const uint64_t *at = map_get(&h->methods, method);
    return at ? &h->names.at[*at] : NULL;
}

/* Takes the name over, which was read while so many classes had been unloaded. NULL: no memory. */
static const char *keep_name(struct hotspot *h, uint64_t method, char *name, uint64_t unloads)
{
    struct method_name fresh = {name, clock_monotonic_ns(), unloads, unloads}, *known = known_name(h, method);
    if (known) {
        free(known->name);
        *known = fresh;
        return name;
    }
    uint64_t *at = map_put(&h->methods, method, NULL);
    if (!at || array_add(&h->names, fresh) < 0) {
        if (at)
            map_remove(&h->methods, method);
        free(name);
        return NULL;
    }
    *at = h->names.count - 1;
    return name;
}

/* A method that was on a stack was not freed before that, but may have been since: what is read now is its
 * name if no class has been unloaded in between, or if it was called so already. What is read in any other
 * case is not kept either: the memory of a method that has left still looks like it until it is used again.
 * Sets *ret_gone when there is a name, of which it is not known whether it is this method's. */
static const char *method_name(struct hotspot *h, uint64_t method, const struct hotspot_moment *when,
                               bool *ret_gone)
{
    struct method_name *known = known_name(h, method);
    *ret_gone = false;
    if (known && (!h->counter || (when->unloads != HOTSPOT_UNKNOWN && when->unloads >= known->from &&
                                  when->unloads <= known->until)))
        return known->name;
    uint64_t before = hotspot_unloads_now(h);
    char *name = read_method_name(h, method);
    uint64_t now = hotspot_unloads_now(h);
    if (!name)
        return NULL;
    bool same = known && strcmp(known->name, name) == 0, present = before == now && when->unloads == now;
    if (!h->counter || (present && !same))
        return keep_name(h, method, name, now);
    free(name);
    if (same && (when->time_ns >= known->from_ns || present)) {
        if (when->unloads != HOTSPOT_UNKNOWN)
            known->until = MAX(known->until, when->unloads);
        return known->name;
    }
    *ret_gone = true;
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

static size_t name_scopes(struct hotspot *h, const struct blob *b, uint64_t pc,
                          const struct hotspot_moment *when, struct hotspot_frame *frames, size_t limit)
{
    size_t count = 0;
    bool gone;
    struct scopes scopes;
    if (!find_scopes(h, b, &scopes))
        return 0;
    int32_t offset = scope_at(h, &scopes, (int32_t)(pc - b->start));
    for (int i = 0; offset > 0 && i < SCOPES_LIMIT; i++) {
        uint8_t bytes[16];
        uint32_t sender, method;
        const uint8_t *at = bytes;
        if (memory_read(h->pid, scopes.data + (uint64_t)offset, bytes, sizeof(bytes)) < 0 ||
            !take_number(h, &at, bytes + sizeof(bytes), &sender) ||
            !take_number(h, &at, bytes + sizeof(bytes), &method) || method == 0 || method > 1 << 20)
            return 0;
        const char *name = method_name(h, hotspot_word(h, scopes.methods + 8ull * (method - 1)), when, &gone);
        if (!name)
            return 0;
        add_frame(frames, limit, &count, name, true);
        if (sender >= (uint32_t)offset)
            break;
        offset = (int32_t)sender;
    }
    return count;
}

/* Of code that is there and was there: so are its methods, and those inlined into it. Of a process that
 * cannot be read any more, what the outermost one was called. */
static size_t name_compiled(struct hotspot *h, const struct blob *b, uint64_t pc,
                            const struct hotspot_moment *when, struct hotspot_frame *frames, size_t limit)
{
    struct hotspot_moment now = {clock_monotonic_ns(), hotspot_unloads_now(h)};
    size_t count = name_scopes(h, b, pc, &now, frames, limit);
    bool gone;
    const char *name = count ? NULL : method_name(h, b->method, &now, &gone);
    if (!count && !name)
        name = method_name(h, b->method, when, &gone);
    if (name)
        add_frame(frames, limit, &count, name, true);
    return hotspot_is_there(h, b) ? count : only_gone(frames);
}

size_t hotspot_name(struct hotspot *h, uint64_t pc, bool call, uint64_t method,
                    const struct hotspot_moment *when, struct hotspot_frame *frames, size_t limit)
{
    size_t count = 0;
    bool gone;
    if (method) {
        const char *name = method_name(h, method, when, &gone);
        if (gone)
            return only_gone(frames);
        add_frame(frames, limit, &count, name ? name : "[interpreted method]", name != NULL);
        return count;
    }
    const struct blob *b = hotspot_blob_at(h, pc - call);
    if (!b || (b->kind == BLOB_METHOD && !hotspot_is_there(h, b)))
        return h->counter && when->time_ns < h->read_ns && hotspot_has_code(h, pc) ? only_gone(frames) : 0;
    if (b->kind == BLOB_METHOD && !hotspot_was_there(h, b, when))
        return only_gone(frames);
    if (b->kind == BLOB_METHOD)
        count = name_compiled(h, b, pc, when, frames, limit);
    if (!count)
        add_frame(frames, limit, &count, b->name, false);
    return count;
}
