/* What SELinux and AppArmor show of themselves, in files of a test's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lsm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "test.h"

static char root[] = "/tmp/sonde-lsm-XXXXXX";

/* A machine with these files; NULL: it has not this one. The texts are as the kernel gives them. */
static const char *machine(const char *enforce, const char *deny_ptrace, const char *label)
{
    static const char *const NAMES[] = {"/sys/fs/selinux/enforce", "/sys/fs/selinux/booleans/deny_ptrace",
                                        "/proc/self/attr/current", "/sys/kernel/security/lsm"};
    const char *const texts[] = {enforce, deny_ptrace, label, "lockdown,capability,yama,selinux"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s%s", root, NAMES[i]);
        for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
            *at = '\0';
            (void)mkdir(path, 0700);
        }
        remove(path);
        if (texts[i])
            assert_int_equal(file_replace(path, texts[i], strlen(texts[i])), 0);
    }
    return root;
}

static void what_a_machine_forbids_is_said(void **state)
{
    struct lsm_answer answer;
    lsm_of_machine(machine("1", "1 1", "unconfined_u:unconfined_r:unconfined_t:s0"), &answer);
    assert_int_equal(answer.verdict, LSM_REFUSES);
    assert_non_null(strstr(answer.remedy, "setsebool deny_ptrace off"));
    lsm_of_machine(machine("0", "1 1", NULL), &answer); /* permissive */
    assert_int_equal(answer.verdict, LSM_FREE);
    lsm_of_machine(machine("1", "0 0", "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023"), &answer);
    assert_int_equal(answer.verdict, LSM_FREE);
    lsm_of_machine(machine("1", "0 0", "system_u:system_r:container_t:s0:c1,c2"), &answer);
    assert_int_equal(answer.verdict, LSM_MAY_REFUSE);
    assert_non_null(strstr(answer.why, "container_t"));
    lsm_of_machine(machine(NULL, NULL, "docker-default (enforce)\n"), &answer);
    assert_int_equal(answer.verdict, LSM_MAY_REFUSE);
    assert_non_null(strstr(answer.why, "profile docker-default)"));
    lsm_of_machine(machine(NULL, NULL, "unconfined\n"), &answer);
    assert_int_equal(answer.verdict, LSM_FREE);
    lsm_of_machine(machine(NULL, NULL, NULL), &answer);
    assert_int_equal(answer.verdict, LSM_FREE);
    assert_string_equal(answer.remedy, "");
}

static void what_confines_a_process_is_said(void **state)
{
    struct lsm_answer answer;
    const char *enforces = machine("1", "0 0", NULL);
    lsm_of_process(enforces, "system_u:system_r:redis_t:s0", &answer);
    assert_int_equal(answer.verdict, LSM_MAY_REFUSE);
    assert_non_null(strstr(answer.remedy, "semanage permissive -a redis_t"));
    lsm_of_process(enforces, "system_u:system_r:unconfined_service_t:s0", &answer);
    assert_int_equal(answer.verdict, LSM_FREE);
    const char *other = machine(NULL, NULL, NULL);
    lsm_of_process(other, "/usr/bin/redis-server (enforce)\n", &answer);
    assert_int_equal(answer.verdict, LSM_MAY_REFUSE);
    assert_non_null(strstr(answer.remedy, "aa-complain /usr/bin/redis-server"));
    lsm_of_process(other, "/usr/bin/redis-server (complain)\n", &answer);
    assert_int_equal(answer.verdict, LSM_FREE);
    lsm_of_process(other, "system_u:system_r:redis_t:s0", &answer); /* SELinux does not enforce */
    assert_int_equal(answer.verdict, LSM_FREE);
    lsm_of_process(other, NULL, &answer);
    assert_int_equal(answer.verdict, LSM_FREE);
}

static void a_label_may_hold_anything(void **state)
{
    struct lsm_answer answer;
    char label[3000];
    memset(label, 'x', sizeof(label));
    strcpy(label + 2980, "\033[2J (enforce)");
    lsm_of_process(machine(NULL, NULL, NULL), label, &answer);
    assert_int_equal(answer.verdict, LSM_MAY_REFUSE);
    lsm_of_process(machine(NULL, NULL, NULL), "a\033[2Jb (enforce)", &answer);
    assert_null(strchr(answer.why, '\033'));
    assert_null(strchr(answer.remedy, '\033'));
    lsm_of_process(machine("1", NULL, NULL), "::", &answer);
    lsm_of_process(machine("1", NULL, NULL), "", &answer);
    assert_int_equal(answer.verdict, LSM_FREE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_machine_forbids_is_said),
        cmocka_unit_test(what_confines_a_process_is_said),
        cmocka_unit_test(a_label_may_hold_anything),
    };
    char command[64];
    if (!mkdtemp(root))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command) || failed;
}
