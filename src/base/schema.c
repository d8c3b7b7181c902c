/* See schema.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/schema.h"

#include <stddef.h>

void schema_write_manual(struct text *to)
{
    static const struct {
        const char *name, *where, *what;
        unsigned version;
    } ALL[] = {
#define SCHEMA(ident, version, where, what) {#ident, where, what, version},
        SCHEMAS(SCHEMA)
#undef SCHEMA
    };
    text_add(
        to,
        "# JSON documents\n\n"
        "The first member of each JSON document that sonde writes for programs is `schema`, a number. "
        "Members may be "
        "added without a\nnew number; when one is removed or gets another meaning, the number is raised, and "
        "`CHANGELOG.md` says so. Rows have no\nnumber of their own: the lines of `trace events --json`, "
        "`trace states "
        "--json` and `convert --to json`, and of the stored spans\nthat `sonde serve` answers. Formats that "
        "are "
        "not sonde's own are not listed here. This page is made by `sonde help --documents`.\n\n"
        "| document | schema | where | what |\n|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof(ALL) / sizeof(*ALL); i++)
        text_addf(to, "| %s | %u | %s | %s |\n", ALL[i].name, ALL[i].version, ALL[i].where, ALL[i].what);
}
