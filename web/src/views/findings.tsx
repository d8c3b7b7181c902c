// What is wrong, and what first? Findings as sentences, ranked by the time that requests lost, each with its evidence.
// SPDX-License-Identifier: Apache-2.0
import { useMemo } from 'preact/hooks';
import { count, duration, evidence, moment, percent, plural, shortFile } from '../format';
import { requests } from '../source';
import { href } from '../route';
import { Scatter } from '../scatter';
import type { Affected, Finding, Report } from '../types';
import { Empty, quote, Terminal, useLoad, type ViewProps } from '../ui';

// A name that stays when the recording is analysed anew: kind, service and place.
export function keys(findings: Finding[]): string[] {
    const seen = new Map<string, number>();
    return findings.map((f) => {
        const source = f.where.source, place = source?.file ? `${source.file.split('/').pop()}:${source.line ?? 0}` : source?.function ?? f.evidence.command ?? f.where.layer ?? '';
        const key = [f.kind, f.where.service, place].filter(Boolean).join('.').replace(/[^\w.:@-]+/g, '_'), n = (seen.get(key) ?? 0) + 1;
        seen.set(key, n);
        return n > 1 ? `${key}.${n}` : key;
    });
}

const SEVERITY = { critical: ['▲', 'still going on at the end'], warning: ['●', 'requests suffered'], info: ['○', 'worth knowing'] } as const;

// What it is called when nobody is known to have suffered.
const words = (f: Finding): string => (f.severity === 'warning' && !f.affected_count ? 'warning' : SEVERITY[f.severity][1]);

// What it cost; of a finding that is not about requests, the first of its evidence.
function Facts({ finding, of_ns }: { finding: Finding; of_ns: number }) {
    if (!finding.cost_ns && !finding.affected_count) return <div class="facts">{Object.entries(finding.evidence).slice(0, 3).map(([name, value]) => {
        const [what, text] = evidence(name, value);
        return <div><b>{text}</b><span>{what}</span></div>;
    })}</div>;
    return <div class="facts">
        <div><b>{duration(finding.cost_ns)}</b><span>lost by requests{of_ns > 0 && `, ${percent(finding.cost_ns / of_ns)} of all that was lost`}</span></div>
        <div><b>{count(finding.affected_count)}</b><span>{finding.affected_count === 1 ? 'request' : 'requests'} suffered</span></div>
        <div><b>{finding.where.service ?? '–'}</b><span>{finding.where.process ? `process ${finding.where.process}` : 'where'}{finding.where.layer ? `, ${finding.where.layer}` : ''}</span></div>
    </div>;
}

function Sure({ finding }: { finding: Finding }) {
    const { samples_count: all, samples_agree_count: agree } = finding.evidence as Record<string, number>;
    if (all) return <>{count(agree)} of {count(all)} samples of the blocked callback saw it</>;
    return <>measured, not sampled</>;
}

function Suffered({ affected, all, source, offset }: { affected: Affected[]; all: number; source: number; offset: number }) {
    const told = affected.reduce((sum, a) => sum + a.count, 0);
    return <table class="list">
        <thead><tr><th>Request</th><th>Service</th><th>Role</th><th class="n">When</th><th class="n">Lost</th></tr></thead>
        <tbody>{affected.slice(0, 40).map((a) => <tr>
            <td>{a.request ? <a href={href('requests', a.request, { s: source || undefined })}>{a.method} {a.path}</a> : <>{count(a.count)} × {a.method} {a.route ?? a.path}</>}</td>
            <td>{a.service}</td><td>{a.role ?? 'waited'}</td><td class="n">{a.start_ns ? moment(a.start_ns - offset) : ''}</td><td class="n">{duration(a.delay_ns)}</td>
        </tr>)}</tbody>
        {all > Math.min(told, 40) && <tfoot><tr><td colSpan={5} class="dim">and {plural(all - Math.min(told, 40), 'more request')}, which lost less</td></tr></tfoot>}
    </table>;
}

