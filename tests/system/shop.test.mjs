// The sample shop: each planted fault is found, with its cause and its victims; a healthy shop raises no warning.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SHOP, outline, recorded, reportOf, root, temporary } from './helper.mjs';

const COUPON = path.join(root, 'examples', 'shop', 'services', 'coupon.js');
const COUPON_LINE = fs.readFileSync(COUPON, 'utf8').split('\n').findIndex((line) => line.includes('VULNERABLE.test(')) + 1;

// Runs the traced shop: { report, stdout } of `sonde run`.
async function shop(t, faults, seconds, ...options) {
    const folder = path.join(temporary(t), 'trace');
    const { stdout } = await recorded(t, folder, '--', process.execPath, SHOP, '--fault', faults, '--duration', seconds, ...options);
    assert.match(stdout, /^shop: \d+ requests, 0 unanswered, 0 failed/m, 'the shop did not notice');
    return { report: await reportOf(t, folder, [0, 4]), stdout };
}

const serious = (report) => report.findings.filter((finding) => finding.severity !== 'info');
const PLANTED = {
    regexp(report) {
        const finding = serious(report).find((f) => f.kind === 'blocking-regexp');
        assert.ok(finding, outline(report));
        assert.match(finding.where.service, /orders/);
        assert.match(finding.where.source.file, /coupon\.js$/);
        assert.equal(finding.where.source.line, COUPON_LINE);
        assert.ok(JSON.stringify(finding).includes('([A-Z0-9]+-?)+'), 'the pattern');
        assert.ok(finding.affected.some((a) => /\/orders/.test(a.path)), JSON.stringify(finding.affected));
        assert.ok(finding.affected_count > 1, 'others waited too');
    },
    redis(report) {
        const finding = serious(report).find((f) => f.kind === 'redis-slow-command');
        assert.ok(finding, outline(report));
        assert.match(finding.where.service, /redis/);
        const text = JSON.stringify(finding);
        assert.match(text, /\bsort\b/i, 'the command');
        assert.match(text, /catalogue/, 'its caller');
        assert.ok(finding.affected.length > 0 && finding.affected_count > 1, 'who waited');
        assert.ok(finding.affected.some((a) => a.path !== '/bestsellers'), 'others than the caller');
    },
    pool(report) {
        const finding = serious(report).find((f) => f.kind === 'thread-pool-starved');
        assert.ok(finding, outline(report));
        assert.match(finding.where.service, /gateway/);
        const text = JSON.stringify(finding);
        assert.match(text, /\/login/, 'who filled it');
        assert.ok(finding.affected.some((a) => a.path === '/'), `pages waited: ${JSON.stringify(finding.affected)}`);
    },
};

test('all faults at once: each is named, with cause and victims', async (t) => {
    const { report, stdout } = await shop(t, 'all', 16);
    for (const check of Object.values(PLANTED)) check(report);
    assert.ok(stdout.includes(`coupon.js:${COUPON_LINE}`), 'also in words');
    assert.match(stdout, /\bsort\b/i);
    assert.match(stdout, /thread-pool-starved/);
    for (const endpoint of ['/orders', '/bestsellers', '/login', '/products']) assert.ok(stdout.includes(endpoint), `${endpoint} is missing in the table`);
});

for (const fault of Object.keys(PLANTED)) {
    test(`only ${fault}: it is found, and no other fault is`, async (t) => {
        const { report } = await shop(t, fault, 12);
        PLANTED[fault](report);
        const kinds = { regexp: 'blocking-regexp', redis: 'redis-slow-command', pool: 'thread-pool-starved' };
        for (const [other, kind] of Object.entries(kinds))
            if (other !== fault) assert.ok(!serious(report).some((f) => f.kind === kind), `${kind} without that fault:\n${outline(report)}`);
    });
}

const noDatabase = !fs.existsSync('/usr/sbin/mariadbd') && 'MariaDB is not installed (make deps)';

test('a slow database behind two services: its address is named, once, with who waited in both', { skip: noDatabase }, async (t) => {
    const { report } = await shop(t, 'database', 8, '--database');
    // Where its callers pile up, as on a busy machine, they also wait for one of the connections to it.
    const all = serious(report), slow = all.filter((f) => f.kind !== 'connection-pool-starved' || !f.title.includes(all[0].evidence.peer));
    assert.deepEqual(slow.map((f) => f.kind), ['slow-peer'], outline(report));
    assert.equal(slow[0].where.service, 'stock');
    assert.equal(slow[0].evidence.call, 'SELECT');
    assert.match(slow[0].evidence.peer, /^127\.0\.0\.1:\d+$/);
    assert.deepEqual([...new Set(slow[0].affected.map((a) => `${a.service} ${a.role}`))].sort(), ['gateway waited upstream', 'stock waited']);
    const request = report.requests.find((r) => r.service === 'gateway' && r.route === '/stock/:id');
    assert.equal(request.critical_path.dominant, 'waits for an answer', JSON.stringify(request.critical_path));
    assert.ok(request.critical_path.steps.some((s) => s.service === 'stock' && s.name === slow[0].evidence.call), 'the path goes through both');
});

test('a healthy shop raises no warning', async (t) => {
    const { report } = await shop(t, '', 12);
    assert.deepEqual(serious(report).map((f) => `${f.severity} ${f.kind}: ${f.title}`), []);
    assert.ok(report.requests.length > 0);
    assert.deepEqual(report.missing.filter((m) => /is hooked and gave/.test(m.why)), []);
});
