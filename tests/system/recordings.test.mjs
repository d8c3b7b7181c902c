// Our own vertical spans as input: two recordings of the shop, in the second of which the catalogue sorts inside Redis,
// with a table that says which version each of them ran.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { finish, SHOP, SONDE, temporary } from './helper.mjs';

test('two recordings of two versions tell which layer of which service got slower', async (t) => {
    const folder = temporary(t), table = path.join(folder, 'versions.csv');
    for (const [name, ...fault] of [['before'], ['after', '--fault', 'redis']]) {
        const { status, stderr } = await finish(t, SONDE, ['run', '-o', path.join(folder, name), '--', process.execPath, SHOP, '--duration', 6, ...fault]);
        assert.ok(status === 0 || status === 4, stderr);
    }
    fs.writeFileSync(table, 'sonde.recording,service.version\nbefore,1\nafter,2\n');
    const { status, stdout, stderr } = await finish(t, SONDE, ['diagnose', '--json', '--gate', '--table', table, '--service', 'catalogue', '--minimum-requests', '30', path.join(folder, 'before'), path.join(folder, 'after') + '/']);
    assert.equal(status, 10, stderr);
    const { findings, diagnosis } = JSON.parse(stdout);
    const found = findings.find((f) => /catalogue redis \w+$/.test(f.evidence.path));
    assert.ok(found, findings.map((f) => `${f.title}: ${f.evidence.path}`).join('\n'));
    assert.equal(found.evidence.version, '2');
    assert.match(found.evidence.bucket, /^gateway GET \/products/, 'the whole request, joined without headers');
    assert.match(found.evidence.path, /^gateway GET \/products.* > gateway http GET \/products.* > catalogue GET \/products/);
    assert.ok(found.from_ns / 1e6 > Date.now() - 3600e3, 'in times of day');
    assert.equal(diagnosis.input.duplicates, 0);
    assert.ok(!stdout.includes('sonde.recording'), 'the recording itself explains nothing');
});
