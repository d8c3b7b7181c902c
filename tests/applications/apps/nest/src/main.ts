// Nest, compiled by tsc with source maps beside the JavaScript.
// SPDX-License-Identifier: Apache-2.0
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module';

declare function require(name: string): any;
const { ready } = require('../../truth.js');

async function main(): Promise<void> {
    const app = await NestFactory.create(AppModule, { logger: false });
    await app.listen(0, '127.0.0.1');
    ready(app.getHttpServer());
}
void main();
