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

const folder = path.join(root, 'tests', 'applications');
const installed = ({ application }) => fs.existsSync(path.join(folder, application === 'modules' ? 'modules' : '', 'node_modules'));
for (const row of ROWS.filter(({ quick }) => quick)) {
    const missing = (!installed(row) && 'the applications are not installed (make deps)') || missingStore(row.store);
    test(`${row.application}, ${row.trouble}`, { skip: missing || false }, async (t) => {
        const { right, wrong, outline } = judge(row, await runApplication(t, row));
        assert.ok(right, `${wrong.join('\n')}\n${outline}`);
    });
}
