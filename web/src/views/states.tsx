// What happened together? Rows of the history of states over time, with requests and findings on the same axis.
// SPDX-License-Identifier: Apache-2.0
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { colourOf, css, HEAT, learnQuiet } from '../colour';
import { count, duration, moment, percent, plural } from '../format';
import { AXIS, draw, GROUP, HEAD, lostIn, ROW, zoomOf, type Group, type Item, type Picture } from '../picture';
import { alter, href } from '../route';
import { leftOut, live, load, requests } from '../source';
import { COLUMNS, ROWS } from '../tile';
import { Tiles } from '../tiles';
import type { Report, RequestRow, Rows } from '../types';
import { Empty, Problem, quote, Terminal, useLoad, useWidth, Wide, type ViewProps } from '../ui';
import { keys } from './findings';

const MANY = 300; // rows, from which on groups are closed at first

function groupsOf(rows: Rows): Group[] {
    const groups: Group[] = [];
    for (const row of rows.rows) {
        if (groups[groups.length - 1]?.name !== row.group) groups.push({ n: groups.length, name: row.group, rows: [] });
        groups[groups.length - 1].rows.push(row);
    }
    return groups;
}

// Groups with their rows below them: a finding's process first, then those that are to blame or serve requests. System calls
// are shown when all rows are asked for, or these.
function arrange(groups: Group[], filter: string, open: (group: string) => boolean, first: string, report: Report, every: boolean): { items: Item[]; height: number } {
    const wanted = filter.toLowerCase(), shown = (row: Rows['rows'][number]) => (wanted ? `${row.group} ${row.name} ${row.path}`.toLowerCase().includes(wanted) : every || !row.name.endsWith(': system call'));
    const blamed = new Set(report.findings.map((f) => `${f.where.service} ${f.where.process}`)), serving = new Set(report.endpoints?.map((e) => e.service));
    const rank = (group: string) => (group === first ? 0 : blamed.has(group) ? 1 : serving.has(group.replace(/ \d+$/, '')) ? 2 : 3);
    const items: Item[] = [];
    let y = 0;
    for (const group of [...groups].sort((a, b) => rank(a.name) - rank(b.name))) {
        const rows = group.rows.filter(shown);
        if (!rows.length) continue;
        items.push({ y, group });
        y += GROUP;
        if (!open(group.name)) continue;
        for (const row of rows) {
            items.push({ y, row });
            y += ROW;
        }
    }
    return { items, height: y };
}

