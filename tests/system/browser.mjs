// The browser in which the tests look at pages.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import { chromium } from 'playwright-core';
import { isRoot, PATIENCE_MS } from './helper.mjs';

export const BROWSER = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((file) => fs.existsSync(file));

// A browser whose pages wait as patiently for what must come as the tests do; its user closes it.
export async function openBrowser() {
    const browser = await chromium.launch({ timeout: PATIENCE_MS, executablePath: BROWSER, args: isRoot ? ['--no-sandbox'] : [] });
    const newPage = browser.newPage.bind(browser);
    browser.newPage = async (options) => {
        const page = await newPage(options);
        page.setDefaultTimeout(PATIENCE_MS);
        return page;
    };
    return browser;
}
