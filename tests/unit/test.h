/* What every unit test includes: cmocka with the headers it wants in front. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
