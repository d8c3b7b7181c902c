// Orders: takes them, checks their coupons, remembers them in Redis. An Express application.
// Fault `regexp`: coupons are checked with a regular expression that can be made to take seconds.
// SPDX-License-Identifier: Apache-2.0
'use strict';
const express = require('express');
const { faults, setFault, connectRedis, serve } = require('./service');
const { isCoupon } = require('./coupon');

const redis = connectRedis();
const app = express();
app.use(express.json());

app.post('/orders', async (req, res, next) => {
    try {
        const { user, product, coupon } = req.body;
        if (coupon !== undefined && !isCoupon(coupon, faults.has('regexp')))
            return res.status(400).json({ error: 'that is not a coupon code' });
        const [price, id] = await Promise.all([redis.hget(`product:${product}`, 'price'), redis.incr('orders:last')]);
        if (price === null)
            return res.status(404).json({ error: 'no such product' });
        const discount = coupon === undefined ? 0 : Number((await redis.hget('coupons', coupon)) || 0);
        const total = Math.round(Number(price) * (1 - discount));
        await Promise.all([
            redis.hset(`order:${id}`, { user, product, total }),
            redis.lpush(`orders-of:${user}`, id),
            redis.ltrim(`orders-of:${user}`, 0, 19),
            redis.zincrby('bestsellers', 1, product),
            redis.rpush('sold', product),
        ]);
        res.status(201).json({ id, total });
    } catch (error) {
        next(error);
    }
});

app.get('/orders', async (req, res, next) => {
    try {
        const ids = await redis.lrange(`orders-of:${req.query.user}`, 0, 9);
        res.json(await Promise.all(ids.map((id) => redis.hgetall(`order:${id}`))));
    } catch (error) {
        next(error);
    }
});

app.post('/admin/faults', (req, res) => {
    res.json({ faults: setFault(req.query.fault, req.query.on === '1') });
});

app.use((error, req, res, next) => {
    res.status(500).json({ error: error.message });
});

// Coupons that were printed wrongly would be noticed now rather than by a customer.
async function checkCoupons() {
    for (const code of await redis.hkeys('coupons'))
        if (!isCoupon(code, faults.has('regexp')))
            console.error(`orders: the coupon ${code} can never be used`);
}

checkCoupons().then(() => {
    const server = app.listen(Number(process.env.SHOP_PORT || 0), '127.0.0.1', () => serve(server.address().port));
    server.keepAliveTimeout = 60_000;
});
