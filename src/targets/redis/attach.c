/* How Redis, and Valkey from 8.0 on, are recognised and hooked. Signatures were read in the sources of the
 * versions named. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/attach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REDIS_6_0 = 0x60000, REDIS_7_0 = 0x70000, REDIS_7_2 = 0x70200, REDIS_8_0 = 0x80000 };

static const struct hook HOOKS[] = {
    /* read: void (connection *); commands: int (client *), void (client *,
       int); reply: int (client *, int), without the int in Valkey; free: void (client *), int in Valkey 9;
       afterSleep: void (aeEventLoop *), with an int behind in Valkey. An argument that a form does not have
       is a register that nobody reads. */
    {"redis_read_query", "readQueryFromClient", REDIS_6_0, 0, "when a client's query is read"},
    {"redis_process_command", "processCommand", REDIS_6_0, 0, "which command of its connection a command is"},
    {"redis_command", "call", REDIS_6_0, 0, "the commands that Redis executes"},
    {"redis_write_reply", "writeToClient", REDIS_6_0, 0, "when replies are written"},
    /* GCC's copy for callers that pass 0 for the second argument, which is all that such a copy can leave out
       (the first is never a constant): int (client *). The probe checks its argument. */
    {"redis_write_pending", "writeToClient.constprop.0", REDIS_6_0, REDIS_8_0, NULL},
    {"redis_free_client", "freeClient", REDIS_6_0, 0, "when clients are freed"},
    {"redis_bus_read", "clusterReadHandler", REDIS_6_0, 0, "reads from the cluster bus"},
    {"redis_bus_packet", "clusterProcessPacket", REDIS_6_0, 0, "packets of the cluster bus"},
    {"redis_bus_send", "clusterSendMessage", REDIS_6_0, REDIS_7_2, NULL},
    {"redis_bus_send__block", "clusterSendMessage", REDIS_7_2, 0, "messages sent on the cluster bus"},
    {"redis_add_file_event", "aeCreateFileEvent", REDIS_6_0, 0, "watched descriptors"},
    {"redis_delete_file_event", "aeDeleteFileEvent", REDIS_6_0, 0, "watched descriptors"},
    {"redis_before_sleep", "beforeSleep", REDIS_6_0, 0, "the loop's phase before it waits"},
    {"redis_after_sleep", "afterSleep", REDIS_6_0, 0, "when the loop wakes up"},
    {"redis_process_events", "aeProcessEvents", REDIS_6_0, 0, "iterations of the event loop", .split = true},

    /* int (client *): 1 when the read was put on the I/O threads' list. Redis 8 and Valkey 8 hand whole
       clients over to their threads instead. */
    {"redis_postpone_read", "postponeClientRead", REDIS_6_0, REDIS_8_0, "reads left to the I/O threads"},
    /* Valkey's threads: int (client *), 0 when it was given to one; void (client *), and void (void *, int),
       the client's last use there. */
    {"redis_send_read", "trySendReadToIOThreads", REDIS_8_0, 0, NULL},
    {"redis_thread_read", "ioThreadReadQueryFromClient", REDIS_8_0, 0, NULL},
    {"redis_thread_write", "ioThreadWriteToClient", REDIS_8_0, 0, NULL},
    {"redis_thread_done", "sendToMainThread", REDIS_8_0, 0, NULL},
    /* Redis 8's threads, which own clients: void (client *) all of them. */
    {"redis_to_thread", "assignClientToIOThread", REDIS_8_0, 0, NULL},
    {"redis_fetch_client", "fetchClientFromIOThread", REDIS_8_0, 0, NULL},
    {"redis_keep_client", "keepClientInMainThread", REDIS_8_0, 0, NULL},
    /* Redis' own connTLSRead is no symbol in stripped builds: its call of int SSL_read(SSL *, void *, int) is
       seen. */
    {"redis_ssl_read", "SSL_read", REDIS_6_0, 0, NULL},

    /* libc's and libssl's, for the bytes that pass while a client or a link is read or written. */
    {"redis_io_read", "read", REDIS_6_0, 0, "bytes that are read"},
    {"redis_io_write", "write", REDIS_6_0, 0, "bytes that are written"},
    {"redis_io_writev", "writev", REDIS_7_0, 0, "bytes that are written"},
    {"redis_ssl_write", "SSL_write", REDIS_6_0, 0, NULL},
    /* void (connection *). Where it cannot be hooked, writeToClient()'s second argument says the same. */
    {"redis_write_handler", "sendReplyToClient", REDIS_6_0, 0, NULL},
    {"redis_bus_write", "clusterWriteHandler", REDIS_6_0, 0, "writes to the cluster bus"},
    /* void (client *, int); void (client *), with an int behind since 7.2 */
    {"redis_block", "blockClient", REDIS_6_0, 0, "when clients are blocked"},
    {"redis_unblock", "unblockClient", REDIS_6_0, 0, "when blocked clients go on"},
    /* void (client *, robj *); void (client *, sds): rejectCommandFormat() ends in it */
    {"redis_reject", "rejectCommand", REDIS_7_0, 0, "commands that are refused"},
    {"redis_reject_text", "rejectCommandSds", REDIS_7_0, 0, "commands that are refused"},
    {"redis_queue_command", "queueMultiCommand", REDIS_7_0, 0, "commands queued in a transaction"},
    /* void (client *, clusterNode *, int slot, int error) */
    {"redis_redirect", "clusterRedirectClient", REDIS_6_0, 0, "commands sent on to another node"},
    /* int (robj *channel, robj *message, pubsubtype): 56 bytes on the stack */
    {"redis_publish", "pubsubPublishMessageInternal", REDIS_7_0, 0, "published messages"},
    /* void (client *, robj *channel, robj *message, robj *kind since 7.0); with the pattern behind the client
     */
    {"redis_message", "addReplyPubsubMessage", REDIS_6_0, 0, "which subscribers a message goes to"},
    {"redis_pattern_message", "addReplyPubsubPatMessage", REDIS_6_0, 0,
     "which subscribers a message goes to"},
    /* int (client *, int) */
    {"redis_output_limit", "closeClientOnOutputBufferLimitReached", REDIS_7_0, 0,
     "clients closed for the size of their output"},
    /* int (int purpose) */
    {"redis_fork", "redisFork", REDIS_6_0, 0, NULL},
    {"redis_fork", "serverFork", REDIS_6_0, 0, "children that the server forks"},
    {"redis_fsync", "fdatasync", REDIS_6_0, 0, "when files are forced to the disk"},
    {"redis_aof_flush", "flushAppendOnlyFile", REDIS_6_0, 0, "when the append-only file is written"},
    /* void (int type, char *event, robj *key, int db) */
    {"redis_notify", "notifyKeyspaceEvent", REDIS_6_0, 0, "keys that expire or are evicted"},
    {"redis_expire", "activeExpireCycle", REDIS_6_0, 0, "cycles that look for expired keys"},
    {"redis_evict", "performEvictions", REDIS_7_0, 0, "evictions"},
    /* void (list *, int, robj **, int), in Valkey without the list; void (char *, size_t) */
    {"redis_replicate", "replicationFeedSlaves", REDIS_7_0, 0, NULL},
    {"redis_replicate", "replicationFeedReplicas", REDIS_7_0, 0, "what is queued for replicas"},
    {"redis_applied", "replicationFeedStreamFromMasterStream", REDIS_7_0, 0, NULL},
    {"redis_applied", "replicationFeedStreamFromPrimaryStream", REDIS_7_0, 0,
     "what a replica has executed of its primary's commands"},
};

