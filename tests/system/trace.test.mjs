// Reading traces: every field of every event and every time against babeltrace2, on traces that LTTng's user-space tracer
// makes here, on random layouts, on public traces where they are; conversions read back; the commands on such traces.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { writeRandomTrace } from '../oracle/random_ctf.mjs';
import { writeKernelTrace } from './kernel-trace.mjs';
import { CYG_PROFILE_EVENTS, ORDERS, lttngTraces, noLttng } from './lttng.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const sonde = process.env.SONDE ?? path.join(root, 'build/sonde');
const compare = path.join(path.dirname(sonde), 'tests/oracle/compare_babeltrace');
const data = path.join(process.env.SONDE_DATA ?? path.join(root, '../shared/data'), 'ctf');
const noData = fs.existsSync(data) ? false : `no public traces at ${data} (SONDE_DATA)`;
const noOracle = fs.existsSync(compare) ? false : 'babeltrace2 was not there when this was built';
const tools = name => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
let scratch, traces;
const made = () => traces ??= lttngTraces(path.join(scratch, 'lttng'));

before(() => { scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-trace-test-')); });
after(() => fs.rmSync(scratch, { recursive: true, force: true }));

function run(program, ...args) {
    const r = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 28, timeout: 120_000 });
    return { status: r.status, out: r.stdout, err: r.stderr };
}

function equal(...folders) {
    const r = run(compare, ...folders);
    assert.equal(r.status, 0, `${folders.join(' against ')}: ${r.out.slice(0, 600)}${r.err.slice(0, 600)}`);
    const events = Number(/^equal: (\d+) events/m.exec(r.out)[1]);
    return events;
}

function unpack(name) {
    const to = path.join(scratch, 'data');
    fs.mkdirSync(to, { recursive: true });
    assert.equal(run('tar', '--zstd', '-xf', path.join(data, `${name}.tar.zst`), '-C', to).status, 0);
    return path.join(to, name);
}

// What babeltrace2 reads of a folder, and of its copy. Of several traces with files of the same names no copy is made.
function equalWithCopy(name, folder, several) {
    const copy = path.join(scratch, `copy-${name}`), events = equal(folder);
    if (several) return events;
    assert.ok([0, 4].includes(run(sonde, 'convert', '--to', 'ctf', '-o', copy, folder).status));
    assert.equal(equal(folder, copy), events);
    return events;
}

test("LTTng's traces are read as babeltrace2 reads them, and so are their copies", { skip: noLttng || noOracle }, () => {
    assert.equal(equalWithCopy('orders', made().orders), ORDERS.events);
    const some = equalWithCopy('lost', made().lost);
    assert.ok(some > 0 && some < ORDERS.events, `${some} events`);
    assert.equal(equalWithCopy('cyg-profile', made()['cyg-profile'], true), CYG_PROFILE_EVENTS);
});

test('what was recorded is read', { skip: noLttng }, () => {
    const [first] = run(sonde, 'trace', 'events', '--process', 'take-orders', '--name', 'orders:order', '--where', 'number == 13 && thread == 2', '--json', made().orders).out.trim().split('\n').map(JSON.parse);
    assert.ok(first.pid > 0 && first.context.procname === 'take-orders');
    assert.deepEqual(first.fields, { number: 13, thread: 2, hash: Number(BigInt.asUintN(64, 13n * 0x9e3779b97f4a7c15n)), price: 16.25, state: 5, 'state.label': 'sent', name: 'order 13 of 2', first: [1, 2, 3],
        _items_length: 2, items: [1, 2], code: 'ABCDE', _text_length: 2, text: 'or' });
});

