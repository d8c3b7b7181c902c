/* Messages that go through a broker (RabbitMQ and others that speak AMQP 0-9-1; NATS; MQTT; streams of
 * Redis), seen where a program sends and takes them. A message is known by a hash of what it says and where
 * it goes, which is the same at both ends whether or not the broker is traced; the hash has a key that is new
 * for each process of sonde and is never recorded, so that nothing can be concluded from it about what was
 * said.
 *
 *     sent      published: AMQP basic.publish, NATS PUB and HPUB, MQTT PUBLISH, XADD
 *     taken     delivered: basic.deliver and basic.get-ok, MSG and HMSG, PUBLISH, what XREADGROUP and XREAD
 *               answer
 *     settled   dealt with: basic.ack, nack, reject (number: channel and delivery tag); a PUB to the subject
 *               that the taken message named for its answer (number: a hash of that); XACK (of the entry's
 * id)
 *
 * Answers to questions (queues that RabbitMQ has named, NATS' inboxes) are no messages of their own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/delivery_parts.h"

#include "probe/context.h"

enum { CONNECTIONS = 32, WAYS = 2 };
enum { WAY_IN, WAY_OUT };

static struct queue_connection {
    uint32_t taken;
    int32_t fd;
    uint32_t generation;
    struct queue_way way[WAYS];
} connections[CONNECTIONS];

/* ---- AMQP 0-9-1 ----
 *
 * The client begins with "AMQP" 0 0 9 1. Then frames, all numbers big endian (its specification, 2.3.5):
 *
 *     type u8 (1 method, 2 content header, 3 body, 8 heartbeat), channel u16, size u32, payload, 0xCE
 *     method: class u16, method u16, arguments; content header: class u16, weight u16, body size u64, flags
 *     and properties, which brokers hand on as they are */

enum { AMQP_START, AMQP_FRAME, AMQP_PREFACE, AMQP_METHOD, AMQP_CONTENT, AMQP_BODY, AMQP_SKIP, AMQP_END };
enum { PREFACE_BYTES = 8 };
enum {
    BASIC_PUBLISH = 60 << 16 | 40,
    BASIC_DELIVER = 60 << 16 | 60,
    BASIC_GET_OK = 60 << 16 | 71,
    BASIC_ACK = 60 << 16 | 80,
    BASIC_REJECT = 60 << 16 | 90,
    BASIC_NACK = 60 << 16 | 120
};

/* Where a text with its length in front ends, in n bytes; 0: it does not. */
static uint64_t short_text(const char *p, uint64_t n, uint64_t at)
{
    return at < n && at + 1 + (uint8_t)p[at] <= n ? at + 1 + (uint8_t)p[at] : 0;
}

/* "exchange/key", "key" for the exchange without a name. */
static uint32_t queue_name(struct probe_thread *self, const char *exchange, const char *key)
{
    char text[63];
    uint32_t n = 0;
    uint8_t e = (uint8_t)exchange[0], k = (uint8_t)key[0];
    if (e + 1u + k > sizeof(text))
        return 0;
    copy_bytes(text, exchange + 1, e);
    n = e;
    if (e && k)
        text[n++] = '/';
    copy_bytes(text + n, key + 1, k);
    return name_of_text(self, text, n + k);
}

/* A message to an exchange (at p + at), with a routing key. */
static void amqp_message(struct probe_thread *self, struct queue_way *w, const char *p, uint64_t n,
                         uint64_t at)
{
    uint64_t key = short_text(p, n, at), end = key ? short_text(p, n, key) : 0;
    if (!end)
        return;
    uint64_t length = (uint8_t)p[key];
    if (BEGINS_WITH(p + key + 1, length, "amq.gen-") ||
        BEGINS_WITH(p + key + 1, length, "amq.rabbitmq.reply-to"))
        return; /* an answer */
    w->hash = hash_bytes(hash_bytes(hash_begin(), p + at, key - at), p + key, end - key);
    w->hashed = 0;
    w->open = 1;
    w->open_channel = w->channel;
    w->queue = queue_name(self, p + at, p + key);
}

