// Where did this request's time go? Its vertical span, layer under layer, with the critical path on top and the typical
// request of the same endpoint beside it.
// SPDX-License-Identifier: Apache-2.0
import { useMemo } from 'preact/hooks';
import { causeOf } from '../cause';
import { count, duration, moment, percent, step } from '../format';
import { alter, href } from '../route';
import { load } from '../source';
import type { OneRequest, Span, Step, VerticalSpan } from '../types';
import { CauseBar, Empty, Legend, quote, sums, Terminal, useLoad, Wide, type ViewProps } from '../ui';

interface Line {
    span: Span;
    depth: number;
    request: VerticalSpan; // whose span it is
    open_end: boolean;
}

// The spans of a request and of those that it called, each below what started it, in order of time.
function lines(request: VerticalSpan, depth = 0, out: Line[] = []): Line[] {
    const children = new Map<number, number[]>();
    request.spans.forEach((span, i) => span.parent !== null && children.set(span.parent, [...(children.get(span.parent) ?? []), i]));
    const visit = (i: number, level: number) => {
        const span = request.spans[i];
        out.push({ span, depth: level, request, open_end: !span.end_ns });
        if (span.request && level < 40) lines(span.request, level + 1, out);
        for (const child of children.get(i) ?? []) visit(child, level + 1);
    };
    if (request.spans.length) visit(0, depth);
    return out;
}

// From time to the share of the lane. Where nothing begins or ends for long, time is compressed.
function scale(all: Line[], steps: Step[], start: number, end: number, compress: boolean): { at: (ns: number) => number; cuts: [number, number][] } {
    const span = Math.max(1, end - start);
    if (!compress) return { at: (ns) => (ns - start) / span, cuts: [] };
    const edges = new Set([start, end]);
    for (const { span: s } of all) for (const ns of [s.start_ns, s.end_ns, s.work_start_ns, s.work_end_ns]) if (ns && ns > start && ns < end) edges.add(ns);
    for (const s of steps) edges.add(Math.max(start, Math.min(end, s.start_ns)));
    const times = [...edges].sort((a, b) => a - b), widths = times.slice(1).map((ns, i) => Math.max(0.004, Math.sqrt((ns - times[i]) / span)));
    const whole = widths.reduce((sum, w) => sum + w, 0), at = [0];
    for (const w of widths) at.push(at[at.length - 1] + w / whole);
    const cuts = times.slice(1).map((ns, i) => [times[i], ns] as [number, number]).filter(([a, b]) => b - a > span * 0.25);
    return {
        cuts,
        at: (ns) => {
            if (ns <= start) return 0;
            if (ns >= end) return 1;
            let low = 0, high = times.length - 1;
            while (high - low > 1) times[(low + high) >> 1] <= ns ? (low = (low + high) >> 1) : (high = (low + high) >> 1);
            return at[low] + ((at[high] - at[low]) * (ns - times[low])) / Math.max(1, times[high] - times[low]);
        },
    };
}

const LAYERS: Record<string, string> = { http: 'HTTP', js: 'JS', v8: 'V8', libuv: 'libuv', redis: 'Redis', kernel: 'kernel' };

// What a span is, in words.
function words({ span, request }: Line): string {
    if (span.kind === 'request') return `${request.method} ${request.path} in ${request.service}`;
    if (span.request) return `call ${span.name} → ${span.request.service}`;
    return [span.name, span.detail].filter(Boolean).join(' ');
}

