// Faults whose cause no operation of the program shows: a pause that it makes itself, and a quota of its control group.
// SPDX-License-Identifier: Apache-2.0
import { booked, calibrate, evaluate, plantCall } from './common.mjs';

// Every request waits for a timer, as those of a rate limit do. What it is for nobody can see; that it is one, and for how long, can be.
export function pause(app, { strengthMs, healthy }) {
    const { chance } = app, file = app.newFile(), handler = chance.name(), wait = chance.name(), mark = chance.word();
    app.addFunction(file, wait, [`function ${wait}(finish) {`, `    setTimeout(finish, ${healthy ? 3 : strengthMs});`, '}']);
    const route = plantCall(app, { file, call: wait, mark, handler, answer: "'done\\n'" });
    return {
        routes: [{ target: () => route, everyMs: healthy ? 50 : strengthMs / 2, atOnce: 4, atLeast: 3, warm: route }],
        expect: healthy ? [] : [{ cause: 'pause', kinds: ['unexplained-wait'], info: true, places: [{ text: new RegExp(`timer.*${route}|${route}.*timer`, 's') }], blamed: booked(mark, 50) }],
    };
}

// The service may use part of a CPU, and its requests take more than what is left of a period. strengthMs: of CPU time for each.
export function quota(app, { strengthMs, healthy }) {
    const { chance } = app, name = chance.name(), file = app.newFile(), handler = chance.name();
    const lines = [`function ${name}(n) {`, '    let value = 1;', '    for (let i = 0; i < n * 10000; i++) value = (value * 1103515245 + 12345) % 2147483648;', '    return value;', '}'], core = evaluate(name, lines);
    app.addFunction(file, name, lines);
    core(10);
    const n = calibrate(core, strengthMs, 20, (k) => Math.ceil(k * 1.15));
    const route = app.addHandler(file, handler, [`ANSWER(String(${name}(Number(query.get('n')))) + '\\n');`]);
    return {
        routes: [{ target: () => `${route}?n=${n}`, everyMs: healthy ? 300 : 120, atOnce: 2, atLeast: 5, warm: `${route}?n=10` }],
        quotaUs: healthy ? 150_000 : 20_000,
        expect: healthy ? [] : [{ cause: 'cpu-throttled', kinds: ['cpu-throttled'], places: [{}] }],
    };
}