static void amqp_settled(struct queue_way *w, const char *p, uint64_t n, bool multiple,
                         struct queue_seen_list *seen)
{
    if (n < 12)
        return;
    bool all = multiple && n > 12 && p[12] & 1;
    seen_add(seen, all ? SONDE_queue_step_settled_all : SONDE_queue_step_settled, 0,
             (uint64_t)w->channel << 48 ^ number_at(p + 4, 8), 0, 0);
}

static void amqp_method(struct probe_thread *self, struct queue_way *w, bool out,
                        struct queue_seen_list *seen)
{
    const char *p = w->line;
    uint64_t n = w->have, at;
    if (n < 4)
        return;
    switch (number_at(p, 4)) {
    case BASIC_PUBLISH:
        w->number = 0;
        if (out)
            amqp_message(self, w, p, n, 6);
        break;
    case BASIC_DELIVER:
        at = short_text(p, n, 4);
        if (out || !at || at + 9 > n)
            break;
        w->number = (uint64_t)w->channel << 48 ^ number_at(p + at, 8);
        amqp_message(self, w, p, n, at + 9);
        break;
    case BASIC_GET_OK:
        if (out || n < 13)
            break;
        w->number = (uint64_t)w->channel << 48 ^ number_at(p + 4, 8);
        amqp_message(self, w, p, n, 13);
        break;
    case BASIC_ACK:
    case BASIC_NACK:
        if (out)
            amqp_settled(w, p, n, true, seen);
        break;
    case BASIC_REJECT:
        if (out)
            amqp_settled(w, p, n, false, seen);
        break;
    }
}

/* A frame's head is in line. */
static void amqp_frame(struct queue_way *w)
{
    uint8_t type = (uint8_t)w->line[0];
    w->channel = (uint16_t)number_at(w->line + 1, 2);
    w->left = number_at(w->line + 3, 4);
    w->have = 0;
    bool own = w->open && w->channel == w->open_channel;
    if (w->left > FRAME_MAX ||
        (type != FRAME_METHOD && type != FRAME_CONTENT && type != FRAME_BODY && type != FRAME_HEARTBEAT)) {
        w->lost = 1;
        return;
    }
    w->state = type == FRAME_METHOD                                      ? AMQP_METHOD
               : type == FRAME_CONTENT && own && w->left >= CONTENT_HEAD ? AMQP_CONTENT
               : type == FRAME_BODY && own                               ? AMQP_BODY
                                                                         : AMQP_SKIP;
    if (type == FRAME_METHOD && own)
        w->open = 0; /* its content does not come */
}

/* Bytes of a frame's payload; the content header's fixed part is collected in line. */
static void amqp_payload(struct queue_way *w, const char *p, uint64_t n)
{
    if (w->state == AMQP_METHOD) {
        uint64_t room = QUEUE_LINE - w->have, kept = n < room ? n : room;
        copy_bytes(w->line + w->have, p, kept);
        w->have += (uint32_t)kept;
    } else if (w->state == AMQP_BODY) {
        hash_body(w, p, n);
        w->body -= n < w->body ? n : w->body;
    } else if (w->state == AMQP_CONTENT) {
        for (uint64_t i = 0; i < n && w->have < CONTENT_HEAD; i++)
            w->line[w->have++] = p[i];
        if (w->have == CONTENT_HEAD) {
            w->body = number_at(w->line + 4, 8);
            w->bytes = w->body < UINT32_MAX ? (uint32_t)w->body : UINT32_MAX;
        }
        hash_body(w, p, n);
    }
}

/* The end of a frame. */
static void amqp_frame_ended(struct probe_thread *self, struct queue_way *w, bool out,
                             struct queue_seen_list *seen)
{
    if (w->state == AMQP_METHOD)
        amqp_method(self, w, out, seen);
    else if ((w->state == AMQP_CONTENT || w->state == AMQP_BODY) && !w->body)
        ended(w, out, seen);
    w->state = AMQP_END;
}

