/* A connection of gRPC, whatever comes: in pieces, with calls answered at once, later or never. Nothing that
 * was held for messages is left behind. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "http/grpc_session.h"

#define CALLS_ROOM 64

struct fuzz {
    struct grpc_session *session;
    struct grpc_call *calls[CALLS_ROOM];
    size_t count;
};

static void take(void *context, struct grpc_call *call)
{
    struct fuzz *f = context;
    /* Every byte that is said to be there can be read. */
    volatile unsigned char sum = 0;
    for (size_t i = 0; i < call->length; i++)
        sum = (unsigned char)(sum + ((const unsigned char *)call->message)[i]);
    if (!memchr(call->path, 0, sizeof(call->path)) ||
        !memchr(call->authorization, 0, sizeof(call->authorization)) || f->count == CALLS_ROOM)
        abort();
    f->calls[f->count++] = call;
}

static void answer_all(struct fuzz *f, unsigned how)
{
    while (f->count) {
        struct grpc_call *call = f->calls[--f->count];
        if (how & 1)
            grpc_session_answer(f->session, call->stream, GRPC_OK, NULL, call->message, call->length);
        else
            grpc_session_answer(f->session, call->stream, GRPC_INVALID_ARGUMENT, call->path, NULL, 0);
        grpc_call_free(call);
        how >>= 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {0};
    size_t held = 0;
    struct grpc_limits limits = {.message_max = 4096, .held_max = 16384, .held = &held, .calls_max = 8};
    if (size < 2)
        return 0;
    size_t piece = 1 + data[0] * (size_t)16;
    unsigned how = data[1];
    data += 2;
    size -= 2;
    if (grpc_session_new(&limits, take, &f, &f.session) < 0)
        abort();
    for (size_t at = 0; at < size;) {
        size_t n = piece < size - at ? piece : size - at;
        char *copy = malloc(n);
        const uint8_t *out;
        if (!copy)
            abort();
        memcpy(copy, data + at, n);
        int r = grpc_session_receive(f.session, copy, n);
        free(copy);
        if (how & 0x80)
            answer_all(&f, how);
        while (grpc_session_send(f.session, &out) > 0)
            ;
        at += n;
        if (r < 0)
            break;
    }
    answer_all(&f, how);
    const uint8_t *out;
    while (grpc_session_send(f.session, &out) > 0)
        ;
    grpc_session_free(f.session);
    if (held)
        abort();
    return 0;
}
