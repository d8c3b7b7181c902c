/* Serialisation: the time in which JSON or a buffer becomes text, or text an object, whatever the length of
 * the single call; what it cost requests, and from which size on it hurts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/model.h"
#include "base/clock.h"

/* A call that takes this long is felt when there are many of them. */
static const uint64_t FELT_NS = NS_PER_MS;
static const uint64_t HIT_MIN_NS = NS_PER_MS;

static struct encode_sum *sum_of(struct analysis *a, struct process *process, uint8_t what)
{
    if (!process->encode && !(process->encode = calloc(ENCODE_KINDS, sizeof(*process->encode)))) {
        a->failed = true;
        return NULL;
    }
    return &process->encode[MIN(what, ENCODE_KINDS - 1)];
}

void encode_done(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns, uint8_t what,
                 uint64_t bytes)
{
    struct encode_sum *sum = sum_of(a, thread->process, what);
    struct loop_bin *bin = loop_bin_at(a, thread, end_ns);
    uint64_t took_ns = end_ns - start_ns;
    if (bin)
        bin->encode_ns += took_ns;
    if (!sum)
        return;
    sum->count++;
    sum->total_ns += took_ns;
    sum->bytes += bytes;
    if (took_ns > sum->worst_ns) {
        sum->worst_ns = took_ns;
        sum->worst_bytes = bytes;
    }
    if (took_ns < FELT_NS)
        return;
    sum->felt_count++;
    sum->felt_ns += took_ns;
    if (bytes && (!sum->felt_bytes || bytes < sum->felt_bytes))
        sum->felt_bytes = bytes;
    sum->from_ns = sum->from_ns ? sum->from_ns : start_ns;
    sum->to_ns = end_ns;
}

struct fault *encode_fault(struct analysis *a, const struct process *process, uint8_t what)
{
    const char *name = event_label(SONDE_MEANING_encoding, what);
    return fault_get(a, FINDING_serialisation, process, name ? name : "encoding");
}

void encode_request_done(struct analysis *a, struct process *process, const struct request *request)
{
    if (request->encode_ns < HIT_MIN_NS)
        return;
    struct fault *fault = encode_fault(a, process, request->encode_what);
    if (!fault)
        return;
    fault->from_ns = MIN(fault->from_ns, request->start_ns);
    fault->to_ns = MAX(fault->to_ns, request->end_ns);
    fault_add_request(a, fault, request, request->encode_ns,
                      request->encodes ? VICTIM_CAUSED : VICTIM_WAITED);
}
