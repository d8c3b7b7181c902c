/* A module of a Redis server with a quick command, a slow one, and one that calls another command. Only what
 * it needs of the modules' interface is declared here; a module gets each function by its name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef int get_function(const char *name, void *ret_function);
typedef int command_function(void *context, void **words, int count);

static int (*reply_number)(void *context, long long number);
static void *(*call)(void *context, const char *command, const char *format, ...);
static void (*free_reply)(void *reply);

static int quick(void *context, void **words, int count)
{
    return reply_number(context, 42);
}

/* Computes for 60 ms. */
static int slow(void *context, void **words, int count)
{
    const int64_t length_ns = 60000000;
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < length_ns);
    return reply_number(context, 43);
}

static int set_key(void *context, void **words, int count)
{
    void *reply = call(context, "SET", "cc", "of-a-module", "value");
    if (reply)
        free_reply(reply);
    return reply_number(context, reply ? 1 : 0);
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(void *context, void **words, int count)
{
    get_function *get = *(get_function **)context;
    void (*set_attributes)(void *context, const char *name, int version, int api);
    int (*create)(void *context, const char *name, command_function *function, const char *flags, int first,
                  int last, int step);
    if (get("RedisModule_SetModuleAttribs", &set_attributes) || get("RedisModule_CreateCommand", &create) ||
        get("RedisModule_ReplyWithLongLong", &reply_number) || get("RedisModule_Call", &call) ||
        get("RedisModule_FreeCallReply", &free_reply))
        return 1;
    set_attributes(context, "answers", 1, 1);
    return create(context, "answers.quick", quick, "readonly", 0, 0, 0) ||
           create(context, "answers.slow", slow, "readonly", 0, 0, 0) ||
           create(context, "answers.set", set_key, "write", 0, 0, 0);
}
