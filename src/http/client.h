/* Sending one HTTP request: webhooks, other servers' APIs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <stddef.h>

#include "base/problem.h"
#include "base/text.h"

/* POSTs a body and waits for the answer, up to timeout_ms. answer (may be NULL) gets the response's body, up
 * to 256 MiB. -EPROTO when the status is not 2xx, other errors with words. */
int http_post(const char *url, const char *content_type, const void *body, size_t length, long timeout_ms,
              struct text *answer, struct problem *problem);

/* Adds the text as a query's value: what is not a letter, a digit or one of -._~ becomes %XX. */
void http_escape(struct text *to, const char *value);

#endif
