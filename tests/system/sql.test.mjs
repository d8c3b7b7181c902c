// --sql: the statements that clients of PostgreSQL and MariaDB send are told by their texts without values, whether they are
// sent as a text, with parameters or prepared; and no value is in any file of the recording.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { finish, kill, outline, reportOf, root, SONDE, temporary } from './helper.mjs';
import { missingStore, startStore } from '../applications/stores.mjs';

const PROGRAM = path.join(root, 'tests', 'system', 'programs', 'sql.js');
const VALUES = ['confidential', '987654321'];
const modules = ['system', 'applications'].every((folder) => fs.existsSync(path.join(root, 'tests', folder, 'node_modules')));

function files(folder) {
    return fs.readdirSync(folder, { recursive: true, withFileTypes: true }).filter((e) => e.isFile()).map((e) => path.join(e.parentPath ?? e.path, e.name));
}

async function record(t, folder, name, store, port, routes, options) {
    const out = path.join(folder, name);
    const { status, stderr } = await finish(t, SONDE, ['run', '--quiet', ...options, '-o', out, '--', process.execPath, PROGRAM, store, String(port), routes]);
    assert.equal(status, 0, stderr);
    for (const file of files(out)) {
        const bytes = fs.readFileSync(file);
        for (const value of VALUES) assert.ok(!bytes.includes(value), `${file} has ${value}`);
    }
    return { out, report: await reportOf(t, out, [0, 4]) };
}

const EXPECTED = {
    postgres: {
        '/query': 'SELECT ? AS text, ? AS number',
        '/parameter': 'SELECT ?::text AS text',
        '/prepared': 'SELECT ?::text AS prepared',
        '/slow': 'SELECT pg_sleep(?), ? AS slow',
        '/many': 'SELECT pg_sleep(?), ? AS many',
    },
    mariadb: {
        '/query': 'SELECT ? AS text, ? AS number',
        '/parameter': 'SELECT ? AS text',
        '/prepared': 'SELECT ? AS prepared',
        '/slow': 'SELECT SLEEP(?), ? AS slow',
        '/many': 'SELECT SLEEP(?), ? AS many',
    },
};

for (const [store, expected] of Object.entries(EXPECTED)) {
    const missing = missingStore(store) || (!modules && 'pg and mysql2 are not installed (make deps)');
    test(`${store}: statements without values`, { skip: missing || false }, async (t) => {
        const folder = temporary(t), data = path.join(folder, 'store');
        fs.mkdirSync(data);
        const { port, pid } = await startStore(t, store, data);
        const { out, report } = await record(t, folder, 'with', store, port, Object.keys(expected).join(), ['--sql']);

        const statements = report.operations.filter((o) => o.kind === 'statement');
        for (const [route, text] of Object.entries(expected)) {
            const one = statements.find((s) => s.name === text);
            assert.ok(one, `${route}: ${JSON.stringify(statements.map((s) => s.name))}`);
            const times = route === '/many' ? 120 : 4, prepares = store === 'mariadb' && route === '/prepared' ? 1 : 0;
            assert.equal(one.count, times + prepares, `${route}: ${JSON.stringify(one)}`);
            assert.ok(one.total_ns > 0 && one.attl_p99_ns > 0, JSON.stringify(one));
            const spans = report.requests.filter((r) => r.route === route).flatMap((r) => r.spans).filter((s) => s.kind === 'command');
            assert.ok(spans.length && spans.every((s) => s.statement === text), `${route}: ${JSON.stringify(spans)}`);
        }
        const slow = report.findings.find((f) => f.kind === 'slow-peer' && f.evidence.statement);
        assert.equal(slow?.evidence.statement, expected['/slow'], outline(report));
        assert.ok(slow.detail.includes(expected['/slow']), slow.detail);
        const many = report.findings.find((f) => f.kind === 'many-calls');
        assert.equal(many?.evidence.statement, expected['/many'], outline(report));

        // The texts are in the recording as they are: values would have been found.
        assert.ok(files(out).some((file) => fs.readFileSync(file).includes(expected['/query'])), 'texts of statements are in files');
        const text = await finish(t, SONDE, ['report', out]);
        assert.match(text.stdout, /\nStatements\n/, text.stdout);
        assert.ok(text.stdout.includes(expected['/query']), text.stdout);

        // Only when asked for.
        const without = await record(t, folder, 'without', store, port, '/query,/slow', []);
        assert.deepEqual(without.report.operations.filter((o) => o.kind === 'statement'), []);
        for (const file of files(without.out)) assert.ok(!fs.readFileSync(file).includes('AS text'), `${file}: no text`);
        kill(pid, 'SIGKILL');
    });
}
