/* Watches all services all the time: judges what the receiver has taken in at every look, keeps an alert for
 * each version that is slower (its buckets are one alert), tells of its beginning and its end, and acts. The
 * evidence are e-values, which stay valid however often one looks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_WATCHER_H
#define SERVE_WATCHER_H

#include "diagnose/diagnosis.h"
#include "serve/action.h"
#include "serve/notify.h"
#include "serve/receiver.h"

struct watcher_settings {
    const struct diagnosis *diagnosis; /* borrowed, like the receiver that guards it */
    struct receiver *receiver;
    struct judge_settings judge;
    struct notifier notifier;
    struct action_settings action;
    const char *history; /* file of JSON lines: what fired, was acknowledged and resolved; NULL: none */
    double every_s;      /* between looks; 0: 30 */
};

struct watcher;

/* Starts looking on a thread of its own. */
int watcher_new(const struct watcher_settings *settings, struct watcher **ret_watcher,
                struct problem *problem);

/* The alerts, the newest first: an array for people and programs; the caller's. */
json_t *watcher_alerts(struct watcher *watcher);

/* Somebody takes care of it: it is neither told nor acted on again before it is resolved. -ENOENT. */
int watcher_acknowledge(struct watcher *watcher, uint64_t fingerprint);

struct watcher_counts {
    uint64_t looks, firing, fired, resolved, told, untold, actions;
};
void watcher_get_counts(struct watcher *watcher, struct watcher_counts *ret_counts);

/* Stops; what is pending is not told any more. */
void watcher_free(struct watcher *watcher);
DEFINE_FREEP(struct watcher, watcher_free)

#endif
