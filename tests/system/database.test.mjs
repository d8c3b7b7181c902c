// A data store of a protocol that sonde does not know (MariaDB, by the package mysql2 on stock Node): each question is a
// span with its wait, a slow one names the server by its address, and nothing of the questions is recorded.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { finish, freePort, kill, outline, recorded, reportOf, root, start, temporary } from './helper.mjs';

const SERVER = '/usr/sbin/mariadbd', PROGRAM = path.join(root, 'tests', 'system', 'programs', 'database.js');
const missing = [
    !fs.existsSync(SERVER) && 'MariaDB is not installed (make deps)',
    !fs.existsSync(path.join(root, 'tests', 'system', 'node_modules', 'mysql2')) && 'mysql2 is not installed in tests/system (make deps)',
].find(Boolean);

// A server of the test's own, on loopback, with one account.
async function database(t, folder) {
    const data = path.join(folder, 'data'), init = path.join(folder, 'init.sql'), port = await freePort();
    const made = await finish(t, 'mariadb-install-db', ['--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal', `--user=${process.env.USER || 'root'}`]);
    assert.equal(made.status, 0, made.describe());
    fs.writeFileSync(init, "CREATE USER shop@'127.0.0.1' IDENTIFIED VIA mysql_native_password USING PASSWORD('secret');\n");
    const server = start(t, SERVER, ['--no-defaults', `--datadir=${data}`, `--port=${port}`, '--bind-address=127.0.0.1', `--socket=${folder}/s`, `--pid-file=${folder}/pid`, `--init-file=${init}`, `--user=${process.env.USER || 'root'}`, '--skip-name-resolve', '--innodb-buffer-pool-size=8M']);
    await server.until(/ready for connections/);
    return { port, stop: () => kill(server.pid, 'SIGKILL') };
}

async function trace(t, folder, port, routes) {
    const out = path.join(folder, routes.replace(/\W/g, ''));
    await recorded(t, out, '--quiet', '--', process.execPath, PROGRAM, port, routes);
    return { out, report: await reportOf(t, out, [0, 4]) };
}

test('a slow query names the server by its address; quick ones are spans, and not blamed', { skip: missing }, async (t) => {
    const folder = temporary(t), { port, stop } = await database(t, folder), peer = `127.0.0.1:${port}`;
    const slow = (await trace(t, folder, port, '/slow,/quick')).report;
    const finding = slow.findings.find((f) => f.kind === 'slow-peer');
    assert.ok(finding, outline(slow));
    assert.equal(finding.evidence.peer, peer);
    assert.equal(finding.evidence.traced, 'no');
    assert.deepEqual([...new Set(finding.affected.map((a) => a.route))], ['/slow']);
    assert.deepEqual(slow.findings.filter((f) => f.severity !== 'info' && f !== finding), [], outline(slow));
    for (const request of slow.requests.filter((r) => r.route === '/slow')) {
        const exchange = request.spans.find((s) => s.peer === peer);
        assert.ok(exchange.end_ns - exchange.start_ns >= 0.29e9, JSON.stringify(exchange));
        assert.equal(request.critical_path.dominant, 'waits for an answer', JSON.stringify(request.critical_path));
    }

    // What follows an answer in its own turn is a question of its own; a server that speaks first greets who connected.
    const more = (await trace(t, folder, port, '/twice,/own')).report;
    const late = more.findings.filter((f) => f.severity !== 'info');
    assert.deepEqual(late.map((f) => f.kind), ['slow-peer'], outline(more));
    assert.equal(late[0].evidence.peer, peer);
    assert.equal(late[0].evidence.calls_count, 4 * (2 + 1));
    assert.ok(late[0].evidence.waited_ns >= 4 * 0.49e9, JSON.stringify(late[0].evidence));

    const { out, report } = await trace(t, folder, port, '/quick,/prepared');
    assert.deepEqual(report.findings.filter((f) => f.severity !== 'info'), [], outline(report));
    for (const route of ['/quick', '/prepared'])
        assert.ok(report.requests.filter((r) => r.route === route).every((r) => r.spans.some((s) => s.peer === peer && s.end_ns)), route);
    for (const name of fs.readdirSync(path.join(out, 'ctf')))
        assert.ok(!fs.readFileSync(path.join(out, 'ctf', name)).includes('confidential'), `${name}: no query is recorded`);
    stop();
});
