/* One ELF file, mapped. Reading never trusts the file: see the checks in image_at() and load_*(). It may even
 * be overwritten while it is mapped (a library that is replaced in place): what was there once is asked for
 * again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/map.h"
#include "base/sort.h"

/* One symbol table with its strings. */
struct table {
    const uint8_t *symbols; /* count Elf64_Sym, possibly unaligned */
    size_t count;
    const char *strings; /* ended with a NUL at strings[strings_size - 1] when it was loaded */
    size_t strings_size;
};

enum { DYNSYM, SYMTAB, TABLES };
enum { SEARCHES = 12 };

/* A function in the address index, 16 bytes. where: table in the top bit, symbol index below. */
struct function {
    uint64_t value;
    uint32_t where;
    uint32_t size; /* clipped to 32 bits */
};

/* Functions by where they begin: the executable segments in parts of equal size, in each its functions in no
 * particular order. Made in two passes without sorting, and a quarter of the size of what is sorted. */
struct buckets {
    uint32_t *first; /* count + 1 places in `where`; NULL: it is not made */
    uint32_t *where; /* as in struct function */
    size_t count;
    uint64_t low; /* where the first one begins; what lies before it is in the first, too */
    unsigned shift;
    unsigned crowded; /* searches that had to look through very many */
};

struct elf {
    const uint8_t *data;
    size_t size;
    char *label;
    bool mapped; /* munmap at the end */
    void *taken; /* free at the end */
    void *own;   /* a second, private mapping, of a file with debug information (elf_scratch()); or NULL */
    Elf64_Ehdr header;
    size_t sections;
    size_t segments;
    const char *section_names;
    size_t section_names_size;
    struct table tables[TABLES];
    char build_id[129];

    uint32_t *names; /* hash of names: where + 1, 0 for an empty slot */
    size_t names_capacity;
    unsigned searches;          /* without it */
    struct function *functions; /* sorted by value */
    size_t function_count;
    bool functions_built;
    struct buckets buckets; /* the same as far as most searches need it */
    unsigned scans;         /* for functions, without either */
};

/* size bytes of the mapping at offset, or NULL. */
static const uint8_t *image_at(const struct elf *elf, uint64_t offset, uint64_t size)
{
    return offset <= elf->size && size <= elf->size - offset ? elf->data + offset : NULL;
}

static int section_header(const struct elf *elf, size_t index, Elf64_Shdr *ret)
{
    if (index >= elf->sections)
        return -ENOENT;
    memcpy(ret, elf->data + elf->header.e_shoff + index * sizeof(*ret), sizeof(*ret));
    return 0;
}

static int segment_header(const struct elf *elf, size_t index, Elf64_Phdr *ret)
{
    if (index >= elf->segments)
        return -ENOENT;
    memcpy(ret, elf->data + elf->header.e_phoff + index * sizeof(*ret), sizeof(*ret));
    return 0;
}

/* A string table is used up to its last NUL, so that every offset below its size is a string. */
static void load_strings(const struct elf *elf, size_t index, const char **ret_at, size_t *ret_size)
{
    Elf64_Shdr h;
    const uint8_t *at;
    *ret_at = NULL;
    *ret_size = 0;
    if (section_header(elf, index, &h) < 0 || h.sh_type == SHT_NOBITS ||
        !(at = image_at(elf, h.sh_offset, h.sh_size)))
        return;
    const uint8_t *end = memrchr(at, 0, h.sh_size);
    if (!end)
        return;
    *ret_at = (const char *)at;
    *ret_size = (size_t)(end - at) + 1;
}

static void load_tables(struct elf *elf)
{
    for (size_t i = 0; i < elf->sections; i++) {
        Elf64_Shdr h;
        if (section_header(elf, i, &h) < 0)
            break;
        if (h.sh_type != SHT_DYNSYM && h.sh_type != SHT_SYMTAB)
            continue;
        struct table *table = &elf->tables[h.sh_type == SHT_DYNSYM ? DYNSYM : SYMTAB];
        const uint8_t *at = image_at(elf, h.sh_offset, h.sh_size);
        if (table->count || !at)
            continue;
        load_strings(elf, h.sh_link, &table->strings, &table->strings_size);
        table->symbols = at;
        table->count = table->strings ? MIN(h.sh_size / sizeof(Elf64_Sym), (size_t)1 << 30) : 0;
    }
}

