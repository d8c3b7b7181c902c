// A program that looks closely sees the same with the request context's script in it as without; a script that fails, or
// whose work is done, leaves nothing behind.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { NODES, SONDE, eventually, finish, freePort, isRoot, kill, manifestOf, root, sonde, start, temporary, versionOf } from './helper.mjs';
import { answers, cli } from './redis.mjs';

const BPFTRACE = ['/usr/bin/bpftrace', '/usr/local/bin/bpftrace'].find((file) => fs.existsSync(file));

const program = (name) => path.join(root, 'tests/system/programs', name);

async function look(t, node, flags, words = [], options = []) {
    const folder = path.join(temporary(t), 'trace'), command = [node, '--no-warnings', ...flags, program('harmless.js'), ...words];
    const plain = await finish(t, command[0], command.slice(1));
    assert.equal(plain.status, 0, plain.describe());
    const traced = await finish(t, SONDE, ['record', '--quiet', '--no-kernel', '-o', folder, ...options, '--', ...command]);
    assert.ok([0, 4].includes(traced.status), traced.describe());
    assert.deepEqual(JSON.parse(traced.stdout), JSON.parse(plain.stdout));
    assert.equal(traced.stderr, plain.stderr);
    return manifestOf(folder).processes[0];
}

for (const node of NODES) {
    for (const flags of [[], ['--disallow-code-generation-from-strings'], ['--frozen-intrinsics'], ['--jitless']])
        test(`a program sees no difference${flags.length ? ` with ${flags}` : ''} (${versionOf(node)})`, async (t) => {
            const { context, missing } = await look(t, node, flags);
            assert.ok(context.script_threads + context.carried_threads + context.native_threads >= 2, 'the main thread and the worker');
            assert.deepEqual(missing.filter((m) => m.what === 'request contexts'), []);
        });

    test(`a program sees no difference when Node carries contexts (${versionOf(node)})`, async (t) => {
        const { context } = await look(t, node, [], [], ['--context', 'script']);
        assert.ok(context.script_threads + context.native_threads >= 2, 'the main thread and the worker');
    });

    test(`a program sees no difference when functions are looked for (${versionOf(node)})`, (t) => look(t, node, [], [], ['--function', 'handler', '--function', 'harmless.js:stack']));

    test(`a script that fails is given up, and the report says so (${versionOf(node)})`, async (t) => {
        const { missing } = await look(t, node, [], ['broken']);
        assert.ok(missing.some((m) => m.what === 'request contexts' && /failed/.test(m.why)), JSON.stringify(missing));
    });
}

const SERVER = `
    const { executionAsyncId } = require('async_hooks');
    const server = require('http').createServer(async (request, response) => {
        if (request.url === '/stat') await require('fs').promises.stat('/');
        await null;
        const one = executionAsyncId(); // promises have ids of their own only with promise hooks
        await null;
        response.end(String(executionAsyncId() !== one));
    }).listen(0, '127.0.0.1', () => console.log(server.address().port));`;

// Whether a process has blocked a signal, to read it when it likes.
function blocks(pid, signal) {
    const mask = /^SigBlk:\s*(\w+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1];
    return (BigInt(`0x${mask}`) >> BigInt(signal - 1)) & 1n;
}

// Whether promise hooks are on.
function ask(port, where = '/') {
    return new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port, path: where, agent: false }, (response) => {
        let text = '';
        response.on('data', (part) => (text += part)).on('end', () => resolve(text === 'true'));
    }).on('error', reject));
}

for (const node of NODES)
    test(`attached, the script works; detached, it is gone; attached again, it is back (${versionOf(node)})`, { skip: Number(versionOf(node).slice(1, 3)) >= 24 && 'Node carries contexts without promise hooks' }, async (t) => {
        const server = start(t, node, ['-e', SERVER], { env: { UV_USE_IO_URING: '0' } }); // nothing is seen of an io_uring's operations
        const [port] = await server.until(/\d+/, { stream: 'stdout' });
        assert.equal(await ask(port), false);
        for (let round = 0; round < 2; round++) {
            const folder = path.join(temporary(t), 'trace');
            const attached = sonde(t, 'attach', '--no-kernel', '--context', 'script', '-o', folder, server.pid);
            await attached.until(/attached to/);
            for (let i = 0; i < 20 && !round; i++) assert.equal(await ask(port), false, 'who only answers pays for no context');
            await eventually('the script runs', () => ask(port, '/stat'));
            await eventually('sonde takes signals', () => blocks(attached.pid, 2));
            kill(attached.pid, 'SIGINT');
            await attached.ended;
            assert.ok([0, 4].includes(attached.status), attached.describe());
            assert.equal(manifestOf(folder).processes[0].context.mode, 'script');
            await eventually('the script is gone', async () => !(await ask(port)));
        }
    });

