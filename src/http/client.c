/* See client.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "http/curl.h"

#define ANSWER_MAX ((size_t)256 << 20)

static size_t take(char *data, size_t size, size_t count, void *context)
{
    struct text *answer = context;
    if (answer && answer->length + size * count > ANSWER_MAX)
        return 0; /* a write error: better than half an answer */
    if (answer)
        text_add_bytes(answer, data, size * count);
    return size * count;
}

int http_post(const char *url, const char *content_type, const void *body, size_t length, long timeout_ms,
              struct text *answer, struct problem *problem)
{
    const struct curl_library *library = curl_library(url, problem);
    if (!library)
        return -ELIBACC;
    CURL *curl = library->easy_init();
    struct text type = {0};
    long status = 0;
    if (!curl)
        return -ENOMEM;
    text_addf(&type, "Content-Type: %s", content_type);
    struct curl_slist *headers = library->slist_append(NULL, text_get(&type));
    library->easy_setopt(curl, CURLOPT_URL, url);
    library->easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    library->easy_setopt(curl, CURLOPT_POST, 1L);
    library->easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    library->easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
    library->easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    library->easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
    library->easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    library->easy_setopt(curl, CURLOPT_USERAGENT, "sonde/" SONDE_VERSION);
    library->easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    library->easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    CURLcode code = library->easy_perform(curl);
    int r = 0;
    if (code != CURLE_OK)
        r = problem_set(problem, -EIO, "%s: %s", url, library->easy_strerror(code));
    else if (library->easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status / 100 != 2)
        r = problem_set(problem, -EPROTO, "%s: answered with status %ld", url, status);
    library->slist_free_all(headers);
    library->easy_cleanup(curl);
    text_done(&type);
    return r;
}

void http_escape(struct text *to, const char *value)
{
    for (const unsigned char *p = (const unsigned char *)value; *p; p++)
        if (isalnum(*p) || strchr("-._~", *p))
            text_add_bytes(to, (const char *)p, 1);
        else
            text_addf(to, "%%%02X", *p);
}
