// p95 of 4,800 groups in one run: ours and DuckDB's by `build/bench/spans quantiles`, then ClickHouse's (Debian's
// clickhouse-server, started here on loopback with a folder of its own) over the same rows, both as durations and as
// summed bins, as a cluster would do it.
//   node bench/spans-clickhouse.mjs build/bench/spans [ROWS]
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const [, , program, given] = process.argv, rows = Number(given || 100e6), port = 18123;
const library = fileURLToPath(new URL('../tests/system/node_modules/@duckdb/node-bindings-linux-x64/libduckdb.so', import.meta.url));
process.stdout.write(execFileSync(program, ['quantiles', String(rows)], { maxBuffer: 1 << 26, env: { SONDE_DUCKDB: library, ...process.env } }));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-bench-'));
fs.writeFileSync(path.join(folder, 'users.xml'), `<yandex><profiles><default><max_memory_usage>8000000000</max_memory_usage></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users><quotas><default></default></quotas></yandex>`);
fs.writeFileSync(path.join(folder, 'config.xml'), `<yandex><logger><level>error</level><log>${folder}/log</log><errorlog>${folder}/err</errorlog></logger>
<http_port>${port}</http_port><tcp_port>19000</tcp_port><listen_host>127.0.0.1</listen_host><path>${folder}/data/</path><tmp_path>${folder}/tmp/</tmp_path>
<users_config>${folder}/users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database><mark_cache_size>100000000</mark_cache_size></yandex>`);
const server = spawn('clickhouse-server', [`--config-file=${folder}/config.xml`], { cwd: folder, stdio: 'ignore' });
const sql = async (text) => {
    const answer = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: text });
    const body = await answer.text();
    if (!answer.ok) throw new Error(body);
    return body;
};
async function timed(name, text) {
    const rates = [];
    let body;
    for (let i = 0; i < 3; i++) {
        const started = performance.now();
        body = await sql(text);
        rates.push(rows / (performance.now() - started) / 1e3);
    }
    rates.sort((a, b) => a - b);
    console.log(`  ClickHouse, ${name}: ${rates[1].toFixed(3)} million spans/s (${rates[0].toFixed(3)} to ${rates[2].toFixed(3)}); first group ${body.split('\n')[0]}`);
}
try {
    for (let i = 0; ; i++) {
        try { await sql('SELECT 1'); break; } catch (error) {
            if (i > 100) throw error;
            await new Promise((resolve) => setTimeout(resolve, 100));
        }
    }
    console.log(`p95 of 4800 groups over ${rows / 1e6} million spans, ClickHouse ${(await sql('SELECT version()')).trim()}`);
    const duration = '100000 + h % 1000003 * (1 + h % 17)';
    const from = `(SELECT number AS i, (number * 2654435761) % 4294967296 AS h FROM system.numbers LIMIT ${rows})`;
    await sql(`CREATE TABLE t (g UInt16, d UInt64, b UInt16) ENGINE = Memory`);
    // The bin of sketch.h: (e - 5) * 64 + the six bits below the highest one.
    await sql(`INSERT INTO t SELECT toUInt16(i % 4800), d, toUInt16((e - 5) * 64 + bitAnd(bitShiftRight(d, toUInt8(e - 6)), 63)) FROM (SELECT i, toUInt64(${duration}) AS d, toUInt64(floor(log2(${duration}))) AS e FROM ${from})`);
    await timed('quantileTDigest(0.95) of durations', 'SELECT g, quantileTDigest(0.95)(d) FROM t GROUP BY g ORDER BY g FORMAT TSV');
    await timed('quantile(0.95) of durations (reservoir)', 'SELECT g, quantile(0.95)(d) FROM t GROUP BY g ORDER BY g FORMAT TSV');
    await timed('counting bins, as for sonde', 'SELECT g, b, count() FROM t GROUP BY g, b ORDER BY g, b FORMAT TSV');
} finally {
    server.kill('SIGKILL');
    await new Promise((resolve) => server.on('exit', resolve));
    fs.rmSync(folder, { recursive: true, force: true });
}
