/* Source maps: places, index maps, data URLs, and maps that lie or are damaged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sourcemap.h"
#include "test.h"

#include "base/macro.h"

static struct source_map *parse(const char *json, const char *folder)
{
    struct source_map *map = NULL;
    assert_int_equal(source_map_parse(json, strlen(json), folder, &map), 0);
    return map;
}

static void assert_place(const struct source_map *map, uint32_t line, uint32_t column, const char *file,
                         uint32_t to_line, uint32_t to_column)
{
    struct source_place place;
    assert_true(source_map_find(map, line, column, &place));
    assert_string_equal(place.file, file);
    assert_int_equal(place.line, to_line);
    assert_int_equal(place.column, to_column);
}

/* Line 1: column 1 is 1:1, column 5 is 3:3 with a name; line 3: column 2 is 2:1 of the second source, column
 * 9 of none. */
static const char SIMPLE[] = "{\"version\":3,\"sources\":[\"../src/a.ts\",\"b.ts\"],\"names\":[\"total\"],"
                             "\"mappings\":\"AAAA,IAEEA;;CCDF,O\"}";

static void places(void **state)
{
    struct source_map *map = parse(SIMPLE, "/app/dist");
    struct source_place place;
    assert_place(map, 1, 1, "/app/src/a.ts", 1, 1);
    assert_place(map, 1, 4, "/app/src/a.ts", 1, 1);
    assert_place(map, 1, 5, "/app/src/a.ts", 3, 3);
    assert_place(map, 1, 5000, "/app/src/a.ts", 3, 3);
    assert_true(source_map_find(map, 1, 5, &place));
    assert_string_equal(place.name, "total");
    assert_false(source_map_find(map, 2, 1, &place));
    assert_place(map, 3, 0, "/app/dist/b.ts", 2, 1);
    assert_place(map, 3, 2, "/app/dist/b.ts", 2, 1);
    assert_false(source_map_find(map, 3, 9, &place));
    assert_false(source_map_find(map, 0, 0, &place));
    assert_false(source_map_find(map, 4, 1, &place));
    source_map_free(map);
    source_map_free(NULL);
}

static void roots_and_bundlers(void **state)
{
    struct source_map *map = parse("{\"version\":3,\"sourceRoot\":\"/src/./x/../\",\"sources\":[\"a.ts\"],"
                                   "\"mappings\":\"AAAA\"}",
                                   "/app");
    assert_place(map, 1, 1, "/src/a.ts", 1, 1);
    source_map_free(map);
    map = parse("{\"sources\":[\"webpack://shop/./src/a.ts\"],\"mappings\":\"AAAA\"}", "/app");
    assert_place(map, 1, 1, "src/a.ts", 1, 1);
    source_map_free(map);
    map = parse(")]}'\n{\"sources\":[\"file:///x/a.ts\"],\"mappings\":\"AAAA\"}", "/app");
    assert_place(map, 1, 1, "/x/a.ts", 1, 1);
    source_map_free(map);
}

static void index_maps(void **state)
{
    struct source_map *map = parse(
        "{\"version\":3,\"sections\":[{\"offset\":{\"line\":0,\"column\":10},\"map\":{\"sources\":[\"a.ts\"],"
        "\"names\":[],\"mappings\":\"AAAA\"}},{\"offset\":{\"line\":5,\"column\":0},\"map\":{\"sources\":"
        "[\"b.ts\"],\"names\":[],\"mappings\":\"AAAA;AACA\"}}]}",
        "/app");
    assert_place(map, 1, 11, "/app/a.ts", 1, 1);
    assert_place(map, 6, 1, "/app/b.ts", 1, 1);
    assert_place(map, 7, 3, "/app/b.ts", 2, 1);
    source_map_free(map);
}

