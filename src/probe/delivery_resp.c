/* Messages in Redis, seen where a program sends and takes them: entries of streams, and jobs of queues that
 * libraries keep there. How messages are known, and what becomes of them: delivery.c. Only what lies whole in
 * one buffer is read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/delivery_parts.h"

enum { COMMAND_PARTS = 128 };

/* ---- commands and replies ---- */

/* A number and the end of its line at p[*at]. */
static bool resp_number(const char *p, uint64_t n, uint64_t *at, uint64_t *ret_number)
{
    uint64_t i = *at, number = 0;
    for (; i < n && i < *at + 9 && p[i] >= '0' && p[i] <= '9'; i++)
        number = number * 10 + (uint64_t)(p[i] - '0');
    if (i == *at || i + 2 > n || p[i] != '\r' || p[i + 1] != '\n')
        return false;
    *at = i + 2;
    *ret_number = number;
    return true;
}

static bool resp_count(const char *p, uint64_t n, uint64_t *at, char kind, uint64_t *ret_count)
{
    return *at < n && p[*at] == kind && (++*at, resp_number(p, n, at, ret_count));
}

static bool resp_text(const char *p, uint64_t n, uint64_t *at, struct part *ret_text)
{
    uint64_t length;
    if (!resp_count(p, n, at, '$', &length) || n - *at < length + 2)
        return false;
    *ret_text = (struct part){p + *at, length};
    *at += length + 2;
    return true;
}

/* Keys are never recorded: a number stands for one, which is the same in all processes of a recording. */
static uint32_t key_name(struct probe_thread *self, const char *kind, const struct part *key)
{
    static const char DIGITS[] = "0123456789abcdef";
    char text[24];
    uint64_t hash = hash_end(hash_part(hash_begin(), key));
    uint32_t n = 0;
    while (kind[n]) {
        text[n] = kind[n];
        n++;
    }
    for (unsigned i = 0; i < 8; i++)
        text[n + 7 - i] = DIGITS[hash >> (4 * i) & 15];
    return name_of_text(self, text, n + 8);
}

/* ---- streams of Redis ----
 *
 *     XADD key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] id field value ...
 *     XACK key group id ...
 *     XREADGROUP, XREAD: answered with [[key, [[id, [field, value, ...]], ...]], ...]; in RESP3 the outermost
 *     is a map
 */

static uint64_t entry_number(const struct part *key, const struct part *id)
{
    return hash_end(hash_bytes(hash_bytes(hash_begin(), key->at, key->length), id->at, id->length));
}

static uint32_t stream_name(struct probe_thread *self, const struct part *key)
{
    return key_name(self, "stream #", key);
}

static void stream_add(struct probe_thread *self, const struct part *parts, uint64_t count, uint64_t bytes,
                       struct queue_seen_list *seen)
{
    uint64_t i = 2;
    if (i < count && IS_WORD(&parts[i], "NOMKSTREAM"))
        i++;
    if (i < count && (IS_WORD(&parts[i], "MAXLEN") || IS_WORD(&parts[i], "MINID"))) {
        i++;
        i += i < count && parts[i].length == 1 && (parts[i].at[0] == '=' || parts[i].at[0] == '~');
        i++;
        i += i < count && IS_WORD(&parts[i], "LIMIT") ? 2 : 0;
    }
    uint64_t hash = hash_bytes(hash_begin(), parts[1].at, parts[1].length);
    for (i++; i < count; i++)
        hash = hash_bytes(hash, parts[i].at, parts[i].length);
    seen_add(seen, SONDE_queue_step_sent, hash_end(hash), 0, bytes, stream_name(self, &parts[1]));
}

/* Returns whether it asks for messages. */
static bool stream_command(struct probe_thread *self, const struct part *parts, uint64_t count,
                           uint64_t bytes, struct queue_seen_list *seen)
{
    if (IS_WORD(&parts[0], "XADD") && count > 4)
        stream_add(self, parts, count, bytes, seen);
    for (uint64_t i = 3; i < count && IS_WORD(&parts[0], "XACK"); i++)
        seen_add(seen, SONDE_queue_step_settled, 0, entry_number(&parts[1], &parts[i]), 0, 0);
    bool asks = IS_WORD(&parts[0], "XREADGROUP") || IS_WORD(&parts[0], "XREAD");
    if (asks)
        seen_add(seen, SONDE_queue_step_asked, 0, 0, 0, 0);
    return asks;
}