static uint32_t word_at(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

/* The symbols of a file without section headers: PT_DYNAMIC names the tables; the GNU or SysV hash table
 * gives their number, as the dynamic table does not. */
static size_t dynamic_symbol_count(const struct elf *elf, uint64_t hash, uint64_t gnu_hash, uint64_t symtab,
                                   uint64_t strtab)
{
    uint32_t head[4];
    if (hash && elf_read(elf, hash, head, 8) == 0)
        return head[1];
    if (gnu_hash && elf_read(elf, gnu_hash, head, 16) == 0) {
        uint64_t buckets = gnu_hash + 16 + 8ull * head[2], chains = buckets + 4ull * head[0];
        uint32_t last = 0;
        const uint8_t *at = elf_bytes(elf, buckets, 4ull * head[0], NULL);
        for (uint32_t i = 0; at && i < head[0]; i++)
            last = MAX(last, word_at(at + 4ull * i));
        if (last < head[1])
            return head[1];
        do
            at = elf_bytes(elf, chains + 4ull * (last - head[1]), 4, NULL);
        while (at && last++ < UINT32_MAX && !(word_at(at) & 1));
        return last;
    }
    return strtab > symtab ? (strtab - symtab) / sizeof(Elf64_Sym) : 0;
}

static void load_dynamic(struct elf *elf)
{
    uint64_t symtab = 0, strtab = 0, strsz = 0, hash = 0, gnu_hash = 0;
    for (size_t i = 0; i < elf->segments; i++) {
        Elf64_Phdr p;
        if (segment_header(elf, i, &p) < 0 || p.p_type != PT_DYNAMIC)
            continue;
        const uint8_t *at = image_at(elf, p.p_offset, p.p_filesz);
        for (size_t k = 0; at && k + sizeof(Elf64_Dyn) <= p.p_filesz; k += sizeof(Elf64_Dyn)) {
            Elf64_Dyn d;
            memcpy(&d, at + k, sizeof(d));
            if (d.d_tag == DT_NULL)
                break;
            switch (d.d_tag) {
            case DT_SYMTAB:
                symtab = d.d_un.d_ptr;
                break;
            case DT_STRTAB:
                strtab = d.d_un.d_ptr;
                break;
            case DT_STRSZ:
                strsz = d.d_un.d_val;
                break;
            case DT_HASH:
                hash = d.d_un.d_ptr;
                break;
            case DT_GNU_HASH:
                gnu_hash = d.d_un.d_ptr;
                break;
            }
        }
    }
    size_t available, names_available;
    const uint8_t *symbols = symtab ? elf_bytes(elf, symtab, sizeof(Elf64_Sym), &available) : NULL;
    const uint8_t *names = strtab ? elf_bytes(elf, strtab, 1, &names_available) : NULL;
    if (!symbols || !names)
        return;
    size_t names_size = MIN(strsz, names_available);
    const uint8_t *end = names_size ? memrchr(names, 0, names_size) : NULL;
    if (!end)
        return;
    size_t count = dynamic_symbol_count(elf, hash, gnu_hash, symtab, strtab);
    elf->tables[DYNSYM] = (struct table){.symbols = symbols,
                                         .count = MIN(count, available / sizeof(Elf64_Sym)),
                                         .strings = (const char *)names,
                                         .strings_size = (size_t)(end - names) + 1};
}

/* Notes are {name size, description size, type, name, description}, each padded to 4 bytes. */
static bool find_build_id(struct elf *elf, const uint8_t *at, size_t size)
{
    while (size >= 12) {
        uint32_t h[3];
        memcpy(h, at, 12);
        uint64_t name = ((uint64_t)h[0] + 3) & ~3ull, description = ((uint64_t)h[1] + 3) & ~3ull;
        if (12 + name + h[1] > size)
            return false;
        if (h[2] == NT_GNU_BUILD_ID && h[0] == 4 && memcmp(at + 12, "GNU", 4) == 0 && h[1] > 0 &&
            h[1] * 2 < sizeof(elf->build_id)) {
            for (uint32_t i = 0; i < h[1]; i++) {
                static const char digits[] = "0123456789abcdef";
                elf->build_id[2 * i] = digits[at[12 + name + i] >> 4];
                elf->build_id[2 * i + 1] = digits[at[12 + name + i] & 15];
            }
            elf->build_id[2 * h[1]] = '\0';
            return true;
        }
        if (12 + name + description > size)
            return false;
        at += 12 + name + description;
        size -= 12 + name + description;
    }
    return false;
}

static void load_build_id(struct elf *elf)
{
    for (size_t i = 0; i < elf->segments; i++) {
        Elf64_Phdr p;
        const uint8_t *at;
        if (segment_header(elf, i, &p) == 0 && p.p_type == PT_NOTE &&
            (at = image_at(elf, p.p_offset, p.p_filesz)) && find_build_id(elf, at, p.p_filesz))
            return;
    }
    for (size_t i = 0; i < elf->sections; i++) {
        Elf64_Shdr h;
        const uint8_t *at;
        if (section_header(elf, i, &h) == 0 && h.sh_type == SHT_NOTE &&
            (at = image_at(elf, h.sh_offset, h.sh_size)) && find_build_id(elf, at, h.sh_size))
            return;
    }
}

/* How many entries of a header table lie inside the file. */
static size_t entries_inside(const struct elf *elf, uint64_t offset, uint64_t count, size_t entry)
{
    if (offset == 0 || offset >= elf->size)
        return 0;
    return MIN(count, (elf->size - offset) / entry);
}

static int load(struct elf *elf, struct problem *problem)
{
    if (elf->size < sizeof(Elf64_Ehdr) || memcmp(elf->data, ELFMAG, SELFMAG) != 0)
        return problem_set(problem, -ENOEXEC, "%s: not an ELF file", elf->label);
    memcpy(&elf->header, elf->data, sizeof(elf->header));
    const Elf64_Ehdr *h = &elf->header;
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB)
        return problem_set(problem, -ENOEXEC, "%s: not a 64-bit little-endian ELF file", elf->label);

    uint64_t sections = h->e_shentsize == sizeof(Elf64_Shdr) ? h->e_shnum : 0, names = h->e_shstrndx;
    const uint8_t *first = image_at(elf, h->e_shoff, sizeof(Elf64_Shdr));
    if (h->e_shoff && first && h->e_shentsize == sizeof(Elf64_Shdr)) {
        Elf64_Shdr zero; /* holds numbers that do not fit the header's 16 bits */
        memcpy(&zero, first, sizeof(zero));
        sections = sections ? sections : zero.sh_size;
        names = names == SHN_XINDEX ? zero.sh_link : names;
    }
    elf->sections = entries_inside(elf, h->e_shoff, sections, sizeof(Elf64_Shdr));
    if (h->e_phentsize == sizeof(Elf64_Phdr))
        elf->segments = entries_inside(elf, h->e_phoff, h->e_phnum, sizeof(Elf64_Phdr));
    load_strings(elf, names, &elf->section_names, &elf->section_names_size);
    load_tables(elf);
    if (!elf->tables[DYNSYM].count)
        load_dynamic(elf);
    load_build_id(elf);
    return 0;
}

