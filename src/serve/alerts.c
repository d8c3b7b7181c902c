/* See alerts.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/alerts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/schema.h"

static struct alert *find(struct alerts *alerts, uint64_t fingerprint)
{
    array_foreach (&alerts->list, alert)
        if (alert->fingerprint == fingerprint)
            return alert;
    return NULL;
}

void alerts_begin(struct alerts *alerts)
{
    array_foreach (&alerts->list, alert)
        alert->seen = false;
}

static void describe(struct alert *alert, char *title, json_t *finding)
{
    free(alert->title);
    json_decref(alert->finding);
    alert->title = title;
    alert->finding = finding;
}

int alerts_see(struct alerts *alerts, uint64_t fingerprint, uint64_t requests, const char *title,
               json_t *finding, bool *ret_fires)
{
    struct alert *alert = find(alerts, fingerprint), fresh = {.fingerprint = fingerprint};
    char *copy = strdup(title);
    if (!copy || (!alert && array_add(&alerts->list, fresh) < 0)) {
        free(copy);
        json_decref(finding);
        return -ENOMEM;
    }
    if (!alert)
        alert = &alerts->list.at[alerts->list.count - 1];
    bool more = requests > alert->requests;
    alert->seen = true;
    alert->requests = requests;
    alert->quiet = more ? 0 : alert->quiet + 1;
    *ret_fires = alert->state != ALERT_FIRING && more;
    if (*ret_fires) {
        alert->state = ALERT_FIRING;
        alert->since_ns = clock_realtime_ns();
        alert->acknowledged = alert->acted = false;
    }
    describe(alert, copy, finding);
    return 0;
}

void alerts_end(struct alerts *alerts)
{
    array_foreach (&alerts->list, alert)
        if (alert->state == ALERT_FIRING && (!alert->seen || alert->quiet >= ALERTS_QUIET_LOOKS))
            alert->state = ALERT_RESOLVED;
}

bool alerts_is_firing(struct alerts *alerts, uint64_t fingerprint)
{
    const struct alert *alert = find(alerts, fingerprint);
    return alert && alert->state == ALERT_FIRING;
}

struct alert *alerts_pending(struct alerts *alerts)
{
    array_foreach (&alerts->list, alert)
        if (alert->state != alert->told)
            return alert;
    return NULL;
}

json_t *alert_json(const struct alert *alert, const char *bundle)
{
    char id[20];
    json_t *json = json_object();
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)alert->fingerprint);
    json_object_set_new(json, "schema", json_integer(SCHEMA_alert));
    json_object_set_new(json, "status", json_string(alert->state == ALERT_FIRING ? "firing" : "resolved"));
    json_object_set_new(json, "fingerprint", json_string(id));
    json_object_set_new(json, "title", json_string(alert->title));
    json_object_set_new(json, "since_ns", json_integer((json_int_t)alert->since_ns));
    json_object_set_new(json, "acknowledged", json_boolean(alert->acknowledged));
    if (alert->finding)
        json_object_set(json, "finding", alert->finding);
    if (bundle)
        json_object_set_new(json, "bundle", json_string(bundle));
    return json;
}

void alerts_done(struct alerts *alerts)
{
    array_foreach (&alerts->list, alert)
        describe(alert, NULL, NULL);
    array_done(&alerts->list);
}
