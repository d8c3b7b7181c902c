/* The way of every request through a cluster, from the recordings of its nodes and of the clients: when it
 * was sent, read, executed, put on the bus, read by the other nodes, written to the client or to the
 * subscribers, and got there (Redis microservices paper, IV-B2). A pass over all recordings at once.
 *
 * The two ends of a connection meet by their mirrored addresses; a client's call and the server's command by
 * the command's number on it; a bus message and its packet by their order on the link and what their last
 * bytes are; a write and its execution by a replica by their place in the replication stream. None of that
 * needs the hosts' clocks, so that a first pass can tell what was sent and received when (netflow_new() with
 * a callback), which brings the clocks together (trace/align.h), and a second one adds up the stages. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_NETFLOW_H
#define TARGETS_REDIS_NETFLOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/macro.h"
#include "base/map.h"
#include "span/sketch.h"
#include "trace/pass.h"

/* The points that a request passes. From each to the next one of its path that it passed is a stage. */
enum flow_point {
    FLOW_SENT,        /* the client writes it */
    FLOW_WOKE,        /* the node's loop is told that there is something to read */
    FLOW_READ,        /* it is read */
    FLOW_STARTED,     /* it is executed */
    FLOW_QUEUED,      /* its message is queued on a bus link */
    FLOW_BUS_WRITE,   /* that is written ... */
    FLOW_BUS_WRITTEN, /* ... to its end */
    FLOW_BUS_WOKE,    /* as FLOW_WOKE, of the other node */
    FLOW_BUS_READ,    /* the packet is processed */
    FLOW_BLOCKED,     /* the command has blocked its client, until it ends */
    FLOW_ENDED,       /* it was executed, or its message is queued for the subscriber */
    FLOW_WRITE,       /* the reply or message is written ... */
    FLOW_WRITTEN,     /* ... to its end */
    FLOW_GOT,         /* the client's loop is told that there is something to read */
    FLOW_ACK_WRITE,   /* of a WAIT, before FLOW_ENDED: the replica writes that it has executed all ... */
    FLOW_ACK_READ,    /* ... and the node executes that */
    FLOW_POINTS
};
#define FLOW_UNKNOWN INT64_MIN

enum flow_path {
    FLOW_REPLY,    /* to the client itself */
    FLOW_REDIRECT, /* the same, which sends it to another node: MOVED or ASK */
    FLOW_LOCAL,    /* a published message, to a subscriber of the same node */
    FLOW_BUS,      /* the same, of another node */
    FLOW_REPLICA,  /* a write, to a replica, which executes it: with the bus's points */
    FLOW_WAIT,     /* a WAIT, to the replica that it waited for last, and back */
    FLOW_PATHS
};

/* Why a life cycle is not complete. */
enum flow_reason {
    FLOW_COMPLETE,
    FLOW_UNFINISHED, /* at the recording's end */
    FLOW_LOST,       /* events of one of its processes were lost */
    FLOW_UNNUMBERED, /* a connection that was open before its server was attached to */
    FLOW_NO_CALL,    /* the client is traced, but did not record that it sent this */
    FLOW_NO_PACKET,  /* the other node is traced, but did not record this message */
    FLOW_NO_NODE,    /* the other node is not traced */
    FLOW_NO_REPLY,   /* nothing was written for very many commands of the client */
    FLOW_TOO_MANY,   /* more were under way at once than are kept */
    FLOW_REASONS
};

/* The life cycles of one command that one node executed, along one path: all figures but one are of those
 * that are complete. Times in ns. */
struct flow_row {
    const char *command;
    const struct flow_process *node;
    enum flow_path path;
    uint64_t count, from_traced, disordered, resent;
    uint64_t incomplete; /* of a command with its reply, or to a replica: beside those that count has */
    struct sketch
        total; /* from FLOW_SENT, where that is known, else FLOW_WOKE, to FLOW_GOT or FLOW_WRITTEN */
    struct sketch stage[FLOW_POINTS]; /* by the point that it begins with */
    struct sketch
        backlog; /* of the first stage: how long the node's loop was still busy with something else */
    uint64_t worst_ns;
    int64_t worst[FLOW_POINTS];            /* when the slowest one passed which point */
    const struct flow_process *worst_node; /* the subscriber's; NULL for other paths */
};

