// How fast the web page is, measured with the browser's own trace.
//   node bench/page/run.mjs [--changes 100000000] [--rows 10000] [--again] [--slowest N] [PART...]
// --slowest prints what the page's thread did in the N slowest frames of the timeline parts.
// Parts, each of which appends a line to bench/results/page.jsonl, and is passed over when that has one of this commit:
//   timeline-1280, timeline-2560  300 scripted pans and zooms of the view of states: dropped frames beside those of a bare page
//                                 that only fills a canvas, script a frame, heap
//   open        from the start of sonde serve to the first states on the screen, of a recording that was read before
//   tiles       cold (the file is not in memory) and warm
//   file        the sample shop with its faults beside a Redis with 1,200 clients, recorded and written as one file, which has no
//               room for all of it: its size, and how long it takes to open from the disk
//   chart       12 rows of the same recording, zoomed and moved: ours, and timeline-chart fed by our Trace Server
//   flame       a profile of 200,000 nodes: load, zoom, search, callers and callees; speedscope loads the same file beside it
// The history is made once (bench_history keep) and stays in SONDE_BENCH_FOLDER, or else in the temporary folder.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const here = path.dirname(fileURLToPath(import.meta.url)), root = path.resolve(here, '../..');
const { chromium } = createRequire(path.join(root, 'tests', 'system', 'page.test.mjs'))('playwright-core');
const SONDE = process.env.SONDE || path.join(root, 'build', 'sonde'), RESULTS = path.join(root, 'bench', 'results', 'page.jsonl');
const FRAMES = 300, NODES = 200_000, TRACE_CATEGORIES = ['-*', 'devtools.timeline', 'disabled-by-default-devtools.timeline', 'disabled-by-default-devtools.timeline.frame', 'toplevel', 'blink.user_timing', 'cc', 'benchmark', 'v8.execute'];
const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { changes: { type: 'string', default: '100000000' }, rows: { type: 'string', default: '10000' }, again: { type: 'boolean' }, slowest: { type: 'string', default: '0' } } });
const folder = path.join(process.env.SONDE_BENCH_FOLDER || os.tmpdir(), `sonde-bench-page-${options.changes}-${options.rows}`), recording = path.join(folder, 'recording');
const commit = execFileSync('git', ['-C', root, 'describe', '--always', '--dirty']).toString().trim();

const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))];
const spread = (values) => ({ p50: +quantile(values, 0.5).toFixed(2), p95: +quantile(values, 0.95).toFixed(2), max: +Math.max(...values).toFixed(2) });

// ---- what is measured ----

// A recording that was read before, with a history of its own in place of what was read.
function prepare() {
    const mark = path.join(folder, 'complete');
    if (fs.existsSync(mark)) return;
    fs.rmSync(folder, { recursive: true, force: true });
    execFileSync(path.join(root, 'tools', 'corpus'), ['unpack', 'shop-faults', recording]);
    execFileSync('ninja', ['-C', path.join(root, 'build'), 'bench/bench_history'], { stdio: ['ignore', 'ignore', 'inherit'] });
    fs.mkdirSync(folder, { recursive: true });
    console.error(`making a history of ${options.changes} changes`);
    execFileSync(path.join(root, 'build', 'bench', 'bench_history'), [options.changes, options.rows, 'keep', path.join(folder, 'states')], { stdio: 'inherit' });
    fs.writeFileSync(mark, '');
}

// The cache beside the recording is this program's: made by it, then with the large history in it.
async function serve() {
    const view = path.join(recording, 'view', 'states'), large = path.join(folder, 'states');
    const once = await start();
    once.end();
    if (!fs.existsSync(view) || fs.statSync(view).size !== fs.statSync(large).size) {
        fs.rmSync(view, { force: true });
        fs.linkSync(large, view);
    }
    return start();
}

function start(...paths) {
    return new Promise((resolve, reject) => {
        const begun = performance.now(), child = spawn(SONDE, ['serve', '--listen', '127.0.0.1:0', ...(paths.length ? paths : [recording])], { stdio: ['ignore', 'ignore', 'pipe'] });
        let words = '';
        child.on('error', reject);
        child.stderr.setEncoding('utf8').on('data', async (part) => {
            words += part;
            const address = /the page is at (\S+\/)/.exec(words)?.[1];
            if (!address || words.done) return;
            child.stderr.removeAllListeners('data').resume();
            for (;;) {
                const { sources } = await (await fetch(`${address}api/v1/sources`)).json();
                if (sources.every((s) => s.state !== 'reading')) break;
                await new Promise((r) => setTimeout(r, 5));
            }
            resolve({ address, ready_ms: performance.now() - begun, end: () => child.kill('SIGKILL') });
        });
    });
}

