// What a coupon code looks like: words of capitals and digits, joined by dashes (SPRING-SALE-24).
// SPDX-License-Identifier: Apache-2.0
'use strict';

// The obvious pattern. The dash is optional and the group repeats, so a long word can be cut into pieces in
// 2^n ways, and all of them are tried once a character at the end does not fit.
const VULNERABLE = /^([A-Z0-9]+-?)+$/;

// The same language with one way to match it.
const LINEAR = /^[A-Z0-9]+(-[A-Z0-9]+)*-?$/;

function isCoupon(code, vulnerable) {
    if (vulnerable)
        return VULNERABLE.test(code);
    return LINEAR.test(code);
}

module.exports = { isCoupon };
