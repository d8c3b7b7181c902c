// What got slower or fails more often, since which version, where on the critical path, and for whom?
// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { count, duration, percent, plural } from '../format';
import { go, href } from '../route';
import { live, load } from '../source';
import type { Exemplar, Pair, Regression, Regressions as Document } from '../types';
import { Empty, luck, Problem, Terminal, useLoad, useWidth, Wide, type ViewProps } from '../ui';

const SIDES = ['older', 'newer'] as const, HEIGHT = 180, LEFT = 48, BOTTOM = 22, TOP = 8, CURVE = 64;
const times = (ratio: number): string => `${+ratio.toPrecision(3)}×`;

// An address that still fits when the same spans are judged anew.
const key = (r: Regression): string => `${r.service} ${r.versions[1]} ${r.bucket}`;

function Side({ side, children }: { side: 0 | 1; children?: ComponentChildren }) {
    return <span class={`side ${SIDES[side]}`}>{children ?? SIDES[side]}</span>;
}

// ---- distributions ----

interface Axis {
    low: number; // log10 of nanoseconds
    high: number;
}

function axisOf(r: Regression): Axis {
    const low = Math.min(...r.distribution.map((bins) => bins[0]?.[0] ?? Infinity)), high = Math.max(...r.distribution.map((bins) => bins[bins.length - 1]?.[1] ?? 0));
    return { low: Math.log10(Math.max(1, low)) - 0.03, high: Math.log10(Math.max(10, high)) + 0.03 };
}

// The share of requests in equal parts of the logarithmic axis.
function density(bins: Regression['distribution'][0], { low, high }: Axis): number[] {
    const parts = new Array<number>(CURVE).fill(0), all = bins.reduce((sum, [, , n]) => sum + n, 0) || 1, of = (ns: number) => ((Math.log10(Math.max(1, ns)) - low) / (high - low)) * CURVE;
    for (const [from, to, n] of bins) {
        const a = of(from), b = Math.max(of(to), a + 1e-6);
        for (let i = Math.max(0, Math.floor(a)); i < Math.min(CURVE, b); i++) parts[i] += ((Math.min(b, i + 1) - Math.max(a, i)) / (b - a)) * (n / all);
    }
    return parts;
}

function Frame({ title, axis, width, marks, children }: { title: string; axis: Axis; width: number; marks: [y: number, words: string][]; children: ComponentChildren }) {
    const x = (ns: number) => LEFT + ((width - LEFT - 8) * (Math.log10(ns) - axis.low)) / (axis.high - axis.low), labels: number[] = [];
    for (let power = Math.floor(axis.low); power <= axis.high; power++) for (const m of [1, 2, 5]) if (x(m * 10 ** power) >= LEFT && x(m * 10 ** power) < width - 34 && x(m * 10 ** power) - (labels.length ? x(labels[labels.length - 1]) : -99) > 58) labels.push(m * 10 ** power);
    return <svg width={width} height={HEIGHT} role="img" aria-label={title}>
        {labels.map((ns) => <g><line class="grid" x1={x(ns)} x2={x(ns)} y1={TOP} y2={HEIGHT - BOTTOM} /><text class="middle" x={x(ns)} y={HEIGHT - 6}>{duration(ns)}</text></g>)}
        {marks.map(([y, words]) => <g><line class="grid" x1={LEFT} x2={width} y1={y} y2={y} /><text class="right" x={LEFT - 5} y={y + 4}>{words}</text></g>)}
        {children}
    </svg>;
}

