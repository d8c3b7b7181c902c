/* A reader of BTF that looks at names of structures only. BTF, all little-endian on x86-64:
 *
 *   u16 0xeb9f, u8 version, flags, u32 header's size, then u32 offset (from the header's end) and size of the
 * types, and of the names type, from number 1 on: u32 name, info (bits 0-15 number of parts, 24-28 kind, 31
 * members have bitfield sizes), size or type, then parts by the kind; a structure's are members: u32 name,
 * type, offset in bits (with bitfield sizes: 24 bits of it) */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/kernel_types.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"

const char *const kernel_types_sampled[] = {
    "task_struct", "thread_struct", "signal_struct", "sched_info", "sched_entity", "cfs_rq", "rq", NULL};

enum {
    NAMES_LIMIT = 8,
    DEPTH_LIMIT = 8,  /* of structures in structures */
    ALIAS_LIMIT = 32, /* typedef, const and the like of one type */
    BYTES_LIMIT = 64 << 20,
};

struct types {
    uint8_t *bytes; /* of the types; a kernel's are only read */
    const char *names;
    size_t size, names_size;
    uint32_t *at; /* by number: where a type begins */
    uint32_t count;
    struct btf_type *found[NAMES_LIMIT];
};

static void types_done(struct types *t)
{
    free(t->at);
}

static struct btf_type *type_at(const struct types *t, uint32_t number)
{
    return number && number < t->count ? (struct btf_type *)(t->bytes + t->at[number]) : NULL;
}

static const char *name_at(const struct types *t, uint32_t offset)
{
    return offset < t->names_size ? t->names + offset : "";
}

/* Bytes behind a type's head; negative: unknown. */
static long parts_size(uint32_t info)
{
    long count = BTF_INFO_VLEN(info);
    switch (BTF_INFO_KIND(info)) {
    case BTF_KIND_INT:
    case BTF_KIND_VAR:
    case BTF_KIND_DECL_TAG:
        return 4;
    case BTF_KIND_ARRAY:
        return sizeof(struct btf_array);
    case BTF_KIND_ENUM:
    case BTF_KIND_FUNC_PROTO:
        return count * 8;
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
    case BTF_KIND_DATASEC:
    case BTF_KIND_ENUM64:
        return count * 12;
    case BTF_KIND_PTR:
    case BTF_KIND_FWD:
    case BTF_KIND_TYPEDEF:
    case BTF_KIND_VOLATILE:
    case BTF_KIND_CONST:
    case BTF_KIND_RESTRICT:
    case BTF_KIND_FUNC:
    case BTF_KIND_FLOAT:
    case BTF_KIND_TYPE_TAG:
        return 0;
    default:
        return -1;
    }
}

static int note_structure(struct types *t, struct btf_type *type, const char *const names[])
{
    const char *name = name_at(t, type->name_off);
    for (size_t i = 0; i < NAMES_LIMIT && names[i]; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        if (t->found[i])
            return -ENOTUNIQ;
        t->found[i] = type;
    }
    return 0;
}

static int types_read(struct types *t, void *data, size_t size, const char *const names[])
{
    struct btf_header header;
    if (size < sizeof(header))
        return -EBADMSG;
    memcpy(&header, data, sizeof(header));
    if (header.magic != BTF_MAGIC || header.version != BTF_VERSION)
        return -ENOTSUP;
    if (header.hdr_len < sizeof(header) || header.hdr_len > size || header.type_off > size - header.hdr_len ||
        header.type_len > size - header.hdr_len - header.type_off || header.str_off > size - header.hdr_len ||
        header.str_len > size - header.hdr_len - header.str_off || header.str_len == 0 ||
        header.type_off % 4 || header.hdr_len % 4)
        return -EBADMSG;
    t->bytes = (uint8_t *)data + header.hdr_len + header.type_off;
    t->size = header.type_len;
    t->names = (const char *)data + header.hdr_len + header.str_off;
    t->names_size = header.str_len;
    if (t->names[t->names_size - 1])
        return -EBADMSG;
    t->at = malloc((t->size / sizeof(struct btf_type) + 1) * sizeof(*t->at));
    if (!t->at)
        return -ENOMEM;
    t->count = 1;
    for (size_t at = 0; at < t->size;) {
        struct btf_type *type = (struct btf_type *)(t->bytes + at);
        if (t->size - at < sizeof(*type))
            return -EBADMSG;
        long parts = parts_size(type->info);
        if (parts < 0)
            return -ENOTSUP;
        if ((size_t)parts > t->size - at - sizeof(*type))
            return -EBADMSG;
        int r = BTF_INFO_KIND(type->info) == BTF_KIND_STRUCT ? note_structure(t, type, names) : 0;
        if (r < 0)
            return r;
        t->at[t->count++] = (uint32_t)at;
        at += sizeof(*type) + (size_t)parts;
    }
    return 0;
}

/* What a type is under its other names. */
static const struct btf_type *resolve(const struct types *t, uint32_t number)
{
    const struct btf_type *type = type_at(t, number);
    for (int i = 0; type && i < ALIAS_LIMIT; i++) {
        switch (BTF_INFO_KIND(type->info)) {
        case BTF_KIND_TYPEDEF:
        case BTF_KIND_VOLATILE:
        case BTF_KIND_CONST:
        case BTF_KIND_RESTRICT:
        case BTF_KIND_TYPE_TAG:
            type = type_at(t, type->type);
            break;
        default:
            return type;
        }
    }
    return NULL;
}

static bool is_structure(const struct btf_type *type)
{
    return BTF_INFO_KIND(type->info) == BTF_KIND_STRUCT || BTF_INFO_KIND(type->info) == BTF_KIND_UNION;
}

