// `sonde diff` of two traces of one service.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import http from 'node:http';
import path from 'node:path';
import { SONDE, finish, root, sonde, temporary } from './helper.mjs';

const OK = [0, 4]; // 4: events were lost on this machine
const get = (port, target) => new Promise((resolve, reject) => {
    http.get({ port, host: '127.0.0.1', path: target, agent: false }, (response) => response.resume().on('end', resolve)).on('error', reject);
});

async function record(t, version) {
    const folder = path.join(temporary(t), 'trace');
    const running = sonde(t, 'record', '-q', '-o', folder, '--', process.execPath, path.join(root, 'tests/system/programs/versions.js'), version);
    const port = Number((await running.until(/listening on (\d+)/, { stream: 'stdout' }))[1]);
    for (let round = 0; round < 60; round++) {
        await get(port, '/account');
        await get(port, '/');
        await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 20));
    }
    await get(port, '/end');
    const { status } = await running.ended;
    assert.ok(OK.includes(status), running.describe());
    return folder;
}

async function difference(t, before, after) {
    const { status, stdout, describe } = await finish(t, SONDE, ['diff', '--json', before, after]);
    assert.ok(OK.includes(status), describe());
    return JSON.parse(stdout);
}

test('two versions differ where they do', async (t) => {
    const [first, second] = [await record(t, 'first'), await record(t, 'second')];
    const found = await difference(t, first, second);
    const account = found.endpoints.find((e) => e.route === '/account');
    assert.ok(account.before_count >= 4 && account.after_count >= 4, JSON.stringify(account));
    for (const side of ['before', 'after']) {
        const sum = account.parts.reduce((total, part) => total + part[`${side}_mean_ns`], 0);
        assert.ok(Math.abs(sum - account[`${side}_mean_ns`]) < 10, `${side}: the parts add up to the latency`);
    }
    const hash = account.parts.find((part) => part.name.startsWith('work: at work'));
    assert.equal(hash.verdict, 'new', JSON.stringify(account.parts, null, 1));
    assert.equal(hash.before_count, 0);
    const work = found.operations.find((o) => o.name === 'work');
    assert.equal(work.verdict, 'new');
    assert.equal(work.before_count, 0);
    assert.ok(work.after_p50_ns > 0);
    assert.ok(found.operations.some((o) => o.name === 'fs_open' && o.after_count === 0), 'the file is no longer read');

    const text = await finish(t, SONDE, ['diff', first, second]);
    assert.match(text.stdout, /GET \/account/);
    assert.match(text.stdout, /work: at work \(new\)/);
    const wrong = await finish(t, SONDE, ['diff', first, path.join(root, 'README.md')]);
    assert.equal(wrong.status, 2);

    // A trace does not differ from itself.
    const same = await difference(t, first, first);
    assert.ok(same.endpoints.length >= 2);
    for (const one of [...same.endpoints, ...same.endpoints.flatMap((e) => e.parts), ...same.operations]) {
        assert.ok(['within-noise', 'too-few'].includes(one.verdict), JSON.stringify(one));
        assert.equal(one.change_ns, 0);
    }
    assert.deepEqual([same.findings.appeared, same.findings.vanished], [[], []]);
});
