// What a viewer of the Trace Server Protocol does with a time graph: its styles, its rows and their states, drawn by the chart
// that such viewers use. view(address) says how many states were drawn and which of the styles' colours the picture has.
// SPDX-License-Identifier: Apache-2.0
import { TimeGraphContainer } from 'timeline-chart/lib/time-graph-container';
import { TimeGraphUnitController } from 'timeline-chart/lib/time-graph-unit-controller';
import { TimeGraphRowController } from 'timeline-chart/lib/time-graph-row-controller';
import { TimeGraphChart } from 'timeline-chart/lib/layer/time-graph-chart';

const WIDTH = 800, HEIGHT = 400, ROW = 16, OUTPUT = 'sonde.states';

async function ask(address, parameters) {
    const response = await fetch(address, parameters && { method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'application/json' }, body: JSON.stringify({ parameters }) });
    return (await response.json()).model ?? null;
}

globalThis.view = async (base) => {
    const [experiment] = await (await fetch(`${base}/experiments`)).json(), below = `${base}/experiments/${experiment.UUID}/outputs`;
    const { styles } = await ask(`${below}/${OUTPUT}/style`, {}), { entries } = await ask(`${below}/timeGraph/${OUTPUT}/tree`, {});
    const rowIds = entries.filter((e) => e.hasData).map((e) => e.id).slice(0, HEIGHT / ROW), start = BigInt(experiment.start), length = BigInt(experiment.end) - start;
    const { rows } = await ask(`${below}/timeGraph/${OUTPUT}/states`, { requested_timerange: { start: experiment.start, end: experiment.end, nbTimes: WIDTH }, requested_items: rowIds });
    const models = rows.map((row) => ({
        id: row.entryId, name: String(row.entryId), range: { start: 0n, end: length }, annotations: [], prevPossibleState: 0n, nextPossibleState: length,
        states: row.states.map((s, i) => ({ id: `${row.entryId}-${i}`, label: s.label, range: { start: BigInt(s.start) - start, end: BigInt(s.end) - start }, data: { style: s.style } })),
    }));
    const colour = (state) => parseInt(styles[state.data.style.parentKey].values['background-color'].slice(1), 16), used = new Set();
    const unit = new TimeGraphUnitController(length, { start: 0n, end: length }), rowsOf = new TimeGraphRowController(ROW, ROW * models.length);
    const container = new TimeGraphContainer({ id: 'chart', width: WIDTH, height: HEIGHT, backgroundColor: 0xffffff, forceCanvasRenderer: true }, unit);
    document.getElementById('chart').append(container.canvas);
    let states = 0;
    const chart = new TimeGraphChart('states', {
        rowProvider: () => ({ rowIds }),
        dataProvider: () => ({ rows: models, range: { start: 0n, end: length }, resolution: Number(length) / WIDTH }),
        stateStyleProvider: (state) => {
            if (!state.data?.style) return { color: 0xffffff, height: ROW };
            used.add(colour(state));
            states++;
            return { color: colour(state), height: ROW * styles[state.data.style.parentKey].values.height, opacity: 1 };
        },
        rowStyleProvider: () => ({ backgroundColor: 0xffffff, backgroundOpacity: 0, lineColor: 0xdddddd, lineThickness: 0 }),
    }, rowsOf);
    container.addLayers([chart]);
    const deadline = Date.now() + 30000;
    for (;;) {
        await new Promise(requestAnimationFrame);
        const g = container.canvas.getContext('2d'), { data } = g.getImageData(0, 0, container.canvas.width, container.canvas.height), found = new Set();
        for (let at = 0; at < data.length; at += 4) found.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
        const colours = [...used].filter((c) => found.has(c));
        if (colours.length >= 2 || Date.now() > deadline) return { states, colours, found: found.size };
    }
};
