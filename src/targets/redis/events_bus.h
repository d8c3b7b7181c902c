/* The types of messages on the bus of a Redis cluster, as the events redis:bus_send and redis:bus_packet have
 * them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_EVENTS_BUS_H
#define TARGETS_REDIS_EVENTS_BUS_H

enum { REDIS_BUS_TYPES = 16 }; /* CLUSTERMSG_TYPE_*; the last one stands for all that are unknown */

/* The number of a type among those; Valkey's messages with a short header have a bit of their own. */
static inline unsigned redis_bus_number(unsigned long type)
{
    const unsigned long light = 0x8000, number = type & ~light;
    return number < REDIS_BUS_TYPES ? (unsigned)number : REDIS_BUS_TYPES - 1;
}

/* "PUBLISH", "PING", ...; "other" for the unknown. */
static inline const char *redis_bus_type(unsigned number)
{
    static const char *const TYPES[REDIS_BUS_TYPES] = {
        "PING",   "PONG",    "MEET",   "FAIL",        "PUBLISH", "FAILOVER_AUTH_REQUEST", "FAILOVER_AUTH_ACK",
        "UPDATE", "MFSTART", "MODULE", "PUBLISHSHARD"};
    return number < REDIS_BUS_TYPES && TYPES[number] ? TYPES[number] : "other";
}

#endif
