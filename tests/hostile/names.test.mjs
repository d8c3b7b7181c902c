// Whoever names services, operations, programs and requests may use any bytes. JSON stays whole, and nothing is left out of it.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { eventually, finish, isRoot, kill, manifestOf, noProfiles, reportOf, SONDE, start, temporary } from '../system/helper.mjs';

const ODD = Buffer.from([0xff]), SHOWN = '\uFFFD';
const bytes = (text) => Buffer.concat(text.split('?').flatMap((part, i) => (i ? [ODD, Buffer.from(part)] : [Buffer.from(part)])));

const spanLine = (i, version, took_us) => JSON.stringify({ resourceSpans: [{
    resource: { attributes: Object.entries({ 'service.name': 'shop?', 'service.version': version, 'host.name': `h${i % 7}` }).map(([key, stringValue]) => ({ key, value: { stringValue } })) },
    scopeSpans: [{ spans: [{ traceId: String(i + 1).padStart(32, '0'), spanId: String(i + 1).padStart(16, '0'), name: 'POST ?/order', kind: 2,
        startTimeUnixNano: `${17e8 + i}000000000`, endTimeUnixNano: `${17e8 + i}${String(took_us).padStart(6, '0')}000` }] }],
}] });

test('a slow-down of services and operations whose names are no text', async (t) => {
    const file = path.join(temporary(t), 'spans.jsonl');
    fs.writeFileSync(file, bytes(Array.from({ length: 800 }, (_, i) => spanLine(i, i % 2 ? '41' : '42', (i % 2 ? 20_000 : 60_000) + (i * 7919) % 4000)).join('\n')));
    const { status, stdout, stderr } = await finish(t, SONDE, ['diagnose', '--json', file]);
    assert.equal(status, 0, stderr);
    const { findings } = JSON.parse(stdout);
    assert.equal(findings[0].kind, 'regression');
    assert.match(findings[0].title, new RegExp(`^shop${SHOWN} POST ${SHOWN}/order is 2\\.\\d+ times slower`));
    assert.equal(findings[0].evidence.service, `shop${SHOWN}`);
});

test('a program whose name is no text loses no function', { skip: noProfiles() }, async (t) => {
    const folder = temporary(t);
    fs.copyFileSync('/usr/bin/perl', Buffer.concat([Buffer.from(`${folder}/pe`), ODD, Buffer.from('rl')]));
    const perl = start(t, 'sh', ['-c', `exec "${folder}/pe$(printf '\\377')rl" -e '$| = 1; print "ready\\n"; while (1) { $x += sqrt($y++) }'`]);
    await perl.until(/ready/, { stream: 'stdout' });
    const { status, stdout, stderr } = await finish(t, SONDE, ['profile', '--json', '-F', 499, '-d', 3, perl.pid]);
    assert.equal(status, 0, stderr);
    const { functions, total } = JSON.parse(stdout).profile, own = functions.filter((f) => f.module === `pe${SHOWN}rl`);
    const share = own.reduce((sum, f) => sum + f.self, 0) / total;
    assert.ok(share > 0.5, `${share} of ${JSON.stringify(functions)}`);
});

test('a traced program whose name is no text is in the list of processes', { skip: !isRoot && 'needs root' }, async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace');
    fs.copyFileSync(process.execPath, Buffer.concat([Buffer.from(`${folder}/no`), ODD, Buffer.from('de')]));
    const server = path.join(folder, 'server.js');
    fs.writeFileSync(server, `require('http').createServer((request, response) => response.end('done')).listen(0, '127.0.0.1', function () { console.log('port', this.address().port); });`);
    const node = start(t, 'sh', ['-c', `exec "${folder}/no$(printf '\\377')de" "${server}"`]);
    const [, port] = await node.until(/port (\d+)/, { stream: 'stdout' });
    const recorder = start(t, SONDE, ['attach', '--json', '-o', trace, node.pid]);
    await recorder.until(/attached to 1 process/);
    const ask = async () => (await fetch(`http://127.0.0.1:${port}/order`)).text();
    await eventually('the process is listed while it runs', async () => {
        await ask();
        const { processes } = manifestOf(trace);
        return processes.some((p) => p.pid === node.pid && p.exe.endsWith(`no${SHOWN}de`));
    });
    kill(node.pid, 'SIGKILL');
    await node.ended;
    await recorder.ended;
    assert.ok(manifestOf(trace).processes.some((p) => p.pid === node.pid && p.exe.endsWith(`no${SHOWN}de`)), 'and when it has ended');
    const { requests } = await reportOf(t, trace);
    assert.ok(requests.some((r) => r.process === node.pid && r.path === '/order'), JSON.stringify(requests));
});
