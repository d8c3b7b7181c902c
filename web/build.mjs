// Builds web/page.html: one file with script, style and worker within. Fails above 60 KB compressed.
//   node build.mjs [OUTPUT]
// The marks it leaves (policy, data) are those that src/page/page.c looks for.
// SPDX-License-Identifier: Apache-2.0
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { fileURLToPath } from 'node:url';

const LIMIT_BYTES = 60_000;
const here = path.dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] || path.join(here, 'page.html');
const common = { bundle: true, minify: true, write: false, target: 'es2022', legalComments: 'none', absWorkingDir: here, charset: 'utf8' };

const worker = await build({ ...common, entryPoints: ['src/tile-worker.ts'], format: 'iife' });
const script = await build({
    ...common, entryPoints: ['src/main.tsx'], format: 'iife', jsx: 'automatic', jsxImportSource: 'preact',
    define: { WORKER_SOURCE: JSON.stringify(worker.outputFiles[0].text) },
});
const style = await build({ ...common, entryPoints: ['src/style.css'] });
// Within an element "</" would end it.
const js = script.outputFiles[0].text.trim().replaceAll('</', '<\\/').replaceAll('<!--', '<\\!--');
const css = style.outputFiles[0].text.trim();
const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark"><title>sonde</title>
<!--policy script-src ${hash(js)}; style-src ${hash(css)}--><link rel="icon" href="data:,"><style>${css}</style></head>
<body><div id="app"></div><noscript>This page needs JavaScript; the same in the terminal: sonde report DIR</noscript>
<!--data--><script>${js}</script></body></html>
`;
const packed = zlib.gzipSync(html, { level: 9 }).length;
if (packed > LIMIT_BYTES) {
    console.error(`build.mjs: the page has ${packed} bytes compressed; at most ${LIMIT_BYTES} are allowed`);
    process.exit(1);
}
fs.writeFileSync(output, html);
console.error(`${path.relative(process.cwd(), output)}: ${html.length} bytes, ${packed} compressed`);
