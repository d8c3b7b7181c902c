// Runs inside traced Node processes in which functions were chosen (--function): puts a proxy of ours in the place of each
// property that holds one, which tells when calls begin and end, and takes it out again when nobody traces any more.
// probe_context.js starts it and shares cell and tell with it. It looks for functions from what modules export and
// from what HTTP servers call, through plain properties: getters and proxies are left alone, nothing of the program runs.
// SPDX-License-Identifier: Apache-2.0
(function (cell, bytes, alive, tell, shared, load, process, asked) {
    'use strict';
    const WANTED = 12, TEXT = 16, NAME_BYTES = 63, CHOSEN_BYTES = 900;
    const BEGIN = 7, END = 8, SETTLED = 9, NAME = 10, CHOSEN = 11, HANDLED = 12;
    const FOUND = 0, NOT_FOUND = 1, TOO_OFTEN = 2, REFUSED = 3;
    const FULFILLED = 0, REJECTED = 1, UNWATCHED = 2;
    const SEARCH_MS = 5, NAMES_MAX = 1000, OBJECTS_MAX = 20000, DEPTH_MAX = 8, KEYS_MAX = 2000, SEARCHES_MAX = 20, SEARCH_EVERY_MS = 1000, SLICE_EVERY_MS = 50;
    const OFTEN = 1024, OFTEN_MS = 20, OFTEN_TIMES = 3, LIKE_MAX = 5;
    const { apply, construct, getOwnPropertyDescriptor, defineProperty, ownKeys, getPrototypeOf } = Reflect;
    const { then } = Promise.prototype, resolved = Promise.resolve(), { toString } = Function.prototype;
    const { isGeneratorFunction, isPromise, isProxy, isModuleNamespaceObject } = load('util').types;
    const clock = load('perf_hooks').performance, { basename } = load('path'), Module = load('module'), modules = Module._cache;

    // "checkout", "Class.method", "file.js:checkout", "file.js:Class.method"
    const wishes = asked.split('\n').map((text) => {
        const colon = text.lastIndexOf(':'), whole = text.slice(colon + 1), dot = whole.lastIndexOf('.');
        return { text, file: colon > 0 ? text.slice(0, colon) : '', owner: dot > 0 ? whole.slice(0, dot) : '', name: whole.slice(dot + 1), places: [], like: new Set(), why: '', told: '' };
    });
    const wrappers = new Map(), ours = new Set(); // function -> its proxy; the proxies
    const replaced = []; // { holder, key, original, wrapper }
    let ended = false;

    // ---- calls ----

    let calls = 0, fresh = [];
    function begin(entry) {
        if (ended) return false;
        if (!alive[0]) {
            shared.leaveSoon();
            return false;
        }
        if (entry.off || (++entry.calls % OFTEN === 0 && tooOften(entry))) return false;
        cell[3] = BEGIN;
        tell();
        return cell[7] !== 0;
    }
    function end(entry, low, high, threw, result) {
        try {
            const call = typeof result === 'object' && isPromise(result) ? watch(result) : 0;
            cell[4] = entry.number;
            cell[5] = low;
            cell[6] = high;
            cell[7] = shared.number();
            cell[8] = call;
            cell[9] = threw;
            cell[3] = END;
            tell();
        } catch {
            // not the program's concern
        }
    }
    // What one call costs would be felt: it is left alone from now on.
    function tooOften(entry) {
        const now = clock.now(), quick = now - entry.since < OFTEN_MS;
        entry.since = now;
        entry.quick = quick ? entry.quick + 1 : 0;
        if (entry.quick < OFTEN_TIMES) return false;
        entry.off = true;
        giveBack((place) => place.wrapper === entry.wrapper);
        entry.wish.why = entry.name;
        chosen(entry.wish, TOO_OFTEN);
        return true;
    }
    // When a promise that was returned is settled: seen by a reaction of ours beside the program's own. Not where the program
    // has none: a rejection that nobody handles is to stay so.
    function watch(promise) {
        if (getPrototypeOf(promise) !== Promise.prototype || getOwnPropertyDescriptor(promise, 'constructor')) return 0;
        calls = (calls + 1) >>> 0 || 1;
        if (fresh.push({ promise, call: calls }) === 1) apply(then, resolved, [watchAll]);
        return calls;
    }
    function watchAll() {
        const all = fresh;
        fresh = [];
        for (const { promise, call } of all) {
            shared.given = promise;
            cell[3] = HANDLED;
            cell[1] = 0;
            tell();
            shared.given = undefined;
            if (cell[1]) apply(then, promise, [() => settled(call, FULFILLED), () => settled(call, REJECTED)]);
            else settled(call, UNWATCHED);
        }
    }
    function settled(call, how) {
        if (!alive[0] || ended) return;
        cell[4] = call;
        cell[5] = how;
        cell[3] = SETTLED;
        tell();
    }
    function wrap(target, entry) {
        const wrapper = new Proxy(target, {
            apply(to, self, given) {
                if (!begin(entry)) return apply(to, self, given);
                const low = cell[5], high = cell[6];
                let threw = 1, result;
                try {
                    result = apply(to, self, given);
                    threw = 0;
                    return result;
                } finally {
                    end(entry, low, high, threw, result);
                }
            },
            construct(to, given, base) {
                const made = base === wrapper ? to : base;
                if (!begin(entry)) return construct(to, given, made);
                const low = cell[5], high = cell[6];
                let threw = 1;
                try {
                    const result = construct(to, given, made);
                    threw = 0;
                    return result;
                } finally {
                    end(entry, low, high, threw);
                }
            },
        });
        return wrapper;
    }

    // ---- places ----

    function write(text, most) {
        return bytes.write(text, TEXT * 4, most);
    }
    function number(name) {
        cell[9] = write(name, NAME_BYTES);
        cell[3] = NAME;
        tell();
        return cell[4];
    }
    function chosen(wish, state) {
        const words = state === FOUND ? [...new Set(wish.places)].join(', ') : state === NOT_FOUND ? [...wish.like].join(', ') : wish.why;
        const text = `${wish.text}\n${words}`;
        if (wish.told === state + text) return;
        wish.told = state + text;
        cell[4] = state;
        cell[5] = wish.places.length;
        cell[9] = write(text, CHOSEN_BYTES);
        cell[3] = CHOSEN;
        tell();
    }
    function nameOf(target) {
        const name = isProxy(target) ? null : getOwnPropertyDescriptor(target, 'name');
        return name && typeof name.value === 'string' ? name.value : '';
    }
    function place(wish, holder, key, descriptor, label) {
        const target = descriptor.value;
        if (replaced.some((one) => one.holder === holder && one.key === key)) return;
        if (isProxy(target)) return void (ours.has(target) || (wish.why = `${label} is a proxy`));
        if (/^class\b/.test(apply(toString, target, []))) return void (wish.why = `${label} is a class: choose one of its methods`);
        if (isGeneratorFunction(target)) return void (wish.why = `${label} is a generator: its call only makes the iterator`);
        if (!descriptor.writable && !descriptor.configurable) return void (wish.why = `${label} cannot be replaced (frozen)`);
        let wrapper = wrappers.get(target);
        if (!wrapper) {
            const entry = { wish, name: label, number: number(label), calls: 0, since: 0, quick: 0, off: false, wrapper: null };
            wrapper = entry.wrapper = wrap(target, entry);
            wrappers.set(target, wrapper);
            ours.add(wrapper);
        }
        try {
            if (!defineProperty(holder, key, { ...descriptor, value: wrapper })) return;
        } catch {
            return;
        }
        replaced.push({ holder, key, original: target, wrapper });
        wish.places.push(label);
    }
    function giveBack(which) {
        for (let i = replaced.length; i-- > 0;) {
            const { holder, key, original, wrapper } = replaced[i];
            if (which && !which(replaced[i])) continue;
            const now = getOwnPropertyDescriptor(holder, key);
            if (now && now.value === wrapper) defineProperty(holder, key, { ...now, value: original });
            replaced.splice(i, 1);
        }
    }

    // ---- search ----

    function looksLike(name, wish) {
        const a = name.toLowerCase(), b = wish.name.toLowerCase();
        if (a.length < 3 || b.length < 3) return a === b;
        return a.includes(b) || b.includes(a) || distance(a, b) <= 1 + (b.length >> 3);
    }
    function distance(a, b) {
        if (Math.abs(a.length - b.length) > 3) return 9;
        let row = Array.from({ length: b.length + 1 }, (_, i) => i);
        for (let i = 1; i <= a.length; i++) {
            const next = [i];
            for (let k = 1; k <= b.length; k++) next[k] = Math.min(row[k] + 1, next[k - 1] + 1, row[k - 1] + (a[i - 1] !== b[k - 1]));
            row = next;
        }
        return row[b.length];
    }
    function roots() {
        const own = [], other = [];
        for (const file of Object.keys(modules)) {
            const module = modules[file], named = wishes.some((wish) => wish.file && file.endsWith(`/${wish.file}`));
            if (!module || isProxy(module)) continue;
            const exported = getOwnPropertyDescriptor(module, 'exports');
            if (!exported || !('value' in exported) || (file.includes('/node_modules/') && !named)) continue;
            own.push({ object: exported.value, owner: '', file, depth: 0 });
        }
        for (const handle of process._getActiveHandles ? process._getActiveHandles() : []) {
            const events = handle && !isProxy(handle) && getOwnPropertyDescriptor(handle, '_events');
            const request = events && events.value && getOwnPropertyDescriptor(events.value, 'request');
            if (request && request.value) for (const object of [].concat(request.value)) other.push({ object, owner: '', file: '', depth: 0 });
        }
        return own.concat(other);
    }
    let names = []; // of functions of the program's own modules, for those that are not found
    function consider(at, key, descriptor) {
        const name = nameOf(descriptor.value), named = typeof key === 'symbol' || at.array ? '' : key;
        if (key === 'constructor' || !(named || name)) return;
        const where = at.file ? `${basename(at.file)}:` : '', label = where + (named ? (at.owner ? `${at.owner}.` : '') + named : name);
        for (const wish of wishes) {
            if (wish.file && !at.file.endsWith(`/${wish.file}`)) continue;
            // What a library's objects hold is meant only when it has the name itself.
            const byKey = named === wish.name && (at.file || name === named), right = (byKey || name === wish.name) && (!wish.owner || wish.owner === at.owner);
            if (right) place(wish, at.object, key, descriptor, byKey ? label : where + name);
        }
        if ((at.file || name) && names.length < NAMES_MAX) names.push(at.file ? { shown: named || name, label } : { shown: name, label: name });
    }
    // In slices, so that no request waits long for it: the next comes with a request that begins later.
    let searches = 0, searched = 0, seenModules = 0, queue = null, seen = null, next = 0;
    function search() {
        queue = roots();
        seen = new Set([process, globalThis, modules, Object.prototype, Function.prototype, Array.prototype, Promise.prototype]);
        next = 0;
        seenModules = Object.keys(modules).length;
        searches++;
        for (const root of queue)
            if (typeof root.object === 'function' && root.file)
                for (const wish of wishes)
                    if (!wish.owner && nameOf(root.object) === wish.name && (!wish.file || root.file.endsWith(`/${wish.file}`))) wish.why = `${basename(root.file)} is the function itself: who has loaded it holds it`;
        slice();
    }
    function slice() {
        const began = clock.now();
        while (next < queue.length && next < OBJECTS_MAX && !(next % 32 === 31 && clock.now() - began > SEARCH_MS)) visit(queue[next++], queue, seen);
        const over = next >= queue.length || next >= OBJECTS_MAX;
        for (const wish of wishes) {
            if (!wish.places.length) for (const { shown, label } of names) if (wish.like.size < LIKE_MAX && looksLike(shown, wish)) wish.like.add(label);
            chosen(wish, wish.places.length ? FOUND : wish.why ? REFUSED : NOT_FOUND);
        }
        names = [];
        if (over) queue = seen = null;
        searched = clock.now();
    }
    function visit(at, queue, seen) {
        const { object } = at;
        if (object === null || (typeof object !== 'object' && typeof object !== 'function') || isProxy(object) || isModuleNamespaceObject(object) || ArrayBuffer.isView(object) || object instanceof Module || seen.has(object)) return;
        seen.add(object);
        at.array = Array.isArray(object);
        const keys = ownKeys(object), inner = { file: at.file, depth: at.depth + 1 };
        if (keys.length > KEYS_MAX) return;
        for (const key of keys) {
            const descriptor = getOwnPropertyDescriptor(object, key), value = descriptor && descriptor.value;
            if (value === null || (typeof value !== 'function' && typeof value !== 'object') || key === '_events') continue; // listeners are removed by identity
            if (typeof value === 'function' && key !== 'prototype') consider(at, key, descriptor);
            if (at.depth < DEPTH_MAX) queue.push({ object: value, owner: key === 'prototype' ? nameOf(object) : typeof value === 'function' ? nameOf(value) : typeof key === 'string' ? key : '', ...inner });
        }
        const above = getPrototypeOf(object), maker = above && !isProxy(above) && getOwnPropertyDescriptor(above, 'constructor');
        if (maker && typeof maker.value === 'function' && at.depth < DEPTH_MAX) queue.push({ object: above, owner: nameOf(maker.value), ...inner });
    }

    // ---- life ----

    function attempt(what) {
        try {
            what();
        } catch {
            giveBack();
            queue = seen = null;
            searches = SEARCHES_MAX;
        }
    }
    cell[WANTED] = 1; // whose a call is, is asked
    attempt(search);
    return {
        // A request begins: the search goes on, or modules may have been loaded since.
        look() {
            const since = clock.now() - searched;
            if (queue) {
                if (since >= SLICE_EVERY_MS) attempt(slice);
                return;
            }
            if (searches >= SEARCHES_MAX || since < SEARCH_EVERY_MS || wishes.every((wish) => wish.places.length)) return;
            searched = clock.now();
            if (Object.keys(modules).length !== seenModules) attempt(search);
        },
        leave() {
            ended = true;
            giveBack();
        },
    };
})
