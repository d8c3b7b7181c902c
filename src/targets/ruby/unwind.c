/* CRuby read from outside. What is fixed are the layouts of 3.1 on 64-bit machines; where a sequence has its
 * name, file and line is taken from the code of functions that Ruby exports and that return these.
 *
 * A thread's execution context begins with its stack, the stack's size in words, and the innermost control
 * frame. Control frames lie side by side up to the stack's end: instruction, stack pointer, sequence, self,
 * environment, ... The environment's first word has the frame's flags. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/ruby/unwind.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "symbol/memory.h"

enum {
    FRAME_BYTES = 64, /* of a control frame */
    SEQUENCE_BODY = 16,
    FLAG_FINISH = 0x20,
    TYPE_MASK = 0x1f,
    TYPE_STRING = 5,
    TYPE_ARRAY = 7,
    FLAG_USER1 = 0x2000, /* strings: the text lies elsewhere; arrays: the elements lie here */
    LENGTH_SHIFT = 14,   /* of a text that lies here */
    OBJECT_HERE = 16,
    STRING_LENGTH = 16,
    STRING_TEXT = 24,
    ARRAY_ELEMENTS = 32,
    LINE_MOST = 10000000,
};

/* Of one file, for all processes that run it. */
struct ruby_file {
    uint64_t module_slot; /* where the loader puts the number of the library, by which threads find its
                             variables */
    uint64_t variable;    /* the context's place among these */
    uint64_t execute[2];
    uint32_t name, file, line; /* in a sequence's body */
    bool is_known;             /* it is of a version that can be read */
};

static bool is_version(struct elf *elf)
{
    struct elf_symbol symbol;
    char text[4];
    return elf_find(elf, "ruby_version", &symbol) == 0 &&
           elf_read(elf, symbol.value, text, sizeof(text)) == 0 && memcmp(text, "3.1.", 4) == 0;
}

/* mov 16(%rdi), %rax; mov place(%rax), %rax: what a function that returns a member of the body begins with.
 */
static bool find_member(struct elf *elf, const char *function, uint32_t *ret_place)
{
    static const uint8_t CODE[] = {0x48, 0x8b, 0x47, SEQUENCE_BODY, 0x48, 0x8b, 0x40};
    struct elf_symbol symbol;
    uint8_t code[sizeof(CODE) + 1];
    if (elf_find(elf, function, &symbol) < 0 || elf_read(elf, symbol.value, code, sizeof(code)) < 0 ||
        memcmp(code, CODE, sizeof(CODE)) != 0)
        return false;
    *ret_place = code[sizeof(CODE)];
    return true;
}

static bool is_called(const struct elf_section *names, uint32_t at, const char *name)
{
    size_t length = strlen(name) + 1;
    return at < names->size && names->size - at >= length && memcmp(names->data + at, name, length) == 0;
}

/* The slot that a relocation has the loader fill in. */
static bool find_slot(const struct elf *elf, const char *variable, uint64_t *ret_slot)
{
    struct elf_section relocations, symbols, names;
    if (elf_section_named(elf, ".rela.dyn", &relocations) < 0 ||
        elf_section_named(elf, ".dynsym", &symbols) < 0 || elf_section_named(elf, ".dynstr", &names) < 0 ||
        !relocations.data || !symbols.data || !names.data)
        return false;
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= relocations.size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela r;
        Elf64_Sym symbol;
        memcpy(&r, relocations.data + at, sizeof(r));
        if (ELF64_R_TYPE(r.r_info) != R_X86_64_DTPMOD64 ||
            ELF64_R_SYM(r.r_info) >= symbols.size / sizeof(symbol))
            continue;
        memcpy(&symbol, symbols.data + ELF64_R_SYM(r.r_info) * sizeof(symbol), sizeof(symbol));
        if (!is_called(&names, symbol.st_name, variable))
            continue;
        *ret_slot = r.r_offset;
        return true;
    }
    return false;
}

static int read_file(struct elf *elf, void *ret_fact)
{
    static const char CONTEXT[] = "ruby_current_ec";
    struct ruby_file *f = ret_fact;
    struct elf_symbol context, execute;
    if (elf_find(elf, CONTEXT, &context) < 0)
        return -ENOENT;
    *f = (struct ruby_file){0};
    if (!is_version(elf) || context.type != STT_TLS || elf_find(elf, "rb_vm_exec", &execute) < 0 ||
        !find_slot(elf, CONTEXT, &f->module_slot) || !find_member(elf, "rb_iseq_label", &f->name) ||
        !find_member(elf, "rb_iseq_path", &f->file) || !find_member(elf, "rb_iseq_first_lineno", &f->line))
        return 0;
    f->variable = context.value;
    f->execute[0] = execute.value;
    f->execute[1] = execute.value + execute.size;
    f->is_known = true;
    return 0;
}

