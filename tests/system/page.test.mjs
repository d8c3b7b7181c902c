// The web page in a real browser: from a finding to its line by mouse and keyboard, on a server and as one file, wide and
// narrow, light and dark, and readable for everybody.
// SPDX-License-Identifier: Apache-2.0
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { createRequire } from 'node:module';
import { BROWSER, openBrowser } from './browser.mjs';
import { documentsOf, eventually, root, SHOP, SONDE, start } from './helper.mjs';

const skip = BROWSER ? false : 'chromium is not installed';
const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sonde-page-')), trace = path.join(folder, 'shop'), profile = path.join(folder, 'shop.folded');
let browser, report;

before(async () => {
    const run = spawnSync(SONDE, ['run', '-q', '-o', trace, '--', process.execPath, SHOP, '--fault', 'all', '--duration', '8'], { encoding: 'utf8' });
    assert.ok(run.status === 0 || run.status === 4, run.stderr);
    report = JSON.parse(execFileSync(SONDE, ['report', '--json', trace], { maxBuffer: 1 << 28 }));
    assert.ok(report.findings.some((f) => f.kind === 'blocking-regexp'), 'the recording has the planted fault');
    fs.writeFileSync(profile, 'shop (1);main;parse;match 700\nshop (1);main;render 200\nredis (2);main;sort 100\n');
    if (BROWSER) browser = await openBrowser();
});
after(async () => {
    await browser?.close();
    fs.rmSync(folder, { recursive: true, force: true });
});

async function serve(t, ...args) {
    const running = start(t, SONDE, ['serve', '--listen', '127.0.0.1:0', ...args]);
    const [, address] = await running.until(/the page is at (\S+\/)/);
    const json = async (what) => (await fetch(`${address}api/v1/${what}`)).json();
    await eventually('all is read', async () => (await json('sources')).sources.every((s) => s.state !== 'reading'));
    return { address, json, running };
}

// A page that keeps what went wrong in it; `settled` once it shows something.
async function open(t, address, options = {}) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
    page.trouble = [];
    page.on('console', (message) => message.type() === 'error' && page.trouble.push(message.text()));
    page.on('pageerror', (error) => page.trouble.push(String(error)));
    t.after(() => page.close());
    await page.goto(address);
    await page.waitForSelector('main h1, main h2');
    return page;
}

// Waits until `condition`, run in the page, holds. Playwright's own waitForFunction() evaluates text inside the page when the
// first look fails, which the page's content security policy forbids.
const shown = (page, what, condition, argument) => eventually(what, () => page.evaluate(condition, argument));

