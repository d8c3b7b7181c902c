// A server whose requests wait for operations of an addon (LevelDB), many in flight, and its callers. Node enters no callback
// scope for their ends: what goes on then runs in microtasks.
//   node addon.js COUNT
// Request GET /N asks N + 1 times, one after the other.
'use strict';
const fs = require('fs');
const http = require('http');
const os = require('os');
const path = require('path');
const { Level } = require(require.resolve('level', { paths: [path.join(__dirname, '../../applications')] }));

async function main(count) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-addon-'));
    process.on('exit', () => fs.rmSync(folder, { recursive: true }));
    const db = new Level(folder);
    await db.put('key', 'value');
    const server = http.createServer(async (request, response) => {
        for (let i = 0; i <= Number(request.url.slice(1)); i++) await db.get('key');
        response.end('ok');
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const ask = (where) => new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port: server.address().port, path: where, agent: false },
        (response) => response.resume().on('end', resolve)).on('error', reject));
    await Promise.all(Array.from({ length: count }, (_, n) => ask(`/${n}`)));
    server.close();
    await db.close();
}
main(Number(process.argv[2]));
