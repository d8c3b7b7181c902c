// A program for Node.js with six functions, each between two readings of the process's CPU clock: in one mix or in two that alternate.
// Writes as Shop.java does.
//   node pages.js SECONDS PHASE-SECONDS (0: steady)
// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('node:crypto');
const zlib = require('node:zlib');

const seconds = Number(process.argv[2]), phase = Number(process.argv[3]);
const MIXES = [[30, 25, 15, 12, 10, 8], [8, 8, 14, 10, 25, 35]];
const records = Array.from({ length: 300 }, (_, i) => ({ id: i, name: `article ${(i * 7919) % 300}`, price: (i * 31) % 977, tags: ['a', 'b', `t${i % 13}`] })), text = JSON.stringify(records);

function parse() { return JSON.parse(text).length; }
function render() { return records.map((r) => `<li id="${r.id}">${r.name.toUpperCase()}: ${(r.price / 100).toFixed(2)} ${r.tags.join(', ')}</li>`).join('').length; }
function digest() { return crypto.createHash('sha256').update(text).update(text).update(text).update(text).digest()[0]; }
function order() { return [...records].sort((a, b) => a.name.localeCompare(b.name))[0].id; }
function find() { let n = 0; for (const m of text.matchAll(/"name":"article (\d+)","price":(\d+)/g)) n += m[1] < m[2]; return n; }
function pack() { return zlib.deflateRawSync(text, { level: 3 }).length; }

const functions = [parse, render, digest, order, find, pack], used = functions.map(() => 0), cpu = () => { const u = process.cpuUsage(); return u.user + u.system; };
let sink = 0, random = 1;
const pick = (mix) => { random = (random * 48271) % 2147483647; let at = random % 100, f = 0; while (f < 5 && at >= mix[f]) at -= mix[f++]; return f; };
const tell = () => process.stdout.write(`${Date.now()} ${functions.map((f, i) => `${f.name} ${used[i] * 1000}`).join(' ')}\n`);
for (let i = 0; i < 3000; i++) sink += functions[i % 6](); // compiled, before it counts
process.stdout.write('ready\n');
process.stdin.once('data', () => {
    process.stdin.pause();
    const start = Date.now();
    let told = 0;
    (function turn() {
        const at = (Date.now() - start) / 1000;
        if (at >= told) { tell(); told++; }
        if (at >= seconds) return;
        const mix = MIXES[phase > 0 ? Math.floor(at / phase) % 2 : 0];
        for (let i = 0; i < 20; i++) {
            const f = pick(mix), before = cpu();
            for (let k = 0; k < 4; k++) sink += functions[f]();
            used[f] += cpu() - before;
        }
        setImmediate(turn);
    })();
});
