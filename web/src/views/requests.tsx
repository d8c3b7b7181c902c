// Which requests were there, and how long did they take? Endpoints, a distribution, and every request.
// SPDX-License-Identifier: Apache-2.0
import { useEffect, useState } from 'preact/hooks';
import { count, duration, moment, percent, plural } from '../format';
import { alter, href } from '../route';
import { Scatter } from '../scatter';
import { live, requests } from '../source';
import { causeOf } from '../cause';
import type { Endpoint, RequestPage } from '../types';
import { Empty, Problem, quote, Terminal, useLoad, useWidth, Wide, type ViewProps } from '../ui';
import { Request } from './request';

const PAGE = 50;

function Endpoints({ endpoints, props }: { endpoints: Endpoint[]; props: ViewProps }) {
    const { route } = props, { service, method, route: path } = route.query;
    const time = (e: Endpoint) => e.p50_ns * e.count, most = Math.max(...endpoints.map((e) => e.p99_ns)) || 1;
    const sorted = [...endpoints].sort((a, b) => b.worst_ns - a.worst_ns || time(b) - time(a));
    return <Wide label="Endpoints"><table class="list endpoints">
        <thead><tr><th>Service</th><th>Endpoint</th><th class="n">Requests</th><th class="n">Half within</th><th class="n">95 %</th><th class="n">99 %</th><th class="n">Slowest</th><th class="spread">Half to 99 %</th></tr></thead>
        <tbody>{sorted.map((e) => {
            const on = service === e.service && method === e.method && path === e.route;
            return <tr class={on ? 'on' : ''}>
                <td>{e.service}</td><td><a aria-current={on ? 'true' : undefined} href={href('requests', '', on ? { s: route.query.s } : { s: route.query.s, service: e.service, method: e.method, route: e.route })}>{e.method} {e.route}</a>
                    {e.unfinished_count > 0 && <span class="tag">{count(e.unfinished_count)} unfinished</span>}{e.errors_count > 0 && <span class="tag">{plural(e.errors_count, 'error')}</span>}</td>
                <td class="n">{count(e.count + e.unfinished_count)}</td><td class="n">{e.count ? duration(e.p50_ns) : '–'}</td><td class="n">{e.count ? duration(e.p95_ns) : '–'}</td><td class="n">{e.count ? duration(e.p99_ns) : '–'}</td><td class="n">{duration(e.worst_ns)}</td>
                <td class="spread" aria-hidden="true"><i style={{ left: `${100 * place(e.p50_ns, most)}%`, right: `${100 - 100 * place(e.p99_ns, most)}%` }} /></td>
            </tr>;
        })}</tbody>
    </table></Wide>;
}

// On a logarithmic scale of 10 µs to the largest.
const place = (ns: number, most: number): number => Math.max(0, Math.min(1, Math.log(Math.max(1e4, ns) / 1e4) / Math.log(Math.max(most, 2e4) / 1e4)));

