/* What the Redis hooks (probe.c, probe_work.c) and the checks of their offsets (probe_check.c) share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_PROBE_H
#define TARGETS_REDIS_PROBE_H

#include "probe/probe.h"

#define OFFSET(name)      (sonde_config.redis.name)
#define HAVE(name)        (OFFSET(name) >= 0)
#define READ(type, p, at) (*(const type *)((const char *)(p) + (at)))

/* Length of an sds string: its type is in the low bits of the byte before it. */
static inline uint64_t sds_length(const char *s)
{
    unsigned type = s[-1] & 7;
    if (type < 2)
        return type ? READ(uint8_t, s, -3) : (uint8_t)s[-1] >> 3;
    if (type < 4)
        return type == 2 ? READ(uint16_t, s, -5) : READ(uint32_t, s, -9);
    return type == 4 ? READ(uint64_t, s, -17) : 0;
}

static inline uint64_t client_id(const void *client)
{
    return client && HAVE(client_id) ? READ(uint64_t, client, OFFSET(client_id)) : 0;
}

static inline int connection_fd(const void *connection)
{
    return connection && HAVE(conn_fd) ? READ(int, connection, OFFSET(conn_fd)) : -1;
}

static inline int client_fd(const void *client)
{
    return HAVE(client_conn) ? connection_fd(READ(void *, client, OFFSET(client_conn))) : -1;
}

static inline struct probe_bytes bytes_begin(struct probe_bytes *bytes, int fd)
{
    struct probe_bytes outer = {.sums = bytes->sums, .tls = bytes->tls, .asked = bytes->asked};
    bytes->fd = fd;
    bytes->tls = bytes->asked = 0;
    return outer;
}

/* Bytes through the socket, -1 unknown, and what they were before or after encryption. What was within is
 * not the outer one's. */
static inline int32_t bytes_end(struct probe_bytes *bytes, struct probe_bytes outer, bool seen,
                                int32_t *ret_plain)
{
    uint64_t sums = bytes->sums - outer.sums;
    int32_t wire = LIKELY(seen) ? (int32_t)(uint32_t)sums : -1;
    *ret_plain = LIKELY(!bytes->tls) ? wire : (int32_t)(sums >> 32);
    bytes->sums = outer.sums;
    bytes->tls = outer.tls;
    bytes->asked = outer.asked;
    return wire;
}

/* The number of a command's name, 0 when there is none. */
uint32_t redis_command_name(struct probe_thread *self, const void *command);

/* Records what was deleted because it had expired since the last time. */
void redis_record_expired(struct probe_thread *self, uint64_t start, uint64_t end, uint8_t cycle);

/* How many more calls are checked; 0 when the offsets are trusted. */
extern uint32_t redis_checks_left;

/* The checks are over, and every field that a command's record is made of was found: no need to ask for each.
 */
extern bool redis_fields_known;
void redis_know_fields(void);

/* The offset of client.querybuf once it was seen to be one, else SONDE_NO_OFFSET: nothing is read through the
 * other one, which is what the code seems to say. */
extern int32_t redis_query_buffer;

/* Commands' names are C strings, no sds strings. */
extern bool redis_plain_names;

/* Checks what connects a connection and its client; the client, or NULL when it is not to be believed. */
const void *redis_check_client(const void *connection, const void *client);

/* Whether what a copied function is called with is a client: on live objects, until one was or was not. */
bool redis_is_client(const void *client);

/* Checks the fields that a command's record is made of. */
void redis_check_command(const void *client);

/* aeFiredEvent */
struct redis_fired {
    int32_t fd, mask;
};

/* A client is read whose descriptor is fd, after that many others of the same iteration: looks for the field
 * of the loop that points at what is ready. */
void redis_find_fired(const void *loop, uint32_t reads, int fd);

/* Looks for the field of a bus link that points at a bus message. */
void redis_find_receive_buffer(const void *link);

#endif