static bool stream_entry(struct probe_thread *self, const char *p, uint64_t n, uint64_t *at,
                         const struct part *key, struct queue_seen_list *seen)
{
    uint64_t two, count, start = *at;
    struct part id, text;
    if (!resp_count(p, n, at, '*', &two) || two != 2 || !resp_text(p, n, at, &id) ||
        !resp_count(p, n, at, '*', &count))
        return false;
    uint64_t hash = hash_bytes(hash_begin(), key->at, key->length);
    for (uint64_t i = 0; i < count; i++) {
        if (!resp_text(p, n, at, &text))
            return false;
        hash = hash_bytes(hash, text.at, text.length);
    }
    seen_add(seen, SONDE_queue_step_taken, hash_end(hash), entry_number(key, &id), *at - start,
             stream_name(self, key));
    return true;
}

static void stream_reply(struct probe_thread *self, const char *p, uint64_t n, struct queue_seen_list *seen)
{
    uint64_t at = 0, streams, two, entries;
    struct part key;
    bool map = n && p[0] == '%';
    if (!resp_count(p, n, &at, map ? '%' : '*', &streams))
        return;
    for (uint64_t s = 0; s < streams; s++) {
        if (!map && (!resp_count(p, n, &at, '*', &two) || two != 2))
            return;
        if (!resp_text(p, n, &at, &key) || !resp_count(p, n, &at, '*', &entries))
            return;
        for (uint64_t e = 0; e < entries; e++)
            if (!stream_entry(self, p, n, &at, &key, seen))
                return;
    }
}

/* ---- queues of jobs ----
 *
 * BullMQ and Bull keep the jobs of a queue in lists and hashes whose keys begin alike (P, which ends with a
 * colon), and change them by scripts: EVALSHA digest K key ... argument ...
 *
 *     added    P:wait or P:prioritized, and P:id are among the keys. BullMQ's arguments: an array in
 *              MessagePack ([P, id, name, time, ...]), the data, options; Bull's: P, id, name, data, options,
 *              time. Those that are added to be done later have neither of the two lists
 *     asked    P:active and P:wait are, P:id is not; answered with [[field, value, ...], id, ...]: the job's
 * hash over     P:active and P:<job> are, and the job among the first arguments; the same script may ask for
 *              the next one
 *
 * A job is known by its name, data and time. */

enum { JOB_ARGUMENTS = 6, TIME_DIGITS = 20 };

struct job {
    struct part name, data, time, id;
};

static bool is(const struct part *part, const char *word)
{
    uint64_t i = 0;
    while (i < part->length && word[i] && part->at[i] == word[i])
        i++;
    return i == part->length && !word[i];
}

static bool equal(const struct part *a, const struct part *b)
{
    return a->length == b->length && begins_with(a->at, a->length, b->at, b->length);
}

/* What follows P in a key. */
static bool behind(const struct part *key, const struct part *prefix, struct part *ret_rest)
{
    if (!begins_with(key->at, key->length, prefix->at, prefix->length))
        return false;
    *ret_rest = (struct part){key->at + prefix->length, key->length - prefix->length};
    return true;
}

/* P of a key that ends with a word. */
static bool before(const struct part *key, const char *word, struct part *ret_prefix)
{
    uint64_t length = 0;
    while (word[length])
        length++;
    if (key->length <= length || !begins_with(key->at + key->length - length, length, word, length))
        return false;
    *ret_prefix = (struct part){key->at, key->length - length + 1};
    return true;
}

static uint64_t job_identity(const struct job *job)
{
    return hash_end(hash_part(hash_part(hash_part(hash_begin(), &job->name), &job->data), &job->time));
}

static uint64_t job_number(const struct part *id)
{
    return hash_end(hash_part(hash_begin(), id));
}

/* MessagePack, as far as it is used for these: a text, nil, or a time, which is a double without a fraction
 * or an unsigned number. Digits are written where they end at text + TIME_DIGITS. */
