// Runs inside traced Node processes, once in each thread: keeps the number of the request that is being served in an
// AsyncLocalStorage of its own, so that Node carries it over promises, callbacks, timers and streams. src/targets/node/probe_context.c
// runs it and asks it. It adds nothing to the global object, to modules or to anybody's objects.
//
// cell is memory of the probe, 32-bit words: [0] what is asked, [1] a request's number or a descriptor, in and out, [2] an
// answer of starting; [3] to [10] what is told; [11] the number of a request that begins, until it is taken; [12] is 1
// once something has happened that may be a request's; [13] to [15] count promises; from [16] on a text. alive[0] is 0
// when nobody traces any more.
// SPDX-License-Identifier: Apache-2.0
(function (bytes, flag, tell) {
    'use strict';
    const CURRENT = 0, ENTER = 1, LEAVE = 2, LISTEN = 3, GIVE = 4, REACTION = 6, TAKE = 7;
    const BEGINS = 11, WANTED = 12, TEXT = 16, TEXT_BYTES = 63, CARRIES = 253, SENDING = 254, SENDING_ON = 255;
    const TRIES = 8, TOGETHER_MS = 0.02;
    const NONE = 1;
    const LATER = 0, NO_MODULES = 1, NATIVE = 2, SCRIPT = 3, NOT_NATIVE = 4, CARRIED = 5;
    const MAY_BE_SCRIPT = 1, MAY_BE_CARRIED = 2, WHOSE = 13;
    const SENT = 1, ANSWERED = 2, ENDED = 3, TRACED = 4, CLOCK = 5, MEASURED = 6, TOLD = 0;
    const cell = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >>> 2);
    const alive = new Uint32Array(flag.buffer, flag.byteOffset, 1);
    const allowed = cell[1];
    cell[2] = LATER;
    const { process } = globalThis;
    if (!process || !process.versions || !process.versions.node) return 0;
    const load = process.getBuiltinModule || (process.mainModule && process.mainModule.require.bind(process.mainModule)) || globalThis.require;
    cell[2] = NO_MODULES;
    if (typeof load !== 'function') return 0;
    const { AsyncLocalStorage, executionAsyncId, executionAsyncResource } = load('async_hooks');
    const { isPromise } = load('util').types;
    const channels = load('diagnostics_channel');
    const storage = new AsyncLocalStorage();
    const native = String(storage.getStore).includes('AsyncContextFrame');
    const carried = !native && allowed & MAY_BE_CARRIED && !process.versions.electron; // whose V8 carries something else
    cell[2] = NOT_NATIVE;
    if (!native && !carried && !(allowed & MAY_BE_SCRIPT)) return 0;

    // The number of the request that is served, 0 none.
    function current() {
        if (!cell[CARRIES]) return storage.getStore() || 0;
        cell[3] = WHOSE;
        tell();
        return cell[1];
    }

    // ---- promises: where Node tells hooks of each (18 to 22, once a context was entered), they are counted on the way ----

    const PROMISES = 13, SAMPLED = 14, COLLECTED = 15, SAMPLE_EVERY = 128;
    const told = storage._propagate;
    if (!native && String(told).includes('type') && typeof FinalizationRegistry === 'function') {
        const samples = new FinalizationRegistry(() => cell[COLLECTED]++);
        storage._propagate = function (resource, trigger, type) {
            if (type === 'PROMISE' && ++cell[PROMISES] % SAMPLE_EVERY === 0 && alive[0]) {
                cell[SAMPLED]++;
                samples.register(resource);
            }
            return told.call(this, resource, trigger, type);
        };
    }

    // ---- undici, which fetch() is: its pool sends a request in whatever context a connection becomes free in ----

    const owners = new WeakMap(); // request -> { number, fd }
    let sending = 0, sendingOn = -1; // whose the next bytes on that descriptor are

    function report(what, request, value) {
        const owner = owners.get(request);
        if (!owner || owner.fd < 0) return;
        cell[3] = what;
        cell[4] = owner.fd;
        cell[5] = value;
        tell();
    }
    const undici = {
        'undici:request:create': ({ request }) => owners.set(request, { number: current() || NONE, fd: -1 }),
        'undici:client:sendHeaders': ({ request, socket }) => {
            const owner = owners.get(request), handle = socket && socket._handle;
            if (!owner || !handle || !(handle.fd >= 0)) return;
            owner.fd = sendingOn = handle.fd;
            sending = owner.number;
            if (!cell[CARRIES]) return;
            cell[SENDING] = sending;
            cell[SENDING_ON] = sendingOn + 1;
            sending = 0;
        },
        'undici:request:headers': ({ request, response }) => report(ANSWERED, request, response.statusCode),
        'undici:request:trailers': ({ request }) => report(ENDED, request, 0),
    };

    // ---- W3C trace context ----

    const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{8})([0-9a-f]{8})([0-9a-f]{8})([0-9a-f]{8})-([0-9a-f]{8})([0-9a-f]{8})-[0-9a-f]{2}/;
    function traced(headers, number) {
        for (let i = 0; i < headers.length; i += 2) {
            if (headers[i].length !== 11 || headers[i].toLowerCase() !== 'traceparent') continue;
            const parts = TRACEPARENT.exec(headers[i + 1]);
            if (!parts || !number) return;
            cell[3] = TRACED;
            cell[4] = number;
            for (let k = 1; k <= 6; k++) cell[4 + k] = parseInt(parts[k], 16);
            tell();
            return;
        }
    }

    // ---- performance.measure ----

    // An observer's callback runs in a later turn, for which Node makes an Immediate that the program's async hooks see. So
    // ours takes entries where Node puts them in an observer's queue, at the call of measure itself: nothing is queued.
    let observer = null, clock = null;
    function observe() {
        try {
            const { performance, PerformanceObserver } = load('perf_hooks');
            const queue = Object.getOwnPropertySymbols(PerformanceObserver.prototype).find((s) => s.description === 'kMaybeBuffer');
            if (!queue) return;
            clock = performance;
            observer = new PerformanceObserver(() => {});
            Object.defineProperty(observer, queue, { value: measured });
            observer.observe({ entryTypes: ['measure'] });
        } catch {
            observer = null;
        }
    }
    function measured(entry) {
        try {
            if (entry.entryType !== 'measure') return;
            if (!alive[0]) return void leaveSoon();
            const end = entry.startTime + entry.duration, took = Math.round(entry.duration * 1e6);
            if (!(end <= clock.now() && took >= 0)) return; // the program can give any times
            cell[4] = current();
            cell[7] = Math.floor(took / 2 ** 32);
            cell[8] = took % 2 ** 32;
            cell[9] = bytes.write(entry.name, TEXT * 4, TEXT_BYTES);
            for (let tries = TRIES; tries-- > 0;) {
                const before = clock.now(); // Node's clock and the probe's at the same moment, unless something comes between
                cell[3] = CLOCK;
                tell();
                if (tries && clock.now() - before > TOGETHER_MS) continue;
                const ago = Math.round((before - end) * 1e6);
                cell[3] = MEASURED;
                cell[5] = Math.floor(ago / 2 ** 32);
                cell[6] = ago % 2 ** 32;
                cell[10] = tries;
                tell();
                if (cell[3] === TOLD) return;
            }
        } catch {
            // not the program's concern
        }
    }

    // A call from the probe for every request would cost more than all else here: Node itself says when one begins. And
    // until somebody will ask whose an operation is, no context is entered: before Node 24 the first one makes Node tell
    // its hooks of everything asynchronous.
    function enter() {
        const number = cell[BEGINS];
        cell[BEGINS] = 0;
        if (number && cell[WANTED] && !cell[CARRIES]) storage.enterWith(number);
        return number;
    }

    // ---- life ----

    let listening = false;
    const subscribed = []; // channels are kept alive by who subscribes, not by the registry
    function listen() {
        listening = true;
        for (const name of Object.keys(undici)) on(name, undici[name]);
        observe();
        on('http.server.request.start', ({ request }) => {
            if (!alive[0]) return void leaveSoon();
            traced(request.rawHeaders, enter());
            if (picked) picked.look();
        });
    }
    function on(name, listener) {
        const channel = channels.channel(name);
        channel.subscribe(listener);
        subscribed.push({ channel, listener });
    }
    // Not while a channel publishes or a measure is told: before Node 20 a channel whose last subscriber leaves meanwhile
    // throws into the program.
    let leaving = false;
    async function leaveSoon() {
        if (leaving || !listening) return;
        leaving = true;
        await null;
        leaving = false;
        if (!alive[0]) leave();
    }
    function leave() {
        for (const { channel, listener } of subscribed.splice(0)) channel.unsubscribe(listener);
        if (observer) observer.disconnect();
        observer = null;
        if (picked) picked.leave();
        picked = null;
        listening = false;
        storage.disable();
    }

    // ---- chosen functions: probe_functions.js ----

    let picked = null;
    const shared = { leaveSoon, number: current, given: undefined };
    function pick(functions, names) {
        if (picked) picked.leave();
        picked = null;
        try {
            if (functions) picked = functions(cell, bytes, alive, tell, shared, load, process, names);
        } catch {
            // none are seen
        }
    }

    listen();
    cell[2] = native ? NATIVE : carried ? CARRIED : SCRIPT;
    return function (functions, names) {
        switch (cell[0]) {
        case CURRENT:
            if (sending && sendingOn === cell[1]) {
                cell[1] = sending;
                sending = 0;
            } else {
                cell[1] = storage.getStore() || NONE;
            }
            break;
        case ENTER:
            enter();
            break;
        case LISTEN:
            if (!listening) listen();
            pick(functions, names);
            break;
        case GIVE:
            return shared.given;
        case REACTION: // does a reaction of a promise run, which hooks are told of?
            cell[1] = isPromise(executionAsyncResource()) ? 1 : 0;
            break;
        case TAKE: // V8 has carried it until now; a reaction that hooks were not told of has nothing of its own to keep it in
            if (executionAsyncId()) storage.enterWith(cell[1]);
            break;
        case LEAVE: // this callback serves no request, whoever made its handle
            if (storage.getStore() !== undefined) storage.enterWith(undefined);
            break;
        }
    };
})
