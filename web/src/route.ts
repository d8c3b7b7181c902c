// Every state of the page is in its address: #/view/part?key=value. Times are nanoseconds after the recording's start.
// SPDX-License-Identifier: Apache-2.0
import { useEffect, useState } from 'preact/hooks';

export interface Route {
    view: string;
    part: string; // the finding or request that is shown; "" for none
    query: Record<string, string>;
}

export function parse(hash: string): Route {
    const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
    const [view = '', ...rest] = path.split('/');
    return { view: view || 'findings', part: decodeURIComponent(rest.join('/')), query: Object.fromEntries(new URLSearchParams(query)) };
}

export function href(view: string, part = '', query: Record<string, string | number | undefined> = {}): string {
    const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
    const parameters = new URLSearchParams(set.map(([key, value]) => [key, String(value)])).toString();
    return `#/${view}${part ? `/${encodeURIComponent(part)}` : ''}${parameters ? `?${parameters}` : ''}`;
}

export function go(address: string, replace = false): void {
    if (replace) {
        history.replaceState(null, '', address);
        dispatchEvent(new HashChangeEvent('hashchange'));
    } else {
        location.hash = address;
    }
}

export function useRoute(): Route {
    const [route, set] = useState(() => parse(location.hash));
    useEffect(() => {
        const changed = () => set(parse(location.hash));
        addEventListener('hashchange', changed);
        return () => removeEventListener('hashchange', changed);
    }, []);
    return route;
}

// Changes keys of the present address; undefined takes one away.
export function alter(route: Route, changes: Record<string, string | number | undefined>, replace = true): void {
    go(href(route.view, route.part, { ...route.query, ...changes }), replace);
}
