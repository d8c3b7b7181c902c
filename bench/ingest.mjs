// Ingest of OTLP over HTTP, end to end: batches of 512 spans over a few connections into `sonde serve`, acknowledged
// from the journal on disk, diagnosed, and stored in DuckDB.
//   node bench/ingest.mjs build/sonde build/bench/spans [SPANS] [CONNECTIONS] [gzip]
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';

const [, , sonde, sender, spans = '2000000', connections = '8', encoding = ''] = process.argv;
for (const store of [true, false]) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
    const server = spawn(sonde, ['serve', '--listen', '127.0.0.1:0', '--data', folder, ...(store ? [] : ['--no-store'])], { stdio: ['ignore', 'ignore', 'pipe'] });
    const port = await new Promise((resolve) => server.stderr.setEncoding('utf8').on('data', (text) => {
        const match = /port (\d+)/.exec(text);
        if (match) resolve(match[1]);
        else process.stderr.write(text);
    }));
    const metric = async (name) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text())[1]);
    try {
        const started = performance.now();
        const sent = JSON.parse(execFileSync(sender, ['send', port, spans, connections, encoding]));
        const done = () => (store ? metric('sonde_stored_spans').then((n) => n >= sent.spans) : metric('sonde_requests_total').then((n) => n >= sent.spans / 8));
        while (!(await done())) await new Promise((resolve) => setTimeout(resolve, 50));
        const seconds = (performance.now() - started) / 1000;
        const size = (name) => (fs.existsSync(path.join(folder, name)) ? fs.statSync(path.join(folder, name)).size : 0);
        const files = fs.readdirSync(folder), journal = files.filter((f) => f.startsWith('journal')).reduce((sum, f) => sum + size(f), 0);
        const [utime, stime] = fs.readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1].split(' ').slice(11, 13).map(Number);
        const rss = Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync(`/proc/${server.pid}/status`, 'utf8'))[1]) / 1024;
        const redecoded = await Promise.all(['diagnosis', 'store'].map((by) => metric(`sonde_redecoded_batches_total\\{by="${by}"\\}`).catch(() => NaN)));
        console.log(`${store ? 'journal, diagnosis and store' : 'journal and diagnosis'}: ${sent.spans} spans of ${(sent.bytes / sent.spans).toFixed(0)} bytes, acknowledged at ${(sent.spans / sent.seconds / 1e3).toFixed(0)} thousand/s, `
            + `${store ? `stored at ${(sent.spans / seconds / 1e3).toFixed(0)} thousand/s, ` : ''}journal ${(journal / sent.spans).toFixed(0)} bytes a span, peak memory ${rss.toFixed(0)} MB, ${(sent.spans / ((utime + stime) / 100) / 1e3).toFixed(0)} thousand spans per second of the server's CPU time; of ${Math.ceil(sent.spans / 512)} batches ${redecoded[0]} decoded again for the diagnosis, ${redecoded[1]} for the store`);
        server.kill('SIGTERM');
        await new Promise((resolve) => server.on('exit', resolve));
        if (store) console.log(`  store ${((size('spans.duckdb') + size('spans.duckdb.wal')) / sent.spans).toFixed(1)} bytes a span`);
    } finally {
        server.kill('SIGKILL');
        fs.rmSync(folder, { recursive: true, force: true });
    }
}
