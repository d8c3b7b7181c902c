// Which code takes the time? Flame and icicle graph, callers and callees of one function, and a table, side by side.
// SPDX-License-Identifier: Apache-2.0
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Flame } from '../flame';
import { count, percent, shortFile, weight } from '../format';
import { alter } from '../route';
import { load, Missing } from '../source';
import { matched, names, read, sandwich, trunk, type Function, type Profile as Data } from '../trie';
import type { ProfileDocument } from '../types';
import { Empty, Problem, quote, Terminal, useLoad, type ViewProps } from '../ui';

const SHOWN = 200;

// A regular expression, or its letters when it is none.
function pattern(text: string): RegExp | null {
    if (!text) return null;
    try {
        return new RegExp(text, 'i');
    } catch {
        return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i');
    }
}

type Column = 'self' | 'total' | 'change' | 'name';

function Table({ data, hits, whole, selected, by, turn }: { data: Data; hits: Uint8Array | null; whole: number; selected: number; by?: string; turn: (changes: Record<string, string>, replace?: boolean) => void }) {
    const compared = !!data.trie.before, column = (by ?? (compared ? 'change' : 'self')) as Column, change = (f: Function) => f.self - f.before_self;
    const sorted = useMemo(() => {
        const all = data.functions.filter((f) => (f.total > 0 || f.before_total > 0) && (!hits || hits[f.id]) && f.kind !== 'group');
        return all.sort((a, b) => (column === 'name' ? a.name.localeCompare(b.name) : column === 'total' ? b.total - a.total : column === 'change' ? Math.abs(change(b)) - Math.abs(change(a)) : b.self - a.self) || b.total - a.total);
    }, [data, hits, column]);
    const head = (id: Column, words: string) => <th class={id === 'name' ? '' : 'n'} aria-sort={column === id ? (id === 'name' ? 'ascending' : 'descending') : 'none'}><button onClick={() => turn({ by: id })}>{words}{column === id ? (id === 'name' ? ' ↑' : ' ↓') : ''}</button></th>;
    return <div class="functions"><table class="list">
        <thead><tr>{head('self', 'Itself')}{compared && head('change', 'Change')}{head('total', 'With callees')}{head('name', 'Function')}</tr></thead>
        <tbody>{sorted.slice(0, SHOWN).map((f) => <tr class={f.id === selected ? 'on' : ''}>
            <td class="n share-cell"><i style={{ width: `${(100 * f.self) / Math.max(1, whole)}%` }} />{percent(f.self / Math.max(1, whole))}</td>
            {compared && <td class="n">{change(f) > 0 ? '+' : change(f) < 0 ? '−' : ''}{weight(Math.abs(change(f)), data.unit)}{f.before_total === 0 ? ' new' : f.total === 0 ? ' gone' : ''}</td>}
            <td class="n">{percent(f.total / Math.max(1, whole))}</td>
            <td><button class="fn" onClick={() => turn({ f: f.name, mode: 'sandwich' }, false)} title={`${f.name}${f.file ? ` ${f.file}:${f.line}` : ''}: ${weight(f.self, data.unit)} itself`}>{f.name}</button>{f.file && <span class="dim"> {shortFile(f.file)}{f.line ? `:${f.line}` : ''}</span>}</td>
        </tr>)}</tbody>
        {sorted.length > SHOWN && <tfoot><tr><td colSpan={4} class="dim">and {count(sorted.length - SHOWN)} more; search to see them</td></tr></tfoot>}
    </table></div>;
}

