/* A kind of target, a runtime or a store, as it is attached to: how a process is recognised as one, what is
 * hooked in it, what the probe must know of its structures. Each is one `const struct target_kind
 * target_kind_NAME` in src/targets/NAME/attach.c; the table is made from event/targets.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_KIND_H
#define ATTACH_KIND_H

#include "attach/hooks.h"
#include "event/config.h"

struct target;

/* Where one event came so often, another must have come too: else the hook that records it is installed and
 * never fires. What may be absent from a healthy program has no rule. */
struct silent_rule {
    enum sonde_event_id seen;
    uint64_t times;
    enum sonde_event_id expected;
    const char *wrapper; /* of the hook that records the expected event */
};

/* What a program is called; all zero: by its executable. */
struct target_names {
    char *name;          /* to be freed */
    const char *script;  /* that an interpreter runs, within its arguments; NULL: none */
    const char *service; /* "redis": it is called by the port that it listens on, "redis:6379", which the
                            kernel knows, and by its name while it listens on none. NULL: by its name */
};

struct target_kind {
    uint8_t runtime;              /* enum sonde_runtime */
    const char *called;           /* by people: "Node"; NULL: an example, which is not named to them */
    const char *const *programs;  /* beginnings of its programs' file names, by which all that run are found.
                                     Ends with NULL; NULL: they are to be named one by one */
    const char *const *libraries; /* beginnings of their file names: where functions may be, besides the
                                     program itself. Ends with NULL; NULL: nowhere else */
    const struct hook *hooks;
    size_t hook_count;
    const struct silent_rule *silent;
    size_t silent_count;
    /* From a hook's version_max on the program does in another way what it did, and nothing is missed. */
    bool superseded;
    /* The span that its program's own code runs in: open long when that code blocks, and sampled then. And
     * the span, with this argument, in which a thread only waits for something to do. SONDE_EVENT_none: there
     * is none. */
    enum sonde_event_id callback_event, idle_event;
    enum sonde_event_id native_event; /* a callback in native code, with or without the other in it */
    uint64_t idle_argument;
    /* The probe can tell requests apart in it (enum sonde_context), and find functions by name. */
    bool contexts;

    /* Is this process one? If so, it sets target->versions. */
    bool (*recognise)(struct target *target);
    /* The version that the hook's bounds are compared with; NULL: versions[0]. */
    uint32_t (*version)(const struct target *target, const struct hook *hook);
    /* Fills in what the probe must know; what could not be found out is noted (target_miss()). context is
     * what is wanted at most. NULL: nothing. */
    void (*layout)(struct target *target, enum sonde_context context, struct sonde_config *config);
    /* What people call the program, from its arguments (length bytes, each ends with NUL; 0: unknown). Called
     * in the worker: arguments, and the files and the environment that it may look into, are the program's.
     * NULL: by its executable. */
    void (*name)(const struct target *target, const char *line, size_t length, struct target_names *names);
    /* For people: "Redis 7.2.4". */
    void (*describe)(const struct target *target, char *buffer, size_t size);
};

/* In the order of their numbers; ends with NULL. */
extern const struct target_kind *const TARGET_KINDS[];

/* What can be traced, in words, by the names of the kinds: "Node, Redis or Memcached". */
void target_kinds_say(char *buffer, size_t size);

#endif
