// Reading traces: every field of every event and every time against babeltrace2, on recorded traces, on LTTng's, on
// random layouts; conversions read back; the commands on real traces.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { writeRandomTrace } from '../oracle/random_ctf.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const sonde = process.env.SONDE ?? path.join(root, 'build/sonde');
const compare = path.join(path.dirname(sonde), 'tests/oracle/compare_babeltrace');
const data = path.join(process.env.SONDE_DATA ?? path.join(root, '../shared/data'), 'ctf');
const noData = fs.existsSync(data) ? false : `no recorded traces at ${data} (SONDE_DATA)`;
const noOracle = fs.existsSync(compare) ? false : 'babeltrace2 was not there when this was built';
const tools = name => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
let scratch;

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

const RECORDED = { 'many-threads': 240644, memory: 328056, 'hello-lost': 32300, ros2: 99338, 'cyg-profile': 10138, synctraces: 196500 };

for (const [name, events] of Object.entries(RECORDED))
    test(`${name} is read as babeltrace2 reads it, and so is its copy`, { skip: noData || noOracle }, () => {
        const folder = unpack(name), copy = path.join(scratch, `copy-${name}`);
        assert.equal(equal(folder), events);
        if (['cyg-profile', 'synctraces'].includes(name)) return; // several traces with files of the same names
        assert.ok([0, 4].includes(run(sonde, 'convert', '--to', 'ctf', '-o', copy, folder).status));
        assert.equal(equal(folder, copy), events);
    });

test('an altered byte is noticed', { skip: noData || noOracle }, () => {
    const folder = unpack('ros2');
    const file = path.join(folder, 'ros2_3');
    const bytes = fs.readFileSync(file);
    bytes[100000] ^= 0x10;
    const altered = path.join(scratch, 'altered');
    fs.cpSync(folder, altered, { recursive: true });
    fs.writeFileSync(path.join(altered, 'ros2_3'), bytes);
    assert.notEqual(run(compare, altered, folder).status, 0);
});

