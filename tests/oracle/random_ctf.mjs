// Random CTF 1.8 traces: random layouts (bit-packed, both byte orders, nested structures, sequences, variants,
// enumerations, reals, strings) with random data in them. The same seed gives the same trace.
//
//     node tests/oracle/random_ctf.mjs SEED FOLDER [FOLDER2]   (FOLDER2: the same data with CTF 2 metadata)
import fs from 'node:fs';
import path from 'node:path';

function random(seed) { // mulberry32
    let a = seed >>> 0;
    const next = () => {
        a = (a + 0x6d2b79f5) >>> 0;
        let t = a;
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return (t ^ (t >>> 14)) >>> 0;
    };
    return {
        below: n => next() % n,
        chance: p => next() / 4294967296 < p,
        pick: list => list[next() % list.length],
        bits: n => { // a BigInt of n bits, often near the edges
            let v = (BigInt(next()) << 32n) | BigInt(next());
            if (next() % 8 === 0) v = 0n;
            else if (next() % 8 === 0) v = (1n << BigInt(n)) - 1n;
            return v & ((1n << BigInt(n)) - 1n);
        },
    };
}

// Writes bits the way CTF packs them: from the low bit in little-endian, from the high bit in big-endian.
class Bits {
    constructor() { this.bytes = []; this.at = 0; }
    align(n) { while (this.at % n) this.bit(0); }
    bit(b, big) {
        const i = this.at >> 3;
        if (i >= this.bytes.length) this.bytes.push(0);
        if (b) this.bytes[i] |= big ? 0x80 >> (this.at & 7) : 1 << (this.at & 7);
        this.at++;
    }
    put(value, size, big) {
        for (let i = 0; i < size; i++) this.bit(Number((value >> BigInt(big ? size - 1 - i : i)) & 1n), big);
    }
}

const plain = name => name.startsWith('_') ? name.slice(1) : name; // CTF 1.8 protects names with an underscore

class Layout {
    constructor(seed) {
        this.r = random(seed);
        this.big = this.r.chance(0.5);
        this.counter = 0;
    }
    name() { return `${this.r.pick(['_', '', '__'])}f${this.counter++}`; }

    integer(options = {}) {
        const r = this.r;
        const size = options.size ?? (r.chance(0.5) ? r.pick([8, 16, 32, 64]) : 1 + r.below(64));
        let align = options.align ?? (r.chance(0.6) ? (size % 8 ? 1 : 8) : r.pick([1, 2, 4, 8, 16, 32, 64]));
        const signed = options.signed ?? r.chance(0.4);
        const free = size % 8 === 0 && align >= 8;
        const big = free && r.chance(0.3) ? !this.big : this.big;
        return { kind: 'integer', size, align, signed, big, base: r.pick([2, 8, 10, 16]) };
    }
    enumeration(labels) {
        const r = this.r, container = this.integer({ size: 5 + r.below(10), signed: r.chance(0.3) });
        const entries = [];
        const limit = container.signed ? 1 << (container.size - 1) : 1 << container.size;
        const low = container.signed ? -limit : 0;
        let at = low;
        for (const label of labels ?? ['A', 'B with blank', 'C', 'A', 'D']) {
            if (at >= limit) break;
            const from = labels ? at : low + r.below(limit - low), to = Math.min(limit - 1, from + r.below(3));
            entries.push({ label, from, to });
            at = to + 1;
        }
        return { kind: 'enum', container, entries };
    }
    scalar() {
        const r = this.r, n = r.below(10);
        if (n < 5) return this.integer();
        if (n < 6) return this.enumeration();
        if (n < 7) return { kind: 'real', size: r.pick([32, 64]), align: r.pick([8, 32, 64]), big: r.chance(0.3) ? !this.big : this.big };
        if (n < 9) return { kind: 'string' };
        return { kind: 'text', length: r.below(20) };
    }
    // Members to append to a structure: often one, with its length or tag in front when it needs one.
    members(depth) {
        const r = this.r, n = r.below(12), name = this.name();
        // babeltrace2 2.0 aborts on lengths and tags in an event's own context.
        if (n < 6 || depth > 3 || (this.plain && n >= 8)) return [{ name, fc: this.scalar() }];
        if (n < 7) return [{ name, fc: this.structure(depth + 1) }];
        if (n < 8) return [{ name, fc: { kind: 'array', length: r.below(6), element: this.element(depth) } }];
        if (n < 10) {
            const length = `${name}_len`;
            const text = r.chance(0.3);
            return [{ name: length, fc: { ...this.integer({ size: 3 + r.below(12), signed: false }), length: true } },
                { name, fc: { kind: 'sequence', of: length, element: text ? { kind: 'char' } : this.element(depth) } }];
        }
        const tag = `${name}_tag`, options = ['one', 'two', 'three', '_four'].slice(0, 1 + r.below(4));
        const fc = { kind: 'variant', tag, options: options.map(o => ({ name: o, fc: this.element(depth) })) };
        const selector = { ...this.enumeration(options), tag: true };
        fc.entries = selector.entries;
        return [{ name: tag, fc: selector }, { name, fc }];
    }
    element(depth) { return this.r.chance(0.6) ? this.scalar() : this.structure(depth + 1); }
    withoutReferences() {
        this.plain = true;
        const fc = this.structure(1);
        this.plain = false;
        return fc;
    }
    structure(depth) {
        const members = [];
        for (let n = this.r.below(depth ? 4 : 7); n > 0; n--) members.push(...this.members(depth));
        return { kind: 'struct', members, align: this.r.chance(0.2) ? this.r.pick([8, 16, 32]) : 1 };
    }

