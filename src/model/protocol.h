/* A protocol, as an analysis knows it: which events it reads, what a write on one of its connections says,
 * and whose what came back is. One file under src/protocols defines one `struct protocol`; the table in
 * protocols/protocols.c has them all.
 *
 * A connection has a protocol (connection_protocol()) from the first thing that tells it: an event of the
 * protocol's own, or a write whose bytes the probe recognised (uv:write). Until then it is a pipe or an
 * exchange of bytes with an address.
 *
 * Callbacks may be NULL. A store whose clients send commands that it answers in their order needs none of its
 * own: see COMMAND_PROTOCOL in protocols/commands.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_PROTOCOL_H
#define MODEL_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct analysis;
struct thread;
struct connection;
struct call;
struct event;
struct item;
struct context;
struct request;
struct stretch;

/* Reads an event; thread is whose it is, NULL for events of the collector and the kernel. */
typedef void event_reader(struct analysis *a, struct thread *thread, const struct event *e);

/* A list of these ends with event 0. */
struct event_reading {
    uint16_t event; /* enum sonde_event_id; no two modules read the same */
    event_reader *read;
};

struct protocol {
    const char *name; /* "http" */
    const struct event_reading *events;

    /* The probe found commands in what is written: uv:write's wire (enum sonde_wire). Only where written is
     * commands_written(). */
    uint8_t wire;
    const char *command;        /* the name of a call whose own is not known: "command" */
    const char *server;         /* what a server of it that is traced is called: "Redis" */
    uint32_t command_bytes_min; /* the bytes of the shortest one */

    /* Answers come in the order of what was asked, so that what a turn goes on with shows whether the owners
     * are right. */
    bool in_order;
    /* Calls of many requests at a time, ended in any order: none of them uses the connection alone. */
    bool parallel;
    /* The first event on a connection is data, not its establishment. */
    bool born_connected;

    /* The addresses of the connection are known (net:connection). Every protocol is asked. */
    void (*opened)(struct analysis *a, struct connection *c);
    /* uv:write: bytes went out. */
    void (*written)(struct analysis *a, struct thread *thread, struct connection *c, const struct event *e);
    /* How many of the oldest calls the bytes that io read answer; without it one, if any is open. Like the
     * next two called when the turn is read, and not for the establishment of a connection. */
    size_t (*replies)(const struct analysis *a, const struct thread *thread, const struct connection *c,
                      const struct item *io);
    /* Whose the callbacks are that what came causes. */
    struct context (*input)(struct analysis *a, struct thread *thread, struct connection *c,
                            const struct item *io, size_t replies);
    /* A call's owner has been decided; with none, known says why. */
    void (*settled)(struct analysis *a, struct connection *c, const struct call *call);
    /* A call on the connection has ended. */
    void (*call_ended)(struct analysis *a, struct connection *c, const struct call *call, uint64_t end_ns);
    /* All that went on with it has been read. */
    void (*input_read)(struct analysis *a, struct thread *thread, struct connection *c, const struct item *io,
                       size_t replies);
    /* The process closed the connection. Every protocol is asked, in the order of the table. */
    void (*closed)(struct analysis *a, struct thread *thread, struct connection *c, uint64_t now_ns);
    /* Its memory is freed. Every protocol is asked. */
    void (*forget)(struct analysis *a, struct connection *c);

    /* A request has ended, before anything is concluded from it. */
    void (*request_done)(struct request *request);
    /* A thread's event loop did nothing else for as long as the stretch: who waited for its answers? */
    void (*stalled)(struct analysis *a, const struct thread *thread, struct stretch *stretch);
};

#endif
