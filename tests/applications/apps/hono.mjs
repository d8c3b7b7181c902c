// Hono on @hono/node-server: a large file read synchronously, a list sorted badly.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import truth from './truth.js';

const { begin, ready, save, trouble } = truth;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-hono-')), file = path.join(folder, 'catalogue.txt');
fs.writeFileSync(file, Buffer.alloc(trouble === 'file' ? 150_000_000 : 1000, 'item\n'));

const app = new Hono();
app.get('/quick', (c) => c.json({ ok: true }));
app.get('/catalogue', (c) => { // planted file
    const end = begin('file');
    const { length } = fs.readFileSync(file);
    end();
    return c.json({ length });
}); // end file
app.get('/top', (c) => { // planted sort
    const end = begin('sort');
    const list = Array.from({ length: trouble === 'sort' ? 14_000 : 100 }, (_, i) => (i * 7919) % 10_007);
    for (let i = 0; i < list.length; i++) for (let k = i + 1; k < list.length; k++) if (list[k] < list[i]) [list[i], list[k]] = [list[k], list[i]];
    end();
    return c.json(list.slice(0, 3));
}); // end sort
const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => ready(server, () => {
    fs.rmSync(folder, { recursive: true });
    save();
}));
