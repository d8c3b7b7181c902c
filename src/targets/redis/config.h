/* What the probe must know of Redis: see event/config.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_CONFIG_H
#define TARGETS_REDIS_CONFIG_H

#define SONDE_OFFSETS_redis(O)                         \
    O(redis, conn_fd, "connection.fd")                 \
    O(redis, conn_private, "connection.private_data")  \
    O(redis, client_id, "client.id")                   \
    O(redis, client_conn, "client.conn")               \
    O(redis, client_db, "client.db")                   \
    O(redis, db_id, "redisDb.id")                      \
    O(redis, client_cmd, "client.cmd")                 \
    O(redis, command_name, "redisCommand.fullname")    \
    O(redis, command_flags, "redisCommand.flags")      \
    O(redis, client_querybuf, "client.querybuf")       \
    O(redis, client_argc, "client.argc")               \
    O(redis, client_argv_bytes, "client.argv_len_sum") \
    O(redis, link_rcvbuf, "clusterLink.rcvbuf")        \
    O(redis, loop_fired, "aeEventLoop.fired")

#define SONDE_WORDS_redis(W)

#define SONDE_FUNCTIONS_redis(A)           \
    A(redis, used_memory, "size_t (void)") \
    A(redis, ssl_pending, "int (SSL *)")   \
    A(redis, ssl_get_rfd, "int (SSL *)")   \
    A(redis, replication_offset, "long long (void)")

#endif
