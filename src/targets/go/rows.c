/* Go programs: their unwind rules and names, from the runtime's own table (they have no .eh_frame).
 *
 * Go's pclntab, as its linker writes it since 1.18 (symtab.go of the runtime):
 *
 *   byte 0 magic (0xfffffff0: 1.18, 0xfffffff1: 1.20), 4 two zero bytes, 6 smallest instruction, 7 pointer
 * size, then words: functions, files, start of the text, offsets of names, units, files, pc tables, functions
 * Since 1.26 the start of the text is 0 there: the runtime's moduledata (section .go.module) has it, at byte
 * 176. functions: {offset in the text, offset of the function's record} of 32 bits each, one more than there
 * are record: entry offset, name, arguments, deferreturn, pcsp (offset in the pc tables), ... pcsp: pairs of
 * varints, differences of value (zigzag, from -1) and of pc; the value is how far the stack pointer lies
 * below the return address */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/row_source.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "symbol/stripped.h"

struct table {
    const uint8_t *at;
    size_t size;
    uint64_t count, text, names, pcs, functions;
    uint64_t base;
    ARRAY(struct unwind_row) rows;
    bool failed;
};

static uint64_t read_at(const struct table *t, uint64_t offset, size_t size)
{
    uint64_t value = 0;
    if (offset <= t->size && size <= t->size - offset)
        memcpy(&value, t->at + offset, size);
    return value;
}

