// The application of five services with Redis and MySQL gateways: starts Redis ($REDIS_COMMAND, a list in JSON) and the services,
// and ends them with SIGTERM. What each service knows of the planted trouble is written to $TRUTH_FOLDER/SERVICE.json.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const net = require('node:net');
const path = require('node:path');
const { fork, spawn } = require('node:child_process');

const NAMES = ['redis-gateway', 'mysql-gateway', 'user', 'order', 'gateway']; // in the order in which they need each other
const FLAGS = { gateway: process.env.TROUBLE === 'gc' ? ['--max-semi-space-size=2'] : [] };
const port = (name) => process.env[`${name.toUpperCase().replace('-', '_')}_PORT`];

const listens = (at) => new Promise((resolve) => net.connect(at, '127.0.0.1').on('connect', function () { this.destroy(); resolve(true); }).on('error', () => resolve(false)));

async function main() {
    const [command, ...args] = JSON.parse(process.env.REDIS_COMMAND);
    const redis = spawn(command, args, { stdio: ['ignore', 'ignore', 'inherit'] }), services = [];
    const redisEnded = new Promise((resolve) => redis.on('exit', resolve));
    while (!(await listens(Number(process.env.REDIS_PORT)))) {
        if (redis.exitCode !== null) throw new Error(`Redis ended with status ${redis.exitCode}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    for (const name of NAMES) {
        const service = fork(path.join(__dirname, `${name}.js`), { env: { ...process.env, PORT: port(name), TRUTH: path.join(process.env.TRUTH_FOLDER, `${name}.json`) }, execArgv: FLAGS[name] || [] });
        services.push({ service, ended: new Promise((resolve) => service.on('exit', resolve)) });
        await new Promise((resolve, reject) => service.once('message', resolve).once('exit', (status) => reject(new Error(`${name} ended with status ${status}`))));
    }
    process.on('SIGTERM', async () => {
        for (const { service, ended } of services.reverse()) {
            service.disconnect();
            await ended;
        }
        net.connect(Number(process.env.REDIS_PORT), '127.0.0.1').on('error', () => {}).write('SHUTDOWN NOSAVE\r\n');
        await redisEnded;
        process.exit(0);
    });
    console.log(`listening ${port('gateway')} ${process.pid}`);
}

main().catch((error) => {
    console.error(error.message);
    process.exit(1);
});
