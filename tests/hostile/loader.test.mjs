// A process whose loader has no room left for the probe.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, finish, kill, start, temporary } from '../system/helper.mjs';
import { codeOf, compile, isAlive } from './helper.mjs';

const COPIES = 60;

test('a process without room for thread-local storage at fixed offsets: refused with a remedy, and nothing stays in it', async (t) => {
    const folder = temporary(t), libraries = [];
    for (const bytes of [128, 8]) {
        const library = await compile(t, folder, 'tls_block', '-shared', '-fPIC', `-DBYTES=${bytes}`);
        for (let i = 0; i < COPIES; i++) {
            libraries.push(path.join(folder, `block-${bytes}-${i}.so`));
            fs.copyFileSync(library, libraries.at(-1));
        }
    }
    const program = start(t, await compile(t, folder, 'tls_full', '-ldl'), libraries);
    await program.until(/were loaded/, { stream: 'stdout' });
    const [, loaded] = /(\d+) of/.exec(program.stdout);
    assert.ok(loaded > 0 && loaded < libraries.length, `the room is used up: ${program.stdout}`);
    const maps = () => fs.readFileSync(`/proc/${program.pid}/maps`, 'utf8'), before = maps(), code = codeOf(program.pid);
    const { status, stderr } = await finish(t, SONDE, ['attach', '--no-kernel', '-o', path.join(folder, 'trace'), '--duration', '1', program.pid]);
    assert.equal(status, 1, stderr);
    assert.match(stderr, /its loader refused the probe: .*static TLS/);
    assert.match(stderr, /thread-local storage is used up.*GLIBC_TUNABLES=glibc\.rtld\.optional_static_tls/);
    assert.ok(isAlive(program.pid));
    assert.equal(codeOf(program.pid), code);
    const files = (text) => text.split('\n').map((line) => line.split(/ +/)[5]).filter(Boolean).sort().join('\n');
    assert.equal(files(maps()), files(before), 'no file, and no memory of ours, is mapped');
    kill(program.pid, 'SIGKILL');
});