int ruby_find(struct native *native, struct ruby *ret_ruby)
{
    const struct modules *modules = native_modules(native);
    array_foreach (&modules->list, module) {
        const void *found;
        struct native_file *file = module->has_bias ? native_file_of(native, module) : NULL;
        if (!file || native_file_fact(file, read_file, sizeof(struct ruby_file), &found) < 0)
            continue;
        const struct ruby_file *f = found;
        if (!f->is_known)
            return -ENOTSUP;
        *ret_ruby =
            (struct ruby){.frames = {.module_address = f->module_slot + module->load_bias,
                                     .variable = f->variable,
                                     .frame_bytes = FRAME_BYTES,
                                     .sequence_body = SEQUENCE_BODY,
                                     .body = {.code_line = (int)f->line,
                                              .code_name = (int)f->name,
                                              .code_file = (int)f->file,
                                              .text_length = STRING_LENGTH}},
                          .execute = {f->execute[0] + module->load_bias, f->execute[1] + module->load_bias}};
        return 0;
    }
    return -ENOENT;
}

bool ruby_is_outermost(uint64_t flags)
{
    return flags & FLAG_FINISH;
}

static int read_text(pid_t pid, uint64_t object, char *buffer, size_t size)
{
    uint64_t words[4]; /* flags, class, length, text: or its beginning */
    if (memory_read(pid, object, words, sizeof(words)) < 0)
        return -EFAULT;
    if ((words[0] & TYPE_MASK) != TYPE_STRING)
        return -EINVAL;
    bool elsewhere = words[0] & FLAG_USER1;
    uint64_t at = elsewhere ? words[3] : object + OBJECT_HERE;
    size_t length = elsewhere ? words[2] : words[0] >> LENGTH_SHIFT & 31;
    if (!length || length >= 1 << 16)
        return -EINVAL;
    length = MIN(length, size - 1);
    buffer[length] = '\0';
    return memory_read(pid, at, buffer, length) < 0 ? -EFAULT : 0;
}

/* A path is a string, or an array of the path and what it resolves to. */
static uint64_t path_of(pid_t pid, uint64_t object)
{
    uint64_t flags, at, path;
    if (memory_read(pid, object, &flags, sizeof(flags)) < 0 || (flags & TYPE_MASK) != TYPE_ARRAY)
        return object;
    at = object + OBJECT_HERE;
    if (!(flags & FLAG_USER1) && memory_read(pid, object + ARRAY_ELEMENTS, &at, sizeof(at)) < 0)
        return 0;
    return memory_read(pid, at, &path, sizeof(path)) < 0 ? 0 : path;
}

struct sequence {
    uint64_t name, file; /* addresses of objects */
    uint32_t line;       /* as Ruby has integers */
    uint64_t identity;
};

static int read_sequence(const struct sampler_ruby *ruby, pid_t pid, uint64_t address, struct sequence *ret)
{
    struct sequence s;
    uint64_t body, text[2];
    if (memory_read(pid, address + (uint64_t)ruby->sequence_body, &body, sizeof(body)) < 0 ||
        memory_read(pid, body + (uint64_t)ruby->body.code_name, &s.name, sizeof(s.name)) < 0 ||
        memory_read(pid, body + (uint64_t)ruby->body.code_file, &s.file, sizeof(s.file)) < 0 ||
        memory_read(pid, body + (uint64_t)ruby->body.code_line, &s.line, sizeof(s.line)) < 0 ||
        memory_read(pid, s.name + (uint64_t)ruby->body.text_length, text, sizeof(text)) < 0)
        return -EFAULT;
    s.identity = sampler_python_identity(s.line, s.name, s.file, text[0], text[1]);
    *ret = s;
    return 0;
}

int ruby_function(const struct ruby *ruby, pid_t pid, uint64_t address, uint64_t identity,
                  struct ruby_function *ret_function)
{
    struct ruby_function f = {0};
    struct sequence sequence, after;
    int r = read_sequence(&ruby->frames, pid, address, &sequence);
    if (identity && (r < 0 || sequence.identity != identity)) /* it could be read when it was sampled */
        return -ESTALE;
    if (r < 0)
        return r;
    if (sequence.line >> 1 > LINE_MOST || read_text(pid, sequence.name, f.name, sizeof(f.name)) < 0)
        return -EINVAL;
    if (read_text(pid, path_of(pid, sequence.file), f.file, sizeof(f.file)) < 0)
        f.file[0] = '\0';
    f.line = sequence.line >> 1;
    if (read_sequence(&ruby->frames, pid, address, &after) < 0 || after.identity != sequence.identity)
        return -ESTALE; /* while its name was read */
    *ret_function = f;
    return 0;
}
