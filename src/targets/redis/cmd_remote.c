/* See cmd_remote.h. Nothing is asked but what REDIS_QUESTION_WORDS has, after AUTH where a password is
 * given: no command that changes, blocks or lists keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/cmd_remote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/reading.h"
#include "targets/redis/cmd_text.h"
#include "http/tcp.h"
#include "targets/redis/remote.h"

enum { ANSWER_MS = 10000, PIECE = 16384, REDIS_PORT = 6379, DURATION = 32, PASSWORD_MAX = 4096 };

#define AT(member) offsetof(struct redis_remote_options, member)

const struct option_row redis_remote_rows[] = {
    {"remote",
     .text = "ask the server at HOST:PORT about itself instead of attaching: INFO, SLOWLOG, LATENCY, "
             "CLUSTER NODES, and nothing else",
     .type = OPTION_FLAG, .at = AT(remote)},
    {"user", .value = "NAME", .text = "with --remote: authenticate as NAME", .type = OPTION_TEXT,
     .at = AT(user)},
    {"password-file", .value = "FILE",
     .text =
         "with --remote: read the password from its first line (default: environment variable REDISCLI_AUTH)",
     .type = OPTION_TEXT, .at = AT(password_file)},
    {"tls", .text = "with --remote: connect over TLS; the certificate must be valid for HOST",
     .type = OPTION_FLAG, .at = AT(tls)},
    {"cacert", .value = "FILE",
     .text = "with --tls: certificate authorities to trust (default: the system's)", .type = OPTION_TEXT,
     .at = AT(authorities)},
    {"cert", .value = "FILE", .text = "with --tls: our own certificate", .type = OPTION_TEXT,
     .at = AT(certificate)},
    {"key", .value = "FILE", .text = "with --tls: its private key", .type = OPTION_TEXT,
     .at = AT(private_key)},
    {NULL},
};

/* ---- asking ---- */

struct connection {
    struct tcp *tcp;
    struct resp *resp;
    const char *address;
};

static void connection_done(struct connection *c)
{
    tcp_free(c->tcp);
    resp_free(c->resp);
}

static int broken(const struct connection *c, int error, struct problem *problem)
{
    const char *why = error == -EMSGSIZE    ? "its answer is too long"
                      : error == -EPROTO    ? "it does not speak Redis' protocol"
                      : error == -ETIMEDOUT ? "it does not answer"
                      : error == -ENODATA   ? "it has closed the connection"
                                            : strerror(-error);
    return problem_set(problem, error, "%s: %s", c->address, why);
}

