/* How many instructions the probe's wrappers take: exactly, by executing them one at a time. The wrappers are
 * those that are shipped, called as a patched program calls them, over stand-ins for the functions they wrap;
 * instructions of the stand-ins do not count. `make test` compares each scene with the table wrappers.txt.
 *
 *     wrappers TABLE                compares, in TAP; another compiler than the table's: skipped
 *     wrappers --write TABLE        writes the table anew (tools/wrapper-costs)
 *     wrappers --functions [SCENE]  instructions by function of the probe
 *
 * The trap flag makes the processor raise a trap behind every instruction, and reading its time-stamp counter
 * is made to fault and answered here, by a clock that only the scenes move: what depends on time is the same
 * in every run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include "base/macro.h"
#include "event/event.h"
#include "probe/libuv.h"
#include "probe/redis.h"
#include "symbol/elf.h"

enum { RING_BYTES = 512 << 10, WARM_UP = 20, STEPS_MAX = 1 << 20 };

/* What stands in this section is the program's part: it is not counted. */
#define PROGRAM __attribute__((section("program"), noinline))
extern const char __start_program[], __stop_program[];

static uint64_t virtual_ticks = 1000000000;
static uintptr_t *steps;
static volatile size_t step_count, clock_reads;
static volatile bool counting;

static void step(uintptr_t at)
{
    if (counting && step_count < STEPS_MAX &&
        (at < (uintptr_t)__start_program || at >= (uintptr_t)__stop_program))
        steps[step_count++] = at;
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    step((uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]);
}

/* rdtsc, of two bytes. What follows it runs before the next trap. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *code = (const uint8_t *)registers[REG_RIP];
    if (code[0] != 0x0f || code[1] != 0x31)
        abort();
    virtual_ticks += 40;
    clock_reads += counting;
    registers[REG_RAX] = (greg_t)(virtual_ticks & UINT32_MAX);
    registers[REG_RDX] = (greg_t)(virtual_ticks >> 32);
    registers[REG_RIP] += 2;
    if (registers[REG_EFL] & 0x100)
        step((uintptr_t)registers[REG_RIP]);
}

/* Below the red zone of whom this is inlined into. */
#define TRAP_FLAG(operation, operand)                                            \
    __asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n " operation " $" operand \
                     ", (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::              \
                         : "memory", "cc")

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

static int pipeline = 1, inner_commands;

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
WRAPS(void, redis_read_query, void *c)
{
    for (int i = 0; i < pipeline; i++)
        sonde_wrap_redis_process_command(&client);
}
WRAPS(int, redis_write_reply, void *c, int installed)
{
    return 0;
}
WRAPS(void, redis_before_sleep, void *loop)
{
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
    sonde_wrap_redis_before_sleep(NULL);
    sonde_wrap_redis_process_events(NULL, 0);
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
    memset(&sonde_config.redis, 0xff, sizeof(sonde_config.redis));
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
    sonde_config.redis.client_argv_bytes = OFFSET_IN(client, argument_bytes);
    redis_checks_left = 0; /* as after the first calls */
    descriptors[connection.fd] = (struct descriptor){.key = client.id, .generation = 1, .known_peer = 1};
    sonde_orig_redis_command = redis_command;
    sonde_orig_redis_process_command = redis_process_command;
    sonde_orig_redis_read_query = redis_read_query;
    sonde_orig_redis_write_reply = redis_write_reply;
    sonde_orig_redis_before_sleep = redis_before_sleep;
    sonde_orig_redis_after_sleep = redis_after_sleep;
    sonde_orig_redis_process_events = redis_process_events;
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
} type_name = {.length = 13, .characters = "FSREQCALLBACK"};
static uint64_t type_handle;
static const struct async_context {
    double id, trigger;
} context = {77, 76};
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
WRAPS(void, uv_poll, void *loop, int timeout_ms)
{
    if (on_read)
        sonde_wrap_uv_io(loop, stream + UV_STREAM_WATCHER, 1);
}
WRAPS(void *, node_encode, void *isolate, const char *bytes, size_t length, int encoding, void *error)
{
    return NULL;
}

