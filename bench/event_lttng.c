/* Makes the tracepoint of event_lttng.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "event_lttng.h"
