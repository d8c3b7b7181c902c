// Draws the view of states: what is seen of rows and groups between two times, with findings and requests above them.
// SPDX-License-Identifier: Apache-2.0
import { measurer, resize } from './canvas';
import { QUIET } from './colour';
import { moment, step } from './format';
import { live } from './source';
import { COLUMNS, LINES, ROWS, type Tile } from './tile';
import type { Tiles } from './tiles';
import type { Finding, Lost, Report, RequestRow, Rows } from './types';

const widthOf = measurer();
export const ROW = 20, BAR = 15, GROUP = 24, HEAD = 74, AXIS = 20;

export interface Item {
    y: number;
    group?: Group;
    row?: Rows['rows'][number];
}
export interface Group {
    n: number; // as the server counts them
    name: string;
    rows: Rows['rows'];
}

export interface Picture {
    from: number; // ns after the recording's start
    to: number;
    width: number;
    height: number;
    scroll: number;
    items: Item[]; // those near the window
    rows: Rows;
    report: Report;
    requests: RequestRow[];
    finding: number;
    cursor: { x: number; y: number } | null;
}

interface Theme {
    text: string;
    dim: string;
    line: string;
    back: string;
    lane: string;
    ink: string;
    mark: string;
    bad: string;
    accent: string;
    hatch: CanvasPattern | null;
}

// Reading them takes longer than drawing, so that is done once for light and once for dark.
let theme: Theme | null = null;
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => (theme = null));

function themeOf(canvas: HTMLCanvasElement, g: CanvasRenderingContext2D): Theme {
    if (theme) return theme;
    const style = getComputedStyle(canvas), of = (name: string) => style.getPropertyValue(`--${name}`);
    const tile = document.createElement('canvas'), h = tile.getContext('2d')!;
    tile.width = tile.height = 6;
    h.fillStyle = of('back');
    h.fillRect(0, 0, 6, 6);
    h.strokeStyle = of('bad');
    h.lineWidth = 1.6;
    h.beginPath();
    for (const at of [-6, 0, 6]) (h.moveTo(at - 1, 7), h.lineTo(at + 7, -1));
    h.stroke();
    return (theme = { text: of('text'), dim: of('dim'), line: of('line'), back: of('back'), lane: of('lane'), ink: of('ink'), mark: of('mark'), bad: of('bad'), accent: of('accent'), hatch: g.createPattern(tile, 'repeat') });
}

// The zoom at which a column is at least a pixel.
export const zoomOf = (p: Picture, ratio: number): number => Math.max(0, Math.min(p.rows.zoom, Math.floor(Math.log2(Math.max(1, (p.to - p.from) / (p.width * ratio))))));

// A tile's place in the picture: of a page of rows, the same for each of them.
interface Piece {
    tile: Tile;
    exact: boolean; // of the zoom that is wanted
    first: number; // column
    columns: number;
    x: number;
    width: number;
}

// What there is of a page of rows, or of groups, within the window; what is missing is asked for, and the next coarser tile
// stands in: one that is at hand, and where there is none of that zoom (a file has only some), one that is asked for.
function pieces(p: Picture, tiles: Tiles, zoom: number, least: number, page: string): Piece[] {
    const z = Math.max(zoom, least), tile_ns = COLUMNS * 2 ** z, all: Piece[] = [], scale = p.width / (p.to - p.from), end = p.rows.end_ns - p.rows.start_ns;
    for (let i = Math.max(0, Math.floor(p.from / tile_ns)); i * tile_ns < p.to && i * tile_ns < end; i++) {
        const from = Math.max(p.from, i * tile_ns), to = Math.min(p.to, (i + 1) * tile_ns, end);
        let tile = tiles.get(z, i, page), at = z;
        for (let j = i, lacks = tiles.lacks(z, i, page); !tile && at < p.rows.zoom; lacks &&= tiles.lacks(at, j, page)) {
            at++;
            j = Math.floor(j / 2);
            tile = tiles.have(at, j, page) ?? (lacks || at === p.rows.zoom ? tiles.get(at, j, page) : null);
        }
        if (!tile?.bitmap) continue;
        const width_ns = 2 ** at, first = Math.max(0, (from - tile.from_ns) / width_ns), last = Math.min(COLUMNS, (to - tile.from_ns) / width_ns);
        if (last > first) all.push({ tile, exact: at === zoom, first, columns: last - first, x: (tile.from_ns + first * width_ns - p.from) * scale, width: (last - first) * width_ns * scale });
    }
    return all;
}

// Names of states where there is room for them.
function drawNames(g: CanvasRenderingContext2D, { tile, first, columns, x, width }: Piece, row: number, y: number): void {
    const each = width / columns, from = Math.floor(first), to = Math.ceil(first + columns), base = row * COLUMNS, { values, shares, table } = tile;
    for (let c = from; c < to;) {
        const value = values[base + c], held = shares[base + c] > 127;
        let end = c + 1;
        while (end < to && values[base + end] === value && shares[base + end] > 127) end++;
        const left = Math.max(x, x + (c - first) * each), wide = Math.min(x + width, x + (end - first) * each) - left;
        if (held && wide > 34) {
            const text = String(table[value] ?? '');
            if (text && !QUIET.has(text) && widthOf(g, text) < wide - 8) g.fillText(text, left + 4, y + BAR / 2 + 0.5);
        }
        c = end;
    }
}

// Where events were lost: the rows of the thread, or of the process, are hatched there, since nobody knows what they did.
export const lostIn = (report: Report, row: Rows['rows'][number]): Lost[] => (report.lost ?? []).filter((l) => (l.thread ? row.thread === l.thread : !l.process || row.process === l.process));