function Often({ r, axis }: { r: Regression; axis: Axis }) {
    const [element, width] = useWidth<HTMLDivElement>(), curves = r.distribution.map((bins) => density(bins, axis)), top = Math.max(1e-9, ...curves.flat());
    const x = (part: number) => LEFT + ((width - LEFT - 8) * part) / CURVE, y = (share: number) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP - 4) * share) / top, p95 = r.quantiles.find(([q]) => q === 0.95)!;
    return <figure ref={element}><figcaption>How often each latency occurs; the bars mark the 95th percentile</figcaption>{width > 0 && <Frame title={`Distribution of latency: half within ${r.quantiles[0].slice(1).map(duration).join(', then ')}`} axis={axis} width={width} marks={[]}>
        {curves.map((parts, side) => <><path class={`curve ${SIDES[side]}`} d={`M${x(0)},${y(0)}${parts.map((share, i) => `L${x(i + 0.5).toFixed(1)},${y(share).toFixed(1)}`).join('')}L${x(CURVE)},${y(0)}`} />
            <line class={`p95 ${SIDES[side]}`} x1={x(((Math.log10(Math.max(1, p95[side + 1])) - axis.low) / (axis.high - axis.low)) * CURVE)} x2={x(((Math.log10(Math.max(1, p95[side + 1])) - axis.low) / (axis.high - axis.low)) * CURVE)} y1={TOP} y2={HEIGHT - BOTTOM} /></>)}
    </Frame>}</figure>;
}

function Slower({ r, axis }: { r: Regression; axis: Axis }) {
    const [element, width] = useWidth<HTMLDivElement>(), totals = r.distribution.map((bins) => bins.reduce((sum, [, , n]) => sum + n, 0));
    const least = Math.max(1e-4, 10 ** -Math.floor(Math.log10(Math.max(10, ...totals)))), powers = Array.from({ length: Math.round(-Math.log10(least)) + 1 }, (_, i) => 10 ** -i);
    const x = (ns: number) => LEFT + ((width - LEFT - 8) * (Math.log10(Math.max(1, ns)) - axis.low)) / (axis.high - axis.low), y = (share: number) => TOP + (HEIGHT - BOTTOM - TOP) * (Math.log(Math.max(share, least)) / Math.log(least));
    return <figure ref={element}><figcaption>Share of requests that take longer</figcaption>{width > 0 && <Frame title={`Slowest: ${r.quantiles[r.quantiles.length - 1].slice(1).map(duration).join(', then ')} at 99.9 %`} axis={axis} width={width} marks={powers.map((share) => [y(share), percent(share)])}>
        {r.distribution.map((bins, side) => {
            let above = totals[side];
            return <path class={`line ${SIDES[side]}`} d={`M${LEFT},${y(1)}${bins.map(([from, , n]) => { const at = `L${x(from).toFixed(1)},${y(above / totals[side]).toFixed(1)}`; above -= n; return at; }).join('')}`} />;
        })}
    </Frame>}</figure>;
}

// ---- requests ----

function Lanes({ request, side, scale_ns }: { request: Exemplar | null; side: 0 | 1; scale_ns: number }) {
    if (!request) return <div><p class="dim"><Side side={side} />: none was kept</p></div>;
    const at = (ns: number) => Math.max(0, Math.min(99.5, (100 * ns) / scale_ns));
    return <Wide label={`${SIDES[side]} request`}><table class={`lanes ${SIDES[side]}`}>
        <caption><Side side={side} /> {duration(request.duration_ns)}{live ? <>, <a href={`api/trace?id=${request.trace}`}>its stored spans</a></> : `, trace ${request.trace}`}</caption>
        <tbody>{request.parts.map((p) => <tr class={p.critical ? 'on' : ''}><th scope="row" style={{ paddingLeft: `${p.depth * 10}px` }}>{p.service} {p.name}{p.error && <span class="tag">error</span>}</th><td class="drawn"><i style={{ marginLeft: `${at(p.start_ns)}%`, width: `${Math.max(0.4, Math.min(100 - at(p.start_ns), at(p.duration_ns)))}%` }} /></td><td class="n">{duration(p.duration_ns)}</td></tr>)}</tbody>
        {request.left_out > 0 && <tfoot><tr><td colSpan={3} class="dim">and {plural(request.left_out, 'more span')}</td></tr></tfoot>}
    </table></Wide>;
}

// ---- tables ----

