// One flame graph of a mixed load (examples/mixed) from one command: every language named, complete, and the page works
// in a real browser: search, zoom, sandwich, table, keyboard.
// SPDX-License-Identifier: Apache-2.0
import { test, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';

const sonde = process.env.SONDE || new URL('../../build/sonde', import.meta.url).pathname;
const mixed = new URL('../../examples/mixed/run', import.meta.url).pathname;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-mixed-'));
after(() => fs.rmSync(folder, { recursive: true }));

const probe = spawnSync(sonde, ['profile', '-q', '-f', 'folded', '--', 'true'], { encoding: 'utf8' });
const have = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const missing = ['g++', 'javac', '/usr/bin/python3', 'node'].filter((p) => !have(p))
    .concat(['jetty9-server', 'servlet-api', 'h2'].filter((j) => !fs.existsSync(`/usr/share/java/${j}.jar`)))
    .concat(spawnSync('/usr/bin/python3', ['-c', 'import numpy']).status === 0 ? [] : ['python3-numpy']);
const skip = probe.status === 3 ? 'needs the right to load BPF programs (root, or CAP_BPF and CAP_PERFMON)' : missing.length ? `needs ${missing.join(', ')}` : false;
const browser = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((file) => fs.existsSync(file));
const page = path.join(folder, 'mixed.html');

test('every language of a mixed load is named, from one command', { skip }, () => {
    const result = spawnSync(sonde, ['profile', '-F', '499', '-o', page, '--', mixed, '3'], { encoding: 'utf8' });
    assert.equal(result.status, 0, result.stderr);
    const [, stacks, complete] = /(\d+) stacks, ([\d.]+) % complete/.exec(result.stderr);
    assert.ok(stacks > 100, result.stderr);
    assert.ok(complete > 95, result.stderr);
    const data = fs.readFileSync(page, 'utf8');
    for (const name of ['shop::Pricer::simulate', 'Forecast.fit', 'row', 'Orders.handle', 'org.eclipse.jetty', 'org.h2.', 'do_syscall_64'])
        assert.ok(data.includes(name), `${name} is not in the page`);
});

test('the page in a browser', { skip: skip || (!browser && 'needs chromium') }, async (t) => {
    const chrome = await chromium.launch({ executablePath: browser, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
    t.after(() => chrome.close());
    const tab = await chrome.newPage({ viewport: { width: 1200, height: 700 } }), trouble = [], loaded = [];
    tab.on('pageerror', (error) => trouble.push(String(error)));
    tab.on('request', (request) => loaded.push(request.url()));
    await tab.goto(`file://${page}`);
    const state = () => new URLSearchParams(new URL(tab.url()).hash.slice(1));
    // The outermost frames are in view: the row of everything is painted across the window's lower edge.
    const bottom = await tab.evaluate(() => { const r = document.getElementById('graph').getBoundingClientRect(); return [r.bottom, innerHeight]; });
    assert.ok(bottom[0] <= bottom[1] + 20, `the graph ends at ${bottom[0]} of ${bottom[1]}`);
    // Search.
    await tab.keyboard.press('/');
    await tab.keyboard.type('Pricer::simulate');
    const share = parseFloat(await tab.textContent('#found'));
    assert.ok(share > 0 && share < 100, `${share} % matched`);
    await tab.keyboard.press('Enter');
    assert.equal(state().get('q'), 'Pricer::simulate');
    // Zoom by keyboard and back.
    await tab.keyboard.press('ArrowUp');
    await tab.keyboard.press('ArrowUp');
    assert.equal(state().get('z').split(' ').length, 2);
    await tab.keyboard.press('ArrowDown');
    assert.equal(state().get('z').split(' ').length, 1);
    // Sandwich of the selected function, icicle, table.
    await tab.keyboard.press('s');
    assert.equal(state().get('m'), 'sandwich');
    await tab.keyboard.press('s');
    await tab.keyboard.press('i');
    assert.equal(state().get('i'), '1');
    await tab.keyboard.press('Escape'); // of everything, not of what is zoomed into
    await tab.keyboard.press('t');
    const rows = await tab.$$eval('#list tr', (list) => list.map((r) => r.textContent));
    assert.ok(rows.length > 20);
    assert.equal(await tab.isVisible('#graph'), false, 'the graph is still there, above the table');
    await tab.click('#list tr:nth-child(3)');
    assert.equal(state().get('m'), 'sandwich');
    await tab.keyboard.press('Escape');
    assert.equal(state().get('m'), 'flame');
    assert.equal(state().get('z'), '');
    // A click zooms; the state is in the address, so that it can be sent to somebody.
    await tab.click('#graph', { position: { x: 300, y: 30 } });
    assert.notEqual(state().get('z'), '');
    const copy = await chrome.newPage({ viewport: { width: 1200, height: 700 } });
    await copy.goto(tab.url());
    assert.equal(new URLSearchParams(new URL(copy.url()).hash.slice(1)).get('z'), state().get('z'));
    assert.deepEqual(trouble, []);
    assert.deepEqual(loaded, [`file://${page}`], 'it needs nothing else');
});

test('stacks of 6,000 calls in the page', { skip: !browser && 'needs chromium' }, async (t) => {
    const file = path.join(folder, 'deep.folded'), deep = path.join(folder, 'deep.html');
    const stack = (name, depth) => Array.from({ length: depth }, (_, i) => `${name}${i}`).join(';');
    fs.writeFileSync(file, `${stack('deep', 6000)} 300\n${stack('flat', 3)} 100\n`);
    assert.equal(spawnSync(sonde, ['profile', '--merge', '-o', deep, file]).status, 0);
    const chrome = await chromium.launch({ executablePath: browser, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
    t.after(() => chrome.close());
    const tab = await chrome.newPage({ viewport: { width: 1200, height: 700 } }), trouble = [];
    tab.on('pageerror', (error) => trouble.push(String(error)));
    await tab.goto(`file://${deep}`);
    const painted = () => tab.waitForFunction(() => document.querySelector('#graph canvas').getContext('2d').getImageData(9, 9, 1, 1).data[3] > 0);
    await painted();
    await tab.evaluate(() => scrollTo(0, 0)); // the innermost calls
    await painted();
    for (const press of ['i', 's', 't']) await tab.keyboard.press(press);
    assert.ok((await tab.$$('#list tr')).length > 100);
    await tab.keyboard.press('Escape');
    for (let i = 0; i < 60; i++) await tab.keyboard.press('ArrowDown'); // far from the outermost call, what is zoomed into is in the window
    const [depth, scrolled] = await tab.evaluate(() => [new URLSearchParams(location.hash.slice(1)).get('z').split(' ').length, scrollY]);
    assert.ok(depth === 60 && scrolled > 0, `${depth} deep, scrolled by ${scrolled}`);
    assert.deepEqual(trouble, []);
});
