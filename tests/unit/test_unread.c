/* Which interpreters are recognised, and what is none. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/unread.h"

#include "test.h"

static const char *language_of(const char *path)
{
    unsigned i = unread_language_of(path);
    return i < UNREAD_LANGUAGES ? unread_languages[i].name : "none";
}

static void by_their_files(void **state)
{
    (void)state;
    static const struct {
        const char *path, *language;
    } CASES[] = {
        {"/usr/bin/ruby3.1", "Ruby"},
        {"/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2", "Ruby"},
        {"/usr/bin/php8.2", "PHP"},
        {"/usr/sbin/php-fpm8.2", "PHP"},
        {"/usr/lib/apache2/modules/libphp8.2.so", "PHP"},
        {"/usr/bin/luajit-2.1.0-beta3", "LuaJIT"},
        {"/usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2.1.0", "LuaJIT"},
        {"/usr/lib/erlang/erts-13.1.5/bin/beam.smp", "Erlang"},
        {"/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so", ".NET"},
        {"/usr/bin/phpize", "none"},
        {"/opt/ruby/bin/nginx", "none"},
        {"/usr/bin/rubyfmt", "none"},
        {"/usr/bin/node", "none"},
        {"beam", "Erlang"},
        {"", "none"},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++)
        assert_string_equal(language_of(CASES[i].path), CASES[i].language);
}

static void each_says_what_helps(void **state)
{
    (void)state;
    for (unsigned i = 0; i < UNREAD_LANGUAGES; i++) {
        assert_non_null(unread_languages[i].shown);
        assert_non_null(unread_languages[i].helps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_their_files),
        cmocka_unit_test(each_says_what_helps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
