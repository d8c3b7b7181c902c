// The scenarios of a seed: each cause at several strengths, pairs of causes, and healthy twins, spread over the
// frameworks and styles.
// SPDX-License-Identifier: Apache-2.0
import { FRAMEWORKS, STYLES } from './app.mjs';
import { Chance } from './chance.mjs';
import { connections, SHARED, TASK_KINDS, workers } from './faults/lanes.mjs';
import { javascript, json, lock, regexp, regexpModule, MORE_REGEXP_MODULES, REGEXP_MODULES, syncCall, SYNC_CALLS } from './faults/loop.mjs';
import { gcPressure, leak, LEAK_TYPES, MORE_LEAK_TYPES, serialisation } from './faults/memory.mjs';
import { short, SHORT_KINDS } from './faults/short.mjs';
import { pause, quota } from './faults/outside.mjs';
import { ipc, pool, redisSlow, runQueue, slowIo, SLOW_OPERATIONS, slowPeer } from './faults/wait.mjs';

const f = (label, plant, strengthMs, options = {}) => ({ label, plant, strengthMs, ...options });
const healthy = (label, plant, options = {}) => [{ ...f(label, plant, 0, options), healthy: true }];

function shuffled(chance, list) {
    const left = [...list], out = [];
    while (left.length) out.push(...left.splice(chance.whole(0, left.length - 1), 1));
    return out;
}

function singles(chance) {
    const leaks = shuffled(chance, LEAK_TYPES), calls = shuffled(chance, SYNC_CALLS);
    return [
        ...[85, 120, 200, 350, 700].map((ms) => [f('regexp', regexp, ms)]),
        ...REGEXP_MODULES.map((module, i) => [f(`regexp of ${module}`, regexpModule, [110, 200, 350][i % 3], { module })]),
        healthy('regexp', regexp), healthy('regexp of fresh', regexpModule, { module: 'fresh' }), healthy('regexp of ms', regexpModule, { module: 'ms' }),
        ...[85, 120, 200, 350, 600].map((ms) => [f('javascript', javascript, ms)]), healthy('javascript', javascript), healthy('javascript', javascript),
        ...[85, 160, 320].map((ms) => [f('json', json, ms)]), healthy('json', json),
        ...calls.slice(0, 5).map((what, i) => [f(`sync ${what}`, syncCall, [90, 180, 350][i % 3], { what })]), healthy('sync call', syncCall, { what: calls[5] }),
        ...[10, 25].map((ms) => [f('gc', gcPressure, ms)]), healthy('gc', gcPressure),
        ...leaks.slice(0, 5).map((type, i) => [f(`leak: ${type}`, leak, [80, 160][i % 2], { type })]), ...leaks.slice(0, 3).map((type) => healthy(`leak: ${type}`, leak, { type })[0]).map((x) => [{ ...x, strengthMs: 40 }]),
        ...['crypto', 'scrypt', 'zlib', 'dns', 'fs', 'crypto'].map((occupant, i) => [f(`pool: ${occupant}`, pool, [90, 180][i % 2], { occupant })]), healthy('pool: crypto', pool, { occupant: 'crypto' }), healthy('pool: fs', pool, { occupant: 'fs' }),
        ...SLOW_OPERATIONS.map((what, i) => [f(`slow ${what}`, slowIo, [170, 220, 320, 180][i % 4], { what })]), healthy('slow fs_read', slowIo, { what: 'fs_read' }),
        ...['http', 'fetch', 'redis', 'tcp', 'http'].map((peer, i) => [f(`slow ${peer}`, slowPeer, [170, 220, 180, 240, 500][i], { peer })]), healthy('slow http', slowPeer, { peer: 'http' }),
        ...[15, 35, 100].map((ms) => [f('serialisation', serialisation, ms)]), healthy('serialisation', serialisation),
        ...['late', 'pipe', 'busy', 'late'].map((how, i) => [f(`ipc: ${how}`, ipc, [120, 150, 200, 400][i], { how })]), healthy('ipc: late', ipc, { how: 'late' }),
        ...[f('redis EVAL', redisSlow, 40, { command: 'EVAL' }), f('redis EVAL', redisSlow, 150, { command: 'EVAL' }), f('redis KEYS', redisSlow, 60, { command: 'KEYS' }), f('redis ZUNIONSTORE', redisSlow, 80, { command: 'ZUNIONSTORE' })].map((x) => [x]),
        healthy('redis EVAL', redisSlow, { command: 'EVAL' }),
        ...[16, 22].map((ms) => [f('run queue', runQueue, ms)]), [{ ...f('run queue', runQueue, 8), healthy: true }],
        ...[100, 250].map((ms) => [f('lock', lock, ms)]), healthy('lock', lock),
    ];
}

function pairs() {
    return [
        [f('regexp', regexp, 200), f('slow http', slowPeer, 180, { peer: 'http' })],
        [f('regexp', regexp, 150), f('javascript', javascript, 150)],
        [f('json', json, 120), f('slow fs_read', slowIo, 190, { what: 'fs_read' })],
        [f('javascript', javascript, 150), f('slow tcp', slowPeer, 200, { peer: 'tcp' })],
        [f('pool: crypto', pool, 100, { occupant: 'crypto' }), f('regexp of forwarded', regexpModule, 200, { module: 'forwarded' })],
        [f('redis EVAL', redisSlow, 100, { command: 'EVAL' }), f('javascript', javascript, 120)],
        [f('leak: cache', leak, 80, { type: 'cache' }), f('regexp', regexp, 200)],
        [f('serialisation', serialisation, 30), f('slow getaddrinfo', slowIo, 190, { what: 'getaddrinfo' })],
        [f('sync readFileSync', syncCall, 120, { what: 'readFileSync' }), f('slow redis', slowPeer, 180, { peer: 'redis' })],
    ];
}

