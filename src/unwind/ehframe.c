/* .eh_frame to rows. The format is that of the System V ABI for AMD64 and the LSB (.eh_frame, DWARF CFI).
 *
 * Only what two registers need is kept: a profiler steps through millions of frames, and the callee-saved
 * registers besides rbp are almost never what a CFA is computed from. Rules that need them become CFA_GAP
 * rows and are counted. Every read goes through a cursor that cannot leave the section; a lying length ends
 * the entry it is in. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/ehframe.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sort.h"
#include "unwind/row_source.h"

enum { REG_RBX = 3, REG_RBP = 6, REG_RSP = 7, REG_RA = 16 };
enum { REMEMBERED = 16 };

struct cursor {
    const uint8_t *at, *end;
    bool bad; /* something was read past the end: everything after is zero */
};

/* The registers' rules at one address. */
struct rules {
    uint8_t cfa; /* enum unwind_cfa */
    int64_t cfa_offset;
    uint8_t rbp; /* enum unwind_rbp, or RBP_LOST */
    int64_t rbp_offset;
    bool outermost; /* the return address is undefined */
};
enum { RBP_LOST = 15 };

struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint8_t pointer_encoding;
    bool augmented, signal;
    struct rules initial;
    struct cursor instructions;
};

/* The rows of one function, or another part that is in order. */
struct block {
    uint32_t pc; /* the first row's */
    uint32_t at, count;
};

struct reader {
    const struct elf *elf;
    const uint8_t *section; /* the section's bytes */
    size_t size;
    uint64_t address; /* of section[0] */
    struct unwind_table *table;
    ARRAY(struct unwind_row) rows;
    ARRAY(struct block) blocks; /* they follow each other and cover all rows */
    uint64_t cie_at;            /* offset of the cached cie */
    bool cie_valid;
    struct cie cie;
    bool out_of_memory;
};

/* ---- reading ---- */

static uint64_t take(struct cursor *c, size_t size)
{
    uint64_t value = 0;
    if (c->bad || (size_t)(c->end - c->at) < size) {
        c->bad = true;
        return 0;
    }
    memcpy(&value, c->at, size);
    c->at += size;
    return value;
}

/* Seven bits a byte, the lowest first; *ret_shift: how many there were. */
static uint64_t take_bits(struct cursor *c, int *ret_shift, bool *ret_negative)
{
    uint64_t value = 0, byte;
    int shift = 0;
    do {
        byte = take(c, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80 && !c->bad);
    *ret_shift = shift;
    *ret_negative = byte & 0x40;
    return value;
}

static uint64_t take_uleb(struct cursor *c)
{
    int shift;
    bool negative;
    return take_bits(c, &shift, &negative);
}

static int64_t take_sleb(struct cursor *c)
{
    int shift;
    bool negative;
    uint64_t value = take_bits(c, &shift, &negative);
    if (shift < 64 && negative)
        value |= ~0ull << shift;
    return (int64_t)value;
}

static struct cursor take_block(struct cursor *c, uint64_t size)
{
    struct cursor block = {c->at, c->at, false};
    if (c->bad || (uint64_t)(c->end - c->at) < size) {
        c->bad = true;
        return block;
    }
    c->at += size;
    block.end = c->at;
    return block;
}

/* A pointer in one of the DW_EH_PE encodings; here is the address of its first byte. */
static uint64_t take_pointer(struct cursor *c, uint8_t encoding, uint64_t here)
{
    uint64_t value;
    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c:
        value = take(c, 8);
        break;
    case 0x01:
        value = take_uleb(c);
        break;
    case 0x02:
        value = take(c, 2);
        break;
    case 0x03:
        value = take(c, 4);
        break;
    case 0x09:
        value = (uint64_t)take_sleb(c);
        break;
    case 0x0a:
        value = (uint64_t)(int16_t)take(c, 2);
        break;
    case 0x0b:
        value = (uint64_t)(int32_t)take(c, 4);
        break;
    default:
        c->bad = true;
        return 0;
    }
    return (encoding & 0x70) == 0x10 ? value + here : value;
}

