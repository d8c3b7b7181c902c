/* See remote.h. INFO is lines of name:value; SLOWLOG GET arrays of id, time, duration, arguments, client's
 * address and name; LATENCY LATEST arrays of event, time, latest and worst; CLUSTER NODES lines of words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/remote.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum {
    INFO_MAX = 4096,
    COMMANDS_MAX = 1024,
    SLOW_MAX = 128,
    EVENTS_MAX = 64,
    NODES_MAX = 1024,
    WORD_MAX = 256
};

const char *const REDIS_QUESTION_WORDS[REDIS_QUESTIONS][4] = {[REDIS_ASK_INFO] = {"INFO", "all"},
                                                              [REDIS_ASK_SLOWLOG] = {"SLOWLOG", "GET", "128"},
                                                              [REDIS_ASK_LATENCY] = {"LATENCY", "LATEST"},
                                                              [REDIS_ASK_NODES] = {"CLUSTER", "NODES"}};
const char *const REDIS_QUESTION_RIGHTS[REDIS_QUESTIONS] = {[REDIS_ASK_INFO] = "+info",
                                                            [REDIS_ASK_SLOWLOG] = "+slowlog|get",
                                                            [REDIS_ASK_LATENCY] = "+latency|latest",
                                                            [REDIS_ASK_NODES] = "+cluster|nodes"};

void redis_remote_done(struct redis_remote *remote)
{
    array_done(&remote->info);
    array_done(&remote->commands);
    array_done(&remote->slow);
    array_done(&remote->latency);
    array_done(&remote->nodes);
    arena_done(&remote->arena);
}

/* ---- words of a server ---- */

/* A copy as UTF-8, cut where it is too long; NULL when memory is exhausted. */
static const char *keep(struct redis_remote *remote, const char *bytes, size_t length)
{
    _cleanup_(text_done) struct text text = {0};
    text_add_utf8(&text, bytes, MIN(length, (size_t)WORD_MAX));
    return text.failed ? NULL : arena_strdup(&remote->arena, text_get(&text));
}

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

static const redisReply *part(const redisReply *reply, size_t index, int type)
{
    if (reply->type != REDIS_REPLY_ARRAY || index >= reply->elements || !reply->element[index])
        return NULL;
    return reply->element[index]->type == type ? reply->element[index] : NULL;
}

static uint64_t positive(const redisReply *reply)
{
    return reply && reply->integer > 0 ? (uint64_t)reply->integer : 0;
}

/* The bytes up to a character, or all; the rest goes on behind it. */
static const char *until(const char **at, const char *end, char stop, size_t *ret_length)
{
    const char *from = *at, *found = memchr(from, stop, (size_t)(end - from));
    *ret_length = (size_t)((found ? found : end) - from);
    *at = found ? found + 1 : end;
    return from;
}

/* ---- INFO ---- */

/* "calls=1,usec=3,rejected_calls=0": the number behind "calls=", 0 when it is not there. */
static uint64_t member(const char *value, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = value; at; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, name, n) == 0 && at[n] == '=')
            return isdigit((unsigned char)at[n + 1]) ? strtoull(at + n + 1, NULL, 10) : 0;
    return 0;
}

static int take_line(struct redis_remote *remote, const char *name, size_t name_length, const char *value,
                     size_t value_length)
{
    static const char COMMAND[] = "cmdstat_";
    struct redis_info info = {keep(remote, name, name_length), keep(remote, value, value_length)};
    if (!info.name || !info.value)
        return -ENOMEM;
    if (strncmp(info.name, COMMAND, sizeof(COMMAND) - 1) == 0) {
        struct redis_remote_command command = {.name = info.name + sizeof(COMMAND) - 1,
                                               .calls = member(info.value, "calls"),
                                               .time_us = member(info.value, "usec"),
                                               .refused = member(info.value, "rejected_calls"),
                                               .failed = member(info.value, "failed_calls")};
        return remote->commands.count == COMMANDS_MAX ? 0 : array_add(&remote->commands, command);
    }
    return remote->info.count == INFO_MAX ? 0 : array_add(&remote->info, info);
}

