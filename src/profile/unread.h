/* Languages whose functions the sampler does not read: their interpreters are recognised, so that it can be
 * said, with what shows them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_UNREAD_H
#define PROFILE_UNREAD_H

#include <stdbool.h>

#include "profile/profile.h"

struct unread_language {
    const char *name;     /* "Ruby" */
    const char *files[2]; /* how the names of its program and its library begin, followed by no letter */
    bool generates;       /* it generates code, which is named where it writes a perf map */
    const char *shown;    /* what is shown instead */
    const char *helps;
    enum profile_frame_kind read_as; /* some versions of it are: by the runtime of that kind; 0: none is */
};

enum { UNREAD_LANGUAGES = 5 };
extern const struct unread_language unread_languages[UNREAD_LANGUAGES];

/* The language of a file that a process executes, by its path: an index; UNREAD_LANGUAGES: none. */
unsigned unread_language_of(const char *path);

#endif
