/* What the files of netflow.h share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_REDIS_NETFLOW_INTERNAL_H
#define TARGETS_REDIS_NETFLOW_INTERNAL_H

#include <string.h>

#include "targets/redis/netflow.h"

/* First in, first out. Elements that are gone are overwritten as soon as there are as many as are left, which
 * costs at most one move for each, so that a queue takes no more than about three times what it once held:
 * there are tens of thousands. */
#define QUEUE(type)       \
    struct {              \
        ARRAY(type) list; \
        size_t first;     \
    }
#define queue_count(queue)    ((queue)->list.count - (queue)->first)
#define queue_at(queue, n)    ((queue)->list.at[(queue)->first + (n)])
#define queue_add(queue, ...) array_add(&(queue)->list, __VA_ARGS__)
#define queue_done(queue)           \
    do {                            \
        array_done(&(queue)->list); \
        (queue)->first = 0;         \
    } while (0)
#define queue_pop(queue)                                                 \
    do {                                                                 \
        size_t queue_left_ = queue_count(queue) - 1;                     \
        if (++(queue)->first >= queue_left_) {                           \
            memmove((queue)->list.at, (queue)->list.at + (queue)->first, \
                    queue_left_ * sizeof(*(queue)->list.at));            \
            (queue)->list.count = queue_left_;                           \
            (queue)->first = 0;                                          \
        }                                                                \
    } while (0)

enum {
    FLOW_QUEUED_MAX = 1 << 16, /* of one connection, of what waits for its other end */
    FLOW_UNSEEN_MAX = 1 << 10, /* the same of a client whose server nothing was seen of yet */
};

/* What a later pass wants to know of a connection: whether both ends are recorded; of each end whether it is
 * a replica's, and whether messages come to it that may have been lost on the way. */
enum { FLOW_KNOWN_BOTH = 1, FLOW_KNOWN_REPLICA = 1 << 1, FLOW_KNOWN_RECEIVES = 1 << 3 };

struct flow;
struct flow_end;

/* A message on its way to a subscriber. */
struct flow_delivery {
    struct flow_end *end;         /* the subscriber's connection; NULL unknown */
    struct flow *flow;            /* which waits for it; NULL: not known yet */
    struct flow_arrival *arrival; /* NULL: the subscriber is the publishing node's own */
    int64_t ended, write, written, got;
    int64_t tid;   /* that queued it */
    uint32_t turn; /* as flow.turn */
};

/* A bus message that a node has read. */
struct flow_arrival {
    struct flow_arrival *next, *before;
    struct flow_process *node;
    struct flow *flow; /* whose it is, once that is known */
    uint32_t mark, bytes, type;
    unsigned open;  /* deliveries under way, and FLOW_BUS_WOKE */
    uint8_t reason; /* why it is not complete */
    bool waits;     /* for the message that was sent */
    int64_t queued, write, written, woke, start;
    ARRAY(struct flow_delivery *) deliveries;
};

/* A bus message that a node has put on a link. */
struct flow_sent {
    struct flow *flow; /* NULL: of no command */
    uint32_t mark, bytes, type;
    uint64_t upto; /* bytes queued on the link, with it */
    int64_t queued, write, written;
    uint32_t turn; /* as flow.turn */
    bool lost;     /* when it was written is not known */
};

/* What a server has put into the output for its replicas. */
struct flow_fed {
    uint64_t offset; /* in the replication stream, behind it */
    uint32_t bytes;
    int64_t time;
};

/* What a replica has executed of it. */
struct flow_applied {
    struct flow_end *end; /* over which it came; NULL: not known yet */
    uint64_t offset;
    uint32_t bytes;
    uint64_t number;    /* of the command on the connection; 0 unknown */
    uint64_t client_id; /* whose the command was; 0: it has no record */
    const char *command;
    bool lost; /* not all of it is known */
    int64_t woke, start, ended;
    int64_t time; /* surely behind it */
};

/* Bytes from a replica to the server, since it asked for what there is. */
struct flow_passed {
    uint64_t upto;
    int64_t time;
};

struct flow_ack {
    uint64_t offset; /* up to which the replica has executed when it writes it */
    int64_t time;
};

