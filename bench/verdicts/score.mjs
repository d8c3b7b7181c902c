// Compares what sonde found with what was planted. Only warnings and worse are claims: information accuses nobody.
// SPDX-License-Identifier: Apache-2.0

// Where each kind says how long; of what kept the loop, without what the thread waited for a CPU.
const AMOUNT = {
    'blocking-regexp': 'cpu_ns', 'event-loop-blocked': 'cpu_ns', 'gc-pressure': 'gc_ns', 'thread-pool-starved': 'waited_ns', 'slow-io': 'waited_ns', 'slow-peer': 'waited_ns',
    serialisation: 'encoding_ns', 'ipc-blocked': 'waited_ns', 'redis-slow-command': 'executed_ns', 'run-queue-wait': 'waited_ns', 'lock-wait': 'cpu_ns',
};
export const TOLERANCE = 0.1;

// A place is right when all that is asked of it holds.
function isAt(finding, wanted, context) {
    const source = finding.where?.source || {}, text = JSON.stringify(finding);
    const place = wanted.place;
    if (place?.first) return Boolean(source.file?.endsWith('/' + place.file) && (source.function === place.function || (source.line >= place.first && source.line <= place.last)));
    if (place) return Boolean(source.file?.includes(place.file));
    if (wanted.text) return wanted.text.test(text);
    if (wanted.peer) return text.includes(`:${context.ports[wanted.peer]}`);
    return finding.where?.service === context.service;
}

const amount = (finding) => finding.evidence?.[AMOUNT[finding.kind]] ?? finding.evidence?.blocked_ns ?? finding.evidence?.waited_ns;

// book: the program's own notes; context: { service, ports, slowlog }.
// requests: all that the recording has; asked: what the load saw of them (load()).
export function score(expectations, report, book, context, requests = [], asked = []) {
    const claims = report.findings.filter((finding) => finding.severity !== 'info');
    const taken = new Set(), true_ = new Set(), verdicts = [];
    for (const expected of expectations) {
        const kinds = typeof expected.kinds === 'function' ? expected.kinds(book) : expected.kinds;
        const candidates = (expected.info ? report.findings : claims).filter((finding) => kinds.includes(finding.kind) && !taken.has(finding));
        const right = candidates.filter((finding) => expected.places.some((place) => isAt(finding, place, context)));
        const matched = right.length ? right : candidates.slice(0, 1);
        matched.forEach((finding) => taken.add(finding));
        right.forEach((finding) => true_.add(finding));
        const verdict = { cause: expected.cause, kinds, kind: matched.length > 0, place: right.length > 0, found: matched.map((finding) => finding.kind), claims: matched.filter((finding) => finding.severity !== 'info').length };
        if (expected.blamed && matched.length) {
            verdict.true_ns = expected.blamed(book, context, matched[0].kind);
            verdict.blamed_ns = matched.reduce((sum, finding) => sum + (amount(finding) ?? NaN), 0);
            verdict.error = verdict.blamed_ns / verdict.true_ns - 1;
            verdict.time = Math.abs(verdict.error) <= TOLERANCE;
        }
        verdicts.push(verdict);
    }
    const also = new Set(expectations.flatMap((expected) => expected.also || []));
    // That events were lost tells of the recording and accuses nobody.
    const alarms = claims.filter((finding) => !taken.has(finding) && !also.has(finding.kind) && finding.kind !== 'events-lost').map((finding) => ({ kind: finding.kind, title: finding.title }));
    const planted = (finding) => true_.has(finding) || also.has(finding.kind);
    return { verdicts, alarms, far: farRequests(requests, asked, report.findings, planted) };
}

/* ---- requests that took far longer than usual ---- */

const FAR = 10; // times the median of their endpoint
// What the machine did, by the kernel's own counts: true, but nothing that was planted. And what says that it does not know.
const MACHINE = ['run-queue-wait', 'cpu-throttled', 'cpu-stolen'], UNKNOWN = ['unexplained-wait', 'events-lost'];
// Where requests wait for whom these findings accuse, by the steps of their paths.
const QUEUES = { 'thread-pool-starved': 'waits for a pool thread', 'redis-slow-command': 'on its way or queued' };

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

// How long each request took for who asked: those that arrived while nobody read took longer than the service can know.
function askedFor(requests, asked) {
    const took = new Map(asked.map(([trace, since, until]) => [trace, until - since]));
    return new Map(requests.filter(({ trace_id }) => took.has(trace_id)).map(({ id, trace_id }) => [id, took.get(trace_id)]));
}

