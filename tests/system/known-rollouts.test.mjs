// Every rollout of rollouts.mjs once: verdict, culprit, version to go back to, severity and the gate's exit status.
// `make rollouts` tries them with many seeds.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { finish, SONDE, temporary } from './helper.mjs';
import { SCENARIOS, judgeAnswer, makeRollout } from './rollouts.mjs';

for (const name of Object.keys(SCENARIOS))
    test(`known rollout: ${name}`, { todo: SCENARIOS[name].todo }, async (t) => {
        const file = path.join(temporary(t), 'spans.jsonl'), rollout = makeRollout(name, 1, file);
        const { status, stdout, stderr } = await finish(t, SONDE, ['diagnose', '--json', '--gate', ...rollout.args, file]);
        assert.ok(stdout, stderr);
        assert.deepEqual(judgeAnswer(rollout, status, JSON.parse(stdout)), []);
    });
