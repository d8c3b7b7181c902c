// serve compares today with yesterday and last week: what is slower than at the same hour of the days before, without a new version.
// Spans by OpenTelemetry's SDK with chosen times: eight days of a shop, some hours of each.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { eventually, sonde, temporary } from './helper.mjs';
import { Fleet } from './rollouts.mjs';
import { get, metric, post } from './spans.mjs';

const DAYS = 8, HOURS = 6, REQUESTS = 130, HOUR_MS = 3600e3;

// Requests of shop, which calls cart (an hour more than HOURS on the last day, so that its last hour is whole). own(day, hour): how long cart
// takes, in ms; fails: the share of its requests that fail.
function week(seed, own, { fails = () => 0, version = () => '1.4.0' } = {}) {
    const fleet = new Fleet(seed);
    for (let day = 0; day <= DAYS; day++)
        for (let hour = 0; hour < HOURS + (day === DAYS ? 1 : 0); hour++)
            for (let i = 0; i < REQUESTS; i++) {
                const at = (day * 24 + hour + (i + fleet.random()) / REQUESTS) * HOUR_MS, host = i % 3;
                const cart = { who: { service: 'cart', version: version(day, hour), host: `cart-${host}` }, name: 'GET /cart', kind: 'server', client: true, own: own(day, hour) * fleet.noise() * fleet.level(`cart-${host}`), error: fleet.random() < fails(day, hour) };
                fleet.run(at, { who: { service: 'shop', version: '2.0.0', host: `shop-${host}` }, name: 'GET /', kind: 'server', own: 4 * fleet.noise(), calls: [cart] });
            }
    return fleet;
}

async function judged(t, fleet) {
    const folder = temporary(t), file = path.join(folder, 'spans.jsonl');
    fleet.write(file, 300);
    const running = sonde(t, 'serve', '--listen', '127.0.0.1:0', '--data', path.join(folder, 'data'), '--no-store', '--idle-seconds', '0.1', '--every-seconds', '0.3', '--action', 'true');
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    for (const line of fs.readFileSync(file, 'utf8').trim().split('\n')) assert.equal((await post(Number(port), line)).status, 200);
    const requests = (DAYS + 1) * HOURS * REQUESTS + REQUESTS;
    await eventually('all is counted', async () => (await metric(port, 'sonde_requests_total')) >= requests);
    const looks = await metric(port, 'sonde_looks_total');
    await eventually('it was looked at', async () => (await metric(port, 'sonde_looks_total')) >= looks + 2);
    const history = path.join(folder, 'data', 'alerts.jsonl');
    const fired = () => (fs.existsSync(history) ? fs.readFileSync(history, 'utf8').trim().split('\n').map((l) => JSON.parse(l)).filter((l) => l.event === 'firing') : []);
    return { port, fired, data: path.join(folder, 'data'), report: JSON.parse((await get(port, '/api/diagnosis')).text) };
}

const last = (day, hour) => day === DAYS && hour >= HOURS - 1;
const noon = (hour) => 1 + 0.6 * Math.sin((Math.PI * hour) / HOURS); // a day's load

test('a service that is slower than yesterday and a week ago is an alert; its caller is none', async (t) => {
    const { fired, port, data, report } = await judged(t, week(1, (day, hour) => 10 * noon(hour) * (last(day, hour) ? 2 : 1)));
    assert.deepEqual(report.findings.map((f) => [f.kind, f.evidence.service]), [['slower-than-before', 'cart']]);
    const [finding] = report.findings, { evidence } = finding;
    assert.notEqual(evidence.measure, 'errors');
    assert.equal(evidence.days_count, 8);
    assert.equal(evidence.hours_count, 1);
    assert.ok(evidence.ratio > 1.5 && evidence.ratio < 2.2, `${evidence.ratio}`);
    assert.ok(evidence.level_ns > 1.6 * evidence.yesterday_ns && evidence.level_ns > 1.6 * evidence.last_week_ns, JSON.stringify(evidence));
    assert.equal(evidence.requests_count, REQUESTS);
    assert.match(finding.title, /^cart GET \/cart.* takes.*: at this hour it was .* yesterday and .* a week ago$/);
    assert.match(finding.detail, /2026-09-22 14:00 UTC.*No version came since then\.$/);
    await eventually('the alert', () => fired().length);
    assert.deepEqual(fired().map((alert) => alert.title), [finding.title]);
    assert.deepEqual([await metric(port, 'sonde_actions_total'), fs.existsSync(path.join(data, 'audit.jsonl'))], [0, false], 'there is no rollout to stop');
});

test('errors of today', async (t) => {
    const { fired, report } = await judged(t, week(2, () => 10, { fails: (day, hour) => (last(day, hour) ? 0.5 : 0.02) }));
    assert.deepEqual(report.findings.map((f) => [f.kind, f.evidence.service, f.evidence.measure]), [['slower-than-before', 'cart', 'errors']]);
    assert.match(report.findings[0].title, /fails in .* % of the requests: at this hour it was .* % yesterday/);
    await eventually('the alert', () => fired().length);
});

for (const [name, fleet, quiet] of [
    ['a day that is like the others, with its load', () => week(3, (_, hour) => 10 * noon(hour)), true],
    ['a day of the week that is slow every week', () => week(4, (day) => 10 * (day % 7 === DAYS % 7 ? 1.8 : 1)), true],
    ['slow since yesterday, which was an alert then', () => week(5, (day) => 10 * (day >= DAYS - 1 ? 1.8 : 1)), false],
])
    test(`${name}: nothing`, async (t) => {
        const { fired, report } = await judged(t, fleet());
        assert.deepEqual(report.findings.map((f) => f.title), []);
        if (quiet) assert.deepEqual(fired().map((alert) => alert.title), []);
    });

test('a new version that is slower is blamed itself, and not once more', async (t) => {
    const newer = (day, hour) => day === DAYS && hour >= 2;
    const fleet = week(6, (day, hour) => 10 * (newer(day, hour) ? 2 : 1), { version: (day, hour) => (newer(day, hour) ? '1.5.0' : '1.4.0') });
    const { report } = await judged(t, fleet);
    assert.deepEqual(report.findings.map((f) => [f.kind, f.evidence.service, f.evidence.version]), [['regression', 'cart', '1.5.0']]);
});
