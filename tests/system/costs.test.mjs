// What doc/costs.md says of the probe's wrappers is what bench/wrappers.txt has.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { root } from './helper.mjs';

test('the table of wrappers has the present instructions, clock readings and bytes', () => {
    const read = (file) => fs.readFileSync(path.join(root, file), 'utf8');
    const costs = new Map(read('bench/wrappers.txt').split('\n').filter((line) => line && !line.startsWith('#')).map((line) => line.split(/ +/)).map(([scene, ...now]) => [scene, now.map(Number)]));
    const rows = [...read('doc/costs.md').matchAll(/^\| .*\(`([\w-]+)`\) \| (.*) \| (.*) \| (.*) \|$/gm)];
    assert.ok(rows.length >= 8, `${rows.length} rows`);
    // "2,217, now 1,497"; a number alone has not changed.
    for (const [, scene, ...cells] of rows) assert.deepEqual([scene, ...cells.map((cell) => Number(cell.split('now ').at(-1).replace(',', '')))], [scene, ...costs.get(scene)]);
});
