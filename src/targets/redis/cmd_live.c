/* See cmd_live.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/cmd_live.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "analyze/live.h"
#include "base/clock.h"
#include "base/schema.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "targets/redis/cmd_text.h"
#include "cli/telling.h"
#include "targets/redis/event.h"
#include "targets/redis/window.h"
#include "trace/trace.h"

enum { TICK_MS = 200, SHOWN_COMMANDS = 10, SHOWN_IN_LINE = 4, SHOWN_FINDINGS = 8, DURATION = 32 };

struct view {
    const struct redis_live_options *options;
    struct growing recording;
    struct redis_model *model;
    struct telling telling;
    uint64_t read_ns;   /* everything up to here was read */
    uint64_t window_ns; /* where the window began; 0: not yet */
    bool terminal;
    unsigned lines; /* on the terminal, to be replaced */
};

static const char *say_ns(double ns, char text[static DURATION])
{
    return clock_format_duration((uint64_t)ns, text, DURATION);
}

/* ---- command by command ---- */

static bool is_client(const struct redis_client *client, uint64_t id, const char *wanted)
{
    char *end;
    unsigned long long number = strtoull(wanted, &end, 10);
    if (!*end)
        return number == id;
    size_t length = strlen(wanted);
    return client && strncmp(client->peer, wanted, length) == 0 &&
           (!client->peer[length] || client->peer[length] == ':');
}

static bool passes(const struct redis_each *each, const struct redis_client *client, uint64_t id,
                   const char *name, uint64_t took_ns)
{
    return took_ns >= each->least_ns && (!each->name || strcasecmp(each->name, name) == 0) &&
           (!each->client || is_client(client, id, each->client));
}

static void show_command(const struct view *live, const struct event *e)
{
    const struct redis_server *server = live->model->recent ? live->model->recent->server : NULL;
    const uint64_t id = U(e, redis_command_client_id), took_ns = e->values[FIELD_DURATION].u;
    if (!server || !server->recent_command || U(e, redis_command_depth))
        return;
    const uint64_t *known = map_get(&server->clients, id);
    const struct redis_client *client = known ? (const struct redis_client *)(uintptr_t)*known : NULL;
    const char *peer = client && client->peer[0] ? client->peer : "unknown address";
    char name[64], took[DURATION], bytes[TEXT_OF_BYTES];
    redis_say_command(server->recent_command->name, name, sizeof(name));
    if (!passes(&live->options->each, client, id, name, took_ns))
        return;
    if (live->options->json)
        cli_print_json(json_pack("{s:i, s:{s:I, s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:I}}", "schema",
                                 SCHEMA_line, "command", "time_ns", (json_int_t)e->time_ns, "server",
                                 server->name, "pid", (json_int_t)server->pid, "client_id", (json_int_t)id,
                                 "peer", peer, "name", name, "executed_ns", (json_int_t)took_ns,
                                 "arguments_count", (json_int_t)I(e, redis_command_argument_count),
                                 "argument_bytes", (json_int_t)U(e, redis_command_bytes)),
                       JSON_COMPACT);
    else
        cli_printf(stdout, "%12.6f %s client %" PRIu64 " (%s) %s %s, %s\n",
                   (double)(e->time_ns - live->model->first_ns) / 1e9, server->name, id, peer, name,
                   say_ns((double)took_ns, took), text_of_bytes(U(e, redis_command_bytes), bytes));
}

/* ---- the trace as it grows ---- */

/* Feeds what came since the last time and is settled. */
static int read_news(struct view *live, struct problem *problem)
{
    const struct event *e;
    struct growing *g = &live->recording;
    uint64_t late = g->late;
    int r = growing_look(g, problem);
    while (r >= 0 && (r = growing_next(g, &e)) > 0) {
        r = redis_model_event(live->model, e);
        if (r >= 0 && e->id == SONDE_EVENT_redis_command && live->options->each.wanted)
            show_command(live, e);
    }
    if (r < 0)
        return problem->what[0] ? r : problem_set(problem, r, "%s: %s", g->folder, strerror(-r));
    if (g->late > late)
        redis_model_missed(live->model, g->late - late);
    live->read_ns = g->complete ? live->model->last_ns : g->until_ns;
    return 0;
}

