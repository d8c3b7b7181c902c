// Every state of the page is in its address: #/view/part?key=value. Times are nanoseconds after the recording's start.
// SPDX-License-Identifier: Apache-2.0
import { useEffect, useState } from 'preact/hooks';

export interface Route {
    view: string; // "" when the address names none
    part: string; // the finding or request that is shown; "" for none
    query: Record<string, string>;
}

export function parse(hash: string): Route {
    const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
    const [view = '', ...rest] = path.split('/');
    let part = rest.join('/');
    try {
        part = decodeURIComponent(part);
    } catch {
        // An address that somebody cut is shown as it is.
    }
    return { view, part, query: Object.fromEntries(new URLSearchParams(query)) };
}

export function href(view: string, part = '', query: Record<string, string | number | undefined> = {}): string {
    const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
    const parameters = new URLSearchParams(set.map(([key, value]) => [key, String(value)])).toString();
    return `#/${view}${part ? `/${encodeURIComponent(part)}` : ''}${parameters ? `?${parameters}` : ''}`;
}

// Browsers take no more than 200 changes of the address in ten seconds (Chromium; Safari 100 in 30) and ignore the rest, which
// panning makes in three. So the address is kept here, and what comes faster is written a little later.
const AT_ONCE = 12, SETTLED = 60, PERIOD_MS = 10_000, LATER_MS = 600;
let current = location.hash, period = 0, written = 0, later = 0;

function write(): void {
    clearTimeout(later);
    later = 0;
    if (location.hash !== current) history.replaceState(null, '', current);
}

function writeSoon(): void {
    const now = performance.now();
    if (now - period > PERIOD_MS) [period, written] = [now, 0];
    if (later) return;
    if (written++ < AT_ONCE) write();
    else later = setTimeout(write, LATER_MS) as unknown as number;
}

export function go(address: string, replace = false): void {
    if (replace) {
        current = address;
        writeSoon();
        dispatchEvent(new Event('route'));
    } else {
        write();
        location.hash = address;
    }
}

// A key that is let go ends a change: typing is in the address at once, holding an arrow down is not.
function settle(): void {
    if (!later || written >= SETTLED) return;
    written++;
    write();
}

// What the address is by then is written before a link, a reload or another page takes it away.
addEventListener('keyup', settle, true);
addEventListener('click', write, true);
addEventListener('pagehide', write);

export function useRoute(): Route {
    const [route, set] = useState(() => parse(current));
    useEffect(() => {
        const changed = () => set(parse(current));
        const followed = () => {
            clearTimeout(later);
            later = 0;
            current = location.hash;
            changed();
        };
        addEventListener('route', changed);
        addEventListener('hashchange', followed);
        return () => (removeEventListener('route', changed), removeEventListener('hashchange', followed));
    }, []);
    return route;
}

// Changes keys of the present address; undefined takes one away.
export function alter(route: Route, changes: Record<string, string | number | undefined>, replace = true): void {
    go(href(route.view, route.part, { ...route.query, ...changes }), replace);
}
