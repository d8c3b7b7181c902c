/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/demangle.h"

#include <stdlib.h>

#include "test.h"

static void expect(const char *name, const char *expected)
{
    char *readable = demangle_or_copy(name, false);
    assert_string_equal(readable, expected);
    free(readable);
}

static void reads_names(void **state)
{
    expect("_ZN2v88internal4Heap14CollectGarbageEv", "v8::internal::Heap::CollectGarbage");
    expect("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back");
    expect("_ZN4core3fmt9Formatter3pad17h1234567890abcdefE", "core::fmt::Formatter::pad");
    expect("_RNvC6_123foo3bar", "123foo::bar");
    expect("printf", "printf");
    expect("parse.part.0", "parse");
    expect("parse.constprop.0.isra.0", "parse");
    expect("_ZN3foo3barEv.cold", "foo::bar");
    expect("main.main", "main.main"); /* Go */
    expect("_Z", "_Z");
    assert_null(demangle("printf", false));
}

static void keeps_parameters_when_asked(void **state)
{
    char *readable = demangle("_ZN3foo3barEi", true);
    assert_string_equal(readable, "foo::bar(int)");
    free(readable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_names),
                                       cmocka_unit_test(keeps_parameters_when_asked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
