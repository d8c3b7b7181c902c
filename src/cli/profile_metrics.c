/* See profile_metrics.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_metrics.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "http/server.h"
#include "steer/exposition.h"

struct profile_metrics {
    struct http_server *server;
    pthread_mutex_t lock; /* of what follows: sampling writes it, the server's thread reads it */
    struct exposition *exposition;
    struct text regressed; /* its family of metrics */
    uint64_t kept, failed, lost;
    unsigned hz;
    double spent_s;
};

enum { REGRESSED_MOST = 64 }; /* series of functions whose share has grown */

static void write_counts(const struct profile_metrics *m, struct text *text)
{
    text_addf(
        text,
        "# HELP sonde_profile_windows_total Windows of the profile, by what became of them.\n"
        "# TYPE sonde_profile_windows_total counter\n"
        "sonde_profile_windows_total{result=\"kept\"} %llu\n"
        "sonde_profile_windows_total{result=\"failed\"} %llu\n"
        "# HELP sonde_profile_lost_samples_total Samples that there was no room for.\n"
        "# TYPE sonde_profile_lost_samples_total counter\n"
        "sonde_profile_lost_samples_total %llu\n"
        "# HELP sonde_profile_frequency_hertz Samples a second and CPU, as sampling's cost allows now.\n"
        "# TYPE sonde_profile_frequency_hertz gauge\n"
        "sonde_profile_frequency_hertz %u\n"
        "# HELP sonde_profile_own_cpu_seconds_total CPU time that sonde takes itself.\n"
        "# TYPE sonde_profile_own_cpu_seconds_total counter\n"
        "sonde_profile_own_cpu_seconds_total %.3f\n",
        (unsigned long long)m->kept, (unsigned long long)m->failed, (unsigned long long)m->lost, m->hz,
        m->spent_s);
}

static void answer(struct http_response *response, unsigned status, const char *type, struct text *text)
{
    response->status = text->failed ? 503 : status;
    response->content_type = type;
    response->length = text->length;
    response->body = text_take(text);
    if (!response->body)
        response->length = 0;
}

static void handle(void *context, const struct http_request *request, struct http_response *response)
{
    struct profile_metrics *m = context;
    struct text text = {0};
    if (strcmp(request->path, "/metrics") != 0) {
        text_add(&text, "/metrics is all there is\n");
        answer(response, 404, "text/plain", &text);
    } else if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0) {
        text_add(&text, "GET only\n");
        answer(response, 405, "text/plain", &text);
    } else {
        pthread_mutex_lock(&m->lock);
        exposition_write(m->exposition, &text);
        text_add(&text, text_get(&m->regressed));
        write_counts(m, &text);
        pthread_mutex_unlock(&m->lock);
        answer(response, 200, HTTP_METRICS, &text);
    }
}

int profile_metrics_start(const char *address, struct profile_metrics **ret_metrics, struct problem *problem)
{
    _cleanup_(profile_metrics_freep) struct profile_metrics *m = calloc(1, sizeof(*m));
    if (!m)
        return problem_set(problem, -ENOMEM, "out of memory");
    pthread_mutex_init(&m->lock, NULL);
    if (exposition_new(&EXPOSITION_USUAL, &m->exposition) < 0)
        return problem_set(problem, -ENOMEM, "out of memory");
    struct http_settings settings = {.address = address,
                                     .threads = 1,
                                     .body_max = 4096,
                                     .held_max = 1 << 20,
                                     .connections_max = 64,
                                     .handle = handle,
                                     .context = m};
    int r = http_server_start(&settings, &m->server, problem);
    if (r < 0)
        return r;
    *ret_metrics = m;
    m = NULL;
    return 0;
}

void profile_metrics_free(struct profile_metrics *m)
{
    if (!m)
        return;
    if (m->server)
        http_server_stop(m->server);
    exposition_free(m->exposition);
    text_done(&m->regressed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

uint16_t profile_metrics_port(const struct profile_metrics *m)
{
    return http_server_port(m->server);
}

int profile_metrics_add(struct profile_metrics *m, const struct profile *services,
                        const struct business_rules *rules)
{
    pthread_mutex_lock(&m->lock);
    int r = exposition_add(m->exposition, services, rules);
    pthread_mutex_unlock(&m->lock);
    return r;
}

/* Functions of one name in two files are one series, which may not stand twice. */
static bool stands_already(const struct regressed_function *functions, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(functions[i].service, functions[at].service) == 0 &&
            strcmp(functions[i].function, functions[at].function) == 0)
            return true;
    return false;
}

int profile_metrics_set_regressed(struct profile_metrics *m, const struct regressed_function *functions,
                                  size_t count)
{
    struct text text = {0};
    size_t written = 0;
    text_add(&text,
             "# HELP sonde_function_regressed_cpu_share What functions were found in the last day to take "
             "more of their service's CPU, as a share of it.\n"
             "# TYPE sonde_function_regressed_cpu_share gauge\n");
    for (size_t i = 0; i < count && written < REGRESSED_MOST; i++) {
        if (stands_already(functions, i))
            continue;
        text_add(&text, "sonde_function_regressed_cpu_share{service=\"");
        exposition_add_label(&text, functions[i].service);
        text_add(&text, "\",function=\"");
        exposition_add_label(&text, functions[i].function);
        text_addf(&text, "\"} %.6f\n", functions[i].share.growth);
        written++;
    }
    bool failed = text.failed;
    pthread_mutex_lock(&m->lock);
    text_done(&m->regressed);
    m->regressed = text;
    pthread_mutex_unlock(&m->lock);
    return failed ? -ENOMEM : 0;
}

void profile_metrics_set(struct profile_metrics *m, uint64_t kept, uint64_t failed, uint64_t lost,
                         unsigned hz, double spent_s)
{
    pthread_mutex_lock(&m->lock);
    m->kept = kept;
    m->failed = failed;
    m->lost = lost;
    m->hz = hz;
    m->spent_s = spent_s;
    pthread_mutex_unlock(&m->lock);
}
