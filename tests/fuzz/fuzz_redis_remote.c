/* Answers of a Redis server that is asked from outside, to all questions in their order, as one stream of
 * bytes that comes in pieces: the first byte says how large these are. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "targets/redis/remote.h"

static void report(struct redis_remote *now, const struct redis_remote *before)
{
    struct report report = {0};
    redis_remote_subtract(now, before);
    if (redis_remote_report(now, before, "redis", &report) < 0)
        abort();
    report_sort(&report);
    json_t *json = redis_remote_json(now, before, "redis"), *document = report_json(&report);
    if (!json || !document)
        abort();
    char *text = json_dumps(json, 0);
    if (!text)
        abort(); /* not UTF-8 */
    free(text);
    json_decref(json);
    json_decref(document);
    report_done(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum redis_question ORDER[] = {REDIS_ASK_INFO, REDIS_ASK_SLOWLOG, REDIS_ASK_LATENCY,
                                                REDIS_ASK_NODES, REDIS_ASK_INFO};
    struct redis_remote before = {0}, now = {0};
    struct resp *resp;
    unsigned answers = 0;
    if (!size || resp_new(&resp) < 0)
        return 0;
    size_t most = 1 + data[0];
    int r = 0;
    for (size_t at = 1; r >= 0 && at < size; at += most) {
        r = resp_feed(resp, data + at, size - at < most ? size - at : most);
        redisReply *reply;
        while (r >= 0 && answers < ARRAY_SIZE(ORDER) && (r = resp_next(resp, &reply)) > 0) {
            r = redis_remote_take(answers ? &now : &before, ORDER[answers], reply);
            answers++;
            freeReplyObject(reply);
        }
    }
    now.at_ns = before.at_ns + 1000000000;
    report(&now, &before);
    resp_free(resp);
    redis_remote_done(&before);
    redis_remote_done(&now);
    return 0;
}
