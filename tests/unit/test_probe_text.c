/* What is understood of a Memcached connection: however the bytes are cut, the same commands and answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

#include "targets/memcached/probe_text.h"

/* Gives bytes to a function in pieces of that size, each in memory of its own size. */
static void pieces(struct cache_connection *c,
                   void (*take)(struct cache_connection *, const char *, uint64_t), const char *bytes,
                   size_t length, size_t size)
{
    for (size_t at = 0; at < length; at += size) {
        size_t here = length - at < size ? length - at : size;
        char *copy = malloc(here);
        assert_non_null(copy);
        memcpy(copy, bytes + at, here);
        take(c, copy, here);
        free(copy);
    }
}

/* "get 1x2 answered 2 hits 1 refused 0 errors 0 in 18 out 30 bytes; ..." of what is known. */
static const char *said(const struct cache_connection *c)
{
    static char text[1024];
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < c->run_count; i++) {
        const struct run *r = &c->runs[i];
        n += (size_t)snprintf(text + n, sizeof(text) - n,
                              "%s%s%s %ux%u answered %u hits %u refused %u errors %u in %u out %u",
                              i ? "; " : "", r->word == OTHER ? "other" : CACHE_WORDS[r->word].word,
                              r->quiet ? " quiet" : "", r->commands, r->keys, r->answered, r->hits,
                              r->refused, r->errors, (unsigned)r->bytes, (unsigned)r->reply_bytes);
    }
    if (c->unread_bytes)
        snprintf(text + n, sizeof(text) - n, " unread %u", (unsigned)c->unread_bytes);
    return text;
}

static void expect_bytes(const char *commands, size_t commands_length, const char *answers,
                         size_t answers_length, const char *expected)
{
    static const size_t SIZES[] = {1, 2, 3, 7, 24, 4096};
    for (size_t i = 0; i < ARRAY_SIZE(SIZES); i++) {
        struct cache_connection c = {0};
        pieces(&c, commands_read, commands, commands_length, SIZES[i]);
        pieces(&c, answers_written, answers, answers_length, SIZES[i]);
        assert_string_equal(said(&c), expected);
    }
}

#define EXPECT(commands, answers, expected) \
    expect_bytes(commands, sizeof(commands) - 1, answers, sizeof(answers) - 1, expected)

static void keys_are_hits_or_misses(void **state)
{
    EXPECT("get a\r\nget b\r\n", "VALUE a 0 3\r\nEND\r\nEND\r\n",
           "get 2x1 answered 1 hits 1 refused 0 errors 0 in 14 out 23");
    EXPECT("get a  b c \r\n", "VALUE c 0 0\r\n\r\nEND\r\n",
           "get 1x3 answered 1 hits 1 refused 0 errors 0 in 13 out 20");
    EXPECT("gat 10 a b\r\n", "END\r\n", "gat 1x2 answered 1 hits 0 refused 0 errors 0 in 12 out 5");
    EXPECT("incr a 1\r\nincr b 1\n", "12\r\nNOT_FOUND\r\n",
           "incr 2x1 answered 2 hits 1 refused 1 errors 0 in 19 out 15");
}

static void values_are_skipped(void **state)
{
    EXPECT("set a 0 0 7\r\nget b\r\n\r\n", "STORED\r\n",
           "set 1x0 answered 1 hits 0 refused 0 errors 0 in 22 out 8");
    EXPECT("get a\r\nget a\r\n", "VALUE a 0 5\r\nEND\r\n\r\nEND\r\nEND\r\n",
           "get 2x1 answered 2 hits 1 refused 0 errors 0 in 14 out 30");
    EXPECT("set a 0 0 x\r\nset a 0 0 -1\r\nset a 0 0 0\r\n\r\n",
           "CLIENT_ERROR bad\r\nCLIENT_ERROR bad\r\nSTORED\r\n",
           "set 3x0 answered 3 hits 0 refused 0 errors 2 in 42 out 44");
}

static void silent_commands_need_no_answer(void **state)
{
    EXPECT("set a 0 0 1 noreply\r\nx\r\nset a 0 0 1\r\nx\r\n", "STORED\r\n",
           "set quiet 1x0 answered 1 hits 0 refused 0 errors 0 in 24 out 8; set 1x0 answered 0 hits 0 "
           "refused 0 errors 0 in 16 out 0");
    EXPECT("mg a v q\r\nmg b v q\r\nmn\r\n", "VA 2\r\nEN\r\nMN\r\n",
           "mg quiet 2x1 answered 1 hits 1 refused 0 errors 0 in 20 out 10; mn 1x0 answered 1 hits 0 refused "
           "0 errors 0 in 4 out 4");
    EXPECT("get noreply\r\n", "END\r\n", "get 1x1 answered 1 hits 0 refused 0 errors 0 in 13 out 5");
}

static void what_is_unknown_is_other(void **state)
{
    EXPECT("nonsense\r\nstats\r\n", "ERROR\r\nSTAT a 1\r\nSTAT END 1\r\nEND\r\n",
           "other 1x0 answered 1 hits 0 refused 0 errors 1 in 10 out 7; stats 1x0 answered 1 hits 0 refused "
           "0 errors 0 in 7 out 27");
    EXPECT("get_________________________________________________________________\r\n", "ERROR\r\n",
           "other 1x0 answered 1 hits 0 refused 0 errors 1 in 70 out 7");
    EXPECT("\x16\x03\x01\r\n", "", " unread 5");
}

