/* Fuzzes a mapping file with the CSV behind it (after the first empty line), and the same CSV as a table to
 * join. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "diagnose/diagnosis.h"
#include "span/csv.h"
#include "span/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *gap = memmem(data, size, "\n\n", 2);
    size_t head = gap ? (size_t)(gap - data) : 0;
    const char *csv = (const char *)data + (gap ? head + 2 : 0);
    size_t length = size - (gap ? head + 2 : 0);
    char *text = strndup((const char *)data, head);
    struct mapping mapping;
    struct table *table = NULL;
    struct diagnosis *diagnosis;
    table_read(csv, length, &table, NULL);
    struct diagnosis_settings settings = {.tables = &table, .table_count = table ? 1 : 0};
    if (text && mapping_read(text, &mapping, NULL) == 0 && diagnosis_new(&settings, &diagnosis) == 0) {
        csv_decode(csv, length, &mapping, diagnosis_sink(diagnosis), NULL);
        diagnosis_flush(diagnosis, UINT64_MAX);
        diagnosis_free(diagnosis);
    }
    table_free(table);
    free(text);
    return 0;
}
