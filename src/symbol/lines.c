/* Lines and inlined functions through elfutils' libdw, which reads units as they are asked for. The file may
 * be anybody's: what is walked here is walked for a bounded number of entries and of levels. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"
#include "symbol/line_files.h"

/* What libdw would read of a larger one costs more memory than lines are worth. */
#define DEBUG_INFO_LIMIT (512ull << 20)

/* A unit has at most so many entries that are looked at, and functions so many levels. */
#define ENTRIES_LIMIT (4u << 20)
#define DEPTH_LIMIT   64

/* Code of a unit or of a function: [low, high). */
struct code_range {
    uint64_t low, high;
    Dwarf_Off entry;
};

struct code_ranges {
    ARRAY(struct code_range) list; /* by low once they are sorted */
};

struct unit {
    Dwarf_Off offset;
    struct code_ranges functions;
};

struct lines {
    Elf *elf;
    Dwarf *dwarf;
    bool indexed;             /* the units that .debug_aranges has not */
    struct code_ranges units; /* of the files that need it */
    ARRAY(struct unit) read;  /* units whose functions are known */
    struct line_sections sections;
    struct map files; /* hash of a line table's offset and a file's number -> its path, in texts */
    struct arena texts;
};

/* Sections that libdw would decompress although nothing here asks for what is in them: where variables lie,
 * macros, and tables of names. */
static bool is_of_use(const char *section)
{
    static const char *const NOT[] = {"loc", "loclists", "macro", "macinfo", "names", "pubnames", "pubtypes"};
    if (strncmp(section, ".debug_", 7) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(NOT); i++)
        if (strcmp(section + 7, NOT[i]) == 0)
            return false;
    return true;
}

/* In libdw's image of the file, whose bytes may be others by now, the rest has no contents. */
static void leave_out(struct elf *elf, char *image)
{
    struct elf_section section;
    Elf64_Ehdr file;
    memcpy(&file, image, sizeof(file)); /* an elf has one */
    for (size_t i = 0; elf_section_at(elf, i, &section) == 0; i++) {
        uint64_t at = file.e_shoff + i * sizeof(Elf64_Shdr);
        Elf64_Shdr header;
        if (file.e_shentsize != sizeof(header) || file.e_shoff > elf_size(elf) ||
            at > elf_size(elf) - sizeof(header))
            return;
        if (strncmp(section.name, ".debug_", 7) != 0 || is_of_use(section.name))
            continue;
        memcpy(&header, image + at, sizeof(header));
        header.sh_type = SHT_NOBITS;
        memcpy(image + at, &header, sizeof(header));
    }
}

size_t lines_cost(struct elf *elf)
{
    struct elf_section section;
    size_t cost = 0;
    for (size_t i = 0; elf_section_at(elf, i, &section) == 0; i++) {
        Elf64_Chdr header;
        if (!is_of_use(section.name) || !section.data)
            continue;
        if (section.flags & SHF_COMPRESSED && section.size >= sizeof(header)) {
            memcpy(&header, section.data, sizeof(header));
            cost += header.ch_size;
        } else {
            cost += section.size / 4;
        }
    }
    return cost;
}

/* libdw has decompressed them when it begins. */
static void find_sections(struct lines *l)
{
    size_t names;
    if (elf_getshdrstrndx(l->elf, &names) != 0)
        return;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(l->elf, scn));) {
        const Elf64_Shdr *header = elf64_getshdr(scn);
        const char *name = header ? elf_strptr(l->elf, names, header->sh_name) : NULL;
        struct line_section *section = !name                                  ? NULL
                                       : strcmp(name, ".debug_line") == 0     ? &l->sections.lines
                                       : strcmp(name, ".debug_line_str") == 0 ? &l->sections.line_strings
                                       : strcmp(name, ".debug_str") == 0      ? &l->sections.strings
                                                                              : NULL;
        if (!section || header->sh_flags & SHF_COMPRESSED || header->sh_type == SHT_NOBITS)
            continue;
        const Elf_Data *data = elf_getdata(scn, NULL);
        if (data && data->d_buf)
            *section = (struct line_section){data->d_buf, data->d_size};
    }
}

int lines_open(struct elf *elf, struct lines **ret_lines)
{
    struct elf_section section;
    bool there = elf_section_named(elf, ".debug_info", &section) == 0 && section.type == SHT_PROGBITS;
    if (!there || section.size > DEBUG_INFO_LIMIT)
        return -ENOENT;
    struct lines *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    elf_version(EV_CURRENT);
    char *image = elf_scratch(elf); /* libdw marks in the headers what it has decompressed */
    if (image)
        leave_out(elf, image);
    l->elf = image ? elf_memory(image, elf_size(elf)) : NULL;
    l->dwarf = l->elf ? dwarf_begin_elf(l->elf, DWARF_C_READ, NULL) : NULL;
    if (!l->dwarf) {
        lines_free(l);
        return -ENOENT;
    }
    find_sections(l);
    *ret_lines = l;
    return 0;
}