    // ---- as TSDL ----
    order(big) { return big === this.big ? '' : ` byte_order = ${big ? 'be' : 'le'};`; }
    tsdl(fc) {
        switch (fc.kind) {
        case 'integer':
            return `integer { size = ${fc.size}; align = ${fc.align}; signed = ${fc.signed}; base = ${fc.base};${this.order(fc.big)}${fc.clock ? ' map = clock.c.value;' : ''} }`;
        case 'char': return 'integer { size = 8; align = 8; signed = false; encoding = UTF8; }';
        case 'real': return `floating_point { exp_dig = ${fc.size === 32 ? 8 : 11}; mant_dig = ${fc.size === 32 ? 24 : 53}; align = ${fc.align};${this.order(fc.big)} }`;
        case 'string': return 'string';
        case 'enum': return `enum : ${this.tsdl(fc.container)} { ${fc.entries.map(e => `"${e.label}" = ${e.from}${e.to > e.from ? ` ... ${e.to}` : ''}`).join(', ')} }`;
        case 'struct': return `struct { ${fc.members.map(m => this.member(m)).join(' ')} } align(${fc.align})`;
        case 'variant': return `variant <${fc.tag}> { ${fc.options.map(m => this.member(m)).join(' ')} }`;
        default: throw new Error(fc.kind);
        }
    }
    member({ name, fc }) {
        let dimensions = '';
        while (['array', 'sequence', 'text'].includes(fc.kind)) {
            dimensions += `[${fc.kind === 'sequence' ? fc.of : fc.length}]`;
            fc = fc.kind === 'text' ? { kind: 'char' } : fc.element;
        }
        return `${this.tsdl(fc)} ${name}${dimensions};`;
    }

    // ---- as CTF 2 ----
    json(fc) {
        const integer = (f, more = {}) => ({ type: `fixed-length-${f.signed ? 'signed' : 'unsigned'}-integer`, length: f.size,
            alignment: f.align, 'byte-order': f.big ? 'big-endian' : 'little-endian', 'preferred-display-base': f.base,
            ...(f.role ? { roles: [f.role] } : {}), ...more });
        const location = name => ({ path: [plain(name)] });
        switch (fc.kind) {
        case 'integer': return integer(fc);
        case 'real': return { type: 'fixed-length-floating-point-number', length: fc.size, alignment: fc.align, 'byte-order': fc.big ? 'big-endian' : 'little-endian' };
        case 'string': return { type: 'null-terminated-string' };
        case 'text': return { type: 'static-length-string', length: fc.length };
        case 'enum': {
            const mappings = {};
            for (const e of fc.entries) (mappings[e.label] ??= []).push([e.from, e.to]);
            return integer(fc.container, { mappings });
        }
        case 'struct': return { type: 'structure', 'minimum-alignment': fc.align,
            'member-classes': fc.members.map(m => ({ name: plain(m.name), 'field-class': this.json(m.fc) })) };
        case 'array': return { type: 'static-length-array', length: fc.length, 'element-field-class': this.json(fc.element) };
        case 'sequence': return fc.element.kind === 'char' ? { type: 'dynamic-length-string', 'length-field-location': location(fc.of) }
            : { type: 'dynamic-length-array', 'length-field-location': location(fc.of), 'element-field-class': this.json(fc.element) };
        case 'variant': return { type: 'variant', 'selector-field-location': location(fc.tag), options: fc.options.map(o => ({
            name: plain(o.name), 'field-class': this.json(o.fc), 'selector-field-ranges': fc.entries.filter(e => e.label === o.name).map(e => [e.from, e.to]) })) };
        default: throw new Error(fc.kind);
        }
    }

