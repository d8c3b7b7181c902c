/* See cmd_text.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/cmd_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/reading.h"

enum { ROWS = 12, DURATION = 32 };

static const char *say_ns(uint64_t ns, char text[static DURATION])
{
    return clock_format_duration(ns, text, DURATION);
}

void redis_say_command(const char *name, char *to, size_t size)
{
    size_t n = 0;
    for (; name[n] && n < size - 1; n++)
        to[n] = (char)(name[n] == '|' ? ' ' : toupper((unsigned char)name[n]));
    to[n] = '\0';
}

static int by_time(const void *a, const void *b)
{
    const struct redis_command *x = *(struct redis_command *const *)a, *y = *(struct redis_command *const *)b;
    return x->time_ns == y->time_ns ? strcmp(x->name, y->name) : x->time_ns > y->time_ns ? -1 : 1;
}

static int by_caller_time(const void *a, const void *b)
{
    const struct redis_caller *x = a, *y = b;
    return x->time_ns == y->time_ns ? strcmp(x->name, y->name) : x->time_ns > y->time_ns ? -1 : 1;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void add_rest(struct text *to, size_t count, const char *what)
{
    if (count > ROWS)
        text_addf(to, "   ... and %zu more %s (--json lists all)\n", count - ROWS, what);
}

static void add_commands(struct text *to, struct redis_server *server, double seconds,
                         const struct prose_style *style)
{
    char p50[DURATION], p99[DURATION], worst[DURATION], bytes[TEXT_OF_BYTES];
    if (!server->commands.count)
        return;
    qsort(server->commands.at, server->commands.count, sizeof(*server->commands.at), by_time);
    text_addf(to, "\n   %s%-20s %10s %10s %8s %9s %9s %9s %10s%s\n", style->dim, "command", "calls",
              "calls/s", "time", "p50", "p99", "worst", "arguments", style->none);
    for (size_t i = 0; i < MIN(server->commands.count, (size_t)ROWS); i++) {
        const struct redis_command *c = server->commands.at[i];
        char name[21];
        redis_say_command(c->name, name, sizeof(name));
        text_addf(to, "   %-20s %10" PRIu64 " %10.0f %6.1f %% %9s %9s %9s %10s\n", name, c->calls,
                  seconds > 0 ? (double)c->calls / seconds : 0, share(c->time_ns, server->command_ns),
                  say_ns((uint64_t)sketch_quantile(&c->latency, 0.5), p50),
                  say_ns((uint64_t)sketch_quantile(&c->latency, 0.99), p99), say_ns(c->worst_ns, worst),
                  text_of_bytes(c->argument_bytes, bytes));
    }
    add_rest(to, server->commands.count, "commands");
}

static void add_callers(struct text *to, struct redis_server *server, const struct prose_style *style)
{
    char bytes[TEXT_OF_BYTES];
    if (!server->callers.count)
        return;
    qsort(server->callers.at, server->callers.count, sizeof(*server->callers.at), by_caller_time);
    text_addf(to, "\n   %s%-36s %12s %10s %8s %10s%s\n", style->dim, "caller", "connections", "commands",
              "time", "arguments", style->none);
    for (size_t i = 0; i < MIN(server->callers.count, (size_t)ROWS); i++) {
        const struct redis_caller *c = &server->callers.at[i];
        char name[64];
        snprintf(name, sizeof(name), "%s%s", c->name, c->traced ? "" : " (not traced)");
        text_addf(to, "   %-36s %12" PRIu64 " %10" PRIu64 " %6.1f %% %10s\n", name, c->clients, c->commands,
                  share(c->time_ns, server->command_ns), text_of_bytes(c->argument_bytes, bytes));
    }
    add_rest(to, server->callers.count, "callers");
}

static void add_loop(struct text *to, const struct redis_server *server, uint64_t took_ns)
{
    char longest[DURATION];
    if (!server->iterations)
        return;
    text_addf(to,
              "\n   Event loop: %" PRIu64
              " iterations with work, busy %.0f %% of the time, the longest %s. Connections ready an "
              "iteration:\n   half %.0f at most, 99 %% %.0f at most, most %.0f.\n",
              server->iterations, share(server->busy_ns, took_ns), say_ns(server->longest_ns, longest),
              sketch_quantile(&server->ready, 0.5), sketch_quantile(&server->ready, 0.99),
              sketch_quantile(&server->ready, 1));
}

static void add_threads(struct text *to, const struct redis_server *server, const struct prose_style *style)
{
    char read[DURATION], reply[DURATION], command[DURATION];
    if (server->thread_count < 2)
        return;
    text_addf(to, "\n   %s%-10s %10s %9s %10s %9s %10s %9s%s\n", style->dim, "thread", "reads", "time",
              "replies", "time", "commands", "time", style->none);
    for (unsigned i = 0; i < server->thread_count; i++) {
        const struct redis_thread *t = &server->threads[i];
        text_addf(to, "   %-10" PRId64 " %10" PRIu64 " %9s %10" PRIu64 " %9s %10" PRIu64 " %9s\n", t->tid,
                  t->reads, say_ns(t->read_ns, read), t->replies, say_ns(t->reply_ns, reply), t->commands,
                  say_ns(t->command_ns, command));
    }
}

static void add_bus(struct text *to, const struct redis_server *server, const struct prose_style *style)
{
    enum { PUBLISH = 4 };
    char sent[TEXT_OF_BYTES], received[TEXT_OF_BYTES];
    bool any = false;
    for (unsigned type = 0; type < REDIS_BUS_TYPES; type++) {
        const struct redis_traffic *t = &server->bus[type];
        if (!t->sent && !t->received)
            continue;
        if (!any)
            text_addf(to, "\n   %s%-22s %10s %10s %10s %10s%s\n", style->dim, "cluster bus", "sent", "bytes",
                      "received", "bytes", style->none);
        any = true;
        text_addf(to, "   %-22s %10" PRIu64 " %10s %10" PRIu64 " %10s\n", redis_bus_type(type), t->sent,
                  text_of_bytes(t->sent_bytes, sent), t->received,
                  text_of_bytes(t->received_bytes, received));
    }
    if (server->publish_bytes && server->bus[PUBLISH].sent_bytes)
        text_addf(to, "   PUBLISH put %.1f times its arguments on the bus.\n",
                  (double)server->bus[PUBLISH].sent_bytes / (double)server->publish_bytes);
}

static void add_sum(struct text *to, const char *what, const struct redis_sum *sum, const char *more)
{
    char took[DURATION], worst[DURATION];
    if (sum->count)
        text_addf(to, "   %-28s %10" PRIu64 " %10s %10s  %s\n", what, sum->count, say_ns(sum->time_ns, took),
                  say_ns(sum->worst_ns, worst), more);
}

static void add_volume(struct text *to, const char *what, const struct redis_volume *volume)
{
    char in[TEXT_OF_BYTES], out[TEXT_OF_BYTES], wire_in[TEXT_OF_BYTES], wire_out[TEXT_OF_BYTES];
    if (!volume->in && !volume->out)
        return;
    text_addf(to, "   %-10s in %s, out %s", what, text_of_bytes(volume->in, in),
              text_of_bytes(volume->out, out));
    if (volume->wire_in != volume->in || volume->wire_out != volume->out)
        text_addf(to, "; with TLS in %s, out %s on the wire", text_of_bytes(volume->wire_in, wire_in),
                  text_of_bytes(volume->wire_out, wire_out));
    text_add(to, "\n");
}

static void add_bytes(struct text *to, const struct redis_server *server)
{
    const struct redis_work *w = &server->work;
    char in[TEXT_OF_BYTES], out[TEXT_OF_BYTES];
    if (w->clients.in || w->clients.out || w->replicas.out || w->bus_in || w->bus_out)
        text_add(to, "\n");
    add_volume(to, "Clients:", &w->clients);
    add_volume(to, "Replicas:", &w->replicas);
    if (w->bus_in || w->bus_out)
        text_addf(to, "   %-10s in %s, out %s\n", "Bus:", text_of_bytes(w->bus_in, in),
                  text_of_bytes(w->bus_out, out));
}

static void add_work(struct text *to, const struct redis_server *server, const struct prose_style *style)
{
    const struct redis_work *w = &server->work;
    char bytes[TEXT_OF_BYTES], more[96];
    struct redis_sum blocked = {0};
    array_foreach (&server->commands, command) {
        blocked.count += (*command)->blocked.count;
        blocked.time_ns += (*command)->blocked.time_ns;
        blocked.worst_ns = MAX(blocked.worst_ns, (*command)->blocked.worst_ns);
    }
    uint64_t keys = w->expired + w->expired_on_access + w->expired_unseen + w->evicted;
    if (!w->forks.count && !w->syncs.count && !w->background_syncs.count && !w->aof_writes.count && !keys &&
        !blocked.count)
        return;
    text_addf(to, "\n   %s%-28s %10s %10s %10s%s\n", style->dim, "besides commands", "times", "total",
              "longest", style->none);
    snprintf(more, sizeof(more), "the server had %s", text_of_bytes(w->fork_memory_bytes, bytes));
    add_sum(to, "forks", &w->forks, more);
    snprintf(more, sizeof(more), "%s", text_of_bytes(w->aof_bytes, bytes));
    add_sum(to, "append-only file written", &w->aof_writes, more);
    add_sum(to, "fdatasync on the main thread", &w->syncs, "");
    add_sum(to, "fdatasync in the background", &w->background_syncs, "");
    snprintf(more, sizeof(more), "%" PRIu64 " keys, and %" PRIu64 " when they were asked for", w->expired,
             w->expired_on_access);
    if (w->expired || w->expired_on_access)
        add_sum(to, "expired keys", &w->expiry, more);
    snprintf(more, sizeof(more), "%" PRIu64 " keys", w->evicted);
    if (w->expired_unseen)
        text_addf(to, "   %-28s %10" PRIu64 "\n", "keys expired", w->expired_unseen);
    add_sum(to, "evictions", &w->evictions, more);
    add_sum(to, "clients blocked", &blocked, "");
}

static void add_server(struct text *to, struct redis_server *server, const struct prose_style *style)
{
    uint64_t took_ns = redis_recorded_ns(server);
    double seconds = (double)took_ns / 1e9;
    char took[DURATION], ran[DURATION];
    text_addf(to, "\n%s%s%s (process %" PRId64 "): ", style->bold, server->name, style->none, server->pid);
    prose_count(to, server->commands_count, "command");
    text_add(to, " from ");
    prose_count(to, server->clients_count, "connection");
    text_addf(to, " in %s; executing took %s, %.1f %% of the time.\n", say_ns(took_ns, took),
              say_ns(server->command_ns, ran), share(server->command_ns, took_ns));
    if (server->lost) {
        text_add(to, "   ");
        prose_count(to, server->lost, "event");
        text_add(to, " of this server were lost: every figure here is too small by what they held.\n");
    }
    add_commands(to, server, seconds, style);
    add_callers(to, server, style);
    add_loop(to, server, took_ns);
    add_threads(to, server, style);
    add_work(to, server, style);
    add_bytes(to, server);
    add_bus(to, server, style);
}

void redis_print(struct redis_model *model, const struct report *report)
{
    const struct prose_style *style = reading_style(1);
    unsigned width = reading_width(1);
    struct text out = {0}, limits = {0};
    struct report seen = *report;
    if (model->list.count)
        prose_findings(&out, report, style, width);
    else
        text_addf(&out, "No Redis server is in this recording. Record one with `sonde run -- redis-server "
                        "...`, or attach to "
                        "the\nprocess of one that runs: `sonde attach PID`.\n");
    array_foreach (&model->list, server)
        add_server(&out, *server, style);
    seen.overhead.count = 0;
    prose_limits(&limits, &seen, style, width);
    if (limits.length)
        text_addf(&out, "\n%s", text_get(&limits));
    cli_put(stdout, text_get(&out));
    text_done(&out);
    text_done(&limits);
}
