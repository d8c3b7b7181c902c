// A Redis whose structures differ from every table: Debian's sources with padding added to the client and to the
// connection. Each field must be found at its new place or be missing; never wrong. The build is kept in build/.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { SONDE, finish, freePort, manifestOf, root, start, temporary } from './helper.mjs';

const BUILD = path.join(root, 'build', 'redis-padded');
const SERVER = path.join(BUILD, 'server', 'src', 'redis-server');

// Fields before, between and after the ones that sonde reads.
const PADDING = [
    ['src/server.h', 'typedef struct client {\n', 'typedef struct client {\n    char padding_first[40];\n'],
    ['src/server.h', '    int argc;               /* Num of arguments of current command. */', '    char padding_arguments[72];\n    int argc;'],
    ['src/server.h', '    struct redisCommand *cmd', '    char padding_command[24];\n    struct redisCommand *cmd'],
    ['src/connection.h', 'struct connection {\n', 'struct connection {\n    char padding[16];\n'],
];

async function sources(t) {
    fs.mkdirSync(path.join(BUILD, 'lists', 'partial'), { recursive: true });
    fs.writeFileSync(path.join(BUILD, 'sources.list'), fs.readFileSync('/etc/apt/sources.list.d/debian.sources', 'utf8').replace(/^Types: deb$/gm, 'Types: deb-src'));
    const list = path.join(BUILD, 'debian.sources');
    fs.renameSync(path.join(BUILD, 'sources.list'), list);
    const apt = ['-o', `Dir::Etc::SourceList=${list}`, '-o', 'Dir::Etc::SourceParts=/dev/null', '-o', `Dir::State::Lists=${path.join(BUILD, 'lists')}`];
    let got = await finish(t, 'apt-get', [...apt, 'update'], { cwd: BUILD });
    if (got.status === 0) got = await finish(t, 'apt-get', [...apt, 'source', '--download-only', 'redis'], { cwd: BUILD });
    const archive = fs.readdirSync(BUILD).find((name) => /^redis_.*\.orig\.tar\.gz$/.test(name));
    return got.status === 0 && archive ? archive : null;
}

async function build(t) {
    if (fs.existsSync(SERVER)) return true;
    const archive = await sources(t);
    if (!archive) return false;
    fs.mkdirSync(path.join(BUILD, 'server'), { recursive: true });
    const unpacked = await finish(t, 'tar', ['xzf', archive, '-C', 'server', '--strip-components=1'], { cwd: BUILD });
    assert.equal(unpacked.status, 0, unpacked.stderr);
    for (const [file, from, to] of PADDING) {
        const name = path.join(BUILD, 'server', file), text = fs.readFileSync(name, 'utf8');
        assert.ok(text.includes(from), `${file} has the place to pad`);
        fs.writeFileSync(name, text.replace(from, to));
    }
    const made = await finish(t, 'make', ['-j2', 'MALLOC=libc', 'redis-server'], { cwd: path.join(BUILD, 'server') });
    assert.equal(made.status, 0, made.stderr.slice(-2000));
    return true;
}

// What the client sends is what the trace must say: name, arguments and their bytes, database, order.
const COMMANDS = [
    ['ping'], ['set', 'some-key', 'x'.repeat(1000)], ['get', 'some-key'], ['select', '7'], ['set', 'other', 'value'], ['get', 'other'],
    ['lpush', 'list', 'a', 'b', 'c'], ['client', 'setname', 'somebody'], ['config', 'get', 'maxmemory'], ['del', 'other'],
];

async function talk(port) {
    const socket = await new Promise((resolve, reject) => {
        const s = net.connect(port, '127.0.0.1', () => resolve(s)).on('error', reject);
    });
    for (const command of COMMANDS) {
        socket.write(`*${command.length}\r\n` + command.map((word) => `$${word.length}\r\n${word}\r\n`).join(''));
        await new Promise((resolve) => socket.once('data', resolve));
    }
    const { localPort } = socket;
    socket.destroy();
    return localPort;
}

async function check(t, server) {
    const folder = temporary(t), trace = path.join(folder, 'trace'), port = await freePort();
    const recording = start(t, SONDE, ['record', '-q', '-o', trace, '--', server, '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder]);
    await recording.until(/Ready to accept connections/, { stream: 'stdout' });
    const localPort = await talk(port);
    process.kill(recording.pid, 'SIGINT');
    await recording.ended;
    const { stdout } = await finish(t, SONDE, ['trace', 'events', '--json', trace]);
    const events = stdout.trim().split('\n').map((line) => JSON.parse(line));
    const fields = (event) => event.fields || event;
    const named = (name) => events.filter((event) => event.name === name).map(fields);
    const names = new Map(named('probe:name').map((n) => [n.id, n.text]));
    const connection = named('net:connection').find((c) => c.peer_port === localPort);
    assert.ok(connection, 'the connection with its ports');
    assert.equal(connection.local_port, port);
    const seen = named('redis:command').filter((c) => c.client_id === connection.key);
    assert.equal(seen.length, COMMANDS.length);
    // The loop's own function: GCC leaves a test of its arguments under its name, and the loop calls the rest.
    assert.ok(named('redis:loop_phase').some((phase) => phase.phase === 2 && phase.ready >= 1), 'iterations of the loop');
    let db = 0;
    seen.forEach((command, i) => {
        const sent = COMMANDS[i], words = sent[0] === 'client' || sent[0] === 'config' ? `${sent[0]}|${sent[1]}` : sent[0];
        assert.equal(names.get(command.name), words, `command ${i}`);
        assert.equal(command.sequence, i + 1);
        assert.equal(command.argument_count, sent.length);
        assert.equal(command.bytes, sent.join('').length);
        assert.equal(command.db, db);
        assert.equal(command.fd, connection.fd);
        if (sent[0] === 'select') db = Number(sent[1]);
    });
    return manifestOf(trace).processes.find((p) => p.runtime === 'redis');
}

test("Debian's Redis: every field, and each with its true value", async (t) => {
    const redis = await check(t, 'redis-server');
    assert.deepEqual(redis.missing, []);
});

test('a Redis with padded structures: every field is found at its new place', async (t) => {
    if (!(await build(t))) return t.skip("Debian's sources of redis cannot be had");
    const redis = await check(t, SERVER);
    assert.deepEqual(redis.missing, []);
});