/* A string that has lost its NUL since it was checked ends in the zeros behind the file. */
static size_t room_of(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page + page;
}

/* how: MAP_SHARED, though nothing is written, for what code is read from: in private mappings the kernel sets
 * the breakpoints that other tools have put on the file (uprobes), and code would not be as it is there. */
static void *map_file(int fd, size_t size, int how)
{
    void *room = mmap(NULL, room_of(size), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return MAP_FAILED;
    void *data = mmap(room, size, PROT_READ, how | MAP_FIXED, fd, 0);
    if (data == MAP_FAILED) {
        int error = errno;
        munmap(room, room_of(size));
        errno = error;
    }
    return data;
}

static void unmap_file(void *data, size_t size)
{
    munmap(data, room_of(size));
}

static int open_image(const void *data, size_t size, bool mapped, void *taken, const char *label,
                      struct elf **ret_elf, struct problem *problem)
{
    struct elf *elf = calloc(1, sizeof(*elf));
    int r = -ENOMEM;
    if (elf) {
        elf->data = data;
        elf->size = size;
        elf->mapped = mapped;
        elf->taken = taken;
        elf->label = strdup(label);
        r = elf->label ? load(elf, problem) : -ENOMEM;
    }
    if (r == 0) {
        *ret_elf = elf;
        return 0;
    }
    if (elf) {
        elf_free(elf);
    } else {
        if (mapped)
            unmap_file((void *)data, size);
        free(taken);
    }
    return r == -ENOMEM ? problem_set(problem, r, "%s: out of memory", label) : r;
}

int elf_open_bytes(const void *data, size_t size, const char *label, struct elf **ret_elf,
                   struct problem *problem)
{
    return open_image(data, size, false, NULL, label, ret_elf, problem);
}

int elf_open_taken(void *data, size_t size, const char *label, struct elf **ret_elf, struct problem *problem)
{
    return open_image(data, size, false, data, label, ret_elf, problem);
}

int elf_open_fd(int fd, const char *label, struct elf **ret_elf, struct problem *problem)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return problem_set(problem, -errno, "%s: %s", label, strerror(errno));
    if (!S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof(Elf64_Ehdr))
        return problem_set(problem, -ENOEXEC, "%s: not an ELF file", label);
    void *data = map_file(fd, (size_t)st.st_size, MAP_SHARED);
    if (data == MAP_FAILED)
        return problem_set(problem, -errno, "%s: cannot map: %s", label, strerror(errno));
    int r = open_image(data, (size_t)st.st_size, true, NULL, label, ret_elf, problem);
    struct elf_section debug;
    if (r == 0 && elf_section_named(*ret_elf, ".debug_info", &debug) == 0 && debug.type == SHT_PROGBITS) {
        void *own = map_file(fd, (size_t)st.st_size, MAP_PRIVATE);
        (*ret_elf)->own = own == MAP_FAILED ? NULL : own;
    }
    return r;
}

int elf_open(const char *path, struct elf **ret_elf, struct problem *problem)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return problem_set(problem, -errno, "%s: %s", path, strerror(errno));
    int r = elf_open_fd(fd, path, ret_elf, problem);
    close(fd);
    return r;
}

