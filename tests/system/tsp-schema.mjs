// What the Trace Server Protocol 0.6 says about each answer, as JSON schemas: which members there are, which must be there,
// and of what type. Stricter than the protocol in one way: a member that it does not name is a mistake.
// SPDX-License-Identifier: Apache-2.0
import { createRequire } from 'node:module';

const Ajv = createRequire(import.meta.url)('ajv');

// members: those that must be there, then those that may.
const object = (must, may = {}) => ({ type: 'object', required: Object.keys(must), additionalProperties: false, properties: { ...must, ...may } });
const list = (items) => ({ type: 'array', items });
const map = (values) => ({ type: 'object', additionalProperties: values });
const oneOf = (...values) => ({ enum: values });
const text = { type: 'string' }, flag = { type: 'boolean' }, number = { type: 'number' }, integer = { type: 'integer' }, time = { type: 'integer' };
const uuid = { type: 'string', pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' };

const style = object({ values: map({ type: ['string', 'number'] }) }, { parentKey: text });
const indexed = { UUID: uuid, name: text, start: time, end: time, nbEvents: integer, indexingStatus: oneOf('RUNNING', 'COMPLETED', 'CLOSED') };
const trace = object({ ...indexed, path: text, properties: map(text) });
const experiment = object({ ...indexed, traces: list(trace) });
const output = object({ id: text, name: text, description: text, type: oneOf('TABLE', 'TREE_TIME_XY', 'TIME_GRAPH', 'DATA_TREE', 'NONE', 'GANTT_CHART', 'TREE_GENERIC_XY') }, { parentId: text, capabilities: object({}, { canCreate: flag, canDelete: flag }) });
const dataType = oneOf('NUMBER', 'BINARY_NUMBER', 'TIMESTAMP', 'DURATION', 'STRING', 'TIME_RANGE');
const generic = (model) => object({ status: oneOf('RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED'), statusMessage: text }, { model });
const entry = [{ id: integer, labels: list(text) }, { parentId: integer, hasData: flag, style }];
const tree = (one) => generic(object({ headers: list(object({ name: text, tooltip: text }, { dataType })), entries: list(one) }, { autoExpandLevel: integer }));
const axis = object({ label: text, unit: text, dataType });
const series = object({ seriesId: integer, seriesName: text, style, yValues: list(number), xValuesDescription: axis, yValuesDescription: axis }, { xValues: list(time) });

const SCHEMAS = {
    health: object({ status: oneOf('UP') }),
    identifier: object({ productId: text, version: text, tspVersion: text, os: text }, { osArch: text, osVersion: text, cpuCount: integer, maxMemory: integer, buildTime: text, launcherName: text }),
    trace, traces: list(trace), experiment, experiments: list(experiment), outputs: list(output), none: { type: 'array', maxItems: 0 },
    error: object({ title: text }, { detail: text, trace }),
    timeGraphTree: tree(object({ ...entry[0], start: time, end: time }, { ...entry[1], metadata: map(list({ type: ['string', 'number'] })) })),
    states: generic(object({ rows: list(object({ entryId: integer, states: list(object({ start: time, end: time }, { label: text, tags: integer, style })) })) })),
    arrows: generic(list(object({ sourceId: integer, targetId: integer, start: time, end: time }, { style }))),
    tooltip: generic(map(text)),
    annotations: generic(object({ annotations: map(list(object({ entryId: integer, type: oneOf('CHART', 'TREE'), time, duration: time }, { label: text, style }))) })),
    categories: generic(object({ annotationCategories: list(text) })),
    markers: generic(list(object({ id: text, name: text }))),
    styles: generic(object({ styles: map(style) })),
    xyTree: tree(object(entry[0], { ...entry[1], isDefault: flag })),
    xy: generic(object({ title: text, series: list(series) })),
    dataTree: tree(object(...entry)),
    columns: generic(list(object({ id: integer, name: text, description: text, type: text }))),
    lines: generic(object({ columnIds: list(integer), lowIndex: integer, size: integer, lines: list(object({ index: integer, cells: list(object({ content: text }, { tags: integer })) }, { tags: integer })) })),
};

const ajv = new Ajv({ strict: false, allErrors: true });
const checks = Object.fromEntries(Object.entries(SCHEMAS).map(([name, schema]) => [name, ajv.compile(schema)]));

// What is wrong with an answer's text; nothing when it is as the protocol says.
export function faults(name, answer) {
    const check = checks[name];
    return check(JSON.parse(answer)) ? [] : check.errors.slice(0, 5).map((e) => `${name}${e.instancePath}: ${e.message} ${JSON.stringify(e.params)}`);
}
