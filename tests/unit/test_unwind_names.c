/* What Java's methods are called, read late: of another method at the same address, of code that is about to
 * be freed. The virtual machine is a few structures of this process. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/hotspot/unwind_parts.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

struct symbol {
    uint32_t hash_and_references;
    uint16_t length;
    char body[58];
};
struct class
{
    const struct symbol *name;
};
struct pool {
    const struct class *holder;
    uint64_t unused;
    const struct symbol *constants[2];
};
struct constant {
    const struct pool *pool;
    uint16_t name;
};
struct method {
    const struct constant *constant;
};

/* Everything lies where it lay of the class before. */
static struct symbol class_symbol, method_symbol;
static struct class class;
static struct pool pool;
static struct constant constant;
static struct method method;
static struct {
    uint64_t length, used;
    const struct method *method;
    uint32_t number;
    char code[64];
} block;
static uint64_t counter;
static struct hotspot h;

static void load(const char *name, const char *called)
{
    static uint32_t hash;
    class_symbol =
        (struct symbol){.hash_and_references = (hash += 0x10001), .length = (uint16_t)strlen(name)};
    method_symbol =
        (struct symbol){.hash_and_references = (hash += 0x10001), .length = (uint16_t)strlen(called)};
    memcpy(class_symbol.body, name, strlen(name));
    memcpy(method_symbol.body, called, strlen(called));
    class.name = &class_symbol;
    pool = (struct pool){.holder = &class, .constants = {NULL, &method_symbol}};
    constant = (struct constant){&pool, 1};
    method.constant = &constant;
}

static void field(enum field field, uint64_t value, int8_t width)
{
    h.fields[field] = value;
    h.widths[field] = width;
    h.has[field] = true;
}

static void compile(uint64_t since_ns)
{
    static uint32_t number;
    block.length = 1;
    block.used = true;
    block.method = &method;
    block.number = ++number;
    array_clear(&h.blobs);
    assert_int_equal(array_add(&h.blobs, (struct blob){.start = (uint64_t)block.code,
                                                       .end = (uint64_t)(block.code + sizeof(block.code)),
                                                       .blob = (uint64_t)&block.method,
                                                       .method = (uint64_t)&method,
                                                       .since_ns = since_ns,
                                                       .since = counter,
                                                       .number = number,
                                                       .length = 1,
                                                       .kind = BLOB_METHOD}),
                     0);
}

static int begin(void **state)
{
    hotspot_forget_names(&h);
    array_done(&h.blobs);
    array_done(&h.names);
    map_done(&h.methods);
    memset(&h, 0, sizeof(h));
    h.pid = getpid();
    field(METHOD_CONST, offsetof(struct method, constant), 8);
    field(CONST_POOL, offsetof(struct constant, pool), 8);
    field(CONST_NAME, offsetof(struct constant, name), 2);
    field(POOL_HOLDER, offsetof(struct pool, holder), 8);
    field(KLASS_NAME, offsetof(struct class, name), 8);
    field(SYMBOL_HASH, offsetof(struct symbol, hash_and_references), 4);
    field(SYMBOL_LENGTH, offsetof(struct symbol, length), 2);
    field(SYMBOL_BODY, offsetof(struct symbol, body), 8);
    field(BLOCK_LENGTH, 0, 8);
    field(BLOCK_USED, 8, 8);
    field(CODE_METHOD, 0, 8);
    field(CODE_NUMBER, 8, 4);
    h.block_size = 16;
    h.pool_size = offsetof(struct pool, constants);
    h.low = (uint64_t)block.code;
    h.high = h.low + sizeof(block.code);
    h.read_ns = 1000;
    counter = 0;
    h.counter = (uint64_t)&counter;
    hotspot_describe_names(&h);
    return 0;
}

static uint64_t identity(void)
{
    struct sampler_java_name name = {.class_symbol = (uint64_t)&class_symbol,
                                     .method_symbol = (uint64_t)&method_symbol};
    memcpy(&name.class_word, &class_symbol, 8);
    memcpy(&name.method_word, &method_symbol, 8);
    if (class_symbol.length >= 8)
        memcpy(&name.class_end, class_symbol.body + class_symbol.length - 8, 8);
    return sampler_java_identity(&name, hotspot_name_layout(&h)->symbol_mask);
}