/* ---- rows ---- */

static void add_row(struct reader *r, uint64_t pc, uint8_t cfa, int64_t cfa_offset, uint8_t rbp,
                    int64_t rbp_offset)
{
    if (pc < r->table->base || pc - r->table->base > UINT32_MAX) {
        r->table->damaged++;
        return;
    }
    int64_t words = rbp_offset / 8;
    if (cfa == CFA_RSP && cfa_offset > INT16_MAX && cfa_offset % 8 == 0) {
        cfa = CFA_RSP_WORDS;
        cfa_offset /= 8;
    }
    if (cfa_offset < INT16_MIN || cfa_offset > INT16_MAX ||
        (rbp != RBP_SAME && (words < INT8_MIN || words > INT8_MAX || rbp_offset % 8 != 0)))
        cfa = CFA_GAP;
    if (cfa == CFA_GAP) {
        r->table->unsupported++;
        cfa_offset = words = rbp = 0;
    }
    struct unwind_row row = {.pc = (unsigned)(pc - r->table->base),
                             .cfa_offset = (short)cfa_offset,
                             .rbp_offset = (signed char)(rbp == RBP_SAME ? 0 : words),
                             .rule = (uint8_t)(cfa | rbp << 4)};
    if (array_add(&r->rows, row) < 0)
        r->out_of_memory = true;
}

static void add_rules(struct reader *r, uint64_t pc, const struct rules *rules)
{
    if (rules->outermost)
        add_row(r, pc, CFA_END, 0, RBP_SAME, 0);
    else if (rules->rbp == RBP_LOST) /* the frame above would be walked with a wrong rbp; rsp may still do */
        add_row(r, pc, rules->cfa, rules->cfa_offset, RBP_SAME, 0);
    else
        add_row(r, pc, rules->cfa, rules->cfa_offset, rules->rbp, rules->rbp_offset);
}

/* ---- call frame instructions ---- */

/* rbx, 32 bytes below: only the dynamic linker's _dl_runtime_resolve does that. */
static void set_cfa_register(struct rules *s, uint64_t reg, int64_t offset)
{
    s->cfa = reg == REG_RSP                   ? CFA_RSP
             : reg == REG_RBP                 ? CFA_RBP
             : reg == REG_RBX && offset == 32 ? CFA_RESOLVE
                                              : CFA_GAP;
    s->cfa_offset = offset;
}

/* The three expressions that occur: lazy binding stubs, a dereferenced slot of rbp, and signal frames. */
static void set_cfa_expression(struct rules *s, struct cursor block, bool signal)
{
    size_t size = (size_t)(block.end - block.at);
    const uint8_t *x = block.at;
    struct cursor operand = {x + 1, block.end, false};
    s->cfa = CFA_GAP;
    if (size < 3)
        return;
    if (x[0] == 0x77 && x[1] == 8 &&
        x[2] == 0x80) { /* breg7 8, breg16 0, lit15, and, lit11, ge, lit3, shl, plus */
        s->cfa = CFA_PLT;
        s->cfa_offset = 0;
    } else if (x[0] == 0x76 && x[size - 1] == 0x06) { /* breg6 n, deref */
        int64_t offset = take_sleb(&operand);
        if (operand.at + 1 == block.end) {
            s->cfa = CFA_DEREF;
            s->cfa_offset = offset;
        }
    } else if (x[0] == 0x77 && x[size - 1] == 0x06 && signal) { /* breg7 n, deref: the rsp in a ucontext */
        int64_t offset = take_sleb(&operand);
        if (operand.at + 1 == block.end) {
            s->cfa = CFA_SIGNAL;
            s->cfa_offset = offset - 160; /* of the ucontext's rsp slot, from its start */
        }
    }
}

