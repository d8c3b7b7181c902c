/* See watcher.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"
#include "serve/beside.h"

#define EVERY_S      30.0
#define FALSE_ALARMS 0.01 /* of all alarms, over everything that is looked at */

struct watcher {
    struct watcher_settings settings;
    struct alerts alerts;
    struct watcher_counts counts;
    pthread_t thread;
    pthread_mutex_t lock; /* of the alerts, the counts and stopping */
    pthread_cond_t wake;
    bool stopping, started;
};

/* What stays the same while one slow-down is seen again and again, in however many buckets. */
static uint64_t fingerprint_of(const struct book *book, const struct verdict *v)
{
    struct text words = {0};
    text_addf(&words, "%s|%s", names_get(book->names, v->service), names_get(book->names, v->since));
    uint64_t hash = map_hash(text_get(&words), words.length);
    text_done(&words);
    return hash;
}

/* One alert of a version: its strongest verdict is the finding, the others are listed. */
static int see(struct watcher *w, const struct book *book, const struct judgement *judgement, size_t first)
{
    const struct verdict *v = &judgement->verdicts.at[first];
    uint64_t fingerprint = fingerprint_of(book, v), served = 0;
    struct report one = {0};
    struct finding *finding;
    json_t *others = json_array();
    bool fires;
    int r = diagnosis_add_finding(book, v, v->sequential.e_value, &one, &finding);
    for (size_t i = 0; r == 0 && i < judgement->verdicts.count; i++) {
        const struct verdict *other = &judgement->verdicts.at[i];
        if (other->outcome != OUTCOME_SLOWER || other->follows != NAMES_NONE ||
            fingerprint_of(book, other) != fingerprint)
            continue;
        served += other->served;
        struct text words = {0};
        book_bucket_words(book, &book->buckets.at[other->bucket], &words);
        if (i != first)
            json_array_append_new(others, json_string(text_get(&words)));
        text_done(&words);
    }
    json_t *json = r == 0 ? finding_json(finding) : NULL;
    if (json)
        json_object_set(json, "also_in", others);
    if (r == 0)
        r = json ? alerts_see(&w->alerts, fingerprint, served, finding->title, json, &fires) : -ENOMEM;
    json_decref(others);
    report_done(&one);
    return r;
}

static int see_all(struct watcher *w, const struct book *book, const struct judgement *judgement)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < judgement->verdicts.count; i++) {
        const struct verdict *v = &judgement->verdicts.at[i];
        bool first = v->outcome == OUTCOME_SLOWER && v->follows == NAMES_NONE;
        for (size_t k = 0; first && k < i; k++)
            first = judgement->verdicts.at[k].outcome != OUTCOME_SLOWER ||
                    judgement->verdicts.at[k].follows != NAMES_NONE ||
                    fingerprint_of(book, &judgement->verdicts.at[k]) != fingerprint_of(book, v);
        if (first)
            r = see(w, book, judgement, i);
    }
    return r;
}

/* ---- telling ---- */