function Waterfall({ request, route }: { request: VerticalSpan; route: ViewProps['route'] }) {
    const all = useMemo(() => lines(request), [request]), steps = request.critical_path?.steps ?? [];
    const start = request.start_ns, end = start + Math.max(1, request.latency_ns), compress = route.query.gaps !== 'true', every = route.query.all === 'true' || all.length <= 12;
    const { at } = useMemo(() => scale(all, steps, start, end, compress), [all, compress]);
    const took = (l: Line) => (l.span.end_ns ?? end) - l.span.start_ns;
    const shown = every ? all : all.filter((l) => took(l) >= 0.01 * request.latency_ns || l.span.kind === 'request');
    const each = step(request.latency_ns, compress ? 5 : 8), marks: number[] = [];
    for (let ns = 0, last = -1; ns <= request.latency_ns; ns += each) if (at(start + ns) - last > 0.08) (marks.push(ns), (last = at(start + ns)));
    const piece = (from: number, to: number) => ({ left: `${100 * at(from)}%`, width: `${Math.max(0.15, 100 * (at(to) - at(from)))}%` });
    return <>
        <div class="filters">
            <label><input type="checkbox" checked={compress} onChange={(e) => alter(route, { gaps: e.currentTarget.checked ? undefined : 'true' })} /> compress long waits</label>
            {all.length > 12 && <label><input type="checkbox" checked={every} onChange={(e) => alter(route, { all: e.currentTarget.checked ? 'true' : undefined })} /> spans shorter than 1 % ({count(all.length - all.filter((l) => took(l) >= 0.01 * request.latency_ns).length)})</label>}
        </div>
        <Wide label="Spans of this request"><table class="waterfall">
            <thead><tr><th>What</th><th class="n">After</th><th class="n">Took</th><th class="lane"><div class="axis">{marks.map((ns) => <span style={{ left: `${100 * at(start + ns)}%` }}>{duration(ns)}</span>)}</div></th></tr></thead>
            <tbody>
                {steps.length > 0 && <tr class="path"><th scope="row">Critical path</th><td class="n" /><td class="n">{duration(request.latency_ns)}</td><td class="lane"><div>{steps.map((s) => <i class={`c-${causeOf(s.what).css}`} style={piece(s.start_ns, s.start_ns + s.duration_ns)} title={`${causeOf(s.what).words}${s.name ? `: ${s.name}` : ''}${s.service ? ` (${s.service})` : ''}, ${duration(s.duration_ns)}${s.no_cpu_ns ? `, ${duration(s.no_cpu_ns)} of it without a CPU` : ''}`} />)}</div></td></tr>}
                {shown.map((l) => {
                    const { span } = l, to = span.end_ns ?? end, inferred = span.known !== 'proved';
                    return <tr class={span.kind === 'request' ? 'root' : ''}>
                        <th scope="row" style={{ paddingLeft: `${8 + l.depth * 12}px` }}><span class={`layer l-${span.layer}`}>{LAYERS[span.layer] ?? span.layer}</span> {span.request ? <a href={href('requests', span.request.id, { s: route.query.s })}>{words(l)}</a> : words(l)}
                            {inferred && <span class="tag" title="It is not proved to be of this request">{span.known}</span>}{(span.times_usual ?? 0) >= 2 && <span class="tag warn">{count(span.times_usual!)} × the usual</span>}{l.open_end && <span class="tag warn">had not ended</span>}</th>
                        <td class="n">{duration(span.start_ns - start)}</td><td class="n">{duration(to - span.start_ns)}</td>
                        <td class="lane"><div><i class={`span l-${span.layer} ${inferred ? 'inferred' : ''}`} style={piece(Math.max(start, span.start_ns), Math.min(end, to))} />
                            {span.work_start_ns && span.work_end_ns ? <i class={`work l-${span.layer}`} style={piece(span.work_start_ns, span.work_end_ns)} title={`at work ${duration(span.work_end_ns - span.work_start_ns)}`} /> : null}</div></td>
                    </tr>;
                })}
            </tbody>
        </table></Wide>
        {(request.spans_left_out_count ?? 0) > 0 && <p class="dim">{count(request.spans_left_out_count!)} more spans were not kept.</p>}
    </>;
}

