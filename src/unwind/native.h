/* Native code of one process, unwound from outside: its modules, their unwind tables and symbols. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWIND_NATIVE_H
#define UNWIND_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"
#include "base/problem.h"
#include "symbol/elf.h"
#include "symbol/lines.h"
#include "symbol/modules.h"
#include "unwind/facts.h"

/* What a frame is walked with. */
struct registers {
    uint64_t pc, sp, fp;
};

/* A copy of the part of a thread's stack from its stack pointer up. */
struct stack_copy {
    uint64_t start; /* address in the process of bytes[0] */
    const uint8_t *bytes;
    size_t size;
};

/* The word at an address of the copied stack; false when it was not copied. */
bool stack_word(const struct stack_copy *stack, uint64_t address, uint64_t *ret_word);

struct native;

/* Files that several processes map, opened once. */
struct native_files;
struct native_file;
int native_files_new(struct native_files **ret_files);
void native_files_free(struct native_files *files);
DEFINE_FREEP(struct native_files, native_files_free)

/* Gives memory back, to be called now and then: closes files that no native has mapped any more, except the
 * ones used last, and forgets the indexes of symbols that were not used for the longest time as far as all
 * together are too large. Of those that are closed, at most `closed` are still known, with their notes. Texts
 * that were returned are gone. */
void native_files_trim(struct native_files *files, size_t closed);

/* All of them. */
void native_files_visit(struct native_files *files, void (*visit)(void *context, struct native_file *file),
                        void *context);

/* What is called when a file is forgotten that has a note, with that. Not by native_files_free(). */
void native_files_on_forget(struct native_files *files, void (*forget)(void *context, uint64_t note),
                            void *context);

/* Files whose lines were not read because that would take too much memory. */
size_t native_files_too_large(const struct native_files *files);

/* Reads the process's mappings; tables and symbols are read when they are first needed and kept for the life
 * of the object. */
int native_open(pid_t pid, struct native **ret_native, struct problem *problem);

/* The same, with files that are shared; they must outlive the object. */
int native_open_shared(pid_t pid, struct native_files *files, struct native **ret_native,
                       struct problem *problem);

/* The same for mappings that are known already; they are taken over, also when this fails. */
int native_open_modules(struct modules *modules, struct native_files *files, struct native **ret_native);

/* Are all files of their code open already? */
bool native_files_know(struct native_files *files, const struct modules *modules);

void native_free(struct native *native);
DEFINE_FREEP(struct native, native_free)

/* Reads the mappings again (libraries load, code is generated). Files already open stay open. On failure, or
 * when the process ended (-ESRCH), what was known stays. */
int native_refresh(struct native *native);

/* Replaces the mappings by others, which are taken over. */
void native_take_modules(struct native *native, struct modules *modules);

const struct modules *native_modules(const struct native *native);

/* The file behind an executable address; NULL for generated code. ret_address gets the address in the file.
 */
struct elf *native_file_at(struct native *native, uint64_t pc, uint64_t *ret_address,
                           const struct module **ret_module);

/* The file behind a module, opened; NULL when that is not possible. Borrowed. */
struct native_file *native_file_of(struct native *native, const struct module *module);
struct elf *native_file_elf(struct native_file *file);

/* Its unwind rows, read at the first call; NULL when it has none. */
struct unwind_table;
struct unwind_table *native_file_table(struct native_file *file);
/* Was it called already? */
bool native_file_met(const struct native_file *file);

/* What reader finds in it, which is asked once: facts_of(). */
int native_file_fact(struct native_file *file, fact_reader reader, size_t size, const void **ret_fact);

/* Never another file's. */
uint64_t native_file_serial(const struct native_file *file);

/* The same as native_file_at(), for what is asked of a file. */
struct native_file *native_loaded_at(struct native *native, uint64_t pc, uint64_t *ret_address,
                                     const struct module **ret_module);

/* A word for the user of the files to keep with each: 0 at first. */
uint64_t *native_file_note(struct native_file *file);

enum native_step {
    STEP_CALLER = 0, /* registers are the caller's now */
    STEP_END,        /* the outermost frame */
    STEP_NO_MODULE,  /* generated code, or nothing at all */
    STEP_NO_TABLE,   /* no unwind rule covers the address */
    STEP_NO_STACK,   /* the stack's copy does not reach that far */
};

/* One frame up. call: pc is a return address (so the call before it is looked up). Without a rule, a frame
 * pointer that lies on the stack is tried. */
enum native_step native_step(struct native *native, const struct stack_copy *stack,
                             struct registers *registers, bool call);

/* The function at an executable address, from the file or, when that is stripped, from its separate debug
 * file. */
int native_symbol_at(struct native *native, uint64_t pc, struct elf_symbol *ret_symbol);

/* Source file and line of the code at an address, or of its function's beginning; from DWARF in the file or
 * in its debug file. -ENOENT when there is none. The text lives as long as the files, or until many others
 * were asked for: copy it. */
int native_line_at(struct native *native, uint64_t pc, bool function, struct line_position *ret_position);

/* The functions that a compiler has put into the one at an address, the innermost first: lines_inlined(). 0
 * without DWARF. Texts as native_line_at()'s. */
size_t native_inlined_at(struct native *native, uint64_t pc, struct line_inlined *ret_list, size_t limit);

/* What stands for a function without a symbol, the same for all its code and in all instances: "memcpy@plt",
 * or the file's base name and where in its image the function begins ("libfoo.so+0x1234"), or the address
 * itself where unwind tables do not tell even that. */
void native_place(const struct elf *elf, const struct module *module, uint64_t address, char *buffer,
                  size_t size);

/* The readable name of the function at pc, owned by the caller; native_place() where there is no symbol. */
char *native_name(struct native *native, uint64_t pc, bool call);

#endif
