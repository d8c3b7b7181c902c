/* Names of kernel functions, from /proc/kallsyms: lines of "address type name [module]". */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"

struct symbol {
    uint64_t address;
    const char *name;
};

struct kernel_symbols {
    char *data;
    ARRAY(struct symbol) list;
};

static int by_address(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

int kernel_symbols_read(struct kernel_symbols **ret_symbols)
{
    struct kernel_symbols *s = calloc(1, sizeof(*s));
    size_t length;
    if (!s)
        return -ENOMEM;
    int r = file_read("/proc/kallsyms", 256u << 20, &s->data, &length);
    if (r < 0) {
        kernel_symbols_free(s);
        return r;
    }
    for (char *line = s->data, *end; line < s->data + length; line = end + 1) {
        end = memchr(line, '\n', (size_t)(s->data + length - line));
        if (!end)
            break;
        *end = '\0';
        char *at;
        uint64_t address = strtoull(line, &at, 16);
        if (!address || at[0] != ' ' || !strchr("tTwW", at[1]) || at[2] != ' ')
            continue;
        char *name = at + 3, *tab = strchr(name, '\t');
        if (tab)
            *tab = '\0';
        struct symbol symbol = {address, name};
        if (array_add(&s->list, symbol) < 0)
            break;
    }
    if (!s->list.count) {
        kernel_symbols_free(s);
        return -EPERM;
    }
    qsort(s->list.at, s->list.count, sizeof(*s->list.at), by_address);
    *ret_symbols = s;
    return 0;
}

void kernel_symbols_free(struct kernel_symbols *s)
{
    if (!s)
        return;
    array_done(&s->list);
    free(s->data);
    free(s);
}

const char *kernel_symbols_find(const struct kernel_symbols *s, uint64_t address)
{
    size_t low = 0, high = s->list.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->list.at[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? s->list.at[low - 1].name : NULL;
}