void queue_bytes_amqp(struct probe_thread *self, struct queue_way *w, bool out, const char *p, uint64_t n,
                      struct queue_seen_list *seen)
{
    for (uint64_t i = 0; i < n && !w->lost;) {
        switch (w->state) {
        case AMQP_START:
            w->state = out ? AMQP_PREFACE : AMQP_FRAME;
            w->left = PREFACE_BYTES;
            w->have = 0;
            break;
        case AMQP_PREFACE:
            i++;
            if (!--w->left)
                w->state = AMQP_FRAME;
            break;
        case AMQP_FRAME:
            w->line[w->have++] = p[i++];
            if (w->have == FRAME_HEAD)
                amqp_frame(w);
            if (w->state > AMQP_PREFACE && !w->left)
                amqp_frame_ended(self, w, out, seen);
            break;
        case AMQP_END:
            w->lost = (uint8_t)p[i++] != FRAME_END;
            w->have = 0;
            w->state = AMQP_FRAME;
            break;
        default: {
            uint64_t here = n - i < w->left ? n - i : w->left;
            amqp_payload(w, p + i, here);
            w->left -= here;
            i += here;
            if (!w->left)
                amqp_frame_ended(self, w, out, seen);
        }
        }
    }
}

/* ---- NATS ----
 *
 * Lines that end with \r\n (its documentation, "Client Protocol"); bodies follow with \r\n behind them:
 *
 *     PUB subject [answer to] bytes        HPUB subject [answer to] header bytes, all bytes
 *     MSG subject sid [answer to] bytes    HMSG subject sid [answer to] header bytes, all bytes */

enum { NATS_LINE, NATS_BODY, NATS_BODY_END };

/* A line that announces a message; false: it is none that can be followed. */
static bool nats_message(struct probe_thread *self, struct queue_way *w, bool out, const struct part *parts,
                         unsigned count, unsigned lengths, struct queue_seen_list *seen)
{
    unsigned fixed = (out ? 2 : 3) + lengths; /* with the word; one more: where the answer is wanted */
    if (count != fixed && count != fixed + 1)
        return false;
    uint64_t bytes;
    if (!decimal(&parts[count - 1], &bytes) || bytes > NATS_BODY_MAX)
        return false;
    const struct part *subject = &parts[1], *answer = count > fixed ? &parts[out ? 2 : 3] : NULL;
    w->left = bytes;
    w->bytes = (uint32_t)bytes;
    w->state = bytes ? NATS_BODY : NATS_BODY_END;
    w->hashed = 0;
    w->open = 0;
    bool inbox = BEGINS_WITH(subject->at, subject->length, "_INBOX."),
         system = subject->length && subject->at[0] == '$';
    uint64_t name = hash_end(hash_bytes(hash_begin(), subject->at, subject->length));
    if (out && (inbox || BEGINS_WITH(subject->at, subject->length, "$JS.ACK.")))
        seen_add(seen, SONDE_queue_step_settled, 0, name, bytes, 0);
    if (inbox || system)
        return true;
    w->open = 1;
    w->hash = name;
    w->number = answer ? hash_end(hash_bytes(hash_begin(), answer->at, answer->length)) : 0;
    w->queue = name_of_text(self, subject->at, (uint32_t)subject->length);
    return true;
}

static void nats_line(struct probe_thread *self, struct queue_way *w, bool out, struct queue_seen_list *seen)
{
    struct part parts[NATS_PARTS];
    unsigned count = parts_of(w->line, w->have, parts);
    if (!count)
        return;
    bool plain = IS_WORD(&parts[0], "PUB") || IS_WORD(&parts[0], "MSG"),
         headers = IS_WORD(&parts[0], "HPUB") || IS_WORD(&parts[0], "HMSG");
    if ((plain || headers) &&
        (w->have >= QUEUE_LINE || !nats_message(self, w, out, parts, count, plain ? 1 : 2, seen)))
        w->lost = 1;
}

void queue_bytes_nats(struct probe_thread *self, struct queue_way *w, bool out, const char *p, uint64_t n,
                      struct queue_seen_list *seen)
{
    for (uint64_t i = 0; i < n && !w->lost;) {
        if (w->state == NATS_BODY) {
            uint64_t here = n - i < w->left ? n - i : w->left;
            if (w->open)
                hash_body(w, p + i, here);
            w->left -= here;
            i += here;
            if (!w->left)
                w->state = NATS_BODY_END;
        } else if (w->state == NATS_BODY_END) {
            if (p[i++] != '\n')
                continue;
            ended(w, out, seen);
            w->state = NATS_LINE;
            w->have = 0;
        } else if (p[i] == '\n') {
            i++;
            nats_line(self, w, out, seen);
            if (w->state == NATS_LINE)
                w->have = 0;
        } else {
            if (p[i] != '\r' && w->have < QUEUE_LINE)
                w->line[w->have++] = p[i];
            i++;
        }
    }
}