PROGRAM static void async_init(void)
{
    sonde_wrap_node_async_init(NULL, NULL, &type_handle, 78, 77);
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
    memset(&sonde_config.v8, 0xff, sizeof(sonde_config.v8));
    sonde_config.callback_scope_context = 0;
    sonde_config.context = SONDE_CONTEXT_BOUNDED;
    sonde_config.llhttp_status = -1;
    sonde_config.llhttp_get_method = (uintptr_t)method;
    sonde_config.llhttp_get_type = (uintptr_t)type_of_message;
    sonde_config.uv_fs_work = (uintptr_t)uv_fs_work;
    /* Pointers to V8's objects are one more than the address, and the offsets one less. */
    string_map.instance_type = 8;
    sonde_config.string_type_mask = sonde_config.string_type_value = 8;
    sonde_config.v8.map_instance_type = OFFSET_IN(string_map, instance_type) - 1;
    sonde_config.v8.string_length = OFFSET_IN(type_name, length) - 1;
    sonde_config.v8.string_chars = OFFSET_IN(type_name, characters) - 1;
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
    static const int QUEUES[] = {UV_LOOP_PREPARE, UV_LOOP_CHECK, UV_LOOP_IDLE};
    for (size_t i = 0; i < ARRAY_SIZE(QUEUES); i++)
        *(void **)(void *)(loop_object + QUEUES[i]) =
            QUEUES[i] == UV_LOOP_CHECK ? stream : loop_object + QUEUES[i];
    *(void **)(void *)(loop_object + UV_LOOP_TIMER) = timer;
    *(int *)(void *)(fs_request + UV_REQ_TYPE) = UV_TYPE_FS;
    *(int *)(void *)(fs_request + UV_FS_TYPE) = SONDE_uv_kind_fs_read;
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
    if (!cell)
        cell = (uint32_t *)(void *)data;
    return slots;
}
PROGRAM static const uint64_t *a_function(const uint64_t *c, void (*function)(const void *),
                                          const uint64_t *data, int length, int constructor, int side_effect)
{
    return slots;
}
/* The answers of context.js: that it runs, with native contexts; then, that request 2 is served. */
PROGRAM static const uint64_t *call_script(const uint64_t *function, const uint64_t *c,
                                           const uint64_t *receiver, int count, const uint64_t **arguments)
{
    if (!script_runs) {
        script_runs = true;
        cell[2] = 2;
    }
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
    sonde_config.script.isolate = (uintptr_t)an_isolate;
    sonde_config.script.context = (uintptr_t)a_context;
    sonde_config.script.handle_scope = sonde_config.script.try_catch = (uintptr_t)nothing;
    sonde_config.script.handle_scope_end = sonde_config.script.try_catch_end = (uintptr_t)nothing;
    sonde_config.script.terminated = (uintptr_t)no;
    sonde_config.script.string = (uintptr_t)a_string;
    sonde_config.script.compile = (uintptr_t)compile;
    sonde_config.script.run = (uintptr_t)run_script;
    sonde_config.script.call = (uintptr_t)call_script;
    sonde_config.script.function = (uintptr_t)a_function;
    sonde_config.script.buffer = (uintptr_t)a_buffer;
    sonde_config.globalize = (uintptr_t)global_handle;
}

/* ---- the scenes, in this order: what is prepared stays so ---- */

static const struct scene {
    const char *name;
    void (*run)(void), (*prepare)(void);
} SCENES[] = {
    {"redis-get", redis_get, prepare_redis},     /* a read with one command */
    {"redis-pipeline-16", redis_pipeline, NULL}, /* a read with 16 commands */
    {"redis-nested", redis_nested, NULL},        /* a command that executes another one */
    {"redis-reply", redis_reply, NULL},          /* beforeSleep with one reply */
    {"redis-iteration", redis_iteration, NULL},  /* of the loop: all that one GET costs */
    {"node-callback", plain_callback, prepare_node},
    {"node-async-init", async_init, NULL},
    {"node-encode-short", encode, NULL}, /* too short for a record */
    {"uv-read", read_stream, NULL},
    {"http-parse", http_request, NULL}, /* URL, headers with the callback, end */
    {"http-respond", respond, NULL},
    {"redis-query", query_store, NULL}, /* a command sent by Node */
    {"uv-submit", submit, NULL},
    {"uv-operation", operation, NULL},                 /* submitted, executed, completed */
    {"uv-operation-awaited", awaited_operation, NULL}, /* with its resource and callback */
    {"uv-iteration-idle", idle_iteration, NULL},
    {"http-short-text", short_text, NULL},              /* an iteration that answers one request */
    {"context-switch", switch_context, prepare_script}, /* a callback while the script runs */
    {"context-ask", ask_context, NULL},                 /* a callback that submits an operation */
};

