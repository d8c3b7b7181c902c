// An HTTP service and its only client, which asks as fast as it is answered and checks each answer, until a file appears
// or, given a number, so many answers.   busy.js FILE | NUMBER
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('fs');
const http = require('http');
const [until] = process.argv.slice(2), limit = /^\d+$/.test(until) ? Number(until) : Infinity;

const server = http.createServer((req, res) => fs.stat(__filename, () => setImmediate(() => res.end(`you asked for ${req.url}`))));
const agent = new http.Agent({ keepAlive: true });
server.listen(0, '127.0.0.1', () => {
    let answered = 0;
    const next = () => http.get({ host: '127.0.0.1', port: server.address().port, path: `/${answered}`, agent }, (res) => {
        let said = '';
        res.setEncoding('utf8').on('data', (part) => (said += part)).on('end', () => {
            if (said !== `you asked for /${answered}`) throw new Error(said);
            answered++;
            if (limit === Infinity && answered % 50 === 0) fs.writeFileSync(`${until}.count`, String(answered));
            const over = limit === Infinity ? answered % 50 === 0 && fs.existsSync(until) : answered >= limit;
            if (!over) return void next();
            console.log(`${answered} answers were right`);
            agent.destroy();
            server.close();
        });
    });
    next();
});