static void set_rbp_expression(struct rules *s, struct cursor block)
{
    struct cursor operand = {block.at + 1, block.end, false};
    s->rbp = RBP_LOST;
    if (block.end - block.at >= 2 && block.at[0] == 0x76) { /* breg6 n: saved at rbp + n */
        int64_t offset = take_sleb(&operand);
        if (operand.at == block.end) {
            s->rbp = RBP_AT_RBP;
            s->rbp_offset = offset;
        }
    }
}

static void set_saved(struct rules *s, uint64_t reg, int64_t offset)
{
    if (reg == REG_RBP) {
        s->rbp = RBP_AT_CFA;
        s->rbp_offset = offset;
    } else if (reg == REG_RA) {
        s->outermost = false;
    }
}

static void restore(struct rules *s, uint64_t reg, const struct rules *initial)
{
    if (reg == REG_RBP) {
        s->rbp = initial->rbp;
        s->rbp_offset = initial->rbp_offset;
    }
}

/* Runs the instructions; with pc != 0 a row is added before each advance. */
static void run(struct reader *r, struct cursor c, const struct cie *cie, struct rules *s, uint64_t *pc,
                bool emit)
{
    struct rules stack[REMEMBERED];
    size_t depth = 0;
#define ADVANCE(to)               \
    do {                          \
        uint64_t next_ = (to);    \
        if (emit)                 \
            add_rules(r, *pc, s); \
        *pc = next_;              \
    } while (0)
    while (c.at < c.end && !c.bad && !r->out_of_memory) {
        uint8_t op = (uint8_t)take(&c, 1), low = op & 0x3f;
        uint64_t reg;
        switch (op >> 6) {
        case 1:
            ADVANCE(*pc + low * cie->code_align);
            continue;
        case 2:
            set_saved(s, low, (int64_t)(take_uleb(&c) * (uint64_t)cie->data_align));
            continue;
        case 3:
            restore(s, low, &cie->initial);
            continue;
        }
        switch (op) {
        case 0x00: /* nop */
            break;
        case 0x01: /* set_loc */
            ADVANCE(take_pointer(&c, cie->pointer_encoding, r->address + (uint64_t)(c.at - r->section)));
            break;
        case 0x02:
            ADVANCE(*pc + take(&c, 1) * cie->code_align);
            break;
        case 0x03:
            ADVANCE(*pc + take(&c, 2) * cie->code_align);
            break;
        case 0x04:
            ADVANCE(*pc + take(&c, 4) * cie->code_align);
            break;
        case 0x05: /* offset_extended */
            reg = take_uleb(&c);
            set_saved(s, reg, (int64_t)(take_uleb(&c) * (uint64_t)cie->data_align));
            break;
        case 0x06:
            restore(s, take_uleb(&c), &cie->initial);
            break;
        case 0x07: /* undefined */
            reg = take_uleb(&c);
            if (reg == REG_RA)
                s->outermost = true;
            else if (reg == REG_RBP)
                s->rbp = RBP_LOST;
            break;
        case 0x08: /* same_value */
            if (take_uleb(&c) == REG_RBP)
                s->rbp = RBP_SAME;
            break;
        case 0x09: /* register */
            if (take_uleb(&c) == REG_RBP)
                s->rbp = RBP_LOST;
            take_uleb(&c);
            break;
        case 0x0a:
            if (depth < REMEMBERED)
                stack[depth++] = *s;
            break;
        case 0x0b:
            if (depth)
                *s = stack[--depth];
            break;
        case 0x0c:
            reg = take_uleb(&c);
            set_cfa_register(s, reg, (int64_t)take_uleb(&c));
            break;
        case 0x0d:
            set_cfa_register(s, take_uleb(&c), s->cfa_offset);
            break;
        case 0x0e:
            s->cfa_offset = (int64_t)take_uleb(&c);
            break;
        case 0x0f:
            set_cfa_expression(s, take_block(&c, take_uleb(&c)), cie->signal);
            break;
        case 0x10: { /* expression */
            reg = take_uleb(&c);
            struct cursor block = take_block(&c, take_uleb(&c));
            if (reg == REG_RBP && !c.bad)
                set_rbp_expression(s, block);
            break;
        }
        case 0x11:
            reg = take_uleb(&c);
            set_saved(s, reg, (int64_t)((uint64_t)take_sleb(&c) * (uint64_t)cie->data_align));
            break;
        case 0x12:
            reg = take_uleb(&c);
            set_cfa_register(s, reg, (int64_t)((uint64_t)take_sleb(&c) * (uint64_t)cie->data_align));
            break;
        case 0x13:
            s->cfa_offset = (int64_t)((uint64_t)take_sleb(&c) * (uint64_t)cie->data_align);
            break;
        case 0x14: /* val_offset */
        case 0x15:
            if (take_uleb(&c) == REG_RBP)
                s->rbp = RBP_LOST;
            take_uleb(&c);
            break;
        case 0x16: /* val_expression */
            reg = take_uleb(&c);
            take_block(&c, take_uleb(&c));
            if (reg == REG_RBP)
                s->rbp = RBP_LOST;
            break;
        case 0x2e: /* GNU args_size */
            take_uleb(&c);
            break;
        default:
            c.bad = true;
        }
    }
#undef ADVANCE
    if (emit)
        add_rules(r, *pc, s);
    if (c.bad)
        r->table->damaged++;
}

