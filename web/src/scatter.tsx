// Requests as points: when they began, how long they took. Those that matter are larger, solid and outlined.
// SPDX-License-Identifier: Apache-2.0
import { useMemo } from 'preact/hooks';
import { duration, moment, step } from './format';
import type { RequestRow } from './types';
import { useWidth } from './ui';

const HEIGHT = 150, LEFT = 46, BOTTOM = 20, TOP = 8;

export function Scatter({ rows, from_ns, to_ns, marked, band, open }: { rows: RequestRow[]; from_ns: number; to_ns: number; marked?: Set<string | undefined>; band?: [number, number]; open: (id: string) => string }) {
    const [element, width] = useWidth<HTMLDivElement>();
    const span = Math.max(1, to_ns - from_ns), x = (ns: number) => LEFT + ((width - LEFT - 6) * (ns - from_ns)) / span;
    const [low, high] = useMemo(() => {
        const all = rows.map((row) => row.latency_ns);
        return [Math.floor(Math.log10(Math.max(1e3, Math.min(...all)))), Math.max(...all.map((ns) => Math.log10(ns + 1)), 4) + 0.05];
    }, [rows]);
    const y = (ns: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (Math.log10(Math.max(1, ns)) - low) / Math.max(0.1, high - low));
    const points = useMemo(() => [...rows].sort((a, b) => Number(marked?.has(a.id) ?? 0) - Number(marked?.has(b.id) ?? 0)), [rows, marked]);
    const each = step(span, width / 110), marks = Array.from({ length: Math.floor(span / each) + 1 }, (_, i) => i * each);
    const levels = Array.from({ length: Math.max(1, Math.floor(high) - low + 1) }, (_, i) => low + i).filter((power, i, all) => all.length <= 5 || i % 2 === 0);
    return <div ref={element} class="scatter">{width > 0 && <svg width={width} height={HEIGHT} role="group" aria-label={`${rows.length} requests by time and latency${marked ? `, ${marked.size} of them marked` : ''}; the table below lists them`}>
        {band && <rect class="band" x={x(band[0])} y={TOP} width={Math.max(2, x(band[1]) - x(band[0]))} height={HEIGHT - TOP - BOTTOM} />}
        {levels.map((power) => <g><line class="grid" x1={LEFT} x2={width} y1={y(10 ** power)} y2={y(10 ** power)} /><text x={LEFT - 6} y={y(10 ** power) + 4} class="right">{duration(10 ** power)}</text></g>)}
        {marks.map((ns) => <text x={x(from_ns + ns)} y={HEIGHT - 5} class={ns ? 'middle' : ''}>{moment(ns, each * 100)}</text>)}
        {points.map((row) => {
            const strong = marked?.has(row.id);
            const circle = <circle class={strong ? 'strong' : marked ? 'weak' : ''} cx={x(row.start_ns)} cy={y(row.latency_ns)} r={strong ? 4 : 2.5}><title>{`${row.method} ${row.path} of ${row.service}: ${duration(row.latency_ns)} at ${moment(row.start_ns - from_ns)}`}</title></circle>;
            return strong || !marked ? <a href={open(row.id)} tabIndex={-1}>{circle}</a> : circle;
        })}
    </svg>}</div>;
}
