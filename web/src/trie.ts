// A profile's trie in typed arrays: what 200,000 nodes need to be laid out, searched and merged without waiting.
// SPDX-License-Identifier: Apache-2.0
import { hash } from './colour';
import type { ProfileDocument } from './types';

export interface Function {
    id: number;
    name: string;
    file: string;
    line: number;
    kind: string;
    self: number;
    total: number;
    before_self: number;
    before_total: number;
}

export interface Trie {
    count: number;
    parent: Uint32Array; // parents stand before children; [0] is the root
    fn: Uint32Array; // of each node: index of its function
    self: Float64Array;
    total: Float64Array;
    before: Float64Array | null; // totals of what it is compared with
    before_self: Float64Array | null;
    first: Uint32Array; // child with the largest total; 0: none
    next: Uint32Array; // sibling with the next smaller total; 0: none
    depth: Uint16Array;
}

export interface Profile {
    title: string;
    event: string;
    unit: string;
    functions: Function[];
    trie: Trie;
}

const FEW = 16; // siblings that are sorted by insertion

// Totals, and children by their size.
export function finish(parent: Uint32Array, fn: Uint32Array, self: Float64Array, before_self: Float64Array | null): Trie {
    const count = parent.length, total = self.slice(), before = before_self?.slice() ?? null, first = new Uint32Array(count), next = new Uint32Array(count), depth = new Uint16Array(count);
    for (let i = count - 1; i > 0; i--) {
        total[parent[i]] += total[i];
        if (before) before[parent[i]] += before[i];
    }
    for (let i = 1; i < count; i++) depth[i] = Math.min(65535, depth[parent[i]] + 1);
    // Siblings side by side, each family sorted for itself: most are small.
    const family = new Uint32Array(count + 1), children = new Uint32Array(count), size = before ? total.map((all, i) => Math.max(all, before[i])) : total;
    for (let i = 1; i < count; i++) family[parent[i] + 1]++;
    for (let i = 0; i < count; i++) family[i + 1] += family[i];
    const end = family.slice();
    for (let i = 1; i < count; i++) children[end[parent[i]]++] = i;
    for (let i = 0; i < count; i++) {
        const from = family[i], to = family[i + 1];
        if (to - from > FEW) children.subarray(from, to).sort((a, b) => size[b] - size[a] || a - b);
        else
            for (let at = from + 1; at < to; at++) {
                const child = children[at];
                let place = at;
                for (; place > from && size[children[place - 1]] < size[child]; place--) children[place] = children[place - 1];
                children[place] = child;
            }
        if (to > from) first[i] = children[from];
        for (let at = from + 1; at < to; at++) next[children[at - 1]] = children[at];
    }
    return { count, parent, fn, self, total, before, before_self, first, next, depth };
}

// Lines and modules of one function are one function.
export function read(document: ProfileDocument): Profile {
    const functions: Function[] = [], ids = new Map<string, number>(), of_frame = new Uint32Array(document.frames.length);
    document.frames.forEach(([name, file, , line, kind], frame) => {
        const key = `${name} ${file} ${kind}`, known = ids.get(key);
        if (known !== undefined) return void (of_frame[frame] = known);
        ids.set(key, functions.length);
        of_frame[frame] = functions.length;
        functions.push({ id: functions.length, name: document.strings[name] || '[unknown]', file: document.strings[file] ?? '', line, kind: document.kinds[kind] ?? 'native', self: 0, total: 0, before_self: 0, before_total: 0 });
    });
    const fn = Uint32Array.from(document.frame, (frame) => of_frame[frame] ?? 0);
    const trie = finish(Uint32Array.from(document.parent), fn, Float64Array.from(document.weight), document.before ? Float64Array.from(document.before) : null);
    sum(functions, trie);
    return { title: document.title, event: document.event, unit: document.unit, functions, trie };
}