static bool packed_text(const struct part *packed, uint64_t *at, struct part *ret_text)
{
    const uint8_t *p = (const uint8_t *)packed->at;
    uint64_t n = packed->length, i = *at, length;
    if (i >= n)
        return false;
    if (p[i] == 0xc0) {
        *ret_text = (struct part){packed->at, 0};
        *at = i + 1;
        return true;
    }
    unsigned width = p[i] == 0xd9 ? 1 : p[i] == 0xda ? 2 : p[i] == 0xdb ? 4 : 0;
    if (!width && (p[i] & 0xe0) != 0xa0)
        return false;
    length = width ? 0 : p[i] & 0x1f;
    if (n - i <= width)
        return false;
    for (unsigned k = 1; k <= width; k++)
        length = length << 8 | p[i + k];
    i += 1 + width;
    if (n - i < length)
        return false;
    *ret_text = (struct part){packed->at + i, length};
    *at = i + length;
    return true;
}

static uint64_t whole_double(uint64_t bits)
{
    uint64_t exponent = bits >> 52 & 0x7ff, mantissa = (bits & 0xfffffffffffff) | 1ull << 52;
    return exponent >= 1023 && exponent <= 1075 ? mantissa >> (1075 - exponent) : 0;
}

static bool packed_time(const struct part *packed, uint64_t at, char text[TIME_DIGITS], struct part *ret_time)
{
    const uint8_t *p = (const uint8_t *)packed->at;
    uint64_t number = 0;
    if (packed->length < at + 9 || (p[at] != 0xcb && p[at] != 0xcf))
        return false;
    for (unsigned i = 1; i <= 8; i++)
        number = number << 8 | p[at + i];
    if (p[at] == 0xcb)
        number = whole_double(number);
    unsigned begin = TIME_DIGITS;
    for (; number; number /= 10)
        text[--begin] = (char)('0' + number % 10);
    *ret_time = (struct part){text + begin, TIME_DIGITS - begin};
    return begin < TIME_DIGITS;
}

static bool packed_job(const struct part *packed, char text[TIME_DIGITS], struct job *job)
{
    uint64_t at = 1;
    struct part prefix, id;
    return packed->length && ((uint8_t)packed->at[0] & 0xf0) == 0x90 && packed_text(packed, &at, &prefix) &&
           packed_text(packed, &at, &id) && packed_text(packed, &at, &job->name) &&
           packed_time(packed, at, text, &job->time);
}

static void job_added(struct probe_thread *self, const struct part *prefix, const struct part *arguments,
                      uint64_t count, struct queue_seen_list *seen)
{
    char text[TIME_DIGITS];
    struct job job;
    if (count > 5 && equal(&arguments[0], prefix))
        job = (struct job){.name = arguments[2], .data = arguments[3], .time = arguments[5]};
    else if (count > 1 && packed_job(&arguments[0], text, &job))
        job.data = arguments[1];
    else
        return;
    seen_add(seen, SONDE_queue_step_sent, job_identity(&job), 0, job.data.length,
             key_name(self, "jobs #", prefix));
}

/* Whether the key's rest is a job that the script is about. */
static bool is_job(const struct part *rest, const struct part *arguments, uint64_t count)
{
    for (uint64_t i = 0; i < count && i < JOB_ARGUMENTS; i++)
        if (rest->length && equal(rest, &arguments[i]))
            return true;
    return false;
}

/* Returns whether it asks for a job. */
static bool job_command(struct probe_thread *self, const struct part *parts, uint64_t count,
                        struct queue_seen_list *seen)
{
    uint64_t keys = 0, last;
    if (count < 4 || !(IS_WORD(&parts[0], "EVALSHA") || IS_WORD(&parts[0], "EVAL")) ||
        !decimal(&parts[2], &keys) || keys > count - 3)
        return false;
    const struct part *key = &parts[3], *arguments = key + keys;
    uint64_t argument_count = count - 3 - keys;
    struct part prefix, rest, job = {0};
    for (last = 0; last < keys; last++)
        if (before(&key[last], ":active", &prefix) || before(&key[last], ":wait", &prefix) ||
            before(&key[last], ":prioritized", &prefix))
            break;
    bool waits = false, active = false, id = false;
    for (uint64_t i = 0; last < keys && i < keys; i++) {
        if (!behind(&key[i], &prefix, &rest))
            continue;
        waits |= is(&rest, "wait") || is(&rest, "prioritized");
        active |= is(&rest, "active");
        id |= is(&rest, "id");
        if (is_job(&rest, arguments, argument_count))
            job = rest;
    }
    if (waits && id) {
        job_added(self, &prefix, arguments, argument_count, seen);
        return false;
    }
    if (!active || !waits)
        return false;
    uint32_t queue = key_name(self, "jobs #", &prefix);
    if (job.length)
        seen_add(seen, SONDE_queue_step_settled, 0, job_number(&job), 0, queue);
    seen->several |= seen->jobs && seen->jobs != queue;
    seen->jobs = queue;
    return true;
}

