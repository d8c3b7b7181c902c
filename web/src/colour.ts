// Colours of states: the same value has the same colour everywhere. They can be told apart by colour-blind eyes (after
// Okabe and Ito), and what matters most for a wait differs in lightness, too.
// SPDX-License-Identifier: Apache-2.0
export type Rgb = [number, number, number];

export const PALETTE: Rgb[] = [[0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167], [86, 180, 233], [213, 94, 0], [120, 94, 240], [148, 130, 60], [60, 150, 170], [170, 68, 101]];
// Of rows that count: one colour, the stronger the more.
export const HEAT: Rgb = [0, 114, 178];
const KNOWN: Record<string, Rgb> = {
    running: [0, 158, 115], runnable: [240, 200, 40], preempted: [230, 159, 0], blocked: [150, 160, 175], uninterruptible: [213, 94, 0], stopped: [90, 90, 90], ended: [60, 60, 60],
    poll: [150, 180, 210], timers: [230, 159, 0], check: [0, 158, 115], pending: [204, 121, 167], closing: [120, 94, 240], idle: [170, 180, 190], prepare: [86, 180, 233],
};
// Waiting for nothing in particular: drawn pale, so that work stands out. The server knows which they are (src/serve/rows.c).
export const QUIET = new Set<string>();
export const learnQuiet = (values: string[]): void => values.forEach((value) => QUIET.add(value));

export function hash(text: string): number {
    let h = 2166136261;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
    return h >>> 0;
}

export const colourOf = (value: string | number): Rgb => KNOWN[value] ?? (QUIET.has(String(value)) ? KNOWN.blocked : null) ?? PALETTE[hash(String(value)) % PALETTE.length];
export const css = ([r, g, b]: Rgb, alpha = 1): string => `rgb(${r} ${g} ${b} / ${alpha})`;

// Names in flame graphs, light or dark.
export const INK: Rgb = [20, 32, 46];

export const unchanged = (now: number, before: number, whole: number): boolean => Math.abs(now - before) < 0.0005 * Math.max(1, whole);

// What grew is red, what shrank blue; how much of the whole, as strength, up to where names can still be read.
export function changeColour(now: number, before: number, whole: number): string {
    const change = (now - before) / Math.max(1, whole), strong = Math.min(0.75, 0.12 + Math.sqrt(Math.abs(change)) * 1.6);
    return unchanged(now, before, whole) ? css([190, 195, 202]) : change > 0 ? css([214, 69, 50].map((c) => Math.round(245 - (245 - c) * strong)) as Rgb) : css([40, 110, 190].map((c) => Math.round(245 - (245 - c) * strong)) as Rgb);
}
