// Functions that allocate objects of V8's heap, of sizes that the program measures itself: for `sonde profile --event alloc`.
'use strict';
const rounds = 1000;

const ring = new Array(64); // so that none is left out

function makesPoints(n) {
    for (let i = 0; i < n; i++) ring[i & 63] = { x: i, y: i + 1, z: i + 2 };
}

function makesLists(n) {
    for (let i = 0; i < n; i++) ring[i & 63] = [i, i + 1, i + 2, i + 3, i + 4, i + 5];
}

// What n objects take: the middle one of five looks at ten times as many, beside which little else counts. The new space has room for them
// (--min-semi-space-size=16), so that nothing is collected between the looks.
function measure(make, n) {
    const taken = [1, 2, 3, 4, 5].map(() => {
        global.gc();
        const before = process.memoryUsage().heapUsed;
        make(10 * n);
        return process.memoryUsage().heapUsed - before;
    });
    return taken.sort((a, b) => a - b)[2] / 10;
}

for (let i = 0; i < 200; i++) makesPoints(1000), makesLists(1000); // until they are compiled
const points = measure(makesPoints, 10_000), lists = measure(makesLists, 10_000);
console.log('ready');
process.stdin.once('data', () => {
    for (let i = 0; i < rounds; i++) {
        makesPoints(10_000);
        makesLists(10_000);
    }
    console.log(JSON.stringify({ makesPoints: points * rounds, makesLists: lists * rounds }));
    console.log('done');
    process.stdin.on('data', () => {});
});
process.stdin.on('end', () => process.exit(0));
