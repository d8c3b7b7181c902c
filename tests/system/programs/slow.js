// A gateway whose requests wait for others: for a file that is a pipe written to late, for a Python server that
// sleeps and is not traced, for a traced service that waits for a timer, for a name server that never answers at
// once. /healthy waits for none of them, /ready for the same peers when they are quick.
//   node slow.js [service]
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const dgram = require('node:dgram');
const dns = require('node:dns');
const { execFileSync, spawn } = require('node:child_process');

const DELAY_MS = 200;
const PYTHON = `
import http.server, time
class Peer(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1
    def do_GET(self):
        if 'slow' in self.path: time.sleep(${DELAY_MS / 1000})
        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers(); self.wfile.write(b'ok')
    def log_message(self, *a): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Peer)
print(server.server_port, flush=True)
server.serve_forever()`;

function service() {
    const server = http.createServer((request, response) => (request.url === '/slow' ? setTimeout(() => response.end('ok'), DELAY_MS) : response.end('ok')));
    server.listen(0, '127.0.0.1', () => process.send(server.address().port));
    process.on('disconnect', () => process.exit());
}

// A name server that answers each question with 127.0.0.1 after the delay.
function nameServer(ready) {
    const socket = dgram.createSocket('udp4', (question, { port, address }) => {
        const answer = Buffer.concat([question, Buffer.from('c00c000100010000003c00047f000001', 'hex')]);
        answer[2] = 0x81;
        answer[3] = 0x80;
        answer[7] = 1;
        answer[11] = 0; // no additional records
        setTimeout(() => socket.send(answer.subarray(0, question.length + 16), port, address), DELAY_MS);
    });
    socket.bind(0, '127.0.0.1', () => ready(socket));
}

const agent = new http.Agent({ keepAlive: true });
const get = (port, target, done) => http.get({ host: '127.0.0.1', port, path: target, agent }, (answer) => answer.resume().on('end', done)).on('error', done);

async function gateway() {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'slow-')), fifo = path.join(folder, 'data');
    execFileSync('mkfifo', [fifo]);
    const python = spawn('python3', ['-c', PYTHON], { stdio: ['ignore', 'pipe', 'inherit'] });
    const pythonPort = Number(await new Promise((resolve) => python.stdout.once('data', resolve)));
    const other = require('node:child_process').fork(__filename.replace('slow.js', 'stock.js'));
    const stockPort = await new Promise((resolve) => other.once('message', resolve));
    const names = await new Promise(nameServer);
    const resolver = new dns.Resolver();
    resolver.setServers([`127.0.0.1:${names.address().port}`]);
    const routes = {
        '/file': (done) => {
            const writer = spawn('sh', ['-c', `sleep ${DELAY_MS / 1000}; echo written > "$0"`, fifo]);
            fs.readFile(fifo, done);
            return writer;
        },
        '/python': (done) => get(pythonPort, '/slow', done),
        '/stock': (done) => get(stockPort, '/slow', done),
        '/names': (done) => resolver.resolve4('shop.example', done),
        '/ready': (done) => get(pythonPort, '/quick', () => get(stockPort, '/quick', done)),
        '/healthy': (done) => fs.readFile(__filename, done),
    };
    const server = http.createServer((request, response) => routes[request.url](() => response.end('ok')));
    server.listen(0, '127.0.0.1', async () => {
        const wanted = (process.argv[2] || Object.keys(routes).join()).split(',');
        for (let round = 0; round < 4; round++)
            for (const route of wanted) {
                await new Promise((resolve) => get(server.address().port, route, resolve));
                await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
            }
        fs.rmSync(folder, { recursive: true });
        python.kill();
        other.disconnect();
        process.exit();
    });
}

module.exports = { service };
if (require.main === module) gateway();
