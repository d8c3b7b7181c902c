/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_in_test.h"

#include "probe/context.h"
#include "probe/delivery.h"

#include "broker_bytes.h"

static struct probe_thread *thread;

uint32_t context_current(struct probe_thread *self, int fd)
{
    return 0;
}

uint32_t context_new_shared(struct probe_thread *self, uint64_t stream)
{
    return 0;
}

typedef void follow(struct probe_thread *self, struct queue_way *w, bool out, const char *p, uint64_t n,
                    struct queue_seen_list *seen);

/* Follows what was put, in pieces that differ from round to round: what is seen is always the same. */
static struct queue_seen_list followed(follow *f, bool out)
{
    struct queue_seen_list first = {0};
    size_t seed = 7;
    for (int round = 0; round < 30; round++) {
        struct queue_way w = {0};
        struct queue_seen_list seen = {0};
        for (size_t at = 0; at < length;) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            size_t piece = round ? 1 + (seed >> 33) % (round % 2 ? 5 : 3000) : length;
            piece = piece < length - at ? piece : length - at;
            char *copy = malloc(piece); /* of its size, so that a byte beyond it is noticed */
            memcpy(copy, bytes + at, piece);
            f(thread, &w, out, copy, piece, &seen);
            free(copy);
            at += piece;
        }
        assert_false(w.lost);
        if (!round)
            first = seen;
        assert_int_equal(seen.count, first.count);
        for (uint32_t i = 0; i < seen.count; i++) {
            assert_int_equal(seen.at[i].identity, first.at[i].identity);
            assert_int_equal(seen.at[i].number, first.at[i].number);
            assert_int_equal(seen.at[i].step, first.at[i].step);
        }
    }
    length = 0;
    return first;
}

static const char LONG[10000] = "a long text";

static void both_ends_of_amqp_see_the_same_message(void **state)
{
    PUT("AMQP\0\0\x9\x1");
    publish(1, "", "orders", "one", 3);
    frame(8, 0); /* a heartbeat */
    frame_end();
    publish(2, "shop", "orders.new", "two", 3);
    publish(1, "", "orders", LONG, sizeof(LONG));
    publish(1, "", "orders", "", 0);
    publish(1, "", "amq.gen-7Zk", "an answer", 9);
    struct queue_seen_list sent = followed(queue_bytes_amqp, true);
    assert_int_equal(sent.count, 4);

    deliver(3, 1, "", "orders", "one", 3);
    deliver(1, 1, "shop", "orders.new", "two", 3);
    deliver(3, 2, "", "orders", LONG, sizeof(LONG));
    deliver(3, 3, "", "orders", "", 0);
    deliver(3, 4, "", "orders", "other", 5);
    struct queue_seen_list taken = followed(queue_bytes_amqp, false);
    assert_int_equal(taken.count, 5);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sent.at[i].step, SONDE_queue_step_sent);
        assert_int_equal(taken.at[i].step, SONDE_queue_step_taken);
        assert_int_equal(sent.at[i].identity, taken.at[i].identity);
        assert_int_not_equal(taken.at[i].identity, taken.at[i + 1].identity);
    }
    assert_int_equal(sent.at[2].bytes, sizeof(LONG));
    assert_int_equal(sent.at[0].queue, taken.at[0].queue);
    assert_int_not_equal(sent.at[0].queue, sent.at[1].queue);

    PUT("AMQP\0\0\x9\x1");
    settle(3, 80, 1, 0);
    settle(1, 90, 1, 1);
    settle(3, 120, 3, 1);
    struct queue_seen_list done = followed(queue_bytes_amqp, true);
    assert_int_equal(done.count, 3);
    assert_int_equal(done.at[0].number, taken.at[0].number);
    assert_int_equal(done.at[0].step, SONDE_queue_step_settled);
    assert_int_equal(done.at[1].number, taken.at[1].number);
    assert_int_equal(done.at[1].step, SONDE_queue_step_settled);
    assert_int_equal(done.at[2].number, taken.at[3].number);
    assert_int_equal(done.at[2].step, SONDE_queue_step_settled_all);
}

