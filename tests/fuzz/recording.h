/* A recording of this version's, whole and without events, whose files a target replaces. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_RECORDING_H
#define FUZZ_RECORDING_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace/ctf_writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char folder[64];

static void path_of(const char *name, char *to, size_t bytes)
{
    snprintf(to, bytes, "%s/%s", folder, name);
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    char path[128];
    path_of(name, path, sizeof(path));
    FILE *f = fopen(path, "w");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        abort();
}

static void remove_file(const char *name)
{
    char path[128];
    path_of(name, path, sizeof(path));
    unlink(path);
}

static void remove_folder(void)
{
    char path[128];
    remove_file("manifest.json");
    remove_file("ctf/metadata");
    path_of("ctf", path, sizeof(path));
    rmdir(path);
    rmdir(folder);
}

/* In memory, where that can be had. */
static void make_recording(void)
{
    struct ctf_writer *writer = NULL;
    snprintf(folder, sizeof(folder), "%s/sonde-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder) || ctf_writer_create(folder, &writer, NULL) < 0)
        abort();
    ctf_writer_free(writer);
    atexit(remove_folder);
}

#endif