/* ---- connections ---- */

static bool is_free(const struct queue_connection *c)
{
    uint32_t generation;
    return !c->taken || !descriptor_generation(c->fd, &generation) || generation != c->generation;
}

void queue_begins(struct probe_thread *self, int fd, struct descriptor *d)
{
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        struct queue_connection *c = &connections[i];
        uint32_t taken = c->taken;
        if (!is_free(c) || !__atomic_compare_exchange_n(&c->taken, &taken, taken + 1 ? taken + 1 : 1, false,
                                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        c->fd = fd;
        c->generation = d->generation;
        for (int way = 0; way < WAYS; way++) {
            c->way[way].state = c->way[way].open = c->way[way].lost = c->way[way].joins = 0;
            c->way[way].have = c->way[way].hashed = c->way[way].queue = 0;
            c->way[way].fetches = c->way[way].answers = 0;
            c->way[way].gives = false;
        }
        d->queue = (uint8_t)(i + 1);
        return;
    }
}

enum { LOOKS_MAX = 255, JOINS_MAX = 64 };

/* What is read of TLS is in the clear, what is written is not. */
static bool is_encrypted(const char *p, uint64_t n)
{
    enum { TLS_FIRST = 20, TLS_LAST = 23, TLS_MAJOR = 3 };
    return n > 1 && p[0] >= TLS_FIRST && p[0] <= TLS_LAST && p[1] == TLS_MAJOR;
}

/* One direction of a connection that was joined in the middle: whether a message begins with these bytes, so
 * that it can be followed from here on. Where none does, again and again, it never is; nor are the messages
 * that are taken where what is written cannot be read. */
static bool joins(struct queue_connection *c, uint8_t wire, bool out, const char *p, uint64_t n)
{
    struct queue_way *w = &c->way[out ? WAY_OUT : WAY_IN];
    if (queue_begins_here(wire, out, p, n)) {
        w->joins = 0;
        w->state = wire == SONDE_wire_amqp ? AMQP_FRAME : NATS_LINE;
        return true;
    }
    w->joins--;
    if (w->joins && !(out && is_encrypted(p, n)))
        return false;
    w->joins = 0;
    w->lost = 1;
    if (out)
        c->way[WAY_IN].lost = 1;
    return false;
}

bool queue_midway(struct probe_thread *self, int fd, struct descriptor *d, bool out,
                  const struct buffer *buffers, unsigned count, uint64_t length)
{
    bool open = d->protocol == PROTOCOL_UNKNOWN || d->protocol == PROTOCOL_OTHER;
    int wire = open ? queue_midway_wire(d, out, buffers, count, length) : -1;
    if (wire < 0) {
        d->looks++;
        if (!open || d->looks == LOOKS_MAX)
            d->queue = 0;
        return d->protocol == PROTOCOL_WEBSOCKET;
    }
    d->protocol = PROTOCOL_COMMANDS;
    d->commands.wire = (uint8_t)wire;
    d->queue = 0;
    queue_begins(self, fd, d);
    for (int way = 0; d->queue && way < WAYS; way++) {
        struct queue_way *w = &connections[d->queue - 1].way[way];
        w->channel = 0;
        w->joins = wire == SONDE_wire_mqtt ? 0 : JOINS_MAX; /* whose packets were whole up to here */
    }
    return d->queue != 0;
}

static void follow(struct probe_thread *self, const struct descriptor *d, bool out, const char *p, uint64_t n,
                   struct queue_seen_list *seen)
{
    struct queue_connection *c = &connections[d->queue - 1];
    struct queue_way *w = &c->way[out ? WAY_OUT : WAY_IN];
    if (UNLIKELY(w->joins) && !joins(c, d->commands.wire, out, p, n))
        return;
    if (d->commands.wire == SONDE_wire_amqp)
        queue_bytes_amqp(self, w, out, p, n, seen);
    else if (d->commands.wire == SONDE_wire_nats)
        queue_bytes_nats(self, w, out, p, n, seen);
    else if (d->commands.wire == SONDE_wire_mqtt)
        queue_bytes_mqtt(self, w, out, p, n, seen);
    else if (!out)
        (void)queue_bytes_resp(self, w, out, p, n, seen);
}

static void tell(struct probe_thread *self, int fd, uint32_t generation, uint8_t wire,
                 const struct queue_seen *m, uint64_t now, uint32_t context)
{
    RECORD(self, queue_message, 0, now, .identity = m->identity, .number = m->number, .bytes = m->bytes,
           .generation = generation, .fd = fd, .queue = m->queue, .context = context, .wire = wire,
           .step = m->step);
}

/* What is asked for in these commands is read in the answers. */
static void resp_written(struct probe_thread *self, int fd, struct descriptor *d, const char *p, uint64_t n,
                         struct queue_seen_list *seen)
{
    bool asks = queue_bytes_resp(self, NULL, true, p, n, seen);
    if (asks && !d->queue)
        queue_begins(self, fd, d);
    if (!d->queue || !seen->jobs)
        return;
    struct queue_way *w = &connections[d->queue - 1].way[WAY_IN];
    w->lost |= seen->several || (w->queue && w->queue != seen->jobs);
    w->queue = seen->jobs;
    w->gives |= seen->gives;
    for (uint32_t i = 0; i < seen->fetches; i++)
        w->fetched[w->fetches++ % QUEUE_FETCHED] = seen->fetched[i % QUEUE_FETCHED];
    seen->fetches = 0;
}

/* Clients put what several callbacks send into one write: of more than one message it is not known whose each
 * is. */
void queue_written(struct probe_thread *self, int fd, struct descriptor *d, const struct buffer *buffers,
                   unsigned count, uint64_t accepted, uint64_t now)
{
    struct queue_seen_list seen;
    seen.count = seen.jobs = seen.fetches = 0;
    seen.several = seen.gives = false;
    bool resp = d->commands.wire == SONDE_wire_resp;
    for (unsigned i = 0; i < count && accepted; i++) {
        uint64_t here = buffers[i].length < accepted ? buffers[i].length : accepted;
        if (resp)
            resp_written(self, fd, d, buffers[i].base, here, &seen);
        else if (d->queue)
            follow(self, d, true, buffers[i].base, here, &seen);
        accepted -= here;
    }
    uint32_t sent = 0, context = 0;
    for (uint32_t i = 0; i < seen.count; i++)
        sent += seen.at[i].step == SONDE_queue_step_sent;
    if (sent)
        context = sent == 1 ? context_current(self, fd) : SONDE_CONTEXT_LOST;
    for (uint32_t i = 0; i < seen.count; i++)
        tell(self, fd, d->generation, d->commands.wire, &seen.at[i], now,
             seen.at[i].step == SONDE_queue_step_sent ? context : 0);
}

void queue_read(struct probe_thread *self, struct descriptor *d, const char *bytes, uint64_t length)
{
    struct queue_seen_list seen;
    seen.count = 0;
    follow(self, d, false, bytes, length, &seen);
    uint64_t now = seen.count ? ticks() : 0;
    self->queue_wire = d->commands.wire;
    self->queue_pending = 0;
    for (uint32_t i = 0; i < seen.count; i++) {
        if (self->queue_pending < QUEUE_PENDING)
            self->queue_taken[self->queue_pending++] = seen.at[i];
        else
            tell(self, self->stream_fd, self->stream_generation, d->commands.wire, &seen.at[i], now, 0);
    }
}

void queue_tell(struct probe_thread *self)
{
    /* What Redis answers goes on where it was asked for. */
    bool resp = self->queue_wire == SONDE_wire_resp;
    uint32_t count = self->queue_pending, context = resp ? 0 : context_new_shared(self, 0);
    uint64_t now = ticks();
    self->queue_pending = 0;
    for (uint32_t i = 0; i < count; i++)
        tell(self, self->stream_fd, self->stream_generation, self->queue_wire, &self->queue_taken[i], now,
             context);
}
