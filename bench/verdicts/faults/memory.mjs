// Faults of memory and of encoding: garbage collection under pressure, leaks, serialisation.
// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from 'node:child_process';
import { bookedRan, calibration, evaluate, placeOf, plantSync, ranMs, STALL_MS, timed } from './common.mjs';

const flagsOf = (keep, n) => ['--max-semi-space-size=1', `--max-old-space-size=${Math.round(keep * 0.16 + n * 0.16 + 40)}`];

// What a call of the function for n costs in collections, ms, in a process of its own with the same flags: as much of it as
// that had a CPU for.
function collectingMs(lines, keep, n, name) {
    const script = [...lines, 'let gcMs = 0, calls = 0, before = 0, tookMs = 0, ranMs = 0;', "new (require('perf_hooks').PerformanceObserver)((list) => list.getEntries().forEach((entry) => (gcMs += entry.duration))).observe({ entryTypes: ['gc'] });",
        'const call = () => {', 'const since = performance.now(), used = process.cpuUsage();', `${name}(${n});`, 'const { user, system } = process.cpuUsage(used);', 'tookMs += performance.now() - since;', 'ranMs += (user + system) / 1000;',
        'if (++calls === 12) before = gcMs;', 'setTimeout(calls < 36 ? call : () => console.log((gcMs - before) / 24 * Math.min(1, ranMs / tookMs)), 5);', '};', 'setTimeout(call, 20);'].join('\n');
    const run = spawnSync(process.execPath, [...flagsOf(keep, n), '-e', script], { encoding: 'utf8' });
    if (run.status !== 0) throw new Error(`calibrating collections: ${run.stderr}`);
    return Number(run.stdout);
}

// Much lives on and much survives for a while: every collection copies and marks.
export function gcPressure(app, { strengthMs, healthy }) {
    const { chance } = app, name = chance.name(), file = app.newFile(), mark = chance.word(), keep = chance.whole(3, 6) * 100;
    const lines = [`function ${name}(n) {`, '    const made = [];', '    for (let i = 0; i < n * 100; i++) made.push({ id: i, list: [i, i + 1, i + 2], next: made[i - 1], text: `value ${i}` });',
        '    recent.push(made);', '    if (recent.length > limit) recent.shift();', '    return made.length;', '}'];
    const standing = [`const limit = ${healthy ? 1 : 8};`, 'const recent = [];',
        `const standing = Array.from({ length: ${healthy ? 10 : keep} * 1000 }, (_, id) => ({ id, name: 'entry ' + id, more: { id } }));`, 'setInterval(() => standing.length, 1000).unref();'];
    app.addFunction(file, name, lines);
    app.files.get(file).functions.push({ name: '-', lines: standing });
    let n = healthy ? 2 : Math.round(strengthMs * 4);
    for (let tries = 0; !healthy && !calibration.skip && tries < 8; tries++) {
        const took = collectingMs([...lines, ...standing], keep, n, name);
        if (took >= strengthMs) break;
        n = Math.ceil(n * Math.min(Math.max(strengthMs / took, 1.15), 4));
    }
    const route = plantSync(app, { file, core: name, mark });
    if (!healthy) app.flags.push(...flagsOf(keep, n));
    return {
        routes: [{ target: () => `${route}?n=${n}`, everyMs: healthy ? 40 : Math.max(50, strengthMs * 5), atOnce: 2, atLeast: healthy ? 0 : 40, warm: `${route}?n=2` }],
        expect: healthy ? [] : [{ cause: 'gc-pressure', kinds: ['gc-pressure'], also: ['event-loop-blocked'], places: [{}], blamed: ({ gcMs }) => gcMs * 1e6 }],
    };
}

/* ---- leaks ---- */

// What each request leaves behind, and what its healthy twin does with the same.
const LEAKS = {
    cache: { setup: ['const cache = new Map();'], leak: ['cache.set(key, made);'], healthy: ['cache.set(key, made);', 'if (cache.size > 20) cache.delete(cache.keys().next().value);'] },
    closure: { setup: ['const waiting = [];'], leak: ['waiting.push(() => made.length + key);'], healthy: ['waiting.push(() => made.length + key);', 'if (waiting.length > 20) waiting.shift()();'] },
    global: { setup: ['global.history = [];'], leak: ['global.history.push(...made);'], healthy: ['global.history = made.slice(0, 10);'] },
    promise: { setup: ['const pending = new Set();'], leak: ['const promise = new Promise(() => {});', 'promise.extra = made;', 'pending.add(promise);', 'void promise.then(() => made.length);'],
        healthy: ['const promise = new Promise((resolve) => setImmediate(resolve));', 'pending.add(promise);', 'void promise.then(() => { pending.delete(promise); return made.length; });'] },
    listener: { setup: ["const bus = new (require('events'))();", 'bus.setMaxListeners(0);'], leak: ["bus.on('change', () => made.length);"], healthy: ["bus.once('change', () => made.length);", "bus.emit('change');"] },
    timer: { setup: ['const timers = [];'], leak: ['timers.push(setInterval(() => made.length, 600000));'], healthy: ['const timer = setInterval(() => made.length, 600000);', 'clearInterval(timer);'] },
    list: { setup: ['let head = null;'], leak: ['head = { made, next: head };'], healthy: ['head = { made, next: null };'] },
    index: { setup: ['const byWord = new Map();'], leak: ['for (const entry of made) byWord.set(entry.text + key, entry);'], healthy: ['for (const entry of made) byWord.set(entry.text.length, entry);'] },
};
export const LEAK_TYPES = Object.keys(LEAKS);

