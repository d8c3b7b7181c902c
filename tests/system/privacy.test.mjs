// What must never be recorded: keys, values, arguments, query strings, headers, bodies, passwords, environment,
// the texts that regular expressions are matched against. Secrets are planted in all of them, everything is
// recorded, and no byte of a trace and no output may hold one, in any of the spellings they could take.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import zlib from 'node:zlib';
import { SONDE, finish, freePort, manifestOf, start, temporary } from './helper.mjs';

const PLACES = ['key', 'value', 'argument', 'auth', 'script', 'channel', 'query', 'header', 'cookie', 'body', 'answer', 'environment', 'subject', 'json', 'chunk', 'client-query', 'client-header', 'client-body', 'user-info'];
const secret = Object.fromEntries(PLACES.map((place) => [place, `s3cr3t-${place}-${Math.random().toString(36).slice(2, 10)}`]));

const SERVICE = `
    const http = require('http'), net = require('net');
    const secret = JSON.parse(process.env.SECRETS);
    function redis(...command) {
        return new Promise((resolve) => {
            const socket = net.connect(Number(process.env.REDIS_PORT), '127.0.0.1', () =>
                socket.write([['AUTH', secret.auth], command].map((words) => '*' + words.length + '\\r\\n' + words.map((w) => '$' + w.length + '\\r\\n' + w + '\\r\\n').join('')).join('')));
            socket.once('data', () => setTimeout(() => { socket.destroy(); resolve(); }, 20));
        });
    }
    function slow() { for (const end = Date.now() + 60; Date.now() < end;) /^(\\w+\\s?)*$/.test(secret.subject + ' word word!'); JSON.parse(JSON.stringify({ [secret.json]: secret.json })); }
    const server = http.createServer(async (request, response) => {
        let body = '';
        for await (const part of request) body += part;
        await redis('SET', secret.key, secret.value);
        await redis('EVAL', 'return "' + secret.script + '"', '0');
        await redis('PUBLISH', secret.channel, secret.value);
        await redis('GETRANGE', secret.key, '0', secret.argument);
        slow();
        response.setHeader('Set-Cookie', secret.cookie);
        response.write(secret.chunk);
        response.end(secret.answer);
    });
    // As soon as Redis is there, which is started beside it.
    (function begin() { net.connect(Number(process.env.REDIS_PORT), '127.0.0.1', function () { this.destroy(); server.listen(0, '127.0.0.1', ask); }).on('error', () => setTimeout(begin, 50)); })();
    async function ask() {
        for (let i = 0; i < 5; i++)
            await new Promise((resolve) => {
                const request = http.request({ host: '127.0.0.1', port: server.address().port, method: 'POST', path: '/path/' + i + '?' + secret.query + '=' + secret['client-query'] + '#x', auth: 'user:' + secret['user-info'],
                    headers: { 'X-Secret': secret.header, Cookie: secret.cookie, Authorization: secret['client-header'] } }, (response) => response.resume().on('end', resolve));
                request.write(secret.body);
                request.end(secret['client-body']);
            });
        console.log('done');
        setTimeout(() => process.exit(0), 100);
    }`;

function files(folder) {
    return fs.readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath || entry.path, entry.name));
}

// As it is, without its end or its beginning, in UTF-16, base64, percent and hexadecimal.
function spellings(text) {
    return [Buffer.from(text), Buffer.from(text.slice(0, 16)), Buffer.from(text.slice(-8)), Buffer.from(text, 'utf16le'),
        Buffer.from(Buffer.from(text).toString('base64').slice(0, 20)), Buffer.from(encodeURIComponent(text)), Buffer.from(Buffer.from(text).toString('hex').slice(0, 24))];
}

function search(bytes, where) {
    for (const [place, text] of Object.entries(secret))
        for (const spelling of spellings(text)) {
            const distinct = !spelling.equals(Buffer.from('s3cr3t-client-qu'.slice(0, spelling.length))); // the place's name alone is none
            assert.ok(!(distinct && bytes.includes(spelling)), `the secret ${place} (${spelling}) is in ${where}`);
        }
}

test('no secret is in a trace or in any output', async (t) => {
    const folder = temporary(t), script = path.join(folder, 'service.js'), trace = path.join(folder, 'trace'), port = await freePort();
    fs.writeFileSync(script, SERVICE);
    const config = path.join(folder, 'redis.conf');
    fs.writeFileSync(config, `port ${port}\nbind 127.0.0.1\nsave ""\nrequirepass ${secret.auth}\ndir ${folder}\n`);
    const run = start(t, SONDE, ['run', '-o', trace, '--', 'sh', '-c', `redis-server ${config} >/dev/null & ${process.execPath} ${script}; kill $!; wait`],
        { env: { SECRETS: JSON.stringify(secret), REDIS_PORT: String(port), THING: secret.environment } });
    const { stdout, stderr } = await run.ended;
    const { processes } = manifestOf(trace);
    assert.deepEqual(processes.map((p) => p.runtime).sort(), ['node', 'redis']);
    assert.ok(processes.every((p) => p.events_written > 50), 'both were recorded');

    // The secrets were really there: without that the test would prove nothing.
    const { stdout: commands } = await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'redis:command', trace]);
    assert.ok(commands.split('\n').length > 20, 'the commands that carried them are in the trace');
    const { stdout: requests } = await finish(t, SONDE, ['trace', 'events', '--json', '--name', 'http:request', trace]);
    assert.ok(requests.includes('/path/4"'), 'so are the requests, with their paths');

    assert.throws(() => search(Buffer.from(`...${secret.key}...`), 'a text that holds one'));
    for (const file of files(trace)) {
        const bytes = fs.readFileSync(file);
        search(bytes, file);
        if (bytes.subarray(0, 2).equals(Buffer.from([0x1f, 0x8b]))) search(zlib.gunzipSync(bytes), `${file}, unpacked`);
    }
    search(Buffer.from(stdout + stderr), 'what sonde run printed');
    for (const command of [['report'], ['report', '--json'], ['spans'], ['spans', '--json'], ['trace', 'info'], ['trace', 'events'], ['trace', 'events', '--json']]) {
        const out = await finish(t, SONDE, [...command, trace]);
        search(Buffer.from(out.stdout + out.stderr), `sonde ${command.join(' ')}`);
    }
    for (const format of ['perfetto', 'json']) {
        const out = path.join(folder, `converted.${format}`);
        const { status, stderr: said } = await finish(t, SONDE, ['convert', trace, '--to', format, '-o', out]);
        assert.ok(status === 0 || status === 4, `sonde convert --to ${format}: status ${status}: ${said}`);
        search(fs.readFileSync(out), `sonde convert --to ${format}`);
    }
});