static void what_is_no_amqp_ends_it(void **state)
{
    static const char FRAMES[][12] = {"\x04\0\1\0\0\0\0\xce", "\x01\0\1\xff\xff\xff\xff",
                                      "\x08\0\0\0\0\0\0\xcd"};
    for (size_t i = 0; i < 3; i++) {
        struct queue_way w = {0};
        struct queue_seen_list seen = {0};
        queue_bytes_amqp(thread, &w, false, FRAMES[i], 8, &seen);
        assert_true(w.lost);
        assert_int_equal(seen.count, 0);
    }
}

/* ---- NATS ---- */

static void both_ends_of_nats_see_the_same_message(void **state)
{
    PUT("CONNECT {\"lang\":\"node\"}\r\nPING\r\n");
    PUT("PUB prices.list _INBOX.ab.1 5\r\nhel\nl\r\n");
    PUT("PUB prices.list 5\r\nother\r\n");
    PUT("HPUB prices.new 22 27\r\nNATS/1.0\r\nA: 1234567\r\n\r\nhello\r\n");
    PUT("pub nothing 0\r\n\r\n");
    PUT("PUB $JS.API.INFO 0\r\n\r\n");
    struct queue_seen_list sent = followed(queue_bytes_nats, true);
    assert_int_equal(sent.count, 4);

    PUT("INFO {\"server\":1}\r\nPONG\r\n+OK\r\n");
    PUT("MSG prices.list 9 _INBOX.ab.1 5\r\nhel\nl\r\n");
    PUT("MSG prices.list 9 5\r\nother\r\n");
    PUT("HMSG prices.new 3 22 27\r\nNATS/1.0\r\nA: 1234567\r\n\r\nhello\r\n");
    PUT("MSG _INBOX.xy.2 1 2\r\nok\r\n");
    struct queue_seen_list taken = followed(queue_bytes_nats, false);
    assert_int_equal(taken.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sent.at[i].step, SONDE_queue_step_sent);
        assert_int_equal(taken.at[i].step, SONDE_queue_step_taken);
        assert_int_equal(sent.at[i].identity, taken.at[i].identity);
    }
    assert_int_not_equal(sent.at[0].identity, sent.at[1].identity);

    PUT("PUB _INBOX.ab.1 2\r\nok\r\n");
    struct queue_seen_list done = followed(queue_bytes_nats, true);
    assert_int_equal(done.count, 1);
    assert_int_equal(done.at[0].step, SONDE_queue_step_settled);
    assert_int_equal(done.at[0].number, taken.at[0].number);
}

static void what_is_no_nats_ends_it(void **state)
{
    static const char *const LINES[] = {"PUB a b c 5\r\n", "PUB a five\r\n", "PUB a 99999999999\r\n",
                                        "PUB\r\n"};
    for (size_t i = 0; i < 4; i++) {
        struct queue_way w = {0};
        struct queue_seen_list seen = {0};
        queue_bytes_nats(thread, &w, true, LINES[i], strlen(LINES[i]), &seen);
        assert_true(w.lost);
        assert_int_equal(seen.count, 0);
    }
}

/* ---- MQTT ---- */

