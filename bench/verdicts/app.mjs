// Writes one generated program: a service of several files with the faults of its scenario behind endpoints, on
// bare http, express or fastify, with callbacks or with promises. Names, places and sizes come from the chance that
// is passed in. What the program knows of its own faults (how long each took by its own clock) it keeps in memory and
// writes, when it is told to end, to a file outside of all that the analysis reads.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import path from 'node:path';
import { transformSync } from 'esbuild';

const compiled = (file) => file.replace(/\.ts$/, '.js');

export const FRAMEWORKS = ['http', 'express', 'fastify'];
export const STYLES = ['callback', 'promise'];

// A function as lines; its name and where it came to lie are filled in.
const filler = (chance) => {
    const name = chance.name(), a = chance.whole(2, 97), b = chance.whole(3, 29);
    return chance.pick([
        [`function ${name}(value) {`, `    return (value * ${a} + ${b}) % 1009;`, '}'],
        [`// Kept for older clients.`, `function ${name}(list) {`, `    return list.filter((entry) => entry.id !== ${a}).slice(0, ${b});`, '}'],
        [`function ${name}(text) {`, `    if (!text || text.length < ${b}) return text;`, `    return text.slice(0, ${a}) + '...';`, '}'],
        [`const ${name} = {`, `    limit: ${a * 10},`, `    retries: ${b},`, `};`],
    ]);
};

export class App {
    constructor(chance, { framework, style }) {
        Object.assign(this, { chance, framework, style });
        this.service = `${chance.word()}-${chance.word()}`;
        this.files = new Map(); // relative path -> { requires: Map(name -> module), functions: [] }
        this.routes = []; // { path, handler, file }
        this.env = {};
        this.flags = [];
        this.stalling = new Set(); // the notes of what runs on the loop's own thread
        this.countsPool = false; // all operations of the pool must be in the notes
        this.mainLines = []; // run before listening
        this.places = new Map(); // function name -> { file, first, last }
        this.book = `${chance.word()}.js`; // the program's own notes
        this.bookVariable = `${chance.word()}_${chance.word()}`.toUpperCase();
    }

    // language: js, or ts for TypeScript, which is compiled beside it.
    newFile(language = 'js') {
        const file = this.chance.pick([this.chance.word(), `lib/${this.chance.word()}`, `src/${this.chance.word()}/${this.chance.word()}`]) + `.${language}`;
        this.files.set(file, { requires: new Map(), functions: [] });
        return file;
    }

    require(file, name, module) {
        this.files.get(file).requires.set(name, module);
    }

    // lines[0] begins `function NAME` or `async function NAME`.
    addFunction(file, name, lines) {
        this.files.get(file).functions.push({ name, lines });
        return name;
    }

    addRoute(file, handler, route = this.chance.path()) {
        this.routes.push({ path: route, handler, file });
        return route;
    }

    // A handler in the scenario's style around the lines of a body. In them, `query` is the query string, and the
    // answer is given with `ANSWER(expression)`, in a callback too.
    addHandler(file, name, body) {
        const promise = this.style === 'promise';
        const lines = body.map((line) => '    ' + line.replace(/ANSWER\((.*)\);/, promise ? 'return $1;' : 'return done(null, $1);'));
        this.addFunction(file, name, [promise ? `async function ${name}(query) {` : `function ${name}(query, done) {`, ...lines, '}']);
        return this.addRoute(file, name);
    }

    // Something asynchronous before the rest of a handler, sometimes.
    pause(file) {
        if (this.style !== 'promise' || this.chance.next() < 0.5) return [];
        if (this.chance.next() < 0.5 || this.countsPool) return ['await new Promise((resolve) => setImmediate(resolve));'];
        this.require(file, 'fs', 'fs');
        return ['await fs.promises.stat(__filename);'];
    }

    text(file) {
        const { requires, functions } = this.files.get(file);
        const up = '../'.repeat(file.split('/').length - 1) || './';
        const lines = ["'use strict';"];
        for (const [name, module] of requires) lines.push(`const ${name} = require('${module.startsWith('@/') ? up + compiled(module.slice(2)) : module}');`);
        lines.push(`const { note, clock } = require('${up}${this.book}');`, '');
        if (file.endsWith('.ts')) lines.push(`interface ${this.chance.name()} {`, '    id: number;', '    name: string;', '    price?: number;', '}', '');
        for (const f of functions) {
            for (let i = this.chance.whole(0, 4); i > 0; i--) lines.push(...filler(this.chance), '');
            const first = lines.length + 1;
            lines.push(...f.lines, '');
            this.places.set(f.name, { file, first, last: first + f.lines.length - 1 });
        }
        lines.push(`module.exports = { ${functions.map((f) => f.name).filter((name) => /^[\w$]+$/.test(name)).join(', ')} };`, '');
        return lines.join('\n');
    }

