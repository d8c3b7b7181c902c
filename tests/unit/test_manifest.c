/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

static char folder[] = "/tmp/sonde-manifest-XXXXXX", path[64];

static void holds(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_manifest_is_there_damaged_or_sound(void **state)
{
    json_t *manifest = NULL;
    assert_false(manifest_exists(folder));
    assert_int_equal(manifest_read(folder, &manifest), -ENOENT);
    holds("{\"complete\": tr");
    assert_true(manifest_exists(folder));
    assert_int_equal(manifest_read(folder, &manifest), -EBADMSG);
    assert_null(manifest);
    holds("{\"complete\": true}");
    assert_int_equal(manifest_read(folder, &manifest), 0);
    assert_true(json_is_true(json_object_get(manifest, "complete")));
    json_decref(manifest);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof(path), "%s/manifest.json", folder);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_manifest_is_there_damaged_or_sound)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
}
