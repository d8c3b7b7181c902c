/* See page.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/macro.h"

/* web/page.html, as it was when this was built; PAGE_SUM has this file compiled again when that one changes.
 */
__asm__(".section .rodata # " PAGE_SUM "\n"
        "page_html_start: .incbin \"" PAGE_FILE "\"\n"
        "page_html_end: .byte 0\n"
        ".previous\n");
extern const char page_html_start[], page_html_end[];

/* Marks that web/build.mjs leaves: the hashes of script and style, and the place of the data. */
static const char POLICY[] = "<!--policy ", DATA[] = "<!--data-->";

const char *page_html(size_t *ret_length)
{
    *ret_length = (size_t)(page_html_end - page_html_start);
    return page_html_start;
}

static const char *find(const char *mark)
{
    return memmem(page_html_start, (size_t)(page_html_end - page_html_start), mark, strlen(mark));
}

void page_policy(const char *connect, struct text *to)
{
    const char *mark = find(POLICY), *end = mark ? strstr(mark, "-->") : NULL;
    text_add(to, "default-src 'none'; ");
    if (end)
        text_add_bytes(to, mark + sizeof(POLICY) - 1, (size_t)(end - mark) - (sizeof(POLICY) - 1));
    text_addf(to,
              "; connect-src %s; img-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'",
              connect);
}

static void add_base64(const unsigned char *data, size_t length, struct text *to)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char line[4 * 1024];
    size_t n = 0;
    for (size_t i = 0; i < length; i += 3) {
        unsigned left = (unsigned)MIN(length - i, (size_t)3);
        unsigned bits = (unsigned)data[i] << 16 | (left > 1 ? (unsigned)data[i + 1] << 8 : 0) |
                        (left > 2 ? data[i + 2] : 0u);
        line[n++] = DIGITS[bits >> 18];
        line[n++] = DIGITS[bits >> 12 & 63];
        line[n++] = left > 1 ? DIGITS[bits >> 6 & 63] : '=';
        line[n++] = left > 2 ? DIGITS[bits & 63] : '=';
        if (n == sizeof(line)) {
            text_add_bytes(to, line, n);
            n = 0;
        }
    }
    text_add_bytes(to, line, n);
}

/* <script type="text/plain" data-part="ADDRESS">gzip in base64</script>: nothing that runs. */
int page_add_part(const struct page_part *part, struct text *to)
{
    z_stream z = {0};
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    size_t room = deflateBound(&z, part->length);
    _cleanup_(freep) unsigned char *packed = malloc(room);
    z.next_in = (unsigned char *)part->data;
    z.avail_in = (uInt)part->length;
    z.next_out = packed;
    z.avail_out = (uInt)room;
    int done = packed && room < UINT32_MAX ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
    size_t length = z.total_out;
    deflateEnd(&z);
    if (done != Z_STREAM_END)
        return -ENOMEM;
    text_add(to, "<script type=\"text/plain\" data-part=\"");
    for (const char *c = part->address; *c; c++)
        if (*c == '"' || *c == '&' || *c == '<')
            text_addf(to, "&#%d;", *c);
        else
            text_add_bytes(to, c, 1);
    text_add(to, "\">");
    add_base64(packed, length, to);
    text_add(to, "</script>\n");
    return 0;
}

int page_file_of(const struct text *elements, struct text *to)
{
    const char *policy = find(POLICY), *data = find(DATA);
    if (!policy || !data)
        return -EINVAL;
    text_add_bytes(to, page_html_start, (size_t)(policy - page_html_start));
    text_add(to, "<meta http-equiv=\"Content-Security-Policy\" content=\"");
    page_policy("'none'", to);
    text_add(to, "\">");
    text_add_bytes(to, policy, (size_t)(data - policy));
    text_add_bytes(to, text_get(elements), elements->length);
    text_add(to, data + sizeof(DATA) - 1);
    return elements->failed || to->failed ? -ENOMEM : 0;
}

int page_file(const struct page_part *parts, size_t count, struct text *to)
{
    struct text elements = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = page_add_part(&parts[i], &elements);
    if (r == 0)
        r = page_file_of(&elements, to);
    text_done(&elements);
    return r;
}

void page_json_string(struct text *to, const char *string)
{
    text_add_json(to, string, strlen(string));
}
