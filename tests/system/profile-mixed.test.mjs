// One flame graph of a mixed load (examples/mixed) from one command: every language named, complete, and the page works
// in a real browser: search, zoom, sandwich, table, keyboard.
// SPDX-License-Identifier: Apache-2.0
import { test, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { BROWSER, openBrowser } from './browser.mjs';
import { eventually, noProfiles } from './helper.mjs';

const sonde = process.env.SONDE || new URL('../../build/sonde', import.meta.url).pathname;
const mixed = new URL('../../examples/mixed/run', import.meta.url).pathname;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-mixed-'));
after(() => fs.rmSync(folder, { recursive: true }));

const have = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const missing = ['g++', 'javac', '/usr/bin/python3', 'node'].filter((p) => !have(p))
    .concat(['jetty9-server', 'servlet-api', 'h2'].filter((j) => !fs.existsSync(`/usr/share/java/${j}.jar`)))
    .concat(spawnSync('/usr/bin/python3', ['-c', 'import numpy']).status === 0 ? [] : ['python3-numpy']);
const skip = noProfiles() || (missing.length ? `needs ${missing.join(', ')}` : false);
const page = path.join(folder, 'mixed.html');

test('every language of a mixed load is named, from one command', { skip }, () => {
    const result = spawnSync(sonde, ['profile', '-F', '499', '-o', page, '--', mixed, '3'], { encoding: 'utf8' });
    assert.equal(result.status, 0, result.stderr);
    const [, stacks, complete] = /(\d+) stacks, ([\d.]+) % complete/.exec(result.stderr);
    assert.ok(stacks > 100, result.stderr);
    assert.ok(complete > 95, result.stderr);
    const data = zlib.gunzipSync(Buffer.from(/data-part="s\/0\/profile">([^<]*)</.exec(fs.readFileSync(page, 'utf8'))[1], 'base64')).toString();
    for (const name of ['shop::Pricer::simulate', 'Forecast.fit', 'row', 'Orders.handle', 'org.eclipse.jetty', 'org.h2.', 'do_syscall_64'])
        assert.ok(data.includes(name), `${name} is not in the page`);
});

test('the page in a browser', { skip: skip || (!BROWSER && 'needs chromium') }, async (t) => {
    const chrome = await openBrowser();
    t.after(() => chrome.close());
    const tab = await chrome.newPage({ viewport: { width: 1200, height: 700 }, bypassCSP: true }), trouble = [], loaded = [];
    tab.on('pageerror', (error) => trouble.push(String(error)));
    tab.on('request', (request) => loaded.push(request.url()));
    await tab.goto(`file://${page}`);
    const state = () => new URLSearchParams(new URL(tab.url()).hash.split('?')[1]);
    const painted = () => tab.waitForFunction(() => { const c = document.querySelector('.flame canvas'); return c && c.getContext('2d').getImageData(9, 9, 1, 1).data[3] > 0; });
    await painted();
    // Search.
    await tab.keyboard.press('/');
    await tab.keyboard.type('Pricer::simulate');
    await tab.waitForSelector('.filters [role=status]');
    const share = parseFloat(await tab.textContent('.filters [role=status]'));
    assert.ok(share > 0 && share < 100, `${share} % matched`);
    await tab.keyboard.press('Enter');
    await eventually('what was searched for', () => state().get('q') === 'Pricer::simulate');
    // Into the heaviest callee, twice, and back once.
    const trail = () => tab.$$eval('.trail button', (all) => all.map((b) => b.textContent));
    await tab.keyboard.press('ArrowDown');
    await eventually('one call down', async () => (await trail()).length === 2);
    const once = state().get('z');
    assert.ok(once);
    await tab.keyboard.press('ArrowDown');
    await eventually('two calls down', async () => (await trail()).length === 3);
    assert.notEqual(state().get('z'), once);
    await tab.keyboard.press('ArrowUp');
    await eventually('and one up', () => state().get('z') === once);
    // Callers and callees, flame, everything again.
    await tab.keyboard.press('c');
    await tab.waitForSelector('h2:has-text("Who calls")');
    await eventually('the mode', () => state().get('mode') === 'sandwich');
    await tab.keyboard.press('i');
    await eventually('an icicle', () => state().get('mode') === 'icicle');
    await tab.keyboard.press('Escape'); // of everything, not of what is zoomed into
    await eventually('everything', () => state().get('z') === null);
    await eventually('no search', () => state().get('q') === null);
    const rows = await tab.$$eval('.functions tbody tr', (list) => list.map((r) => r.textContent));
    assert.ok(rows.length > 20);
    const name = await tab.textContent('.functions tbody tr:nth-child(3) .fn');
    await tab.click('.functions tbody tr:nth-child(3) .fn');
    await eventually('its callers', () => state().get('mode') === 'sandwich');
    await eventually('that function', () => state().get('f') === name);
    await tab.keyboard.press('Escape');
    // A click zooms; the state is in the address, so that it can be sent to somebody.
    await painted();
    await tab.click('.flame canvas', { position: { x: 60, y: 30 } });
    await eventually('zoomed', async () => state().get('z') && (await trail()).length > 1);
    const copy = await chrome.newPage({ viewport: { width: 1200, height: 700 }, bypassCSP: true });
    await copy.goto(tab.url());
    await copy.waitForSelector('.trail [aria-current]');
    assert.deepEqual(await copy.$$eval('.trail button', (all) => all.map((b) => b.textContent)), await trail());
    assert.deepEqual(trouble, []);
    assert.deepEqual(loaded.filter((url) => url !== 'data:,'), [`file://${page}`], 'it needs nothing else');
});

test('stacks of 6,000 calls in the page', { skip: !BROWSER && 'needs chromium' }, async (t) => {
    const file = path.join(folder, 'deep.folded'), deep = path.join(folder, 'deep.html');
    const stack = (name, depth) => Array.from({ length: depth }, (_, i) => `${name}${i}`).join(';');
    fs.writeFileSync(file, `${stack('deep', 6000)} 300\n${stack('flat', 3)} 100\n`);
    assert.equal(spawnSync(sonde, ['profile', '--merge', '-o', deep, file]).status, 0);
    const chrome = await openBrowser();
    t.after(() => chrome.close());
    const tab = await chrome.newPage({ viewport: { width: 1200, height: 700 }, bypassCSP: true }), trouble = [];
    tab.on('pageerror', (error) => trouble.push(String(error)));
    await tab.goto(`file://${deep}`);
    const painted = () => tab.waitForFunction(() => { const c = document.querySelector('.flame canvas'); return c && c.getContext('2d').getImageData(9, 9, 1, 1).data[3] > 0; });
    await painted();
    for (const press of ['i', 'c']) await tab.keyboard.press(press);
    assert.ok((await tab.$$('.functions tbody tr')).length > 100);
    await tab.keyboard.press('Escape');
    await painted();
    await tab.uncheck('text=begin where it branches');
    await eventually('far from the outermost call', async () => { // what is zoomed into is the first row
        await tab.keyboard.press('ArrowDown');
        return /deep\d\d$/.test(await tab.textContent('.trail'));
    });
    await painted();
    assert.match(await tab.textContent('.trail'), /… \d+ calls/);
    assert.deepEqual(trouble, []);
});
