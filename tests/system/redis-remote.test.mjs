// `sonde redis --remote`: what a server says of itself, what an ACL or a Sentinel does not give, TLS, and answers of somebody
// who is no Redis server.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { finish, freePort, SONDE, start, temporary } from './helper.mjs';
import { answers, cli, lines, tlsOptions } from './redis.mjs';

async function server(t, ...options) {
    const folder = temporary(t), port = await freePort();
    start(t, 'redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...options]);
    await answers(port);
    return { folder, port, address: `127.0.0.1:${port}` };
}
const ask = (t, args, env) => finish(t, SONDE, ['redis', '--remote', '--duration', '0.2', ...args], { env });
async function documentOf(t, args, env) {
    const { status, stdout, stderr } = await ask(t, ['--json', ...args], env);
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout);
}
const statsOf = (port) => Object.fromEntries([...cli(port, ['info', 'commandstats']).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name, calls]) => [name, Number(calls)]));
const OUTSIDE = /^who called, who waited/;
const missingOf = (document) => document.missing.map(({ what }) => what).filter((what) => !OUTSIDE.test(what));

test('a server says what it did and which commands were slow, and is asked nothing else', async (t) => {
    const { port, address } = await server(t);
    cli(port, ['eval', "local t = redis.call('TIME'); local e = t[1] * 1000000 + t[2] + 30000; repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > e", '0', 'secret']);
    cli(port, [], lines(50, (n) => `set key${n} value`));
    statsOf(port); // an INFO is not counted before it is answered
    const before = statsOf(port), document = await documentOf(t, [address]), after = statsOf(port);
    const asked = Object.keys(after).filter((name) => name !== 'info' && after[name] !== before[name]);
    assert.deepEqual(asked.sort(), ['latency|latest', 'slowlog|get']);
    assert.equal(after.info - before.info, 3, 'two of sonde, one of this test');
    // On a busy machine another command may be slow too.
    const [of] = document.servers, entry = of.slow_log.find((slow) => slow.command === 'EVAL');
    const finding = document.findings.find((f) => f.kind === 'redis-slow-command' && f.evidence.command === 'EVAL');
    assert.deepEqual([of.name, of.mode], [address, 'standalone']);
    assert.ok(finding.evidence.worst_ns >= 30e6 && finding.evidence.worst_ns === entry.took_ns, JSON.stringify(document));
    assert.ok(!JSON.stringify(document).includes('secret'), 'arguments are not shown');
    assert.equal(of.info.used_memory > 0, true);
    assert.deepEqual(of.commands.map((c) => c.name).sort(), ['info', 'latency|latest', 'slowlog|get'], 'only what was done between the two readings');
    assert.deepEqual(missingOf(document), []);
    const { stdout } = await ask(t, [address]);
    assert.match(stdout, /EVAL ran for [\d.]+ m?s/);
    assert.match(stdout, /version 7|version 8/);
    assert.match(stdout, /Not seen\n +who called, who waited/);
});

test('a cluster\'s nodes', async (t) => {
    const { port, address } = await server(t, '--cluster-enabled', 'yes', '--cluster-port', await freePort());
    cli(port, ['cluster', 'addslotsrange', '0', '99']);
    const { servers: [{ nodes, mode }] } = await documentOf(t, [address]);
    assert.equal(mode, 'cluster');
    assert.deepEqual(nodes.map((n) => [n.flags, n.slots_count]), [['myself,master', 100]]);
});

