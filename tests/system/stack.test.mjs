// What a stalled Node.js process is doing, seen from outside: the regular expression, the loop, the library call.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { setTimeout } from 'node:timers/promises';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const run = promisify(execFile);
const sonde = process.env.SONDE || new URL('../../build/sonde', import.meta.url).pathname;

// CPU time of a process in ticks of 10 ms.
function ticksOf(pid) {
    const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return Number(fields[11]) + Number(fields[12]);
}

// Starts a script that prints "go" right before it stalls; looks at it; ends it. On a busy machine it may wait for a CPU right then,
// so one that is to compute is looked at once it has.
async function look(name, source, wanted, node = process.execPath, also = () => true) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-stack-'));
    const file = path.join(folder, name);
    fs.writeFileSync(file, source);
    const child = spawn(node, [file], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
        await new Promise((resolve, reject) => {
            child.stdout.once('data', resolve);
            child.once('exit', (code) => reject(new Error(`the program ended with ${code}`)));
        });
        for (const begin = ticksOf(child.pid); wanted !== 'waiting' && ticksOf(child.pid) < begin + 5;) await setTimeout(10);
        for (let attempt = 0; ; attempt++) { // it printed before it stalled: look again until it has
            const { stdout } = await run(sonde, ['stack', '--json', String(child.pid)]);
            const report = JSON.parse(stdout);
            const there = wanted === 'waiting' || report.frames[report.where]?.file === file;
            if ((report.cause === wanted && there && also(report)) || attempt === 200) return { report, file };
        }
    } finally {
        child.kill('SIGKILL');
        fs.rmSync(folder, { recursive: true });
    }
}

const lineOf = (source, text) => source.split('\n').findIndex((line) => line.includes(text)) + 1;

// This Node, and the newest that tools/runtimes has installed: V8's tables of positions have changed with Node 25.
const folder = process.env.SONDE_RUNTIMES || path.join(os.homedir(), '.cache', 'sonde', 'runtimes');
const installed = fs.existsSync(folder) ? fs.readdirSync(folder).filter((name) => /^node-2[2-9]/.test(name)).map((name) => path.join(folder, name, 'bin', 'node')).filter((file) => fs.existsSync(file)) : [];
for (const node of [process.execPath, ...installed]) test(`names a compiled regular expression after a thousand harmless inputs: ${node === process.execPath ? 'this Node' : path.relative(folder, node).split('/')[0]}`, async () => {
    const source = `const vowels = /^(a+)+$/i;
function check(input) {
    const text = input.trim();
    return vowels.test(text); // here
}
function handler() {
    return check('a'.repeat(60) + '-');
}
for (let i = 0; i < 1000; i++) check('aaa');
setTimeout(() => { process.stdout.write('go'); handler(); }, 10);
`;
    const { report, file } = await look('server.js', source, 'regexp', node);
    assert.equal(report.cause, 'regexp');
    assert.equal(report.pattern, '^(a+)+$');
    assert.equal(report.flags, 'i');
    const frame = report.frames[report.where];
    assert.equal(frame.function, 'check');
    assert.equal(frame.file, file);
    assert.equal(frame.line, lineOf(source, '// here'));
    assert.equal(frame.column, source.split('\n')[frame.line - 1].indexOf('test') + 1);
    assert.deepEqual(report.frames.filter((f) => f.file === file).map((f) => f.function).slice(0, 2), ['check', 'handler']);
    assert.equal(report.truncated, undefined);
    assert.ok(report.frames.some((f) => f.function === '_start' || f.function.includes('libc_start')));
});

// V8 has functions of its own for what operators and properties take, which is no call that had an asynchronous form.
test('what V8 does for JavaScript is JavaScript', async () => {
    const source = `const bag = {};
for (let i = 0; i < 5000; i++) bag['p' + i] = i;
function copy(i) {
    return { ...bag, ['k' + i]: i }; // here
}
setTimeout(() => { process.stdout.write('go'); for (let i = 0; ; i++) copy(i); }, 10);
`;
    const { report } = await look('copy.js', source, 'javascript', process.execPath, ({ frames }) => frames.some((f) => f.function?.includes('Runtime_')));
    assert.equal(report.cause, 'javascript');
    assert.ok(report.frames.some((f) => f.function.includes('Runtime_')), JSON.stringify(report.frames.slice(0, 5)));
    assert.equal(report.frames[report.where].function, 'copy');
    assert.equal(report.frames[report.where].line, lineOf(source, '// here'));
});

test('names a regular expression at its first match, which V8 interprets', async () => {
    const source = `setTimeout(function first() {
    process.stdout.write('go');
    ('word '.repeat(30) + '!').replace(/^(\\w+\\s?)*$/g, 'x'); // here
}, 10);
`;
    const { report, file } = await look('first.js', source, 'regexp');
    assert.equal(report.cause, 'regexp');
    assert.equal(report.pattern, '^(\\w+\\s?)*$');
    assert.equal(report.frames[report.where].file, file);
    assert.equal(report.frames[report.where].line, lineOf(source, '// here'));
});

// With V8's table of positions, which it makes when an error's stack is asked for, and without.
for (const [how, before] of [['without a table', ''], ['with V8\'s table', 'if (text) new Error().stack;']]) {
    test(`a call of a local variable is at its name, not at what was called before it: ${how}`, async () => {
        const source = `const pattern = /^(a+)+$/i;
const known = {}, compile = (name) => (text) => pattern.test(text);
function check(name, text) {
    let test;
    ${before}
    if (known[name]) test = known[name];
    else test = compile(name);

    const good = test(text); // here
    if (!good) check.failed = (check.failed || 0) + 1;
    return good;
}
setTimeout(() => { process.stdout.write('go'); check('slow', 'a'.repeat(60) + '-'); }, 10);
`;
        const { report, file } = await look('local.js', source, 'regexp');
        const frame = report.frames.find((f) => f.file === file && f.function === 'check');
        assert.equal(frame.line, lineOf(source, '// here'));
    });
}

