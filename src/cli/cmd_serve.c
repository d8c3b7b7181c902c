/* sonde serve: receives spans over OTLP/HTTP, keeps them, and answers what got slower. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "cli/serve_options.h"
#include "serve/clickhouse.h"
#include "serve/launcher.h"
#include "serve/links.h"
#include "serve/service.h"
#include "serve/span_paths.h"

#define ADDRESS       256
#define WAITING_BYTES ((size_t)128 << 20) /* of spans that wait for their traces */
#define MAPPED_BYTES  (32 << 10) /* what is larger has pages of its own, which go back when it is freed */

enum { FINDINGS_SHOWN = 10 };

/* What is opened, and closed again at the end. */
struct serve {
    struct serve_options *options;
    struct service service;
    struct source *sources[SERVE_SOURCES_MAX];
};

/* The store is a help, not a condition: without its library the rest works. */
static int open_store(struct serve *serve, struct problem *problem)
{
    const struct serve_options *o = serve->options;
    struct problem why = {0};
    char path[4096];
    if (o->no_store || !o->folder)
        return 0;
    int r = file_make_folder(o->folder);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", o->folder, strerror(-r));
    if (o->clickhouse)
        return clickhouse_store_open(o->clickhouse, &serve->service.store, problem);
    snprintf(path, sizeof(path), "%s/spans.duckdb", o->folder);
    r = duckdb_store_open(path, &serve->service.store, &why);
    if (r == -ENOENT) {
        fprintf(stderr, "sonde: raw spans are not kept: %s\n%s\n", why.what, why.remedy);
        return 0;
    }
    if (r < 0)
        *problem = why;
    return r;
}

/* Judges from now on; what fired and what was done stands beside the journal. */
static int start_watching(struct serve *serve, struct problem *problem)
{
    struct serve_options *o = serve->options;
    static char history[4096], audit[4096];
    if (o->folder) {
        snprintf(history, sizeof(history), "%s/alerts.jsonl", o->folder);
        snprintf(audit, sizeof(audit), "%s/audit.jsonl", o->folder);
        o->action.audit = o->action.audit ? o->action.audit : audit;
    }
    const struct watcher_settings settings = {.diagnosis = serve->service.diagnosis,
                                              .receiver = serve->service.receiver,
                                              .judge = o->common.judge,
                                              .notifier = o->notifier,
                                              .action = o->action,
                                              .history = o->folder ? history : NULL,
                                              .every_s = o->every_s};
    return watcher_new(&settings, &serve->service.watcher, problem);
}

/* Prints where the page shows the findings of a recording that has been read by now. False: it is still read.
 */
static bool print_findings(struct source *source, size_t number, const char *base)
{
    struct source_status status;
    struct text document = {0}, links = {0};
    source_get_status(source, &status);
    if (status.state == SOURCE_READING)
        return false;
    source_document(source, &document);
    if (status.state == SOURCE_READY && document.length)
        links_add(text_get(&document), base, number, FINDINGS_SHOWN, &links);
    fputs(text_get(&links), stderr);
    text_done(&document);
    text_done(&links);
    return true;
}

static void wait_for_end(struct serve *serve, const char *base)
{
    const struct timespec soon = {.tv_nsec = 100000000};
    size_t printed = 0;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    for (;;) {
        while (printed < serve->service.api.count && print_findings(serve->sources[printed], printed, base))
            printed++;
        int signal = sigtimedwait(&signals, NULL, printed < serve->service.api.count ? &soon : NULL);
        if (signal > 0 || (errno != EAGAIN && errno != EINTR))
            return;
    }
}

static int open_sources(struct serve *serve, struct problem *problem)
{
    const struct serve_options *o = serve->options;
    int r = 0;
    serve->service.api = (struct api){.sources = serve->sources,
                                      .regressions = service_add_regressions,
                                      .has_spans = service_has_spans,
                                      .context = &serve->service};
    receiver_lock(serve->service.receiver);
    r = span_paths_read((const char *const *)o->paths, o->path_count, serve->service.diagnosis, problem);
    receiver_unlock(serve->service.receiver);
    for (size_t i = 0; r >= 0 && i < o->path_count; i++) {
        if (span_path(o->paths[i]))
            continue;
        r = source_new(o->paths[i], !o->no_keep, &serve->sources[serve->service.api.count], problem);
        serve->service.api.count += r >= 0;
    }
    return r;
}