// The first item that is not above y.
function itemAt(items: Item[], y: number): number {
    let low = 0, high = items.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (items[middle].y < y) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Of the cells of a row within the window: how long each value held.
function shares(p: Picture, tiles: Tiles, row: Rows['rows'][number], ratio: number): { value: string; ns: number; changes: number }[] {
    const sums = new Map<string, { value: string; ns: number; changes: number }>(), page = `page=${Math.floor(row.n / ROWS)}`;
    const zoom = tiles.finest(zoomOf(p, ratio), p.rows.zoom, p.from, p.to, page), width_ns = 2 ** zoom, tile_ns = COLUMNS * width_ns;
    for (let i = Math.max(0, Math.floor(p.from / tile_ns)); i * tile_ns < p.to; i++) {
        const tile = tiles.have(zoom, i, page);
        if (!tile) continue;
        for (let c = 0; c < COLUMNS; c++) {
            const at = (row.n % ROWS) * COLUMNS + c, ns = i * tile_ns + c * width_ns, inside = Math.min(ns + width_ns, p.to) - Math.max(ns, p.from);
            if (!tile.shares[at] || inside <= 0) continue;
            for (const [number, share] of [[tile.values[at], tile.shares[at]], [tile.second[at], tile.second_shares[at]]]) {
                const value = tile.table[number] === null ? 'nothing' : String(tile.table[number]), sum = sums.get(value) ?? { value, ns: 0, changes: 0 };
                if (!share) continue;
                sum.ns += (share / 255) * inside;
                sum.changes += number === tile.values[at] && tile.changes[at] ? 2 ** (tile.changes[at] - 1) : 0;
                sums.set(value, sum);
            }
        }
    }
    return [...sums.values()].sort((a, b) => b.ns - a.ns);
}

function Timeline({ rows, props, slowest }: { rows: Rows; props: ViewProps; slowest: RequestRow[] }) {
    const { route, source } = props, report = props.report!, whole = rows.end_ns - rows.start_ns;
    const [element, width] = useWidth<HTMLDivElement>(), canvas = useRef<HTMLCanvasElement>(null), scroller = useRef<HTMLDivElement>(null);
    const [scroll, setScroll] = useState(0), [cursor, setCursor] = useState<{ x: number; y: number } | null>(null), [, loaded] = useState(0), [table, setTable] = useState(false);
    const finding = route.query.finding ? keys(report.findings).indexOf(route.query.finding) : -1, place = report.findings[finding]?.where;
    const first = place ? rows.rows.find((row) => row.group.endsWith(` ${place.process}`))?.group ?? '' : '';
    const groups = useMemo(() => (learnQuiet(rows.quiet), groupsOf(rows)), [rows]);
    // Of few rows all are open but those that were closed; of many those that were opened, and the finding's.
    const many = rows.rows.length > MANY, chosen = useMemo(() => new Set((many ? route.query.open ?? first : route.query.closed ?? '').split('|').filter(Boolean)), [many, route.query.open, route.query.closed, first]);
    const isOpen = (group: string) => !!route.query.q || chosen.has(group) === many;
    const { items, height } = useMemo(() => arrange(groups, route.query.q ?? '', isOpen, first, report, !!route.query.all), [groups, route.query.q, chosen, first, report, route.query.all]);
    const turn = (group: string) => {
        const next = new Set(chosen);
        if (!next.delete(group)) next.add(group);
        alter(route, { [many ? 'open' : 'closed']: [...next].join('|') || undefined });
    };
    // One picture a frame, however many tiles come and keys are pressed meanwhile; what stands beside it follows when it is looked at.
    const frame = useRef(0), beside = useRef(false);
    const redraw = () => {
        frame.current ||= requestAnimationFrame(() => {
            frame.current = 0;
            if (latest.current.width > 50 && canvas.current) draw(canvas.current, latest.current, tiles);
        });
    };
    const tiles = useMemo(() => new Tiles(source.id, source.version, rows, () => (redraw(), beside.current && loaded((n) => n + 1))), [rows]);
    useEffect(() => () => (tiles.close(), cancelAnimationFrame(frame.current)), [tiles]);
    const from = Math.max(0, Number(route.query.from ?? 0)), to = Math.min(whole, Math.max(from + 100, Number(route.query.to ?? whole)));
    const tall = Math.max(200, Math.min(HEAD + height + 4, innerHeight - 250)), plot = Math.max(50, width - labelWidth(width));
    // Only what is near the window is in the document, however many rows there are.
    const first_shown = Math.max(0, itemAt(items, scroll) - 20), last_shown = itemAt(items, scroll + tall) + 20;
    const near = useMemo(() => items.slice(first_shown, last_shown), [items, first_shown, last_shown]);
    const picture: Picture = { from, to, width: plot, height: tall, scroll, items: near, rows, report, requests: slowest, finding, cursor };
    const latest = useRef(picture);
    latest.current = picture;
    beside.current = table || !!cursor;
    useLayoutEffect(redraw, [from, to, width, tall, scroll, near, cursor, slowest, report]);
    useEffect(() => {
        const scheme = matchMedia('(prefers-color-scheme: dark)');
        scheme.addEventListener('change', redraw);
        return () => scheme.removeEventListener('change', redraw);
    }, [tiles]);
    const show = (a: number, b: number) => {
        const span = Math.max(100, Math.min(whole, b - a)), left = Math.max(0, Math.min(whole - span, a));
        alter(route, { from: Math.round(left) || undefined, to: span >= whole ? undefined : Math.round(left + span) });
    };
    const zoom = (factor: number, at = (from + to) / 2) => show(at - (at - from) * factor, at + (to - at) * factor);
    const pan = (share: number) => show(from + share * (to - from), to + share * (to - from));
    const focus = () => (finding >= 0 && (from > 0 || to < whole) ? show(0, whole) : finding >= 0 ? show(report.findings[finding].from_ns - report.from_ns, (report.findings[finding].to_ns ?? report.to_ns) - report.from_ns) : show(0, whole));
    useLayoutEffect(() => {
        const pressed = (e: KeyboardEvent) => {
            if (e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).closest('input[type=search], select, dialog')) return;
            const act = { w: () => zoom(0.6), s: () => zoom(1 / 0.6), a: () => pan(-0.3), d: () => pan(0.3), f: focus }[e.key.toLowerCase()];
            if (act) (e.preventDefault(), act());
        };
        addEventListener('keydown', pressed);
        return () => removeEventListener('keydown', pressed);
    });
    useEffect(() => {
        const node = canvas.current;
        const wheel = (e: WheelEvent) => {
            const p = latest.current;
            if (!e.ctrlKey && !e.metaKey && Math.abs(e.deltaX) <= Math.abs(e.deltaY) && !e.shiftKey) return;
            e.preventDefault();
            if (e.ctrlKey || e.metaKey) zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) / 120), p.from + (e.offsetX / p.width) * (p.to - p.from));
            else pan((e.deltaX || e.deltaY) / p.width);
        };
        node?.addEventListener('wheel', wheel, { passive: false });
        return () => node?.removeEventListener('wheel', wheel);
    });
    const drag = (e: PointerEvent) => {
        const node = e.currentTarget as HTMLElement, x0 = e.clientX, { from: a, to: b, width: w } = latest.current;
        if (e.button) return;
        node.setPointerCapture(e.pointerId);
        const move = (m: PointerEvent) => Math.abs(m.clientX - x0) > 2 && !e.shiftKey && show(a - ((m.clientX - x0) / w) * (b - a), b - ((m.clientX - x0) / w) * (b - a));
        const up = (u: PointerEvent) => {
            node.removeEventListener('pointermove', move);
            if (e.shiftKey && Math.abs(u.clientX - x0) > 4) {
                const left = node.getBoundingClientRect().left, at = (x: number) => a + ((x - left) / w) * (b - a);
                show(Math.min(at(x0), at(u.clientX)), Math.max(at(x0), at(u.clientX)));
            }
        };
        node.addEventListener('pointermove', move);
        node.addEventListener('pointerup', up, { once: true });
    };
    const ratio = typeof devicePixelRatio === 'number' ? devicePixelRatio : 1, hovered = cursor && near.find((item) => item.row && cursor.y >= HEAD + item.y - scroll && cursor.y < HEAD + item.y - scroll + ROW && cursor.y > HEAD);
    const listed = table ? items.filter((item) => item.row).slice(0, 200).map((item) => ({ row: item.row!, all: shares(picture, tiles, item.row!, ratio) })) : [];
    const latestTurn = useRef(turn), narrow = width < NARROW;
    latestTurn.current = turn;
    const labels = useMemo(() => near.map((item) => (item.group ? <button class="group" style={{ top: `${HEAD + item.y}px` }} aria-expanded={isOpen(item.group.name)} onClick={() => latestTurn.current(item.group!.name)} title={`${item.group.name}: ${plural(item.group.rows.length, 'row')}; the darker, the more of them are at work`}>{isOpen(item.group.name) ? '▾' : '▸'} {item.group.name}{item.group.name === first && <span class="tag warn">finding</span>}</button> : <span class="rowlabel" style={{ top: `${HEAD + item.y}px` }} title={`${item.row!.name} (${item.row!.path})`}>{narrow ? short(item.row!.name) : item.row!.name}</span>)), [near, chosen, route.query.q, first, narrow]);
    return <div class="states" ref={element}>
        <div class="filters">
            <input type="search" id="search" placeholder="Rows: service, thread, name" aria-label="Show rows that contain" value={route.query.q ?? ''} onInput={(e) => alter(route, { q: e.currentTarget.value || undefined })} />
            <span class="buttons"><button onClick={() => zoom(0.5)} aria-label="Zoom in (W)">+</button><button onClick={() => zoom(2)} aria-label="Zoom out (S)">−</button><button onClick={() => pan(-0.3)} aria-label="Earlier (A)">←</button><button onClick={() => pan(0.3)} aria-label="Later (D)">→</button><button onClick={() => show(0, whole)}>All</button></span>
            <label><input type="checkbox" checked={!!route.query.all} onChange={(e) => alter(route, { all: e.currentTarget.checked ? 1 : undefined })} /> system calls</label>
            <span>{moment(from, to - from)} to {moment(to, to - from)}, <b>{duration(to - from)}</b></span>
            <a href={href('requests', '', { s: route.query.s, from_ns: Math.round(from), to_ns: Math.round(to) })}>Requests of this time →</a>
            {finding >= 0 && <span class="chip">{report.findings[finding].title}</span>}
        </div>
        {width > 0 && <div class="timeline" style={{ height: `${tall}px` }}>
            <div class="scroller" ref={scroller} onScroll={(e) => setScroll(e.currentTarget.scrollTop)} tabIndex={0} role="region" aria-label="Rows of states over time; the table below has their shares">
                <div style={{ height: `${HEAD + height}px`, position: 'relative' }}>
                    <div class="labels" style={{ width: `${labelWidth(width)}px` }}>
                        <div class="headlabels" style={{ height: `${HEAD}px` }}><span style={{ top: `${AXIS}px` }}>Findings</span><span style={{ top: `${AXIS + 22}px` }}>Requests</span></div>
                        {labels}
                    </div>
                    <canvas ref={canvas} style={{ left: `${labelWidth(width)}px`, width: `${plot}px`, height: `${tall}px` }} onPointerDown={drag} onPointerMove={(e) => setCursor({ x: e.offsetX, y: e.offsetY })} onPointerLeave={() => setCursor(null)} aria-hidden="true" />
                </div>
            </div>
            {hovered && cursor && <Tip picture={picture} tiles={tiles} item={hovered} x={cursor.x} left={labelWidth(width)} ratio={ratio} />}
        </div>}
        <p class="dim keys"><kbd>W</kbd> <kbd>S</kbd> zoom, <kbd>A</kbd> <kbd>D</kbd> move, <kbd>F</kbd> {finding >= 0 ? 'finding or all' : 'all'}, drag to move, Shift and drag to zoom to a range, Ctrl and wheel to zoom</p>
        <details open={table} onToggle={(e) => setTable(e.currentTarget.open)}><summary>This window as a table</summary>
            {table && <Wide label="States of this window"><table class="list"><thead><tr><th>Process</th><th>Row</th><th>States and their share of the window</th><th class="n">Changes</th></tr></thead>
                <tbody>{listed.map(({ row, all }) => <tr><td>{row.group}</td><td>{row.name}</td><td>{all.length ? all.slice(0, 4).map((s) => <span class="state"><i class="key" style={{ background: css(row.counts ? HEAT : colourOf(s.value)) }} /> {s.value} {percent(s.ns / (to - from))}</span>) : <span class="dim">not loaded yet: scroll to it</span>}{lostIn(report, row).filter((l) => l.from_ns - rows.start_ns < to && l.to_ns - rows.start_ns > from).map((l) => <span class="state bad">⚠ {plural(l.count, 'event')} lost at {moment(l.to_ns - rows.start_ns)}</span>)}</td><td class="n">{count(all.reduce((sum, s) => sum + s.changes, 0))}</td></tr>)}</tbody></table></Wide>}
        </details>
        <Terminal command={`sonde trace states --from +${(from / 1e9).toFixed(6)}s --to +${(to / 1e9).toFixed(6)}s --columns 200 ${quote(source.path)}`} />
    </div>;
}

