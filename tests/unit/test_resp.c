/* Answers of a Redis server, bounded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/resp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

/* The next answer after these bytes; *ret_reply only where it is 1. */
static int next(struct resp *resp, const char *bytes, redisReply **ret_reply)
{
    assert_int_equal(resp_feed(resp, bytes, strlen(bytes)), 0);
    return resp_next(resp, ret_reply);
}

static void answers_come_in_pieces(void **state)
{
    struct resp *resp;
    redisReply *reply;
    assert_int_equal(resp_new(&resp), 0);
    assert_int_equal(next(resp, "*2\r\n:1\r\n$3", &reply), 0);
    assert_int_equal(next(resp, "\r\nabc\r\n+OK", &reply), 1);
    assert_int_equal(reply->elements, 2);
    assert_string_equal(reply->element[1]->str, "abc");
    freeReplyObject(reply);
    assert_int_equal(next(resp, "\r\n", &reply), 1);
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    resp_free(resp);
}

static void what_is_none_is_refused(void **state)
{
    static const char *const NONE[] = {"HTTP/1.1 200 OK\r\n", "*65537\r\n", "*99999999999\r\n",
                                       "*1\r\n*-7\r\n"};
    for (size_t i = 0; i < ARRAY_SIZE(NONE); i++) {
        struct resp *resp;
        redisReply *reply;
        assert_int_equal(resp_new(&resp), 0);
        assert_int_equal(next(resp, NONE[i], &reply), -EPROTO);
        resp_free(resp);
    }
}

static void an_answer_without_end_is_refused(void **state)
{
    enum { PIECE = 1 << 20 };
    struct resp *resp;
    redisReply *reply;
    char *piece = calloc(1, PIECE);
    assert_non_null(piece);
    assert_int_equal(resp_new(&resp), 0);
    assert_int_equal(next(resp, "$400000000\r\n", &reply), 0);
    int r = 0;
    unsigned pieces = 0;
    while (r == 0 && pieces < 100) {
        r = resp_feed(resp, piece, PIECE);
        pieces += r == 0;
    }
    assert_int_equal(r, -EMSGSIZE);
    assert_int_equal(pieces, RESP_BYTES_MAX / PIECE - 1);
    resp_free(resp);
    free(piece);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_in_pieces),
        cmocka_unit_test(what_is_none_is_refused),
        cmocka_unit_test(an_answer_without_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
