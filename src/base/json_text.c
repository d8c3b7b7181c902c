/* See json_text.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_text.h"

#include <string.h>

#include "base/text.h"

json_t *json_text(const char *bytes)
{
    if (!bytes)
        return json_null();
    struct text clean = {0};
    text_add_utf8(&clean, bytes, strlen(bytes));
    json_t *value = clean.failed ? NULL : json_string(text_get(&clean));
    text_done(&clean);
    return value;
}
