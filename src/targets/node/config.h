/* What the probe must know of Node, of libuv, V8 and llhttp in it: see event/config.h. attach_layout.c finds
 * it out. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_CONFIG_H
#define TARGETS_NODE_CONFIG_H

/* Byte offsets; in V8's heap objects the pointers' tag is already subtracted (-1). */
#define SONDE_OFFSETS_node(O)                                      \
    O(node, map_instance_type, "Map.instance_type")                \
    O(node, string_length, "String.length")                        \
    O(node, string_chars, "SeqOneByteString.chars")                \
    O(node, scope_context, "InternalCallbackScope.async_context_") \
    O(node, port_handle, "MessagePort.async_")                     \
    O(node, llhttp_status, "llhttp_t.status_code, without accessor")

#define SONDE_WORDS_node(W)                                                                      \
    W(node, string_type_mask, "instance_type & mask == value for flat one-byte strings")         \
    W(node, string_type_value, "")                                                               \
    W(node, not_string_mask, "instance_type & mask == 0 for any string; 0 unknown")              \
    W(node, globalize_value, "1 when globalize takes the object itself, 0 when it takes a slot") \
    W(node, carried_of_context,                                                                  \
      "1: what V8 carries is a Context's (to V8 11), 0: an Isolate's (from 12 on)")              \
    W(node, execution_field, "where an Environment has a pointer to the id of what runs; 0 unknown")

/* Functions of V8 and Node by which the probe runs its script. A C++ symbol names its arguments; results are
 * void or one pointer (v8::Local, v8::MaybeLocal). */
#define NODE_SCRIPT_FUNCTIONS(A)                                                                         \
    A(node, script_isolate, "_ZN2v87Isolate13TryGetCurrentEv")                                           \
    A(node, script_context, "_ZN2v87Isolate17GetCurrentContextEv")                                       \
    A(node, script_handle_scope, "_ZN2v811HandleScopeC1EPNS_7IsolateE")                                  \
    A(node, script_handle_scope_end, "_ZN2v811HandleScopeD1Ev")                                          \
    A(node, script_try_catch, "_ZN2v88TryCatchC1EPNS_7IsolateE")                                         \
    A(node, script_try_catch_end, "_ZN2v88TryCatchD1Ev")                                                 \
    A(node, script_terminated, "_ZNK2v88TryCatch13HasTerminatedEv")                                      \
    A(node, script_terminate, "_ZN2v87Isolate18TerminateExecutionEv")                                    \
    A(node, script_string, "_ZN2v86String11NewFromUtf8EPNS_7IsolateEPKcNS_13NewStringTypeEi")            \
    A(node, script_compile,                                                                              \
      "_ZN2v86Script7CompileENS_5LocalINS_7ContextEEENS1_INS_6StringEEEPNS_12ScriptOriginE")             \
    A(node, script_run, "_ZN2v86Script3RunENS_5LocalINS_7ContextEEE")                                    \
    A(node, script_call, "_ZN2v88Function4CallENS_5LocalINS_7ContextEEENS1_INS_5ValueEEEiPS5_")          \
    A(node, script_function,                                                                             \
      "_ZN2v88Function3NewENS_5LocalINS_7ContextEEEPFvRKNS_20FunctionCallbackInfoINS_5ValueEEEENS1_IS5_" \
      "EEiNS_"                                                                                           \
      "19ConstructorBehaviorENS_14SideEffectTypeE")                                                      \
    A(node, script_buffer, "_ZN4node6Buffer3NewEPN2v87IsolateEPcmPFvS4_PvES5_")

/* The carried_ ones, by which V8 carries a value over promises, are all 0 where one of them or execution_id
 * is absent. */
#define SONDE_FUNCTIONS_node(A)                                                                   \
    A(node, llhttp_get_method, "uint8_t or int (llhttp_t *)")                                     \
    A(node, llhttp_get_type, "uint8_t or int (llhttp_t *)")                                       \
    A(node, llhttp_get_status, "int (llhttp_t *)")                                                \
    A(node, h2_rcbuf, "nghttp2_vec (nghttp2_rcbuf *)")                                            \
    A(node, uv_fs_work, "which say what a submitted request is")                                  \
    A(node, uv_queue_work, "")                                                                    \
    A(node, uv_getaddrinfo_work, "")                                                              \
    A(node, uv_getnameinfo_work, "")                                                              \
    A(node, v8_heap_size, "size_t (v8::internal::Heap *)")                                        \
    A(node, v8_external, "int64_t (v8::Isolate *, int64_t change)")                               \
    A(node, globalize, "v8::api_internal::GlobalizeReference(Isolate *, ...)")                    \
    A(node, promise_has_handler, "bool (v8::Promise *)")                                          \
    A(node, carried_get, "of a v8::Context or v8::Isolate")                                       \
    A(node, carried_set, "")                                                                      \
    A(node, execution_id, "double node::AsyncHooksGetExecutionAsyncId(Isolate *)")                \
    A(node, handles_next, "Address ** (v8::internal::Isolate *), with which")                     \
    A(node, handles_limit, "Address ** (v8::internal::Isolate *), the probe keeps a HandleScope") \
    A(node, handles_level, "int * (v8::internal::Isolate *), where V8 has")                       \
    A(node, handles_delete, "void (v8::internal::Isolate *), no constructor of it")               \
    NODE_SCRIPT_FUNCTIONS(A)

#endif