function Graphs({ data, props }: { data: Data; props: ViewProps }) {
    const { route } = props, { trie, functions } = data, mode = route.query.mode ?? 'icicle', whole = Math.max(trie.total[0], 0);
    const paths = useMemo(() => names(data), [data]), found = useMemo(() => (route.query.z ? paths.indexOf(parseInt(route.query.z, 36)) : 0), [route.query.z, paths]);
    const folded = route.query.trunk !== 'whole', zoom = found > 0 ? found : folded ? trunk(trie, 0) : 0;
    const selected = useMemo(() => (route.query.f ? functions.findIndex((f) => f.name === route.query.f) : -1), [route.query.f, functions]);
    const search = useMemo(() => pattern(route.query.q ?? ''), [route.query.q]), hits = useMemo(() => (search ? Uint8Array.from(functions, (f) => Number(search.test(f.name) || search.test(f.file))) : null), [search, functions]);
    const share = useMemo(() => (hits ? matched(trie, hits) / Math.max(1, whole) : 0), [hits]);
    const busiest = useMemo(() => functions.reduce((most, f) => (f.kind !== 'group' && f.self > (functions[most]?.self ?? -1) ? f.id : most), -1), [functions]);
    const subject = mode === 'sandwich' ? (selected >= 0 ? selected : Math.max(0, busiest)) : -1;
    const sides = useMemo(() => (subject >= 0 ? sandwich(data, subject) : null), [data, subject]), [inner, setInner] = useState({ callers: 0, callees: 0 });
    useEffect(() => setInner({ callers: 0, callees: 0 }), [subject]);
    const trail: number[] = [];
    for (let node = zoom; node; node = trie.parent[node]) trail.unshift(node);
    const open = (node: number) => alter(route, { z: node ? paths[node].toString(36) : undefined, trunk: node ? route.query.trunk : 'whole' }, false);
    useLayoutEffect(() => {
        const pressed = (e: KeyboardEvent) => {
            if (e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).closest('input[type=search], select, dialog')) return;
            const sibling = (back: boolean) => {
                for (let n = trie.first[trie.parent[zoom]], last = 0; n; last = n, n = trie.next[n]) if (n === zoom) return back ? last : trie.next[n];
                return 0;
            };
            const act: Record<string, () => void> = {
                i: () => alter(route, { mode: mode === 'icicle' ? 'flame' : 'icicle' }), c: () => alter(route, { mode: mode === 'sandwich' ? undefined : 'sandwich' }), Escape: () => alter(route, { z: undefined, q: undefined, f: undefined, mode: undefined, trunk: undefined }),
                ArrowDown: () => open(mode === 'flame' ? trie.parent[zoom] : trie.first[zoom] || zoom), ArrowUp: () => open(mode === 'flame' ? trie.first[zoom] || zoom : trie.parent[zoom]), ArrowLeft: () => open(sibling(true) || zoom), ArrowRight: () => open(sibling(false) || zoom),
            };
            if (act[e.key] && !(e.key.startsWith('Arrow') && mode === 'sandwich')) (e.preventDefault(), act[e.key]());
        };
        addEventListener('keydown', pressed);
        return () => removeEventListener('keydown', pressed);
    });
    const groups = useMemo(() => {
        const all: number[] = [];
        for (let n = trie.first[0]; n; n = trie.next[n]) if (functions[trie.fn[n]].kind === 'group') all.push(n);
        return all;
    }, [data]);
    const flame = (label: string, which: typeof trie, from: number, up: boolean, onOpen: (node: number) => void) =>
        <Flame profile={data} trie={which} from={from} up={up} hits={hits} selected={selected} whole={whole} label={label} onOpen={onOpen} />;
    const latest = useRef(route), marked = mode === 'sandwich' ? subject : selected;
    latest.current = route;
    // Its rows stay as they are while the graph is zoomed.
    const table = useMemo(() => <Table data={data} hits={hits} whole={whole} selected={marked} by={route.query.by} turn={(changes, replace) => alter(latest.current, changes, replace)} />, [data, hits, whole, marked, route.query.by]);
    const choose = (id: string, words: string) => <button aria-pressed={mode === id} onClick={() => alter(route, { mode: id === 'icicle' ? undefined : id })}>{words}</button>;
    return <>
        <div class="filters">
            <span class="buttons" role="group" aria-label="Picture">{choose('icicle', 'Icicle')}{choose('flame', 'Flame')}{choose('sandwich', 'Callers and callees')}</span>
            <input type="search" id="search" placeholder="Function or file" aria-label="Function or file matches" value={route.query.q ?? ''} onInput={(e) => alter(route, { q: e.currentTarget.value || undefined })} />
            {hits && <span role="status"><b>{percent(share)}</b> matches</span>}
            {groups.length > 1 && <label>of <select value={groups.includes(zoom) ? String(zoom) : ''} onChange={(e) => open(Number(e.currentTarget.value))}><option value="">all processes</option>{groups.map((n) => <option value={String(n)}>{functions[trie.fn[n]].name} ({percent(trie.total[n] / Math.max(1, whole))})</option>)}</select></label>}
            {mode !== 'sandwich' && <label><input type="checkbox" checked={folded} onChange={(e) => alter(route, { trunk: e.currentTarget.checked ? undefined : 'whole', z: undefined })} /> begin where it branches</label>}
        </div>
        <div class="profile">
            <div class="graphs">
                {mode === 'sandwich' && sides ? <>
                    <h2>Who calls <code>{functions[subject].name}</code></h2>{flame(`Callers of ${functions[subject].name}`, sides.callers, inner.callers, true, (node) => setInner({ ...inner, callers: inner.callers === node ? 0 : node }))}
                    <h2>What <code>{functions[subject].name}</code> calls <span class="dim">{percent(sides.callees.total[0] / Math.max(1, whole))} of all</span></h2>{flame(`What ${functions[subject].name} calls`, sides.callees, inner.callees, false, (node) => setInner({ ...inner, callees: inner.callees === node ? 0 : node }))}
                </> : <>
                    <nav class="trail" aria-label="Zoomed into"><button onClick={() => open(0)}>all</button>{trail.length > 6 && <span>› … {trail.length - 6} calls</span>}{trail.slice(-6).map((n) => <><span>›</span><button onClick={() => open(n)} aria-current={n === zoom ? 'true' : undefined}>{functions[trie.fn[n]].name}</button></>)}</nav>
                    {flame(`${mode === 'flame' ? 'Flame' : 'Icicle'} graph of ${data.title}; the table has its functions`, trie, zoom, mode === 'flame', (node) => open(node === zoom ? trie.parent[node] : node))}
                </>}
                {trie.before ? <p class="dim">▲ and red grew, ▼ and blue shrank; stronger is more. Widths are the larger of before and after.</p> : <p class="dim kinds">{['javascript', 'native', 'kernel', 'runtime', 'python', 'java'].filter((kind) => functions.some((f) => f.kind === kind)).map((kind) => <span><i class={`key k-${kind}`} />{kind === 'runtime' ? 'a runtime’s own code' : kind}</span>)}</p>}
            </div>
            {table}
        </div>
        <p class="dim keys"><kbd>/</kbd> search, <kbd>I</kbd> icicle or flame, <kbd>C</kbd> callers and callees, arrows move, <kbd>Esc</kbd> everything again</p>
    </>;
}