static void both_ends_of_mqtt_see_the_same_message(void **state)
{
    for (int level = 4; level <= 5; level++) {
        bool five = level == 5;
        char large[4000] = {0};
        memcpy(large, five ? "\0\6orders\0" : "\0\6orders", five ? 9 : 8);
        if (five)
            MQTT(0x10, "\0\4MQTT\5\2\0\74\0\0\2me");
        else
            MQTT(0x10, "\0\4MQTT\4\2\0\74\0\2me");
        if (five)
            MQTT(0x30, "\0\6orders\0{\"id\":1}");
        else
            MQTT(0x30, "\0\6orders{\"id\":1}");
        if (five) /* once surely: with an identifier, a property that the broker does not hand on, an answer
                   */
            MQTT(0x32, "\0\6orders\0\7\2\1\1{\"id\":2}");
        else
            MQTT(0x32, "\0\6orders\0\7{\"id\":2}");
        if (five) /* again */
            MQTT(0x3a, "\0\6orders\0\7\2\1\1{\"id\":2}");
        else
            MQTT(0x3a, "\0\6orders\0\7{\"id\":2}");
        MQTT(0x40, "\0\7");
        MQTT(0xc0, "");
        mqtt(0x30, large, sizeof(large));
        struct queue_seen_list sent = followed(queue_bytes_mqtt, true);
        assert_int_equal(sent.count, 3);

        if (five)
            MQTT(0x20, "\0\0\3\41\0\12");
        else
            MQTT(0x20, "\0\0");
        MQTT(0x90, "\0\1\0");
        if (five) /* retained: before anybody was there */
            MQTT(0x31, "\0\6orders\0old");
        else
            MQTT(0x31, "\0\6ordersold");
        if (five)
            MQTT(0x30, "\0\6orders\0{\"id\":1}");
        else
            MQTT(0x30, "\0\6orders{\"id\":1}");
        if (five)
            MQTT(0x32, "\0\6orders\0\1\0{\"id\":2}");
        else
            MQTT(0x32, "\0\6orders\0\1{\"id\":2}");
        mqtt(0x30, large, sizeof(large));
        struct queue_seen_list taken = followed(queue_bytes_mqtt, false);
        assert_int_equal(taken.count, 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(sent.at[i].step, SONDE_queue_step_sent);
            assert_int_equal(taken.at[i].step, SONDE_queue_step_taken);
            assert_int_equal(sent.at[i].identity, taken.at[i].identity);
            assert_int_equal(sent.at[i].bytes, taken.at[i].bytes);
            assert_int_not_equal(sent.at[i].queue, 0);
        }
        assert_int_equal(sent.at[0].bytes, 8);
        assert_int_not_equal(sent.at[0].identity, sent.at[1].identity);
    }
}

static void what_is_no_mqtt_ends_it(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
    } PACKETS[] = {{"\0\0", 2}, {"\x30\xff\xff\xff\xff", 5}, {"\x30\0", 2}, {"\x30\3\0\6o", 5}};
    for (size_t i = 0; i < 4; i++) {
        struct queue_way w = {0};
        struct queue_seen_list seen = {0};
        queue_bytes_mqtt(thread, &w, true, PACKETS[i].bytes, PACKETS[i].n, &seen);
        assert_true(w.lost);
        assert_int_equal(seen.count, 0);
    }
}

/* ---- streams of Redis ---- */

static struct queue_seen_list streamed(const char *p, bool out, bool *ret_asks)
{
    struct queue_seen_list seen = {0};
    struct queue_way way = {0};
    char *copy = strdup(p); /* a byte beyond it is noticed */
    *ret_asks = queue_bytes_resp(thread, &way, out, copy, strlen(p), &seen);
    free(copy);
    return seen;
}

