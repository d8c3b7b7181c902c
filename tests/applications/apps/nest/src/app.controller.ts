// SPDX-License-Identifier: Apache-2.0
import { Controller, Get, Inject } from '@nestjs/common';
import { AppService } from './app.service';

interface Report {
    readonly text: string;
}

declare function require(name: string): any;
const { begin, trouble } = require('../../truth.js');

@Controller()
export class AppController {
    constructor(@Inject(AppService) private readonly service: AppService) {}

    @Get('/quick')
    quick(): string {
        return 'ok';
    }

    @Get('/price')
    price(): { price: number } {
        return { price: this.service.price() };
    }

    @Get('/orders')
    orders(): Report { // planted orders
        const end = begin('orders');
        const orders = this.service.makeOrders(trouble === 'orders' ? 120_000 : 10);
        const text = JSON.stringify(orders);
        end();
        return { text: text.slice(0, 100) };
    } // end orders
}
