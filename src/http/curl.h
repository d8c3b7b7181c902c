/* libcurl, which is loaded when something is sent for the first time: it brings twenty libraries, whose
 * relocation would be half of what starting sonde costs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CURL_H
#define HTTP_CURL_H

#include <curl/curl.h>

#include "base/problem.h"

/* Functions' names without curl_. */
#define CURL_FUNCTIONS(F) \
    F(easy_init)          \
    F(easy_setopt)        \
    F(easy_perform)       \
    F(easy_getinfo)       \
    F(easy_strerror)      \
    F(easy_cleanup)       \
    F(easy_send)          \
    F(easy_recv)          \
    F(slist_append)       \
    F(slist_free_all)

struct curl_library {
#define F(name) __typeof__(&curl_##name) name;
    CURL_FUNCTIONS(F)
#undef F
};

/* NULL with problem set (where names what needs it) when it is not installed. */
const struct curl_library *curl_library(const char *where, struct problem *problem);

#endif
