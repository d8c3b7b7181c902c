/* Answers of a Redis server, read with hiredis from bytes that somebody else controls. What an answer may be
 * is bounded: its bytes, and how many elements an array has. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_RESP_H
#define TARGETS_REDIS_RESP_H

#include <stddef.h>

#include <hiredis/hiredis.h>

#include "base/macro.h"

/* Bytes of one answer, elements of one of its arrays. INFO has some 100 KB at most, a slow log of
 * 128 entries 0.5 MB. */
enum { RESP_BYTES_MAX = 4 << 20, RESP_ELEMENTS_MAX = 1 << 16 };

struct resp;

/* 0 or -ENOMEM; free with resp_free(). */
int resp_new(struct resp **ret_resp);
void resp_free(struct resp *resp);
DEFINE_FREEP(struct resp, resp_free)

/* Bytes that came. 0, -EMSGSIZE when an answer is too long, -ENOMEM. */
int resp_feed(struct resp *resp, const void *bytes, size_t length);

/* The next whole answer. 1 with *ret_reply, to be freed with freeReplyObject(); 0: more has to come; -EPROTO:
 * it is none of this protocol, or has too many elements; -ENOMEM. After an error nothing more can be read. */
int resp_next(struct resp *resp, redisReply **ret_reply);

static inline void redis_reply_freep(redisReply **reply)
{
    if (*reply)
        freeReplyObject(*reply);
}

#endif
