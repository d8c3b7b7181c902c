/* How Node.js is recognised and hooked. Signatures were read in the sources of the versions named. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/attach.h"

#include <stdio.h>
#include <string.h>

#define V8I   "_ZN2v88internal"
#define SCOPE "_ZN4node21InternalCallbackScope"
#define HTTP2 "_ZN4node5http212Http2Session"
#define PORT  "_ZN4node6worker11MessagePort"

/* As GCC and clang (official builds since Node 25) call the lambda; clang counts those of a file. */
#define NODE_PORT_GCC                                                                       \
    "_ZZN4node6worker11MessagePortC4EPNS_11EnvironmentEN2v85LocalINS4_7ContextEEENS5_INS4_" \
    "6ObjectEEEENUlP10uv_async_sE_4_FUNESB_"
#define NODE_PORT_CLANG(number)                                                             \
    "_ZZN4node6worker11MessagePortC1EPNS_11EnvironmentEN2v85LocalINS4_7ContextEEENS5_INS4_" \
    "6ObjectEEEEN3$_" number "8__invokeEP10uv_async_s"

const char *const NODE_PORT_CALLED[] = {NODE_PORT_GCC, NODE_PORT_CLANG("0"), NODE_PORT_CLANG("1"), NULL};

static const struct hook HOOKS[] = {
    /* Asynchronous resources and callbacks */
    {"node_async_init",
     "_ZN4node9AsyncWrap13EmitAsyncInitEPNS_11EnvironmentEN2v85LocalINS3_6ObjectEEENS4_INS3_6StringEEEdd", 0,
     0, "the creation of asynchronous resources"},
    {"node_scope", SCOPE "C2EPNS_11EnvironmentEN2v85LocalINS3_6ObjectEEERKNS_13async_contextEi", 0, 0, NULL},
    {"node_scope",
     SCOPE "C2EPNS_11EnvironmentEN2v85LocalINS3_6ObjectEEERKNS_13async_contextEiNS4_INS3_5ValueEEE", 0, 0,
     NULL},
    {"node_scope_variant",
     SCOPE "C2EPNS_11EnvironmentESt7variantIJN2v85LocalINS4_6ObjectEEEPS7_EERKNS_13async_contextEiNS5_INS4_"
           "5ValueEEE",
     0, 0, NULL},
    {"node_scope_variant",
     SCOPE "C2EPNS_11EnvironmentESt7variantIJN2v85LocalINS4_6ObjectEEEPS7_PNS4_6GlobalIS6_EEEERKNS_13async_"
           "contextEiNS5_INS4_5ValueEEE",
     0, 0, NULL},
    {"node_scope_wrap", SCOPE "C2EPNS_9AsyncWrapEi", 0, 0, "callbacks of native resources"},
    {"node_scope_close", SCOPE "5CloseEv", 0, 0, "callbacks into JavaScript"},

    /* libuv's thread pool, void (uv_loop_t *, uv__work *, kind, work, done) since 1.24 */
    {"uv_submit", "uv__work_submit", UV_1_24, 0, "when work is queued for the thread pool"},
    {"uv_queue_submit", "uv_queue_work", UV_1_24, 0, "when crypto, zlib and add-ons queue work"},
    {"uv_iou_submit", "uv__iou_submit", UV_1_24, 0, NULL, .arguments = 1}, /* void (struct uv__iou *) */
    {"uv_fs_work", "uv__fs_work", UV_1_24, 0, "file operations on pool threads"},
    {"uv_queue_work", "uv__queue_work", UV_1_24, 0, "crypto, zlib and add-ons on pool threads",
     .arguments = 1},
    {"uv_getaddrinfo_work", "uv__getaddrinfo_work", UV_1_24, 0, "name look-ups on pool threads"},
    {"uv_getnameinfo_work", "uv__getnameinfo_work", UV_1_24, 0, "name look-ups on pool threads"},
    {"uv_fs_done", "uv__fs_done", UV_1_24, 0, "completions of file operations"},
    {"uv_queue_done", "uv__queue_done", UV_1_24, 0, "completions of queued work", .arguments = 2},
    {"uv_getaddrinfo_done", "uv__getaddrinfo_done", UV_1_24, 0, "completions of name look-ups"},
    {"uv_getnameinfo_done", "uv__getnameinfo_done", UV_1_24, 0, "completions of name look-ups"},

    /* libuv's loop */
    {"uv_timers", "uv__run_timers", UV_1_24, 0, "the loop's timers phase"},
    {"uv_idle", "uv__run_idle", UV_1_24, 0, "the loop's idle phase"},
    {"uv_prepare", "uv__run_prepare", UV_1_24, 0, "the loop's prepare phase"},
    {"uv_check", "uv__run_check", UV_1_24, 0, "the loop's check phase"},
    {"uv_poll", "uv__io_poll", UV_1_24, 0, "the loop's poll phase"},

    /* Streams */
    {"uv_io", "uv__stream_io", UV_1_24, 0, "which connection an event belongs to"},
    {"uv_write2", "uv_write2", UV_1_24, 0, "what is written to connections"},
    {"uv_try_write", "uv_try_write", UV_1_24, 0, "what is written to connections"},
    {"uv_try_write2", "uv_try_write2", UV_1_24, 0, NULL},
    {"uv_close", "uv_close", UV_1_24, 0, "when connections are closed"},

    /* HTTP, int (llhttp_t *, const char *, const char *) */
    {"llhttp_url", "llhttp__on_url", 0, 0, "the paths of HTTP requests", .arguments = 3},
    {"llhttp_headers", "llhttp__on_headers_complete", 0, 0, "HTTP requests"},
    {"llhttp_complete", "llhttp__on_message_complete", 0, 0, "when HTTP messages are complete"},

    {"node_stream_read", "_ZN4node22EmitToJSStreamListener12OnStreamReadElRK8uv_buf_t", 0, 0,
     "WebSocket messages"},

    /* worker_threads. What the port's uv_async_t calls is a lambda in its constructor. */
    {"port_post",
     PORT "11PostMessageEPNS_11EnvironmentEN2v85LocalINS4_7ContextEEENS5_INS4_5ValueEEERKNS_"
          "16MaybeStackBufferIS8_Lm8EEE",
     0, 0, NULL},
    {"port_post",
     PORT "11PostMessageEPNS_11EnvironmentEN2v85LocalINS4_7ContextEEENS5_INS4_5ValueEEERKNS_"
          "16MaybeStackBufferIS9_Lm8EEE",
     0, 0, "messages between worker threads"},
    {"uv_async_send", "uv_async_send", UV_1_24, 0, "messages between worker threads"},
    {"port_receive", NODE_PORT_CLANG("0"), 0, 0, NULL},
    {"port_receive", NODE_PORT_CLANG("1"), 0, 0, NULL},
    {"port_receive", NODE_PORT_GCC, 0, 0, "messages between worker threads"},

    /* HTTP/2. What nghttp2 calls back, and its stable API: int32_t (nghttp2_session *, const
       nghttp2_priority_spec *, const nghttp2_nv *, size_t, provider *, void *), int (nghttp2_session *,
       int32_t, const nghttp2_nv *, size_t, provider *). The later forms have another provider only. */
    {"h2_begin", HTTP2 "22OnBeginHeadersCallbackEP15nghttp2_sessionPK13nghttp2_framePv", 0, 0,
     "HTTP/2 requests"},
    {"h2_header", HTTP2 "16OnHeaderCallbackEP15nghttp2_sessionPK13nghttp2_frameP13nghttp2_rcbufS8_hPv", 0, 0,
     "HTTP/2 requests"},
    {"h2_frame", HTTP2 "14OnFrameReceiveEP15nghttp2_sessionPK13nghttp2_framePv", 0, 0, "HTTP/2 requests"},
    {"h2_close", HTTP2 "13OnStreamCloseEP15nghttp2_sessionijPv", 0, 0, "when HTTP/2 streams end"},
    {"h2_sent", HTTP2 "11OnFrameSentEP15nghttp2_sessionPK13nghttp2_framePv", 0, 0,
     "which connection an HTTP/2 session uses"},
    {"h2_send", HTTP2 "15SendPendingDataEv", 0, 0, "which connection an HTTP/2 session uses"},
    {"h2_submit_request", "nghttp2_submit_request", 0, 0, "HTTP/2 requests to others"},
    {"h2_submit_request2", "nghttp2_submit_request2", 0, 0, NULL},
    {"h2_submit_response", "nghttp2_submit_response", 0, 0, "the status of HTTP/2 responses"},
    {"h2_submit_response2", "nghttp2_submit_response2", 0, 0, NULL},
    {"h2_submit_trailer", "nghttp2_submit_trailer", 0, 0, "the status of gRPC calls"},

    /* V8. An argument that a form does not have is a register that nobody reads. V8 10.2 has the
       callbacks inlined, and runs prologue and epilogue around them; the epilogue is told the collector. To
       V8 9.4 the types of collections had other numbers. */
    {"v8_gc_prologue",
     V8I "4Heap23CallGCPrologueCallbacksENS_6GCTypeENS_15GCCallbackFlagsENS0_8GCTracer5Scope7ScopeIdE", 0, 0,
     NULL},
    {"v8_gc_prologue",
     V8I "4Heap25GarbageCollectionPrologueENS0_23GarbageCollectionReasonENS_15GCCallbackFlagsE", V8_10_2,
     V8_11_0, NULL},
    {"v8_gc_prologue", V8I "4Heap23CallGCPrologueCallbacksENS_6GCTypeENS_15GCCallbackFlagsE", 0, V8_9_5,
     "garbage collections"},
    {"v8_gc_epilogue",
     V8I "4Heap23CallGCEpilogueCallbacksENS_6GCTypeENS_15GCCallbackFlagsENS0_8GCTracer5Scope7ScopeIdE", 0, 0,
     NULL},
    {"v8_gc_epilogue__collector", V8I "4Heap25GarbageCollectionEpilogueENS0_16GarbageCollectorE", V8_10_2,
     V8_11_0, NULL},
    {"v8_gc_epilogue__9", V8I "4Heap23CallGCEpilogueCallbacksENS_6GCTypeENS_15GCCallbackFlagsE", 0, V8_9_5,
     "garbage collections"},
    {"node_uncaught",
     "_ZN4node6errors24TriggerUncaughtExceptionEPN2v87IsolateENS1_5LocalINS1_5ValueEEENS4_INS1_7MessageEEEb",
     0, 0, NULL},
    {"v8_microtasks", V8I "14MicrotaskQueue13RunMicrotasksEPNS0_7IsolateE", V8_10_2, V8_13_0, NULL,
     .split = true},
    {"v8_regexp",
     V8I "10RegExpImpl12IrregexpExecEPNS0_7IsolateENS0_6HandleINS0_8JSRegExpEEENS4_INS0_6StringEEEiNS4_INS0_"
         "15RegExpMatchInfoEEENS0_6RegExp10ExecQuirksE",
     0, 0, NULL},
    {"v8_regexp_data",
     V8I "10RegExpImpl12IrregexpExecEPNS0_7IsolateENS0_12DirectHandleINS0_12IrRegExpDataEEENS4_INS0_"
         "6StringEEEiPij",
     0, 0, NULL},
    {"v8_json_parse", V8I "17Builtin_JsonParseEiPmPNS0_7IsolateE", 0, 0, NULL},
    {"v8_json_stringify", V8I "21Builtin_JsonStringifyEiPmPNS0_7IsolateE", 0, 0,
     "the time of JSON.stringify and JSON.parse"},
    {"node_encode", "_ZN4node11StringBytes6EncodeEPN2v87IsolateEPKcmNS_8encodingEPNS1_5LocalINS1_5ValueEEE",
     0, 0, NULL},
    {"node_encode", "_ZN4node11StringBytes6EncodeEPN2v87IsolateEPKcmNS_8encodingE", 0, 0,
     "the time of turning buffers into strings"},
};

