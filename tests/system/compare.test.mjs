// Profiles read, merged and compared: sonde diff, sonde profile --merge, and sonde top without a terminal.
// SPDX-License-Identifier: Apache-2.0
import { test, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { eventually } from './helper.mjs';

const sonde = process.env.SONDE || new URL('../../build/sonde', import.meta.url).pathname;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-compare-'));
after(() => fs.rmSync(folder, { recursive: true }));
const at = (...args) => spawnSync(sonde, args, { encoding: 'utf8' });
const file = (name, text) => { fs.writeFileSync(path.join(folder, name), text); return path.join(folder, name); };

const before = file('before.folded', 'main;parse 50\nmain;render 40\nmain;idle 10\n');
const later = file('after.folded', 'main;parse 500\nmain;render 800\nmain;idle 100\nmain;render;layout 600\n');

test('diff compares shares, not lengths', () => {
    const json = JSON.parse(at('diff', '--json', before, later).stdout);
    const of = (name) => json.functions.find((f) => f.function === name);
    assert.equal(of('layout').verdict, 'slower');
    assert.equal(of('layout').self.change_percent, null, 'nothing times something');
    assert.ok(Math.abs(of('parse').change_share - (0.25 - 0.5)) < 1e-9);
    assert.ok(Math.abs(of('render').total_after_share - 0.7) < 1e-9);
    assert.match(at('diff', before, later).stdout, /slower\s+0.00%\s+30.00%\s+new \[.*layout/);
});

test('the same program built elsewhere, renamed, with a library of another version', { skip: process.getuid() === 0 ? false : 'needs root, to load eBPF programs' }, () => {
    const library = (more) => `int work(int n){volatile int s=0;for(int i=0;i<n*${more};i++)s+=i;return s;}`;
    const program = 'extern int work(int);static int __attribute__((noinline)) parse(int n){volatile int s=0;for(int i=0;i<n;i++)s+=i;return s;}int main(){int s=0;for(int i=0;i<300;i++)s+=work(1000000)+parse(1000000);return s==1;}';
    const build = (version, name, so, debug) => {
        const place = path.join(folder, version);
        fs.mkdirSync(place);
        fs.writeFileSync(path.join(place, 'work.c'), library(1));
        fs.writeFileSync(path.join(place, 'main.c'), program);
        const cc = (...args) => assert.equal(spawnSync('cc', ['-O1', ...debug, ...args], { cwd: place }).status, 0);
        cc('-shared', '-fPIC', `-Wl,-soname,${so}`, '-o', so, 'work.c');
        cc('-o', name, 'main.c', `./${so}`, '-Wl,-rpath,$ORIGIN');
        return path.join(place, name);
    };
    for (const debug of [['-g'], []]) {
        const tag = debug.join('') || 'plain', programs = [build(`v1${tag}`, 'server', 'libwork.so.1.2.13', debug), build(`v2${tag}`, 'server-next', 'libwork.so.1.2.14', debug)];
        const files = programs.map((p, i) => path.join(folder, `${tag}${i}.pb.gz`));
        programs.forEach((p, i) => assert.equal(at('profile', '-q', '-F', '1999', '-o', files[i], '--', p).status, 0));
        const { functions } = JSON.parse(at('diff', '--json', ...files).stdout);
        for (const name of ['work', 'parse', 'main']) {
            const found = functions.filter((f) => f.function === name);
            assert.equal(found.length, 1, `${tag}: ${name} is one function`);
            assert.ok(found[0].total_before_share > 0.2 && found[0].total_after_share > 0.2);
        }
        const list = at('profile', '--merge', ...files).stdout.split('\n').filter((l) => /  (work|parse)  /.test(l));
        assert.equal(list.length, 2, list.join('\n'));
    }
});

// The document of a page: what follows the data's address, unpacked.
const profileOf = (html) => JSON.parse(zlib.gunzipSync(Buffer.from(/data-part="s\/0\/profile">([^<]*)</.exec(html)[1], 'base64')));
const weightsOf = (data) => data.frame.map((f, i) => [data.strings[data.frames[f][0]], data.weight[i], data.before[i]]).filter(([, w, b]) => w || b);

test('diff as a page', () => {
    const page = path.join(folder, 'diff.html');
    assert.equal(at('diff', '-o', page, before, later).status, 0);
    const text = fs.readFileSync(page, 'utf8');
    const weights = Object.fromEntries(weightsOf(profileOf(text)).map(([name, w, b]) => [name, [w, b]]));
    assert.deepEqual(weights.parse, [500, 50]);
    assert.deepEqual(weights.layout, [600, 0]);
    assert.doesNotMatch(text, /https?:\/\/(?!www\.w3\.org)/); // nothing is loaded from anywhere
    assert.match(text, /connect-src 'none'/);
});

test('two runs of a service are compared whatever their process numbers, and its instances can be one', () => {
    const first = file('first.folded', 'shop (17);thread io (18);main;parse 60\nshop (17);thread io (18);main;f (int) 40\n');
    const second = file('second.folded', 'shop (4711);thread io (4712);main;parse 90\nshop (4711);thread io (4712);main;f (int) 10\n');
    const page = path.join(folder, 'runs.html');
    assert.equal(at('diff', '-o', page, first, second).status, 0);
    assert.deepEqual(weightsOf(profileOf(fs.readFileSync(page, 'utf8'))), [['parse', 90, 60], ['f (int)', 10, 40]]);
    assert.equal(at('profile', '--merge', '--by-service', '-f', 'folded', first, second).stdout, 'shop;io;main;parse 150\nshop;io;main;f (int) 50\n');
});

test('merging adds up, through files and levels', () => {
    const one = path.join(folder, 'one.pb.gz'), two = path.join(folder, 'two.folded');
    assert.equal(at('profile', '--merge', '-o', one, before, later).status, 0);
    assert.equal(at('profile', '--merge', '-o', two, one, before).status, 0);
    const lines = Object.fromEntries(fs.readFileSync(two, 'utf8').trim().split('\n').map((l) => [l.slice(0, l.lastIndexOf(' ')), Number(l.slice(l.lastIndexOf(' ') + 1))]));
    assert.deepEqual(lines, { 'main;parse': 600, 'main;render': 880, 'main;idle': 120, 'main;render;layout': 600 });
});

test('with nothing on one side there is no comparison', () => {
    const empty = file('empty.folded', ''), page = path.join(folder, 'empty.html'), store = path.join(folder, 'store');
    for (const [args, words] of [[[empty, before], /nothing to compare .*before\.folded with: .*empty\.folded has no samples/], [[before, empty], /nothing to compare .*before\.folded with: .*empty\.folded has no samples/], [[empty, empty], /nothing to compare: neither .*empty\.folded nor .*empty\.folded has any samples/]]) {
        const said = at('diff', ...args), document = at('diff', '--json', ...args), { functions, no_comparison: why } = JSON.parse(document.stdout);
        assert.deepEqual([said.status, document.status], [5, 5]);
        assert.match(said.stdout, words);
        assert.doesNotMatch(said.stdout, /slower|faster|noise/);
        assert.deepEqual(functions, []);
        assert.match(why, words);
    }
    const drawn = at('diff', '-o', page, empty, before);
    assert.equal(drawn.status, 5);
    assert.match(drawn.stderr, /has no samples; .*empty\.html was not written/);
    assert.ok(!fs.existsSync(page));

    // A store: one that holds nothing, then one that began since.
    fs.mkdirSync(path.join(store, 'windows'), { recursive: true });
    const nothing = /The store holds no samples yet: `sonde profile --all --store DIRECTORY` adds them/;
    for (const args of [['report', store], ['diff', '--since', '1h', store]]) {
        const { status, stdout } = at(...args);
        assert.equal(status, 5);
        assert.match(stdout, nothing);
        assert.doesNotMatch(stdout, /stretches/);
    }
    assert.match(JSON.parse(at('report', '--json', store).stdout).nothing, nothing);
    assert.equal(at('report', '--gate', 'cpu-regression', store).status, 11);
    const minute = Math.floor(Date.now() / 60000 - 30) * 60;
    assert.equal(at('profile', '--merge', '-o', path.join(store, 'windows', `${minute}-60.pb.gz`), before).status, 0);
    const young = at('diff', '--since', '2h', store);
    assert.equal(young.status, 5);
    assert.match(young.stdout, /nothing to compare the time since \d{4}-.* with: the time before \d{4}-.* has no samples \(a later --since leaves samples before it\)/);
    assert.doesNotMatch(young.stdout, /slower|new \[/);
    const over = at('diff', '--since', '20m', store); // and one that ended
    assert.equal(over.status, 5);
    assert.match(over.stdout, /nothing to compare the time before .* with: the time since .* has no samples\n/);
    assert.match(JSON.parse(at('diff', '--json', '--since', '2h', store).stdout).no_comparison, /has no samples/);
    assert.equal(at('report', '--gate', 'cpu-regression', store).status, 11, 'too young for a verdict');
    assert.equal(at('report', store).status, 0);
});

test('wrong input is named', () => {
    assert.match(at('diff', before, file('x', 'no number here\n')).stderr, /x: neither pprof nor folded text: line 1 /);
    assert.match(at('diff', before, '/nonexistent').stderr, /nonexistent/);
    assert.equal(at('diff', before).status, 2);
    assert.equal(at('diff', before, file('bad.pb.gz', Buffer.from([0x1f, 0x8b, 8, 0, 1, 2, 3]))).status, 1);
});

test('what a program calls itself does not steer the terminal', () => {
    const before = file('quiet.folded', 'main;work 60\nmain;rest 40\n'), after = file('loud.folded', 'main;wo\x1b[2Jrk 90\nmain;rest 10\n');
    for (const args of [['diff', before, after], ['profile', '--merge', after]]) {
        const { status, stdout } = at(...args);
        assert.equal(status, 0);
        assert.match(stdout, /wo\\x1b\[2Jrk/, args[0]);
        assert.ok(!stdout.includes('\x1b'), args[0]);
    }
});

test('top in a small terminal stays inside of it', (t) => {
    const child = spawn(process.execPath, ['-e', 'for(;;);']);
    try {
        const command = `stty cols 40 rows 8; '${sonde}' top -n 3 -i 0.5 -F 199 ${child.pid}`;
        const result = spawnSync('script', ['-qec', command, '/dev/null'], { encoding: 'utf8', input: '' });
        if (result.status === 3) return t.skip('needs the right to load BPF programs');
        const screens = result.stdout.split('\x1b[H').slice(1).map((s) => s.replace(/\x1b\[[\d;?]*[A-Za-z]/g, '').split(/\r?\n/));
        assert.ok(screens.length >= 3, result.stdout);
        for (const lines of screens) assert.ok(lines.length <= 8 && lines.every((l) => l.length <= 40), JSON.stringify(lines));
    } finally {
        child.kill('SIGKILL');
    }
});

const HOT = 'function hotSpot(){let s=0;for(let i=0;i<1e6;i++)s+=i;return s} console.log("ready");for(;;)hotSpot()';
const says = (child) => new Promise((resolve) => child.stdout.once('data', (text) => resolve(String(text))));

test('top without a terminal', async (t) => {
    const child = spawn(process.execPath, ['-e', HOT]);
    try {
        await says(child);
        const result = at('top', '-n', '3', '-i', '0.7', '-F', '499', String(child.pid));
        if (result.status === 3) return t.skip('needs the right to load BPF programs');
        assert.equal(result.status, 0, result.stderr);
        assert.match(result.stdout, /% {2}hotSpot/);
        assert.match(at('top', '-n', '2', '-v', 'p', '-i', '0.5', '-F', '199', String(child.pid)).stdout, new RegExp(`\\(${child.pid}\\)`));
    } finally {
        child.kill('SIGKILL');
    }
});

// The CPU time of a process, in clock ticks.
const usedBy = (pid) => fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ').slice(11, 13).reduce((sum, n) => sum + Number(n), 0);

test('top and profile end with what they watch, also when its parent has not asked for it yet', async (t) => {
    for (const command of ['top', 'profile']) {
        // A parent that never asks.
        const parent = spawn('sh', ['-c', '"$0" -e "for (;;);" & echo $!; exec sleep 1000', process.execPath]), child = Number(await says(parent));
        try {
            const watching = spawn(sonde, [command, String(child)], { stdio: ['ignore', 'ignore', 'pipe'] });
            let stderr = '', ended;
            watching.stderr.on('data', (text) => (stderr += text));
            watching.on('close', (status) => (ended = { status }));
            // It has all that it needs of the system, and the program has worked for a while since.
            await eventually('it watches', () => ended || /^Seccomp:\t2$/m.test(fs.readFileSync(`/proc/${watching.pid}/status`, 'utf8')));
            const before = usedBy(child);
            await eventually('there is something to see', () => ended || usedBy(child) > before + 100);
            if (ended?.status === 3) return t.skip('needs the right to load BPF programs');
            assert.equal(ended, undefined, stderr);
            process.kill(child, 'SIGKILL');
            const { status } = await eventually('it ends', () => ended);
            assert.equal(status, 0, stderr);
        } finally {
            for (const pid of [child, parent.pid]) process.kill(pid, 'SIGKILL');
        }
    }
    assert.equal(at('top', '--view', 'everything').status, 2);
    assert.equal(at('top', '-n', 'many').status, 2);
});

test('top: the keys of the views lead out of a function', async (t) => {
    const child = spawn(process.execPath, ['-e', HOT]);
    const top = spawn('script', ['-qec', `stty cols 100 rows 20; '${sonde}' top -i 0.3 -F 199 ${child.pid}`, '/dev/null']);
    t.after(() => [child, top].forEach((p) => p.kill('SIGKILL')));
    let screen = '', ended = false;
    top.stdout.on('data', (text) => (screen += text));
    top.on('exit', () => (ended = true));
    const shown = async (pattern) => {
        for (let i = 0; i < 600 && !pattern.test(screen) && !ended; i++) await new Promise((done) => setTimeout(done, 100));
        if (/needs the right|CAP_BPF|not permitted/.test(screen)) return false;
        assert.match(screen, pattern);
        screen = '';
        return true;
    };
    if (!(await shown(/%  hotSpot/))) return t.skip('needs the right to load BPF programs');
    top.stdin.write('\r');
    await shown(/sonde top {2}around \S/);
    top.stdin.write('p');
    await shown(new RegExp(`sonde top {2}processes[^]*node \\(${child.pid}\\)`));
    top.stdin.write('o\x1b[B\x1b[Bq');
    await new Promise((done) => (ended ? done() : top.on('exit', done)));
});