static bool take_varint(const struct table *t, uint64_t *offset, uint32_t *ret)
{
    uint32_t value = 0;
    for (int shift = 0; shift < 35 && *offset < t->size; shift += 7) {
        uint8_t byte = t->at[(*offset)++];
        value |= (uint32_t)(byte & 0x7f) << (shift & 31);
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static void add_row(struct table *t, uint64_t pc, enum unwind_cfa cfa, int64_t offset, int rbp)
{
    if (pc < t->base || pc - t->base > UINT32_MAX)
        return;
    if (offset > INT16_MAX)
        cfa = CFA_GAP;
    struct unwind_row row = {.pc = (unsigned)(pc - t->base),
                             .cfa_offset = (short)(cfa == CFA_GAP ? 0 : offset),
                             .rbp_offset = (signed char)(cfa == CFA_GAP ? 0 : rbp),
                             .rule = (unsigned char)(cfa | (rbp && cfa != CFA_GAP ? RBP_AT_CFA << 4 : 0))};
    if (array_add(&t->rows, row) < 0)
        t->failed = true;
}

/* Functions that nothing returns from. */
static bool is_outermost(const struct table *t, uint64_t name)
{
    static const char *const names[] = {"runtime.goexit",      "runtime.goexit.abi0", "runtime.rt0_go",
                                        "runtime.rt0_go.abi0", "runtime.mstart",      "runtime.mstart.abi0",
                                        "runtime.mcall",       "_rt0_amd64_linux"};
    uint64_t at = t->names + name;
    if (at >= t->size || !memchr(t->at + at, 0, t->size - at))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp((const char *)t->at + at, names[i]) == 0)
            return true;
    return false;
}

static void read_function(struct table *t, uint64_t index)
{
    uint64_t entry = t->text + read_at(t, t->functions + 8 * index, 4);
    uint64_t end = t->text + read_at(t, t->functions + 8 * (index + 1), 4);
    uint64_t record = t->functions + read_at(t, t->functions + 8 * index + 4, 4);
    uint64_t at = t->pcs + read_at(t, record + 16, 4), pc = entry;
    if (end <= entry)
        return;
    if (is_outermost(t, read_at(t, record + 4, 4))) {
        add_row(t, entry, CFA_END, 0, 0);
        return;
    }
    int64_t value = -1;
    bool any = false;
    for (bool first = true; pc < end && !t->failed; first = false) {
        uint32_t change, step;
        if (!take_varint(t, &at, &change) || (change == 0 && !first) || !take_varint(t, &at, &step) ||
            step == 0)
            break;
        value += change & 1 ? ~(int64_t)(change >> 1) : (int64_t)(change >> 1);
        if (value < 0 || value > 1 << 20)
            break;
        add_row(t, pc, CFA_RSP, value + 8, value >= 8 ? -2 : 0);
        any = true;
        pc += step;
    }
    if (!any)
        add_row(t, entry, CFA_GAP, 0, 0);
}

enum { MODULE_TEXT = 176 };

/* A position-independent program's is put there when it starts. */
static uint64_t text_of_module(const struct elf *elf)
{
    struct elf_section section;
    uint64_t text = 0;
    if (elf_section_named(elf, ".go.module", &section) < 0 || section.size < MODULE_TEXT + sizeof(text) ||
        elf_read(elf, section.address + MODULE_TEXT, &text, sizeof(text)) < 0)
        return 0;
    return text || stripped_pointer(elf, section.address + MODULE_TEXT, &text) >= 0 ? text : 0;
}

/* Reads the header; -ENOENT when there is none that is known. */
static int open_table(const struct elf *elf, struct table *ret_table)
{
    struct elf_section section;
    struct table t = {0};
    if ((elf_section_named(elf, ".gopclntab", &section) < 0 &&
         elf_section_named(elf, ".data.rel.ro.gopclntab", &section) < 0) ||
        !section.data)
        return -ENOENT;
    t.at = section.data;
    t.size = section.size;
    uint64_t magic = read_at(&t, 0, 4);
    if ((magic != 0xfffffff0 && magic != 0xfffffff1) || read_at(&t, 6, 1) != 1 || read_at(&t, 7, 1) != 8)
        return -ENOENT;
    t.count = read_at(&t, 8, 8);
    t.text = read_at(&t, 24, 8);
    if (!t.text && !(t.text = text_of_module(elf)))
        return -ENOENT;
    t.names = read_at(&t, 32, 8);
    t.pcs = read_at(&t, 56, 8);
    t.functions = read_at(&t, 64, 8);
    if (t.count == 0 || t.functions > t.size || t.count > (t.size - t.functions) / 8 || t.pcs > t.size ||
        t.names > t.size)
        return -ENOENT;
    *ret_table = t;
    return 0;
}

static int read_rows(const struct elf *elf, uint64_t base, struct unwind_row **ret_rows, size_t *ret_count)
{
    struct table t;
    int r = open_table(elf, &t);
    if (r < 0)
        return r;
    t.base = base;
    for (uint64_t i = 0; i < t.count && !t.failed; i++)
        read_function(&t, i);
    add_row(&t, t.text + read_at(&t, t.functions + 8 * t.count, 4), CFA_GAP, 0, 0);
    if (t.failed) {
        array_done(&t.rows);
        return -ENOMEM;
    }
    *ret_rows = t.rows.at;
    *ret_count = t.rows.count;
    return 0;
}

/* For programs without symbols: the table is always there. */
static const char *name_of(const struct elf *elf, uint64_t address)
{
    struct table t;
    if (open_table(elf, &t) < 0 || address < t.text)
        return NULL;
    uint64_t low = 0, high = t.count, wanted = address - t.text;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (read_at(&t, t.functions + 8 * middle, 4) <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || wanted >= read_at(&t, t.functions + 8 * t.count, 4))
        return NULL;
    uint64_t record = t.functions + read_at(&t, t.functions + 8 * (low - 1) + 4, 4);
    uint64_t name = t.names + read_at(&t, record + 4, 4);
    return name < t.size && memchr(t.at + name, 0, t.size - name) ? (const char *)t.at + name : NULL;
}

/* ---- locks ---- */

static bool is_named(const struct table *t, uint64_t index, const char *name, size_t length)
{
    uint64_t record = t->functions + read_at(t, t->functions + 8 * index + 4, 4);
    uint64_t at = t->names + read_at(t, record + 4, 4);
    return at <= t->size && length < t->size - at && memcmp(t->at + at, name, length + 1) == 0;
}

/* In the table also of programs without symbols. */
static int find(const struct elf *elf, const char *name, uint64_t *ret_start, uint64_t *ret_end)
{
    struct table t;
    int r = open_table(elf, &t);
    size_t length = strlen(name);
    for (uint64_t i = 0; r >= 0 && i < t.count; i++) {
        if (!is_named(&t, i, name, length))
            continue;
        uint64_t start = read_at(&t, t.functions + 8 * i, 4), end = read_at(&t, t.functions + 8 * i + 8, 4);
        if (end <= start)
            return -ENOENT;
        *ret_start = t.text + start;
        *ret_end = t.text + end;
        return 0;
    }
    return r < 0 ? r : -ENOENT;
}

/* .go.buildinfo: "\xff Go buildinf:", pointer size, flags (2: what follows is no pointer); from byte 32 on
 * the length of the version, "go1.19.8", and the version. */
static bool read_version(const struct elf *elf, char ret_version[16])
{
    static const char MAGIC[] = "\xff Go buildinf:";
    struct elf_section section;
    if (elf_section_named(elf, ".go.buildinfo", &section) < 0 || !section.data || section.size < 34 ||
        memcmp(section.data, MAGIC, sizeof(MAGIC) - 1) != 0 || !(section.data[15] & 2))
        return false;
    size_t length = section.data[32]; /* a longer one has two bytes, and is none that is known */
    if (length >= 16 || length > section.size - 33)
        return false;
    memcpy(ret_version, section.data + 33, length);
    ret_version[length] = '\0';
    return true;
}

/* Where `goid` lies in the runtime's `struct g` (runtime2.go): 1.23 and 1.24 have a member more before it. */
static uint16_t number(const struct elf *elf)
{
    char version[16];
    int minor;
    if (!read_version(elf, version) || sscanf(version, "go1.%d", &minor) != 1 || minor < 18 || minor > 27)
        return 0;
    return minor == 23 || minor == 24 ? 160 : 152;
}

/* Those that are called only when a lock is not free, or somebody waits for it. */
static const struct row_source_lock LOCKS[] = {{"internal/sync.(*Mutex).lockSlow"}, /* since 1.24 */
                                               {"sync.(*Mutex).lockSlow"},
                                               {"runtime.semacquire1"},
                                               {"internal/sync.(*Mutex).unlockSlow", true},
                                               {"sync.(*Mutex).unlockSlow", true},
                                               {"runtime.semrelease1", true},
                                               {NULL}};

const struct row_source row_source_go = {
    .read = read_rows, .name = name_of, .locks = LOCKS, .find = find, .number = number};
