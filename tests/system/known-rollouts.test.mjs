// Every rollout of rollouts.mjs once: verdict, culprit, version to go back to, severity and the gate's exit status.
// `make rollouts` tries them with many seeds.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { finish, SONDE, temporary } from './helper.mjs';
import { Fleet, SCENARIOS, judgeAnswer, makeRollout } from './rollouts.mjs';

for (const name of Object.keys(SCENARIOS))
    test(`known rollout: ${name}`, { todo: SCENARIOS[name].todo }, async (t) => {
        const file = path.join(temporary(t), 'spans.jsonl'), rollout = makeRollout(name, 1, file);
        const { status, stdout, stderr } = await finish(t, SONDE, ['diagnose', '--json', '--gate', ...rollout.args, file]);
        assert.ok(stdout, stderr);
        assert.deepEqual(judgeAnswer(rollout, status, JSON.parse(stdout)), []);
    });

test('a database at four times, against a normal period: the gate sees it, and is quiet when nothing differs', async (t) => {
    const folder = temporary(t);
    const period = (name, seed, factor) => {
        const fleet = new Fleet(seed), file = path.join(folder, `${name}.jsonl`);
        for (let i = 0; i < 600; i++)
            fleet.run(i * 1000, { who: { service: 'shop', version: '1', host: `h${i % 3}` }, name: 'GET /', kind: 'server', own: 10 * fleet.noise(), calls: [{ who: { service: 'db', version: '1', host: 'db' }, client: true, name: 'query', kind: 'server', own: 5 * factor * fleet.noise() }] });
        fleet.write(file);
        return file;
    };
    const normal = period('normal', 1, 1), diagnose = (file) => finish(t, SONDE, ['diagnose', '--json', '--gate', '--normal', normal, file]);
    const bad = await diagnose(period('bad', 2, 4.1)), good = await diagnose(period('good', 3, 1));
    assert.equal(bad.status, 10, bad.stderr);
    const [finding] = JSON.parse(bad.stdout).findings;
    assert.deepEqual([finding.kind, finding.evidence.service], ['suspect-service', 'db']);
    assert.ok(Math.abs(finding.evidence.ratio - 4.1) < 0.6, `${finding.evidence.ratio} times`);
    assert.match(finding.title, / (3\.[6-9]|4\.\d) times as long/);
    assert.equal(good.status, 0, good.stdout);
});
