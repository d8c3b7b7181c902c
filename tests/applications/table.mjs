// The applications and what is planted in them: one row per application and trouble. `node run.mjs` runs them, and
// tests/system/applications.test.mjs the quickest.
//   program   below apps/; built (build.mjs) where it is TypeScript
//   store     what it asks: postgres, mariadb, redis, memcached, rabbitmq, nats, upstream
//   load      requests at once: path (or event, of socket.io), clients that ask one after the other, how often each, pause between,
//             patience: milliseconds after which they close the connection
//   last      a path that is asked for after the load: what came before has been read then
//   expected  findings: kind; at: "file name", between the comments `planted name` and `end name`; called; text: of the finding;
//             module, line: in place of `at`: of modules/, and what its line has
//             victims: routes that suffered; amount: [evidence, name in the program's own book, its field], within 15 %
//             evidence: values that it must have, or functions that accept them
//   answers   other than 200, as they are planted
//   also      kinds of warnings that are true besides
// Without `expected` it is healthy, and nothing may be warned of.
// SPDX-License-Identifier: Apache-2.0

const QUICK = { path: '/quick', clients: 2, count: 50, pause: 20 };
const healthy = (application, load, more = {}) => ({ application, trouble: 'healthy', load, ...more });

// The modules of "Freezing the Web" (USENIX Security 2018), on which Node Compass was tried, and the line of each whose regular
// expression backtracks.
const MODULES = {
    'ajv': 'var valid = v(data)',
    'charset': 'CHARTSET_RE.exec(contentType)',
    'content': 'header.match(internals.contentTypeRegex)',
    'content-type-parser': 'contentTypeRegexp.exec(contentType)',
    'debug': '.replace(/\\s*\\n\\s*/g',
    'dns-sync': 'ValidHostnameRegex.test(hostname)',
    'forwarded': '.split(/ *, */)',
    'fresh': 'noneMatch.split(TOKEN_LIST_REGEXP)',
    'htmlparser': 'Parser._reAttrib.exec(attribRaw)',
    'ismobilejs': 'regex.test(userAgent)',
    'lodash': 'string.replace(reTrim',
    'marked': 'this.rules.code.exec(src)',
    'mime': 'path.replace(/.*[\\.\\/\\\\]/',
    'mobile-detect': 'rules[key].test(userAgent)',
    'moment': 'string.match(getParseRegexForToken(token, config))',
    'no-case': '.replace(CAMEL_CASE_UPPER_REGEXP',
    'parsejson': "data.replace(rtrimLeft, '').replace(rtrimRight",
    'platform': '.replace(/(?: BePC|[ .]*fc[ \\d.]+)$/i',
    'slug': 'result.replace(/^\\s+|\\s+$/g',
    'string': 'this.s.replace(/\\&([^;]+);/g',
    'timespan': 'modifier.match(parsers[name].exp)',
    'tough-cookie': 'pairRe.exec(',
    'ua-parser-js': 'regex[j++].exec(ua)',
    'underscore.string': 'replace(/\\&([^;]+);/g',
};
// These two are quick. Which of several patterns at that line a sample meets is not said.
const MODULES_QUICK = ['charset', 'no-case'], MODULES_OF_MANY_PATTERNS = ['ismobilejs', 'platform', 'timespan'];

