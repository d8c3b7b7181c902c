/* The process that starts the operator's command, and nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/launcher.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "test.h"

static char folder[TEST_PATH];

static void launcher(const char *command, unsigned per_hour, double timeout_s, bool dry_run)
{
    const struct action_settings settings = {
        .command = command, .per_hour = per_hour, .timeout_s = timeout_s, .dry_run = dry_run};
    struct problem problem = {0};
    assert_int_equal(launcher_start(&settings, &problem), 0);
}

static int run(const char *variables, size_t length, enum action_outcome *ret_outcome, int *ret_status)
{
    _cleanup_(file_closep) int evidence = memfd_create("evidence", MFD_CLOEXEC);
    assert_int_equal(file_write_all(evidence, "the evidence", 12), 0);
    assert_int_equal(lseek(evidence, 0, SEEK_SET), 0);
    return launcher_run(evidence, variables, length, ret_outcome, ret_status);
}

static void the_command_gets_evidence_and_variables(void **state)
{
    static const char SHOP[] = "SONDE_SERVICE=shop", FAIL[] = "SONDE_SERVICE=fail";
    _cleanup_(freep) char *text = NULL;
    enum action_outcome outcome;
    char command[4 * TEST_PATH], out[2 * TEST_PATH];
    int status = 0;
    snprintf(out, sizeof(out), "%s/out", folder);
    snprintf(command, sizeof(command), "test $SONDE_SERVICE = fail && exit 3; (cat; echo $SONDE_SERVICE) >%s",
             out);
    launcher(command, 2, 60, false);
    assert_int_equal(run(SHOP, sizeof(SHOP), &outcome, &status), 0);
    assert_int_equal(outcome, ACTION_DONE);
    assert_int_equal(status, 0);
    assert_int_equal(file_read(out, 100, &text, NULL), 0);
    assert_string_equal(text, "the evidenceshop\n");
    assert_int_equal(run(FAIL, sizeof(FAIL), &outcome, &status), 0);
    assert_int_equal(outcome, ACTION_FAILED);
    assert_int_equal(WEXITSTATUS(status), 3);
    /* twice an hour, whoever asks */
    assert_int_equal(run(SHOP, sizeof(SHOP), &outcome, &status), 0);
    assert_int_equal(outcome, ACTION_TOO_OFTEN);
}

static void other_variables_are_refused(void **state)
{
    static const char PRELOAD[] = "SONDE_SERVICE=shop\0LD_PRELOAD=/tmp/x.so",
                      NO_END[] = {'S', 'O', 'N', 'D', 'E', '_', '='};
    enum action_outcome outcome;
    char command[4 * TEST_PATH], out[2 * TEST_PATH];
    int status;
    snprintf(out, sizeof(out), "%s/never", folder);
    snprintf(command, sizeof(command), "touch %s", out);
    launcher(command, 16, 60, false);
    assert_int_equal(run(PRELOAD, sizeof(PRELOAD), &outcome, &status), -EINVAL);
    assert_int_equal(run(NO_END, sizeof(NO_END), &outcome, &status), -EINVAL);
    assert_int_equal(run("SONDE_X", 8, &outcome, &status), -EINVAL);
    assert_int_equal(launcher_run(-1, "SONDE_X=", 9, &outcome, &status), -EBADF);
    assert_true(access(out, F_OK) < 0);
    launcher(command, 16, 60, true);
    assert_int_equal(run("SONDE_X=", 9, &outcome, &status), 0);
    assert_int_equal(outcome, ACTION_DRY);
    assert_true(access(out, F_OK) < 0);
}

static void one_that_hangs_is_killed(void **state)
{
    enum action_outcome outcome;
    int status = 0;
    launcher("sleep 1000 & exec sleep 1000", 1, 0.01, false);
    assert_int_equal(run("SONDE_X=", 9, &outcome, &status), 0);
    assert_int_equal(outcome, ACTION_TIMED_OUT);
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void without_a_launcher_nothing_is_started(void **state)
{
    enum action_outcome outcome;
    int status;
    launcher(NULL, 0, 0, false);
    assert_int_equal(run("SONDE_X=", 9, &outcome, &status), -ENOTCONN);
}

int main(void)
{
    char command[TEST_PATH + 16];
    if (!mkdtemp(test_path(folder)))
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_a_launcher_nothing_is_started),
                                       cmocka_unit_test(the_command_gets_evidence_and_variables),
                                       cmocka_unit_test(other_variables_are_refused),
                                       cmocka_unit_test(one_that_hangs_is_killed)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) || failed;
}
