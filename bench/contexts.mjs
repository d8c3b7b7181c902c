// Whose is each operation? Services that ask real stores and services through their real clients, 50 requests in flight, attached to
// under load; what sonde says is held against the program's own book (tests/system/book.mjs), and so is the program's own
// AsyncLocalStorage: made before, while and after sonde attached, or not at all.
//   SONDE_NODES=/path/to/node:... node bench/contexts.mjs build/sonde [--count N] [--kinds A,B] [--own none,...] [--context auto]
//   node bench/contexts.mjs --table      the newest line of each cell; doc/costs.md has them
// Each cell (Node, moment, kind of application) appends a line to bench/results/contexts.jsonl; what is there for this commit is not
// run again.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { commit } from './commit.mjs';

const RESULTS = path.join(path.dirname(fileURLToPath(import.meta.url)), 'results', 'contexts.jsonl');
const options = { count: { type: 'string', default: '400' }, kinds: { type: 'string' }, own: { type: 'string' }, context: { type: 'string', default: 'auto' }, table: { type: 'boolean' } };
const { values, positionals: [sonde] } = parseArgs({ options, allowPositionals: true });
const lines = fs.existsSync(RESULTS) ? fs.readFileSync(RESULTS, 'utf8').trim().split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [];

// ---- the table ----

const percent = (part, whole) => (!whole ? '–' : part === whole ? '100' : (Math.floor((part / whole) * 1000) / 10).toFixed(1));

function table() {
    const newest = new Map(lines.filter((l) => l.context === values.context).map((l) => [`${l.node} ${l.own} ${l.kind}`, l])), all = [...newest.values()];
    const nodes = [...new Set(all.map((l) => l.node))].sort((a, b) => parseFloat(a.slice(1)) - parseFloat(b.slice(1)));
    console.log(`| kind of application | ${nodes.map((node) => `Node ${node.slice(1)}`).join(' | ')} | operations | inferred | wrong | own storage wrong |`);
    console.log(`|---|${'---|'.repeat(nodes.length + 4)}`);
    for (const kind of [...new Set(all.map((l) => l.kind))]) {
        const of = all.filter((l) => l.kind === kind), sum = (list, name) => list.reduce((total, l) => total + l[name], 0);
        const shares = nodes.map((node) => {
            const [alone, own] = [(l) => l.own === 'none', (l) => l.own !== 'none'].map((which) => of.filter((l) => l.node === node && which(l)));
            return `${percent(sum(alone, 'proved'), sum(alone, 'operations'))}, ${percent(sum(own, 'proved'), sum(own, 'operations'))}`;
        });
        console.log(`| ${kind} | ${shares.join(' | ')} | ${sum(of, 'operations')} | ${sum(of, 'inferred')} | ${sum(of, 'wrong')} | ${sum(of, 'own_wrong')} |`);
    }
    console.log(`\nCommits: ${[...new Set(all.map((l) => l.commit))].join(', ')}`);
}

// ---- the runs ----

// What tests have in the runner's place: things to end when a cell is done.
function ending() {
    const hooks = [];
    return { after: (hook) => hooks.push(hook), diagnostic: () => {}, async end() { for (const hook of hooks.reverse()) await hook(); } };
}

async function run() {
    process.env.SONDE = path.resolve(sonde);
    const { NODES, freePort, start, temporary, versionOf } = await import('../tests/system/helper.mjs');
    const { missingStore, startStore } = await import('../tests/applications/stores.mjs');
    const { OWN, measure } = await import('../tests/system/book.mjs');
    const t = ending(), config = {}, count = Number(values.count);
    try {
        config.redis = await freePort();
        const redis = start(t, 'redis-server', ['--port', config.redis, '--bind', '127.0.0.1', '--save', '', '--dir', temporary(t)]);
        await redis.until(/Ready to accept/, { stream: 'stdout' });
        for (const store of ['postgres', 'mariadb']) {
            if (missingStore(store)) continue;
            const { port, user = 'shop' } = await startStore(t, store, temporary(t));
            config[store] = { port, user, ...(store === 'mariadb' && { password: 'secret' }) };
        }
        const kinds = values.kinds ? values.kinds.split(',') : createRequire(import.meta.url)('../tests/system/programs/kinds.js').KINDS, missing = new Set();
        for (const kind of kinds)
            for (const node of NODES)
                for (const own of values.own ? values.own.split(',') : OWN) {
                    const cell = { commit, node: versionOf(node), kind, own, context: values.context };
                    if (missing.has(node + kind) || lines.some((line) => Object.entries(cell).every(([name, value]) => line[name] === value))) continue;
                    const each = ending();
                    try {
                        const { missing: why, score, mixed, mode, losses, contradictions } = await measure(each, temporary(each), { node, own, name: kind, config, count, context: values.context, those: [redis.pid] });
                        if (why && missing.add(node + kind)) {
                            console.log(`${cell.node} ${kind}: not measured (${why})`);
                            continue;
                        }
                        const { wrong, ...counts } = score;
                        fs.appendFileSync(RESULTS, JSON.stringify({ ...cell, ...counts, wrong: wrong.length, own_wrong: mixed, mode, lost: losses.length > 0, contradictions, load: Number(os.loadavg()[0].toFixed(1)) }) + '\n');
                        console.log(`${cell.node} own ${own} ${kind}: ${counts.proved} of ${counts.operations} proved (settled ${counts.settled_proved} of ${counts.settled_operations}), ${counts.inferred} inferred, ${counts.ambiguous} ambiguous, ${counts.none} of none, ${wrong.length} wrong (${mode}, ${contradictions} contradictions${losses.length ? ', events lost' : ''}, own wrong ${mixed})`);
                        for (const one of wrong.slice(0, 3)) console.log(`    ${one}`);
                    } finally {
                        await each.end();
                    }
                }
    } finally {
        await t.end();
    }
}

if (values.table) table();
else await run();
