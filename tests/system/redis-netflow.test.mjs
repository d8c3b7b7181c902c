// `sonde redis --netflow`: the life cycles of requests through a cluster whose nodes are recorded apart, with clocks that
// differ. How long stages take is for bench/redis-netflow.mjs; here: that every one is found, joined and in order.
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { SONDE, finish, freePort, temporary } from './helper.mjs';
import { Cluster, clockError, loseRecords, shiftClock } from './redis-cluster.mjs';

const isFree = (port) => new Promise((resolve) => {
    const server = net.createServer().listen(port, '127.0.0.1', () => server.close(() => resolve(true))).on('error', () => resolve(false));
});

const NODES = 3, EACH = 51, PPM = [0, 8, -5, 12];

test('life cycles are complete, whatever the clocks of nodes and client say', async (t) => {
    const folder = temporary(t), recordings = [...Array(NODES).keys()].map((n) => `node-${n}`).concat('client');
    // The port of a node's bus is 10,000 above its own.
    const ports = [];
    while (ports.length < NODES) {
        const port = await freePort();
        if (port < 55_000 && await isFree(port + 10_000)) ports.push(port);
    }
    const cluster = new Cluster(SONDE, `${folder}`, NODES, (n) => ({ address: '127.0.0.1', port: ports[n], within: [] }), ['--no-kernel']);
    t.after(() => cluster.end());
    await cluster.start();
    const before = Number(process.hrtime.bigint()), { at } = await cluster.load(EACH);
    await cluster.stop();
    const factors = recordings.map((name, n) => shiftClock(`${folder}/${name}`, PPM[n]));
    const { status, stdout, describe } = await finish(t, SONDE, ['redis', '--netflow', '--json', folder]);
    assert.equal(status, 0, describe());
    const { clocks, nodes: rows, commands, incomplete, unmatched_bus_messages_count: unmatched } = JSON.parse(stdout);
    const rowsOf = (command, path) => rows.filter((row) => row.command === command && row.path.startsWith(path));
    const sum = (list, field) => list.reduce((total, row) => total + row[field], 0);
    const MESSAGE = { same: 'message to a subscriber of the node', other: 'message to a subscriber of another' };
    t.diagnostic(JSON.stringify({ incomplete, unmatched, clocks }));

    // In one of some thirty runs the clocks of so short recordings are known so badly that one life cycle is not joined. It is counted, with
    // its reason; none is counted that was not.
    const missing = Object.values(incomplete).reduce((total, count) => total + count, 0);
    assert.ok(missing <= 2, JSON.stringify(incomplete));
    const complete = (list, expected, what) => {
        const count = sum(list, 'count');
        assert.ok(count <= expected && count >= expected - missing, `${what}: ${count} of ${expected}, ${JSON.stringify(incomplete)}`);
    };
    for (const command of ['get', 'set', 'publish']) {
        const replies = rowsOf(command, 'reply');
        complete(replies, EACH, command);
        assert.equal(sum(replies, 'from_traced_clients_count'), sum(replies, 'count'));
        assert.equal(replies.length, NODES, 'each node has its own row');
    }
    complete(rowsOf('subscribe', 'reply'), EACH + 2 * NODES, 'subscribe');
    for (const path of Object.values(MESSAGE)) complete(rowsOf('publish', path), EACH, path);
    assert.equal(sum(rows, 'disordered_count'), 0);
    const names = (row) => row.stages.map(({ name }) => name);
    assert.deepEqual(names(rowsOf('get', 'reply')[0]), ['network and socket', 'behind other requests', 'reading', 'executing', 'before it is written', 'writing', 'network and socket, back']);
    assert.deepEqual(names(rowsOf('publish', MESSAGE.other)[0]), ['network and socket', 'behind other requests', 'reading', 'executing, until it is on the bus', 'bus: queued', 'bus: writing', 'bus: network and socket', 'bus: behind other work', 'bus: processing', 'before it is written', 'writing', 'network and socket, back']);
    // The stages of each life follow one another without a gap.
    for (const row of rows.filter(({ count }) => count)) assert.equal(row.stages.reduce((total, stage) => total + stage.of_slowest_ns, 0), row.worst_ns, `${row.command}, ${row.path}`);

    for (const { command, path, count } of commands) assert.equal(count, sum(rowsOf(command, path), 'count'), `${command}, ${path}: the sum over the nodes`);

    assert.equal(clocks.length, NODES + 1);
    const ordered = recordings.map((name) => clocks.findIndex(({ path }) => path.split('/').includes(name)));
    const reference = ordered.findIndex((index) => clocks[index].reference);
    for (const [n, index] of ordered.entries()) {
        const { error_ns: anywhere, error_between_ns: between } = clocks[index];
        assert.ok(n === reference || (between > 0 && anywhere >= between));
        // Ticks are fitted to each recording's clock with an error of their own. The client's recording begins after the first of these times.
        for (const [time, error] of [[before, anywhere], [at, between]]) {
            const off = clockError(clocks[index], factors[n], factors[reference], time);
            assert.ok(off < error + 20_000, `${recordings[n]}: ${off} ns off, said to be at most ${error}`);
        }
    }

    const shown = await finish(t, SONDE, ['redis', '--netflow', folder]);
    assert.equal(shown.status, 0, shown.describe());
    assert.match(shown.stdout, /Clocks of 4 recordings/);
    assert.match(shown.stdout, /PUBLISH, message to a subscriber of another node: (49|5[01]),/);
    await t.test('records that were lost', (t) => withLosses(t, folder, JSON.parse(stdout)));
    await t.test('a node that was not recorded', (t) => withoutNode(t, folder, JSON.parse(stdout), ports));
});

