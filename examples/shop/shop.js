#!/usr/bin/env node
// The sample shop: starts a Redis of its own, three services (with --database four, and a
// MariaDB) and their customers, and ends by itself.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('fs');
const net = require('net');
const os = require('os');
const path = require('path');
const { fork, spawn } = require('child_process');
const { parseArgs } = require('util');
const { databaseScript, writeFiles, fillRedis } = require('./seed');

const FAULTS = {
    regexp: 'orders checks coupons with a regular expression that backtracks without end',
    redis: 'catalogue sorts every sale inside Redis to find the bestsellers',
    pool: 'gateway hashes passwords so dearly that the thread pool is full',
    database: 'stock makes MariaDB search what has no index (with --database)',
};
const DATABASE = '/usr/sbin/mariadbd';
const USAGE = `usage: node shop.js [--fault NAME[,NAME...]|all] [--duration SECONDS] [--rate PER_SECOND] [--port PORT] [--database]

Starts a small shop (gateway, orders, catalogue, Redis) with customers, and ends by itself.
  --fault     plant faults from the start: ${Object.keys(FAULTS).join(', ')} or all
  --duration  seconds of load (20); 0 starts the shop without customers, until Ctrl-C
  --rate      requests per second (80)
  --port      the gateway's port on 127.0.0.1 (any free one)
  --database  also a stock service, which asks a MariaDB of the shop's own (Debian's mariadb-server-core)

Faults:
${Object.entries(FAULTS).map(([name, text]) => `  ${name.padEnd(8)}${text}`).join('\n')}

While it runs: curl -X POST 'http://127.0.0.1:PORT/admin/faults?fault=regexp&on=1' (or on=0)
`;

function usageError(message) {
    process.stderr.write(`shop: ${message}\n\n${USAGE}`);
    process.exit(2);
}

function parse() {
    const options = {
        fault: { type: 'string', default: '' }, duration: { type: 'string', default: '20' },
        rate: { type: 'string', default: '80' }, port: { type: 'string', default: '0' },
        database: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
    };
    let values;
    try {
        ({ values } = parseArgs({ options }));
    } catch (error) {
        usageError(error.message);
    }
    if (values.help) {
        process.stdout.write(USAGE);
        process.exit(0);
    }
    for (const name of ['duration', 'rate', 'port'])
        if (!/^\d+(\.\d+)?$/.test(values[name])) usageError(`--${name} must be a number, not '${values[name]}'`);
    const { database } = values;
    const faults = values.fault === 'all' ? Object.keys(FAULTS).filter((fault) => fault !== 'database' || database) : values.fault.split(',').filter(Boolean);
    for (const fault of faults)
        if (!(fault in FAULTS)) usageError(`there is no fault '${fault}'`);
    if (faults.includes('database') && !database) usageError("the fault 'database' needs --database");
    if (database && !fs.existsSync(DATABASE)) usageError(`--database needs MariaDB: ${DATABASE} is missing (apt-get install mariadb-server-core)`);
    return { faults, database, duration: Number(values.duration), rate: Number(values.rate), port: Number(values.port) };
}

function freePort() {
    return new Promise((resolve, reject) => {
        const probe = net.createServer();
        probe.on('error', reject);
        probe.listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });
}

const children = new Set();
let ending = false;

// A child that ends before it should is the shop's end, with its name.
function watch(name, child) {
    children.add(child);
    child.on('exit', (code, signal) => {
        children.delete(child);
        if (!ending && name !== 'load')
            end(1, `shop: ${name} ended early (${signal || `status ${code}`})`);
    });
    child.on('error', (error) => end(1, `shop: ${name} could not be started: ${error.message}`));
    return child;
}

function startRedis(folder, port) {
    const args = ['--port', port, '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no', '--loglevel', 'warning'];
    return watch('redis-server', spawn('redis-server', args.map(String), { stdio: ['ignore', 'ignore', 'inherit'] }));
}

