/* Which names a server answers to, and whose pages may ask it.
 *
 * A web site can make its own name point at 127.0.0.1 (DNS rebinding) and then read what a server on loopback
 * answers as if it were the site's own. The browser still says which name it asked for (Host) and which page
 * asked (Origin), and a page cannot change either. An address cannot be made to point elsewhere, so only
 * names have to be configured.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_GUARD_H
#define HTTP_GUARD_H

#include <stdbool.h>

enum http_verdict { HTTP_ALLOWED, HTTP_FOREIGN_HOST, HTTP_FOREIGN_ORIGIN };

struct http_guard {
    char address[64];         /* that is listened on, without port and brackets: "127.0.0.1", "::1" */
    bool any_address;         /* it is 0.0.0.0 or ::, so each of the machine's addresses is meant */
    const char *const *names; /* further host names, ends with NULL; may be NULL */
};

/* What a browser or another client says about a request; "" for a header that is absent. */
struct http_asker {
    const char *host, *origin, *fetch_site, *fetch_mode;
    bool open; /* what is asked for may be read by pages of other loopback servers and by editors */
};

enum http_verdict http_guard_check(const struct http_guard *guard, const struct http_asker *asker);

#endif
