/* Statements of SQL without their values (statement.h): one pass over the bytes, as PostgreSQL and MySQL
 * split them into tokens (PostgreSQL's documentation, "Lexical Structure"; MySQL's, "Language Structure").
 *
 * What ends the text, because the client's settings decide how it goes on: a quote behind an odd number of
 * backslashes in a plain string (standard_conforming_strings, NO_BACKSLASH_ESCAPES, and character sets that
 * have a backslash within a character), a byte above 126 outside of strings and comments (the same), and
 * MySQL's comments with conditional code. Double quotes are a string's in MySQL, whatever ANSI_QUOTES says.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/statement.h"
#include "probe/probe.h"

enum state {
    BETWEEN,
    WORD,
    NUMBER,
    SIGN, /* of an exponent, perhaps */
    STRING,
    STRING_QUOTE, /* its end, or the first of two that stand for one */
    NAME,
    SLASH,
    COMMENT_FIRST, /* MySQL: its first byte says what it is */
    COMMENT_M,
    COMMENT,
    COMMENT_STAR,
    COMMENT_SLASH,
    DASH,
    DASHES, /* MySQL: a comment if white space follows */
    LINE,
    DOLLAR,
    PARAMETER,
    DOLLAR_TEXT,
    OVER,
};

enum word {
    OTHER_WORD,
    W_IS,
    W_NOT,
    W_SET,
    W_DEFAULT,
    W_TO,
    W_NULL,
    W_TRUE,
    W_FALSE,
    W_ALTER,
    W_CREATE,
    W_DROP,
    W_USER,
    W_ROLE,
    W_LISTEN,
    W_UNLISTEN,
    W_NOTIFY,
    W_GRANT,
    W_REVOKE,
};

static const struct {
    char text[9];
    uint8_t word;
} WORDS[] = {{"IS", W_IS},       {"NOT", W_NOT},       {"SET", W_SET},       {"DEFAULT", W_DEFAULT},
             {"TO", W_TO},       {"NULL", W_NULL},     {"TRUE", W_TRUE},     {"FALSE", W_FALSE},
             {"ALTER", W_ALTER}, {"CREATE", W_CREATE}, {"DROP", W_DROP},     {"USER", W_USER},
             {"ROLE", W_ROLE},   {"LISTEN", W_LISTEN}, {"NOTIFY", W_NOTIFY}, {"UNLISTEN", W_UNLISTEN},
             {"GRANT", W_GRANT}, {"REVOKE", W_REVOKE}};

static bool is_letter(uint8_t b)
{
    return ((b | 0x20) >= 'a' && (b | 0x20) <= 'z') || b == '_';
}

static bool is_digit(uint8_t b)
{
    return b >= '0' && b <= '9';
}

static bool is_space(uint8_t b)
{
    return b == ' ' || (b >= '\t' && b <= '\r');
}

static void cut(struct statement *s)
{
    s->cut = 1;
    s->state = OVER;
}

static void put(struct statement *s, char c)
{
    if (s->length < STATEMENT_BYTES - 3)
        s->text[s->length++] = c;
    else
        cut(s);
}

static char last(const struct statement *s)
{
    return s->length ? s->text[s->length - 1] : '(';
}

/* Before a token. */
static void space(struct statement *s, char next)
{
    if (s->gap && last(s) != '(' && last(s) != ' ' && next != ',' && next != ')' && next != ';')
        put(s, ' ');
    s->gap = 0;
}

/* ---- values ---- */

/* A sign before a number is the number's where something that asks for a value stands before it. */
static void drop_sign(struct statement *s)
{
    if (last(s) != '-' && last(s) != '+')
        return;
    uint16_t n = (uint16_t)(s->length - 1);
    while (n && s->text[n - 1] == ' ')
        n--;
    char asks = n ? s->text[n - 1] : '(';
    if (asks == '(' || asks == ',' || asks == '=' || asks == '<' || asks == '>')
        s->length--;
}

static void value(struct statement *s)
{
    uint16_t n = s->length;
    s->before = OTHER_WORD;
    if (n && s->text[n - 1] == ' ')
        n--;
    if (n && s->text[n - 1] == '?') { /* 'one' 'string' in parts */
        s->length = n;
    } else if (n > 1 && s->text[n - 1] == ',' && s->text[n - 2] == '?') { /* a list */
        s->length = (uint16_t)(n - 1);
    } else {
        space(s, '?');
        put(s, '?');
        return;
    }
    s->gap = 0;
}