for (const node of NODES)
    test(`what V8 carries needs no promise hooks (${versionOf(node)})`, { skip: !(Number(versionOf(node).slice(1, 3)) >= 18 && Number(versionOf(node).slice(1, 3)) < 24) && 'Node 24 carries contexts itself, V8 before Node 18 none' }, async (t) => {
        const server = start(t, node, ['-e', SERVER], { env: { UV_USE_IO_URING: '0' } });
        const [port] = await server.until(/\d+/, { stream: 'stdout' });
        const folder = path.join(temporary(t), 'trace');
        const attached = sonde(t, 'attach', '--no-kernel', '-o', folder, server.pid);
        await attached.until(/attached to/);
        for (let i = 0; i < 60; i++) assert.equal(await ask(port, '/stat'), false);
        await eventually('sonde takes signals', () => blocks(attached.pid, 2));
        kill(attached.pid, 'SIGINT');
        await attached.ended;
        assert.ok([0, 4].includes(attached.status), attached.describe());
        assert.equal(manifestOf(folder).processes[0].context.mode, 'carried');
    });

// Node aborts when it finds somebody's memory or functions in what it is to write. From a snapshot there is no way to Node's
// modules before Node 20.16, which is said.
for (const node of NODES.filter((n) => Number(versionOf(n).slice(1).split('.')[0]) >= 18))
    test(`a start-up snapshot is built, and what starts from it is not concerned (${versionOf(node)})`, async (t) => {
        const folder = temporary(t), blob = ['--snapshot-blob', path.join(folder, 'blob')], source = program('snapshot.js');
        const record = (name, ...command) => finish(t, SONDE, ['record', '--quiet', '--no-kernel', '-o', path.join(folder, name), '--', node, ...blob, ...command]);
        const built = await record('built', '--build-snapshot', source);
        assert.equal(built.status, 0, built.describe());
        const { missing } = manifestOf(path.join(folder, 'built')).processes[0];
        assert.ok(missing.some((m) => m.what === 'request contexts' && /snapshot/.test(m.why)), JSON.stringify(missing));
        const started = await record('started', source);
        assert.equal(started.stdout, '2 turns, 10 answers\n', started.describe());
        const process = manifestOf(path.join(folder, 'started')).processes[0], { script_threads, carried_threads, native_threads } = process.context;
        assert.ok(script_threads + carried_threads + native_threads >= 1 || process.missing.some((m) => m.what === 'request contexts' && /modules/.test(m.why)), JSON.stringify(process));
    });

// bpftrace sets a breakpoint in every process that maps the file, sonde's own reading of it included.
test('a function in which another tool has a breakpoint is left alone', { skip: (!isRoot || !BPFTRACE) && 'needs root and bpftrace' }, async (t) => {
    const folder = temporary(t), server = path.join(folder, 'redis-server'), port = await freePort(), trace = path.join(folder, 'trace');
    fs.copyFileSync(fs.realpathSync('/usr/bin/redis-server'), server);
    const tracer = start(t, BPFTRACE, ['-B', 'line', '-e', `uprobe:${server}:call { @calls = count(); } interval:ms:100 /!@ready/ { @ready = 1; printf("ready\\n"); }`]);
    await tracer.until(/^ready$/m, { stream: 'stdout' });
    const run = sonde(t, 'run', '--quiet', '--no-kernel', '-o', trace, '--', server, '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder);
    await answers(port);
    assert.equal(cli(port, ['set', 'key', 'value']).trim(), 'OK');
    run.child.kill('SIGINT');
    await run.ended;
    const [{ missing, hooks }] = manifestOf(trace).processes;
    assert.ok(hooks.length > 10);
    assert.ok(missing.some(({ why }) => why === 'call is not as in the file: another tool has patched it'), JSON.stringify(missing));
});
