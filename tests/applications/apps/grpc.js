// @grpc/grpc-js: a service behind an HTTP front that asks it by unary calls, and reads a stream from it; both in one process,
// over one connection. Troubles: a method that takes long (slow), one that fails (errors).
// SPDX-License-Identifier: Apache-2.0
'use strict';
const grpc = require('@grpc/grpc-js');
const { begin, ready, trouble } = require('./truth.js');

const plain = { requestSerialize: (value) => Buffer.from(JSON.stringify(value)), requestDeserialize: (bytes) => JSON.parse(bytes), responseSerialize: (value) => Buffer.from(JSON.stringify(value)), responseDeserialize: (bytes) => JSON.parse(bytes) };
const method = (name, responseStream) => ({ path: `/shop.Stock/${name}`, requestStream: false, responseStream, ...plain });
const Stock = { get: method('Get', false), list: method('List', true) };

const server = new grpc.Server();
server.addService(Stock, {
    get: ({ request }, answer) => {
        if (trouble === 'errors' && request.item % 2) return answer({ code: grpc.status.UNAVAILABLE, details: 'no stock today' });
        setTimeout(() => answer(null, { item: request.item, count: 3 }), trouble === 'slow' ? 300 : 0);
    },
    list: (call) => {
        for (let item = 0; item < 5; item++) call.write({ item });
        call.end();
    },
});
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    const stock = new (grpc.makeClientConstructor(Stock, 'Stock'))(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
    let item = 0;
    const front = require('node:http').createServer((request, response) => {
        const end = begin(request.url.slice(1));
        const answer = (status, body) => {
            end();
            response.writeHead(status);
            response.end(JSON.stringify(body));
        };
        if (request.url === '/item') return stock.get({ item: item++ }, (failed, found) => answer(failed ? 500 : 200, found || failed.code));
        const items = [];
        stock.list({}).on('data', (one) => items.push(one)).on('end', () => answer(200, items)).on('error', (failed) => answer(500, failed.code));
    }).listen(0, '127.0.0.1', () => ready(front));
});
