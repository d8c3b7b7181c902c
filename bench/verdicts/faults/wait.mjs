// Faults that make requests wait for something: a pool thread, a disk, a name, a peer, another process, a Redis that
// is busy, a CPU.
// SPDX-License-Identifier: Apache-2.0
import { createRequire } from 'node:module';
import { booked, calibrate, evaluate, faultGap, placeOf, plantCall, plantSync, STALL_MS } from './common.mjs';

const load = createRequire(import.meta.url);
const POOL_WAIT_MS = 20; // sonde report --pool-wait-ms
const LONG_TURN_MS = 20; // a shorter one hides nothing

// An asynchronous operation with its time noted: expression has CALLBACK as its last argument.
function operation(app, { file, mark, expression, count = '1' }) {
    const { chance } = app, one = chance.name(), handler = chance.name();
    app.addFunction(file, one, [`function ${one}(n) {`, '    return new Promise((resolve, reject) => {', '        const since = clock();', `        ${expression.replace('CALLBACK', `(error, value) => {\n            note('${mark}', since);\n            error ? reject(error) : resolve(value);\n        }`)};`, '    });', '}']);
    const all = `Promise.all(Array.from({ length: ${count} }, () => ${one}(Number(query.get('n')))))`;
    return app.addHandler(file, handler, app.style === 'promise' ? [...app.pause(file), `await ${all};`, "ANSWER('done\\n');"]
        : [`${all}.then(() => {`, "    ANSWER('done\\n');", '}, done);']);
}

/* ---- the thread pool ---- */

// When each operation began, from when it was asked for and when it was done: first come, first served by so many
// threads, of which libuv gives at most half to resolving names.
export function poolWaits(operations, threads) {
    const free = Array(threads).fill(0), slots = Array((threads + 1) >> 1).fill(0);
    const soonest = (list) => list.indexOf(Math.min(...list));
    let waited = 0;
    for (const { since, until, name } of [...operations].sort((a, b) => a.since - b.since)) {
        const thread = soonest(free), slot = soonest(slots);
        const begun = Math.min(until, Math.max(since, free[thread], name ? slots[slot] : 0));
        free[thread] = until;
        if (name) slots[slot] = until;
        if (begun - since >= POOL_WAIT_MS * 1e6) waited += begun - since;
    }
    return waited;
}

// atOnce: the same without the pool, for n to be found with which it takes as long as it shall.
const OCCUPANTS = {
    crypto: { module: 'crypto', expression: "used.pbkdf2('secret', 'salt', n * 1000, 32, 'sha256', CALLBACK)", text: /PBKDF2|pbkdf2/i, atOnce: "used.pbkdf2Sync('secret', 'salt', n * 1000, 32, 'sha256')", first: 50 },
    scrypt: { module: 'crypto', expression: "used.scrypt('secret', 'salt', 32, { N: 1024, r: 8, p: n }, CALLBACK)", text: /SCRYPT/i, atOnce: "used.scryptSync('secret', 'salt', 32, { N: 1024, r: 8, p: n })", first: 5 },
    zlib: { module: 'zlib', expression: 'used.brotliCompress(Buffer.alloc(n * 1000, "text to pack " + n), { params: { [used.constants.BROTLI_PARAM_QUALITY]: 11 } }, CALLBACK)', text: /ZLIB|brotli|work/i, atOnce: 'used.brotliCompressSync(Buffer.alloc(n * 1000, "text to pack " + n), { params: { [used.constants.BROTLI_PARAM_QUALITY]: 11 } })', first: 200 },
    dns: { module: 'dns', expression: "used.lookup('host' + n + '.SLOW.test', { family: 4 }, CALLBACK)", text: /getaddrinfo|GETADDRINFO/i, slow: true },
    fs: { module: 'fs', expression: 'used.read(descriptor, Buffer.alloc(4096), 0, 4096, 0, CALLBACK)', text: /fs_read/, slow: true },
};
export const POOL_OCCUPANTS = Object.keys(OCCUPANTS);

