/* HotSpot's code cache: the blocks of its heaps as unwind rows, and one step up a stack. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/hotspot/unwind_parts.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "symbol/memory.h"
#include "unwind/sampler.h"

enum { BLOBS_LIMIT = 400000 };

/* Valid until the next call; NULL when it cannot be read. */
static const uint8_t *peek(struct hotspot *h, uint64_t address, size_t size)
{
    struct window *w = &h->window;
    if (address < w->start || address - w->start + size > w->size) {
        ssize_t n = memory_read_some(h->pid, address, w->bytes, sizeof(w->bytes));
        w->start = address;
        w->size = n > 0 ? (size_t)n : 0;
    }
    return size <= w->size ? w->bytes + (address - w->start) : NULL;
}

static enum blob_kind kind_of(const char *name)
{
    if (strcmp(name, "nmethod") == 0 || strcmp(name, "native nmethod") == 0)
        return BLOB_METHOD;
    if (strcmp(name, "Interpreter") == 0)
        return BLOB_INTERPRETER;
    if (strstr(name, "adapters") || strstr(name, "vtable") || strstr(name, "itable"))
        return BLOB_NO_FRAME;
    return BLOB_STUB;
}

/* push rbp; [mov rbp, rsp]; sub rsp, n; or for leaves: sub rsp, n + 8; mov [rsp + n], rbp. A check for the
 * collector may follow before the frame counts as complete. */
static void find_prologue(struct blob *b, const uint8_t *code, int complete)
{
    int size = b->frame_words * 8;
    b->body = (uint8_t)complete;
    b->pushed = (uint8_t)MAX(complete - (size - 16 < 128 ? 4 : 7), 0);
    for (int i = 0; code && i < complete; i++) {
        if (size == 16 && code[i] == 0x55) { /* no room needed */
            b->pushed = b->body = (uint8_t)(i + 1);
            continue;
        }
        if (i + 4 > complete || code[i] != 0x48 || (code[i + 1] & 0xfd) != 0x81 || code[i + 2] != 0xec)
            continue;
        int32_t room = code[i + 3], length = code[i + 1] == 0x83 ? 4 : 7;
        if (i + length > complete)
            continue;
        if (length == 7)
            memcpy(&room, code + i + 3, sizeof(room));
        int push = i >= 1 && code[i - 1] == 0x55 ? i - 1 : i >= 4 && code[i - 4] == 0x55 ? i - 4 : -1;
        if (room == size - 16 && push >= 0) {
            b->pushed = (uint8_t)(push + 1);
            b->body = (uint8_t)(i + length);
            return;
        }
        if (room == size - 8) {
            b->frame_first = true;
            b->pushed = (uint8_t)(i + length);
            b->body = (uint8_t)MIN(i + length + (room - 8 < 128 ? 5 : 8), complete);
            return;
        }
    }
}

static bool read_name(struct hotspot *h, uint64_t address, struct blob *blob)
{
    struct stub_name *last = &h->last_name;
    if (address != last->address) {
        last->address = 0;
        if (memory_read_string(h->pages, h->pid, address, last->name, sizeof(last->name)) < 0)
            return false;
        last->address = address;
    }
    memcpy(blob->name, last->name, sizeof(blob->name));
    return true;
}

