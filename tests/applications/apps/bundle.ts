// TypeScript that tsx runs as it is, and that esbuild makes one minified file of.
// SPDX-License-Identifier: Apache-2.0
import http from 'node:http';
import type { IncomingMessage } from 'node:http';

type Answer = { score: number };
declare const require: any;
const { begin, during, ready, trouble } = require(process.env.TRUTH_MODULE as string);

interface Words {
    readonly list: string[];
}

function scoreOf(words: Words): number { // planted score
    const end = begin('score'), more: () => boolean = during(trouble === 'score' ? 200 : 0);
    let score = 0;
    const rounds: number = trouble === 'score' ? 200_000 : 10;
    do for (let i = 0; i < rounds; i++) score += words.list[i % words.list.length].charCodeAt(i % 3) ^ i;
    while (more());
    end();
    return score;
} // end score

const isList = (text: string): boolean => { // planted list
    const end = begin('list');
    const good = /^(a+,?)+$/.test(text);
    end();
    return good;
}; // end list

function answer(request: IncomingMessage): Answer | { good: boolean } {
    if (request.url === '/score') return { score: scoreOf({ list: ['one', 'two', 'three'] }) };
    if (request.url === '/list') return { good: isList(trouble === 'list' ? 'a'.repeat(25) + '!' : 'a,a') };
    return { score: 0 };
}

const server = http.createServer((request, response) => response.end(JSON.stringify(answer(request))));
server.listen(0, '127.0.0.1', () => ready(server));