test('every finding is in the page, under an address that stays', { skip }, async (t) => {
    const { address, json, running } = await serve(t, trace);
    const page = await open(t, address);
    await page.waitForSelector('.ranked li');
    // As the terminal prints them, too.
    await eventually('the links are printed', () => (running.stderr.match(/#\/findings/g) ?? []).length >= Math.min(10, report.findings.length));
    const told = [...running.stderr.matchAll(/^ {2}(\S.*)\n {4}(http\S+)$/gm)].map(([, title, link]) => [title, link]);
    assert.deepEqual(told, await page.locator('.ranked a').evaluateAll((all) => all.slice(0, 10).map((a) => [a.querySelector('.title').textContent, a.href])));
    assert.deepEqual(await page.locator('.ranked .title').allInnerTexts(), report.findings.map((f) => f.title));
    const links = await page.locator('.ranked a').evaluateAll((all) => all.map((a) => a.getAttribute('href'))), { processes } = await json('s/0/report');
    assert.equal(new Set(links).size, links.length);
    for (const [i, link] of links.entries()) {
        const fresh = await open(t, address + link), f = report.findings[i];
        assert.equal(await fresh.locator('.detail h2').innerText(), f.title);
        assert.ok((await fresh.locator('.detail').innerText()).includes(f.remedy));
        const source = f.where.source;
        if (source?.file) assert.ok((await fresh.locator('.place .file').innerText()).endsWith(`${path.basename(source.file)}:${source.line}:${source.column}`));
        // What it points at: its time among the states, in pixels too.
        await fresh.click('text=States of that time');
        await fresh.waitForSelector('.timeline canvas');
        await shown(fresh, 'states in several colours', () => {
            const canvas = document.querySelector('.timeline canvas'), data = canvas.getContext('2d').getImageData(0, 80, canvas.width, canvas.height - 80).data, colours = new Set();
            for (let at = 0; at < data.length; at += 4) colours.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
            return colours.size > 4;
        });
        assert.equal(await fresh.locator('.filters .chip').innerText(), f.title);
        // The window has that time, the mark in the picture stands at it, and the rows of its process come first.
        const query = new URLSearchParams(fresh.url().split('?')[1]), whole = report.to_ns - report.from_ns, window = [Number(query.get('from') ?? 0), Number(query.get('to') ?? whole)];
        const time = [f.from_ns - report.from_ns, (f.to_ns ?? report.to_ns) - report.from_ns];
        assert.ok(window[0] <= time[0] && window[1] >= time[1] && window[1] - window[0] <= 1.2 * (time[1] - time[0]) + 3e6, `${window} for ${time}`);
        const marked = await fresh.evaluate(([a, b, y]) => {
            const canvas = document.querySelector('.timeline canvas'), bad = parseInt(getComputedStyle(canvas).getPropertyValue('--bad').slice(1), 16);
            const [x, wide] = [Math.floor(a * canvas.width), Math.max(2, Math.floor((b - a) * canvas.width))], { data } = canvas.getContext('2d').getImageData(0, y, canvas.width, 1);
            const is = (at) => [16, 8, 0].every((shift, c) => Math.abs(data[4 * at + c] - ((bad >> shift) & 255)) < 8);
            return [is(x + (wide >> 1)), x > 3 && is(x - 3)];
        }, [...time.map((ns) => (ns - window[0]) / (window[1] - window[0])), 23 + (i % 3) * 5]);
        assert.deepEqual(marked, [true, false], f.title);
        const group = processes.find((p) => p.process === f.where.process);
        if (group) assert.equal((await fresh.locator('.timeline .group').first().innerText()).replace(/^. | ?finding$/g, '').trim(), `${group.service} ${group.process}`);
        assert.deepEqual(fresh.trouble, []);
    }
    // Read anew, nothing kept: the same addresses.
    const again = await serve(t, '--no-keep', trace), page2 = await open(t, again.address);
    await page2.waitForSelector('.ranked li');
    assert.deepEqual(await page2.locator('.ranked a').evaluateAll((all) => all.map((a) => a.getAttribute('href'))), links);
    assert.equal((await json('sources')).schema, 1);
    assert.deepEqual(page.trouble, []);
});

test('from the demo to the line in three keys', { skip }, async (t) => {
    const { address } = await serve(t, trace);
    const page = await open(t, address);
    await page.waitForSelector('.ranked li');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('regular expression');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.place .file');
    assert.match(await page.locator('.place .file').innerText(), /coupon\.js:14:/);
});

test('all requests, their filters, and one of them down to Redis', { skip }, async (t) => {
    const { address, json } = await serve(t, trace), all = report.endpoints.reduce((sum, e) => sum + e.count + e.unfinished_count, 0);
    assert.equal((await json('s/0/requests?limit=1')).total, all, 'not forty');
    const page = await open(t, `${address}#/requests`);
    await page.waitForSelector('table.requests tbody tr');
    const total = async () => Number((await page.locator('.filters [role=status]').innerText()).replace(/\D/g, ''));
    assert.equal(await total(), all);
    const orders = report.endpoints.find((e) => e.service === 'gateway' && e.route === '/orders');
    await page.locator('table.endpoints tr', { hasText: 'gateway' }).locator('a', { hasText: 'POST /orders' }).click();
    await eventually('only those', async () => (await total()) === orders.count + orders.unfinished_count);
    await page.locator('table.requests tbody a').first().click();
    await page.waitForSelector('.waterfall tbody tr');
    assert.match(await page.locator('h1').innerText(), /POST \/orders/);
    assert.match(await page.locator('.facts').first().innerText(), /the slowest of/);
    assert.ok(await page.locator('.waterfall .path i').count() > 2, 'a critical path');
    assert.match(await page.locator('.sides').innerText(), /The typical one/);
    const short = await page.locator('.waterfall tbody tr').count();
    const box = page.locator('label:has-text("shorter than 1 %") input');
    if (await box.count()) {
        await box.check();
        await eventually('more rows', async () => (await page.locator('.waterfall tbody tr').count()) > short && /all=true/.test(page.url()));
    }
    // A file filters by itself, by the same rules.
    const html = path.join(folder, 'filters.html');
    execFileSync(SONDE, ['report', '--html', html, trace], { stdio: 'ignore' });
    for (const query of ['text=orders', 'failed=1', 'min_ns=5000000&sort=start&order=ascending', 'service=gateway&sort=waits']) {
        const there = await json(`s/0/requests?${query}&limit=50`), file = await open(t, `file://${html}#/requests?${query}`);
        await shown(file, 'as many rows', (n) => document.querySelectorAll('table.requests tbody tr').length === n, Math.min(50, there.total));
        assert.deepEqual(await file.locator('table.requests tbody a').evaluateAll((as) => as.map((a) => a.hash.split('/')[2].split('?')[0])), there.rows.map((row) => row.id), query);
        await file.close();
    }
    assert.deepEqual(page.trouble, []);
});

test('states: keys, rows, the table of what is drawn', { skip }, async (t) => {
    const { address } = await serve(t, trace);
    const page = await open(t, `${address}#/states`), window = () => new URLSearchParams(page.url().split('?')[1]);
    await page.waitForSelector('.timeline canvas');
    await page.keyboard.press('w'); // the address follows a moment later
    const [from] = await eventually('a part', () => { const [a, b] = [Number(window().get('from')), Number(window().get('to'))]; return a > 0 && b > a && [a, b]; });
    await page.keyboard.press('d');
    await eventually('further on', () => Number(window().get('from')) > from);
    await page.keyboard.press('f');
    await eventually('the whole', () => window().get('from') === null);
    await page.fill('#search', 'redis');
    await page.click('summary:has-text("This window as a table")');
    await eventually('shares', async () => /running \d|\bsort \d/.test(await page.locator('details table').innerText()));
    for (const row of await page.locator('details tbody tr').allInnerTexts()) assert.match(row, /^redis/i);
    assert.deepEqual(page.trouble, []);
});

// What the window of the view of states shows, in words.
const windowOf = (page) => page.locator('.filters > span:nth-of-type(2)').innerText();

test('panning goes on however long it lasts, and the address follows', { skip }, async (t) => {
    const { address } = await serve(t, trace), page = await open(t, `${address}#/states`);
    await page.waitForSelector('.timeline canvas');
    // More steps than a browser takes changes of the address: far in, to and fro, to the very beginning and then a little back.
    await page.evaluate(async () => {
        const press = async (key, times) => {
            for (let i = 0; i < times; i++) {
                document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
                await new Promise((resolve) => requestAnimationFrame(resolve));
            }
        };
        await press('w', 6);
        for (let i = 0; i < 120; i++) (await press('a', 1), await press('d', 1));
        await press('a', 80);
    });
    await eventually('the beginning', async () => /^\+0\.?0* s to/.test(await windowOf(page)));
    await page.evaluate(() => document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'd', bubbles: true })));
    await eventually('a little later', async () => !/^\+0\.?0* s to/.test(await windowOf(page)));
    const words = await windowOf(page);
    await eventually('somebody who is given the address sees the same', async () => {
        const other = await open(t, page.url());
        await other.waitForSelector('.timeline canvas');
        const seen = await windowOf(other);
        await other.close();
        return seen === words;
    });
    assert.deepEqual(page.trouble, []);
});

