// Faults that come in short pieces: none of their callbacks is long, those of one request take long together.
// SPDX-License-Identifier: Apache-2.0
import { bookedAlike, calibrate, evaluate, placeOf } from './common.mjs';

const more = (factor) => (n) => Math.ceil(n * factor);

// What one piece does; n: how much of it.
const PIECES = {
    javascript: { body: (x) => [`function ${x}(n) {`, '    let value = 1;', '    for (let i = 0; i < n * 100; i++) value = (value * 1103515245 + 12345) % 2147483648;', '    return value;', '}'], first: 20, grow: more(1.2), kinds: ['event-loop-blocked'] },
    json: { body: (x) => [`function ${x}(n) {`, "    const list = Array.from({ length: n }, (_, id) => ({ id, name: 'item ' + id, open: id % 2 === 0 }));", '    let size = 0;', '    for (let i = 0; i < 8; i++) size += JSON.parse(JSON.stringify(list)).length;', '    return size;', '}'], first: 20, grow: more(1.2), kinds: ['event-loop-blocked', 'serialisation'] },
    regexp: { body: (x) => [`function ${x}(n) {`, "    const text = 'x'.repeat(n);", '    return /(x+)+y|z(x+)+$/.test(text) ? 1 : 0;', '}'], first: 10, grow: (n) => n + 1, kinds: ['blocking-regexp'] },
};
export const SHORT_KINDS = Object.keys(PIECES);

// strengthMs: of a request, in pieces of pieceMs with the loop in between.
export function short(app, { strengthMs, healthy, what, pieceMs }) {
    const { chance } = app, kind = PIECES[what], name = chance.name(), file = app.newFile(), handler = chance.name(), step = chance.name(), mark = chance.word();
    const lines = kind.body(name), core = evaluate(name, lines);
    app.stalling.add(mark);
    app.addFunction(file, name, lines);
    for (let i = 0; i < 50; i++) core(kind.first);
    const n = healthy ? kind.first : calibrate(core, pieceMs, kind.first, kind.grow), count = healthy ? 5 : Math.ceil(strengthMs / pieceMs);
    app.require(file, 'fs', 'fs');
    const next = chance.pick([`setImmediate(${step}, left - 1, n, finish)`, `fs.stat(__filename, () => ${step}(left - 1, n, finish))`, `setTimeout(${step}, 0, left - 1, n, finish)`]);
    app.addFunction(file, step, [`function ${step}(left, n, finish) {`, '    const since = clock();', `    ${name}(n);`, `    note('${mark}', since);`, '    if (left <= 1) return finish(null, left);', `    ${next};`, '}']);
    const route = app.addHandler(file, handler, app.style === 'promise'
        ? [`await new Promise((resolve) => ${step}(${count}, Number(query.get('n')), resolve));`, "ANSWER('done\\n');"]
        : [`${step}(${count}, Number(query.get('n')), () => {`, "    ANSWER('done\\n');", '});']);
    return {
        routes: [{ target: () => `${route}?n=${n}`, everyMs: healthy ? 40 : strengthMs * 4, atOnce: 1, atLeast: 3, warm: `${route}?n=${kind.first}` }],
        expect: healthy ? [] : [{ cause: `short: ${what}`, kinds: kind.kinds, places: placeOf(app, name), blamed: bookedAlike(mark, 0.4) }],
    };
}
