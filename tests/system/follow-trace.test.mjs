// A trace that grows while `sonde trace events --follow` reads it: packets, names of events, and streams are added.
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Running, SONDE, temporary } from './helper.mjs';

const HEAD = `/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := stamp;
stream { id = 0; packet.context := struct { u32 content_size; u32 packet_size; u8 n; };
  event.header := struct { u8 id; stamp timestamp; }; };
`;
const event = (id, name, fields) => `event { name = ${name}; id = ${id}; stream_id = 0; fields := struct { ${fields} }; };\n`;

// A packet of events [id, time, bytes].
function packet(...events) {
    const body = Buffer.concat(events.map(([id, time, bytes]) => {
        const head = Buffer.alloc(9);
        head.writeUInt8(id, 0);
        head.writeBigUInt64LE(BigInt(time), 1);
        return Buffer.concat([head, Buffer.from(bytes)]);
    }));
    const head = Buffer.alloc(17);
    head.writeUInt32LE(0xc1fc1fc1, 0);
    head.writeUInt32LE((17 + body.length) * 8, 8);
    head.writeUInt32LE((17 + body.length) * 8, 12);
    head.writeUInt8(3, 16);
    return Buffer.concat([head, body]);
}

test('packets, event names and streams that are added are read', async (t) => {
    const folder = temporary(t), file = (name) => path.join(folder, name);
    fs.writeFileSync(file('metadata'), HEAD + event(0, 'first', 'u8 a;'));
    fs.writeFileSync(file('s0'), packet([0, 10, [1]], [0, 20, [2]]));
    const reader = new Running(t, SONDE, ['trace', 'events', '--follow', '--json', folder]);
    const lines = () => reader.stdout.trim().split('\n').filter(Boolean).map((line) => JSON.parse(line));
    const told = () => lines().map((e) => `${e.time_ns} ${e.name} ${JSON.stringify(e.fields)}`);
    await reader.until(/"a":2/, { stream: 'stdout' });

    fs.appendFileSync(file('s0'), packet([0, 30, [3]])); // longer
    await reader.until(/"a":3/, { stream: 'stdout' });

    // A class whose sequence is as long as a field of its own says: it needs registers that there were not.
    fs.appendFileSync(file('metadata'), event(1, 'second', 'u8 n; u8 list[n]; string s;'));
    fs.appendFileSync(file('s0'), packet([0, 40, [4]], [1, 50, [2, 7, 8, 0x68, 0x69, 0]], [0, 60, [6]]));
    await reader.until(/"a":6/, { stream: 'stdout' });

    fs.writeFileSync(file('s1'), packet([1, 70, [1, 9, 0]])); // a new stream
    await reader.until(/"time_ns":70/, { stream: 'stdout' });

    // Half a metadata entry and half a packet: nothing happens until the other half is there.
    const third = event(2, 'third', 'u32 b;'), last = packet([2, 80, [5, 0, 0, 0]], [0, 90, [9]]);
    fs.appendFileSync(file('metadata'), third.slice(0, 20));
    fs.appendFileSync(file('s1'), packet([0, 75, [7]]));
    await reader.until(/"a":7/, { stream: 'stdout' });
    fs.appendFileSync(file('metadata'), third.slice(20));
    fs.appendFileSync(file('s1'), last.subarray(0, 20));
    fs.appendFileSync(file('s0'), packet([0, 78, [8]]));
    await reader.until(/"a":8/, { stream: 'stdout' });
    fs.appendFileSync(file('s1'), last.subarray(20));
    await reader.until(/"a":9/, { stream: 'stdout' });

    process.kill(reader.pid, 'SIGINT');
    const { status } = await reader.ended;
    assert.equal(status, 0, reader.describe());
    assert.deepEqual(told(), ['10 first {"a":1}', '20 first {"a":2}', '30 first {"a":3}', '40 first {"a":4}',
        '50 second {"n":2,"list":[7,8],"s":"hi"}', '60 first {"a":6}', '70 second {"n":1,"list":[9],"s":""}',
        '75 first {"a":7}', '78 first {"a":8}', '80 third {"b":5}', '90 first {"a":9}']);
});