function Typical({ id, source, route, of_ns }: { id: string; source: ViewProps['source']; route: ViewProps['route']; of_ns: number }) {
    const one = useLoad(() => load<OneRequest>(`s/${source.id}/request?id=${id}`, source.version), [id, source.id]);
    const request = one.value?.request;
    if (!request) return null;
    const parts = sums(request.critical_path?.steps ?? []);
    return <tr><th scope="row"><a href={href('requests', id, { s: route.query.s })}>The typical one</a></th><td class="n">{duration(request.latency_ns)}</td><td><div style={{ width: `${Math.max(1, (100 * request.latency_ns) / of_ns)}%` }}><CauseBar steps={parts} of_ns={Math.max(1, request.latency_ns)} /></div></td></tr>;
}

export function Request({ source, report, route }: ViewProps) {
    const one = useLoad(() => load<OneRequest>(`s/${source.id}/request?id=${encodeURIComponent(route.part)}`, source.version), [route.part, source.id, source.version]);
    if (one.error) return <Empty title={source.state === 'reading' ? 'This request is shown once all is read' : `Request ${route.part} is not here`}><p>{one.error.message}</p><p><a href={href('requests', '', { s: route.query.s })}>All requests</a></p><Terminal command={`sonde spans --request ${quote(route.part)} ${quote(source.path)}`} /></Empty>;
    if (!one.value) return <p class="dim">Loading…</p>;
    const { row, request, typical, slower_count, of_count } = one.value, parts = request ? sums(request.critical_path?.steps ?? []) : [];
    const concerned = report?.findings.filter((f) => f.affected.some((a) => a.request === row.id)) ?? [];
    return <article class="page">
        <p class="crumbs"><a href={href('requests', '', { s: route.query.s })}>Requests</a> › <a href={href('requests', '', { s: route.query.s, service: row.service, method: row.method, route: row.route })}>{row.method} {row.route} of {row.service}</a> › {row.id}</p>
        <h1>{row.method} {row.path} <span class="dim">{row.status || ''} of {row.service}</span></h1>
        <div class="facts">
            <div><b>{duration(row.latency_ns)}</b><span>{of_count > 1 && slower_count === 0 ? `the slowest of ${count(of_count)} alike` : of_count > 1 ? `slower than ${percent((of_count - 1 - slower_count) / (of_count - 1))} of ${count(of_count)} alike` : 'the only one of its kind'}</span></div>
            <div><b>{duration(row.latency_ns - Math.min(row.works_ns, row.latency_ns))}</b><span>of it spent waiting</span></div>
            <div><b>{moment(row.start_ns - (report?.from_ns ?? 0))}</b><span><a href={href('states', '', { s: route.query.s, from: Math.round(row.start_ns - (report?.from_ns ?? 0)), to: Math.round(row.start_ns + row.latency_ns - (report?.from_ns ?? 0)) })}>States of that time →</a></span></div>
        </div>
        {concerned.length > 0 && <ul class="because">{concerned.map((f) => <li><a href={href('findings', '', { s: route.query.s })}>{f.title}</a>: it lost {duration(f.affected.find((a) => a.request === row.id)!.delay_ns)}</li>)}</ul>}
        {request ? <>
            {parts.length > 0 && <section><h2>Where its time went <span class="dim">solid: worked for; hatched: waited</span></h2>
                <table class="sides"><tbody><tr><th scope="row">This request</th><td class="n">{duration(row.latency_ns)}</td><td><CauseBar steps={parts} of_ns={Math.max(1, row.latency_ns)} /></td></tr>{typical !== row.id && <Typical id={typical} source={source} route={route} of_ns={row.latency_ns} />}</tbody></table>
                <Legend steps={parts} of_ns={Math.max(1, row.latency_ns)} /></section>}
            <section><h2>From HTTP down</h2><Waterfall request={request} route={route} /></section>
        </> : <Empty title="Its spans were not kept"><p>There was no more room for them; the terminal has them.</p></Empty>}
        <Terminal command={`sonde spans --request ${row.id} ${quote(source.path)}`} />
    </article>;
}
