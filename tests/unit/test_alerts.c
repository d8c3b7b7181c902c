/* Alerts: told once, resolved once, told again only with new requests, kept while they cannot be told. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/alerts.h"

#include <string.h>

#include "test.h"

/* One look at which the slow-down of that fingerprint is seen with so many requests (0: not seen). */
static bool look(struct alerts *alerts, uint64_t fingerprint, uint64_t requests)
{
    bool fires = false;
    alerts_begin(alerts);
    if (requests)
        assert_int_equal(alerts_see(alerts, fingerprint, requests, "slower", json_object(), &fires), 0);
    alerts_end(alerts);
    return fires;
}

/* The state that is told now, all of them. */
static enum alert_state tell(struct alerts *alerts)
{
    enum alert_state state = ALERT_NONE;
    for (struct alert *alert; (alert = alerts_pending(alerts));)
        state = alert->told = alert->state;
    return state;
}

static void test_told_once_and_resolved_once(void **state)
{
    struct alerts alerts = {0};
    assert_true(look(&alerts, 1, 100));
    assert_int_equal(tell(&alerts), ALERT_FIRING);
    for (uint64_t i = 1; i < 10; i++)
        assert_false(look(&alerts, 1, 100 + i));
    assert_int_equal(tell(&alerts), ALERT_NONE);
    for (int i = 0; i < ALERTS_QUIET_LOOKS - 1; i++) {
        look(&alerts, 1, 109);
        assert_int_equal(tell(&alerts), ALERT_NONE); /* quiet, but not for long enough */
    }
    look(&alerts, 1, 109);
    assert_int_equal(tell(&alerts), ALERT_RESOLVED);
    for (int i = 0; i < 20; i++)
        assert_false(look(&alerts, 1, 109)); /* still slower on the books, but rolled back */
    assert_int_equal(tell(&alerts), ALERT_NONE);
    assert_true(look(&alerts, 1, 110)); /* rolled out again */
    assert_int_equal(tell(&alerts), ALERT_FIRING);
    alerts_done(&alerts);
}

static void test_no_longer_slower(void **state)
{
    struct alerts alerts = {0};
    look(&alerts, 1, 100);
    tell(&alerts);
    look(&alerts, 1, 0);
    assert_int_equal(tell(&alerts), ALERT_RESOLVED);
    alerts_done(&alerts);
}

static void test_two_are_apart(void **state)
{
    struct alerts alerts = {0};
    bool fires;
    for (uint64_t i = 1; i < 6; i++) {
        alerts_begin(&alerts);
        assert_int_equal(alerts_see(&alerts, 1, 100 * i, "a", NULL, &fires), 0);
        assert_int_equal(alerts_see(&alerts, 2, 100, "b", NULL, &fires), 0);
        alerts_end(&alerts);
        tell(&alerts);
    }
    assert_int_equal(alerts.list.count, 2);
    assert_int_equal(alerts.list.at[0].state, ALERT_FIRING);
    assert_int_equal(alerts.list.at[1].state, ALERT_RESOLVED);
    alerts_done(&alerts);
}

static void test_kept_until_told(void **state)
{
    struct alerts alerts = {0};
    look(&alerts, 7, 100);
    assert_non_null(alerts_pending(&alerts));
    look(&alerts, 7, 200);
    struct alert *alert = alerts_pending(&alerts);
    assert_non_null(alert);
    json_t *json = alert_json(alert, "page.html");
    assert_string_equal(json_string_value(json_object_get(json, "status")), "firing");
    assert_string_equal(json_string_value(json_object_get(json, "fingerprint")), "0000000000000007");
    assert_string_equal(json_string_value(json_object_get(json, "bundle")), "page.html");
    assert_true(json_is_object(json_object_get(json, "finding")));
    json_decref(json);
    alerts_done(&alerts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told_once_and_resolved_once),
        cmocka_unit_test(test_no_longer_slower),
        cmocka_unit_test(test_two_are_apart),
        cmocka_unit_test(test_kept_until_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