size_t elf_index_bytes(const struct elf *elf)
{
    const struct buckets *b = &elf->buckets;
    size_t numbers = b->first ? b->count + 1 + b->first[b->count] : 0;
    return elf->names_capacity * sizeof(*elf->names) + elf->function_count * sizeof(*elf->functions) +
           numbers * sizeof(*b->first);
}

static void forget_buckets(struct elf *elf)
{
    free(elf->buckets.first);
    free(elf->buckets.where);
    elf->buckets = (struct buckets){0};
}

void elf_forget_indexes(struct elf *elf)
{
    free(elf->names);
    free(elf->functions);
    elf->names = NULL;
    elf->functions = NULL;
    elf->names_capacity = elf->function_count = 0;
    elf->functions_built = false;
    elf->scans = 0;
    forget_buckets(elf);
}

void elf_free(struct elf *elf)
{
    if (!elf)
        return;
    if (elf->mapped)
        unmap_file((void *)elf->data, elf->size);
    if (elf->own)
        unmap_file(elf->own, elf->size);
    free(elf->taken);
    free(elf->label);
    free(elf->names);
    free(elf->functions);
    forget_buckets(elf);
    free(elf);
}

/* ---- symbols ---- */

#define WHERE(table, index) ((uint32_t)(table) << 31 | (uint32_t)(index))

static void raw_symbol(const struct elf *elf, uint32_t where, Elf64_Sym *ret)
{
    const struct table *table = &elf->tables[where >> 31];
    memcpy(ret, table->symbols + (size_t)(where & 0x7fffffff) * sizeof(*ret), sizeof(*ret));
}

static const char *symbol_name(const struct elf *elf, uint32_t where, const Elf64_Sym *symbol)
{
    const struct table *table = &elf->tables[where >> 31];
    return symbol->st_name && symbol->st_name < table->strings_size ? table->strings + symbol->st_name : NULL;
}

static void describe(const struct elf *elf, uint32_t where, const Elf64_Sym *s, struct elf_symbol *ret)
{
    Elf64_Shdr h = {0};
    section_header(elf, s->st_shndx, &h);
    *ret = (struct elf_symbol){.name = symbol_name(elf, where, s),
                               .value = s->st_value,
                               .size = s->st_size,
                               .type = ELF64_ST_TYPE(s->st_info),
                               .binding = ELF64_ST_BIND(s->st_info),
                               .section = s->st_shndx,
                               .section_type = h.sh_type};
}

static bool is_named(const struct elf *elf, uint32_t where, const char *name)
{
    Elf64_Sym s;
    raw_symbol(elf, where, &s);
    const char *found = symbol_name(elf, where, &s);
    return found && *found == *name && strcmp(found, name) == 0;
}

static int build_names(struct elf *elf)
{
    size_t total = elf->tables[DYNSYM].count + elf->tables[SYMTAB].count, capacity = 16;
    while (capacity < total * 2)
        capacity *= 2;
    elf->names = calloc(capacity, sizeof(*elf->names));
    if (!elf->names)
        return -ENOMEM;
    elf->names_capacity = capacity;
    for (uint32_t t = 0; t < TABLES; t++)
        for (size_t i = 0; i < elf->tables[t].count; i++) {
            Elf64_Sym s;
            uint32_t where = WHERE(t, i);
            raw_symbol(elf, where, &s);
            const char *name = symbol_name(elf, where, &s);
            if (s.st_shndx == SHN_UNDEF || !name)
                continue;
            size_t slot = map_hash(name, strlen(name)) & (capacity - 1);
            while (elf->names[slot] && !is_named(elf, elf->names[slot] - 1, name))
                slot = (slot + 1) & (capacity - 1);
            if (!elf->names[slot]) /* the first of several wins: .dynsym, then the order of .symtab */
                elf->names[slot] = where + 1;
        }
    return 0;
}

/* .gnu.hash, made for the dynamic linker: u32 buckets, first symbol in them, words of the filter, its shift;
 * the filter's words of 64 bits; a u32 for each bucket: its first symbol; for each symbol from the first on
 * its hash, whose lowest bit marks the last one of a bucket. 1 found, 0 not exported, -ENOENT no such table.
 */
