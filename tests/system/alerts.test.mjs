// serve judges every service all the time: one alert for a version, told once and resolved, acknowledged, acted on, and logged.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { eventually, sonde, temporary } from './helper.mjs';
import { diskRequests, get, metric, post } from './spans.mjs';

const slow = (version) => version === '42'; // on every generation: three buckets, one alert

async function hook(t) {
    const bodies = [];
    const server = http.createServer((request, response) => {
        let body = '';
        request.on('data', (part) => (body += part));
        request.on('end', () => { bodies.push(JSON.parse(body)); response.end(); });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    return { bodies, url: `http://127.0.0.1:${server.address().port}/` };
}

async function serve(t, folder, ...args) {
    const running = sonde(t, 'serve', '--listen', '127.0.0.1:0', '--data', folder, '--no-store', '--idle-seconds', '0.3', ...(args.includes('--every-seconds') ? [] : ['--every-seconds', '0.3']), ...args);
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    let from = 0;
    const send = async (options) => {
        assert.equal((await post(Number(port), JSON.stringify(diskRequests({ from, ...options })))).status, 200);
        from += options.count;
    };
    return { running, port: Number(port), send };
}

const roll = async (send) => {
    await send({ count: 900, versions: ['41'] });
    for (let i = 0; i < 8; i++) await send({ count: 600, versions: ['41', '42'], slow });
};

// Both versions go on serving until the returned function is called: an alert whose version is no longer asked is resolved.
function goOn(send) {
    let over = false;
    const sending = (async () => {
        while (!over) {
            await send({ count: 60, versions: ['41', '42'], slow });
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
    })();
    return async () => { over = true; await sending; };
}

test('a slow version is one alert; it is acted on, acknowledged, and resolved when nobody asks it any more', async (t) => {
    const folder = temporary(t), out = path.join(folder, 'stopped'), { bodies, url } = await hook(t);
    const { running, port, send } = await serve(t, folder, '--every-seconds', '1', '--webhook', url, '--action', `cat > ${out}.json; echo "$SONDE_SERVICE $SONDE_VERSION $SONDE_BASE_VERSION" > ${out}`);
    await roll(send);
    const rollBack = goOn(send);
    await eventually('the alert', () => bodies.length >= 1);
    assert.deepEqual([Object.keys(bodies[0])[0], bodies[0].schema, bodies[0].status], ['schema', 1, 'firing']);
    assert.equal(bodies[0].finding.evidence.service, 'agent');
    const alerts = async () => JSON.parse((await get(port, '/api/alerts')).text);
    await eventually('the other buckets are in the same alert', async () => (await alerts())[0].finding.also_in.length === 2);
    await eventually('the action', () => fs.existsSync(out) && fs.readFileSync(out, 'utf8').length > 1);
    assert.equal(fs.readFileSync(out, 'utf8'), 'agent 42 41\n');
    assert.equal(JSON.parse(fs.readFileSync(`${out}.json`, 'utf8')).fingerprint, bodies[0].fingerprint);
    assert.deepEqual((await alerts()).map((a) => [a.status, a.acknowledged]), [['firing', false]]);
    const acknowledge = (id) => fetch(`http://127.0.0.1:${port}/api/alerts?id=${id}`, { method: 'POST' }).then((answer) => answer.status);
    assert.deepEqual([await acknowledge('1'), await acknowledge('x'), await acknowledge(bodies[0].fingerprint)], [404, 400, 204]);
    assert.equal((await alerts())[0].acknowledged, true);
    await rollBack();
    await send({ count: 600, versions: ['41'] });
    await eventually('its end', () => bodies.length >= 2);
    assert.equal(bodies[1].status, 'resolved');
    assert.deepEqual([await metric(port, 'sonde_alerts_firing'), await metric(port, 'sonde_actions_total')], [0, 1]);
    const history = fs.readFileSync(path.join(folder, 'alerts.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line).event);
    assert.deepEqual(history, ['firing', 'acknowledged', 'resolved']);
    running.child.kill('SIGTERM');
    assert.equal((await running.ended).status, 0);
});

test('actions are logged in a chain that shows what was changed; a dry run runs nothing', async (t) => {
    const folder = temporary(t), audit = path.join(folder, 'audit.jsonl'), out = path.join(folder, 'stopped');
    const { running, send } = await serve(t, folder, '--action', `touch ${out}`, '--action-dry-run');
    await roll(send);
    await eventually('the log', () => fs.existsSync(audit) && fs.readFileSync(audit, 'utf8').endsWith('\n'));
    running.child.kill('SIGTERM');
    await running.ended;
    assert.ok(!fs.existsSync(out));
    const [line] = fs.readFileSync(audit, 'utf8').trim().split('\n').map((l) => JSON.parse(l));
    assert.equal(line.outcome, 'dry run');
    assert.match(line.previous, /^0{64}$/);
    assert.match(line.hash, /^[0-9a-f]{64}$/);
    fs.writeFileSync(audit, fs.readFileSync(audit, 'utf8').replace('dry run', 'done'));
    const { status, stderr } = await sonde(t, 'serve', '--listen', '127.0.0.1:0', '--data', folder, '--no-store', '--action', 'true').ended;
    assert.equal(status, 1);
    assert.match(stderr, /audit\.jsonl: line 1 does not follow/);
});

test('an action that hangs is killed with its children', async (t) => {
    const folder = temporary(t), audit = path.join(folder, 'audit.jsonl');
    const { running, send } = await serve(t, folder, '--action', 'sleep 1000 & sleep 1000', '--action-timeout', '0.3');
    await roll(send);
    await eventually('the log', () => fs.existsSync(audit) && fs.readFileSync(audit, 'utf8').endsWith('\n'));
    assert.equal(JSON.parse(fs.readFileSync(audit, 'utf8')).outcome, 'timed out');
    running.child.kill('SIGTERM');
    assert.equal((await running.ended).status, 0);
});

test('Slack and PagerDuty get the bodies that they take', async (t) => {
    const slack = await hook(t), pager = await hook(t);
    const one = await serve(t, temporary(t), '--webhook', slack.url, '--webhook-format', 'slack', '--evidence-url', 'http://sonde.example/evidence');
    const two = await serve(t, temporary(t), '--webhook', pager.url, '--webhook-format', 'pagerduty', '--routing-key', 'a-key');
    await Promise.all([roll(one.send), roll(two.send)]);
    await eventually('both', () => slack.bodies.length && pager.bodies.length);
    const [{ text, blocks }] = slack.bodies, [event] = pager.bodies;
    assert.match(text, /agent POST \/disks .* times slower/);
    assert.deepEqual([blocks[0].type, blocks[0].text.type], ['section', 'mrkdwn']);
    assert.match(blocks[0].text.text, /agent createDisk[^]*&gt;[^]*http:\/\/sonde\.example\/evidence/);
    assert.deepEqual([event.routing_key, event.event_action, event.payload.source, event.payload.severity, event.payload.component], ['a-key', 'trigger', 'sonde', 'critical', 'agent']);
    assert.match(event.dedup_key, /^sonde-[0-9a-f]{16}$/);
});
