/* See path_words.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/path_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"

enum {
    SHARES_SHOWN = 5,
    SHOWN_LEAST = 50, /* parts of the whole: smaller ones are not worth a word */
    CLASS_NO_CPU =
        PATH_CLASSES, /* what is no step of its own: the time in which a step's thread had no CPU */
};

/* A step, and later all steps of one kind, name and place. */
struct share {
    const char *name, *place;
    uint64_t took_ns, first_ns, last_ns; /* last_ns: when the last of them ended */
    unsigned times;
    uint8_t class;
};

typedef ARRAY(struct share) share_array;

const char *path_step_peer(const struct request *request, const struct path_step *step)
{
    bool elsewhere = step->class == PATH_PEER || step->class == PATH_STORE || step->class == PATH_QUEUE;
    if (step->service || step->of_child || !elsewhere || step->span >= request->spans.count)
        return NULL;
    return request->spans.at[step->span].peer;
}

void path_add_name(struct text *to, const char *name)
{
    enum { FIRST = 60, LAST = 60 };
    size_t length = strlen(name), first = FIRST, last = length - MIN(length, (size_t)LAST);
    if (length <= FIRST + LAST + 3) {
        text_add(to, name);
        return;
    }
    while (first > 0 && ((unsigned char)name[first] & 0xc0) == 0x80)
        first--;
    while (((unsigned char)name[last] & 0xc0) == 0x80)
        last++;
    text_add_bytes(to, name, first);
    text_add(to, "...");
    text_add(to, name + last);
}

static int compare_texts(const char *x, const char *y)
{
    return x == y ? 0 : !x ? -1 : !y ? 1 : strcmp(x, y);
}

static int compare_kinds(const struct share *x, const struct share *y)
{
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    int r = compare_texts(x->name, y->name);
    return r ? r : compare_texts(x->place, y->place);
}

static int kind_then_time(const void *x, const void *y)
{
    const struct share *a = x, *b = y;
    int r = compare_kinds(a, b);
    return r ? r : (a->first_ns > b->first_ns) - (a->first_ns < b->first_ns);
}

/* Of the time [from_ns, to_ns) took_ns were spent so. 0 or -ENOMEM. */
static int add_share(share_array *shares, struct share like, uint64_t from_ns, uint64_t to_ns,
                     uint64_t took_ns)
{
    like.first_ns = from_ns;
    like.last_ns = to_ns;
    like.took_ns = took_ns;
    like.times = 1;
    return took_ns ? array_add(shares, like) : 0;
}

/* One share of each kind. What follows upon its like without a gap counts as one time. */
static void merge_shares(share_array *shares)
{
    size_t count = 0;
    qsort(shares->at, shares->count, sizeof(*shares->at), kind_then_time);
    array_foreach (shares, share) {
        struct share *before = count ? &shares->at[count - 1] : NULL;
        if (!before || compare_kinds(before, share) != 0) {
            shares->at[count++] = *share;
            continue;
        }
        before->times += share->first_ns > before->last_ns;
        before->last_ns = share->last_ns;
        before->took_ns += share->took_ns;
    }
    shares->count = count;
}

uint64_t path_step_no_cpu(const struct path_step *step, uint64_t *ret_loop_ns)
{
    uint64_t took_ns = step->end_ns - step->start_ns, runnable_ns = MIN(step->spent.runnable_ns, took_ns);
    uint64_t running_ns = MIN(step->spent.running_ns, took_ns - runnable_ns);
    bool works = step->class == PATH_RUN || step->class == PATH_LOOP || step->class == PATH_POOL ||
                 step->class == PATH_POOL_QUEUE;
    bool other = step->class == PATH_OTHER && (running_ns + runnable_ns) * 10 > took_ns;
    *ret_loop_ns = step->timed && other ? running_ns : 0;
    return step->timed && (works || other) ? runnable_ns : 0;
}

static int largest_first(const void *x, const void *y)
{
    const struct share *a = x, *b = y;
    return (a->took_ns < b->took_ns) - (a->took_ns > b->took_ns);
}

static int earliest_first(const void *x, const void *y)
{
    const struct share *a = x, *b = y;
    if ((a->class == CLASS_NO_CPU) != (b->class == CLASS_NO_CPU)) /* comes in between the others: last */
        return a->class == CLASS_NO_CPU ? 1 : -1;
    return (a->first_ns > b->first_ns) - (a->first_ns < b->first_ns);
}

