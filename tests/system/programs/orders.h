/* The events that orders.c records with LTTng's user-space tracer. */
/* SPDX-License-Identifier: Apache-2.0 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER orders

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./orders.h"

#if !defined(ORDERS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define ORDERS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_ENUM(orders, state, LTTNG_UST_TP_ENUM_VALUES(
    lttng_ust_field_enum_value("new", 0)
    lttng_ust_field_enum_value("paid", 1)
    lttng_ust_field_enum_range("sent", 2, 7)))

LTTNG_UST_TRACEPOINT_EVENT(orders, order, LTTNG_UST_TP_ARGS(int, number, int, thread, const char *, name, const uint16_t *, items, size_t, count),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int, number, number)
        lttng_ust_field_integer(int, thread, thread)
        lttng_ust_field_integer_hex(uint64_t, hash, (uint64_t)number * 0x9e3779b97f4a7c15)
        lttng_ust_field_float(double, price, number * 1.25)
        lttng_ust_field_enum(orders, state, int, state, number % 8)
        lttng_ust_field_string(name, name)
        lttng_ust_field_array(uint16_t, first, items, 3)
        lttng_ust_field_sequence(uint16_t, items, items, size_t, count)
        lttng_ust_field_array_text(char, code, "ABCDE", 5)
        lttng_ust_field_sequence_text(char, text, name, size_t, count)))

LTTNG_UST_TRACEPOINT_EVENT(orders, idle, LTTNG_UST_TP_ARGS(int, thread), LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer(uint8_t, thread, (uint8_t)thread)))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