/* GETQ nothing, GETQ key, NOOP, DELETE; the second is there. */
static void the_binary_protocol_says_the_same(void **state)
{
    EXPECT("\x80\x09\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0n"
           "\x80\x09\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0k"
           "\x80\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
           "\x80\x04\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0k",
           "\x81\x09\0\0\4\0\0\0\0\0\0\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0ab"
           "\x81\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
           "\x81\x04\0\0\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0no",
           "get quiet 2x1 answered 1 hits 1 refused 0 errors 0 in 50 out 30; other 1x0 answered 1 hits 0 "
           "refused 0 errors 0 in 24 out 24; "
           "delete 1x1 answered 1 hits 0 refused 1 errors 0 in 25 out 26");
}

static void kinds_beyond_the_last_are_counted_with_their_like(void **state)
{
    struct cache_connection c = {0};
    char line[64];
    for (int n = 0; n < 100; n++) {
        snprintf(line, sizeof(line), "%s", n % 2 ? "get a\r\n" : "get a b\r\n");
        commands_read(&c, line, strlen(line));
    }
    assert_int_equal(c.run_count, RUNS);
    assert_false(c.lost);
    uint32_t keys = 0;
    for (int i = 0; i < RUNS; i++)
        keys += c.runs[i].commands * c.runs[i].keys;
    assert_int_equal(keys, 150);
    commands_read(&c, "delete a\r\n", 10); /* no place is left for these */
    assert_int_equal(c.unread_bytes, 10);
}

static void it_begins_anew_behind_an_answer(void **state)
{
    struct cache_connection c = {.midway = 1};
    commands_read(&c, "the rest of a value\r\n", 21);
    commands_read(&c, "get a\r\n", 7);
    assert_int_equal(c.unread_bytes, 28);
    c.answered = 1;
    commands_read(&c, "get a\r\n", 7);
    assert_string_equal(said(&c), "get 1x1 answered 0 hits 0 refused 0 errors 0 in 7 out 0 unread 28");
}

/* Of each run the number that its client gives the first of its commands. */
static void expect_numbers(struct cache_connection *c, const char *commands, size_t length,
                           const uint64_t *numbers, size_t count)
{
    commands_read(c, commands, length);
    assert_int_equal(c->run_count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(c->runs[i].first, numbers[i]);
}

#define EXPECT_NUMBERS(c, commands, ...)                                               \
    expect_numbers(c, commands, sizeof(commands) - 1, (const uint64_t[]){__VA_ARGS__}, \
                   sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void commands_have_the_numbers_of_their_client(void **state)
{
    struct cache_connection text = {0}, binary = {0}, midway = {.midway = 1, .unnumbered = 1};
    EXPECT_NUMBERS(&text,
                   "get a\r\nget b\r\nset a 0 0 1 noreply\r\nx\r\nget c\r\nmg a q\r\nget noreply\r\nquit\r\n",
                   1, 0, 3, 4, 5, 0);
    EXPECT_NUMBERS(&binary,
                   "\x80\x09\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0k"  /* GETQ */
                   "\x80\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"   /* NOOP */
                   "\x80\x04\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0k", /* DELETE */
                   0, 1, 2);
    EXPECT_NUMBERS(&midway, "get a\r\nset a 0 0 1\r\nx\r\n", 0, 0);
}

/* Where the order of kinds is given up, so are their numbers; those of later ones are right. */
static void numbers_are_given_up_with_the_order(void **state)
{
    struct cache_connection c = {0};
    for (int n = 0; n < RUNS; n++)
        commands_read(&c, n % 2 ? "get a\r\n" : "get a b\r\n", n % 2 ? 7 : 9);
    assert_int_equal(c.runs[RUNS - 2].first, RUNS - 1);
    commands_read(&c, "get a b\r\n", 9);
    assert_int_equal(c.run_count, RUNS);
    assert_int_equal(c.runs[RUNS - 2].first, 0);
    assert_int_equal(c.runs[RUNS - 1].first, RUNS);
    assert_int_equal(c.number, RUNS + 1);
}

/* The handshake is no text; what is decrypted afterwards counts from the beginning. */
static void what_is_decrypted_begins_anew(void **state)
{
    struct cache_connection c = {0};
    commands_read(&c, "\x16\3\1\0\5", 5);
    assert_int_equal(c.unread_bytes, 5);
    connection_is_encrypted(&c);
    EXPECT_NUMBERS(&c, "get a\r\n", 1);
    assert_string_equal(said(&c), "get 1x1 answered 0 hits 0 refused 0 errors 0 in 7 out 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_hits_or_misses),
        cmocka_unit_test(values_are_skipped),
        cmocka_unit_test(silent_commands_need_no_answer),
        cmocka_unit_test(what_is_unknown_is_other),
        cmocka_unit_test(the_binary_protocol_says_the_same),
        cmocka_unit_test(kinds_beyond_the_last_are_counted_with_their_like),
        cmocka_unit_test(it_begins_anew_behind_an_answer),
        cmocka_unit_test(commands_have_the_numbers_of_their_client),
        cmocka_unit_test(numbers_are_given_up_with_the_order),
        cmocka_unit_test(what_is_decrypted_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