/* The blob at an address, in a block of so many segments and bytes. */
static void read_blob(struct hotspot *h, uint64_t at, uint64_t length, uint64_t size)
{
    enum { BLOB_BYTES = 512, PROLOGUE_BYTES = 128 };
    struct blob blob = {.blob = at, .length = (uint32_t)length};
    size = MIN(size, BLOB_BYTES);
    const uint8_t *bytes = peek(h, at, size);
    if (!bytes)
        return;
    if (h->has[BLOB_CODE]) {
        blob.start = at + (uint64_t)hotspot_take(h, bytes, size, BLOB_CODE);
        blob.end = at + (uint64_t)hotspot_take(h, bytes, size, BLOB_DATA);
    } else {
        blob.start = (uint64_t)hotspot_take(h, bytes, size, BLOB_BEGIN);
        blob.end = (uint64_t)hotspot_take(h, bytes, size, BLOB_END);
    }
    blob.frame_words = (int32_t)hotspot_take(h, bytes, size, BLOB_FRAME);
    int complete = (int)hotspot_take(h, bytes, size, BLOB_COMPLETE);
    if (blob.start >= blob.end || blob.end - blob.start > 64u << 20 ||
        !read_name(h, (uint64_t)hotspot_take(h, bytes, size, BLOB_NAME), &blob))
        return;
    blob.kind = kind_of(blob.name);
    if (blob.kind == BLOB_METHOD) {
        blob.method = (uint64_t)hotspot_take(h, bytes, size, CODE_METHOD);
        blob.number = (uint32_t)hotspot_take(h, bytes, size, CODE_NUMBER);
    }
    if (blob.frame_words > 1 && complete > 0 && complete < PROLOGUE_BYTES &&
        (uint64_t)complete < blob.end - blob.start)
        find_prologue(&blob, peek(h, blob.start, (size_t)complete), complete);
    if (array_add(&h->blobs, blob) < 0)
        return;
}

static void read_heap(struct hotspot *h, uint64_t heap)
{
    uint64_t low = hotspot_word(h, heap + h->fields[HEAP_MEMORY] + h->fields[SPACE_LOW]);
    uint64_t high = hotspot_word(h, heap + h->fields[HEAP_MEMORY] + h->fields[SPACE_HIGH]);
    int32_t shift = hotspot_number(h, heap + h->fields[HEAP_LOG2]);
    if (!low || high <= low || shift < 3 || shift > 20 || h->block_size > 64)
        return;
    h->low = h->low ? MIN(h->low, low) : low;
    h->high = MAX(h->high, high);
    for (uint64_t at = low; at < high && h->blobs.count < BLOBS_LIMIT;) {
        const uint8_t *header = peek(h, at, h->block_size);
        uint64_t length = header ? (uint64_t)hotspot_take(h, header, h->block_size, BLOCK_LENGTH) : 0;
        if (!length || length > (high - at) >> shift)
            return;
        if (hotspot_take(h, header, h->block_size, BLOCK_USED))
            read_blob(h, at + h->block_size, length, (length << shift) - h->block_size);
        at += length << shift;
    }
}

