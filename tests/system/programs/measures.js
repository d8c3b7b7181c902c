// A service that measures what it does, and says what it measured. Asks itself, many requests at a time.
//   node measures.js COUNT
'use strict';
const fs = require('fs');
const http = require('http');
const { performance, PerformanceObserver } = require('perf_hooks');

const own = [];
new PerformanceObserver((list) => own.push(...list.getEntries())).observe({ entryTypes: ['measure'] });

const server = http.createServer(async (request, response) => {
    const n = Number(request.url.split('/')[2]), start = performance.now();
    while (performance.now() < start + (n % 4)) Math.sqrt(n);
    performance.measure(`computing ${n % 3} \u20ac`, { start, detail: 'PRIVATE' });
    await new Promise((resolve) => setTimeout(resolve, n % 7));
    await fs.promises.readdir(__dirname);
    performance.measure('waiting', { start, detail: { secret: 'PRIVATE' } });
    performance.measure('since the start');
    performance.measure('to come', { start, end: start + 1e6 });
    response.end();
}).listen(0, '127.0.0.1', async () => {
    const count = Number(process.argv[2]);
    const ask = (n) => new Promise((resolve) => http.get({ host: '127.0.0.1', port: server.address().port, path: `/m/${n}`, agent: false },
        (r) => r.resume().on('end', resolve)));
    await ask(0);
    await Promise.all(Array.from({ length: count }, (_, i) => ask(i + 1)));
    for (let i = 0; i < 1000; i++) performance.measure(`one of many ${i}`);
    await ask(count + 1);
    await new Promise((resolve) => setTimeout(resolve, 20)); // entries are delivered later
    console.log(JSON.stringify(own.filter(({ name }) => !name.startsWith('one of many')).map(({ name, duration }) => ({ name, duration }))));
    server.close();
});