/* ---- entries ---- */

/* The entry at offset: its content after the length, and where the next one begins. */
static bool entry_at(const struct reader *r, uint64_t offset, struct cursor *ret_content, uint64_t *ret_next)
{
    if (offset > r->size || r->size - offset < 4)
        return false;
    struct cursor c = {r->section + offset, r->section + r->size, false};
    uint64_t length = take(&c, 4);
    if (length == UINT32_MAX)
        length = take(&c, 8);
    if (c.bad || length == 0 || length > (uint64_t)(c.end - c.at))
        return false;
    ret_content->at = c.at;
    ret_content->end = c.at + length;
    ret_content->bad = false;
    *ret_next = (uint64_t)(c.at - r->section) + length;
    return true;
}

static bool read_cie(struct reader *r, uint64_t offset)
{
    struct cursor c;
    uint64_t next, ignored = 0;
    struct cie cie = {0};
    r->cie_valid = false;
    if (!entry_at(r, offset, &c, &next) || take(&c, 4) != 0)
        return false;
    uint8_t version = (uint8_t)take(&c, 1);
    const char *augmentation = (const char *)c.at;
    const uint8_t *end = c.bad ? NULL : memchr(c.at, 0, (size_t)(c.end - c.at));
    if (!end || (version != 1 && version != 3 && version != 4))
        return false;
    c.at = end + 1;
    if (version == 4)
        take(&c, 2);
    cie.code_align = take_uleb(&c);
    cie.data_align = take_sleb(&c);
    if (version == 1)
        take(&c, 1);
    else
        take_uleb(&c);
    if (augmentation[0] == 'z') {
        struct cursor data = take_block(&c, take_uleb(&c));
        cie.augmented = true;
        for (const char *a = augmentation + 1; *a && !data.bad; a++) {
            if (*a == 'R')
                cie.pointer_encoding = (uint8_t)take(&data, 1);
            else if (*a == 'L')
                take(&data, 1);
            else if (*a == 'P')
                take_pointer(&data, (uint8_t)take(&data, 1), 0);
            else if (*a == 'S')
                cie.signal = true;
            else if (*a != 'B')
                break;
        }
    } else if (augmentation[0]) {
        return false;
    }
    if (c.bad)
        return false;
    cie.initial.cfa = CFA_GAP;
    run(r, c, &cie, &cie.initial, &ignored, false);
    r->cie = cie;
    r->cie_at = offset;
    r->cie_valid = true;
    return true;
}

/* The rows from first on become a block. */
static void close_block(struct reader *r, size_t first)
{
    struct block block = {0, (uint32_t)first, (uint32_t)(r->rows.count - first)};
    if (!block.count)
        return;
    block.pc = r->rows.at[first].pc;
    if (array_add(&r->blocks, block) < 0)
        r->out_of_memory = true;
}

