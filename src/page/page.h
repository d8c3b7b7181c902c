/* The web page (web/, built into web/page.html): as a server sends it, and as one file that carries its data
 * and needs nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H

#include <stddef.h>

#include "base/text.h"

/* A document of the page's API (doc/page.md) under the address that the page asks for it: "s/0/report". */
struct page_part {
    char address[128];
    const void *data; /* borrowed */
    size_t length;
};

/* The page as it was built; borrowed, length bytes. */
const char *page_html(size_t *ret_length);

/* What the page may do: run its own script, show its own style, and ask only connect ("'self'", "'none'").
 * Appends the value of a Content-Security-Policy. */
void page_policy(const char *connect, struct text *to);

/* Appends a part as it stands in the page: an element with the data, compressed. 0 or -ENOMEM. */
int page_add_part(const struct page_part *part, struct text *to);

/* Appends the page with such elements within. 0 or -ENOMEM. */
int page_file_of(const struct text *elements, struct text *to);

/* Both at once. */
int page_file(const struct page_part *parts, size_t count, struct text *to);

/* A JSON string, quoted. */
void page_json_string(struct text *to, const char *string);

#endif
