/* The events of Node.js, of its event loop (libuv) and of V8: see event/catalogue.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_EVENTS_H
#define TARGETS_NODE_EVENTS_H

/* What is switched off together, with the least level that it belongs to (event/families.h), and which of its
 * events are in which. Messages between threads belong to the core's family of streams. */
#define SONDE_FAMILIES_node(F)                                     \
    F(uv_loop, usual, 1, 35, "phases of the event loop")           \
    F(uv_pool, usual, 1, 35, "operations of the thread pool")      \
    F(async, usual, 1, 35, "asynchronous resources and callbacks") \
    F(runtime, usual, 0, 35, "garbage collection, regular expressions, encoding of text, measures, functions")

#define SONDE_FAMILY_OF_node(C) \
    C(uv_phase, uv_loop)        \
    C(uv_submit, uv_pool)       \
    C(uv_run, uv_pool)          \
    C(uv_done, uv_pool)         \
    C(node_async_init, async)   \
    C(node_callback, async)     \
    C(port_post, stream)        \
    C(port_receive, stream)     \
    C(port_turn, stream)        \
    C(v8_gc, runtime)           \
    C(v8_regexp, runtime)       \
    C(v8_encode, runtime)       \
    C(js_measure, runtime)      \
    C(js_function, runtime)     \
    C(js_settled, runtime)      \
    C(js_promises, runtime)

#define SONDE_ENUM_uv_kind(L, e)                                      \
    L(e, unknown, 0, "unknown")                                       \
    L(e, fs_open, 1, "fs_open")                                       \
    L(e, fs_close, 2, "fs_close")                                     \
    L(e, fs_read, 3, "fs_read")                                       \
    L(e, fs_write, 4, "fs_write")                                     \
    L(e, fs_sendfile, 5, "fs_sendfile")                               \
    L(e, fs_stat, 6, "fs_stat")                                       \
    L(e, fs_lstat, 7, "fs_lstat")                                     \
    L(e, fs_fstat, 8, "fs_fstat")                                     \
    L(e, fs_ftruncate, 9, "fs_ftruncate")                             \
    L(e, fs_utime, 10, "fs_utime")                                    \
    L(e, fs_futime, 11, "fs_futime")                                  \
    L(e, fs_access, 12, "fs_access")                                  \
    L(e, fs_chmod, 13, "fs_chmod")                                    \
    L(e, fs_fchmod, 14, "fs_fchmod")                                  \
    L(e, fs_fsync, 15, "fs_fsync")                                    \
    L(e, fs_fdatasync, 16, "fs_fdatasync")                            \
    L(e, fs_unlink, 17, "fs_unlink")                                  \
    L(e, fs_rmdir, 18, "fs_rmdir")                                    \
    L(e, fs_mkdir, 19, "fs_mkdir")                                    \
    L(e, fs_mkdtemp, 20, "fs_mkdtemp")                                \
    L(e, fs_rename, 21, "fs_rename")                                  \
    L(e, fs_scandir, 22, "fs_scandir")                                \
    L(e, fs_link, 23, "fs_link")                                      \
    L(e, fs_symlink, 24, "fs_symlink")                                \
    L(e, fs_readlink, 25, "fs_readlink")                              \
    L(e, fs_chown, 26, "fs_chown")                                    \
    L(e, fs_fchown, 27, "fs_fchown")                                  \
    L(e, fs_realpath, 28, "fs_realpath")                              \
    L(e, fs_copyfile, 29, "fs_copyfile")                              \
    L(e, fs_lchown, 30, "fs_lchown")                                  \
    L(e, fs_opendir, 31, "fs_opendir")                                \
    L(e, fs_readdir, 32, "fs_readdir")                                \
    L(e, fs_closedir, 33, "fs_closedir")                              \
    L(e, fs_statfs, 34, "fs_statfs")                                  \
    L(e, fs_mkstemp, 35, "fs_mkstemp")                                \
    L(e, fs_lutime, 36, "fs_lutime")                                  \
    L(e, work, 64, "work") /* uv_queue_work: crypto, zlib, add-ons */ \
    L(e, getaddrinfo, 65, "getaddrinfo")                              \
    L(e, getnameinfo, 66, "getnameinfo")                              \
    L(e, random, 67, "random")
