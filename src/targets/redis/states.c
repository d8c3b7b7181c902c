/* What a Redis server does as states over time: the entities and attributes of the Redis microservices
 * paper's figure 3, Connections, Requests, Bus, Threads and Event loop. The table PLACES is the list of
 * attributes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "event/event.h"
#include "targets/redis/events_bus.h"

/* 0 and -1 where a recording does not have them. */
#define HAS(e, field) event_has(e, FIELD_##field)
#define U(e, field)   (HAS(e, field) ? (e)->values[FIELD_##field].u : 0)
#define I(e, field)   (HAS(e, field) ? (e)->values[FIELD_##field].i : -1)

/* Of which there are several in a server, each below a folder of its own and named by its number. */
enum entity { SERVER, CONNECTION, THREAD, LINK, ENTITIES };

static const char *const FOLDERS[] = {
    [CONNECTION] = "Connections", [THREAD] = "Threads", [LINK] = "Bus/Links"};

enum attribute {
    /* of a server: what its main thread executes, its loop, its memory, and the volume so far */
    REQUEST_COMMAND,
    REQUEST_CONNECTION,
    REQUEST_TYPE,
    REQUEST_STRUCTURE,
    REQUEST_BYTES,
    LOOP_PHASE,
    LOOP_READY,
    LOOP_PENDING,
    MEMORY,
    BUS_SENT,
    BUS_RECEIVED,
    BUS_SENDING,
    BUS_RECEIVING,
    SERVER_END,
    /* of a connection */
    COMMAND = 0,
    TYPE,
    BLOCKED,
    READ_BY,
    WRITTEN_BY,
    QUERY_BUFFER,
    IN_BYTES,
    OUT_BYTES,
    CONNECTION_END,
    /* of a thread: the connection for which it does so */
    READS = 0,
    EXECUTES,
    WRITES,
    THREAD_END,
    /* of a link of the bus */
    LINK_IN = 0,
    LINK_OUT,
    LINK_END,
    MOST = SERVER_END,
};

static const char *const PLACES[ENTITIES][MOST] = {
    [SERVER] = {[REQUEST_COMMAND] = "Requests/Command",
                [REQUEST_CONNECTION] = "Requests/Connection",
                [REQUEST_TYPE] = "Requests/Type",
                [REQUEST_STRUCTURE] = "Requests/Data structure",
                [REQUEST_BYTES] = "Requests/Argument bytes",
                [LOOP_PHASE] = "Event loop/Phase",
                [LOOP_READY] = "Event loop/Ready",
                [LOOP_PENDING] = "Event loop/Pending reads",
                [MEMORY] = "Memory",
                [BUS_SENT] = "Bus/Sent bytes",
                [BUS_RECEIVED] = "Bus/Received bytes",
                [BUS_SENDING] = "Bus/Sends",
                [BUS_RECEIVING] = "Bus/Receives"},
    [CONNECTION] = {[COMMAND] = "Command",
                    [TYPE] = "Type",
                    [BLOCKED] = "Blocked in",
                    [READ_BY] = "Read by",
                    [WRITTEN_BY] = "Written by",
                    [QUERY_BUFFER] = "Query buffer",
                    [IN_BYTES] = "Bytes in",
                    [OUT_BYTES] = "Bytes out"},
    [THREAD] = {[READS] = "Reads", [EXECUTES] = "Executes", [WRITES] = "Writes"},
    [LINK] = {[LINK_IN] = "Bytes in", [LINK_OUT] = "Bytes out"},
};

/* One of an entity; attributes are made when they first have a value. */
struct thing {
    uint32_t base, quarks[MOST]; /* base EMIT_NONE: not made yet */
    uint64_t counts[2];          /* bytes in and out, of a server those of the bus */
    int64_t pending; /* of a server: reads that are left to I/O threads; of a connection: 1 it is */
    bool replica;
};

struct redis_states {
    struct map of; /* hash of host, pid, entity and number -> index into things */
    ARRAY(struct thing) things;
};

/* ---- places ---- */

