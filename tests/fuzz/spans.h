/* What the fuzz targets of span decoders share; SPAN_FORMAT names the decoder. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/diagnosis.h"
#include "span/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Behind the decoder, all of the diagnosis: odd trees, times and labels come from here too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diagnosis *diagnosis;
    struct diagnosis_settings settings = {0};
    if (diagnosis_new(&settings, &diagnosis) < 0)
        return 0;
    span_format_detect(data, size);
    span_decode(SPAN_FORMAT, data, size, NULL, diagnosis_sink(diagnosis), NULL);
    diagnosis_flush(diagnosis, UINT64_MAX);
    struct report report = {0};
    struct judge_settings judge_settings = {0};
    struct judgement judgement;
    if (diagnosis_report(diagnosis, &judge_settings, &report, &judgement) == 0)
        judgement_done(&judgement);
    report_done(&report);
    diagnosis_free(diagnosis);
    return 0;
}
