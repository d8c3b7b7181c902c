/* See netflow.h: what is shown of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/schema.h"
#include "targets/redis/netflow_internal.h"

const char *flow_stage_name(enum flow_path path, enum flow_point point)
{
    static const char *const NAMES[FLOW_POINTS] = {
        [FLOW_SENT] = "network and socket",
        [FLOW_WOKE] = "behind other requests",
        [FLOW_READ] = "reading",
        [FLOW_STARTED] = "executing",
        [FLOW_QUEUED] = "bus: queued",
        [FLOW_BUS_WRITE] = "bus: writing",
        [FLOW_BUS_WRITTEN] = "bus: network and socket",
        [FLOW_BUS_WOKE] = "bus: behind other work",
        [FLOW_BUS_READ] = "bus: processing",
        [FLOW_BLOCKED] = "blocked",
        [FLOW_ENDED] = "before it is written",
        [FLOW_WRITE] = "writing",
        [FLOW_WRITTEN] = "network and socket, back",
    };
    static const char *const REPLICA[FLOW_POINTS] = {
        [FLOW_STARTED] = "executing, until it is queued",
        [FLOW_QUEUED] = "replica: queued",
        [FLOW_BUS_WRITE] = "replica: writing",
        [FLOW_BUS_WRITTEN] = "replica: network and socket",
        [FLOW_BUS_WOKE] = "replica: behind other work",
        [FLOW_BUS_READ] = "replica: executing",
        [FLOW_ACK_WRITE] = "acknowledgement: to the node",
        [FLOW_ACK_READ] = "acknowledgement: until it counts",
    };
    if (path == FLOW_WAIT && point == FLOW_STARTED)
        return "executing, until a replica is asked";
    if (path == FLOW_WAIT && point == FLOW_BUS_READ)
        return "replica: executing, until it answers";
    if ((path == FLOW_REPLICA || path == FLOW_WAIT) && REPLICA[point])
        return REPLICA[point];
    return point == FLOW_STARTED && path == FLOW_BUS ? "executing, until it is on the bus" : NAMES[point];
}

const char *flow_path_name(enum flow_path path)
{
    static const char *const NAMES[FLOW_PATHS] = {"reply",
                                                  "redirection to another node",
                                                  "message to a subscriber of the node",
                                                  "message to a subscriber of another node",
                                                  "write to a replica",
                                                  "to a replica and back"};
    return NAMES[path];
}

const char *flow_reason_text(enum flow_reason reason)
{
    static const char *const TEXTS[FLOW_REASONS] = {
        [FLOW_COMPLETE] = "complete",
        [FLOW_UNFINISHED] = "under way when the recording or the connection ended",
        [FLOW_LOST] = "events of the node or of the other end were lost",
        [FLOW_UNNUMBERED] = "the connection was open before the node was attached to",
        [FLOW_NO_CALL] = "the client's record of sending it is missing",
        [FLOW_NO_PACKET] = "the other node's record of it is missing",
        [FLOW_NO_NODE] = "another node of the cluster was not recorded",
        [FLOW_NO_REPLY] = "the client's commands are not answered (replication)",
        [FLOW_TOO_MANY] = "too many were under way at once",
    };
    return TEXTS[reason];
}

const char *flow_node_name(const struct flow_process *node)
{
    return node && node->name ? node->name : "unknown";
}

static json_t *sketch_json(const struct sketch *sketch)
{
    return json_pack("{s:I, s:I, s:I}", "mean_ns", (json_int_t)sketch_mean(sketch), "p50_ns",
                     (json_int_t)sketch_quantile(sketch, 0.5), "p99_ns",
                     (json_int_t)sketch_quantile(sketch, 0.99));
}

static json_t *stages_json(const struct flow_row *row)
{
    json_t *array = json_array();
    for (enum flow_point p = FLOW_SENT; p < FLOW_POINTS; p = flow_next(row->path, p)) {
        if (!row->stage[p].count)
            continue;
        enum flow_point next =
            row->worst[p] == FLOW_UNKNOWN ? FLOW_POINTS : flow_next_of(row->path, row->worst, p);
        json_t *stage = sketch_json(&row->stage[p]);
        if (stage)
            json_object_set_new(stage, "name", json_string(flow_stage_name(row->path, p)));
        if (stage && next < FLOW_POINTS)
            json_object_set_new(stage, "of_slowest_ns", json_integer(row->worst[next] - row->worst[p]));
        json_array_append_new(array, stage);
    }
    return array;
}

/* node: which one executed them; NULL: all of them. */
static json_t *row_json(const struct flow_row *row, const char *node)
{
    return json_pack("{s:s, s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:o}", "command", row->command,
                     "path", flow_path_name(row->path), "node", node, "count", (json_int_t)row->count,
                     "incomplete_count", (json_int_t)row->incomplete, "from_traced_clients_count",
                     (json_int_t)row->from_traced, "disordered_count", (json_int_t)row->disordered,
                     "retransmitted_count", (json_int_t)row->resent, "total", sketch_json(&row->total),
                     "socket_backlog", sketch_json(&row->backlog), "worst_ns", (json_int_t)row->worst_ns,
                     "stages", stages_json(row));
}

json_t *netflow_json(const struct netflow *n)
{
    json_t *rows = json_array(), *all = json_array(), *incomplete = json_object(), *copies = json_object();
    flow_sums sums = {0};
    int r = netflow_sums(n, &sums);
    array_foreach (&sums, row)
        json_array_append_new(all, row_json(row, NULL));
    netflow_sums_done(&sums);
    array_foreach (&n->rows, row)
        json_array_append_new(rows, row_json(*row, flow_node_name((*row)->node)));
    for (enum flow_reason reason = FLOW_COMPLETE + 1; reason < FLOW_REASONS; reason++)
        if (n->reasons[reason])
            json_object_set_new(incomplete, flow_reason_text(reason),
                                json_integer((json_int_t)n->reasons[reason]));
    for (enum flow_reason reason = FLOW_COMPLETE; reason < FLOW_REASONS; reason++)
        if (n->copies[reason])
            json_object_set_new(copies, flow_reason_text(reason),
                                json_integer((json_int_t)n->copies[reason]));
    json_t *document = json_pack(
        "{s:i, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:o, s:o}", "schema", SCHEMA_netflow, "flows_count",
        (json_int_t)n->flows, "complete_count", (json_int_t)n->reasons[FLOW_COMPLETE], "incomplete",
        incomplete, "replicated", copies, "unmatched_calls_count", (json_int_t)n->calls_unmatched,
        "bus_messages_count", (json_int_t)n->messages, "unmatched_bus_messages_count",
        (json_int_t)n->messages_unmatched, "commands", all, "nodes", rows);
    if (r < 0) {
        json_decref(document);
        return NULL;
    }
    return document;
}