// Bars of quarter octaves; one is chosen to see only its requests.
function Distribution({ page, props }: { page: RequestPage; props: ViewProps }) {
    const [element, width] = useWidth<HTMLDivElement>(), bins = page.histogram;
    if (!bins.length) return null;
    const first = Math.floor(4 * Math.log2(bins[0][0])), last = Math.ceil(4 * Math.log2(bins[bins.length - 1][1])), columns = Math.max(8, last - first + 1);
    const most = Math.max(...bins.map(([, , n]) => n)), HEIGHT = 96, each = width / columns;
    const choose = (from?: number, to?: number) => alter(props.route, { min_ns: from && Math.floor(from), max_ns: to && Math.ceil(to) - 1, offset: undefined });
    const x = (ns: number) => (4 * Math.log2(ns) - first) * each;
    const powers = Array.from({ length: 14 }, (_, i) => 10 ** i).filter((ns) => x(ns) >= -each && x(ns) < width - 20);
    return <div ref={element} class="distribution">{width > 0 && <svg width={width} height={HEIGHT + 18} role="img" aria-label={`Distribution of ${plural(page.total, 'request')}: ${bins.map(([from, to, n]) => `${n} from ${duration(from)} to ${duration(to)}`).join('; ')}`}>
        {powers.map((ns) => <g><line class="grid" x1={x(ns)} x2={x(ns)} y1="0" y2={HEIGHT} /><text x={x(ns) + 3} y={HEIGHT + 14}>{duration(ns)}</text></g>)}
        {bins.map(([from, to, n]) => {
            const height = Math.max(2, (HEIGHT - 4) * Math.sqrt(n / most)); // the square root, so that few slow ones are seen
            return <g class="hit" onClick={() => choose(from, to)}><rect class="room" x={x(from)} width={Math.max(2, x(to) - x(from))} y="0" height={HEIGHT} /><rect class="col" x={x(from) + 0.5} width={Math.max(1.5, x(to) - x(from) - 1)} y={HEIGHT - height} height={height} /><title>{`${plural(n, 'request')} from ${duration(from)} to ${duration(to)}`}</title></g>;
        })}
    </svg>}
    </div>;
}

function Filters({ props, page }: { props: ViewProps; page: RequestPage | null }) {
    const { query } = props.route, [text, set] = useState(query.text ?? '');
    useEffect(() => set(query.text ?? ''), [query.text]);
    const chips: [string, Record<string, undefined>][] = [];
    if (query.route) chips.push([`${query.method} ${query.route} of ${query.service}`, { service: undefined, method: undefined, route: undefined }]);
    if (query.min_ns || query.max_ns) chips.push([`${query.min_ns ? duration(+query.min_ns) : '0'} to ${query.max_ns ? duration(+query.max_ns + 1) : 'any'}`, { min_ns: undefined, max_ns: undefined }]);
    if (query.from_ns || query.to_ns) chips.push([`at ${moment(+(query.from_ns ?? 0))} to ${moment(+(query.to_ns ?? 0))}`, { from_ns: undefined, to_ns: undefined }]);
    return <div class="filters">
        <input type="search" id="search" placeholder="Path or request" aria-label="Path or request contains" value={text} onInput={(e) => (set(e.currentTarget.value), alter(props.route, { text: e.currentTarget.value || undefined, offset: undefined }))} />
        <label><input type="checkbox" checked={!!query.failed} onChange={(e) => alter(props.route, { failed: e.currentTarget.checked ? 1 : undefined, offset: undefined })} /> failed only</label>
        <label>by <select value={query.sort ?? 'latency'} onChange={(e) => alter(props.route, { sort: e.currentTarget.value === 'latency' ? undefined : e.currentTarget.value, order: e.currentTarget.value === 'start' ? 'ascending' : undefined, offset: undefined })}>
            <option value="latency">slowest first</option><option value="waits">longest waiting first</option><option value="start">in order of time</option></select></label>
        {chips.map(([words, away]) => <button class="chip" onClick={() => alter(props.route, { ...away, offset: undefined })} aria-label={`Show again without: ${words}`}>{words} ✕</button>)}
        <span class="dim" role="status">{page ? plural(page.total, 'request') : ''}{page?.of && ` here, of the slowest that this file holds of ${count(page.of)}`}</span>
    </div>;
}

