// What the five services share: asking each other by HTTP over connections that stay open, and telling who started them that
// they listen. When that one disconnects, they write down what they know of the planted trouble and end.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const axios = require('axios');
const { save, ...truth } = require('../truth.js');

Object.assign(exports, truth);

// The JSON that another service answers; pass() gives it as it came.
exports.peer = (name) => {
    const api = axios.create({ baseURL: `http://127.0.0.1:${process.env[`${name}_PORT`]}`, httpAgent: new http.Agent({ keepAlive: true }) });
    return { get: async (path) => (await api.get(path)).data, post: async (path, body) => (await api.post(path, body)).data, pass: async (path) => Buffer.from((await api.get(path, { responseType: 'arraybuffer' })).data) };
};

// A handler that answers what a function returns.
exports.answer = (handle) => (request, response, next) => handle(request.params, request.body).then((value) => (Buffer.isBuffer(value) ? response.type('json').send(value) : response.json(value ?? null)), next);

exports.serve = (app, finish = save) => {
    app.listen(Number(process.env.PORT), '127.0.0.1', () => process.send('listening'));
    process.on('disconnect', finish);
};