function Forest({ r }: { r: Regression }) {
    const most = Math.max(1, ...r.forest.flatMap((c) => c.critical_ns)), near = ([a, b]: Pair) => Math.abs(a - b) <= 0.01 * Math.max(a, b);
    const change = (both: Pair, words: (n: number) => string) => (near(both) ? words(both[1]) : `${words(both[0])} → ${words(both[1])}`), few = (n: number) => String(+n.toPrecision(2));
    return <Wide label="All calls"><table class="list forest"><thead><tr><th>Call</th><th class="n">Calls a request</th><th class="n">At once</th><th class="n">95 % of calls</th><th class="n">Own time</th><th class="n">Waited for</th><th class="bars" aria-hidden="true" /></tr></thead>
        <tbody>{r.forest.map((c) => <tr class={c.on_path ? 'on' : ''}><td style={{ paddingLeft: `${8 + c.depth * 12}px` }}>{c.words} <span class="dim">{c.kind}</span>{c.grew_most && <span class="tag">grew most</span>}</td>
            <td class="n">{change(c.calls, few)}</td><td class="n">{change(c.at_once, few)}</td><td class="n">{change(c.p95_ns, duration)}</td><td class="n">{change(c.self_ns, duration)}</td><td class="n">{change(c.critical_ns, duration)}</td>
            <td class="bars" aria-hidden="true">{SIDES.map((side, i) => <i class={side} style={{ width: `${(100 * c.critical_ns[i]) / most}%` }} />)}</td></tr>)}</tbody>
        {r.forest_left_out > 0 && <tfoot><tr><td colSpan={7} class="dim">and {plural(r.forest_left_out, 'more call')}</td></tr></tfoot>}
    </table></Wide>;
}

function Interval({ ratio, low, high, reach, worse }: { ratio: number; low: number; high: number; reach: number; worse: boolean }) {
    const x = (value: number) => Math.max(2, Math.min(198, 100 + (98 * Math.log(Math.max(value, 1e-9))) / Math.log(reach)));
    return <svg class={`interval ${worse ? 'newer' : ''}`} viewBox="0 0 200 16" width="200" height="16" role="img" aria-label={`${times(ratio)}, between ${times(low)} and ${times(high)}`}><line class="grid" x1="100" x2="100" y1="0" y2="16" /><line class="reach" x1={x(low)} x2={x(high)} y1="8" y2="8" /><circle cx={x(ratio)} cy="8" r="4" /></svg>;
}

const OUTCOME = { slower: '▲ slower', 'fails-more': '▲ fails more often', 'not-slower': 'not slower', 'cannot-tell': 'cannot be decided' };
const isWorse = (outcome?: keyof typeof OUTCOME): boolean => outcome === 'slower' || outcome === 'fails-more';

function Buckets({ r }: { r: Regression }) {
    const told = r.buckets.filter((b) => b.ratio !== undefined), reach = Math.max(1.5, ...told.map((b) => 1.1 * Math.max(b.ratio!, 1 / Math.max(b.ratio!, 0.01))));
    return <Wide label="The same versions elsewhere"><table class="list buckets"><thead><tr><th>Requests</th><th>Ratio, and where it lies with 95 % certainty</th><th class="n" /><th>Verdict</th></tr></thead>
        <tbody>{r.buckets.map((b) => <tr class={b.shown ? 'on' : ''}><td>{b.words}</td>{b.ratio === undefined ? <><td /><td /><td class="dim">too little data</td></> : <><td><Interval ratio={b.ratio} low={b.low!} high={b.high!} reach={reach} worse={isWorse(b.outcome)} /></td><td class="n">{times(b.ratio)} <span class="dim">({times(b.low!)} to {times(b.high!)})</span></td><td class={isWorse(b.outcome) ? 'newer' : ''}>{OUTCOME[b.outcome!]}</td></>}</tr>)}</tbody>
        {r.buckets_left_out > 0 && <tfoot><tr><td colSpan={4} class="dim">and {plural(r.buckets_left_out, 'more bucket')}</td></tr></tfoot>}
    </table></Wide>;
}

