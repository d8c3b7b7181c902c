// What a request's time is spent on. Work is solid, waiting is hatched, so that no cause is told by its colour alone.
// SPDX-License-Identifier: Apache-2.0
export interface Cause {
    name: string; // as the analysis names it (path_class_name())
    words: string;
    css: string;
    works: boolean;
}

export const NO_CPU = 'waits for a CPU', LOOP = 'waits for the event loop';
export const CAUSES: Cause[] = [
    { name: 'runs', words: 'JavaScript runs', css: 'run', works: true },
    { name: 'executes in the store', words: 'the store executes the command', css: 'store', works: true },
    { name: 'at work on a pool thread', words: 'a pool thread works', css: 'pool', works: true },
    { name: NO_CPU, words: 'waits for a CPU', css: 'cpu', works: false },
    { name: LOOP, words: 'waits for the event loop', css: 'loop', works: false },
    { name: 'waits for a free connection or worker', words: 'waits for a free connection or worker', css: 'poolwait', works: false },
    { name: 'waits for a pool thread', words: 'waits for a pool thread', css: 'poolwait', works: false },
    { name: 'on its way or queued', words: 'on its way, or queued at the other end', css: 'queue', works: false },
    { name: 'waits for an answer', words: 'waits for an answer (the other end is not traced)', css: 'peer', works: false },
    { name: 'not followed, too many steps', words: 'not followed back so far: too many steps', css: 'other', works: false },
    { name: 'waits for a timer or something unseen', words: 'waits for a timer or something unseen', css: 'other', works: false },
];

const byName = new Map(CAUSES.map((cause) => [cause.name, cause]));
export const causeOf = (name: string): Cause => byName.get(name) ?? { name, words: name, css: 'other', works: false };