#define SONDE_ENUM_uv_phase(L, e) \
    L(e, timers, 0, "timers")     \
    L(e, pending, 1, "pending")   \
    L(e, idle, 2, "idle")         \
    L(e, prepare, 3, "prepare")   \
    L(e, poll, 4, "poll")         \
    L(e, check, 5, "check")       \
    L(e, closing, 6, "closing")
#define SONDE_ENUM_gc_type(L, e)                        \
    L(e, unknown, 0, "unknown")                         \
    L(e, scavenge, 1, "scavenge")                       \
    L(e, minor_mark_sweep, 2, "minor-mark-sweep")       \
    L(e, mark_sweep_compact, 4, "mark-sweep-compact")   \
    L(e, incremental_marking, 8, "incremental-marking") \
    L(e, weak_callbacks, 16, "weak-callbacks")
#define SONDE_ENUM_encoding(L, e)     \
    L(e, JSON_parse, 0, "JSON.parse") \
    L(e, JSON_stringify, 1, "JSON.stringify") L(e, Buffer_toString, 2, "Buffer.toString")
#define SONDE_ENUM_settled(L, e)    \
    L(e, fulfilled, 0, "fulfilled") \
    L(e, rejected, 1, "rejected")   \
    L(e, not_awaited, 2,            \
      "not awaited") /* nobody had asked for its end when the call returned: it is not watched */
#define SONDE_ENUM_chosen(L, e)                                                          \
    L(e, found, 0, "found")                                                              \
    L(e, not_found, 1, "not found")                                                      \
    L(e, left_alone, 2, "left alone") /* called so often that seeing it would be felt */ \
    L(e, refused, 3, "refused")       /* found, and not replaced: the text says why */

#define SONDE_ENUMS_node(M) \
    M(uv_kind)              \
    M(uv_phase)             \
    M(gc_type)              \
    M(encoding)             \
    M(settled)              \
    M(chosen)

#define SONDE_FIELDS_node_async_init(F, e)                         \
    F(e, u64, async_id, async_id, "the new resource")              \
    F(e, u64, trigger_id, async_id, "the resource that caused it") \
    F(e, u32, type, name_id, "the resource's type: TCPWRAP, FSREQCALLBACK, ...")

#define SONDE_FIELDS_node_callback(F, e)                           \
    F(e, u64, async_id, async_id, "the resource called back")      \
    F(e, u64, trigger_id, async_id, "the resource that caused it") \
    F(e, u32, function, name_id, "the JavaScript function, 0 unknown")

#define SONDE_FIELDS_uv_submit(F, e)                                                              \
    F(e, u64, request, hex, "the request's uv__work")                                             \
    F(e, i32, fd, fd, "the file's descriptor, -1 for none")                                       \
    F(e, u32, context, none,                                                                      \
      "whose it is: 0 not asked, 1 no request, 4294967295 lost, else the http:request's context") \
    F(e, u8, kind, uv_kind, "what is asked")

#define SONDE_FIELDS_uv_run(F, e)                                        \
    F(e, u64, request, hex, "the request's uv__work")                    \
    F(e, i64, result, none, "fs requests: the result or negative errno") \
    F(e, u8, kind, uv_kind, "what was done")

#define SONDE_FIELDS_uv_done(F, e)                             \
    F(e, u64, request, hex, "the request's uv__work")          \
    F(e, i32, status, none, "0 or negative errno (cancelled)") \
    F(e, u8, kind, uv_kind, "what was done")

#define SONDE_FIELDS_uv_phase(F, e)                                                         \
    F(e, i32, timeout_ms, none, "poll: how long the loop was willing to wait, -1 for ever") \
    F(e, u8, phase, uv_phase, "the loop's phase")

#define SONDE_FIELDS_port_post(F, e)                                           \
    F(e, u64, from, hex, "the handle of the port it is posted to")             \
    F(e, u64, target, hex, "the handle that wakes the other end; 0: none yet") \
    F(e, u32, context, none, "whose it is: as uv:submit's")

#define SONDE_FIELDS_port_receive(F, e) F(e, u64, handle, hex, "the port's handle")

#define SONDE_FIELDS_port_turn(F, e) F(e, u64, handle, hex, "the port's handle")