export function pool(app, { strengthMs, healthy, occupant }) {
    const { chance } = app, kind = OCCUPANTS[occupant], file = app.newFile(), mark = chance.word(), small = chance.word(), slow = chance.word();
    const threads = healthy ? 4 : chance.pick([2, 3, 4]);
    app.env.UV_THREADPOOL_SIZE = String(threads);
    app.countsPool = true;
    app.require(file, 'used', kind.module);
    app.require(file, 'fs', 'fs');
    if (occupant === 'fs') app.files.get(file).functions.push({ name: '-', lines: [`fs.mkdirSync('${slow}', { recursive: true });`, `fs.writeFileSync('${slow}/data', Buffer.alloc(8192, 7));`, `const descriptor = fs.openSync('${slow}/data');`] });
    if (!healthy && occupant === 'fs') Object.assign(app.env, { SLOW_FOLDER: slow, SLOW_READ_US: String(strengthMs * 1000) });
    if (occupant === 'dns') Object.assign(app.env, { SLOW_NAME: slow, SLOW_NAME_US: String(healthy ? 0 : strengthMs * 1000) });
    const burst = occupant === 'dns' ? Math.ceil(threads / 2) + 1 : threads + 1;
    const route = operation(app, { file, mark, expression: kind.expression.replace('SLOW', slow), count: healthy ? '1' : String(burst) });
    const other = app.newFile();
    app.require(other, 'fs', 'fs');
    const victim = operation(app, { file: other, mark: small, expression: 'fs.stat(__filename, CALLBACK)' });
    const n = kind.slow || healthy ? 1 : calibrate(new Function('used', 'n', kind.atOnce).bind(null, load(kind.module)), strengthMs, kind.first, (k) => Math.ceil(k * 1.15));
    const waits = (book) => poolWaits(book.lines.filter(([what]) => what === mark || what === small).map(([what, since, until]) => ({ since, until, name: what === mark && occupant === 'dns' })), threads);
    const expect = [{ cause: `pool: ${occupant}`, kinds: ['thread-pool-starved'], also: kind.slow ? ['slow-io'] : [], places: [{ text: kind.text }, { text: new RegExp(route) }], blamed: occupant === 'zlib' ? undefined : waits }]; // zlib works in several steps
    return {
        routes: [{ target: () => `${route}?n=${n}`, everyMs: healthy ? 70 : Math.max(strengthMs * burst * (kind.slow ? 1 : 1.3), 500), atOnce: 1, atLeast: 3, warm: `${route}?n=1` }, { target: () => victim, everyMs: 25, warm: victim }],
        expect: healthy ? [] : expect,
        shim: kind.slow,
        ownPool: true,
    };
}

/* ---- slow files and names ---- */

const INPUT_OUTPUT = {
    fs_read: { setting: 'SLOW_READ_US', expression: "used.read(descriptor, Buffer.alloc(4096), 0, 4096, 0, CALLBACK)" },
    fs_open: { setting: 'SLOW_OPEN_US', expression: "used.open('SLOW/data', (error, fd) => (error ? reject(error) : used.close(fd, CALLBACK)))" },
    fs_fsync: { setting: 'SLOW_SYNC_US', expression: 'used.fsync(descriptor, CALLBACK)' },
    getaddrinfo: { setting: 'SLOW_NAME_US', module: 'dns', expression: "used.lookup('host.SLOW.test', { family: 4 }, CALLBACK)" },
};
export const SLOW_OPERATIONS = Object.keys(INPUT_OUTPUT);