/* A write, or the request for an acknowledgement, on its way to one replica. */
struct flow_copy {
    struct flow *flow; /* which waits for it: the write's, or that of a WAIT; NULL: none */
    struct flow_end *end;
    struct flow_process *node; /* the replica, once it has it */
    uint64_t offset;
    uint64_t bytes;           /* up to offset */
    uint64_t upto;            /* bytes queued for the replica, with it */
    unsigned holders;         /* who frees it */
    uint32_t turn;            /* as flow.turn */
    bool asks;                /* of no command: it may ask for an acknowledgement */
    bool lost, over, skipped; /* skipped: the replica has it by other means */
    uint8_t reason;           /* once it is over */
    int64_t queued, write, written, woke, start, ended, acked, heard;
};

/* A command's life. */
struct flow {
    struct flow *next, *before;
    struct flow_process *node;
    struct flow_end *end; /* NULL unknown */
    const char *command;
    uint64_t number;
    int64_t at[FLOW_POINTS]; /* those of its reply */
    int64_t busy_until;      /* before its loop was told: when that began to wait; FLOW_UNKNOWN */
    unsigned open;           /* parts that are under way */
    uint8_t reason;
    bool threaded, resent, redirected;
    bool unknown;    /* it waits for a client's end that nothing was seen of when it was executed */
    bool read_known; /* at[FLOW_READ] is certain, also when records were lost */
    bool unblocked;  /* that the client goes on was recorded */
    uint32_t turn;   /* of its node's loop, when it ended */
    int64_t tid;     /* that executed it */
    ARRAY(struct flow_arrival *) arrivals;
    ARRAY(struct flow_delivery *) deliveries; /* of the own node */
    ARRAY(struct flow_copy *) copies;         /* to replicas */
    struct flow_copy *asked;                  /* of a WAIT; NULL: unknown */
};

struct flow_call {
    uint64_t number;
    int64_t sent, got; /* got: FLOW_UNKNOWN: not known without the server's end */
    bool several;      /* others were under way at the same time, or may have been */
    bool unsure;       /* others were at some time before: what was read may answer one of those */
};

enum { FLOW_RESENT_KEPT = 8 };

/* When a client's loop handled that there was something to read. */
struct flow_readable {
    int64_t start, end;
};

struct flow_pair;

/* One end of a connection. */
struct flow_end {
    struct flow_pair *pair;
    struct flow_process *process;
    int32_t fd;
    uint32_t generation;
    bool unsure;                              /* events were lost: order alone proves nothing */
    bool receives;                            /* published messages */
    bool replica;                             /* the server's end, and the other one is its replica */
    struct flow_stream *stream;               /* of replication; NULL: none */
    uint64_t client_id;                       /* the server's client on it; 0: not known yet */
    uint64_t called;                          /* number of the client's last call */
    bool uncertain;                           /* more calls may be under way than are known */
    bool pipelined;                           /* several calls were under way at once */
    int64_t wrote;                            /* when its server began to write last; FLOW_UNKNOWN: never */
    size_t answered;                          /* of the calls, from the oldest on */
    QUEUE(struct flow_call) calls;            /* that its client sent */
    QUEUE(struct flow_readable) readable;     /* by its client */
    QUEUE(struct flow *) flows;               /* that its server executed */
    QUEUE(struct flow_delivery *) deliveries; /* that its server wrote, and its client did not read yet */
    QUEUE(struct flow_sent) sent;
    QUEUE(struct flow_arrival *) arrived;
};

struct flow_pair {
    struct flow_end ends[2]; /* that of the lower address first */
    bool both;               /* both ends are recorded, as far as is known */
    int64_t resent[FLOW_RESENT_KEPT];
    unsigned resent_count;
};

struct flow_link {
    struct flow_end *end;                 /* NULL: not known yet */
    uint64_t queued, done;                /* bytes */
    QUEUE(struct flow_sent) sent;         /* and not written yet */
    ARRAY(struct flow_arrival *) arrived; /* before it was known which connection this is */
};

