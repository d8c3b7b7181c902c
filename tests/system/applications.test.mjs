// Applications that nobody here wrote, with planted troubles: the quickest of tests/applications. `make applications` runs all.
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
