// Which request does an operation belong to, in services that ask real stores, threads and processes through real clients? Attached to
// under load, and scored against the program's own book. bench/contexts.mjs does it for all kinds of applications, and for longer.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { NODES, freePort, root, start, temporary, versionOf } from './helper.mjs';
import { OWN, measure } from './book.mjs';

const skip = !fs.existsSync(path.join(root, 'tests/applications/node_modules/piscina')) && 'its packages are not installed in tests/applications (make deps)';
// Where V8 and Node carry all of it, all is proved. The others mix requests up in queues of their own.
const CARRIED = ['ioredis', 'files', 'worker', 'child', 'child behind a lock'], MIXED = ['shared lock', 'piscina', 'full pipe', 'thenables', 'http, four sockets'];

for (const node of NODES)
    for (const [at, name] of [...CARRIED, ...MIXED].entries()) {
        const own = OWN[at % OWN.length];
        test(`${name}: none is given to a wrong request, own AsyncLocalStorage made: ${own} (${versionOf(node)})`, { skip }, async (t) => {
            const redis = start(t, 'redis-server', ['--port', await freePort(), '--bind', '127.0.0.1', '--save', '', '--dir', temporary(t)]);
            const [, port] = await redis.until(/port=(\d+)/, { stream: 'stdout' });
            await redis.until(/Ready to accept/, { stream: 'stdout' });
            const { missing, score, mixed, mode, losses, contradictions } = await measure(t, temporary(t), { node, own, name, config: { redis: Number(port) }, count: 120, those: [redis.pid] });
            if (missing) return t.skip(missing);
            t.diagnostic(`${score.proved} of ${score.operations} proved, ${score.inferred} inferred, ${score.ambiguous} ambiguous (${mode}, ${contradictions} contradictions)`);
            assert.deepEqual(score.wrong, []);
            assert.equal(mixed, 0, "the program's own AsyncLocalStorage is right");
            if (losses.length) return;
            if (CARRIED.includes(name)) assert.ok(score.settled_proved >= score.settled_operations * 0.999, JSON.stringify(score));
        });
    }
