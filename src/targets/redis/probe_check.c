/* The check of Redis' offsets on live objects: during the first calls every pointer is followed through the
 * kernel, which answers EFAULT instead of crashing, and every value must be what its field can hold. A field
 * that fails is dropped (the hooks stay) and sonde says so. Fields that no function gives away are found
 * here. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/probe.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum {
    CHECKS = 256,
    CLIENT_SEARCHED = 128,
    CONNECTION_SEARCHED = 64,
    LINK_SEARCHED = 64,
    LOOP_SEARCHED = 64,
    LOOP_CHECKS = 16,
    COPY_CHECKS = 64,
    BUFFER_CHECKS = 4, /* so many sds strings, and nothing else, are query buffers */
};

uint32_t redis_checks_left = CHECKS;
int32_t redis_query_buffer = SONDE_NO_OFFSET;
static unsigned buffers_seen;
bool redis_fields_known, redis_plain_names;

#define DROP(name)                                                       \
    do {                                                                 \
        OFFSET(name) = SONDE_NO_OFFSET;                                  \
        probe_shared->fields_dropped |= 1u << SONDE_OFFSET_redis_##name; \
    } while (0)

#define FOUND(name, offset)                                            \
    do {                                                               \
        OFFSET(name) = (offset);                                       \
        probe_shared->fields_found |= 1u << SONDE_OFFSET_redis_##name; \
    } while (0)

/* The words of a loop that may be its field fired, and how many more reads are to agree. */
static uint32_t may_be_fired = UINT32_MAX, fired_checks = LOOP_CHECKS;

void probe_again_redis(void)
{
    redis_checks_left = CHECKS;
    redis_fields_known = false;
    may_be_fired = UINT32_MAX;
    fired_checks = LOOP_CHECKS;
    redis_query_buffer = SONDE_NO_OFFSET;
    buffers_seen = 0;
}

/* One call less to check: threads that read for the main one may do so at the same time. */
static void count_check(void)
{
    uint32_t left = __atomic_load_n(&redis_checks_left, __ATOMIC_RELAXED);
    if (left)
        __atomic_store_n(&redis_checks_left, left - 1, __ATOMIC_RELAXED);
}

/* Reads memory of our own that may not be there. */
static bool safe_read(const void *from, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)(uintptr_t)from, size};
    long pid = OWN_CALL(SYS_getpid);
    return OWN_CALL(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) == (long)size;
}

static const void *pointer_at(const void *object, int32_t offset)
{
    const void *pointer = NULL;
    return safe_read((const char *)object + offset, &pointer, sizeof(pointer)) ? pointer : NULL;
}

