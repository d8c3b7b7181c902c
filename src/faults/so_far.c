/* A report of what was read so far, while the analysis goes on. To find faults in what has not ended, and to
 * merge them into findings, changes them; so this is done with copies of the faults, of the stretches that
 * are not judged yet, and of the requests that are open. Whatever else the verdicts note down for good (what
 * was charged with whom) they leave alone while analysis.so_far is set, or it is put back here. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "faults/faults.h"

/* Less is nobody's fault (slow.c). */
static const uint64_t OPEN_MIN_NS = 50 * NS_PER_MS;

/* ---- faults ---- */

static int copy_victims(struct fault *to, const struct fault *from)
{
    array_foreach (&from->victims, known) {
        struct victim victim = *known;
        victim.path = strdup(known->path ? known->path : "");
        if (!victim.path || array_add(&to->victims, victim) < 0) {
            free(victim.path);
            return -ENOMEM;
        }
    }
    return 0;
}

static struct fault *copy_fault(const struct fault *from)
{
    struct fault *fault = malloc(sizeof(*fault));
    if (!fault)
        return NULL;
    *fault = *from;
    memset(&fault->victims, 0, sizeof(fault->victims));
    fault->victim_of = fault->clients = (struct map){0};
    fault->seen = from->seen ? malloc(sizeof(*fault->seen)) : NULL;
    int r = from->seen && !fault->seen ? -ENOMEM : copy_victims(fault, from);
    if (fault->seen)
        *fault->seen = *from->seen;
    if (r >= 0)
        r = map_copy(&fault->victim_of, &from->victim_of);
    if (r >= 0)
        r = map_copy(&fault->clients, &from->clients);
    if (r >= 0)
        return fault;
    fault_free(fault);
    return NULL;
}

/* What replaces the analysis' faults and counts while a report is made. */
struct kept {
    struct map faults;
    __typeof__(((struct analysis *)NULL)->fault_list) fault_list;
    struct analysis_counts counts;
};

/* The analysis has copies from here on, in the same order; those that could be made, if memory ran out. */
static int put_aside(struct analysis *a, struct kept *kept)
{
    struct map copy_of = {0};
    int r = 0;
    memcpy(&kept->fault_list, &a->fault_list, sizeof(kept->fault_list));
    memset(&a->fault_list, 0, sizeof(a->fault_list));
    kept->faults = a->faults;
    kept->counts = a->counts;
    a->faults = (struct map){0};
    array_foreach (&kept->fault_list, place) {
        struct fault *fault = copy_fault(*place);
        uint64_t *slot = fault ? map_put(&copy_of, (uintptr_t)*place, NULL) : NULL;
        if (!slot || array_add(&a->fault_list, fault) < 0) {
            fault_free(fault);
            r = -ENOMEM;
            break;
        }
        *slot = (uintptr_t)fault;
    }
    map_foreach (&kept->faults, slot) {
        const uint64_t *copy = map_get(&copy_of, slot->value);
        uint64_t *place = copy ? map_put(&a->faults, slot->key, NULL) : NULL;
        if (place)
            *place = *copy;
        else
            r = -ENOMEM;
    }
    map_done(&copy_of);
    return r;
}

static void put_back(struct analysis *a, const struct kept *kept)
{
    faults_free(a);
    array_done(&a->fault_list);
    map_done(&a->faults);
    memcpy(&a->fault_list, &kept->fault_list, sizeof(kept->fault_list));
    a->faults = kept->faults;
    a->counts = kept->counts;
}

/* ---- requests that are open ---- */

/* As if the recording ended now (request_finish()): what it waited for is charged. */
static void judge_request(struct analysis *a, struct process *process, const struct thread *thread,
                          const struct request *open, uint64_t now_ns)
{
    struct request request = *open;
    memset(&request.spans, 0, sizeof(request.spans));
    memset(&request.path_steps, 0, sizeof(request.path_steps));
    if (array_reserve(&request.spans, open->spans.count) < 0) {
        a->failed = true;
        return;
    }
    memcpy(request.spans.at, open->spans.at, open->spans.count * sizeof(*request.spans.at));
    request.spans.count = open->spans.count;
    request.state = REQUEST_UNFINISHED;
    request.end_ns = request.spans.at[0].end_ns = now_ns;
    for (const struct protocol *const *p = a->protocols; *p; p++)
        if ((*p)->request_done)
            (*p)->request_done(&request);
    request.first = endpoint_is_new(a, open);
    request.timed = activity_times(thread, request.start_ns, now_ns, &request.spent);
    ANALYZERS_CALL(a, request_done, a, process, &request);
    critical_find(a, &request, thread);
    ANALYZERS_CALL(a, request_complete, a, process, &request);
    array_done(&request.spans);
    array_done(&request.path_steps);
}

static void judge_requests(struct analysis *a, struct process *process, const struct thread *thread,
                           uint64_t now_ns)
{
    array_foreach (&thread->open, place) {
        const struct request *request = *place;
        if (request->state == REQUEST_OPEN && request->start_ns + OPEN_MIN_NS <= now_ns)
            judge_request(a, process, thread, request, now_ns);
    }
}

/* ---- the whole ---- */

static void judge_process(struct analysis *a, struct process *process, bool open)
{
    uint64_t now_ns = process->ended_ns ? process->ended_ns : a->counts.last_ns;
    struct quota_watch *charged = process->quota, *copy = charged ? quota_copy(process) : NULL;
    a->failed |= charged && !copy;
    process->quota = copy;
    map_foreach (&process->threads, slot) {
        struct thread *thread = (struct thread *)(uintptr_t)slot->value;
        stretches_so_far(a, thread, now_ns, open);
        if (open && !process->gone)
            judge_requests(a, process, thread, now_ns);
    }
    free(copy);
    process->quota = charged;
}

int analysis_so_far(struct analysis *a, enum analysis_open open, analysis_so_far_fn *use, void *context)
{
    struct kept kept;
    struct report report = {0};
    int r = put_aside(a, &kept);
    a->so_far = true;
    if (r >= 0) {
        contexts_doubt(a);
        array_foreach (&a->all_processes, process)
            judge_process(a, *process, open == OPEN_JUDGED);
        r = a->failed ? -ENOMEM : analysis_report(a, &report);
    }
    if (r >= 0)
        r = use(context, a, &report);
    report_done(&report);
    a->so_far = false;
    put_back(a, &kept);
    return r < 0 ? r : 0;
}
