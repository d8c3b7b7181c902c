// Faults that keep the event loop: regular expressions (of one's own and of well-known modules), plain JavaScript,
// JSON, synchronous calls, a lock.
// SPDX-License-Identifier: Apache-2.0
import { createRequire } from 'node:module';
import { booked, bookedRan, calibrate, calibration, evaluate, faultGap, placeOf, plantSync, STALL_MS, timed } from './common.mjs';

const load = createRequire(import.meta.url);

// The same as TypeScript: what its compiler takes away.
const inLanguage = (language, lines) => (language === 'ts' ? lines.map((line) => line.replace(/^(function \w+)\((\w+)\) \{/, (_, head, argument) => `${head}(${argument}: ${argument === 'text' ? 'string' : 'number'}) {`)) : lines);

/* ---- regular expressions ---- */

// text(n): an input on which the expression backtracks; grow: how n is made larger.
const EXPRESSIONS = [
    { source: '/^(a+)+$/', use: 'test', text: (n) => 'a'.repeat(n) + '!', first: 18, grow: (n) => n + 1, harmless: 'aaaa' },
    { source: '/^([a-z0-9]+\\.?)*@end$/', use: 'test', text: (n) => 'a1'.repeat(n >> 1) + '#', first: 16, grow: (n) => n + 2, harmless: 'ab.c@end' },
    { source: '/(x+x+)+y/', use: 'exec', text: (n) => 'x'.repeat(n), first: 16, grow: (n) => n + 1, harmless: 'xxy' },
    { source: '/^(\\d+\\s?)*;$/', use: 'test', text: (n) => '1'.repeat(n) + 'x', first: 18, grow: (n) => n + 1, harmless: '12 3;' },
    { source: '/\\s+$/', use: 'replace', text: (n) => ' '.repeat(n) + 'z', first: 2000, grow: (n) => Math.ceil(n * 1.25), harmless: 'word  ' },
    { source: '/[a-z]+\\d*@[a-z]+\\.org/g', use: 'match', text: (n) => 'a'.repeat(n), first: 2000, grow: (n) => Math.ceil(n * 1.25), harmless: 'me@here.org' },
    { source: '/(.*),(.*),(.*)!/', use: 'exec', text: (n) => ','.repeat(n), first: 150, grow: (n) => Math.ceil(n * 1.15), harmless: 'a,b,c!' },
    { source: '/^(([a-z])+.)+[A-Z]([a-z])+$/', use: 'test', text: (n) => 'a'.repeat(n), first: 18, grow: (n) => n + 1, harmless: 'aAbc' },
    { source: '/<!--[^]*?-->/', use: 'split', text: (n) => '<!--'.repeat(n), first: 1500, grow: (n) => Math.ceil(n * 1.25), harmless: 'a<!-- b -->c' },
];
const USES = {
    test: (re) => `${re}.test(text)`,
    exec: (re) => `${re}.exec(text) !== null`,
    replace: (re) => `text.replace(${re}, '').length`,
    match: (re) => `(text.match(${re}) || []).length`,
    split: (re) => `text.split(${re}).length`,
};

export function regexp(app, { strengthMs, healthy, language }) {
    const { chance } = app, e = chance.pick(EXPRESSIONS), name = chance.name(), file = app.newFile(language), mark = chance.word();
    const lines = [`function ${name}(text) {`, `    const found = ${USES[e.use](e.source)};`, '    return found;', '}'];
    app.addFunction(file, name, inLanguage(language, lines));
    const core = evaluate(name, lines);
    for (let i = 0; i < 300; i++) core(e.harmless); // compiled, as in the program
    const n = calibrate((k) => core(e.text(k)), strengthMs, e.first, e.grow);
    // The text is made in the program: a query string has its limits.
    const maker = chance.name();
    app.addFunction(file, maker, [`function ${maker}(n) {`, `    return (${e.text})(n);`, '}']);
    const own = app.newFile(), handler = chance.name();
    app.stalling.add(mark);
    app.require(own, `{ ${name}, ${maker} }`, `@/${file}`);
    const route = app.addHandler(own, handler, [...app.pause(own), `const text = query.has('n') ? ${maker}(Number(query.get('n'))) : query.get('text');`,
        'const since = clock();', `const found = ${name}(text);`, `note('${mark}', since);`, "ANSWER(String(found) + '\\n');"]);
    const harmless = `${route}?text=${encodeURIComponent(e.harmless)}`;
    return {
        routes: [{ target: () => (healthy ? harmless : `${route}?n=${n}`), everyMs: healthy ? 40 : faultGap(strengthMs), atOnce: 1, atLeast: 3, warm: harmless }],
        expect: healthy ? [] : [{ cause: 'blocking-regexp', kinds: ['blocking-regexp'], places: placeOf(app, name), blamed: bookedRan(mark, STALL_MS) }],
    };
}

// Modules of which a version is known to backtrack, called as their users do.
const MODULES = {
    'dns-sync': { call: "(() => { try { return used.resolve('a'.repeat(n) + '-'); } catch (error) { return null; } })()", first: 20, grow: (n) => n + 1, harmless: 3 },
    fresh: { call: "used({ 'if-none-match': 'a' + ' '.repeat(n) + 'b' }, { etag: 'x' })", first: 3000, grow: (n) => Math.ceil(n * 1.2), harmless: 5 },
    forwarded: { call: "used({ headers: { 'x-forwarded-for': '1' + ' '.repeat(n) + '2' }, connection: { remoteAddress: '::1' } })", first: 3000, grow: (n) => Math.ceil(n * 1.2), harmless: 5 },
    slug: { call: "used('a' + ' '.repeat(n) + 'b')", first: 2000, grow: (n) => Math.ceil(n * 1.2), harmless: 5 },
    moment: { call: "used('1'.repeat(n), 'MMM').isValid()", first: 3000, grow: (n) => Math.ceil(n * 1.2), harmless: 3 },
    marked: { call: "used('`' + ' '.repeat(n) + 'b')", first: 100, grow: (n) => Math.ceil(n * 1.2), harmless: 4 },
    ms: { call: "used('5'.repeat(n) + '!')", first: 800, grow: (n) => Math.ceil(n * 1.2), harmless: 4 },
    'tough-cookie': { call: "used.Cookie.parse('x' + ' '.repeat(n) + 'y')", first: 3000, grow: (n) => Math.ceil(n * 1.2), harmless: 5 },
};
export const REGEXP_MODULES = Object.keys(MODULES);

// Others, likewise.
const MORE_MODULES = {
    trim: { call: "used('a' + ' '.repeat(n) + 'b')", first: 3000, grow: (n) => Math.ceil(n * 1.2), harmless: 5 },
    minimatch: { call: "used('a', '+(' + '\\\\'.repeat(n) + 'b')", first: 2000, grow: (n) => Math.ceil(n * 1.2), harmless: 4 },
    semver: { call: "used.validRange('1.2.3 ' + ' '.repeat(n) + '<1.3.0x')", first: 2000, grow: (n) => Math.ceil(n * 1.2), harmless: 4 },
    'brace-expansion': { call: "used('{' + ','.repeat(n) + '\\n}')", first: 18, grow: (n) => n + 1, harmless: 3 },
    'ua-parser-js': { call: "new used('android mi' + ' '.repeat(n)).getDevice().model", first: 60, grow: (n) => Math.ceil(n * 1.2), harmless: 2 },
    'path-to-regexp': { call: "used('/:a-:b-:c').exec('/a' + '-a'.repeat(n) + '//')", first: 200, grow: (n) => Math.ceil(n * 1.2), harmless: 2, inCaller: true },
    lodash: { call: "used.trim('a' + ' '.repeat(n) + 'a').length", first: 3000, grow: (n) => Math.ceil(n * 1.2), harmless: 5 },
    mime: { call: "used.lookup('a'.repeat(n))", first: 3000, grow: (n) => Math.ceil(n * 1.2), harmless: 5 },
    'ansi-regex': { call: "('\\u001B[' + ';'.repeat(n)).replace(used(), '').length", first: 2000, grow: (n) => Math.ceil(n * 1.2), harmless: 4, inCaller: true },
};
export const MORE_REGEXP_MODULES = Object.keys(MORE_MODULES);

export function regexpModule(app, { strengthMs, healthy, module }) {
    const { chance } = app, m = MODULES[module] || MORE_MODULES[module], name = chance.name(), file = app.newFile(), mark = chance.word();
    app.require(file, 'used', module);
    const lines = [`function ${name}(n) {`, `    return ${m.call};`, '}'];
    app.addFunction(file, name, lines);
    const core = evaluate(name, lines, { used: load(module) });
    const n = healthy ? m.harmless : calibrate(core, strengthMs, m.first, m.grow);
    const route = plantSync(app, { file, core: name, mark });
    return {
        routes: [{ target: () => `${route}?n=${n}`, everyMs: healthy ? 40 : faultGap(strengthMs), atOnce: 1, atLeast: 3, warm: `${route}?n=${m.harmless}` }],
        expect: healthy ? [] : [{ cause: 'blocking-regexp', kinds: ['blocking-regexp'], places: m.inCaller ? placeOf(app, name) : [{ place: { file: `node_modules/${module}/` } }], blamed: bookedRan(mark, STALL_MS) }],
    };
}

/* ---- plain JavaScript, TypeScript ---- */

const more = (factor) => (n) => Math.ceil(n * factor);
const LOOPS = [
    { body: (x) => [`function ${x}(n) {`, '    let value = 1;', '    for (let i = 0; i < n * 1000; i++) value = (value * 1103515245 + 12345) % 2147483648;', '    return value;', '}'], first: 2000, grow: more(1.3), small: 20 },
    { body: (x) => [`function ${x}(n) {`, `    return n < 2 ? n : ${x}(n - 1) + ${x}(n - 2);`, '}'], first: 25, grow: (n) => n + 1, small: 10 },
    { body: (x) => [`function ${x}(n) {`, '    const sieve = new Uint8Array(n * 1000);', '    let primes = 0;', '    for (let i = 2; i < sieve.length; i++) {', '        if (sieve[i]) continue;', '        primes++;', '        for (let k = i * 2; k < sieve.length; k += i) sieve[k] = 1;', '    }', '    return primes;', '}'], first: 1000, grow: more(1.3), small: 2 },
    { body: (x) => [`function ${x}(n) {`, "    const a = 'kitten'.repeat(n), b = 'sitting'.repeat(n);", '    let row = Array.from({ length: b.length + 1 }, (_, i) => i);', '    for (let i = 1; i <= a.length; i++) {', '        const next = [i];', '        for (let k = 1; k <= b.length; k++) next[k] = Math.min(next[k - 1] + 1, row[k] + 1, row[k - 1] + (a[i - 1] === b[k - 1] ? 0 : 1));', '        row = next;', '    }', '    return row[b.length];', '}'], first: 100, grow: more(1.15), small: 3 },
    { body: (x) => [`function ${x}(n) {`, '    let hash = 7;', '    for (let round = 0; round < n; round++)', '        for (let i = 0; i < 4096; i++) hash = (hash * 31 + ((i ^ round) & 255)) | 0;', '    return hash;', '}'], first: 3000, grow: more(1.3), small: 10 },
    { body: (x, y) => [`function ${x}(n) {`, '    let inside = 0;', '    for (let i = 0; i < n * 100; i++) inside += ' + y + '(i);', '    return inside;', '}'], helper: (y) => [`function ${y}(i) {`, '    let steps = 0;', '    for (let k = i + 1; k !== 1 && steps < 300; steps++) k = k % 2 ? 3 * k + 1 : k / 2;', '    return steps;', '}'], first: 800, grow: more(1.25), small: 3 },
    { body: (x) => [`function ${x}(n) {`, '    const list = Array.from({ length: n * 100 }, (_, i) => (i * 7919) % 100003);', '    list.sort((a, b) => a - b);', '    return list[0];', '}'], first: 500, grow: more(1.3), small: 2 },
];

export function javascript(app, { strengthMs, healthy, language }) {
    const { chance } = app, kind = chance.pick(LOOPS), name = chance.name(), helper = chance.name(), file = app.newFile(language), mark = chance.word();
    const lines = kind.body(name, helper), extra = kind.helper ? kind.helper(helper) : [];
    if (kind.helper) app.addFunction(file, helper, inLanguage(language, extra));
    app.addFunction(file, name, inLanguage(language, lines));
    const core = evaluate(name, [...extra, ...lines]);
    for (let i = 0; i < 3; i++) core(kind.small);
    const n = calibrate(core, strengthMs, kind.first, kind.grow);
    const route = plantSync(app, { file, core: name, mark });
    return {
        routes: [{ target: () => `${route}?n=${healthy ? kind.small : n}`, everyMs: healthy ? 40 : faultGap(strengthMs), atOnce: 1, atLeast: 3, warm: `${route}?n=${kind.small}` }],
        expect: healthy ? [] : [{ cause: 'blocked: javascript', kinds: ['event-loop-blocked'], places: placeOf(app, name, ...(kind.helper ? [helper] : [])), blamed: bookedRan(mark, STALL_MS) }],
    };
}

/* ---- JSON ---- */

export function json(app, { strengthMs, healthy }) {
    const { chance } = app, parse = chance.next() < 0.5, name = chance.name(), rows = chance.name(), file = app.newFile(), mark = chance.word();
    const make = [`function ${rows}(n) {`, `    return Array.from({ length: n * 10 }, (_, id) => ({ id, name: 'item ' + id, tags: ['new', 'blue'], price: id * 1.25, open: id % 2 === 0 }));`, '}'];
    const body = parse ? '    return JSON.parse(kept.get(n)).length;' : '    return JSON.stringify(kept.get(n)).length;';
    const prepare = parse ? `JSON.stringify(${rows}(n))` : `${rows}(n)`;
    const core = evaluate(name, [...make, 'const kept = new Map();', `function ${name}(n) {`, `    if (!kept.has(n)) kept.set(n, ${prepare});`, body, '}']);
    let n = healthy ? 5 : 400;
    for (core(n); !healthy && !calibration.skip && timed(() => core(n)) < strengthMs && n < 200_000; core(n)) n = Math.ceil(n * 1.3);
    app.addFunction(file, rows, make);
    app.addFunction(file, name, [`function ${name}(n) {`, body, '}']);
    // What is encoded is there before anybody asks.
    app.files.get(file).functions.push({ name: '-', lines: [`const kept = new Map([5, ${n}].map((n) => [n, ${prepare}]));`] });
    const route = plantSync(app, { file, core: name, mark });
    return {
        routes: [{ target: () => `${route}?n=${n}`, everyMs: healthy ? 40 : faultGap(strengthMs), atOnce: 1, atLeast: 3, warm: `${route}?n=5` }],
        expect: healthy ? [] : [{ cause: 'blocked: json', kinds: ['event-loop-blocked', 'serialisation'], places: placeOf(app, name), blamed: (book, context, found) => bookedRan(mark, found === 'serialisation' ? 0 : STALL_MS)(book) }],
    };
}

/* ---- synchronous calls ---- */

const CALLS = [
    { what: 'pbkdf2Sync', module: 'crypto', body: "    return used.pbkdf2Sync('secret', 'salt', n * 1000, 32, 'sha256').length;", first: 50, grow: more(1.3), small: 1 },
    { what: 'scryptSync', module: 'crypto', body: "    return used.scryptSync('secret', 'salt' + n, 32, { N: 1024, r: 8, p: n }).length;", first: 20, grow: more(1.3), small: 1 },
    { what: 'gzipSync', module: 'zlib', body: "    return used.gzipSync(Buffer.from('some text to pack '.repeat(n * 100)), { level: 9 }).length;", first: 300, grow: more(1.3), small: 1 },
    { what: 'brotliCompressSync', module: 'zlib', body: "    return used.brotliCompressSync(Buffer.from('text to pack ' + n.toString(36).repeat(n * 10))).length;", first: 100, grow: more(1.3), small: 1 },
    { what: 'execFileSync', module: 'child_process', body: "    return used.execFileSync('/bin/sleep', [String(n / 1000)]).length;", exact: true, small: 1 },
    { what: 'readFileSync', module: 'fs', body: "    let size = 0;\n    for (let i = 0; i < n; i++) size += used.readFileSync(stored).length;\n    return size;", first: 500, grow: more(1.3), small: 1, stored: true },
    { what: 'createHash', module: 'crypto', body: "    return used.createHash('sha512').update(Buffer.alloc(n * 100000, 7)).digest('hex').length;", first: 100, grow: more(1.3), small: 1 },
];
export const SYNC_CALLS = CALLS.map((c) => c.what);

export function syncCall(app, { strengthMs, healthy, what }) {
    const { chance } = app, kind = what ? CALLS.find((c) => c.what === what) : chance.pick(CALLS), name = chance.name(), file = app.newFile(), mark = chance.word();
    app.require(file, 'used', kind.module);
    const lines = [`function ${name}(n) {`, ...kind.body.split('\n'), '}'];
    app.addFunction(file, name, lines);
    // The same file as here, or it would take another time.
    if (kind.stored) app.files.get(file).functions.push({ name: '-', lines: ["const stored = require.resolve('express');"] });
    const core = evaluate(name, lines, { used: load(kind.module), stored: load.resolve('express') });
    const n = healthy ? kind.small : kind.exact ? Math.round(strengthMs) : calibrate(core, strengthMs, kind.first, kind.grow);
    const route = plantSync(app, { file, core: name, mark });
    // A process that is started is no small thing: none of it in the healthy twin.
    const target = healthy && kind.exact ? null : `${route}?n=${n}`;
    return {
        routes: target ? [{ target: () => target, everyMs: healthy ? 60 : faultGap(strengthMs), atOnce: 1, atLeast: 3, warm: kind.exact ? null : `${route}?n=${kind.small}` }] : [],
        expect: healthy ? [] : [{ cause: 'blocked: sync call', kinds: ['event-loop-blocked'], places: placeOf(app, name), blamed: (kind.exact ? booked : bookedRan)(mark, STALL_MS) }],
    };
}

/* ---- a lock ---- */

// A worker thread holds a lock in shared memory, and the main thread waits for it.
export function lock(app, { strengthMs, healthy }) {
    const { chance } = app, name = chance.name(), start = chance.name(), file = app.newFile(), mark = chance.word(), worker = chance.name();
    app.require(file, 'threads', 'worker_threads');
    app.addFunction(file, worker, [`function ${worker}() {`, "    const { workerData, parentPort } = require('worker_threads');", '    const cell = new Int32Array(workerData);', "    parentPort.on('message', (ms) => {",
        '        Atomics.store(cell, 0, 1);', '        Atomics.store(cell, 1, 1);', '        Atomics.notify(cell, 1);', '        Atomics.wait(cell, 2, 0, ms);', '        Atomics.store(cell, 0, 0);', '        Atomics.notify(cell, 0);', '    });', '}']);
    app.addFunction(file, start, [`function ${start}() {`, '    const shared = new SharedArrayBuffer(16);', `    const thread = new threads.Worker('(' + ${worker} + ')()', { eval: true, workerData: shared });`, '    return { cell: new Int32Array(shared), thread };', '}']);
    app.files.get(file).functions.push({ name: '-', lines: [`const guard = ${start}();`] });
    app.addFunction(file, name, [`function ${name}(n) {`, '    Atomics.store(guard.cell, 1, 0);', '    guard.thread.postMessage(n);', '    Atomics.wait(guard.cell, 1, 0);', '    Atomics.wait(guard.cell, 0, 1);', '    return n;', '}']);
    const route = plantSync(app, { file, core: name, mark }), n = healthy ? 1 : Math.round(strengthMs);
    return {
        routes: [{ target: () => `${route}?n=${n}`, everyMs: healthy ? 60 : faultGap(strengthMs), atOnce: 1, atLeast: 3, warm: `${route}?n=1` }],
        expect: healthy ? [] : [{ cause: 'lock-wait', kinds: ['lock-wait'], places: placeOf(app, name), blamed: booked(mark, STALL_MS) }],
    };
}
