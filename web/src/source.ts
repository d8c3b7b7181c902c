// Where the page's documents come from: a server, or this very file.
// SPDX-License-Identifier: Apache-2.0
import type { RequestPage, RequestRow, SourceInfo, Sources } from './types';

export class Missing extends Error {}

interface Store {
    readonly live: boolean;
    bytes(address: string, signal?: AbortSignal): Promise<ArrayBuffer>;
}

const server: Store = {
    live: true,
    async bytes(address, signal) {
        const answer = await fetch(`api/v1/${address}`, { signal });
        if (answer.status === 404) throw new Missing((await answer.json().catch(() => null))?.problem ?? 'not there');
        if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
        return answer.arrayBuffer();
    },
};

// Documents that src/page/page.c put into the file: gzip in base64, by address.
class File implements Store {
    readonly live = false;
    private parts = new Map<string, Element>();
    constructor(elements: Iterable<Element>) {
        for (const element of elements) this.parts.set((element as HTMLElement).dataset.part!, element);
    }
    async bytes(address: string): Promise<ArrayBuffer> {
        const element = this.parts.get(address.replace(/&v=\d+$/, ''));
        if (!element) throw new Missing('this file holds the overview and what findings name; the rest is in the recording');
        const packed = Uint8Array.from(atob(element.textContent!.trim()), (c) => c.charCodeAt(0));
        return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
    }
}

const elements = document.querySelectorAll('script[data-part]');
const store: Store = elements.length ? new File(elements) : server;
export const live = store.live;

// How much a file had no room for; of a server nothing is left out.
export const leftOut = (): Promise<number> => (live ? Promise.resolve(0) : load<{ left_out_count: number }>('file').then((file) => file.left_out_count, () => 0));

export const bytes = (address: string, signal?: AbortSignal) => store.bytes(address, signal);

// Times of clocks that count from 1970 are above 2^53, where a JavaScript number is no longer exact. Of a source that has such
// times, all documents are taken relative to the same moment, so that what lies between two of them stays exact.
const LARGE = 2n ** 53n, STEP = 2n ** 50n, bases = new Map<string, bigint>();

const sourceOf = (address: string): string => /^s\/(\d+)\//.exec(address)?.[1] ?? '';

export function parseExactly(address: string, text: string): unknown {
    const source = sourceOf(address);
    if (!source || !/\d{16}/.test(text)) return JSON.parse(text);
    return JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|(?<![\d.])\d{16,19}(?![\d.eE])/g, (token) => {
        if (token[0] === '"' || BigInt(token) < LARGE) return token;
        if (!bases.has(source)) bases.set(source, (BigInt(token) / STEP) * STEP);
        return String(BigInt(token) - bases.get(source)!);
    }));
}

// A time of the documents as the server has it.
export const absolute = (source: number, ns: string): string => String(BigInt(Math.round(Number(ns))) + (bases.get(String(source)) ?? 0n));

const known = new Map<string, { version: number; document: Promise<unknown> }>();

// A document, kept as long as its source has that version.
export function load<T>(address: string, version = 0): Promise<T> {
    const have = known.get(address);
    if (have?.version === version) return have.document as Promise<T>;
    const document = store.bytes(address).then((data) => parseExactly(address, new TextDecoder().decode(data)) as T);
    known.set(address, { version, document });
    document.catch(() => known.delete(address));
    if (known.size > 500) known.delete(known.keys().next().value!);
    return document;
}

export const sources = (): Promise<Sources> => {
    known.delete('sources');
    return load<Sources>('sources');
};

export interface RequestQuery {
    service?: string;
    method?: string;
    route?: string;
    text?: string;
    failed?: string;
    min_ns?: string;
    max_ns?: string;
    from_ns?: string;
    to_ns?: string;
    sort?: string;
    order?: string;
    offset?: number;
    limit?: number;
}

// A server filters; a file holds all rows and filters here, by the same rules (src/serve/requests.c).
export async function requests({ id: source, version, state }: SourceInfo, query: RequestQuery): Promise<RequestPage> {
    if (live) {
        if (state === 'reading') throw new Missing('requests are listed once all is read'); // there is no need to ask
        const parameters = new URLSearchParams();
        for (const [key, value] of Object.entries(query)) if (value !== undefined && value !== '') parameters.set(key, key === 'from_ns' || key === 'to_ns' ? absolute(source, String(value)) : String(value));
        return load(`s/${source}/requests?${parameters}`, version);
    }
    const all = await load<RequestPage>(`s/${source}/requests`, version);
    const has = (row: RequestRow) => (!query.service || row.service === query.service) && (!query.method || row.method === query.method) &&
        (!query.route || row.route === query.route) && (!query.failed || row.status >= 500 || row.state === 'unfinished' || row.state === 'aborted') &&
        row.latency_ns >= Number(query.min_ns || 0) && (!query.max_ns || row.latency_ns <= Number(query.max_ns)) &&
        (!query.from_ns || row.start_ns + row.latency_ns >= Number(query.from_ns)) && (!query.to_ns || row.start_ns < Number(query.to_ns)) &&
        (!query.text || `${row.path}\n${row.id}`.toLowerCase().includes(query.text.toLowerCase()));
    const key = (row: RequestRow) => (query.sort === 'start' ? row.start_ns : query.sort === 'waits' ? row.latency_ns - row.works_ns : row.latency_ns);
    const sign = query.order === 'ascending' ? 1 : -1, rows = all.rows.filter(has).sort((a, b) => sign * (key(a) - key(b)));
    return { total: rows.length, of: all.total > all.rows.length ? all.total : undefined, histogram: histogram(rows), rows: rows.slice(query.offset ?? 0, (query.offset ?? 0) + (query.limit ?? 100)) };
}

// Quarters of an octave.
function histogram(rows: RequestRow[]): RequestPage['histogram'] {
    const bins = new Map<number, number>(), low = (bin: number) => (4 + (bin % 4)) * 2 ** (Math.floor(bin / 4) - 2);
    for (const { latency_ns } of rows) {
        const octave = Math.floor(Math.log2(Math.max(4, latency_ns))), bin = octave * 4 + Math.min(3, Math.floor((latency_ns / 2 ** octave - 1) * 4));
        bins.set(bin, (bins.get(bin) ?? 0) + 1);
    }
    return [...bins].sort(([a], [b]) => a - b).map(([bin, n]) => [low(bin), low(bin + 1), n]);
}
