/* See fetcher.h. A question is a message of protocol.h whose bytes are a build-id and its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/fetcher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/apart.h"
#include "broker/protocol.h"
#include "broker/sandbox.h"
#include "symbol/debugfile.h"

enum { ID_MAX = 256 }; /* characters of a build-id in hexadecimal, and its end */

static int socket_to_fetcher = -1;

static int answer(const char *id, size_t length)
{
    bool is_id = length > 1 && !id[length - 1] && strspn(id, "0123456789abcdef") == length - 1;
    return is_id ? debugfile_fetch(id) : -EPERM;
}

static void run_fetcher(void *context, int socket)
{
    char id[ID_MAX];
    const struct sandbox_rights rights = {.all_files = true, .network = true};
    if (sandbox_confine(&rights, NULL) < 0)
        return;
    for (struct broker_head asked;;) {
        ptrdiff_t n = broker_receive(socket, &asked, id, sizeof(id), NULL);
        if (n < 0)
            return;
        int fd = answer(id, (size_t)n);
        const struct broker_head head = {.verb = BROKER_ANSWER, .result = fd < 0 ? fd : 0};
        int sent = broker_send(socket, head, NULL, 0, fd);
        if (fd >= 0)
            close(fd);
        if (sent < 0)
            return;
    }
}

/* debugfile_fetch_fn. */
static int ask(const char *id)
{
    struct broker_head head = {.verb = BROKER_QUESTION};
    int fd = -1, r = broker_send(socket_to_fetcher, head, id, strlen(id) + 1, -1);
    if (r < 0)
        return r;
    if (broker_receive(socket_to_fetcher, &head, NULL, 0, &fd) < 0)
        return -EPIPE;
    return head.result < 0 ? head.result : fd >= 0 ? fd : -EPROTO;
}

int fetcher_start(struct problem *problem)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (!urls || !*urls)
        return 0;
    int r = apart_start("sonde:fetcher", run_fetcher, NULL, &socket_to_fetcher, problem);
    if (r == 0)
        debugfile_fetch_from_now_on(ask);
    return r;
}

int fetcher_socket(void)
{
    return socket_to_fetcher;
}
