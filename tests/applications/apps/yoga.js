// GraphQL Yoga: a resolver that computes on the event loop; one that parses a large document.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const http = require('node:http');
const { createSchema, createYoga } = require('graphql-yoga');
const { begin, ready, trouble } = require('./truth.js');

const TEXT = JSON.stringify(Array.from({ length: trouble === 'parse' ? 400_000 : 10 }, (_, id) => ({ id, name: `n${id}` })));
const resolvers = {
    Query: {
        hello: () => 'world',
        digest() { // planted resolver
            const end = begin('resolver');
            let n = 0;
            for (let i = 0; i < (trouble === 'resolver' ? 110_000_000 : 10); i++) n += i % 7;
            end();
            return n;
        }, // end resolver
        count() { // planted parse
            const end = begin('parse');
            const { length } = JSON.parse(TEXT);
            end();
            return length;
        }, // end parse
    },
};
const yoga = createYoga({ schema: createSchema({ typeDefs: 'type Query { hello: String digest: Int count: Int }', resolvers }), logging: false, landingPage: false, graphiql: false });
const server = http.createServer(yoga);
server.listen(0, '127.0.0.1', () => ready(server));
