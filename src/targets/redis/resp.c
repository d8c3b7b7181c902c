/* See resp.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/resp.h"

#include <errno.h>
#include <stdlib.h>

struct resp {
    redisReader *reader;
    size_t unread; /* bytes since the last whole answer */
    redisReplyObjectFunctions functions;
    void *(*create_array)(const redisReadTask *task, int elements);
};

/* hiredis makes room for as many elements as are announced. */
static void *create_array(const redisReadTask *task, int elements)
{
    const struct resp *resp = task->privdata;
    return elements < 0 || elements > RESP_ELEMENTS_MAX ? NULL : resp->create_array(task, elements);
}

int resp_new(struct resp **ret_resp)
{
    _cleanup_(resp_freep) struct resp *resp = calloc(1, sizeof(*resp));
    if (!resp)
        return -ENOMEM;
    resp->reader = redisReaderCreate();
    if (!resp->reader)
        return -ENOMEM;
    resp->functions = *resp->reader->fn;
    resp->create_array = resp->functions.createArray;
    resp->functions.createArray = create_array;
    resp->reader->fn = &resp->functions;
    resp->reader->privdata = resp;
    *ret_resp = resp;
    resp = NULL;
    return 0;
}

void resp_free(struct resp *resp)
{
    if (resp && resp->reader)
        redisReaderFree(resp->reader);
    free(resp);
}

int resp_feed(struct resp *resp, const void *bytes, size_t length)
{
    if (length > RESP_BYTES_MAX - resp->unread)
        return -EMSGSIZE;
    resp->unread += length;
    if (redisReaderFeed(resp->reader, bytes, length) == REDIS_OK)
        return 0;
    return resp->reader->err == REDIS_ERR_OOM ? -ENOMEM : -EPROTO;
}

int resp_next(struct resp *resp, redisReply **ret_reply)
{
    void *reply = NULL;
    if (redisReaderGetReply(resp->reader, &reply) != REDIS_OK)
        return -EPROTO;
    if (!reply)
        return 0;
    resp->unread = resp->reader->len - resp->reader->pos;
    *ret_reply = reply;
    return 1;
}