bool node_tells_scopes(struct target *target)
{
    for (size_t i = 0; i < ARRAY_SIZE(HOOKS); i++) {
        bool tells = strcmp(HOOKS[i].wrapper, "node_scope") == 0 ||
                     strcmp(HOOKS[i].wrapper, "node_scope_variant") == 0;
        if (tells && target_find(target, HOOKS[i].symbol, NULL, NULL, NULL) >= 0)
            return true;
    }
    return false;
}

static const struct silent_rule SILENT[] = {
    {SONDE_EVENT_uv_submit, 100, SONDE_EVENT_uv_run, "uv_fs_work"},
    {SONDE_EVENT_uv_submit, 100, SONDE_EVENT_uv_done, "uv_fs_done"},
    {SONDE_EVENT_uv_done, 100, SONDE_EVENT_uv_submit, "uv_submit"},
    {SONDE_EVENT_stream_io, 500, SONDE_EVENT_uv_phase, "uv_poll"},
    {SONDE_EVENT_stream_io, 500, SONDE_EVENT_node_callback, "node_scope_close"},
    {SONDE_EVENT_node_callback, 500, SONDE_EVENT_uv_phase, "uv_poll"},
};

/* Debian splits Node into libraries. */
static const char *const LIBRARIES[] = {"libnode.so", "libuv.so", "libllhttp.so", "libnghttp2.so", NULL};

