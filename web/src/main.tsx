// The page: what is open, its views, the command palette and the keys.
// SPDX-License-Identifier: Apache-2.0
import { render, type FunctionComponent } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { bytes as size, duration, percent } from './format';
import { go, href, useRoute } from './route';
import { live, load, sources } from './source';
import type { Report, SourceInfo, Sources } from './types';
import { Badges, Empty, Problem, type ViewProps } from './ui';
import { Findings, keys } from './views/findings';
import { Profile } from './views/profile';
import { Regressions } from './views/regressions';
import { Requests } from './views/requests';
import { States } from './views/states';

// A view is one module: what it is called, what it asks, what shows it. Its key is its number.
interface View {
    id: string;
    title: string;
    component: FunctionComponent<ViewProps>;
    fits: (source: SourceInfo, all: Sources) => boolean;
}
const VIEWS: View[] = [
    { id: 'findings', title: 'Findings', component: Findings, fits: (source) => source.kind === 'recording' },
    { id: 'requests', title: 'Requests', component: Requests, fits: (source) => source.kind === 'recording' },
    { id: 'states', title: 'States', component: States, fits: (source) => source.kind === 'recording' },
    { id: 'profile', title: 'Profile', component: Profile, fits: () => true },
    { id: 'regressions', title: 'Regressions', component: Regressions, fits: (_, all) => all.regressions },
];

function Progress({ source }: { source: SourceInfo }) {
    const cancel = () => void fetch(`api/v1/s/${source.id}/job`, { method: 'DELETE' });
    if (source.state === 'failed') return <div class="banner bad" role="alert"><b>{source.name} could not be read.</b> {source.problem} {source.remedy}</div>;
    if (source.state === 'cancelled') return <div class="banner">Reading {source.name} was cancelled at {percent(source.done_bytes / Math.max(1, source.total_bytes))}; what was found until then is shown.</div>;
    if (source.state !== 'reading') return null;
    const share = source.total_bytes ? source.done_bytes / source.total_bytes : 0;
    return <div class="banner" role="status"><progress value={share} max={1} aria-label={`Reading ${source.name}`} /> Reading {source.name}: {size(source.done_bytes)} of {size(source.total_bytes)}{source.left_ns > 0 && `, about ${duration(source.left_ns)} left`}. Findings appear as they are found. <button onClick={cancel}>Cancel</button></div>;
}

interface Action {
    words: string;
    hint?: string;
    address: string;
}

// Everything that can be gone to, by a few of its letters.
function Palette({ actions, close }: { actions: Action[]; close: () => void }) {
    const [text, setText] = useState(''), [at, setAt] = useState(0), dialog = useRef<HTMLDialogElement>(null);
    useEffect(() => dialog.current?.showModal(), []);
    const found = useMemo(() => {
        const letters = text.toLowerCase().split(/\s+/).filter(Boolean);
        return actions.filter((a) => letters.every((l) => `${a.words} ${a.hint ?? ''}`.toLowerCase().includes(l))).slice(0, 12);
    }, [text, actions]);
    const take = (action?: Action) => {
        close();
        if (action) go(action.address);
    };
    const pressed = (e: KeyboardEvent) => {
        if (e.key === 'ArrowDown') (e.preventDefault(), setAt(Math.min(found.length - 1, at + 1)));
        else if (e.key === 'ArrowUp') (e.preventDefault(), setAt(Math.max(0, at - 1)));
        else if (e.key === 'Enter') (e.preventDefault(), take(found[at]));
    };
    return <dialog ref={dialog} class="palette" onClose={close} onClick={(e) => e.target === dialog.current && close()} aria-label="Go to">
        <input type="search" role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant={found.length ? `found-${at}` : undefined} aria-label="Go to" placeholder="Go to a view, finding or endpoint" value={text} onInput={(e) => (setText(e.currentTarget.value), setAt(0))} onKeyDown={pressed} autofocus />
        <ul id="found" role="listbox" aria-label="Places">{found.map((a, i) => <li id={`found-${i}`} role="option" aria-selected={i === at} onClick={() => take(a)} onPointerMove={() => setAt(i)}>{a.words}{a.hint && <span class="dim">{a.hint}</span>}</li>)}</ul>
        {!found.length && <p class="dim">Nothing is called that.</p>}
    </dialog>;
}

function Help({ close }: { close: () => void }) {
    const dialog = useRef<HTMLDialogElement>(null);
    useEffect(() => dialog.current?.showModal(), []);
    const row = (k: string, words: string) => <div><dt>{k.split(' ').map((key) => <kbd>{key}</kbd>)}</dt><dd>{words}</dd></div>;
    return <dialog ref={dialog} class="help" onClose={close} onClick={(e) => e.target === dialog.current && close()} aria-label="Keys">
        <h2>Keys</h2><dl>{row('1 … 5', 'views')}{row('Ctrl+K', 'go to anything')}{row('/', 'search in the view')}{row('J K', 'next and previous finding')}{row('W S A D', 'states: zoom in and out, earlier and later')}{row('F', 'states: the finding, or all')}{row('I', 'profile: icicle or flame')}{row('C', 'profile: callers and callees')}{row('?', 'this')}</dl>
        <p>Every state is in the address: copy it to show others the same.</p><button onClick={close} autofocus>Close</button>
    </dialog>;
}