static const struct silent_rule SILENT[] = {
    {SONDE_EVENT_redis_command, 200, SONDE_EVENT_redis_read_query, "redis_read_query"},
    {SONDE_EVENT_redis_command, 200, SONDE_EVENT_redis_write_reply, "redis_write_reply"},
    {SONDE_EVENT_redis_read_query, 200, SONDE_EVENT_redis_command, "redis_command"},
    {SONDE_EVENT_redis_bus_packet, 200, SONDE_EVENT_redis_bus_read, "redis_bus_read"},
    {SONDE_EVENT_redis_bus_read, 200, SONDE_EVENT_redis_bus_packet, "redis_bus_packet"},
};

static const char *const LIBRARIES[] = {"libssl.so", "libc.so", "ld-musl-", NULL};

static bool recognise(struct target *target)
{
    if (target_find(target, "readQueryFromClient", NULL, NULL, NULL) < 0 ||
        target_find(target, "aeProcessEvents", NULL, NULL, NULL) < 0)
        return false;
    target->versions[REDIS_VERSION] = target_constant(target, "RM_GetServerVersion");
    if (!target->versions[REDIS_VERSION]) {
        target->versions[REDIS_VERSION] = target_constant(target, "VM_GetServerVersion");
        target->versions[REDIS_IS_VALKEY] = target->versions[REDIS_VERSION] != 0;
    }
    return true;
}

static void describe(const struct target *target, char *buffer, size_t size)
{
    target_say_version(buffer, size, "Redis", target->versions[REDIS_VERSION]);
}

static const char *const PROGRAMS[] = {"redis-server", "redis-check-rdb", /* as Debian links it */
                                       "valkey-server", "valkey-check-rdb", NULL};

const struct target_kind target_kind_redis = {.runtime = SONDE_runtime_redis,
                                              .called = "Redis",
                                              .programs = PROGRAMS,
                                              .libraries = LIBRARIES,
                                              .hooks = HOOKS,
                                              .hook_count = ARRAY_SIZE(HOOKS),
                                              .superseded = true,
                                              .silent = SILENT,
                                              .silent_count = ARRAY_SIZE(SILENT),
                                              .recognise = recognise,
                                              .layout = redis_layout,
                                              .name = redis_name,
                                              .describe = describe};
