// Programs that do nothing cost nothing: sonde sleeps until the kernel says that one of them runs, and misses nothing then.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { SONDE, eventually, finish, isRoot, manifestOf, start, temporary } from './helper.mjs';

// Why kernel events cannot be had here; false when they can.
const missing = (() => {
    if (!isRoot) return 'needs root, to load eBPF programs';
    const doctor = spawnSync(SONDE, ['doctor', '--json'], { encoding: 'utf8', maxBuffer: 1 << 24 });
    const check = JSON.parse(doctor.stdout || '{"checks":[]}').checks.find((c) => c.what.includes('eBPF'));
    return check && check.verdict !== 'fails' ? false : `eBPF programs cannot be loaded: ${check?.why}`;
})();

const get = (port, what) => new Promise((resolve, reject) => http.get({ port, path: what, agent: false }, (answer) => answer.resume().on('end', resolve)).on('error', reject));

// How often a process was given a CPU after it had slept, and how often it has read anything.
function activity(pid) {
    const number = (file, name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(fs.readFileSync(`/proc/${pid}/${file}`, 'utf8'))[1]);
    return { wakes: number('status', 'voluntary_ctxt_switches'), reads: number('io', 'syscr') };
}

for (const how of ['run', 'attach'])
    test(`idle Node.js services are not looked at, and what they do afterwards is recorded: ${how}`, { skip: missing }, async (t) => {
        const folder = temporary(t), script = path.join(folder, 'service.js'), trace = path.join(folder, 'trace'), count = 3;
        fs.writeFileSync(script, `require('http').createServer((q, a) => a.end('x', () => q.url === '/end' && process.exit())).listen(0, '127.0.0.1', function () { console.log('port ' + this.address().port); });`);
        const command = ['sh', '-c', `for i in 1 2 3; do "${process.execPath}" "${script}" & done; wait`];
        const services = how === 'attach' ? Array.from({ length: count }, () => start(t, process.execPath, [script])) : [];
        for (const service of services) await service.until(/port/, { stream: 'stdout' });
        const recording = how === 'run' ? start(t, SONDE, ['run', '-o', trace, '--', ...command]) : start(t, SONDE, ['attach', '-o', trace, ...services.map((s) => s.pid)]);
        const said = () => [recording, ...services].map((running) => running.stdout).join('');
        await eventually('all serve', () => said().split('port').length > count);
        if (how === 'attach') await recording.until(/attached to 3 processes/);
        let before = { ...activity(recording.pid), ms: performance.now() };
        await eventually('sonde sleeps', () => {
            const now = { ...activity(recording.pid), ms: performance.now() };
            if (now.ms - before.ms < 1000) return false;
            // A look at each of them ten times a second would be 30 reads, waking every 4 ms 250 wakes.
            const sleeps = now.wakes - before.wakes < 50 && now.reads - before.reads < 60;
            before = now;
            return sleeps;
        });
        const ports = said().match(/\d+/g).map(Number);
        for (const [i, port] of ports.entries()) for (let k = 0; k < 5; k++) await get(port, `/quiet/${i}/${k}`);
        for (const port of ports) await get(port, '/end').catch(() => {}); // it may end before its answer is read
        const { status, stderr } = await recording.ended;
        assert.ok(status === 0 || status === 4, stderr);
        const { stdout } = await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'http:request', trace]);
        assert.equal(stdout.split('\n').filter((line) => line.includes('/quiet/')).length, 5 * count, stdout);
        assert.deepEqual(manifestOf(trace).losses, []);
    });

test('sonde gets a CPU before others, and what it starts does not', { skip: !isRoot && 'needs root, to be given precedence' }, async (t) => {
    const trace = path.join(temporary(t), 'trace');
    const script = `const nice = (pid) => require("fs").readFileSync("/proc/" + pid + "/stat", "latin1").replace(/^.*\\) /s, "").split(" ")[16];
        console.log("sonde " + nice(process.ppid) + ", we " + nice(process.pid)); require("child_process").execFileSync("true");`;
    const own = os.getPriority(), nicer = Math.min(own + 7, 19);
    for (const [prefix, wanted] of [[[], `sonde ${own || -10}, we ${own}`], [['nice', '-n', '7'], `sonde ${nicer}, we ${nicer}`]]) {
        const [command, ...args] = [...prefix, SONDE, 'run', '--no-kernel', '-q', '-o', `${trace}${prefix.length}`, '--', process.execPath, '-e', script];
        const { stdout, stderr } = await finish(t, command, args);
        assert.match(stdout, new RegExp(`^${wanted}$`, 'm'), stderr);
    }
});
