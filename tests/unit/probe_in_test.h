/* The probe's recording code inside a unit test: one thread with a ring of its own, whose records can be
 * read. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_PROBE_IN_TEST_H
#define TESTS_UNIT_PROBE_IN_TEST_H

#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "event/short_read.h"
#include "probe/probe.h"
#include "test.h"

struct sonde_config sonde_config;
struct probe_live probe_live = {.attachment = 1, .original = 1};
static struct sonde_shared shared_page;
struct sonde_shared *probe_shared = &shared_page;
struct probe_large probe_large;
__thread struct probe_self probe_self;

static inline struct probe_thread *make_thread(uint32_t ring_bytes)
{
    char *memory = aligned_alloc(SONDE_PAGE, SONDE_PAGE + ring_bytes);
    assert_non_null(memory);
    memset(memory, 0, SONDE_PAGE + ring_bytes);
    struct probe_thread *thread = (struct probe_thread *)memory;
    record_into(&thread->shared, memory + SONDE_PAGE, ring_bytes);
    thread->stream_fd = -1;
    probe_self = (struct probe_self){.thread = thread, .attachment = 1};
    return thread;
}

struct probe_thread *probe_thread_claim(void)
{
    return NULL;
}

/* The next record, or NULL. Its payload in *ret_payload. Of a short one it is what that stands for. */
static inline const struct sonde_record *take_record(struct probe_thread *t, const void **ret_payload)
{
    static struct short_event newest;
    static struct {
        struct sonde_record record;
        char payload[SHORT_FIELDS];
    } whole;
    uint64_t size = t->shared.ring_mask + 1;
    while (t->shared.tail < t->shared.head) {
        uint64_t place = t->shared.tail & t->shared.ring_mask;
        const struct sonde_record *record = (const struct sonde_record *)(t->shared.ring + place);
        if (size - place < sizeof(*record) || record->meta == 0) {
            t->shared.tail += size - place;
            continue;
        }
        t->shared.tail += (record->meta >> 8 & 0xff) * 8;
        *ret_payload = record + 1;
        unsigned id = record->meta & 0xff;
        if (id < SONDE_SHORT_FIRST) {
            short_remember(&newest, (enum sonde_event_id)id, record->end_tsc, record->meta >> 16, record + 1);
            return record;
        }
        assert_true(short_expand(&newest, (const uint64_t *)record));
        whole.record = (struct sonde_record){newest.end_tsc, newest.id | newest.duration << 16};
        memcpy(whole.payload, newest.fields, sizeof(whole.payload));
        *ret_payload = whole.payload;
        return &whole.record;
    }
    return NULL;
}

/* The next record of one event, others skipped; fails the test when there is none. */
static inline const void *expect_record(struct probe_thread *t, enum sonde_event_id id)
{
    const void *payload;
    for (const struct sonde_record *r; (r = take_record(t, &payload));)
        if ((r->meta & 0xff) == id)
            return payload;
    fail_msg("no %s was recorded", event_catalogue[id].name);
    return NULL;
}

#endif