static struct probe_thread *self;

/* As it is when a thread has claimed it. */
static void begin_thread(void)
{
    memset(self, 0, SONDE_PAGE);
    self->shared.ring_mask = RING_BYTES - 1;
    self->shared.owner = 1;
    self->stream_fd = -1;
}

static void set_up(void)
{
    static struct sonde_shared shared;
    self = aligned_alloc(SONDE_PAGE, SONDE_PAGE + RING_BYTES);
    steps = calloc(STEPS_MAX, sizeof(*steps));
    if (!self || !steps)
        exit(1);
    memset(self, 0, SONDE_PAGE + RING_BYTES);
    probe_self = (struct probe_self){.thread = self, .attachment = 1};
    probe_live.attachment = probe_live.original = 1;
    probe_shared = &shared;
    struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO},
                     fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &trap, NULL) < 0 || sigaction(SIGSEGV, &fault, NULL) < 0 ||
        prctl(PR_SET_TSC, PR_TSC_SIGSEGV) < 0) {
        perror("wrappers: the time-stamp counter cannot be taken over");
        exit(77);
    }
}

static void empty_ring(void)
{
    self->shared.head = self->shared.tail = 0;
    self->shared.writable = RING_BYTES;
}

PROGRAM static void run_stepped(const struct scene *scene)
{
    TRAP_FLAG("orq", "0x100");
    scene->run();
    TRAP_FLAG("andq", "~0x100");
}

/* What a scene costs, once everything that happens only at first has happened. */
struct cost {
    size_t instructions;
    size_t clock_reads; /* each as dear as a hundred instructions, in a virtual machine */
    size_t bytes;       /* into the ring */
};

static struct cost measure(const struct scene *scene)
{
    if (scene->prepare) {
        begin_thread();
        scene->prepare();
    }
    for (int i = 0; i < WARM_UP; i++) {
        empty_ring();
        scene->run();
    }
    empty_ring();
    step_count = clock_reads = 0;
    counting = true;
    run_stepped(scene);
    counting = false;
    if (step_count == STEPS_MAX || self->shared.lost_full || self->shared.lost_signal || self->shared.depth) {
        fprintf(stderr, "wrappers: %s lost records or spans\n", scene->name);
        exit(1);
    }
    return (struct cost){step_count, clock_reads, self->shared.head};
}

/* ---- by function ---- */

static int by_address(const void *a, const void *b)
{
    uintptr_t left = *(const uintptr_t *)a, right = *(const uintptr_t *)b;
    return left < right ? -1 : left > right;
}

static uint64_t load_bias(struct elf *elf)
{
    struct elf_symbol main_symbol;
    extern int main(int, char **);
    return elf_find(elf, "main", &main_symbol) < 0 ? 0 : (uintptr_t)main - main_symbol.value;
}

struct share {
    char name[64];
    size_t count;
};

static int by_count(const void *a, const void *b)
{
    size_t left = ((const struct share *)a)->count, right = ((const struct share *)b)->count;
    return left > right ? -1 : left < right;
}

static void print_functions(struct elf *elf, const struct scene *scene)
{
    uint64_t bias = load_bias(elf);
    struct cost cost = measure(scene);
    size_t total = cost.instructions, count = 0;
    struct share shares[64];
    qsort(steps, total, sizeof(*steps), by_address);
    for (size_t i = 0; i < total; i++) {
        struct elf_symbol symbol;
        const char *name = elf_symbol_at(elf, steps[i] - bias, &symbol) < 0 ? "?" : symbol.name;
        if (!count || strcmp(shares[count - 1].name, name) != 0) {
            if (count == ARRAY_SIZE(shares))
                break;
            snprintf(shares[count].name, sizeof(shares[count].name), "%s", name);
            shares[count++].count = 0;
        }
        shares[count - 1].count++;
    }
    qsort(shares, count, sizeof(*shares), by_count);
    printf("%s: %zu instructions, %zu readings of the clock, %zu bytes recorded\n", scene->name, total,
           cost.clock_reads, cost.bytes);
    for (size_t i = 0; i < count; i++)
        printf("%8zu  %s\n", shares[i].count, shares[i].name);
}