static int by_start(const void *a, const void *b)
{
    const struct blob *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool is_same(const struct blob *a, const struct blob *b)
{
    return a->blob == b->blob && a->start == b->start && a->end == b->end && a->length == b->length &&
           a->method == b->method && a->number == b->number;
}

/* What of it was there when it was read before, and what replaces something else. Both by start. */
static void compare_with_former(struct hotspot *h, uint64_t unloads)
{
    const struct blob *former = h->former.at, *end = former + h->former.count;
    array_foreach (&h->blobs, b) {
        b->since_ns = h->read_ns;
        b->since = unloads;
        while (former < end && former->end <= b->start)
            former++;
        if (former == end || former->start >= b->end)
            continue;
        b->replaces = !is_same(former, b);
        if (!b->replaces) {
            b->since_ns = former->since_ns;
            b->since = former->since;
            b->replaces = former->replaces;
        }
    }
}

int hotspot_refresh(struct hotspot *h)
{
    uint64_t heaps = hotspot_word(h, h->fields[HEAPS]), data = hotspot_word(h, heaps + h->fields[GROW_DATA]);
    int32_t count = hotspot_number(h, heaps + h->fields[GROW_LEN]);
    uint64_t unloads = hotspot_unloads_now(h);
    if (!count) /* it is not there yet, or cannot be read any more */
        return -ENOENT;
    h->former = h->blobs;
    memset(&h->blobs, 0, sizeof(h->blobs));
    (void)array_reserve(&h->blobs, h->former.count);
    h->low = h->high = 0;
    h->window.size = 0;
    h->last_name.address = 0;
    for (int32_t i = 0; i < count && i < 16; i++)
        read_heap(h, hotspot_word(h, data + 8u * (unsigned)i));
    if (h->blobs.count)
        qsort(h->blobs.at, h->blobs.count, sizeof(*h->blobs.at), by_start);
    h->read_ns = clock_monotonic_ns();
    compare_with_former(h, unloads == hotspot_unloads_now(h) ? unloads : HOTSPOT_UNKNOWN);
    array_done(&h->former);
    return h->blobs.count ? 0 : -ENOENT;
}

void hotspot_range(const struct hotspot *h, uint64_t *ret_start, uint64_t *ret_end)
{
    *ret_start = h->low;
    *ret_end = h->high;
}

static void add_row(struct unwind_row *rows, size_t limit, size_t *count, uint64_t pc, int cfa, int offset,
                    int rbp)
{
    if (*count && rows[*count - 1].pc == (unsigned)pc)
        --*count;
    if (*count < limit)
        rows[(*count)++] = (struct unwind_row){.pc = (unsigned)pc,
                                               .cfa_offset = (short)offset,
                                               .rbp_offset = (signed char)rbp,
                                               .rule = (unsigned char)(cfa | (rbp ? RBP_AT_CFA << 4 : 0))};
}

/* Until the frame is there, the return address is on top, or below rbp. */
static void add_compiled(const struct blob *b, uint64_t base, struct unwind_row *rows, size_t limit,
                         size_t *count)
{
    uint64_t start = b->start - base;
    int size = b->frame_words * 8;
    if (b->body) {
        add_row(rows, limit, count, start, CFA_RSP, 8, 0);
        if (size <= 32000)
            add_row(rows, limit, count, start + b->pushed, CFA_RSP, b->frame_first ? size : 16,
                    b->frame_first ? 0 : -2);
    }
    if (size > 32000)
        add_row(rows, limit, count, start + b->body, CFA_GAP, 0, 0);
    else
        add_row(rows, limit, count, start + b->body, CFA_RSP, size, -2);
}

static void add_blob(const struct hotspot *h, const struct blob *b, struct unwind_row *rows, size_t limit,
                     size_t *count)
{
    uint64_t start = b->start - h->low;
    if (b->kind == BLOB_INTERPRETER)
        add_row(rows, limit, count, start, CFA_RBP, SAMPLER_JAVA_INTERPRETED, 0);
    else if (b->kind == BLOB_NO_FRAME)
        add_row(rows, limit, count, start, CFA_RSP, 8, 0);
    else if (b->frame_words > 1)
        add_compiled(b, h->low, rows, limit, count);
    else
        add_row(rows, limit, count, start, CFA_RBP, 16, -2);
    add_row(rows, limit, count, b->end - h->low, CFA_GAP, 0, 0);
}

size_t hotspot_row_limit(const struct hotspot *h)
{
    return 1 + 4 * h->blobs.count; /* add_compiled() and the end */
}

size_t hotspot_rows(const struct hotspot *h, struct unwind_row *rows, size_t limit)
{
    size_t count = 0;
    add_row(rows, limit, &count, 0, CFA_GAP, 0, 0);
    array_foreach (&h->blobs, b)
        add_blob(h, b, rows, limit, &count);
    return count;
}

const struct blob *hotspot_blob_at(const struct hotspot *h, uint64_t address)
{
    size_t low = 0, high = h->blobs.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (h->blobs.at[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < h->blobs.at[low - 1].end ? &h->blobs.at[low - 1] : NULL;
}

bool hotspot_is_there(const struct hotspot *h, const struct blob *b)
{
    uint8_t head[64];
    if (memory_read(h->pid, b->blob - h->block_size, head, h->block_size) < 0)
        return true;
    return hotspot_take(h, head, h->block_size, BLOCK_USED) &&
           (uint32_t)hotspot_take(h, head, h->block_size, BLOCK_LENGTH) == b->length &&
           (uint64_t)hotspot_field(h, b->blob, CODE_METHOD) == b->method &&
           (uint32_t)hotspot_field(h, b->blob, CODE_NUMBER) == b->number;
}

bool hotspot_was_there(const struct hotspot *h, const struct blob *b, const struct hotspot_moment *when)
{
    return when->time_ns >= b->since_ns ||
           (!b->replaces && (!h->counter || (when->unloads != HOTSPOT_UNKNOWN && when->unloads == b->since)));
}

/* ---- stepping on a copy: the same as the kernel's half does on the stack itself ---- */

/* Interpreter: rbp - 8 the caller's stack pointer, rbp - 24 the method. */
static enum native_step step_interpreted(const struct stack_copy *stack, struct registers *r,
                                         uint64_t *ret_method)
{
    uint64_t sender, method, fp, pc;
    if (r->fp < r->sp || r->fp % 8 || !stack_word(stack, r->fp - 24, &method) ||
        !stack_word(stack, r->fp - 8, &sender) || !stack_word(stack, r->fp, &fp) ||
        !stack_word(stack, r->fp + 8, &pc))
        return STEP_NO_STACK;
    *ret_method = method;
    *r = (struct registers){.pc = pc, .sp = MAX(sender, r->fp + 16), .fp = fp};
    return pc ? STEP_CALLER : STEP_END;
}

/* The last instructions of a compiled method, its frame partly gone. */
static bool leave_method(const struct hotspot *h, const struct stack_copy *stack, struct registers *r,
                         uint64_t *ret_cfa)
{
    uint64_t bytes = 0;
    memory_read(h->pid, r->pc, &bytes, sizeof(bytes));
    if ((uint8_t)bytes == 0xc3 || (bytes & 0xffffff) == 0xa73b49 || (bytes & 0xffffff) == 0x673b49 ||
        ((bytes & 0xffff) == 0x870f && (uint8_t)(bytes >> 48) == 0xc3)) {
        *ret_cfa = r->sp + 8;
        return true;
    }
    if ((uint8_t)bytes == 0x5d) { /* pop rbp */
        *ret_cfa = r->sp + 16;
        return stack_word(stack, r->sp, &r->fp);
    }
    return false;
}

bool hotspot_has_code(const struct hotspot *h, uint64_t pc)
{
    return pc >= h->low && pc < h->high;
}

static bool is_return(const struct hotspot *h, uint64_t pc)
{
    uint64_t bytes;
    const struct blob *b = hotspot_has_code(h, pc) ? hotspot_blob_at(h, pc) : NULL;
    return b && (b->kind == BLOB_INTERPRETER ||
                 (memory_read(h->pid, pc - 8, &bytes, sizeof(bytes)) == 0 && unwind_follows_call(bytes)));
}

enum native_step hotspot_step(const struct hotspot *h, const struct stack_copy *stack,
                              struct registers *registers, bool call, uint64_t *ret_method)
{
    struct unwind_row rows[8], row;
    struct registers r = *registers;
    size_t count = 0;
    uint64_t pc = r.pc - call, cfa;
    const struct blob *b = hotspot_blob_at(h, pc);
    *ret_method = 0;
    if (!b)
        return STEP_NO_MODULE;
    if (b->kind == BLOB_INTERPRETER)
        return step_interpreted(stack, registers, ret_method);
    add_blob(h, b, rows, ARRAY_SIZE(rows), &count);
    row = rows[0];
    for (size_t i = 1; i < count && rows[i].pc <= pc - h->low; i++)
        row = rows[i];
    bool same = true;
    if (!call && leave_method(h, stack, &r, &cfa)) {
        /* done */
    } else if (!call && (row.rule & 15) == CFA_RBP && r.fp - r.sp > 1 << 16) {
        cfa = r.sp + 8; /* a stub that makes no frame */
    } else if ((row.rule & 15) == CFA_RSP || (row.rule & 15) == CFA_RBP) {
        cfa = ((row.rule & 15) == CFA_RSP ? r.sp : r.fp) + (uint64_t)(int64_t)row.cfa_offset;
        same = row.rule >> 4 != RBP_AT_CFA;
    } else {
        return STEP_NO_TABLE;
    }
    if (!stack_word(stack, cfa - 8, &r.pc) || (!same && !stack_word(stack, cfa - 16, &r.fp)))
        return STEP_NO_STACK;
    uint64_t above; /* a word was pushed, see is_pushed() in bpf/walk.h */
    if (!call && !same && !hotspot_has_code(h, r.pc) && stack_word(stack, cfa, &above) &&
        is_return(h, above)) {
        r.fp = r.pc;
        r.pc = above;
        cfa += 8;
    }
    if (cfa <= r.sp)
        return STEP_NO_TABLE;
    r.sp = cfa;
    *registers = r;
    return r.pc ? STEP_CALLER : STEP_END;
}
