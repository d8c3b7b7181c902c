// The trace folder: babeltrace2 reads it without a warning, its counts are the probes' own, and a damaged one
// is reported as far as it can be read.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SHOP, SONDE, finish, manifestOf, reportOf, root, temporary } from './helper.mjs';

// The build with sanitizers reads damaged traces, where there is one.
const CAREFUL = [path.join(root, 'build-asan', 'sonde'), SONDE].find(fs.existsSync);
const FROM_COLLECTOR = /^(process:|thread:|machine:|stall:|span:open|trace:)/, FROM_KERNEL = /^(sys|sched|tcp|block):/;

let recorded;
async function trace(t) {
    if (!recorded) {
        recorded = fs.mkdtempSync(path.join(process.env.TMPDIR || '/tmp', 'sonde-test-trace-'));
        const { status, stderr } = await finish(t, SONDE, ['record', '-o', path.join(recorded, 'trace'), '--', process.execPath, SHOP, '--duration', '4']);
        assert.equal(status, 0, stderr);
    }
    return path.join(recorded, 'trace');
}
test.after(() => recorded && fs.rmSync(recorded, { recursive: true }));

test('babeltrace2 reads it without a warning, and as many events as the probes wrote', async (t) => {
    const folder = await trace(t), manifest = manifestOf(folder);
    const { status, stdout, stderr } = await finish(t, 'babeltrace2', ['--names=none', '--no-delta', folder]);
    assert.equal(status, 0, stderr);
    assert.equal(stderr, '');
    const names = stdout.trimEnd().split('\n').map((line) => /^\[[^\]]*\] (?:\S+ )?([a-z0-9]+:[a-z_0-9]+): /.exec(line)?.[1] ?? line);
    assert.equal(names.length, manifest.events);
    const fromProbes = names.filter((name) => !FROM_COLLECTOR.test(name) && !FROM_KERNEL.test(name)).length;
    const written = manifest.processes.reduce((sum, process) => sum + process.events_written, 0);
    const lostOnTheWay = manifest.losses.filter((loss) => ['disk-write-failed', 'unreadable-record'].includes(loss.reason)).reduce((sum, loss) => sum + loss.count, 0);
    assert.equal(fromProbes, written - lostOnTheWay);
    const ofFamilies = Object.values(manifest.kernel?.families ?? {}).reduce((sum, family) => sum + family.events, 0);
    assert.equal(names.filter((name) => FROM_KERNEL.test(name)).length, ofFamilies);
    assert.equal(manifest.complete, true);
});

test('the manifest says what runs, what was hooked, and what was not', async (t) => {
    const { processes } = manifestOf(await trace(t));
    for (const [name, runtime] of [['gateway', 'node'], ['orders', 'node'], ['catalogue', 'node'], ['redis:', 'redis']]) {
        const process = processes.find((p) => p.name.includes(name));
        assert.ok(process, `${name} is missing among ${processes.map((p) => p.name)}`);
        assert.equal(process.runtime, runtime);
        assert.ok(process.hooks.length > 5, `${name}: ${process.hooks}`);
        assert.ok(process.events_written > 0, name);
        assert.match(process.build_id, /^[0-9a-f]{16,}$/);
        for (const missing of process.missing) assert.ok(missing.what && missing.why, JSON.stringify(missing));
    }
});

// A copy of the trace to damage; streams are its files but metadata and manifest.
async function copyOf(t) {
    const folder = path.join(temporary(t), 'trace');
    fs.cpSync(await trace(t), folder, { recursive: true });
    const streams = fs.readdirSync(folder, { recursive: true }).map((name) => path.join(folder, String(name)))
        .filter((file) => fs.statSync(file).isFile() && !['metadata', 'manifest.json'].includes(path.basename(file)));
    assert.ok(streams.length > 0);
    return { folder, streams };
}

// Whatever the damage: a report or a message, never a crash.
async function assertCalm(t, folder, what) {
    for (const args of [['report', '--json', folder], ['spans', folder]]) {
        const { status, signal, stdout, stderr } = await finish(t, CAREFUL, args);
        assert.equal(signal, null, `${what}: ${args[0]} died of ${signal}\n${stderr}`);
        assert.ok([0, 1, 4].includes(status), `${what}: ${args[0]} ended with ${status}\n${stderr}`);
        assert.doesNotMatch(stderr, /Sanitizer|runtime error/, `${what}: ${args[0]}`);
        if (status === 1) assert.match(stderr, /^(\x1b\[\d+m)?sonde: /m, `${what}: ${args[0]} says why`);
        if (status !== 1 && args[1] === '--json') JSON.parse(stdout);
    }
}

test('a stream cut off anywhere is read up to the cut, and the cut is reported', async (t) => {
    for (const share of [0, 0.001, 0.5, 0.999]) {
        const { folder, streams } = await copyOf(t);
        const longest = streams.sort((a, b) => fs.statSync(b).size - fs.statSync(a).size)[0];
        fs.truncateSync(longest, Math.floor(fs.statSync(longest).size * share));
        await assertCalm(t, folder, `cut at ${share}`);
        if (share === 0.5) {
            const report = await reportOf(t, folder, [0, 4]);
            assert.ok(report.losses.length || report.missing.length, `cut at ${share}: the report does not mention it`);
            assert.ok(report.requests.length > 0, 'what is left is reported');
        }
    }
});

test('damaged bytes are survived', async (t) => {
    let seed = 1;
    const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
    for (let round = 0; round < 5; round++) {
        const { folder, streams } = await copyOf(t);
        for (const file of streams) {
            const bytes = fs.readFileSync(file);
            for (let i = 0; i < 1 + bytes.length / 2000; i++) bytes[random(bytes.length)] = random(256);
            fs.writeFileSync(file, bytes);
        }
        await assertCalm(t, folder, `round ${round}`);
    }
});

for (const file of ['ctf/metadata', 'manifest.json']) {
    test(`a trace without ${file}, or with an empty or damaged one, is answered in words`, async (t) => {
        for (const damage of ['absent', 'empty', 'garbage', 'cut']) {
            const { folder } = await copyOf(t);
            const target = path.join(folder, file);
            const bytes = fs.readFileSync(target);
            if (damage === 'absent') fs.unlinkSync(target);
            else fs.writeFileSync(target, { empty: '', garbage: '\0\x01{"[', cut: bytes.subarray(0, bytes.length / 2) }[damage]);
            await assertCalm(t, folder, `${file} ${damage}`);
        }
    });
}