const NARROW = 700;
const labelWidth = (width: number): number => (width < NARROW ? 120 : 250);

// A row's name where there is little room: without what its neighbours have in common.
const short = (name: string): string => name.replace(/^event loop (\d+): (callbacks )?/, '$1 ').replace(/^thread pool: /, 'pool ').replace(/^thread (\d+): system call/, '$1 call').replace(/^(thread|command of) /, '');

function Tip({ picture: p, tiles, item, x, left, ratio }: { picture: Picture; tiles: Tiles; item: Item; x: number; left: number; ratio: number }) {
    const row = item.row!, page = `page=${Math.floor(row.n / ROWS)}`, ns = p.from + (x / p.width) * (p.to - p.from), zoom = tiles.finest(zoomOf(p, ratio), p.rows.zoom, ns, ns + 1, page);
    const width_ns = 2 ** zoom, index = Math.floor(ns / (COLUMNS * width_ns)), tile = tiles.have(zoom, index, page);
    if (!tile) return null;
    const column = Math.floor((ns - index * COLUMNS * width_ns) / width_ns), at = (row.n % ROWS) * COLUMNS + column, value = tile.table[tile.values[at]];
    let first = column, last = column;
    while (first > 0 && tile.values[at - column + first - 1] === tile.values[at] && !tile.changes[at - column + first]) first--;
    while (last < COLUMNS - 1 && tile.values[at - column + last + 1] === tile.values[at] && !tile.changes[at - column + last + 1]) last++;
    return <div class="tip" style={{ left: `${Math.min(left + x + 14, left + p.width - 240)}px` }}>
        <b>{row.group}</b> {row.name}<br />{tile.shares[at] ? <><i class="key" style={{ background: value === null ? 'none' : css(row.counts ? HEAT : colourOf(value)) }} /> {value === null ? 'nothing' : String(value)}{tile.shares[at] < 250 && ` for ${percent(tile.shares[at] / 255)} of ${duration(width_ns)}`}{tile.second_shares[at] > 0 && <><br /><i class="key" style={{ background: css(colourOf(tile.table[tile.second[at]] ?? '')) }} /> {String(tile.table[tile.second[at]] ?? 'nothing')} for {percent(tile.second_shares[at] / 255)}</>}</> : 'not recorded'}
        {tile.changes[at] > 1 && <><br />about {plural(2 ** (tile.changes[at] - 1), 'change')} here</>}
        {lostIn(p.report, row).filter((l) => l.from_ns - p.rows.start_ns <= ns + width_ns && l.to_ns - p.rows.start_ns >= ns).map((l) => <><br /><b class="bad">⚠ {plural(l.count, 'event')} lost here</b>: {l.reason.replaceAll('-', ' ')}</>)}
        {tile.shares[at] >= 250 && last > first && <><br />for about {duration((last - first + 1) * width_ns)}</>}<br /><span class="dim">{moment(ns, p.to - p.from)}</span>
    </div>;
}