// Self and total of each function; a recursive one counts once for each stack.
function sum(functions: Function[], trie: Trie): void {
    const open = new Int32Array(functions.length), stack: number[] = [];
    const leave = (i: number) => open[trie.fn[i]]--;
    walk(trie, 0, (i) => {
        while (stack.length && trie.depth[stack[stack.length - 1]] >= trie.depth[i]) leave(stack.pop()!);
        if (i === 0) return;
        const f = functions[trie.fn[i]];
        f.self += trie.self[i];
        f.before_self += trie.before_self?.[i] ?? 0;
        if (!open[f.id]++) {
            f.total += trie.total[i];
            f.before_total += trie.before?.[i] ?? 0;
        }
        stack.push(i);
    });
}

// Every node at or below one, parents first.
export function walk(trie: Trie, from: number, visit: (node: number) => void): void {
    const stack = [from];
    while (stack.length) {
        const i = stack.pop()!;
        visit(i);
        for (let child = trie.first[i]; child; child = trie.next[child]) stack.push(child);
    }
}

class Builder {
    parent = [0];
    fn = [0];
    self = [0];
    before = [0];
    private children = new Map<number, number>();
    constructor(private functions: number) {}
    child(node: number, fn: number): number {
        const key = node * this.functions + fn, known = this.children.get(key);
        if (known !== undefined) return known;
        this.children.set(key, this.parent.length);
        this.parent.push(node);
        this.fn.push(fn);
        this.self.push(0);
        this.before.push(0);
        return this.parent.length - 1;
    }
    done(before: boolean): Trie {
        return finish(Uint32Array.from(this.parent), Uint32Array.from(this.fn), Float64Array.from(this.self), before ? Float64Array.from(this.before) : null);
    }
}

// What a function calls and who calls it, merged over all places. Their roots are the function itself.
export function sandwich(profile: Profile, fn: number): { callers: Trie; callees: Trie } {
    const { trie, functions } = profile, callers = new Builder(functions.length), callees = new Builder(functions.length), at = new Uint32Array(trie.count), inside = new Uint8Array(trie.count);
    callers.fn[0] = callees.fn[0] = fn;
    for (let i = 1; i < trie.count; i++) {
        const up = trie.parent[i];
        if (!inside[up] && trie.fn[i] === fn) {
            inside[i] = 1; // the outermost one of a recursion
            let node = 0;
            for (let c = up; c; c = trie.parent[c]) node = callers.child(node, trie.fn[c]);
            callers.self[node] += trie.total[i];
            callers.before[node] += trie.before?.[i] ?? 0;
        } else if (inside[up]) {
            inside[i] = 1;
            at[i] = callees.child(at[up], trie.fn[i]);
        } else continue;
        callees.self[at[i]] += trie.self[i];
        callees.before[at[i]] += trie.before_self?.[i] ?? 0;
    }
    return { callers: callers.done(!!trie.before), callees: callees.done(!!trie.before) };
}

// The path of a node by names, as a short text that stays when the profile is made anew.
export function names(profile: Profile): Uint32Array {
    const { trie, functions } = profile, own = Uint32Array.from(functions, (f) => hash(`${f.name} ${f.file}`)), all = new Uint32Array(trie.count);
    for (let i = 1; i < trie.count; i++) all[i] = (Math.imul(all[trie.parent[i]], 31) + own[trie.fn[i]] + 1) >>> 0;
    return all;
}

// The share of all that lies at or below functions that match: nested ones count once.
export function matched(trie: Trie, hits: Uint8Array): number {
    const under = new Uint8Array(trie.count);
    let sum = 0;
    for (let i = 1; i < trie.count; i++) {
        if (under[trie.parent[i]]) under[i] = 1;
        else if (hits[trie.fn[i]]) {
            under[i] = 1;
            sum += trie.total[i];
        }
    }
    return sum;
}

// As long as one call holds nearly all of its caller's time, it says nothing: where the graph begins to branch.
export function trunk(trie: Trie, from: number): number {
    let node = from;
    for (;;) {
        const child = trie.first[node];
        if (!child || trie.total[child] < 0.98 * trie.total[node] || !trie.first[child]) return node;
        node = child;
    }
}
