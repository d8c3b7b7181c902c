// Throughput and queues while a rollout is watched: `serve` alerts and acts, `watch` holds the gate, and neither says a word of workers that
// complete what comes. Messages in a simulated queue (rollouts.mjs), as spans by OpenTelemetry's SDK.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { eventually, sonde, temporary } from './helper.mjs';
import { makeRollout } from './rollouts.mjs';
import { metric, post } from './spans.mjs';

// A server that has taken in all of a scenario, and has looked at it; what it has alerted to.
async function served(t, scenario) {
    const folder = temporary(t), file = path.join(folder, 'spans.jsonl'), data = path.join(folder, 'data');
    makeRollout(scenario, 1, file);
    const running = sonde(t, 'serve', '--listen', '127.0.0.1:0', '--data', data, '--no-store', '--idle-seconds', '0.1', '--every-seconds', '0.3', '--action', 'true');
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    for (const line of fs.readFileSync(file, 'utf8').trim().split('\n')) assert.equal((await post(Number(port), line)).status, 200);
    const requests = new Set(fs.readFileSync(file, 'utf8').match(/"traceId":"\w+"/g)).size;
    await eventually('all is counted', async () => (await metric(port, 'sonde_requests_total')) >= requests);
    const looks = await metric(port, 'sonde_looks_total');
    await eventually('it was looked at', async () => (await metric(port, 'sonde_looks_total')) >= looks + 2);
    const history = path.join(data, 'alerts.jsonl');
    const fired = () => (fs.existsSync(history) ? fs.readFileSync(history, 'utf8').trim().split('\n').map((l) => JSON.parse(l)).filter((l) => l.event === 'firing').map((l) => l.finding) : []);
    return { port, data, fired };
}

const watch = (t, data, ...args) => sonde(t, 'watch', 'mailer', '--follow', data, '--every', '0.3s', '--idle', '0.1s', '--json', '--gate', ...args).ended;

test('a version whose workers take one message at once instead of two: an alert, an action, and the gate', async (t) => {
    const { port, data, fired } = await served(t, 'workers that take one message at once instead of two');
    // The queue grows, too, and that may be seen before it is known whose fault it is.
    const ofVersions = () => fired().filter((f) => f.kind !== 'growing-queue');
    await eventually('the alert', () => ofVersions().length);
    // Where nothing comes for a while, an alert is resolved, and told again later.
    for (const f of ofVersions()) assert.deepEqual([f.kind, f.evidence.service, f.evidence.version, f.evidence.base_version], ['less-throughput', 'mailer', '9', '8'], f.title);
    assert.ok(ofVersions()[0].evidence.ratio > 0.35 && ofVersions()[0].evidence.ratio < 0.65, `${ofVersions()[0].evidence.ratio}`);
    await eventually('the action', async () => (await metric(port, 'sonde_actions_total')) >= 1);
    const { status, stdout, stderr } = await watch(t, data, '--for', '120s');
    assert.equal(status, 10, stderr);
    assert.deepEqual(JSON.parse(stdout).findings.map((f) => f.kind), ['less-throughput']);
});

test('a queue that grows, whatever the version: an alert, and no rollout is stopped', async (t) => {
    const { port, fired } = await served(t, 'a queue that grows, whatever the version');
    await eventually('the alert', () => fired().length);
    for (const finding of fired()) assert.deepEqual([finding.kind, finding.evidence.service], ['growing-queue', 'mailer'], finding.title);
    assert.equal(await metric(port, 'sonde_actions_total'), 0);
});

// Some have queues that grow for a while before all has been sent: that is true when it is said.
for (const scenario of ['a canary that gets a tenth of the messages', 'traffic that shifts to the new version', 'more load since the new version came, which it bears', 'workers that look every half minute, while less and less comes'])
    test(`${scenario}: no version is blamed`, async (t) => {
        const { fired } = await served(t, scenario);
        assert.deepEqual(fired().filter((f) => f.kind !== 'growing-queue').map((f) => f.title), []);
    });
