/* The critical path of a request: from its end back to its beginning, at each moment the one thing that it
 * waited for, through callbacks, pool threads, other services and stores (what Node Compass leaves as future
 * work). A callback was made possible by the operation whose completion it is; that one was started in an
 * earlier callback. Of operations that ran at once, the one that ended last is on the path.
 *
 * The steps do not overlap and cover the request, so that with T the time of those at work and L the whole
 * (equations 5 and 6 of the paper), L - T is waiting. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/model.h"
#include "base/clock.h"

enum { STEPS_MAX = 512 };

/* What continues an operation is read right after it ends. */
static const uint64_t SLACK_NS = 50 * NS_PER_US;
/* After a long turn the loop reads what has come meanwhile, one after the other. */
static const uint64_t BUSY_GAP_NS = 20 * NS_PER_MS;

const char *path_class_name(enum path_class class)
{
    static const char *const NAMES[PATH_CLASSES] = {
        [PATH_RUN] = "runs",
        [PATH_LOOP] = "waits for the event loop",
        [PATH_POOL_QUEUE] = "waits for a pool thread",
        [PATH_POOL] = "at work on a pool thread",
        [PATH_QUEUE] = "on its way or queued",
        [PATH_STORE] = "executes in the store",
        [PATH_PEER] = "waits for an answer",
        [PATH_OTHER] = "waits for a timer or something unseen",
        [PATH_FREE] = "waits for a free connection or worker",
        [PATH_CUT] = "not followed, too many steps",
    };
    return class < PATH_CLASSES && NAMES[class] ? NAMES[class] : "?";
}

/* Steps are found backwards. */
struct walk {
    struct analysis *a;
    struct request *request;
    const struct thread *thread;
    uint64_t until_ns; /* everything after it is explained */
};

static void step(struct walk *w, enum path_class class, uint64_t from_ns, const char *name,
                 const char *service, uint32_t span)
{
    struct request *r = w->request;
    from_ns = MAX(from_ns, r->start_ns);
    if (from_ns >= w->until_ns)
        return;
    struct path_step *last = r->path_steps.count ? &r->path_steps.at[r->path_steps.count - 1] : NULL;
    if (last && last->class == class && last->name == name && last->service == service &&
        last->span == span && !last->timed)
        last->start_ns = from_ns;
    else
        LIST_ADD(w->a, &r->path_steps,
                 (struct path_step){.start_ns = from_ns,
                                    .end_ns = w->until_ns,
                                    .name = name,
                                    .service = service,
                                    .span = span,
                                    .class = (uint8_t) class});
    w->until_ns = from_ns;
}

static uint64_t end_of(const struct request *request, const struct vspan *span)
{
    return span->end_ns ? span->end_ns : request->end_ns;
}

/* The answer of an untraced peer may have lain in the socket while the loop was busy with others: since when,
 * at worst. Not since before the loop has polled and did not find it. */
static uint64_t busy_since_ns(const struct thread *thread, uint64_t at_ns)
{
    const uint64_t read_ns = at_ns;
    for (size_t i = thread ? thread->long_turn_count : 0, seen = 0; i > 0 && seen < LONG_TURNS; i--, seen++) {
        const struct long_turn *turn = &thread->long_turns[(i - 1) % LONG_TURNS];
        if (turn->end_ns + BUSY_GAP_NS < at_ns || (turn->polled_ns && turn->polled_ns <= read_ns))
            break;
        if (turn->start_ns < at_ns)
            at_ns = turn->start_ns;
    }
    return at_ns;
}

/* What the other service did of it, step by step. */
static void child_steps(struct walk *w, const struct vspan *span, uint32_t index)
{
    const struct request *child = span->child;
    step(w, PATH_LOOP, MIN(child->end_ns, w->until_ns), span->name, NULL, index);
    for (size_t i = child->path_steps.count; i-- > 0;) {
        const struct path_step *s = &child->path_steps.at[i];
        size_t before = w->request->path_steps.count;
        if (before < STEPS_MAX)
            step(w, s->class, MAX(s->start_ns, span->start_ns), s->name,
                 s->service ? s->service : child->service, index);
        if (w->request->path_steps.count == before)
            continue;
        struct path_step *taken = &w->request->path_steps.at[before];
        taken->of_child = true;
        if (s->timed && taken->start_ns == s->start_ns && taken->end_ns == s->end_ns)
            taken->timed = true, taken->spent = s->spent;
    }
    step(w, PATH_PEER, MAX(child->start_ns, span->start_ns), span->name, child->service, index);
    step(w, PATH_QUEUE, span->start_ns, span->name, child->service, index);
}

