// SPDX-License-Identifier: Apache-2.0
import { truth } from './truth';

export interface Quote {
    article: string;
    price: number;
}

export function quoteFor(article: string): Quote { // planted quote
    const end = truth.begin('quote');
    const rounds: number = truth.trouble === 'quote' ? 60_000_000 : 10;
    let price = 0;
    for (let i = 0; i < rounds; i++) price += (i % 7) * (article.length + (i & 3));
    end();
    return { article, price };
} // end quote