static int find_exported(const struct elf *elf, const char *name, uint32_t *ret_where)
{
    struct elf_section section;
    uint32_t head[4], hash = 5381, at, other;
    if (elf_section_named(elf, ".gnu.hash", &section) < 0 || !section.data || section.size < sizeof(head))
        return -ENOENT;
    memcpy(head, section.data, sizeof(head));
    uint64_t buckets = sizeof(head) + 8ull * head[2], chain = buckets + 4ull * head[0];
    if (!head[0] || chain > section.size)
        return -ENOENT;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (uint8_t)*c;
    memcpy(&at, section.data + buckets + 4ull * (hash % head[0]), sizeof(at));
    for (; at >= head[1] && at < elf->tables[DYNSYM].count; at++) {
        uint64_t place = chain + 4ull * (at - head[1]);
        if (place + 4 > section.size)
            return -ENOENT;
        memcpy(&other, section.data + place, sizeof(other));
        if ((other | 1) == (hash | 1)) {
            Elf64_Sym s;
            raw_symbol(elf, WHERE(DYNSYM, at), &s);
            const char *found = symbol_name(elf, WHERE(DYNSYM, at), &s);
            if (s.st_shndx != SHN_UNDEF && found && strcmp(found, name) == 0) {
                *ret_where = WHERE(DYNSYM, at);
                return 1;
            }
        }
        if (other & 1)
            break;
    }
    return 0;
}

static bool find_in_table(const struct elf *elf, uint32_t table, const char *name, uint32_t *ret_where)
{
    for (size_t i = 0; i < elf->tables[table].count; i++) {
        Elf64_Sym s;
        raw_symbol(elf, WHERE(table, i), &s);
        const char *found = symbol_name(elf, WHERE(table, i), &s);
        if (s.st_shndx != SHN_UNDEF && found && *found == *name && strcmp(found, name) == 0) {
            *ret_where = WHERE(table, i);
            return true;
        }
    }
    return false;
}

/* A few names of a large file are found sooner without putting all of them into a table first. */
static int find_few(struct elf *elf, const char *name, uint32_t *ret_where)
{
    int r = find_exported(elf, name, ret_where);
    if (r == 0 && elf->tables[SYMTAB].count == 0)
        return 0;
    if (r == 1 || elf->searches == SEARCHES)
        return r == 1 ? 1 : -ENOENT;
    elf->searches++;
    return (r < 0 && find_in_table(elf, DYNSYM, name, ret_where)) ||
           find_in_table(elf, SYMTAB, name, ret_where);
}

static int tell(const struct elf *elf, uint32_t where, struct elf_symbol *ret_symbol)
{
    Elf64_Sym s;
    raw_symbol(elf, where, &s);
    describe(elf, where, &s, ret_symbol);
    return ret_symbol->name ? 0 : -ENOENT;
}

int elf_find_exported(struct elf *elf, const char *name, struct elf_symbol *ret_symbol)
{
    uint32_t where;
    int r = find_exported(elf, name, &where);
    if (r == 1)
        return tell(elf, where, ret_symbol);
    return r == 0 ? -ENOENT : elf_find(elf, name, ret_symbol);
}

int elf_find(struct elf *elf, const char *name, struct elf_symbol *ret_symbol)
{
    if (!elf->names) {
        uint32_t where;
        int r = find_few(elf, name, &where);
        if (r == 1)
            return tell(elf, where, ret_symbol);
        if (r == 0)
            return -ENOENT;
        if (build_names(elf) < 0)
            return -ENOMEM;
    }
    for (size_t slot = map_hash(name, strlen(name)) & (elf->names_capacity - 1); elf->names[slot];
         slot = (slot + 1) & (elf->names_capacity - 1)) {
        if (is_named(elf, elf->names[slot] - 1, name))
            return tell(elf, elf->names[slot] - 1, ret_symbol);
    }
    return -ENOENT;
}

int elf_each_symbol(struct elf *elf, const char *prefix,
                    int (*visit)(const struct elf_symbol *symbol, void *context), void *context)
{
    size_t length = strlen(prefix);
    for (uint32_t t = 0; t < TABLES; t++)
        for (size_t i = 0; i < elf->tables[t].count; i++) {
            Elf64_Sym s;
            uint32_t where = WHERE(t, i);
            raw_symbol(elf, where, &s);
            const char *name = symbol_name(elf, where, &s);
            if (s.st_shndx == SHN_UNDEF || !name || strncmp(name, prefix, length) != 0)
                continue;
            struct elf_symbol symbol;
            describe(elf, where, &s, &symbol);
            symbol.name = name;
            int r = visit(&symbol, context);
            if (r)
                return r;
        }
    return 0;
}

/* ---- functions by address ---- */

/* Functions, and untyped labels of executable sections (assembly). */
static bool is_code(const struct elf *elf, const Elf64_Sym *s)
{
    Elf64_Shdr h;
    switch (ELF64_ST_TYPE(s->st_info)) {
    case STT_FUNC:
    case STT_GNU_IFUNC:
        return s->st_shndx != SHN_UNDEF;
    case STT_NOTYPE:
        return section_header(elf, s->st_shndx, &h) == 0 && h.sh_flags & SHF_EXECINSTR;
    default:
        return false;
    }
}

/* Of several names at one address the best is kept: sized before unsized, functions before labels, global
 * before weak before local, then the first in the tables. */