/* ---- words ---- */

static enum word word_of(const struct statement *s)
{
    uint16_t length = (uint16_t)(s->length - s->word);
    for (unsigned i = 0; i < sizeof(WORDS) / sizeof(WORDS[0]); i++) {
        uint16_t same = 0;
        while (same < length && same < 9 && WORDS[i].text[same] == (s->text[s->word + same] & ~0x20))
            same++;
        if (same == length && !WORDS[i].text[same])
            return WORDS[i].word;
    }
    return OTHER_WORD;
}

static void word_ends(struct statement *s)
{
    enum word word = word_of(s), before = (enum word)s->before;
    s->state = BETWEEN;
    bool truth = word == W_TRUE || word == W_FALSE;
    bool kept = before == W_IS || before == W_NOT || before == W_DEFAULT || before == W_SET;
    if ((truth || word == W_NULL) && !kept) {
        s->length = s->word;
        value(s);
        return;
    }
    if (!s->words)
        s->first = (uint8_t)word;
    if (word == W_SET && (!s->words || s->first == W_ALTER))
        s->sets = 1;
    bool second = s->words == 1;
    s->words += s->words < UINT16_MAX;
    s->before = (uint8_t)word;
    if (word == W_TO && s->sets) { /* what follows may be a word, and is a value */
        s->gap = 1;
        value(s);
        cut(s);
    } else if (s->words == 1 && (word == W_LISTEN || word == W_UNLISTEN || word == W_NOTIFY ||
                                 word == W_GRANT || word == W_REVOKE)) {
        cut(s); /* names that are data: of channels, of people */
    } else if (second && (word == W_USER || word == W_ROLE) &&
               (s->first == W_CREATE || s->first == W_ALTER || s->first == W_DROP)) {
        cut(s);
    }
}

/* E'...', X'...', B'...', N'...': the letter belongs to the string. */
static void word_before_quote(struct statement *s)
{
    s->escapes = 0;
    if (s->length - s->word == 1) {
        char letter = (char)(s->text[s->word] | 0x20);
        if (letter == 'e' || letter == 'x' || letter == 'b' || letter == 'n') {
            s->length = s->word;
            s->escapes = letter == 'e' && s->dialect == STATEMENT_POSTGRESQL;
            s->state = BETWEEN;
            return;
        }
    }
    word_ends(s);
}

/* ---- parentheses ---- */

static void opens(struct statement *s)
{
    space(s, '(');
    if (s->depth < STATEMENT_DEPTH)
        s->open[s->depth] = s->length;
    put(s, '(');
    s->depth += s->depth < UINT8_MAX;
    if (s->depth < STATEMENT_DEPTH)
        s->group_end[s->depth] = 0;
}

/* A row of the same form as the one before it is left out. */
static void closes(struct statement *s)
{
    space(s, ')');
    put(s, ')');
    if (!s->depth)
        return;
    s->depth--;
    if (s->depth >= STATEMENT_DEPTH || s->state == OVER)
        return;
    uint16_t start = s->open[s->depth], end = s->length, from = s->group_start[s->depth],
             to = s->group_end[s->depth];
    bool again = to && end - start == to - from && start == to + 2 && s->text[to] == ',';
    for (uint16_t i = 0; again && i < end - start; i++)
        again = s->text[start + i] == s->text[from + i];
    if (again) {
        s->length = to;
        return;
    }
    s->group_start[s->depth] = start;
    s->group_end[s->depth] = end;
}

/* ---- bytes ---- */

static void string_begins(struct statement *s, uint8_t quote, bool escapes)
{
    value(s);
    if (s->state == OVER)
        return;
    s->quote = quote;
    s->escapes = escapes;
    s->odd = 0;
    s->state = STRING;
}

static void string_byte(struct statement *s, uint8_t b)
{
    if (b == s->quote && s->odd && !s->escapes)
        cut(s);
    else if (b == s->quote && !s->odd)
        s->state = STRING_QUOTE;
    s->odd = b == '\\' && !s->odd;
}

