// Public traces whose critical paths can be derived by hand.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { finish, SONDE, temporary } from './helper.mjs';
import { files, publicSpans } from './spans.mjs';

test('critical paths equal the answers that come with the traces', async (t) => {
    const folder = publicSpans('crisp', temporary(t));
    if (!folder) return t.skip('the public traces are not here (SONDE_DATA)');
    let compared = 0;
    for (const file of files(folder, '.json')) {
        const trace = JSON.parse(fs.readFileSync(file, 'utf8'));
        const truth = Array.isArray(trace.testing) ? trace.testing[0] : trace.testing;
        const { stdout, status, stderr } = await finish(t, SONDE, ['diagnose', '--requests', file]);
        assert.equal(status, 0, stderr);
        const times = {};
        for (const step of JSON.parse(stdout).requests[0].critical_path) {
            const key = `[${step.service}] ${step.operation}`;
            times[key] = (times[key] || 0) + step.critical_ns / 1000;
        }
        assert.deepEqual(times, truth.opTimeExclusive || truth, file);
        compared++;
    }
    assert.ok(compared >= 30, `${compared} traces`);
});