test('one file holds it all, and asks nobody', { skip }, async (t) => {
    const html = path.join(folder, 'report.html');
    execFileSync(SONDE, ['report', '--html', html, trace], { stdio: 'ignore' });
    assert.ok(fs.statSync(html).size < 20 << 20);
    const page = await open(t, `file://${html}`), asked = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.reload();
    await page.waitForSelector('.ranked li');
    await page.locator('.detail table a').first().click();
    await page.waitForSelector('.waterfall tbody tr');
    await page.click('text=States of that time');
    await eventually('a picture', () => page.evaluate(() => document.querySelector('.timeline canvas')?.getContext('2d').getImageData(300, 110, 1, 1).data[3] > 0));
    assert.deepEqual(asked.filter((url) => !/^(data:,|blob:)/.test(url)).map((url) => url.split('#')[0]), [`file://${html}`]);
    assert.equal(await page.evaluate(() => fetch('https://example.invalid/').catch((e) => e.name)), 'TypeError', 'the policy forbids asking');
    assert.deepEqual(page.trouble.filter((text) => !/example\.invalid/.test(text)), []);
});

// A recording of tests/corpus, which stays as it is.
function corpus(name) {
    const at = path.join(folder, name);
    if (!fs.existsSync(at)) execFileSync(path.join(root, 'tools', 'corpus'), ['unpack', name, at], { stdio: 'ignore' });
    return at;
}

test('what was lost is hatched where it was lost', { skip }, async (t) => {
    const { address, json } = await serve(t, '--no-keep', corpus('losses')), { lost, from_ns, to_ns } = await json('s/0/report');
    assert.equal(lost.reduce((sum, l) => sum + l.count, 0), 18400);
    const [{ from_ns: from, to_ns: to, thread, reason }] = lost, { rows } = await json('s/0/rows');
    assert.equal(reason, 'ring-full');
    assert.ok(rows.some((row) => row.thread === thread));
    // The rows of the thread have the colour of losses within that time, and not before.
    const bad = /--bad: #(\w{6})/.exec(fs.readFileSync(path.join(root, 'web/src/style.css'), 'utf8'))[1];
    const hatched = async (a, b) => {
        const page = await open(t, `${address}#/states?from=${a - from_ns}&to=${b - from_ns}`);
        await shown(page, 'states', () => document.querySelector('.timeline canvas')?.width > 0);
        await page.click('summary:has-text("This window as a table")');
        await eventually('shares', async () => /\d %/.test(await page.locator('details table').innerText()));
        const told = (await page.locator('details table').innerText()).includes('18,400 events lost');
        const drawn = await page.evaluate((colour) => {
            const canvas = document.querySelector('.timeline canvas'), { data } = canvas.getContext('2d').getImageData(0, 80, canvas.width, canvas.height - 80);
            let n = 0;
            for (let at = 0; at < data.length; at += 4) n += Math.abs(data[at] - (colour >> 16)) + Math.abs(data[at + 1] - ((colour >> 8) & 255)) + Math.abs(data[at + 2] - (colour & 255)) < 24;
            return n;
        }, parseInt(bad, 16));
        await page.close();
        return [told, drawn > 100];
    };
    assert.deepEqual(await hatched(from, to), [true, true]);
    assert.deepEqual(await hatched(from_ns, from - 1e6), [false, false]);
    // The finding's link leads to the time in which they were lost.
    const page = await open(t, address), ends = [Math.min(...lost.map((l) => l.from_ns)), Math.max(...lost.map((l) => l.to_ns))];
    await page.click('.ranked a:has-text("of the events were lost")');
    await page.click('text=States of that time');
    await page.waitForSelector('.timeline canvas');
    const window = new URLSearchParams(page.url().split('?')[1]), reach = ends[1] - ends[0];
    assert.ok(Math.abs(Number(window.get('from')) - (ends[0] - from_ns)) <= 0.06 * reach + 2e6, page.url());
    assert.ok(Math.abs(Number(window.get('to') ?? to_ns - from_ns) - (ends[1] - from_ns)) <= 0.06 * reach + 2e6, page.url());
});