test('public traces are read as babeltrace2 reads them, and so are their copies', { skip: noData || noOracle }, () => {
    for (const [name, events] of Object.entries({ 'many-threads': 240644, memory: 328056, 'hello-lost': 32300, ros2: 99338, 'cyg-profile': 10138, synctraces: 196500 }))
        assert.equal(equalWithCopy(name, unpack(name), ['cyg-profile', 'synctraces'].includes(name)), events, name);
    for (const [name, events] of [['CTF2-7.0-smalltrace', 2], ['CTF2-7.0-succeed1', 7809], ['CTF2-7.0-trace-with-index', 4000]]) {
        const folder = unpack(name), copy = path.join(scratch, `copy-${name}`);
        const info = JSON.parse(run(sonde, 'trace', 'info', '--json', folder).out);
        assert.equal(info.events, events);
        assert.equal(info.traces[0].ctf, '2');
        assert.equal(run(sonde, 'convert', '--to', 'ctf', '-o', copy, folder).status, 0);
        assert.equal(equal(folder, copy), events);
    }
    const strings = run(sonde, 'trace', 'events', '--json', path.join(scratch, 'data/CTF2-7.0-smalltrace')).out
        .trim().split('\n').map(l => JSON.parse(l).fields.str);
    assert.deepEqual(strings, ['This is a test trace', 'with only two small events.']);
});

// The streams' files of a trace of LTTng's, the largest first.
const streamsOf = folder => fs.readdirSync(folder, { recursive: true }).map(name => path.join(folder, name)).filter(file => /c_\d+$/.test(file)).sort((a, b) => fs.statSync(b).size - fs.statSync(a).size);

test('an altered byte is noticed', { skip: noLttng || noOracle }, () => {
    const altered = path.join(scratch, 'altered');
    fs.cpSync(made().orders, altered, { recursive: true });
    const [file] = streamsOf(altered), bytes = fs.readFileSync(file);
    bytes[bytes.lastIndexOf('order ') + 1] ^= 0x10;
    fs.writeFileSync(file, bytes);
    assert.notEqual(run(compare, altered, made().orders).status, 0);
});

const seeds = Number(process.env.SONDE_RANDOM_TRACES ?? 25);
test(`${seeds} random layouts, as CTF 1.8, as CTF 2, and their copies`, { skip: noOracle }, () => {
    for (let seed = 1; seed <= seeds; seed++) {
        const one = path.join(scratch, `random-${seed}`), two = `${one}-2`;
        writeRandomTrace(seed, one, { ctf2: two });
        const events = equal(one);
        assert.ok(events > 0);
        assert.equal(equal(two, one), events, `seed ${seed} as CTF 2`);
        for (const folder of [one, two]) {
            assert.equal(run(sonde, 'convert', '--to', 'ctf', '-o', `${folder}-copy`, folder).status, 0);
            assert.equal(equal(folder, `${folder}-copy`), events, `seed ${seed}, copy of ${folder}`);
        }
        for (const folder of [one, two]) {
            fs.rmSync(folder, { recursive: true });
            fs.rmSync(`${folder}-copy`, { recursive: true });
        }
    }
});

test('1,000 streams', { skip: noOracle }, () => {
    const folder = path.join(scratch, 'thousand');
    writeRandomTrace(3, folder, { packets: 2, events: 8 });
    const streams = fs.readdirSync(folder).filter(f => f.startsWith('stream'));
    for (let i = 0; i < 1000; i++)
        fs.copyFileSync(path.join(folder, streams[i % streams.length]), path.join(folder, `s${i}`));
    for (const s of streams) fs.rmSync(path.join(folder, s));
    const info = JSON.parse(run(sonde, 'trace', 'info', '--json', folder).out);
    assert.equal(info.streams.length, 1000);
    assert.equal(equal(folder), info.events);
});