/* ---- windows ---- */

static void add_line(struct text *to, const struct redis_window *w)
{
    const struct redis_counts *c = &w->counts;
    double seconds = (double)(w->to_ns - w->from_ns) / 1e9;
    char time_text[16], name[24], p99[DURATION], wait[DURATION], in[TEXT_OF_BYTES], out[TEXT_OF_BYTES];
    time_t now = time(NULL);
    strftime(time_text, sizeof(time_text), "%H:%M:%S", localtime(&now));
    text_addf(to, "%s %s (process %" PRId64 "): %.0f commands/s, %" PRIu64 " connections", time_text,
              w->server->name, w->server->pid, (double)c->commands / seconds, w->connections);
    if (w->blocked)
        text_addf(to, " (%" PRIu64 " blocked)", w->blocked);
    text_addf(to, ", loop busy %.0f %%, waits p99 %s", 100 * (double)c->busy_ns / 1e9 / seconds,
              say_ns(w->wait_p99_ns, wait));
    if (c->bus_sent || c->bus_received)
        text_addf(to, ", bus out %s in %s", text_of_bytes(c->bus_sent_bytes, out),
                  text_of_bytes(c->bus_received_bytes, in));
    if (c->lost)
        text_addf(to, ", %" PRIu64 " events lost", c->lost);
    for (size_t i = 0; i < MIN(w->commands.count, (size_t)SHOWN_IN_LINE); i++) {
        const struct redis_window_command *command = &w->commands.at[i];
        redis_say_command(command->name, name, sizeof(name));
        text_addf(to, "%s %s %.0f/s p99 %s", i ? "," : ";", name, (double)command->calls / seconds,
                  say_ns((double)command->p99_ns, p99));
    }
    text_add(to, "\n");
}

static void add_table(struct text *to, const struct redis_window *w, const struct prose_style *style)
{
    const struct redis_counts *c = &w->counts;
    double seconds = (double)(w->to_ns - w->from_ns) / 1e9;
    char name[21], p50[DURATION], p99[DURATION], worst[DURATION], in[TEXT_OF_BYTES], out[TEXT_OF_BYTES];
    text_addf(to,
              "%s%s%s (process %" PRId64 "): %.0f commands/s, %" PRIu64 " connections, %" PRIu64
              " blocked; in %s/s, out %s/s\n",
              style->bold, w->server->name, style->none, w->server->pid, (double)c->commands / seconds,
              w->connections, w->blocked, text_of_bytes((uint64_t)((double)c->in_bytes / seconds), in),
              text_of_bytes((uint64_t)((double)c->out_bytes / seconds), out));
    text_addf(to, "   %s%-20s %10s %8s %9s %9s %9s%s\n", style->dim, "command", "calls/s", "time", "p50",
              "p99", "worst", style->none);
    for (size_t i = 0; i < MIN(w->commands.count, (size_t)SHOWN_COMMANDS); i++) {
        const struct redis_window_command *command = &w->commands.at[i];
        redis_say_command(command->name, name, sizeof(name));
        text_addf(to, "   %-20s %10.0f %6.1f %% %9s %9s %9s\n", name, (double)command->calls / seconds,
                  100 * (double)command->time_ns / 1e9 / seconds, say_ns((double)command->p50_ns, p50),
                  say_ns((double)command->p99_ns, p99), say_ns((double)command->worst_ns, worst));
    }
    text_addf(to, "   waits: half %s at most, 99 %% %s, longest %s\n", say_ns(w->wait_p50_ns, p50),
              say_ns(w->wait_p99_ns, p99), say_ns(w->wait_worst_ns, worst));
    text_addf(
        to, "   loop: busy %.0f %%, %.0f iterations/s, longest %s; ready: half %.0f, 99 %% %.0f, most %.0f\n",
        100 * (double)c->busy_ns / 1e9 / seconds, (double)c->iterations / seconds,
        say_ns((double)w->longest_iteration_ns, worst), w->ready_p50, w->ready_p99, w->ready_most);
    if (c->bus_sent || c->bus_received)
        text_addf(to, "   bus: out %.0f messages/s, %s/s; in %.0f messages/s, %s/s\n",
                  (double)c->bus_sent / seconds,
                  text_of_bytes((uint64_t)((double)c->bus_sent_bytes / seconds), out),
                  (double)c->bus_received / seconds,
                  text_of_bytes((uint64_t)((double)c->bus_received_bytes / seconds), in));
    if (c->lost)
        text_addf(to, "   %s%" PRIu64 " events were lost%s\n", style->yellow, c->lost, style->none);
}

