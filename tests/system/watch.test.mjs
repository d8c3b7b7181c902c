// A rollout that is watched through a server's journal: alerts once, their end, and the gate's exit statuses.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { documentsOf, eventually, finish, sonde, SONDE, temporary } from './helper.mjs';
import { diskRequests, post } from './spans.mjs';

const slow = (version, hardware) => version === '42' && hardware === 'gen7';

// A receiver of alerts; the first `refused` of them are answered with 503.
async function hook(t, refused = 0) {
    const alerts = [], attempts = [];
    const server = http.createServer((request, response) => {
        let body = '';
        request.on('data', (part) => (body += part));
        request.on('end', () => {
            attempts.push(JSON.parse(body));
            response.statusCode = attempts.length > refused ? 200 : 503;
            if (response.statusCode === 200) alerts.push(JSON.parse(body));
            response.end();
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    return { alerts, attempts, url: `http://127.0.0.1:${server.address().port}/alert` };
}

async function serve(t) {
    const folder = temporary(t), running = sonde(t, 'serve', '--listen', '127.0.0.1:0', '--data', folder, '--no-store');
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    let from = 0;
    const send = async (options) => {
        const answer = await post(Number(port), JSON.stringify(diskRequests({ from, ...options })));
        assert.equal(answer.status, 200);
        from += options.count;
    };
    return { folder, send, received: () => from };
}

const watch = (t, folder, ...args) => sonde(t, 'watch', 'agent', '--base', '41', '--follow', folder, '--every', '0.3s', '--idle', '0.3s', '--json', ...args);

test('an alert is told once, resolved when the version is rolled back, and told again when it comes back', async (t) => {
    const { folder, send } = await serve(t), { alerts, url } = await hook(t), bundle = path.join(folder, 'evidence.html');
    await send({ count: 900, versions: ['41'] });
    for (let i = 0; i < 8; i++) await send({ count: 600, versions: ['41', '42'], slow });
    const running = watch(t, folder, '--webhook', url, '--bundle', bundle);
    await eventually('the alert', () => alerts.length >= 1);
    assert.equal(alerts[0].status, 'firing');
    assert.equal(alerts[0].finding.evidence.bucket, 'agent POST /disks [hardware.generation=gen7]');
    assert.equal(alerts[0].finding.evidence.path_change, 'sequential');
    assert.equal(alerts[0].bundle, bundle);
    assert.match(String(documentsOf(fs.readFileSync(bundle, 'utf8')).regressions), /one after another/);
    await send({ count: 600, versions: ['41'] }); // rolled back: only the older version serves
    await eventually('its end', () => alerts.length >= 2);
    assert.equal(alerts[1].status, 'resolved');
    assert.equal(alerts[1].fingerprint, alerts[0].fingerprint);
    await send({ count: 600, versions: ['41'] });
    const page = () => fs.statSync(bundle).mtimeMs, then = page();
    await eventually('two more looks', () => page() > then);
    assert.equal(alerts.length, 2, 'what is resolved stays resolved');
    await send({ count: 300, versions: ['41', '42'], slow });
    await eventually('the alert again', () => alerts.length >= 3);
    assert.deepEqual([alerts[2].status, alerts[2].fingerprint], ['firing', alerts[0].fingerprint]);
    running.child.kill('SIGINT');
    const { status, stdout } = await running.ended;
    assert.equal(status, 0, 'without --gate');
    assert.equal(JSON.parse(stdout).findings[0].kind, 'regression', 'the report is printed at the end');
});

test('the gate ends with 10, and an alert that was refused is sent again', async (t) => {
    const { folder, send } = await serve(t), { alerts, attempts, url } = await hook(t, 1);
    await send({ count: 900, versions: ['41'] });
    for (let i = 0; i < 8; i++) await send({ count: 600, versions: ['41', '42'], slow });
    const { status, stdout, stderr } = await watch(t, folder, '--gate', '--for', '60s', '--webhook', url).ended;
    assert.equal(status, 10, stderr);
    assert.equal(JSON.parse(stdout).findings[0].evidence.version, '42');
    assert.equal(attempts.length, 2);
    assert.equal(alerts.length, 1);
});

test('the gate ends with 0 when nothing is slower', async (t) => {
    const { folder, send } = await serve(t);
    for (let i = 0; i < 4; i++) await send({ count: 900, versions: ['41', '42'] });
    const { status, stdout } = await watch(t, folder, '--gate', '--for', '4s').ended;
    assert.equal(status, 0);
    const { findings, diagnosis } = JSON.parse(stdout);
    assert.equal(findings.length, 0);
    assert.ok(diagnosis.contrasts.some((c) => c.service === 'agent' && c.version === '42'), 'it was looked at');
});

test('what cannot be watched is said', async (t) => {
    const nowhere = await finish(t, SONDE, ['watch', 'agent', '--follow', '/nonexistent', '--for', '1s']);
    assert.equal(nowhere.status, 1);
    assert.match(nowhere.stderr, /\/nonexistent: No such file[^]*sonde serve --data/);
    assert.equal((await finish(t, SONDE, ['watch'])).status, 2);
    assert.equal((await finish(t, SONDE, ['watch', 'agent', '--every', 'soon'])).status, 2);
    assert.equal((await finish(t, SONDE, ['watch', 'agent', '--listen', '0.0.0.0:0', '--for', '1s'])).status, 3);
});
