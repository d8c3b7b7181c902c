// The task of koa-piscina.js, on a worker.
// SPDX-License-Identifier: Apache-2.0
'use strict';
module.exports = (ms) => { // planted starved
    const until = process.hrtime.bigint() + BigInt(ms) * 1_000_000n;
    let n = 0;
    while (process.hrtime.bigint() < until) n++;
    return n;
}; // end starved
