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

// How often the work is done in a millisecond when nothing else runs.
function often(what) {
    let best = Infinity;
    for (let i = 0; i < 200; i++) {
        const since = performance.now();
        WORK[what]();
        best = Math.min(best, performance.now() - since);
    }
    return Math.max(1, Math.ceil(1 / best));
}
const times = often(process.argv[2]);

function pieces(what, left, done) {
    for (let i = 0; i < times; i++) WORK[what]();
    if (left <= 1) return done();
    setImmediate(pieces, what, left - 1, done);
}

const server = http.createServer((req, res) => {
    const { pathname, searchParams } = new URL(req.url, 'http://localhost');
    if (pathname !== '/pieces') return res.end('quick\n');
    pieces(searchParams.get('what'), Number(searchParams.get('count')), () => res.end('done\n'));
});

const ask = (path) => new Promise((resolve) => http.get({ host: '127.0.0.1', port: server.address().port, path }, (response) => response.resume().on('end', resolve)));
server.listen(0, '127.0.0.1', async () => {
    const what = process.argv[2];
    await ask('/quick');
    await ask(`/pieces?what=${what}&count=1`); // the first of an endpoint may be slow for other reasons
    for (let i = 0; i < 4; i++) await ask(`/pieces?what=${what}&count=500`);
    process.exit();
});
