// Faults of what many requests share: a few connections, worker threads, or places that the program counts itself. Those that find all
// of them held wait in the program, where no operation of theirs has begun.
// SPDX-License-Identifier: Apache-2.0
import { booked, plantCall } from './common.mjs';

const total = (intervals) => intervals.reduce((sum, [since, until]) => sum + until - since, 0);

// Twice as many as the lanes can serve.
const pressure = (strengthMs, lanes) => ({ everyMs: strengthMs / lanes / 2, atOnce: lanes * 3, atLeast: lanes * 6 });

/* ---- connections ---- */

// How the program comes to share them: Node's agent with its limit, a pool of its own, one connection, a limit in front of calls.
export const SHARED = ['agent', 'sockets', 'one', 'limit'];

export function connections(app, { strengthMs, healthy, how }) {
    const { chance } = app, file = app.newFile(), call = chance.name(), mark = chance.word(), variable = `${chance.word()}_port`.toUpperCase();
    const lanes = how === 'one' ? 1 : chance.pick([2, 3, 4]), http = how === 'agent' || how === 'limit';
    const take = chance.name(), give = chance.name(), ask = chance.path();
    const state = (...lines) => app.files.get(file).functions.push({ name: '-', lines });
    app.require(file, http ? 'http' : 'net', http ? 'http' : 'net');
    if (http) {
        state(`const keep = new http.Agent({ keepAlive: true${how === 'agent' ? `, maxSockets: ${lanes}` : ''} });`);
        const get = (finish) => [`    http.get({ host: '127.0.0.1', port: process.env.${variable}, path: '${ask}', agent: keep }, (response) => {`, "        let text = '';", `        response.on('data', (part) => (text += part)).on('end', () => ${finish('null, text')});`, `    }).on('error', (error) => ${finish('error')});`];
        if (how === 'limit') {
            state('const waiting = [];', 'let busy = 0;');
            app.addFunction(file, give, [`function ${give}() {`, '    busy--;', '    if (waiting.length) waiting.shift()();', '}']);
            app.addFunction(file, call, [`function ${call}(finish) {`, `    if (busy >= ${lanes}) return waiting.push(() => ${call}(finish));`, '    busy++;', ...get((result) => `(${give}(), finish(${result}))`), '}']);
        } else {
            app.addFunction(file, call, [`function ${call}(finish) {`, ...get((result) => `finish(${result})`), '}']);
        }
    } else {
        state('const free = [], waiting = [];', 'let made = 0;');
        app.addFunction(file, take, [`function ${take}(use) {`, '    if (free.length) return use(free.pop());', `    if (made >= ${lanes}) return waiting.push(use);`, '    made++;', `    use(net.connect(Number(process.env.${variable}), '127.0.0.1'));`, '}']);
        app.addFunction(file, give, [`function ${give}(socket) {`, '    waiting.length ? waiting.shift()(socket) : free.push(socket);', '}']);
        app.addFunction(file, call, [`function ${call}(finish) {`, `    ${take}((socket) => {`, '        socket.removeAllListeners();', "        socket.on('error', finish).once('data', (text) => {", `            ${give}(socket);`, '            finish(null, String(text));', '        });', "        socket.write('question\\n');", '    });', '}']);
    }
    const route = plantCall(app, { file, call, mark });
    return {
        routes: [{ target: () => route, ...(healthy ? { everyMs: 60, atOnce: lanes } : pressure(strengthMs, lanes)), warm: route }],
        peers: [{ variable, kind: http ? 'http' : 'tcp', delayMs: healthy ? 1 : strengthMs, chance }],
        expect: healthy ? [] : [{ cause: `connections: ${how}`, kinds: ['connection-pool-starved'], also: ['slow-peer'], places: [{ peer: variable }], blamed: (book, { late }) => booked(mark)(book) - total(late[variable]) }],
    };
}

/* ---- worker threads ---- */

// What a task does: it computes, or it waits for something of its own.
const TASKS = {
    computing: ['    const until = process.hrtime.bigint() + BigInt(Math.round(ms * 1e6));', '    let x = 1;', '    while (process.hrtime.bigint() < until) for (let i = 0; i < 1000; i++) x = (x * 31 + i) % 65537;'],
    waiting: ['    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);'],
};
export const TASK_KINDS = Object.keys(TASKS);

export function workers(app, { strengthMs, healthy, how }) {
    const { chance } = app, file = app.newFile(), call = chance.name(), next = chance.name(), worker = chance.name(), mark = chance.word(), own = chance.word(), lanes = 2;
    app.require(file, 'threads', 'worker_threads');
    app.addFunction(file, worker, [`function ${worker}() {`, "    const { parentPort } = require('worker_threads');", "    parentPort.on('message', (ms) => {", '    const since = process.hrtime.bigint();', ...TASKS[how], '    parentPort.postMessage({ since, until: process.hrtime.bigint() });', '    });', '}']);
    app.addFunction(file, next, [`function ${next}() {`, '    if (!idle.length || !tasks.length) return;', '    const thread = idle.shift(), { ms, finish } = tasks.shift();', "    thread.once('message', ({ since, until }) => {", `        note('${own}', since, until);`, '        idle.push(thread);', '        finish(null, ms);', `        ${next}();`, '    });', '    thread.postMessage(ms);', '}']);
    app.files.get(file).functions.push({ name: '-', lines: ['const tasks = [];', `const idle = Array.from({ length: ${lanes} }, () => new threads.Worker('(' + ${worker} + ')()', { eval: true }));`, 'for (const thread of idle) thread.unref();'] });
    app.addFunction(file, call, [`function ${call}(finish) {`, `    tasks.push({ ms: ${healthy ? 1 : strengthMs}, finish });`, `    ${next}();`, '}']);
    const route = plantCall(app, { file, call, mark });
    return {
        routes: [{ target: () => route, ...(healthy ? { everyMs: 80, atOnce: lanes } : pressure(strengthMs, lanes)), warm: route }],
        expect: healthy ? [] : [{ cause: `workers: ${how}`, kinds: ['worker-pool-starved'], places: [{ text: new RegExp(route) }], blamed: (book) => booked(mark)(book) - booked(own)(book) }],
    };
}