// The same with every 20th record of the nodes lost: what is left is as true as before.
async function withLosses(t, whole, before) {
    const folder = temporary(t);
    for (const name of [...Array(NODES).keys()].map((n) => `node-${n}`).concat('client')) fs.cpSync(path.join(whole, name), path.join(folder, name), { recursive: true });
    for (let n = 0; n < NODES; n++) assert.ok(loseRecords(path.join(folder, `node-${n}`), 20, (name) => name.startsWith('redis:')) > 0);
    const { status, stdout, describe } = await finish(t, SONDE, ['redis', '--netflow', '--json', folder]);
    assert.equal(status, 4, describe());
    const now = JSON.parse(stdout), slack = 2 * Math.max(...before.clocks.concat(now.clocks).map(({ error_between_ns: error }) => error));
    assert.ok(now.incomplete['events of the node or of the other end were lost'] > 0);
    assert.ok(now.commands.find((row) => row.command === 'get' && row.path === 'reply').count > EACH / 2, JSON.stringify(now.incomplete));
    const published = now.commands.find((row) => row.command === 'publish' && row.path === 'reply');
    assert.ok(published.incomplete_count > 0 && published.count + published.incomplete_count <= before.commands.find((row) => row.command === 'publish' && row.path === 'reply').count);
    for (const row of now.nodes.filter(({ count }) => count)) {
        const all = before.nodes.find((one) => one.command === row.command && one.path === row.path && one.node === row.node), what = `${JSON.stringify(row)}, before ${JSON.stringify(all)}`;
        assert.ok(all && row.count <= all.count, what);
        assert.equal(row.disordered_count, 0, what);
        assert.ok(row.worst_ns <= all.worst_ns + slack, what);
        assert.equal(row.stages.reduce((total, stage) => total + stage.of_slowest_ns, 0), row.worst_ns, what);
    }
}

