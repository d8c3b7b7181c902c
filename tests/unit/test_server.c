/* Clients that are slow, and clients that go. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"

enum { SHORT_MS = 150, LONG_MS = 60000, PATIENCE_S = 60 };

static void answer_at_once(void *context, const struct http_request *request, struct http_response *response)
{
    response->content_type = "text/plain";
    response->body = strdup("yes");
    response->length = 3;
}

static struct http_server *start(void (*handle)(void *, const struct http_request *, struct http_response *),
                                 void *context, uint64_t header_ms, uint64_t request_ms)
{
    struct http_server *server;
    const struct http_settings settings = {.address = "127.0.0.1:0",
                                           .threads = 2,
                                           .header_ms = header_ms,
                                           .request_ms = request_ms,
                                           .handle = handle,
                                           .context = context};
    assert_int_equal(http_server_start(&settings, &server, NULL), 0);
    return server;
}

static int client(const struct http_server *server)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(http_server_port(server)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Sends a byte now and then until the server has ended the connection; false: it never does. */
static bool is_ended(int fd)
{
    uint64_t end_ns = clock_monotonic_ns() + PATIENCE_S * NS_PER_S;
    char rest[4096];
    while (clock_monotonic_ns() < end_ns) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 10) > 0 && recv(fd, rest, sizeof(rest), 0) <= 0)
            return true;
        if (send(fd, "x", 1, MSG_NOSIGNAL) < 0)
            return true;
    }
    return false;
}

static uint64_t slow_ones(const struct http_server *server)
{
    struct http_counts counts;
    http_server_get_counts(server, &counts);
    return counts.slow_connections;
}

static void a_header_byte_by_byte_is_not_waited_for(void **state)
{
    struct http_server *server = start(answer_at_once, NULL, SHORT_MS, LONG_MS);
    int fd = client(server);
    say(fd, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
    assert_true(is_ended(fd));
    assert_int_equal(slow_ones(server), 1);
    close(fd);
    http_server_stop(server);
}

static void a_body_byte_by_byte_is_not_waited_for(void **state)
{
    struct http_server *server = start(answer_at_once, NULL, LONG_MS, SHORT_MS);
    int fd = client(server);
    say(fd, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n");
    assert_true(is_ended(fd));
    assert_int_equal(slow_ones(server), 1);
    close(fd);
    http_server_stop(server);
}

/* Each request begins anew: many on one connection are answered, and then it has time again. */
static void those_that_ask_go_on(void **state)
{
    struct http_server *server = start(answer_at_once, NULL, LONG_MS, LONG_MS);
    int fd = client(server);
    for (int i = 0; i < 20; i++) {
        char answer[4096];
        size_t length = 0;
        say(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        do {
            ssize_t n = recv(fd, answer + length, sizeof(answer) - 1 - length, 0);
            assert_true(n > 0);
            length += (size_t)n;
            answer[length] = '\0';
        } while (length < 3 || strcmp(answer + length - 3, "yes") != 0);
    }
    assert_int_equal(slow_ones(server), 0);
    close(fd);
    http_server_stop(server);
}

struct seen {
    bool before, after; /* whether the client was gone */
    bool asked;         /* atomic, like the next */
    bool done;
};

/* Works until nobody waits for it any more. */
static void work_on(void *context, const struct http_request *request, struct http_response *response)
{
    struct seen *seen = context;
    uint64_t end_ns = clock_monotonic_ns() + PATIENCE_S * NS_PER_S;
    seen->before = http_client_gone(request);
    __atomic_store_n(&seen->asked, true, __ATOMIC_RELEASE);
    while (!seen->after && clock_monotonic_ns() < end_ns)
        seen->after = http_client_gone(request);
    __atomic_store_n(&seen->done, true, __ATOMIC_RELEASE);
}

static void a_client_that_goes_is_seen_to(void **state)
{
    struct seen seen = {0};
    struct http_server *server = start(work_on, &seen, LONG_MS, LONG_MS);
    int fd = client(server);
    say(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while (!__atomic_load_n(&seen.asked, __ATOMIC_ACQUIRE))
        usleep(1000);
    close(fd);
    while (!__atomic_load_n(&seen.done, __ATOMIC_ACQUIRE))
        usleep(1000);
    assert_false(seen.before);
    assert_true(seen.after);
    http_server_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_byte_by_byte_is_not_waited_for),
        cmocka_unit_test(a_body_byte_by_byte_is_not_waited_for),
        cmocka_unit_test(those_that_ask_go_on),
        cmocka_unit_test(a_client_that_goes_is_seen_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
