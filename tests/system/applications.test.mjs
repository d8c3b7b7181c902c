// Applications that nobody here wrote, with planted troubles: the quickest of tests/applications, and those that sonde attaches to
// when their connections to a broker are open. `make applications` runs all.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { judge, missing, runApplication } from '../applications/harness.mjs';
import { ROWS } from '../applications/table.mjs';

for (const row of ROWS.filter(({ quick }) => quick)) {
    test(`${row.application}, ${row.trouble}`, { skip: missing(row) || false }, async (t) => {
        const { right, wrong, outline } = judge(row, await runApplication(t, row));
        assert.ok(right, `${wrong.join('\n')}\n${outline}`);
    });
}

for (const row of ROWS.filter(({ attached }) => attached)) {
    test(`${row.application}, ${row.trouble}, attached to`, { skip: missing(row) || false }, async (t) => {
        const { right, wrong, outline } = judge(row, await runApplication(t, row, { attach: true }));
        assert.ok(right, `${wrong.join('\n')}\n${outline}`);
    });
}