// Its files are made first; resolves when it takes connections.
async function startDatabase(folder, port) {
    const data = path.join(folder, 'database'), script = path.join(folder, 'database.sql');
    const own = ['--no-defaults', `--datadir=${data}`, ...(process.getuid() === 0 ? ['--user=root'] : [])];
    const made = spawn('mariadb-install-db', [...own, '--auth-root-authentication-method=normal'], { stdio: 'ignore' });
    const status = await new Promise((resolve) => made.on('error', resolve).on('exit', resolve));
    if (status !== 0) throw new Error(`mariadb-install-db: ${status}`);
    fs.writeFileSync(script, databaseScript());
    const server = watch('mariadbd', spawn(DATABASE, [...own, `--port=${port}`, '--bind-address=127.0.0.1', `--socket=${path.join(folder, 's')}`, `--pid-file=${path.join(folder, 'pid')}`,
        `--init-file=${script}`, '--skip-name-resolve', '--skip-log-bin', '--innodb-buffer-pool-size=64M'], { stdio: ['ignore', 'ignore', 'pipe'] }));
    let said = '';
    await new Promise((resolve) => server.stderr.on('data', (part) => /ready for connections/.test(said = (said + part).slice(-10_000)) && resolve()));
}

// Resolves to the port on which the service listens.
function startService(name, env) {
    const child = watch(name, fork(path.join(__dirname, 'services', `${name}.js`), { env: { ...process.env, ...env } }));
    return new Promise((resolve) => child.once('message', ({ port }) => resolve(port)));
}

function startLoad(url, rate, duration, stock) {
    const child = watch('load', fork(path.join(__dirname, 'load.js'), [url, String(rate), String(duration), ...(stock ? ['stock'] : [])], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] }));
    let out = '';
    child.stdout.on('data', (part) => (out += part));
    return { child, result: new Promise((resolve) => child.on('close', () => resolve(out.trim() ? JSON.parse(out) : null))) };
}

let folder;
let stop = () => end(130); // what Ctrl-C and SIGTERM do; once there is load, they end the load
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop());

// Stops everything: kindly at first (closing the channel ends a service), then by force, for a service that is
// stuck does not hear.
async function end(status, message) {
    if (ending) return;
    ending = true;
    if (message) (status ? console.error : console.log)(message);
    for (const child of children) {
        if (child.connected) child.disconnect();
        else child.kill('SIGTERM');
    }
    for (let i = 0; i < 40 && children.size; i++) await new Promise((resolve) => setTimeout(resolve, 50));
    for (const child of children) child.kill('SIGKILL');
    if (folder) fs.rmSync(folder, { recursive: true, force: true });
    process.exit(status);
}

function milliseconds(ms) {
    return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

async function main() {
    const { faults, database, duration, rate, port } = parse();
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-shop-'));
    writeFiles(folder);
    const redisPort = await freePort();
    startRedis(folder, redisPort);
    await fillRedis(redisPort);

    const env = { SHOP_REDIS_PORT: redisPort, SHOP_FILES: folder, SHOP_FAULTS: faults.join(',') };
    if (database) await startDatabase(folder, (env.SHOP_DATABASE_PORT = await freePort()));
    const [orders, catalogue, stock] = await Promise.all(['orders', 'catalogue', ...(database ? ['stock'] : [])].map((name) => startService(name, env)));
    const gateway = await startService('gateway', { ...env, SHOP_PORT: port, SHOP_ORDERS_PORT: orders, SHOP_CATALOGUE_PORT: catalogue, SHOP_STOCK_PORT: stock || '' });
    const url = `http://127.0.0.1:${gateway}`;
    const planted = `faults: ${faults.join(', ') || 'none'}`;

    if (duration === 0) {
        console.log(`shop: open at ${url} (${planted})`);
        stop = () => end(0);
        return;
    }
    const load = startLoad(url, rate, duration, database);
    stop = () => load.child.kill('SIGTERM');
    const result = await load.result;
    if (!result) return end(1, 'shop: the load generator ended without a result');
    const { sent, answered, failed, p50_ms, p99_ms, worst_ms } = result;
    await end(0, `shop: ${sent} requests, ${sent - answered} unanswered, ${failed} failed; p50 ${milliseconds(p50_ms)}, ` +
        `p99 ${milliseconds(p99_ms)}, worst ${milliseconds(worst_ms)} (${planted})`);
}

main().catch((error) => end(1, `shop: ${error.message}`));
