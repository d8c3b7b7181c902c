/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/unwind_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

/* The tokens as text: names as they are, strings in quotes, patterns in slashes, LOOP, NEW. */
static void expect(const char *source, const char *expected)
{
    struct v8_text text = {(void *)(uintptr_t)source, (uint32_t)strlen(source), false};
    struct js_tokens tokens;
    char out[1024] = "";
    assert_int_equal(js_tokens_read(&text, 0, text.length, &tokens), 0);
    array_foreach (&tokens.list, t) {
        char word[128] = "";
        size_t n = strcspn(source + t->at + 1, " .,;:()[]{}+-*/=<>\"'`!\n") + 1;
        if (t->kind == JS_LOOP)
            strcpy(word, "LOOP");
        else if (t->kind == JS_NEW)
            strcpy(word, "NEW");
        else if (t->kind == JS_REGEXP)
            strcpy(word, "REGEXP");
        else
            snprintf(word, sizeof(word), "%s%.*s", t->kind == JS_STRING ? "$" : "", (int)MIN(n, 100u),
                     source + t->at + (t->kind == JS_STRING));
        strcat(out, *out ? " " : "");
        strcat(out, word);
    }
    assert_string_equal(out, expected);
    array_done(&tokens.list);
}

static void reads_a_functions_words(void **state)
{
    expect("(input) { const n = input.length; return re.test(input, n + 3); }",
           "input const n input length return re test input n 3");
    expect("(a) { return new Foo('bar').baz; }", "a return NEW Foo $bar' baz");
    expect("x => x.y + 1", "x x y 1");
    expect("(a, b) => { a.go(b); }", "a b a go b");
}

static void leaves_out_inner_functions(void **state)
{
    expect("(a) { a.map(x => x.inner); b.each(function f(y) { return y.hidden; }); after(); }",
           "a a map x b each function f y after");
    expect("(a) { const o = { m(q) { hidden(); }, n: (z) => { hidden(); }, k: 1 }; last; }",
           "a const o m q n z k 1 last");
    expect("(a) { f((x, y) => x.hidden + y, seen); done; }", "a f x y seen done");
}

static void tells_division_from_patterns(void **state)
{
    expect("(a, b) { return a / b / 2; }", "a b return a b 2");
    expect("(a) { return /^(a+)+$/i.test(a); }", "a return REGEXP test a");
    expect("(a) { if (a) /[/]x/.exec(a); return (a) / 2; }", "a if a REGEXP exec a return a 2");
    expect("(a) { x = a[0] / b; y = /=/; }", "a x a 0 b y REGEXP");
}

static void counts_loops_once(void **state)
{
    expect("(n) { for (;;) { if (n) break; } do { n--; } while (n); while (n) n--; }",
           "n LOOP if n break LOOP n n LOOP n n");
    expect("(n) { o.for = 1; o.while(2); }", "n o for 1 o while 2");
}

static void sees_through_templates_and_comments(void **state)
{
    expect("(a) { /* no */ f(`x ${ a.b } y ${`in ${c}`} z`); // none\n g('it\\'s'); h; }", "a f a b c g h");
}

/* Any bytes at all: it ends, and stays inside. */
static void survives_anything(void **state)
{
    srand(3);
    static const char *const parts[] = {"(",        ")",  "{",  "}",  "[",  "]",  "`",    "${", "/",
                                        "'",        "\"", "\\", "=>", "//", "/*", "for",  "do", "while",
                                        "function", "a",  "1",  ".",  ",",  "\n", "\xff", "*/"};
    for (int round = 0; round < 20000; round++) {
        char source[256] = "";
        for (int i = rand() % 30; i > 0; i--)
            strcat(source, parts[rand() % ARRAY_SIZE(parts)]);
        char *exact = malloc(strlen(source) + 1); /* so that the sanitizer sees the first byte beyond */
        memcpy(exact, source, strlen(source));
        struct v8_text text = {exact, (uint32_t)strlen(source), false};
        struct js_tokens tokens;
        assert_int_equal(js_tokens_read(&text, 0, text.length, &tokens), 0);
        array_foreach (&tokens.list, t)
            assert_true(t->at < text.length);
        array_done(&tokens.list);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_a_functions_words),
                                       cmocka_unit_test(leaves_out_inner_functions),
                                       cmocka_unit_test(tells_division_from_patterns),
                                       cmocka_unit_test(counts_loops_once),
                                       cmocka_unit_test(sees_through_templates_and_comments),
                                       cmocka_unit_test(survives_anything)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
