// Attaching to programs that run, under load, again and again, and leaving them as they were.
// CYCLES (default 12) says how often; the soak uses more.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { SONDE, eventually, finish, freePort, kill, manifestOf, start, temporary } from './helper.mjs';

const CYCLES = Number(process.env.CYCLES || 12);

// The executable pages that belong to a file, as they are in memory now.
function codeOf(pid) {
    const hash = crypto.createHash('sha256');
    const memory = fs.openSync(`/proc/${pid}/mem`, 'r');
    for (const line of fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
        const map = /^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ [1-9]\d* +\/(?!memfd:)/.exec(line);
        if (!map) continue;
        const start = parseInt(map[1], 16), bytes = Buffer.alloc(parseInt(map[2], 16) - start);
        fs.readSync(memory, bytes, 0, bytes.length, start);
        hash.update(bytes);
    }
    fs.closeSync(memory);
    return hash.digest('hex');
}

// What sonde maps: the probe, its rings, executable memory without a file.
// What sonde maps: its files, and pages of jumps. V8 before Node 20 has executable pages of 256 KB too, and takes more as it likes.
const mappings = (pid) => fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n').filter((line) => {
    const jumps = /^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ 00:00 0/.exec(line);
    return / \/memfd:/.test(line) || (jumps && parseInt(jumps[2], 16) - parseInt(jumps[1], 16) < 65536);
}).length;
const descriptors = (pid) => fs.readdirSync(`/proc/${pid}/fd`).length;
// Sends requests one after the other over some connections until stopped; counts answers and errors.
class Load {
    constructor(send, width) {
        this.answers = this.errors = 0;
        this.running = true;
        this.done = Promise.all(Array.from({ length: width }, async (_, i) => {
            while (this.running) {
                try {
                    await send(i);
                    this.answers++;
                } catch (error) {
                    this.errors++;
                    this.lastError = error;
                    await new Promise((resolve) => setTimeout(resolve, 10));
                }
            }
        }));
    }

    async stop() {
        this.running = false;
        await this.done;
    }
}

async function cycles(t, pid, folder, event, load) {
    t.after(() => { load.running = false; }); // else the file would not end after a failure
    const before = codeOf(pid);
    let mapped, opened, seconds = 0.2;
    await eventually('all its connections are there', () => load.answers > 100);
    for (let i = 0; i < CYCLES; i++) {
        const trace = path.join(folder, `trace-${i}`);
        // By itself: who is asked to end has no time for a process that does not get its CPU, and leaves its hooks there.
        const attached = start(t, SONDE, ['attach', '-o', trace, '--duration', seconds, pid]);
        await attached.until(/attached to 1 process/);
        const answered = load.answers, { status, stderr } = await attached.ended;
        if (load.answers < answered + 30) { // too little happened on a busy machine: longer
            seconds *= 2;
            fs.rmSync(trace, { recursive: true });
            i--;
            continue;
        }
        assert.ok(status === 0 || status === 4, `cycle ${i}: status ${status}: ${stderr}`);
        assert.equal(codeOf(pid), before, `cycle ${i}: the code is as before`);
        const manifest = manifestOf(trace), [program] = manifest.processes, tids = program.threads.map((thread) => thread.tid);
        assert.ok(program.events_written > 0, `cycle ${i}: something was recorded`);
        assert.ok(program.stops.count >= 3 && program.stops.longest_ns > 0, `cycle ${i}: how long it was stopped`);
        assert.equal(new Set(tids).size, tids.length, `cycle ${i}: every thread has a ring of its own`);
        assert.deepEqual(manifest.losses.filter((loss) => loss.reason === 'unreadable-record'), [], `cycle ${i}: no ring has two writers`);
        mapped ??= mappings(pid);
        opened ??= descriptors(pid);
        if (i < CYCLES - 1) fs.rmSync(trace, { recursive: true });
    }
    await load.stop();
    assert.equal(load.errors, 0, String(load.lastError));
    assert.ok(load.answers > 100);
    // Under load some files and connections were open for the moment, fewer than attachments: one for each would show.
    assert.ok(descriptors(pid) <= opened, `no descriptor is left behind: ${descriptors(pid)} instead of ${opened}`);
    assert.equal(mappings(pid), mapped, 'mappings do not grow');
    const { stdout } = await finish(t, SONDE, ['trace', 'events', '--name', event, path.join(folder, `trace-${CYCLES - 1}`)]);
    assert.ok(stdout.split('\n').length > 10, `the last attachment recorded ${event}`);
}

