/* Messages that go through a broker: what is sent to it and what it delivers, seen at the program's end of
 * the connection (delivery.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_DELIVERY_H
#define PROBE_DELIVERY_H

#include "probe/probe.h"

/* Bee-Queue works in this process: it has no script for what its workers do (delivery_resp.c). */
extern bool queue_bee;

/* A connection has begun to speak to a broker: from now on its messages are followed. At most
 * QUEUE_CONNECTIONS of a process are; of others nothing is recorded. */
void queue_begins(struct probe_thread *self, int fd, struct descriptor *d);

/* Some bytes of a connection that is older than sonde (d->queue is READS_MIDWAY); out: they are written. Once
 * they prove that a broker is at its other end, its messages are followed from these bytes on. Returns
 * whether what is read on it is to be looked at, as a broker's or as a WebSocket's. */
bool queue_midway(struct probe_thread *self, int fd, struct descriptor *d, bool out,
                  const struct buffer *buffers, unsigned count, uint64_t length);

/* Of such bytes (delivery_midway.c), which are counted in d: the wire (enum sonde_wire) that the connection
 * is proved to be of by now; -1: none. */
int queue_midway_wire(struct descriptor *d, bool out, const struct buffer *buffers, unsigned count,
                      uint64_t length);

/* Whether n bytes at p begin with a frame or a line of that wire (AMQP or NATS). */
bool queue_begins_here(uint8_t wire, bool out, const char *p, uint64_t n);

/* Whether bytes in the middle of a connection are whole packets of MQTT. It takes little to look so: several
 * in a row are needed, with a message among them. */
enum queue_packets { PACKETS_NONE, PACKETS_OTHER, PACKETS_MESSAGE };
enum queue_packets queue_packets_mqtt(const struct buffer *buffers, unsigned count, uint64_t length);

/* Records the messages that end in what is written to a broker (d->queue), or what a client of Redis writes
 * where it has commands of streams. */
void queue_written(struct probe_thread *self, int fd, struct descriptor *d, const struct buffer *buffers,
                   unsigned count, uint64_t accepted, uint64_t now);

/* Notes the messages that end in what was read; they wait for the callback that carries them. */
void queue_read(struct probe_thread *self, struct descriptor *d, const char *bytes, uint64_t length);

/* Records the messages that wait for their callback. */
void queue_tell(struct probe_thread *self);

/* One direction of a connection to a broker. */
enum { QUEUE_LINE = 600, QUEUE_FETCHED = 16 };
struct queue_way {
    uint64_t hash; /* of the message that is being read */
    uint64_t left; /* bytes of the present frame or body still to come */
    uint64_t body; /* bytes of the message's body still to come */
    uint64_t number;
    uint32_t bytes; /* of the message */
    uint32_t queue; /* the name of where it goes, 0 none */
    uint32_t have;  /* bytes in line */
    uint32_t hashed;
    uint16_t channel, open_channel;
    uint8_t state, open, lost;
    uint8_t
        joins;  /* joined in the middle: how often more it is looked whether a message begins; 0: one has */
    bool gives; /* Bee-Queue: it is answered with the ids of queue's jobs */
    /* Bee-Queue: the jobs whose data was asked for, and how often; the newest are in fetched. */
    uint64_t fetched[QUEUE_FETCHED];
    uint32_t fetches, answers;
    char line[QUEUE_LINE];
};

/* What ended in some bytes; of what is written to Redis also the queue whose next job is asked for (jobs),
 * whether it is of several, whether its id is asked for (gives), and the jobs whose data is (fetched). */
enum { QUEUE_SEEN_MAX = 32 };
struct queue_seen_list {
    struct queue_seen at[QUEUE_SEEN_MAX];
    uint64_t fetched[QUEUE_FETCHED];
    uint32_t count, jobs, fetches;
    bool several, gives;
};

/* Follows bytes of one direction; out: they are written. What does not fit into the list is left out. */
void queue_bytes_amqp(struct probe_thread *self, struct queue_way *w, bool out, const char *p, uint64_t n,
                      struct queue_seen_list *seen);
void queue_bytes_nats(struct probe_thread *self, struct queue_way *w, bool out, const char *p, uint64_t n,
                      struct queue_seen_list *seen);
/* MQTT 3.1, 3.1.1 and 5 (delivery_mqtt.c). */
void queue_bytes_mqtt(struct probe_thread *self, struct queue_way *w, bool out, const char *p, uint64_t n,
                      struct queue_seen_list *seen);
/* Redis' streams and queues of jobs (delivery_resp.c): whole commands, or whole replies to what asks for
 * messages. way: what is read; NULL of what is written. Returns whether the commands ask for messages. */
bool queue_bytes_resp(struct probe_thread *self, struct queue_way *way, bool out, const char *p, uint64_t n,
                      struct queue_seen_list *seen);

#endif
