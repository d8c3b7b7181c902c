// The first member of every JSON document is the version of its schema, the one that doc/documents.md states.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { SONDE, eventually, finish, isRoot, manifestOf, root, sonde, start, temporary } from './helper.mjs';
import { diskRequests, get } from './spans.mjs';
import { ROWS } from '../applications/table.mjs';

const VERSIONS = Object.fromEntries([...fs.readFileSync(path.join(root, 'doc/documents.md'), 'utf8').matchAll(/^\| (\w+) \| (\d+) \|/gm)].map(([, name, version]) => [name, Number(version)]));
const BPF = isRoot ? false : 'needs root, to load eBPF programs';

function check(kind, document, what) {
    assert.ok(VERSIONS[kind], kind);
    assert.deepEqual([Object.keys(document)[0], document.schema], ['schema', VERSIONS[kind]], what);
}

// The document that a command prints.
async function documentOf(t, kind, allowed, ...args) {
    const { status, stdout, describe } = await finish(t, SONDE, args);
    assert.ok(allowed.includes(status), `${args.join(' ')}: ${status}\n${describe()}`);
    check(kind, JSON.parse(stdout), args.join(' '));
}

const recording = (t, name) => {
    const folder = temporary(t);
    execFileSync(path.join(root, 'tools/corpus'), ['unpack', name, folder]);
    return folder;
};

const COMMANDS = {
    report: async (t) => documentOf(t, 'report', [0, 4], 'report', '--json', recording(t, 'redis')),
    spans: async (t) => documentOf(t, 'report', [0, 4], 'spans', '--json', recording(t, 'redis')),
    redis: async (t) => documentOf(t, 'report', [0, 4], 'redis', '--json', recording(t, 'redis')),
    memcached: async (t) => documentOf(t, 'report', [0, 4, 5], 'memcached', '--json', recording(t, 'redis')),
    trace: async (t) => documentOf(t, 'trace_info', [0, 4], 'trace', 'info', '--json', recording(t, 'redis')),
    async run(t) {
        const folder = path.join(temporary(t), 'trace');
        await documentOf(t, 'report', [0, 4], 'run', '--json', '-q', '-o', folder, '--', process.execPath, '-e', 'setTimeout(() => {}, 10)');
        check('manifest', manifestOf(folder), 'manifest.json');
    },
    async attach(t) {
        const program = start(t, process.execPath, ['-e', 'console.log("ready"); setInterval(() => {}, 1000)']);
        await program.until(/ready/, { stream: 'stdout' });
        await documentOf(t, 'report', [0, 4], 'attach', '--json', '-q', '-d', '0.5', '-o', path.join(temporary(t), 'trace'), program.pid);
    },
    doctor: async (t) => documentOf(t, 'doctor', [0, 1, 3], 'doctor', '--json'),
    async stack(t) {
        const program = start(t, process.execPath, ['-e', 'console.log("ready"); for (;;);']);
        await program.until(/ready/, { stream: 'stdout' });
        await documentOf(t, 'stack', [0], 'stack', '--json', program.pid);
    },
    async profile(t) {
        const file = path.join(temporary(t), 'x.folded');
        fs.writeFileSync(file, 'a;b 3\na;c 4\n');
        await documentOf(t, 'report', [0], 'profile', '--json', '--merge', file);
    },
    async diff(t) {
        const folder = temporary(t), file = (name, text) => (fs.writeFileSync(path.join(folder, name), text), path.join(folder, name));
        await documentOf(t, 'profiles_diff', [0], 'diff', '--json', file('a.folded', 'a;b 300\na;c 400\n'), file('b.folded', 'a;b 500\na;c 400\n'));
        const one = recording(t, 'redis');
        await documentOf(t, 'traces_diff', [0, 4], 'diff', '--json', one, one);
    },
    async diagnose(t) {
        const file = path.join(temporary(t), 'spans.json');
        fs.writeFileSync(file, JSON.stringify(diskRequests({ count: 50, versions: ['41'] })));
        await documentOf(t, 'report', [0, 11], 'diagnose', '--json', file);
    },
    async watch(t) {
        const running = sonde(t, 'watch', 'agent', '--base', '41', '--listen', '127.0.0.1:0', '--json');
        await running.until(/port \d+/);
        running.child.kill('SIGINT');
        const { stdout } = await running.ended;
        check('report', JSON.parse(stdout), running.describe());
    },
};