// For those who check the statistics; everybody else has read the sentence above.
function Tested({ r }: { r: Regression }) {
    const n = r.numbers, date = (ns: number) => (ns ? new Date(ns / 1e6).toISOString().replace('T', ' ').replace(/\.\d+Z/, ' UTC') : '–'), number = (value: number | null) => (value === null ? '–' : +value.toPrecision(2) + '');
    const rows: [string, string][] = [['What was compared', `${n.failing ? 'shares of requests that fail' : `${n.measure} of latency`}, over ${n.concurrent ? 'the same time' : 'different times'}`], ['Test', n.test], ['p, and adjusted for all comparisons', `${number(n.p)}, ${number(n.adjusted_p)}`],
        ['Evidence that may be looked at at any time (e-value)', n.e_value !== null && n.e_value > 1e6 ? 'above a million' : number(n.e_value)], ['Z against older requests', number(n.z)], ['Z against older versions', n.z_versions === null ? 'needs two older versions' : number(n.z_versions)], ['Effect size', number(n.effect)]];
    if (Math.abs(n.mix_ratio - 1) >= 0.01) rows.push(['Ratio that the mix of requests makes (taken out)', times(n.mix_ratio)]);
    if (n.errors_count[0] + n.errors_count[1] > 0) rows.push(['Errors', `${percent(n.errors[0])} before, ${percent(n.errors[1])} now (p = ${number(n.errors_p)})`]);
    rows.push(['Requests of the newer side', `from ${date(n.first_ns)} to ${date(n.last_ns)}`]);
    return <details><summary>How it was tested</summary><table class="list tested"><tbody>{rows.map(([name, value]) => <tr><th scope="row">{name}</th><td>{value}</td></tr>)}</tbody></table></details>;
}

function Quantiles({ r }: { r: Regression }) {
    const rows: [string, string, string][] = [['Mean', ...r.mean_ns.map(duration) as [string, string]], ...r.quantiles.map(([q, a, b]) => [`${+(q * 100).toPrecision(4)} % within`, duration(a), duration(b)] as [string, string, string]), ['Requests', ...r.numbers.requests.map(count) as [string, string]], ['Hosts', ...r.numbers.hosts.map(count) as [string, string]]];
    return <table class="list quantiles"><thead><tr><th>Latency</th>{r.versions.map((version, i) => <th class="n"><Side side={i as 0 | 1}>{version}</Side></th>)}</tr></thead><tbody>{rows.map(([name, a, b]) => <tr><th scope="row">{name}</th><td class="n">{a}</td><td class="n">{b}</td></tr>)}</tbody></table>;
}

// ---- one of them ----