#define SONDE_FIELDS_js_measure(F, e)                                        \
    F(e, u64, ago_ns, ns, "how long ago what was measured had ended")        \
    F(e, u64, took_ns, ns, "how long it took")                               \
    F(e, u32, name, name_id, "the name that the program gave it, 0 unknown") \
    F(e, u32, context, none, "whose it is: as uv:submit's")

#define SONDE_FIELDS_js_function(F, e)                                                                  \
    F(e, u32, name, name_id, "the function: its file, class and name, 0 unknown")                       \
    F(e, u32, context, none, "whose it is: as uv:submit's")                                             \
    F(e, u32, call, none, "it returned a promise, which a js:settled of this number reports on; 0: no") \
    F(e, u8, threw, none, "1: it threw an exception")

#define SONDE_FIELDS_js_settled(F, e)                  \
    F(e, u32, call, none, "the number in js:function") \
    F(e, u8, outcome, settled, "what became of the promise")

#define SONDE_FIELDS_js_chosen(F, e)                                        \
    F(e, u32, places, count, "properties whose calls are seen from now on") \
    F(e, u8, state, chosen, "whether it was found")                         \
    F(e, str, text, none, "the name as asked for, a newline, where or what else")

#define SONDE_FIELDS_js_promises(F, e)                                                        \
    F(e, u64, created, count, "promises made on this thread since they are counted")          \
    F(e, u32, sampled, count, "of those, every 128th, of which it is known when it is freed") \
    F(e, u32, collected, count, "of the sampled, freed by now")

#define SONDE_FIELDS_v8_gc(F, e)                                                                    \
    F(e, u64, heap_before, bytes, "heap in use before, 0 unknown")                                  \
    F(e, u64, heap_after, bytes, "heap in use after, 0 unknown")                                    \
    F(e, u64, external, bytes, "what objects hold outside of the heap (Buffers) before, 0 unknown") \
    F(e, u8, type, gc_type, "the collection's type")

#define SONDE_FIELDS_v8_regexp(F, e) F(e, u64, regexp, hex, "the regular expression's handle")

#define SONDE_FIELDS_v8_encode(F, e)                                                      \
    F(e, u64, bytes, bytes, "of the text (stringify, parse) or of the buffer; 0 unknown") \
    F(e, u8, what, encoding, "what was done")

#define SONDE_EVENTS_node(E)                                                                         \
    E(node_async_init, "node:async_init", INSTANT, PROBE, "an asynchronous resource is created")     \
    E(node_callback, "node:callback", SPAN, PROBE, "JavaScript is called back, with its microtasks") \
    E(uv_submit, "uv:submit", INSTANT, PROBE, "a request is queued for the thread pool")             \
    E(uv_run, "uv:run", SPAN, PROBE, "a pool thread works on a request")                             \
    E(uv_done, "uv:done", SPAN, PROBE, "a request's completion callback")                            \
    E(uv_phase, "uv:phase", SPAN, PROBE, "a loop phase that did something")                          \
    E(port_post, "port:post", INSTANT, PROBE, "a message is posted to another thread (MessagePort)") \
    E(port_receive, "port:receive", INSTANT, PROBE, "messages that were posted to a port are taken") \
    E(port_turn, "port:turn", SPAN, PROBE, "messages that were posted to a port are handled")        \
    E(js_measure, "js:measure", INSTANT, PROBE, "the program has called performance.measure")        \
    E(js_function, "js:function", SPAN, PROBE, "a call of a function that was chosen (--function)")  \
    E(js_settled, "js:settled", INSTANT, PROBE, "a promise that such a call returned is settled")    \
    E(js_chosen, "js:chosen", INSTANT, PROBE, "where a function that was chosen is called")          \
    E(js_promises, "js:promises", INSTANT, PROBE, "promises counted until a garbage collection")     \
    E(v8_gc, "v8:gc", SPAN, PROBE, "a garbage collection")                                           \
    E(v8_regexp, "v8:regexp", SPAN, PROBE,                                                           \
      "a regular expression entered from C++; once compiled, V8 runs it without")                    \
    E(v8_encode, "v8:encode", SPAN, PROBE, "JSON or a buffer becomes text, or text JSON, in above 20 us")

#endif