static int rank(const Elf64_Sym *s)
{
    int binding = ELF64_ST_BIND(s->st_info);
    return (s->st_size != 0) * 8 + (ELF64_ST_TYPE(s->st_info) != STT_NOTYPE) * 4 +
           (binding == STB_GLOBAL ? 2
            : binding == STB_WEAK ? 1
                                  : 0);
}

static uint64_t value_of(const void *item)
{
    return ((const struct function *)item)->value;
}

/* Of two at one address: is a the better one? */
static bool better(const struct elf *elf, const struct function *a, const struct function *b)
{
    Elf64_Sym sa, sb;
    raw_symbol(elf, a->where, &sa);
    raw_symbol(elf, b->where, &sb);
    int ra = rank(&sa), rb = rank(&sb);
    return ra != rb ? ra > rb : a->where < b->where;
}

static int build_functions(struct elf *elf)
{
    ARRAY(struct function) found = {0};
    for (uint32_t t = 0; t < TABLES; t++)
        for (size_t i = 0; i < elf->tables[t].count; i++) {
            Elf64_Sym s;
            uint32_t where = WHERE(t, i);
            raw_symbol(elf, where, &s);
            if (!symbol_name(elf, where, &s) || !is_code(elf, &s))
                continue;
            struct function f = {s.st_value, where, (uint32_t)MIN(s.st_size, UINT32_MAX)};
            if (array_add(&found, f) < 0) {
                array_done(&found);
                return -ENOMEM;
            }
        }
    if (sort_by_key(found.at, found.count, sizeof(*found.at), value_of) < 0) {
        array_done(&found);
        return -ENOMEM;
    }
    size_t kept = 0; /* one per address */
    for (size_t i = 0; i < found.count; i++) {
        if (kept == 0 || found.at[kept - 1].value != found.at[i].value)
            found.at[kept++] = found.at[i];
        else if (better(elf, &found.at[i], &found.at[kept - 1]))
            found.at[kept - 1] = found.at[i];
    }
    elf->functions = found.at;
    elf->function_count = kept;
    elf->functions_built = true;
    return 0;
}

size_t elf_function_count(struct elf *elf)
{
    if (!elf->functions_built)
        build_functions(elf);
    return elf->function_count;
}

/* A short function may lie inside a longer one's range (cold parts, local labels): so many are looked at. */
enum { LOOK_BACK = 8 };

/* The last functions that begin at the address or before it, the last one first. */
static size_t functions_before(const struct elf *elf, uint64_t address, struct function ret_before[LOOK_BACK])
{
    size_t low = 0, high = elf->function_count, count = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (elf->functions[middle].value <= address)
            low = middle + 1;
        else
            high = middle;
    }
    while (count < LOOK_BACK && low > count) {
        ret_before[count] = elf->functions[low - 1 - count];
        count++;
    }
    return count;
}

/* Puts a function, if it is one and begins at the address or before it, in its place among the last of those,
 * which are `count`. How many there are then. */
static size_t consider(const struct elf *elf, uint32_t where, uint64_t address,
                       struct function before[LOOK_BACK], size_t count)
{
    Elf64_Sym s;
    raw_symbol(elf, where, &s);
    if (s.st_value > address || (count == LOOK_BACK && s.st_value < before[count - 1].value) ||
        !symbol_name(elf, where, &s) || !is_code(elf, &s))
        return count;
    const struct function f = {s.st_value, where, (uint32_t)MIN(s.st_size, UINT32_MAX)};
    size_t at = 0;
    while (at < count && before[at].value > f.value)
        at++;
    if (at < count && before[at].value == f.value) {
        if (better(elf, &f, &before[at]))
            before[at] = f;
        return count;
    }
    count = MIN(count + 1, (size_t)LOOK_BACK);
    memmove(&before[at + 1], &before[at], (count - 1 - at) * sizeof(f));
    before[at] = f;
    return count;
}

/* functions_before() without an index. */
static size_t scan_before(const struct elf *elf, uint64_t address, struct function ret_before[LOOK_BACK])
{
    size_t count = 0;
    for (uint32_t t = 0; t < TABLES; t++)
        for (size_t i = 0; i < elf->tables[t].count; i++)
            count = consider(elf, WHERE(t, i), address, ret_before, count);
    return count;
}

/* What begins earlier lies in the same bucket or in an earlier one. */
static size_t bucket_of(const struct buckets *b, uint64_t value)
{
    return value <= b->low ? 0 : MIN((value - b->low) >> b->shift, b->count - 1);
}

/* Where executable segments lie; false: there are none. */
static bool code_range(const struct elf *elf, uint64_t *ret_low, uint64_t *ret_high)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < elf->segments; i++) {
        Elf64_Phdr p;
        if (segment_header(elf, i, &p) < 0 || p.p_type != PT_LOAD || !(p.p_flags & PF_X))
            continue;
        low = MIN(low, p.p_vaddr);
        high = MAX(high, p.p_vaddr + p.p_memsz);
    }
    *ret_low = low;
    *ret_high = high;
    return low < high;
}

