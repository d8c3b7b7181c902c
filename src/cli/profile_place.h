/* Where in a program something happened, as lists and documents of a profile say it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_PLACE_H
#define CLI_PROFILE_PLACE_H

#include <jansson.h>

#include "base/text.h"
#include "profile/profile.h"

/* Adds "function  file:line", as far as they are known; frame 0: "code that is not known". */
void profile_place_add(struct text *out, const struct profile *profile, uint32_t frame);

/* Adds the functions that called the one of that frame in a stack, a node of a trie with the profile's
 * frames: " < rotate < main". `most` of them at most; without_c_library: of those of the C library none. */
void profile_place_add_callers(struct text *out, const struct profile *profile, const struct profile *stacks,
                               uint32_t stack, uint32_t frame, int most, bool without_c_library);

/* Adds "file" and "line" of the frame to the object, where they are known; frame 0: nothing. */
void profile_place_add_json(json_t *object, const struct profile *profile, uint32_t frame);

/* "512 B", "61.4 MB", in the buffer that is returned. */
const char *profile_place_bytes(double bytes, char *buffer, size_t size);

#endif
