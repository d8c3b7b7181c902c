/* States over time: which value each attribute held when. Analyses build a history while they read a trace;
 * reports, the web UI and the Trace Server Protocol query it, also while it is still being built.
 *
 * The model is Trace Compass's state system. An *attribute* is a place in a tree of names
 * ("Redis/127.0.0.1:7000/Threads/4711/Operation"), known by its number, the *quark*. At every time an
 * attribute has exactly one value: null, an integer, a double or a string. A *state* is one value over
 * [start_ns, end_ns). A history begins at start_ns with every attribute null.
 *
 *     struct history *h;
 *     struct history_options options = {.size = sizeof(options), .start_ns = first_event_ns};
 *     r = history_create("states.history", &options, &h, &problem);
 *     r = history_add_path(h, "Threads/4711/Operation", &quark, &problem);
 *     r = history_modify(h, t, quark, history_string("read"), &problem);
 *     r = history_modify(h, t + 800, quark, history_null(), &problem);
 *     r = history_close(h, end_ns, &problem);          (the file is whole; h can still be queried)
 *     history_free(h);
 *
 * Time. Any clock in nanoseconds, one for the whole history; sonde uses CLOCK_MONOTONIC. The changes of one
 * attribute must come in time order (equal times allowed: the last value wins). Different attributes need not
 * be in step with each other: a span that is known only when it ends may set its attribute to a time long
 * past. Such late changes are kept and answered exactly, at some cost in query time if most changes are late.
 *
 * Memory while building: about 150 bytes for each attribute and 100 for each distinct string beside their
 * bytes, and 15 to 60 MB for changes that are not yet on disk, however long the trace.
 *
 * A builder that is killed leaves a file that opens with everything up to its last full segment. Segments are
 * written every 2^18 to 2^20 changes (options.segment_changes) and by history_flush().
 *
 * Errors are 0 or a negative errno, with words in the problem, which may be NULL:
 *   -EINVAL    the caller's mistake: unknown quark, changes of one attribute out of order
 *   -ERANGE    a time before start_ns, or at or after end_ns of a closed history
 *   -ENOENT    no such attribute, or no such change
 *   -EBADMSG   the file is damaged; the problem names file, offset and what was expected
 *   -ENOMEM, and whatever open, write and mmap return. After a failed write nothing is lost: the changes stay
 *              in memory and the next change tries again; the failed change itself was not applied.
 *
 * Threads. One at a time while building (hold a lock around batches of changes and around queries). Once
 * history_open() has returned a history, or after history_close() and history_open() anew, any number of
 * threads may query it at once without a lock (the columnar store; the tree needs one). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_HISTORY_H
#define HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/problem.h"
#include "base/text.h"

struct history;

/* ---- Values ---- */

enum history_type { HISTORY_NULL, HISTORY_INT, HISTORY_DOUBLE, HISTORY_STRING };

/* string is borrowed: as an input it is copied, as an output it lives until history_free(). Strings are kept
 * once, in memory, for as long as the history is open: use them for names (operations, functions, states),
 * not for data that differs at every change. Equal values are the same state: setting an attribute to the
 * value it has is no change (doubles compare by their bits, so that NaN equals NaN and -0 differs from 0). */
struct history_value {
    enum history_type type;
    union {
        int64_t integer;
        double number;
        const char *string;
    };
};

static inline struct history_value history_null(void)
{
    return (struct history_value){.type = HISTORY_NULL};
}

static inline struct history_value history_int(int64_t integer)
{
    return (struct history_value){.type = HISTORY_INT, .integer = integer};
}

static inline struct history_value history_double(double number)
{
    return (struct history_value){.type = HISTORY_DOUBLE, .number = number};
}

static inline struct history_value history_string(const char *string)
{
    return (struct history_value){.type = HISTORY_STRING, .string = string};
}

/* True when both are the same state, by the rule above. */
bool history_value_equal(struct history_value a, struct history_value b);

/* One state. While the history is being built, a state that has not ended has end_ns HISTORY_ONGOING; after
 * history_close() it ends with the history. */
struct history_interval {
    uint64_t start_ns;
    uint64_t end_ns; /* exclusive */
    uint32_t quark;
    struct history_value value;
};

#define HISTORY_ONGOING UINT64_MAX

/* ---- Create, open, close ---- */

enum history_store {
    HISTORY_COLUMNS, /* the store to use: see the essay in columns.c */
    HISTORY_TREE,    /* the State History Tree it is measured against: see tree.c */
};

