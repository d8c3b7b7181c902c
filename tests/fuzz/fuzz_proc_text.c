/* The texts of /proc: a process chooses its name, its command line, the paths it maps and its control group,
 * and sonde parses them as root. Every parser gets the same bytes, in memory that ends with them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever is given out lies within the text. */
static void within(const char *at, size_t length, const char *text, size_t size)
{
    if (at < text || length > size || at + length > text + size)
        abort();
}

static void lines(const char *text, size_t size)
{
    struct proc_mapping mapping;
    struct proc_cgroup cgroup;
    size_t count = 0;
    const char *at = text;
    while (proc_next_mapping(&at, text + size, &mapping)) {
        within(mapping.path, mapping.path_length, text, size);
        if (mapping.start >= mapping.end || ++count > size)
            abort();
    }
    count = 0;
    at = text;
    while (proc_next_cgroup(&at, text + size, &cgroup)) {
        within(cgroup.path, cgroup.path_length, text, size);
        within(cgroup.controllers, cgroup.controllers_length, text, size);
        if (cgroup.unified && proc_cgroup_controls(&cgroup, "freezer"))
            abort();
        if (++count > size)
            abort();
    }
}

/* These need a NUL behind the text, as file_read() leaves one. */
static void words(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    size_t count = 0;
    for (const char *word = proc_next_word(text, size, NULL); word; word = proc_next_word(text, size, word)) {
        within(word, strlen(word), text, size);
        if (++count > size)
            abort();
    }
    proc_make_printable(text);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proc_stat stat;
    struct proc_runs runs;
    char name[PROC_NAME_BYTES];
    long number;
    unsigned levels;
    char *text = malloc(size ? size : 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    (void)proc_parse_stat(text, size, &stat);
    (void)proc_parse_runs(text, size, &runs);
    (void)proc_parse_status_number(text, size, "PPid", &number);
    (void)proc_parse_status_number(text, size, "Seccomp_filters", &number);
    if (proc_parse_innermost(text, size, &levels) < 0)
        abort();
    proc_parse_name(text, size, name);
    if (strlen(name) >= PROC_NAME_BYTES)
        abort();
    lines(text, size);
    free(text);
    words(data, size);
    return 0;
}