test(`Redis with I/O threads, ${CYCLES} attachments under load`, async (t) => {
    const folder = temporary(t), port = await freePort();
    const redis = start(t, 'redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--io-threads', 3, '--io-threads-do-reads', 'yes', '--dir', folder]);
    await redis.until(/Ready to accept connections/, { stream: 'stdout' });
    const sockets = await Promise.all(Array.from({ length: 8 }, () => new Promise((resolve, reject) => {
        const socket = net.connect(port, '127.0.0.1', () => resolve(socket)).on('error', reject);
    })));
    const load = new Load((i) => new Promise((resolve, reject) => {
        const socket = sockets[i], value = `v${i}.${Math.random()}`;
        let got = '';
        const want = `+OK\r\n$${value.length}\r\n${value}\r\n`;
        const read = (part) => {
            got += part;
            if (got.length < want.length) return;
            socket.off('data', read);
            got === want ? resolve() : reject(new Error(`wrong answer ${got}`));
        };
        socket.on('data', read);
        socket.write(`*3\r\n$3\r\nSET\r\n$2\r\nk${i}\r\n$${value.length}\r\n${value}\r\n*2\r\n$3\r\nGET\r\n$2\r\nk${i}\r\n`);
    }), sockets.length);
    await cycles(t, redis.pid, folder, 'redis:command', load);
    for (const socket of sockets) socket.destroy();
});

test(`Node, ${CYCLES} attachments under load`, async (t) => {
    const folder = temporary(t), script = path.join(folder, 'service.js');
    fs.writeFileSync(script, `
        const http = require('http'), fs = require('fs');
        const server = http.createServer((request, response) => {
            fs.readFile(__filename, (error, data) => response.end(request.url + data.length));
        }).listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));`);
    const node = start(t, process.execPath, [script]);
    const port = Number((await node.until(/port (\d+)/, { stream: 'stdout' }))[1]);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 8 }), size = fs.statSync(script).size;
    let serial = 0;
    const load = new Load(() => new Promise((resolve, reject) => {
        const url = `/thing/${serial++}`;
        http.get({ host: '127.0.0.1', port, path: url, agent }, (response) => {
            let body = '';
            response.on('data', (part) => (body += part));
            response.on('end', () => (body === url + size ? resolve() : reject(new Error(`wrong answer ${body}`))));
        }).on('error', reject);
    }), 8);
    await cycles(t, node.pid, folder, 'http:request', load);
    agent.destroy();
});

test('a loop that is stuck in a regular expression can be attached to, and is explained', async (t) => {
    const folder = temporary(t), script = path.join(folder, 'stuck.js'), trace = path.join(folder, 'trace');
    fs.writeFileSync(script, `
        const vulnerable = /^(a+)+$/;
        for (let i = 0; i < 1000; i++) vulnerable.test('aaa' + i);
        setTimeout(() => { console.log('stuck'); setTimeout(function wedge() { vulnerable.test('a'.repeat(60) + '!'); }); });`);
    const node = start(t, process.execPath, [script]);
    await node.until(/stuck/, { stream: 'stdout' });
    await eventually('the loop burns its processor', () => fs.readFileSync(`/proc/${node.pid}/stat`, 'utf8').split(') ')[1].startsWith('R'));
    const sonde = start(t, SONDE, ['attach', '-o', trace, node.pid]);
    await sonde.until(/event loop blocked for .*: regular expression \/\^\(a\+\)\+\$\/ in wedge \(.*stuck\.js:4:\d+\)/);
    kill(sonde.pid, 'SIGINT');
    await sonde.ended;
    assert.equal(sonde.status, 0, sonde.describe());
    kill(node.pid, 'SIGKILL');
});