test('filters, times and empty results', { skip: noLttng }, () => {
    const folder = made().orders;
    const lines = (...args) => run(sonde, 'trace', 'events', ...args, folder).out.trim().split('\n').filter(Boolean);
    const json = (...args) => lines('--json', ...args).map(l => JSON.parse(l));
    const all = json('--name', 'orders:order');
    assert.equal(all.length, ORDERS.threads * ORDERS.each);
    const some = json('--name', 'orders:*', '--where', '$name == "orders:order" && name =~ "order 1*" && number != 17');
    const expected = all.filter(e => e.fields.name.startsWith('order 1') && e.fields.number !== 17);
    assert.ok(expected.length > 0);
    assert.deepEqual(some, expected);
    const cpu = all.at(-1).packet.cpu_id, there = json('--where', `cpu_id == ${cpu}`, '--name', 'orders:order');
    assert.deepEqual(there, all.filter(e => e.packet.cpu_id === cpu));
    assert.match(lines('--where', `cpu_id == ${cpu}`, '-l', '1')[0], new RegExp(` ${os.hostname()} cpu${cpu} `));
    const first = all[0].time_ns, middle = all[all.length >> 1].time_ns - first;
    const part = json('--from', '+0ns', '--to', `+${middle}ns`);
    assert.ok(part.length > 0 && part.length < ORDERS.events && part.every(e => e.time_ns - first <= middle + 1000));
    const none = run(sonde, 'trace', 'events', '--where', 'nosuchfield > 5', folder);
    assert.equal(none.out, '');
    assert.match(none.err, /nosuchfield/);
    const wrong = run(sonde, 'trace', 'events', '--where', 'a >', folder);
    assert.equal(wrong.status, 2);
    assert.match(wrong.err, /column 4/);
    const type = run(sonde, 'trace', 'events', '--where', 'number > 0 && name > 5', folder);
    assert.equal(type.status, 2);
    assert.match(type.err, /column 15: name is a string in orders:order and cannot be compared with 5, a number/);
});

// Two hosts of which the second's clock is ahead by 79.4 ms and gains 30 us/s, and messages both ways that take 100 to 300 us.
test('two hosts are aligned by their messages', () => {
    const folder = path.join(scratch, 'hosts'), begin = 1e15, ahead = 79_400_000, gain = 30e-6, events = [[], []];
    const clock = [t => t, t => Math.round(t + ahead + gain * (t - begin))];
    for (let i = 0; i < 400; i++) {
        const from = i % 2, sent = begin + i * 2_500_000, took = 100_000 + (i * 7919) % 200_000, message = { seq: 1000 + i, ack_seq: 500 + i, flags: 16 };
        events[from].push({ at: clock[from](sent), cpu: 0, event: 'inet_sock_local_out', ...message });
        events[1 - from].push({ at: clock[1 - from](sent + took), cpu: 0, event: 'inet_sock_local_in', ...message });
    }
    events.forEach((list, i) => writeKernelTrace(path.join(folder, `host${i}`), { release: '6.1.0', events: list.sort((a, b) => a.at - b.at), host: `host${i}` }));
    const r = run(sonde, 'trace', 'events', '--align', '--json', '--name', 'inet_sock_local_*', folder);
    const [, offset, drift, error] = /aligned: host1 to host0: offset \+?(-?\d+) ns, drift \+?(-?[\d.]+) us\/s; error at most ([\d.]+) us/.exec(r.err) ?? assert.fail(r.err);
    assert.ok(Math.abs(Number(offset) - ahead) <= Number(error) * 1000, r.err);
    assert.ok(Math.abs(Number(drift) - gain * 1e6) < 200, r.err);
    const sent = new Map();
    let matched = 0;
    for (const e of r.out.trim().split('\n').map(l => JSON.parse(l))) {
        if (e.name === 'inet_sock_local_out') { sent.set(e.fields.seq, e); continue; }
        const from = sent.get(e.fields.seq);
        assert.ok(from && from.host !== e.host && e.time_ns >= from.time_ns, `received before it was sent: ${e.fields.seq}`);
        matched++;
    }
    assert.equal(matched, 400);
});

test('JSON lines and Perfetto', { skip: noLttng }, () => {
    const folder = made().orders;
    const json = run(sonde, 'convert', '--to', 'json', '-o', '-', folder).out.trim().split('\n');
    assert.equal(json.length, ORDERS.events);
    assert.equal(JSON.parse(json[0]).name, 'orders:order');
    const out = path.join(scratch, 'orders.pftrace');
    assert.equal(run(sonde, 'convert', '--to', 'perfetto', '-o', out, folder).status, 0);
    // Trace.packet, field 1: counted without a schema.
    const bytes = fs.readFileSync(out);
    let at = 0, packets = 0;
    const varint = () => { let v = 0, shift = 1; for (;;) { const b = bytes[at++]; v += (b & 0x7f) * shift; if (b < 128) return v; shift *= 128; } };
    while (at < bytes.length) {
        assert.equal(varint(), 0x0a);
        const length = varint();
        at += length;
        packets++;
    }
    assert.equal(at, bytes.length);
    assert.ok(packets > ORDERS.events, `${packets} packets: one an event and one a track`);
});

