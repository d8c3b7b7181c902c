// The evidence page in a real browser: nothing is loaded from anywhere, nothing overflows or is too pale to read, and the
// pictures show what the numbers say, in light and in dark.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { finish, isRoot, SONDE, temporary } from './helper.mjs';
import { diskRequests } from './spans.mjs';

const BROWSER = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((file) => fs.existsSync(file));

// The story's page: version 42 creates disks one after another on generation 7.
async function evidence(t) {
    const folder = temporary(t), page = path.join(folder, 'evidence.html'), spans = path.join(folder, 'spans.json');
    const slow = (version, hardware) => version === '42' && hardware === 'gen7';
    fs.writeFileSync(spans, [diskRequests({ count: 1500, versions: ['41'] }), diskRequests({ from: 1500, count: 3000, versions: ['41', '42'], slow })].map((r) => JSON.stringify(r)).join('\n'));
    const { status, stderr } = await finish(t, SONDE, ['diagnose', '--bundle', page, '--gate', spans]);
    assert.equal(status, 10, stderr);
    return page;
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

test('the evidence page is whole and readable, in light and dark, wide and narrow', async (t) => {
    if (!BROWSER) return t.skip('chromium is not installed');
    const file = await evidence(t);
    const browser = await chromium.launch({ executablePath: BROWSER, args: isRoot ? ['--no-sandbox'] : [] });
    t.after(() => browser.close());
    for (const colorScheme of ['light', 'dark'])
        for (const width of [1100, 420]) {
            const page = await browser.newPage({ colorScheme, viewport: { width, height: 900 } }), trouble = [], loaded = [];
            page.on('console', (message) => trouble.push(message.text()));
            page.on('pageerror', (error) => trouble.push(String(error)));
            page.on('request', (request) => loaded.push(request.url()));
            await page.goto(`file://${file}`);
            assert.deepEqual(trouble, []);
            assert.deepEqual(loaded, [`file://${file}`], 'it needs nothing else');
            assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), `nothing overflows at ${width}`);
            const { contrast, text } = await page.evaluate(leastContrast);
            assert.ok(contrast >= 4.5, `"${text}" has a contrast of ${contrast.toFixed(1)} in ${colorScheme}`);
            await page.close();
        }
});

test('its pictures show what the numbers say', async (t) => {
    if (!BROWSER) return t.skip('chromium is not installed');
    const file = await evidence(t);
    const browser = await chromium.launch({ executablePath: BROWSER, args: isRoot ? ['--no-sandbox'] : [] });
    t.after(() => browser.close());
    const page = await browser.newPage({ viewport: { width: 1100, height: 900 } });
    await page.goto(`file://${file}`);
    const { findings } = JSON.parse(await page.evaluate(() => document.querySelector('#report').textContent));
    assert.equal(findings.length, 1);
    assert.equal(await page.locator('h1').innerText(), findings[0].title);

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
    const colours = await page.evaluate(() => ['older', 'newer'].map((side) => getComputedStyle(document.querySelector(`path.line.${side}`)).stroke));
    assert.notEqual(colours[0], colours[1]);

    const shaded = await page.locator('h2:has-text("Call-stack forest") ~ .wide').first().locator('tr.path td:first-child').allInnerTexts();
    assert.deepEqual(shaded.map((text) => text.trim()), ['agent POST /disks server', 'agent createDisk grew most']);

    const disks = (side) => page.evaluate((name) => {
        const rows = [...document.querySelector(`table.request.${name}`).rows].filter((row) => row.cells[0].textContent.includes('createDisk'));
        return rows.map((row) => { const box = row.querySelector('i').getBoundingClientRect(); return { left: box.left, right: box.right, solid: row.className === 'on' }; });
    }, side);
    const [older, newer] = [await disks('older'), await disks('newer')];
    assert.ok(older.length === 3 && older[1].left < older[0].right && older[2].left < older[0].right, 'at once before');
    assert.ok(newer.length === 3 && newer[1].left >= newer[0].right - 2 && newer[2].left >= newer[1].right - 2, 'one after another now');
    assert.equal(older.filter((disk) => disk.solid).length, 1, 'only the last of them was waited for');
    assert.equal(newer.filter((disk) => disk.solid).length, 3);

    const verdicts = await page.locator('h2:has-text("all buckets") + .wide tr').allInnerTexts();
    assert.equal(verdicts.filter((row) => /gen7[^]*\sslower\s*$/.test(row)).length, 1);
    assert.equal(verdicts.filter((row) => /gen[56][^]*not slower\s*$/.test(row)).length, 2);
});
