'use strict';
// A service whose /pieces is served in hundreds of short callbacks, none of them long: JavaScript, JSON, or a regular
// expression, by the query; /quick does nothing. It asks itself, and ends.
const http = require('http');

const WORK = {
    javascript: function grind() {
        let value = 1;
        for (let i = 0; i < 60000; i++) value = (value * 1103515245 + 12345) % 2147483648;
        return value;
    },
    json: function convert() {
        return JSON.parse(JSON.stringify(rows)).length;
    },
    regexp: function match() {
        return /^(\d+,?)*;$/.test(text);
    },
};
const rows = Array.from({ length: 400 }, (_, id) => ({ id, name: `row ${id}`, open: id % 2 === 0 }));
const text = `${'1'.repeat(12)}x`;

// By processor time, so that a busy machine makes no piece shorter.
function used(since) {
    const { user, system } = process.cpuUsage(since);
    return (user + system) / 1000;
}

function pieces(what, ms, since, done) {
    for (const begun = process.cpuUsage(); used(begun) < 1;) WORK[what]();
    if (used(since) >= ms) return done();
    setImmediate(pieces, what, ms, since, done);
}

const server = http.createServer((req, res) => {
    const { pathname, searchParams } = new URL(req.url, 'http://localhost');
    if (pathname !== '/pieces') return res.end('quick\n');
    pieces(searchParams.get('what'), Number(searchParams.get('ms')), process.cpuUsage(), () => res.end('done\n'));
});

const ask = (path) => new Promise((resolve) => http.get({ port: server.address().port, path }, (response) => response.resume().on('end', resolve)));
server.listen(0, '127.0.0.1', async () => {
    const what = process.argv[2];
    await ask('/quick');
    await ask(`/pieces?what=${what}&ms=0`); // the first of an endpoint may be slow for other reasons
    for (let i = 0; i < 4; i++) await ask(`/pieces?what=${what}&ms=500`);
    process.exit();
});