function Detail({ r }: { r: Regression }) {
    const axis = axisOf(r), n = r.numbers, p95 = r.quantiles.find(([q]) => q === 0.95)!;
    const scale = (which: 'typical' | 'slowest') => Math.max(1, ...r.requests[which].map((one) => one?.duration_ns ?? 0));
    return <article class="detail regression" aria-label={r.title}>
        <p class="severity warning">▲ {r.kind.replaceAll('-', ' ')} · {r.service} {r.versions[0]} → {r.versions[1]}</p>
        <h2 tabIndex={-1}>{r.title}</h2>
        <div class="facts">
            {n.failing ? <div><b>{percent(n.failing[0])} → {percent(n.failing[1])}</b><span>of {n.failing_in_part ? `requests where ${r.causes[0].words}` : 'all requests'} fail, {times(n.ratio)} as often, between {times(n.low)} and {times(n.high)}</span></div>
                : <div><b>{times(n.ratio)}</b><span>as long, between {times(n.low)} and {times(n.high)}</span></div>}
            <div><b>{duration(p95[1])} → {duration(p95[2])}</b><span>95 % of requests are within</span></div>
            <div><b>{count(n.requests[1])}</b><span>requests of {r.versions[1]}, against {count(n.requests[0])}; {luck(n.adjusted_p)}</span></div>
        </div>
        <div class="pictures"><Often r={r} axis={axis} /><Slower r={r} axis={axis} /></div>
        <p class="legend-sides"><Side side={0}>{r.versions[0]}, older (dashed)</Side> <Side side={1}>{r.versions[1]}, newer</Side></p>
        <h3>What to do</h3><p class="remedy">{r.remedy}</p>
        <h3>Why</h3><p>{r.detail}</p>
        {r.changes.length > 0 && <><h3>What changed on the critical path</h3><Wide label="What changed"><table class="list changes"><thead><tr><th>Change</th><th>Where</th><th class="n">Share of the growth</th></tr></thead><tbody>{r.changes.map((c) => <tr><td>{c.words}<br /><span class="dim">{c.kind}</span></td><td>{c.path}</td><td class="n">{percent(c.share)}</td></tr>)}</tbody></table></Wide></>}
        <h3>Requests side by side <span class="dim">on one scale; what was waited for is solid</span></h3>
        {(['typical', 'slowest'] as const).map((which) => <><h4>{which === 'typical' ? 'A typical one' : 'The slowest'}</h4><div class="pictures">{r.requests[which].map((one, i) => <Lanes request={one} side={i as 0 | 1} scale_ns={scale(which)} />)}</div></>)}
        <h3>All calls of these requests <span class="dim">the critical path is shaded; times are per request</span></h3>
        <Forest r={r} />
        {(r.causes.length > 0 || r.rule) && <><h3>Which requests</h3><Wide label="Which requests"><table class="list causes"><thead><tr><th>Attributes</th><th class="n">Ratio with them</th><th class="n">Elsewhere</th><th class="n">Share of the {n.failing ? 'added errors' : 'slow-down'}</th></tr></thead><tbody>
            {[...r.causes, ...(r.rule ? [{ ...r.rule, words: `${r.rule.words} (by a simple rule: the largest ratio)` }] : [])].map((c) => <tr><td>{c.words}</td><td class="n">{times(c.ratio)}</td><td class="n">{c.ratio_elsewhere === null ? '–' : times(c.ratio_elsewhere)}</td><td class="n">{percent(c.coverage)}</td></tr>)}</tbody></table></Wide></>}
        <h3>The same versions elsewhere</h3>
        <Buckets r={r} />
        <h3>Figures</h3>
        <Quantiles r={r} />
        <Tested r={r} />
    </article>;
}

export function Regressions({ route }: ViewProps) {
    const { value, error } = useLoad(() => load<Document>('regressions', Number(route.query.at ?? 0)), [route.query.at]);
    const chosen = value && (value.findings.find((r) => key(r) === route.part) ?? (route.part ? null : value.findings[0]));
    useEffect(() => void (route.part && document.querySelector<HTMLElement>('.regression h2')?.focus({ preventScroll: true })), [chosen]);
    if (error && !value) return <Problem error={error} />;
    if (!value) return <p class="dim">Comparing…</p>;
    const again = live && <button onClick={() => go(href('regressions', route.part, { s: route.query.s, at: String(Date.now()) }), true)}>Compare anew</button>;
    if (!value.findings.length) return <Empty title={value.outcome === 'not-slower' ? 'Nothing got slower' : 'Nothing can be decided yet'}>
        <p>{value.nothing || 'No spans have come.'}</p><p class="dim">{value.read}</p>
        {live && <p>Services send spans with <code>OTEL_EXPORTER_OTLP_ENDPOINT={location.origin}</code>; files are compared by <code>sonde diagnose FILE...</code></p>}{again}</Empty>;
    return <div class="split">
        <section class="ranked"><h1>{plural(value.findings.length, 'regression')}</h1><p class="dim">{value.read}</p>
            <ol>{value.findings.map((r) => <li><a href={href('regressions', key(r), { s: route.query.s })} aria-current={r === chosen ? 'true' : undefined}><span class="mark warning" aria-hidden="true">▲</span><span class="title">{r.title}</span><span class="cost">{times(r.numbers.ratio)} {r.numbers.failing ? 'the errors of' : 'for'} {plural(r.numbers.requests[1], 'request')}</span></a></li>)}</ol>
            {again}</section>
        {chosen ? <div><Detail r={chosen} key={key(chosen)} /><Terminal command="sonde diagnose FILE..." /><details><summary>The report as JSON</summary><pre id="report">{JSON.stringify(value.report, null, 1)}</pre></details></div> : <Empty title="This regression is not here"><p>It may be over, or its requests are judged together with others now.</p></Empty>}
    </div>;
}