static void punctuation(struct statement *s, uint8_t b)
{
    s->before = OTHER_WORD;
    if (b == '(') {
        opens(s);
    } else if (b == ')') {
        closes(s);
    } else {
        space(s, (char)b);
        put(s, (char)b);
    }
    if (s->state == OVER)
        return;
    if (b == ',') {
        s->gap = 1;
    } else if (b == ';') {
        s->gap = 1;
        s->words = s->sets = 0;
    } else if (b == '=' && s->sets) {
        s->gap = 1;
        value(s);
        cut(s);
    }
}

static void between(struct statement *s, uint8_t b)
{
    bool mysql = s->dialect == STATEMENT_MYSQL;
    if (is_space(b)) {
        s->gap = 1;
    } else if (b < ' ' || b > '~' || b == '\\') {
        cut(s);
    } else if (is_letter(b) || (b == '$' && mysql)) {
        space(s, (char)b);
        s->word = s->length;
        s->state = s->state == OVER ? OVER : WORD;
        put(s, (char)b);
    } else if (is_digit(b)) {
        drop_sign(s);
        value(s);
        s->exponent = 0;
        s->state = s->state == OVER ? OVER : NUMBER;
    } else if (b == '\'' || (b == '"' && mysql)) {
        string_begins(s, b, false);
    } else if (b == '"' || (b == '`' && mysql)) {
        space(s, (char)b);
        s->quote = b;
        s->before = OTHER_WORD;
        s->state = s->state == OVER ? OVER : NAME;
        put(s, (char)b);
        s->words += s->words < UINT16_MAX;
    } else if (b == '?' && mysql) { /* of one that is prepared */
        value(s);
    } else if (b == '/') {
        s->state = SLASH;
    } else if (b == '-') {
        s->state = DASH;
    } else if (b == '#' && mysql) {
        s->state = LINE;
    } else if (b == '$') {
        s->tag_bytes = 0;
        s->state = DOLLAR;
    } else {
        punctuation(s, b);
    }
}

static void comment_byte(struct statement *s, uint8_t b)
{
    if (s->hint && (b == '\'' || b == '"' || b == '`')) {
        cut(s);
    } else if (b == '/' && s->state == COMMENT_STAR) {
        s->state = --s->comments ? COMMENT : BETWEEN;
        s->gap = 1;
    } else if (b == '*' && s->state == COMMENT_SLASH) {
        s->state = COMMENT;
        if (++s->comments == UINT16_MAX)
            cut(s);
    } else {
        s->state = b == '*'                                         ? COMMENT_STAR
                   : b == '/' && s->dialect == STATEMENT_POSTGRESQL ? COMMENT_SLASH
                                                                    : COMMENT;
    }
}

/* $1, or the beginning of $tag$text$tag$. */
static void dollar_byte(struct statement *s, uint8_t b)
{
    if (is_digit(b) && !s->tag_bytes) {
        value(s);
        s->state = s->state == OVER ? OVER : PARAMETER;
    } else if (b == '$') {
        value(s);
        s->matched = 0;
        s->state = s->state == OVER ? OVER : DOLLAR_TEXT;
    } else if ((is_letter(b) || is_digit(b)) && s->tag_bytes < STATEMENT_TAG_BYTES) {
        s->tag[s->tag_bytes++] = (char)b;
    } else {
        cut(s);
    }
}

static void dollar_text_byte(struct statement *s, uint8_t b)
{
    if (s->matched == s->tag_bytes + 1 && b == '$')
        s->state = BETWEEN;
    else if (s->matched && s->matched <= s->tag_bytes && b == (uint8_t)s->tag[s->matched - 1])
        s->matched++;
    else
        s->matched = b == '$';
}

