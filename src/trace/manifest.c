/* See manifest.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/manifest.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"

enum { MANIFEST_MAX = 64 << 20 };

static int path_of(const char *folder, char path[static PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/manifest.json", folder) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

bool manifest_exists(const char *folder)
{
    char path[PATH_MAX];
    return path_of(folder, path) == 0 && access(path, R_OK) == 0;
}

int manifest_read(const char *folder, json_t **ret_manifest)
{
    _cleanup_(freep) char *text = NULL;
    char path[PATH_MAX];
    int r = path_of(folder, path);
    if (r == 0)
        r = file_read(path, MANIFEST_MAX, &text, NULL);
    if (r < 0)
        return r;
    json_t *manifest = json_loads(text, 0, NULL);
    if (!manifest)
        return -EBADMSG;
    *ret_manifest = manifest;
    return 0;
}
