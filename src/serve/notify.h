/* Tells somebody of an alert: as JSON of our own, or in the body that Slack's incoming webhooks or
 * PagerDuty's Events API v2 take. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_NOTIFY_H
#define SERVE_NOTIFY_H

#include "base/problem.h"
#include "serve/alerts.h"

enum notify_format { NOTIFY_JSON, NOTIFY_SLACK, NOTIFY_PAGERDUTY, NOTIFY_FORMATS };

struct notifier {
    const char *url; /* NULL: nobody is told */
    enum notify_format format;
    const char *routing_key; /* of PagerDuty's service */
    const char *evidence;    /* where the evidence page is; or NULL */
};

/* "json", "slack", "pagerduty"; NOTIFY_FORMATS for none of them. */
enum notify_format notify_format_by_name(const char *name);

/* The body of one alert in its present state; the caller's. */
json_t *notify_body(const struct notifier *notifier, const struct alert *alert);

/* 0, or a negative errno with words. */
int notify_send(const struct notifier *notifier, const struct alert *alert, struct problem *problem);

#endif
