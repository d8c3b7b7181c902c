// Does a program that looks closely notice anything? Serves some requests to itself and prints what it observed, without
// anything that differs from run to run.
'use strict';
const http = require('http');
const vm = require('vm');
const { AsyncLocalStorage, AsyncResource, createHook, executionAsyncId } = require('async_hooks');
const { Worker } = require('worker_threads');
const { once } = require('events');
const { performance, PerformanceObserver } = require('perf_hooks');

const seen = {};
const storages = [new AsyncLocalStorage(), new AsyncLocalStorage()];

// As continuation-local storage libraries do it: a map from async ids, filled by hooks.
const current = new Map();
const types = new Set();
const hook = createHook({
    init(id, type, trigger) { types.add(type); if (current.has(executionAsyncId())) current.set(id, current.get(executionAsyncId())); },
    destroy(id) { current.delete(id); },
});

async function handler(request, response) {
    const n = request.url.slice(1);
    current.set(executionAsyncId(), n);
    await storages[0].run(n, async () => {
        storages[1].enterWith({ n });
        await new Promise((resolve) => setTimeout(resolve, 1));
        await null;
        const resource = new AsyncResource('MINE');
        const inside = resource.runInAsyncScope(() => storages[0].getStore());
        performance.mark('begins');
        const made = [], watch = createHook({ init(id, type) { made.push(type); } }).enable();
        performance.measure(`measure ${n}`, 'begins');
        watch.disable();
        seen.measured = [made, performance.getEntriesByName(`measure ${n}`).length, Reflect.ownKeys(PerformanceObserver.prototype).length];
        response.end(JSON.stringify([n, storages[0].getStore(), storages[1].getStore().n, inside, current.get(executionAsyncId())]));
    });
}

function stack() {
    try { null.x; } catch (error) { return error.stack.split('\n').slice(0, 3).map((line) => line.replace(/\(.*\//, '(')); }
}

async function main() {
    hook.enable();
    const server = http.createServer(handler);
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const ask = (n) => new Promise((resolve) => http.get({ host: '127.0.0.1', port: server.address().port, path: `/${n}`, agent: false },
        (r) => { let text = ''; r.on('data', (part) => (text += part)).on('end', () => resolve(JSON.parse(text))); }));
    seen.answers = await Promise.all([1, 2, 3, 4, 5].map(ask));
    seen.globals = Object.getOwnPropertyNames(globalThis).sort();
    seen.process = Object.getOwnPropertyNames(process).sort();
    seen.modules = Object.keys(require.cache).length;
    seen.handles = [...new Set(process._getActiveHandles().map((h) => h.constructor.name))].filter((name) => name !== 'Socket').sort();
    seen.types = [...types].filter((type) => type === 'PROMISE' || type === 'Timeout' || type === 'MINE' || type.startsWith('HTTP')).sort();
    seen.stack = stack();
    try { seen.code = new Function('return 1')(); } catch (error) { seen.code = error.name; }
    seen.context = vm.runInNewContext('Object.getOwnPropertyNames(globalThis).length');
    try { vm.runInNewContext('for (;;);', {}, { timeout: 20 }); } catch (error) { seen.timeout = error.code; }
    // A thread with its own server is ended in the middle of its work.
    const worker = new Worker(`const http = require('http'), { parentPort } = require('worker_threads');
        const server = http.createServer(async (q, r) => { await null; r.end('x'); parentPort.postMessage('served'); for (;;) await new Promise(setImmediate); });
        server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`, { eval: true });
    const [port] = await once(worker, 'message');
    http.get({ host: '127.0.0.1', port, agent: false }, (r) => r.resume());
    await once(worker, 'message');
    seen.worker = await worker.terminate();
    seen.rejection = await Promise.reject(new Error('mine')).catch((error) => error.message);
    server.close();
    console.log(JSON.stringify(seen));
}
if (process.argv[2] === 'broken') process.getBuiltinModule = () => { throw new Error('not for you'); };
main();
