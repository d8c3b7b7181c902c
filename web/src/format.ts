// Numbers for people: two significant digits and a unit.
// SPDX-License-Identifier: Apache-2.0

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 }); // made once: that takes longer than its use

const two = (value: number): string => {
    if (!value) return '0';
    const digits = Number(value.toPrecision(2));
    return digits >= 10 ? WHOLE.format(digits) : String(digits);
};

const TIMES: [number, string][] = [[3600e9, 'h'], [60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

export function duration(ns: number): string {
    if (!ns) return '0 ns';
    if (ns < 0) return `−${duration(-ns)}`;
    // What rounds to 1,000 of a unit is 1 of the next one.
    const [unit, name] = TIMES.find(([size]) => ns >= size * 0.995) ?? TIMES[TIMES.length - 1];
    if (name === 'min' || name === 'h') {
        const small = name === 'h' ? 60e9 : 1e9, all = Math.round(ns / small);
        return `${Math.floor(all / 60)} ${name} ${all % 60} ${name === 'h' ? 'min' : 's'}`;
    }
    return `${two(ns / unit)} ${name}`;
}

// A moment after the recording's start: "+3.217 s", as exact as a view of span_ns needs.
export function moment(ns: number, span_ns = 1e9): string {
    const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(span_ns / 1e9 / 100))));
    return `+${(ns / 1e9).toFixed(digits)} s`;
}

export const count = (n: number): string => WHOLE.format(n);
export const plural = (n: number, what: string): string => `${count(n)} ${what}${n === 1 ? '' : 's'}`;

export function percent(share: number): string {
    const p = share * 100;
    return p > 0 && p < 0.1 ? '< 0.1 %' : `${p >= 99.5 && p < 100 ? '> 99' : two(p)} %`;
}

export function bytes(n: number): string {
    const unit = n >= 1e9 ? [1e9, 'GB'] as const : n >= 1e6 ? [1e6, 'MB'] as const : n >= 1e3 ? [1e3, 'KB'] as const : [1, 'bytes'] as const;
    return `${two(n / unit[0])} ${unit[1]}`;
}

// A weight of a profile in its unit.
export function weight(value: number, unit: string): string {
    return unit === 'nanoseconds' ? duration(value) : unit === 'bytes' ? bytes(value) : `${count(value)} ${unit === 'count' ? '' : unit}`.trim();
}

// The name of a piece of evidence, and its value, from the unit in its name: "worst_ns" is a duration.
export function evidence(name: string, value: number | string): [string, string] {
    const unit = /_(ns|bytes|count|share|s)$/.exec(name)?.[1], words = name.replace(/_(ns|bytes|count|share|s)$/, '').replaceAll('_', ' ');
    if (typeof value === 'string') return [words, value];
    switch (unit) {
        case 'ns': return [words, duration(value)];
        case 'bytes': return [words, bytes(value)];
        case 'share': return [words, percent(value)];
        case 'count': return [words, count(value)];
        default: return [words, Number.isInteger(value) ? count(value) : two(value)];
    }
}

// The part of a path that one recognises: what follows the folder that is common to a project's files.
export function shortFile(file: string): string {
    const parts = file.replace(/^file:\/\//, '').split('/');
    return parts.length > 3 ? parts.slice(-2).join('/') : parts.join('/');
}

// Steps of 1, 2 or 5 for an axis with about n marks.
export function step(span: number, n: number): number {
    const raw = span / Math.max(1, n), power = 10 ** Math.floor(Math.log10(raw)), unit = raw / power;
    return (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10) * power;
}
