/* CPython read from outside. The offsets are those of 64-bit builds, taken from each version's headers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/python/unwind.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/memory.h"

struct version {
    int key;                        /* autoTSSkey in _PyRuntime */
    int thread_frame, cframe_frame; /* PyThreadState to the innermost frame */
    int code, previous, instruction, entry;
    int name, file, first_line, line_table; /* of code objects; name: the qualified one since 3.11 */
    int code_bytes; /* where instructions begin in code objects; 0: instruction is an index */
    int text;       /* characters of an ASCII string object */
};

/* 3.9 to 3.13 */
static const struct version VERSIONS[] = {
    {584, 24, -1, 32, 24, 104, -1, 112, 104, 40, 120, 0, 48},
    {584, 24, -1, 32, 24, 96, -1, 112, 104, 40, 120, 0, 48},
    {592, 56, 8, 32, 48, 56, 68, 128, 112, 72, 136, 184, 48},
    {1544, 56, 0, 0, 8, 56, 70, 128, 112, 68, 136, 192, 40},
    {2160, 72, -1, 0, 8, 56, 70, 128, 112, 68, 136, 200, 40},
};

enum { FIRST_MINOR = 9, TSS_KEY = 4, OWNED_BY_C = 3, STRING_LENGTH = 16, STRING_STATE = 32 };

static const struct version *version_of(const struct python *python)
{
    return &VERSIONS[python->minor - FIRST_MINOR];
}

/* Of one file, for all processes that run it. */
struct python_file {
    uint64_t runtime; /* addresses in the file */
    uint64_t evaluate[4][2];
    int evaluate_count;
    int minor; /* -1: the file does not say */
};

static int add_part(const struct elf_symbol *symbol, void *context)
{
    struct python_file *f = context;
    if (symbol->size == 0 || f->evaluate_count == (int)ARRAY_SIZE(f->evaluate))
        return 0;
    for (int i = 0; i < f->evaluate_count; i++)
        if (f->evaluate[i][0] == symbol->value)
            return 0;
    f->evaluate[f->evaluate_count][0] = symbol->value;
    f->evaluate[f->evaluate_count++][1] = symbol->value + symbol->size;
    return 0;
}

static int read_file(struct elf *elf, void *ret_fact)
{
    struct python_file *f = ret_fact;
    struct elf_symbol symbol;
    uint32_t hex;
    if (elf_find(elf, "_PyRuntime", &symbol) < 0)
        return -ENOENT;
    *f = (struct python_file){.runtime = symbol.value, .minor = -1};
    if (elf_find(elf, "Py_Version", &symbol) == 0 && elf_read(elf, symbol.value, &hex, sizeof(hex)) == 0 &&
        hex >> 24 == 3)
        f->minor = (int)(hex >> 16 & 0xff);
    elf_each_symbol(elf, "_PyEval_EvalFrameDefault", add_part, f);
    return 0;
}

/* Since 3.11 the binary says; before, the library's or program's name does. */
static int minor_of(const struct python_file *file, const char *name)
{
    int minor;
    const char *at = strstr(name, "python3.");
    if (file->minor >= 0)
        return file->minor;
    return at && sscanf(at, "python3.%d", &minor) == 1 ? minor : -1;
}

static const char *base_name(const struct module *module)
{
    const char *slash = strrchr(module->path, '/');
    return slash ? slash + 1 : module->path;
}

static int take_file(const struct modules *modules, const struct module *module,
                     const struct python_file *file, struct python *ret_python)
{
    struct python python = {.minor = minor_of(file, base_name(module)),
                            .evaluate_count = file->evaluate_count};
    if (python.minor < FIRST_MINOR || python.minor >= FIRST_MINOR + (int)ARRAY_SIZE(VERSIONS))
        return -ENOTSUP;
    const struct version *v = version_of(&python);
    bool musl = modules_named(modules, "ld-musl") || modules_named(modules, "libc.musl");
    python.frames =
        (struct sampler_python){.key_address = file->runtime + module->load_bias + (uint64_t)v->key + TSS_KEY,
                                .thread_frame = v->thread_frame,
                                .cframe_frame = v->cframe_frame,
                                .frame_code = v->code,
                                .frame_previous = v->previous,
                                .frame_instruction = v->instruction,
                                .frame_entry = v->entry,
                                .code_line = v->first_line,
                                .code_name = v->name,
                                .code_file = v->file,
                                .text_length = STRING_LENGTH,
                                .specifics = musl ? 0 : 0x310};
    if (musl) /* its thread-specific data is behind a pointer: not read */
        return -ENOTSUP;
    for (int i = 0; i < file->evaluate_count; i++)
        for (int end = 0; end < 2; end++)
            python.evaluate[i][end] = file->evaluate[i][end] + module->load_bias;
    *ret_python = python;
    return 0;
}