    // ---- as data ----
    alignment(fc) {
        switch (fc.kind) {
        case 'integer': case 'real': return fc.align;
        case 'char': case 'string': case 'text': return 8;
        case 'enum': return fc.container.align;
        case 'struct': return Math.max(fc.align, 1, ...fc.members.map(m => this.alignment(m.fc)));
        case 'array': case 'sequence': return this.alignment(fc.element);
        default: return 1;
        }
    }
    write(out, fc, scope, value) {
        const r = this.r;
        out.align(this.alignment(fc));
        switch (fc.kind) {
        case 'integer':
            value ??= r.bits(fc.size);
            out.put(value, fc.size, fc.big);
            return value;
        case 'char':
            out.put(BigInt(r.chance(0.05) ? 0 : 32 + r.below(95)), 8, this.big);
            return;
        case 'real':
            out.put(r.bits(fc.size), fc.size, fc.big);
            return;
        case 'string':
            for (let n = r.below(12); n > 0; n--) out.put(BigInt(1 + r.below(255)), 8, this.big);
            out.put(0n, 8, this.big);
            return;
        case 'text':
            for (let i = 0; i < fc.length; i++) this.write(out, { kind: 'char' });
            return;
        case 'enum': {
            if (fc.tag) {
                const e = r.pick(fc.entries), v = e.from + r.below(e.to - e.from + 1);
                this.write(out, fc.container, scope, BigInt.asUintN(fc.container.size, BigInt(v)));
                return e.label;
            }
            return this.write(out, fc.container, scope);
        }
        case 'struct': {
            const inner = Object.create(scope ?? null);
            for (const m of fc.members)
                inner[m.name] = this.write(out, m.fc, inner, m.fc.length && m.fc.kind === 'integer' ? BigInt(r.below(8)) : undefined);
            return inner;
        }
        case 'array':
            for (let i = 0; i < fc.length; i++) this.write(out, fc.element, scope);
            return;
        case 'sequence':
            for (let i = Number(scope[fc.of]); i > 0; i--) this.write(out, fc.element, scope);
            return;
        case 'variant':
            this.write(out, fc.options.find(o => o.name === scope[fc.tag]).fc, scope);
        }
    }
}

const ROLES = { magic: 'packet-magic-number', stream_id: 'data-stream-class-id', timestamp_begin: 'default-clock-timestamp',
    timestamp_end: 'packet-end-default-clock-timestamp', content_size: 'packet-content-length', packet_size: 'packet-total-length',
    id: 'event-record-class-id', timestamp: 'default-clock-timestamp' };

function ctf2Metadata(l, header, streams, clock) {
    const withRoles = s => ({ ...s, members: s.members.map(m => ROLES[m.name] ? { ...m, fc: { ...m.fc, role: ROLES[m.name] } } : m) });
    const fragments = [{ type: 'preamble', version: 2 },
        { type: 'trace-class', 'packet-header-field-class': l.json(withRoles(header)) },
        { type: 'clock-class', id: 'c', frequency: clock.freq, 'offset-from-origin': { seconds: clock.offset_s, cycles: clock.offset } }];
    for (const s of streams) {
        fragments.push({ type: 'data-stream-class', id: s.id, 'default-clock-class-id': 'c', 'packet-context-field-class': l.json(withRoles(s.context)),
            'event-record-header-field-class': l.json(withRoles(s.eventHeader)),
            ...(s.common ? { 'event-record-common-context-field-class': l.json(s.common) } : {}) });
        for (const e of s.events)
            fragments.push({ type: 'event-record-class', id: e.id, 'data-stream-class-id': s.id, name: `s${s.id}e${e.id}`,
                ...(e.context ? { 'specific-context-field-class': l.json(e.context) } : {}), 'payload-field-class': l.json(e.fields) });
    }
    return fragments.map(f => `\x1e${JSON.stringify(f, null, 1)}\n`).join('');
}

const fixed = (size, big, more = {}) => ({ kind: 'integer', size, align: 8, signed: false, big, base: 10, ...more });