static void read_fde(struct reader *r, struct cursor c, uint64_t cie_offset)
{
    if ((!r->cie_valid || r->cie_at != cie_offset) && !read_cie(r, cie_offset)) {
        r->table->damaged++;
        return;
    }
    const struct cie *cie = &r->cie;
    uint64_t pc = take_pointer(&c, cie->pointer_encoding, r->address + (uint64_t)(c.at - r->section));
    uint64_t length = take_pointer(&c, cie->pointer_encoding & 0x0f, 0);
    if (cie->augmented)
        take_block(&c, take_uleb(&c));
    if (c.bad || length == 0 || pc == 0) {
        r->table->damaged += c.bad;
        return;
    }
    uint64_t end = pc + length;
    size_t first = r->rows.count;
    struct rules rules = cie->initial;
    run(r, c, cie, &rules, &pc, true);
    /* Rows beyond the function's end belong to lies; they would shadow its neighbours. */
    while (r->rows.count > first && r->table->base + r->rows.at[r->rows.count - 1].pc >= end)
        r->rows.count--;
    size_t unsupported = r->table->unsupported;
    add_row(r, end, CFA_GAP, 0, RBP_SAME, 0);
    r->table->unsupported = unsupported;
    r->table->functions++;
    close_block(r, first);
}

static int find_section(struct reader *r)
{
    struct elf_section section;
    if (elf_section_named(r->elf, ".eh_frame", &section) == 0 && section.data) {
        r->section = section.data;
        r->size = section.size;
        r->address = section.address;
        return 0;
    }
    struct elf_segment segment;
    for (size_t i = 0; elf_segment_at(r->elf, i, &segment) == 0; i++) {
        size_t available;
        const uint8_t *at;
        if (segment.type != PT_GNU_EH_FRAME || !(at = elf_bytes(r->elf, segment.address, 4, &available)))
            continue;
        struct cursor c = {at + 4, at + available, false};
        uint64_t address = take_pointer(&c, at[1], segment.address + 4);
        const uint8_t *frames = c.bad ? NULL : elf_bytes(r->elf, address, 4, &available);
        if (!frames)
            continue;
        r->section = frames;
        r->size = available;
        r->address = address;
        return 0;
    }
    return -ENOENT;
}

/* By pc. At one pc a rule wins over the gap that ends its predecessor. */
static uint64_t pc_of(const void *item)
{
    const struct unwind_row *row = item;
    return (uint64_t)row->pc << 1 | ((row->rule & 15) != CFA_GAP);
}

static uint64_t block_pc(const void *item)
{
    return ((const struct block *)item)->pc;
}

/* Functions are few beside rows: when they do not overlap, all rows are in order afterwards. */
static int sort_blocks(struct reader *r)
{
    struct unwind_row *sorted = malloc((r->rows.count + 1) * sizeof(*sorted)), *to = sorted;
    if (!sorted || sort_by_key(r->blocks.at, r->blocks.count, sizeof(*r->blocks.at), block_pc) < 0) {
        free(sorted);
        return -ENOMEM;
    }
    array_foreach (&r->blocks, b) {
        memcpy(to, r->rows.at + b->at, b->count * sizeof(*to));
        to += b->count;
    }
    free(r->rows.at);
    r->rows.at = sorted;
    r->rows.capacity = r->rows.count;
    return 0;
}

static void finish(struct reader *r)
{
    size_t kept = 0;
    r->out_of_memory |= sort_blocks(r) < 0;
    r->out_of_memory |= sort_by_key(r->rows.at, r->rows.count, sizeof(*r->rows.at), pc_of) < 0;
    for (size_t i = 0; i < r->rows.count; i++) {
        struct unwind_row row = r->rows.at[i];
        if (i + 1 < r->rows.count && r->rows.at[i + 1].pc == row.pc)
            continue;
        const struct unwind_row *last = kept ? &r->rows.at[kept - 1] : NULL;
        if (last && last->cfa_offset == row.cfa_offset && last->rbp_offset == row.rbp_offset &&
            last->rule == row.rule)
            continue;
        r->rows.at[kept++] = row;
    }
    r->table->rows = r->rows.at;
    r->table->count = kept;
}

