// The command line: mistakes are answered with what to do.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, finish, root, temporary } from './helper.mjs';

test('an unknown command is named, and help is pointed to', async (t) => {
    const { status, stdout, stderr } = await finish(t, SONDE, ['fnord']);
    assert.equal(status, 2);
    assert.equal(stdout, '');
    assert.match(stderr, /'fnord' is not a command/);
    assert.match(stderr, /sonde help/);
});

test('no command shows the commands and is a usage error', async (t) => {
    const { status, stderr } = await finish(t, SONDE, []);
    assert.equal(status, 2);
    assert.match(stderr, /usage: sonde COMMAND/);
});

test('every command has help with an example, and manuals are of commands that exist', async (t) => {
    const { status, stdout } = await finish(t, SONDE, ['help']);
    assert.equal(status, 0);
    const names = [...stdout.matchAll(/^ {2}([a-z]+) /gm)].map((match) => match[1]);
    assert.ok(names.includes('run') && names.includes('report'), stdout);
    for (const name of names) {
        const help = await finish(t, SONDE, [name, '--help']);
        assert.equal(help.status, 0, name);
        assert.match(help.stdout, new RegExp(`^usage: sonde ${name}`), name);
        if (name === 'help' || name === 'version') continue;
        assert.match(help.stdout, /Example/, `${name} shows no example`);
    }
    const pages = fs.readdirSync(path.join(root, 'doc')).map((file) => /^sonde-(\w+)\.1$/.exec(file)?.[1]).filter(Boolean);
    for (const page of pages) assert.ok(names.includes(page), `doc/sonde-${page}.1 is about no command`);
    for (const name of ['run', 'record', 'report', 'spans']) assert.ok(pages.includes(name), `doc/sonde-${name}.1 is missing`);
});

for (const command of ['run', 'record', 'report', 'spans']) {
    test(`sonde ${command} without what it needs is a usage error`, async (t) => {
        const { status, stdout, stderr } = await finish(t, SONDE, [command]);
        assert.equal(status, 2, stderr);
        assert.equal(stdout, '');
        assert.match(stderr, new RegExp(`usage: sonde ${command}`));
    });
    test(`sonde ${command} names an unknown option`, async (t) => {
        const { status, stderr } = await finish(t, SONDE, [command, '--fnord', '--', 'true']);
        assert.equal(status, 2, stderr);
        assert.match(stderr, /--fnord/);
    });
}

test('a program that does not exist', async (t) => {
    const folder = path.join(temporary(t), 'trace');
    const { status, stderr } = await finish(t, SONDE, ['run', '-o', folder, '--', '/no/such/program']);
    assert.notEqual(status, 0);
    assert.match(stderr, /\/no\/such\/program/);
});

test('a report on what is no trace says what it wants', async (t) => {
    const folder = temporary(t);
    for (const place of [folder, path.join(folder, 'absent')]) {
        const { status, stdout, stderr } = await finish(t, SONDE, ['report', place]);
        assert.equal(status, 1, stderr);
        assert.equal(stdout, '');
        assert.ok(stderr.includes(place), stderr);
        assert.match(stderr, /sonde run|recording/, 'the remedy says what is wanted');
    }
});
