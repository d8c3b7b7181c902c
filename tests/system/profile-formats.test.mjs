// What profiles are exported to, against what each format asks for, and against the same profile as folded text.
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SONDE, isRoot, temporary } from './helper.mjs';

function sonde(...args) {
    const r = spawnSync(SONDE, args, { encoding: 'utf8', timeout: 60_000 });
    assert.equal(r.status, 0, r.stderr);
    return r.stdout;
}

// ---- the processed format of the Firefox Profiler, version 60, column by column: what each cell has to be ----

const isIndex = (length) => (v) => Number.isInteger(v) && v >= 0 && v < length;
const orNull = (check) => (v) => v === null || check(v);
const orMinusOne = (check) => (v) => v === -1 || check(v);
const isNumber = Number.isFinite, isBoolean = (v) => typeof v === 'boolean', isNull = (v) => v === null;

function checkTable(name, table, columns) {
    assert.deepEqual(Object.keys(table).sort(), [...Object.keys(columns), 'length'].sort(), `${name}: its columns`);
    for (const [column, check] of Object.entries(columns)) {
        assert.equal(table[column].length, table.length, `${name}.${column}: one cell a row`);
        table[column].forEach((cell, row) => assert.ok(check(cell, row), `${name}.${column}[${row}] is ${cell}`));
    }
}

function checkFirefox(profile) {
    const { meta, shared, threads } = profile;
    assert.equal(meta.preprocessedProfileVersion, 60);
    for (const key of ['interval', 'startTime', 'processType', 'version']) assert.ok(isNumber(meta[key]), key);
    assert.equal(typeof meta.product, 'string');
    assert.ok(Array.isArray(meta.markerSchema) && Array.isArray(profile.libs));
    const colors = ['transparent', 'purple', 'green', 'orange', 'yellow', 'lightblue', 'blue', 'brown', 'magenta', 'red', 'lightred', 'darkgrey', 'grey'];
    for (const c of meta.categories) assert.ok(colors.includes(c.color) && c.subcategories[0] === 'Other', c.name);
    assert.equal(meta.categories.filter((c) => c.color === 'grey').length, 1, 'the default category');
    assert.ok(shared.stringArray.every((s) => typeof s === 'string'));
    const string = isIndex(shared.stringArray.length), { sources, resourceTable, funcTable, frameTable, stackTable, nativeSymbols } = shared;
    checkTable('sources', sources, { filename: string, uuid: isNull });
    checkTable('resourceTable', resourceTable, { name: string, lib: isNull, host: isNull, type: (v) => v === 1 });
    checkTable('nativeSymbols', nativeSymbols, { libIndex: isNumber, address: isNumber, name: string, functionSize: isNumber });
    checkTable('funcTable', funcTable, {
        name: string, isJS: isBoolean, relevantForJS: isBoolean, resource: orMinusOne(isIndex(resourceTable.length)),
        source: orNull(isIndex(sources.length)), lineNumber: orNull(isNumber), columnNumber: orNull(isNumber),
    });
    checkTable('frameTable', frameTable, {
        address: (v) => v === -1, inlineDepth: isNumber, category: isIndex(meta.categories.length), subcategory: (v) => v === 0, func: isIndex(funcTable.length),
        nativeSymbol: isNull, innerWindowID: isNull, line: orNull(isNumber), column: orNull(isNumber),
    });
    checkTable('stackTable', stackTable, { prefix: (v, row) => v === null || isIndex(row)(v), frame: isIndex(frameTable.length) });
    assert.ok(threads.length > 0);
    for (const thread of threads) {
        for (const key of ['name', 'processName', 'processType', 'pid']) assert.equal(typeof thread[key], 'string', key);
        for (const key of ['tid', 'registerTime', 'processStartupTime']) assert.ok(isNumber(thread[key]), key);
        assert.ok(isBoolean(thread.isMainThread) && isNull(thread.unregisterTime) && isNull(thread.processShutdownTime) && Array.isArray(thread.pausedRanges));
        checkTable('markers', thread.markers, Object.fromEntries(['data', 'name', 'startTime', 'endTime', 'phase', 'category'].map((c) => [c, isNumber])));
        const { weightType, ...samples } = thread.samples;
        assert.ok(['samples', 'tracing-ms', 'bytes'].includes(weightType));
        checkTable('samples', samples, { stack: orNull(isIndex(stackTable.length)), weight: isNumber, time: (v, row) => v >= (samples.time[row - 1] ?? 0) });
    }
}

