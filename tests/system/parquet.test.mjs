// Parquet through the span store's engine: what serve stored, written as Parquet, is read again.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { finish, root, SONDE, temporary } from './helper.mjs';

test('a Parquet file is read as spans', async (t) => {
    const require = createRequire(import.meta.url);
    let duckdb;
    try {
        duckdb = require('@duckdb/node-bindings-linux-x64/duckdb.node');
    } catch (error) {
        return t.skip(`DuckDB's bindings do not load here: ${error.message}`);
    }
    const file = path.join(temporary(t), 'spans.parquet');
    const database = await duckdb.open(':memory:'), connection = await duckdb.connect(database);
    await duckdb.query(connection, `COPY (SELECT lpad(to_hex(i // 2 + 1), 32, '0') AS trace_id, lpad(to_hex(i + 1), 16, '0') AS span_id,
        CASE WHEN i % 2 = 1 THEN lpad(to_hex(i), 16, '0') ELSE '' END AS parent_span_id, CASE WHEN i % 2 = 0 THEN 'root' ELSE 'child' END AS name,
        'shop' AS service_name, 'h1' AS host_name, 1000000000000 + i * 1000 AS start_ns, 1000000000000 + i * 1000 + CASE WHEN i % 2 = 0 THEN 900000 ELSE 500000 END AS end_ns
        FROM range(1000) r(i)) TO '${file}' (FORMAT parquet)`);
    const { status, stdout, stderr } = await finish(t, SONDE, ['diagnose', '--json', file]);
    assert.equal(status, 0, stderr);
    const { diagnosis } = JSON.parse(stdout);
    assert.equal(diagnosis.input.spans, 1000);
    assert.equal(diagnosis.buckets[0].bucket, 'shop root');
    assert.equal(diagnosis.buckets[0].groups[0].requests, 500);
    fs.writeFileSync(file, 'PAR1 and nothing more');
    const broken = await finish(t, SONDE, ['diagnose', file]);
    assert.equal(broken.status, 1);
    assert.match(broken.stderr, /Parquet/);
});
