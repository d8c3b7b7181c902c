// Perfetto's file of a kernel trace: read back by the schema, and against the states of the same trace.
// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SONDE, root, temporary } from './helper.mjs';
import { writeKernelTrace } from './kernel-trace.mjs';

// The part of Perfetto's public schema that may be written: field -> [name, type]; a trailing + is repeated.
const Annotation = { 2: ['bool_value', 'varint'], 3: ['uint_value', 'varint'], 4: ['int_value', 'varint'], 5: ['double_value', 'fixed64'], 6: ['string_value', 'string'], 10: ['name', 'string'] };
Annotation[11] = ['dict_entries+', Annotation];
Annotation[12] = ['array_values+', Annotation];
const Event = {
    4: ['debug_annotations+', Annotation], 9: ['type', 'varint'], 11: ['track_uuid', 'varint'], 22: ['categories+', 'string'], 23: ['name', 'string'],
    30: ['counter_value', 'varint'], 47: ['flow_ids+', 'fixed64'], 48: ['terminating_flow_ids+', 'fixed64'],
};
const Descriptor = {
    1: ['uuid', 'varint'], 2: ['name', 'string'], 3: ['process', { 1: ['pid', 'varint'], 6: ['process_name', 'string'] }],
    4: ['thread', { 1: ['pid', 'varint'], 2: ['tid', 'varint'], 5: ['thread_name', 'string'] }], 5: ['parent_uuid', 'varint'], 8: ['counter', {}],
};
const Trace = { 1: ['packet+', { 8: ['timestamp', 'varint'], 10: ['trusted_packet_sequence_id', 'varint'], 11: ['track_event', Event], 60: ['track_descriptor', Descriptor] }] };

function decode(bytes, schema) {
    const out = {};
    let at = 0;
    const varint = () => {
        let value = 0n;
        for (let shift = 0n; ; shift += 7n) {
            const byte = bytes[at++];
            assert.notEqual(byte, undefined, 'a number is cut off');
            value |= BigInt(byte & 127) << shift;
            if (byte < 128) return value;
        }
    };
    while (at < bytes.length) {
        const key = Number(varint()), wire = key & 7, [name, type] = schema[key >> 3] ?? assert.fail(`field ${key >> 3} is not in the schema`);
        let value;
        if (wire === 0) {
            assert.equal(type, 'varint', name);
            value = varint();
        } else if (wire === 1) {
            assert.equal(type, 'fixed64', name);
            value = bytes.readBigUInt64LE(at);
            at += 8;
        } else {
            assert.equal(wire, 2, name);
            const length = Number(varint()), part = bytes.subarray(at, at += length);
            assert.ok(at <= bytes.length, `${name} is cut off`);
            assert.notEqual(type, 'varint', name);
            value = type === 'string' ? new TextDecoder('utf-8', { fatal: true }).decode(part) : decode(part, type);
        }
        if (name.endsWith('+')) (out[name.slice(0, -1)] ??= []).push(value);
        else out[name] = value;
    }
    return out;
}

// { path of a track -> ["start-end name", ...] }, instants and counters too; what the importer would refuse fails.
function slices(file) {
    const { packet } = decode(fs.readFileSync(file), Trace), tracks = new Map(), open = new Map(), result = {}, flows = new Map();
    for (const { track_descriptor: d } of packet.filter((p) => p.track_descriptor)) {
        assert.ok(!tracks.has(d.uuid), 'a track is described once');
        tracks.set(d.uuid, d);
    }
    const nameOf = (uuid) => {
        const d = tracks.get(uuid) ?? assert.fail(`track ${uuid} is not described`);
        const own = d.process ? `process ${d.process.pid} ${d.process.process_name ?? ''}` : d.thread ? `${d.thread.tid} ${d.thread.thread_name}` : d.name;
        return d.parent_uuid ? `${nameOf(d.parent_uuid)}/${own}` : own;
    };
    // As the importer does: by time, in the file's order where times are equal; an end closes the slice that was opened last.
    const events = packet.filter((p) => p.track_event).map((p, i) => ({ ...p.track_event, at: p.timestamp, i }));
    events.forEach((e, i) => { if (e.type === 1n) e.ends = events[i + 1].at; }); // what is written: an end behind each beginning
    events.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : a.i - b.i));
    for (const e of events) {
        const track = nameOf(e.track_uuid), list = (result[track] ??= []), running = open.get(e.track_uuid) ?? open.set(e.track_uuid, []).get(e.track_uuid);
        for (const id of e.flow_ids ?? []) flows.set(id, `${track} ${e.at}`);
        const from = (e.terminating_flow_ids ?? []).map((id) => flows.get(id)).filter(Boolean).map((f) => ` <- ${f}`).join('');
        if (e.type === 1n) {
            assert.ok(running.every(({ ends }) => ends >= e.ends || ends === e.at), `${track}: slices lie within each other or apart`);
            running.push({ at: e.at, ends: e.ends, name: e.name, from });
        } else if (e.type === 2n) {
            const last = running.findLastIndex(({ ends }) => ends === e.at);
            assert.ok(last >= 0, `${track}: an end without a beginning`);
            const [begun] = running.splice(last, 1);
            list.push(`${begun.at}-${e.at} ${begun.name}${begun.from}`);
        } else if (e.type === 4n) {
            assert.ok(tracks.get(e.track_uuid).counter, `${track} is a counter`);
            list.push(`${e.at} ${e.counter_value}`);
        } else if (e.flow_ids || e.terminating_flow_ids) list.push(`${e.at} ${e.name}${from}`);
    }
    assert.ok([...open.values()].every((running) => !running.length), 'every slice ends');
    return result;
}

