// The view of states as viewers of the Trace Server Protocol draw it: timeline-chart, with rows from the same server.
// chart(address, count, width, height) shows the first rows; step(i) zooms and moves, as steps() in run.mjs does with the page.
// SPDX-License-Identifier: Apache-2.0
import { TimeGraphContainer } from 'timeline-chart/lib/time-graph-container';
import { TimeGraphUnitController } from 'timeline-chart/lib/time-graph-unit-controller';
import { TimeGraphRowController } from 'timeline-chart/lib/time-graph-row-controller';
import { TimeGraphChart } from 'timeline-chart/lib/layer/time-graph-chart';

const ROW = 20, OUTPUT = 'sonde.states';

async function ask(address, parameters) {
    const response = await fetch(address, parameters && { method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'application/json' }, body: JSON.stringify({ parameters }) });
    return (await response.json()).model ?? null;
}

globalThis.chart = async (base, count, width, height) => {
    const [experiment] = await (await fetch(`${base}/experiments`)).json(), below = `${base}/experiments/${experiment.UUID}/outputs`;
    const { styles } = await ask(`${below}/${OUTPUT}/style`, {}), { entries } = await ask(`${below}/timeGraph/${OUTPUT}/tree`, {});
    const rowIds = entries.filter((e) => e.hasData).map((e) => e.id).slice(0, count), start = BigInt(experiment.start), length = BigInt(experiment.end) - start;
    const dataProvider = async (range, resolution, arrows, ids = rowIds) => {
        const from = range.start < 0n ? 0n : range.start, to = range.end > length ? length : range.end, nbTimes = Math.max(1, Math.ceil(Number(to - from) / resolution));
        const { rows } = await ask(`${below}/timeGraph/${OUTPUT}/states`, { requested_timerange: { start: Number(start + from), end: Number(start + to), nbTimes }, requested_items: ids });
        return {
            range: { start: from, end: to }, resolution,
            rows: rows.map((row) => ({
                id: row.entryId, name: String(row.entryId), range: { start: 0n, end: length }, annotations: [], prevPossibleState: 0n, nextPossibleState: length,
                states: row.states.map((s, i) => ({ id: `${row.entryId}-${i}`, label: s.label, range: { start: BigInt(s.start) - start, end: BigInt(s.end) - start }, data: { style: s.style } })),
            })),
        };
    };
    const colour = (state) => parseInt(styles[state.data.style.parentKey].values['background-color'].slice(1), 16);
    const unit = new TimeGraphUnitController(length, { start: 0n, end: length }), rowsOf = new TimeGraphRowController(ROW, ROW * rowIds.length);
    const container = new TimeGraphContainer({ id: 'chart', width, height, backgroundColor: 0xffffff, forceCanvasRenderer: true }, unit);
    document.getElementById('chart').append(container.canvas);
    container.addLayers([new TimeGraphChart('states', {
        rowProvider: () => ({ rowIds }), dataProvider,
        stateStyleProvider: (state) => (state.data?.style ? { color: colour(state), height: ROW * styles[state.data.style.parentKey].values.height, opacity: 1 } : { color: 0xffffff, height: ROW }),
        rowStyleProvider: () => ({ backgroundColor: 0xffffff, backgroundOpacity: 0, lineColor: 0xdddddd, lineThickness: 0 }),
    }, rowsOf)]);
    globalThis.step = (i) => {
        const zooms = Math.floor(i / 30) % 2 === 0, back = Math.floor(i / 60) % 2 === 1, { start: a, end: b } = unit.viewRange, span = Number(b - a);
        const wide = zooms ? Math.min(Number(length), span * Math.exp(back ? 0.1 : -0.1)) : span, middle = Number(a) + span / 2 + (zooms ? 0 : ((back ? -20 : 20) / width) * span);
        const left = Math.max(0, Math.min(Number(length) - wide, middle - wide / 2));
        unit.viewRange = { start: BigInt(Math.round(left)), end: BigInt(Math.round(left + wide)) };
    };
};