// ---- the browser's trace ----

async function traced(browser, page, action) {
    await browser.startTracing(page, { categories: TRACE_CATEGORIES });
    await action();
    const { traceEvents: events } = JSON.parse(await browser.stopTracing());
    const marks = events.filter((e) => e.cat?.includes('blink.user_timing') && e.name.startsWith('step')).sort((a, b) => a.ts - b.ts);
    const { pid, tid } = marks[0] ?? {};
    const script = outermost(events.filter((e) => e.pid === pid && e.tid === tid && e.ph === 'X' && /^(FunctionCall|FireAnimationFrame|RunMicrotasks|EvaluateScript|TimerFire|EventDispatch|v8\.callFunction)$/.test(e.name)));
    const tasks = outermost(events.filter((e) => e.pid === pid && e.tid === tid && e.ph === 'X' && /RunTask|ThreadControllerImpl::RunTask/.test(e.name)));
    const between = (list, a, b) => list.reduce((sum, e) => sum + Math.max(0, Math.min(e.ts + e.dur, b) - Math.max(e.ts, a)), 0) / 1000;
    // CPU time, which does not count what others take meanwhile.
    const cpu = (list, a, b) => list.reduce((sum, e) => sum + (e.ts >= a && e.ts < b ? e.tdur ?? e.dur : 0), 0) / 1000;
    const reports = events.filter((e) => e.name === 'PipelineReporter' && e.args?.frame_reporter && e.pid === pid && e.ts >= marks[0].ts && e.ts <= marks[marks.length - 1].ts).map((e) => e.args.frame_reporter);
    const counted = reports.filter((r) => /PRESENTED|DROPPED/.test(r.state)), dropped = counted.filter((r) => r.state === 'STATE_DROPPED');
    return { marks, events: events.filter((e) => e.pid === pid && e.tid === tid && e.ph === 'X'), script: (a, b) => between(script, a, b), scriptCpu: (a, b) => cpu(script, a, b), busy: (a, b) => between(tasks, a, b), busyCpu: (a, b) => cpu(tasks, a, b), frames: counted.length, dropped: dropped.length };
}

// What a thread did between two moments, by its events of at least 0.2 ms: indented as they are nested, with their CPU time.
function explain(events, a, b) {
    const open = [], lines = [];
    for (const e of events.filter((x) => x.ts < b && x.ts + x.dur > a && x.dur >= 200).sort((x, y) => x.ts - y.ts || y.dur - x.dur)) {
        while (open.length && e.ts >= open[open.length - 1]) open.pop();
        lines.push(`${'  '.repeat(open.length + 1)}+${((e.ts - a) / 1000).toFixed(1)} ${e.name} ${e.args?.data?.functionName ?? e.args?.data?.type ?? ''} ${(e.dur / 1000).toFixed(1)} ms, CPU ${((e.tdur ?? 0) / 1000).toFixed(1)}`);
        open.push(e.ts + e.dur);
    }
    return lines.join('\n');
}

// Of events within others only those outside.
function outermost(events) {
    const kept = [];
    for (const e of events.sort((a, b) => a.ts - b.ts || b.dur - a.dur)) if (!kept.length || e.ts >= kept[kept.length - 1].ts + kept[kept.length - 1].dur) kept.push(e);
    return kept;
}

const BARE = `<!doctype html><title>bare</title><style>body{margin:0}</style><canvas></canvas><script>
const c = document.querySelector('canvas'), g = c.getContext('2d');
c.width = innerWidth; c.height = innerHeight;
globalThis.step = (i) => { g.fillStyle = i % 2 ? '#fff' : '#eee'; g.fillRect(0, 0, c.width, c.height); };
</script>`;

