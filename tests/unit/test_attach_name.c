/* What a Node.js program is called: by its script, its package, or its folder. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/attach.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "held.h"
#include "test.h"

static char folder[TEST_PATH];

static const char *below(const char *name)
{
    static char path[2 * TEST_PATH];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void assert_called(const char *script, const char *name)
{
    char *found = node_service_name(held(getpid()), script);
    assert_non_null(found);
    assert_string_equal(found, name);
    free(found);
}

static void write_package(const char *path, const char *text)
{
    FILE *file = fopen(below(path), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void names(void **state)
{
    assert_non_null(mkdtemp(test_path(folder)));
    assert_int_equal(mkdir(below("shop"), 0700), 0);
    assert_int_equal(mkdir(below("shop/dist"), 0700), 0);
    assert_called(below("shop/orders.js"), "orders");
    assert_called(below("shop/server.js"), "shop");
    assert_called(below("shop/dist/main.js"), "shop");
    write_package("shop/package.json", "{\"name\": \"@acme/store\"}");
    assert_called(below("shop/dist/main.js"), "@acme/store");
    assert_called(below("shop/orders.js"), "orders");
    /* One that is none, or lies. */
    write_package("shop/package.json", "{\"name\": 7}");
    assert_called(below("shop/dist/main.js"), "shop");
    write_package("shop/package.json", "{");
    assert_called(below("shop/server.js"), "shop");
    write_package("shop/package.json", "{\"name\": \"a\\u001b[31mb\"}");
    assert_called(below("shop/server.js"), "a?[31mb");
    assert_int_equal(unlink(below("shop/package.json")), 0);
    assert_int_equal(mkfifo(below("shop/package.json"), 0600), 0);
    assert_called(below("shop/server.js"), "shop");
    assert_null(node_service_name(held(getpid()), NULL));
}

static int remove_folder(void **state)
{
    unlink(below("shop/package.json"));
    rmdir(below("shop/dist"));
    rmdir(below("shop"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
