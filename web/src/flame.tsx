// Flame and icicle graphs on a canvas: only what is at least a pixel wide is looked at, so the size of the profile does not
// matter. Its table twin is the list of functions beside it.
// SPDX-License-Identifier: Apache-2.0
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { changeColour, css, hash, INK, unchanged, type Rgb } from './colour';
import { percent, shortFile, weight } from './format';
import type { Function, Profile, Trie } from './trie';
import { measurer, resize } from './canvas';
import { useWidth } from './ui';

export const ROW = 19;
const ROOT = css([185, 192, 200]);

interface Box {
    x: number;
    width: number;
    node: number;
    level: number;
}

const KINDS: Record<string, Rgb> = {
    native: [120, 160, 205], kernel: [225, 160, 90], python: [225, 200, 90], javascript: [110, 180, 130], java: [150, 195, 110], generated: [95, 180, 180], runtime: [175, 155, 205], group: [170, 178, 188], truncated: [190, 190, 190],
};

const colours = new WeakMap<Function, string>(), widthOf = measurer();

// By kind, a little lighter or darker by name, so that neighbours can be told apart.
function colour(f: Function): string {
    let known = colours.get(f);
    if (!known) {
        const base = KINDS[f.kind] ?? KINDS.native, shade = 0.88 + (hash(f.name) % 100) / 400;
        colours.set(f, (known = css(base.map((c) => Math.min(255, Math.round(c * shade))) as Rgb)));
    }
    return known;
}

// As much of a text as has room, by its mean width of a letter; "" when that says nothing.
function fit(g: CanvasRenderingContext2D, text: string, room: number): string {
    const wide = widthOf(g, text);
    if (wide <= room) return text;
    for (let n = Math.floor((text.length * (room - widthOf(g, '…'))) / wide); n > 2; n--) {
        const cut = `${text.slice(0, n)}…`;
        if (widthOf(g, cut) <= room) return cut;
    }
    return '';
}

// Before a name: whether it grew or shrank.
const sign = (trie: Trie, node: number, whole: number): string => (!trie.before || unchanged(trie.total[node], trie.before[node], whole) ? '' : trie.total[node] > trie.before[node] ? '▲ ' : '▼ ');

export function layout(trie: Trie, from: number, width: number): { boxes: Box[]; levels: number } {
    const boxes: Box[] = [], size = trie.before ? (i: number) => Math.max(trie.total[i], trie.before![i]) : (i: number) => trie.total[i];
    const scale = width / Math.max(1e-9, size(from)), stack: Box[] = [{ x: 0, width, node: from, level: 0 }];
    let levels = 0;
    while (stack.length) {
        const box = stack.pop()!;
        boxes.push(box);
        levels = Math.max(levels, box.level + 1);
        let x = box.x;
        for (let child = trie.first[box.node]; child; child = trie.next[child]) {
            const w = size(child) * scale;
            if (w < 1) break; // the others are smaller
            stack.push({ x, width: w, node: child, level: box.level + 1 });
            x += w;
        }
    }
    return { boxes, levels };
}

export interface FlameProps {
    profile: Profile;
    trie: Trie;
    from: number;
    up: boolean; // callees above their callers (flame), else below (icicle)
    hits: Uint8Array | null; // by function; others are dimmed
    selected: number; // function, -1: none
    whole: number;
    label: string;
    onOpen: (node: number) => void;
}

export function Flame({ profile, trie, from, up, hits, selected, whole, label, onOpen }: FlameProps) {
    const [element, width] = useWidth<HTMLDivElement>(), canvas = useRef<HTMLCanvasElement>(null), [hover, setHover] = useState<{ box: Box; x: number; y: number } | null>(null);
    const { boxes, levels } = useMemo(() => layout(trie, from, Math.max(10, width)), [trie, from, width]);
    const height = Math.min(levels, 1500) * ROW + 2;
    const top = (level: number) => (up ? height - (level + 1) * ROW : level * ROW);
    useLayoutEffect(() => { // with the frame that shows what stands around it, not in one more
        if (!canvas.current || !width) return;
        const ratio = Math.min(devicePixelRatio || 1, 16000 / height), g = canvas.current.getContext('2d')!, style = getComputedStyle(canvas.current), ink = css(INK);
        resize(canvas.current, Math.round(width * ratio), Math.round(height * ratio));
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        g.globalAlpha = 1;
        g.clearRect(0, 0, width, height);
        g.font = '12px system-ui, sans-serif';
        g.textBaseline = 'middle';
        let alpha = 1, fill = '';
        for (const box of boxes) {
            const f = profile.functions[trie.fn[box.node]], y = top(box.level), root = box.node === 0 && trie === profile.trie;
            const wanted = hits && !hits[f.id] && !root ? 0.25 : 1, paint = root ? ROOT : trie.before ? changeColour(trie.total[box.node], trie.before[box.node], whole) : colour(f);
            if (wanted !== alpha) g.globalAlpha = alpha = wanted;
            if (paint !== fill) g.fillStyle = fill = paint;
            g.fillRect(box.x, y, Math.max(0.5, box.width - (box.width > 3 ? 1 : 0)), ROW - 1);
            if (f.id === selected && !root) { // a frame, or a line below where it would fill the box
                g.strokeStyle = g.fillStyle = style.getPropertyValue('--text');
                fill = '';
                g.lineWidth = 2;
                if (box.width > 8) g.strokeRect(box.x + 1, y + 1, box.width - 3, ROW - 3);
                else g.fillRect(box.x, y + ROW - 4, Math.max(0.5, box.width - 1), 3);
            }
            if (box.width > 28) {
                const text = fit(g, root ? 'all' : `${sign(trie, box.node, whole)}${f.name}`, box.width - 8);
                if (text) {
                    g.fillStyle = fill = ink;
                    g.fillText(text, box.x + 4, y + ROW / 2);
                }
            }
        }
        g.globalAlpha = 1;
    }, [boxes, width, height, up, hits, selected, trie]);
    const at = (e: MouseEvent): Box | null => {
        const level = up ? Math.floor((height - e.offsetY) / ROW) : Math.floor(e.offsetY / ROW);
        return boxes.find((box) => box.level === level && e.offsetX >= box.x && e.offsetX < box.x + box.width) ?? null;
    };
    const moved = (e: PointerEvent) => {
        const box = at(e);
        setHover(box && { box, x: e.offsetX, y: e.offsetY });
    };
    const f = hover && profile.functions[trie.fn[hover.box.node]];
    return <div class="flame" ref={element}>
        {width > 0 && <canvas ref={canvas} role="img" aria-label={label} style={{ width: `${width}px`, height: `${height}px` }} onPointerMove={moved} onPointerLeave={() => setHover(null)}
            onClick={(e) => {
                const box = at(e);
                if (box) onOpen(box.node);
            }} />}
        {hover && f && <div class="tip" style={{ left: `${Math.min(hover.x + 12, Math.max(0, width - 320))}px`, top: `${hover.y + 16}px` }}>
            <b>{hover.box.node || trie !== profile.trie ? f.name : 'all'}</b>{f.file && <><br /><span class="dim">{shortFile(f.file)}{f.line ? `:${f.line}` : ''}</span></>}<br />
            {weight(trie.total[hover.box.node], profile.unit)}, {percent(trie.total[hover.box.node] / Math.max(1, whole))}{trie.self[hover.box.node] > 0 && <>; itself {weight(trie.self[hover.box.node], profile.unit)}</>}
            {trie.before && <><br />before {weight(trie.before[hover.box.node], profile.unit)}</>}
        </div>}
    </div>;
}
