/* Short records of Redis (event/short.h): commands that follow one another in a pipeline, and the read that
 * they come from. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_SHORT_H
#define TARGETS_REDIS_SHORT_H

#define SONDE_SHORT_redis(S)           \
    S(redis_command, 2, redis_command) \
    S(redis_read_query, 2, redis_command)

/* A command begins where the one before it ends, and is of the same client and database, with the next
 * number. Word: name 0-31, bytes 32-63. Rest: kind 0-1, arguments 2-15, duration 16-47. */

static inline uint64_t short_command_word(uint32_t name, uint64_t bytes)
{
    return name | bytes << 32;
}
static inline uint64_t short_command_rest(uint8_t kind, int32_t arguments)
{
    return kind | (uint64_t)(uint32_t)arguments << 2;
}
/* Whether all of it fits. */
static inline bool short_command_fits(uint64_t rest, uint64_t bytes, uint64_t duration)
{
    return !(rest >> 16 | (bytes | duration) >> 32);
}
static inline void short_give_redis_command(uint64_t word, uint64_t rest, struct short_event *event)
{
    struct record_redis_command command;
    __builtin_memcpy(&command, event->fields, sizeof(command));
    command.sequence += command.sequence != 0;
    command.bytes = word >> 32;
    command.name = (uint32_t)word;
    command.argument_count = rest >> 2 & 0x3fff;
    command.kind = rest & 3;
    __builtin_memcpy(event->fields, &command, sizeof(command));
    event->duration = rest >> 16;
    event->end_tsc += event->duration;
}

/* A read ends with the last command. Word: used memory 0-39, bytes 40-63; they were as many as the socket's,
 * and the query buffer was empty. Rest: duration. */

static inline uint64_t short_read_word(uint64_t used_memory, int32_t bytes)
{
    return used_memory | (uint64_t)(uint32_t)bytes << 40;
}
static inline bool short_read_fits(uint64_t used_memory, uint32_t query_buffer, int32_t bytes,
                                   uint64_t duration)
{
    return !(used_memory >> 40 | duration >> 48 | query_buffer | (uint32_t)bytes >> 24);
}
static inline void short_give_redis_read_query(uint64_t word, uint64_t rest, struct short_event *event)
{
    struct record_redis_command command;
    __builtin_memcpy(&command, event->fields, sizeof(command));
    int32_t bytes = (int32_t)(word >> 40);
    struct record_redis_read_query read = {.client_id = command.client_id,
                                           .used_memory = word & ((1ull << 40) - 1),
                                           .fd = command.fd,
                                           .bytes = bytes,
                                           .wire_bytes = bytes};
    __builtin_memcpy(event->fields, &read, sizeof(read));
    event->duration = rest;
}

/* Whoever gives an event another field looks at what its short record makes of it. */
_Static_assert(FIELD_redis_command_COUNT == 10 && FIELD_redis_read_query_COUNT == 7,
               "the duration and what is above");

#endif