test('what an ACL does not give is said, with what would allow it', async (t) => {
    const { folder, port, address } = await server(t), file = path.join(folder, 'password');
    fs.writeFileSync(file, 'of sonde\n', { mode: 0o600 });
    cli(port, ['acl', 'setuser', 'watcher', 'on', '>of sonde', '+info']);
    cli(port, ['acl', 'setuser', 'nobody', 'on', '>of sonde']);
    cli(port, ['acl', 'setuser', 'default', 'resetpass', 'off', '>other']);
    const document = await documentOf(t, ['--user', 'watcher', '--password-file', file, address]);
    assert.deepEqual(missingOf(document), ['the slow log (SLOWLOG)', 'latency events (LATENCY)']);
    assert.match(document.missing[0].remedy, /\+slowlog\|get/);
    assert.ok(document.servers[0].info.redis_version);
    assert.ok((await documentOf(t, ['--user', 'watcher', address], { REDISCLI_AUTH: 'of sonde' })).servers[0].info.redis_version);
    const refused = [[['--user', 'watcher', address], { REDISCLI_AUTH: 'wrong' }, /WRONGPASS/],
        [['--user', 'nobody', '--password-file', file, address], {}, /NOPERM[^]*ACL SETUSER NAME \+info/],
        [[address], {}, /NOAUTH[^]*--password-file/]];
    for (const [args, env, words] of refused) {
        const { status, stderr } = await ask(t, args, env);
        assert.equal(status, 3, stderr);
        assert.match(stderr, words);
    }
});

test('TLS, and a certificate that nobody vouches for', async (t) => {
    const folder = temporary(t), port = await freePort(), tlsPort = await freePort();
    start(t, 'redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...tlsOptions(folder, tlsPort)]);
    await answers(port);
    const chain = path.join(folder, 'certificate.pem'), { servers: [{ mode }] } = await documentOf(t, ['--tls', '--cacert', chain, `localhost:${tlsPort}`]);
    assert.equal(mode, 'standalone');
    for (const args of [['--tls', `localhost:${tlsPort}`], ['--tls', '--cacert', chain, `127.0.0.1:${tlsPort}`]]) {
        const { status, stderr } = await ask(t, args);
        assert.equal(status, 1, stderr);
        assert.match(stderr, /^sonde: (localhost|127)/);
    }
});

test('a Sentinel says whom it watches, and that it stores nothing', async (t) => {
    const { port: watched } = await server(t), folder = temporary(t), port = await freePort(), file = path.join(folder, 'sentinel.conf');
    fs.writeFileSync(file, `port ${port}\nbind 127.0.0.1\ndir ${folder}\nsentinel monitor mymaster 127.0.0.1 ${watched} 1\n`);
    start(t, 'redis-server', [file, '--sentinel']);
    await answers(port);
    const document = await documentOf(t, [`127.0.0.1:${port}`]);
    assert.deepEqual([document.servers[0].mode, document.findings.length], ['sentinel', 0]);
    assert.deepEqual(missingOf(document), ['commands, slow log and latency events']);
    const { stdout } = await ask(t, [`127.0.0.1:${port}`]);
    assert.match(stdout, new RegExp(`It watches name=mymaster,.*address=127\\.0\\.0\\.1:${watched}`));
});

test('somebody who is no Redis server is refused with a reason', async (t) => {
    const port = await freePort(), bad = [
        ['HTTP/1.1 400 Bad Request\r\n\r\n', /does not speak Redis/],
        ['*2147483647\r\n', /does not speak Redis/],
        [`$${5 << 20}\r\n${'x'.repeat(5 << 20)}\r\n`, /too long/],
        ['', /has closed the connection/],
    ];
    for (const [answer, words] of bad) {
        const listener = net.createServer((socket) => socket.on('error', () => {}).once('data', () => socket.end(answer)));
        await new Promise((resolve) => listener.listen(port, '127.0.0.1', resolve));
        const { status, stderr } = await ask(t, [`127.0.0.1:${port}`]);
        await new Promise((resolve) => listener.close(resolve));
        assert.equal(status, 1, stderr);
        assert.match(stderr, words);
    }
    const { status, stderr } = await ask(t, [`127.0.0.1:${port}`]);
    assert.equal(status, 1, stderr);
    assert.match(stderr, /127\.0\.0\.1 port \d+/);
    for (const address of ['a b:1', 'host:99999', 'host:x', '[::1', '[::1]x', 'user@host', 'host/path']) {
        const { status: wrong, stderr: said } = await ask(t, [address]);
        assert.equal(wrong, 1, said);
        assert.match(said, /is no/);
    }
});