/* "A/B" below a parent. */
static int below(struct state_places *places, uint32_t parent, const char *path, uint32_t *ret_quark)
{
    char name[64];
    int r = 0;
    *ret_quark = parent;
    while (r >= 0 && *path) {
        size_t length = strcspn(path, "/");
        snprintf(name, sizeof(name), "%.*s", (int)length, path);
        r = emit_attribute(places->emit, *ret_quark, name, ret_quark);
        path += length + (path[length] == '/');
    }
    return r;
}

static int thing_make(struct state_places *places, const struct event *e, enum entity entity, uint64_t number,
                      uint32_t *ret_base)
{
    struct state_host *host;
    char text[24];
    int r = state_host_at(places, e->trace, &host);
    if (r >= 0)
        r = emit_attribute(places->emit, host->root, "Redis", ret_base);
    snprintf(text, sizeof(text), "%" PRId64, e->pid);
    if (r >= 0)
        r = emit_attribute(places->emit, *ret_base, text, ret_base);
    if (r < 0 || entity == SERVER)
        return r;
    snprintf(text, sizeof(text), "%" PRIu64, number);
    r = below(places, *ret_base, FOLDERS[entity], ret_base);
    return r < 0 ? r : emit_attribute(places->emit, *ret_base, text, ret_base);
}

/* Valid until the next one is made. */
static int thing_at(struct redis_states *s, struct state_places *places, const struct event *e,
                    enum entity entity, uint64_t number, struct thing **ret_thing)
{
    uint64_t words[4] = {e->trace, (uint64_t)e->pid, entity, number}, key = map_hash(words, sizeof(words));
    bool is_new;
    uint64_t *place = map_put(&s->of, key, &is_new);
    if (!place)
        return -ENOMEM;
    if (is_new) {
        struct thing thing = {.base = EMIT_NONE};
        for (unsigned i = 0; i < MOST; i++)
            thing.quarks[i] = EMIT_NONE;
        int r = thing_make(places, e, entity, number, &thing.base);
        *place = s->things.count;
        if (r >= 0 && array_add(&s->things, thing) < 0)
            r = -ENOMEM;
        if (r < 0) {
            map_remove(&s->of, key);
            return r;
        }
    }
    *ret_thing = &s->things.at[*place];
    return 0;
}

static int place(struct state_places *places, struct thing *thing, enum entity entity, unsigned attribute)
{
    return thing->quarks[attribute] != EMIT_NONE
               ? 0
               : below(places, thing->base, PLACES[entity][attribute], &thing->quarks[attribute]);
}

/* From then on. */
static int set(struct state_places *places, struct thing *thing, enum entity entity, unsigned attribute,
               uint64_t time_ns, struct history_value value)
{
    int r = place(places, thing, entity, attribute);
    return r < 0 ? r : emit_state(places->emit, time_ns, thing->quarks[attribute], value);
}

/* While the event's span lasts. */
static int during(struct state_places *places, struct thing *thing, enum entity entity, unsigned attribute,
                  const struct event *e, struct history_value value)
{
    int r = place(places, thing, entity, attribute);
    return r < 0 ? r
                 : emit_interval(places->emit, state_start(e), e->time_ns, thing->quarks[attribute], value);
}

static struct history_value number(uint64_t value)
{
    return history_int((int64_t)value);
}

/* ---- requests ---- */

