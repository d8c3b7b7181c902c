/* Requests that take a while, for `sonde profile --event block` and `connect`: part of sampler.bpf.c, where
 * the programs are loaded only for these events. Where a request is made, its stack is sent with its number,
 * as of any tracepoint (bpf/hits.h); when it has ended, how long that took and what came of it. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_IO_H
#define BPF_IO_H

#include "bpf/ends.h"

/* The kernel does not say where a disk's request is made (before Linux 6.5): the first that is seen of it
 * counts. That is the same thread, unless it is handed on to another one. */
unsigned int requests_seen_late;

static u64 last_request;

/* By the kernel's structure. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u64);
    __type(value, struct sampler_request);
    __uint(max_entries, 1);
} requests SEC(".maps");

/* Where disks were known before Linux 5.16. */
struct request___old {
    struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

static __always_inline void request_begins(void *ctx, u64 key, struct sampler_request *request)
{
    u64 id = bpf_get_current_pid_tgid();
    if (!bpf_map_delete_elem(&requests, &key)) /* it was another one's, whose end was not seen */
        count(COUNT_NOT_FOLLOWED);
    request->id = __sync_fetch_and_add(&last_request, 1) + 1;
    request->stands_for = tracepoint_hit(ctx, request->id);
    if (!request->stands_for)
        return;
    request->pid = id >> 32;
    request->tid = (u32)id;
    request->begun_ns = bpf_ktime_get_ns();
    if (bpf_map_update_elem(&requests, &key, request, BPF_ANY))
        count(COUNT_NOT_FOLLOWED);
}

static __always_inline void request_ends(u64 key, struct sampler_request *known, int result)
{
    struct {
        struct sampler_sample head;
        struct sampler_request request;
    } *record = bpf_ringbuf_reserve(&samples, sizeof(*record), 0);
    if (record) {
        u64 now_ns = bpf_ktime_get_ns();
        __builtin_memset(&record->head, 0, sizeof(record->head));
        record->request = *known;
        record->request.took_ns = now_ns - known->begun_ns;
        record->request.result = result;
        record->head.time_ns = now_ns;
        record->head.weight = known->id;
        record->head.pid = known->pid;
        record->head.tid = known->tid;
        record->head.kind = SAMPLE_REQUEST_END;
        bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
    } else {
        count(COUNT_LOST);
    }
    bpf_map_delete_elem(&requests, &key);
}

/* ---- disks ---- */

static __always_inline void block_begins(void *ctx, struct request *rq)
{
    struct sampler_request new = {.bytes = BPF_CORE_READ(rq, __data_len),
                                  .operation = BPF_CORE_READ(rq, cmd_flags) & 0xff};
    struct gendisk *disk = bpf_core_field_exists(rq->q->disk)
                               ? BPF_CORE_READ(rq, q, disk)
                               : BPF_CORE_READ((struct request___old *)rq, rq_disk);
    BPF_CORE_READ_STR_INTO(&new.disk, disk, disk_name);
    request_begins(ctx, (u64)rq, &new);
}

SEC("raw_tp/block_io_start")
int BPF_PROG(on_block_start, struct request *rq)
{
    RUN(block_begins(ctx, rq));
    return 0;
}

/* It goes to its disk's queue or, if it was not seen before, to the disk itself: as large as it has become
 * meanwhile, by others that were merged into it. */
static __always_inline void block_goes_on(void *ctx, struct request *rq)
{
    u64 key = (u64)rq;
    struct sampler_request *known = bpf_map_lookup_elem(&requests, &key);
    if (known)
        known->bytes = BPF_CORE_READ(rq, __data_len);
    else if (requests_seen_late)
        block_begins(ctx, rq);
}

SEC("raw_tp/block_rq_insert")
int BPF_PROG(on_block_insert, struct request *rq)
{
    RUN(block_goes_on(ctx, rq));
    return 0;
}

SEC("raw_tp/block_rq_issue")
int BPF_PROG(on_block_issue, struct request *rq)
{
    RUN(block_goes_on(ctx, rq));
    return 0;
}

/* It became part of another one. */
SEC("raw_tp/block_rq_merge")
int BPF_PROG(on_block_merge, struct request *rq)
{
    u64 key = (u64)rq;
    RUN(bpf_map_delete_elem(&requests, &key));
    return 0;
}

static __always_inline void block_ends(struct request *rq, int error, u32 bytes)
{
    u64 key = (u64)rq;
    struct sampler_request *known = bpf_map_lookup_elem(&requests, &key);
    if (known && (error || bytes >= BPF_CORE_READ(rq, __data_len))) /* else the rest follows */
        request_ends(key, known, error);
}

SEC("raw_tp/block_rq_complete")
int BPF_PROG(on_block_complete, struct request *rq, int error, u32 bytes)
{
    RUN(block_ends(rq, error, bytes));
    return 0;
}

/* ---- connections ---- */

enum { CLOSED_BEFORE = -125 }; /* ECANCELED: by the program, before there was an answer */

static __always_inline void connect_goes_on(void *ctx, struct sock *sk, int before, int after)
{
    u64 key = (u64)sk;
    if (after == STATE_SYN_SENT) {
        struct ends ends;
        if (BPF_CORE_READ(sk, sk_protocol) != TCP)
            return;
        read_ends(sk, &ends);
        struct sampler_request new = {
            .peer_high = ends.peer_high, .peer_low = ends.peer_low, .peer_port = ends.peer_port};
        request_begins(ctx, key, &new);
    } else if (before == STATE_SYN_SENT) {
        struct sampler_request *known = bpf_map_lookup_elem(&requests, &key);
        int error = after == STATE_CLOSE ? BPF_CORE_READ(sk, sk_err) : 0;
        if (known)
            request_ends(key, known, after != STATE_CLOSE ? 0 : error ? -error : CLOSED_BEFORE);
    }
}

SEC("raw_tp/inet_sock_set_state")
int BPF_PROG(on_connect, struct sock *sk, int before, int after)
{
    RUN(connect_goes_on(ctx, sk, before, after));
    return 0;
}

#endif
