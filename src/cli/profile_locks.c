/* See profile_locks.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_locks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/macro.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/profile_place.h"

enum { HOLDERS = 3, CALLERS = 3 }; /* of a place that are listed */
enum { HIDDEN = 16 };              /* processes whose locks are not seen */
enum { SMALL = 200 };              /* a place with a smaller part of all waits is not listed */

static const char *name_of(const struct profile *p, uint32_t frame)
{
    return frame ? profile_text(p, p->frames.at[frame].name) : "?";
}

static void print_text(struct text *text)
{
    cli_put(stdout, text_get(text));
    putchar('\n');
    text_clear(text);
}

static void print_holders(const struct locks *l, const struct profile *p, const struct lock_account *a,
                          const struct lock_site *site, struct text *line)
{
    char time[32];
    for (size_t i = 0; i < site->holder_count && i < HOLDERS; i++) {
        const struct lock_holder *h = &site->holders[i];
        text_addf(line, "%24s%10s %s ", "", clock_format_duration(h->held_ns, time, sizeof(time)),
                  a->is_lock ? "held by" : "ended by");
        text_addf(line, h->goroutine ? "%s %u" : "%s (%u)", *h->name ? h->name : "thread", h->tid);
        if (h->where)
            text_addf(line, " in %s", name_of(p, h->where));
        profile_place_add_callers(line, p, locks_stacks(l), h->stack, h->where, CALLERS, true);
        print_text(line);
    }
    uint64_t rest_ns = 0;
    for (size_t i = HOLDERS; i < site->holder_count; i++)
        rest_ns += site->holders[i].held_ns;
    if (rest_ns)
        printf("%24s%10s %s %zu others\n", "", clock_format_duration(rest_ns, time, sizeof(time)),
               a->is_lock ? "held by" : "ended by", site->holder_count - HOLDERS);
    if (site->no_cpu_ns > site->waited_ns / 100)
        printf("%24s%10s without a CPU: who was let go on did not run yet\n", "",
               clock_format_duration(site->no_cpu_ns, time, sizeof(time)));
    if (site->unknown_ns)
        printf("%24s%10s %s\n", "", clock_format_duration(site->unknown_ns, time, sizeof(time)),
               a->is_lock ? "held by a thread that is not known"
                          : "ended by a timer, a signal or a thread's end");
}

static void print_site(const struct locks *l, const struct profile *p, const struct lock_account *a,
                       const struct lock_site *site)
{
    char waited[32], longest[32];
    struct text line = {0};
    text_addf(&line, "%12s %9llu %9s %8zu  ", clock_format_duration(site->waited_ns, waited, sizeof(waited)),
              (unsigned long long)site->count,
              clock_format_duration(site->longest_ns, longest, sizeof(longest)), site->threads);
    text_add(&line, a->kind->name);
    if (a->address)
        text_addf(&line, " 0x%llx", (unsigned long long)a->address);
    text_add(&line, " in ");
    profile_place_add(&line, p, site->frame);
    if (a->process)
        text_addf(&line, "  [%s]", name_of(p, a->process));
    print_text(&line);
    if (site->open)
        printf("%24s%10u %s not ended\n", "", site->open, site->open == 1 ? "wait has" : "waits have");
    print_holders(l, p, a, site, &line);
    text_done(&line);
}

static void print_class(const struct locks *l, const struct profile *p, const struct lock_account *list,
                        size_t count, bool is_lock, unsigned top)
{
    char waited[32];
    uint64_t waited_ns = 0, waits = 0, rest_ns = 0;
    size_t found = 0, places = 0, small = 0;
    for (size_t i = 0; i < count; i++)
        if (list[i].is_lock == is_lock) {
            waited_ns += list[i].waited_ns;
            waits += list[i].count;
            found++;
        }
    if (!is_lock && !found)
        return;
    printf("%s%s%zu %s%s, waited for %s in %llu wait%s%s\n", is_lock ? "" : "\n", cli_style(1, STYLE_BOLD),
           found, is_lock ? "lock" : "condition", found == 1 ? "" : "s",
           clock_format_duration(waited_ns, waited, sizeof(waited)), (unsigned long long)waits,
           waits == 1 ? "" : "s", cli_style(1, STYLE_NONE));
    if (!is_lock)
        puts("condition variables, semaphores, parked threads: no thread holds these");
    if (found)
        printf("%s%12s %9s %9s %8s  %s%s\n", cli_style(1, STYLE_BOLD), "waited", "waits", "longest",
               "threads",
               is_lock ? "lock, and where it is waited for" : "condition, and where it is waited for",
               cli_style(1, STYLE_NONE));
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; list[i].is_lock == is_lock && k < list[i].site_count; k++) {
            const struct lock_site *site = &list[i].sites[k];
            if (places < top && site->waited_ns >= waited_ns / SMALL) {
                print_site(l, p, &list[i], site);
                places++;
            } else {
                small++;
                rest_ns += site->waited_ns;
            }
        }
    if (small)
        printf("%12s in %zu more place%s\n", clock_format_duration(rest_ns, waited, sizeof(waited)), small,
               small == 1 ? "" : "s");
}

