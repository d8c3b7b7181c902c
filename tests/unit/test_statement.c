/* Statements of SQL without values: what stays of them, and that nothing of a value does, wherever it ends.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "probe_in_test.h"

#include "probe/statement.h"

static const char *print(enum statement_dialect dialect, const char *text, size_t length, bool whole)
{
    static struct statement s;
    static char copy[STATEMENT_BYTES + 1];
    statement_begin(&s, dialect);
    for (size_t i = 0; i < length; i++)
        statement_byte(&s, (uint8_t)text[i]);
    uint32_t n = statement_end(&s, whole);
    assert_in_range(n, 0, STATEMENT_BYTES);
    memcpy(copy, s.text, n);
    copy[n] = '\0';
    return copy;
}

#define PG(text, expected) \
    assert_string_equal(print(STATEMENT_POSTGRESQL, text, strlen(text), true), expected)
#define MYSQL(text, expected) assert_string_equal(print(STATEMENT_MYSQL, text, strlen(text), true), expected)
#define BOTH(text, expected)   \
    do {                       \
        PG(text, expected);    \
        MYSQL(text, expected); \
    } while (0)

static void literals_are_left_out(void **state)
{
    BOTH("SELECT name, age FROM people WHERE id = 42", "SELECT name, age FROM people WHERE id = ?");
    BOTH("select * from t where a='x' and b = 'it''s' or c=-1.5e-3",
         "select * from t where a=? and b = ? or c=?");
    BOTH("SELECT * FROM t1 WHERE t1.c2 > 0xDEAD AND n < 1e5+1",
         "SELECT * FROM t1 WHERE t1.c2 > ? AND n < ?+?");
    BOTH("INSERT INTO t (a, b) VALUES (X'4D7953', NULL)", "INSERT INTO t (a, b) VALUES (?)");
    BOTH("UPDATE t SET a = NULL, b = TRUE WHERE c IS NOT NULL AND d IS TRUE",
         "UPDATE t SET a = ?, b = ? WHERE c IS NOT NULL AND d IS TRUE");
    PG("SELECT E'it\\'s \\\\', U&'d\\0061t', B'1010', N'x' FROM t", "SELECT ?, U&? FROM t");
    PG("SELECT $1, $tag$ it's $$ secret $tag$ FROM \"My Table\" WHERE a = $2::int",
       "SELECT ? FROM \"My Table\" WHERE a = ?::int");
    PG("SELECT $$a$b$$, a$1 FROM t", "SELECT ?, a$1 FROM t");
    MYSQL("SELECT `na``me`, \"secret\", N'x', _utf8'y' FROM `t` WHERE a = \"it\"\"s\"",
          "SELECT `na``me`, ?, _utf8? FROM `t` WHERE a = ?");
    MYSQL("SELECT @user, @@sql_mode, $x FROM 1t", "SELECT @user, @@sql_mode, $x FROM ?");
    MYSQL("SELECT * FROM t WHERE id = ? LIMIT ?, ?", "SELECT * FROM t WHERE id = ? LIMIT ?");
}

static void lists_of_any_length_are_one(void **state)
{
    BOTH("SELECT * FROM t WHERE id IN (1)", "SELECT * FROM t WHERE id IN (?)");
    BOTH("SELECT * FROM t WHERE id IN (1, -2,3 , 'x', NULL)", "SELECT * FROM t WHERE id IN (?)");
    BOTH("INSERT INTO t VALUES (1,'a'),(2,'b'), ( 3 , NULL )", "INSERT INTO t VALUES (?)");
    BOTH("INSERT INTO t VALUES (1, now(), 'a'), (2, now(), 'b'), (3, now(), 'c') RETURNING id",
         "INSERT INTO t VALUES (?, now(), ?) RETURNING id");
    BOTH("SELECT f(1), f(2), g(1, x)", "SELECT f(?), f(?), g(?, x)");
}

static void comments_are_left_out(void **state)
{
    BOTH("/* trace='secret' */ SELECT 1 -- it's secret\n FROM t", "SELECT ? FROM t");
    PG("SELECT /* a /* nested ' */ b */ x", "SELECT x");
    MYSQL("SELECT /* a /* not nested */ x # it's\nFROM t", "SELECT x FROM t");
    MYSQL("SELECT /*+ MAX_EXECUTION_TIME(1000) */ x", "SELECT x");
    MYSQL("SELECT 5--3", "SELECT ?--?");
    PG("SELECT a #> b", "SELECT a #> b");
    PG("SELECT 0x1e--it's\n+1", "SELECT ? +?");
}