test('links stay with the source that is shown', { skip }, async (t) => {
    const { address } = await serve(t, '--no-keep', profile, corpus('losses')), page = await open(t, `${address}#/findings?s=1`);
    await page.waitForSelector('.badge.bad');
    const links = await page.locator('header nav a, .badges a, main a').evaluateAll((all) => all.map((a) => a.getAttribute('href')));
    assert.ok(links.length > 5);
    assert.deepEqual(links.filter((link) => new URLSearchParams(link.split('?')[1]).get('s') !== '1'), []);
    await page.click('.badge.bad');
    await shown(page, 'what is not known of the same recording', () => /18,400 ring full/.test(document.querySelector('.losses')?.textContent ?? ''));
    // The finding is not about requests: it has no figures of theirs.
    await page.click('.ranked a');
    await page.waitForSelector('.detail');
    assert.match(await page.locator('.facts').innerText(), /^18,400\nlost/);
    assert.doesNotMatch(await page.locator('.detail').innerText(), /suffered/);
});

test('functions that were sampled beside a recording are its profile', { skip }, async (t) => {
    const { address, json } = await serve(t, '--no-keep', corpus('samples')), { weight } = await json('s/0/profile');
    assert.ok(weight.reduce((sum, w) => sum + w, 0) > 0);
    const page = await open(t, `${address}#/profile`);
    await page.waitForSelector('.functions tbody tr');
    assert.deepEqual(page.trouble, []);
});

test('while a recording is read: what was found, how far it is, and an end to it', { skip }, async (t) => {
    const { address, json } = await serve(t, trace), all = await json('sources'), page = await browser.newPage();
    t.after(() => page.close());
    let cancelled = 0;
    await page.route('**/api/v1/sources', (route) => route.fulfill({ json: { ...all, sources: all.sources.map((s) => ({ ...s, state: cancelled ? 'cancelled' : 'reading', done_bytes: 4e6, total_bytes: 1e7, left_ns: 12e9 })) } }));
    await page.route('**/api/v1/s/0/job', (route) => (cancelled += route.request().method() === 'DELETE', route.fulfill({ status: 200 })));
    await page.goto(address);
    await page.waitForSelector('.ranked li');
    assert.equal(await page.locator('.ranked li').count(), report.findings.length);
    assert.match(await page.locator('.banner').innerText(), /4 MB of 10 MB, about 12 s left/);
    assert.equal(await page.locator('.banner progress').getAttribute('value'), '0.4');
    await page.click('.banner button');
    await eventually('it says so', async () => /cancelled at 40 %/.test(await page.locator('.banner').innerText()));
    assert.equal(cancelled, 1);
});

// A recording whose manifest is a pipe: it is still being read for as long as nobody writes there. write() lets it end.
function unfinished(t, name, from) {
    const slow = path.join(folder, name), manifest = path.join(slow, 'manifest.json');
    fs.cpSync(from, slow, { recursive: true });
    fs.rmSync(path.join(slow, 'view'), { recursive: true, force: true });
    fs.rmSync(manifest);
    execFileSync('mkfifo', [manifest]);
    return { slow, write: () => start(t, 'sh', ['-c', 'while cat "$0" > "$1"; do :; done', path.join(from, 'manifest.json'), manifest]) };
}

test('findings appear while a recording is read, and more when all of it was', { skip }, async (t) => {
    // The same three times, as of three hosts: findings are looked for after 65,536 events and after twice as many, of 182,625.
    const three = path.join(folder, 'three'), shop = corpus('shop-faults');
    for (const host of ['a', 'b', 'c']) fs.cpSync(path.join(shop, 'ctf'), path.join(three, host), { recursive: true });
    fs.cpSync(path.join(shop, 'manifest.json'), path.join(three, 'manifest.json'));
    const { slow, write } = unfinished(t, 'half', three), running = start(t, SONDE, ['serve', '--no-keep', '--listen', '127.0.0.1:0', slow]);
    const [, address] = await running.until(/the page is at (\S+\/)/), json = async (what) => (await fetch(`${address}api/v1/${what}`)).json();
    const page = await open(t, address);
    await page.waitForSelector('.ranked li');
    assert.match(await page.locator('.banner').innerText(), /^Reading half: [^]*Findings appear as they are found/);
    assert.match(await page.locator('.ranked').innerText(), /A regular expression blocked the event loop of orders for/);
    assert.equal((await json('sources')).sources[0].state, 'reading', 'its end is not there yet');
    const part = await json('s/0/report');
    assert.ok(part.endpoints.some((e) => e.count > 0));
    assert.ok(part.findings.some((f) => f.kind === 'blocking-regexp'));
    write();
    await eventually('it is read', async () => (await json('sources')).sources[0].state === 'ready');
    const all = await json('s/0/report');
    await eventually('the page shows all', async () => (await page.locator('.ranked li').count()) === all.findings.length && (await page.locator('.banner').count()) === 0);
    assert.deepEqual(page.trouble, []);
});

