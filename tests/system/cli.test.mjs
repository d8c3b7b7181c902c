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

// The pages of commands, by the command's name: under doc/, and a target's own in its directory.
const targets = path.join(root, 'src', 'targets');
const PAGES = new Map([path.join(root, 'doc'), ...fs.readdirSync(targets).map((name) => path.join(targets, name)).filter((name) => fs.statSync(name).isDirectory())]
    .flatMap((folder) => fs.readdirSync(folder).filter((name) => /^sonde-\w+\.1$/.test(name)).map((name) => [/^sonde-(\w+)/.exec(name)[1], path.join(folder, name)])));

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
    for (const [page, file] of PAGES) assert.ok(names.includes(page), `${file} is about no command`);
    for (const name of ['run', 'record', 'report', 'spans', 'redis']) assert.ok(PAGES.has(name), `the page sonde-${name}.1 is missing`);
});

// The options that a manual page's source names: mdoc's "Fl -name" or "Fl n , -name", man's "\\-\\-name".
const inManual = (page) => new Set([...fs.readFileSync(PAGES.get(page), 'utf8').replaceAll('\\-', '-')
    .replace(/\bFl -(?=\w)/g, '--').replace(/ , -(?=[a-z]{2})/g, ' , --').matchAll(/--([a-z][a-z-]+)/g)].map((match) => match[1]));
const REFERS_TO = { attach: ['run'], record: ['run'], spans: ['report'], serve: ['diagnose'], watch: ['diagnose'] };

// Of "usage: sonde report [OPTION...] DIR" and of a page's SYNOPSIS, in mdoc or man: their words, without macros, dashes and case.
const words = (text) => [...new Set(text.replace(/^\.\w+|\\f[A-Z]|\b(?:Nm|Cm|Op|Ar|Fl|Ns)\b/gm, ' ').toLowerCase().match(/[a-z][a-z-]*/g))].sort();

test('usage lines and the synopses of the manual agree', async (t) => {
    for (const [name, file] of PAGES) {
        const [, usage] = /^usage: (.*)/.exec((await finish(t, SONDE, [name, '--help'])).stdout);
        const [, synopsis] = /\.S[Hh] SYNOPSIS\n([^]*?)\n\.S[Hh] /.exec(fs.readFileSync(file, 'utf8'));
        assert.deepEqual(words(synopsis), words(usage), `${file}: SYNOPSIS`);
    }
});

test('every option that help shows is in the manual, and every option that the manual lists is in help', async (t) => {
    for (const [name, file] of PAGES) {
        const help = (await finish(t, SONDE, [name, '--help'])).stdout;
        const shown = [...help.matchAll(/^ +(?:-\w, )?--([a-z][a-z-]+)/gm)].map((match) => match[1]);
        const documented = new Set([name, ...(REFERS_TO[name] || [])].flatMap((page) => [...inManual(page)]));
        assert.deepEqual(shown.filter((option) => !documented.has(option)), [], `not in ${file}`);
        const listed = fs.readFileSync(file, 'utf8').replaceAll('\\-', '-').split('\n').filter((line) => /^\.It Fl /.test(line))
            .flatMap((line) => [...line.matchAll(/(?:Fl|,) -([a-z][a-z-]+)/g)].map((match) => match[1]));
        assert.deepEqual(listed.filter((option) => option !== 'help' && !help.includes(`--${option}`)), [], `${file} lists what sonde ${name} --help does not`);
    }
});

test('completion knows the commands and their options', async (t) => {
    const script = path.join(temporary(t), 'completion');
    fs.writeFileSync(script, (await finish(t, SONDE, ['help', '--completion'])).stdout);
    const complete = async (...words) => (await finish(t, 'bash', ['-c', 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sonde; echo "${COMPREPLY[*]}"', script, 'sonde', ...words])).stdout.trim();
    assert.equal(await complete('rep'), 'report');
    assert.equal(await complete('spans', '--sl'), '--slowest --slow-command-ms');
    assert.equal(await complete('spans', `${path.dirname(script)}/compl`), script);
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
        assert.match(stderr, /unknown option --fnord/);
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
