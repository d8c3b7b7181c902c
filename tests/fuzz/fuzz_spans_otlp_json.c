/* Fuzzes one decoder of spans: all that it hands out is read, and what a batch keeps of it is the same.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define SPAN_FORMAT FORMAT_OTLP_JSON
#define BATCH_KIND  JOURNAL_OTLP_JSON
#include "spans.h"