static int take_info(struct redis_remote *remote, const redisReply *reply)
{
    const char *at = reply->str, *end = reply->str + reply->len;
    int r = 0;
    while (r >= 0 && at < end) {
        size_t length, name_length;
        const char *line = until(&at, end, '\n', &length), *value = line;
        length -= length && line[length - 1] == '\r';
        until(&value, line + length, ':', &name_length);
        if (length && line[0] != '#' && name_length < length)
            r = take_line(remote, line, name_length, value, (size_t)(line + length - value));
    }
    return r < 0 ? -ENOMEM : 0;
}

const char *redis_remote_text(const struct redis_remote *remote, const char *name)
{
    array_foreach (&remote->info, info)
        if (strcmp(info->name, name) == 0)
            return info->value;
    return "";
}

uint64_t redis_remote_number(const struct redis_remote *remote, const char *name)
{
    const char *value = redis_remote_text(remote, name);
    return isdigit((unsigned char)value[0]) ? strtoull(value, NULL, 10) : 0;
}

bool redis_remote_is_sentinel(const struct redis_remote *remote)
{
    return strcmp(redis_remote_text(remote, "redis_mode"), "sentinel") == 0;
}

/* ---- SLOWLOG, LATENCY, CLUSTER ---- */

/* A command's name as people write it; clients send it in any case. */
static const char *keep_command(struct redis_remote *remote, const redisReply *name)
{
    char upper[WORD_MAX];
    size_t n = MIN((size_t)name->len, sizeof(upper));
    for (size_t i = 0; i < n; i++)
        upper[i] = (char)toupper((unsigned char)name->str[i]);
    return keep(remote, upper, n);
}

/* Without what the command was given. */
static int take_slow(struct redis_remote *remote, const redisReply *entry)
{
    enum { ID, AT, TOOK, ARGUMENTS, CLIENT };
    const redisReply *id = part(entry, ID, REDIS_REPLY_INTEGER), *at = part(entry, AT, REDIS_REPLY_INTEGER),
                     *took = part(entry, TOOK, REDIS_REPLY_INTEGER),
                     *arguments = part(entry, ARGUMENTS, REDIS_REPLY_ARRAY),
                     *client = part(entry, CLIENT, REDIS_REPLY_STRING);
    const redisReply *name = arguments ? part(arguments, 0, REDIS_REPLY_STRING) : NULL;
    if (!id || !at || !took || !name || remote->slow.count == SLOW_MAX)
        return 0;
    struct redis_remote_slow slow = {.id = positive(id),
                                     .at_s = at->integer,
                                     .took_us = positive(took),
                                     .command = keep_command(remote, name),
                                     .client = client ? keep(remote, client->str, (size_t)client->len) : ""};
    return slow.command && slow.client ? array_add(&remote->slow, slow) : -ENOMEM;
}

static int take_latency(struct redis_remote *remote, const redisReply *entry)
{
    enum { EVENT, AT, LATEST, WORST };
    const redisReply *event = part(entry, EVENT, REDIS_REPLY_STRING),
                     *at = part(entry, AT, REDIS_REPLY_INTEGER);
    if (!event || !at || remote->latency.count == EVENTS_MAX)
        return 0;
    struct redis_remote_latency latency = {.event = keep(remote, event->str, (size_t)event->len),
                                           .at_s = at->integer,
                                           .latest_ms = positive(part(entry, LATEST, REDIS_REPLY_INTEGER)),
                                           .worst_ms = positive(part(entry, WORST, REDIS_REPLY_INTEGER))};
    return latency.event ? array_add(&remote->latency, latency) : -ENOMEM;
}