struct flow_client {
    struct flow_end *end;
    int64_t read;    /* when it was read last; FLOW_UNKNOWN: never */
    int64_t written; /* when it was written to last; FLOW_UNKNOWN: never */
    int64_t read_tid;
    int64_t blocked; /* since when, by the command that goes on; FLOW_UNKNOWN: it is not */
    uint64_t sent;   /* bytes written to it; of a replica: that it was heard to say since it asked for all */
    enum { HEARD_NOTHING, HEARD_ASKING, HEARD_SINCE } heard;
    bool silent; /* its commands are not answered: they come from the server that it replicates */
    ARRAY(struct flow *) unwritten;
    ARRAY(struct flow_delivery *) pending;
};

struct flow_told {
    uint64_t client_id;
    int64_t time, tid;
    int32_t fd;
};

struct flow_process {
    uint32_t host;
    int64_t pid;
    const char *name, *address; /* "redis:7000"; of its first connection; NULL unknown */
    struct map fds, clients, links, names;
    ARRAY(struct flow *) waking;           /* read since the loop was told last */
    ARRAY(struct flow_arrival *) arriving; /* the same of packets */
    ARRAY(struct flow_sent) sending;       /* put on links by the command that goes on ... */
    ARRAY(struct flow_link *) sending_on;  /* ... on which */
    ARRAY(struct flow_told) told;          /* messages queued for subscribers since then */
    int64_t woke, busy_until;
    ARRAY(struct flow_fed) fed;         /* since the command before */
    ARRAY(struct flow_applied) applied; /* since the loop was told last */
    ARRAY(struct flow_end *) replicas;  /* its ends of the connections to them */
    QUEUE(struct flow_copy *) asks;     /* that were queued last */
    struct flow_end *heard;             /* the replica that has acknowledged something last; NULL: none */
    int64_t heard_at;                   /* when that was executed, and in which turn */
    uint32_t heard_turn;
    int64_t command_start, command_ended;    /* of the newest command */
    uint64_t command_number, command_client; /* command_client: 0: it is known what it has replicated */
    const char *command_name;
    uint32_t turns;  /* of its loop that were recorded */
    uint32_t active; /* after so many of them a packet was read, so that the next one had begun */
    bool lost;       /* events of it; in a pass that knows an earlier one: at any time */
};

static inline struct flow_end *flow_other(struct flow_end *end)
{
    struct flow_pair *pair = end->pair;
    return &pair->ends[end == &pair->ends[0]];
}

/* A copy of the string that lives as long as the netflow, the same pointer for equal strings. */
const char *flow_intern(struct netflow *netflow, const char *text, size_t length);

/* The process of the event's host, made when it is new; NULL when memory is exhausted. */
struct flow_process *flow_process_get(struct netflow *netflow, const struct event *event, int64_t pid);

/* The connection behind a descriptor, or NULL. */
struct flow_end *flow_end_of(const struct flow_process *process, int64_t fd);

/* A command that was executed waits until it is known when its client sent it. */
void flow_waits_for_call(struct netflow *netflow, struct flow *flow);

/* net:connection, tcp:retransmit; uv:write and uv:io of a client. */
void flow_connection_event(struct netflow *netflow, struct flow_process *process, const struct event *event);
void flow_resent_event(struct netflow *netflow, const struct event *event);
int flow_write_event(struct netflow *netflow, struct flow_process *process, const struct event *event);
int flow_readable_event(struct netflow *netflow, struct flow_process *process, const struct event *event);

/* Whether events were lost of the process at this end. */
static inline bool flow_end_lost(const struct flow_end *end)
{
    return end && end->process && end->process->lost;
}

/* trace:loss. */
void flow_loss_event(struct flow_process *process);

/* A reply or message is written before the loop waits again. Where records were lost: whether the write event
 * came later than that for what the thread tid queued in the loop's turn, and so may be another one's. */
bool flow_written_later(const struct flow_process *process, int64_t tid, uint32_t turn,
                        const struct event *event);

/* Where records were lost: whether the read and the write event that the client's commands seem to have may
 * be those of others, which have none. */
bool flow_others_missing(const struct flow_process *process, const struct flow_client *client,
                         const struct event *event);

/* Where records were lost, the bytes written on a link do not add up any more. All that was queued is written
 * at once as soon as the loop goes round, unless that was too much: then it is not known when. bytes: that
 * are written now, negative: unknown. */
