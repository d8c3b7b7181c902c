// Applications that nobody here wrote, with planted troubles: the quickest of tests/applications. `make applications` runs all.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { root } from './helper.mjs';
import { judge, runApplication } from '../applications/harness.mjs';
import { missingStore } from '../applications/stores.mjs';
import { ROWS } from '../applications/table.mjs';

const modules = path.join(root, 'tests', 'applications', 'node_modules');
for (const row of ROWS.filter(({ quick }) => quick)) {
    const missing = (!fs.existsSync(modules) && 'the applications are not installed (make deps)') || missingStore(row.store);
    test(`${row.application}, ${row.trouble}`, { skip: missing || false }, async (t) => {
        const { right, wrong, outline } = judge(row, await runApplication(t, row));
        assert.ok(right, `${wrong.join('\n')}\n${outline}`);
    });
}
