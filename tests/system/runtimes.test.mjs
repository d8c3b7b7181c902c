// doc/runtimes.md says what is seen; of the Node and the Redis that are here it is so.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { finish, root } from './helper.mjs';

for (const name of ['(this one)', 'redis of this system'])
    test(`${name}: what is seen is what doc/runtimes.md says`, async (t) => {
        const { status, stdout, stderr } = await finish(t, process.execPath, [path.join(root, 'tools/runtimes'), 'hold', name]);
        assert.equal(status, 0, stdout + stderr);
        assert.match(stderr, /run \d+ hooks/);
    });
