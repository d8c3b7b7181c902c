/* See client.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client.h"

#include <curl/curl.h>
#include <errno.h>

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
    CURL *curl = curl_easy_init();
    struct text type = {0};
    long status = 0;
    if (!curl)
        return -ENOMEM;
    text_addf(&type, "Content-Type: %s", content_type);
    struct curl_slist *headers = curl_slist_append(NULL, text_get(&type));
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "sonde/" SONDE_VERSION);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    CURLcode code = curl_easy_perform(curl);
    int r = 0;
    if (code != CURLE_OK)
        r = problem_set(problem, -EIO, "%s: %s", url, curl_easy_strerror(code));
    else if (curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status / 100 != 2)
        r = problem_set(problem, -EPROTO, "%s: answered with status %ld", url, status);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    text_done(&type);
    return r;
}
