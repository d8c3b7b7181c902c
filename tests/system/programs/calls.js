// Makes system calls whose numbers are known, synchronously and on the thread pool, and then waits for a line on its
// standard input (or its end) when asked to.   calls.js FOLDER COUNT [wait]
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('fs');
const path = require('path');
const [folder, countText, wait] = process.argv.slice(2);
const count = Number(countText), at = (name) => path.join(folder, name);

async function main() {
    for (let i = 0; i < count; i++) {
        const file = at(`file-${i}`);
        fs.writeFileSync(file, 'x'.repeat(1 + (i % 7)));
        fs.renameSync(file, `${file}-moved`);
        fs.truncateSync(`${file}-moved`, 1);
        fs.linkSync(`${file}-moved`, file);
        if (i % 3 === 0) fs.symlinkSync(file, `${file}-link`);
    }
    await Promise.all(Array.from({ length: count }, async (_, i) => {
        await fs.promises.mkdir(at(`folder-${i}`));
        await fs.promises.rmdir(at(`folder-${i}`));
        const file = await fs.promises.open(at(`file-${i}`), 'r+');
        await file.write('y', 0);
        await file.sync();
        await file.close();
    }));
    for (let i = 0; i < count; i++) {
        try {
            fs.rmdirSync(at('is-not-there'));
        } catch {}
    }
    console.log('done');
    if (!wait) return;
    process.stdin.resume().on('data', () => process.exit(0)).on('end', () => process.exit(0));
}
main();
