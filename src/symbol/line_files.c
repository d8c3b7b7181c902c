/* The head of a line table: DWARF 5, section 6.2.4, and DWARF 4, the same section. See line_files.h.
 *
 *   u32 length; u16 version (2..5); from 5 on u8 size of an address, u8 size of a segment; u32 length of the
 *   rest of the head; u8 shortest instruction; from 4 on u8 operations in an instruction; u8, u8, u8 of the
 *   program; u8 count of opcodes, u8 operands of each but one
 *   up to 4: directories, each a string, an empty one behind the last; files: string, uleb directory (1 is
 *            the first, 0 the unit's), uleb time, uleb size, an empty string behind the last; 1 is the first
 *   5:       of directories, and again of files: u8 count of fields, their uleb content and uleb form; uleb
 *            count, and the fields of each; 0 is the first */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/line_files.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/varint.h"

enum { FIELDS_MAX = 8, TABLE_MIN = 2, TABLE_MAX = 5 };

struct cursor {
    const uint8_t *at, *end;
    int error; /* what came first; all is zero after it */
};

struct entry {
    const char *path;
    uint64_t directory;
};

struct fields {
    unsigned count;
    uint64_t content[FIELDS_MAX], form[FIELDS_MAX];
};

static void fail(struct cursor *c, int error)
{
    if (!c->error)
        c->error = error;
    c->at = c->end;
}

static uint64_t take(struct cursor *c, size_t size)
{
    uint64_t value = 0;
    if ((size_t)(c->end - c->at) < size) {
        fail(c, -EBADMSG);
        return 0;
    }
    memcpy(&value, c->at, size);
    c->at += size;
    return value;
}

static uint64_t take_uleb(struct cursor *c)
{
    uint64_t value = 0;
    const uint8_t *behind = varint_get(c->at, c->end, &value);
    if (!behind) {
        fail(c, -EBADMSG);
        return 0;
    }
    c->at = behind;
    return value;
}

static void skip(struct cursor *c, uint64_t size)
{
    if ((uint64_t)(c->end - c->at) < size)
        fail(c, -EBADMSG);
    else
        c->at += size;
}

/* "" when it does not end. */
static const char *take_string(struct cursor *c)
{
    const uint8_t *at = c->at, *end = at < c->end ? memchr(at, 0, (size_t)(c->end - at)) : NULL;
    if (!end) {
        fail(c, -EBADMSG);
        return "";
    }
    c->at = end + 1;
    return (const char *)at;
}

static const char *string_at(struct cursor *c, const struct line_section *section, uint64_t offset)
{
    struct cursor string = {section->at, section->at + section->size, 0};
    if (!section->at || offset >= section->size) {
        fail(c, -EBADMSG);
        return "";
    }
    string.at += offset;
    const char *text = take_string(&string);
    if (string.error)
        fail(c, string.error);
    return text;
}

/* ---- up to version 4 ---- */

static void skip_old_file(struct cursor *c, uint64_t *ret_directory)
{
    *ret_directory = take_uleb(c);
    take_uleb(c);
    take_uleb(c);
}

static const char *old_directory(struct cursor c, uint64_t number)
{
    const char *text = "";
    for (uint64_t i = 0; i < number && !c.error; i++)
        if (!*(text = take_string(&c)))
            return NULL;
    return c.error ? NULL : text;
}

static int find_old(struct cursor *c, uint64_t number, const char *directory, struct entry *ret_file,
                    const char **ret_directory)
{
    struct cursor directories = *c;
    struct entry file;
    while (*take_string(c))
        ;
    for (uint64_t i = 1; !c->error && *(file.path = take_string(c)); i++) {
        skip_old_file(c, &file.directory);
        if (i != number || c->error)
            continue;
        *ret_directory = file.directory ? old_directory(directories, file.directory) : directory;
        *ret_file = file;
        return file.directory && !*ret_directory ? -EBADMSG : 0;
    }
    return c->error ? c->error : -ENOENT;
}

/* ---- version 5 ---- */