/* What a command works on, by its name: Redis 7.2's groups of commands, but for those of keys and servers. */
static const char *structure_of(const char *name)
{
    static const struct {
        const char *structure, *commands; /* each between spaces */
    } GROUPS[] = {
        {"string",
         " append decr decrby get getdel getex getrange getset incr incrby incrbyfloat lcs mget mset "
         "msetnx psetex set setex setnx setrange strlen substr "},
        {"bitmap", " bitcount bitfield bitfield_ro bitop bitpos getbit setbit "},
        {"list",
         " blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush lpushx "
         "lrange lrem lset ltrim rpop rpoplpush rpush rpushx "},
        {"hash",
         " hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan hset "
         "hsetnx hstrlen hvals "},
        {"set",
         " sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember smove "
         "spop srandmember srem sscan sunion sunionstore "},
        {"sorted set",
         " bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard "
         "zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex "
         "zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore "
         "zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore "},
        {"stream", " xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup "
                   "xrevrange xsetid xtrim "},
        {"hyperloglog", " pfadd pfcount pfdebug pfmerge pfselftest "},
        {"geo", " geoadd geodist geohash geopos georadius georadius_ro georadiusbymember "
                "georadiusbymember_ro geosearch geosearchstore "},
        {"channel", " psubscribe publish pubsub punsubscribe spublish ssubscribe subscribe sunsubscribe "
                    "unsubscribe "},
        {"script", " eval eval_ro evalsha evalsha_ro fcall fcall_ro function script "},
    };
    char word[32];
    snprintf(word, sizeof(word), " %.*s ", (int)MIN(strcspn(name, "|"), sizeof(word) - 3), name);
    for (size_t i = 0; i < ARRAY_SIZE(GROUPS); i++)
        if (strstr(GROUPS[i].commands, word))
            return GROUPS[i].structure;
    return NULL;
}

static int on_request(struct state_places *places, struct thing *server, const struct event *e,
                      const char *name)
{
    const char *structure = structure_of(name);
    const char *type = event_label(SONDE_MEANING_redis_kind, U(e, redis_command_kind));
    int r = during(places, server, SERVER, REQUEST_COMMAND, e, history_string(name));
    if (r >= 0)
        r = during(places, server, SERVER, REQUEST_CONNECTION, e,
                   number(e->values[FIELD_redis_command_client_id].u));
    if (r >= 0 && type && HAS(e, redis_command_kind))
        r = during(places, server, SERVER, REQUEST_TYPE, e, history_string(type));
    if (r >= 0 && structure)
        r = during(places, server, SERVER, REQUEST_STRUCTURE, e, history_string(structure));
    if (r >= 0 && HAS(e, redis_command_bytes))
        r = during(places, server, SERVER, REQUEST_BYTES, e, number(U(e, redis_command_bytes)));
    return r;
}

static int on_command(struct redis_states *s, struct state_places *places, const struct event *e)
{
    uint64_t id = e->values[FIELD_redis_command_client_id].u;
    const char *name =
        event_names_get(&places->names, e->trace, e->pid, e->values[FIELD_redis_command_name].u);
    struct thing *thing;
    name = name ? name : "unknown";
    if (U(e, redis_command_depth)) /* within a command, whose state is told */
        return 0;
    int r = thing_at(s, places, e, SERVER, 0, &thing);
    if (r >= 0)
        r = on_request(places, thing, e, name);
    if (r >= 0)
        r = thing_at(s, places, e, THREAD, (uint64_t)e->tid, &thing);
    if (r >= 0)
        r = during(places, thing, THREAD, EXECUTES, e, number(id));
    if (r >= 0)
        r = thing_at(s, places, e, CONNECTION, id, &thing);
    if (r >= 0)
        r = during(places, thing, CONNECTION, COMMAND, e, history_string(name));
    if (r >= 0 && !thing->replica && (strcmp(name, "psync") == 0 || strcmp(name, "sync") == 0)) {
        thing->replica = true;
        r = set(places, thing, CONNECTION, TYPE, e->time_ns, history_string("replica"));
    }
    return r;
}

/* ---- connections ---- */

static int set_pending(struct redis_states *s, struct state_places *places, const struct event *e,
                       uint64_t id, bool pending)
{
    struct thing *thing;
    int r = thing_at(s, places, e, CONNECTION, id, &thing);
    if (r < 0 || thing->pending == pending)
        return r;
    thing->pending = pending;
    r = thing_at(s, places, e, SERVER, 0, &thing);
    if (r < 0)
        return r;
    thing->pending += pending ? 1 : -1;
    return set(places, thing, SERVER, LOOP_PENDING, e->time_ns, history_int(thing->pending));
}

