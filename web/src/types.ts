// The documents of the API, as doc/page.md describes them. Times are nanoseconds.
// SPDX-License-Identifier: Apache-2.0

export interface SourceInfo {
    id: number;
    name: string;
    path: string;
    kind: 'recording' | 'profile';
    state: 'reading' | 'ready' | 'failed' | 'cancelled';
    version: number;
    done_bytes: number;
    total_bytes: number;
    left_ns: number;
    problem?: string;
    remedy?: string;
}
export interface Sources {
    schema: number;
    regressions: boolean;
    sources: SourceInfo[];
}

export interface Place {
    service?: string | null;
    process?: number | null;
    thread?: number | null;
    layer?: string | null;
    source?: { function?: string; file?: string; line?: number; column?: number } | null;
}
export interface Affected {
    request?: string;
    service?: string;
    method?: string;
    path?: string;
    route?: string;
    role?: string;
    count: number;
    start_ns: number;
    delay_ns: number;
}
export interface Finding {
    kind: string;
    severity: 'info' | 'warning' | 'critical';
    title: string;
    detail: string;
    where: Place;
    from_ns: number;
    to_ns: number | null;
    evidence: Record<string, number | string>;
    affected: Affected[];
    affected_count: number;
    cost_ns: number;
    remedy: string;
    link?: string;
}
export interface Endpoint {
    service: string;
    method: string;
    route: string;
    count: number;
    unfinished_count: number;
    errors_count: number;
    p50_ns: number;
    p95_ns: number;
    p99_ns: number;
    worst_ns: number;
}
// Events of a thread (of a process, of all) that were lost between two times.
export interface Lost {
    from_ns: number;
    to_ns: number;
    process?: number;
    thread?: number;
    reason: string;
    count: number;
}
export interface Report {
    findings: Finding[];
    losses: { reason: string; where?: string; count: number }[];
    lost?: Lost[]; // where in time, as far as that is known
    overhead: Record<string, number>;
    missing: { what: string; why: string; remedy?: string }[];
    nothing?: string;
    from_ns: number;
    to_ns: number;
    endpoints?: Endpoint[];
    processes?: { service: string; process: number; runtime: string; threads: number[] }[];
    attribution?: Record<string, number>;
}

export interface RequestRow {
    id: string;
    service: string;
    method: string;
    route: string;
    path: string;
    dominant: string;
    state: string;
    status: number;
    start_ns: number;
    latency_ns: number;
    works_ns: number;
}
export interface RequestPage {
    total: number;
    of?: number; // in a file that does not hold all: how many there were
    histogram: [from_ns: number, to_ns: number, count: number][];
    rows: RequestRow[];
}
export interface Step {
    what: string;
    start_ns: number;
    duration_ns: number;
    name?: string;
    service?: string;
    span?: number;
    running_ns?: number;
    runnable_ns?: number;
    blocked_ns?: number;
    no_cpu_ns?: number; // of it: no CPU for the thread that should go on
    other_work_ns?: number; // of it: the event loop did something else
}
export interface Span {
    layer: string;
    kind: string;
    name: string;
    start_ns: number;
    end_ns?: number;
    duration_ns?: number;
    parent: number | null;
    known: string;
    detail?: string;
    peer?: string;
    work_start_ns?: number;
    work_end_ns?: number;
    times_usual?: number;
    result?: number;
    fd?: number;
    shared?: boolean;
    request?: VerticalSpan;
    functions?: { name: string; samples_count?: number }[];
}
export interface VerticalSpan {
    id: string;
    service: string;
    process: number;
    thread: number;
    method: string;
    path: string;
    route: string;
    status: number;
    state: string;
    start_ns: number;
    latency_ns: number;
    critical_path?: { t_ns: number; l_ns: number; waits_ns: number; steps: Step[] };
    spans: Span[];
    spans_left_out_count?: number;
}
export interface OneRequest {
    row: RequestRow;
    typical: string;
    typical_ns: number;
    slower_count: number;
    of_count: number;
    request: VerticalSpan | null;
}

export interface Rows {
    start_ns: number;
    end_ns: number;
    changes: number;
    zoom: number;
    groups_zoom: number; // the least zoom that tiles of groups have
    quiet: string[]; // states in which nothing is done
    rows: { n: number; group: string; name: string; path: string; counts?: boolean; process?: number; thread?: number }[];
}

export interface ProfileDocument {
    title: string;
    event: string;
    unit: string;
    strings: string[];
    frames: [name: number, file: number, module: number, line: number, kind: number][];
    kinds: string[];
    parent: number[];
    frame: number[];
    weight: number[];
    before?: number[];
}

// What got slower (src/diagnose/bundle.c). Pairs are [older, newer].
export type Pair = [older: number, newer: number];
export interface Exemplar {
    trace: string;
    duration_ns: number;
    parts: { service: string; name: string; depth: number; start_ns: number; duration_ns: number; critical: boolean; error: boolean }[];
    left_out: number;
}
export interface RegressionCause {
    words: string;
    ratio: number;
    ratio_elsewhere: number | null;
    coverage: number;
}
export interface Regression {
    kind: string;
    title: string;
    detail: string;
    remedy: string;
    bucket: string;
    service: string;
    versions: [older: string, newer: string];
    numbers: {
        measure: string; failing: Pair | null /* shares of requests, when errors are what got worse */; failing_in_part: boolean; ratio: number; low: number; high: number; test: string; p: number; adjusted_p: number; e_value: number | null; z: number; z_versions: number | null; effect: number; concurrent: boolean; mix_ratio: number;
        errors: Pair; errors_p: number; errors_count: Pair; first_ns: number; last_ns: number; requests: Pair; hosts: Pair;
    };
    quantiles: [quantile: number, older_ns: number, newer_ns: number][];
    mean_ns: Pair;
    distribution: [older: [from_ns: number, to_ns: number, count: number][], newer: [from_ns: number, to_ns: number, count: number][]];
    changes: { kind: string; words: string; path: string; share: number }[];
    forest: { words: string; kind: string; depth: number; on_path: boolean; grew_most: boolean; calls: Pair; p95_ns: Pair; self_ns: Pair; at_once: Pair; critical_ns: Pair }[];
    forest_left_out: number;
    requests: Record<'typical' | 'slowest', [older: Exemplar | null, newer: Exemplar | null]>;
    causes: RegressionCause[];
    rule: RegressionCause | null;
    buckets: { words: string; shown: boolean; ratio?: number; low?: number; high?: number; outcome?: 'slower' | 'fails-more' | 'not-slower' | 'cannot-tell' }[];
    buckets_left_out: number;
}
export interface Regressions {
    outcome: 'slower' | 'not-slower' | 'cannot-tell';
    nothing: string | null;
    read: string;
    findings: Regression[];
    report: unknown;
}
