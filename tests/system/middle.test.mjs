// Attached exactly while requests are served: what could not be known of them is told, and nothing is made up.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { SONDE, finish, kill, root, sonde, start, temporary } from './helper.mjs';

const HOLDER = path.join(root, 'tests', 'system', 'programs', 'holder.js');

test('in the middle of requests', async (t) => {
    const trace = path.join(temporary(t), 'trace'), node = start(t, process.execPath, [HOLDER]);
    const [, port] = await node.until(/listening (\d+)/, { stream: 'stdout' });
    const ask = (url) => fetch(`http://127.0.0.1:${port}${url}`).then((response) => response.text());
    const before = [ask('/held-1'), ask('/held-2')];
    await node.until(/held-[^]*held-/, { stream: 'stdout' });
    const recorder = sonde(t, 'attach', '-o', trace, node.pid);
    await recorder.until(/attached to 1 process/);
    await ask('/release');
    assert.deepEqual(await Promise.all(before), ['held', 'held']);
    const after = ask('/held-3');
    await node.until(/held-3/, { stream: 'stdout' });
    await ask('/whole');
    await node.until(/answered \/whole/, { stream: 'stdout' }); // its client may have the answer before the call that wrote it returns
    kill(recorder.pid, 'SIGINT');
    assert.equal((await recorder.ended).status, 0, recorder.stderr);
    await ask('/release');
    await after;
    const { stdout } = await finish(t, SONDE, ['report', '--json', trace]);
    const { attribution, requests, findings } = JSON.parse(stdout);
    assert.equal(attribution.begun_before_count, 2, 'requests that had begun before are counted');
    const states = Object.fromEntries(requests.map((request) => [request.path, request.state]));
    assert.deepEqual(states, { '/release': 'finished', '/held-3': 'unfinished', '/whole': 'finished' }, 'they are no requests of the trace, and one that was still open is unfinished');
    assert.doesNotMatch(JSON.stringify(findings), /held-[12]/);
    const text = await finish(t, SONDE, ['report', trace]);
    assert.match(text.stdout.replace(/\s+/g, ' '), /2 responses belonged to requests that had begun before the recording did/);
});
