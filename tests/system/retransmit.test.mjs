// Packets that are lost: who waits for them is told so, and whoever had not got them is not blamed.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { eventually, isRoot, kill, outline, reportOf, root, sonde, start, temporary } from './helper.mjs';

const PROGRAMS = path.join(root, 'tests', 'system', 'programs');
const SYN_SENT = '02';

// How often the kernel has sent again what nobody acknowledges, of the connections to that port: /proc/net/tcp.
function resent(port, state) {
    const hex = port.toString(16).toUpperCase().padStart(4, '0');
    const rows = fs.readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1).map((line) => line.trim().split(/\s+/));
    return rows.filter((row) => row[2]?.endsWith(`:${hex}`) && (!state || row[3] === state)).reduce((sum, row) => sum + parseInt(row[6], 16), 0);
}

async function lossyPeer(t) {
    const peer = start(t, 'python3', [path.join(PROGRAMS, 'lossy_peer.py')], { stdio: ['pipe', 'pipe', 'pipe'] });
    const [, port] = await peer.until(/listening (\d+)/, { stream: 'stdout' });
    let told = 0;
    const tell = async (what) => {
        peer.child.stdin.write(`${what}\n`);
        await peer.until(new RegExp(`(done \\w+\\s+){${++told}}`), { stream: 'stdout' });
    };
    return { port: Number(port), tell };
}

// A request while packets are lost, until the kernel has sent one again in vain. Returns how long it took, in ns.
async function lose(peer, url, state) {
    await peer.tell('drop');
    const begun = process.hrtime.bigint(), answer = fetch(url);
    await eventually('a segment was sent again', () => resent(peer.port, state) > 0);
    await peer.tell('pass');
    assert.equal(await (await answer).text(), 'answered');
    return Number(process.hrtime.bigint() - begun);
}

function check(report, peer, call, count, tookNs) {
    const f = report.findings.find((one) => one.kind === 'tcp-retransmissions' && one.evidence.call === call);
    assert.ok(f, outline(report));
    assert.equal(f.evidence.peer, `127.0.0.1:${peer.port}`);
    assert.equal(f.evidence.calls_count, count);
    assert.ok(f.evidence.retransmissions_count >= count, JSON.stringify(f.evidence));
    // The kernel waits 200 ms at least before it sends anything again.
    assert.ok(f.evidence.waited_ns >= count * 0.19e9 && f.evidence.waited_ns <= tookNs, `${f.evidence.waited_ns} of ${tookNs} ns`);
    assert.equal(f.severity, 'warning');
    const late = report.findings.find((one) => one.kind === 'slow-peer' && one.evidence.call === call);
    assert.ok(!late || late.evidence.waited_ns <= tookNs - f.evidence.waited_ns, outline(report));
    return f;
}

test('packets and connects that are lost', { skip: !isRoot && 'needs root, to load eBPF programs' }, async (t) => {
    const peer = await lossyPeer(t), out = path.join(temporary(t), 'trace');
    const run = sonde(t, 'run', '-o', out, '--', process.execPath, path.join(PROGRAMS, 'retransmit.js'), peer.port);
    const [, port, pid] = await run.until(/listening (\d+) (\d+)/, { stream: 'stdout' });
    const url = `http://127.0.0.1:${port}`;
    for (let i = 0; i < 5; i++) await (await fetch(`${url}/ask`)).text();
    let askNs = 0;
    for (let i = 0; i < 2; i++) askNs += await lose(peer, `${url}/ask`);
    const connectNs = await lose(peer, `${url}/new`, SYN_SENT);
    kill(Number(pid), 'SIGTERM');
    await run.ended;
    const report = await reportOf(t, out, [0, 4]);
    check(report, peer, `127.0.0.1:${peer.port}`, 2, askNs);
    const connect = check(report, peer, 'connecting', 1, connectNs);
    assert.match(connect.title, /did not answer connects/);
    assert.deepEqual(connect.affected.map((a) => a.route), ['/new']);
});

const [major, minor] = os.release().split('.').map(Number);
const older = major < 6 || (major === 6 && minor < 1);

test('packets of a connection that was there before', { skip: (!isRoot && 'needs root, to load eBPF programs') || (older && 'needs Linux 6.1') }, async (t) => {
    const peer = await lossyPeer(t), out = path.join(temporary(t), 'trace');
    const service = start(t, process.execPath, [path.join(PROGRAMS, 'retransmit.js'), peer.port]);
    const [, port, pid] = await service.until(/listening (\d+) (\d+)/, { stream: 'stdout' });
    const url = `http://127.0.0.1:${port}/ask`;
    await (await fetch(url)).text();
    const attached = sonde(t, 'attach', '-o', out, pid);
    await attached.until(/Ctrl-C/);
    await (await fetch(url)).text();
    let tookNs = 0;
    for (let i = 0; i < 2; i++) tookNs += await lose(peer, url);
    kill(attached.pid, 'SIGINT');
    await attached.ended;
    check(await reportOf(t, out, [0, 4]), peer, `127.0.0.1:${peer.port}`, 2, tookNs);
});
