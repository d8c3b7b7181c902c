// A profile that is taken beside a recording: the spans of a slow request say which functions ran in them.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, childNamed, finish, kill, noProfiles, start, temporary } from './helper.mjs';

const skip = noProfiles();

// The same work in two functions, three parts of it in one; a third function works between requests, and is no request's.
const SERVICE = `
function threeParts(n) { let s = 0; for (let i = 0; i < 3 * n; i++) s = (s * 31 + i) % 1000003; return s; }
function onePart(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; }
function betweenRequests(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; }
const server = require('node:http').createServer((request, response) => {
    let s = 0;
    function bothParts(n) { for (let i = 0; i < 10; i++) s += threeParts(n) + onePart(n); }
    bothParts(1e6);
    response.end(String(s));
}).listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));
setInterval(() => betweenRequests(3e6), 20);
`;

test('the functions that ran in a slow request, in their order', { skip }, async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace'), source = path.join(folder, 'service.js');
    fs.writeFileSync(source, SERVICE);
    const recording = start(t, SONDE, ['run', '-o', trace, '--', process.execPath, source]);
    const [, port] = await recording.until(/port (\d+)/, { stream: 'stdout' });
    const service = childNamed(recording.pid, source);
    const profile = start(t, SONDE, ['profile', '--trace', trace, '-F', '499', '-d', '4', service]);
    while (!profile.over) await (await fetch(`http://127.0.0.1:${port}/slow`)).text();
    assert.ok([0, 4].includes(profile.status), profile.describe());
    kill(service, 'SIGTERM');
    await recording.ended;

    const { stdout, stderr } = await finish(t, SONDE, ['spans', '--json', '--path', '/slow', trace]);
    const callbacks = JSON.parse(stdout).requests.flatMap((r) => r.spans).filter((s) => s.kind === 'callback' && s.samples_count);
    const most = callbacks.sort((a, b) => b.samples_count - a.samples_count)[0];
    assert.ok(most?.samples_count >= 20, `${stderr} ${JSON.stringify(most)}`);
    assert.deepEqual(most.functions.slice(0, 2).map((f) => f.name), ['threeParts', 'onePart'], JSON.stringify(most));
    const sampled = (name) => callbacks.flatMap((s) => s.functions).reduce((sum, f) => sum + (f.name === name ? f.sampled_ns : 0), 0);
    const share = sampled('threeParts') / (sampled('threeParts') + sampled('onePart'));
    assert.ok(share > 0.6 && share < 0.9, `three quarters of the work, and ${share} of the samples`);
    assert.equal(most.functions.reduce((sum, f) => sum + f.samples_count, 0), most.samples_count);
    const through = callbacks.flatMap((s) => s.callers.filter((f) => f.name === 'bothParts')).reduce((sum, f) => sum + f.sampled_ns, 0);
    assert.ok(through >= 0.9 * (sampled('threeParts') + sampled('onePart')), `what both cost came through bothParts: ${JSON.stringify(most.callers)}`);
    assert.ok(callbacks.every((s) => s.functions.every((f) => f.name !== 'betweenRequests')), 'samples of a time between requests');

    const text = (await finish(t, SONDE, ['spans', '--path', '/slow', trace])).stdout;
    assert.match(text, /functions: threeParts \d+ %, onePart \d+ %[\s\S]*?called\s+from:[\s\S]*?bothParts\s+\d+ %/);
    const events = (await finish(t, SONDE, ['trace', 'events', '--name', 'profile:sample', trace])).stdout;
    assert.match(events, /betweenRequests/);
});

test('no trace to add samples to', () => {
    const none = spawnSync(SONDE, ['profile', '--trace', '/nonexistent', '--', 'true'], { encoding: 'utf8' });
    assert.equal(none.status, 1);
    assert.match(none.stderr, /no trace to add to/);
    assert.equal(spawnSync(SONDE, ['profile', '--trace', '/tmp', '--event', 'off-cpu', '1']).status, 2);
});
