// The story end to end: OpenTelemetry SDKs in real Node services send spans; version 42 creates disks one after
// another on one hardware generation; watch says so, fires the webhook and ends with the gate's status.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { documentsOf, finish, kill, root, SONDE, sonde, start, temporary } from './helper.mjs';

const ROLLOUT = path.join(root, 'examples', 'rollout', 'rollout.js');

async function hook(t) {
    const alerts = [];
    const server = http.createServer((request, response) => {
        let body = '';
        request.on('data', (part) => (body += part));
        request.on('end', () => { alerts.push(JSON.parse(body)); response.end(); });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    return { alerts, url: `http://127.0.0.1:${server.address().port}/alert` };
}

async function watch(t, ...args) {
    const running = sonde(t, 'watch', 'agent', '--base', '41', '--listen', '127.0.0.1:0', '--every', '1s', '--gate', '--json', ...args);
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    return { running, endpoint: `http://127.0.0.1:${port}` };
}

test('a rollout that makes disk creation sequential on one hardware generation is caught', async (t) => {
    const folder = temporary(t), bundle = path.join(folder, 'evidence.html'), { alerts, url } = await hook(t);
    const { running, endpoint } = await watch(t, '--for', '240s', '--webhook', url, '--bundle', bundle);
    const rollout = start(t, process.execPath, [ROLLOUT, '--endpoint', endpoint, '--seconds', 200, '--requests', 6000]); // at most; it ends with the gate
    const { status, stdout, stderr } = await running.ended;
    kill(rollout.pid, 'SIGTERM');
    await rollout.ended;
    assert.equal(status, 10, stderr);
    const finding = JSON.parse(stdout).findings[0];
    assert.equal(finding.kind, 'regression');
    assert.equal(finding.evidence.bucket, 'agent POST [hardware.generation=gen7]');
    assert.equal(finding.evidence.version, '42');
    assert.equal(finding.evidence.path_change, 'sequential');
    assert.match(finding.evidence.path, /agent createDisk$/);
    assert.equal(finding.evidence.cause, 'hardware.generation=gen7');
    assert.ok(finding.evidence.e_value >= 50);
    assert.ok(finding.evidence.ratio > 1.3);
    assert.equal(alerts.length, 1, 'the alert is sent once');
    assert.equal(alerts[0].status, 'firing');
    assert.equal(alerts[0].finding.evidence.version, '42');
    const [shown] = JSON.parse(documentsOf(fs.readFileSync(bundle, 'utf8')).regressions).findings;
    assert.equal(shown.title, finding.title);
    assert.ok(shown.forest.some((call) => call.on_path));
});

test('a harmless rollout passes the gate', async (t) => {
    const { running, endpoint } = await watch(t, '--for', '240s', '--allow-no-verdict'); // one host a side on a busy machine need not be enough
    const rollout = await finish(t, process.execPath, [ROLLOUT, '--endpoint', endpoint, '--seconds', '200', '--requests', '2400', '--harmless']);
    assert.equal(rollout.status, 0, rollout.stderr);
    kill(running.pid, 'SIGINT'); // which always yields a report
    const { status, stdout, stderr } = await running.ended;
    assert.equal(status, 0, stderr);
    const report = JSON.parse(stdout);
    assert.equal(report.findings.length, 0);
    assert.notEqual(report.diagnosis.verdict, 'slower');
    assert.ok(report.diagnosis.contrasts.some((c) => c.service === 'agent' && c.version === '41.1' && c.requests > 100), 'it was looked at');
});

test('six services on twelve hosts: serve alone names version 42 on one generation, and its action stops the rollout', async (t) => {
    const { status, stdout, stderr } = await finish(t, path.join(root, 'tools', 'rollout-demo'), ['200'], { env: { ...process.env, SONDE } });
    assert.equal(status, 0, stdout + stderr);
    assert.match(stdout, /the rollout was stopped: disks 42 back to 41/);
    assert.match(stdout, /slower: disks POST \/disks \[hardware\.generation=gen7\] is .* since disks 42/);
    assert.match(stdout, /action for disks .*: done/);
});