// How much longer than the median they took, and what is said of that time: what was planted, the machine (by findings, and by
// the request's own path), something else, or more than there was. planted(finding): it is what was planted, where it was.
export function farRequests(requests, asked, findings, planted) {
    const far = { requests: 0, lost_ns: 0, right_ns: 0, machine_ns: 0, wrong_ns: 0, wrong: {} }, endpoints = new Map(), said = new Map(), took = askedFor(requests, asked);
    const add = (to, key, value) => (to.get(key) || to.set(key, []).get(key)).push(value);
    for (const request of requests.filter(({ id, state }) => state === 'finished' && took.has(id))) add(endpoints, `${request.service} ${request.method} ${request.path}`, request);
    for (const finding of findings)
        for (const { request, delay_ns } of finding.affected) add(said, request, [finding, delay_ns]);
    const sideOf = (finding) => (planted(finding) ? 'right' : MACHINE.includes(finding.kind) ? 'machine' : UNKNOWN.includes(finding.kind) ? null : 'wrong');
    for (const all of endpoints.values()) {
        const usual = median(all.map(({ latency_ns }) => latency_ns));
        for (const { id, latency_ns, critical_path } of all.filter((one) => one.latency_ns > FAR * usual)) {
            const sums = { right: 0, machine: 0, wrong: 0 }, its = said.get(id) || [];
            // What they who hold a queue had no CPU for themselves is not charged to them.
            const unserved = Object.entries(QUEUES).reduce((total, [kind, what]) => {
                const charged = its.filter(([finding]) => finding.kind === kind && planted(finding));
                const queued = (critical_path?.steps || []).reduce((sum, step) => sum + (step.what === what ? step.duration_ns - (step.no_cpu_ns ?? 0) : 0), 0);
                return total + (charged.length ? Math.max(0, queued - charged.reduce((sum, [, delay]) => sum + delay, 0)) : 0);
            }, 0);
            for (const [finding, delay] of its) {
                const side = sideOf(finding), before = sums.right + sums.machine, beyond = side === 'wrong' ? delay : Math.max(0, before + delay - took.get(id));
                if (!side) continue;
                sums[side] += delay;
                if (side !== 'wrong') sums.wrong += beyond;
                if (beyond) far.wrong[finding.kind] = (far.wrong[finding.kind] || 0) + beyond;
            }
            const lost = latency_ns - usual, right = Math.min(sums.right, lost);
            far.requests++;
            far.lost_ns += lost;
            far.right_ns += right;
            far.machine_ns += Math.min(Math.max(sums.machine, (critical_path?.runnable_ns || 0) + (critical_path?.held_ns || 0) + unserved), lost - right);
            far.wrong_ns += sums.wrong;
        }
    }
    return far;
}

const sum = (results, name) => results.reduce((total, { far }) => total + (far?.[name] || 0), 0);

const ratio = (a, b) => (b ? a / b : 1);

export function summarise(results) {
    const lost = sum(results, 'lost_ns');
    const all = results.flatMap((result) => result.verdicts), timed = all.filter((v) => v.time !== undefined);
    const found = all.filter((v) => v.kind).length, placed = all.filter((v) => v.place).length, alarms = results.reduce((sum, result) => sum + result.alarms.length, 0);
    return {
        scenarios: results.length, planted: all.length, found, placed, alarms, timed: timed.length, timely: timed.filter((v) => v.time).length,
        recall: ratio(found, all.length), precision: ratio(found, found + alarms), place_recall: ratio(placed, all.length), place_precision: ratio(placed, found + alarms), time_share: ratio(timed.filter((v) => v.time).length, timed.length),
        far: sum(results, 'requests'), far_s: lost / 1e9, far_right: ratio(sum(results, 'right_ns'), lost), far_machine: lost ? sum(results, 'machine_ns') / lost : 0, far_wrong: lost ? sum(results, 'wrong_ns') / lost : 0,
    };
}

function table(head, rows) {
    const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => String(row[i]).length)));
    const line = (row) => '| ' + row.map((cell, i) => (i ? String(cell).padStart(widths[i]) : String(cell).padEnd(widths[i]))).join(' | ') + ' |';
    return [line(head), '|' + widths.map((width, i) => (i ? '-'.repeat(width + 1) + ':' : '-'.repeat(width + 2))).join('|') + '|', ...rows.map(line)].join('\n');
}

// One row a cause, in the order in which they come.
export function causeTable(results) {
    const rows = new Map();
    for (const { verdicts } of results)
        for (const v of verdicts) {
            const row = rows.get(v.cause) || rows.set(v.cause, []).get(v.cause);
            row.push(v);
        }
    const middle = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
    return table(['cause', 'planted', 'kind', 'place', 'time within 10 %', 'median error'], [...rows].map(([cause, list]) => {
        const timed = list.filter((v) => v.time !== undefined);
        return [cause, list.length, list.filter((v) => v.kind).length, list.filter((v) => v.place).length, timed.length ? `${timed.filter((v) => v.time).length} of ${timed.length}` : '-', timed.some((v) => v.error !== undefined) ? percent(middle(timed.map((v) => Math.abs(v.error)))) : '-'];
    }));
}

// Planted kinds against claimed ones.
export function confusionTable(results) {
    const counts = new Map(), columns = new Set(), nothing = '(nothing)';
    const add = (row, column) => {
        const cells = counts.get(row) || counts.set(row, new Map()).get(row);
        cells.set(column, (cells.get(column) || 0) + 1);
        columns.add(column);
    };
    for (const { verdicts, alarms } of results) {
        for (const v of verdicts) add(v.kinds[0], v.found[0] || nothing);
        const row = verdicts.length ? 'beside what was planted' : 'healthy';
        if (!verdicts.length && !alarms.length) add(row, nothing);
        for (const alarm of alarms) add(row, alarm.kind);
    }
    const heads = [...columns].sort();
    return table(['planted \\ claimed', ...heads], [...counts].map(([row, cells]) => [row, ...heads.map((column) => cells.get(column) || '.')]));
}

const percent = (x) => `${(100 * x).toFixed(1)} %`;

export function sentence(summary) {
    return `${summary.scenarios} scenarios, ${summary.planted} planted faults: kind recall ${summary.recall.toFixed(3)}, precision ${summary.precision.toFixed(3)}; ` +
        `place recall ${summary.place_recall.toFixed(3)}, precision ${summary.place_precision.toFixed(3)}; blamed time within 10 %: ${summary.timely} of ${summary.timed}; ` +
        (summary.far ? `${summary.far} requests beyond ${FAR} times their endpoint's median lost ${summary.far_s.toFixed(0)} s: explained by what was planted ${percent(summary.far_right)}, by the machine ${percent(summary.far_machine)}, wrongly ${percent(summary.far_wrong)}` : `no request took more than ${FAR} times its endpoint's median`);
}