// What each stack weighs: "outermost;...;innermost" -> weight.
function firefoxStacks({ shared, threads }) {
    const names = [], weights = new Map();
    shared.stackTable.frame.forEach((frame, i) => {
        const prefix = shared.stackTable.prefix[i], name = shared.stringArray[shared.funcTable.name[shared.frameTable.func[frame]]];
        names.push(prefix === null ? name : `${names[prefix]};${name}`);
    });
    for (const { samples } of threads)
        samples.stack.forEach((s, i) => weights.set(names[s], (weights.get(names[s]) ?? 0) + samples.weight[i]));
    return weights;
}

// A stack may stand there twice: of functions of one name in two files.
function foldedStacks(text) {
    const weights = new Map();
    for (const line of text.trim().split('\n')) {
        const at = line.lastIndexOf(' '), stack = line.slice(0, at);
        weights.set(stack, (weights.get(stack) ?? 0) + Number(line.slice(at + 1)));
    }
    return weights;
}

test('the Firefox Profiler: a profile that was read, with bytes that are no text', (t) => {
    const folder = temporary(t), input = path.join(folder, 'in.folded'), out = path.join(folder, 'p.firefox.json');
    fs.writeFileSync(input, Buffer.concat([Buffer.from('main;run;a "quoted" one 7\nmain;run 3\nother;back\\slash 5\nmain;bad '), Buffer.from([0xff, 0xfe]), Buffer.from(' 2\n')]));
    sonde('profile', '--merge', '-o', out, input);
    const profile = JSON.parse(fs.readFileSync(out, 'utf8'));
    checkFirefox(profile);
    assert.deepEqual([...firefoxStacks(profile)].sort(), [['main;bad \ufffd\ufffd', 2], ['main;run', 3], ['main;run;a "quoted" one', 7], ['other;back\\slash', 5]]);
});

test('the Firefox Profiler: what was sampled, and the same as folded text', { skip: isRoot ? false : 'needs root, to load eBPF programs' }, (t) => {
    const folder = temporary(t), out = path.join(folder, 'p.firefox.json');
    const busy = 'function busy(){let s=0;for(let i=0;i<1e7;i++)s+=i;return s} for(let k=0;k<60;k++)busy()';
    sonde('profile', '-q', '-F', '499', '-o', out, '--', process.execPath, '-e', busy);
    const profile = JSON.parse(fs.readFileSync(out, 'utf8'));
    checkFirefox(profile);
    const main = profile.threads.find((thread) => thread.isMainThread);
    assert.match(main.processName, /^node|^MainThread/);
    assert.deepEqual(profile.threads.filter((thread) => /^sonde/.test(thread.processName)), []);
    assert.ok([...firefoxStacks(profile).keys()].some((stack) => /busy/.test(stack)));
    const pprof = path.join(folder, 'p.pb.gz'), again = path.join(folder, 'again.firefox.json');
    sonde('profile', '-q', '-F', '499', '-o', pprof, '--', process.execPath, '-e', busy);
    sonde('profile', '--merge', '-o', again, pprof);
    const merged = JSON.parse(fs.readFileSync(again, 'utf8'));
    checkFirefox(merged);
    const folded = foldedStacks(sonde('profile', '--merge', '-f', 'folded', pprof)), sum = (m) => [...m.values()].reduce((a, b) => a + b, 0);
    assert.ok(Math.abs(sum(firefoxStacks(merged)) * 1e6 - sum(folded)) < 1e-6 * sum(folded), `weights in ms: ${sum(firefoxStacks(merged)) * 1e6} and ${sum(folded)}`);
});

test('a command is sampled from its first instruction on, not from the fork that runs it', { skip: isRoot ? false : 'needs root, to load eBPF programs' }, () => {
    for (let i = 0; i < 5; i++) {
        const stacks = [...foldedStacks(sonde('profile', '-q', '-F', '9999', '-f', 'folded', '--', 'sh', '-c', 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done')).keys()];
        assert.ok(stacks.length > 0 && stacks.every((stack) => stack.startsWith('sh (')), stacks.find((stack) => !stack.startsWith('sh (')));
    }
});
