/* What Ruby's instruction sequences are called, from memory laid out as Ruby 3.1 has it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "targets/ruby/unwind.h"

enum { STRING = 5, ARRAY_TYPE = 7, USER1 = 0x2000 };

struct object {
    uint64_t flags, class, words[4];
};

struct body {
    uint64_t others[3], file, name, line;
};

struct sequence {
    uint64_t flags, wrapper, body;
};

static const struct ruby RUBY = {.frames = {.sequence_body = offsetof(struct sequence, body),
                                            .body = {.code_line = offsetof(struct body, line),
                                                     .code_name = offsetof(struct body, name),
                                                     .code_file = offsetof(struct body, file),
                                                     .text_length = offsetof(struct object, words)}}};

static struct object name, path, paths;
static struct body body;
static struct sequence sequence;

/* A text of up to 23 bytes lies in the object. */
static void set_text(struct object *o, const char *text)
{
    size_t length = strlen(text);
    *o = (struct object){.flags = STRING | length << 14};
    if (length < 24) {
        memcpy(o->words, text, length);
    } else {
        o->flags = STRING | USER1;
        o->words[0] = length;
        o->words[1] = (uint64_t)(uintptr_t)text;
    }
}

static uint64_t at(const void *object)
{
    return (uint64_t)(uintptr_t)object;
}

static int set_up(void **state)
{
    set_text(&name, "order");
    set_text(&path, "/srv/shop/app/models/order.rb");
    body = (struct body){.file = at(&path), .name = at(&name), .line = 41 << 1 | 1};
    sequence = (struct sequence){.body = at(&body)};
    return 0;
}

static uint64_t identity(void)
{
    return sampler_python_identity((uint32_t)body.line, body.name, body.file, name.words[0], name.words[1]);
}

static int ask(uint64_t as, struct ruby_function *ret_function)
{
    return ruby_function(&RUBY, getpid(), at(&sequence), as, ret_function);
}

static void name_file_and_line(void **state)
{
    struct ruby_function f;
    assert_int_equal(ask(identity(), &f), 0);
    assert_string_equal(f.name, "order");
    assert_string_equal(f.file, "/srv/shop/app/models/order.rb");
    assert_int_equal(f.line, 41);
    set_text(&name, "block (2 levels) in <class:Order>");
    assert_int_equal(ask(identity(), &f), 0);
    assert_string_equal(f.name, "block (2 levels) in <class:Order>");
}

static void a_path_with_what_it_resolves_to(void **state)
{
    struct ruby_function f;
    paths = (struct object){.flags = ARRAY_TYPE | USER1, .words = {at(&path), at(&name)}};
    body.file = at(&paths);
    assert_int_equal(ask(0, &f), 0);
    assert_string_equal(f.file, "/srv/shop/app/models/order.rb");
    uint64_t elements[] = {at(&path), at(&name)};
    paths = (struct object){.flags = ARRAY_TYPE, .words = {2, 2, at(elements)}};
    assert_int_equal(ask(0, &f), 0);
    assert_string_equal(f.file, "/srv/shop/app/models/order.rb");
}

static void another_one_at_its_place_is_not_it(void **state)
{
    struct ruby_function f = {.name = "untouched"};
    uint64_t before = identity();
    body.line = 43 << 1 | 1;
    assert_int_equal(ask(before, &f), -ESTALE);
    body.line = 41 << 1 | 1;
    set_text(&name, "offer"); /* the same object, another text */
    assert_int_equal(ask(before, &f), -ESTALE);
    sequence.body = 8; /* it was freed */
    assert_int_equal(ask(before, &f), -ESTALE);
    assert_string_equal(f.name, "untouched");
    assert_int_equal(ask(0, &f), -EFAULT);
}

static void what_is_none_is_refused(void **state)
{
    struct ruby_function f;
    name.flags = ARRAY_TYPE;
    assert_int_equal(ask(0, &f), -EINVAL);
    set_text(&name, "order");
    name.flags = STRING; /* of no length */
    assert_int_equal(ask(0, &f), -EINVAL);
    name.flags = STRING | USER1;
    name.words[0] = 1ull << 40;
    assert_int_equal(ask(0, &f), -EINVAL);
    set_text(&name, "order");
    body.line = 1ull << 31;
    assert_int_equal(ask(0, &f), -EINVAL);
    body.line = 1;
    body.file = 8; /* without a file it still has its name */
    assert_int_equal(ask(0, &f), 0);
    assert_string_equal(f.file, "");
}

static void the_frame_with_which_the_interpreter_was_called(void **state)
{
    assert_true(ruby_is_outermost(0x11110021));
    assert_false(ruby_is_outermost(0x11110001));
    assert_false(ruby_is_outermost(0x55550081));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(name_file_and_line, set_up),
        cmocka_unit_test_setup(a_path_with_what_it_resolves_to, set_up),
        cmocka_unit_test_setup(another_one_at_its_place_is_not_it, set_up),
        cmocka_unit_test_setup(what_is_none_is_refused, set_up),
        cmocka_unit_test(the_frame_with_which_the_interpreter_was_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
