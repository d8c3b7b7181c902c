/* The book's contents in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macro.h"
#include "diagnose/book.h"

#define CHAIN_MAX 256 /* steps of a path that are named */

void book_path_words(const struct book *book, uint32_t path, struct text *to)
{
    const struct path *p = &book->paths.at[path];
    text_addf(to, "%s %s", names_get(book->names, p->service), names_get(book->names, p->name));
}

void book_path_chain(const struct book *book, uint32_t path, struct text *to)
{
    uint32_t chain[CHAIN_MAX];
    size_t n = 0;
    for (uint32_t at = path; at != BOOK_NONE && n < ARRAY_SIZE(chain); at = book->paths.at[at].parent)
        chain[n++] = at;
    while (n-- > 0) {
        book_path_words(book, chain[n], to);
        text_add(to, n ? " > " : "");
    }
}

void book_bucket_words(const struct book *book, const struct bucket *bucket, struct text *to)
{
    size_t n;
    const struct label *pairs = labels_of(book->labels, bucket->labels, &n);
    book_path_words(book, bucket->type, to);
    for (size_t i = 0; i < n; i++)
        text_addf(to, "%s%s=%s", i ? ", " : " [", labels_key_name(book->labels, pairs[i].key),
                  labels_value_name(book->labels, pairs[i].key, pairs[i].value));
    text_add(to, n ? "]" : "");
}

void book_combination_words(const struct book *book, uint32_t combination, struct text *to)
{
    const struct combination *c = &book->combinations.at[combination];
    bool any = false;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct service_version *v = &book->service_versions.at[c->first + i];
        if (!v->version)
            continue;
        text_addf(to, "%s%s %s", any ? ", " : "", names_get(book->names, v->service),
                  names_get(book->names, v->version));
        any = true;
    }
    if (!any)
        text_add(to, "no versions");
}

bool book_has_version(const struct book *book, uint32_t combination, uint32_t service, uint32_t version)
{
    const struct combination *c = &book->combinations.at[combination];
    for (uint32_t i = 0; i < c->count; i++) {
        const struct service_version *v = &book->service_versions.at[c->first + i];
        if (v->service == service && (v->version == version || version == NAMES_NONE))
            return true;
    }
    return false;
}
