// The task of koa-piscina.js, on a worker.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { spin } = require('./truth.js');
module.exports = (ms) => spin(ms); // planted starved
// end starved