function Table({ page, props }: { page: RequestPage; props: ViewProps }) {
    const { route, report } = props, offset = Number(route.query.offset ?? 0), start = report?.from_ns ?? 0;
    return <><Wide label="Requests, a page of them"><table class="list requests">
        <thead><tr><th>Request</th><th>Service</th><th class="n">Began</th><th class="n">Took</th><th class="share">Working, waiting</th><th>Mostly</th><th class="n">Status</th></tr></thead>
        <tbody>{page.rows.map((row) => <tr>
            <td><a href={href('requests', row.id, { s: route.query.s })} title={row.path}>{row.method} {row.path}</a></td><td>{row.service}</td><td class="n">{moment(row.start_ns - start)}</td><td class="n"><b>{duration(row.latency_ns)}</b></td>
            <td class="share"><div class="bar small" role="img" aria-label={`${percent(row.works_ns / Math.max(1, row.latency_ns))} working`}><i class="c-run" style={{ width: `${(100 * row.works_ns) / Math.max(1, row.latency_ns)}%` }} /><i class="c-queue" style={{ width: `${100 - (100 * row.works_ns) / Math.max(1, row.latency_ns)}%` }} /></div></td>
            <td>{row.dominant && <><i class={`key c-${causeOf(row.dominant).css}`} /> {row.dominant}</>}</td><td class="n">{row.state === 'finished' ? row.status || '' : row.state}</td>
        </tr>)}</tbody>
    </table></Wide>
        {page.total > PAGE && <p class="pages"><button disabled={offset <= 0} onClick={() => alter(route, { offset: Math.max(0, offset - PAGE) || undefined })}>← Earlier</button> {count(offset + 1)} to {count(Math.min(page.total, offset + PAGE))} of {count(page.total)} <button disabled={offset + PAGE >= page.total} onClick={() => alter(route, { offset: offset + PAGE })}>Later →</button></p>}
    </>;
}

export function Requests(props: ViewProps) {
    const { source, report, route } = props, { query } = route;
    const ask = { service: query.service, method: query.method, route: query.route, text: query.text, failed: query.failed, min_ns: query.min_ns, max_ns: query.max_ns, sort: query.sort, order: query.order,
        from_ns: query.from_ns && String(+query.from_ns + (report?.from_ns ?? 0)), to_ns: query.to_ns && String(+query.to_ns + (report?.from_ns ?? 0)) };
    const page = useLoad(() => requests(source, { ...ask, offset: Number(query.offset ?? 0), limit: PAGE }), [source.id, source.version, JSON.stringify({ ...ask, offset: query.offset })]);
    const points = useLoad(() => requests(source, { ...ask, sort: undefined, order: undefined, limit: 1000 }), [source.id, source.version, JSON.stringify({ ...ask, sort: 0, order: 0 })]);
    if (route.part) return <Request {...props} />;
    if (source.kind !== 'recording' || !report) return <Empty title="No requests here"><p>A profile has none. Record them with <code>sonde run -o DIR -- COMMAND</code>.</p></Empty>;
    if (page.error) return source.state === 'reading' ? <Empty title="Requests are listed once all is read" /> : <Problem error={page.error} />;
    if (page.value && !page.value.total && !report.endpoints?.length) return <Empty title="No request was seen"><p>Was the service asked for anything while it was recorded? <code>sonde doctor</code> says what can be seen here.</p><Terminal command={`sonde report ${quote(source.path)}`} /></Empty>;
    return <div class="page">
        <h1>Requests</h1>
        <Endpoints endpoints={report.endpoints ?? []} props={props} />
        <h2>How long they took <span class="dim">choose a bar to see only its requests; heights are square roots</span></h2>
        <Filters props={props} page={page.value} />
        {page.value && <Distribution page={page.value} props={props} />}
        {points.value && points.value.rows.length > 0 && <><h2>When <span class="dim">{points.value.total > 1000 ? 'the slowest 1,000' : ''}</span></h2><Scatter rows={points.value.rows} from_ns={report.from_ns} to_ns={report.to_ns} open={(id) => href('requests', id, { s: query.s })} /></>}
        {page.value && (page.value.total ? <Table page={page.value} props={props} /> : <Empty title="None of the requests is like that"><p><a href={href('requests', '', { s: query.s })}>Show all</a></p></Empty>)}
        {!live && <p class="dim">This file holds the spans of the slowest requests and of those that findings name.</p>}
        <Terminal command={`sonde spans --slowest 20${query.text ? ` --path ${quote(query.text)}` : ''} ${quote(source.path)}`} />
    </div>;
}
