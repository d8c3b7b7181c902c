/* See loaded.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/loaded.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGE_MAX = 16 << 20 }; /* of a file; the probe has some 100 KB */

/* What of the file is in memory, at its place in the file. Everything else is zero. */
struct image {
    uint8_t *data;
    size_t size;
    uint64_t bias;
};

static int add_segment(struct target *target, const Elf64_Phdr *p, struct image *image)
{
    if (p->p_offset > IMAGE_MAX || p->p_filesz > IMAGE_MAX)
        return -EFBIG;
    size_t end = (size_t)(p->p_offset + p->p_filesz);
    if (end > image->size) {
        uint8_t *data = realloc(image->data, end);
        if (!data)
            return -ENOMEM;
        memset(data + image->size, 0, end - image->size);
        image->data = data;
        image->size = end;
    }
    return target_read(target, image->bias + p->p_vaddr, image->data + p->p_offset, p->p_filesz);
}

/* The loader has added the bias to addresses in there, in the process's memory; not all loaders do. */
static void undo_bias(struct image *image, const Elf64_Phdr *dynamic)
{
    static const int64_t ADDRESSES[] = {DT_SYMTAB, DT_STRTAB, DT_HASH, DT_GNU_HASH};
    for (uint64_t at = dynamic->p_offset; at + sizeof(Elf64_Dyn) <= image->size &&
                                          at + sizeof(Elf64_Dyn) <= dynamic->p_offset + dynamic->p_filesz;
         at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn d;
        memcpy(&d, image->data + at, sizeof(d));
        for (size_t i = 0; i < ARRAY_SIZE(ADDRESSES); i++)
            if (d.d_tag == ADDRESSES[i] && d.d_un.d_ptr >= image->bias)
                d.d_un.d_ptr -= image->bias;
        memcpy(image->data + at, &d, sizeof(d));
    }
}

static int read_image(struct target *target, uint64_t bias, struct image *image)
{
    enum { HEADERS_MAX = 32 };
    Elf64_Ehdr header;
    Elf64_Phdr segments[HEADERS_MAX];
    image->bias = bias;
    int r = target_read(target, bias, &header, sizeof(header));
    if (r < 0)
        return r;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(Elf64_Phdr) ||
        header.e_phnum > HEADERS_MAX)
        return -ENOEXEC;
    r = target_read(target, bias + header.e_phoff, segments, header.e_phnum * sizeof(Elf64_Phdr));
    for (size_t i = 0; i < header.e_phnum && r == 0; i++)
        if (segments[i].p_type == PT_LOAD)
            r = add_segment(target, &segments[i], image);
    for (size_t i = 0; i < header.e_phnum && r == 0; i++)
        if (segments[i].p_type == PT_DYNAMIC && segments[i].p_offset <= image->size)
            undo_bias(image, &segments[i]);
    if (r == 0 && image->size < sizeof(header))
        r = -ENOEXEC;
    if (r == 0) { /* sections are not in memory */
        header.e_shoff = header.e_shnum = header.e_shstrndx = 0;
        memcpy(image->data, &header, sizeof(header));
    }
    return r;
}

static int describe(struct target *target, const struct module *module, struct plan_probe *ret_probe)
{
    struct image image = {0};
    struct elf *elf = NULL;
    /* The probe's first segment is at address 0 of its file. */
    int r = read_image(target, module->start - module->first_offset, &image);
    if (r == 0)
        r = elf_open_taken(image.data, image.size, module->path, &elf, NULL);
    else
        free(image.data);
    if (r < 0)
        return r;
    struct elf_symbol owner, pools;
    struct plan_probe probe = {.start = module->start};
    snprintf(probe.build_id, sizeof(probe.build_id), "%s", elf_build_id(elf));
    if (elf_find(elf, "sonde_owner", &owner) == 0) {
        probe.owner = owner.value + image.bias;
        probe.foreign = owner.size < sizeof(struct sonde_owner);
    }
    if (elf_find(elf, "sonde_pools", &pools) == 0)
        probe.pools = pools.value + image.bias;
    elf_free(elf);
    *ret_probe = probe;
    return 0;
}

static bool is_probe(const struct module *module)
{
    static const char MEMFD[] = "memfd:";
    const char *slash = strrchr(module->path, '/'), *name = slash ? slash + 1 : module->path;
    if (strncmp(name, MEMFD, sizeof(MEMFD) - 1) == 0)
        name += sizeof(MEMFD) - 1;
    return module->executable && strncmp(name, "libsonde-probe", sizeof("libsonde-probe") - 1) == 0;
}

int loaded_probes_read(struct target *target, struct plan *plan)
{
    int r = 0;
    array_foreach (&target->modules.list, module) {
        struct plan_probe probe;
        if (r >= 0 && is_probe(module) && describe(target, module, &probe) >= 0)
            r = array_add(&plan->probes, probe);
    }
    return r;
}

size_t loaded_probes_count(const struct modules *modules)
{
    size_t count = 0;
    array_foreach (&modules->mappings, m)
        count += m->executable && m->module != UINT32_MAX && is_probe(&modules->list.at[m->module]);
    return count;
}

size_t loaded_probes_count_now(const struct proc *proc)
{
    _cleanup_(freep) char *maps = NULL;
    size_t length, count = 0;
    struct proc_mapping mapping;
    if (proc_read(proc, "maps", 64 << 20, &maps, &length) < 0)
        return 0;
    const char *at = maps;
    while (proc_next_mapping(&at, maps + length, &mapping))
        count += mapping.executable &&
                 memmem(mapping.path, mapping.path_length, "libsonde-probe", sizeof("libsonde-probe") - 1);
    return count;
}