test("Perfetto's file by its schema", { skip: noLttng || (tools('protoc') ? false : 'needs protoc') }, () => {
    // The part of Perfetto's public schema that is written.
    fs.writeFileSync(path.join(scratch, 'part.proto'), `syntax = "proto2"; package part;
        message Trace { repeated TracePacket packet = 1; }
        message TracePacket { optional uint64 timestamp = 8; optional uint32 trusted_packet_sequence_id = 10;
            optional TrackEvent track_event = 11; optional TrackDescriptor track_descriptor = 60; }
        message TrackDescriptor { optional uint64 uuid = 1; optional string name = 2; optional ProcessDescriptor process = 3;
            optional ThreadDescriptor thread = 4; optional uint64 parent_uuid = 5; }
        message ProcessDescriptor { optional int32 pid = 1; optional string process_name = 6; }
        message ThreadDescriptor { optional int32 pid = 1; optional int32 tid = 2; optional string thread_name = 5; }
        message TrackEvent { repeated DebugAnnotation debug_annotations = 4; optional Type type = 9; optional uint64 track_uuid = 11;
            repeated string categories = 22; optional string name = 23;
            enum Type { SLICE_BEGIN = 1; SLICE_END = 2; INSTANT = 3; } }
        message DebugAnnotation { optional bool bool_value = 2; optional uint64 uint_value = 3; optional int64 int_value = 4;
            optional double double_value = 5; optional string string_value = 6; optional string name = 10;
            repeated DebugAnnotation dict_entries = 11; repeated DebugAnnotation array_values = 12; }`);
    const folder = made().lost, out = path.join(scratch, 'lost.pftrace'), { events } = JSON.parse(run(sonde, 'trace', 'info', '--json', folder).out);
    assert.equal(run(sonde, 'convert', '--to', 'perfetto', '-o', out, folder).status, 4); // its tracer discarded events
    const decoded = spawnSync('protoc', ['--decode=part.Trace', 'part.proto'], { cwd: scratch, input: fs.readFileSync(out), encoding: 'utf8', maxBuffer: 1 << 28 });
    assert.equal(decoded.status, 0, decoded.stderr);
    assert.equal(decoded.stdout.match(/^ {2}track_event \{/gm).length, events);
    assert.doesNotMatch(decoded.stdout, /^ *\d+[:{ ]/m, 'a field that the schema does not have');
    assert.match(decoded.stdout, /array_values \{\n +uint_value: 1\n +\}\n +array_values \{\n +uint_value: 2\n +\}\n +array_values \{\n +uint_value: 3\n +\}\n +name: "first"|name: "first"\n +array_values \{\n +uint_value: 1\n/);
});

test('what cannot be printed is no success', () => {
    const folder = path.join(scratch, 'unprintable');
    writeRandomTrace(1, folder);
    for (const command of ['trace info', 'trace events', 'convert --to json -o -', 'convert --to perfetto -o /dev/full']) {
        const r = spawnSync('sh', ['-c', `"$0" ${command} "$1" >/dev/full`, sonde, folder], { encoding: 'utf8' });
        assert.equal(r.status, 1, command);
        assert.match(r.stderr, /No space left on device/, command);
    }
});

test('traces with nothing in them, and none', () => {
    const folder = path.join(scratch, 'bare'), full = path.join(scratch, 'full'), events = () => run(sonde, 'trace', 'events', folder);
    fs.mkdirSync(folder);
    assert.match(events().err, /neither this directory nor one below it has a file 'metadata'/);
    fs.writeFileSync(path.join(folder, 'metadata'), '');
    assert.match(events().err, /bare\/metadata: empty/);
    writeRandomTrace(1, full);
    fs.copyFileSync(path.join(full, 'metadata'), path.join(folder, 'metadata'));
    assert.match(events().err, /the trace has no events/);
    assert.match(run(sonde, 'trace', 'events', path.join(folder, 'metadata')).err, /Not a directory\n.*name the directory/);
    assert.match(run(sonde, 'trace', 'info', folder, folder).err, /expected one trace/);
    assert.match(run(sonde, 'trace', 'events', '--frm', '3', folder).err, /unknown option --frm/);
    assert.match(run(sonde, 'trace', 'info', '--name', 'x', folder).err, /unknown option --name/);
});

test('no clock, no time', () => {
    const folder = path.join(scratch, 'clockless');
    const fragments = [{ type: 'preamble', version: 2 }, { type: 'data-stream-class' },
        { type: 'event-record-class', name: 'string', 'payload-field-class': { type: 'structure', 'member-classes': [{ name: 'str', 'field-class': { type: 'null-terminated-string' } }] } }];
    fs.mkdirSync(folder);
    fs.writeFileSync(path.join(folder, 'metadata'), fragments.map(f => `\x1e${JSON.stringify(f)}\n`).join(''));
    fs.writeFileSync(path.join(folder, 'stream'), 'one\0two\0');
    assert.equal(run(sonde, 'trace', 'events', folder).out, '- clockless string str="one"\n- clockless string str="two"\n');
});

test('structures within structures stay what they are in JSON', () => {
    const folder = path.join(scratch, 'nested'), byte = { type: 'fixed-length-unsigned-integer', length: 8, 'byte-order': 'little-endian', alignment: 8 };
    const structure = (members) => ({ type: 'structure', 'member-classes': Object.entries(members).map(([name, field]) => ({ name, 'field-class': field })) });
    const point = structure({ x: byte, at: structure({ x: byte, y: byte }) });
    const fragments = [{ type: 'preamble', version: 2 }, { type: 'data-stream-class' },
        { type: 'event-record-class', name: 'drawn', 'payload-field-class': structure({ x: byte, point, line: { type: 'static-length-array', length: 2, 'element-field-class': point } }) }];
    fs.mkdirSync(folder);
    fs.writeFileSync(path.join(folder, 'metadata'), fragments.map(f => `\x1e${JSON.stringify(f)}\n`).join(''));
    fs.writeFileSync(path.join(folder, 'stream'), Buffer.from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
    const drawn = { x: 1, point: { x: 2, at: { x: 3, y: 4 } }, line: [{ x: 5, at: { x: 6, y: 7 } }, { x: 8, at: { x: 9, y: 10 } }] };
    for (const command of [['trace', 'events', '--json'], ['convert', '--to', 'json', '-o', '-']]) {
        const { status, out, err } = run(sonde, ...command, folder);
        assert.equal(status, 0, err);
        const event = JSON.parse(out);
        assert.deepEqual(event.fields ?? event.payload, drawn, out);
    }
});

test('a truncated file gives what is whole, and says what is lost', { skip: noLttng }, () => {
    const cut = path.join(scratch, 'cut');
    fs.cpSync(made().orders, cut, { recursive: true });
    const [file] = streamsOf(cut);
    fs.truncateSync(file, fs.statSync(file).size - 1000);
    const r = run(sonde, 'trace', 'info', '--json', cut);
    assert.equal(r.status, 4);
    const info = JSON.parse(r.out);
    assert.ok(info.events > ORDERS.events / 4 && info.events < ORDERS.events, `${info.events} events`);
    const loss = info.losses.find(l => l.kind === 'truncated-bytes');
    assert.equal(loss.path, file);
    assert.equal(loss.offset_bytes + loss.count, fs.statSync(file).size);
    const said = new RegExp(`^lost: ${loss.count} bytes of an unfinished packet: .*/${path.basename(file)}, offset ${loss.offset_bytes}$`, 'm');
    for (const command of [['trace', 'states'], ['convert', '--to', 'json', '-o', '/dev/null']]) {
        const lossy = run(sonde, ...command, cut);
        assert.equal(lossy.status, 4, command.join(' '));
        assert.match(lossy.err, said);
    }
});

test('what a trace says cannot steer the terminal, and metadata that is cut off gives what is whole', () => {
    const folder = path.join(scratch, 'steering'), metadata = path.join(folder, 'metadata');
    const integer = { type: 'fixed-length-unsigned-integer', length: 8, 'byte-order': 'little-endian', alignment: 8 };
    const named = (id, name, field) => ({ type: 'event-record-class', id, name,
        'payload-field-class': { type: 'structure', 'member-classes': [{ name: field, 'field-class': integer }] } });
    const text = [{ type: 'preamble', version: 2 },
        { type: 'data-stream-class', 'event-record-header-field-class': { type: 'structure', 'member-classes': [
            { name: 'id', 'field-class': { ...integer, roles: ['event-record-class-id'] } }] } },
        named(0, 'a\u001b[2Jb\nc', 'x\u009by'), named(1, 'late', 'z')].map(f => `\x1e${JSON.stringify(f)}\n`).join('');
    const header = Buffer.alloc(37);
    header.writeUInt32LE(0x75d11d57, 0);
    header.writeUInt32LE((37 + Buffer.byteLength(text)) * 8, 24);
    header.writeUInt32LE((37 + Buffer.byteLength(text)) * 8, 28);
    fs.mkdirSync(folder);
    fs.writeFileSync(metadata, Buffer.concat([header, Buffer.from(text)]));
    fs.writeFileSync(path.join(folder, 'stream'), Buffer.from([0, 7, 1, 8]));
    const whole = run(sonde, 'trace', 'events', folder);
    assert.equal(whole.out, '- steering a\\x1b[2Jb\\x0ac x\\x9by=7\n- steering late z=8\n', whole.err);
    assert.match(run(sonde, 'trace', 'info', folder).out, / 1 {2}a\\x1b\[2Jb\\x0ac$/m);
    assert.equal(JSON.parse(run(sonde, 'trace', 'events', '-l', '1', '--json', folder).out).name, 'a\u001b[2Jb\nc');
    fs.truncateSync(metadata, fs.statSync(metadata).size - 20);
    const cut = run(sonde, 'trace', 'events', folder);
    assert.equal(cut.status, 4, cut.err);
    assert.equal(cut.out, '- steering a\\x1b[2Jb\\x0ac x\\x9by=7\n');
    assert.match(cut.err, /^lost: 20 bytes of metadata: .*\/metadata, offset 0: expected the rest of a packet/m);
    const losses = JSON.parse(run(sonde, 'trace', 'info', '--json', folder).out).losses;
    assert.deepEqual(losses.map(l => [l.kind, l.stream]), [['metadata-bytes', null], ['unreadable-bytes', 0]]);
    fs.truncateSync(metadata, 50);
    assert.match(run(sonde, 'trace', 'events', folder).err, /metadata.*\n.*The metadata is cut off/);
});

test("seeking gives the same with LTTng's index, without it, and with a wrong one", { skip: noLttng }, () => {
    const folder = made().orders, without = path.join(scratch, 'no-index'), wrong = path.join(scratch, 'wrong-index');
    for (const copy of [without, wrong]) fs.cpSync(folder, copy, { recursive: true });
    const indexes = copy => fs.readdirSync(copy, { recursive: true }).filter(name => name.endsWith('.idx')).map(name => path.join(copy, name));
    assert.ok(indexes(folder).length > 0);
    for (const file of indexes(without)) fs.rmSync(file);
    for (const file of indexes(wrong)) {
        const bytes = fs.readFileSync(file);
        if (bytes.length < 16 + 2 * 72) continue; // one packet
        bytes[16 + 72 + 6] ^= 1; // the second packet's offset
        fs.writeFileSync(file, bytes);
    }
    const { first_ns: begin, last_ns: end } = JSON.parse(run(sonde, 'trace', 'info', '--json', folder).out);
    for (const part of [0.001, 0.1, 0.37, 0.5, 0.8, 1.5]) {
        const from = `+${Math.round((end - begin) * part)}ns`;
        const [a, b, c] = [folder, without, wrong].map(f => run(sonde, 'trace', 'events', '--from', from, '-l', '200', '--json', f).out);
        assert.equal(a, b);
        assert.equal(a, c);
    }
});

test('several threads give what one gives', { skip: noLttng }, () => {
    for (const name of ['orders', 'lost', 'cyg-profile']) {
        const folder = made()[name];
        const [one, many] = [[], ['--threads', '3']].map(t => run(sonde, 'trace', 'events', '--json', ...t, folder).out);
        assert.ok(one === many, name);
        const [a, b] = [[], ['--threads', '3']].map(t => run(sonde, 'trace', 'info', '--json', ...t, folder).out);
        assert.equal(a, b);
    }
});
