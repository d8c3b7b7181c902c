// The service: files, names, PostgreSQL, MySQL, Redis and other services, one after the other and at once.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { save } = require('./tracing.js');
const dns = require('node:dns');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const express = require('express');
const Redis = require('ioredis');
const mysql = require('mysql2/promise');
const { Pool } = require('pg');

const { PG_PORT, PG_USER, MYSQL_PORT, REDIS_PORT } = process.env;
const pool = new Pool({ host: '127.0.0.1', port: Number(PG_PORT), user: PG_USER, database: 'postgres', max: 6 });
const tables = mysql.createPool({ host: '127.0.0.1', port: Number(MYSQL_PORT), user: 'shop', password: 'secret', connectionLimit: 6 });
const redis = new Redis(Number(REDIS_PORT), '127.0.0.1');
const agent = new http.Agent({ keepAlive: true }), folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-opentelemetry-'));
const large = path.join(folder, 'large');
fs.writeFileSync(large, Buffer.alloc(6 << 20, 'text'));

const app = express();
let port = 0, count = 0;
const get = (target) => new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port, path: target, agent }, (response) => {
    let text = '';
    response.setEncoding('utf8').on('data', (part) => (text += part)).on('end', () => resolve(text));
}).on('error', reject));
const read = (file) => new Promise((resolve, reject) => fs.readFile(file, (error, bytes) => (error ? reject(error) : resolve(bytes.length))));
const answered = (work) => async (request, response, next) => {
    try {
        response.json(await work(request));
    } catch (error) {
        next(error);
    }
};

const files = async () => {
    const own = path.join(folder, `own-${++count}`);
    await fs.promises.writeFile(own, 'some text');
    const sizes = [await read(large), (await fs.promises.readFile(own)).length, (await fs.promises.stat(own)).size, (await fs.promises.readdir(folder)).length, fs.readFileSync(large).length];
    await fs.promises.unlink(own);
    return sizes;
};
const names = async () => (await dns.promises.lookup('localhost')).address + (await new Promise((resolve, reject) => dns.lookup('localhost', (error, address) => (error ? reject(error) : resolve(address)))));
const rows = async (seconds) => {
    const { rows: first } = await pool.query('select pg_sleep($1)', [seconds]);
    const client = await pool.connect();
    try {
        await client.query('begin');
        await client.query('select generate_series(1, 2000)');
        await client.query('commit');
    } finally {
        client.release();
    }
    return first.length;
};
const others = async (seconds) => {
    const [first] = await tables.query('select sleep(?) as slept', [seconds]);
    const [second] = await tables.execute('select ? + 1 as next', [count]);
    return [first.length, second.length];
};
const keys = async () => {
    await redis.set('key', 'value');
    const [[, value]] = await redis.pipeline().get('key').incr('count').exec();
    await redis.eval("local i = 0 while i < 300000 do i = i + 1 end return i", 0);
    return [value, await redis.get('key')];
};
const services = async (ms) => [await get(`/inner?ms=${ms}`), await (await fetch(`http://127.0.0.1:${port}/inner?ms=${ms}`)).text()];

app.get('/inner', (request, response) => setTimeout(() => response.json({ inner: true }), Number(request.query.ms)));
app.get('/files', answered(files));
app.get('/names', answered(names));
app.get('/rows', answered((request) => rows(request.query.ms / 1000)));
app.get('/others', answered((request) => others(request.query.ms / 1000)));
app.get('/keys', answered(keys));
app.get('/services', answered((request) => services(request.query.ms)));
app.get('/all', answered((request) => Promise.all([rows(request.query.ms / 1000), others(request.query.ms / 1000), keys(), services(request.query.ms), names(), fs.promises.stat(large)])));
const server = app.listen(0, '127.0.0.1', () => {
    port = server.address().port;
    console.log(`listening ${port} ${process.pid}`);
});
process.on('SIGTERM', () => {
    save();
    fs.rmSync(folder, { recursive: true });
    process.exit(0);
});