static void write_history(struct watcher *w, const struct alert *alert, const char *event)
{
    if (!w->settings.history)
        return;
    json_t *line = alert_json(alert, NULL);
    json_object_set_new(line, "at_ns", json_integer((json_int_t)clock_realtime_ns()));
    json_object_set_new(line, "event", json_string(event));
    char *text = json_dumps(line, JSON_COMPACT);
    _cleanup_(file_closep) int fd =
        open(w->settings.history, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct text out = {0};
    text_addf(&out, "%s\n", text ? text : "{}");
    if (fd < 0 || write(fd, text_get(&out), out.length) != (ssize_t)out.length)
        fprintf(stderr, "sonde: %s: %s\n", w->settings.history, strerror(errno));
    text_done(&out);
    free(text);
    json_decref(line);
}

static void act(struct watcher *w, const struct alert *alert)
{
    struct problem problem = {0};
    enum action_outcome outcome;
    int r = action_run(&w->settings.action, alert, &outcome, &problem);
    fprintf(stderr, "sonde: action for %s: %s%s%s\n", alert->title, action_outcome_name(outcome),
            r < 0 ? ": " : "", r < 0 ? problem.what : "");
    w->counts.actions++;
}

/* A copy of what is pending, so that nobody waits for whoever is told. */
static bool take_pending(struct watcher *w, struct alert *ret_copy)
{
    pthread_mutex_lock(&w->lock);
    struct alert *alert = alerts_pending(&w->alerts);
    if (alert) {
        *ret_copy = *alert;
        ret_copy->title = strdup(alert->title);
        json_incref(alert->finding);
    }
    pthread_mutex_unlock(&w->lock);
    return alert != NULL;
}

static void set_told(struct watcher *w, const struct alert *copy)
{
    pthread_mutex_lock(&w->lock);
    array_foreach (&w->alerts.list, alert)
        if (alert->fingerprint == copy->fingerprint)
            alert->told = copy->state;
    *(copy->state == ALERT_FIRING ? &w->counts.fired : &w->counts.resolved) += 1;
    pthread_mutex_unlock(&w->lock);
}

/* Tells what is pending; what fails is tried again at the next look. An action is taken once, told or not. */
static void tell(struct watcher *w)
{
    struct alert alert;
    while (take_pending(w, &alert)) {
        struct problem problem = {0};
        int r = w->settings.notifier.url ? notify_send(&w->settings.notifier, &alert, &problem) : 0;
        *(r < 0 ? &w->counts.untold : &w->counts.told) += 1;
        if (r < 0)
            fprintf(stderr, "sonde: the webhook failed, and will be tried again: %s\n", problem.what);
        bool firing = alert.state == ALERT_FIRING, again = r < 0;
        if (!again) {
            fprintf(stderr, "sonde: %s: %s\n", firing ? "slower" : "resolved", alert.title);
            set_told(w, &alert);
            write_history(w, &alert, firing ? "firing" : "resolved");
        }
        if (firing && !alert.acted && !alert.acknowledged && w->settings.action.command &&
            beside_blames_version(&alert)) { /* an action stops a rollout */
            act(w, &alert);
            pthread_mutex_lock(&w->lock);
            array_foreach (&w->alerts.list, one)
                if (one->fingerprint == alert.fingerprint)
                    one->acted = true;
            pthread_mutex_unlock(&w->lock);
        }
        free(alert.title);
        json_decref(alert.finding);
        if (again)
            return;
    }
}

/* ---- looking ---- */

static void look(struct watcher *w)
{
    struct report report = {0};
    struct judgement judgement = {0};
    bool of_version;
    receiver_lock(w->settings.receiver);
    int r = diagnosis_report(w->settings.diagnosis, &w->settings.judge, &report, &judgement);
    if (r == 0) {
        pthread_mutex_lock(&w->lock);
        alerts_begin(&w->alerts);
        r = see_all(w, diagnosis_book(w->settings.diagnosis), &judgement);
        if (r == 0)
            r = beside_see(&w->alerts, diagnosis_book(w->settings.diagnosis), &judgement, &of_version);
        if (r == 0)
            alerts_end(&w->alerts);
        w->counts.looks++;
        pthread_mutex_unlock(&w->lock);
    }
    receiver_unlock(w->settings.receiver);
    judgement_done(&judgement);
    report_done(&report);
    tell(w);
}

static void *run(void *context)
{
    struct watcher *w = context;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        double every = w->settings.every_s;
        until.tv_sec += (time_t)every;
        until.tv_nsec += (long)((every - (double)(time_t)every) * 1e9);
        until.tv_sec += until.tv_nsec / (long)NS_PER_S;
        until.tv_nsec %= (long)NS_PER_S;
        pthread_mutex_lock(&w->lock);
        while (!w->stopping && pthread_cond_timedwait(&w->wake, &w->lock, &until) != ETIMEDOUT)
            continue;
        bool stopping = w->stopping;
        pthread_mutex_unlock(&w->lock);
        if (stopping)
            return NULL;
        look(w);
    }
}

int watcher_new(const struct watcher_settings *settings, struct watcher **ret_watcher,
                struct problem *problem)
{
    struct watcher *w = calloc(1, sizeof(*w));
    pthread_condattr_t monotonic;
    uint64_t lines;
    if (!w)
        return -ENOMEM;
    w->settings = *settings;
    w->settings.every_s = settings->every_s > 0 ? settings->every_s : EVERY_S;
    w->settings.judge.sequential = true;
    if (!(w->settings.judge.regress.false_discovery_rate > 0))
        w->settings.judge.regress.false_discovery_rate = FALSE_ALARMS;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const char *audit = settings->action.audit;
    int r = audit ? action_audit_check(audit, &lines, problem) : 0;
    if (r == -ENOENT)
        r = 0;
    if (r == 0)
        r = -pthread_create(&w->thread, NULL, run, w);
    w->started = r == 0;
    if (r < 0)
        watcher_free(w);
    else
        *ret_watcher = w;
    return r;
}

json_t *watcher_alerts(struct watcher *w)
{
    json_t *list = json_array();
    pthread_mutex_lock(&w->lock);
    for (size_t i = w->alerts.list.count; i-- > 0;)
        json_array_append_new(list, alert_json(&w->alerts.list.at[i], NULL));
    pthread_mutex_unlock(&w->lock);
    return list;
}

int watcher_acknowledge(struct watcher *w, uint64_t fingerprint)
{
    int r = -ENOENT;
    pthread_mutex_lock(&w->lock);
    array_foreach (&w->alerts.list, alert)
        if (alert->fingerprint == fingerprint && alert->state == ALERT_FIRING) {
            alert->acknowledged = true;
            write_history(w, alert, "acknowledged");
            r = 0;
        }
    pthread_mutex_unlock(&w->lock);
    return r;
}

void watcher_get_counts(struct watcher *w, struct watcher_counts *ret_counts)
{
    pthread_mutex_lock(&w->lock);
    *ret_counts = w->counts;
    ret_counts->firing = 0;
    array_foreach (&w->alerts.list, alert)
        ret_counts->firing += alert->state == ALERT_FIRING;
    pthread_mutex_unlock(&w->lock);
}

void watcher_free(struct watcher *w)
{
    if (!w)
        return;
    if (w->started) {
        pthread_mutex_lock(&w->lock);
        w->stopping = true;
        pthread_cond_signal(&w->wake);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    alerts_done(&w->alerts);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    free(w);
}
