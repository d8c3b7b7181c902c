// What the tests of Redis share: asking a server, TLS, and the client that brings versions 7.0 to 7.4 into a conflict between
// two threads.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import tls from 'node:tls';
import { eventually } from './helper.mjs';

export const VERSION = /v=(\S+)/.exec(execFileSync('redis-server', ['--version']).toString())[1];
export const AFFECTED = /^7\.[0-4]\./.test(VERSION);

// redis-cli, with commands as arguments or a line each in input.
export const cli = (port, args, input) => execFileSync('redis-cli', ['-p', port, ...args], { encoding: 'utf8', input, timeout: 60_000, stdio: ['pipe', 'pipe', 'ignore'] });
export const answers = (port) => eventually('the server answers', () => { try { return cli(port, ['ping']).includes('PONG'); } catch { return false; } });
export const lines = (count, line) => Array.from({ length: count }, (_, n) => line(n)).join('\n') + '\n';

export const command = (...words) => Buffer.concat([Buffer.from(`*${words.length}\r\n`),
    ...words.flatMap((word) => [Buffer.from(`$${Buffer.byteLength(word)}\r\n`), Buffer.from(word), Buffer.from('\r\n')])]);

// Makes a key and a certificate for localhost in the folder: their files.
export function certificate(folder) {
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'key.pem', '-out', 'certificate.pem', '-days', '2', '-subj', '/CN=localhost'], { cwd: folder, stdio: 'ignore' });
    return { certificate: path.join(folder, 'certificate.pem'), key: path.join(folder, 'key.pem') };
}

// The options of a server that uses such a certificate.
export function tlsOptions(folder, port) {
    const files = certificate(folder);
    return ['--tls-port', port, '--tls-cert-file', files.certificate, '--tls-key-file', files.key, '--tls-ca-cert-file', files.certificate, '--tls-auth-clients', 'no'];
}

// Ends the value in one TLS record together with the beginning of the next, sends one more record, and closes its
// half: what is left in the TLS buffer and the readable socket both make the server read it.
export async function halfClose(t, port) {
    const value = 40000, one = command('SET', 'big', 'x'.repeat(value)), data = Buffer.concat([one, one]), cut = one.length - 3649;
    const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false, allowHalfOpen: true });
    socket.on('error', () => {});
    t.after(() => socket.destroy());
    // A half-open socket whose other end is gone does not close by itself.
    const gone = new Promise((_, reject) => { for (const event of ['end', 'close']) socket.once(event, () => reject(new Error(event))); });
    gone.catch(() => {});
    const until = (event) => Promise.race([gone, new Promise((resolve) => socket.once(event, resolve))]);
    await until('secureConnect');
    socket.setNoDelay(true);
    const send = (piece) => Promise.race([gone, new Promise((resolve) => socket.write(piece, resolve))]);
    socket.write('PING\r\n');
    await until('data');
    for (let at = 0; at < cut; at += 16000) await send(data.subarray(at, Math.min(at + 16000, cut)));
    await send(data.subarray(cut, cut + 13616));
    await send(data.subarray(cut + 13616, cut + 13616 + 14000));
    socket.end();
}