// In the page: FRAMES steps, one a frame, each marked; zooms in and out about the middle and moves along.
const steps = (frames) => new Promise((resolve) => {
    const canvas = document.querySelector('.timeline canvas');
    let i = 0;
    const frame = () => {
        performance.mark(`step-${i}`);
        if (i++ >= frames) return resolve();
        if (canvas) {
            const box = canvas.getBoundingClientRect(), zooms = Math.floor(i / 30) % 2 === 0, at = { bubbles: true, cancelable: true, clientX: box.left + box.width / 2, clientY: box.top + 200 };
            canvas.dispatchEvent(new WheelEvent('wheel', zooms ? { ...at, ctrlKey: true, deltaY: Math.floor(i / 60) % 2 === 0 ? -12 : 12 } : { ...at, deltaX: Math.floor(i / 60) % 2 === 0 ? 20 : -20 }));
        } else globalThis.step(i);
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
});

const launch = () => chromium.launch({ executablePath: ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((file) => fs.existsSync(file)), args: ['--no-sandbox', '--disable-gpu', '--enable-precise-memory-info'] });

// How many pixels of the canvas show states or functions: have a colour that is neither the ground's nor that of lines and of
// rows without anything. A row of states has 15 pixels in height, below the head of 74.
const drawn = () => {
    const canvas = document.querySelector('.timeline canvas, .flame canvas, #chart canvas');
    if (!canvas?.width) return 0;
    const top = canvas.closest('.timeline') ? 74 : 0, { data } = canvas.getContext('2d').getImageData(0, top, canvas.width, Math.max(1, Math.min(240, canvas.height - top)));
    const style = getComputedStyle(canvas), ground = new Set([0xffffff, ...['back', 'lane', 'line'].map((name) => parseInt(style.getPropertyValue(`--${name}`).slice(1).replace(/^(.)(.)(.)$/, '$1$1$2$2$3$3'), 16))]);
    let pixels = 0;
    for (let at = 0; at < data.length; at += 4) pixels += data[at + 3] > 0 && !ground.has((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
    return pixels;
};
const whenDrawn = (page, least = 1000) => page.evaluate(async ([look, wanted]) => {
    const seen = () => new Function(`return (${look})()`)();
    for (const end = performance.now() + 120_000; seen() < wanted;) {
        if (performance.now() > end) throw new Error(`${seen()} of ${wanted} pixels were drawn in two minutes`);
        await new Promise(requestAnimationFrame);
    }
    return performance.now();
}, [String(drawn), least]);

async function timeline(width) {
    const server = await serve(), browser = await launch(), viewport = { width, height: 1000 };
    try {
        const bare = await browser.newPage({ viewport });
        await bare.setContent(BARE);
        const control = await traced(browser, bare, () => bare.evaluate(steps, FRAMES));
        await bare.close();
        const page = await browser.newPage({ viewport, bypassCSP: true });
        // All groups open, which is more work than what is seen at first: then groups of so many rows are closed.
        const { rows } = await (await fetch(`${server.address}api/v1/s/0/rows`)).json(), groups = [...new Set(rows.map((row) => row.group))];
        await page.goto(`${server.address}#/states?${new URLSearchParams({ open: groups.join('|') })}`);
        await whenDrawn(page);
        await page.waitForLoadState('networkidle');
        const ours = await traced(browser, page, () => page.evaluate(steps, FRAMES)), each = (what) => ours.marks.slice(1).map((mark, i) => what(ours.marks[i].ts, mark.ts));
        const slow = each(ours.script).map((ms, i) => ({ ms, i })).sort((a, b) => b.ms - a.ms).slice(0, Number(options.slowest));
        for (const { ms, i } of slow) console.error(`step ${i}: script ${ms.toFixed(1)} ms\n${explain(ours.events, ours.marks[i].ts, ours.marks[i + 1].ts)}`);
        const cdp = await page.context().newCDPSession(page);
        await cdp.send('Performance.enable');
        const { metrics } = await cdp.send('Performance.getMetrics'), share = (t) => +((100 * t.dropped) / Math.max(1, t.frames)).toFixed(2);
        return { width, open_rows: rows.length, frames: ours.frames, dropped_percent: share(ours), bare_frames: control.frames, bare_dropped_percent: share(control), dropped_more_points: +(share(ours) - share(control)).toFixed(2), script_ms: spread(each(ours.script)), script_cpu_ms: spread(each(ours.scriptCpu)), heap_mb: +(metrics.find((m) => m.name === 'JSHeapUsedSize').value / 1e6).toFixed(1), dom_nodes: metrics.find((m) => m.name === 'Nodes').value };
    } finally {
        await browser.close();
        server.end();
    }
}

// The same steps over the same rows, by the page and by the chart of the viewers of the Trace Server Protocol.
async function chart() {
    const ROWS = 12, server = await serve(), browser = await launch(), viewport = { width: 1280, height: 1000 };
    const esbuild = path.join(root, 'web', 'node_modules', 'esbuild', 'bin', 'esbuild'), modules = path.join(root, 'tests', 'system', 'node_modules');
    const script = execFileSync(esbuild, [path.join(here, 'chart.js'), '--bundle', '--format=iife', '--log-level=error', '--define:global=globalThis'], { maxBuffer: 1 << 26, env: { ...process.env, NODE_PATH: modules } });
    const other = http.createServer((request, response) => {
        response.setHeader('Content-Type', request.url === '/chart.js' ? 'text/javascript' : 'text/html');
        response.end(request.url === '/chart.js' ? script : '<!doctype html><title>chart</title><style>body{margin:0}</style><div id=chart></div><script src=chart.js></script>');
    });
    await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve));
    const frames = async (page) => {
        const t = await traced(browser, page, () => page.evaluate(steps, FRAMES)), each = (what) => spread(t.marks.slice(1).map((mark, i) => what(t.marks[i].ts, mark.ts)));
        return { script_ms: each(t.script), frame_ms: each((a, b) => (b - a) / 1000), dropped_percent: +((100 * t.dropped) / Math.max(1, t.frames)).toFixed(2) };
    };
    try {
        const page = await browser.newPage({ viewport, bypassCSP: true }), { rows } = await (await fetch(`${server.address}api/v1/s/0/rows`)).json();
        await page.goto(`${server.address}#/states?${new URLSearchParams({ open: rows[0].group })}`);
        await whenDrawn(page);
        await page.waitForLoadState('networkidle');
        const ours = await frames(page);
        await page.close();
        const theirs = await browser.newPage({ viewport });
        await theirs.goto(`http://127.0.0.1:${other.address().port}/`);
        await theirs.evaluate(([base, count]) => globalThis.chart(base, count, innerWidth, innerHeight), [`${server.address}tsp/api`, ROWS]);
        await whenDrawn(theirs);
        await theirs.waitForLoadState('networkidle');
        const chart = await frames(theirs);
        return { our_rows: rows.filter((row) => row.group === rows[0].group).length, chart_rows: ROWS, ours, chart, ratio: +(chart.frame_ms.p95 / ours.frame_ms.p95).toFixed(2) };
    } finally {
        await browser.close();
        other.close();
        server.end();
    }
}

async function open() {
    await (await serve()).end();
    const browser = await launch(), paint = [], ready = [];
    try {
        for (let i = 0; i < 5; i++) {
            const server = await start(), page = await browser.newPage({ viewport: { width: 1280, height: 1000 }, bypassCSP: true });
            await page.goto(`${server.address}#/states`, { waitUntil: 'commit' });
            paint.push(await whenDrawn(page));
            ready.push(server.ready_ms);
            await page.close();
            server.end();
        }
    } finally {
        await browser.close();
    }
    return { server_ready_ms: spread(ready), first_states_ms: spread(paint) };
}

async function tiles() {
    const server = await serve(), times = { cold: [], warm: [] }, states = path.join(recording, 'view', 'states');
    try {
        const { zoom, rows, start_ns, end_ns } = await (await fetch(`${server.address}api/v1/s/0/rows`)).json(), pages = Math.ceil(rows.length / 64);
        const one = async (z, i, page) => {
            const begun = performance.now(), answer = await fetch(`${server.address}api/v1/s/0/tile?z=${z}&i=${i}&page=${page}`);
            if (!answer.ok) throw new Error(`${answer.status} for ${z} ${i} ${page}`);
            await answer.arrayBuffer();
            return performance.now() - begun;
        };
        for (let n = 0; n < 40; n++) {
            const z = zoom - (n % 8), i = n % Math.max(1, Math.floor((end_ns - start_ns) / 2 ** z / 512)), page = (n * 37) % pages;
            execFileSync('dd', [`if=${states}`, 'iflag=nocache', 'count=0', 'status=none']);
            times.cold.push(await one(z, i, page));
            times.warm.push(await one(z, i, page));
        }
    } finally {
        server.end();
    }
    return { cold_ms: spread(times.cold), warm_ms: spread(times.warm), tiles: times.cold.length };
}

// A Redis with many clients beside the shop; ends with both.
const LOAD = `redis-server --port "$1" --bind 127.0.0.1 --save '' --maxclients 4000 >/dev/null &
until redis-cli -p "$1" ping >/dev/null 2>&1; do :; done
"$0" "$2" --fault all --duration 20 >/dev/null &
shop=$!
for round in 1 2 3 4; do redis-benchmark -p "$1" -c 1200 -n 60000 -t set,get -q >/dev/null; done
wait $shop
redis-cli -p "$1" shutdown nosave; wait`;

async function file() {
    const load = path.join(path.dirname(folder), 'sonde-bench-page-load'), html = `${load}.html`;
    if (!fs.existsSync(path.join(load, 'manifest.json'))) {
        const server = http.createServer().listen(0, '127.0.0.1');
        await new Promise((resolve) => server.on('listening', resolve));
        const { port } = server.address();
        await new Promise((resolve) => server.close(resolve));
        const { status, stderr } = spawnSync(SONDE, ['run', '-q', '-o', load, '--', 'sh', '-c', LOAD, process.execPath, port, path.join(root, 'examples', 'shop', 'shop.js')], { encoding: 'utf8' });
        if (status !== 0 && status !== 4) throw new Error(stderr);
    }
    const begun = performance.now(), { stderr } = spawnSync(SONDE, ['report', '--html', html, load], { encoding: 'utf8', maxBuffer: 1 << 26 }), write_s = (performance.now() - begun) / 1000;
    const browser = await launch(), asked = [];
    try {
        const page = await browser.newPage({ viewport: { width: 1280, height: 1000 }, bypassCSP: true });
        page.on('request', (request) => asked.push(request.url()));
        await page.goto(`file://${html}`, { waitUntil: 'commit' });
        const appears = (selector) => page.evaluate(async (wanted) => {
            while (!document.querySelector(wanted)) await new Promise(requestAnimationFrame);
            return performance.now();
        }, selector);
        const findings_ms = await appears('.ranked li'), findings = await page.locator('.ranked li').count(), clicked = await page.evaluate(() => performance.now());
        await page.click('text=States of that time');
        const states_ms = (await whenDrawn(page)) - clicked;
        const elsewhere = asked.filter((url) => !/^(file|data|blob):/.test(url));
        if (elsewhere.length) throw new Error(`the file asked for ${elsewhere}`);
        return { recording_mb: +(Number(execFileSync('du', ['-sb', load]).toString().split('\t')[0]) / 1e6).toFixed(1), file_mb: +(fs.statSync(html).size / 1e6).toFixed(2), left_out_count: Number(/(\d+) requests and tiles/.exec(stderr)?.[1] ?? 0), write_s: +write_s.toFixed(1), findings, findings_ms: Math.round(findings_ms), states_ms: Math.round(states_ms), asked_elsewhere: 0 };
    } finally {
        await browser.close();
    }
}

// Stacks whose tree has about NODES nodes, the same each time.
function foldedProfile(file) {
    let state = 7, nodes = 0;
    const random = (n) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % n, lines = [], seen = new Set();
    while (nodes < NODES) {
        const stack = ['main'];
        for (let depth = 2 + random(40); depth > 0; depth--) stack.push(`function_${random(3) ? (stack.length * 31 + random(4)) % 3000 : random(3000)}`);
        for (let i = 1, prefix = ''; i <= stack.length; i++) {
            prefix += `;${stack[i - 1]}`;
            if (!seen.has(prefix)) (seen.add(prefix), nodes++);
        }
        lines.push(`${stack.join(';')} ${1 + random(100)}`);
    }
    fs.writeFileSync(file, `${lines.join('\n')}\n`);
    return nodes;
}

async function flame() {
    fs.mkdirSync(folder, { recursive: true });
    const file = path.join(folder, 'profile.folded'), nodes = foldedProfile(file), server = await start(file), browser = await launch(), load = [], busy = { zoom: [], search: [], sandwich: [] }, cpu = { zoom: [], search: [], sandwich: [] };
    const speedscope = path.join(here, 'node_modules', 'speedscope', 'dist', 'release'), TYPES = { html: 'text/html', js: 'text/javascript', css: 'text/css', txt: 'text/plain' }, theirs = [];
    const other = http.createServer((request, response) => {
        const name = decodeURIComponent(request.url.split('?')[0]), from = name === '/profile.txt' ? file : path.join(speedscope, path.normalize(name));
        response.setHeader('Content-Type', TYPES[name.split('.').pop()] ?? 'application/octet-stream');
        fs.createReadStream(from).on('error', () => ((response.statusCode = 404), response.end())).pipe(response);
    });
    await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve));
    try {
        for (let i = 0; i < 3; i++) {
            const page = await browser.newPage({ viewport: { width: 1280, height: 1000 }, bypassCSP: true });
            await page.goto(`${server.address}#/profile`, { waitUntil: 'commit' });
            load.push(await whenDrawn(page));
            // What the page's thread is busy with from an action to the frame after the next.
            const measure = async (what, action, argument) => {
                const t = await traced(browser, page, () => page.evaluate(async ([act, value]) => {
                    const frames = async () => { for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame); };
                    await frames();
                    performance.mark('step-begin');
                    new Function('value', act)(value);
                    await frames();
                    await new Promise((r) => setTimeout(r, 50));
                    performance.mark('step-end');
                }, [action, argument]));
                busy[what].push(t.busy(t.marks[0].ts, t.marks[t.marks.length - 1].ts));
                cpu[what].push(t.busyCpu(t.marks[0].ts, t.marks[t.marks.length - 1].ts));
            };
            for (let level = 0; level < 6; level++) await measure('zoom', "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }))");
            for (const text of ['f', 'fu', 'function_12', '']) await measure('search', "const s = document.getElementById('search'); s.value = value; s.dispatchEvent(new Event('input', { bubbles: true }))", text);
            for (let n = 0; n < 2; n++) await measure('sandwich', "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'c', bubbles: true }))");
            await page.close();
            if (!fs.existsSync(speedscope)) continue;
            const peer = await browser.newPage({ viewport: { width: 1280, height: 1000 } }), address = `http://127.0.0.1:${other.address().port}`;
            await peer.goto(`${address}/index.html#profileURL=${encodeURIComponent(`${address}/profile.txt`)}`, { waitUntil: 'commit' });
            await peer.waitForSelector('text=Left Heavy', { timeout: 120_000 });
            await peer.waitForSelector('canvas');
            theirs.push(await peer.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now()))))));
            await peer.close();
        }
    } finally {
        await browser.close();
        other.close();
        server.end();
    }
    return { nodes, load_ms: spread(load), speedscope_load_ms: theirs.length ? spread(theirs) : null, ratio: theirs.length ? +(quantile(theirs, 0.5) / quantile(load, 0.5)).toFixed(2) : null, zoom_ms: spread(busy.zoom), search_ms: spread(busy.search), sandwich_ms: spread(busy.sandwich), zoom_cpu_ms: spread(cpu.zoom), search_cpu_ms: spread(cpu.search), sandwich_cpu_ms: spread(cpu.sandwich) };
}