test('CTF 2: the recorded traces, and their copies in CTF 1.8', { skip: noData || noOracle }, () => {
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

test("LTTng's user-space tracer", { skip: noOracle || !tools('lttng-sessiond') || process.getuid() !== 0 ? 'needs lttng-tools, root and babeltrace2' : false }, () => {
    const home = path.join(scratch, 'lttng');
    fs.mkdirSync(path.join(home, 'run'), { recursive: true });
    const env = { ...process.env, LTTNG_HOME: home, LTTNG_RUNDIR: path.join(home, 'run') };
    const lttng = (...args) => spawnSync('lttng', args, { env, encoding: 'utf8', timeout: 30_000 });
    spawnSync('lttng-sessiond', ['--no-kernel', '-b', '--pidfile', path.join(home, 'pid')], { env, stdio: 'ignore', timeout: 30_000 });
    const pid = Number(fs.readFileSync(path.join(home, 'pid'), 'utf8'));
    try {
        assert.equal(lttng('create', 's', '-o', path.join(home, 'trace')).status, 0);
        lttng('enable-channel', '-u', 'c', '--subbuf-size', '65536');
        lttng('enable-event', '-u', '-a', '-c', 'c');
        lttng('add-context', '-u', '-t', 'vpid', '-t', 'vtid', '-t', 'procname', '-c', 'c');
        lttng('start');
        spawnSync('sort', ['/etc/services'], { env: { ...env, LD_PRELOAD: 'liblttng-ust-libc-wrapper.so' } });
        lttng('stop');
        lttng('destroy');
    } finally {
        process.kill(pid);
    }
    const folder = path.join(home, 'trace');
    const events = equal(folder);
    assert.ok(events > 100, `${events} events`);
    const some = run(sonde, 'trace', 'events', '--process', 'sort', '--name', '*malloc', '--json', '-l', '3', folder).out.trim().split('\n').map(JSON.parse);
    assert.equal(some.length, 3);
    for (const e of some) assert.ok(e.pid > 0 && e.context.procname === 'sort' && e.fields.size >= 0);
});

test('filters, times and empty results', { skip: noData }, () => {
    const folder = unpack('many-threads');
    const lines = (...args) => run(sonde, 'trace', 'events', ...args, folder).out.trim().split('\n').filter(Boolean);
    const json = (...args) => lines('--json', ...args).map(l => JSON.parse(l));
    const all = json('--name', 'sched_switch');
    const some = json('--name', 'sched_*', '--where', '$name == "sched_switch" && next_comm =~ "lttng*" && prev_tid != 0');
    const expected = all.filter(e => e.fields.next_comm.startsWith('lttng') && e.fields.prev_tid !== 0);
    assert.ok(expected.length > 0);
    assert.deepEqual(some, expected);
    const there = json('--where', 'cpu_id == 3', '--name', 'sched_switch');
    assert.deepEqual(there, all.filter(e => e.packet.cpu_id === 3));
    assert.match(lines('--where', 'cpu_id == 3', '-l', '1')[0], / wilbrod cpu3 /);
    const first = all[0].time_ns;
    assert.ok(json('--from', '+100ms', '--to', '+110ms').every(e => e.time_ns - first >= 99e6 && e.time_ns - first <= 111e6));
    const none = run(sonde, 'trace', 'events', '--where', 'nosuchfield > 5', folder);
    assert.equal(none.out, '');
    assert.match(none.err, /nosuchfield/);
    const wrong = run(sonde, 'trace', 'events', '--where', 'a >', folder);
    assert.equal(wrong.status, 2);
    assert.match(wrong.err, /column 4/);
    const type = run(sonde, 'trace', 'events', '--where', 'prev_tid > 0 && next_comm > 5', folder);
    assert.equal(type.status, 2);
    assert.match(type.err, /column 17: next_comm is a string in sched_switch and cannot be compared with 5, a number/);
});

test('two hosts are aligned by their messages', { skip: noData }, () => {
    const folder = unpack('synctraces');
    const r = run(sonde, 'trace', 'events', '--align', '--json', '--name', 'inet_sock_local_*', folder);
    assert.match(r.err, /aligned: VM1 to VM3: offset \+79\d{6} ns, drift \+\d+\.\d+ us\/s; error at most .* us between/);
    const sent = new Map();
    let matched = 0;
    for (const e of r.out.trim().split('\n').map(l => JSON.parse(l))) {
        const key = `${e.fields.seq} ${e.fields.ack_seq} ${e.fields.flags}`;
        if (e.name === 'inet_sock_local_out') { sent.set(key, e); continue; }
        const from = sent.get(key);
        if (!from || from.host === e.host) continue;
        matched++;
        assert.ok(e.time_ns >= from.time_ns, `received before it was sent: ${key}`);
    }
    assert.ok(matched >= 40, `${matched} messages in order`);
});

test('JSON lines and Perfetto', { skip: noData }, () => {
    const folder = unpack('ros2');
    const json = run(sonde, 'convert', '--to', 'json', '-o', '-', folder).out.trim().split('\n');
    assert.equal(json.length, RECORDED.ros2);
    assert.equal(JSON.parse(json[0]).name, 'ros2:rcl_init');
    const out = path.join(scratch, 'ros2.pftrace');
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
    assert.ok(packets > RECORDED.ros2, `${packets} packets: one an event and one a track`);
});

test("Perfetto's file by its schema", { skip: noData || !tools('protoc') ? 'needs recorded traces and protoc' : false }, () => {
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
    const folder = unpack('hello-lost'), out = path.join(scratch, 'hello.pftrace');
    assert.equal(run(sonde, 'convert', '--to', 'perfetto', '-o', out, folder).status, 4); // its tracer discarded events
    const decoded = spawnSync('protoc', ['--decode=part.Trace', 'part.proto'], { cwd: scratch, input: fs.readFileSync(out), encoding: 'utf8', maxBuffer: 1 << 28 });
    assert.equal(decoded.status, 0, decoded.stderr);
    assert.equal(decoded.stdout.match(/^ {2}track_event \{/gm).length, RECORDED['hello-lost']);
    assert.doesNotMatch(decoded.stdout, /^ *\d+[:{ ]/m, 'a field that the schema does not have');
    assert.match(decoded.stdout, /array_values \{\n +int_value: 1\n +\}\n +array_values \{\n +int_value: 2\n +\}\n +array_values \{\n +int_value: 3\n +\}\n +name: "arrfield1"|name: "arrfield1"\n +array_values \{\n +int_value: 1\n/);
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

test('no clock, no time', { skip: noData }, () => {
    const line = run(sonde, 'trace', 'events', '-l', '1', unpack('CTF2-7.0-smalltrace')).out;
    assert.match(line, /^- CTF2-7.0-smalltrace string str=/);
});

test('a truncated file gives what is whole, and says what is lost', { skip: noData }, () => {
    const folder = unpack('memory'), cut = path.join(scratch, 'cut');
    fs.cpSync(folder, cut, { recursive: true });
    const file = path.join(cut, 'channel0_2');
    fs.truncateSync(file, fs.statSync(file).size - 1000);
    const r = run(sonde, 'trace', 'info', '--json', cut);
    assert.equal(r.status, 4);
    const info = JSON.parse(r.out);
    assert.ok(info.events > 200000 && info.events < RECORDED.memory);
    const loss = info.losses.find(l => l.kind === 'truncated-bytes');
    assert.equal(loss.path, file);
    assert.equal(loss.offset_bytes + loss.count, fs.statSync(file).size);
    const said = new RegExp(`^lost: ${loss.count} bytes of an unfinished packet: .*/channel0_2, offset ${loss.offset_bytes}$`, 'm');
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

test("seeking gives the same with LTTng's index, without it, and with a wrong one", { skip: noData }, () => {
    const folder = unpack('ros2'), without = path.join(scratch, 'no-index'), wrong = path.join(scratch, 'wrong-index');
    for (const copy of [without, wrong]) fs.cpSync(folder, copy, { recursive: true });
    fs.rmSync(path.join(without, 'index'), { recursive: true });
    for (const name of fs.readdirSync(path.join(wrong, 'index'))) {
        const file = path.join(wrong, 'index', name), bytes = fs.readFileSync(file);
        bytes[16 + 72 + 6] ^= 1; // the second packet's offset
        fs.writeFileSync(file, bytes);
    }
    for (const from of ['+10us', '+100ms', '+1.3s', '+3.7s', '+20s']) {
        const [a, b, c] = [folder, without, wrong].map(f => run(sonde, 'trace', 'events', '--from', from, '-l', '200', '--json', f).out);
        assert.equal(a, b);
        assert.equal(a, c);
    }
});

test('several threads give what one gives', { skip: noData }, () => {
    for (const name of ['many-threads', 'hello-lost', 'memory']) {
        const folder = unpack(name);
        const [one, many] = [[], ['--threads', '3']].map(t => run(sonde, 'trace', 'events', '--json', ...t, folder).out);
        assert.ok(one === many, name);
        const [a, b] = [[], ['--threads', '3']].map(t => run(sonde, 'trace', 'info', '--json', ...t, folder).out);
        assert.equal(a, b);
    }
});
