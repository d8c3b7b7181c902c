// A tile of states: bytes as src/history/tile.h describes them. Decoded in a worker (tile-worker.ts).
// SPDX-License-Identifier: Apache-2.0
import { colourOf, HEAT, QUIET } from './colour';

export const COLUMNS = 512, ROWS = 64, HEADER = 40, LINES = 5;

export interface Tile {
    rows: number;
    zoom: number;
    from_ns: number; // after the history's start: exact, whatever the clock (tiles.ts)
    values: Uint16Array; // by row and column: index into table
    shares: Uint8Array; // 0: nothing there; 255: it held the whole column
    changes: Uint8Array;
    second: Uint16Array; // the value that held second longest
    second_shares: Uint8Array; // 0: there was none
    table: (null | string | number)[];
    bitmap?: ImageBitmap; // a column for each cell, LINES high
}

export function decode(data: ArrayBuffer): Tile {
    const view = new DataView(data), bytes = new Uint8Array(data);
    if (data.byteLength < HEADER || view.getUint32(0, true) !== 0x31544453) throw new Error('no tile');
    const rows = view.getUint16(4, true), columns = view.getUint16(6, true), cells = rows * columns, table = view.getUint32(20, true);
    if (columns !== COLUMNS || rows > ROWS || table !== HEADER + 7 * cells || table > data.byteLength) throw new Error('a damaged tile');
    const tile: Tile = {
        rows, zoom: view.getUint32(16, true), from_ns: 0, values: new Uint16Array(data.slice(HEADER, HEADER + 2 * cells)),
        shares: bytes.slice(HEADER + 2 * cells, HEADER + 3 * cells), changes: bytes.slice(HEADER + 3 * cells, HEADER + 4 * cells),
        second_shares: bytes.slice(HEADER + 4 * cells, HEADER + 5 * cells), second: new Uint16Array(data.slice(HEADER + 5 * cells, table)), table: JSON.parse(new TextDecoder().decode(bytes.subarray(table))),
    };
    if (!Array.isArray(tile.table) || [tile.values, tile.second].some((plane) => plane.some((value) => value >= tile.table.length))) throw new Error('a damaged tile');
    return tile;
}

// heat: rows whose values are counts; more is darker. Elsewhere a value has its colour, and height by its share: what waits
// for nothing in particular is the pale ground that the rest stands on.
export function paint(tile: Tile, heat: boolean[]): Uint8ClampedArray {
    const pixels = new Uint8ClampedArray(4 * tile.rows * LINES * COLUMNS), colours = tile.table.map((value) => (value === null ? null : colourOf(value))), quiet = tile.table.map((value) => value === null || QUIET.has(String(value)));
    const put = (row: number, column: number, from: number, to: number, value: number, alpha: number, colour = colours[value]) => {
        for (let line = from; colour && line < to; line++) {
            const at = 4 * ((row * LINES + line) * COLUMNS + column);
            pixels.set(colour, at);
            pixels[at + 3] = alpha;
        }
    };
    for (let row = 0; row < tile.rows; row++)
        for (let column = 0; column < COLUMNS; column++) {
            const at = row * COLUMNS + column, share = tile.shares[at], number = tile.table[tile.values[at]];
            if (!share) continue;
            if (heat[row]) {
                if (typeof number === 'number' && number > 0) put(row, column, 0, LINES, tile.values[at], Math.min(255, 40 + 50 * Math.log2(1 + number)), HEAT);
                continue;
            }
            const [ground, figure, figure_share] = quiet[tile.values[at]] || !tile.second_shares[at] || !quiet[tile.second[at]] ? [tile.values[at], tile.second[at], tile.second_shares[at]] : [tile.second[at], tile.values[at], share];
            if (!figure_share) {
                put(row, column, 0, LINES, ground, quiet[ground] ? 64 : 235);
                continue;
            }
            const high = Math.max(1, Math.min(LINES, Math.round((LINES * figure_share) / 255)));
            put(row, column, 0, LINES - high, ground, quiet[ground] ? 64 : 235);
            put(row, column, LINES - high, LINES, figure, quiet[figure] ? 64 : 235);
        }
    return pixels;
}