void flow_written_with_losses(const struct flow_process *process, struct flow_link *link, int64_t bytes);

/* Whether the connection's other end is recorded, as far as is known. */
bool flow_both(const struct flow_end *end);

/* A part of a life cycle is over, or will never be (reason); the last one ends it. */
void flow_part(struct netflow *netflow, struct flow *flow, enum flow_reason reason);
void flow_arrival_part(struct netflow *netflow, struct flow_arrival *arrival, enum flow_reason reason);
void flow_delivery_over(struct netflow *netflow, struct flow_delivery *delivery, enum flow_reason reason);
void flow_arrival_free(struct netflow *netflow, struct flow_arrival *arrival);

/* The oldest call of a client is over. */
void flow_call_pop(struct flow_end *client);

/* The pass is over: of connections only what a later one wants to know is kept (netflow.known). */
void flow_pairs_forget(struct netflow *netflow);

/* Joins what the connection's two ends have told so far. 0 or a negative errno. */
int flow_match_calls(struct netflow *netflow, struct flow_end *server);
int flow_match_bus(struct netflow *netflow, struct flow_end *sender);
void flow_match_readable(struct netflow *netflow, struct flow_end *server);

void flow_row_free(struct flow_row *row);

/* 0 or a negative errno: that a message was sent and received, to whom it concerns. certain: as in struct
 * netflow_message. */
int flow_tell(struct netflow *netflow, const struct flow_process *from, const struct flow_process *to,
              int64_t sent, int64_t received, bool certain);

/* ---- replication (netflow_replica.c); end: the server's end of the connection to a replica ---- */

void flow_replica_found(struct netflow *netflow, struct flow_process *process, struct flow_end *end);
void flow_replica_gone(struct netflow *netflow, struct flow_process *process, struct flow_end *end);

/* redis:replicated, redis:fork. */
void flow_replicated_event(struct netflow *netflow, struct flow_process *process, const struct event *event);
void flow_fork_event(struct netflow *netflow, struct flow_process *process);

/* What was queued for the replicas since start is this command's, the rest is no command's. flow: NULL: none.
 */
void flow_take_fed(struct netflow *netflow, struct flow_process *process, int64_t start, struct flow *flow);

/* A command that came from a client: whether it is one of a replica's, which nobody waits for. */
bool flow_replica_command(struct netflow *netflow, struct flow_process *process, struct flow_client *client,
                          const char *command, int64_t start);

/* Bytes were written to a client, which may be a replica: 0 or a negative errno. negative bytes: unknown. */
int flow_replica_written(struct netflow *netflow, struct flow_process *process, struct flow_end *end,
                         int64_t start, int64_t written, int64_t bytes);

/* A blocked client goes on. */
void flow_wait_over(struct netflow *netflow, struct flow_process *process, struct flow *flow);

/* Of a replica: a connection was read; of the server: the same, to its end; of a replica: its loop went
 * round, of which it was told at start; something was written to a client, which may be the server that it
 * replicates. 0 or a negative errno. */
void flow_replica_read(struct flow_process *process, struct flow_client *client, uint64_t id, int64_t start);
int flow_replica_heard(struct netflow *netflow, struct flow_client *client, int64_t bytes, int64_t end);
int flow_replica_turn(struct netflow *netflow, struct flow_process *process, int64_t start);
int flow_replica_acks(struct netflow *netflow, struct flow_client *client, int64_t start, int64_t bytes);

/* A write to a replica whose record at the node was lost. */
void flow_copy_lost(struct netflow *netflow, struct flow_process *node, const char *command);
int flow_match_copies(struct netflow *netflow, struct flow_end *end);

/* When a write, or a WAIT, passed which point on its way to that replica. */
void flow_copy_points(const struct flow *flow, const struct flow_copy *copy, int64_t at[FLOW_POINTS]);

void flow_copies_done(struct flow *flow);
void flow_asks_done(struct flow_process *process);
void flow_stream_free(struct netflow *netflow, struct flow_end *end, enum flow_reason reason);

/* Everything that waits on an end is given up. */
void flow_end_clear(struct netflow *netflow, struct flow_end *end, enum flow_reason reason);

#endif