/* Plain or TLS, by what passed the socket. */
static int on_bytes(struct state_places *places, struct thing *client, const struct event *e, bool in,
                    int64_t bytes, int64_t wire)
{
    static const unsigned PLACE[] = {OUT_BYTES, IN_BYTES};
    int r = 0;
    if (bytes <= 0)
        return 0;
    if (!client->counts[0] && !client->counts[1] && !client->replica)
        r = set(places, client, CONNECTION, TYPE, e->time_ns,
                history_string(wire > bytes ? "client, TLS" : "client"));
    client->counts[in] += (uint64_t)bytes;
    return r < 0 ? r : set(places, client, CONNECTION, PLACE[in], e->time_ns, number(client->counts[in]));
}

static int on_read(struct redis_states *s, struct state_places *places, const struct event *e)
{
    uint64_t id = e->values[FIELD_redis_read_query_client_id].u;
    int64_t bytes = I(e, redis_read_query_bytes);
    struct thing *thing;
    int r = thing_at(s, places, e, THREAD, (uint64_t)e->tid, &thing);
    if (r >= 0)
        r = during(places, thing, THREAD, READS, e, number(id));
    if (r >= 0 && bytes)
        r = set_pending(s, places, e, id, false);
    if (r >= 0)
        r = thing_at(s, places, e, CONNECTION, id, &thing);
    if (r >= 0)
        r = during(places, thing, CONNECTION, READ_BY, e, history_int(e->tid));
    if (r >= 0 && HAS(e, redis_read_query_query_buffer))
        r = set(places, thing, CONNECTION, QUERY_BUFFER, e->time_ns,
                number(U(e, redis_read_query_query_buffer) + (uint64_t)MAX(bytes, 0)));
    if (r >= 0)
        r = on_bytes(places, thing, e, true, bytes, I(e, redis_read_query_wire_bytes));
    if (r < 0 || !U(e, redis_read_query_used_memory))
        return r;
    r = thing_at(s, places, e, SERVER, 0, &thing);
    return r < 0 ? r
                 : set(places, thing, SERVER, MEMORY, e->time_ns, number(U(e, redis_read_query_used_memory)));
}

static int on_reply(struct redis_states *s, struct state_places *places, const struct event *e)
{
    uint64_t id = e->values[FIELD_redis_write_reply_client_id].u;
    struct thing *thing;
    int r = thing_at(s, places, e, THREAD, (uint64_t)e->tid, &thing);
    if (r >= 0)
        r = during(places, thing, THREAD, WRITES, e, number(id));
    if (r >= 0)
        r = thing_at(s, places, e, CONNECTION, id, &thing);
    if (r >= 0)
        r = during(places, thing, CONNECTION, WRITTEN_BY, e, history_int(e->tid));
    return r < 0 ? r
                 : on_bytes(places, thing, e, false, I(e, redis_write_reply_bytes),
                            I(e, redis_write_reply_wire_bytes));
}

static int on_block(struct redis_states *s, struct state_places *places, const struct event *e)
{
    const char *name = event_names_get(&places->names, e->trace, e->pid, U(e, redis_block_name));
    struct thing *thing;
    int r = thing_at(s, places, e, CONNECTION, U(e, redis_block_client_id), &thing);
    return r < 0 ? r
                 : set(places, thing, CONNECTION, BLOCKED, e->time_ns,
                       U(e, redis_block_begins) ? history_string(name ? name : "unknown") : history_null());
}

/* Nothing of it holds any longer. */
static int on_free(struct redis_states *s, struct state_places *places, const struct event *e)
{
    uint64_t id = U(e, redis_free_client_client_id);
    struct thing *thing;
    int r = set_pending(s, places, e, id, false);
    if (r >= 0)
        r = thing_at(s, places, e, CONNECTION, id, &thing);
    for (unsigned i = 0; r >= 0 && i < CONNECTION_END; i++)
        if (thing->quarks[i] != EMIT_NONE)
            r = emit_state(places->emit, e->time_ns, thing->quarks[i], history_null());
    return r;
}

/* ---- the loop and the bus ---- */

