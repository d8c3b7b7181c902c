/* See profile_place.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_place.h"

#include <stdio.h>
#include <string.h>

#include "base/json_text.h"
#include "profile/frame_name.h"

void profile_place_add(struct text *out, const struct profile *p, uint32_t frame)
{
    if (!frame) {
        text_add(out, "code that is not known");
        return;
    }
    const struct profile_frame *f = &p->frames.at[frame];
    const char *place = profile_text(p, f->file ? f->file : f->module);
    text_add(out, profile_text(p, f->name));
    if (*place)
        text_addf(out, "  %s", place);
    if (*place && f->file && f->line)
        text_addf(out, ":%u", f->line);
}

void profile_place_add_callers(struct text *out, const struct profile *p, const struct profile *stacks,
                               uint32_t stack, uint32_t frame, int most, bool without_c_library)
{
    bool below = false;
    int shown = 0;
    for (uint32_t at = stack; at && shown < most; at = stacks->nodes.at[at].parent) {
        const struct profile_frame *f = &p->frames.at[stacks->nodes.at[at].frame];
        bool in_library = without_c_library && frame_in_c_library(profile_text(p, f->module));
        if (below && f->kind != FRAME_GROUP && f->kind != FRAME_TRUNCATED && !in_library) {
            text_add(out, " < ");
            text_add_visible(out, profile_text(p, f->name), strlen(profile_text(p, f->name)));
            shown++;
        }
        below |= stacks->nodes.at[at].frame == frame;
    }
}

void profile_place_add_json(json_t *object, const struct profile *p, uint32_t frame)
{
    const struct profile_frame *f = frame ? &p->frames.at[frame] : NULL;
    if (f && (f->file || f->module))
        json_object_set_new(object, "file", json_text(profile_text(p, f->file ? f->file : f->module)));
    if (f && f->file && f->line)
        json_object_set_new(object, "line", json_integer(f->line));
}

const char *profile_place_bytes(double bytes, char *buffer, size_t size)
{
    static const char *const UNITS[] = {"B", "KB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 9999.5 && unit + 1 < ARRAY_SIZE(UNITS); unit++)
        bytes /= 1000;
    snprintf(buffer, size, "%.*f %s", unit && bytes < 100 ? 1 : 0, bytes, UNITS[unit]);
    return buffer;
}