    // [[file, text]]: JavaScript of it, as minified as it comes, with a source map in it or beside it.
    compile(file, text) {
        const inside = this.chance.next() < 0.5, name = path.basename(file), made = compiled(file);
        const { code, map } = transformSync(text, { loader: 'ts', sourcefile: name, sourcemap: inside ? 'inline' : 'external', minify: this.chance.next() < 0.5 });
        return inside ? [[made, code]] : [[made, `${code}//# sourceMappingURL=${path.basename(made)}.map\n`], [`${made}.map`, map]];
    }

    mainText() {
        const lines = ["'use strict';", `const book = require('./${this.book}');`];
        const glue = { http: this.glueHttp, express: this.glueExpress, fastify: this.glueFastify }[this.framework];
        lines.push(...new Set(this.routes.map((r) => `const { ${r.handler} } = require('./${compiled(r.file)}');`)), '');
        lines.push(...this.mainLines, ...glue.call(this), '', "process.on('SIGTERM', () => {", '    book.save();', '    process.exit(0);', '});', '');
        return lines.join('\n');
    }

    listening(expression) {
        return `(book.serving(), console.log(\`listening \${${expression}.port} \${process.pid}\`))`;
    }

    glueHttp() {
        const call = this.style === 'promise'
            ? ['    handler(url.searchParams).then((body) => res.end(body), (error) => {', '        res.statusCode = 500;', '        res.end(String(error));', '    });']
            : ['    handler(url.searchParams, (error, body) => {', '        res.statusCode = error ? 500 : 200;', '        res.end(error ? String(error) : body);', '    });'];
        return ["const http = require('http');", 'const routes = new Map([', ...this.routes.map((r) => `    ['${r.path}', ${r.handler}],`), ']);',
            'const server = http.createServer((req, res) => {', "    const url = new URL(req.url, 'http://localhost');", '    const handler = routes.get(url.pathname);',
            '    if (!handler) {', '        res.statusCode = 404;', '        return res.end();', '    }', ...call, '});',
            `server.listen(0, '127.0.0.1', () => ${this.listening('server.address()')});`];
    }

    glueExpress() {
        const call = (r) => this.style === 'promise'
            ? [`app.get('${r.path}', (req, res, next) => {`, `    ${r.handler}(new URLSearchParams(req.query)).then((body) => res.send(body), next);`, '});']
            : [`app.get('${r.path}', (req, res, next) => {`, `    ${r.handler}(new URLSearchParams(req.query), (error, body) => (error ? next(error) : res.send(body)));`, '});'];
        return ["const express = require('express');", 'const app = express();', "app.disable('etag');", ...this.routes.flatMap(call),
            `const server = app.listen(0, '127.0.0.1', () => ${this.listening('server.address()')});`];
    }

    glueFastify() {
        const call = (r) => this.style === 'promise'
            ? [`app.get('${r.path}', async (request) => ${r.handler}(new URLSearchParams(request.query)));`]
            : [`app.get('${r.path}', (request, reply) => {`, `    ${r.handler}(new URLSearchParams(request.query), (error, body) => reply.send(error || body));`, '});'];
        return ["const app = require('fastify')();", ...this.routes.flatMap(call),
            `app.listen({ port: 0, host: '127.0.0.1' }).then(() => ${this.listening('app.server.address()')});`];
    }

    bookText() {
        return ["'use strict';", "const fs = require('fs');", "const { PerformanceObserver } = require('perf_hooks');", 'const lines = [];', 'let gcMs = 0, sinceMs = Infinity;', '// Collections since there are requests.',
            'const serving = () => (sinceMs = performance.now());',
            "new PerformanceObserver((list) => list.getEntries().forEach((entry) => (gcMs += entry.startTime > sinceMs ? entry.duration : 0))).observe({ entryTypes: ['gc'] });",
            '// With the processor time of it, which tells of what ran from clock() to note() without anything in between.', 'let before = null, began = 0n;',
            'const clock = () => ((before = process.cpuUsage()), (began = process.hrtime.bigint()));',
            'const note = (what, since, until = process.hrtime.bigint()) => {', '    const { user, system } = since === began ? process.cpuUsage(before) : { user: 0, system: 0 };', '    lines.push([what, Number(since), Number(until), (user + system) * 1000]);', '};',
            `const save = () => fs.writeFileSync(process.env.${this.bookVariable}, JSON.stringify({ lines, gcMs }));`, 'module.exports = { clock, note, save, serving };', ''].join('\n');
    }

    // Writes it all below folder, which can see the packages of modules.
    write(folder, modules) {
        const write = (file, text) => {
            fs.mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
            fs.writeFileSync(path.join(folder, file), text);
        };
        this.main = `${this.chance.pick(['server', 'index', 'app', 'main'])}.js`;
        for (const file of this.files.keys()) {
            const text = this.text(file);
            write(file, text);
            if (file.endsWith('.ts')) for (const [name, made] of this.compile(file, text)) write(name, made);
        }
        write(this.book, this.bookText());
        write(this.main, this.mainText());
        write('package.json', JSON.stringify({ name: this.service, version: '1.0.0', private: true }));
        fs.symlinkSync(modules, path.join(folder, 'node_modules'));
    }
}
