/* Runs a fuzz target over its seeds, without a fuzzer: so that a target that does not build, and an input
 * that was mended once, are seen by every run of the tests with sanitizers. replay_NAME [FOLDER]    each file
 * in it, and nothing at all */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { SEED_MAX = 64 << 20 };

/* In memory of exactly its size, so that what is read behind it is seen. */
static int replay(const char *path)
{
    _cleanup_(freep) char *text = NULL;
    size_t size;
    int r = file_read(path, SEED_MAX, &text, &size);
    if (r < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(-r));
        return 1;
    }
    uint8_t *data = malloc(size);
    if (size && !data)
        return 1;
    if (size)
        memcpy(data, text, size);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    static const uint8_t nothing;
    DIR *folder = argc > 1 ? opendir(argv[1]) : NULL;
    const struct dirent *entry;
    int failed = argc > 1 && !folder;
    (void)!freopen("/dev/null", "w", stdout); /* what is said about a seed is not the point */
    if (LLVMFuzzerInitialize)
        (void)LLVMFuzzerInitialize(&argc, &argv);
    (void)LLVMFuzzerTestOneInput(&nothing, 0);
    while (folder && (entry = readdir(folder))) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
        if (entry->d_name[0] != '.')
            failed |= replay(path);
    }
    if (folder)
        closedir(folder);
    return failed;
}