static void take_fields(struct cursor *c, struct fields *ret_fields)
{
    ret_fields->count = (unsigned)take(c, 1);
    if (ret_fields->count > FIELDS_MAX) {
        fail(c, -ENOTSUP);
        ret_fields->count = 0;
    }
    for (unsigned i = 0; i < ret_fields->count; i++) {
        ret_fields->content[i] = take_uleb(c);
        ret_fields->form[i] = take_uleb(c);
    }
}

static void take_field(struct cursor *c, const struct line_sections *s, uint64_t content, uint64_t form,
                       struct entry *entry)
{
    const char *text = NULL;
    uint64_t number = 0;
    switch (form) {
    case DW_FORM_string:
        text = take_string(c);
        break;
    case DW_FORM_line_strp:
        text = string_at(c, &s->line_strings, take(c, 4));
        break;
    case DW_FORM_strp:
        text = string_at(c, &s->strings, take(c, 4));
        break;
    case DW_FORM_udata:
        number = take_uleb(c);
        break;
    case DW_FORM_data1:
        number = take(c, 1);
        break;
    case DW_FORM_data2:
        number = take(c, 2);
        break;
    case DW_FORM_data4:
        number = take(c, 4);
        break;
    case DW_FORM_data16: /* a checksum */
        skip(c, 16);
        break;
    default:
        fail(c, -ENOTSUP);
    }
    if (content == DW_LNCT_path && text)
        entry->path = text;
    else if (content == DW_LNCT_directory_index)
        entry->directory = number;
}

static struct entry take_entry(struct cursor *c, const struct line_sections *s, const struct fields *fields)
{
    struct entry entry = {.path = ""};
    for (unsigned i = 0; i < fields->count; i++)
        take_field(c, s, fields->content[i], fields->form[i], &entry);
    return entry;
}

/* The entry of that number; all of them are skipped when it is UINT64_MAX. */
static int find_entry(struct cursor *c, const struct line_sections *s, uint64_t number,
                      struct entry *ret_entry)
{
    struct fields fields;
    take_fields(c, &fields);
    uint64_t count = take_uleb(c);
    for (uint64_t i = 0; i < count && !c->error && fields.count; i++) {
        struct entry entry = take_entry(c, s, &fields);
        if (i != number || c->error)
            continue;
        *ret_entry = entry;
        return 0;
    }
    return c->error ? c->error : -ENOENT;
}

static int find_new(struct cursor *c, const struct line_sections *s, uint64_t number, struct entry *ret_file,
                    const char **ret_directory)
{
    struct cursor directories = *c;
    struct entry directory;
    (void)find_entry(c, s, UINT64_MAX, &directory);
    int r = find_entry(c, s, number, ret_file);
    if (r == 0)
        r = find_entry(&directories, s, ret_file->directory, &directory);
    if (r == 0)
        *ret_directory = directory.path;
    return r;
}

int line_file_path(const struct line_sections *s, uint64_t offset, uint64_t number, const char *directory,
                   struct text *ret_path)
{
    struct entry file = {.path = ""};
    const char *in = NULL;
    if (!s->lines.at || offset >= s->lines.size)
        return -EBADMSG;
    struct cursor c = {s->lines.at + offset, s->lines.at + s->lines.size, 0};
    uint64_t length = take(&c, 4);
    if (length >= 0xfffffff0) /* of more than 4 GB, with other sizes */
        return -ENOTSUP;
    if (length > (uint64_t)(c.end - c.at))
        return -EBADMSG;
    c.end = c.at + length;
    unsigned version = (unsigned)take(&c, 2);
    if (c.error || version < TABLE_MIN || version > TABLE_MAX)
        return c.error ? c.error : -ENOTSUP;
    if (version >= 5)
        take(&c, 2);
    length = take(&c, 4);
    if (length > (uint64_t)(c.end - c.at))
        return -EBADMSG;
    c.end = c.at + length;
    take(&c, version >= 4 ? 5 : 4);
    uint64_t opcodes = take(&c, 1);
    skip(&c, opcodes ? opcodes - 1 : 0);
    int r = version >= 5 ? find_new(&c, s, number, &file, &in) : find_old(&c, number, directory, &file, &in);
    if (r < 0)
        return r;
    if (*file.path != '/' && in)
        text_addf(ret_path, "%s/", in);
    text_add(ret_path, file.path);
    return 0;
}
