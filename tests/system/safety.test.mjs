// Every safety rule of doc/safety.md names a test that exists.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { root } from './helper.mjs';

test('every rule has its test', () => {
    const rows = fs.readFileSync(path.join(root, 'doc', 'safety.md'), 'utf8').split('\n').filter((line) => /^\| (?!rule|-)/.test(line));
    assert.ok(rows.length > 12);
    for (const row of rows) {
        const [, file, name] = /`(tests\/[^`]+)`: ?(.+?) \|$/.exec(row) || [];
        assert.ok(file && name, `no test is named: ${row}`);
        const text = fs.readFileSync(path.join(root, file), 'utf8').replace(/\\'/g, "'");
        assert.ok(text.includes(name), `${file} has no test "${name}"`);
    }
});
