/* Kinds of finding of Node.js alone: see finding/kinds.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_KINDS_H
#define TARGETS_NODE_KINDS_H

/* clang-format off */
#define FINDING_KINDS_node(KIND)                                                                             \
    KIND(gc_pressure, "gc-pressure", WARNING, WARNING,                                                       \
         "Garbage collection takes much of the time of requests.",                                           \
         "Allocate less per request (copies of large objects, strings that are built piece by piece), or "   \
         "give the young generation more room (--max-semi-space-size).",                                     \
         EVIDENCE("collections_count", "collections in total")                                               \
         EVIDENCE("major_count", "of them major ones (mark-sweep-compact)")                                  \
         EVIDENCE("gc_ns", "time in collection since the first request")                                     \
         EVIDENCE("active_ns", "how long the event loop was working in that time")                           \
         EVIDENCE("gc_share", "the first of the second, 0 to 1")                                             \
         EVIDENCE("longest_ns", "the longest collection")                                                    \
         EVIDENCE("tigc_ns", "mean time in a collection (TIGC)")                                             \
         EVIDENCE("tbgc_ns", "mean time between two collections (TBGC)")                                     \
         EVIDENCE("heap_bytes", "heap in use after the last collection")                                     \
         EVIDENCE("promises_created_count", "promises created, where Node reports them")                     \
         EVIDENCE("promises_alive_count", "of them still in memory, as one in 128 of them shows")            \
         EVIDENCE("delay_ns", "time lost by requests, in total"))                                            \
    KIND(memory_leak_suspected, "memory-leak-suspected", WARNING, WARNING,                                   \
         "What is alive after major collections grows and does not stop growing.",                           \
         "Find what keeps objects of finished requests alive: a cache without a limit, a global list, a "    \
         "listener or a closure, promises that are never settled. Compare two heap snapshots (node "         \
         "--heapsnapshot-signal).",                                                                          \
         EVIDENCE("collections_count", "collections in total")                                               \
         EVIDENCE("major_count", "of them major ones (mark-sweep-compact)")                                  \
         EVIDENCE("heap_first_bytes", "heap in use after the first major collection")                        \
         EVIDENCE("heap_last_bytes", "heap in use after the last one")                                       \
         EVIDENCE("memory_first_bytes", "outside of the heap, after the first one: what objects hold "       \
                                        "(Buffers), or else what the process has at least")                  \
         EVIDENCE("memory_last_bytes", "likewise after the last one")                                        \
         EVIDENCE("growth_bytes_per_s", "growth per second")                                                 \
         EVIDENCE("gc_ns", "time in collection in total")                                                    \
         EVIDENCE("tigc_ns", "mean time in a collection (TIGC)")                                             \
         EVIDENCE("tbgc_ns", "mean time between two collections (TBGC)")                                     \
         EVIDENCE("tigc_tbgc_ratio", "the first of the second: above a third, they balance")                 \
         EVIDENCE("promises_created_count", "promises created, where Node reports them")                     \
         EVIDENCE("promises_alive_count", "of them still in memory, as one in 128 of them shows")            \
         EVIDENCE("delay_ns", "time lost by requests to collections, in total"))                             \
    KIND(serialisation, "serialisation", WARNING, WARNING,                                                   \
         "Encoding or decoding took the time, not reading or sending.",                                      \
         "Send binary data as it is (a Buffer, a binary frame) instead of as JSON or base64 text; send "     \
         "less, or in parts; encode in a worker thread.",                                                    \
         EVIDENCE("called", "what took most of it: JSON.stringify, JSON.parse or Buffer.toString")           \
         EVIDENCE("calls_count", "calls of it that took a millisecond or more")                              \
         EVIDENCE("encoding_ns", "their time in total, with what else the functions around them did")        \
         EVIDENCE("active_ns", "how long the event loop was working in total")                               \
         EVIDENCE("encode_share", "the first of the second, 0 to 1")                                         \
         EVIDENCE("encoded_bytes", "text made or read by all its calls")                                     \
         EVIDENCE("worst_ns", "the longest call")                                                            \
         EVIDENCE("worst_bytes", "its text")                                                                 \
         EVIDENCE("hurts_from_bytes", "the smallest text that took a millisecond or more")                   \
         EVIDENCE("ns_per_byte", "time per byte of text")                                                    \
         EVIDENCE("read_ns", "time of this process's file reads, for comparison")                            \
         EVIDENCE("delay_ns", "time lost by requests, in total"))
/* clang-format on */

#endif
