/* Alerts of a watch: each slow-down is told once, again only when it comes back, and its end is told too.
 * What could not be told stays pending. Time is counted in looks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_ALERTS_H
#define SERVE_ALERTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

#define ALERTS_QUIET_LOOKS 3 /* without new requests of the slow version, before its alert is resolved */

enum alert_state { ALERT_NONE, ALERT_FIRING, ALERT_RESOLVED };

struct alert {
    uint64_t fingerprint; /* of bucket, service and version */
    uint64_t requests;    /* of the slow version, so far */
    unsigned quiet;       /* looks since there were new ones */
    bool seen;            /* slower at this look */
    bool acknowledged;    /* somebody takes care of it */
    bool acted;           /* an action was taken since it fired */
    uint64_t since_ns;    /* CLOCK_REALTIME of when it fired last */
    enum alert_state state, told;
    char *title;
    json_t *finding;
};

/* Zero-initialise to use; alerts_done() when finished. */
struct alerts {
    ARRAY(struct alert) list;
};

/* One look: begin, then see each slow-down there is, then end. */
void alerts_begin(struct alerts *alerts);

/* The finding's reference is taken, also on failure. ret_fires: it is new, or came back. -ENOMEM. */
int alerts_see(struct alerts *alerts, uint64_t fingerprint, uint64_t requests, const char *title,
               json_t *finding, bool *ret_fires);

/* Resolves what was not seen, or got no requests for ALERTS_QUIET_LOOKS looks (rolled back). */
void alerts_end(struct alerts *alerts);

/* Whether it fires, as of the last look. */
bool alerts_is_firing(struct alerts *alerts, uint64_t fingerprint);

/* The next alert whose state has not been told, or NULL; told by setting told to state. */
struct alert *alerts_pending(struct alerts *alerts);

/* What is told: {"status": "firing" or "resolved", "fingerprint", "title", "finding", "bundle" if not NULL}.
 */
json_t *alert_json(const struct alert *alert, const char *bundle);

void alerts_done(struct alerts *alerts);

#endif