test('every command with --json is here', async (t) => {
    const names = [...(await finish(t, SONDE, ['help'])).stdout.matchAll(/^ {2}([a-z]+) /gm)].map((match) => match[1]);
    const printing = [];
    for (const name of names) if (/^ +(?:-\w, )?--json /m.test((await finish(t, SONDE, [name, '--help'])).stdout)) printing.push(name);
    assert.deepEqual(printing.sort(), Object.keys(COMMANDS).sort());
});

for (const [name, run] of Object.entries(COMMANDS)) test(`sonde ${name} --json`, run);

test('sonde profile --tune --json', { skip: BPF }, async (t) => documentOf(t, 'tuning', [0, 5], 'profile', '--tune', '--json', '-q', '-d', '1', '--', process.execPath, '-e', 'for (const end = Date.now() + 2000; Date.now() < end;);'));

test('lines of --follow', async (t) => {
    const { stdout, describe } = await finish(t, SONDE, ['report', '--follow', '--json', recording(t, 'redis')]);
    const lines = stdout.trim().split('\n').map((line) => JSON.parse(line));
    assert.ok(lines.length > 1 && lines.at(-1).state === 'end', describe());
    for (const line of lines) check('line', line, JSON.stringify(line).slice(0, 200));
    check('report', lines.at(-1).report, 'the report at the end');
    const redis = await finish(t, SONDE, ['redis', '--follow', '--json', '--each', recording(t, 'redis')]);
    const each = redis.stdout.trim().split('\n').map((line) => JSON.parse(line));
    assert.ok(each.some((line) => line.command), redis.describe());
    for (const line of each) check('line', line, JSON.stringify(line).slice(0, 200));
});

test('what sonde serve answers', async (t) => {
    const running = sonde(t, 'serve', '--listen', '127.0.0.1:0', '--data', temporary(t), '--no-store', recording(t, 'node-20'));
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    const answer = async (url) => JSON.parse((await get(Number(port), url)).text);
    await eventually('the recording to be read', async () => {
        const [{ state }] = (await answer('/api/v1/sources')).sources;
        assert.ok(['reading', 'ready'].includes(state), running.describe());
        return state === 'ready';
    });
    const rows = await answer('/api/v1/s/0/requests?limit=1');
    check('page', rows, 'requests');
    for (const [kind, url] of [['page', '/api/v1/sources'], ['page', '/api/v1/s/0/rows'], ['page', '/api/v1/s/7/rows'], ['report', '/api/v1/s/0/report'],
        ['page', `/api/v1/s/0/request?id=${rows.rows[0].id}`], ['regressions', '/api/v1/regressions'], ['report', '/api/diagnosis'], ['health', '/healthz']])
        check(kind, await answer(url), url);
});

test('what was once said wrongly has tests and rows that exist', () => {
    const text = fs.readFileSync(path.join(root, 'doc', 'cases.md'), 'utf8'), from = text.indexOf('## What was once said wrongly');
    const lines = text.slice(from, text.indexOf('\n## ', from + 1)).split('\n').filter((line) => /^\| W\d/.test(line));
    assert.deepEqual(lines.map((line) => line.split(' ')[1]), Array.from({ length: 15 }, (_, i) => `W${i + 1}`));
    const names = new Set(ROWS.map(({ application, trouble }) => `${application} ${trouble}`));
    for (const line of lines) {
        const held = line.split(' | ').at(-1).replace(/ \|$/, '').split(/, (?=row `|`tests)/);
        for (const one of held) {
            const [, row, file, name] = /^(?:row `(.+)`|`(tests\/.+)`: (.+))$/.exec(one) || [];
            assert.ok(row || file, `neither a row nor a test: ${one}`);
            if (row) assert.ok(names.has(row), `tests/applications/table.mjs has no row '${row}'`);
            else assert.ok(fs.readFileSync(path.join(root, file), 'utf8').includes(name), `${file} has no test "${name}"`);
        }
    }
});
