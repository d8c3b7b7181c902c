/* What kind of statement a text of SQL is: its first word, when that is one of SQL's own. Nothing else of the
 * text is looked at, and no word that is not in the list is ever told. Read byte by byte, however it is cut;
 * white space, parentheses and comments in front are passed over. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_SQL_H
#define PROBE_SQL_H

#include <stdbool.h>
#include <stdint.h>

enum { SQL_WORD_BYTES = 8 };

/* The state is 0 at first. */
enum sql_state { SQL_LEAD, SQL_SLASH, SQL_COMMENT, SQL_COMMENT_STAR, SQL_DASH, SQL_LINE, SQL_WORD, SQL_DONE };

/* Filled up with zeros, of which the longest have none. */
static const char SQL_WORDS[][SQL_WORD_BYTES] = {
    "SELECT", "INSERT", "UPDATE",   "DELETE",  "BEGIN",   "COMMIT",  "ROLLBACK", "WITH",     "SET",
    "START",  "SHOW",   "CREATE",   "ALTER",   "DROP",    "COPY",    "CALL",     "TRUNCATE", "EXPLAIN",
    "LISTEN", "NOTIFY", "UNLISTEN", "DECLARE", "FETCH",   "CLOSE",   "MERGE",    "REPLACE",  "USE",
    "VALUES", "VACUUM", "ANALYZE",  "RELEASE", "PREPARE", "EXECUTE", "DISCARD",  "RESET",    "LOCK",
    "UNLOCK", "GRANT",  "REVOKE",   "REFRESH", "DO",      "DESC",    "DESCRIBE", "LOAD",     "OPTIMIZE",
    "KILL",   "CHECK",  "RENAME",   "REINDEX", "TABLE",
};

/* One of SQL_WORDS and its length, NULL for none of them. word: its letters, the first one in the lowest
 * byte. */
static inline const char *sql_word(uint64_t word, uint32_t *ret_length)
{
    for (unsigned i = 0; word && i < sizeof(SQL_WORDS) / sizeof(SQL_WORDS[0]); i++) {
        uint64_t known;
        __builtin_memcpy(&known, SQL_WORDS[i], sizeof(known));
        if (known != word)
            continue;
        *ret_length = (uint32_t)(71 - __builtin_clzll(word)) / 8;
        return SQL_WORDS[i];
    }
    return 0;
}

/* The next byte of the text, or -1 at its end. Returns true when the word is whole, which *word then is; 0:
 * it is too long to be one of those that are known. */
static inline bool sql_byte(uint8_t *state, uint64_t *word, int byte)
{
    int letter = byte & ~0x20;
    bool is_letter = byte >= 0 && letter >= 'A' && letter <= 'Z';
    switch (*state) {
    case SQL_WORD:
        if (!is_letter) {
            *state = SQL_DONE;
            return true;
        }
        if (*word >> 56) { /* too long */
            *word = 0;
            *state = SQL_DONE;
            return true;
        }
        *word |= (uint64_t)letter << ((71 - __builtin_clzll(*word)) / 8 * 8);
        return false;
    case SQL_SLASH:
        *state = byte == '*' ? SQL_COMMENT : SQL_DONE;
        return false;
    case SQL_COMMENT:
    case SQL_COMMENT_STAR:
        *state = byte == '/' && *state == SQL_COMMENT_STAR ? SQL_LEAD
                 : byte == '*'                             ? SQL_COMMENT_STAR
                                                           : SQL_COMMENT;
        return false;
    case SQL_DASH:
        *state = byte == '-' ? SQL_LINE : SQL_DONE;
        return false;
    case SQL_LINE:
        *state = byte == '\n' ? SQL_LEAD : SQL_LINE;
        return false;
    case SQL_DONE:
        return false;
    }
    if (is_letter) {
        *state = SQL_WORD;
        *word = (uint64_t)letter;
    } else if (byte == '/') {
        *state = SQL_SLASH;
    } else if (byte == '-') {
        *state = SQL_DASH;
    } else if (byte > ' ' && byte != '(' && byte != ';') {
        *state = SQL_DONE;
    }
    return false;
}

#endif