static void operation_steps(struct walk *w, uint32_t index)
{
    const struct vspan *span = &w->request->spans.at[index];
    if (span->kind == VSPAN_pool) {
        if (span->work_end_ns) {
            step(w, PATH_LOOP, span->work_end_ns, span->name, NULL, index);
            step(w, PATH_POOL, span->work_start_ns, span->name, NULL, index);
        }
        step(w, PATH_POOL_QUEUE, span->start_ns, span->name, NULL, index);
    } else if (span->kind == VSPAN_command && span->work_end_ns) {
        /* What a store does between its commands (others of them, its append-only file) holds replies up. */
        step(w, PATH_LOOP, MAX(span->replied_ns, span->work_end_ns), span->name, NULL, index);
        step(w, PATH_QUEUE, span->work_end_ns, span->name, NULL, index);
        step(w, PATH_STORE, span->work_start_ns, span->name, NULL, index);
        step(w, PATH_QUEUE, span->start_ns, span->name, NULL, index);
    } else if (span->child && span->child->end_ns) {
        child_steps(w, span, index);
    } else if (span->kind == VSPAN_ipc && span->end_ns && span->work_end_ns) { /* of another thread */
        step(w, PATH_LOOP, span->work_end_ns, span->name, NULL, index);
        step(w, PATH_PEER, span->work_start_ns, span->name, NULL, index);
        step(w, PATH_QUEUE, span->start_ns, span->name, NULL, index);
    } else {
        if (span->end_ns)
            step(w, PATH_LOOP, MAX(busy_since_ns(w->thread, span->end_ns), span->start_ns), span->name, NULL,
                 index);
        step(w, PATH_PEER, span->start_ns, span->name, NULL, index);
    }
}

static bool is_operation(const struct vspan *span)
{
    return span->kind == VSPAN_pool || span->kind == VSPAN_http || span->kind == VSPAN_command ||
           span->kind == VSPAN_other || span->kind == VSPAN_ipc;
}

/* What the request's own code did, which shows that it ran also where no callback of its own is known: it
 * went on in one that served others, too. */
static bool is_own_work(const struct vspan *span)
{
    return span->kind == VSPAN_encode || span->kind == VSPAN_regexp;
}

/* The outermost callback that was running just before until_ns, or else what the own code did then. */
static uint32_t running(const struct walk *w)
{
    const struct request *r = w->request;
    uint32_t found = VSPAN_NONE;
    for (uint32_t i = 1; i < r->spans.count; i++) {
        const struct vspan *span = &r->spans.at[i];
        if (span->start_ns >= w->until_ns || end_of(r, span) < w->until_ns)
            continue;
        if (span->kind == VSPAN_callback)
            return i;
        if (is_own_work(span) && found == VSPAN_NONE)
            found = i;
    }
    return found;
}

/* The newest to end of all that had ended by then. */
static uint32_t newest_ended(const struct walk *w)
{
    const struct request *r = w->request;
    uint32_t newest = VSPAN_NONE;
    uint64_t newest_ns = 0;
    for (uint32_t i = 1; i < r->spans.count; i++) {
        const struct vspan *span = &r->spans.at[i];
        bool operation = is_operation(span);
        uint64_t end_ns = end_of(r, span);
        if ((!operation && span->kind != VSPAN_callback && !is_own_work(span)) ||
            span->start_ns >= w->until_ns || end_ns > w->until_ns + (operation ? SLACK_NS : 0))
            continue;
        if (newest == VSPAN_NONE || end_ns > newest_ns || (end_ns == newest_ns && operation)) {
            newest = i;
            newest_ns = end_ns;
        }
    }
    return newest;
}