export function slowIo(app, { strengthMs, healthy, what }) {
    const { chance } = app, kind = INPUT_OUTPUT[what], file = app.newFile(), mark = chance.word(), slow = chance.word();
    app.require(file, 'used', kind.module || 'fs');
    app.require(file, 'fs', 'fs');
    app.files.get(file).functions.push({ name: '-', lines: [`fs.mkdirSync('${slow}', { recursive: true });`, `fs.writeFileSync('${slow}/data', Buffer.alloc(8192, 7));`, `const descriptor = fs.openSync('${slow}/data', 'r+');`] });
    Object.assign(app.env, { [kind.module === 'dns' ? 'SLOW_NAME' : 'SLOW_FOLDER']: slow, [kind.setting]: healthy ? '0' : String(strengthMs * 1000) });
    const route = operation(app, { file, mark, expression: kind.expression.replace('SLOW', slow) });
    return {
        routes: [{ target: () => route, everyMs: healthy ? 40 : Math.max(strengthMs * 3, 150), atOnce: 2, atLeast: 3, warm: null }],
        expect: healthy ? [] : [{ cause: `slow-io: ${what === 'getaddrinfo' ? 'dns' : 'fs'}`, kinds: ['slow-io'], places: [{ text: new RegExp(what) }],
            // By construction; the program learns of it late where its loop stands still.
            blamed: ({ lines }) => lines.reduce((sum, [name, since, until]) => sum + (name === mark ? Math.min(until - since, strengthMs * 1e6) : 0), 0) }],
        shim: true,
    };
}

/* ---- slow peers ---- */

// How long answers were late, each second charged once: an answer that came while the loop stood still was waited for until
// then, and for the loop from then on.
function lateNs(late, { lines }, stalling) {
    const stalls = lines.filter(([what, since, until]) => stalling.has(what) && until - since >= LONG_TURN_MS * 1e6);
    return late.reduce((sum, [since, until]) => {
        const stall = stalls.find(([, from, to]) => from < until && until < to);
        return sum + Math.max(0, (stall ? stall[1] : until) - since);
    }, 0);
}

export function slowPeer(app, { strengthMs, healthy, peer }) {
    const { chance } = app, file = app.newFile(), handler = chance.name(), call = chance.name(), mark = chance.word(), variable = `${chance.word()}_port`.toUpperCase();
    if (peer === 'http') {
        const ask = chance.path();
        app.require(file, 'http', 'http');
        app.addFunction(file, call, [`function ${call}(finish) {`, `    http.get({ host: '127.0.0.1', port: process.env.${variable}, path: '${ask}', agent: keep }, (response) => {`, "        let text = '';", "        response.on('data', (part) => (text += part)).on('end', () => finish(null, text));", "    }).on('error', finish);", '}']);
        app.files.get(file).functions.push({ name: '-', lines: ['const keep = new http.Agent({ keepAlive: true });'] });
    } else if (peer === 'fetch') {
        app.addFunction(file, call, [`function ${call}(finish) {`, `    fetch('http://127.0.0.1:' + process.env.${variable} + '/${chance.word()}').then((response) => response.text()).then((text) => finish(null, text), finish);`, '}']);
    } else if (peer === 'redis') {
        app.require(file, 'Redis', 'ioredis');
        app.addFunction(file, call, [`function ${call}(finish) {`, "    store.get('key', finish);", '}']);
        app.files.get(file).functions.push({ name: '-', lines: [`const store = new Redis(Number(process.env.${variable}), '127.0.0.1', { enableReadyCheck: false });`] });
    } else {
        app.require(file, 'net', 'net');
        app.addFunction(file, call, [`function ${call}(finish) {`, '    const socket = idle.pop() || net.connect(Number(process.env.' + variable + "), '127.0.0.1');", '    socket.removeAllListeners();', "    socket.on('error', finish).once('data', (text) => {", '        idle.push(socket);', '        finish(null, String(text));', "    });", "    socket.write('question\\n');", '}']);
        app.files.get(file).functions.push({ name: '-', lines: ['const idle = [];'] });
    }
    const route = plantCall(app, { file, call, mark, handler });
    return {
        routes: [{ target: () => route, everyMs: healthy ? 40 : Math.max(strengthMs, 60), warm: route }],
        peers: [{ variable, kind: peer === 'fetch' ? 'http' : peer, delayMs: healthy ? 1 : strengthMs, chance }],
        expect: healthy ? [] : [{ cause: `slow-peer: ${peer === 'fetch' ? 'http' : peer}`, kinds: ['slow-peer'], places: [{ peer: variable }], blamed: (book, { late }) => lateNs(late[variable], book, app.stalling) }],
    };
}