static void both_ends_of_a_stream_see_the_same_message(void **state)
{
    bool asks;
    struct queue_seen_list sent =
        streamed("*5\r\n$4\r\nxadd\r\n$6\r\norders\r\n$1\r\n*\r\n$1\r\na\r\n$2\r\n12\r\n"
                 "*3\r\n$3\r\nGET\r\n$1\r\na\r\n$1\r\nb\r\n"
                 "*10\r\n$4\r\nXADD\r\n$6\r\norders\r\n$10\r\nNOMKSTREAM\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n"
                 "$3\r\n100\r\n$5\r\nLIMIT\r\n$1\r\n9\r\n$1\r\n*\r\n$1\r\na\r\n",
                 true, &asks);
    assert_false(asks);
    assert_int_equal(sent.count, 2);
    streamed("*5\r\n$10\r\nXREADGROUP\r\n$5\r\nGROUP\r\n$1\r\ng\r\n$1\r\nc\r\n$1\r\n>\r\n", true, &asks);
    assert_true(asks);
    struct queue_seen_list taken =
        streamed("*1\r\n*2\r\n$6\r\norders\r\n*2\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$2\r\n12\r\n"
                 "*2\r\n$3\r\n1-2\r\n*1\r\n$1\r\na\r\n",
                 false, &asks);
    assert_int_equal(taken.count, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sent.at[i].identity, taken.at[i].identity);
    struct queue_seen_list map = streamed(
        "%1\r\n$6\r\norders\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$2\r\n12\r\n", false, &asks);
    assert_int_equal(map.count, 1);
    assert_int_equal(map.at[0].identity, taken.at[0].identity);
    struct queue_seen_list done =
        streamed("*5\r\n$4\r\nXACK\r\n$6\r\norders\r\n$1\r\ng\r\n$3\r\n1-1\r\n$3\r\n1-2\r\n", true, &asks);
    assert_int_equal(done.count, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(done.at[i].number, taken.at[i].number);
    assert_int_equal(streamed("*-1\r\n", false, &asks).count, 0);
    assert_int_equal(
        streamed("*1\r\n*2\r\n$6\r\norders\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$20\r\n12\r\n", false,
                 &asks)
            .count,
        0);
}

/* ---- jobs in Redis ---- */

static struct queue_seen_list jobs(struct queue_way *way, bool *ret_asks)
{
    struct queue_seen_list seen = {0};
    char *copy = malloc(length); /* a byte beyond it is noticed */
    memcpy(copy, bytes, length);
    *ret_asks = queue_bytes_resp(thread, way, way == NULL, copy, length, &seen);
    free(copy);
    length = 0;
    return seen;
}

static void words(size_t count, const char *const *list)
{
    length += (size_t)sprintf(bytes + length, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        length += (size_t)sprintf(bytes + length, "$%zu\r\n%s\r\n", strlen(list[i]), list[i]);
}
#define WORDS(...) \
    words(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

/* BullMQ's, of [P, nil, name, 1764307772123.0]. */
static void added(const char *name, const char *data)
{
    char packed[64] = "\x94\xa7"
                      "b:mail:"
                      "\xc0";
    size_t n = 10;
    packed[n++] = (char)(0xa0 | strlen(name));
    memcpy(packed + n, name, strlen(name));
    n += strlen(name);
    memcpy(packed + n, "\xcb\x42\x79\xac\x8f\x02\x2d\xb0\x00", 9);
    n += 9;
    PUT("*9\r\n$7\r\nEVALSHA\r\n$2\r\nab\r\n$1\r\n3\r\n$11\r\nb:mail:wait\r\n$9\r\nb:mail:id\r\n"
        "$13\r\nb:mail:active\r\n");
    length += (size_t)sprintf(bytes + length, "$%zu\r\n", n);
    put(packed, n);
    length += (size_t)sprintf(bytes + length, "\r\n$%zu\r\n%s\r\n$1\r\n\x80\r\n", strlen(data), data);
}

static void replied(const char *name, const char *data, const char *id)
{
    PUT("*4\r\n");
    WORDS("name", name, "data", data, "opts", "{}", "timestamp", "1764307772123", "attempts", "0");
    length += (size_t)sprintf(bytes + length, "$%zu\r\n%s\r\n:0\r\n:0\r\n", strlen(id), id);
}

static void both_ends_of_a_queue_see_the_same_job(void **state)
{
    bool asks;
    added("send", "{\"to\":1}");
    WORDS("GET", "b:mail:wait");
    added("send", "{\"to\":2}");
    struct queue_seen_list sent = jobs(NULL, &asks);
    assert_false(asks);
    assert_int_equal(sent.count, 2);
    assert_int_equal(sent.at[0].step, SONDE_queue_step_sent);
    assert_int_not_equal(sent.at[0].queue, 0);
    WORDS("EVALSHA", "cd", "2", "b:mail:wait", "b:mail:active", "b:mail:", "9");
    struct queue_seen_list asked = jobs(NULL, &asks);
    assert_true(asks);
    assert_int_equal(asked.count, 0);
    assert_int_equal(asked.jobs, sent.at[0].queue);
    assert_false(asked.several);
    struct queue_way way = {.queue = asked.jobs};
    PUT("+OK\r\n$-1\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n");
    replied("send", "{\"to\":2}", "7");
    replied("send", "{\"to\":1}", "8");
    replied("other", "{\"to\":1}", "9");
    PUT(":3\r\n*4\r\n:0\r\n:0\r\n:0\r\n:0\r\n");
    struct queue_seen_list begun = jobs(&way, &asks);
    assert_int_equal(begun.count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(begun.at[i].step, SONDE_queue_step_begun);
    assert_int_equal(begun.at[0].identity, sent.at[1].identity);
    assert_int_equal(begun.at[1].identity, sent.at[0].identity);
    assert_int_not_equal(begun.at[2].identity, sent.at[0].identity);
    assert_int_equal(begun.at[0].queue, asked.jobs);
    WORDS("EVALSHA", "ef", "3", "b:mail:wait", "b:mail:active", "b:mail:7", "7", "1764307772125",
          "returnvalue");
    struct queue_seen_list done = jobs(NULL, &asks);
    assert_true(asks); /* it may be given the next one */
    assert_int_equal(done.count, 1);
    assert_int_equal(done.at[0].step, SONDE_queue_step_settled);
    assert_int_equal(done.at[0].number, begun.at[0].number);
    assert_int_equal(done.at[0].queue, begun.at[0].queue);
}

static void bull_gives_its_arguments_one_by_one(void **state)
{
    bool asks;
    WORDS("EVALSHA", "ab", "3", "b:mail:wait", "b:mail:paused", "b:mail:id", "b:mail:", "", "send", "{}",
          "{}", "1764307772123", "0");
    struct queue_seen_list sent = jobs(NULL, &asks);
    assert_int_equal(sent.count, 1);
    struct queue_way way = {.queue = sent.at[0].queue};
    PUT("*2\r\n");
    WORDS("timestamp", "1764307772123", "name", "send", "data", "{}");
    PUT("$1\r\n1\r\n");
    struct queue_seen_list begun = jobs(&way, &asks);
    assert_int_equal(begun.count, 1);
    assert_int_equal(begun.at[0].identity, sent.at[0].identity);
}

/* The ids and the data come over different connections. */
static void bee_queue_is_given_ids_and_asks_for_the_data(void **state)
{
    bool asks;
    const char *first = "{\"data\":{\"to\":1},\"options\":{\"timestamp\":1},\"status\":\"created\"}",
               *second = "{\"data\":{\"to\":2},\"options\":{\"timestamp\":2},\"status\":\"created\"}";
    WORDS("EVALSHA", "ab", "3", "bq:mail:id", "bq:mail:jobs", "bq:mail:waiting", "", first);
    WORDS("EVALSHA", "ab", "3", "bq:mail:id", "bq:mail:jobs", "bq:mail:waiting", "", second);
    WORDS("HGET", "bq:mail:jobs", "2"); /* how is it getting on? */
    struct queue_seen_list sent = jobs(NULL, &asks);
    assert_false(asks);
    assert_int_equal(sent.count, 2);
    assert_int_equal(sent.at[0].step, SONDE_queue_step_sent);
    assert_int_not_equal(sent.at[0].identity, sent.at[1].identity);

    WORDS("BRPOPLPUSH", "bq:mail:waiting", "bq:mail:active", "0");
    struct queue_seen_list waits = jobs(NULL, &asks);
    assert_true(asks && waits.gives);
    assert_int_equal(waits.jobs, sent.at[0].queue);
    struct queue_way ids = {.queue = waits.jobs, .gives = true};
    PUT("$1\r\n1\r\n$1\r\n2\r\n");
    assert_int_equal(jobs(&ids, &asks).count, 0);

    WORDS("HGET", "bq:mail:jobs", "2");
    WORDS("HGET", "bq:film:jobs", "1");
    WORDS("HGET", "bq:mail:jobs", "1");
    WORDS("HGET", "bq:mail:jobs", "1"); /* once more */
    struct queue_seen_list asked = jobs(NULL, &asks);
    assert_true(asks && !asked.gives && !asked.several);
    assert_int_equal(asked.fetches, 2);
    struct queue_way data = {.queue = asked.jobs, .fetches = 2};
    memcpy(data.fetched, asked.fetched, sizeof(data.fetched));
    length +=
        (size_t)sprintf(bytes + length, "*2\r\n:1\r\n:1\r\n$2\r\n17\r\n$%zu\r\n%s\r\n$-1\r\n$%zu\r\n%s\r\n",
                        strlen(second), second, strlen(first), first);
    struct queue_seen_list begun = jobs(&data, &asks);
    assert_int_equal(begun.count, 1); /* the first is gone; what comes then was nobody's question */
    assert_int_equal(begun.at[0].step, SONDE_queue_step_begun);
    assert_int_equal(begun.at[0].identity, sent.at[1].identity);
    assert_int_equal(begun.at[0].queue, sent.at[1].queue);

    WORDS("MULTI");
    WORDS("LREM", "bq:mail:active", "0", "2");
    struct queue_seen_list done = jobs(NULL, &asks);
    assert_false(asks);
    assert_int_equal(done.count, 1);
    assert_int_equal(done.at[0].step, SONDE_queue_step_settled);
    assert_int_equal(done.at[0].number, begun.at[0].number);
    assert_int_equal(done.at[0].queue, begun.at[0].queue);
}

/* Then it is not known any more which answer is to which question. */
static void an_answer_in_parts_ends_bee_queues_jobs(void **state)
{
    bool asks;
    struct queue_way data = {.queue = 1, .fetches = 2, .fetched = {5, 6}};
    PUT("$40\r\n{\"data\":");
    assert_int_equal(jobs(&data, &asks).count, 0);
    assert_true(data.lost);
    PUT("$11\r\n{\"data\":{}}\r\n");
    assert_int_equal(jobs(&data, &asks).count, 0);
}

/* Whose a job is, is not known then; both queues are followed. */
static void two_queues_on_a_connection(void **state)
{
    bool asks;
    WORDS("EVALSHA", "cd", "2", "b:mail:wait", "b:mail:active", "b:mail:", "9");
    WORDS("EVALSHA", "cd", "2", "b:film:wait", "b:film:active", "b:film:", "9");
    assert_true(jobs(NULL, &asks).several);
    struct queue_way way = {.queue = 1, .lost = 1};
    replied("send", "{}", "7");
    struct queue_seen_list begun = jobs(&way, &asks);
    assert_int_equal(begun.count, 1);
    assert_int_equal(begun.at[0].queue, 0);
}

static void other_scripts_are_no_jobs(void **state)
{
    bool asks;
    WORDS("EVALSHA", "ab", "2", "a:waiter", "an:id", "x", "y");
    WORDS("EVALSHA", "ab", "9", "b:mail:wait", "b:mail:id", "b:mail:", "y");
    WORDS("EVALSHA", "ab", "0", "b:mail:wait", "b:mail:active");
    WORDS("EVALSHA", "ab", "2", "b:mail:id", "b:mail:delayed", "b:mail:", "", "send", "{}", "{}", "1");
    WORDS("EVALSHA", "ab", "2", "b:mail:wait", "b:mail:id", "no array", "{}", "x");
    struct queue_seen_list seen = jobs(NULL, &asks);
    assert_false(asks);
    assert_int_equal(seen.count, 0);
    struct queue_way way = {.queue = 1};
    static const char *const PARTS[] = {"*4\r\n*2\r\n$4\r\nname\r\n", "*4\r\n*1\r\n$1\r\na\r\n$1\r\n7\r\n",
                                        "*2\r\n*0\r\n$1\r\n7\r\n", "*4\r\n%9\r\n", "*999999999\r\n*"};
    for (size_t i = 0; i < sizeof(PARTS) / sizeof(*PARTS); i++) {
        put(PARTS[i], strlen(PARTS[i]));
        assert_int_equal(jobs(&way, &asks).count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_of_amqp_see_the_same_message),
        cmocka_unit_test(what_is_no_amqp_ends_it),
        cmocka_unit_test(both_ends_of_nats_see_the_same_message),
        cmocka_unit_test(what_is_no_nats_ends_it),
        cmocka_unit_test(both_ends_of_mqtt_see_the_same_message),
        cmocka_unit_test(what_is_no_mqtt_ends_it),
        cmocka_unit_test(both_ends_of_a_stream_see_the_same_message),
        cmocka_unit_test(both_ends_of_a_queue_see_the_same_job),
        cmocka_unit_test(bull_gives_its_arguments_one_by_one),
        cmocka_unit_test(bee_queue_is_given_ids_and_asks_for_the_data),
        cmocka_unit_test(an_answer_in_parts_ends_bee_queues_jobs),
        cmocka_unit_test(two_queues_on_a_connection),
        cmocka_unit_test(other_scripts_are_no_jobs),
    };
    thread = make_thread(1 << 16);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(thread);
    return failed;
}