/* Where a member lies, and its size when it is a bitfield (else 0), both in bits. */
struct place {
    uint32_t bits, size, type;
};

static struct place place_of(const struct btf_type *type, const struct btf_member *m)
{
    if (!BTF_INFO_KFLAG(type->info))
        return (struct place){m->offset, 0, m->type};
    return (struct place){BTF_MEMBER_BIT_OFFSET(m->offset), BTF_MEMBER_BITFIELD_SIZE(m->offset), m->type};
}

/* Also of one in a structure without a name inside. */
static bool find_member(const struct types *t, const struct btf_type *type, const char *name, int depth,
                        struct place *ret_place)
{
    const struct btf_member *members = (const struct btf_member *)(type + 1);
    for (uint32_t i = 0; i < BTF_INFO_VLEN(type->info); i++) {
        struct place place = place_of(type, &members[i]);
        const char *own = name_at(t, members[i].name_off);
        if (strcmp(own, name) == 0) {
            *ret_place = place;
            return true;
        }
        const struct btf_type *inner = *own || depth == DEPTH_LIMIT ? NULL : resolve(t, place.type);
        if (inner && is_structure(inner) && find_member(t, inner, name, depth + 1, ret_place)) {
            ret_place->bits += place.bits;
            return true;
        }
    }
    return false;
}

static bool is_corrected(const struct types *own, const struct btf_type *type)
{
    for (size_t i = 0; i < NAMES_LIMIT; i++)
        if (own->found[i] == type)
            return true;
    return false;
}

/* Can what is written for a be read of b? A structure that is not corrected itself must be as it is. */
static bool alike(const struct types *own, const struct btf_type *a, const struct types *kernel,
                  const struct btf_type *b, int depth)
{
    if (!a || !b || depth == DEPTH_LIMIT)
        return false;
    unsigned kind = BTF_INFO_KIND(a->info), other = BTF_INFO_KIND(b->info);
    if (kind == BTF_KIND_INT || kind == BTF_KIND_ENUM)
        return (other == BTF_KIND_INT || other == BTF_KIND_ENUM) && a->size == b->size;
    if (kind != other)
        return false;
    if (kind == BTF_KIND_ARRAY) {
        const struct btf_array *x = (const struct btf_array *)(a + 1), *y = (const struct btf_array *)(b + 1);
        return x->nelems == y->nelems &&
               alike(own, resolve(own, x->type), kernel, resolve(kernel, y->type), depth + 1);
    }
    if (kind == BTF_KIND_PTR || is_corrected(own, a))
        return true;
    if (!is_structure(a))
        return false;
    const struct btf_member *members = (const struct btf_member *)(a + 1);
    for (uint32_t i = 0; i < BTF_INFO_VLEN(a->info); i++) {
        struct place mine = place_of(a, &members[i]), real;
        if (!find_member(kernel, b, name_at(own, members[i].name_off), 0, &real) || mine.bits != real.bits ||
            mine.size != real.size ||
            !alike(own, resolve(own, mine.type), kernel, resolve(kernel, real.type), depth + 1))
            return false;
    }
    return true;
}

static int correct(struct types *own, struct btf_type *type, const struct types *kernel,
                   const struct btf_type *real)
{
    struct btf_member *members = (struct btf_member *)(type + 1);
    bool sized = BTF_INFO_KFLAG(type->info);
    for (uint32_t i = 0; i < BTF_INFO_VLEN(type->info); i++) {
        struct place place;
        if (!find_member(kernel, real, name_at(own, members[i].name_off), 0, &place) ||
            !alike(own, resolve(own, members[i].type), kernel, resolve(kernel, place.type), 0) ||
            (place.size && !sized) || (sized && place.bits > BTF_MEMBER_BIT_OFFSET(UINT32_MAX)))
            return -ENOENT;
        members[i].offset = place.bits | place.size << 24;
    }
    type->size = real->size;
    return 0;
}

/* What is not corrected must not be found: its places are those of the program's source. */
static void hide_others(const struct types *own)
{
    for (uint32_t i = 1; i < own->count; i++) {
        struct btf_type *type = type_at(own, i);
        if (is_structure(type) && !is_corrected(own, type))
            type->name_off = 0;
    }
}

int kernel_types_correct(void *types, size_t size, const void *kernel, size_t kernel_size,
                         const char *const names[])
{
    _cleanup_(types_done) struct types own = {0};
    _cleanup_(types_done) struct types real = {0};
    int r = types_read(&own, types, size, names);
    if (r == 0)
        r = types_read(&real, (void *)(uintptr_t)kernel, kernel_size, names);
    for (size_t i = 0; r == 0 && i < NAMES_LIMIT && names[i]; i++)
        r = own.found[i] && real.found[i] ? correct(&own, own.found[i], &real, real.found[i]) : -ENOENT;
    if (r == 0)
        hide_others(&own);
    return r;
}

int kernel_types_correct_running(void *types, size_t size, const char *const names[])
{
    _cleanup_(file_closep) int fd = open(KERNEL_TYPES_PATH, O_RDONLY | O_CLOEXEC);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat) < 0)
        return -errno;
    size_t bytes = (size_t)stat.st_size;
    void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0); /* Linux 6.16 */
    if (at != MAP_FAILED) {
        int r = kernel_types_correct(types, size, at, bytes, names);
        munmap(at, bytes);
        return r;
    }
    _cleanup_(freep) char *copy = NULL;
    int r = file_read(KERNEL_TYPES_PATH, BYTES_LIMIT, &copy, &bytes);
    return r < 0 ? r : kernel_types_correct(types, size, copy, bytes, names);
}