// Others, likewise: what is kept lies outside of V8's heap, is a key, or is held by what runs on. What is large and quickly
// marked (Buffers, texts) V8 collects only when it has grown by 64 MB or fourfold: so there are more requests, without
// which one collection or two were all that anybody could judge by.
const MORE_LEAKS = {
    buffers: { atLeast: 400, setup: ['const kept = [];'], leak: ['kept.push(Buffer.alloc(made.length * 200, key));'], healthy: ['kept.push(Buffer.alloc(made.length * 200, key));', 'if (kept.length > 20) kept.shift();'] },
    keys: { setup: ['const seen = new Map(), weak = new WeakMap();'], leak: ['seen.set({ key }, made);'], healthy: ['weak.set({ key }, made);'] },
    intervals: { setup: [], leak: ['setInterval(() => made.length, 500);'], healthy: ['const timer = setInterval(() => made.length, 5);', 'setTimeout(() => clearInterval(timer), 20);'] },
    context: { setup: ["const storage = new (require('async_hooks').AsyncLocalStorage)();"], leak: ['storage.run(made, () => setTimeout(() => storage.getStore(), 600000));'], healthy: ['storage.run(made, () => setTimeout(() => storage.getStore(), 20));'] },
    texts: { atLeast: 400, setup: ['const texts = new Set();'], leak: ["texts.add(Buffer.from(made.map((entry) => entry.text).join().repeat(6) + key).toString('latin1'));"], healthy: ["texts.add(made.map((entry) => entry.text).join().repeat(6).replaceAll(/\\d/g, ''));"] },
};
export const MORE_LEAK_TYPES = Object.keys(MORE_LEAKS);

export function leak(app, { strengthMs, healthy, type }) {
    const { chance } = app, kind = LEAKS[type] || MORE_LEAKS[type], name = chance.name(), file = app.newFile(), mark = chance.word();
    app.addFunction(file, name, [`function ${name}(n) {`, '    const key = ++counter;', '    const made = Array.from({ length: n }, (_, i) => ({ id: key * 1e5 + i, text: `entry ${i} of ${key}`, parts: [i, i] }));',
        ...kind[healthy ? 'healthy' : 'leak'].map((line) => '    ' + line), '    return made.length;', '}']);
    app.files.get(file).functions.push({ name: '-', lines: ['let counter = 0;', ...kind.setup] });
    const route = plantSync(app, { file, core: name, mark }), n = Math.round(strengthMs * 40);
    return {
        routes: [{ target: () => `${route}?n=${n}`, everyMs: 18, atOnce: 2, atLeast: kind.atLeast || 220, warm: `${route}?n=10` }],
        expect: healthy ? [] : [{ cause: 'memory-leak', kinds: ['memory-leak-suspected'], also: ['gc-pressure'], places: [{}] }],
    };
}

/* ---- encoding ---- */

const ENCODINGS = [
    { name: 'buffer as JSON', text: 'JSON.stringify({ name: \'file\', data: bytes })', per: 45 },
    { name: 'array of numbers', text: 'JSON.stringify({ name: \'file\', data: Array.from(bytes) })', per: 30 },
    { name: 'hex in JSON, read back', text: 'JSON.parse(JSON.stringify({ data: bytes.toString(\'hex\'), list: Array.from(bytes.subarray(0, bytes.length >> 1)) })).data', per: 20 },
];

// A file is read (quickly) and sent as text (slowly).
export function serialisation(app, { strengthMs, healthy }) {
    const { chance } = app, kind = chance.pick(ENCODINGS), name = chance.name(), handler = chance.name(), file = app.newFile(), mark = chance.word();
    const encode = evaluate(name, [`function ${name}(bytes) {`, `    return ${kind.text};`, '}']);
    let size = 10_000;
    for (let took = 0; !healthy && !calibration.skip && took < strengthMs && size < 4e6;) {
        size = Math.round(size * 1.3);
        const bytes = Buffer.alloc(size, 'some bytes of a file');
        encode(bytes);
        took = timed(() => encode(bytes));
    }
    const data = `${chance.word()}.bin`;
    app.require(file, 'fs', 'fs');
    app.require(file, 'path', 'path');
    app.files.get(file).functions.push({ name: '-', lines: [`const stored = path.join(require('os').tmpdir(), '${data}' + process.pid);`, `fs.writeFileSync(stored, Buffer.alloc(${size}, 'some bytes of a file'));`, "process.on('exit', () => fs.unlinkSync(stored));"] });
    app.addFunction(file, name, [`function ${name}(bytes) {`, `    return ${healthy ? 'bytes' : kind.text};`, '}']);
    const promise = app.style === 'promise';
    app.stalling.add(mark);
    // All that the loop does of it in one turn, too: the text is also sent.
    const rest = ['const since = clock();', `const text = ${name}(bytes);`, `note('${mark}', since);`, `process.nextTick(() => note('${mark} turn', since));`];
    const route = app.addHandler(file, handler, promise ? ['const bytes = await fs.promises.readFile(stored);', ...rest, 'ANSWER(text);']
        : ['fs.readFile(stored, (error, bytes) => {', ...rest.map((line) => '    ' + line), '    ANSWER(text);', '});']);
    return {
        routes: [{ target: () => route, everyMs: healthy ? 50 : Math.max(strengthMs * 4, 90), atOnce: 2, atLeast: 6, warm: null }],
        expect: healthy ? [] : [{ cause: 'serialisation', kinds: (book) => (ranMs(mark, book).at(-1) >= 45 ? ['serialisation', 'event-loop-blocked'] : ['serialisation']), also: ['gc-pressure'], places: [...placeOf(app, name, handler), { text: new RegExp(route) }],
            blamed: (book, context, found) => (found === 'serialisation' ? bookedRan(mark) : bookedRan(`${mark} turn`, STALL_MS))(book) }],
    };
}