// At most so much, at the 95th percentile; a part says which of them it missed.
const PAINTING = { 'script_ms.p95': 8, heap_mb: 200, dropped_more_points: 3 };
const GOALS = {
    'timeline-1280': PAINTING, 'timeline-2560': PAINTING, open: { 'first_states_ms.p95': 1000 }, tiles: { 'cold_ms.p95': 300, 'warm_ms.p95': 30 }, file: { file_mb: 20 },
    flame: { 'load_ms.p95': 700, 'zoom_ms.p95': 16, 'search_ms.p95': 50, 'sandwich_ms.p95': 100 },
};
const missed = (part, result) => Object.entries(GOALS[part] ?? {}).flatMap(([name, goal]) => {
    const value = name.split('.').reduce((at, key) => at[key], result);
    return value <= goal ? [] : [`${name}: ${value}, goal ${goal}`];
});

const PARTS = { 'timeline-1280': () => timeline(1280), 'timeline-2560': () => timeline(2560), open, tiles, chart, file, flame };
const done = new Set(fs.existsSync(RESULTS) ? fs.readFileSync(RESULTS, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)).filter((r) => r.commit === commit && r.changes === Number(options.changes)).map((r) => r.part) : []);
for (const part of positionals.length ? positionals : Object.keys(PARTS)) {
    if (!PARTS[part]) throw new Error(`no part is called ${part}; there are ${Object.keys(PARTS).join(', ')}`);
    if (done.has(part) && !options.again) continue;
    if (part !== 'flame' && part !== 'file') prepare();
    const figures = await PARTS[part]();
    const result = { part, commit, date: new Date().toISOString(), changes: Number(options.changes), rows: Number(options.rows), load: +os.loadavg()[0].toFixed(2), ...figures, missed: missed(part, figures) };
    fs.appendFileSync(RESULTS, `${JSON.stringify(result)}\n`);
    console.log(JSON.stringify(result));
}
