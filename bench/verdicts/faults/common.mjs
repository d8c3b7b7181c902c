// What the planted faults share. A fault is planted into an App and answers
//   { routes: [{ target(), everyMs, warm }], expect: [expectation], env, flags, peers }
// An expectation is what a true analysis says:
//   cause     the row of the table
//   kinds     the kinds of finding that say so
//   places    where it is: any of { file, first, last, function } in the program, or { text } in the finding
//   blamed(book)   ns that it cost by the program's or the peer's own clock; absent when there is no such time
//   evidence  where the finding says how long; by default the evidence that its kind has for it
// SPDX-License-Identifier: Apache-2.0

export const STALL_MS = 50; // a shorter turn is no stall to sonde (sonde report --stall-ms)

// CPU time, so that what else the machine does makes no fault smaller than it was meant to be.
export function timed(f) {
    const before = process.cpuUsage();
    f();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
}

// The smallest input of the sequence first, grow(first), ... for which f takes targetMs of CPU time.
export const calibration = { skip: false }; // skip: nothing will be run
export function calibrate(f, targetMs, first, grow) {
    let n = first;
    for (let i = 0; i < 200; i++) {
        if (calibration.skip) return n;
        if (timed(() => f(n)) >= targetMs && timed(() => f(n)) >= targetMs) return n;
        n = grow(n);
    }
    throw new Error('a fault cannot be made to take long enough');
}

const summed = (lines, what, atLeastMs, tookNs) => lines.reduce((sum, line) => sum + (line[0] === what && tookNs(line) >= atLeastMs * 1e6 ? tookNs(line) : 0), 0);

// The time of entries of the program's book that are named what, those shorter than atLeastMs left out. What ran took what it
// had a CPU for: the rest is the machine's doing.
const ranNs = ([, since, until, processorNs]) => Math.min(until - since, processorNs);
export const booked = (what, atLeastMs = 0) => ({ lines }) => summed(lines, what, atLeastMs, ([, since, until]) => until - since);
export const bookedRan = (what, atLeastMs = 0) => ({ lines }) => summed(lines, what, atLeastMs, ranNs);
// Of pieces that are all alike: what half of them ran at most, for each.
export const bookedAlike = (what, atLeastMs) => ({ lines }) => {
    const took = lines.filter(([name, since, until]) => name === what && until - since >= atLeastMs * 1e6).map((line) => ranNs(line) || line[2] - line[1]).sort((a, b) => a - b);
    return took.length * (took[took.length >> 1] ?? 0);
};
export const ranMs = (what, { lines }) => lines.filter(([name]) => name === what).map((line) => ranNs(line) / 1e6).sort((a, b) => a - b);

// A handler that runs core(NUMBER or text of the query) on the loop's own thread and notes how long that took.
export function plantSync(app, { file, core, argument = "Number(query.get('n'))", mark, module }) {
    const { chance } = app, handler = chance.name(), own = app.newFile();
    app.stalling.add(mark);
    app.require(own, `{ ${core} }`, `@/${file}`);
    return app.addHandler(own, handler, [...app.pause(own), 'const since = clock();', `const result = ${core}(${argument});`, `note('${mark}', since);`, "ANSWER(String(result).length + '\\n');"]);
}

// A handler that calls `call(finish)` and notes how long that took.
export function plantCall(app, { file, call, mark, handler = app.chance.name(), answer = 'String(answer)' }) {
    return app.addHandler(file, handler, app.style === 'promise'
        ? ['const since = clock();', `const answer = await new Promise((resolve, reject) => ${call}((error, value) => (error ? reject(error) : resolve(value))));`, `note('${mark}', since);`, `ANSWER(${answer});`]
        : ['const since = clock();', `${call}((error, answer) => {`, `    note('${mark}', since);`, '    if (error) return done(error);', `    ANSWER(${answer});`, '});']);
}

// Once the program is written it is known where a function lies.
export const placeOf = (app, ...names) => names.map((name) => ({ get place() { return { function: name, ...app.places.get(name) }; } }));

export function evaluate(name, lines, scope = {}) {
    return new Function(...Object.keys(scope), `${lines.join('\n')}\nreturn ${name};`)(...Object.values(scope));
}

// How often a fault of so many ms is asked for: it shall happen some times in the run, and not fill it.
export const faultGap = (ms) => Math.min(Math.max(ms * 5, 350), 1700);
