/* Serialisation: the time in which JSON or a buffer becomes text, or text an object, whatever the length of
 * the single call; what it cost requests, and from which size on it hurts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "targets/node/state.h"
#include "base/clock.h"

enum { LOOKS_NEEDED = 5 };

/* A call that takes this long is felt when there are many of them. */
static const uint64_t FELT_NS = NS_PER_MS;
static const uint64_t HIT_MIN_NS = NS_PER_MS;

static struct encode_sum *sum_of(struct analysis *a, struct process *process, uint8_t what)
{
    if (!node_process(process)->encode &&
        !(node_process(process)->encode = calloc(ENCODE_KINDS, sizeof(*node_process(process)->encode)))) {
        a->failed = true;
        return NULL;
    }
    return &node_process(process)->encode[MIN(what, ENCODE_KINDS - 1)];
}

/* Encoding only computes: what the thread waits for meanwhile are the collector's threads, which may lack a
 * CPU, or memory. */
uint64_t encode_took_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    struct activity_times times;
    return activity_times(thread, start_ns, end_ns, &times) ? times.running_ns : end_ns - start_ns;
}

void encode_done(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns, uint8_t what,
                 uint64_t bytes)
{
    struct encode_sum *sum = sum_of(a, thread->process, what);
    struct loop_bin *bin = loop_bin_at(a, thread, end_ns);
    uint64_t took_ns = encode_took_ns(thread, start_ns, end_ns);
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

void encode_serves(struct process *process)
{
    for (uint8_t i = 0; node_process(process)->encode && i < ENCODE_KINDS; i++) {
        struct encode_sum *sum = &node_process(process)->encode[i];
        sum->felt_count = sum->felt_ns = sum->felt_bytes = sum->from_ns = sum->to_ns = 0;
    }
    node_process(process)->encode_turns_ns = 0;
    free(process->encode_seen);
    process->encode_seen = NULL;
}

bool encode_turn(struct process *process, uint64_t took_ns, uint64_t encode_ns)
{
    if (encode_ns < FELT_NS)
        return false;
    node_process(process)->encode_turns_ns += took_ns;
    return true;
}

static bool encodes_in(const struct seen *seen, const struct look *place)
{
    for (size_t i = 0; seen && place->script && i < SEEN_PLACES && seen->places[i].count; i++)
        if (seen->places[i].function == place->function && seen->places[i].script == place->script &&
            look_encodes(&seen->places[i]))
            return true;
    return false;
}

bool encode_around(const struct process *process, const struct look *place)
{
    return encodes_in(process->encode_seen, place);
}

/* The function of the program's own in which most looks saw it; NULL: none did. */
const struct look *encode_place(const struct process *process)
{
    const struct seen *seen = process->encode_seen;
    const struct look *most = NULL;
    for (size_t i = 0; seen && i < SEEN_PLACES && seen->places[i].count; i++) {
        const struct look *place = &seen->places[i];
        if (look_encodes(place) && place->script && strncmp(place->script, "node:", 5) != 0 &&
            (!most || place->count > most->count))
            most = place;
    }
    return most;
}

uint64_t encode_seen_ns(const struct process *process)
{
    const struct seen *seen = process->encode_seen;
    uint64_t encoding = 0;
    if (!seen || seen->looks < LOOKS_NEEDED)
        return 0;
    for (size_t i = 0; i < SEEN_PLACES && seen->places[i].count; i++)
        if (seen->places[i].script && encodes_in(seen, &seen->places[i]))
            encoding += seen->places[i].count;
    return (uint64_t)((double)node_process(process)->encode_turns_ns * (double)encoding /
                      (double)seen->looks);
}

struct fault *encode_fault(struct analysis *a, const struct process *process)
{
    char key[40];
    snprintf(key, sizeof(key), "encoding|%lld", (long long)process->pid);
    return fault_get(a, FINDING_serialisation, process, key);
}

void encode_request_done(struct analysis *a, struct process *process, const struct request *request)
{
    if (request->encode_ns < HIT_MIN_NS)
        return;
    struct fault *fault = encode_fault(a, process);
    if (!fault)
        return;
    fault->from_ns = MIN(fault->from_ns, request->start_ns);
    fault->to_ns = MAX(fault->to_ns, request->end_ns);
    fault->total_ns += request->encodes ? request_net_latency_ns(process, request) : 0;
    fault->net_ns += request->encodes ? request->encode_ns : 0;
    fault_add_request(a, fault, request, request->encode_ns,
                      request->encodes ? VICTIM_CAUSED : VICTIM_WAITED);
}

void encode_total(const struct process *process, struct encode_sum *ret_all, uint8_t *ret_most)
{
    struct encode_sum all = {0};
    uint64_t most_ns = 0;
    for (uint8_t i = 0; node_process(process)->encode && i < ENCODE_KINDS; i++) {
        const struct encode_sum *one = &node_process(process)->encode[i];
        all.count += one->count;
        all.total_ns += one->total_ns;
        all.bytes += one->bytes;
        all.felt_count += one->felt_count;
        all.felt_ns += one->felt_ns;
        if (one->worst_ns > all.worst_ns)
            all.worst_ns = one->worst_ns, all.worst_bytes = one->worst_bytes;
        if (one->felt_bytes && (!all.felt_bytes || one->felt_bytes < all.felt_bytes))
            all.felt_bytes = one->felt_bytes;
        if (one->from_ns && (!all.from_ns || one->from_ns < all.from_ns))
            all.from_ns = one->from_ns;
        all.to_ns = MAX(all.to_ns, one->to_ns);
        if (one->felt_ns > most_ns) {
            most_ns = one->felt_ns;
            *ret_most = i;
        }
    }
    *ret_all = all;
}