export function Profile(props: ViewProps) {
    const { source } = props, data = useLoad(() => load<ProfileDocument>(`s/${source.id}/profile`, source.version).then(read), [source.id, source.version]);
    const [after, before] = data.value?.trie.before ? data.value.title.split(' against ') : [];
    const command = before ? `sonde diff ${quote(before)} ${quote(after)}` : source.kind === 'profile' ? `sonde profile --merge ${quote(source.path)}` : `sonde profile --trace ${quote(source.path)} PID`;
    if (data.error instanceof Missing) return <Empty title={source.state === 'reading' ? 'The profile is still being read' : 'This recording has no profile'}><p>Samples are taken beside a recording with <code>sonde profile --trace</code>, or on their own.</p><Terminal command={command} /></Empty>;
    if (data.error) return <Problem error={data.error} />;
    if (!data.value) return <p class="dim">Loading…</p>;
    if (!data.value.trie.total[0] && !data.value.trie.before?.[0]) return <Empty title="No stack was sampled"><p>The processes ran too little in that time, or nothing of what was asked for happened.</p><Terminal command={command} /></Empty>;
    const { trie, unit, event, title } = data.value;
    return <div class="page wide-page"><h1>{title} <span class="dim">{event} {weight(trie.total[0], unit)}{trie.before && <>, before {weight(trie.before[0], unit)}</>}</span></h1><Graphs data={data.value} props={props} /><Terminal command={command} /></div>;
}