static void close_sources(struct serve *serve)
{
    for (size_t i = 0; i < serve->service.api.count; i++)
        source_cancel(serve->sources[i]); /* all at once */
    for (size_t i = 0; i < serve->service.api.count; i++)
        source_free(serve->sources[i]);
    tsp_free(serve->service.tsp);
}

/* Where a browser finds the page: "http://host:port/". */
static void print_address(const struct serve_options *options, uint16_t port, const char *token,
                          char base[ADDRESS])
{
    const char *colon = strrchr(options->listen, ':');
    int length = colon ? (int)(colon - options->listen) : 0;
    bool any = strncmp(options->listen, "0.0.0.0:", 8) == 0 || strncmp(options->listen, "[::]:", 5) == 0;
    snprintf(base, ADDRESS, "http://%.*s:%u/%s", any || !length ? 9 : length,
             any || !length ? "127.0.0.1" : options->listen, port, token ? "t/TOKEN/" : "");
    fprintf(stderr, "sonde: the page is at %s%s\n", base, token ? ", with the token in place of TOKEN" : "");
    if (options->path_count)
        fprintf(stderr,
                "sonde: other viewers of traces (Trace Server Protocol " TSP_VERSION ") find it below %s\n",
                token ? "/t/TOKEN" TSP_PATH : TSP_PATH);
}

static void take_call(void *context, const struct grpc_call *call, struct grpc_answer *answer)
{
    struct serve *serve = context;
    receiver_handle_call(serve->service.receiver, call, answer);
}

static int start_grpc(struct serve *serve, const char *token, struct problem *problem)
{
    const struct serve_options *o = serve->options;
    struct grpc_server *server;
    struct grpc_settings settings = {.address = o->grpc,
                                     .token = token,
                                     .connections_max = o->connections_max,
                                     .handle = take_call,
                                     .context = serve};
    if (!o->grpc)
        return 0;
    int r = grpc_server_start(&settings, &server, problem);
    if (r < 0)
        return r;
    __atomic_store_n(&serve->service.grpc, server, __ATOMIC_RELEASE);
    fprintf(stderr, "sonde: receiving OTLP/gRPC on port %u\n", grpc_server_port(server));
    return 0;
}

static int run(struct serve_options *options, const char *token, const char *send_token,
               struct problem *problem)
{
    _cleanup_(diagnosis_freep) struct diagnosis *diagnosis = NULL;
    _cleanup_(span_store_closep) struct span_store *store = NULL;
    struct serve serve = {.options = options};
    struct diagnosis_settings settings;
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES); /* batches are allocated by one thread and freed by another */
    int r = diagnose_options_settings(&options->common, &settings, problem);
    settings.waiting_bytes_max = WAITING_BYTES;
    settings.days = true;
    if (r == 0)
        r = diagnosis_new(&settings, &diagnosis);
    if (r == 0)
        r = open_store(&serve, problem);
    store = serve.service.store;
    serve.service.diagnosis = diagnosis;
    serve.service.judge = &options->common.judge;
    if (r < 0)
        return r;
    struct receiver_settings receiver_settings = {.folder = options->folder,
                                                  .diagnosis = diagnosis,
                                                  .store = store,
                                                  .keep_bytes = (uint64_t)(options->keep_gb * 1e9),
                                                  .store_keep_ns = (uint64_t)(options->keep_days * 86400e9),
                                                  .store_keep_bytes = (uint64_t)(options->store_gb * 1e9),
                                                  .store_look_ns = (uint64_t)(options->look_s * 1e9),
                                                  .idle_ns = (uint64_t)(options->idle_s * 1e9),
                                                  .exemplars = service_exemplars,
                                                  .exemplars_context = &serve.service};
    _cleanup_(receiver_freep) struct receiver *receiver = NULL;
    r = receiver_new(&receiver_settings, &receiver, problem);
    if (r < 0)
        return r;
    serve.service.receiver = receiver;
    serve.service.store = store;
    _cleanup_(watcher_freep) struct watcher *watcher = NULL;
    r = start_watching(&serve, problem);
    watcher = serve.service.watcher;
    if (r < 0)
        return r;
    r = open_sources(&serve, problem);
    if (r < 0) {
        close_sources(&serve);
        return r;
    }
    struct http_server *server = NULL;
    char base[ADDRESS];
    struct http_settings http = {.address = options->listen,
                                 .handle = service_handle,
                                 .context = &serve.service,
                                 .token = token,
                                 .send_token = send_token,
                                 .connections_max = options->connections_max,
                                 .names = options->hosts,
                                 .open_path = TSP_PATH};
    r = tsp_new(serve.sources, serve.service.api.count, &serve.service.tsp);
    if (r == 0)
        r = http_server_start(&http, &server, problem);
    if (r < 0) {
        close_sources(&serve);
        return r;
    }
    __atomic_store_n(&serve.service.http, server, __ATOMIC_RELEASE);
    print_address(options, http_server_port(server), token, base);
    fprintf(stderr, "sonde: receiving OTLP on port %u (/v1/traces); /api/diagnosis and /evidence answer\n",
            http_server_port(server));
    r = start_grpc(&serve, send_token ? send_token : token, problem);
    if (r == 0)
        wait_for_end(&serve, base);
    http_server_stop(server);
    grpc_server_stop(serve.service.grpc);
    close_sources(&serve);
    return r;
}