static void what_cannot_be_proved_is_cut(void **state)
{
    /* Whether a backslash escapes is the server's setting. */
    BOTH("SELECT * FROM t WHERE a = 'x\\' AND b = 'secret'", "SELECT * FROM t WHERE a = ?...");
    BOTH("SELECT 'x\\\\' , b", "SELECT ?, b");
    MYSQL("SELECT /*!50000 'secret*/ ' */ x", "SELECT...");
    MYSQL("SELECT /*M!100000 'secret*/ ' */ x", "SELECT...");
    MYSQL("SELECT /*+ SET_VAR(x='*/ secret') */ x", "SELECT...");
    BOTH("SELECT \xc3\xa4 FROM t", "SELECT...");
    PG("SELECT \"\xc3\xa4\" FROM t", "SELECT \"...");
    BOTH("SELECT a\\b", "SELECT a...");
    PG("SELECT 1abc$$ ' b$$ secret'", "SELECT ?...");
    PG("SELECT $t secret", "SELECT...");
    /* Words that are values, and names that are data. */
    BOTH("SET app.user = alice", "SET app.user = ?...");
    BOTH("SET search_path TO tenant", "SET search_path TO ?...");
    PG("ALTER ROLE bob SET x TO y", "ALTER ROLE...");
    MYSQL("CREATE USER bob@host IDENTIFIED BY 'secret'", "CREATE USER...");
    PG("NOTIFY secret, 'secret'", "NOTIFY...");
    MYSQL("GRANT ALL ON x TO bob", "GRANT...");
    /* What ends within a value. */
    BOTH("SELECT 'secret", "SELECT ?...");
    assert_string_equal(print(STATEMENT_MYSQL, "SELECT a FROM t", 15, false), "SELECT a FROM t...");
    assert_string_equal(print(STATEMENT_MYSQL, "", 0, true), "");
    assert_string_equal(print(STATEMENT_MYSQL, "  ", 2, true), "");
}

static void long_texts_are_bounded(void **state)
{
    enum { MORE = 3 * STATEMENT_READ_MAX };
    static char text[MORE];
    memset(text, 'a', sizeof(text));
    const char *printed = print(STATEMENT_POSTGRESQL, text, sizeof(text), true);
    assert_in_range(strlen(printed), STATEMENT_BYTES - 3, STATEMENT_BYTES);
    assert_string_equal(printed + strlen(printed) - 3, "...");
    memset(text, '(', sizeof(text));
    assert_in_range(strlen(print(STATEMENT_MYSQL, text, sizeof(text), true)), STATEMENT_BYTES - 3,
                    STATEMENT_BYTES);
    memcpy(text, "SELECT '", 8);
    memset(text + 8, 's', sizeof(text) - 8);
    assert_string_equal(print(STATEMENT_MYSQL, text, sizeof(text), true), "SELECT ?...");
    /* A list whose text is longer than what is read. */
    memcpy(text, "SELECT (", 8);
    for (size_t i = 8; i + 2 <= sizeof(text); i += 2)
        memcpy(text + i, "7,", 2);
    assert_string_equal(print(STATEMENT_MYSQL, text, sizeof(text), true), "SELECT (?,...");
}

/* Of these texts only what is in lower case may stay, at whatever byte they end and wherever they begin to be
 * read: the values are in capitals and digits. */
