/* The readers of what goes to brokers and comes from them: however the bytes are cut, the same messages are
 * seen, and no byte beyond a buffer is read, nor where a connection is joined in the middle. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "probe/context.h"
#include "probe/delivery.h"

/* Where the probe records; nothing is recorded here. */
static struct sonde_shared shared_page;
struct sonde_shared *probe_shared = &shared_page;
struct probe_large probe_large;
struct sonde_config sonde_config;
struct probe_live probe_live;
__thread struct probe_self probe_self = {.attachment = PROBE_UNCLAIMED};

struct probe_thread *probe_thread_claim(void)
{
    return NULL;
}

uint32_t name_of_text(struct probe_thread *self, const char *text, uint32_t length)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < length; i++)
        sum += (uint8_t)text[i];
    return sum;
}

uint32_t context_current(struct probe_thread *self, int fd)
{
    return 0;
}

uint32_t context_new_shared(struct probe_thread *self, uint64_t stream)
{
    return 0;
}

bool descriptor_generation(int fd, uint32_t *ret_generation)
{
    return false;
}

static void follow(unsigned kind, struct queue_way *w, const uint8_t *bytes, size_t size,
                   struct queue_seen_list *seen)
{
    char *copy = malloc(size ? size : 1); /* of its size, so that a byte beyond it is noticed */
    if (!copy)
        abort();
    if (size)
        memcpy(copy, bytes, size);
    bool out = kind & 1;
    if (kind < 2)
        queue_bytes_amqp(NULL, w, out, copy, size, seen);
    else if (kind < 4)
        queue_bytes_nats(NULL, w, out, copy, size, seen);
    else if (kind > 5)
        queue_bytes_mqtt(NULL, w, out, copy, size, seen);
    else {
        w->queue = 1; /* a queue of jobs is asked for */
        (void)queue_bytes_resp(NULL, w, out, copy, size, seen);
    }
    free(copy);
}

/* A connection that is older than sonde: pieces that are read and written in turn. */
static void join(const uint8_t *bytes, size_t size, size_t most)
{
    static struct probe_thread thread;
    struct descriptor d = {.unnumbered = 1, .queue = READS_MIDWAY};
    bool out = false;
    for (size_t at = 0; at < size; at += most, out = !out) {
        size_t length = most < size - at ? most : size - at;
        char *copy = malloc(length);
        if (!copy)
            abort();
        memcpy(copy, bytes + at, length);
        const struct buffer buffer = {copy, length};
        bool follows =
            d.queue && (d.queue != READS_MIDWAY || queue_midway(&thread, 3, &d, out, &buffer, 1, length));
        if (follows && (d.protocol != PROTOCOL_COMMANDS || d.commands.wire < SONDE_wire_amqp))
            abort();
        if (follows && out)
            queue_written(&thread, 3, &d, &buffer, 1, length, 0);
        else if (follows)
            queue_read(&thread, &d, copy, length);
        free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MIDWAY = 0x80 };
    if (size < 2)
        return 0;
    if (data[0] & MIDWAY) {
        join(data + 2, size - 2, 1 + data[1]);
        return 0;
    }
    unsigned kind = (data[0] & 0xf) % 8;
    size_t most = 1 + data[1] % 16;
    data += 2;
    size -= 2;
    struct queue_way whole = {0}, pieces = {0};
    struct queue_seen_list all = {0}, sum = {0};
    follow(kind, &whole, data, size, &all);
    if (kind == 4 || kind == 5) /* which needs the whole of it */
        return 0;
    for (size_t at = 0; at < size; at += most)
        follow(kind, &pieces, data + at, most < size - at ? most : size - at, &sum);
    if (all.count != sum.count || whole.lost != pieces.lost)
        abort();
    for (uint32_t i = 0; i < all.count; i++)
        if (all.at[i].identity != sum.at[i].identity || all.at[i].number != sum.at[i].number ||
            all.at[i].step != sum.at[i].step)
            abort();
    return 0;
}