// The same without the last node's recording. What was published went to that node, too, so that none of it is complete, with that reason; all
// else is as it was: nothing that was not there, and nothing longer than the longest of all.
async function withoutNode(t, whole, before, ports) {
    const ABSENT = 'another node of the cluster was not recorded', folder = temporary(t);
    for (const name of [...Array(NODES - 1).keys()].map((n) => `node-${n}`).concat('client')) fs.cpSync(path.join(whole, name), path.join(folder, name), { recursive: true });
    const { status, stdout, describe } = await finish(t, SONDE, ['redis', '--netflow', '--json', folder]);
    assert.equal(status, 0, describe());
    const now = JSON.parse(stdout), slack = 2 * Math.max(...before.clocks.concat(now.clocks).map(({ error_between_ns: error }) => error));
    const count = (document, command, port) => document.nodes.filter((row) => row.command === command && row.path === 'reply' && row.node.endsWith(`:${port}`)).reduce((sum, row) => sum + row.count, 0);
    t.diagnostic(JSON.stringify({ incomplete: now.incomplete, slack }));
    assert.equal(now.clocks.length, NODES);
    assert.equal(now.complete_count + Object.values(now.incomplete).reduce((sum, lives) => sum + lives, 0), now.flows_count);
    const published = ports.slice(0, -1).reduce((sum, port) => sum + count(before, 'publish', port), 0);
    assert.ok(published > 0 && now.incomplete[ABSENT] >= published - 2, `${published} were published on the others`);
    assert.ok(now.nodes.filter((row) => row.command === 'publish').every(({ count, incomplete_count: incomplete }) => count === 0 && incomplete > 0));
    for (const command of ['get', 'set']) {
        assert.equal(count(now, command, ports.at(-1)), 0);
        for (const port of ports.slice(0, -1)) assert.ok(count(now, command, port) >= count(before, command, port) - 2, `${command}: ${count(now, command, port)} of ${count(before, command, port)}, ${stdout}`);
    }
    for (const row of now.nodes.filter(({ count }) => count)) {
        const all = before.nodes.find((one) => one.command === row.command && one.path === row.path && one.node === row.node), what = `${JSON.stringify(row)}, before ${JSON.stringify(all)}`;
        assert.ok(all && row.count <= all.count + 2, what);
        assert.equal(row.disordered_count, 0, what);
        if (['get', 'set'].includes(row.command)) assert.ok(row.worst_ns <= all.worst_ns + slack, what);
        assert.equal(row.stages.reduce((total, stage) => total + stage.of_slowest_ns, 0), row.worst_ns, what);
    }
}

