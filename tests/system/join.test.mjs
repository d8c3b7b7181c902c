// Whose Redis command is it? Scored against the truth: 50 requests in flight over one pipelined connection,
// descriptors and ports used again, every command recognisable by the size of its arguments.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, finish, reportOf, root, temporary } from './helper.mjs';

const ROUNDS = 9;
const installed = fs.existsSync(path.join(root, 'examples/shop/node_modules/ioredis'));

// What joins.js makes of request n and step; and back.
const numberOf = (bytes) => ({ n: Math.floor((bytes - 200) / 3), step: (bytes - 200) % 3 });

// Bytes of a command on the wire, from its name and the sum of its arguments' lengths.
function wireBytes(name, bytes) {
    const lengths = name === 'GET' ? [3, bytes - 3] : [3, 1, bytes - 4];
    return `*${lengths.length}\r\n`.length + lengths.reduce((sum, n) => sum + `$${n}\r\n`.length + n + 2, 0);
}

function score(requests) {
    const result = { spans: 0, joined: 0, joinedWrong: 0, proved: 0, provedWrong: 0, inferred: 0, inferredWrong: 0 };
    for (const request of requests) {
        const n = Number(request.path.slice(3));
        for (const span of request.spans.filter((s) => s.layer === 'redis')) {
            result.spans++;
            if (!span.argument_bytes) continue;
            result.joined++;
            // The sender counted the bytes that it wrote, Redis those of the arguments: they are of one command.
            if (span.write_messages === 1 && span.written_bytes !== wireBytes(span.name, span.argument_bytes)) result.joinedWrong++;
            const whose = numberOf(span.argument_bytes);
            result[span.known]++;
            if (whose.n !== n) result[`${span.known}Wrong`]++;
        }
    }
    return result;
}

for (const mode of ['auto', 'bounded']) test(`every command is joined to the write that sent it, none is given to a wrong request (--context ${mode})`, { skip: !installed && 'ioredis is not installed in examples/shop (make deps)' }, async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const program = path.join(root, 'tests/system/programs/joins.js');
    const run = await finish(t, SONDE, ['record', '--quiet', '--context', mode, '-o', folder, '--', process.execPath, program, String(ROUNDS)]);
    assert.ok([0, 4].includes(run.status), run.describe());
    const truth = JSON.parse(run.stdout);
    const { attribution, losses } = await reportOf(t, folder, [0, 4]);
    const spans = await finish(t, SONDE, ['spans', '--json', '--slowest', '100000', folder]);
    const requests = JSON.parse(spans.stdout).requests.filter((r) => r.path.startsWith('/n/'));

    const s = score(requests);
    t.diagnostic(`${attribution.redis_commands_count} commands, ${attribution.redis_joined_count} joined to their sender; ` +
        `of the requests' ${truth.commands}: ${s.proved} proved, ${s.inferred} inferred, ${attribution.ambiguous_count} ambiguous; ` +
        `wrong: ${s.joinedWrong} joins, ${s.provedWrong} proved, ${s.inferredWrong} inferred`);
    // Nothing is ever claimed wrongly, also where events were lost.
    assert.equal(s.joinedWrong, 0);
    assert.equal(s.provedWrong, 0);
    assert.equal(s.inferredWrong, 0);
    if (losses.length) return t.diagnostic(`events were lost on this machine (${JSON.stringify(losses)}): recall is not scored`);
    assert.equal(requests.length, truth.requests);
    assert.ok(requests.every((r) => r.status === 200 && r.state === 'finished'));
    // The join finds every command.
    assert.equal(attribution.redis_joined_count, attribution.redis_commands_count);
    assert.ok(attribution.redis_commands_count >= truth.commands);
    assert.equal(s.joined, s.spans);
    // The context follows a request over every await. Without it, only a request's first command, which is sent in its
    // own callback, is proved: what an await continues is ambiguous.
    assert.ok(s.proved >= (mode === 'auto' ? truth.commands * 0.999 : truth.requests));
    if (mode === 'bounded') assert.ok(attribution.ambiguous_count > 0);
    assert.ok(s.proved + s.inferred + attribution.ambiguous_count >= truth.commands);
});