/* "waits 934 ms for a free connection or worker (127.0.0.1:5432)". */
static void add_phrase(struct text *to, const struct share *share)
{
    static const char *const PHRASES[] = {
        [PATH_RUN] = "runs for %s",
        [PATH_LOOP] = "waits %s for the event loop",
        [PATH_POOL_QUEUE] = "waits %s for a pool thread",
        [PATH_POOL] = "is worked on for %s on a pool thread",
        [PATH_QUEUE] = "is on its way or queued for %s",
        [PATH_STORE] = "is executed for %s in the store",
        [PATH_PEER] = "waits %s for an answer",
        [PATH_OTHER] = "waits %s for a timer or something unseen",
        [PATH_FREE] = "waits %s for a free connection or worker",
        [PATH_CUT] = "is not followed for the first %s (too many steps)",
        [CLASS_NO_CPU] = "waits %s for a CPU",
    };
    char time[32];
    const char *phrase = PHRASES[share->class], *gap = strstr(phrase, "%s");
    text_add_bytes(to, phrase, (size_t)(gap - phrase));
    text_add(to, clock_format_duration(share->took_ns, time, sizeof(time)));
    text_add(to, gap + 2);
    if (!share->name && !share->place && share->times < 2)
        return;
    text_add(to, " (");
    if (share->name)
        path_add_name(to, share->name);
    if (share->name && share->place)
        text_add(to, " of ");
    if (share->place)
        text_add(to, share->place);
    if (share->times > 1)
        text_addf(to, "%s%u times", share->name || share->place ? "; " : "", share->times);
    text_add(to, ")");
}

/* works_ns: of the path's all_ns; elsewhere_ns: waits for a CPU of threads that were waited for. */
static void add_sentence(struct text *to, share_array *shares, uint64_t works_ns, uint64_t all_ns,
                         uint64_t elsewhere_ns)
{
    char time[32];
    merge_shares(shares);
    qsort(shares->at, shares->count, sizeof(*shares->at), largest_first);
    size_t shown = 0;
    while (shown < MIN(shares->count, (size_t)SHARES_SHOWN) &&
           shares->at[shown].took_ns * SHOWN_LEAST >= all_ns)
        shown++;
    qsort(shares->at, shown, sizeof(*shares->at), earliest_first);
    text_add(to, "critical path: ");
    for (size_t i = 0; i < shown; i++) {
        bool after = i && shares->at[i].first_ns >= shares->at[i - 1].last_ns;
        text_add(to, !i ? "it " : after ? ", then " : ", in between ");
        add_phrase(to, &shares->at[i]);
    }
    text_addf(to, "%s%s at work (T),", shown ? "; " : "",
              clock_format_duration(works_ns, time, sizeof(time)));
    text_addf(to, " %s of waiting", clock_format_duration(all_ns - works_ns, time, sizeof(time)));
    if (elsewhere_ns * 10 > all_ns)
        text_addf(to, "; while it waited for others, a thread waited for a CPU for %s",
                  clock_format_duration(elsewhere_ns, time, sizeof(time)));
}

void path_words(struct text *to, const struct request *request)
{
    share_array shares = {0};
    int r = 0;
    uint64_t works_ns = 0, all_ns = path_followed_ns(request), elsewhere_ns = 0;
    for (size_t i = 0; i < request->path_steps.count && r == 0; i++) {
        const struct path_step *step = &request->path_steps.at[i];
        uint64_t from_ns = step->start_ns, to_ns = step->end_ns;
        uint64_t busy_ns, queued_ns = path_step_no_cpu(step, &busy_ns);
        const char *peer = path_step_peer(request, step);
        struct share own = {.name = step->name, .place = peer ? peer : step->service, .class = step->class};
        r = add_share(&shares, (struct share){.class = CLASS_NO_CPU}, from_ns, to_ns, queued_ns);
        if (r == 0)
            r = add_share(&shares, (struct share){.class = PATH_LOOP}, from_ns, to_ns, busy_ns);
        if (r == 0)
            r = add_share(&shares, own, from_ns, to_ns, to_ns - from_ns - busy_ns - queued_ns);
        elsewhere_ns += step->timed ? step->spent.runnable_ns - MIN(queued_ns, step->spent.runnable_ns) : 0;
        works_ns += path_work_ns(step);
    }
    if (r == 0 && shares.count && all_ns >= NS_PER_MS)
        add_sentence(to, &shares, MIN(works_ns, all_ns), all_ns, elsewhere_ns);
    else if (r < 0)
        to->failed = true;
    array_done(&shares);
}