int python_find(struct native *native, struct python *ret_python)
{
    const struct modules *modules = native_modules(native);
    array_foreach (&modules->list, module) {
        const void *found;
        struct native_file *file = module->has_bias ? native_file_of(native, module) : NULL;
        if (file && native_file_fact(file, read_file, sizeof(struct python_file), &found) == 0 &&
            (strstr(base_name(module), "python") || module == modules_main(modules)))
            return take_file(modules, module, found, ret_python);
    }
    return -ENOENT;
}

bool python_is_evaluate(const struct python *python, uint64_t pc)
{
    for (int i = 0; i < python->evaluate_count; i++)
        if (pc >= python->evaluate[i][0] && pc < python->evaluate[i][1])
            return true;
    return false;
}

enum python_mark python_mark(const struct python *python, uint64_t word)
{
    if (python->minor <= 10)
        return PYTHON_OUTERMOST;
    if (python->minor == 11)
        return word & 0xff ? PYTHON_OUTERMOST : PYTHON_INSIDE;
    return (word & 0xff) == OWNED_BY_C ? PYTHON_BORDER : PYTHON_INSIDE;
}

static int read_text(const struct version *v, pid_t pid, uint64_t object, char *buffer, size_t size)
{
    uint64_t length;
    uint32_t state;
    if (memory_read(pid, object + STRING_LENGTH, &length, sizeof(length)) < 0 ||
        memory_read(pid, object + STRING_STATE, &state, sizeof(state)) < 0)
        return -EFAULT;
    /* state: interned 2 bits, kind 3 bits, compact, ascii */
    unsigned kind = state >> 2 & 7, compact = state >> 5 & 1, ascii = state >> 6 & 1;
    if (length == 0 || length >= 1 << 16 || !compact || (kind != 1 && kind != 2 && kind != 4))
        return -EINVAL;
    uint64_t at = object + (uint64_t)v->text + (ascii ? 0 : v->text == 40 ? 16 : 24);
    size_t n = MIN((size_t)length, size - 1);
    if (kind == 1)
        return memory_read(pid, at, buffer, n) < 0 ? -EFAULT : (buffer[n] = '\0', 0);
    uint8_t wide[2048];
    n = MIN(n, sizeof(wide) / kind);
    if (memory_read(pid, at, wide, n * kind) < 0)
        return -EFAULT;
    for (size_t i = 0; i < n; i++) /* names outside Latin-1 are rare: shown with '?' */
        buffer[i] = wide[i * kind + 1] || wide[i * kind] > 126 ? '?' : (char)wide[i * kind];
    buffer[n] = '\0';
    return 0;
}

struct code {
    uint64_t name, file; /* addresses of strings */
    uint32_t first_line;
    uint64_t identity, unhashed; /* the latter as it is before somebody asks for the name's hash */
};

static int read_code(const struct version *v, pid_t pid, uint64_t address, struct code *ret_code)
{
    struct code c;
    uint64_t text[2];
    if (memory_read(pid, address + (uint64_t)v->name, &c.name, sizeof(c.name)) < 0 ||
        memory_read(pid, address + (uint64_t)v->file, &c.file, sizeof(c.file)) < 0 ||
        memory_read(pid, address + (uint64_t)v->first_line, &c.first_line, sizeof(c.first_line)) < 0 ||
        memory_read(pid, c.name + STRING_LENGTH, text, sizeof(text)) < 0)
        return -EFAULT;
    c.identity = sampler_python_identity(c.first_line, c.name, c.file, text[0], text[1]);
    c.unhashed = sampler_python_identity(c.first_line, c.name, c.file, text[0], UINT64_MAX);
    *ret_code = c;
    return 0;
}

static bool is_same(const struct code *code, uint64_t identity)
{
    return !identity || code->identity == identity || code->unhashed == identity;
}

int python_function(const struct python *python, pid_t pid, uint64_t address, uint64_t identity,
                    struct python_function *ret_function)
{
    const struct version *v = version_of(python);
    struct python_function f = {0};
    struct code code, after;
    int r = read_code(v, pid, address, &code);
    if (r < 0)
        return r;
    if (!is_same(&code, identity))
        return -ESTALE;
    if (code.first_line > 10000000 || !code.name || read_text(v, pid, code.name, f.name, sizeof(f.name)) < 0)
        return -EINVAL;
    if (read_text(v, pid, code.file, f.file, sizeof(f.file)) < 0)
        f.file[0] = '\0';
    f.line = code.first_line;
    if (read_code(v, pid, address, &after) < 0 || !is_same(&after, identity))
        return -ESTALE; /* while its name was read */
    *ret_function = f;
    return 0;
}