test('processes, threads, processors, states, system calls and wake-ups of a kernel trace', (t) => {
    const folder = path.join(temporary(t), 'kernel'), file = path.join(folder, '../out.pftrace');
    const sw = (at, cpu, prev, state, next) => ({ at, cpu, event: 'sched_switch', prev_tid: prev, prev_state: state, prev_comm: `t${prev}`, prev_prio: 20, next_tid: next, next_comm: `t${next}`, next_prio: 20 });
    writeKernelTrace(folder, {
        release: '6.1.0',
        events: [
            { at: 900, cpu: 0, event: 'lttng_statedump_process_state', tid: 7, pid: 5, ppid: 1, name: 't7', status: 5 },
            { at: 910, cpu: 0, event: 'lttng_statedump_process_state', tid: 5, pid: 5, ppid: 1, name: 't5', status: 5 },
            sw(1000, 0, 0, 0, 5),
            { at: 1050, cpu: 0, event: 'sched_wakeup', tid: 7 },
            { at: 1100, cpu: 0, event: 'syscall_entry_read', fd: 3 },
            sw(1400, 0, 5, 1, 7),
            { at: 1410, cpu: 1, event: 'irq_softirq_entry', vec: 3 },
            { at: 1420, cpu: 1, event: 'irq_softirq_exit', vec: 3 },
            { at: 1430, cpu: 1, event: 'power_cpu_frequency', state: 2_400_000, cpu_id: 0 },
            { at: 1450, cpu: 0, event: 'sched_wakeup', tid: 5 },
            sw(1500, 0, 7, 16, 5),
            { at: 1600, cpu: 0, event: 'syscall_exit_read', ret: 1 },
        ],
    });
    const r = spawnSync(SONDE, ['convert', '--to', 'perfetto', '-o', file, folder], { encoding: 'utf8' });
    assert.equal(r.status, 0, r.stderr);
    const found = slices(file);
    assert.deepEqual(found['made/CPUs/CPU 0'], ['1000-1400 t5 (5)', '1400-1500 t7 (7)', '1500-1601 t5 (5)']);
    assert.deepEqual(found['process 5 t5/5 t5/state'], ['900-1000 blocked', '1050 wakes t7', '1000-1400 running', '1400-1450 blocked', '1450-1500 runnable <- process 5 /7 t7/state 1450', '1500-1601 running'].map((s) => s.replace('process 5 /', 'process 5 t5/')));
    assert.deepEqual(found['process 5 t5/7 t7/state'], ['900-1050 blocked', '1050-1400 runnable <- process 5 t5/5 t5/state 1050', '1450 wakes t5', '1400-1500 running']);
    assert.deepEqual(found['process 5 t5/5 t5'], ['1100-1600 read']);
    assert.deepEqual(found['made/CPUs/softirq on CPU 1'], ['1410-1420 NET_RX']);
    assert.deepEqual(found['made/CPUs/frequency (kHz) of CPU 0'], ['1430 2400000']);
});

test('requests of a recording: a row for each endpoint, spans within, arrows to what was called', (t) => {
    const folder = temporary(t), file = path.join(folder, 'out.pftrace');
    execFileSync('tar', ['--zstd', '--no-same-owner', '-xf', path.join(root, 'tests', 'corpus', 'shop-faults.tar.zst'), '-C', folder]);
    const r = spawnSync(SONDE, ['convert', '--to', 'perfetto', '-o', file, folder], { encoding: 'utf8' });
    assert.equal(r.status, 0, r.stderr);
    const { requests } = JSON.parse(execFileSync(SONDE, ['spans', '--json', '--slowest', '1000000', folder], { maxBuffer: 1 << 30 })), found = slices(file);
    const place = (q) => `process ${q.process} ${q.service}/${q.method} ${q.route}`, ended = requests.filter((q) => q.state === 'finished');
    assert.ok(ended.length > 400 && ended.length < requests.length + 1, `${ended.length} requests`);
    for (const q of ended) {
        const row = found[place(q)] ?? assert.fail(`no row ${place(q)}`);
        assert.ok(row.some((s) => s.startsWith(`${q.start_ns}-${q.start_ns + q.latency_ns} ${q.method} ${q.path} `)), `${q.id} in ${place(q)}`);
        for (const s of q.spans.filter(({ known, duration_ns, layer }) => /proved|inferred/.test(known) && duration_ns > 0 && layer === 'js').slice(0, 5))
            assert.ok(row.some((one) => one.startsWith(`${s.start_ns}-${s.start_ns + s.duration_ns} `)), `${s.name} of ${q.id}`);
    }
    const calls = ended.flatMap((q) => q.spans.filter((s) => s.request).map((s) => ({ from: `${place(q)} ${s.start_ns}`, to: s.request })));
    assert.ok(calls.length > 100, `${calls.length} calls`);
    for (const { from, to } of calls) assert.ok(found[place(to)].some((s) => s.startsWith(`${to.start_ns}`) && s.endsWith(` <- ${from}`)), `an arrow from ${from} to ${to.id}`);
});
