// The service behind slow.js.
// SPDX-License-Identifier: Apache-2.0
'use strict';
require('./slow.js').service();
