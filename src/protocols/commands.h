/* Commands that are sent to a store and answered in their order. A store's protocol is what the probe
 * recognises and counts (src/probe/wire.h), and on this side one file with
 *
 *     const struct protocol protocol_NAME = COMMAND_PROTOCOL(NAME, .name = "...", ...);
 *
 * The server's end, where that is traced, tells what it executed and when it replied. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOLS_COMMANDS_H
#define PROTOCOLS_COMMANDS_H

#include "model/model.h"

/* wire_name: as in the catalogue's enumeration "wire". shortest: the bytes of the shortest command there is.
 * Further members may follow. */
#define COMMAND_PROTOCOL(wire_name, shortest, ...)                                                        \
    {                                                                                                     \
        .name = #wire_name, .wire = SONDE_wire_##wire_name, .command = "command",                         \
        .command_bytes_min = shortest, .in_order = true, .written = commands_written,                     \
        .replies = command_replies, .input = command_input, .input_read = command_input_read, __VA_ARGS__ \
    }

/* What COMMAND_PROTOCOL consists of: see struct protocol. */
void commands_written(struct analysis *a, struct thread *thread, struct connection *c, const struct event *e);
size_t command_replies(const struct analysis *a, const struct thread *thread, const struct connection *c,
                       const struct item *io);
struct context command_input(struct analysis *a, struct thread *thread, struct connection *c,
                             const struct item *io, size_t candidates);
void command_input_read(struct analysis *a, struct thread *thread, struct connection *c,
                        const struct item *io, size_t replies);

/* sql.c: the statement of the command of that number, whose write is read now; NULL: it is not known. */
const char *statement_of(struct connection *c, uint64_t number);

/* A server's thread has executed a command that came on c, which may be NULL: the call that it answers, NULL
 * when that is not known. A call that is not known yet finds what was done when it comes. */
struct call *command_executed(struct analysis *a, struct thread *thread, struct connection *c,
                              const struct executed_command *done);
/* Everything that the commands on c, which may be NULL, have produced so far goes out. rest_ns: now_ns where
 * it is what the client had not taken at once of what went out before, else 0; UINT64_MAX: that is not known.
 */
void commands_replied(struct analysis *a, struct connection *c, uint64_t now_ns, uint64_t rest_ns);

/* Adds to the stretch s, in which a thread of the server executed one command and nothing else, the commands
 * that waited for it: those sent before its end and after the server's last answer on their connection.
 * Commands with a number are left out: what they waited for is known when they are executed. */
void commands_held(struct analysis *a, const struct process *server, struct stretch *s);

#endif
