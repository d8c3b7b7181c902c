// Names and lines of a stripped program: from its .gnu_debuglink, by build-id, and from a debuginfod server.
// SPDX-License-Identifier: Apache-2.0
import { test, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, spawnSync, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { noProfiles } from './helper.mjs';

const sonde = process.env.SONDE || new URL('../../build/sonde', import.meta.url).pathname;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-symbols-'));
after(() => fs.rmSync(folder, { recursive: true }));

const have = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const skip = noProfiles() || (!have('gcc') ? 'needs gcc' : false);

// A program with a static function, stripped; its debug file lies elsewhere. number makes its build-id its own.
function build(name, number) {
    const home = path.join(folder, name), program = path.join(home, 'program'), debug = path.join(home, 'program.debug');
    fs.mkdirSync(home);
    fs.writeFileSync(path.join(home, 'program.c'), `
#include <stdlib.h>
#include <time.h>
volatile unsigned long sink = ${number};
static __attribute__((noinline)) void hidden_spinner(long n)
{
    for (long i = 0; i < n; i++)
        sink += i * i;
}
int main(void)
{
    for (struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), t.tv_sec < 1;)
        hidden_spinner(20000 + rand() % 160000);
}
`);
    execFileSync('gcc', ['-g', '-O2', '-Wl,--build-id', '-o', program, path.join(home, 'program.c')]);
    execFileSync('objcopy', ['--only-keep-debug', program, debug]);
    execFileSync('strip', ['-s', program]);
    return { program, debug };
}
function frames(program, env = {}) {
    const result = spawnSync(sonde, ['profile', '-q', '-F', '499', '-f', 'speedscope', '--', program], { encoding: 'utf8', env: { ...process.env, ...env }, maxBuffer: 1 << 28 });
    assert.equal(result.status, 0, result.stderr);
    return JSON.parse(result.stdout).shared.frames;
}
const spinner = (list) => list.find((f) => f.name === 'hidden_spinner');

test('without its debug file the function has no name', { skip }, () => {
    const { program, debug } = build('bare', 1);
    const starts = execFileSync('nm', [debug], { encoding: 'utf8' }).split('\n').filter((line) => / t | T /i.test(line)).map((line) => parseInt(line, 16));
    fs.rmSync(debug);
    const list = frames(program, { DEBUGINFOD_URLS: '' });
    assert.equal(spinner(list), undefined);
    const places = list.filter((f) => f.name.startsWith('program+0x')).map((f) => f.name);
    assert.ok(places.length > 0);
    // main() and the spinner: one name for all the code of a function, where it begins.
    assert.ok(places.length <= 3, places.join(' '));
    assert.ok(places.every((name) => starts.includes(parseInt(name.slice('program+'.length), 16))), `${places} are none of ${starts.map((n) => n.toString(16))}`);
});

test('.gnu_debuglink names the function and its line', { skip }, () => {
    const { program, debug } = build('linked', 2);
    execFileSync('objcopy', [`--add-gnu-debuglink=${debug}`, program]);
    const found = spinner(frames(program, { DEBUGINFOD_URLS: '' }));
    assert.ok(found);
    assert.match(found.file, /program\.c$/);
    assert.equal(found.line, 5);
    // A debug file of another build is not believed.
    fs.copyFileSync(build('other', 3).debug, debug);
    assert.equal(spinner(frames(program, { DEBUGINFOD_URLS: '' })), undefined);
});

test('a debuginfod server has it', { skip: skip || (!have('debuginfod') && 'needs debuginfod') }, async () => {
    const { program, debug } = build('served', 4), store = path.join(folder, 'store');
    fs.mkdirSync(store);
    fs.renameSync(debug, path.join(store, 'program.debug'));
    const port = await new Promise((done) => {
        const s = net.createServer().listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => done(port)); });
    });
    const id = /Build ID: ([0-9a-f]+)/.exec(execFileSync('readelf', ['-n', program], { encoding: 'utf8' }))[1];
    const server = spawn('debuginfod', ['-p', String(port), '-d', path.join(folder, 'index.sqlite'), '-F', store], { stdio: 'ignore', env: { ...process.env, DEBUGINFOD_URLS: '' } });
    const ask = () => new Promise((done) => http.get({ host: '127.0.0.1', port, path: `/buildid/${id}/debuginfo` }, (r) => { r.resume(); r.on('end', () => done(r.statusCode)); }).on('error', () => done(0)));
    try {
        const deadline = Date.now() + 60000;
        while ((await ask()) !== 200) {
            assert.ok(Date.now() < deadline, 'debuginfod does not serve the file');
            await new Promise((done) => setTimeout(done, 100));
        }
        const found = spinner(frames(program, { DEBUGINFOD_URLS: `http://127.0.0.1:${port}`, DEBUGINFOD_CACHE_PATH: path.join(folder, 'cache') }));
        assert.ok(found);
        assert.match(found.file, /program\.c$/);
    } finally {
        server.kill();
        await new Promise((done) => (server.exitCode !== null || server.signalCode ? done() : server.on('exit', done)));
    }
});

test('a language that is not read: said in one line, with what helps', { skip }, () => {
    const place = fs.mkdtempSync(path.join(folder, 'unread-')), source = path.join(place, 'busy.c');
    fs.writeFileSync(source, 'int main(void) { volatile long n = 0; for (long i = 0; i < 300000000; i++) n += i; return 0; }\n');
    for (const [name, pattern] of [
        ['ruby3.1', /^sonde: Ruby's functions are not read \(process \d+\): those of Ruby 3\.1 are, .*; here only those of its interpreter are shown; rbspy .*$/m],
        ['php8.2', /^sonde: PHP's functions are not read \(process \d+\): only those of its interpreter are shown; phpspy .*$/m],
        ['beam.smp', null], // its code was named: none was unknown
        ['busy', null],
    ]) {
        execFileSync(process.env.CC || 'cc', ['-O1', '-o', path.join(place, name), source]);
        const { status, stderr } = spawnSync(sonde, ['profile', '-f', 'folded', '--', path.join(place, name)], { encoding: 'utf8' });
        assert.equal(status, 0, stderr);
        if (pattern) assert.match(stderr, pattern);
        else assert.doesNotMatch(stderr, /are not read/);
    }
});