void lines_free(struct lines *l)
{
    if (!l)
        return;
    array_foreach (&l->read, unit)
        array_done(&unit->functions.list);
    array_done(&l->read);
    array_done(&l->units.list);
    map_done(&l->files);
    arena_done(&l->texts);
    dwarf_end(l->dwarf);
    elf_end(l->elf);
    free(l);
}

/* ---- which code belongs to what ---- */

static int by_low(const void *a, const void *b)
{
    const struct code_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

static void add_ranges(struct code_ranges *ranges, Dwarf_Die *die)
{
    Dwarf_Addr base, low, high;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &low, &high)) > 0;)
        if (low < high)
            (void)array_add(&ranges->list, ((struct code_range){low, high, dwarf_dieoffset(die)}));
}

static void sort_ranges(struct code_ranges *ranges)
{
    if (ranges->list.count)
        qsort(ranges->list.at, ranges->list.count, sizeof(*ranges->list.at), by_low);
}

static const struct code_range *range_at(const struct code_ranges *ranges, uint64_t address)
{
    size_t low = 0, high = ranges->list.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->list.at[middle].low <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct code_range *found = low ? &ranges->list.at[low - 1] : NULL;
    return found && address < found->high ? found : NULL;
}

/* The units that .debug_aranges names, by the offsets of their first entries. */
static void list_named(struct lines *l, struct map *ret_units)
{
    Dwarf_Aranges *ranges;
    size_t count;
    Dwarf_Off entry;
    if (dwarf_getaranges(l->dwarf, &ranges, &count) != 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (dwarf_getarangeinfo(dwarf_onearange(ranges, i), NULL, NULL, &entry) == 0)
            (void)map_put(ret_units, entry, NULL);
}

/* Units say themselves which code is theirs; clang and rustc write no .debug_aranges. Of one that is named
 * there, all code is: there is code of no unit in most files, such as where they start. */
static void index_units(struct lines *l)
{
    Dwarf_CU *unit = NULL;
    Dwarf_Die die;
    uint8_t type;
    struct map named = {0};
    l->indexed = true;
    list_named(l, &named);
    while (dwarf_get_units(l->dwarf, unit, &unit, NULL, &type, &die, NULL) == 0)
        if ((type == DW_UT_compile || type == DW_UT_partial) && !map_get(&named, dwarf_dieoffset(&die)))
            add_ranges(&l->units, &die);
    map_done(&named);
    sort_ranges(&l->units);
}

/* The unit that holds the address. Split units (DW_UT_skeleton) lie in files that the unit names, which are
 * not opened here: the name is the traced program's. */
static bool unit_at(struct lines *l, uint64_t address, Dwarf_Die *ret_unit)
{
    uint8_t type = 0;
    if (!dwarf_addrdie(l->dwarf, address, ret_unit)) {
        if (!l->indexed)
            index_units(l);
        const struct code_range *unit = range_at(&l->units, address);
        if (!unit || !dwarf_offdie(l->dwarf, unit->entry, ret_unit))
            return false;
    }
    return dwarf_cu_info(ret_unit->cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) == 0 &&
           type != DW_UT_skeleton;
}

/* What may hold functions with code of their own. */
static bool holds_functions(int tag)
{
    return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type ||
           tag == DW_TAG_class_type || tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type;
}

static void add_functions(struct code_ranges *functions, Dwarf_Die *parent, int depth, size_t *left)
{
    Dwarf_Die child;
    if (depth > DEPTH_LIMIT || dwarf_child(parent, &child) != 0)
        return;
    do {
        if (*left == 0)
            return;
        (*left)--;
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_subprogram)
            add_ranges(functions, &child);
        else if (holds_functions(tag))
            add_functions(functions, &child, depth + 1, left);
    } while (dwarf_siblingof(&child, &child) == 0);
}

/* The function, not inlined, that holds the address. */
static bool function_at(struct lines *l, Dwarf_Die *unit, uint64_t address, Dwarf_Die *ret_function)
{
    struct unit *known = NULL;
    array_foreach (&l->read, u)
        if (u->offset == dwarf_dieoffset(unit))
            known = u;
    if (!known) {
        struct unit new = {.offset = dwarf_dieoffset(unit)};
        size_t left = ENTRIES_LIMIT;
        add_functions(&new.functions, unit, 0, &left);
        sort_ranges(&new.functions);
        if (array_add(&l->read, new) < 0) {
            array_done(&new.functions.list);
            return false;
        }
        known = &l->read.at[l->read.count - 1];
    }
    const struct code_range *function = range_at(&known->functions, address);
    return function && dwarf_offdie(l->dwarf, function->entry, ret_function);
}

/* ---- what is asked ---- */

/* A file by its number in the table of the unit that says so. libdw's dwarf_decl_file() refuses number 0,
 * which is the unit's own file since DWARF 5 (6.2.4.1). */
