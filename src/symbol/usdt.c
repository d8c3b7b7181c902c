/* See usdt.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/usdt.h"

#include <string.h>

enum { NOTE_TYPE = 3, NOTE_HEAD = 12, PROBE_HEAD = 24 };

struct note {
    uint32_t name_size, content_size, type;
};

struct probe {
    uint64_t address, base, semaphore;
};

static size_t padded(size_t size)
{
    return (size + 3) & ~(size_t)3;
}

/* The string at *at, which ends before `end`; NULL: it does not. */
static const char *take_string(const char **at, const char *end)
{
    const char *text = *at, *nul = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
    if (!nul)
        return NULL;
    *at = nul + 1;
    return text;
}

static bool read_place(const struct elf *elf, const struct probe *probe, struct usdt_place *ret_place)
{
    struct elf_section base;
    uint64_t moved = 0;
    if (elf_section_named(elf, ".stapsdt.base", &base) == 0)
        moved = base.address - probe->base;
    ret_place->semaphore = 0;
    return elf_address_to_offset(elf, probe->address + moved, &ret_place->offset) == 0 &&
           (!probe->semaphore ||
            elf_address_to_offset(elf, probe->semaphore + moved, &ret_place->semaphore) == 0);
}

size_t usdt_find(const struct elf *elf, const char *provider, const char *name, struct usdt_place *ret_places,
                 size_t most)
{
    struct elf_section notes;
    size_t found = 0, at = 0;
    if (elf_section_named(elf, ".note.stapsdt", &notes) < 0 || !notes.data)
        return 0;
    while (found < most && notes.size - at >= NOTE_HEAD) {
        struct note note;
        struct probe probe;
        memcpy(&note, notes.data + at, sizeof(note));
        at += NOTE_HEAD;
        size_t name_size = padded(note.name_size), size = padded(note.content_size), left = notes.size - at;
        if (name_size > left || note.content_size > left - name_size)
            break;
        const char *content = (const char *)notes.data + at + name_size, *end = content + note.content_size;
        bool is_probe = note.type == NOTE_TYPE && note.name_size == sizeof("stapsdt") &&
                        memcmp(notes.data + at, "stapsdt", sizeof("stapsdt")) == 0 &&
                        note.content_size > PROBE_HEAD;
        at += size > left - name_size ? left : name_size + size;
        if (!is_probe)
            continue;
        memcpy(&probe, content, sizeof(probe));
        content += PROBE_HEAD;
        const char *of = take_string(&content, end), *called = take_string(&content, end);
        if (of && called && strcmp(of, provider) == 0 && strcmp(called, name) == 0)
            found += read_place(elf, &probe, &ret_places[found]);
    }
    return found;
}