/* Sends one command, whose words end with NULL, and waits for its answer. */
static int ask(struct connection *c, const char *const *words, redisReply **ret_reply)
{
    _cleanup_(text_done) struct text command = {0};
    char piece[PIECE];
    size_t count = 0;
    while (words[count])
        count++;
    text_addf(&command, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        text_addf(&command, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    if (command.failed)
        return -ENOMEM;
    tcp_deadline(c->tcp, ANSWER_MS);
    int r = tcp_send(c->tcp, text_get(&command), command.length);
    while (r >= 0 && (r = resp_next(c->resp, ret_reply)) == 0) {
        int got = tcp_receive(c->tcp, piece, sizeof(piece));
        r = got > 0 ? resp_feed(c->resp, piece, (size_t)got) : got == 0 ? -ENODATA : got;
    }
    return r < 0 ? r : 0;
}

static int ask_question(struct connection *c, enum redis_question question, struct redis_remote *remote,
                        struct problem *problem)
{
    _cleanup_(redis_reply_freep) redisReply *reply = NULL;
    int r = ask(c, REDIS_QUESTION_WORDS[question], &reply);
    if (r >= 0)
        r = redis_remote_take(remote, question, reply);
    return r < 0 ? broken(c, r, problem) : 0;
}

static int authenticate(struct connection *c, const char *user, const char *password, struct problem *problem)
{
    const char *const words[] = {"AUTH", user ? user : password, user ? password : NULL, NULL};
    _cleanup_(redis_reply_freep) redisReply *reply = NULL;
    if (!password)
        return 0;
    int r = ask(c, words, &reply);
    if (r < 0)
        return broken(c, r, problem);
    return reply->type != REDIS_REPLY_ERROR ? 0
                                            : problem_set(problem, -EACCES, "%s: %s", c->address, reply->str);
}

/* A password that an option names or the environment has, which is the caller's to free; NULL: none. */
static int read_password(const struct redis_remote_options *options, char **ret_password,
                         struct problem *problem)
{
    const char *given = getenv("REDISCLI_AUTH");
    char *password = NULL;
    if (options->password_file) {
        size_t size;
        int r = file_read(options->password_file, PASSWORD_MAX, &password, &size);
        if (r < 0)
            return problem_set(problem, r, "%s: %s", options->password_file, strerror(-r));
        password[strcspn(password, "\r\n")] = '\0';
    } else if (given && given[0] && !(password = strdup(given))) {
        return problem_set(problem, -ENOMEM, "out of memory");
    }
    *ret_password = password;
    return 0;
}

/* "HOST", "HOST:PORT", "[ADDRESS]:PORT", "ADDRESS" of IPv6. *ret_host is the caller's to free. */
static int split_address(const char *said, char **ret_host, unsigned *ret_port)
{
    const char *host = said[0] == '[' ? said + 1 : said, *close = said[0] == '[' ? strchr(said, ']') : NULL;
    const char *colon = close ? (close[1] == ':' ? close + 1 : NULL) : strrchr(said, ':');
    double port = REDIS_PORT;
    if ((said[0] == '[' && (!close || (close[1] && close[1] != ':'))))
        return -EINVAL;
    if (!close && colon && strchr(said, ':') != colon)
        colon = NULL; /* an address of IPv6 without brackets */
    if (colon && !cli_number(colon + 1, 1, 65535, &port))
        return -EINVAL;
    *ret_host = strndup(host, close ? (size_t)(close - host) : colon ? (size_t)(colon - host) : strlen(host));
    *ret_port = (unsigned)port;
    return *ret_host ? 0 : -ENOMEM;
}

/* Both readings. The second has what is asked once, too. */
static int ask_twice(struct connection *c, double seconds, struct redis_remote *before,
                     struct redis_remote *now, struct problem *problem)
{
    int r = ask_question(c, REDIS_ASK_INFO, before, problem);
    before->at_ns = clock_monotonic_ns();
    if (r < 0 || before->refused[REDIS_ASK_INFO])
        return r;
    bool store = !redis_remote_is_sentinel(before);
    if (store)
        r = ask_question(c, REDIS_ASK_SLOWLOG, now, problem);
    if (r >= 0 && store)
        r = ask_question(c, REDIS_ASK_LATENCY, now, problem);
    if (r >= 0 && redis_remote_number(before, "cluster_enabled"))
        r = ask_question(c, REDIS_ASK_NODES, now, problem);
    struct timespec pause = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (r >= 0 && store)
        nanosleep(&pause, NULL);
    if (r >= 0)
        r = ask_question(c, REDIS_ASK_INFO, now, problem);
    now->at_ns = clock_monotonic_ns();
    return r;
}

/* ---- printing ---- */

static int by_time(const void *a, const void *b)
{
    const struct redis_remote_command *x = a, *y = b;
    return x->time_us == y->time_us ? strcmp(x->name, y->name) : x->time_us > y->time_us ? -1 : 1;
}

static void add_commands(struct text *to, struct redis_remote *now, double seconds,
                         const struct prose_style *style)
{
    char name[64], mean[DURATION], all[DURATION];
    if (!now->commands.count)
        return;
    qsort(now->commands.at, now->commands.count, sizeof(now->commands.at[0]), by_time);
    text_addf(to, "\n   %s%-20s %10s %10s %10s %10s %8s %8s%s\n", style->dim, "command", "calls", "calls/s",
              "executing", "mean", "refused", "failed", style->none);
    array_foreach (&now->commands, c) {
        if (!c->calls && !c->refused)
            continue;
        redis_say_command(c->name, name, sizeof(name));
        text_addf(to, "   %-20s %10" PRIu64 " %10.0f %10s %10s %8" PRIu64 " %8" PRIu64 "\n", name, c->calls,
                  seconds > 0 ? (double)c->calls / seconds : 0,
                  clock_format_duration(c->time_us * NS_PER_US, all, sizeof(all)),
                  clock_format_duration(c->calls ? c->time_us * NS_PER_US / c->calls : 0, mean, sizeof(mean)),
                  c->refused, c->failed);
    }
}

static void add_lists(struct text *to, const struct redis_remote *now, const struct prose_style *style)
{
    char took[DURATION], worst[DURATION];
    if (now->slow.count)
        text_addf(to, "\n   %s%-20s %10s  %s%s\n", style->dim, "slow log", "took", "client", style->none);
    for (size_t i = 0; i < MIN(now->slow.count, (size_t)10); i++)
        text_addf(to, "   %-20s %10s  %s\n", now->slow.at[i].command,
                  clock_format_duration(now->slow.at[i].took_us * NS_PER_US, took, sizeof(took)),
                  now->slow.at[i].client);
    if (now->latency.count)
        text_addf(to, "\n   %s%-20s %10s %10s%s\n", style->dim, "latency event", "latest", "worst",
                  style->none);
    array_foreach (&now->latency, l)
        text_addf(to, "   %-20s %10s %10s\n", l->event,
                  clock_format_duration(l->latest_ms * NS_PER_MS, took, sizeof(took)),
                  clock_format_duration(l->worst_ms * NS_PER_MS, worst, sizeof(worst)));
    if (now->nodes.count)
        text_addf(to, "\n   %s%-30s %-24s %-12s %6s%s\n", style->dim, "node", "flags", "link", "slots",
                  style->none);
    array_foreach (&now->nodes, n)
        text_addf(to, "   %-30s %-24s %-12s %6" PRIu64 "\n", n->address, n->flags, n->link, n->slots);
}

/* "master0:name=mymaster,status=ok,address=127.0.0.1:6379,slaves=0,sentinels=1" */
static void add_watched(struct text *to, const struct redis_remote *now)
{
    array_foreach (&now->info, info)
        if (strncmp(info->name, "master", strlen("master")) == 0 &&
            strncmp(info->value, "name=", strlen("name=")) == 0)
            text_addf(to, "   It watches %s.\n", info->value);
}

static void print_text(struct redis_remote *now, const struct redis_remote *before, const char *name,
                       bool counted, const struct report *report)
{
    const struct prose_style *style = reading_style(1);
    struct text out = {0};
    char took[DURATION], memory[TEXT_OF_BYTES];
    uint64_t took_ns = now->at_ns - before->at_ns;
    prose_findings(&out, report, style, reading_width(1));
    const char *role = redis_remote_text(now, "role");
    text_addf(
        &out, "\n%s%s%s: version %s, %s%s%s, up for %s, ", style->bold, name, style->none,
        redis_remote_text(now, "redis_version"), redis_remote_text(now, "redis_mode"), role[0] ? " " : "",
        role,
        clock_format_duration(redis_remote_number(now, "uptime_in_seconds") * NS_PER_S, took, sizeof(took)));
    prose_count(&out, redis_remote_number(now, "connected_clients"), "client");
    text_addf(&out, ", %s of memory\n", text_of_bytes(redis_remote_number(now, "used_memory"), memory));
    if (redis_remote_is_sentinel(now))
        add_watched(&out, now);
    else
        text_addf(&out,
                  counted ? "   Counted during %s; what sonde itself asked is in it.\n"
                          : "   The server was restarted in that time: counted since then (%s).\n",
                  clock_format_duration(took_ns, took, sizeof(took)));
    add_commands(&out, now, (double)took_ns / 1e9, style);
    add_lists(&out, now, style);
    text_add(&out, "\n");
    prose_limits(&out, report, style, reading_width(1));
    cli_put(stdout, text_get(&out));
    text_done(&out);
}

static int print_all(struct redis_remote *now, const struct redis_remote *before, const char *name, bool json,
                     struct problem *problem)
{
    struct report report = {.nothing =
                                "The slow log has no command that ran for 10 ms, few keys were evicted, and "
                                "the newest fork was quick."};
    bool counted = redis_remote_subtract(now, before);
    int r = redis_remote_report(now, before, name, &report);
    report_sort(&report);
    if (r >= 0 && json) {
        report.extra = json_pack("{s:[o]}", "servers", redis_remote_json(now, before, name));
        json_t *document = report.extra ? report_json(&report) : NULL;
        r = cli_print_json(document, JSON_INDENT(1));
    } else if (r >= 0) {
        print_text(now, before, name, counted, &report);
    }
    report_done(&report);
    return r < 0 ? problem_set(problem, r, "out of memory") : 0;
}

/* ---- the whole ---- */

static bool begins(const char *words, const char *with)
{
    return strncmp(words, with, strlen(with)) == 0;
}

/* A server that still loads its data refuses too. */
static int refused(const struct redis_remote *before, const char *address, struct problem *problem)
{
    const char *words = before->refused[REDIS_ASK_INFO];
    bool unknown = begins(words, "NOAUTH"), denied = begins(words, "NOPERM");
    int r = problem_set(problem, unknown || denied ? -EACCES : -EBUSY, "%s refuses INFO: %s", address, words);
    if (unknown)
        problem_remedy(problem, "Give --user and --password-file, or the password in REDISCLI_AUTH.");
    if (denied)
        problem_remedy(problem,
                       "ACL SETUSER NAME +info +slowlog|get +latency|latest +cluster|nodes allows all "
                       "that is asked.");
    return r;
}

static int connect_and_ask(struct connection *c, const struct redis_remote_options *options, double seconds,
                           struct redis_remote *before, struct redis_remote *now, struct problem *problem)
{
    _cleanup_(freep) char *password = NULL;
    _cleanup_(freep) char *host = NULL;
    struct tcp_address to = {.tls = options->tls,
                             .authorities = options->authorities,
                             .certificate = options->certificate,
                             .private_key = options->private_key};
    int r = split_address(c->address, &host, &to.port);
    if (r < 0)
        return problem_set(problem, r, "'%s' is no HOST:PORT", c->address);
    to.host = host;
    r = read_password(options, &password, problem);
    if (r >= 0)
        r = tcp_open(&to, ANSWER_MS, &c->tcp, problem);
    if (r >= 0 && (r = resp_new(&c->resp)) < 0)
        problem_set(problem, r, "out of memory");
    if (r >= 0)
        r = authenticate(c, options->user, password, problem);
    if (r >= 0)
        r = ask_twice(c, seconds, before, now, problem);
    if (r >= 0 && before->refused[REDIS_ASK_INFO])
        r = refused(before, c->address, problem);
    return r;
}

int redis_remote_run(const struct command *self, const struct redis_remote_options *options,
                     const char *address, double seconds, bool json)
{
    struct connection c = {.address = address};
    struct redis_remote before = {0}, now = {0};
    struct problem problem = {0};
    if (!options->tls && (options->authorities || options->certificate || options->private_key))
        return cli_usage(self, "--cacert, --cert and --key are for --tls");
    int r = connect_and_ask(&c, options, seconds, &before, &now, &problem);
    if (r >= 0)
        r = print_all(&now, &before, address, json, &problem);
    connection_done(&c);
    redis_remote_done(&before);
    redis_remote_done(&now);
    return r >= 0 ? EXIT_DONE : cli_fail(r == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, &problem);
}
