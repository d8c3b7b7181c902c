/* Profiles in the forms that other programs read and write. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_FORMATS_H
#define PROFILE_FORMATS_H

#include <stddef.h>

#include "base/problem.h"
#include "base/text.h"
#include "profile/profile.h"

enum profile_format {
    FORMAT_FOLDED,
    FORMAT_PPROF,
    FORMAT_SPEEDSCOPE,
    FORMAT_FIREFOX,
    FORMAT_HTML,
    FORMAT_OTLP,
    FORMAT_UNKNOWN,
};

/* By name ("pprof") or by a file's ending ("x.pb.gz", "x.html", "x.folded", "x.speedscope.json", "x.otlp").
 */
enum profile_format profile_format_named(const char *name);
enum profile_format profile_format_of_path(const char *path);

/* Writes the profile into text (bytes, for pprof). 0 or -ENOMEM. title is what readers show. */
int profile_write(const struct profile *profile, enum profile_format format, const char *title,
                  struct text *ret_text);

/* Folded stacks: "frame;frame;frame weight" in each line. Kinds are marked as flamegraph.pl does: _[k]
 * kernel, _[j] generated. */
/* The stack of one node, "frame;frame;frame". */
void folded_stack(const struct profile *profile, uint32_t node, struct text *out);
int folded_write(const struct profile *profile, struct text *out);
int folded_read(struct profile *into, const char *data, size_t length, struct problem *problem);

/* pprof's profile.proto, gzip-compressed; compressed or not when read. */
int pprof_write(const struct profile *profile, struct text *out);
int pprof_read(struct profile *into, const void *data, size_t length, struct problem *problem);

/* OpenTelemetry's ProfilesData, which a request to a collector equals. */
int otlp_write(const struct profile *profile, const char *service, struct text *out);

int speedscope_write(const struct profile *profile, const char *title, struct text *out);
int firefox_write(const struct profile *profile, const char *title, struct text *out);

/* The document that the web page shows (doc/page.md); with before, both in one trie. 0 or -ENOMEM. */
int profile_document(const struct profile *profile, const struct profile *before, const char *title,
                     struct text *out);

/* One self-contained page with flame and icicle graph; with before, their difference. */
int page_write(const struct profile *profile, const struct profile *before, const char *title,
               struct text *out);

/* Adds a file of any form that can be read (pprof, folded) to a profile, which takes on its event and unit.
 * When it is damaged, what came before the damage may have been added. */
int profile_add_file(struct profile *into, const char *path, struct problem *problem);

/* The same into a profile of its own. */
int profile_read_file(const char *path, struct profile **ret_profile, struct problem *problem);

#endif