static bool is_socket(int fd)
{
    struct stat st;
    return OWN_CALL(SYS_fstat, fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* client.conn: the one field near the start of the client that points back at the connection. */
static void find_client_connection(const void *connection, const void *client)
{
    uint64_t words[CLIENT_SEARCHED / 8];
    int found = SONDE_NO_OFFSET, count = 0;
    if (!safe_read(client, words, sizeof(words)))
        return;
    for (int i = 0; i < CLIENT_SEARCHED / 8; i++)
        if (words[i] == (uintptr_t)connection) {
            found = i * 8;
            count++;
        }
    if (count == 1)
        FOUND(client_conn, found);
}

/* connection.private_data: the one field that points at something that points back from near its start. */
static const void *find_client(const void *connection)
{
    uint64_t words[CONNECTION_SEARCHED / 8], inner[CLIENT_SEARCHED / 8];
    int found = SONDE_NO_OFFSET, count = 0;
    if (!safe_read(connection, words, sizeof(words)))
        return NULL;
    for (int i = 0; i < CONNECTION_SEARCHED / 8; i++)
        if (words[i] > 0x10000 && words[i] % 8 == 0 &&
            safe_read((const void *)(uintptr_t)words[i], inner, sizeof(inner)))
            for (int k = 0; k < CLIENT_SEARCHED / 8; k++)
                if (inner[k] == (uintptr_t)connection) {
                    found = i;
                    count++;
                }
    if (count != 1)
        return NULL;
    FOUND(conn_private, found * 8);
    return (const void *)(uintptr_t)words[found];
}

const void *redis_check_client(const void *connection, const void *client)
{
    count_check();
    if (!HAVE(conn_private) && !(probe_shared->fields_dropped & 1u << SONDE_OFFSET_redis_conn_private))
        client = find_client(connection);
    if (!client)
        return NULL;
    bool was_known = HAVE(client_conn);
    if (!was_known)
        find_client_connection(connection, client);
    /* The two must point at each other: nothing else of the client is believed before. */
    if (!HAVE(client_conn) || pointer_at(client, OFFSET(client_conn)) != connection) {
        DROP(conn_private);
        if (was_known)
            DROP(client_conn);
        return NULL;
    }
    if (HAVE(conn_fd) && !is_socket(READ(int, connection, OFFSET(conn_fd))))
        DROP(conn_fd);
    if (HAVE(client_id)) {
        uint64_t id = READ(uint64_t, client, OFFSET(client_id));
        if (id == 0 || id >> 48)
            DROP(client_id);
    }
    return client;
}

bool redis_is_client(const void *client)
{
    static int checks = COPY_CHECKS;
    static bool refused;
    if (refused || !HAVE(client_conn) || !HAVE(conn_private))
        return false;
    if (LIKELY(checks <= 0))
        return true;
    const void *connection = pointer_at(client, OFFSET(client_conn));
    if (connection && pointer_at(connection, OFFSET(conn_private)) == client) {
        checks--;
        return true;
    }
    /* A replica, a blocked or a closing client has no connection, or another. */
    refused = connection && checks == COPY_CHECKS;
    return false;
}

/* Is the text an sds string of this length? type: the byte before it; before that, a longer one's length. */
static bool is_sds(const char *text, char type, uint64_t length)
{
    uint8_t said = (uint8_t)type >> 3;
    if ((type & 7) == 1 && !safe_read(text - 3, &said, sizeof(said)))
        return false;
    return (type & 7) <= 1 && said == length;
}

/* Is the text an sds string of any length? Its room and its length are before it, and a zero byte is behind
 * it. */
static bool is_buffer(const char *text)
{
    uint64_t words[2] = {0}; /* length, room */
    uint8_t type;
    char end;
    if (!safe_read(text - 1, &type, sizeof(type)) || (type & 7) > 4)
        return false;
    if (!(type & 7)) {
        words[0] = words[1] = type >> 3;
    } else {
        const size_t size = (size_t)1 << ((type & 7) - 1);
        for (int i = 0; i < 2; i++)
            if (!safe_read(text - 1 - (size_t)(2 - i) * size, &words[i], size))
                return false;
    }
    return words[0] <= words[1] && safe_read(text + words[0], &end, sizeof(end)) && !end;
}

/* What no client of the first ones had says nothing: a field of another kind may well be zero for all of
 * them. */
static void check_query_buffer(const void *client)
{
    const char *buffer = pointer_at(client, OFFSET(client_querybuf));
    if (!buffer)
        return;
    if (!is_buffer(buffer)) {
        DROP(client_querybuf);
        redis_query_buffer = SONDE_NO_OFFSET;
    } else if (++buffers_seen >= BUFFER_CHECKS) {
        redis_query_buffer = OFFSET(client_querybuf);
    }
}

/* A command's name: printable, and as long as it says when it is an sds string, which it is since Redis 7.0.
 */
static bool is_name(const char *text)
{
    char bytes[64] = {0};
    size_t here = 4096 - ((uintptr_t)text - 1) % 4096; /* what lies on its page */
    if (!safe_read(text - 1, bytes, here < sizeof(bytes) - 1 ? here : sizeof(bytes) - 1))
        return false;
    if (here < sizeof(bytes) - 1)
        (void)safe_read(text - 1 + here, bytes + here, sizeof(bytes) - 1 - here);
    uint64_t length = 0;
    while (bytes[1 + length] > ' ' && bytes[1 + length] <= '~')
        length++;
    if (length < 1 || length > 40 || bytes[1 + length])
        return false;
    if (!is_sds(text, bytes[0], length))
        redis_plain_names = true;
    return true;
}

static bool is(const char *text, const char *word)
{
    while (*word && *text == *word) {
        text++;
        word++;
    }
    return *text == *word;
}

/* What GET and SET do is known. */
static bool flags_contradict(const char *name, uint64_t flags)
{
    enum { CMD_WRITE = 1, CMD_READONLY = 2 };
    if (is(name, "get") || is(name, "ping"))
        return (flags & CMD_WRITE) || (is(name, "get") && !(flags & CMD_READONLY));
    return (is(name, "set") || is(name, "del")) && (!(flags & CMD_WRITE) || (flags & CMD_READONLY));
}

void redis_check_command(const void *client)
{
    count_check();
    uint64_t probe;
    if (HAVE(client_cmd)) {
        const void *command = pointer_at(client, OFFSET(client_cmd));
        if (!command || !safe_read(command, &probe, sizeof(probe))) {
            DROP(client_cmd);
        } else {
            const char *name = HAVE(command_name) ? pointer_at(command, OFFSET(command_name)) : NULL;
            if (HAVE(command_name) && (!name || !is_name(name)))
                DROP(command_name);
            else if (name && HAVE(command_flags) &&
                     flags_contradict(name, READ(uint64_t, command, OFFSET(command_flags))))
                DROP(command_flags);
        }
    }
    if (HAVE(client_db)) {
        const void *db = pointer_at(client, OFFSET(client_db));
        int32_t number = -1;
        if (!db || !HAVE(db_id) || !safe_read((const char *)db + OFFSET(db_id), &number, sizeof(number)) ||
            number < 0 || number > 1 << 20)
            DROP(client_db);
    }
    if (HAVE(client_argc)) {
        int32_t count = READ(int32_t, client, OFFSET(client_argc));
        if (count < 1 || count > 1 << 24)
            DROP(client_argc);
    }
    if (HAVE(client_argv_bytes) && READ(uint64_t, client, OFFSET(client_argv_bytes)) >> 40)
        DROP(client_argv_bytes);
    if (HAVE(client_querybuf))
        check_query_buffer(client);
}

void redis_know_fields(void)
{
    if (!redis_checks_left && HAVE(client_querybuf) && redis_query_buffer < 0)
        DROP(client_querybuf);
    redis_fields_known = !redis_checks_left && HAVE(client_id) && HAVE(client_conn) && HAVE(conn_fd) &&
                         HAVE(client_cmd) && HAVE(client_db) && HAVE(db_id) && HAVE(client_argc) &&
                         HAVE(client_argv_bytes);
}

/* Where it is not only clients that are ready no field agrees, which says nothing. */
void redis_find_fired(const void *loop, uint32_t reads, int fd)
{
    enum { AE_READABLE = 1, AE_MASKS = 8 };
    uint64_t words[LOOP_SEARCHED / 8];
    uint32_t agree = 0;
    if (HAVE(loop_fired) || fd < 0 || !safe_read(loop, words, sizeof(words)))
        return;
    for (uint32_t i = 0; i < LOOP_SEARCHED / 8; i++) {
        struct redis_fired fired;
        if (may_be_fired >> i & 1 && words[i] > 0x10000 && words[i] % 8 == 0 &&
            safe_read((const struct redis_fired *)(uintptr_t)words[i] + reads, &fired, sizeof(fired)) &&
            fired.fd == fd && fired.mask & AE_READABLE && fired.mask < AE_MASKS)
            agree |= 1u << i;
    }
    if (!agree)
        return;
    may_be_fired = agree;
    if (fired_checks)
        fired_checks--;
    if (!fired_checks && !(agree & (agree - 1)))
        FOUND(loop_fired, __builtin_ctz(agree) * 8);
}

void redis_find_receive_buffer(const void *link)
{
    count_check();
    uint64_t words[LINK_SEARCHED / 8];
    if (!safe_read(link, words, sizeof(words)))
        return;
    for (int i = 0; i < LINK_SEARCHED / 8; i++) {
        char start[4];
        if (words[i] > 0x10000 && safe_read((const void *)(uintptr_t)words[i], start, sizeof(start)) &&
            start[0] == 'R' && start[1] == 'C' && start[2] == 'm' && start[3] == 'b') {
            FOUND(link_rcvbuf, i * 8);
            return;
        }
    }
}
