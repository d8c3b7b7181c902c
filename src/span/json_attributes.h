/* Attributes as JSON: [{"key": "a", "value": ...}, ...], which OTLP and Jaeger write alike but for the value.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_JSON_ATTRIBUTES_H
#define SPAN_JSON_ATTRIBUTES_H

#include "span/jread.h"
#include "span/span.h"

/* Reads an array of them with read_value() for each value. Returns how many there are, SPAN_ATTRIBUTES_MAX at
 * most: those beyond are counted in sink. Inline, because it is called for each span. */
static inline size_t json_attributes(struct jread *json, struct slice (*read_value)(struct jread *json),
                                     struct span_attribute attributes[SPAN_ATTRIBUTES_MAX],
                                     struct span_sink *sink)
{
    size_t n = 0;
    struct slice key;
    for (jread_array(json); jread_element(json);) {
        if (n == SPAN_ATTRIBUTES_MAX) {
            sink->counts.attributes_dropped++;
            jread_skip(json);
            continue;
        }
        attributes[n] = (struct span_attribute){0};
        for (jread_object(json); jread_member(json, &key);) {
            if (slice_is(key, "key"))
                attributes[n].key = jread_string(json);
            else if (slice_is(key, "value"))
                attributes[n].value = read_value(json);
            else
                jread_skip(json);
        }
        n++;
    }
    return n;
}

#endif
