// The view of regressions in a real browser, as one file and served: nothing is loaded from anywhere, nothing overflows or is
// too pale to read, and the pictures show what the numbers say, in light and in dark.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { BROWSER, openBrowser } from './browser.mjs';
import { documentsOf, eventually, finish, SONDE, start, temporary } from './helper.mjs';
import { makeRollout } from './rollouts.mjs';
import { diskRequests, post } from './spans.mjs';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

const skip = BROWSER ? false : 'chromium is not installed';

// The story: version 42 creates disks one after another on generation 7.
const slow = (version, hardware) => version === '42' && hardware === 'gen7';
const story = () => [diskRequests({ count: 1500, versions: ['41'] }), diskRequests({ from: 1500, count: 3000, versions: ['41', '42'], slow })];

// Its page as one file, and its spans.
async function evidence(t) {
    const folder = temporary(t), page = path.join(folder, 'evidence.html'), spans = path.join(folder, 'spans.json');
    fs.writeFileSync(spans, story().map((r) => JSON.stringify(r)).join('\n'));
    const { status, stderr } = await finish(t, SONDE, ['diagnose', '--bundle', page, '--gate', spans]);
    assert.equal(status, 10, stderr);
    return { page, spans };
}

async function launch(t) {
    const browser = await openBrowser();
    t.after(() => browser.close());
    return browser;
}

async function serve(t, ...args) {
    const running = start(t, SONDE, ['serve', '--listen', '127.0.0.1:0', ...args]);
    const [, address, port] = await running.until(/the page is at (http:\S+:(\d+)\/)/);
    return { address, port: Number(port), get: (what) => fetch(address + what) };
}

// Runs in the page. The contrast of every text with what lies behind it (WCAG 2.1), the least one.
function leastContrast() {
    const luminance = (rgb) => rgb.slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const numbers = (color) => color.match(/[\d.]+/g).map(Number);
    let least = { contrast: 21 };
    for (const element of document.querySelectorAll('body, body *')) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || element.closest('details')) continue;
        const style = getComputedStyle(element);
        let behind = element;
        while (behind.parentElement && numbers(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
        const [a, b] = [numbers(element instanceof SVGElement ? style.fill : style.color), numbers(getComputedStyle(behind).backgroundColor)].map(luminance);
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < least.contrast) least = { contrast, text: element.textContent.trim().slice(0, 40) };
    }
    return least;
}

test('the evidence as a file is whole and readable, in light and dark, wide and narrow', { skip }, async (t) => {
    const { page: file } = await evidence(t), browser = await launch(t);
    for (const colorScheme of ['light', 'dark'])
        for (const width of [2560, 1280, 420]) {
            const page = await browser.newPage({ colorScheme, viewport: { width, height: 900 }, bypassCSP: true }), trouble = [], loaded = [];
            page.on('console', (message) => trouble.push(message.text()));
            page.on('pageerror', (error) => trouble.push(String(error)));
            page.on('request', (request) => loaded.push(request.url()));
            await page.goto(`file://${file}`);
            await page.waitForSelector('.regression h2');
            assert.deepEqual(trouble, []);
            assert.deepEqual(loaded.filter((url) => !/^(data:,|blob:)/.test(url)), [`file://${file}`], 'it needs nothing else');
            assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), `nothing overflows at ${width}`);
            const { contrast, text } = await page.evaluate(leastContrast);
            assert.ok(contrast >= 4.5, `"${text}" has a contrast of ${contrast.toFixed(1)} in ${colorScheme}`);
            await page.addScriptTag({ path: axe });
            const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
            assert.deepEqual(violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => [colorScheme, width, v.id, v.nodes[0].html]), []);
            await page.close();
        }
});