/* Code of another language beside C code: both tables become one. */
static void add_rows(struct reader *r, const struct row_source *source)
{
    struct unwind_row *rows;
    size_t count;
    if (source->read(r->elf, r->table->base, &rows, &count) < 0)
        return;
    for (size_t i = 0; i < count && !r->out_of_memory; i++)
        if (array_add(&r->rows, rows[i]) < 0)
            r->out_of_memory = true;
    free(rows);
    close_block(r, 0);
}

/* Where the program, or the dynamic linker, begins: written in assembly, often without a rule, and nothing
 * calls it. */
static int add_entry(struct unwind_table *table, uint64_t entry)
{
    const struct unwind_row *known = unwind_table_find(table, entry);
    if (!entry || entry < table->base || entry - table->base > UINT32_MAX ||
        (known && (known->rule & 15) != CFA_GAP))
        return 0;
    size_t at = known ? (size_t)(known - table->rows) + 1 : 0;
    unsigned pc = (unsigned)(entry - table->base);
    if (known && known->pc == pc) {
        table->rows[at - 1] = (struct unwind_row){.pc = pc, .rule = CFA_END};
        return 0;
    }
    struct unwind_row *rows = realloc(table->rows, (table->count + 1) * sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    memmove(rows + at + 1, rows + at, (table->count - at) * sizeof(*rows));
    rows[at] = (struct unwind_row){.pc = pc, .rule = CFA_END};
    table->rows = rows;
    table->count++;
    return 0;
}

int unwind_table_read(const struct elf *elf, struct unwind_table **ret_table)
{
    struct reader r = {.elf = elf, .cie_at = UINT64_MAX};
    int e = find_section(&r);
    struct elf_section go;
    if (e < 0 && elf_section_named(elf, ".gopclntab", &go) < 0 &&
        elf_section_named(elf, ".data.rel.ro.gopclntab", &go) < 0)
        return e;
    r.table = calloc(1, sizeof(*r.table));
    if (!r.table)
        return -ENOMEM;
    uint64_t low = UINT64_MAX, high = 0;
    struct elf_segment segment;
    for (size_t i = 0; elf_segment_at(elf, i, &segment) == 0; i++)
        if (segment.type == PT_LOAD) {
            low = MIN(low, segment.address);
            high = MAX(high, segment.address + segment.memory_size);
        }
    r.table->base = low == UINT64_MAX ? 0 : low;
    for (const struct row_source *const *source = ROW_SOURCES; *source; source++)
        add_rows(&r, *source);
    struct cursor content;
    for (uint64_t at = 0, next; !r.out_of_memory && entry_at(&r, at, &content, &next); at = next) {
        uint64_t id_at = (uint64_t)(content.at - r.section), id = take(&content, 4);
        if (content.bad || id == 0 || id > id_at)
            continue; /* a CIE, read when an FDE asks for it; or a lie */
        read_fde(&r, content, id_at - id);
    }
    if (!r.out_of_memory)
        finish(&r);
    array_done(&r.blocks);
    if (r.out_of_memory) {
        array_done(&r.rows);
        free(r.table);
        return -ENOMEM;
    }
    if (add_entry(r.table, elf_entry(elf)) < 0) {
        unwind_table_free(r.table);
        return -ENOMEM;
    }
    *ret_table = r.table;
    return 0;
}

void unwind_table_free(struct unwind_table *table)
{
    if (!table)
        return;
    if (!table->borrowed)
        free(table->rows);
    free(table);
}

const struct unwind_row *unwind_table_find(const struct unwind_table *table, uint64_t address)
{
    if (address < table->base || address - table->base > UINT32_MAX)
        return NULL;
    uint32_t pc = (uint32_t)(address - table->base);
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->rows[middle].pc <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &table->rows[low - 1] : NULL;
}
