// Our own vertical spans as input: two recordings of the shop, in the second of which the catalogue sorts inside Redis
// (often: somebody asks for the bestsellers again as soon as they are there), with a table that says which version each of them ran.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { finish, freePort, SHOP, SONDE, temporary } from './helper.mjs';

// One question at a time: with more, a slow machine has work for minutes, and the requests queue in the gateway instead.
async function curious(port, until) {
    while (!until.over) {
        await new Promise((resolve) => http.get({ host: '127.0.0.1', port, path: '/bestsellers' }, (answer) => answer.resume().on('close', resolve)).on('error', resolve));
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
}

test('two recordings of two versions tell which layer of which service got slower', async (t) => {
    const folder = temporary(t), table = path.join(folder, 'versions.csv');
    for (const [name, ...fault] of [['before'], ['after', '--fault', 'redis']]) {
        const port = await freePort(), until = { over: false }, asked = curious(port, until);
        const { status, stderr } = await finish(t, SONDE, ['run', '-o', path.join(folder, name), '--', process.execPath, SHOP, '--port', port, '--duration', 6, ...fault]);
        until.over = true;
        await asked;
        assert.ok(status === 0 || status === 4, stderr);
    }
    fs.writeFileSync(table, 'sonde.recording,service.version\nbefore,1\nafter,2\n');
    const { status, stdout, stderr } = await finish(t, SONDE, ['diagnose', '--json', '--gate', '--table', table, '--service', 'catalogue', '--minimum-requests', '30', path.join(folder, 'before'), path.join(folder, 'after') + '/']);
    assert.equal(status, 10, stderr);
    const { findings, diagnosis } = JSON.parse(stdout);
    const found = findings.find((f) => /catalogue redis \w+$/.test(f.evidence.path));
    assert.ok(found, findings.map((f) => `${f.title}: ${f.evidence.path}`).join('\n'));
    assert.equal(found.evidence.version, '2');
    assert.match(found.evidence.bucket, /^catalogue GET \/products/, 'the service where it stands');
    assert.match(found.evidence.path, /^gateway GET \/products.* > gateway http GET \/products.* > catalogue GET \/products/);
    assert.ok(found.from_ns / 1e6 > Date.now() - 3600e3, 'in times of day');
    assert.equal(diagnosis.input.duplicates, 0);
    assert.ok(!stdout.includes('sonde.recording'), 'the recording itself explains nothing');
});