/* Set size to sizeof(struct history_options); what is 0 gets its default. */
struct history_options {
    size_t size;
    enum history_store store;
    uint64_t start_ns;        /* no change may be earlier; 0 when unknown */
    uint32_t segment_changes; /* changes a segment; 0: 2^18 to 2^20 */
    bool durable;             /* fdatasync after every segment, so that a power cut loses no more than a kill
                               * does; otherwise only history_close() syncs */
};

/* Begins a new history in a new file at path (an existing one is replaced). */
int history_create(const char *path, const struct history_options *options, struct history **ret_history,
                   struct problem *problem);

/* Opens a history for queries, of either store. Needs memory for attributes and strings, none for states:
 * those are mapped. The file must not be cut short while it is open. */
int history_open(const char *path, struct history **ret_history, struct problem *problem);

/* Writes what is still in memory as a segment, so that from here on a killed builder loses only what comes
 * later. A recorder calls it every second or so. Each segment costs about five bytes for each attribute,
 * changed or not, so with very many attributes call it less often. 0 for the tree, which cannot do it. */
int history_flush(struct history *history, struct problem *problem);

/* Ends all states at end_ns (raised to one after the latest change when smaller) and completes the file. The
 * history takes no more changes but can be queried until history_free(). */
int history_close(struct history *history, uint64_t end_ns, struct problem *problem);

/* Frees a history; NULL is fine. One that was being built and not closed leaves its file as a kill would. */
void history_free(struct history *history);
DEFINE_FREEP(struct history, history_free)

struct history_info {
    enum history_store store;
    uint64_t start_ns;
    uint64_t end_ns;  /* exclusive; while building: one after the latest change */
    uint64_t changes; /* stored (for the tree: states) */
    uint32_t attributes, strings;
    uint32_t segments;
    uint64_t file_bytes;   /* so far */
    uint64_t memory_bytes; /* held by this history on the heap, roughly */
    bool building;
    bool complete;       /* history_close() was reached. If false after history_open(), the builder died: */
    uint64_t lost_bytes; /* ... so many bytes of an unfinished segment were at the end of the file */
};

void history_get_info(const struct history *history, struct history_info *ret_info);

/* ---- Attributes ---- */

/* The parent of the topmost attributes. Not an attribute itself. */
#define HISTORY_ROOT UINT32_MAX

/* Quarks are 0 .. count - 1, in order of creation, and never change. */
uint32_t history_count(const struct history *history);

/* The attribute called name below parent (a quark or HISTORY_ROOT). A name is any non-empty string, '/'
 * included. history_find() returns -ENOENT when there is none, history_add() creates it. */
int history_find(const struct history *history, uint32_t parent, const char *name, uint32_t *ret_quark);
int history_add(struct history *history, uint32_t parent, const char *name, uint32_t *ret_quark,
                struct problem *problem);

/* The same by path from the root: names joined by '/'. In a path, "\/" is a slash within a name and "\\" a
 * backslash. history_add_path() creates every missing attribute on the way. */
int history_find_path(const struct history *history, const char *path, uint32_t *ret_quark);
int history_add_path(struct history *history, const char *path, uint32_t *ret_quark, struct problem *problem);

/* All attributes whose path matches: an element "*" stands for one name, "**" for any number of names, also
 * none;
 * "\*" is the name "*". "Threads/" "*" "/Operation" lists that attribute of every thread. Quarks in ascending
 * order; *ret_quarks is owned by the caller (free()), NULL when the count is 0. */
int history_list(const struct history *history, const char *pattern, uint32_t **ret_quarks,
                 size_t *ret_count);

/* Walks the tree: the first child of an attribute (or of HISTORY_ROOT) and the next child of the same parent,
 * in order of creation; HISTORY_ROOT when there is none. */
uint32_t history_first_child(const struct history *history, uint32_t parent);
uint32_t history_next_sibling(const struct history *history, uint32_t quark);
uint32_t history_parent(const struct history *history, uint32_t quark);

/* The last name of its path, borrowed until the history is freed; NULL for an unknown quark. */
const char *history_name(const struct history *history, uint32_t quark);

/* Appends the full path, escaped so that history_find_path() finds it. */
void history_path(const struct history *history, uint32_t quark, struct text *text);

/* ---- Building ---- */

/* From time_ns on the attribute has this value. */
int history_modify(struct history *history, uint64_t time_ns, uint32_t quark, struct history_value value,
                   struct problem *problem);