static const char *file_by_libdw(Dwarf_Die *unit, Dwarf_Word number)
{
    Dwarf_Files *files;
    return dwarf_getsrcfiles(unit, &files, NULL) == 0 ? dwarf_filesrc(files, number, NULL, NULL) : NULL;
}

static const char *file_of(struct lines *l, Dwarf_Attribute *attribute)
{
    Dwarf_Die unit;
    Dwarf_Attribute table, directory;
    Dwarf_Word offset, number;
    struct text path = {0};
    if (dwarf_formudata(attribute, &number) != 0 ||
        !dwarf_cu_die(attribute->cu, &unit, NULL, NULL, NULL, NULL, NULL, NULL) ||
        !dwarf_attr(&unit, DW_AT_stmt_list, &table) || dwarf_formudata(&table, &offset) != 0)
        return NULL;
    const uint64_t identity[] = {offset, number, (uintptr_t)dwarf_cu_getdwarf(attribute->cu)};
    const uint64_t key = map_hash(identity, sizeof(identity)), *known = map_get(&l->files, key);
    if (known)
        return (const char *)(uintptr_t)*known;
    const char *in = dwarf_attr(&unit, DW_AT_comp_dir, &directory) ? dwarf_formstring(&directory) : NULL,
               *file = NULL;
    bool own = dwarf_cu_getdwarf(attribute->cu) == l->dwarf; /* no supplementary file's, which libdw opens */
    if (own && line_file_path(&l->sections, offset, number, in, &path) == 0 && !path.failed)
        file = arena_strdup(&l->texts, text_get(&path));
    else
        file = file_by_libdw(&unit, number);
    text_done(&path);
    uint64_t *place = file ? map_put(&l->files, key, NULL) : NULL;
    if (place)
        *place = (uintptr_t)file;
    return file;
}

/* Where a function stands. False when it is not said. */
static bool declared(struct lines *l, Dwarf_Die *die, struct line_position *ret)
{
    Dwarf_Attribute attribute;
    int line = 0;
    const char *file = dwarf_attr_integrate(die, DW_AT_decl_file, &attribute) ? file_of(l, &attribute) : NULL;
    if (!file || dwarf_decl_line(die, &line) != 0 || line <= 0)
        return false;
    *ret = (struct line_position){.file = file, .line = (uint32_t)line};
    return true;
}

int lines_find(struct lines *l, uint64_t address, bool function, struct line_position *ret_position)
{
    Dwarf_Die unit, its;
    int number = 0, column = 0;
    if (!unit_at(l, address, &unit))
        return -ENOENT;
    if (function && function_at(l, &unit, address, &its) && declared(l, &its, ret_position))
        return 0;
    Dwarf_Line *line = dwarf_getsrc_die(&unit, address);
    const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (!file || dwarf_lineno(line, &number) != 0 || number <= 0)
        return -ENOENT;
    dwarf_linecol(line, &column);
    *ret_position = (struct line_position){file, (uint32_t)number, (uint32_t)column};
    return 0;
}

static const char *text_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    return dwarf_attr_integrate(die, name, &attribute) ? dwarf_formstring(&attribute) : NULL;
}

static uint32_t number_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    return dwarf_attr(die, name, &attribute) && dwarf_formudata(&attribute, &value) == 0 ? (uint32_t)value
                                                                                         : 0;
}

static bool describe(struct lines *l, Dwarf_Die *inlined, struct line_inlined *ret)
{
    Dwarf_Attribute file;
    *ret = (struct line_inlined){.name = text_of(inlined, DW_AT_linkage_name)};
    if (!ret->name)
        ret->name = text_of(inlined, DW_AT_name);
    (void)declared(l, inlined, &ret->declared);
    ret->call.line = number_of(inlined, DW_AT_call_line);
    ret->call.column = number_of(inlined, DW_AT_call_column);
    if (dwarf_attr(inlined, DW_AT_call_file, &file))
        ret->call.file = file_of(l, &file);
    return ret->name != NULL;
}

size_t lines_inlined(struct lines *l, uint64_t address, struct line_inlined *ret_list, size_t limit)
{
    Dwarf_Die unit, die, child;
    size_t count = 0, left = ENTRIES_LIMIT;
    if (!unit_at(l, address, &unit) || !function_at(l, &unit, address, &die))
        return 0;
    for (int depth = 0; depth < DEPTH_LIMIT && dwarf_child(&die, &child) == 0; depth++) {
        int tag = 0;
        bool found = false;
        do {
            tag = dwarf_tag(&child);
            found = (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
                    dwarf_haspc(&child, address) == 1;
        } while (!found && left-- > 1 && dwarf_siblingof(&child, &child) == 0);
        if (!found)
            break;
        if (tag == DW_TAG_inlined_subroutine && count < limit && describe(l, &child, &ret_list[count]))
            count++;
        die = child;
    }
    for (size_t i = 0; i < count / 2; i++) {
        struct line_inlined outer = ret_list[i];
        ret_list[i] = ret_list[count - 1 - i];
        ret_list[count - 1 - i] = outer;
    }
    return count;
}
