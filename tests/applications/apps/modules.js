// A server that calls one of modules/: TROUBLE is its name. /call gives it what makes its regular expression backtrack for some
// tenths of a second; healthy, a short text of the same form, to all of them.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http'), path = require('node:path');
const load = require('node:module').createRequire(path.join(__dirname, '..', 'modules', 'package.json'));
const { begin, ready, trouble } = require('./truth.js');

const spaces = (n) => ' '.repeat(n);
const quietly = (call) => {
    try {
        return call();
    } catch {
        return null; // what is no text of that kind is refused, in the end
    }
};

// How the module's users call it, with a text of n parts; n: enough to be felt.
const MODULES = {
    ajv: { n: 27, call: (used, n) => new used().validate({ format: 'url' }, `http://${'a'.repeat(n)}!`) },
    charset: { n: 20_000, call: (used, n) => used(`charset=${spaces(n)}!`) },
    content: { n: 24, call: (used, n) => used.type(`x/x${'; a=b'.repeat(n)}"`) },
    'content-type-parser': { n: 28_000, call: (used, n) => used(`a/${spaces(n)}\n`) },
    debug: { n: 28_000, call: (used, n) => used.formatters.o.call({ inspectOpts: { maxStringLength: null } }, `a${spaces(n)}b`) },
    'dns-sync': { n: 36, call: (used, n) => quietly(() => used.resolve(`${'a'.repeat(n)}-`)) },
    forwarded: { n: 32_000, call: (used, n) => used({ headers: { 'x-forwarded-for': `1${spaces(n)}2` }, connection: { remoteAddress: '::1' } }) },
    fresh: { n: 32_000, call: (used, n) => used({ 'if-none-match': `a${spaces(n)}b` }, { etag: 'x' }) },
    htmlparser: { n: 9000, call: (used, n) => new used.Parser(new used.DefaultHandler(() => {})).parseComplete(`<a ${'/'.repeat(n)}>`) },
    ismobilejs: { n: 6000, call: (used, n) => used('a'.repeat(n)) },
    lodash: { n: 30_000, call: (used, n) => used.trim(`a${spaces(n)}a`) },
    marked: { n: 1000, call: (used, n) => used(`\`${spaces(n)}b`) },
    mime: { n: 30_000, call: (used, n) => used.lookup('a'.repeat(n)) },
    'mobile-detect': { n: 6000, call: (used, n) => new used('Dell'.repeat(n)).phone() },
    moment: { n: 30_000, call: (used, n) => used('1'.repeat(n), 'MMM').isValid() },
    'no-case': { n: 20_000, call: (used, n) => used('A'.repeat(n)) },
    parsejson: { n: 28_000, call: (used, n) => quietly(() => used(`a${spaces(n)}b`)) },
    platform: { n: 18_000, call: (used, n) => used.parse(`Windows${spaces(n)}b`) },
    slug: { n: 28_000, call: (used, n) => used(`a${spaces(n)}b`) },
    string: { n: 28_000, call: (used, n) => used('&'.repeat(n)).unescapeHTML() },
    timespan: { n: 12_000, call: (used, n) => quietly(() => used.parseDate(`NOW-${'1'.repeat(n)}a`)) },
    'tough-cookie': { n: 28_000, call: (used, n) => used.Cookie.parse(`x${spaces(n)}y`) },
    'ua-parser-js': { n: 1400, call: (used, n) => new used(`android mi${spaces(n)}`).getDevice().model },
    'underscore.string': { n: 28_000, call: (used, n) => used.unescapeHTML('&'.repeat(n)) },
};
const HARMLESS = 3;

const names = trouble === 'healthy' ? Object.keys(MODULES) : [trouble], modules = names.map((name) => ({ ...MODULES[name], used: load(name) }));
let asked = 0;

function call() { // planted call
    const { used, call, n } = modules[asked++ % modules.length], end = begin('call');
    call(used, trouble === 'healthy' ? HARMLESS : n);
    end();
} // end call

const server = http.createServer((request, response) => {
    if (request.url === '/call') call();
    response.end('ok');
});
server.listen(0, '127.0.0.1', () => ready(server));