/* "5461", "0-5460"; "[93-<-...]" is a slot that moves. */
static uint64_t slots_in(const char *word, size_t length)
{
    char text[32];
    char *end;
    if (!length || length >= sizeof(text) || !isdigit((unsigned char)word[0]))
        return 0;
    memcpy(text, word, length);
    text[length] = '\0';
    unsigned long first = strtoul(text, &end, 10), last = *end == '-' ? strtoul(end + 1, NULL, 10) : first;
    return last >= first && last < 16384 ? last - first + 1 : 0;
}

/* ID ADDRESS FLAGS MASTER PING-SENT PONG-RECEIVED EPOCH LINK SLOT... */
static int take_node(struct redis_remote *remote, const char *line, size_t length)
{
    enum { ID, ADDRESS, FLAGS, LINK = 7, WORDS };
    const char *words[WORDS] = {0}, *at = line, *end = line + length;
    struct redis_remote_node node = {0};
    for (unsigned n = 0; at < end; n++) {
        size_t word_length;
        const char *word = until(&at, end, ' ', &word_length);
        if (n < WORDS && !(words[n] = keep(remote, word, word_length)))
            return -ENOMEM;
        if (n >= WORDS)
            node.slots += slots_in(word, word_length);
    }
    if (!words[LINK] || remote->nodes.count == NODES_MAX)
        return 0;
    node.id = words[ID];
    node.address = words[ADDRESS];
    node.flags = words[FLAGS];
    node.link = words[LINK];
    return array_add(&remote->nodes, node);
}

static int take_nodes(struct redis_remote *remote, const redisReply *reply)
{
    const char *at = reply->str, *end = reply->str + reply->len;
    int r = 0;
    while (r >= 0 && at < end && remote->nodes.count < NODES_MAX) {
        size_t length;
        const char *line = until(&at, end, '\n', &length);
        r = take_node(remote, line, length);
    }
    return r;
}

static int take_all(struct redis_remote *remote, const redisReply *reply,
                    int (*take)(struct redis_remote *remote, const redisReply *entry))
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < reply->elements; i++)
        if (reply->element[i])
            r = take(remote, reply->element[i]);
    return r;
}

int redis_remote_take(struct redis_remote *remote, enum redis_question question, const redisReply *reply)
{
    bool lines = question == REDIS_ASK_INFO || question == REDIS_ASK_NODES;
    if (reply->type == REDIS_REPLY_ERROR) {
        remote->refused[question] = keep(remote, reply->str, (size_t)reply->len);
        return remote->refused[question] ? 0 : -ENOMEM;
    }
    if (lines ? !is_text(reply) : reply->type != REDIS_REPLY_ARRAY)
        return 0;
    remote->answered[question] = true;
    int r = question == REDIS_ASK_INFO      ? take_info(remote, reply)
            : question == REDIS_ASK_NODES   ? take_nodes(remote, reply)
            : question == REDIS_ASK_SLOWLOG ? take_all(remote, reply, take_slow)
                                            : take_all(remote, reply, take_latency);
    return r < 0 ? -ENOMEM : 0;
}

/* ---- between two readings ---- */

static const struct redis_remote_command *command_named(const struct redis_remote *remote, const char *name)
{
    array_foreach (&remote->commands, command)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

bool redis_remote_subtract(struct redis_remote *now, const struct redis_remote *before)
{
    if (strcmp(redis_remote_text(now, "run_id"), redis_remote_text(before, "run_id")) != 0)
        return false;
    array_foreach (&now->commands, command) {
        const struct redis_remote_command *old = command_named(before, command->name);
        if (!old || old->calls > command->calls || old->time_us > command->time_us) /* CONFIG RESETSTAT */
            continue;
        command->calls -= old->calls;
        command->time_us -= old->time_us;
        command->refused -= MIN(command->refused, old->refused);
        command->failed -= MIN(command->failed, old->failed);
    }
    return true;
}
