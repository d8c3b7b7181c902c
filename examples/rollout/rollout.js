// A rollout in small: an API and six agents on three hardware generations, under load; version 41 everywhere, then 42
// on one of the two hosts of each generation.
//   node rollout.js [--endpoint URL] [--seconds N] [--requests N] [--harmless]
// The newer version is under load for so many seconds, or until so many requests; the older one before it for less.
// Spans go to URL (default http://127.0.0.1:4318): run `sonde watch agent --base 41 --gate` beside it.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { fork } = require('node:child_process');
const http = require('node:http');
const path = require('node:path');

const option = (name, fallback) => { const i = process.argv.indexOf(name); return i < 0 ? fallback : process.argv[i + 1]; };
const endpoint = option('--endpoint', 'http://127.0.0.1:4318');
const seconds = Number(option('--seconds', '15'));
const requests = Number(option('--requests', 'Infinity'));
const newer = process.argv.includes('--harmless') ? '41.1' : '42';

function start(script, environment) {
    return new Promise((resolve, reject) => {
        const child = fork(path.join(__dirname, script), { env: { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, ...environment } });
        child.once('message', ({ port }) => resolve({ child, port }));
        child.once('error', reject);
        child.once('exit', (code) => reject(new Error(`${script} ended with ${code}`)));
    });
}

const end = ({ child }) => new Promise((resolve) => { child.once('exit', resolve); child.send({ stop: true }); });

const startAgents = (version, hosts) => Promise.all(['gen5', 'gen6', 'gen7'].flatMap((hardware) =>
    hosts.map((host) => start('agent.js', { SERVICE: 'agent', VERSION: version, HOST: `${hardware}-${host}`, HARDWARE: hardware }))));

function request(port, agent) {
    return new Promise((resolve) => {
        const call = http.request({ host: '127.0.0.1', port, path: '/vm', method: 'POST', agent }, (answer) => { answer.resume(); answer.on('end', resolve); });
        call.on('error', resolve);
        call.end();
    });
}

// A few requests at once, until the time is over.
async function load(port, milliseconds, most) {
    const until = Date.now() + milliseconds, agent = new http.Agent({ keepAlive: true });
    let count = 0;
    await Promise.all([0, 1, 2, 3].map(async () => {
        while (Date.now() < until && count < most) { await request(port, agent); count++; await new Promise((resolve) => setTimeout(resolve, 5)); }
    }));
    agent.destroy();
    return count;
}

(async () => {
    const api = await start('api.js', { SERVICE: 'api', VERSION: '7', HOST: 'api-1' });
    const phase = async (what, share, agents) => {
        api.child.send({ agents: agents.map(({ port }) => port) });
        await new Promise((resolve) => api.child.once('message', resolve));
        console.log(`${what}: ${await load(api.port, share * seconds * 1000, (requests * share) / 2)} requests`);
    };
    const stay = await startAgents('41', ['a']), replaced = await startAgents('41', ['b']);
    await phase('version 41', 0.5, [...stay, ...replaced]);
    await Promise.all(replaced.map(end));
    const fresh = await startAgents(newer, ['b']);
    await phase(`version 41 and ${newer}`, 1, [...stay, ...fresh]);
    await Promise.all([...stay, ...fresh].map(end));
    await end(api);
})();
