/* All that `sonde report` does with a recording, over one that is damaged: the reader of its packets, the
 * analysis, the manifest, the text or the JSON. An input is the files of a recording, one after another, each
 * behind a line "==== NAME" (tests/fuzz/recording_seed writes one from a folder); the metadata is sonde's own
 * unless the input has some. What is altered may be anything but must end soon and in bounded memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "recording.h"

static const char MARK[] = "\n==== ";
enum { MARK_BYTES = sizeof(MARK) - 1, FILES_MAX = 16 };

static char *metadata;
static size_t metadata_bytes;

/* The metadata of recordings of this version. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char path[128];
    (void)argc;
    (void)argv;
    make_recording();
    path_of("ctf/metadata", path, sizeof(path));
    if (file_read(path, 1 << 20, &metadata, &metadata_bytes) < 0)
        abort();
    return 0;
}

/* A part's file: the first line of it is the name. */
static void write_part(const uint8_t *part, size_t bytes, unsigned number, char names[][16], unsigned *count)
{
    const uint8_t *line = memchr(part, '\n', bytes);
    size_t name = line ? (size_t)(line - part) : bytes;
    const uint8_t *content = line ? line + 1 : part + bytes;
    size_t left = (size_t)(part + bytes - content);
    if (name == 13 && memcmp(part, "manifest.json", 13) == 0)
        snprintf(names[*count], sizeof(names[0]), "manifest.json");
    else if (name == 8 && memcmp(part, "metadata", 8) == 0) {
        write_file("ctf/metadata", content, left);
        return;
    } else
        snprintf(names[*count], sizeof(names[0]), "ctf/%u", number);
    write_file(names[(*count)++], content, left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char names[FILES_MAX][16];
    unsigned count = 0, number = 0;
    write_file("ctf/metadata", metadata, metadata_bytes);
    const uint8_t *end = data + size, *part = memmem(data, size, MARK, MARK_BYTES);
    while (part && number < FILES_MAX) {
        part += MARK_BYTES;
        const uint8_t *next = memmem(part, (size_t)(end - part), MARK, MARK_BYTES);
        write_part(part, (size_t)((next ? next : end) - part), number++, names, &count);
        part = next;
    }
    cli_report(folder, size % 2);
    for (unsigned i = 0; i < count; i++)
        remove_file(names[i]);
    return 0;
}