static void no_maps(void **state)
{
    static const char *const BAD[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"sources\":[]}",
                                      "{\"sources\":[\"a\"],\"mappings\":\"!\"}",
                                      "{\"sources\":[\"a\"],\"mappings\":\"zzzzzzzzzzzz\"}",
                                      "{\"sources\":[\"a\"],\"mappings\":\"DAAA\"}",
                                      "{\"sections\":[{\"offset\":{\"line\":-1,\"column\":0}}]}",
                                      "{\"sections\":[{}]}"};
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        struct source_map *map = NULL;
        assert_int_equal(source_map_parse(BAD[i], strlen(BAD[i]), "/", &map), -EINVAL);
        assert_null(map);
    }
    /* A source that is not there is no place. */
    struct source_place place;
    struct source_map *map = parse("{\"sources\":[\"a\"],\"mappings\":\"ACAA\"}", "/");
    assert_false(source_map_find(map, 1, 1, &place));
    source_map_free(map);
}

/* ---- scripts ---- */

static char folder[] = "/tmp/sonde-sourcemap-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int of_script(const char *text)
{
    char path[256];
    struct source_map *map = NULL;
    write_file("a.js", text);
    snprintf(path, sizeof(path), "file://%s/a.js", folder);
    int r = source_map_of_script(path, &map);
    if (r == 0) {
        char source[256];
        snprintf(source, sizeof(source), "%s/a.ts", folder);
        assert_place(map, 1, 1, source, 1, 1);
    }
    source_map_free(map);
    return r;
}

static void scripts(void **state)
{
    assert_non_null(mkdtemp(folder));
    write_file("a.js.map", "{\"sources\":[\"a.ts\"],\"mappings\":\"AAAA\"}");
    assert_int_equal(of_script("x\n//# sourceMappingURL=a.js.map\n"), 0);
    assert_int_equal(of_script("//# sourceMappingURL=gone.map\nx\n//# sourceMappingURL=a.js.map"), 0);
    assert_int_equal(of_script("x /*# sourceMappingURL=a.js.map */"), 0);
    /* {"sources":["a.ts"],"mappings":"AAAA"} */
    assert_int_equal(of_script("x\n//# sourceMappingURL=data:application/json;charset=utf-8;base64,"
                               "eyJzb3VyY2VzIjpbImEudHMiXSwibWFwcGluZ3MiOiJBQUFBIn0="),
                     0);
    write_file("[b] a.map", "{\"sources\":[\"a.ts\"],\"mappings\":\"AAAA\"}");
    assert_int_equal(of_script("//# sourceMappingURL=%5Bb%5d%20a.map"), 0);
    write_file("%5B.map", "{\"sources\":[\"a.ts\"],\"mappings\":\"AAAA\"}");
    assert_int_equal(of_script("//# sourceMappingURL=%5B.map"), 0);
    assert_int_equal(of_script("//# sourceMappingURL=%5c%zz"), -ENOENT);
    assert_int_equal(of_script("x"), -ENOENT);
    assert_int_equal(of_script(""), -ENOENT);
    assert_int_equal(of_script("#"), -ENOENT);
    assert_int_equal(of_script("//# sourceMappingURL=gone.map"), -ENOENT);
    assert_int_equal(of_script("//# sourceMappingURL="), -ENOENT);
    assert_int_equal(of_script("//# sourceMappingURL=data:application/json,{}"), -EINVAL);
    char path[256];
    struct source_map *map = NULL;
    snprintf(path, sizeof(path), "%s/a.js", folder);
    unlink(path);
    assert_int_equal(source_map_of_script(path, &map), -ENOENT);
    assert_int_equal(source_map_of_script("a.js", &map), -ENOENT);
}