test('a loop that is stuck while it allocates, collects and calls the system can be attached to, and is explained', async (t) => {
    const folder = temporary(t), script = path.join(folder, 'stuck.js'), trace = path.join(folder, 'trace');
    fs.writeFileSync(script, `
        const fs = require('fs');
        setTimeout(() => { console.log('stuck'); (function churn() { for (let i = 0, kept = []; ; i++) {
            kept.push({ i, text: 'x' + i });
            if (kept.length > 1e5) { kept = []; fs.existsSync('/nowhere'); }
        } })(); });`);
    const node = start(t, process.execPath, [script]);
    await node.until(/stuck/, { stream: 'stdout' });
    const sonde = start(t, SONDE, ['attach', '-o', trace, node.pid]);
    await sonde.until(/event loop blocked for .* in churn \(.*stuck\.js:\d+:\d+\)/);
    kill(sonde.pid, 'SIGINT');
    await sonde.ended;
    assert.equal(sonde.status, 0, sonde.describe());
    kill(node.pid, 'SIGKILL');
});

test('a report that nobody reads is ended by Ctrl-C', async (t) => {
    const folder = temporary(t), script = path.join(folder, 'service.js'), full = path.join(folder, 'full');
    fs.writeFileSync(script, `setInterval(() => {}, 10); console.log('up');`);
    const node = start(t, process.execPath, [script]);
    await node.until(/up/, { stream: 'stdout' });
    execFileSync('mkfifo', [full]);
    const fill = fs.openSync(full, fs.constants.O_RDWR | fs.constants.O_NONBLOCK), out = fs.openSync(full, fs.constants.O_WRONLY);
    t.after(() => [fill, out].forEach(fs.closeSync));
    assert.throws(() => { for (;;) fs.writeSync(fill, ' '); }, { code: 'EAGAIN' });
    const sonde = spawn(SONDE, ['attach', '-q', '-o', path.join(folder, 'trace'), '--duration', '0.2', node.pid], { stdio: ['ignore', out, 'ignore'] });
    const ended = new Promise((resolve) => sonde.on('exit', (status, signal) => resolve(signal ?? status)));
    t.after(() => sonde.kill('SIGKILL'));
    await eventually('it waits for somebody to read', () => fs.readFileSync(`/proc/${sonde.pid}/syscall`, 'utf8').startsWith('1 0x1 '));
    assert.equal(manifestOf(path.join(folder, 'trace')).complete, true);
    sonde.kill('SIGINT');
    assert.equal(await ended, 'SIGINT');
});

test('a second sonde is told of the first; what a killed one left is taken out by the next', async (t) => {
    const folder = temporary(t), script = path.join(folder, 'service.js');
    fs.writeFileSync(script, `setInterval(() => require('fs').stat(__filename, () => {}), 1); console.log('up');`);
    const node = start(t, process.execPath, [script]);
    await node.until(/up/, { stream: 'stdout' });
    const before = codeOf(node.pid);
    const first = start(t, SONDE, ['attach', '-o', path.join(folder, 'first'), node.pid]);
    await first.until(/attached to 1 process/);
    assert.notEqual(codeOf(node.pid), before, 'hooks are in place');
    const second = await finish(t, SONDE, ['attach', '-q', '-o', path.join(folder, 'second'), '--duration', '1', node.pid]);
    assert.equal(second.status, 1);
    assert.match(second.stderr, new RegExp(`traced already, by sonde ${first.pid}`));
    kill(first.pid, 'SIGKILL');
    await first.ended;
    assert.notEqual(codeOf(node.pid), before, 'nobody has taken them out');
    const third = await finish(t, SONDE, ['attach', '-q', '-o', path.join(folder, 'third'), '--duration', '1', node.pid]);
    assert.ok(third.status === 0 || third.status === 4, third.stderr);
    const manifest = manifestOf(path.join(folder, 'third'));
    assert.ok(manifest.processes[0].events_written > 0);
    assert.ok(manifest.processes[0].hooks.includes('uv__fs_work'), 'the hooks are in place again');
    assert.equal(codeOf(node.pid), before, 'the code is as before');
});

