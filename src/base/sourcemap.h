/* Source maps (ECMA-426, revision 3): from a place in generated JavaScript to the one that a person wrote. A
 * map lies beside the script or, as a data URL, in its last lines; an index map holds others. Scripts and
 * maps are written by whoever wrote the traced program: only plain files are read, a map only from the
 * script's own folder or below it, and what a map names is text to be shown, never a file to be opened. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SOURCEMAP_H
#define BASE_SOURCEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Strings belong to the map. Lines and columns count from 1. */
struct source_place {
    const char *file, *name; /* name: what the generated name stands for; NULL when the map does not say */
    uint32_t line, column;
};

struct source_map;

/* Reads a map from JSON text. folder: where it lies; its sources are relative to it. 0, -EINVAL when it is
 * none, or -ENOMEM. */
int source_map_parse(const char *json, size_t length, const char *folder, struct source_map **ret_map);
void source_map_free(struct source_map *map);
/* The original of a place; false when the map has none. */
bool source_map_find(const struct source_map *map, uint32_t line, uint32_t column,
                     struct source_place *ret_place);

/* The map that a script's text names in its last comment: a data URL, or a file below the script's folder. */
int source_map_of_text(const char *text, size_t length, const char *script, struct source_map **ret_map);
/* The same for a script on the disk: a path, or a file: URL. -ENOENT when it has no map. */
int source_map_of_script(const char *script, struct source_map **ret_map);

#endif