int profile_locks_print(const struct locks *l, const struct profile *p, unsigned top)
{
    size_t count;
    struct lock_account *list = locks_accounts(l, &count);
    if (!list)
        return cli_fail(EXIT_FAILED, &(struct problem){.what = "out of memory"});
    print_class(l, p, list, count, true, top);
    print_class(l, p, list, count, false, MIN(top, 10u));
    locks_accounts_free(list, count);
    return EXIT_DONE;
}

void profile_locks_print_hidden(const struct locks *l, const struct profile *p)
{
    uint32_t processes[HIDDEN];
    size_t count = locks_hidden(l, processes, HIDDEN);
    if (!count)
        return;
    fputs("sonde: not seen: locks of goroutines in", stderr);
    for (size_t i = 0; i < count; i++)
        cli_printf(stderr, "%s %s", i ? "," : "", name_of(p, processes[i]));
    fputs(". A goroutine that waits for a sync.Mutex leaves its thread to others, without the kernel; sonde "
          "sees "
          "that in programs of Go 1.18 and later for x86-64, in processes that are named and those that they "
          "start. Go's own profile has these waits: runtime.SetMutexProfileFraction, /debug/pprof/mutex\n",
          stderr);
}

/* ---- JSON ---- */

static json_t *stack_json(const struct locks *l, const struct profile *p, uint32_t node)
{
    const struct profile *stacks = locks_stacks(l);
    json_t *array = json_array();
    for (; node; node = stacks->nodes.at[node].parent) {
        uint32_t frame = stacks->nodes.at[node].frame;
        if (p->frames.at[frame].kind != FRAME_GROUP)
            json_array_append_new(array, json_text(name_of(p, frame)));
    }
    return array;
}

static json_t *holder_json(const struct locks *l, const struct profile *p, const struct lock_holder *h)
{
    json_t *holder = json_pack("{s:I, s:I, s:s, s:I, s:I, s:o}", "process", (json_int_t)h->pid,
                               h->goroutine ? "goroutine" : "thread", (json_int_t)h->tid, "name", h->name,
                               "held_ns", (json_int_t)h->held_ns, "waits_count", (json_int_t)h->count,
                               "stack", stack_json(l, p, h->stack));
    if (h->where)
        json_object_set_new(holder, "function", json_text(name_of(p, h->where)));
    return holder;
}

static json_t *site_json(const struct locks *l, const struct profile *p, const struct lock_account *a,
                         const struct lock_site *site)
{
    json_t *holders = json_array();
    for (size_t i = 0; i < site->holder_count; i++)
        json_array_append_new(holders, holder_json(l, p, &site->holders[i]));
    const char *function = site->frame ? profile_text(p, p->frames.at[site->frame].name) : "";
    json_t *json = json_pack(
        "{s:s, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "kind", a->kind->name, "process",
        (json_int_t)a->pid, "function", json_text(function), "waited_ns", (json_int_t)site->waited_ns,
        "without_cpu_ns", (json_int_t)site->no_cpu_ns, "longest_ns", (json_int_t)site->longest_ns,
        "waits_count", (json_int_t)site->count, "open_count", (json_int_t)site->open, "threads_count",
        (json_int_t)site->threads, "unknown_ns", (json_int_t)site->unknown_ns,
        a->is_lock ? "held_by" : "ended_by", holders, "stack", stack_json(l, p, site->stack));
    profile_place_add_json(json, p, site->frame);
    if (a->address) {
        char address[24];
        snprintf(address, sizeof(address), "0x%llx", (unsigned long long)a->address);
        json_object_set_new(json, "address", json_string(address));
    }
    return json;
}

int profile_locks_add_json(const struct locks *l, const struct profile *p, unsigned top, json_t *to)
{
    size_t count;
    struct lock_account *list = locks_accounts(l, &count);
    json_t *both[2] = {json_array(), json_array()};
    for (size_t i = 0; list && i < count; i++)
        for (size_t k = 0; k < list[i].site_count; k++)
            if (json_array_size(both[list[i].is_lock]) < top)
                json_array_append_new(both[list[i].is_lock], site_json(l, p, &list[i], &list[i].sites[k]));
    locks_accounts_free(list, count);
    uint32_t hidden[HIDDEN];
    json_t *not_seen = json_array();
    for (size_t i = locks_hidden(l, hidden, HIDDEN); i-- > 0;)
        json_array_append_new(not_seen, json_text(name_of(p, hidden[i])));
    json_object_set_new(to, "not_seen", not_seen);
    int r = json_object_set_new(to, "conditions", both[0]);
    r |= json_object_set_new(to, "locks", both[1]);
    return list && r == 0 ? 0 : -ENOMEM;
}
