/* See resource.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/resource.h"

#include <stddef.h>
#include <string.h>

#include "base/macro.h"

const char *resource_callback(const char *type)
{
    static const struct {
        const char *type, *name;
    } NAMES[] = {
        {"HTTPINCOMINGMESSAGE", "request handler"},
        {"HTTPCLIENTREQUEST", "response handler"},
        {"TCPWRAP", "socket data"},
        {"TCPCONNECTWRAP", "connected"},
        {"TCPSERVERWRAP", "connection accepted"},
        {"FSREQCALLBACK", "file operation done"},
        {"FSREQPROMISE", "file operation done (promise)"},
        {"GETADDRINFOREQWRAP", "name resolved"},
        {"WRITEWRAP", "write done"},
        {"SHUTDOWNWRAP", "connection shut down"},
        {"PBKDF2REQUEST", "pbkdf2 done"},
        {"SCRYPTREQUEST", "scrypt done"},
        {"RANDOMBYTESREQUEST", "random bytes ready"},
        {"HTTP2SESSION", "HTTP/2 frames"},
        {"HTTP2STREAM", "HTTP/2 stream data"},
        {"ZLIB", "compression step done"},
        {"Timeout", "timer"},
        {"Immediate", "immediate"},
        {"MESSAGEPORT", "message from a thread"},
        {"PIPEWRAP", "pipe data"},
        {"SIGNALWRAP", "signal"},
        {"FILEHANDLECLOSEREQ", "file closed"},
    };
    for (size_t i = 0; type && i < ARRAY_SIZE(NAMES); i++)
        if (strcmp(NAMES[i].type, type) == 0)
            return NAMES[i].name;
    return type ? type : "callback";
}

const char *resource_operation(const char *type)
{
    return !type                                 ? NULL
           : strcmp(type, "QUERYWRAP") == 0      ? "DNS query (c-ares)"
           : strcmp(type, "TCPCONNECTWRAP") == 0 ? "connecting"
                                                 : NULL;
}