test('its pictures show what the numbers say', { skip }, async (t) => {
    const { page: file } = await evidence(t), browser = await launch(t);
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(`file://${file}`);
    await page.waitForSelector('path.curve.newer');
    const { findings, report } = JSON.parse(documentsOf(fs.readFileSync(file, 'utf8')).regressions);
    assert.equal(findings.length, 1);
    assert.deepEqual(JSON.parse(await page.locator('#report').textContent()), report);
    assert.equal(report.findings[0].title, findings[0].title);
    assert.equal(await page.locator('.regression h2').innerText(), findings[0].title);
    assert.match(await page.locator('.regression .remedy').innerText(), /roll back to 41/);
    assert.doesNotMatch(await page.locator('main').innerText(), /e\+\d|NaN|undefined|Infinity/, 'words and figures for people');

    const peak = (side) => page.evaluate((name) => { // x of the curve's highest point
        const curve = document.querySelector(`path.curve.${name}`), end = curve.getTotalLength();
        let best = curve.getPointAtLength(0);
        for (let i = 0; i <= 400; i++) {
            const at = curve.getPointAtLength((end * i) / 400);
            if (at.y < best.y) best = at;
        }
        return best.x;
    }, side);
    assert.ok((await peak('newer')) > (await peak('older')) + 100, 'the newer distribution is further right');
    const [older, newer] = await page.evaluate(() => ['older', 'newer'].map((side) => { const style = getComputedStyle(document.querySelector(`path.line.${side}`)); return { colour: style.stroke, dashes: style.strokeDasharray }; }));
    assert.notEqual(older.colour, newer.colour);
    assert.notEqual(older.dashes, newer.dashes, 'and not by colour alone');

    assert.deepEqual((await page.locator('table.forest tr.on td:first-child').allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim()), ['agent POST /disks server', 'agent createDisk grew most']);
    const disks = (side) => page.evaluate((name) => {
        const rows = [...document.querySelector(`table.lanes.${name}`).tBodies[0].rows].filter((row) => row.cells[0].textContent.includes('createDisk'));
        return rows.map((row) => { const box = row.querySelector('i').getBoundingClientRect(); return { left: box.left, right: box.right, solid: getComputedStyle(row.querySelector('i')).opacity === '1' }; });
    }, side);
    const [before, now] = [await disks('older'), await disks('newer')];
    assert.ok(before.length === 3 && before[1].left < before[0].right && before[2].left < before[0].right, 'at once before');
    assert.ok(now.length === 3 && now[1].left >= now[0].right - 2 && now[2].left >= now[1].right - 2, 'one after another now');
    assert.equal(before.filter((disk) => disk.solid).length, 1, 'only the last of them was waited for');
    assert.equal(now.filter((disk) => disk.solid).length, 3);

    const verdicts = await page.locator('table.buckets tbody tr').allInnerTexts();
    assert.equal(verdicts.filter((row) => /gen7[^]*\sslower\s*$/.test(row) && !/not slower/.test(row)).length, 1);
    assert.equal(verdicts.filter((row) => /gen[56][^]*not slower\s*$/.test(row)).length, 2);
    await page.click('summary:has-text("How it was tested")');
    assert.match(await page.locator('table.tested').innerText(), /the same time[^]*Welch/);
});

test('a version that fails more often for a part of the requests is shown as that, not as a slow-down', { skip }, async (t) => {
    const folder = temporary(t), file = path.join(folder, 'evidence.html'), spans = path.join(folder, 'spans.json');
    makeRollout('errors of the new version in one region for one plan', 1, spans);
    const { status, stderr } = await finish(t, SONDE, ['diagnose', '--bundle', file, '--gate', spans]);
    assert.equal(status, 10, stderr);
    const { findings: [regression], report } = JSON.parse(documentsOf(fs.readFileSync(file, 'utf8')).regressions), { numbers } = regression, [finding] = report.findings;
    assert.equal(numbers.measure, 'errors');
    assert.ok(numbers.failing[1] > 2 * numbers.failing[0] && numbers.low > 1 && numbers.adjusted_p < 0.05, JSON.stringify(numbers));
    assert.equal(finding.evidence.ratio, numbers.ratio);
    assert.deepEqual([regression.changes, regression.rule, regression.causes.length], [[], null, 1], 'nothing is said of latency');
    assert.equal(finding.cost_ns, 0);
    assert.deepEqual(finding.affected.map(({ role }) => role), ['failed']);

    const browser = await launch(t), page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(`file://${file}`);
    await page.waitForSelector('.regression h2');
    assert.match((await page.locator('.regression .facts > div').first().innerText()).replace(/\s+/g, ' '), /^[\d.]+ % → [\d.]+ % of all requests fail, [\d.]+× as often/);
    assert.match(await page.locator('table.causes').innerText(), /region[^]*plan|plan[^]*region/);
    assert.match(await page.locator('table.buckets tr.on').innerText(), /fails more often\s*$/);
    assert.doesNotMatch(await page.locator('main').innerText(), /as long|slow-down/);
});

test('spans that are received, and files of spans that are named, are compared in the page', { skip }, async (t) => {
    const { spans } = await evidence(t), browser = await launch(t), page = await browser.newPage(), trouble = [];
    page.on('console', (message) => message.type() === 'error' && trouble.push(message.text()));
    page.on('pageerror', (error) => trouble.push(String(error)));
    const empty = await serve(t, '--idle-seconds', '0.1');
    await page.goto(empty.address);
    await page.waitForSelector('.empty');
    assert.match(await page.locator('.empty').innerText(), /Nothing can be decided yet[^]*OTEL_EXPORTER_OTLP_ENDPOINT=http/);
    for (const body of story()) assert.equal((await post(empty.port, JSON.stringify(body))).status, 200);
    await eventually('the regression is known', async () => (await (await empty.get('api/v1/regressions')).json()).findings.length === 1);
    await page.click('text=Compare anew');
    await page.waitForSelector('.regression h2');
    // The same from a file, under the same address; and as the page that is kept with a ticket.
    const named = await serve(t, spans), link = await page.locator('.ranked a').getAttribute('href');
    assert.equal((await (await named.get('api/v1/sources')).json()).regressions, true);
    await page.goto(`${named.address}${link}`);
    await page.waitForSelector('.regression h2');
    assert.equal(await page.locator('.ranked a[aria-current]').count(), 1);
    const kept = await named.get('evidence'), document = await (await named.get('api/v1/regressions')).json();
    assert.match(kept.headers.get('content-security-policy'), /connect-src 'none'/);
    assert.deepEqual(JSON.parse(documentsOf(await kept.text()).regressions), document);
    await page.goto(`${named.address}evidence`);
    await page.waitForSelector('.regression h2');
    assert.deepEqual(trouble, []);
});