function drawLost(g: CanvasRenderingContext2D, p: Picture, colours: Theme, row: Rows['rows'][number], y: number, shift: number): void {
    const scale = p.width / (p.to - p.from);
    for (const l of lostIn(p.report, row)) {
        const a = (l.from_ns - shift - p.from) * scale, b = Math.max(a + 3, (l.to_ns - shift - p.from) * scale);
        if (b < 0 || a > p.width) continue;
        g.fillStyle = colours.hatch ?? colours.bad;
        g.fillRect(Math.max(0, a), y, Math.min(p.width, b) - Math.max(0, a), BAR);
    }
}

function drawHead(g: CanvasRenderingContext2D, p: Picture, colours: Theme): void {
    const span = p.to - p.from, x = (ns: number) => ((ns - p.from) * p.width) / span, each = step(span, p.width / 120);
    g.fillStyle = colours.back;
    g.fillRect(0, 0, p.width, HEAD);
    g.fillStyle = colours.dim;
    g.strokeStyle = colours.line;
    g.lineWidth = 1;
    g.beginPath();
    for (let ns = Math.ceil(p.from / each) * each; ns < p.to; ns += each) {
        g.fillText(moment(ns, each * 50), x(ns) + 4, AXIS / 2);
        g.moveTo(Math.round(x(ns)) + 0.5, 0);
        g.lineTo(Math.round(x(ns)) + 0.5, p.height);
    }
    g.stroke();
    const start = p.rows.start_ns;
    const mark = (f: Finding, i: number) => {
        const a = x(f.from_ns - start), b = x((f.to_ns ?? p.report.to_ns) - start);
        g.fillStyle = i === p.finding ? colours.bad : colours.mark;
        g.globalAlpha = i === p.finding ? 1 : 0.55;
        g.fillRect(Math.max(0, a), AXIS + 2 + (i % 3) * 5, Math.max(2, Math.min(p.width, b) - Math.max(0, a)), 3);
        if (i === p.finding) {
            g.globalAlpha = 0.08;
            g.fillRect(a, AXIS, b - a, p.height);
        }
    };
    p.report.findings.forEach((f, i) => i !== p.finding && mark(f, i));
    if (p.report.findings[p.finding]) mark(p.report.findings[p.finding], p.finding); // above the others
    const top = AXIS + 20, high = HEAD - top - 4, most = Math.log10(p.requests.reduce((max, r) => Math.max(max, r.latency_ns), 1e4)) - 3;
    g.fillStyle = colours.accent;
    g.globalAlpha = 0.7;
    for (const r of p.requests) {
        const a = x(r.start_ns - start), b = x(r.start_ns + r.latency_ns - start);
        if (b < 0 || a > p.width) continue;
        const tall = Math.max(2, (high * (Math.log10(Math.max(1e3, r.latency_ns)) - 3)) / most);
        g.fillRect(a, top + high - tall, Math.max(1, b - a), Math.max(1.5, b - a > 3 ? 2 : tall));
    }
    g.globalAlpha = 1;
}

export function draw(canvas: HTMLCanvasElement, p: Picture, tiles: Tiles): void {
    const ratio = devicePixelRatio || 1, g = canvas.getContext('2d')!;
    resize(canvas, Math.round(p.width * ratio), Math.round(p.height * ratio));
    const colours = themeOf(canvas, g), zoom = zoomOf(p, ratio), shift = p.rows.start_ns;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, p.width, p.height);
    g.imageSmoothingEnabled = false;
    g.font = '11px system-ui, sans-serif';
    g.textBaseline = 'middle';
    const pages = new Map<string, Piece[]>(), names: [Piece, number, number][] = [], bars: [row: number, y: number, pieces: Piece[], item: Item, page: string][] = [];
    tiles.begin();
    for (const item of p.items) {
        const y = HEAD + item.y - p.scroll + (item.group ? 4 : 0), n = item.row ? item.row.n : item.group!.n;
        if (y > p.height || y + ROW < HEAD) continue;
        const page = `${item.row ? 'page' : 'groups'}=${Math.floor(n / ROWS)}`;
        let found = pages.get(page);
        if (!found) pages.set(page, (found = pieces(p, tiles, zoom, item.row ? 0 : p.rows.groups_zoom, page)));
        bars.push([n % ROWS, y, found, item, page]);
    }
    tiles.end();
    g.fillStyle = colours.lane;
    for (const [, y] of bars) g.fillRect(0, y, p.width, BAR);
    for (const [row, y, found, item] of bars)
        for (const piece of found) {
            g.drawImage(piece.tile.bitmap!, piece.first, row * LINES, piece.columns, LINES, piece.x, y, piece.width, BAR);
            if (piece.exact && item.row && !item.row.counts) names.push([piece, row, y]);
        }
    g.fillStyle = colours.dim; // an empty row would say that nothing happened
    for (const [, y, found, , page] of bars) if (!found.length && tiles.lacks(p.rows.zoom, 0, page)) g.fillText(live ? 'not available' : 'not in this file', 4, y + BAR / 2 + 0.5);
    g.fillStyle = colours.ink;
    for (const [piece, row, y] of names) drawNames(g, piece, row, y);
    if (p.report.lost?.length) for (const [, y, , item] of bars) if (item.row) drawLost(g, p, colours, item.row, y, shift);
    drawHead(g, p, colours);
    if (p.cursor) {
        g.strokeStyle = colours.text;
        g.beginPath();
        g.moveTo(Math.round(p.cursor.x) + 0.5, 0);
        g.lineTo(Math.round(p.cursor.x) + 0.5, p.height);
        g.stroke();
    }
}
