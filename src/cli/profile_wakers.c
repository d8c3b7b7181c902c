/* See profile_wakers.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_wakers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/profile_place.h"
#include "profile/outlier.h"
#include "profile/woken.h"

static const char *name_of(const struct profile *p, uint32_t frame)
{
    return frame ? profile_text(p, p->frames.at[frame].name) : "";
}

/* "keeper (4711)", "a timer": what the frame says. */
static void waker_text(const struct profile *p, const struct woken_link *link, char *text, size_t size)
{
    snprintf(text, size, "%s", name_of(p, link->by) + strlen(PROFILE_WOKEN_BY));
    size_t length = strlen(text);
    if (length && text[length - 1] == ']')
        text[length - 1] = '\0';
}

static void print_wait(const struct profile *p, const struct woken_wait *wait)
{
    char waited[32], by[128];
    struct text line = {0};
    text_addf(&line, "%12s %9llu  ", clock_format_duration(wait->waited_ns, waited, sizeof(waited)),
              (unsigned long long)wait->count);
    profile_place_add(&line, p, wait->place);
    if (wait->process)
        text_addf(&line, "  [%s]", name_of(p, wait->process));
    for (size_t i = 0; i < wait->link_count; i++) {
        waker_text(p, &wait->links[i], by, sizeof(by));
        text_addf(&line, "\n%24s%s %s", "", i ? "itself woken during that wait by" : "woken by", by);
        if (wait->links[i].place) {
            text_add(&line, " in ");
            profile_place_add(&line, p, wait->links[i].place);
        }
    }
    cli_put(stdout, text_get(&line));
    putchar('\n');
    text_done(&line);
}

int profile_wakers_print(const struct profile *p, const struct business_rules *rules, unsigned top)
{
    size_t count;
    char waited[32];
    struct woken_wait *list = woken_waits(p, rules, &count);
    if (!list)
        return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
    uint64_t waited_ns = 0, rest_ns = 0;
    for (size_t i = 0; i < count; i++) {
        waited_ns += list[i].waited_ns;
        rest_ns += i < top ? 0 : list[i].waited_ns;
    }
    if (!count && p->nodes.count > 1) /* without samples, what is missing is said anyway */
        puts("no waits to list: for none of them is it known who ended it");
    if (!count) {
        free(list);
        return EXIT_DONE;
    }
    printf("%s%s of waits, by who ended them%s\n", cli_style(1, STYLE_BOLD),
           clock_format_duration(waited_ns, waited, sizeof(waited)), cli_style(1, STYLE_NONE));
    printf("%s%12s %9s  where threads wait, and who ended the waits%s\n", cli_style(1, STYLE_BOLD), "waited",
           "waits", cli_style(1, STYLE_NONE));
    for (size_t i = 0; i < count && i < top; i++)
        print_wait(p, &list[i]);
    if (count > top)
        printf("%12s in %zu more\n", clock_format_duration(rest_ns, waited, sizeof(waited)), count - top);
    free(list);
    return EXIT_DONE;
}

/* ---- JSON ---- */

/* The stacks of a wait, each with the innermost function first: of the thread that waits, and of its wakers.
 */
static void add_stacks(const struct profile *p, uint32_t node, json_t *stacks[1 + WOKEN_LINKS], size_t links)
{
    json_t *part = json_array();
    size_t behind = 0;
    for (uint32_t at = node; at; at = p->nodes.at[at].parent)
        behind += profile_is_waker(p, p->nodes.at[at].frame);
    for (uint32_t at = node; at; at = p->nodes.at[at].parent) {
        uint32_t frame = p->nodes.at[at].frame;
        if (profile_is_waker(p, frame)) { /* what came so far is its stack */
            if (behind <= links)
                stacks[behind] = part;
            else
                json_decref(part);
            part = json_array();
            behind--;
        } else if (p->frames.at[frame].kind == FRAME_GROUP) {
            continue;
        } else if (behind) { /* they are there with the innermost first, and seen from the other end */
            json_array_insert_new(part, 0, json_text(name_of(p, frame)));
        } else {
            json_array_append_new(part, json_text(name_of(p, frame)));
        }
    }
    stacks[0] = part;
}

static json_t *link_json(const struct profile *p, const struct woken_link *link, json_t *stack)
{
    char text[128], name[128];
    waker_text(p, link, text, sizeof(text));
    uint64_t process = profile_group_parts(text, name, sizeof(name));
    json_t *json = json_pack("{s:o, s:o}", "name", json_text(process ? name : text), "stack", stack);
    if (process)
        json_object_set_new(json, "process", json_integer((json_int_t)process));
    if (link->place)
        json_object_set_new(json, "function", json_text(name_of(p, link->place)));
    return json;
}

static json_t *wait_json(const struct profile *p, const struct woken_wait *wait)
{
    json_t *stacks[1 + WOKEN_LINKS] = {0}, *links = json_array();
    add_stacks(p, wait->node, stacks, wait->link_count);
    for (size_t i = 0; i < wait->link_count; i++)
        json_array_append_new(links, link_json(p, &wait->links[i], stacks[i + 1]));
    json_t *json = json_pack("{s:o, s:I, s:I, s:o, s:o}", "function", json_text(name_of(p, wait->place)),
                             "waited_ns", (json_int_t)wait->waited_ns, "waits_count", (json_int_t)wait->count,
                             "woken_by", links, "stack", stacks[0]);
    if (wait->process) {
        char name[128];
        json_object_set_new(
            json, "process",
            json_integer((json_int_t)profile_group_parts(name_of(p, wait->process), name, sizeof(name))));
    }
    profile_place_add_json(json, p, wait->place);
    return json;
}

int profile_wakers_add_json(const struct profile *p, const struct business_rules *rules, unsigned top,
                            json_t *to)
{
    size_t count;
    struct woken_wait *list = woken_waits(p, rules, &count);
    json_t *waits = json_array();
    for (size_t i = 0; list && i < count && i < top; i++)
        json_array_append_new(waits, wait_json(p, &list[i]));
    free(list);
    return list && json_object_set_new(to, "waits", waits) == 0 ? 0 : -ENOMEM;
}
