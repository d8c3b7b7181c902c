/* Other programs' text as JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include <jansson.h>

/* A string, with U+FFFD in place of bytes that are not UTF-8 (traced programs and senders of spans may call
 * things anything), or null for NULL. A new reference; NULL when memory is exhausted. */
json_t *json_text(const char *bytes);

#endif
