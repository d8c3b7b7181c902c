// Processes that start after sonde has attached to their parent, or that replace themselves, are traced too.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { SONDE, eventually, finish, freePort, kill, manifestOf, start, temporary } from './helper.mjs';

const get = (port, target) => new Promise((resolve, reject) => {
    http.get({ host: '127.0.0.1', port, path: target, agent: false }, (response) => {
        let body = '';
        response.on('data', (part) => (body += part));
        response.on('end', () => resolve(body));
    }).on('error', reject);
});

const ping = (port) => new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.on('data', (data) => {
        socket.destroy();
        resolve(data.toString());
    });
    socket.on('error', () => resolve(null));
});

const SERVICE = `
    const http = require('http'), { fork, spawn } = require('child_process'), cluster = require('cluster');
    if (process.argv[2] === 'child' || cluster.isWorker) {
        const server = http.createServer((request, response) => require('fs').stat(__filename, () => response.end('child ' + process.pid)));
        server.listen(process.argv[2] === 'child' ? 0 : Number(process.env.WORKERS), '127.0.0.1', () => process.send({ port: server.address().port }));
    } else {
        const run = {
            '/fork': (answer) => fork(__filename, ['child']).on('message', ({ port }) => answer(String(port))),
            '/cluster': (answer) => { cluster.setupPrimary({ args: [] }); cluster.fork({ WORKERS: 0 }).on('message', ({ port }) => port && answer(String(port))); },
            '/script': (answer) => { spawn('sh', ['-c', 'redis-server --port ' + process.env.REDIS_PORT + ' --bind 127.0.0.1 --save "" & wait'], { stdio: 'ignore' }); answer('started'); },
        };
        http.createServer((request, response) => run[request.url]((text) => response.end(text)))
            .listen(0, '127.0.0.1', function () { console.log('port ' + this.address().port); });
    }`;

test('children of an attached Node: forked, of a cluster, and a Redis that a shell script starts', async (t) => {
    const folder = temporary(t), script = path.join(folder, 'service.js'), trace = path.join(folder, 'trace'), redisPort = await freePort();
    fs.writeFileSync(script, SERVICE);
    const node = start(t, process.execPath, [script], { cwd: folder, env: { REDIS_PORT: String(redisPort) } });
    const port = Number((await node.until(/port (\d+)/, { stream: 'stdout' }))[1]);
    const sonde = start(t, SONDE, ['attach', '-o', trace, node.pid]);
    await sonde.until(/attached to 1 process/);

    for (const [index, how] of ['/fork', '/cluster'].entries()) {
        const child = Number(await get(port, how));
        const pid = Number((await get(child, '/')).split(' ')[1]);
        await sonde.until(new RegExp(`\\(${pid}\\), started by ${node.pid}, is traced too`));
        for (let i = 0; i < 20; i++) assert.equal(await get(child, `/thing/${index}.${i}`), `child ${pid}`);
    }
    await get(port, '/script');
    const [, redis] = await sonde.until(/redis:\S* \((\d+)\), started by \d+, is traced too/);
    await eventually('Redis answers', async () => (await ping(redisPort)) === '+PONG\r\n');
    for (let i = 0; i < 20; i++) assert.equal(await ping(redisPort), '+PONG\r\n');

    kill(sonde.pid, 'SIGINT');
    const { status, stderr } = await sonde.ended;
    assert.ok(status === 0 || status === 4, stderr);
    const manifest = manifestOf(trace), of = (pid) => manifest.processes.find((p) => p.pid === Number(pid));
    assert.equal(manifest.processes.length, 4, JSON.stringify(manifest.processes.map((p) => p.command)));
    assert.deepEqual(manifest.processes.map((p) => p.runtime).sort(), ['node', 'node', 'node', 'redis']);
    assert.ok(of(redis).events_written > 0, 'Redis was recorded');
    const { stdout } = await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'http:request', trace]);
    for (const index of [0, 1])
        assert.ok(stdout.includes(`/thing/${index}.19`), `the requests of child ${index} were recorded`);
    assert.equal(await ping(redisPort), '+PONG\r\n', 'all live on');
});

test('a Redis that replaces itself is traced again', async (t) => {
    const folder = temporary(t), trace = path.join(folder, 'trace'), port = await freePort();
    const redis = start(t, execFileSync('sh', ['-c', 'command -v redis-server'], { encoding: 'utf8' }).trim(), ['--port', port, '--bind', '127.0.0.1', '--save', '', '--enable-debug-command', 'yes', '--dir', folder]);
    await redis.until(/Ready to accept connections/, { stream: 'stdout' });
    const sonde = start(t, SONDE, ['attach', '-o', trace, redis.pid]);
    await sonde.until(/attached to 1 process/);
    assert.equal(await ping(port), '+PONG\r\n');
    await finish(t, 'redis-cli', ['-p', port, 'debug', 'restart']);
    await sonde.until(new RegExp(`\\(${redis.pid}\\), started by \\d+, is traced too`));
    await eventually('Redis answers again', async () => (await ping(port)) === '+PONG\r\n');
    for (let i = 0; i < 10; i++) await ping(port);
    kill(sonde.pid, 'SIGINT');
    const { status, stderr } = await sonde.ended;
    assert.ok(status === 0 || status === 4, stderr);
    const { processes } = manifestOf(trace);
    assert.deepEqual(processes.map((p) => p.pid), [redis.pid, redis.pid]);
    assert.ok(processes.every((p) => p.events_written > 0 && p.start_ns > 0));
    assert.equal(await ping(port), '+PONG\r\n', 'it lives on');
});
