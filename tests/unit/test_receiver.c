/* What senders are told when more arrives than can be taken: wait, and then it is taken; nothing is dropped.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/receiver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

/* The caller frees ret_response->body. */
static void post_body(struct receiver *receiver, const char *body, struct http_response *ret_response)
{
    struct http_request request = {.method = "POST",
                                   .path = "/v1/traces",
                                   .content_type = "application/json",
                                   .content_encoding = "",
                                   .authorization = "",
                                   .body = body,
                                   .length = strlen(body)};
    *ret_response = (struct http_response){.status = 200};
    assert_true(receiver_handle(receiver, &request, ret_response));
}

static unsigned post(struct receiver *receiver, const char *body, unsigned *ret_retry_after_s)
{
    struct http_response response;
    post_body(receiver, body, &response);
    free(response.body);
    *ret_retry_after_s = response.retry_after_s;
    return response.status;
}

/* A batch of one span, the only one of its trace. */
static unsigned post_span(struct receiver *receiver, unsigned number, unsigned *ret_retry_after_s)
{
    char body[256];
    snprintf(body, sizeof(body),
             "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":\"%032x\",\"spanId\":\"%016x\","
             "\"name\":\"a\",\"startTimeUnixNano\":\"1\",\"endTimeUnixNano\":\"2\"}]}]}]}",
             number, number);
    return post(receiver, body, ret_retry_after_s);
}

static void what_cannot_be_queued_is_to_be_sent_again(void **state)
{
    struct diagnosis *diagnosis;
    struct receiver *receiver;
    struct problem problem;
    struct receiver_counts counts;
    unsigned wait_s = 0, status = 200, accepted = 0;
    assert_int_equal(diagnosis_new(&(struct diagnosis_settings){0}, &diagnosis), 0);
    struct receiver_settings settings = {.diagnosis = diagnosis, .queue_max = 4096};
    assert_int_equal(receiver_new(&settings, &receiver, &problem), 0);
    receiver_lock(receiver); /* the thread behind is slow */
    while (status == 200 && accepted < 1000) {
        status = post_span(receiver, accepted + 1, &wait_s);
        accepted += status == 200;
    }
    assert_int_equal(status, 503);
    assert_true(wait_s > 0);
    assert_in_range(accepted, 4096 / 256, 2 * 4096 / 128);
    receiver_unlock(receiver);
    receiver_drain(receiver);
    assert_int_equal(post_span(receiver, accepted + 1, &wait_s), 200);
    receiver_drain(receiver);
    receiver_get_counts(receiver, &counts);
    assert_int_equal(counts.refused_busy, 1);
    assert_int_equal(counts.spans, accepted + 1);
    assert_int_equal(diagnosis_counts(diagnosis)->spans, accepted + 1);
    receiver_free(receiver);
    diagnosis_free(diagnosis);
}

/* What does not fit into memory is read from the journal again, in order, and nothing twice. */
static void what_waits_is_read_from_the_journal(void **state)
{
    char folder[TEST_PATH], command[TEST_PATH + 16];
    struct diagnosis *diagnosis;
    struct receiver *receiver;
    struct problem problem;
    struct receiver_counts counts;
    unsigned wait_s;
    assert_non_null(mkdtemp(test_path(folder)));
    assert_int_equal(diagnosis_new(&(struct diagnosis_settings){0}, &diagnosis), 0);
    struct receiver_settings settings = {.diagnosis = diagnosis, .folder = folder, .held_max = 512};
    assert_int_equal(receiver_new(&settings, &receiver, &problem), 0);
    receiver_lock(receiver);
    for (unsigned i = 1; i <= 40; i++)
        assert_int_equal(post_span(receiver, i, &wait_s), 200);
    receiver_unlock(receiver);
    receiver_drain(receiver);
    receiver_get_counts(receiver, &counts);
    assert_int_equal(counts.unread_batches, 0);
    assert_in_range(counts.decoded_again, 30, 40);
    assert_int_equal(diagnosis_counts(diagnosis)->spans, 40);
    receiver_lock(receiver);
    assert_int_equal(diagnosis_flush(diagnosis, UINT64_MAX), 0);
    assert_int_equal(diagnosis_book(diagnosis)->counts.requests, 40); /* each trace once */
    receiver_unlock(receiver);
    receiver_free(receiver);
    diagnosis_free(diagnosis);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* Whoever sends what is no JSON learns where, in an answer that is JSON whatever it quotes. */
static void what_is_malformed_is_named(void **state)
{
    static const struct {
        const char *body, *answer;
    } bodies[] = {
        {"{\"resourceSpans\":[],}",
         "{\"message\":\"the body is malformed: JSON, line 1 (byte 19): a comma before "
         "the end of the object or array; remove it\"}"},
        {"{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"name\":\"\\u12g4\"}]}]}]}",
         "a \\\\u escape without"},
    };
    struct diagnosis *diagnosis;
    struct receiver *receiver;
    struct problem problem;
    assert_int_equal(diagnosis_new(&(struct diagnosis_settings){0}, &diagnosis), 0);
    struct receiver_settings settings = {.diagnosis = diagnosis};
    assert_int_equal(receiver_new(&settings, &receiver, &problem), 0);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct http_response response;
        post_body(receiver, bodies[i].body, &response);
        assert_int_equal(response.status, 400);
        if (!memmem(response.body, response.length, bodies[i].answer, strlen(bodies[i].answer)))
            fail_msg("%.*s", (int)response.length, response.body);
        free(response.body);
    }
    receiver_free(receiver);
    diagnosis_free(diagnosis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_malformed_is_named),
                                       cmocka_unit_test(what_cannot_be_queued_is_to_be_sent_again),
                                       cmocka_unit_test(what_waits_is_read_from_the_journal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