test('each attachment is written down: who, whom, what, until when', async (t) => {
    const folder = temporary(t), audit = path.join(folder, 'audit'), script = path.join(folder, 'service.js');
    fs.writeFileSync(script, `setInterval(() => {}, 1000); console.log('up');`);
    const nodes = [start(t, process.execPath, [script]), start(t, process.execPath, [script])];
    for (const node of nodes) await node.until(/up/, { stream: 'stdout' });
    const { status, stderr } = await finish(t, SONDE, ['attach', '-q', '--no-kernel', '--audit', audit, '-o', path.join(folder, 'trace'), '--duration', '1', ...nodes.map((node) => node.pid)]);
    assert.equal(status, 0, stderr);
    const lines = fs.readFileSync(audit, 'utf8').trimEnd().split('\n'), uid = process.getuid();
    assert.equal(lines.length, nodes.length, lines.join('\n'));
    nodes.forEach((node, i) => {
        assert.match(lines[i], new RegExp(`^\\d{4}-\\d\\d-\\d\\dT[\\d:]+Z sonde \\d+ of user ${uid}\\b.* traces \\S+ \\(${node.pid}\\) of user ${uid}: level usual; until \\d{4}-.*Z$`));
        kill(node.pid, 'SIGKILL');
    });
    const refused = await finish(t, SONDE, ['attach', '--audit', path.join(folder, 'nowhere', 'audit'), '-o', path.join(folder, 'other'), '--duration', '1', process.pid]);
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /the audit file cannot be written/);
    assert.equal(fs.existsSync(path.join(folder, 'other')), false, 'nothing was begun');
});

test('what cannot be attached to is explained', async (t) => {
    const folder = temporary(t);
    const sleeper = start(t, 'sleep', [1000]);
    for (const [target, words] of [[sleeper.pid, /not Node, Redis or Memcached/], [999999999, /no process|999999999/]]) {
        const { status, stderr } = await finish(t, SONDE, ['attach', '-o', path.join(folder, String(target)), '--duration', '1', target]);
        assert.equal(status, 1, stderr);
        assert.match(stderr, words);
    }
    const { status, stderr } = await finish(t, SONDE, ['attach', 'no-such-program-anywhere']);
    assert.equal(status, 2, stderr);
    assert.match(stderr, /no process runs a program named/);
});

test('a callback that makes one system call after the other ends in time, and the program is attached to', async (t) => {
    const folder = temporary(t), script = path.join(folder, 'calls.js'), trace = path.join(folder, 'trace');
    fs.writeFileSync(script, `
        function work() {
            for (const before = process.cpuUsage(); process.cpuUsage(before).user < 300e3;);
            console.log('worked');
            setTimeout(work, 10);
        }
        work();`);
    const node = start(t, process.execPath, ['--jitless', script]); // no generated code: where it computes it is never safe
    await node.until(/worked/, { stream: 'stdout' });
    const { status, stderr } = await finish(t, SONDE, ['attach', '-q', '-o', trace, '--duration', '0.2', node.pid]);
    assert.equal(status, 0, stderr);
});

test('--all finds the programs of every kind that is traced', async (t) => {
    // In a PID namespace of their own, so that nothing else on this machine is attached to. Debian's redis-server is a link to redis-check-rdb.
    const folder = temporary(t), ports = [await freePort(), await freePort(), await freePort()];
    const script = `
        node -e 'require("net").createServer(() => {}).listen(${ports[0]}, "127.0.0.1")' &
        redis-server --port ${ports[1]} --bind 127.0.0.1 --save '' --dir "$1" > /dev/null &
        memcached -u root -p ${ports[2]} -l 127.0.0.1 &
        for port in ${ports.join(' ')}; do until (echo > /dev/tcp/127.0.0.1/$port) 2> /dev/null; do sleep 0.05; done; done
        exec "$0" attach --all -d 1 -o "$1/trace" --audit "$1/audit"`;
    const { status, stderr } = await finish(t, 'unshare', ['--pid', '--fork', '--kill-child', '--mount-proc', 'bash', '-c', script, SONDE, folder]);
    assert.ok(status === 0 || status === 4, stderr); // 4: a loaded machine lost some
    const seen = fs.readFileSync(path.join(folder, 'audit'), 'utf8').match(/(?<=traces )[a-z]+/g).sort();
    assert.deepEqual(seen, ['memcached', 'node', 'redis'], stderr);
});
