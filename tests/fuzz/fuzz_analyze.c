/* The whole analysis over arbitrary events: of any kind, in any nesting, with fields that are wrong or
 * missing. Each event takes a kind, a time step, and one byte a field, so that small inputs reach deep; times
 * never go back, as the reader promises. Then the report, the requests and their trees are written. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "model/analysis.h"
#include "targets/node/function.h"
#include "targets/node/loop.h"
#include "analyze/vertical.h"
#include "event/event.h"
#include "finding/prose.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at, *end;
};

static uint8_t take(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static void fill(struct input *in, const struct event_description *d, struct value *values, uint64_t now_ns)
{
    static const char *const TEXTS[] = {
        "", "/users/7", "HTTPCLIENTREQUEST", "/a+/", "\xff;\xfe_[j];f", "TCPWRAP", "/", "get"};
    for (unsigned i = 1; i < d->field_count; i++) {
        uint8_t byte = take(in);
        if (d->fields[i].type == FIELD_TYPE_str) {
            values[i].s = TEXTS[byte % 8];
            values[i].length = (uint32_t)(byte & 128 ? strlen(TEXTS[byte % 8]) / 2 : strlen(TEXTS[byte % 8]));
        } else if (d->fields[i].meaning == SONDE_MEANING_ns) {
            values[i].u = now_ns - (uint64_t)byte * byte * 10000;
        } else {
            values[i].u = byte == 255 ? UINT64_MAX : byte == 254 ? 1ull << 40 : byte;
        }
    }
}

static int write_report(void *context, struct analysis *a, struct report *report)
{
    struct text text = {0};
    prose_findings(&text, report, &prose_plain, 80);
    json_decref(report_json(report));
    text_done(&text);
    return 0;
}

static void write_all(struct analysis *a)
{
    struct report report = {0};
    struct text text = {0};
    size_t count;
    analysis_report(a, &report);
    write_report(NULL, a, &report);
    json_decref(analysis_loops_json(a));
    json_decref(analysis_functions_json(a));
    const struct request *const *requests = analysis_requests(a, &count);
    for (size_t i = 0; i < count; i++) {
        vertical_print(&text, requests[i], analysis_samples(a), &prose_plain, 60, i % 2 ? 10 : 0);
        json_decref(vertical_json(requests[i], analysis_samples(a)));
    }
    analysis_endpoints(a, &count);
    text_done(&text);
    report_done(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct analyze_options options = ANALYZE_DEFAULTS;
    struct analysis *a = NULL;
    uint64_t now_ns = 10000000000ull;
    if (analysis_new(&options, &a) < 0)
        return 0;
    while (in.at < in.end) {
        struct value values[32] = {0};
        uint8_t kind = take(&in), step = take(&in), took = take(&in);
        struct event event = {.id = (uint16_t)(kind % SONDE_EVENT_COUNT),
                              .pid = 1 + (kind >> 7),
                              .tid = 1 + (kind >> 7) + (step >> 7),
                              .values = values,
                              .present = took == 255 ? take(&in) : UINT64_MAX};
        now_ns += (uint64_t)(step & 127) * (step & 127) * 1000;
        event.time_ns = now_ns;
        values[0].u = (uint64_t)took * took * took * 100;
        if (event.id)
            fill(&in, &event_catalogue[event.id], values, now_ns);
        if (analysis_event(a, &event) < 0)
            break;
        if (took % 16 == 7)
            analysis_so_far(a, took & 128 ? OPEN_JUDGED : OPEN_LEFT_OUT, write_report, NULL);
    }
    if (analysis_finish(a) == 0)
        write_all(a);
    analysis_free(a);
    return 0;
}