struct netflow_message {
    uint32_t from, to; /* hosts */
    uint64_t sent_ns, received_ns;
    bool certain; /* false: a reply to a client that once had several calls under way. It is told of a call
                   * that was sent when all others seemed to be answered, which is wrong when one read
                   * answered fewer calls than were under way, and the next one came before this call was
                   * executed. */
};

/* A message between two hosts, in no order of time; 0 or a negative errno, which ends the pass. */
typedef int (*netflow_message_fn)(void *context, const struct netflow_message *message);

struct netflow {
    netflow_message_fn message;
    void *context;
    struct netflow *before; /* an earlier pass, which knows whose two ends are both recorded, and of which
                             * processes events were lost; or NULL */
    const uint64_t
        *machines; /* by host: equal for recordings of one machine, which share its loopback addresses */
    uint64_t tolerance_ns; /* how far the hosts' clocks may be apart */
    struct arena arena;
    struct map strings, processes;
    struct map pairs; /* connections, by both addresses; once the pass is over none ... */
    struct map known; /* ... but what a later pass wants to know of them */
    ARRAY(struct flow_process *) all;
    ARRAY(struct flow_row *) rows;
    struct map row_of;
    struct flow *open;             /* all that are under way */
    struct flow_arrival *arrivals; /* all that there are */
    uint64_t open_count, unknown_count;
    uint64_t unknown_max; /* that wait for an end that nothing was seen of yet, in a first pass: the oldest
                           * are given up, since most clients are recorded at once or not at all */
    uint64_t flows, reasons[FLOW_REASONS], calls_unmatched;
    uint64_t copies[FLOW_REASONS];         /* of writes, at replicas that are recorded */
    uint64_t messages, messages_unmatched; /* on the bus, between nodes that are both recorded */
    bool ending;                           /* no more events will come */
    bool failed;
};

/* message may be NULL; before is an earlier pass, or NULL. It and machines (by host; NULL: there is one) are
 * borrowed. 0 or -ENOMEM.
 *
 * A loss is known some seconds after it happened. So that messages which are told rest on no record beside a
 * lost one, a pass that met losses (netflow_lost()) is repeated, with it as the one before. */
int netflow_new(netflow_message_fn message, void *context, const uint64_t *machines, struct netflow *before,
                struct netflow **ret_netflow);
struct pass netflow_pass(struct netflow *netflow);
bool netflow_lost(const struct netflow *netflow);
void netflow_free(struct netflow *netflow);
DEFINE_FREEP(struct netflow, netflow_free)

/* The point that follows along the path, FLOW_POINTS after the last one; flow_next_of(): the next one that
 * was passed. at: when, FLOW_POINTS of them, FLOW_UNKNOWN for the others. */
enum flow_point flow_next(enum flow_path path, enum flow_point point);
enum flow_point flow_next_of(enum flow_path path, const int64_t *at, enum flow_point point);
const char *flow_stage_name(enum flow_path path, enum flow_point point);
const char *flow_path_name(enum flow_path path);
const char *flow_reason_text(enum flow_reason reason);
const char *flow_node_name(const struct flow_process *node);

/* A row for each command and path, over all nodes; netflow_sums_done() when finished, also after an error. 0
 * or -ENOMEM. */
typedef ARRAY(struct flow_row) flow_sums;
int netflow_sums(const struct netflow *netflow, flow_sums *sums);
void netflow_sums_done(flow_sums *sums);

/* An object, owned by the caller; NULL when memory is exhausted. */
json_t *netflow_json(const struct netflow *netflow);

#endif