test('reading ends when it is cancelled', async (t) => {
    const { slow, write } = unfinished(t, 'slow', trace), running = start(t, SONDE, ['serve', '--no-keep', '--listen', '127.0.0.1:0', slow]);
    const [, address] = await running.until(/the page is at (\S+\/)/), state = async () => (await (await fetch(`${address}api/v1/sources`)).json()).sources[0].state;
    assert.equal(await state(), 'reading');
    assert.equal((await fetch(`${address}api/v1/s/0/job`, { method: 'DELETE' })).status, 200);
    write();
    await eventually('it has ended', async () => (await state()) !== 'reading');
    assert.equal(await state(), 'cancelled');
});

test('times beyond what JavaScript counts exactly stay exact', async (t) => {
    const esbuild = path.join(root, 'web', 'node_modules', 'esbuild', 'bin', 'esbuild'), made = path.join(folder, 'source.mjs');
    if (!fs.existsSync(esbuild)) return t.skip('npm packages of web/ are not installed');
    execFileSync(esbuild, [path.join(root, 'web', 'src', 'source.ts'), '--bundle', '--format=esm', `--outfile=${made}`, '--log-level=error']);
    globalThis.document = { querySelectorAll: () => [] };
    const { parseExactly, absolute } = await import(made);
    const start = 1_795_000_000_123_456_789n, parse = (text) => parseExactly('s/3/report', text);
    const { from_ns, to_ns, words, share, id } = parse(`{"from_ns":${start},"to_ns":${start + 7n},"words":"at ${start}, \\"${start}\\"","share":0.12345678901234567,"id":4711}`);
    assert.equal(to_ns - from_ns, 7);
    assert.deepEqual([words, share, id], [`at ${start}, "${start}"`, 0.12345678901234567, 4711]);
    assert.equal(parse(`{"start_ns":${start + 1n}}`).start_ns - from_ns, 1, 'the same moment in another document');
    assert.equal(absolute(3, String(from_ns + 3)), String(start + 3n));
    assert.equal(parseExactly('s/4/report', '{"from_ns":1058871063553}').from_ns, 1058871063553, 'those that are exact stay as they are');
});

const VIEWS = ['#/findings', '#/requests', '#/states', '#/profile?s=1', '#/findings/no.such.finding', '#/requests/1-1', '#/profile'];