/* A value of any kind, to its end. */
static bool skip_value(const char *p, uint64_t n, uint64_t *at)
{
    for (uint64_t left = 1, count; left; left--) {
        if (*at >= n)
            return false;
        char kind = p[(*at)++];
        bool text = kind == '$' || kind == '=' || kind == '!',
             list = kind == '*' || kind == '~' || kind == '>' || kind == '%';
        if ((text || list) && resp_number(p, n, at, &count)) {
            if (text && n - *at < count + 2)
                return false;
            *at += text ? count + 2 : 0;
            left += text ? 0 : kind == '%' ? 2 * count : count;
            continue;
        }
        while (*at < n && p[*at] != '\n') /* nothing: -1 */
            ++*at;
        if ((*at)++ >= n)
            return false;
    }
    return true;
}

/* The hash of a job and its id. */
static bool job_reply(const char *p, uint64_t n, uint64_t *at, struct job *job)
{
    uint64_t items, fields;
    struct part field, value;
    bool name = false, data = false, time = false;
    if (!resp_count(p, n, at, '*', &items) || items < 2 || !resp_count(p, n, at, '*', &fields) || fields & 1)
        return false;
    for (; fields; fields -= 2) {
        if (!resp_text(p, n, at, &field) || !resp_text(p, n, at, &value))
            return false;
        if (is(&field, "name"))
            job->name = value, name = true;
        else if (is(&field, "data"))
            job->data = value, data = true;
        else if (is(&field, "timestamp"))
            job->time = value, time = true;
    }
    if (!name || !data || !time || !resp_text(p, n, at, &job->id))
        return false;
    for (items -= 2; items; items--)
        if (!skip_value(p, n, at))
            return false;
    return true;
}

/* Of several queues on a connection it is not known whose the job is. */
static void job_replies(const struct queue_way *w, const char *p, uint64_t n, struct queue_seen_list *seen)
{
    for (uint64_t at = 0; at < n;) {
        uint64_t start = at;
        struct job job;
        if (job_reply(p, n, &at, &job)) {
            seen_add(seen, SONDE_queue_step_begun, job_identity(&job), job_number(&job.id), job.data.length,
                     w->lost ? 0 : w->queue);
            continue;
        }
        at = start;
        if (!skip_value(p, n, &at))
            return;
    }
}

/* ---- jobs of Bee-Queue ----
 *
 * It has three connections in a process, and no script for what a worker does:
 *
 *     added    EVALSHA digest 3 P:id P:jobs P:waiting id data
 *     given    BRPOPLPUSH P:waiting P:active 0, answered with the id
 *     begun    HGET P:jobs id, answered with the data
 *     over     LREM P:active 0 id
 *
 * A job is known by its data, which has the time in it. Only the data of one that this process was given is a
 * job's beginning: programs also ask how others are getting on. */

enum { GIVEN = 64 };
static uint64_t given[GIVEN]; /* jobs of which the data has not been asked for yet; 0: none */
static uint32_t given_next;
bool queue_bee;

static uint64_t given_key(uint32_t queue, uint64_t job)
{
    uint64_t key = job ^ (uint64_t)queue << 32;
    return key ? key : 1;
}

