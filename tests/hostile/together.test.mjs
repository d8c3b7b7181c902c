// Several sondes that come to one process at the same time: one traces it, the others are told.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { SONDE, eventually, freePort, kill, start, temporary } from '../system/helper.mjs';
import { isAlive, redisAnswers } from './helper.mjs';

const ROUNDS = 5, SONDES = 4;

test(`${SONDES} sondes at once, ${ROUNDS} times: one of them traces, the process is none the worse`, async (t) => {
    for (let round = 0; round < ROUNDS; round++) {
        const folder = temporary(t), port = await freePort();
        const redis = start(t, 'redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder]);
        await redis.until(/Ready to accept connections/, { stream: 'stdout' });
        const sondes = Array.from({ length: SONDES }, (_, i) => start(t, SONDE, ['attach', '--no-kernel', '-o', path.join(folder, `trace-${i}`), redis.pid]));
        const refused = () => sondes.filter((sonde) => sonde.over), tracing = () => sondes.filter((sonde) => !sonde.over);
        await eventually('all but one are told', async () => {
            assert.ok(await redisAnswers(port) || isAlive(redis.pid), `Redis lives: ${redis.signal}\n${redis.stdout.slice(-1500)}`);
            assert.ok(tracing().length, refused().map((sonde) => sonde.stderr).join(''));
            return tracing().length === 1;
        });
        for (const sonde of refused()) {
            assert.equal(sonde.status === 0, false, sonde.stderr);
            assert.match(sonde.stderr, /traced already, by sonde \d+/);
        }
        const [owner] = tracing();
        await eventually('Redis answers', () => redisAnswers(port));
        kill(owner.pid, 'SIGINT');
        const { status, stderr } = await owner.ended;
        assert.ok(status === 0 || status === 4, `${status} ${stderr}`);
        assert.ok(await redisAnswers(port), 'Redis answers afterwards');
        kill(redis.pid, 'SIGKILL');
        await redis.ended;
    }
});