/* A stack of states, for calls within calls. The attribute itself holds the depth (an integer, null when
 * empty), its children "1", "2", ... what lies at each depth. Pop sets the topmost child to null and returns
 * its value (null when the stack was empty, which is no error). -EINVAL when the attribute holds something
 * else than a depth, or 100,000 are stacked already (a leak in the caller's pairing).
 * Each is two changes: after a failed write the first of them may have been made. Call again to make the
 * other; a pop then returns null. */
int history_push(struct history *history, uint64_t time_ns, uint32_t quark, struct history_value value,
                 struct problem *problem);
int history_pop(struct history *history, uint64_t time_ns, uint32_t quark, struct history_value *ret_value,
                struct problem *problem);

/* From time_ns on the attribute and everything below it is null: a process that ended. Those that are null
 * already are left alone; -EINVAL, with nothing changed, when one of the others changed later than time_ns.
 */
int history_remove(struct history *history, uint64_t time_ns, uint32_t quark, struct problem *problem);

/* ---- Queries ----
 * All of them also work while the history is being built, and then see every change made so far. */

/* The latest state of the attribute: its end_ns is HISTORY_ONGOING, or the history's end. Fast (no file). */
int history_ongoing(const struct history *history, uint32_t quark, struct history_interval *ret_state);

/* The state at time_ns. */
int history_query(struct history *history, uint32_t quark, uint64_t time_ns,
                  struct history_interval *ret_state, struct problem *problem);

/* The state of every attribute at time_ns, into ret_states[0 .. history_count() - 1], indexed by quark. On
 * failure the array's content is undefined. */
int history_query_full(struct history *history, uint64_t time_ns, struct history_interval *ret_states,
                       struct problem *problem);

/* Receives states in a query's order. Returning other than 0 stops the query, which then returns that value.
 * The history must not be changed from within. */
typedef int history_state_fn(void *context, const struct history_interval *state);

/* The states of one attribute that overlap [start_ns, end_ns), in time order, whole (not clipped). */
int history_query_range(struct history *history, uint32_t quark, uint64_t start_ns, uint64_t end_ns,
                        history_state_fn *fn, void *context, struct problem *problem);

/* The states of several attributes as a view needs them: only those that hold at one of the sample times
 *     start_ns + i * (end_ns - start_ns) / columns,   i = 0 .. columns - 1
 * each once, attribute by attribute in the order given, in time order within each. The cost depends on the
 * number of samples, not on the number of states in between. To see what lies between the samples, use
 * history_summarize(). */
int history_query_2d(struct history *history, const uint32_t *quarks, size_t count, uint64_t start_ns,
                     uint64_t end_ns, uint32_t columns, history_state_fn *fn, void *context,
                     struct problem *problem);

/* What happened to one attribute within one column of a zoomed-out view. */
enum { HISTORY_SHARES = 4 };
struct history_summary {
    uint64_t start_ns, end_ns; /* of the column */
    uint64_t changes;          /* states that begin within it */
    uint32_t quark;
    uint32_t shares; /* how many of share[] are set */
    struct {
        struct history_value value; /* null is a value too */
        uint64_t held_ns;
    } share[HISTORY_SHARES]; /* longest first */
    uint64_t other_ns;       /* the rest of the column. All held_ns are exact when the attribute took at most
                              * HISTORY_SHARES values in the column. Otherwise each is a lower bound,
                              * short by no more than other_ns. */
};

typedef int history_summary_fn(void *context, uint32_t column, const struct history_summary *summary);

/* Divides [start_ns, end_ns) into columns (column i begins at the sample time i of history_query_2d()) and
 * says for each attribute and column how many changes it had and which values held how long, from summaries
 * kept for blocks of changes, for segments and for groups of 16 and 256 segments. Attribute by attribute in
 * the order given, columns ascending; columns of no length (more columns than nanoseconds) are left out. */
int history_summarize(struct history *history, const uint32_t *quarks, size_t count, uint64_t start_ns,
                      uint64_t end_ns, uint32_t columns, history_summary_fn *fn, void *context,
                      struct problem *problem);

/* The first state of the attribute that begins after time_ns, and the last one that begins before it. -ENOENT
 * when there is none. */
int history_next_change(struct history *history, uint32_t quark, uint64_t time_ns,
                        struct history_interval *ret_state, struct problem *problem);
int history_previous_change(struct history *history, uint32_t quark, uint64_t time_ns,
                            struct history_interval *ret_state, struct problem *problem);

#endif
