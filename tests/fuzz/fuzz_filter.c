/* Filter expressions, evaluated on an event with every kind of field. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct trace_label LABELS[] = {{.low = 0, .high = 1, .name = "low"},
                                                {.low = 2, .high = 9, .name = "high"}};
    static const struct trace_field FIELDS[] = {
        {.name = "u", .type = TYPE_UNSIGNED, .labels = LABELS, .label_count = 2},
        {.name = "i", .type = TYPE_SIGNED},
        {.name = "d", .type = TYPE_REAL},
        {.name = "s", .type = TYPE_STRING},
        {.name = "a.b", .type = TYPE_ARRAY, .elements = FIELDS, .element_count = 1},
        {.name = "gone", .type = TYPE_UNSIGNED},
    };
    static const struct value VALUES[] = {
        {.u = 2},     {.i = -5}, {.d = 1.5}, {.s = "text", .length = 4}, {.first = 0, .length = 1},
        {.absent = 1}};
    static const struct event_class CLASS = {
        .name = "some:event", .id = EVENT_FOREIGN, .field_count = 6, .fields = FIELDS};
    struct event event = {
        .class = &CLASS, .values = VALUES, .present = 0x1f, .pid = 1, .tid = 2, .id = EVENT_FOREIGN};
    struct problem problem;
    struct filter *filter = NULL;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (filter_parse(text, &problem, &filter) >= 0) {
        const struct event_class *class = &CLASS;
        filter_check(filter, &class, 1, &problem);
        filter_matches(filter, &event, "host", NULL);
        filter_unknown_field(filter);
    }
    filter_free(filter);
    free(text);
    return 0;
}