function App() {
    const route = useRoute(), [all, setAll] = useState<Sources | null>(null), [error, setError] = useState<Error | null>(null), [report, setReport] = useState<Report | null>(null), [over, setOver] = useState<'palette' | 'help' | null>(null);
    const source = all?.sources[Number(route.query.s ?? 0)] ?? all?.sources[0] ?? null;
    useEffect(() => {
        let timer = 0, stopped = false;
        const look = () => sources().then((now) => {
            setAll(now);
            setError(null);
            if (!stopped && live && now.sources.some((s) => s.state === 'reading')) timer = setTimeout(look, 400) as unknown as number;
        }, (e) => {
            setError(e);
            if (!stopped && live) timer = setTimeout(look, 2000) as unknown as number;
        });
        void look();
        return () => ((stopped = true), clearTimeout(timer));
    }, []);
    useEffect(() => {
        setReport((now) => (source?.kind === 'recording' ? now : null));
        if (source?.kind === 'recording' && source.version > 0) load<Report>(`s/${source.id}/report`, source.version).then(setReport, () => {});
    }, [source?.id, source?.version, source?.kind]);
    const views = source && all ? VIEWS.filter((view) => view.fits(source, all)) : VIEWS.filter((view) => view.id === 'regressions' && all?.regressions);
    const first = source?.kind === 'profile' ? 'profile' : views[0]?.id, id = route.view || first, view = VIEWS.find((v) => v.id === id);
    const s = source && source.id > 0 ? source.id : undefined;
    const actions = useMemo<Action[]>(() => {
        const list: Action[] = views.map((v) => ({ words: v.title, hint: 'view', address: href(v.id, '', { s }) }));
        for (const other of all?.sources ?? []) if (other.id !== source?.id) list.push({ words: other.name, hint: other.kind, address: href(other.kind === 'profile' ? 'profile' : 'findings', '', { s: other.id || undefined }) });
        if (report) {
            const names = keys(report.findings);
            report.findings.forEach((f, i) => list.push({ words: f.title, hint: 'finding', address: href('findings', names[i], { s }) }));
            for (const e of report.endpoints ?? []) list.push({ words: `${e.method} ${e.route}`, hint: `endpoint of ${e.service}`, address: href('requests', '', { s, service: e.service, method: e.method, route: e.route }) });
        }
        return list;
    }, [report, all, source?.id]);
    useLayoutEffect(() => {
        const pressed = (e: KeyboardEvent) => {
            const typing = (e.target as HTMLElement).closest('input[type=search], select');
            if ((e.ctrlKey || e.metaKey) && (e.key === 'k' || (e.shiftKey && e.key.toLowerCase() === 'p'))) return e.preventDefault(), setOver('palette');
            if (e.ctrlKey || e.metaKey || e.altKey || over) return;
            if ((e.key === 'Escape' || (e.key === 'Enter' && typing?.id === 'search')) && typing) return (typing as HTMLElement).blur();
            if (typing) return;
            if (e.key === '/') {
                const search = document.getElementById('search');
                e.preventDefault();
                if (search) search.focus();
                else setOver('palette');
            } else if (e.key === '?') setOver('help');
            else if (/^[1-9]$/.test(e.key) && views[+e.key - 1]) go(href(views[+e.key - 1].id, '', { s }));
            else if ((e.key === 'j' || e.key === 'k') && view?.id === 'findings' && report?.findings.length) {
                const names = keys(report.findings), now = Math.max(0, names.indexOf(route.part)), next = Math.max(0, Math.min(names.length - 1, now + (e.key === 'j' ? 1 : -1)));
                go(href('findings', names[next], { s }));
            }
        };
        addEventListener('keydown', pressed);
        return () => removeEventListener('keydown', pressed);
    });
    useEffect(() => void (document.title = [view?.title, source?.name, 'sonde'].filter(Boolean).join(' · ')), [view, source?.name]);
    return <>
        <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById('main')?.focus())}>Skip to the content</a>
        <header>
            <a class="logo" href="#/" aria-label="sonde, first view">sonde</a>
            {all && all.sources.length > 1 ? <select class="source" aria-label="What is shown" value={String(source?.id ?? 0)} onChange={(e) => {
                const other = all.sources[Number(e.currentTarget.value)];
                go(href(other.kind === 'profile' ? 'profile' : 'findings', '', { s: other.id || undefined }));
            }}>{all.sources.map((o) => <option value={String(o.id)}>{o.name}</option>)}</select> : source && <span class="source" title={source.path}>{source.name}</span>}
            <nav aria-label="Views">{views.map((v) => <a href={href(v.id, '', { s })} aria-current={view?.id === v.id ? 'page' : undefined}>{v.title}{v.id === 'findings' && report && report.findings.length > 0 && <b class="count">{report.findings.length}</b>}</a>)}</nav>
            {report && <Badges report={report} source={source} />}
            <span class="buttons"><button onClick={() => setOver('palette')} aria-label="Go to (Ctrl+K)">Go to… <kbd>Ctrl K</kbd></button><button onClick={() => setOver('help')} aria-label="Keys">?</button></span>
        </header>
        {source && <Progress source={source} />}
        <main id="main" tabIndex={-1}>
            {error && <Problem error={error} />}
            {all && !source && !all.regressions && <Empty title="Nothing is open"><p>Give it a recording or a profile: <code>sonde serve DIR</code></p></Empty>}
            {all && (source || all.regressions) && (view ? ((view.id !== 'regressions' && source?.kind === 'recording' && !report && source.state !== 'failed') ? <p class="dim">Reading…</p> : <view.component source={source!} report={report} route={{ ...route, view: id! }} />) : <Empty title="There is no such view"><p><a href="#/">The first one</a></p></Empty>)}
        </main>
        {over === 'palette' && <Palette actions={actions} close={() => setOver(null)} />}
        {over === 'help' && <Help close={() => setOver(null)} />}
    </>;
}

render(<App />, document.getElementById('app')!);