export const ROWS = [
    healthy('modules', [QUICK, { path: '/call', clients: 1, count: 48, pause: 10 }]),
    ...Object.entries(MODULES).map(([module, line]) => ({ application: 'modules', trouble: module, quick: MODULES_QUICK.includes(module), load: [QUICK, { path: '/call', clients: 1, count: 4, pause: 50 }],
        expected: [{ kind: 'blocking-regexp', module, line, victims: ['/call', '/quick'], ...(MODULES_OF_MANY_PATTERNS.includes(module) ? {} : { amount: ['cpu_ns', 'call', 'cpu_ns'] }) }],
        also: MODULES_OF_MANY_PATTERNS.includes(module) ? ['blocking-regexp'] : [] })),

    healthy('express', [QUICK, { path: '/file', clients: 2, count: 20, pause: 20 }, { path: '/catalogue', clients: 2, count: 20, pause: 20 }, { path: '/name/anna', clients: 1, count: 20, pause: 20 }], { quick: true }),
    { application: 'express', trouble: 'readfile', load: [QUICK, { path: '/file', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'express.js readfile', called: /readFileSync/, victims: ['/file', '/quick'], amount: ['cpu_ns', 'readfile', 'cpu_ns'] }], also: ['gc-pressure'] },
    { application: 'express', trouble: 'regexp', load: [QUICK, { path: '/name/anna', clients: 1, count: 4, pause: 50 }],
        expected: [{ kind: 'blocking-regexp', at: 'express.js regexp', text: /\(\\\\w\+\\\\s\?\)\*/, victims: ['/quick'], amount: ['cpu_ns', 'regexp', 'cpu_ns'] }] },
    { application: 'express', trouble: 'json', load: [QUICK, { path: '/catalogue', clients: 1, count: 8, pause: 30 }],
        expected: [{ kinds: ['event-loop-blocked', 'serialisation'], at: 'express.js json', called: /JSON\.stringify/, victims: ['/catalogue', '/quick'] }], also: ['gc-pressure'] },

    healthy('fastify', [{ path: '/login', clients: 2, count: 20, pause: 20 }, { path: '/page', clients: 2, count: 20, pause: 20 }]),
    { application: 'fastify', trouble: 'hash', load: [{ path: '/login', clients: 1, count: 8, pause: 30 }, { path: '/page', clients: 2, count: 20, pause: 20 }],
        expected: [{ kind: 'event-loop-blocked', at: 'fastify.js hash', called: /pbkdf2Sync/, victims: ['/login', '/page'], amount: ['cpu_ns', 'hash', 'cpu_ns'] }] },
    { application: 'fastify', trouble: 'pool', load: [{ path: '/login', clients: 8, count: 4, pause: 0 }, { path: '/page', clients: 1, count: 6, pause: 50 }],
        expected: [{ kind: 'thread-pool-starved', text: /PBKDF2|pbkdf2/, victims: ['/page', '/login'] }] },

    healthy('koa-piscina', [{ path: '/work', clients: 1, count: 30, pause: 100 }], { quick: true }),
    { application: 'koa-piscina', trouble: 'starved', quick: true, load: [{ path: '/work', clients: 10, count: 4, pause: 0 }, QUICK],
        expected: [{ kind: 'worker-pool-starved', lanes: 2, text: /2 worker/, victims: ['/work'], amount: ['waited_ns', 'task', (book) => book.task.ns - book.task.count * 100e6] }] },
    { application: 'koa-piscina', trouble: 'inline', load: [{ path: '/work', clients: 1, count: 6, pause: 30 }, QUICK],
        expected: [{ kind: 'event-loop-blocked', at: 'koa-piscina.js inline', victims: ['/work', '/quick'], amount: ['cpu_ns', 'inline', 'cpu_ns'] }] },

    healthy('nest', [QUICK, { path: '/price', clients: 1, count: 20, pause: 20 }, { path: '/orders', clients: 1, count: 20, pause: 20 }]),
    { application: 'nest', trouble: 'price', quick: true, load: [QUICK, { path: '/price', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'nest/src/app.service.ts price', victims: ['/price', '/quick'], amount: ['cpu_ns', 'price', 'cpu_ns'] }] },
    { application: 'nest', trouble: 'orders', load: [QUICK, { path: '/orders', clients: 1, count: 10, pause: 30 }],
        expected: [{ kinds: ['event-loop-blocked', 'serialisation'], at: 'nest/src/app.controller.ts orders', victims: ['/orders', '/quick'] }], also: ['gc-pressure'] },

    ...['tsx', 'esbuild'].flatMap((application) => [
        healthy(application, [{ path: '/score', clients: 1, count: 20, pause: 20 }, { path: '/list', clients: 1, count: 20, pause: 20 }]),
        { application, trouble: 'score', load: [{ path: '/score', clients: 1, count: 8, pause: 30 }, { path: '/none', clients: 2, count: 20, pause: 20 }],
            expected: [{ kind: 'event-loop-blocked', at: 'bundle.ts score', victims: ['/score', '/none'], amount: ['cpu_ns', 'score', 'cpu_ns'] }] },
        { application, trouble: 'list', load: [{ path: '/list', clients: 1, count: 4, pause: 30 }, { path: '/none', clients: 2, count: 20, pause: 20 }],
            expected: [{ kind: 'blocking-regexp', at: 'bundle.ts list', victims: ['/list', '/none'], amount: ['cpu_ns', 'list', 'cpu_ns'] }] },
    ]),

    ...[['pg', 'postgres', 2, 0.3], ['mysql2', 'mariadb', 3, 0.25]].flatMap(([application, store, lanes]) => [
        healthy(application, [{ path: '/slowq', clients: 2, count: 20, pause: 10 }, { path: '/fastq', clients: 2, count: 20, pause: 10 }, ...(application === 'pg' ? [{ path: '/orders', clients: 1, count: 10, pause: 10 }] : [])], { store }),
        { application, store, trouble: 'starved', quick: application === 'pg', load: [{ path: '/slowq', clients: 6, count: 4, pause: 0 }, { path: '/fastq', clients: 6, count: 4, pause: 0 }],
            expected: [{ kind: 'connection-pool-starved', lanes, peer: true, victims: ['/slowq', '/fastq'], amount: ['waited_ns', 'wait', 'ns'] }], also: ['slow-peer'] },
        { application, store, trouble: 'slow', load: [{ path: '/slowq', clients: 2, count: 5, pause: 10 }, { path: '/fastq', clients: 2, count: 20, pause: 10 }],
            expected: [{ kind: 'slow-peer', peer: true, victims: ['/slowq'], amount: ['waited_ns', 'slowq', 'ns'] }] },
    ]),

    { application: 'pg', store: 'postgres', trouble: 'rows', load: [{ path: '/orders', clients: 1, count: 4, pause: 10 }, { path: '/fastq', clients: 1, count: 20, pause: 10 }],
        expected: [{ kind: 'many-calls', peer: true, victims: ['/orders'], evidence: { endpoint: 'GET /orders', requests_count: (n) => n >= 2 && n <= 4, most_count: (n) => n >= 40 && n <= 42, waited_ns: (ns) => ns >= 2 * 40 * 5e6 } }] },

    healthy('libsql', [QUICK, { path: '/best', clients: 1, count: 20, pause: 20 }, { path: '/rank', clients: 1, count: 20, pause: 20 }]),
    { application: 'libsql', trouble: 'statement', load: [QUICK, { path: '/best', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'libsql.js statement', called: /get of libsql/, victims: ['/best', '/quick'], amount: ['cpu_ns', 'statement', 'cpu_ns'] }] },
    { application: 'libsql', trouble: 'rank', load: [QUICK, { path: '/rank', clients: 1, count: 5, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'libsql.js rank', victims: ['/rank', '/quick'], amount: ['cpu_ns', 'rank', 'cpu_ns'] }] },

    healthy('ioredis', [{ path: '/item', clients: 4, count: 30, pause: 10 }, { path: '/report', clients: 1, count: 20, pause: 10 }], { store: 'redis' }),
    { application: 'ioredis', store: 'redis', trouble: 'keys', load: [{ path: '/item', clients: 4, count: 40, pause: 5 }, { path: '/report', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'redis-slow-command', text: /"command":"KEYS"/, victims: ['/report', '/item'] }] },
    { application: 'ioredis', store: 'redis', trouble: 'script', load: [{ path: '/item', clients: 4, count: 40, pause: 5 }, { path: '/report', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'redis-slow-command', text: /"command":"EVAL"/, victims: ['/report', '/item'] }] },

    healthy('memcached', [{ path: '/item', clients: 4, count: 30, pause: 10 }, { path: '/rank', clients: 1, count: 20, pause: 10 }], { store: 'memcached' }),
    { application: 'memcached', store: 'memcached', trouble: 'stopped', quick: true, load: [{ path: '/item', clients: 2, count: 20, pause: 10 }, { path: '/item?stop=1', clients: 1, count: 4, pause: 400 }],
        expected: [{ kind: 'slow-peer', peer: true, victims: ['/item'], text: /"call":"get"/ }] },
    { application: 'memcached', store: 'memcached', trouble: 'rank', load: [{ path: '/item', clients: 2, count: 30, pause: 10 }, { path: '/rank', clients: 1, count: 6, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'memcached.js rank', victims: ['/rank', '/item'], amount: ['cpu_ns', 'rank', 'cpu_ns'] }] },

    healthy('axios', [QUICK, { path: '/price', clients: 4, count: 20, pause: 10 }], { store: 'upstream' }),
    { application: 'axios', store: 'upstream', trouble: 'sockets', load: [QUICK, { path: '/price', clients: 8, count: 5, pause: 0 }],
        expected: [{ kind: 'connection-pool-starved', lanes: 2, peer: true, victims: ['/price'], amount: ['waited_ns', 'price', (book) => book.price.ns - book.price.count * 100e6] }], also: ['slow-peer'] },
    { application: 'axios', store: 'upstream', trouble: 'slow', load: [QUICK, { path: '/price', clients: 2, count: 5, pause: 10 }],
        expected: [{ kind: 'slow-peer', peer: true, victims: ['/price'], amount: ['waited_ns', 'price', 'ns'] }] },

    healthy('undici', [QUICK, { path: '/price', clients: 4, count: 20, pause: 10 }], { store: 'upstream' }),
    { application: 'undici', store: 'upstream', trouble: 'pool', load: [QUICK, { path: '/price', clients: 8, count: 5, pause: 0 }],
        expected: [{ kind: 'connection-pool-starved', lanes: 2, peer: true, victims: ['/price'], amount: ['waited_ns', 'price', (book) => book.price.ns - book.price.count * 100e6] }], also: ['slow-peer'] },
    { application: 'undici', store: 'upstream', trouble: 'slow', load: [QUICK, { path: '/price', clients: 2, count: 5, pause: 10 }],
        expected: [{ kind: 'slow-peer', peer: true, victims: ['/price'], amount: ['waited_ns', 'price', 'ns'] }] },

    healthy('got', [QUICK, { path: '/price', clients: 4, count: 20, pause: 10 }], { store: 'upstream' }),
    { application: 'got', store: 'upstream', trouble: 'sockets', load: [QUICK, { path: '/price', clients: 9, count: 5, pause: 0 }],
        expected: [{ kind: 'connection-pool-starved', lanes: 3, peer: true, victims: ['/price'], amount: ['waited_ns', 'price', (book) => book.price.ns - book.price.count * 120e6] }], also: ['slow-peer'] },
    { application: 'got', store: 'upstream', trouble: 'retries', answers: [502], load: [QUICK, { path: '/price', clients: 2, count: 5, pause: 10 }],
        expected: [{ kind: 'retry-storm', peer: true, victims: ['/price'], evidence: { most_count: 4 } }, { kind: 'server-errors', peer: true, evidence: { errors_count: 10 } }] },

    healthy('socketio', [{ event: 'hello', clients: 2, count: 40, pause: 10 }, { event: 'name', clients: 1, count: 20, pause: 20 }, { event: 'rank', clients: 1, count: 20, pause: 20 }]),
    { application: 'socketio', trouble: 'rank', load: [{ event: 'hello', clients: 2, count: 40, pause: 10 }, { event: 'rank', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'socketio.js rank', amount: ['cpu_ns', 'rank', 'cpu_ns'] }] },
    { application: 'socketio', trouble: 'name', load: [{ event: 'hello', clients: 2, count: 40, pause: 10 }, { event: 'name', clients: 1, count: 4, pause: 50 }],
        expected: [{ kind: 'blocking-regexp', at: 'socketio.js name', amount: ['cpu_ns', 'name', 'cpu_ns'] }] },

    healthy('bullmq', [{ path: '/job/work', clients: 2, count: 20, pause: 10 }, { path: '/job/count', clients: 1, count: 20, pause: 20 }, { path: '/size', clients: 2, count: 30, pause: 10 }], { store: 'redis' }),
    { application: 'bullmq', store: 'redis', trouble: 'job', load: [{ path: '/job/work', clients: 1, count: 8, pause: 30 }, { path: '/size', clients: 2, count: 40, pause: 10 }],
        expected: [{ kind: 'event-loop-blocked', at: 'bullmq.js job', victims: ['/size'], amount: ['cpu_ns', 'job', 'cpu_ns'] }] },
    ...['full', 'calls'].map((trouble) => ({ application: 'bullmq', store: 'redis', trouble, quick: trouble === 'full', load: [{ path: '/job/queued', clients: 6, count: 4, pause: 0 }, { path: '/size', clients: 1, count: 40, pause: 10 }],
        expected: [{ kind: 'consumers-busy', peer: true, victims: ['/job/queued'], evidence: { places_count: 2, consumers_count: 1 }, text: trouble === 'calls' ? /waited for 127\.0\.0\.1:\d+ for \d+ %/ : /no call to another address/, amount: ['waited_ns', 'held', (book) => book['job queued'].ns - book.held.ns] }] })),
    { application: 'bullmq', store: 'redis', trouble: 'keys', load: [{ path: '/job/count', clients: 1, count: 8, pause: 30 }, { path: '/size', clients: 2, count: 40, pause: 10 }],
        expected: [{ kind: 'redis-slow-command', text: /"command":"KEYS"/, victims: ['/size'] }] },

    healthy('cluster', [QUICK, { path: '/score', clients: 1, count: 20, pause: 20 }, { path: '/basket', clients: 1, count: 20, pause: 20 }]),
    { application: 'cluster', trouble: 'score', load: [{ path: '/score', clients: 1, count: 8, pause: 30 }, { path: '/quick', clients: 4, count: 40, pause: 10 }],
        expected: [{ kind: 'event-loop-blocked', at: 'cluster.js score', victims: ['/score', '/quick'], amount: ['cpu_ns', 'score', 'cpu_ns'] }] },
    { application: 'cluster', trouble: 'exits', answers: ['ECONNRESET', 'ECONNREFUSED'], load: [{ path: '/basket', clients: 1, count: 1, pause: 0 }, { path: '/quick', clients: 1, count: 10, pause: 10 }],
        expected: [{ kind: 'server-exited', victims: ['/basket'], evidence: { exit_status: '1' } }] },

    healthy('failing', [QUICK, { path: '/price', clients: 2, count: 20, pause: 10 }, { path: '/basket', clients: 2, count: 20, pause: 10 }], { store: 'upstream' }),
    { application: 'failing', store: 'upstream', trouble: 'refused', quick: true, answers: [502], load: [QUICK, { path: '/price', clients: 2, count: 5, pause: 10 }],
        expected: [{ kind: 'server-errors', victims: ['/price'], text: /connecting to 127\.0\.0\.1:\d+ failed: connection refused/, evidence: { endpoint: 'GET /price', status: '502', errors_count: 10, requests_count: 10 } }] },
    { application: 'failing', store: 'upstream', trouble: 'errors', answers: [502], load: [QUICK, { path: '/price', clients: 2, count: 5, pause: 10 }],
        expected: [{ kind: 'server-errors', peer: true, victims: ['/price'], text: /answered GET \/status\/:id with 503/, evidence: { endpoint: 'GET /price', status: '502', errors_count: 10 } }] },
    { application: 'failing', store: 'upstream', trouble: 'silent', answers: [502], load: [QUICK, { path: '/price', clients: 2, count: 3, pause: 10 }],
        expected: [{ kind: 'server-errors', peer: true, victims: ['/price'], text: /given up without an answer/, evidence: { endpoint: 'GET /price', status: '502', errors_count: 6 }, amount: ['delay_ns', 'price', 'ns'] }] },
    { application: 'failing', store: 'upstream', trouble: 'impatient', answers: ['TOO LATE'], last: '/quick', load: [QUICK, { path: '/price', clients: 2, count: 3, pause: 10, patience: 700 }],
        expected: [{ kind: 'clients-gave-up', peer: true, victims: ['/price'], evidence: { endpoint: 'GET /price', requests_count: 6, worst_ns: (ns) => ns >= 0.69e9 } }], also: ['slow-peer'] },
    { application: 'failing', store: 'upstream', trouble: 'throws', answers: [500], load: [QUICK, { path: '/basket', clients: 2, count: 5, pause: 10 }],
        expected: [{ kind: 'server-errors', victims: ['/basket'], evidence: { endpoint: 'GET /basket', status: '500', errors_count: 10, first_cause: 'own code' } }] },
    { application: 'failing', store: 'upstream', trouble: 'retries', quick: true, answers: [502], load: [QUICK, { path: '/price', clients: 2, count: 5, pause: 10 }],
        expected: [{ kind: 'retry-storm', peer: true, victims: ['/price'], evidence: { requests_count: (n) => n >= 8 && n <= 10, calls_count: (n) => n >= 40 && n <= 50, most_count: 5 } }, { kind: 'server-errors', peer: true, evidence: { errors_count: 10 } }] },
    { application: 'failing', store: 'upstream', trouble: 'exits', answers: ['ECONNRESET', 'ECONNREFUSED'], load: [QUICK, { path: '/basket', clients: 2, count: 1, pause: 10 }],
        expected: [{ kind: 'server-exited', victims: ['/basket'], evidence: { exit_status: '1' } }] },

    healthy('hapi', [QUICK, { path: '/page', clients: 1, count: 20, pause: 20 }, { path: '/name/anna', clients: 1, count: 20, pause: 20 }]),
    { application: 'hapi', trouble: 'zip', load: [QUICK, { path: '/page', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'hapi.js zip', called: /gzipSync/, victims: ['/page', '/quick'], amount: ['cpu_ns', 'zip', 'cpu_ns'] }] },
    { application: 'hapi', trouble: 'regexp', load: [QUICK, { path: '/name/anna', clients: 1, count: 4, pause: 50 }],
        expected: [{ kind: 'blocking-regexp', at: 'hapi.js regexp', text: /\(x\+x\+\)\+y/, victims: ['/quick'], amount: ['cpu_ns', 'regexp', 'cpu_ns'] }] },
    healthy('hono', [QUICK, { path: '/catalogue', clients: 1, count: 20, pause: 20 }, { path: '/top', clients: 1, count: 20, pause: 20 }]),
    { application: 'hono', trouble: 'file', load: [QUICK, { path: '/catalogue', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'hono.mjs file', called: /readFileSync/, victims: ['/catalogue', '/quick'] }], also: ['gc-pressure'] },
    { application: 'hono', trouble: 'sort', load: [QUICK, { path: '/top', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'hono.mjs sort', victims: ['/top', '/quick'], amount: ['cpu_ns', 'sort', 'cpu_ns'] }] },
    healthy('trpc', [QUICK, { path: '/price', clients: 2, count: 20, pause: 10 }, { path: '/basket', clients: 1, count: 20, pause: 10 }], { store: 'upstream' }),
    { application: 'trpc', store: 'upstream', trouble: 'slow', load: [QUICK, { path: '/price', clients: 2, count: 20, pause: 10 }],
        expected: [{ kind: 'slow-peer', peer: true, victims: ['/price'], amount: ['waited_ns', 'price', 'ns'] }] },
    { application: 'trpc', store: 'upstream', trouble: 'throws', answers: [500], load: [QUICK, { path: '/basket', clients: 2, count: 5, pause: 10 }],
        expected: [{ kind: 'server-errors', victims: ['/basket'], evidence: { endpoint: 'GET /basket', status: '500', errors_count: 10, first_cause: 'own code' } }] },
    healthy('node-redis', [{ path: '/item', clients: 4, count: 30, pause: 10 }, { path: '/report', clients: 1, count: 20, pause: 10 }], { store: 'redis' }),
    ...[['keys', 'KEYS'], ['sort', 'SORT']].map(([trouble, command]) => ({ application: 'node-redis', store: 'redis', trouble, load: [{ path: '/item', clients: 4, count: 40, pause: 5 }, { path: '/report', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'redis-slow-command', text: new RegExp(`"command":"${command}"`), victims: ['/report', '/item'] }] })),
    healthy('knex', [{ path: '/slowq', clients: 2, count: 20, pause: 10 }, { path: '/fastq', clients: 2, count: 20, pause: 10 }], { store: 'postgres' }),
    { application: 'knex', store: 'postgres', trouble: 'starved', load: [{ path: '/slowq', clients: 6, count: 4, pause: 0 }, { path: '/fastq', clients: 6, count: 4, pause: 0 }],
        expected: [{ kind: 'connection-pool-starved', lanes: 2, peer: true, victims: ['/slowq', '/fastq'], amount: ['waited_ns', 'slowq', (book) => book.slowq.ns + book.fastq.ns - book.slowq.count * 300e6] }], also: ['slow-peer'] },
    { application: 'knex', store: 'postgres', trouble: 'slow', load: [{ path: '/slowq', clients: 2, count: 8, pause: 10 }, { path: '/fastq', clients: 2, count: 20, pause: 10 }],
        expected: [{ kind: 'slow-peer', peer: true, victims: ['/slowq'], amount: ['waited_ns', 'slowq', 'ns'] }] },
    healthy('drizzle', [{ path: '/slowq', clients: 2, count: 20, pause: 10 }, { path: '/fastq', clients: 2, count: 20, pause: 10 }, { path: '/goods', clients: 1, count: 20, pause: 10 }], { store: 'postgres' }),
    { application: 'drizzle', store: 'postgres', trouble: 'starved', load: [{ path: '/slowq', clients: 6, count: 4, pause: 0 }, { path: '/fastq', clients: 6, count: 4, pause: 0 }],
        expected: [{ kind: 'connection-pool-starved', lanes: 2, peer: true, victims: ['/slowq', '/fastq'], amount: ['waited_ns', 'slowq', (book) => book.slowq.ns + book.fastq.ns - book.slowq.count * 300e6] }], also: ['slow-peer'] },
    { application: 'drizzle', store: 'postgres', trouble: 'rows', load: [{ path: '/goods', clients: 1, count: 6, pause: 30 }, { path: '/fastq', clients: 1, count: 60, pause: 10 }],
        expected: [{ kind: 'event-loop-blocked', text: /drizzle-orm|pg-protocol|node_modules\/pg\// , victims: ['/fastq'] }], also: ['gc-pressure', 'slow-peer', 'event-loop-blocked'] },
    healthy('leak', [QUICK, { path: '/leak', clients: 2, count: 60, pause: 10 }, { path: '/cpu', clients: 1, count: 20, pause: 20 }]),
    { application: 'leak', trouble: 'leak', load: [{ path: '/leak', clients: 2, count: 300, pause: 10 }],
        expected: [{ kind: 'memory-leak-suspected' }], also: ['gc-pressure', 'event-loop-blocked'] },
    { application: 'leak', trouble: 'cpu', load: [QUICK, { path: '/cpu', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'leak.js cpu', victims: ['/cpu', '/quick'], amount: ['cpu_ns', 'cpu', 'cpu_ns'] }] },
    healthy('mariadb', [{ path: '/slowq', clients: 2, count: 20, pause: 10 }, { path: '/fastq', clients: 2, count: 20, pause: 10 }], { store: 'mariadb' }),
    { application: 'mariadb', store: 'mariadb', trouble: 'starved', load: [{ path: '/slowq', clients: 6, count: 4, pause: 0 }, { path: '/fastq', clients: 6, count: 4, pause: 0 }],
        expected: [{ kind: 'connection-pool-starved', lanes: 3, peer: true, victims: ['/slowq', '/fastq'], amount: ['waited_ns', 'wait', 'ns'] }], also: ['slow-peer'] },
    { application: 'mariadb', store: 'mariadb', trouble: 'slow', load: [{ path: '/slowq', clients: 2, count: 8, pause: 10 }, { path: '/fastq', clients: 2, count: 20, pause: 10 }],
        expected: [{ kind: 'slow-peer', peer: true, victims: ['/slowq'], amount: ['waited_ns', 'slowq', 'ns'] }] },

    ...[['amqplib', 'rabbitmq'], ['redis-streams', 'redis']].flatMap(([application, store]) => [
        healthy(application, [QUICK, { path: '/order', clients: 2, count: 20, pause: 10 }], { store }),
        { application, store, trouble: 'queue', load: [QUICK, { path: '/order', clients: 6, count: 4, pause: 0 }],
            expected: [{ kind: 'consumers-busy', peer: true, victims: ['/order'], evidence: { consumers_count: 1 }, amount: ['waited_ns', 'order', (book) => book.order.ns - book.job.ns] }], also: ['slow-peer'] },
        { application, store, trouble: 'work', load: [QUICK, { path: '/order', clients: 1, count: 8, pause: 30 }],
            expected: [{ kind: 'event-loop-blocked', at: `${application}.js work`, victims: ['/order'], amount: ['cpu_ns', 'work', 'cpu_ns'] }] },
    ]),
    healthy('nats', [QUICK, { path: '/price', clients: 2, count: 20, pause: 10 }], { store: 'nats' }),
    { application: 'nats', store: 'nats', trouble: 'slow', load: [QUICK, { path: '/price', clients: 2, count: 8, pause: 10 }],
        expected: [{ kind: 'slow-peer', text: /prices\.list/, victims: ['/price'], amount: ['waited_ns', 'job', 'ns'] }] },
    { application: 'nats', store: 'nats', trouble: 'work', load: [QUICK, { path: '/price', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'nats.js work', victims: ['/price'], amount: ['cpu_ns', 'work', 'cpu_ns'] }] },

    healthy('mqtt', [QUICK, { path: '/order', clients: 2, count: 20, pause: 10 }]),
    { application: 'mqtt', trouble: 'work', load: [QUICK, { path: '/order', clients: 1, count: 8, pause: 30 }],
        expected: [{ kind: 'event-loop-blocked', at: 'mqtt.js work', amount: ['cpu_ns', 'work', 'cpu_ns'] }] },

    // Over HTTP every gRPC call is answered with 200: how it ended is its own status.
    healthy('grpc', [{ path: '/item', clients: 2, count: 20, pause: 10 }, { path: '/items', clients: 2, count: 20, pause: 10 }]),
    { application: 'grpc', trouble: 'slow', load: [{ path: '/item', clients: 2, count: 20, pause: 10 }, { path: '/items', clients: 2, count: 20, pause: 10 }],
        expected: [{ kind: 'slow-peer', victims: ['/item'], text: /\/shop\.Stock\/Get/, amount: ['waited_ns', 'item', 'ns'] }] },
    { application: 'grpc', trouble: 'errors', answers: [500], load: [{ path: '/item', clients: 1, count: 20, pause: 10 }, { path: '/items', clients: 2, count: 20, pause: 10 }],
        expected: [{ kind: 'server-errors', victims: ['/item', '/shop.Stock/Get'], text: /UNAVAILABLE/, evidence: { endpoint: 'POST /shop.Stock/Get', status: 'UNAVAILABLE (gRPC status 14)', errors_count: 10, requests_count: 20 } }] },

    healthy('yoga', [{ path: '/graphql?query={hello}', clients: 2, count: 20, pause: 20 }, { path: '/graphql?query={digest,count}', clients: 1, count: 20, pause: 20 }]),
    { application: 'yoga', trouble: 'resolver', load: [{ path: '/graphql?query={hello}', clients: 2, count: 20, pause: 20 }, { path: '/graphql?query={digest}', clients: 1, count: 8, pause: 20 }],
        expected: [{ kind: 'event-loop-blocked', at: 'yoga.js resolver', victims: ['/graphql'], amount: ['cpu_ns', 'resolver', 'cpu_ns'] }] },
    { application: 'yoga', trouble: 'parse', load: [{ path: '/graphql?query={hello}', clients: 2, count: 20, pause: 20 }, { path: '/graphql?query={count}', clients: 1, count: 8, pause: 20 }],
        expected: [{ kinds: ['event-loop-blocked', 'serialisation'], at: 'yoga.js parse', called: /JSON\.parse/, victims: ['/graphql'] }], also: ['gc-pressure'] },
];
