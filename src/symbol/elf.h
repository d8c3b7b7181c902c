/* One ELF file, mapped: its symbols by name and by address, its sections, segments, bytes and build-id.
 *
 * The file may lie: every offset, count and string in it is checked against the mapping before it is used,
 * and what does not fit is treated as absent. Only 64-bit little-endian files are read. Indices over the
 * symbols are built when they are first asked for. Not thread safe. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_ELF_H
#define SYMBOL_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/problem.h"

struct elf;

/* Addresses here are those of the file (p_vaddr); in a process add the module's load bias (modules.h). */
struct elf_symbol {
    const char *name; /* in the file's string table: lives as long as the elf */
    uint64_t value;
    uint64_t size;         /* 0 where the producer did not say (assembly) */
    uint8_t type;          /* STT_FUNC, STT_OBJECT, STT_GNU_IFUNC, STT_TLS, ... */
    uint8_t binding;       /* STB_GLOBAL, STB_LOCAL, STB_WEAK */
    uint16_t section;      /* index of its section; SHN_ABS and friends as they are */
    uint32_t section_type; /* SHT_PROGBITS, SHT_NOBITS, ...; SHT_NULL when there is no such section */
};

struct elf_section {
    const char *name;
    uint64_t address; /* 0 when it is not loaded */
    uint64_t size;
    uint64_t flags; /* SHF_ALLOC, SHF_EXECINSTR, SHF_COMPRESSED, ... */
    uint32_t type;
    const uint8_t *data; /* size bytes of the mapping, or NULL (SHT_NOBITS, or out of the file) */
    uint64_t offset;
};

struct elf_segment {
    uint32_t type;  /* PT_LOAD, PT_GNU_EH_FRAME, ... */
    uint32_t flags; /* PF_R, PF_W, PF_X */
    uint64_t offset;
    uint64_t address;
    uint64_t file_size;
    uint64_t memory_size;
};

/* Opens a file by path, or by an open descriptor (duplicated, not taken; label is what problems call it).
 * -ENOENT and friends from open(2), -ENOEXEC when it is no ELF file that can be read. */
int elf_open(const char *path, struct elf **ret_elf, struct problem *problem);
int elf_open_fd(int fd, const char *label, struct elf **ret_elf, struct problem *problem);

/* The same over bytes that the caller keeps alive (the vDSO, a fuzzer's input). */
int elf_open_bytes(const void *data, size_t size, const char *label, struct elf **ret_elf,
                   struct problem *problem);

/* Takes over data, which free() releases with the elf. */
int elf_open_taken(void *data, size_t size, const char *label, struct elf **ret_elf, struct problem *problem);

void elf_free(struct elf *elf);
DEFINE_FREEP(struct elf, elf_free)

/* Memory of the indexes that searches made, and giving it back: they are made again when they are needed. */
size_t elf_index_bytes(const struct elf *elf);
void elf_forget_indexes(struct elf *elf);

/* The defined symbol of exactly this name: .dynsym first, then .symtab. -ENOENT when there is none. */
int elf_find(struct elf *elf, const char *name, struct elf_symbol *ret_symbol);

/* The same of a symbol that others link to: without looking through .symtab, where the file has a table of
 * what it exports. */
int elf_find_exported(struct elf *elf, const char *name, struct elf_symbol *ret_symbol);

/* Calls visit for every defined symbol whose name begins with prefix ("" for all), .dynsym first, then
 * .symtab (a name in both is seen twice). Stops at, and returns, the first value other than 0. */
int elf_each_symbol(struct elf *elf, const char *prefix,
                    int (*visit)(const struct elf_symbol *symbol, void *context), void *context);

/* The function that holds the address. Where several names share it, the most telling one: global before weak
 * before local. -ENOENT when no function holds it. */
int elf_symbol_at(struct elf *elf, uint64_t address, struct elf_symbol *ret_symbol);

/* Number of function symbols in the address index (0 for a stripped file). */
size_t elf_function_count(struct elf *elf);

/* GNU build-id as lower-case hexadecimal, or "" when the file has none. */
const char *elf_build_id(struct elf *elf);

/* Copies size bytes at an address of the file's image; bytes beyond the file's content (.bss) are zero.
 * -EFAULT when part of them lies outside every PT_LOAD segment. */
int elf_read(const struct elf *elf, uint64_t address, void *buffer, size_t size);

/* The mapped bytes at an address, at least size of them, or NULL. *ret_available (may be NULL) is how many
 * follow. */
const uint8_t *elf_bytes(const struct elf *elf, uint64_t address, size_t size, size_t *ret_available);

/* File offset to address and back, through the PT_LOAD segments; -ENOENT when none covers it. */
int elf_offset_to_address(const struct elf *elf, uint64_t offset, uint64_t *ret_address);
int elf_address_to_offset(const struct elf *elf, uint64_t address, uint64_t *ret_offset);

/* Sections and segments by index; -ENOENT beyond the last. */
int elf_section_at(const struct elf *elf, size_t index, struct elf_section *ret_section);
int elf_section_named(const struct elf *elf, const char *name, struct elf_section *ret_section);
int elf_segment_at(const struct elf *elf, size_t index, struct elf_segment *ret_segment);

uint16_t elf_machine(const struct elf *elf); /* EM_X86_64, ... */
/* The whole file, with debug information, as memory that another library may write to (what it changes is its
 * own copy); NULL when that is not possible. */
void *elf_scratch(struct elf *elf);

uint64_t elf_entry(const struct elf *elf); /* where it begins; 0 for a library */
uint16_t elf_type(const struct elf *elf);  /* ET_DYN, ET_EXEC, ... */
const char *elf_label(const struct elf *elf);
size_t elf_size(const struct elf *elf);
const uint8_t *elf_data(const struct elf *elf);

#endif