#define TOKEN_MIN 16 /* characters: a shorter one can be guessed */

/* The first line of a file that only its owner may read. */
static int read_token(const char *path, char **ret_token, struct problem *problem)
{
    _cleanup_(freep) char *token = NULL;
    struct stat st;
    int r = stat(path, &st) < 0 ? -errno : file_read(path, 4096, &token, NULL);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", path, strerror(-r));
    token[strcspn(token, "\r\n")] = '\0';
    if (S_ISREG(st.st_mode) && st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) {
        problem_set(problem, -EPERM, "%s may be read or written by others", path);
        problem_remedy(problem, "chmod 600 %s", path);
        return -EPERM;
    }
    if (strlen(token) < TOKEN_MIN) {
        problem_set(problem, -EINVAL, "%s: the token has less than %d characters", path, TOKEN_MIN);
        problem_remedy(problem, "head -c 24 /dev/urandom | base64 > %s", path);
        return -EINVAL;
    }
    *ret_token = token;
    token = NULL;
    return 0;
}

/* What starts the action is another process than the one that serves. */
static int start_launcher(void *options, struct problem *problem)
{
    const struct serve_options *o = options;
    return launcher_start(&o->action, problem);
}

static int cmd_serve(const struct command *self, int argc, char **argv)
{
    struct serve_options options = {.listen = "127.0.0.1:4318", .keep_gb = 16};
    struct problem problem = {0};
    _cleanup_(freep) char *token = NULL, *send_token = NULL;
    sigset_t signals;
    int status = serve_options_parse(self, argc, argv, &options), r = 0;
    if (status >= 0)
        return status;
    sigemptyset(&signals); /* before any thread is made */
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (options.token_file)
        r = read_token(options.token_file, &token, &problem);
    if (r == 0 && options.send_token_file)
        r = read_token(options.send_token_file, &send_token, &problem);
    if (r == 0)
        r = run(&options, token, send_token, &problem);
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "%s", strerror(-r));
    diagnose_options_done(&options.common);
    return r < 0 ? cli_fail(r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem) : EXIT_DONE;
}

const struct command command_serve = {
    .name = "serve",
    .arguments = "[--listen ADDRESS:PORT] [--data DIR] [OPTION...] [PATH...]",
    .summary =
        "Show recordings and profiles as a web page; receive spans over OTLP/HTTP and say what got slower",
    .help = SERVE_HELP,
    .options = SERVE_OPTIONS,
    .examples = SERVE_EXAMPLES,
    .run = cmd_serve,
    .prepare = start_launcher,
};