/* Returns whether the byte is dealt with; else it is looked at again. */
static bool step(struct statement *s, uint8_t b)
{
    bool mysql = s->dialect == STATEMENT_MYSQL;
    switch (s->state) {
    case BETWEEN:
        between(s, b);
        return true;
    case WORD:
        if (is_letter(b) || is_digit(b) || b == '$') {
            put(s, (char)b);
            return true;
        }
        if (b != '\'' && (b != '"' || !mysql)) {
            word_ends(s);
            return false;
        }
        word_before_quote(s);
        if (s->state != OVER)
            string_begins(s, b, s->escapes);
        return true;
    case NUMBER:
        if (is_letter(b) || is_digit(b) || b == '.') {
            s->exponent = (b | 0x20) == 'e';
            return true;
        }
        s->state = BETWEEN;
        if (b == '$') /* how the number ended depends on the server */
            cut(s);
        if ((b != '-' && b != '+') || !s->exponent)
            return false;
        s->state = SIGN;
        s->quote = b;
        return true;
    case SIGN:
        s->state = is_digit(b) ? NUMBER : BETWEEN;
        s->exponent = 0;
        if (s->state == NUMBER)
            return true;
        between(s, s->quote); /* it was none: '-' may begin a comment */
        return false;
    case STRING:
        string_byte(s, b);
        return true;
    case STRING_QUOTE:
        s->state = b == s->quote ? STRING : BETWEEN;
        return b == s->quote;
    case NAME:
        if (b < ' ' || b > '~') {
            cut(s);
            return true;
        }
        s->state = b == s->quote ? BETWEEN : NAME;
        put(s, (char)b);
        return true;
    case SLASH:
        s->comments = 1;
        s->hint = 0;
        s->state = b != '*' ? BETWEEN : mysql ? COMMENT_FIRST : COMMENT;
        if (b != '*')
            punctuation(s, '/');
        return b == '*';
    case COMMENT_FIRST:
        s->hint = b == '+';
        s->state = b == 'M' ? COMMENT_M : COMMENT;
        if (b == '!')
            cut(s);
        return b != '*';
    case COMMENT_M:
        s->state = COMMENT;
        if (b == '!')
            cut(s);
        return b == '!';
    case COMMENT:
    case COMMENT_STAR:
    case COMMENT_SLASH:
        comment_byte(s, b);
        return true;
    case DASH:
        s->state = b != '-' ? BETWEEN : mysql ? DASHES : LINE;
        if (b != '-')
            punctuation(s, '-');
        return b == '-';
    case DASHES:
        if (b <= ' ') {
            s->state = LINE;
            return false;
        }
        punctuation(s, '-');
        s->state = s->state == OVER ? OVER : DASH; /* the second of them may begin one */
        return false;
    case LINE:
        if (b == '\n' || (b == '\r' && !mysql)) {
            s->state = BETWEEN;
            s->gap = 1;
        }
        return true;
    case DOLLAR:
        dollar_byte(s, b);
        return true;
    case PARAMETER:
        s->state = is_digit(b) ? PARAMETER : BETWEEN;
        return is_digit(b);
    case DOLLAR_TEXT:
        dollar_text_byte(s, b);
        return true;
    }
    return true;
}

void statement_begin(struct statement *s, enum statement_dialect dialect)
{
    s->dialect = (uint8_t)dialect;
    s->state = BETWEEN;
    s->before = s->first = OTHER_WORD;
    s->sets = s->gap = s->cut = s->depth = 0;
    s->length = s->words = 0;
    s->read = 0;
    s->group_end[0] = 0;
}

void statement_byte(struct statement *s, uint8_t byte)
{
    if (s->state == OVER)
        return;
    if (++s->read > STATEMENT_READ_MAX) {
        cut(s);
        return;
    }
    while (!step(s, byte))
        ;
}

uint32_t statement_end(struct statement *s, bool whole)
{
    if (s->state == WORD && whole)
        word_ends(s);
    bool open = s->state == STRING || s->state == NAME || s->state == DOLLAR || s->state == DOLLAR_TEXT;
    if (!whole || open)
        s->cut = 1;
    while (s->length && s->text[s->length - 1] == ' ')
        s->length--;
    if (!s->length)
        return 0;
    for (int i = 0; s->cut && i < 3; i++) /* put() has left room for them */
        s->text[s->length++] = '.';
    return s->length;
}

/* ---- those of one write ---- */

void statements_text(struct statements *s, enum statement_dialect dialect, uint32_t nth)
{
    if (!s)
        return;
    s->reading = 1;
    s->nth = nth;
    statement_begin(&s->text, dialect);
}