/* Calls visit with each function's bucket. */
static void each_function(struct elf *elf, void (*visit)(struct buckets *b, size_t bucket, uint32_t where))
{
    for (uint32_t t = 0; t < TABLES; t++)
        for (size_t i = 0; i < elf->tables[t].count; i++) {
            Elf64_Sym s;
            raw_symbol(elf, WHERE(t, i), &s);
            if (is_code(elf, &s) && symbol_name(elf, WHERE(t, i), &s))
                visit(&elf->buckets, bucket_of(&elf->buckets, s.st_value), WHERE(t, i));
        }
}

static void count_function(struct buckets *b, size_t bucket, uint32_t where)
{
    (void)where;
    b->first[bucket + 1]++;
}

/* first[bucket + 1] goes from where the bucket begins to where the next one does. The file may have become
 * another one since its functions were counted. */
static void place_function(struct buckets *b, size_t bucket, uint32_t where)
{
    if (b->first[bucket + 1] < b->first[b->count + 1])
        b->where[b->first[bucket + 1]++] = where;
}

static int build_buckets(struct elf *elf)
{
    enum { EACH = 8 };
    struct buckets *b = &elf->buckets;
    uint64_t low, high;
    size_t wanted = (elf->tables[DYNSYM].count + elf->tables[SYMTAB].count) / EACH + 1;
    if (!code_range(elf, &low, &high))
        return -ENOENT;
    b->low = low;
    for (b->shift = 0; (high - low) >> b->shift > wanted; b->shift++)
        ;
    b->count = (size_t)((high - low) >> b->shift) + 1;
    b->first = calloc(b->count + 2, sizeof(*b->first));
    if (!b->first)
        return -ENOMEM;
    each_function(elf, count_function);
    uint32_t sum = 0;
    for (size_t i = 1; i <= b->count; i++) {
        uint32_t count = b->first[i];
        b->first[i] = sum;
        sum += count;
    }
    b->first[b->count + 1] = sum;
    b->where = calloc(sum + 1ul, sizeof(*b->where));
    if (!b->where) {
        forget_buckets(elf);
        return -ENOMEM;
    }
    each_function(elf, place_function);
    b->first[b->count] = sum;
    return 0;
}

/* functions_before() with buckets. */
static size_t search_buckets(struct elf *elf, uint64_t address, struct function ret_before[LOOK_BACK])
{
    enum { MANY = 4096 };
    struct buckets *b = &elf->buckets;
    size_t count = 0, looked = 0;
    for (size_t i = bucket_of(b, address) + 1; i-- > 0 && count < LOOK_BACK;)
        for (uint32_t at = b->first[i]; at < b->first[i + 1]; at++, looked++)
            count = consider(elf, b->where[at], address, ret_before, count);
    b->crowded += looked > MANY;
    return count;
}

/* The last functions that begin at the address or before it, by the cheapest means. Looking through all
 * symbols takes half as long as making buckets of them, and most files are asked for a function or two. Where
 * buckets are of no use, because most functions are said to lie in one place, they are sorted. -ENOMEM. */
static int find_before(struct elf *elf, uint64_t address, struct function ret_before[LOOK_BACK],
                       size_t *ret_count)
{
    enum { SCANS = 2, CROWDED = 32 };
    bool scans = !elf->functions_built && !elf->buckets.first && ++elf->scans <= SCANS;
    if (scans) {
        *ret_count = scan_before(elf, address, ret_before);
        return 0;
    }
    if (!elf->functions_built && !elf->buckets.first && build_buckets(elf) == -ENOMEM)
        return -ENOMEM;
    bool sorts = !elf->buckets.first || elf->buckets.crowded > CROWDED;
    if (!elf->functions_built && sorts && build_functions(elf) < 0)
        return -ENOMEM;
    *ret_count = elf->functions_built ? functions_before(elf, address, ret_before)
                                      : search_buckets(elf, address, ret_before);
    return 0;
}

int elf_symbol_at(struct elf *elf, uint64_t address, struct elf_symbol *ret_symbol)
{
    struct function before[LOOK_BACK];
    size_t count;
    int r = find_before(elf, address, before, &count);
    if (r < 0)
        return r;
    for (size_t back = 0; back < count; back++) {
        const struct function *f = &before[back];
        Elf64_Sym s;
        raw_symbol(elf, f->where, &s);
        bool inside = s.st_size ? address - f->value < s.st_size : back == 0;
        if (inside && !s.st_size) { /* unsized: to the next symbol, but not past its section */
            Elf64_Shdr h;
            inside = section_header(elf, s.st_shndx, &h) == 0 && address - h.sh_addr < h.sh_size;
        }
        if (!inside)
            continue;
        describe(elf, f->where, &s, ret_symbol);
        return ret_symbol->name ? 0 : -ENOENT;
    }
    return -ENOENT;
}

