/* Fuzzes one decoder of spans; what it hands out is read whole, and is the same when it was kept meanwhile.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define SPAN_FORMAT FORMAT_OTLP_PROTOBUF
#define BATCH_KIND  JOURNAL_OTLP_PROTOBUF
#include "spans.h"
