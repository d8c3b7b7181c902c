/* The program's part of the scenes that wrappers.c counts: stand-ins for the functions that are wrapped, and
 * the objects that the wrappers read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/macro.h"
#include "targets/node/probe_carried.h"
#include "targets/node/probe_libuv.h"
#include "targets/redis/probe.h"
#include "wrappers.h"

/* ---- the program: Redis ---- */

/* Declares a wrapper and the function that stands in for what it wraps. */
#define WRAPS(result, name, ...)                     \
    extern result (*sonde_orig_##name)(__VA_ARGS__); \
    extern result sonde_wrap_##name(__VA_ARGS__);    \
    PROGRAM static result name(__VA_ARGS__)

static struct {
    uint64_t id;
    void *connection, *db, *command;
    const char *query_buffer;
    int argc;
    uint64_t argument_bytes;
} client;
static struct {
    void *client;
    int fd;
} connection;
static struct {
    int id;
} db;
static struct {
    char *name;
    uint64_t flags;
} get_command, eval_command;

static struct {
    int fd, mask;
} ready_ones[1] = {{.fd = 7, .mask = 1}};
static struct {
    void *other, *ready;
} redis_loop = {.ready = ready_ones};

static int pipeline = 1, inner_commands;
static bool
    postpones; /* a read leaves the query to an I/O thread, in a function that the compiler has inlined */

WRAPS(void, redis_command, void *c, int flags)
{
    if (inner_commands-- > 0) {
        void *outer = client.command;
        client.command = &get_command;
        sonde_wrap_redis_command(c, flags);
        client.command = outer;
    }
}
WRAPS(int, redis_process_command, void *c)
{
    sonde_wrap_redis_command(c, 0);
    return 0;
}
WRAPS(long, redis_io_read, int fd, void *buffer, size_t size)
{
    return 40;
}
WRAPS(long, redis_io_write, int fd, const void *buffer, size_t size)
{
    return 8;
}
WRAPS(void, redis_expire, int type)
{
}
WRAPS(void, redis_notify, int type, char *event, void *key, int number)
{
}
WRAPS(int, redis_postpone_read, void *c)
{
    return 0;
}
WRAPS(int, redis_ssl_read, void *ssl, void *buffer, int asked)
{
    return 0;
}
WRAPS(void, redis_read_query, void *c)
{
    if (postpones)
        return;
    sonde_wrap_redis_io_read(7, NULL, 0);
    for (int i = 0; i < pipeline; i++)
        sonde_wrap_redis_process_command(&client);
}
WRAPS(int, redis_write_reply, void *c, int installed)
{
    sonde_wrap_redis_io_write(7, NULL, 0);
    return 0;
}
WRAPS(void, redis_before_sleep, void *loop)
{
    sonde_wrap_redis_expire(1); /* the fast cycle, which has nothing to do */
    sonde_wrap_redis_write_reply(&client, 0);
}
WRAPS(void, redis_after_sleep, void *loop, int ready)
{
}
WRAPS(int, redis_process_events, void *loop, int flags)
{
    sonde_wrap_redis_after_sleep(loop, 1);
    sonde_wrap_redis_read_query(&connection);
    return 1;
}

PROGRAM static void redis_get(void)
{
    pipeline = 1;
    sonde_wrap_redis_read_query(&connection);
}
PROGRAM static void redis_pipeline(void)
{
    pipeline = 16;
    sonde_wrap_redis_read_query(&connection);
}
PROGRAM static void redis_key_changed(void)
{
    sonde_wrap_redis_notify(1 << 3, NULL, NULL, 0);
}
PROGRAM static void redis_nested(void)
{
    pipeline = inner_commands = 1;
    client.command = &eval_command;
    sonde_wrap_redis_read_query(&connection);
    client.command = &get_command;
}
PROGRAM static void redis_reply(void)
{
    sonde_wrap_redis_before_sleep(NULL);
}
PROGRAM static void redis_iteration(void)
{
    pipeline = 1;
    sonde_wrap_redis_before_sleep(&redis_loop);
    sonde_wrap_redis_process_events(&redis_loop, 0);
}

PROGRAM static void redis_postponed(void)
{
    sonde_config.redis.ssl_pending = sonde_config.redis.ssl_get_rfd = 1; /* libssl is seen */
    postpones = true;
    sonde_wrap_redis_read_query(&connection);
    postpones = false;
    sonde_config.redis.ssl_pending = sonde_config.redis.ssl_get_rfd = 0;
}

#define OFFSET_IN(object, field) ((int32_t)((char *)&(object).field - (char *)&(object)))

static void prepare_redis(void)
{
    static char query[] = "\0\0\0query", get[] = "\x18get",
                eval[] = "\x20"
                         "eval"; /* sds strings of type 0 */
    get_command.name = get + 1;
    get_command.flags = 2;
    eval_command.name = eval + 1;
    connection.client = &client;
    connection.fd = 7;
    client.id = 42;
    client.connection = &connection;
    client.db = &db;
    client.command = &get_command;
    client.query_buffer = query + 3;
    client.argc = 2;
    client.argument_bytes = 40;
    sonde_config_forget(&sonde_config);
    sonde_config.redis.conn_fd = OFFSET_IN(connection, fd);
    sonde_config.redis.conn_private = OFFSET_IN(connection, client);
    sonde_config.redis.client_id = OFFSET_IN(client, id);
    sonde_config.redis.client_conn = OFFSET_IN(client, connection);
    sonde_config.redis.client_db = OFFSET_IN(client, db);
    sonde_config.redis.db_id = OFFSET_IN(db, id);
    sonde_config.redis.client_cmd = OFFSET_IN(client, command);
    sonde_config.redis.client_querybuf = OFFSET_IN(client, query_buffer);
    sonde_config.redis.command_name = OFFSET_IN(get_command, name);
    sonde_config.redis.command_flags = OFFSET_IN(get_command, flags);
    sonde_config.redis.client_argc = OFFSET_IN(client, argc);
    sonde_config.redis.loop_fired = OFFSET_IN(redis_loop, ready);
    sonde_config.redis.client_argv_bytes = OFFSET_IN(client, argument_bytes);
    redis_query_buffer = sonde_config.redis.client_querybuf;
    redis_checks_left = 0; /* as after the first calls */
    descriptors[connection.fd] = (struct descriptor){.key = client.id, .generation = 1, .known_peer = 1};
    sonde_orig_redis_command = redis_command;
    sonde_orig_redis_process_command = redis_process_command;
    sonde_orig_redis_read_query = redis_read_query;
    sonde_orig_redis_postpone_read = redis_postpone_read;
    sonde_orig_redis_ssl_read = redis_ssl_read;
    sonde_orig_redis_io_read = redis_io_read;
    sonde_orig_redis_io_write = redis_io_write;
    sonde_orig_redis_expire = redis_expire;
    sonde_orig_redis_notify = redis_notify;
    sonde_orig_redis_write_reply = redis_write_reply;
    sonde_orig_redis_before_sleep = redis_before_sleep;
    sonde_orig_redis_after_sleep = redis_after_sleep;
    sonde_orig_redis_process_events = redis_process_events;
}

/* ---- the program: Memcached ---- */

static int cache_client; /* a socket with a peer */
static long cache_command_length, cache_answer_length;

WRAPS(long, memcached_read, int fd, void *buffer, size_t size)
{
    return cache_command_length;
}
WRAPS(long, memcached_sendmsg, int fd, const struct msghdr *message, int flags)
{
    return cache_answer_length;
}
WRAPS(int, memcached_wait, int epoll, void *events, int most, int timeout)
{
    return 1;
}

/* What a worker does for a connection that is ready. */
PROGRAM static void cache_serve(char *command, size_t command_length, char *answer, size_t answer_length)
{
    struct iovec piece = {answer, answer_length};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    cache_command_length = (long)command_length;
    cache_answer_length = (long)answer_length;
    sonde_wrap_memcached_wait(3, NULL, 32, -1);
    sonde_wrap_memcached_read(cache_client, command, command_length);
    sonde_wrap_memcached_sendmsg(cache_client, &message, 0);
}

static char cache_get[] = "get order:17\r\n", cache_stored[] = "STORED\r\n", cache_end[] = "END\r\n";
static char cache_get_answer[126], cache_set[1199], cache_gets[16 * (sizeof(cache_get) - 1)],
    cache_ends[16 * (sizeof(cache_end) - 1)];

PROGRAM static void memcached_get(void)
{
    cache_serve(cache_get, sizeof(cache_get) - 1, cache_get_answer, sizeof(cache_get_answer));
}
PROGRAM static void memcached_set(void)
{
    cache_serve(cache_set, sizeof(cache_set), cache_stored, sizeof(cache_stored) - 1);
}
PROGRAM static void memcached_pipeline(void)
{
    cache_serve(cache_gets, sizeof(cache_gets), cache_ends, sizeof(cache_ends));
}

static void fill(char *to, size_t size, const char *head, const char *tail)
{
    memset(to, 'x', size);
    memcpy(to, head, strlen(head));
    memcpy(to + size - strlen(tail), tail, strlen(tail));
}

static void prepare_memcached(void)
{
    static int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    cache_client = pair[0];
    fill(cache_get_answer, sizeof(cache_get_answer), "VALUE order:17 0 98\r\n", "\r\nEND\r\n");
    fill(cache_set, sizeof(cache_set), "set order:17 0 0 1174\r\n", "\r\n");
    for (unsigned i = 0; i < 16; i++) {
        memcpy(cache_gets + i * (sizeof(cache_get) - 1), cache_get, sizeof(cache_get) - 1);
        memcpy(cache_ends + i * (sizeof(cache_end) - 1), cache_end, sizeof(cache_end) - 1);
    }
    sonde_orig_memcached_read = memcached_read;
    sonde_orig_memcached_sendmsg = memcached_sendmsg;
    sonde_orig_memcached_wait = memcached_wait;
}

/* ---- the program: Node ---- */

/* libuv's and V8's objects as far as the wrappers read them, at their offsets. */
static char stream[512] __attribute__((aligned(16))), store[512] __attribute__((aligned(16)));
static char fs_request[512] __attribute__((aligned(16))), loop_object[1024] __attribute__((aligned(16)));
static char scope[64] __attribute__((aligned(16)));
static struct {
    uint64_t other;
    uint32_t more;
    uint16_t instance_type;
} string_map;
static struct {
    uint64_t map;
    uint32_t hash;
    int32_t length;
    char characters[16];
} type_name = {.hash = 0x5eed2, .length = 13, .characters = "FSREQCALLBACK"};
static uint64_t type_handle;
static const struct async_context {
    double id, trigger;
    double newest;
} context = {77, 76, 78};
static struct {
    uint64_t other;
    const double *execution_id;
} environment = {.execution_id = &context.id};
static const char url[] = "/orders/17?full=1", response[] = "HTTP/1.1 200 OK\r\n"
                                                            "Content-Type: text/plain\r\n"
                                                            "Date: Sun, 01 Nov 2026 10:00:00 GMT\r\n"
                                                            "Connection: keep-alive\r\n"
                                                            "Keep-Alive: timeout=5\r\n"
                                                            "Content-Length: 5\r\n\r\nhello";
static const char query[] = "*2\r\n$3\r\nGET\r\n$8\r\norder:17\r\n";
static int parser;
/* What is done where a stream is read, in a callback, and in a completion. */
static void (*on_read)(void), (*in_callback)(void), (*on_completion)(void);

WRAPS(void, node_scope_close, void *s)
{
}
WRAPS(void, node_scope_variant, void *s, void *env, void *object, uint64_t which,
      const struct async_context *c, int flags, void *frame)
{
    memcpy(s, c, sizeof(*c));
}
WRAPS(void, node_async_init, void *env, void *object, const uint64_t *type, double id, double trigger)
{
}
WRAPS(int, llhttp_url, void *p, const char *from, const char *to)
{
    return 0;
}
PROGRAM static void callback(void)
{
    sonde_wrap_node_scope_variant(scope, NULL, NULL, 0, &context, 0, NULL);
    if (in_callback)
        in_callback();
    sonde_wrap_node_scope_close(scope);
}
WRAPS(int, llhttp_headers, void *p, const char *from, const char *to)
{
    callback();
    return 0;
}
WRAPS(int, llhttp_complete, void *p, const char *from, const char *to)
{
    return 0;
}
WRAPS(int, uv_try_write, void *handle, const struct buffer *buffers, unsigned count)
{
    return (int)buffers[0].length;
}
WRAPS(void, uv_io, void *loop, void *watcher, unsigned events)
{
    if (on_read)
        on_read();
}
WRAPS(void, uv_submit, void *loop, void *work, int kind, void *function, void *done)
{
}
WRAPS(void, uv_fs_work, void *work)
{
}
WRAPS(void, uv_fs_done, void *work, int status)
{
    if (on_completion)
        on_completion();
}
WRAPS(void, uv_timers, void *loop)
{
}
WRAPS(void, uv_idle, void *loop)
{
}
WRAPS(void, uv_prepare, void *loop)
{
}
WRAPS(void, uv_check, void *loop)
{
}
static int completions; /* operations that are over when it polls */
WRAPS(void, uv_poll, void *loop, int timeout_ms)
{
    for (int i = 0; i < completions; i++)
        sonde_wrap_uv_fs_done(fs_request + UV_FS_WORK, 0);
    if (on_read)
        sonde_wrap_uv_io(loop, stream + UV_STREAM_WATCHER, 1);
}
WRAPS(void *, node_encode, void *isolate, const char *bytes, size_t length, int encoding, void *error)
{
    return NULL;
}

PROGRAM static void async_init(void)
{
    sonde_wrap_node_async_init(&environment, NULL, &type_handle, 78, 77);
}
PROGRAM static void encode(void)
{
    sonde_wrap_node_encode(NULL, url, sizeof(url), 1, NULL);
}
PROGRAM static void respond(void)
{
    const struct buffer buffer = {response, sizeof(response) - 1};
    sonde_wrap_uv_try_write(stream, &buffer, 1);
}
PROGRAM static void query_store(void)
{
    const struct buffer buffer = {query, sizeof(query) - 1};
    sonde_wrap_uv_try_write(store, &buffer, 1);
}
PROGRAM static void parse_request(void)
{
    sonde_wrap_llhttp_url(&parser, url, url + sizeof(url) - 1);
    sonde_wrap_llhttp_headers(&parser, url, url);
    sonde_wrap_llhttp_complete(&parser, url, url);
}
PROGRAM static void read_nothing(void)
{
}
PROGRAM static void read_stream(void)
{
    on_read = read_nothing;
    sonde_wrap_uv_io(NULL, stream + UV_STREAM_WATCHER, 1);
}
PROGRAM static void plain_callback(void)
{
    in_callback = NULL;
    callback();
}
PROGRAM static void http_request(void)
{
    in_callback = NULL;
    parse_request();
}
PROGRAM static void submit(void)
{
    sonde_wrap_uv_submit(NULL, fs_request + UV_FS_WORK, 1, uv_fs_work, uv_fs_done);
}
PROGRAM static void operate(void)
{
    submit();
    sonde_wrap_uv_fs_work(fs_request + UV_FS_WORK);
    sonde_wrap_uv_fs_done(fs_request + UV_FS_WORK, 0);
}
PROGRAM static void operation(void)
{
    on_completion = NULL;
    operate();
}
PROGRAM static void awaited_operation(void)
{
    in_callback = NULL;
    on_completion = callback;
    async_init();
    operate();
}
PROGRAM static void iterate(void)
{
    sonde_wrap_uv_timers(loop_object);
    sonde_wrap_uv_idle(loop_object);
    sonde_wrap_uv_prepare(loop_object);
    sonde_wrap_uv_poll(loop_object, 0);
    sonde_wrap_uv_check(loop_object);
}
PROGRAM static void complete(void)
{
    in_callback = NULL;
    on_completion = callback;
    on_read = NULL;
    completions = 4;
    sonde_wrap_uv_poll(loop_object, 0);
    completions = 0;
}
PROGRAM static void idle_iteration(void)
{
    on_read = NULL;
    iterate();
}
PROGRAM static void short_text(void)
{
    on_read = parse_request;
    in_callback = respond;
    iterate();
}

static int request_type = 1;
PROGRAM static int method(void *p)
{
    return 1;
}
PROGRAM static int type_of_message(void *p)
{
    return request_type;
}

static void prepare_node(void)
{
    sonde_config.node.scope_context = 0;
    sonde_config.context = SONDE_CONTEXT_BOUNDED;
    sonde_config.node.llhttp_status = -1;
    sonde_config.node.llhttp_get_method = (uintptr_t)method;
    sonde_config.node.llhttp_get_type = (uintptr_t)type_of_message;
    sonde_config.node.uv_fs_work = (uintptr_t)uv_fs_work;
    /* Pointers to V8's objects are one more than the address, and the offsets one less. */
    string_map.instance_type = 8;
    sonde_config.node.string_type_mask = sonde_config.node.string_type_value = 8;
    sonde_config.node.map_instance_type = OFFSET_IN(string_map, instance_type) - 1;
    sonde_config.node.string_length = OFFSET_IN(type_name, length) - 1;
    sonde_config.node.string_chars = OFFSET_IN(type_name, characters) - 1;
    type_name.map = (uintptr_t)&string_map + 1;
    type_handle = (uintptr_t)&type_name + 1;
    char *const streams[] = {stream, store};
    for (int i = 0; i < 2; i++) {
        int fd = 8 + i;
        *(int *)(void *)(streams[i] + UV_HANDLE_TYPE) = UV_TCP_TYPE;
        *(int *)(void *)(streams[i] + UV_STREAM_WATCHER + UV_IO_FD) = fd;
        descriptors[fd] = (struct descriptor){.key = (uintptr_t)streams[i], .generation = 1, .known_peer = 1};
    }
    /* As of a server of Node: a timer for connections that is not due, immediates' handles for the others. */
    static uint64_t timer[4] = {0, 0, 0, 1000};
    static const int QUEUES[] = {UV_LOOP_PREPARE, UV_LOOP_CHECK, UV_LOOP_IDLE, UV_LOOP_PENDING};
    for (size_t i = 0; i < ARRAY_SIZE(QUEUES); i++)
        *(void **)(void *)(loop_object + QUEUES[i]) =
            QUEUES[i] == UV_LOOP_CHECK ? stream : loop_object + QUEUES[i];
    *(void **)(void *)(loop_object + UV_LOOP_TIMER) = timer;
    *(int *)(void *)(fs_request + UV_REQ_TYPE) = UV_TYPE_FS;
    *(int *)(void *)(fs_request + UV_FS_TYPE) = SONDE_uv_kind_fs_read;
    /* The one whose completion is next, where several are in the queue: the same one again. */
    *(void **)(void *)(fs_request + UV_FS_WORK + UV_WORK_NEXT) = fs_request + UV_FS_WORK + UV_WORK_NEXT;
#define ORIGINAL(name) sonde_orig_##name = name
    ORIGINAL(node_scope_close), ORIGINAL(node_scope_variant), ORIGINAL(node_async_init);
    ORIGINAL(llhttp_url), ORIGINAL(llhttp_headers), ORIGINAL(llhttp_complete);
    ORIGINAL(uv_try_write), ORIGINAL(uv_io), ORIGINAL(uv_submit), ORIGINAL(uv_fs_work), ORIGINAL(uv_fs_done);
    ORIGINAL(uv_timers), ORIGINAL(uv_idle), ORIGINAL(uv_prepare), ORIGINAL(uv_check), ORIGINAL(uv_poll);
    ORIGINAL(node_encode);
}

/* ---- the program: V8, for the script that knows which request is served ---- */

static uint64_t slots[4];
static uint32_t *cell;
static bool script_runs;
static void (*free_cell)(char *, void *);
static void *cell_hint;
static uint32_t script_answer = 2;
PROGRAM static void *an_isolate(void)
{
    return slots;
}
PROGRAM static const uint64_t *a_context(void *isolate)
{
    return slots;
}
PROGRAM static void nothing(void *object, void *isolate)
{
}
PROGRAM static uint8_t no(const void *object)
{
    return 0;
}
PROGRAM static const uint64_t *a_string(void *isolate, const char *text, int type, int length)
{
    return slots;
}
PROGRAM static const uint64_t *compile(const uint64_t *c, const uint64_t *source, void *origin)
{
    return slots;
}
PROGRAM static const uint64_t *run_script(const uint64_t *script, const uint64_t *c)
{
    return slots;
}
PROGRAM static const uint64_t *a_buffer(void *isolate, char *data, size_t size, void (*freed)(char *, void *),
                                        void *hint)
{
    if (!cell) {
        cell = (uint32_t *)(void *)data;
        free_cell = freed;
        cell_hint = hint;
    }
    return slots;
}
PROGRAM static const uint64_t *a_function(const uint64_t *c, void (*function)(const void *),
                                          const uint64_t *data, int length, int constructor, int side_effect)
{
    return slots;
}
/* What V8 carries: that request 2 is served, wherever nobody is. */
static uint64_t carried_value;
static bool carries;
PROGRAM static const uint64_t *get_carried(void *isolate)
{
    return &carried_value;
}
PROGRAM static void set_carried(void *isolate, const uint64_t *value)
{
    carried_value = carries && *value == 1ull << 32 ? 2ull << 32 : *value;
}
/* Of another resource now and then, until the probe believes what it finds in the environment. */
PROGRAM static double execution_id(void *isolate)
{
    return context.id;
}
WRAPS(int, v8_microtasks, void *queue, void *isolate)
{
    return 0;
}

/* The answers of context.js: that it runs, with native contexts; then, that request 2 is served. */
PROGRAM static const uint64_t *call_script(const uint64_t *function, const uint64_t *c,
                                           const uint64_t *receiver, int count, const uint64_t **arguments)
{
    if (!script_runs) {
        script_runs = true;
        cell[2] = script_answer;
    }
    if (script_answer == 2)
        cell[1] = 2;
    return slots;
}
PROGRAM static const uint64_t *global_handle(void *isolate, const uint64_t *slot)
{
    return slots;
}

PROGRAM static void switch_context(void)
{
    in_callback = NULL;
    callback();
}
PROGRAM static void ask_context(void)
{
    in_callback = submit;
    callback();
}

static void prepare_script(void)
{
    sonde_config.context = SONDE_CONTEXT_SCRIPT;
    sonde_config.node.script_isolate = (uintptr_t)an_isolate;
    sonde_config.node.script_context = (uintptr_t)a_context;
    sonde_config.node.script_handle_scope = sonde_config.node.script_try_catch = (uintptr_t)nothing;
    sonde_config.node.script_handle_scope_end = sonde_config.node.script_try_catch_end = (uintptr_t)nothing;
    sonde_config.node.script_terminated = (uintptr_t)no;
    sonde_config.node.script_string = (uintptr_t)a_string;
    sonde_config.node.script_compile = (uintptr_t)compile;
    sonde_config.node.script_run = (uintptr_t)run_script;
    sonde_config.node.script_call = (uintptr_t)call_script;
    sonde_config.node.script_function = (uintptr_t)a_function;
    sonde_config.node.script_buffer = (uintptr_t)a_buffer;
    sonde_config.node.globalize = (uintptr_t)global_handle;
}

PROGRAM static void microtasks(void)
{
    sonde_wrap_v8_microtasks(NULL, slots);
}

/* The script ends, and starts again where V8 carries the number. */
static void prepare_carried(void)
{
    sonde_config.context = SONDE_CONTEXT_AUTO;
    sonde_config.node.carried_get = (uintptr_t)get_carried;
    sonde_config.node.carried_set = (uintptr_t)set_carried;
    sonde_config.node.execution_id = (uintptr_t)execution_id;
    sonde_config.node.execution_field = offsetof(__typeof__(environment), execution_id);
    sonde_orig_v8_microtasks = v8_microtasks;
    microtasks();
    free_cell((char *)cell, cell_hint);
    cell = NULL;
    script_runs = false;
    script_answer = 5;
    for (int i = 0; i < 2 * CARRIED_SETTLING; i++)
        switch_context();
    carries = true;
}

/* ---- the scenes, in this order: what is prepared stays so ---- */

const struct scene scenes[] = {
    {"redis-get", redis_get, prepare_redis},        /* a read with one command */
    {"redis-pipeline-16", redis_pipeline, NULL},    /* a read with 16 commands */
    {"redis-nested", redis_nested, NULL},           /* a command that executes another one */
    {"redis-reply", redis_reply, NULL},             /* beforeSleep with one reply */
    {"redis-key-changed", redis_key_changed, NULL}, /* what a SET costs more than a GET */
    {"redis-iteration", redis_iteration, NULL},     /* of the loop: all that one GET costs */
    {"redis-postponed", redis_postponed, NULL},     /* a read left to an I/O thread, unseen: two records */
    {"memcached-get", memcached_get, prepare_memcached}, /* a wait, one command read, 98 bytes answered */
    {"memcached-set", memcached_set, NULL},              /* the same with 1,174 bytes stored */
    {"memcached-pipeline-16", memcached_pipeline, NULL}, /* 16 keys that are not there */
    {"node-callback", plain_callback, prepare_node},
    {"node-async-init", async_init, NULL}, /* held back: its bytes come with the next record */
    {"node-encode-short", encode, NULL},   /* too short for a record */
    {"uv-read", read_stream, NULL},
    {"http-parse", http_request, NULL}, /* URL, headers with the callback, end */
    {"http-respond", respond, NULL},
    {"redis-query", query_store, NULL}, /* a command sent by Node */
    {"uv-submit", submit, NULL},
    {"uv-operation", operation, NULL},                 /* submitted, executed, completed */
    {"uv-operation-awaited", awaited_operation, NULL}, /* with its resource and callback */
    {"uv-completions-4", complete, NULL},              /* with their callbacks, in one poll phase */
    {"uv-iteration-idle", idle_iteration, NULL},
    {"http-short-text", short_text, NULL},               /* an iteration that answers one request */
    {"context-switch", switch_context, prepare_script},  /* a callback while the script runs */
    {"context-ask", ask_context, NULL},                  /* a callback that submits an operation */
    {"carried-switch", switch_context, prepare_carried}, /* the same where V8 carries the number */
    {"carried-ask", ask_context, NULL},
    {"carried-operation", awaited_operation, NULL}, /* uv-operation-awaited where V8 carries the number */
    {"carried-microtasks", microtasks, NULL},
};
const size_t scene_count = ARRAY_SIZE(scenes);
