/* See guard.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/guard.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"

/* Takes "name:port", "name", "[v6]:port" or "[v6]" apart. False for anything else. */
static bool take_host(const char *text, char *ret_name, size_t size)
{
    bool bracketed = *text == '[';
    const char *start = text + bracketed;
    size_t length = strcspn(start, bracketed ? "]" : ":");
    const char *rest = start + length;
    if (bracketed && *rest++ != ']')
        return false;
    if (!length || length >= size)
        return false;
    if (*rest == ':') {
        size_t digits = strspn(rest + 1, "0123456789");
        if (digits > 5)
            return false;
        rest += 1 + digits;
    }
    if (*rest)
        return false;
    memcpy(ret_name, start, length);
    ret_name[length] = '\0';
    return true;
}

static bool is_loopback(const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, name, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, name, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcasecmp(name, "localhost") == 0;
}

static bool is_address(const char *name)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool is_ours(const struct http_guard *guard, const char *name)
{
    if (is_loopback(name) || strcasecmp(name, guard->address) == 0 ||
        (guard->any_address && is_address(name)))
        return true;
    for (const char *const *n = guard->names; n && *n; n++)
        if (strcasecmp(name, *n) == 0)
            return true;
    return false;
}

/* The host and port of "http://host:port", or NULL for other schemes and for "null". */
static const char *web_authority(const char *origin)
{
    if (strncmp(origin, "http://", 7) == 0)
        return origin + 7;
    return strncmp(origin, "https://", 8) == 0 ? origin + 8 : NULL;
}

static bool may_read_open(const char *origin)
{
    const char *authority = web_authority(origin);
    char name[256];
    if (authority)
        return take_host(authority, name, sizeof(name)) && is_loopback(name);
    return strncmp(origin, "vscode-webview://", 17) == 0;
}

enum http_verdict http_guard_check(const struct http_guard *guard, const struct http_asker *asker)
{
    char name[256];
    if (!take_host(asker->host, name, sizeof(name)) || !is_ours(guard, name))
        return HTTP_FOREIGN_HOST;
    if (*asker->origin) {
        const char *authority = web_authority(asker->origin);
        if (authority && strcasecmp(authority, asker->host) == 0)
            return HTTP_ALLOWED;
        return asker->open && may_read_open(asker->origin) ? HTTP_ALLOWED : HTTP_FOREIGN_ORIGIN;
    }
    /* Pictures, scripts and frames of other sites come without an Origin. Following a link to us is fine. */
    if (strcmp(asker->fetch_site, "cross-site") == 0 || strcmp(asker->fetch_site, "same-site") == 0)
        return strcmp(asker->fetch_mode, "navigate") == 0 ? HTTP_ALLOWED : HTTP_FOREIGN_ORIGIN;
    return HTTP_ALLOWED;
}
