// Renders pages from templates, and reads a file now and then.
// SPDX-License-Identifier: Apache-2.0
const fs = require('node:fs');

class Page {
    constructor(rows) {
        this.rows = rows;
    }
    row(i) {
        return `<tr><td>${i}</td><td>${JSON.stringify({ id: i, name: 'x'.repeat(i % 40) })}</td></tr>`;
    }
    render() {
        let html = '';
        for (let i = 0; i < this.rows; i++) html += this.row(i);
        return html.replace(/<td>(\d+)<\/td>/g, '<th>$1</th>').length;
    }
}
const end = Date.now() + 1000 * (process.argv[2] || 10);
function serve() {
    new Page(200 + Math.floor(2000 * Math.random())).render();
    fs.readFile(__filename, () => {
        if (Date.now() < end) setImmediate(serve);
    });
}
serve();
