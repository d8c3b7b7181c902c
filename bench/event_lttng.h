/* The LTTng-UST tracepoints that bench/event.c is measured against: the fields of redis:command. */
/* SPDX-License-Identifier: Apache-2.0 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER sonde_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "event_lttng.h"
#if !defined(BENCH_EVENT_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_EVENT_LTTNG_H
#include <stdint.h>
#include <lttng/tracepoint.h>
/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(sonde_bench, command,
    LTTNG_UST_TP_ARGS(uint64_t, client_id, uint64_t, sequence, uint64_t, bytes, uint32_t, name, int32_t, fd,
                      int32_t, argument_count, int32_t, db, uint8_t, kind, uint8_t, depth),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, client_id, client_id)
        lttng_ust_field_integer(uint64_t, sequence, sequence)
        lttng_ust_field_integer(uint64_t, bytes, bytes)
        lttng_ust_field_integer(uint32_t, name, name)
        lttng_ust_field_integer(int32_t, fd, fd)
        lttng_ust_field_integer(int32_t, argument_count, argument_count)
        lttng_ust_field_integer(int32_t, db, db)
        lttng_ust_field_integer(uint8_t, kind, kind)
        lttng_ust_field_integer(uint8_t, depth, depth)))
LTTNG_UST_TRACEPOINT_EVENT(sonde_bench, command_end,
    LTTNG_UST_TP_ARGS(uint64_t, client_id),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, client_id, client_id)))
/* clang-format on */
#endif
#include <lttng/tracepoint-event.h>