static void no_value_is_left_wherever_it_is_cut(void **state)
{
    static const char *const PG_TEXTS[] = {
        "select 'SECRET', e'SEC\\'RET' \"a\" from t where a = $1 and b = $$SEC'RET$$ or c=98765 -- 'SECRET\n "
        "and d",
        "select $q$SECRET$qq$$q$, 'SEC''RET', 1e5, .5 /* SECRET /* ' */ SECRET */ from t where x in (9,8,7)",
        "select u&'SECRET', u&\"x\" uescape '!', b'1', x'9F', 'SEC\\' 'RET' from t",
        "set a = 'SECRET'; select 'SECRET'",
    };
    static const char *const MYSQL_TEXTS[] = {
        "select 'SECRET', \"SEC'RET\", `a` from t where a = 'SEC\\'RET' and b = 'SECRET' -- 'SECRET\n and d",
        "select 'SEC\"RET', \"SEC\\\\\", 98765, 0x9F, x'9F' # SECRET '\n from t /* SECRET '*/ where a=1--9",
        "select 'SEC''RET', _latin'SECRET' 'SECRET' /*! 'SECRET' */ from t where a in ('SECRET','SECRET')",
    };
    for (int dialect = 0; dialect < 2; dialect++) {
        const char *const *texts = dialect ? MYSQL_TEXTS : PG_TEXTS;
        size_t count =
            dialect ? sizeof(MYSQL_TEXTS) / sizeof(*MYSQL_TEXTS) : sizeof(PG_TEXTS) / sizeof(*PG_TEXTS);
        for (size_t i = 0; i < count; i++)
            for (size_t end = 0; end <= strlen(texts[i]); end++) {
                const char *printed = print((enum statement_dialect)dialect, texts[i], end, false);
                for (const char *c = printed; *c; c++)
                    if ((*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9'))
                        fail_msg("'%.*s' leaves '%s'", (int)end, texts[i], printed);
            }
    }
}

static void what_connections_have_prepared(void **state)
{
    prepared_put(1, 7, 100);
    prepared_put(2, 7, 200);
    assert_int_equal(prepared_get(1, 7), 100);
    assert_int_equal(prepared_get(2, 7), 200);
    assert_int_equal(prepared_get(3, 7), 0);
    prepared_put(1, 7, 101);
    assert_int_equal(prepared_get(1, 7), 101);
    /* More than there is room for: forgotten, never mistaken. */
    for (uint32_t i = 1; i < 100000; i++)
        prepared_put(4, i, i);
    for (uint32_t i = 1; i < 100000; i++) {
        uint32_t found = prepared_get(4, i);
        assert_true(!found || found == i);
    }
    probe_live.attachment++;
    assert_int_equal(prepared_get(1, 7), 0);
}

static void answers_of_mysql(void **state)
{
    static const char OK[] = "\x0c\0\0\1\0\5\0\0\0\1\0\2\0\0\0\0";
    prepared_put(9, STATEMENT_NEWEST, 55);
    assert_true(statement_awaits(9, 1, false));
    statement_answered(9, OK, sizeof(OK) - 1);
    assert_int_equal(prepared_get(9, 5), 55);
    /* Whose the answer is, is not known: nothing is believed from then on. */
    assert_false(statement_awaits(9, 1, true));
    assert_false(statement_awaits(9, 1, false));
    assert_true(statement_awaits(10, 1, false));
    statement_answered(10, "\x07\0\0\1\0\0\0\2\0\0\0", 11);
    assert_false(statement_awaits(10, 1, false));
    assert_false(statement_awaits(11, 2, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_are_left_out),
        cmocka_unit_test(lists_of_any_length_are_one),
        cmocka_unit_test(comments_are_left_out),
        cmocka_unit_test(what_cannot_be_proved_is_cut),
        cmocka_unit_test(long_texts_are_bounded),
        cmocka_unit_test(no_value_is_left_wherever_it_is_cut),
        cmocka_unit_test(what_connections_have_prepared),
        cmocka_unit_test(answers_of_mysql),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
