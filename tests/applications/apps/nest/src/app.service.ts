// SPDX-License-Identifier: Apache-2.0
import { Injectable } from '@nestjs/common';

export interface Order {
    id: number;
    customer: { name: string; address: string };
    lines: Array<{ article: string; pieces: number }>;
}

declare function require(name: string): any;
const { begin, trouble } = require('../../truth.js');

@Injectable()
export class AppService {
    private readonly rates: ReadonlyMap<string, number> = new Map<string, number>([['EUR', 1], ['SEK', 11]]);

    price(): number { // planted price
        const end = begin('price');
        let sum = 0;
        const rounds: number = trouble === 'price' ? 60_000_000 : 10;
        for (let i = 0; i < rounds; i++) sum += (i % 7) * (this.rates.size + (i & 3));
        end();
        return sum;
    } // end price

    makeOrders(count: number): Order[] {
        const orders: Order[] = [];
        for (let id = 0; id < count; id++)
            orders.push({ id, customer: { name: `customer ${id}`, address: `street ${id}` }, lines: [{ article: `article ${id % 100}`, pieces: id % 5 }] });
        return orders;
    }
}
