/* Attributes and strings on disk, as both stores write them. Private to src/history.
 *
 *     each attribute   varint parent + 1 (0: the root), varint length, bytes
 *     each string      varint length, bytes
 *
 * Numbers are not stored: both go on from those read before. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_NAMES_H
#define HISTORY_NAMES_H

#include "history/model.h"

/* Bytes that grow: a record's body, a tree's names. */
struct body {
    uint8_t *at;
    size_t count, capacity;
};
int body_reserve(struct body *body, size_t more);

/* Appends all attributes and strings from the given numbers on. 0 or -ENOMEM. */
int names_write(const struct history *history, size_t from_attribute, size_t from_string, struct body *body);

/* Reads so many of each into the history. 0, -ENOMEM, or -EBADMSG with *ret_bad at the name in question. */
int names_read(struct history *history, const uint8_t *p, const uint8_t *end, uint32_t attributes,
               uint32_t strings, const uint8_t **ret_bad);

#endif