export function States(props: ViewProps) {
    const { source, report } = props;
    const rows = useLoad(() => load<Rows>(`s/${source.id}/rows`, source.version), [source.id, source.version]);
    const slowest = useLoad(() => requests(source, { limit: 1000 }), [source.id, source.version]), missing = useLoad(leftOut, []);
    if (source.kind !== 'recording' || !report) return <Empty title="No states here"><p>A profile has none. Record them with <code>sonde run -o DIR -- COMMAND</code>.</p></Empty>;
    if (rows.error) return <Problem error={rows.error} />;
    if (!rows.value) return <p class="dim">Loading…</p>;
    if (!rows.value.rows.length) return source.state === 'reading' ? <Empty title="States are shown once all is read" /> : <Empty title="This recording has no states"><p>They come from the kernel's events and from event loops. <code>sonde doctor</code> says what to grant so that they are recorded.</p><Terminal command={`sonde trace states ${quote(source.path)}`} /></Empty>;
    return <div class="page wide-page"><h1>States <span class="dim">{plural(rows.value.rows.length, 'row')}, {plural(rows.value.changes, 'change')}{!live && (missing.value ? '; this file has room for the overview and the times of findings only, the rest is in the recording' : '; this file holds them down to a 32nd of the recording')}</span></h1><Timeline rows={rows.value} props={props} slowest={slowest.value?.rows ?? []} /></div>;
}