/* ---- bytes, sections, segments ---- */

const char *elf_build_id(struct elf *elf)
{
    return elf->build_id;
}

static int load_segment_of(const struct elf *elf, uint64_t address, Elf64_Phdr *ret)
{
    for (size_t i = 0; i < elf->segments; i++)
        if (segment_header(elf, i, ret) == 0 && ret->p_type == PT_LOAD && address >= ret->p_vaddr &&
            address - ret->p_vaddr < ret->p_memsz)
            return 0;
    return -ENOENT;
}

const uint8_t *elf_bytes(const struct elf *elf, uint64_t address, size_t size, size_t *ret_available)
{
    Elf64_Phdr p;
    if (load_segment_of(elf, address, &p) < 0)
        return NULL;
    uint64_t into = address - p.p_vaddr;
    if (into >= p.p_filesz || p.p_offset > elf->size || into > elf->size - p.p_offset)
        return NULL;
    uint64_t available = MIN(p.p_filesz - into, elf->size - p.p_offset - into);
    if (size > available)
        return NULL;
    if (ret_available)
        *ret_available = available;
    return elf->data + p.p_offset + into;
}

int elf_read(const struct elf *elf, uint64_t address, void *buffer, size_t size)
{
    Elf64_Phdr p;
    if (load_segment_of(elf, address, &p) < 0 || size > p.p_memsz - (address - p.p_vaddr))
        return -EFAULT;
    size_t available = 0;
    const uint8_t *at = elf_bytes(elf, address, 0, &available);
    size_t from_file = at ? MIN(available, size) : 0;
    if (from_file < size && address - p.p_vaddr + from_file < p.p_filesz)
        return -EFAULT; /* the file ends before its segment does */
    if (from_file)
        memcpy(buffer, at, from_file);
    memset((char *)buffer + from_file, 0, size - from_file);
    return 0;
}

int elf_offset_to_address(const struct elf *elf, uint64_t offset, uint64_t *ret_address)
{
    Elf64_Phdr p;
    for (size_t i = 0; segment_header(elf, i, &p) == 0; i++)
        if (p.p_type == PT_LOAD && offset >= p.p_offset && offset - p.p_offset < p.p_filesz) {
            *ret_address = p.p_vaddr + (offset - p.p_offset);
            return 0;
        }
    return -ENOENT;
}

int elf_address_to_offset(const struct elf *elf, uint64_t address, uint64_t *ret_offset)
{
    Elf64_Phdr p;
    if (load_segment_of(elf, address, &p) < 0 || address - p.p_vaddr >= p.p_filesz)
        return -ENOENT;
    *ret_offset = p.p_offset + (address - p.p_vaddr);
    return 0;
}

int elf_section_at(const struct elf *elf, size_t index, struct elf_section *ret_section)
{
    Elf64_Shdr h;
    if (section_header(elf, index, &h) < 0)
        return -ENOENT;
    *ret_section = (struct elf_section){
        .name = h.sh_name < elf->section_names_size ? elf->section_names + h.sh_name : "",
        .address = h.sh_addr,
        .size = h.sh_size,
        .flags = h.sh_flags,
        .type = h.sh_type,
        .data = h.sh_type == SHT_NOBITS ? NULL : image_at(elf, h.sh_offset, h.sh_size),
        .offset = h.sh_offset};
    return 0;
}

int elf_section_named(const struct elf *elf, const char *name, struct elf_section *ret_section)
{
    struct elf_section section;
    for (size_t i = 0; elf_section_at(elf, i, &section) == 0; i++)
        if (strcmp(section.name, name) == 0) {
            *ret_section = section;
            return 0;
        }
    return -ENOENT;
}

int elf_segment_at(const struct elf *elf, size_t index, struct elf_segment *ret_segment)
{
    Elf64_Phdr p;
    if (segment_header(elf, index, &p) < 0)
        return -ENOENT;
    *ret_segment = (struct elf_segment){.type = p.p_type,
                                        .flags = p.p_flags,
                                        .offset = p.p_offset,
                                        .address = p.p_vaddr,
                                        .file_size = p.p_filesz,
                                        .memory_size = p.p_memsz};
    return 0;
}

uint16_t elf_machine(const struct elf *elf)
{
    return elf->header.e_machine;
}

void *elf_scratch(struct elf *elf)
{
    if (!elf->own)
        return elf->taken;
    return mprotect(elf->own, elf->size, PROT_READ | PROT_WRITE) < 0 ? NULL : elf->own;
}

uint64_t elf_entry(const struct elf *elf)
{
    return elf->header.e_entry;
}

uint16_t elf_type(const struct elf *elf)
{
    return elf->header.e_type;
}

const char *elf_label(const struct elf *elf)
{
    return elf->label;
}

size_t elf_size(const struct elf *elf)
{
    return elf->size;
}

const uint8_t *elf_data(const struct elf *elf)
{
    return elf->data;
}
