// pngjs: a picture is decoded synchronously; another one is made smaller pixel by pixel.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const { PNG } = require('pngjs');
const { begin, ready, trouble } = require('./truth.js');

function picture(size) {
    const png = new PNG({ width: size, height: size });
    for (let i = 0; i < png.data.length; i++) png.data[i] = (i * 31 + (i >> 7)) & 255;
    return png;
}
const file = PNG.sync.write(picture(trouble === 'decode' ? 1500 : 20)), photo = picture(trouble === 'shrink' ? 4000 : 20);

function shrink(from, step) { // planted shrink
    const end = begin('shrink'), side = Math.floor(from.width / step), to = new PNG({ width: side, height: side });
    for (let y = 0; y < side; y++)
        for (let x = 0; x < side; x++)
            for (let part = 0; part < 4; part++) {
                let sum = 0;
                for (let k = 0; k < step * step; k++) sum += from.data[((y * step + Math.floor(k / step)) * from.width + x * step + (k % step)) * 4 + part];
                to.data[(y * side + x) * 4 + part] = sum / (step * step);
            }
    end();
    return to;
} // end shrink

const app = express();
app.get('/size', (request, response) => { // planted decode
    const end = begin('decode');
    const { width, height } = PNG.sync.read(file);
    end();
    response.json({ width, height });
}); // end decode
app.get('/small', (request, response) => response.json({ width: shrink(photo, 4).width }));
app.get('/quick', (request, response) => response.json({ ok: true }));
const server = app.listen(0, '127.0.0.1', () => ready(server));