/* "(gone)", or the name. */
static const char *named(struct hotspot_place place, uint64_t time_ns, uint64_t unloads)
{
    static struct hotspot_frame frames[32];
    const struct hotspot_moment when = {time_ns, unloads};
    assert_int_equal(hotspot_name(&h, &place, &when, frames, 32), 1);
    return frames[0].gone ? "(gone)" : frames[0].name;
}

static const char *compiled(uint64_t time_ns, uint64_t unloads)
{
    return named((struct hotspot_place){.pc = (uint64_t)block.code + 4}, time_ns, unloads);
}

static const char *interpreted(uint64_t unloads, uint64_t sampled_identity)
{
    return named((struct hotspot_place){.method = (uint64_t)&method, .identity = sampled_identity}, 2000,
                 unloads);
}

static void code_that_is_about_to_be_freed_names_no_successor(void **state)
{
    load("Turn4", "turn");
    compile(1000);
    assert_string_equal(compiled(2000, 0), "Turn4.turn");
    /* Its class is unloaded, and counted; its code and its memory are still there when a late name is read.
     */
    counter = 1;
    assert_string_equal(compiled(2000, 0), "Turn4.turn");
    block.used = false;
    load("Turn5", "turn");
    assert_string_equal(interpreted(1, 0), "Turn5.turn");
    compile(3000);
    assert_string_equal(compiled(4000, 1), "Turn5.turn");
}

static void code_whose_place_is_taken_is_gone(void **state)
{
    load("Turn4", "turn");
    compile(1000);
    h.read_ns = 3000;
    block.number++;
    load("Turn5", "turn");
    assert_string_equal(compiled(2000, 0), "(gone)");
    compile(3000);
    h.blobs.at[0].replaces = true;
    assert_string_equal(compiled(2000, 0), "(gone)");
    assert_string_equal(compiled(4000, 0), "Turn5.turn");
}

static void interpreted_methods_are_told_by_what_their_names_were(void **state)
{
    load("A", "run");
    uint64_t a = identity();
    assert_string_equal(interpreted(0, a), "A.run");
    load("B", "run");
    uint64_t b = identity();
    counter = 1;
    load("A", "run"); /* once more */
    counter = 2;
    uint64_t again = identity();
    assert_string_equal(interpreted(1, b), "(gone)");
    assert_string_equal(interpreted(2, again), "A.run");
    assert_string_equal(interpreted(0, a), "A.run");
    assert_string_equal(interpreted(HOTSPOT_UNKNOWN, again), "A.run");
    load("com.example.a.LongName1", "run");
    uint64_t one = identity();
    class_symbol.body[22] = '2';
    assert_string_equal(interpreted(2, one), "(gone)");
}

static void others_are_told_by_the_count_of_unloaded_classes(void **state)
{
    load("A", "run");
    assert_string_equal(interpreted(0, 0), "A.run");
    counter = 1;
    load("B", "run");
    assert_string_equal(interpreted(0, 0), "A.run");
    assert_string_equal(interpreted(1, 0), "B.run");
    counter = 2;
    load("A", "run");
    counter = 3;
    assert_string_equal(interpreted(2, 0), "(gone)");
    assert_string_equal(interpreted(HOTSPOT_UNKNOWN, 0), "(gone)");
    method.constant = NULL;
    assert_string_equal(interpreted(3, 0), "[interpreted method]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(code_that_is_about_to_be_freed_names_no_successor, begin),
        cmocka_unit_test_setup(code_whose_place_is_taken_is_gone, begin),
        cmocka_unit_test_setup(interpreted_methods_are_told_by_what_their_names_were, begin),
        cmocka_unit_test_setup(others_are_told_by_the_count_of_unloaded_classes, begin),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    begin(NULL);
    return r;
}