static bool take_given(uint64_t key)
{
    for (unsigned i = 0; i < GIVEN; i++) {
        uint64_t expected = key;
        if (__atomic_compare_exchange_n(&given[i], &expected, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

static void bee_asks(struct queue_seen_list *seen, uint32_t queue)
{
    seen->several |= seen->jobs && seen->jobs != queue;
    seen->jobs = queue;
}

/* Returns whether it asks for a job. */
static bool bee_command(struct probe_thread *self, const struct part *parts, uint64_t count,
                        struct queue_seen_list *seen)
{
    struct part prefix, rest;
    if (count == 8 && (IS_WORD(&parts[0], "EVALSHA") || IS_WORD(&parts[0], "EVAL")) && is(&parts[2], "3") &&
        before(&parts[4], ":jobs", &prefix) && behind(&parts[3], &prefix, &rest) && is(&rest, "id") &&
        behind(&parts[5], &prefix, &rest) && is(&rest, "waiting")) {
        struct job job = {.data = parts[7]};
        seen_add(seen, SONDE_queue_step_sent, job_identity(&job), 0, job.data.length,
                 key_name(self, "jobs #", &prefix));
    } else if (count == 4 && IS_WORD(&parts[0], "LREM") && is(&parts[2], "0") &&
               before(&parts[1], ":active", &prefix)) {
        seen_add(seen, SONDE_queue_step_settled, 0, job_number(&parts[3]), 0,
                 key_name(self, "jobs #", &prefix));
    } else if (count == 4 && IS_WORD(&parts[0], "BRPOPLPUSH") && before(&parts[1], ":waiting", &prefix) &&
               behind(&parts[2], &prefix, &rest) && is(&rest, "active")) {
        bee_asks(seen, key_name(self, "jobs #", &prefix));
        seen->gives = true;
        queue_bee = true;
        return true;
    } else if (count == 3 && IS_WORD(&parts[0], "HGET") && before(&parts[1], ":jobs", &prefix)) {
        uint32_t queue = key_name(self, "jobs #", &prefix);
        uint64_t job = job_number(&parts[2]);
        if (!take_given(given_key(queue, job)))
            return false;
        bee_asks(seen, queue);
        seen->fetched[seen->fetches++ % QUEUE_FETCHED] = job;
        return true;
    }
    return false;
}

/* Text that is the answer to what was asked for on this connection: an id, or the oldest job's data. A job
 * that is gone is answered with nothing. */
static void bee_reply(struct queue_way *w, const struct part *text, struct queue_seen_list *seen)
{
    if (w->gives && text->at && !w->lost) {
        uint32_t at = __atomic_fetch_add(&given_next, 1, __ATOMIC_RELAXED) % GIVEN;
        __atomic_store_n(&given[at], given_key(w->queue, job_number(text)), __ATOMIC_RELAXED);
        return;
    }
    bool is_data = text->at && BEGINS_WITH(text->at, text->length, "{\"data\":");
    if (w->fetches == w->answers || (text->at && !is_data))
        return;
    uint64_t number = w->fetches - w->answers > QUEUE_FETCHED ? 0 : w->fetched[w->answers % QUEUE_FETCHED];
    w->answers++;
    struct job job = {.data = *text};
    if (is_data && number)
        seen_add(seen, SONDE_queue_step_begun, job_identity(&job), number, text->length, w->queue);
}

/* Where an answer does not lie whole in the buffer, it is not known any more which is to what. */
static void bee_replies(struct queue_way *w, const char *p, uint64_t n, struct queue_seen_list *seen)
{
    for (uint64_t at = 0; at < n && !w->lost;) {
        struct part text;
        uint64_t start = at;
        if (resp_text(p, n, &at, &text)) {
            bee_reply(w, &text, seen);
            continue;
        }
        at = start;
        if (BEGINS_WITH(p + at, n - at, "$-1\r\n"))
            bee_reply(w, &(struct part){0}, seen);
        w->lost |= !skip_value(p, n, &at);
    }
}

/* ---- all ---- */

bool queue_bytes_resp(struct probe_thread *self, struct queue_way *way, bool out, const char *p, uint64_t n,
                      struct queue_seen_list *seen)
{
    bool asks = false;
    if (!out) {
        stream_reply(self, p, n, seen);
        if (way->gives || way->fetches)
            bee_replies(way, p, n, seen);
        else if (way->queue)
            job_replies(way, p, n, seen);
        return false;
    }
    for (uint64_t at = 0, start = 0, count; resp_count(p, n, &at, '*', &count); start = at) {
        struct part parts[COMMAND_PARTS];
        for (uint64_t i = 0; i < count; i++)
            if (!resp_text(p, n, &at, &parts[i < COMMAND_PARTS ? i : COMMAND_PARTS - 1]))
                return asks;
        if (!count || count > COMMAND_PARTS)
            continue;
        asks |= stream_command(self, parts, count, at - start, seen);
        asks |= job_command(self, parts, count, seen);
        asks |= bee_command(self, parts, count, seen);
    }
    return asks;
}