function Detail({ finding, report, source, of_ns }: { finding: Finding; report: Report; source: ViewProps['source']; of_ns: number }) {
    const place = finding.where.source, ids = useMemo(() => new Set(finding.affected.map((a) => a.request)), [finding]);
    const end = finding.to_ns ?? report.to_ns, from = Math.max(0, finding.from_ns - report.from_ns - 0.05 * (end - finding.from_ns) - 1e6), to = Math.min(report.to_ns - report.from_ns, end - report.from_ns + 0.05 * (end - finding.from_ns) + 1e6);
    const rows = useLoad(() => requests(source, { limit: 1000 }), [source.id, source.version]);
    return <article class="detail" aria-label={finding.title}>
        <p class={`severity ${finding.severity}`}>{SEVERITY[finding.severity][0]} {words(finding)} · {finding.kind.replaceAll('-', ' ')}</p>
        <h2 tabIndex={-1}>{finding.title}</h2>
        <Facts finding={finding} of_ns={of_ns} />
        {place && (place.file || place.function) && <p class="place">{place.function && <code>{place.function}</code>} {place.file && <code class="file" title={place.file}>{shortFile(place.file)}{place.line ? `:${place.line}${place.column ? `:${place.column}` : ''}` : ''}</code>}</p>}
        <h3>Why</h3>
        <p>{finding.detail}</p>
        <p class="dim">How sure: <Sure finding={finding} />.</p>
        {finding.remedy && <><h3>What to do</h3><p class="remedy">{finding.remedy}</p></>}
        {rows.value && rows.value.rows.length > 0 && <><h3>When it happened <a class="more" href={href('states', '', { from: Math.round(from), to: Math.round(to), s: source.id || undefined, finding: keys(report.findings)[report.findings.indexOf(finding)] })}>States of that time →</a></h3>
            <Scatter rows={rows.value.rows} from_ns={report.from_ns} to_ns={report.to_ns} marked={ids} band={[finding.from_ns, end]} open={(id) => href('requests', id, { s: source.id || undefined })} /></>}
        {finding.kind !== 'events-lost' && <h3>Who suffered</h3>}
        {finding.kind === 'events-lost' ? null : finding.affected.length ? <Suffered affected={finding.affected} all={finding.affected_count} source={source.id} offset={report.from_ns} /> : <p class="dim">Nobody was seen to wait for it.</p>}
        <details><summary>Evidence</summary><dl class="evidence">{Object.entries(finding.evidence).map(([name, value]) => {
            const [words, text] = evidence(name, value);
            return <div><dt>{words}</dt><dd>{text}</dd></div>;
        })}</dl></details>
        <Terminal command={finding.affected.find((a) => a.request) ? `sonde spans --request ${finding.affected.find((a) => a.request)!.request} ${quote(source.path)}` : `sonde report ${quote(source.path)}`} />
    </article>;
}

function Losses({ report }: { report: Report }) {
    if (!report.losses.length && !report.missing.length) return null;
    return <section class="losses"><h2>What is not known</h2>
        {report.losses.length > 0 && <ul>{report.losses.map((loss) => <li><b>{count(loss.count)}</b> {loss.reason.replaceAll('-', ' ')}{loss.where && ` (${loss.where})`}</li>)}</ul>}
        {report.missing.length > 0 && <ul>{report.missing.map((m) => <li><b>{m.what}</b>: {m.why}{m.remedy && <> <span class="remedy">{m.remedy}</span></>}</li>)}</ul>}
    </section>;
}

// Nothing found: what was looked at, then the slowest requests.
function Nothing({ report, source }: { report: Report; source: ViewProps['source'] }) {
    const asked = report.endpoints?.reduce((sum, e) => sum + e.count + e.unfinished_count, 0) ?? 0;
    const slowest = useLoad(() => requests(source, { limit: 10 }), [source.id, source.version]);
    return <Empty title={asked ? `Nothing stood out in ${plural(asked, 'request')}` : 'No requests were seen'}>
        <p>{report.nothing ?? (asked ? 'No request lost time to one of the faults that are known.' : 'Was the service asked for anything while it was recorded?')}</p>
        {slowest.value && slowest.value.rows.length > 0 && <><h3>The slowest requests all the same</h3>
            <ul class="plain">{slowest.value.rows.map((row) => <li><a href={href('requests', row.id, { s: source.id || undefined })}>{row.method} {row.path}</a> of {row.service}: {duration(row.latency_ns)}</li>)}</ul></>}
        <Terminal command={`sonde report ${quote(source.path)}`} />
    </Empty>;
}

export function Findings({ source, report, route }: ViewProps) {
    if (!report) return <Empty title="No findings here"><p>A profile has functions, and no requests that could have suffered. <a href={href('profile', '', { s: source.id || undefined })}>See its functions</a>.</p></Empty>;
    const names = useMemo(() => keys(report.findings), [report]), chosen = Math.max(0, names.indexOf(route.part)), of_ns = report.findings.reduce((sum, f) => sum + f.cost_ns, 0);
    const most = Math.max(1, ...report.findings.map((f) => f.cost_ns));
    if (!report.findings.length) return source.state === 'reading' ? <Empty title="Reading; nothing found yet" /> : <><Nothing report={report} source={source} /><Losses report={report} /></>;
    if (route.part && !names.includes(route.part)) return <Empty title="This finding is not in this recording"><p>Its link names <code>{route.part}</code>. <a href={href('findings', '', { s: source.id || undefined })}>See those that are</a>.</p></Empty>;
    return <div class="split">
        <nav class="ranked" aria-label="Findings">
            <h1>{plural(report.findings.length, 'finding')}</h1>
            <ol>{report.findings.map((f, i) => <li><a href={href('findings', names[i], { s: source.id || undefined })} aria-current={i === chosen ? 'true' : undefined}>
                <span class={`mark ${f.severity}`} title={words(f)}>{SEVERITY[f.severity][0]}</span>
                <span class="title">{f.title}</span>
                {(f.cost_ns > 0 || f.affected_count > 0) && <span class="cost"><i style={{ width: `${(100 * f.cost_ns) / most}%` }} /><b>{duration(f.cost_ns)}</b> lost by {plural(f.affected_count, 'request')}</span>}
            </a></li>)}</ol>
        </nav>
        <div>
            {(!route.query.show || route.part || !(report.losses.length + report.missing.length)) && <Detail finding={report.findings[chosen]} report={report} source={source} of_ns={of_ns} />}
            <Losses report={report} />
        </div>
    </div>;
}
