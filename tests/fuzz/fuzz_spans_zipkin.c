/* Fuzzes one decoder of spans; what it hands out is read whole. */
/* SPDX-License-Identifier: Apache-2.0 */
#define SPAN_FORMAT FORMAT_ZIPKIN
#include "spans.h"