/* ---- another process ---- */

// A child answers messages, but late: it waits itself, it is busy, or it does not read what fills its pipe.
export function ipc(app, { strengthMs, healthy, how }) {
    const { chance } = app, file = app.newFile(), handler = chance.name(), call = chance.name(), mark = chance.word(), child = `${chance.word()}.js`, busy = chance.name();
    app.require(file, 'processes', 'child_process');
    app.require(file, 'path', 'path');
    const expect = { cause: `ipc: ${how}`, kinds: ['ipc-blocked'], places: [{ text: new RegExp(`${child}|${mark}|pipe|channel`, 'i') }], blamed: booked(mark, 20) };
    app.files.set(child, { requires: new Map(), functions: [] });
    if (how === 'pipe') {
        app.addFunction(child, busy, [`function ${busy}() {`, '    const input = new (require(\'net\').Socket)({ fd: 3, writable: false });', '    input.pause();', `    setInterval(() => { while (input.read() !== null); }, ${healthy ? 1 : Math.round(strengthMs)});`, '}']);
        app.files.get(child).functions.push({ name: '-', lines: [`${busy}();`] });
        app.files.get(file).functions.push({ name: '-', lines: [`const other = processes.fork(path.join(__dirname, '${'../'.repeat(file.split('/').length - 1)}${child}'), [], { stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'ipc'] });`, "process.on('exit', () => other.kill());"] });
        app.addFunction(file, call, [`function ${call}(finish) {`, `    other.stdio[3].write(Buffer.alloc(${healthy ? 100 : 700_000}, 'x'), finish);`, '}']);
    } else {
        const work = how === 'busy' ? [`    const until = Date.now() + ${healthy ? 0 : strengthMs};`, '    let x = 1;', '    while (Date.now() < until) for (let i = 0; i < 10000; i++) x = (x * 31 + i) % 65537;', '    process.send({ id: message.id, x });']
            : [`    setTimeout(() => process.send({ id: message.id }), ${healthy ? 0 : strengthMs});`];
        app.addFunction(child, busy, [`function ${busy}(message) {`, ...work, '}']);
        app.files.get(child).functions.push({ name: '-', lines: [`process.on('message', ${busy});`, "process.on('disconnect', () => process.exit());"] });
        app.files.get(file).functions.push({ name: '-', lines: [`const other = processes.fork(path.join(__dirname, '${'../'.repeat(file.split('/').length - 1)}${child}'));`, 'const asked = new Map();', 'let last = 0;', "other.on('message', (message) => {", '    const finish = asked.get(message.id);', '    asked.delete(message.id);', '    finish(null, message.id);', '});', "process.on('exit', () => other.kill());"] });
        app.addFunction(file, call, [`function ${call}(finish) {`, '    asked.set(++last, finish);', '    other.send({ id: last });', '}']);
    }
    const route = plantCall(app, { file, call, mark, handler, answer: "'done\\n'" });
    // A child that is busy is a blocked event loop, and that is what its parent waits for.
    if (how === 'busy') Object.assign(expect, { kinds: ['event-loop-blocked', 'ipc-blocked'], also: ['ipc-blocked'], cause: 'ipc: busy', places: [...placeOf(app, busy), ...expect.places], blamed: undefined });
    return { routes: [{ target: () => route, everyMs: healthy ? 50 : Math.max(strengthMs * 2, 300), warm: null }], expect: healthy ? [] : [expect] };
}

/* ---- a busy Redis ---- */