// Of two colours (WCAG 2.1).
function contrast(...colours) {
    const channel = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [dark, light] = colours.map(([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255)).sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
}

// Which colours a recording shows is chance; that they can be read must not be.
test('every colour of text has enough contrast on every background', () => {
    const rgb = (hex) => {
        const long = hex.length === 4 ? [...hex.slice(1)].map((c) => c + c).join('') : hex.slice(1);
        return [0, 2, 4].map((at) => parseInt(long.slice(at, at + 2), 16));
    };
    const schemes = [...fs.readFileSync(path.join(root, 'web/src/style.css'), 'utf8').matchAll(/:root \{([^}]*)\}/g)].map(([, block]) => Object.fromEntries([...block.matchAll(/--([\w-]+): (#[0-9a-f]{3,6})\b/g)].map((m) => m.slice(1))));
    assert.equal(schemes.length, 2, 'one scheme for light and one for dark');
    for (const scheme of schemes)
        for (const front of ['text', 'dim', 'accent', 'bad', 'warn', 'good', 'http', 'js', 'v8', 'libuv', 'redis', 'kernel'])
            for (const back of ['back', 'panel', 'lane']) {
                const ratio = contrast(rgb(scheme[front]), rgb(scheme[back]));
                assert.ok(ratio >= 4.5, `${front} ${scheme[front]} on ${back} ${scheme[back]}: ${ratio.toFixed(2)}`);
            }
});

test('names in a graph of what changed can be read, however much changed', async (t) => {
    const esbuild = path.join(root, 'web', 'node_modules', 'esbuild', 'bin', 'esbuild'), made = path.join(folder, 'colour.mjs');
    if (!fs.existsSync(esbuild)) return t.skip('npm packages of web/ are not installed');
    execFileSync(esbuild, [path.join(root, 'web', 'src', 'colour.ts'), '--bundle', '--format=esm', `--outfile=${made}`, '--log-level=error']);
    const { changeColour, INK } = await import(made);
    for (let now = 0; now <= 200; now += 5) {
        const [, ...back] = /rgb\((\d+) (\d+) (\d+)/.exec(changeColour(now, 100, 100)).map(Number), ratio = contrast(INK, back);
        assert.ok(ratio >= 4.5, `${now} after 100: ${ratio.toFixed(2)}`);
    }
});

test('nothing overflows, and no view has a serious fault for anybody', { skip }, async (t) => {
    const { address } = await serve(t, trace, profile), slowest = (await (await fetch(`${address}api/v1/s/0/requests?limit=1`)).json()).rows[0].id;
    for (const colorScheme of ['light', 'dark'])
        for (const [width, zoom] of [[420, 1], [640, 2], [1280, 1], [2560, 1]]) { // 1,280 at 200 % is half as wide
            const page = await open(t, address, { colorScheme, viewport: { width, height: 900 / zoom }, deviceScaleFactor: zoom, bypassCSP: true });
            await page.addScriptTag({ path: axe });
            for (const view of [...VIEWS, `#/requests/${slowest}`]) {
                await page.evaluate((hash) => (location.hash = hash), view);
                await page.waitForSelector('main h1, main h2');
                await page.waitForLoadState('networkidle');
                if (view === '#/states') await page.click('summary:has-text("This window as a table")');
                assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), `${view} overflows at ${width}`);
                if (width === 2560 || zoom === 2) continue;
                const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
                assert.deepEqual(violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => [view, colorScheme, width, v.id, v.nodes[0].html, v.nodes[0].failureSummary]), []);
            }
            await page.close();
        }
});

test('empty places say why and what to do', { skip }, async (t) => {
    const { address } = await serve(t, trace, profile), text = async (hash) => {
        const page = await open(t, address + hash);
        await page.waitForSelector('.empty');
        const words = await page.locator('.empty').innerText();
        await page.close();
        return words;
    };
    assert.match(await text('#/findings?s=1'), /A profile has functions/);
    assert.match(await text('#/requests?s=1'), /sonde run/);
    assert.match(await text('#/states?s=1'), /sonde run/);
    assert.match(await text('#/profile'), /no profile[^]*sonde profile --trace/);
    assert.match(await text('#/requests?text=nonsense'), /None of the requests/);
    assert.match(await text('#/nowhere'), /no such view/);
    assert.match(await text('#/requests/0-0'), /is not here[^]*sonde spans --request/);
    // Beside a recording, and with nothing opened: how spans come here.
    const bare = await serve(t), page = await open(t, bare.address), spans = /Nothing can be decided yet[^]*OTEL_EXPORTER_OTLP_ENDPOINT=http:[^]*sonde diagnose FILE/;
    assert.match(await text('#/regressions'), spans);
    await page.waitForSelector('.empty');
    assert.match(await page.locator('.empty').innerText(), spans);
    assert.deepEqual(page.trouble, []);
});

test('a file that is too small for all holds the overview and the times of findings, and says so', { skip }, async (t) => {
    const html = path.join(folder, 'small.html'), run = spawnSync(SONDE, ['report', '--html', html, '--html-mb', '0.4', trace], { encoding: 'utf8' });
    assert.match(run.stderr, /(\d+) requests and tiles of states had no room in 0\.4 MB/);
    assert.ok(fs.statSync(html).size <= 400_000, `${fs.statSync(html).size} bytes`);
    const page = await open(t, `file://${html}`);
    await page.waitForSelector('.ranked li');
    assert.deepEqual(await page.locator('.ranked .title').allInnerTexts(), report.findings.map((f) => f.title));
    const link = await page.locator('.detail .more').getAttribute('href'), states = await open(t, `file://${html}${link}`), process = report.findings[0].where.process;
    assert.match(await states.locator('h1').innerText(), /has room for the overview and the times of findings only/);
    // The tiles of that time are in the file, as finely as this window asks for them.
    const documents = documentsOf(fs.readFileSync(html, 'utf8')), { rows, zoom } = JSON.parse(documents['s/0/rows']);
    const finest = Math.min(...Object.keys(documents).map((address) => Number(/tile\?z=(\d+).*page=/.exec(address)?.[1] ?? 99)));
    const query = new URLSearchParams(link.split('?')[1]), span = Number(query.get('to')) - Number(query.get('from') ?? 0);
    assert.ok(finest <= Math.floor(Math.log2(span / 1030)) + 1 && finest < zoom, `${finest} of ${zoom} for ${span} ns`);
    assert.ok(rows.some((row) => row.process === process));
    await states.fill('#search', String(process));
    await states.click('summary:has-text("This window as a table")');
    await eventually('what its process did', async () => /\d %/.test(await states.locator('details table').innerText()));
    // Elsewhere the next coarser tile is drawn.
    const whole = await open(t, `file://${html}#/states?from=0&to=1000000&q=${process}`);
    await whole.click('summary:has-text("This window as a table")');
    await eventually('something all the same', async () => /\d %/.test(await whole.locator('details table').innerText()));
    for (const p of [page, states, whole]) assert.deepEqual(p.trouble, []);
});

test('what was read is kept beside the recording and used as long as it fits', async (t) => {
    const first = await serve(t, trace), key = path.join(trace, 'view', 'key'), made = fs.statSync(key).mtimeMs;
    const before = await first.json('s/0/requests?limit=5');
    const second = await serve(t, trace);
    assert.equal(fs.statSync(key).mtimeMs, made, 'nothing was read again');
    assert.deepEqual(await second.json('s/0/requests?limit=5'), before);
    fs.appendFileSync(path.join(trace, 'view', 'requests'), 'damage');
    assert.deepEqual(await (await serve(t, trace)).json('s/0/requests?limit=5'), before, 'damaged, so it is read again');
    // A link in its place is not followed.
    const elsewhere = path.join(folder, 'elsewhere');
    fs.rmSync(path.join(trace, 'view'), { recursive: true });
    fs.mkdirSync(elsewhere);
    fs.symlinkSync(elsewhere, path.join(trace, 'view'));
    assert.deepEqual(await (await serve(t, trace)).json('s/0/requests?limit=5'), before);
    assert.deepEqual(fs.readdirSync(elsewhere), []);
    fs.unlinkSync(path.join(trace, 'view'));
});

test('addresses, parameters and the token', async (t) => {
    const token = path.join(folder, 'token');
    fs.writeFileSync(token, 'a-secret-of-a-token\n', { mode: 0o600 });
    const { address } = await serve(t, trace, profile), status = async (what, options) => (await fetch(address + what, options)).status;
    for (const bad of ['api/v1/s/9/report', 'api/v1/s/x/report', 'api/v1/s/0/nothing', 'api/v1/s/0/request?id=..%2f..', 'api/v1/s/1/rows/../../x', 'api/v1/s/0/tile?z=3&i=99999999999&page=0', 'api/v1/s/0/tile?z=30&page=77', '..%2f..%2fetc%2fpasswd'])
        assert.equal(await status(bad), 404, bad);
    for (const bad of ['requests?limit=x', 'requests?sort=sideways', 'requests?min_ns=-1', 'tile?z=99', 'tile', 'requests?offset=99999999999']) assert.equal(await status(`api/v1/s/0/${bad}`), 400, bad);
    assert.equal(await status('api/v1/s/0/report', { method: 'POST' }), 405);
    const answer = await fetch(`${address}api/v1/s/0/rows`), etag = answer.headers.get('etag');
    assert.equal(answer.headers.get('referrer-policy'), 'no-referrer');
    assert.equal(answer.headers.get('content-encoding'), 'gzip');
    assert.equal(await status('api/v1/s/0/rows', { headers: { 'If-None-Match': etag } }), 304);
    assert.match((await fetch(address)).headers.get('content-security-policy'), /default-src 'none'; script-src 'sha256-.*frame-ancestors 'none'/);
    const guarded = start(t, SONDE, ['serve', '--listen', '127.0.0.1:0', '--token-file', token, profile]);
    const [, base] = await guarded.until(/the page is at (http:\S+:\d+\/)/);
    assert.equal((await fetch(`${base}api/v1/sources`)).status, 401);
    assert.equal((await fetch(`${base}t/wrong/api/v1/sources`)).status, 401);
    assert.equal((await fetch(`${base}t/a-secret-of-a-token/api/v1/sources`)).status, 200);
    assert.equal((await fetch(`${base}t/a-secret-of-a-token/`)).status, 200);
});

test('a recording that cannot be read says so', { skip }, async (t) => {
    const empty = path.join(folder, 'empty');
    fs.mkdirSync(empty);
    const { address } = await serve(t, empty), page = await browser.newPage();
    t.after(() => page.close());
    await page.goto(address);
    assert.match(await page.locator('.banner').innerText(), /empty could not be read[^]*Name the directory/);
});

test('a file with fewer requests than there were says of how many', { skip }, async (t) => {
    const html = path.join(folder, 'part.html');
    execFileSync(SONDE, ['report', '--html', html, trace], { stdio: 'ignore' });
    const text = fs.readFileSync(html, 'utf8'), all = JSON.parse(documentsOf(text)['s/0/requests']);
    assert.equal(all.total, all.rows.length);
    const page = await open(t, `file://${html}#/requests`), status = () => page.locator('.filters [role=status]').innerText();
    await page.waitForSelector('table.requests tbody tr');
    assert.doesNotMatch(await status(), /of/);
    const fewer = zlib.gzipSync(JSON.stringify({ ...all, total: 54321, rows: all.rows.slice(0, 60) })).toString('base64');
    fs.writeFileSync(html, text.replace(/(data-part="s\/0\/requests">)[^<]*/, `$1${fewer}`));
    // And one in which not all that was wanted had room.
    fs.writeFileSync(html, fs.readFileSync(html, 'utf8').replace(/(data-part="file">)[^<]*/, `$1${zlib.gzipSync('{"schema":1,"left_out_count":9}').toString('base64')}`));
    await page.reload();
    await page.waitForSelector('table.requests tbody tr');
    const states = await open(t, `file://${html}#/states`);
    await eventually('it says so', async () => /has room for the overview and the times of findings only/.test(await states.locator('h1').innerText()));
    assert.equal(await status(), '60 requests here, of the slowest that this file holds of 54,321');
});

test('ten viewers at once get the same, and those who vanish are forgotten', async (t) => {
    const { address, json } = await serve(t, trace), { zoom } = await json('s/0/rows'), { port } = new URL(address);
    const look = async () => Promise.all(['s/0/report', 's/0/requests?limit=50', `s/0/tile?z=${zoom}&i=0&page=0`, `s/0/tile?z=${zoom - 2}&i=1&page=1`].map(async (what) => Buffer.from(await (await fetch(`${address}api/v1/${what}`)).arrayBuffer()).toString('base64')));
    const [first, ...others] = await Promise.all(Array.from({ length: 10 }, look));
    assert.ok(first.every((text) => text.length > 100));
    for (const other of others) assert.deepEqual(other, first);
    // Half of them ask and go before the answer, half say only the beginning of what they want.
    const sockets = await Promise.all(Array.from({ length: 200 }, (_, i) => new Promise((resolve, reject) => {
        const socket = net.connect(Number(port), '127.0.0.1', () => socket.write(`GET /api/v1/s/0/tile?z=${Math.max(0, zoom - (i % 8))}&i=0&page=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n${i % 2 ? '\r\n' : 'X-'}`, () => resolve(socket)));
        socket.on('error', reject);
    })));
    for (const socket of sockets) (socket.on('error', () => {}), socket.destroy());
    assert.deepEqual(await look(), first, 'it goes on answering');
    // Long before they would have been idle for too long.
    const connections = async () => Number(/^sonde_http_connections (\d+)$/m.exec(await (await fetch(`${address}metrics`)).text())[1]);
    const mine = 12; // at most those that fetch() keeps
    await eventually('those who vanished are forgotten', async () => (await connections()) <= mine, 20_000);
});

test('the decoder of tiles takes what is one and refuses what is not', async (t) => {
    const esbuild = path.join(root, 'web', 'node_modules', 'esbuild', 'bin', 'esbuild'), made = path.join(folder, 'tile.mjs');
    if (!fs.existsSync(esbuild)) return t.skip('npm packages of web/ are not installed');
    execFileSync(esbuild, [path.join(root, 'web', 'src', 'tile.ts'), '--bundle', '--format=esm', `--outfile=${made}`, '--log-level=error']);
    const { decode, paint, COLUMNS, ROWS } = await import(made), { address, json } = await serve(t, trace), { zoom, rows } = await json('s/0/rows');
    const tile = new Uint8Array(await (await fetch(`${address}api/v1/s/0/tile?z=${zoom}&i=0&page=0`)).arrayBuffer());
    assert.equal(decode(tile.buffer.slice(0)).rows, Math.min(ROWS, rows.length));
    let state = 1, taken = 0;
    const random = (n) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) % n;
    for (let round = 0; round < Number(process.env.SONDE_FUZZ_ROUNDS ?? 1500); round++) {
        const bytes = tile.slice(0, random(3) ? tile.length : random(tile.length));
        for (let changes = 1 + random(4); changes > 0 && bytes.length; changes--) bytes[random(4) ? random(Math.min(40, bytes.length)) : random(bytes.length)] = random(256);
        let decoded;
        try {
            decoded = decode(bytes.buffer);
        } catch (error) {
            assert.ok(error instanceof Error);
            continue;
        }
        taken++;
        assert.ok(decoded.rows <= ROWS && decoded.values.length === decoded.rows * COLUMNS && decoded.values.every((value) => value < decoded.table.length));
        if (round % 50 === 0) assert.equal(paint(decoded, []).length, 4 * decoded.rows * 5 * COLUMNS);
    }
    assert.ok(taken > 0, 'some changes do no harm');
});

test('a page above 60 KB is not built', (t) => {
    if (!fs.existsSync(path.join(root, 'web', 'node_modules', 'esbuild'))) return t.skip('npm packages of web/ are not installed');
    const web = path.join(folder, 'web'), made = path.join(folder, 'large.html');
    fs.mkdirSync(web);
    for (const name of ['build.mjs', 'package.json', 'tsconfig.json', 'src']) fs.cpSync(path.join(root, 'web', name), path.join(web, name), { recursive: true });
    fs.symlinkSync(path.join(root, 'web', 'node_modules'), path.join(web, 'node_modules'));
    fs.appendFileSync(path.join(web, 'src', 'main.tsx'), `\n(globalThis as any).large = '${crypto.randomBytes(30_000).toString('hex')}';\n`);
    const { status, stderr } = spawnSync(process.execPath, [path.join(web, 'build.mjs'), made], { encoding: 'utf8' });
    assert.equal(status, 1, stderr);
    assert.match(stderr, /has \d+ bytes compressed; at most 60000 are allowed/);
    assert.ok(!fs.existsSync(made));
});

test('the built page is what its sources make, and small', (t) => {
    if (!fs.existsSync(path.join(root, 'web', 'node_modules', 'esbuild'))) return t.skip('npm packages of web/ are not installed');
    const made = path.join(folder, 'page.html');
    execFileSync(process.execPath, [path.join(root, 'web', 'build.mjs'), made], { stdio: 'pipe' });
    assert.ok(fs.readFileSync(made).equals(fs.readFileSync(path.join(root, 'web', 'page.html'))), 'web/page.html is old: run `make page`');
    execFileSync(process.execPath, [path.join(root, 'web', 'node_modules', 'typescript', 'bin', 'tsc'), '--noEmit', '-p', path.join(root, 'web')], { stdio: 'pipe' });
});