// ctf2: a second folder that gets the same streams with CTF 2 metadata.
export function writeRandomTrace(seed, folder, { packets = 4, events = 40, ctf2 } = {}) {
    const l = new Layout(seed), r = l.r, big = l.big;
    const streams = [];
    const header = { kind: 'struct', align: 1, members: [{ name: 'magic', fc: fixed(32, big) }, { name: 'stream_id', fc: fixed(r.pick([8, 16, 32]), big) }] };
    for (let id = 0; id < 1 + r.below(3); id++) {
        const stampBits = r.pick([27, 32, 64]);
        const stamp = { ...fixed(stampBits, big, { clock: true }), align: stampBits === 27 ? 1 : 8 };
        const context = { kind: 'struct', align: 1, members: [
            { name: 'timestamp_begin', fc: fixed(64, big, { clock: true }) }, { name: 'timestamp_end', fc: fixed(64, big, { clock: true }) },
            { name: 'content_size', fc: fixed(32, big) }, { name: 'packet_size', fc: fixed(32, big) }, ...l.members(1)] };
        const eventHeader = { kind: 'struct', align: r.pick([1, 8]), members: [{ name: 'id', fc: { ...fixed(r.pick([5, 8, 16]), big), align: 1 } }, { name: 'timestamp', fc: stamp }] };
        streams.push({ id, context, eventHeader, common: r.chance(0.5) ? l.structure(1) : null,
            events: Array.from({ length: 1 + r.below(5) }, (_, i) => ({ id: i, context: r.chance(0.3) ? l.withoutReferences() : null, fields: l.structure(0) })) });
    }
    const clock = { freq: r.pick([1000000000, 1000000, 3333333333, 12345]), offset_s: r.below(2000000000), offset: r.below(1000000) };
    let text = `/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = ${big ? 'be' : 'le'}; };\n` +
        `clock { name = c; freq = ${clock.freq}; offset_s = ${clock.offset_s}; offset = ${clock.offset}; };\n`;
    text = text.replace('byte_order', `packet.header := ${'@'}; byte_order`).replace('@', l.tsdl(header));
    // The clock stands behind the trace block, so the header may not map to it; the rest may.
    for (const s of streams) {
        text += `stream { id = ${s.id}; packet.context := ${l.tsdl(s.context)}; event.header := ${l.tsdl(s.eventHeader)};` +
            `${s.common ? ` event.context := ${l.tsdl(s.common)};` : ''} };\n`;
        for (const e of s.events)
            text += `event { name = "s${s.id}e${e.id}"; id = ${e.id}; stream_id = ${s.id};${e.context ? ` context := ${l.tsdl(e.context)};` : ''} fields := ${l.tsdl(e.fields)}; };\n`;
    }
    fs.mkdirSync(folder, { recursive: true });
    fs.writeFileSync(path.join(folder, 'metadata'), text);
    if (ctf2) {
        fs.mkdirSync(ctf2, { recursive: true });
        fs.writeFileSync(path.join(ctf2, 'metadata'), ctf2Metadata(l, header, streams, clock));
    }
    for (const s of streams) {
        let now = BigInt(r.below(1000000));
        const file = [];
        for (let p = 0; p < packets; p++) {
            const out = new Bits();
            const scope = Object.create(null);
            const begin = now;
            l.write(out, { ...header, members: header.members.map(m => ({ ...m })) }, scope, undefined);
            // Known values are put in place afterwards.
            const patch = (at, value, size) => { const b = new Bits(); b.put(BigInt(value), size, big); for (let i = 0; i < size / 8; i++) out.bytes[at / 8 + i] = b.bytes[i] ?? 0; };
            patch(0, 0xc1fc1fc1, 32);
            patch(32, s.id, header.members[1].fc.size);
            out.align(Math.max(8, l.alignment(s.context)));
            const contextAt = out.at;
            l.write(out, s.context, scope);
            for (let n = r.below(events); n > 0; n--) {
                const e = r.pick(s.events);
                now += BigInt(r.below(1 + r.below(1 << 20)));
                out.align(l.alignment(s.eventHeader));
                const stamp = s.eventHeader.members[1].fc;
                l.write(out, s.eventHeader.members[0].fc, null, BigInt(e.id));
                l.write(out, stamp, null, BigInt.asUintN(stamp.size, now));
                for (const part of [s.common, e.context, e.fields])
                    if (part) l.write(out, part, Object.create(null));
            }
            const content = out.at;
            out.align(8);
            for (let n = r.below(9); n > 0; n--) out.put(0xffn, 8, big);
            while (out.bytes.length % 8) out.put(0n, 8, big); // packets start at a multiple of every alignment
            patch(contextAt, begin, 64);
            patch(contextAt + 64, now, 64);
            patch(contextAt + 128, content, 32);
            patch(contextAt + 160, out.bytes.length * 8, 32);
            file.push(Buffer.from(out.bytes));
        }
        for (const f of ctf2 ? [folder, ctf2] : [folder])
            fs.writeFileSync(path.join(f, `stream${s.id}`), Buffer.concat(file));
    }
}

if (process.argv[1] && import.meta.url.endsWith(path.basename(process.argv[1])))
    writeRandomTrace(Number(process.argv[2]), process.argv[3], { ctf2: process.argv[4] });
