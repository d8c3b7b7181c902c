/* What is kept of programs that have ended: what the manifest says of them, what they count for, and, of the
 * latest, what a child needs that they forked and that has yet to call a hooked function. All else of them, a
 * megabyte and some ten descriptors each, is given back at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_ENDED_H
#define COLLECT_ENDED_H

#include <jansson.h>

#include "base/array.h"
#include "base/text.h"
#include "collect/program.h"

/* A program that the manifest reports on. */
struct ended_program {
    uint64_t started_ns;
    char *fields;                /* its JSON object without what many have in common, up to the last field */
    const char *hooks, *missing; /* JSON arrays, shared; of struct ended.texts */
};

/* Programs of one command, as a prefork server's workers are or a script's many short ones: the first are
 * reported on one by one, the others together, so that a recording may see any number of them. */
struct ended_alike {
    char *name, *command;
    uint32_t listed;                /* one by one */
    uint64_t count, events_written; /* of the others */
    uint64_t first_start_ns, last_end_ns;
};

struct ended_loss {
    int pid; /* 0: several programs that are not listed */
    uint8_t reason;
    uint64_t count;
};

/* A program whose children have its code: its hooks, in those that have its rings mapped. */
struct ended_parent {
    uint64_t rings; /* ring_memory_inode() */
    char *exe;
    struct target *target; /* what is known of it, without the process */
    ARRAY(struct patch) patches;
};

enum { ENDED_PARENTS = 64, ENDED_LISTED = 1000, ENDED_COMMANDS = 100 };

struct ended {
    ARRAY(struct ended_program) programs; /* by when they began */
    ARRAY(struct ended_alike) alike; /* at most ENDED_COMMANDS: the last is of all commands that come then */
    ARRAY(struct ended_loss) losses;
    ARRAY(char *) texts;
    struct ended_parent parents[ENDED_PARENTS]; /* the latest, in a ring */
    uint64_t count, lost;
    uint64_t events[SONDE_EVENT_COUNT]; /* drained */
};

/* Is the program to be reported on by itself? */
bool ended_lists(const struct ended *ended, const struct program *program);

/* Takes note of a program; object, its object of the manifest when it is listed, is taken. -ENOMEM: not all
 * of it was kept. */
int ended_add(struct ended *ended, const struct program *program, json_t *object);

/* Appends what the manifest says of one. */
void ended_write(const struct ended_program *program, struct text *to);

/* Those that are not listed, for the manifest: an object for each command. NULL: no memory. */
json_t *ended_alike_array(const struct ended *ended);

/* The latest parent with one of these rings; NULL. */
const struct ended_parent *ended_parent_of(const struct ended *ended, const uint64_t *rings, size_t count);

void ended_done(struct ended *ended);

#endif