test('finds the line of a plain loop', async () => {
    const source = `function prepare(n) { return n * 2; }
function spin(limit) {
    let x = prepare(limit);

    for (let i = 0; i < 1e15; i++) { // loop
        x = (x * 31 + i) | 0; // body
    }
    return x;
}
setTimeout(() => { process.stdout.write('go'); spin(7); }, 10);
`;
    const { report, file } = await look('loop.js', source, 'javascript');
    assert.equal(report.cause, 'javascript');
    const frame = report.frames[report.where];
    assert.equal(frame.function, 'spin');
    assert.equal(frame.file, file);
    assert.ok([lineOf(source, '// loop'), lineOf(source, '// body')].includes(frame.line), `line ${frame.line}`);
});

test('an ES module, a class method and an inlined function', async () => {
    const source = `class Shop {
    total(prices) {
        let sum = 0;
        for (const p of prices) sum += this.tax(p); // total
        return sum;
    }
    tax(p) {
        let x = p;
        for (let k = 0; k < 1000; k++) x = Math.sqrt(x * x + k); // tax
        return x;
    }
}
const shop = new Shop();
const many = Array.from({ length: 1e5 }, (_, i) => i);
setTimeout(() => { process.stdout.write('go'); for (;;) shop.total(many); }, 10); // forever
`;
    const { report, file } = await look('shop.mjs', source, 'javascript');
    const lines = { total: [lineOf(source, 'total(prices)'), lineOf(source, '// total')], tax: [lineOf(source, 'tax(p) {'), lineOf(source, '// tax')] };
    const frame = report.frames[report.where];
    assert.equal(frame.file, file);
    assert.ok(['total', 'tax', '(anonymous)'].includes(frame.function), frame.function);
    // From where it begins, where a look may find it, too, to its loop.
    if (lines[frame.function]) {
        const [first, last] = lines[frame.function];
        assert.ok(frame.line >= first && frame.line <= last + 1, `${frame.function} line ${frame.line}`);
    }
    assert.ok(report.frames.some((f) => f.file === file && f.line === lineOf(source, '// forever')));
});

test('a long call of the library', async () => {
    const source = `const crypto = require('crypto');
function hash(password) {
    return crypto.pbkdf2Sync(password, 'salt', 1e9, 64, 'sha512'); // here
}
setTimeout(() => { process.stdout.write('go'); hash('secret'); }, 10);
`;
    const { report, file } = await look('login.js', source, 'builtin');
    assert.equal(report.cause, 'builtin');
    assert.equal(report.builtin, 'crypto.pbkdf2Sync');
    assert.equal(report.frames[report.where].file, file);
    assert.equal(report.frames[report.where].line, lineOf(source, '// here'));
});

test('of a deep stack both ends are kept, and what lies between is marked', async () => {
    const source = `function sink(depth) {
    if (depth) return sink(depth - 1) + 1;
    for (let i = 0; ; i++) depth += i % 7; // here
}
setTimeout(function begin() { process.stdout.write('go'); sink(700); }, 10);
`;
    const { report, file } = await look('deep.js', source, 'javascript');
    const { frames, where } = report, gap = frames.findIndex((frame) => frame.kind === 'left-out');
    assert.equal(frames[where].function, 'sink');
    assert.equal(frames[where].line, lineOf(source, '// here'));
    assert.equal(frames.filter((frame) => frame.kind === 'left-out').length, 1);
    assert.ok(gap > where && frames.slice(where, gap).every((frame) => frame.kind !== 'javascript' || frame.function === 'sink'), JSON.stringify(frames));
    assert.ok(frames.slice(gap).some((frame) => frame.function === 'begin' && frame.file === file), JSON.stringify(frames));
    assert.equal(frames.at(-1).function, '_start');
    assert.equal(report.truncated, undefined);
});

test('an idle process waits', async () => {
    const { report } = await look('idle.js', "setInterval(() => {}, 100000); process.stdout.write('go');", 'waiting');
    assert.equal(report.cause, 'waiting');
});

test('the looked-at process keeps running and keeps its answers', async () => {
    const source = `let n = 0; setInterval(() => { n++; }, 1); process.stdin.on('data', () => process.stdout.write(String(n) + '\\n'));`;
    const child = spawn(process.execPath, ['-e', source], { stdio: ['pipe', 'pipe', 'inherit'] });
    try {
        const ask = () => new Promise((resolve) => { child.stdout.once('data', (d) => resolve(Number(d))); child.stdin.write('?'); });
        const before = await ask();
        for (let i = 0; i < 20; i++) await run(sonde, ['stack', String(child.pid)]);
        assert.ok((await ask()) > before);
        assert.equal(child.exitCode, null);
    } finally {
        child.kill('SIGKILL');
    }
});

test('says what is wrong', async () => {
    await assert.rejects(run(sonde, ['stack', '4194303']), (e) => e.code === 1 && /4194303/.test(e.stderr));
    await assert.rejects(run(sonde, ['stack', 'x']), (e) => e.code === 2);
    const sleeper = spawn('sleep', ['60']);
    try {
        await assert.rejects(run(sonde, ['stack', String(sleeper.pid)]), (e) => e.code === 1 && /does not run V8/.test(e.stderr));
    } finally {
        sleeper.kill('SIGKILL');
    }
});