// Writes to a node and their execution by its replica, and what a WAIT waits for; asked by a client that is not recorded.
test('a write has its way to the replica, and a WAIT there and back', async (t) => {
    const folder = temporary(t), ports = [], WRITES = 60, MOST = WRITES - 5;
    while (ports.length < 2) {
        const port = await freePort();
        if (port < 55_000 && await isFree(port + 10_000)) ports.push(port);
    }
    const cluster = new Cluster(SONDE, folder, 2, (n) => ({ address: '127.0.0.1', port: ports[n], within: [] }), ['--no-kernel']);
    t.after(() => cluster.end());
    await cluster.start({ masters: 1 });
    const said = execFileSync('redis-cli', ['-p', String(ports[0])], { encoding: 'utf8', input: Array.from({ length: WRITES }, (_, n) => `SET key${n % 7} ${'x'.repeat(n + 1)}\nWAIT 1 60000\n`).join('') + 'MULTI\nSET a 1\nINCR a\nEXEC\nSET last 1\nWAIT 1 60000\n' });
    assert.equal(said.split('\n').filter((line) => line === '1').length, WRITES + 1);
    await cluster.stop();
    const read = async (status, from = folder) => {
        const done = await finish(t, SONDE, ['redis', '--netflow', '--json', from]);
        assert.equal(done.status, status, done.describe());
        return JSON.parse(done.stdout);
    };
    const whole = await read(0), row = (document, command, path) => document.commands.find((one) => one.command === command && one.path === path) ?? { count: 0, incomplete_count: 0, stages: [] };
    t.diagnostic(JSON.stringify({ replicated: whole.replicated, incomplete: whole.incomplete, commands: whole.commands.map(({ command, path, count, incomplete_count: missing }) => [command, path, count, missing]) }));
    assert.deepEqual(whole.replicated, { complete: WRITES + 2 });
    assert.equal(row(whole, 'set', 'write to a replica').count, WRITES + 1);
    assert.equal(row(whole, 'exec', 'write to a replica').count, 1, 'all that a transaction replicates is one message');
    assert.equal(row(whole, 'set', 'write to a replica').from_traced_clients_count, 0);
    const waited = row(whole, 'wait', 'to a replica and back'); // a replica also tells every second what it has
    assert.ok(waited.count >= MOST && waited.count <= row(whole, 'wait', 'reply').count, JSON.stringify(waited));
    assert.deepEqual(row(whole, 'set', 'write to a replica').stages.map(({ name }) => name), ['behind other requests', 'reading', 'executing, until it is queued', 'replica: queued', 'replica: writing', 'replica: network and socket', 'replica: behind other work', 'replica: executing']);
    assert.deepEqual(waited.stages.map(({ name }) => name), ['behind other requests', 'reading', 'executing, until a replica is asked', 'replica: queued', 'replica: writing', 'replica: network and socket', 'replica: behind other work', 'replica: executing, until it answers', 'acknowledgement: to the node', 'acknowledgement: until it counts', 'before it is written', 'writing']);
    for (const { count, stages, worst_ns: worst, command, path, disordered_count: disordered } of whole.commands.filter(({ count }) => count)) {
        assert.equal(stages.reduce((total, stage) => total + stage.of_slowest_ns, 0), worst, `${command}, ${path}`);
        assert.ok(count > 0 && disordered === 0, `${command}, ${path}`);
    }
    // With every 7th record of what the node replicates lost: each write that is missing is counted, with the reason. Of those at the ends of
    // the recording it is not known.
    const LOST = 'events of the node or of the other end were lost', copy = temporary(t);
    for (const name of ['node-0', 'node-1']) fs.cpSync(path.join(folder, name), path.join(copy, name), { recursive: true });
    assert.ok(loseRecords(path.join(copy, 'node-0'), 7, (name) => name === 'redis:replicated') > 0);
    const unrecorded = await read(4, copy), sums = Object.values(unrecorded.replicated).reduce((sum, count) => sum + count, 0);
    t.diagnostic(JSON.stringify(unrecorded.replicated));
    assert.ok(unrecorded.replicated[LOST] > 0 && unrecorded.replicated.complete < WRITES + 2, JSON.stringify(unrecorded.replicated));
    assert.ok(sums <= WRITES + 2 && sums >= WRITES, JSON.stringify(unrecorded.replicated));
    // With every 20th record of what the node wrote lost: fewer, none that was not there, each one that is missing told.
    assert.ok(loseRecords(path.join(folder, 'node-0'), 20, (name) => ['redis:write_reply', 'redis:replicated'].includes(name)) > 0);
    const lossy = await read(4), left = row(lossy, 'set', 'write to a replica');
    assert.ok(left.count > MOST / 2 && left.count + left.incomplete_count <= WRITES + 1 && left.count < WRITES + 1, JSON.stringify(lossy.replicated));
    assert.ok(lossy.replicated['events of the node or of the other end were lost'] > 0 || left.count + left.incomplete_count < WRITES + 1);
    assert.ok(row(lossy, 'wait', 'to a replica and back').count <= waited.count);
    for (const one of lossy.commands.filter(({ count }) => count)) assert.ok(one.disordered_count === 0 && one.stages.reduce((total, stage) => total + stage.of_slowest_ns, 0) === one.worst_ns, JSON.stringify(one));
});

test('what --netflow cannot do is said', async (t) => {
    const wrong = await finish(t, SONDE, ['redis', '--netflow', '--follow', temporary(t)]);
    assert.equal(wrong.status, 2);
    assert.match(wrong.stderr, /--netflow reads what was recorded/);
});
