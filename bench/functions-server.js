// What bench/functions.mjs traces: short rounds of calls of a function that a module exports, with pauses, so that they stay
// below what is left alone. Prints the middle of the rounds in ns a call, as a line of JSON, when standard input ends.
'use strict';
const http = require('http');
const { performance } = require('perf_hooks');

const CALLS = 500, PAUSE_MS = 25, ROUNDS = 200;
const shop = (module.exports = { chosen(n) { return n + 1; }, other(n) { return n + 1; }, async chosenAsync(n) { return n + 1; }, async otherAsync(n) { return n + 1; } });
shop.timerified = performance.timerify(function timerified(n) { return n + 1; });
const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];

async function round(name) {
    const start = process.hrtime.bigint();
    let sum = 0;
    if (name.endsWith('Async')) for (let i = 0; i < CALLS; i++) sum += await shop[name](i);
    else for (let i = 0; i < CALLS; i++) sum += shop[name](i);
    return sum && Number(process.hrtime.bigint() - start) / CALLS;
}

const server = http.createServer((request, response) => response.end()).listen(0, '127.0.0.1', async () => {
    const tick = () => new Promise((resolve) => http.get({ host: '127.0.0.1', port: server.address().port, agent: false }, (r) => r.resume().on('end', resolve)));
    await tick();
    await tick();
    const names = ['other', 'chosen', 'timerified', 'otherAsync', 'chosenAsync'], ns = Object.fromEntries(names.map((name) => [name, []]));
    for (let i = 0; i < ROUNDS; i++)
        for (const name of names) {
            ns[name].push(await round(name));
            await new Promise((resolve) => setTimeout(resolve, PAUSE_MS / names.length));
        }
    console.log(JSON.stringify(Object.fromEntries(names.map((name) => [name, middle(ns[name].slice(ROUNDS / 4))]))));
    server.close();
});