/* What a program names is opened only below its script's folder, and only when it is a plain file. */
static void scripts_that_lie(void **state)
{
    char path[256], text[512];
    struct source_map *map = NULL;
    write_file("outside.map", "{\"sources\":[\"a.ts\"],\"mappings\":\"AAAA\"}");
    snprintf(text, sizeof(text), "//# sourceMappingURL=%s/outside.map", folder);
    assert_int_equal(of_script(text), -EINVAL);
    assert_int_equal(of_script("//# sourceMappingURL=../x/outside.map"), -EINVAL);
    assert_int_equal(of_script("//# sourceMappingURL=file:///etc/passwd"), -EINVAL);
    assert_int_equal(of_script("//# sourceMappingURL=%2e%2e%2Fx%2Foutside.map"), -EINVAL);
    assert_int_equal(of_script("//# sourceMappingURL=%2Fetc%2Fpasswd"), -EINVAL);
    assert_int_equal(of_script("//# sourceMappingURL=gone%00.map"), -ENOENT);
    snprintf(path, sizeof(path), "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(of_script("//# sourceMappingURL=pipe"), -EINVAL);
    assert_int_equal(source_map_of_script(path, &map), -EINVAL);
    assert_int_equal(of_script("//# sourceMappingURL=a.js"), -EINVAL);
}

/* Packages are published with maps that name what lay beside them where they were built. */
static void sources_outside_of_their_package(void **state)
{
    static const struct {
        const char *script, *base64; /* of {"sources":[...],"mappings":"AAAA"} */
        const char *file;            /* NULL: none */
    } CASES[] = {
        {"/srv/node_modules/thing/lib/a.js",
         "eyJzb3VyY2VzIjogWyIuLi8uLi9zcmMvYS50cyJdLCAibWFwcGluZ3MiOiAiQUFBQSJ9", NULL},
        {"/srv/node_modules/thing/lib/a.js",
         "eyJzb3VyY2VzIjogWyIuLi9zcmMvYS50cyJdLCAibWFwcGluZ3MiOiAiQUFBQSJ9",
         "/srv/node_modules/thing/src/a.ts"},
        {"/srv/node_modules/@me/thing/lib/a.js",
         "eyJzb3VyY2VzIjogWyIuLi8uLi9zcmMvYS50cyJdLCAibWFwcGluZ3MiOiAiQUFBQSJ9", NULL},
        {"/srv/node_modules/@me/thing/lib/a.js",
         "eyJzb3VyY2VzIjogWyIuLi9zcmMvYS50cyJdLCAibWFwcGluZ3MiOiAiQUFBQSJ9",
         "/srv/node_modules/@me/thing/src/a.ts"},
        {"/srv/node_modules/a/node_modules/thing/lib/a.js",
         "eyJzb3VyY2VzIjogWyIuLi8uLi9zcmMvYS50cyJdLCAibWFwcGluZ3MiOiAiQUFBQSJ9", NULL},
        {"/srv/shop/dist/lib/a.js", "eyJzb3VyY2VzIjogWyIuLi8uLi9zcmMvYS50cyJdLCAibWFwcGluZ3MiOiAiQUFBQSJ9",
         "/srv/shop/src/a.ts"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        char text[300];
        struct source_map *map = NULL;
        struct source_place place;
        snprintf(text, sizeof(text), "x\n//# sourceMappingURL=data:application/json;base64,%s",
                 CASES[i].base64);
        assert_int_equal(source_map_of_text(text, strlen(text), CASES[i].script, &map), 0);
        assert_int_equal(source_map_find(map, 1, 1, &place), CASES[i].file != NULL);
        if (CASES[i].file)
            assert_string_equal(place.file, CASES[i].file);
        source_map_free(map);
    }
}

static int remove_folder(void **state)
{
    static const char *const NAMES[] = {"[b] a.map", "%5B.map", "a.js", "a.js.map", "outside.map", "pipe"};
    char path[256];
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, NAMES[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),
        cmocka_unit_test(roots_and_bundlers),
        cmocka_unit_test(index_maps),
        cmocka_unit_test(no_maps),
        cmocka_unit_test(scripts),
        cmocka_unit_test(scripts_that_lie),
        cmocka_unit_test(sources_outside_of_their_package),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
