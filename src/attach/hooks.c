/* See hooks.h. Signatures were read in the sources of the versions named. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hooks.h"

#include <string.h>

#include "base/macro.h"

#define V8I   "_ZN2v88internal"
#define SCOPE "_ZN4node21InternalCallbackScope"
#define HTTP2 "_ZN4node5http212Http2Session"
#define PORT  "_ZN4node6worker11MessagePort"

enum {
    REDIS_6_0 = 0x60000,
    REDIS_7_0 = 0x70000,
    REDIS_7_2 = 0x70200,
    REDIS_8_0 = 0x80000,
    UV_1_24 = 0x11800,
    V8_9_5 = 0x90500,
    V8_10_2 = 0xa0200,
    V8_11_0 = 0xb0000,
    V8_13_0 = 0xd0000
};

const struct hook HOOKS[] = {
    /* Redis, and Valkey from 8.0 on. read: void (connection *); commands: int (client *), void (client *,
       int); reply: int (client *, int), without the int in Valkey; free: void (client *), int in Valkey 9;
       afterSleep: void (aeEventLoop *), with an int behind in Valkey. An argument that a form does not have
       is a register that nobody reads. */
    {"redis_read_query", "readQueryFromClient", RUNTIME_REDIS, REDIS_6_0, 0, "when a client's query is read"},
    {"redis_process_command", "processCommand", RUNTIME_REDIS, REDIS_6_0, 0,
     "which command of its connection a command is"},
    {"redis_command", "call", RUNTIME_REDIS, REDIS_6_0, 0, "the commands that Redis executes"},
    {"redis_write_reply", "writeToClient", RUNTIME_REDIS, REDIS_6_0, 0, "when replies are written"},
    /* GCC's copy for callers that pass 0 for the second argument, which is all that such a copy can leave out
       (the first is never a constant): int (client *). The probe checks its argument. */
    {"redis_write_pending", "writeToClient.constprop.0", RUNTIME_REDIS, REDIS_6_0, REDIS_8_0, NULL},
    {"redis_free_client", "freeClient", RUNTIME_REDIS, REDIS_6_0, 0, "when clients are freed"},
    {"redis_bus_read", "clusterReadHandler", RUNTIME_REDIS, REDIS_6_0, 0, "reads from the cluster bus"},
    {"redis_bus_packet", "clusterProcessPacket", RUNTIME_REDIS, REDIS_6_0, 0, "packets of the cluster bus"},
    {"redis_bus_send", "clusterSendMessage", RUNTIME_REDIS, REDIS_6_0, REDIS_7_2, NULL},
    {"redis_bus_send__block", "clusterSendMessage", RUNTIME_REDIS, REDIS_7_2, 0,
     "messages sent on the cluster bus"},
    {"redis_add_file_event", "aeCreateFileEvent", RUNTIME_REDIS, REDIS_6_0, 0, "watched descriptors"},
    {"redis_delete_file_event", "aeDeleteFileEvent", RUNTIME_REDIS, REDIS_6_0, 0, "watched descriptors"},
    {"redis_before_sleep", "beforeSleep", RUNTIME_REDIS, REDIS_6_0, 0, "the loop's phase before it waits"},
    {"redis_after_sleep", "afterSleep", RUNTIME_REDIS, REDIS_6_0, 0, "when the loop wakes up"},
    {"redis_process_events", "aeProcessEvents", RUNTIME_REDIS, REDIS_6_0, 0, "iterations of the event loop",
     .split = true},

    /* int (client *): 1 when the read was put on the I/O threads' list. Redis 8 and Valkey 8 hand whole
       clients over to their threads instead. */
    {"redis_postpone_read", "postponeClientRead", RUNTIME_REDIS, REDIS_6_0, REDIS_8_0,
     "reads left to the I/O threads"},
    /* Redis' own connTLSRead is no symbol in stripped builds: its call of int SSL_read(SSL *, void *, int) is
       seen. */
    {"redis_ssl_read", "SSL_read", RUNTIME_REDIS, REDIS_6_0, 0, NULL},

    /* libc's and libssl's, for the bytes that pass while a client or a link is read or written. */
    {"redis_io_read", "read", RUNTIME_REDIS, REDIS_6_0, 0, "bytes that are read"},
    {"redis_io_write", "write", RUNTIME_REDIS, REDIS_6_0, 0, "bytes that are written"},
    {"redis_io_writev", "writev", RUNTIME_REDIS, REDIS_7_0, 0, "bytes that are written"},
    {"redis_ssl_write", "SSL_write", RUNTIME_REDIS, REDIS_6_0, 0, NULL},
    /* void (connection *). Where it cannot be hooked, writeToClient()'s second argument says the same. */
    {"redis_write_handler", "sendReplyToClient", RUNTIME_REDIS, REDIS_6_0, 0, NULL},
    {"redis_bus_write", "clusterWriteHandler", RUNTIME_REDIS, REDIS_6_0, 0, "writes to the cluster bus"},
    /* void (client *, int); void (client *), with an int behind since 7.2 */
    {"redis_block", "blockClient", RUNTIME_REDIS, REDIS_6_0, 0, "when clients are blocked"},
    {"redis_unblock", "unblockClient", RUNTIME_REDIS, REDIS_6_0, 0, "when blocked clients go on"},
    /* void (client *, robj *); void (client *, sds): rejectCommandFormat() ends in it */
    {"redis_reject", "rejectCommand", RUNTIME_REDIS, REDIS_7_0, 0, "commands that are refused"},
    {"redis_reject_text", "rejectCommandSds", RUNTIME_REDIS, REDIS_7_0, 0, "commands that are refused"},
    {"redis_queue_command", "queueMultiCommand", RUNTIME_REDIS, REDIS_7_0, 0,
     "commands queued in a transaction"},
    /* void (client *, clusterNode *, int slot, int error) */
    {"redis_redirect", "clusterRedirectClient", RUNTIME_REDIS, REDIS_6_0, 0,
     "commands sent on to another node"},
    /* int (robj *channel, robj *message, pubsubtype): 56 bytes on the stack */
    {"redis_publish", "pubsubPublishMessageInternal", RUNTIME_REDIS, REDIS_7_0, 0, "published messages"},
    /* int (client *, int) */
    {"redis_output_limit", "closeClientOnOutputBufferLimitReached", RUNTIME_REDIS, REDIS_7_0, 0,
     "clients closed for the size of their output"},
    /* int (int purpose) */
    {"redis_fork", "redisFork", RUNTIME_REDIS, REDIS_6_0, 0, NULL},
    {"redis_fork", "serverFork", RUNTIME_REDIS, REDIS_6_0, 0, "children that the server forks"},
    {"redis_fsync", "fdatasync", RUNTIME_REDIS, REDIS_6_0, 0, "when files are forced to the disk"},
    {"redis_aof_flush", "flushAppendOnlyFile", RUNTIME_REDIS, REDIS_6_0, 0,
     "when the append-only file is written"},
    /* void (int type, char *event, robj *key, int db) */
    {"redis_notify", "notifyKeyspaceEvent", RUNTIME_REDIS, REDIS_6_0, 0, "keys that expire or are evicted"},
    {"redis_expire", "activeExpireCycle", RUNTIME_REDIS, REDIS_6_0, 0, "cycles that look for expired keys"},
    {"redis_evict", "performEvictions", RUNTIME_REDIS, REDIS_7_0, 0, "evictions"},

    /* Node: asynchronous resources and callbacks */
    {"node_async_init",
     "_ZN4node9AsyncWrap13EmitAsyncInitEPNS_11EnvironmentEN2v85LocalINS3_6ObjectEEENS4_INS3_6StringEEEdd",
     RUNTIME_NODE, 0, 0, "the creation of asynchronous resources"},
    {"node_scope", SCOPE "C2EPNS_11EnvironmentEN2v85LocalINS3_6ObjectEEERKNS_13async_contextEi", RUNTIME_NODE,
     0, 0, NULL},
    {"node_scope_variant",
     SCOPE "C2EPNS_11EnvironmentESt7variantIJN2v85LocalINS4_6ObjectEEEPS7_EERKNS_13async_contextEiNS5_INS4_"
           "5ValueEEE",
     RUNTIME_NODE, 0, 0, NULL},
    {"node_scope_wrap", SCOPE "C2EPNS_9AsyncWrapEi", RUNTIME_NODE, 0, 0, "callbacks of native resources"},
    {"node_scope_close", SCOPE "5CloseEv", RUNTIME_NODE, 0, 0, "callbacks into JavaScript"},

    /* Node: libuv's thread pool, void (uv_loop_t *, uv__work *, kind, work, done) since 1.24 */
    {"uv_submit", "uv__work_submit", RUNTIME_NODE, UV_1_24, 0, "when work is queued for the thread pool"},
    {"uv_queue_submit", "uv_queue_work", RUNTIME_NODE, UV_1_24, 0,
     "when crypto, zlib and add-ons queue work"},
    {"uv_iou_submit", "uv__iou_submit", RUNTIME_NODE, UV_1_24, 0, NULL}, /* void (struct uv__iou *) */
    {"uv_fs_work", "uv__fs_work", RUNTIME_NODE, UV_1_24, 0, "file operations on pool threads"},
    {"uv_queue_work", "uv__queue_work", RUNTIME_NODE, UV_1_24, 0, "crypto, zlib and add-ons on pool threads"},
    {"uv_getaddrinfo_work", "uv__getaddrinfo_work", RUNTIME_NODE, UV_1_24, 0,
     "name look-ups on pool threads"},
    {"uv_getnameinfo_work", "uv__getnameinfo_work", RUNTIME_NODE, UV_1_24, 0,
     "name look-ups on pool threads"},
    {"uv_fs_done", "uv__fs_done", RUNTIME_NODE, UV_1_24, 0, "completions of file operations"},
    {"uv_queue_done", "uv__queue_done", RUNTIME_NODE, UV_1_24, 0, "completions of queued work"},
    {"uv_getaddrinfo_done", "uv__getaddrinfo_done", RUNTIME_NODE, UV_1_24, 0, "completions of name look-ups"},
    {"uv_getnameinfo_done", "uv__getnameinfo_done", RUNTIME_NODE, UV_1_24, 0, "completions of name look-ups"},

    /* Node: libuv's loop */
    {"uv_timers", "uv__run_timers", RUNTIME_NODE, UV_1_24, 0, "the loop's timers phase"},
    {"uv_idle", "uv__run_idle", RUNTIME_NODE, UV_1_24, 0, "the loop's idle phase"},
    {"uv_prepare", "uv__run_prepare", RUNTIME_NODE, UV_1_24, 0, "the loop's prepare phase"},
    {"uv_check", "uv__run_check", RUNTIME_NODE, UV_1_24, 0, "the loop's check phase"},
    {"uv_poll", "uv__io_poll", RUNTIME_NODE, UV_1_24, 0, "the loop's poll phase"},

    /* Node: streams */
    {"uv_io", "uv__stream_io", RUNTIME_NODE, UV_1_24, 0, "which connection an event belongs to"},
    {"uv_write2", "uv_write2", RUNTIME_NODE, UV_1_24, 0, "what is written to connections"},
    {"uv_try_write", "uv_try_write", RUNTIME_NODE, UV_1_24, 0, "what is written to connections"},
    {"uv_try_write2", "uv_try_write2", RUNTIME_NODE, UV_1_24, 0, NULL},
    {"uv_close", "uv_close", RUNTIME_NODE, UV_1_24, 0, "when connections are closed"},

    /* Node: HTTP, int (llhttp_t *, const char *, const char *) */
    {"llhttp_url", "llhttp__on_url", RUNTIME_NODE, 0, 0, "the paths of HTTP requests"},
    {"llhttp_headers", "llhttp__on_headers_complete", RUNTIME_NODE, 0, 0, "HTTP requests"},
    {"llhttp_complete", "llhttp__on_message_complete", RUNTIME_NODE, 0, 0, "when HTTP messages are complete"},

    {"node_stream_read", "_ZN4node22EmitToJSStreamListener12OnStreamReadElRK8uv_buf_t", RUNTIME_NODE, 0, 0,
     "WebSocket messages"},

    /* Node: worker_threads. What the port's uv_async_t calls is a lambda in its constructor. */
    {"port_post",
     PORT "11PostMessageEPNS_11EnvironmentEN2v85LocalINS4_7ContextEEENS5_INS4_5ValueEEERKNS_"
          "16MaybeStackBufferIS9_Lm8EEE",
     RUNTIME_NODE, 0, 0, "messages between worker threads"},
    {"uv_async_send", "uv_async_send", RUNTIME_NODE, UV_1_24, 0, "messages between worker threads"},
    {"port_receive",
     "_ZZN4node6worker11MessagePortC4EPNS_11EnvironmentEN2v85LocalINS4_7ContextEEENS5_INS4_"
     "6ObjectEEEENUlP10uv_"
     "async_sE_4_FUNESB_",
     RUNTIME_NODE, 0, 0, "messages between worker threads"},

    /* Node: HTTP/2. What nghttp2 calls back, and its stable API: int32_t (nghttp2_session *, const
       nghttp2_priority_spec *, const nghttp2_nv *, size_t, provider *, void *), int (nghttp2_session *,
       int32_t, const nghttp2_nv *, size_t, provider *). The later forms have another provider only. */
    {"h2_begin", HTTP2 "22OnBeginHeadersCallbackEP15nghttp2_sessionPK13nghttp2_framePv", RUNTIME_NODE, 0, 0,
     "HTTP/2 requests"},
    {"h2_header", HTTP2 "16OnHeaderCallbackEP15nghttp2_sessionPK13nghttp2_frameP13nghttp2_rcbufS8_hPv",
     RUNTIME_NODE, 0, 0, "HTTP/2 requests"},
    {"h2_frame", HTTP2 "14OnFrameReceiveEP15nghttp2_sessionPK13nghttp2_framePv", RUNTIME_NODE, 0, 0,
     "HTTP/2 requests"},
    {"h2_close", HTTP2 "13OnStreamCloseEP15nghttp2_sessionijPv", RUNTIME_NODE, 0, 0,
     "when HTTP/2 streams end"},
    {"h2_sent", HTTP2 "11OnFrameSentEP15nghttp2_sessionPK13nghttp2_framePv", RUNTIME_NODE, 0, 0,
     "which connection an HTTP/2 session uses"},
    {"h2_send", HTTP2 "15SendPendingDataEv", RUNTIME_NODE, 0, 0, "which connection an HTTP/2 session uses"},
    {"h2_submit_request", "nghttp2_submit_request", RUNTIME_NODE, 0, 0, "HTTP/2 requests to others"},
    {"h2_submit_request2", "nghttp2_submit_request2", RUNTIME_NODE, 0, 0, NULL},
    {"h2_submit_response", "nghttp2_submit_response", RUNTIME_NODE, 0, 0, "the status of HTTP/2 responses"},
    {"h2_submit_response2", "nghttp2_submit_response2", RUNTIME_NODE, 0, 0, NULL},

    /* Node: V8. An argument that a form does not have is a register that nobody reads. V8 10.2 has the
       callbacks inlined, and runs prologue and epilogue around them; the epilogue is told the collector. To
       V8 9.4 the types of collections had other numbers. */
    {"v8_gc_prologue",
     V8I "4Heap23CallGCPrologueCallbacksENS_6GCTypeENS_15GCCallbackFlagsENS0_8GCTracer5Scope7ScopeIdE",
     RUNTIME_NODE, 0, 0, NULL},
    {"v8_gc_prologue",
     V8I "4Heap25GarbageCollectionPrologueENS0_23GarbageCollectionReasonENS_15GCCallbackFlagsE", RUNTIME_NODE,
     V8_10_2, V8_11_0, NULL},
    {"v8_gc_prologue", V8I "4Heap23CallGCPrologueCallbacksENS_6GCTypeENS_15GCCallbackFlagsE", RUNTIME_NODE, 0,
     V8_9_5, "garbage collections"},
    {"v8_gc_epilogue",
     V8I "4Heap23CallGCEpilogueCallbacksENS_6GCTypeENS_15GCCallbackFlagsENS0_8GCTracer5Scope7ScopeIdE",
     RUNTIME_NODE, 0, 0, NULL},
    {"v8_gc_epilogue__collector", V8I "4Heap25GarbageCollectionEpilogueENS0_16GarbageCollectorE",
     RUNTIME_NODE, V8_10_2, V8_11_0, NULL},
    {"v8_gc_epilogue__9", V8I "4Heap23CallGCEpilogueCallbacksENS_6GCTypeENS_15GCCallbackFlagsE", RUNTIME_NODE,
     0, V8_9_5, "garbage collections"},
    {"node_uncaught",
     "_ZN4node6errors24TriggerUncaughtExceptionEPN2v87IsolateENS1_5LocalINS1_5ValueEEENS4_INS1_7MessageEEEb",
     RUNTIME_NODE, 0, 0, NULL},
    {"v8_microtasks", V8I "14MicrotaskQueue13RunMicrotasksEPNS0_7IsolateE", RUNTIME_NODE, V8_10_2, V8_13_0,
     NULL, .split = true},
    {"v8_regexp",
     V8I "10RegExpImpl12IrregexpExecEPNS0_7IsolateENS0_6HandleINS0_8JSRegExpEEENS4_INS0_6StringEEEiNS4_INS0_"
         "15RegExpMatchInfoEEENS0_6RegExp10ExecQuirksE",
     RUNTIME_NODE, 0, 0, NULL},
    {"v8_regexp_data",
     V8I "10RegExpImpl12IrregexpExecEPNS0_7IsolateENS0_12DirectHandleINS0_12IrRegExpDataEEENS4_INS0_"
         "6StringEEEiPij",
     RUNTIME_NODE, 0, 0, NULL},
    {"v8_json_parse", V8I "17Builtin_JsonParseEiPmPNS0_7IsolateE", RUNTIME_NODE, 0, 0, NULL},
    {"v8_json_stringify", V8I "21Builtin_JsonStringifyEiPmPNS0_7IsolateE", RUNTIME_NODE, 0, 0,
     "the time of JSON.stringify and JSON.parse"},
    {"node_encode", "_ZN4node11StringBytes6EncodeEPN2v87IsolateEPKcmNS_8encodingEPNS1_5LocalINS1_5ValueEEE",
     RUNTIME_NODE, 0, 0, NULL},
    {"node_encode", "_ZN4node11StringBytes6EncodeEPN2v87IsolateEPKcmNS_8encodingE", RUNTIME_NODE, 0, 0,
     "the time of turning buffers into strings"},
};

const size_t HOOK_COUNT = ARRAY_SIZE(HOOKS);

static size_t family(const char *wrapper)
{
    const char *variant = strstr(wrapper, "__");
    return variant ? (size_t)(variant - wrapper) : strlen(wrapper);
}

bool hook_same(const struct hook *a, const struct hook *b)
{
    size_t length = family(a->wrapper);
    return length == family(b->wrapper) && strncmp(a->wrapper, b->wrapper, length) == 0;
}

const char *hook_gives(const struct hook *hook)
{
    for (size_t i = 0; i < HOOK_COUNT; i++)
        if (HOOKS[i].gives && HOOKS[i].runtime == hook->runtime && hook_same(&HOOKS[i], hook))
            return HOOKS[i].gives;
    return "";
}
