// The user service: users by the cache or the database, the search for them, their pictures.
// Trouble `file`: pictures lie where reading one takes long (a pipe that another process fills late).
// SPDX-License-Identifier: Apache-2.0
'use strict';
const fs = require('node:fs');
const express = require('express');
const { answer, begin, peer, serve, trouble } = require('./service.js');

const app = express(), redis = peer('REDIS_GATEWAY'), mysql = peer('MYSQL_GATEWAY'), PICTURE = trouble === 'file' ? process.env.SLOW_FILE : __filename;
app.get('/users/:id', answer(async ({ id }) => {
    const cached = await redis.get(`/get/user:${id}`);
    if (cached) return JSON.parse(cached);
    const user = await mysql.get(`/users/${id}`);
    await redis.post('/set', { key: `user:${id}`, value: JSON.stringify(user) });
    return user;
}));
app.get('/search/:text', answer(({ text }) => redis.get(`/search/${text}`)));
app.get('/picture/:id', answer(async () => {
    const end = begin('picture');
    const picture = await fs.promises.readFile(PICTURE);
    end();
    return { bytes: picture.length };
}));
serve(app);
