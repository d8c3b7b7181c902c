// The distributed store: the same spans in DuckDB and in ClickHouse give sketches that are equal to the bit, and equal to
// what is computed here; and a server that goes away is caught up with.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { eventually, freePort, kill, sonde, start, temporary } from './helper.mjs';
import { diskRequests, get, metric, post } from './spans.mjs';

const SERVER = ['/usr/sbin/clickhouse-server', '/usr/bin/clickhouse-server'].find((file) => fs.existsSync(file));

// A ClickHouse of the test's own, on loopback; `again` starts it anew on the same data.
async function clickhouse(t) {
    const folder = temporary(t), http = await freePort(), tcp = await freePort();
    fs.writeFileSync(path.join(folder, 'users.xml'), `<yandex><profiles><default><max_memory_usage>1000000000</max_memory_usage></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users><quotas><default></default></quotas></yandex>`);
    fs.writeFileSync(path.join(folder, 'config.xml'), `<yandex><logger><level>error</level><log>${folder}/log</log><errorlog>${folder}/err</errorlog></logger>
<http_port>${http}</http_port><tcp_port>${tcp}</tcp_port><listen_host>127.0.0.1</listen_host><path>${folder}/data/</path><tmp_path>${folder}/tmp/</tmp_path>
<users_config>${folder}/users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database><mark_cache_size>100000000</mark_cache_size></yandex>`);
    const url = `http://127.0.0.1:${http}/`;
    const again = async () => {
        const running = start(t, SERVER, [`--config-file=${folder}/config.xml`], { cwd: folder });
        await eventually('clickhouse-server answers', async () => {
            if (running.over) throw new Error(running.describe());
            return (await fetch(url, { method: 'POST', body: 'SELECT 1' }).catch(() => null))?.ok;
        });
        return running;
    };
    return { url, running: await again(), again, sql: async (text) => (await fetch(url, { method: 'POST', body: text })).text() };
}

async function serve(t, ...args) {
    const running = sonde(t, 'serve', '--listen', '127.0.0.1:0', '--data', temporary(t), ...args);
    const [, port] = await running.until(/receiving OTLP on port (\d+)/);
    return { running, port: Number(port) };
}

const sketches = async (port, by) => (await get(port, `/api/sketches?by=${by}`)).text.trim().split('\n').map(JSON.parse);

// The sketch's canonical bytes as sketch.h defines them: count, then (bin, counter) ascending, as LEB128.
function expected(durations) {
    const bytes = [], counters = new Map();
    const put = (n) => { for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128); bytes.push(n); };
    for (const ns of durations) {
        const e = ns < 64n ? 0 : ns.toString(2).length - 1;
        const bin = ns < 64n ? Number(ns) : (e - 5) * 64 + Number((ns >> BigInt(e - 6)) & 63n);
        counters.set(bin, (counters.get(bin) || 0) + 1);
    }
    put(durations.length);
    for (const bin of [...counters.keys()].sort((a, b) => a - b)) { put(bin); put(counters.get(bin)); }
    return Buffer.from(bytes).toString('hex');
}

test('sketches from ClickHouse and from DuckDB are equal to the bit', async (t) => {
    if (!SERVER) return t.skip('clickhouse-server is not installed');
    const cluster = await clickhouse(t), one = await serve(t), other = await serve(t, '--clickhouse', cluster.url);
    if (/not kept/.test(one.running.stderr)) return t.skip('libduckdb.so is not installed');
    const durations = new Map();
    for (let i = 0; i < 4; i++) {
        const request = diskRequests({ from: i * 300, count: 300, versions: ['41', '4\t2"\\'], slow: (version) => version === '41' });
        for (const { resource, scopeSpans } of request.resourceSpans)
            for (const s of scopeSpans[0].spans) {
                const of = (key) => resource.attributes.find((a) => a.key === key)?.value.stringValue, key = JSON.stringify([of('service.name'), of('service.version'), s.name]);
                durations.set(key, [...(durations.get(key) || []), BigInt(s.endTimeUnixNano) - BigInt(s.startTimeUnixNano)]);
            }
        for (const { port } of [one, other]) assert.equal((await post(port, JSON.stringify(request))).status, 200);
    }
    for (const { port } of [one, other]) await eventually('all stored', async () => (await metric(port, 'sonde_stored_spans')) === 7200);
    const [embedded, distributed] = [await sketches(one.port, 'service,version,name'), await sketches(other.port, 'service,version,name')];
    assert.deepEqual(distributed, embedded);
    assert.deepEqual(Object.fromEntries(embedded.map((row) => [JSON.stringify(row.values), row.sketch])),
        Object.fromEntries([...durations].map(([key, list]) => [key, expected(list)])));
    const trace = async (port) => (await get(port, '/api/trace?id=7')).text.trim().split('\n').map(JSON.parse).map(({ name, duration_ns, service, version, attributes }) => ({ name, duration_ns, service, version, attributes }));
    assert.equal((await trace(other.port)).length, 6);
    assert.deepEqual(await trace(other.port), await trace(one.port));
});

test('a ClickHouse that goes away is caught up with, and nothing is stored twice', async (t) => {
    if (!SERVER) return t.skip('clickhouse-server is not installed');
    const cluster = await clickhouse(t), folder = temporary(t), args = ['--data', folder, '--clickhouse', cluster.url];
    const first = await serve(t, ...args);
    const send = async (port, from) => assert.equal((await post(port, JSON.stringify(diskRequests({ from, count: 100, versions: ['41'] })))).status, 200);
    await send(first.port, 0);
    await eventually('all stored', async () => (await metric(first.port, 'sonde_stored_spans')) === 600);
    kill(cluster.running.pid, 'SIGKILL');
    await cluster.running.ended;
    await send(first.port, 100); // acknowledged all the same: it is in the journal
    await eventually('the failure is counted', async () => (await metric(first.port, 'sonde_store_errors_total')) > 0);
    await cluster.again();
    await eventually('it is caught up with', async () => (await metric(first.port, 'sonde_stored_spans')) === 1200);
    kill(first.running.pid, 'SIGKILL');
    await first.running.ended;
    const second = await serve(t, ...args);
    await send(second.port, 200);
    await eventually('only what is new is added', async () => (await metric(second.port, 'sonde_stored_spans')) === 1800);
    assert.equal((await cluster.sql('SELECT count(), uniqExact(id) FROM spans')).trim(), '1800\t1800');
});

test('old spans leave ClickHouse too', async (t) => {
    if (!SERVER) return t.skip('clickhouse-server is not installed');
    const cluster = await clickhouse(t), { port } = await serve(t, '--clickhouse', cluster.url, '--keep-days', '1', '--look-seconds', '1');
    await post(port, JSON.stringify(diskRequests({ count: 100, versions: ['41'] })));
    await post(port, JSON.stringify(diskRequests({ from: 100, count: 10, versions: ['41'], at_us: Date.now() * 1000 })));
    await eventually('the old ones are gone', async () => (await metric(port, 'sonde_stored_spans')) === 60, 60_000);
});