static int functions(const char *only)
{
    _cleanup_(elf_freep) struct elf *elf = NULL;
    struct problem problem = {0};
    if (elf_open("/proc/self/exe", &elf, &problem) < 0)
        return 1;
    for (size_t i = 0; i < ARRAY_SIZE(SCENES); i++) {
        if (!only || strcmp(only, SCENES[i].name) == 0)
            print_functions(elf, &SCENES[i]);
        else
            (void)measure(&SCENES[i]);
    }
    return 0;
}

/* ---- the table ---- */

#define COMPILER "gcc " __VERSION__

static int write_table(const char *path)
{
    FILE *table = fopen(path, "w");
    if (!table) {
        fprintf(stderr, "wrappers: %s: %s\n", path, strerror(errno));
        return 1;
    }
    fprintf(table,
            "# Instructions of the probe's wrappers and bytes they record, by scene (bench/wrappers.c);\n"
            "# tools/wrapper-costs writes it anew. Compiler: " COMPILER "\n");
    for (size_t i = 0; i < ARRAY_SIZE(SCENES); i++) {
        struct cost cost = measure(&SCENES[i]);
        fprintf(table, "%-24s %5zu %3zu %5zu\n", SCENES[i].name, cost.instructions, cost.clock_reads,
                cost.bytes);
    }
    return fclose(table) == 0 ? 0 : 1;
}

/* The line of a scene in the table. */
static bool expected(const char *table, const char *name, struct cost *ret_cost)
{
    for (const char *line = table; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char word[64];
        if (sscanf(line, "%63s %zu %zu %zu", word, &ret_cost->instructions, &ret_cost->clock_reads,
                   &ret_cost->bytes) == 4 &&
            strcmp(word, name) == 0)
            return true;
    }
    return false;
}

static bool costs_more(const struct cost *a, const struct cost *b)
{
    return a->instructions > b->instructions || a->clock_reads > b->clock_reads || a->bytes > b->bytes;
}

static int compare(const char *path)
{
    char table[8192] = "";
    FILE *file = fopen(path, "r");
    if (!file || !fread(table, 1, sizeof(table) - 1, file)) {
        fprintf(stderr, "wrappers: %s cannot be read\n", path);
        return 1;
    }
    fclose(file);
    if (!strstr(table, "Compiler: " COMPILER "\n")) {
        printf("the table is of another compiler than " COMPILER "\n");
        return 77;
    }
    int failed = 0;
    printf("1..%zu\n", ARRAY_SIZE(SCENES));
    for (size_t i = 0; i < ARRAY_SIZE(SCENES); i++) {
        struct cost cost = measure(&SCENES[i]), old = {0};
        bool known = expected(table, SCENES[i].name, &old);
        bool same = known && memcmp(&cost, &old, sizeof(cost)) == 0;
        printf("%sok %zu - %s\n", same ? "" : "not ", i + 1, SCENES[i].name);
        if (same)
            continue;
        failed = 1;
        printf("# %zu instructions, %zu readings of the clock, %zu bytes; the table has %zu, %zu, %zu\n",
               cost.instructions, cost.clock_reads, cost.bytes, old.instructions, old.clock_reads, old.bytes);
        printf("# %s\n",
               costs_more(&cost, &old)
                   ? "more: see tools/wrapper-costs --functions; where it is worth it, tools/wrapper-costs"
                   : "fewer: tools/wrapper-costs writes the table anew");
    }
    return failed;
}

int main(int argc, char **argv)
{
    set_up();
    if (argc > 1 && strcmp(argv[1], "--functions") == 0)
        return functions(argc > 2 ? argv[2] : NULL);
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_table(argv[2]);
    if (argc == 2)
        return compare(argv[1]);
    fprintf(stderr, "usage: wrappers TABLE | --write TABLE | --functions [SCENE]\n");
    return 2;
}
