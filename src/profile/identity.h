/* Which function of one profile is which of another, wherever each program was built and whatever its files
 * are called. A function is its name and its module's name without path and version; paths decide only
 * between several. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_IDENTITY_H
#define PROFILE_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "profile/profile.h"

/* What compilers and runtimes add to a name is left out: "f.constprop.0" and "f.cold" are f, "core::f::h1234
 * ...": core::f; numbers of classes and accessors that Java makes while it runs. */
void identity_name(const char *name, struct text *out);

/* "/opt/v2/lib/libfoo.so.1.2.13" and "libfoo-1.2.14.so" are libfoo.so, "/srv/app-2.0/app (deleted)" is app.
 */
void identity_module(const char *path, struct text *out);

#define IDENTITY_NONE SIZE_MAX

/* ret_match[i]: the index in after of what before[i] has become, or IDENTITY_NONE. 0 or -ENOMEM. */
int identity_match(const struct profile *before, const struct profile_function *before_functions,
                   size_t before_count, const struct profile *after,
                   const struct profile_function *after_functions, size_t after_count, size_t *ret_match);

/* Makes the functions of several files that were added to one profile the same where they are. ends[i]: how
 * many frames the profile had when file number i had been added. 0 or -ENOMEM. */
int identity_merge(struct profile *profile, const size_t *ends, size_t count);

#endif