// After the others, so that these stay what they were for their seeds.
function pieces() {
    return [
        ...SHORT_KINDS.flatMap((what, i) => [150, 350].map((ms, k) => [f(`short ${what}`, short, ms, { what, pieceMs: [1, 4][(i + k) % 2] })])),
        ...SHORT_KINDS.map((what) => healthy(`short ${what}`, short, { what })),
        [f('short javascript', short, 200, { what: 'javascript', pieceMs: 2 }), f('slow http', slowPeer, 180, { peer: 'http' })],
    ];
}

// Other modules and leaks, each beside its healthy twin, and three faults in one service; last, likewise.
function further() {
    return [
        ...MORE_REGEXP_MODULES.map((module, i) => [f(`regexp of ${module}`, regexpModule, [110, 200, 350][i % 3], { module })]),
        ...['trim', 'semver'].map((module) => healthy(`regexp of ${module}`, regexpModule, { module })),
        ...MORE_LEAK_TYPES.map((type, i) => [f(`leak: ${type}`, leak, [80, 130][i % 2], { type })]), ...MORE_LEAK_TYPES.map((type) => [{ ...healthy(`leak: ${type}`, leak, { type })[0], strengthMs: 40 }]),
        [f('regexp of trim', regexpModule, 150, { module: 'trim' }), f('leak: buffers', leak, 80, { type: 'buffers' })],
        [f('regexp', regexp, 150), f('leak: closure', leak, 80, { type: 'closure' }), f('slow redis', slowPeer, 180, { peer: 'redis' })],
        [f('pool: crypto', pool, 100, { occupant: 'crypto' }), f('slow redis', slowPeer, 200, { peer: 'redis' }), f('gc', gcPressure, 20)],
        [f('slow getaddrinfo', slowIo, 220, { what: 'getaddrinfo' }), f('ipc: late', ipc, 200, { how: 'late' }), f('json', json, 120)],
        [f('ipc: pipe', ipc, 150, { how: 'pipe' }), f('javascript', javascript, 120)],
        [f('lock', lock, 150), f('slow http', slowPeer, 200, { peer: 'http' }), f('sync pbkdf2Sync', syncCall, 120, { what: 'pbkdf2Sync' })],
        [f('redis KEYS', redisSlow, 60, { command: 'KEYS' }), f('regexp of semver', regexpModule, 150, { module: 'semver' }), f('slow fs_read', slowIo, 190, { what: 'fs_read' })],
    ];
}

// What requests share and wait for, what no operation shows, TypeScript; last, likewise.
function shared() {
    return [
        ...SHARED.flatMap((how, i) => [60, 140].map((ms) => [f(`connections: ${how}`, connections, ms + 10 * i, { how })])), ...SHARED.map((how) => healthy(`connections: ${how}`, connections, { how })),
        ...TASK_KINDS.flatMap((how) => [80, 160].map((ms) => [f(`workers: ${how}`, workers, ms, { how })])), ...TASK_KINDS.map((how) => healthy(`workers: ${how}`, workers, { how })),
        ...[250, 500].map((ms) => [f('pause', pause, ms)]), healthy('pause', pause),
        ...[12, 30].map((ms) => [f('quota', quota, ms)]), [{ ...f('quota', quota, 8), healthy: true }],
        ...[100, 250].map((ms) => [f('javascript of TypeScript', javascript, ms, { language: 'ts' })]), ...[100, 250].map((ms) => [f('regexp of TypeScript', regexp, ms, { language: 'ts' })]), healthy('javascript of TypeScript', javascript, { language: 'ts' }),
        [f('connections: sockets', connections, 80, { how: 'sockets' }), f('regexp', regexp, 150)],
        [f('workers: waiting', workers, 120, { how: 'waiting' }), f('slow http', slowPeer, 200, { peer: 'http' })],
        [f('connections: agent', connections, 100, { how: 'agent' }), f('javascript of TypeScript', javascript, 120, { language: 'ts' })],
    ];
}

export function scenarios(seed) {
    const chance = new Chance(seed), turn = chance.whole(0, 5);
    return [...singles(chance), ...pairs(), ...pieces(), ...further(), ...shared()].map((faults, i) => {
        const framework = FRAMEWORKS[(i + turn) % 3], style = STYLES[((i + turn) / 3 | 0) % 2];
        const jittered = faults.map((fault) => ({ ...fault, strengthMs: Math.round(fault.strengthMs * chance.between(0.9, 1.25)) }));
        const what = jittered.map((x) => (x.healthy ? `healthy ${x.label}` : `${x.label} ${x.strengthMs} ms`)).join(' + ');
        return { number: i + 1, faults: jittered, framework, style, seed: chance.whole(1, 2 ** 31), name: `${what}, ${framework}, ${style}s` };
    });
}
