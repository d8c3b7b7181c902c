/* The readers of what goes to brokers and comes from them: however the bytes are cut, the same messages are
 * seen, and no byte beyond a buffer is read. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
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
