/* See curl.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/curl.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

static struct curl_library library;
static char failed[256]; /* why it could not be loaded; empty: it is */

static void load(void)
{
    void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
#define F(name)                                                   \
    if (handle && !(library.name = dlsym(handle, "curl_" #name))) \
        snprintf(failed, sizeof(failed), "%s", dlerror());
    CURL_FUNCTIONS(F)
#undef F
    if (!handle)
        snprintf(failed, sizeof(failed), "%s", dlerror());
}

const struct curl_library *curl_library(const char *where, struct problem *problem)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (!failed[0])
        return &library;
    problem_set(problem, -ELIBACC, "%s: connecting needs libcurl: %s", where, failed);
    problem_remedy(problem, "Install it (Debian: libcurl4).");
    return NULL;
}
