// The load: requests that come at random times, each endpoint at a rate of its own, over kept-alive connections.
// SPDX-License-Identifier: Apache-2.0
import http from 'node:http';

const IN_FLIGHT_MAX = 60;

function ask(agent, port, path, trace) {
    return new Promise((resolve) => {
        const request = http.get({ host: '127.0.0.1', port, path, agent, headers: { traceparent: `00-${trace}-00000000000000ff-01` } }, (response) => {
            response.resume().on('end', () => resolve(response.statusCode)).on('error', () => resolve(0));
        });
        request.on('error', () => resolve(0));
    });
}

// routes: [{ target(): path with query, everyMs, warm: path or null, atOnce: requests in flight, if limited,
// atLeast: requests that are needed }]. Answers { sent, failed, asked } when all are
// answered or have had graceMs for it, and asked: [trace id of its traceparent, from when, until when] of each
// but those that warm it up, ns of the clock that the program's notes are of.
export async function load({ port, routes, seconds, chance, graceMs = 10_000 }) {
    const agent = new http.Agent({ keepAlive: true, maxSockets: IN_FLIGHT_MAX });
    const counts = { sent: 0, failed: 0, asked: [] };
    let inFlight = 0;
    const send = async (path, route = {}, asked = counts.asked) => {
        if (inFlight >= IN_FLIGHT_MAX || (route.pending ??= 0) >= (route.atOnce || IN_FLIGHT_MAX)) return;
        inFlight++;
        route.pending++;
        route.sent = (route.sent || 0) + 1;
        counts.sent++;
        const trace = counts.sent.toString(16).padStart(32, '0'), since = Number(process.hrtime.bigint()), status = await ask(agent, port, path, trace);
        asked.push([trace, since, Number(process.hrtime.bigint())]);
        counts.failed += status !== 200;
        inFlight--;
        route.pending--;
    };
    for (const route of routes) for (let i = 0; route.warm && i < 3; i++) await send(route.warm, {}, []);
    const end = performance.now() + seconds * 1000;
    // A fault must happen, also where the machine is slow: the load goes on until it has.
    const enough = () => routes.every((route) => (route.sent || 0) >= (route.atLeast || 0)) || performance.now() > end + seconds * 3000;
    const drive = async (route) => {
        for (;;) {
            const gap = Math.min(chance.gap(route.everyMs), route.everyMs * 3);
            if (performance.now() + gap > end && enough()) return;
            await new Promise((resolve) => setTimeout(resolve, gap));
            void send(route.target(), route);
        }
    };
    await Promise.all(routes.map(drive));
    const late = performance.now() + graceMs;
    while (inFlight && performance.now() < late) await new Promise((resolve) => setTimeout(resolve, 20));
    agent.destroy();
    return counts;
}