static void add(struct statements *s, uint32_t nth, uint32_t name)
{
    if (!name || !nth || s->count >= STATEMENTS_OF_A_WRITE || (s->count && s->at[s->count - 1].nth == nth))
        return;
    s->at[s->count].nth = nth;
    s->at[s->count++].name = name;
}

void statements_text_end(struct probe_thread *self, struct statements *s, bool whole)
{
    if (!s || !s->reading)
        return;
    s->reading = 0;
    uint32_t length = statement_end(&s->text, whole);
    uint32_t name = length ? name_of_statement(self, s->text.text, length) : 0;
    add(s, s->nth, name);
    if (s->preparing)
        prepared_put(s->connection, STATEMENT_NEWEST, name);
    else if (s->name)
        prepared_put(s->connection, s->name, name);
}

void statements_prepared(struct statements *s, uint64_t name, uint32_t nth)
{
    bool numbered = name <= UINT32_MAX;
    if (s && !(numbered && prepared_get(s->connection, STATEMENT_DOUBT)))
        add(s, nth, prepared_get(s->connection, name));
}

/* ---- what connections have prepared ---- */

enum { PREPARED = 16384, NEAR = 8 };

static struct {
    uint64_t key;
    uint32_t statement;
} prepared[PREPARED];
static uint32_t next_victim;

static uint64_t prepared_key(uint64_t connection, uint64_t name)
{
    uint64_t key = (connection ^ name * 0x9E3779B97F4A7C15ull) * 0xD6E8FEB86659FD93ull;
    key = (key ^ key >> 32) * 0x9E3779B97F4A7C15ull;
    key ^= (uint64_t)probe_live.attachment << 40; /* names have other numbers then */
    return key ? key : 1;
}

uint32_t prepared_get(uint64_t connection, uint64_t name)
{
    uint64_t key = prepared_key(connection, name);
    for (uint32_t i = 0; i < NEAR; i++) {
        uint32_t place = (uint32_t)(key + i) % PREPARED;
        if (__atomic_load_n(&prepared[place].key, __ATOMIC_ACQUIRE) != key)
            continue;
        uint32_t statement = __atomic_load_n(&prepared[place].statement, __ATOMIC_ACQUIRE);
        /* Another thread may have taken the place since it was compared. */
        return __atomic_load_n(&prepared[place].key, __ATOMIC_ACQUIRE) == key ? statement : 0;
    }
    return 0;
}

void prepared_put(uint64_t connection, uint64_t name, uint32_t statement)
{
    uint64_t key = prepared_key(connection, name);
    uint32_t place = PREPARED;
    for (uint32_t i = 0; i < NEAR && place == PREPARED; i++) {
        uint32_t at = (uint32_t)(key + i) % PREPARED;
        uint64_t found = __atomic_load_n(&prepared[at].key, __ATOMIC_RELAXED);
        if (!found || found == key)
            place = at;
    }
    if (place == PREPARED)
        place = (uint32_t)(key + __atomic_fetch_add(&next_victim, 1, __ATOMIC_RELAXED) % NEAR) % PREPARED;
    __atomic_store_n(&prepared[place].key, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&prepared[place].statement, statement, __ATOMIC_RELEASE);
    __atomic_store_n(&prepared[place].key, key, __ATOMIC_RELEASE);
}

bool statement_awaits(uint64_t connection, uint8_t prepares, bool awaited)
{
    if (prepares > 1 || awaited)
        prepared_put(connection, STATEMENT_DOUBT, 1);
    return !prepared_get(connection, STATEMENT_DOUBT);
}

/* COM_STMT_PREPARE_OK: length 12 u24, number 1, 0, the statement's number u32, columns u16, parameters u16,
 * 0, warnings u16. */
void statement_answered(uint64_t connection, const char *bytes, uint64_t length)
{
    const uint8_t *p = (const uint8_t *)bytes;
    if (length < 16 || p[0] != 12 || p[1] || p[2] || p[3] != 1 || p[4] || p[13]) {
        prepared_put(connection, STATEMENT_DOUBT, 1); /* an error, or of an earlier command */
        return;
    }
    uint64_t number = p[5] | (uint64_t)p[6] << 8 | (uint64_t)p[7] << 16 | (uint64_t)p[8] << 24;
    prepared_put(connection, number, prepared_get(connection, STATEMENT_NEWEST));
}
