/* See notify.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/notify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/client.h"

#define TIMEOUT_MS 5000

static const char *const NAMES[NOTIFY_FORMATS] = {"json", "slack", "pagerduty"};

enum notify_format notify_format_by_name(const char *name)
{
    for (int i = 0; i < NOTIFY_FORMATS; i++)
        if (strcmp(name, NAMES[i]) == 0)
            return (enum notify_format)i;
    return NOTIFY_FORMATS;
}

static const char *text_of(const json_t *finding, const char *name)
{
    const char *text = json_string_value(json_object_get(finding, name));
    return text ? text : "";
}

/* Slack's mrkdwn gives three characters a meaning. */
static void add_slack_text(struct text *to, const char *s)
{
    for (; *s; s++)
        text_add(to, *s == '&' ? "&amp;" : *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : (char[]){*s, '\0'});
}

static json_t *slack_body(const struct notifier *notifier, const struct alert *alert)
{
    bool firing = alert->state == ALERT_FIRING;
    struct text words = {0};
    text_add(&words, firing ? ":red_circle: *" : ":large_green_circle: *resolved: ");
    add_slack_text(&words, alert->title);
    text_add(&words, "*");
    if (firing) {
        text_add(&words, "\n");
        add_slack_text(&words, text_of(alert->finding, "detail"));
        text_add(&words, "\n_");
        add_slack_text(&words, text_of(alert->finding, "remedy"));
        text_add(&words, "_");
        if (notifier->evidence)
            text_addf(&words, "\n%s", notifier->evidence);
    }
    json_t *body = json_pack("{s:s, s:[{s:s, s:{s:s, s:s}}]}", "text", alert->title, "blocks", "type",
                             "section", "text", "type", "mrkdwn", "text", text_get(&words));
    text_done(&words);
    return body;
}

static json_t *pagerduty_body(const struct notifier *notifier, const struct alert *alert)
{
    char key[24];
    const json_t *evidence = json_object_get(alert->finding, "evidence");
    bool critical = strcmp(text_of(alert->finding, "severity"), "critical") == 0;
    snprintf(key, sizeof(key), "sonde-%016llx", (unsigned long long)alert->fingerprint);
    json_t *body =
        json_pack("{s:s, s:s, s:s}", "routing_key", notifier->routing_key ? notifier->routing_key : "",
                  "event_action", alert->state == ALERT_FIRING ? "trigger" : "resolve", "dedup_key", key);
    if (body && alert->state == ALERT_FIRING) {
        json_t *payload = json_pack("{s:s, s:s, s:s, s:s, s:O?}", "summary", alert->title, "source", "sonde",
                                    "severity", critical ? "critical" : "warning", "component",
                                    text_of(evidence, "service"), "custom_details", alert->finding);
        json_object_set_new(body, "payload", payload);
        if (notifier->evidence)
            json_object_set_new(body, "links",
                                json_pack("[{s:s, s:s}]", "href", notifier->evidence, "text", "Evidence"));
    }
    return body;
}

json_t *notify_body(const struct notifier *notifier, const struct alert *alert)
{
    return notifier->format == NOTIFY_SLACK       ? slack_body(notifier, alert)
           : notifier->format == NOTIFY_PAGERDUTY ? pagerduty_body(notifier, alert)
                                                  : alert_json(alert, notifier->evidence);
}

int notify_send(const struct notifier *notifier, const struct alert *alert, struct problem *problem)
{
    json_t *body = notify_body(notifier, alert);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    int r = text ? http_post(notifier->url, "application/json", text, strlen(text), TIMEOUT_MS, NULL, problem)
                 : -ENOMEM;
    free(text);
    json_decref(body);
    return r;
}
