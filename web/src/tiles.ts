// The tiles that are at hand: asked for when they are to be drawn, given up when they are not any more.
// SPDX-License-Identifier: Apache-2.0
import { bytes, live } from './source';
import { COLUMNS, ROWS, type Tile } from './tile';
import type { Rows } from './types';

declare const WORKER_SOURCE: string;

// Asked for at once: a server on this machine makes them on the CPUs that the page is drawn on.
const KEPT = 300, AT_ONCE = Math.max(2, Math.min(6, navigator.hardwareConcurrency || 6));

interface Entry {
    tile: Tile | null; // null: it is on its way, or there is none
    missing: boolean;
    used: number;
    stop?: AbortController;
}

export class Tiles {
    private entries = new Map<string, Entry>();
    private worker: Worker;
    private waiting = new Map<number, (tile: Tile | null) => void>();
    private queue: string[] = [];
    private running = 0;
    private tick = 0;
    private next = 1;

    constructor(private source: number, private version: number, private rows: Rows, private changed: () => void) {
        const address = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: 'text/javascript' }));
        this.worker = new Worker(address);
        URL.revokeObjectURL(address);
        this.worker.onmessage = ({ data }) => {
            this.waiting.get(data.id)?.(data.tile ?? null);
            this.waiting.delete(data.id);
        };
    }

    close(): void {
        this.worker.terminate();
        for (const entry of this.entries.values()) {
            entry.stop?.abort();
            entry.tile?.bitmap?.close();
        }
    }

    // A new picture begins: what it does not ask for is not fetched any more.
    begin(): void {
        this.tick++;
        this.queue = [];
    }

    // page: "page=3" of rows, "groups=0" of groups.
    get(zoom: number, index: number, page: string): Tile | null {
        const key = `z=${zoom}&i=${index}&${page}`;
        let entry = this.entries.get(key);
        if (!entry) {
            entry = { tile: null, missing: false, used: this.tick };
            this.entries.set(key, entry);
        }
        entry.used = this.tick;
        if (!entry.tile && !entry.missing && !entry.stop) this.queue.push(key);
        return entry.tile;
    }

    // What is there already, of this zoom or a coarser one.
    have(zoom: number, index: number, page: string): Tile | null {
        const entry = this.entries.get(`z=${zoom}&i=${index}&${page}`);
        if (entry?.tile) entry.used = this.tick;
        return entry?.tile ?? null;
    }

    // The finest zoom from this one on of which all tiles between two times are at hand; the coarsest where there is none.
    finest(zoom: number, whole: number, from: number, to: number, page: string): number {
        const all = (z: number) => {
            const tile_ns = COLUMNS * 2 ** z;
            for (let i = Math.max(0, Math.floor(from / tile_ns)); i * tile_ns < to; i++) if (!this.have(z, i, page)) return false;
            return true;
        };
        while (zoom < whole && !all(zoom)) zoom++;
        return zoom;
    }

    // Whether it was asked for and is not there: a file has only some.
    lacks(zoom: number, index: number, page: string): boolean {
        return !!this.entries.get(`z=${zoom}&i=${index}&${page}`)?.missing;
    }

    end(): void {
        for (const [key, entry] of this.entries)
            if (entry.stop && entry.used < this.tick - 2) {
                entry.stop.abort();
                this.entries.delete(key);
            }
        this.pump();
        if (this.entries.size > KEPT)
            for (const [key, entry] of [...this.entries].sort(([, a], [, b]) => a.used - b.used).slice(0, this.entries.size - KEPT)) {
                entry.stop?.abort();
                entry.tile?.bitmap?.close();
                this.entries.delete(key);
            }
    }

    private pump(): void {
        while (this.running < AT_ONCE && this.queue.length) {
            const key = this.queue.shift()!, entry = this.entries.get(key);
            if (!entry || entry.tile || entry.stop) continue;
            entry.stop = new AbortController();
            this.running++;
            void this.fetch(key, entry).finally(() => {
                entry.stop = undefined;
                this.running--;
                this.pump();
            });
        }
    }

    private async fetch(key: string, entry: Entry): Promise<void> {
        try {
            const data = await bytes(`s/${this.source}/tile?${key}${live ? `&v=${this.version}` : ''}`, entry.stop!.signal), id = this.next++;
            const [, z, i, what, page] = /z=(\d+)&i=(\d+)&(\w+)=(\d+)/.exec(key)!, rows = this.rows.rows.slice(Number(page) * ROWS, (Number(page) + 1) * ROWS);
            const heat = what === 'groups' ? new Array<boolean>(ROWS).fill(true) : rows.map((row) => !!row.counts);
            const tile = await new Promise<Tile | null>((resolve) => {
                this.waiting.set(id, resolve);
                this.worker.postMessage({ id, data, heat, quiet: this.rows.quiet }, [data]);
            });
            if (tile) tile.from_ns = Number(i) * COLUMNS * 2 ** Number(z);
            entry.tile = tile;
            entry.missing = !tile;
            this.changed();
        } catch (error) {
            if ((error as Error).name === 'AbortError') return;
            entry.missing = true;
            this.changed();
        }
    }
}
