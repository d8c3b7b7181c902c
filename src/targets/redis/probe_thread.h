/* What the hooks in redis-server keep of a thread: see struct probe_thread in probe/probe.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_PROBE_THREAD_H
#define TARGETS_REDIS_PROBE_THREAD_H

#define PROBE_LINE_redis()                                                                           \
    uint32_t redis_owner;                                                                            \
    uint16_t command_depth;                                                                          \
    uint8_t in_read;   /* inside readQueryFromClient */                                              \
    uint8_t last_kind; /* the command that was named last, its name and kind */                      \
    uint32_t last_name;                                                                              \
    int32_t command_fd; /* of the command being processed, its client and number */                  \
    uint64_t command_client, command_sequence;                                                       \
    uint64_t command_end_tsc; /* of the command before in the same read of a pipeline; 0 for none */ \
    uint64_t last_command;                                                                           \
    const void *read_client; /* whose query is read and commands are counted; NULL: look it up */    \
    uint64_t *read_number;   /* the count */

#define PROBE_THREAD_redis()                                                                                 \
    /* The event loop */                                                                                     \
    uint64_t phase_tsc;                                                                                      \
    uint64_t handled_tsc;       /* when the newest read or write of a client ended */                        \
    uint64_t iteration_end_tsc; /* of the iteration before; 0: something may have come between */            \
    uint32_t reads;             /* in this iteration */                                                      \
    uint64_t handed_tsc;        /* when the read that goes on was left to another thread; 0: it was not */   \
    const void *loop;           /* in an iteration of it, once that has waited; else NULL */                 \
    uint32_t in_before_sleep;   /* where replies are written one after the other */                          \
    /* Of the newest command in the read that goes on: the number of the next one (-1: it was not recorded), \
     * how many records there were behind it, and its database. */                                           \
    uint64_t next_sequence, next_written;                                                                    \
    uint64_t next_db;                                                                                        \
    int32_t next_db_number;                                                                                  \
    uint64_t write_end_tsc; /* of the reply written before in the same beforeSleep; 0 for none */            \
    struct probe_bytes redis_in, redis_out;                                                                  \
    int64_t aof_bytes;         /* written to files by the flush that goes on */                              \
    const void *thread_client; /* an I/O thread reads or writes it; NULL: none, or it was handed back ... */ \
    uint64_t thread_done_tsc;  /* ... then; 0: not seen */                                                   \
    uint32_t in_flush;                                                                                       \
    uint32_t evicted;        /* keys, in the eviction that goes on */                                        \
    uint32_t expired;        /* keys, since the newest redis:expire, by the cycle */                         \
    uint32_t expired_access; /* when they were asked for */                                                  \
    uint8_t in_expire, expire_seen, expire_busy, in_bus_packet, in_write_handler;

#endif