// The fixture of the run: 250,000 keys `key:N`, a list `list` and a set `set` of so many, a hash `hash`.
const COMMANDS = {
    EVAL: { call: (n) => `store.eval('local x = 0 for i = 1, ${n} do x = x + redis.call("EXISTS", KEYS[1]) end return x', 1, 'key:1')`, perMs: 1500, healthy: 10 },
    KEYS: { call: () => "store.keys('*nothing*')", fixed: true },
    SORT: { call: (n) => `store.sort('list', 'BY', 'nosuch*', 'LIMIT', 0, 1, 'ALPHA')`, fixed: true },
    SMEMBERS: { call: () => "store.smembers('set')", fixed: true },
    ZUNIONSTORE: { call: () => "store.zunionstore('out', 2, 'set', 'set')", fixed: true },
};
export const REDIS_COMMANDS = ['EVAL', 'KEYS', 'ZUNIONSTORE'];

export function redisSlow(app, { strengthMs, healthy, command }) {
    const { chance } = app, kind = COMMANDS[command], file = app.newFile(), handler = chance.name(), small = chance.name(), variable = `${chance.word()}_port`.toUpperCase();
    app.require(file, 'Redis', 'ioredis');
    app.files.get(file).functions.push({ name: '-', lines: [`const store = new Redis(Number(process.env.${variable}), '127.0.0.1');`, `const other = new Redis(Number(process.env.${variable}), '127.0.0.1');`] });
    const body = (expression) => (app.style === 'promise' ? [`const value = await ${expression};`, "ANSWER(String(value).slice(0, 20) + '\\n');"] : [`${expression}.then((value) => {`, "    ANSWER(String(value).slice(0, 20) + '\\n');", '}, done);']);
    const get = app.addHandler(file, small, body(`other.get('key:' + ${chance.whole(1, 50000)})`));
    const slow = healthy ? null : app.addHandler(file, handler, body(kind.call(Math.round(strengthMs * (kind.perMs || 1)))));
    return {
        routes: [{ target: () => get, everyMs: 15, warm: get }, ...(slow ? [{ target: () => slow, everyMs: faultGap(strengthMs), atOnce: 1, atLeast: 3, warm: null }] : [])],
        redis: { variable },
        expect: healthy ? [] : [{ cause: `redis: ${command}`, kinds: ['redis-slow-command'], also: ['slow-peer', 'redis-queueing', 'redis-big-reply'], places: [{ text: new RegExp(`"command":"${command}"`) }],
            blamed: (book, { slowlog }) => slowlog.filter((entry) => entry.command === command).reduce((sum, entry) => sum + entry.us * 1000, 0) }],
    };
}

/* ---- a machine with too much to do ---- */

export function runQueue(app, { strengthMs, healthy }) {
    const { chance } = app, name = chance.name(), file = app.newFile(), handler = chance.name(), mark = chance.word();
    const lines = [`function ${name}(n) {`, '    let value = 1;', '    for (let i = 0; i < n * 10000; i++) value = (value * 1103515245 + 12345) % 2147483648;', '    return value;', '}'], core = evaluate(name, lines);
    app.addFunction(file, name, lines);
    core(10);
    const n = calibrate(core, strengthMs, 20, (k) => Math.ceil(k * 1.15));
    const route = app.addHandler(file, handler, ['const since = clock();', 'const before = process.cpuUsage();', `const result = ${name}(Number(query.get('n')));`, 'const used = process.cpuUsage(before);', `note('${mark}', since);`,
        `note('${mark}', 0, (used.user + used.system) * -1000);`, "ANSWER(String(result) + '\\n');"]);
    const waited = ({ lines }) => {
        const mine = lines.filter(([what]) => what === mark);
        let sum = 0;
        for (let i = 0; i + 1 < mine.length; i += 2) {
            const wall = mine[i][2] - mine[i][1], cpu = -mine[i + 1][2];
            if (wall >= STALL_MS * 1e6) sum += Math.max(0, wall - cpu);
        }
        return sum;
    };
    return {
        routes: [{ target: () => `${route}?n=${n}`, everyMs: healthy ? 120 : 250, atOnce: 1, atLeast: 3, warm: `${route}?n=1` }],
        hogs: healthy ? 0 : chance.whole(4, 6),
        expect: healthy ? [] : [{ cause: 'run-queue-wait', kinds: ['run-queue-wait'], info: true, places: [{}], blamed: waited }],
    };
}