static void walk_back(struct walk *w)
{
    struct request *r = w->request;
    int looks = 0;
    for (; looks < STEPS_MAX && w->until_ns > r->start_ns && r->path_steps.count < STEPS_MAX; looks++) {
        uint32_t runs = running(w), next = VSPAN_NONE;
        if (runs != VSPAN_NONE) {
            const struct vspan *span = &r->spans.at[runs];
            next = span->cause;
            const char *name = span->detail && !is_own_work(span) ? span->detail : span->name;
            step(w, PATH_RUN, span->start_ns, name, NULL, runs);
            if (next != VSPAN_NONE && next < r->spans.count && is_operation(&r->spans.at[next]))
                operation_steps(w, next);
            continue;
        }
        next = newest_ended(w);
        if (next == VSPAN_NONE)
            break;
        const struct vspan *span = &r->spans.at[next];
        step(w, PATH_OTHER, MIN(end_of(r, span), w->until_ns), NULL, NULL, VSPAN_NONE);
        if (is_operation(span))
            operation_steps(w, next);
    }
    bool cut = looks == STEPS_MAX || r->path_steps.count >= STEPS_MAX;
    /* Between being read and its first callback there is nothing; without spans nothing is known. */
    step(w, cut ? PATH_CUT : r->spans.count > 1 ? PATH_RUN : PATH_OTHER, r->start_ns, NULL, NULL, VSPAN_NONE);
}

/* The kernel's facts of the steps in this process. */
static void find_times(struct request *request, const struct thread *loop)
{
    array_foreach (&request->path_steps, s) {
        /* What is not seen may be that its loop had no CPU. */
        bool of_loop = s->class == PATH_RUN || s->class == PATH_LOOP || s->class == PATH_OTHER;
        const struct thread *thread = of_loop && !s->service ? loop : NULL;
        /* Of a wait for a pool thread: of the one that took the operation in the end. */
        if (!s->service && (s->class == PATH_POOL || s->class == PATH_POOL_QUEUE) && loop) {
            uint64_t *slot = map_get(&loop->process->threads, (uint64_t)request->spans.at[s->span].peer_tid);
            thread = slot ? (const struct thread *)(uintptr_t)*slot : NULL;
        }
        if (thread && !s->timed)
            s->timed = activity_times(thread, s->start_ns, s->end_ns, &s->spent);
    }
}

void critical_find(struct analysis *a, struct request *request, const struct thread *thread)
{
    struct walk walk = {.a = a, .request = request, .thread = thread, .until_ns = request->end_ns};
    array_clear(&request->path_steps);
    walk_back(&walk);
    size_t n = request->path_steps.count;
    for (size_t i = 0; i < n / 2; i++) {
        struct path_step other = request->path_steps.at[i];
        request->path_steps.at[i] = request->path_steps.at[n - 1 - i];
        request->path_steps.at[n - 1 - i] = other;
    }
    find_times(request, thread);
}

bool path_works(enum path_class class)
{
    return class == PATH_RUN || class == PATH_POOL || class == PATH_STORE || class == PATH_PEER;
}

uint64_t path_work_ns(const struct path_step *step)
{
    uint64_t took_ns = step->end_ns - step->start_ns, queued_ns = step->timed ? step->spent.runnable_ns : 0;
    return path_works(step->class) ? took_ns - MIN(queued_ns, took_ns) : 0;
}

uint64_t path_followed_ns(const struct request *request)
{
    const struct path_step *first = request->path_steps.count ? &request->path_steps.at[0] : NULL;
    uint64_t cut_ns = first && first->class == PATH_CUT ? first->end_ns - first->start_ns : 0;
    return request_latency_ns(request) - MIN(cut_ns, request_latency_ns(request));
}

const struct path_step *path_dominant(const struct request *request)
{
    const struct path_step *most = NULL;
    uint64_t most_ns = 0;
    for (size_t i = 0; i < request->path_steps.count; i++) {
        const struct path_step *s = &request->path_steps.at[i];
        uint64_t sum_ns = 0;
        for (size_t k = i; k < request->path_steps.count; k++) {
            const struct path_step *o = &request->path_steps.at[k];
            if (o->class == s->class && o->name == s->name && o->service == s->service)
                sum_ns += o->end_ns - o->start_ns;
        }
        if (sum_ns > most_ns) {
            most_ns = sum_ns;
            most = s;
        }
    }
    return most;
}