static void erase(struct view *live)
{
    if (live->lines)
        printf("\033[%uA\033[J", live->lines);
    live->lines = 0;
}

static void put(struct view *live, struct text *out)
{
    for (const char *c = text_get(out); live->terminal && *c; c++)
        live->lines += *c == '\n';
    cli_put(stdout, text_get(out));
    text_done(out);
}

/* One view of all servers. 0 or -ENOMEM. */
static int show_windows(struct view *live, const struct report *report)
{
    const struct prose_style *style = reading_style(1);
    struct text out = {0};
    json_t *servers = json_array();
    int r = 0;
    erase(live);
    if (live->terminal)
        text_addf(&out, "%sCtrl-C ends and reports%s\n", style->dim, style->none);
    array_foreach (&live->model->list, server) {
        struct redis_window window;
        if ((r = redis_window_take(*server, live->window_ns, live->read_ns, &window)) < 0)
            break;
        if (live->options->json)
            json_array_append_new(servers, redis_window_json(&window));
        else if (live->terminal)
            add_table(&out, &window, style);
        else
            add_line(&out, &window);
        redis_window_done(&window);
    }
    if (live->terminal)
        telling_list(&out, report, SHOWN_FINDINGS, reading_width(1), style);
    if (live->options->json)
        cli_print_json(json_pack("{s:i, s:I, s:I, s:O}", "schema", SCHEMA_line, "from_ns",
                                 (json_int_t)live->window_ns, "to_ns", (json_int_t)live->read_ns, "servers",
                                 servers),
                       JSON_COMPACT);
    json_decref(servers);
    put(live, &out);
    return r;
}

/* ---- the whole ---- */

/* 0 or -ENOMEM; report_done() either way. */
static int report_now(const struct view *live, struct report *report)
{
    int r = redis_model_report(live->model, report);
    if (r >= 0)
        r = redis_model_report_slow(live->model, report);
    report_sort(report);
    return r;
}

static int look(struct view *live, struct problem *problem)
{
    const uint64_t interval_ns = (uint64_t)(live->options->interval_s * (double)NS_PER_S);
    int r = read_news(live, problem);
    if (r < 0 || !live->model->first_ns)
        return r;
    struct report report = {0};
    r = report_now(live, &report);
    if (r >= 0 && !live->terminal)
        telling_changes(&live->telling, live->read_ns, &report);
    live->window_ns = live->window_ns ? live->window_ns : live->model->first_ns;
    if (r >= 0 && live->read_ns > live->window_ns &&
        (live->recording.complete || live->read_ns - live->window_ns >= interval_ns)) {
        r = live->options->each.wanted ? 0 : show_windows(live, &report);
        live->window_ns = live->read_ns;
    }
    report_done(&report);
    fflush(stdout);
    return r;
}

static int follow(struct view *live, struct problem *problem)
{
    for (;;) {
        int r = look(live, problem);
        if (r < 0 || live->recording.complete || follow_stopped())
            return r;
        if (follow_pause_ms(live->options->recorder, TICK_MS))
            return -ECANCELED;
    }
}

int redis_live_run(const struct redis_live_options *options)
{
    struct problem problem = {0};
    struct view live = {.options = options,
                        .recording.folder = options->folder,
                        .telling.json = options->json,
                        .terminal = !options->json && !options->each.wanted && isatty(1)};
    int r = redis_model_new(&(struct redis_options){options->slow_command_ns, .windows = true}, &live.model);
    follow_catch_signals();
    if (r >= 0)
        r = follow(&live, &problem);
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "%s: %s", options->folder, strerror(-r));
    erase(&live);
    telling_done(&live.telling);
    growing_done(&live.recording);
    redis_model_free(live.model);
    return r == -ECANCELED ? EXIT_FAILED
           : r < 0         ? cli_fail(r == -EACCES || r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem)
                           : EXIT_DONE;
}