static int on_phase(struct redis_states *s, struct state_places *places, const struct event *e)
{
    const char *name = event_label(SONDE_MEANING_redis_phase, U(e, redis_loop_phase_phase));
    struct thing *thing;
    int r = thing_at(s, places, e, SERVER, 0, &thing);
    if (r >= 0)
        r = during(places, thing, SERVER, LOOP_PHASE, e, history_string(name ? name : "other"));
    if (r >= 0 && U(e, redis_loop_phase_phase) == SONDE_redis_phase_process_events)
        r = during(places, thing, SERVER, LOOP_READY, e, history_int(MAX(I(e, redis_loop_phase_ready), 0)));
    return r;
}

static int on_message(struct redis_states *s, struct state_places *places, const struct event *e,
                      bool received, uint64_t type, uint64_t bytes)
{
    struct thing *thing;
    int r = thing_at(s, places, e, SERVER, 0, &thing);
    if (r < 0)
        return r;
    thing->counts[received] += bytes;
    r = during(places, thing, SERVER, received ? BUS_RECEIVING : BUS_SENDING, e,
               history_string(redis_bus_type(redis_bus_number(type))));
    return r < 0 ? r
                 : set(places, thing, SERVER, received ? BUS_RECEIVED : BUS_SENT, e->time_ns,
                       number(thing->counts[received]));
}

static int on_link(struct redis_states *s, struct state_places *places, const struct event *e, bool in,
                   int64_t fd, int64_t bytes)
{
    struct thing *thing;
    if (fd < 0 || bytes <= 0)
        return 0;
    int r = thing_at(s, places, e, LINK, (uint64_t)fd, &thing);
    if (r < 0)
        return r;
    thing->counts[in] += (uint64_t)bytes;
    return set(places, thing, LINK, in ? LINK_IN : LINK_OUT, e->time_ns, number(thing->counts[in]));
}

static int on_event(void *self, struct state_places *places, const struct event *e)
{
    struct redis_states *s = self;
    switch (e->id) {
    case SONDE_EVENT_redis_command:
        return on_command(s, places, e);
    case SONDE_EVENT_redis_read_query:
        return on_read(s, places, e);
    case SONDE_EVENT_redis_write_reply:
        return on_reply(s, places, e);
    case SONDE_EVENT_redis_pending_io:
        return U(e, redis_pending_io_added)
                   ? set_pending(s, places, e, U(e, redis_pending_io_client_id), true)
                   : 0;
    case SONDE_EVENT_redis_block:
        return on_block(s, places, e);
    case SONDE_EVENT_redis_free_client:
        return on_free(s, places, e);
    case SONDE_EVENT_redis_loop_phase:
        return on_phase(s, places, e);
    case SONDE_EVENT_redis_bus_send:
        return on_message(s, places, e, false, U(e, redis_bus_send_type), U(e, redis_bus_send_bytes));
    case SONDE_EVENT_redis_bus_packet:
        return on_message(s, places, e, true, U(e, redis_bus_packet_type), U(e, redis_bus_packet_bytes));
    case SONDE_EVENT_redis_bus_read:
        return on_link(s, places, e, true, I(e, redis_bus_read_fd), I(e, redis_bus_read_bytes));
    case SONDE_EVENT_redis_bus_write:
        return on_link(s, places, e, false, I(e, redis_bus_write_fd), I(e, redis_bus_write_bytes));
    }
    return 0;
}

static int start(void **ret_self)
{
    *ret_self = calloc(1, sizeof(struct redis_states));
    return *ret_self ? 0 : -ENOMEM;
}

static void stop(void *self)
{
    struct redis_states *s = self;
    map_done(&s->of);
    array_done(&s->things);
    free(s);
}

static const uint16_t WANTED[] = {
    SONDE_EVENT_redis_command,    SONDE_EVENT_redis_read_query, SONDE_EVENT_redis_write_reply,
    SONDE_EVENT_redis_pending_io, SONDE_EVENT_redis_block,      SONDE_EVENT_redis_free_client,
    SONDE_EVENT_redis_loop_phase, SONDE_EVENT_redis_bus_send,   SONDE_EVENT_redis_bus_packet,
    SONDE_EVENT_redis_bus_read,   SONDE_EVENT_redis_bus_write,  0};

const struct state_source states_redis = {WANTED, start, on_event, stop};