/* The int that a symbol names, as it is in the file; 0 when there is none. */
static uint8_t number_at(struct target *target, const char *name)
{
    struct elf_symbol symbol;
    const struct target_module *module;
    int32_t value = 0;
    if (target_find(target, name, NULL, &symbol, &module) < 0 ||
        elf_read(module->elf, symbol.value, &value, sizeof(value)) < 0)
        return 0;
    return value > 0 && value < 256 ? (uint8_t)value : 0;
}

static bool recognise(struct target *target)
{
    if (target_find(target, "_ZN4node5StartEiPPc", NULL, NULL, NULL) < 0)
        return false;
    target->versions[NODE_UV] = target_constant(target, "uv_version");
    target->versions[NODE_V8] = (uint32_t)number_at(target, "_ZN2v88internal7Version6major_E") << 16 |
                                (uint32_t)number_at(target, "_ZN2v88internal7Version6minor_E") << 8;
    return true;
}

static uint32_t version(const struct target *target, const struct hook *hook)
{
    return strncmp(hook->symbol, "uv_", 3) == 0               ? target->versions[NODE_UV]
           : strncmp(hook->symbol, V8I, sizeof(V8I) - 1) == 0 ? target->versions[NODE_V8]
                                                              : 0;
}

static void describe(const struct target *target, char *buffer, size_t size)
{
    target_say_version(buffer, size, "Node with libuv", target->versions[NODE_UV]);
}

static void name(const struct target *target, const char *line, size_t length, struct target_names *names)
{
    names->script = length ? node_find_script(target->proc, line, length) : NULL;
    names->name = node_service_name(target->proc, names->script);
}

static const char *const PROGRAMS[] = {"node", NULL};

const struct target_kind target_kind_node = {.runtime = SONDE_runtime_node,
                                             .called = "Node",
                                             .programs = PROGRAMS,
                                             .libraries = LIBRARIES,
                                             .hooks = HOOKS,
                                             .hook_count = ARRAY_SIZE(HOOKS),
                                             .silent = SILENT,
                                             .silent_count = ARRAY_SIZE(SILENT),
                                             .callback_event = SONDE_EVENT_node_callback,
                                             .native_event = SONDE_EVENT_uv_done,
                                             .idle_event = SONDE_EVENT_uv_phase,
                                             .idle_argument = SONDE_uv_phase_poll,
                                             .contexts = true,
                                             .recognise = recognise,
                                             .version = version,
                                             .layout = node_layout,
                                             .name = name,
                                             .describe = describe};
