// Parts that views share.
// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { causeOf, LOOP, NO_CPU } from './cause';
import { duration, percent } from './format';
import type { Report, SourceInfo, Step } from './types';
import { href, type Route } from './route';

// What every view gets.
export interface ViewProps {
    source: SourceInfo;
    report: Report | null; // of a recording
    route: Route;
}

export type Loading<T> = { value: T | null; error: Error | null };

// What a promise gives, anew whenever one of the keys changes. The earlier value stays until the next is there.
export function useLoad<T>(make: () => Promise<T>, keys: unknown[]): Loading<T> {
    const [state, set] = useState<Loading<T>>({ value: null, error: null });
    useEffect(() => {
        let current = true;
        make().then((value) => current && set({ value, error: null }), (error) => current && set({ value: null, error }));
        return () => void (current = false);
    }, keys);
    return state;
}

export function useWidth<T extends HTMLElement>(): [preact.RefObject<T>, number] {
    const element = useRef<T>(null), [width, set] = useState(0);
    useEffect(() => {
        if (!element.current) return;
        const observer = new ResizeObserver(([entry]) => set(Math.floor(entry.contentRect.width)));
        observer.observe(element.current);
        return () => observer.disconnect();
    }, []);
    return [element, width];
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
    return <section class="empty"><h2>{title}</h2>{children}</section>;
}

// The command that prints in a terminal what the view shows.
export function Terminal({ command }: { command: string }) {
    const [copied, set] = useState(false);
    const copy = () => void navigator.clipboard?.writeText(command).then(() => (set(true), setTimeout(() => set(false), 1500)));
    return <div class="terminal"><span>The same in the terminal</span><code>{command}</code><button onClick={copy} aria-live="polite">{copied ? 'Copied' : 'Copy'}</button></div>;
}

// A path for a shell.
export const quote = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// A bar of what time went to: solid work, hatched waiting.
export function CauseBar({ steps, of_ns }: { steps: { what: string; ns: number }[]; of_ns: number }) {
    const words = steps.map(({ what, ns }) => `${causeOf(what).words} ${duration(ns)}`).join(', ');
    return <div class="bar" role="img" aria-label={words}>
        {steps.map(({ what, ns }) => <i class={`c-${causeOf(what).css}`} style={{ width: `${(100 * ns) / of_ns}%` }} title={`${causeOf(what).words}: ${duration(ns)}`} />)}
    </div>;
}

export function Legend({ steps, of_ns }: { steps: { what: string; ns: number }[]; of_ns: number }) {
    return <ul class="legend">{steps.map(({ what, ns }) => <li><i class={`key c-${causeOf(what).css}`} /><span>{causeOf(what).words}</span><b>{duration(ns)}</b><span class="dim">{percent(ns / of_ns)}</span></li>)}</ul>;
}

export const sums = (steps: Step[]): { what: string; ns: number }[] => {
    const all = new Map<string, number>();
    const add = (what: string, ns: number) => ns > 0 && all.set(what, (all.get(what) ?? 0) + ns);
    for (const { what, duration_ns, no_cpu_ns = 0, other_work_ns = 0 } of steps) {
        add(what, duration_ns - no_cpu_ns - other_work_ns);
        add(NO_CPU, no_cpu_ns);
        add(LOOP, other_work_ns);
    }
    return [...all].map(([what, ns]) => ({ what, ns })).sort((a, b) => b.ns - a.ns);
};

// What was lost, could not be seen, and what tracing took: beside everything that is shown.
export function Badges({ report, source }: { report: Report; source: SourceInfo | null }) {
    const to = href('findings', '', { s: source?.id || undefined, show: 'losses' });
    const lost = report.losses.reduce((sum, loss) => sum + loss.count, 0), cpu = report.overhead.tracing_cpu_share ?? report.overhead.collector_cpu_share;
    return <div class="badges">
        {lost > 0 && <a class="badge bad" href={to} title="Events that were not recorded or could not be read">⚠ {lost.toLocaleString('en')} events lost</a>}
        {report.missing.length > 0 && <a class="badge warn" href={to} title="What could not be seen, and why">◐ {report.missing.length} not seen</a>}
        {cpu !== undefined && <span class="badge" title="Of all processors' time while it was recorded">tracing took {percent(cpu)} CPU</span>}
    </div>;
}

// What may be wider than the screen; by keyboard, too.
export function Wide({ label, children }: { label: string; children: ComponentChildren }) {
    return <div class="wide" role="region" aria-label={label} tabIndex={0}>{children}</div>;
}

// How likely it is that chance alone made a difference.
export const luck = (p: number): string => (p >= 0.001 ? `${percent(p)} likely by chance` : p >= 1e-6 ? `one in ${Math.round(1 / p / 1000).toLocaleString('en')} thousand by chance` : 'less than one in a million by chance');

export function Problem({ error }: { error: Error }) {
    return <p class="problem" role="alert">{error.message}</p>;
}
