// A service whose functions are called through what a module exports, and which watches that nothing about them changes.
//   node functions.js [COUNT]      with a count it asks itself so many times and ends, else it serves
'use strict';
const http = require('http');
const shop = require('./functions-shop.js');
const { compute: taken } = shop;

const originals = { ...Object.getOwnPropertyDescriptors(shop) }, method = shop.Cart.prototype.total;
const wrong = [], calls = { checkout: 0, compute: 0, total: 0 };
const is = (what, yes) => { if (!yes && !wrong.includes(what)) wrong.push(what); };
let unhandled = 0, unawaited = 0;
process.on('unhandledRejection', (error) => { is('the reason of a rejection that nobody handles', error === shop.failure); unhandled++; });

async function look(n) {
    calls.checkout++;
    calls.compute++;
    is('an async function returns its value', await shop.checkout(n) === n * 2);
    calls.total++;
    const cart = new shop.Cart();
    is('a method with a private field', cart.total(n) === 3 * n);
    is('a static method', shop.Cart.merge(cart, new shop.Cart()) && !shop.Cart.merge(cart, {}));
    is('names and lengths', shop.compute.name === 'compute' && shop.compute.length === 1 && shop.whose.name === 'whose' && shop.Old.length === 1);
    is('this', shop.whose.call({ mark: 7 }) === 7 && shop.whose.apply(undefined) === undefined && shop.whose.bind({ mark: 8 })() === 8);
    is('properties of functions', shop.whose.own === 'a property' && Object.keys(shop.whose).join() === 'own');
    const old = new shop.Old(n);
    is('new', old.value === n && old.target && old instanceof shop.Old && old.constructor === shop.Old.prototype.constructor && shop.Old(n).target && old.twice() === 2 * n);
    class New extends shop.Old {}
    is('a derived class', new New(n).value === n && !new New(n).target && new New(n) instanceof shop.Old);
    try { shop.boom(); is('an exception', false); } catch (error) { is('an exception', error === shop.failure); }
    try { await shop.fails(); is('a rejection', false); } catch (error) { is('a rejection', error === shop.failure); }
    is('a promise of its own', await shop.late() === 'late' && shop.late() instanceof Promise && Object.getPrototypeOf(shop.late()) === Promise.prototype);
    is('a generator', [...shop.numbers()].join() === '1,2');
    const before = shop.lookedAt;
    is('a getter', shop.lazy() === 'lazy' && shop.lookedAt === before + 1);
    is('what is frozen', shop.frozen.still() === 'still');
    is('the order and attributes of properties', JSON.stringify(Object.keys(shop)) === JSON.stringify(Object.keys(originals)) && Object.getOwnPropertyDescriptor(shop.Cart.prototype, 'total').enumerable === false);
    unawaited++;
    shop.unawaited();
    taken(1, 0);
}
const unchanged = () => Object.keys(originals).filter((key) => key !== 'lookedAt' && Object.getOwnPropertyDescriptor(shop, key).value !== originals[key].value).concat(shop.Cart.prototype.total === method ? [] : 'Cart.total');

// As frameworks keep handlers: in lists of objects that hang on the function that the server calls.
const app = async (request, response) => {
    const n = Number(request.url.split('/')[2]);
    if (request.url.startsWith('/hot')) for (let i = 0; i < n; i++) shop.hot(i);
    if (request.url.startsWith('/work')) await look(n);
    app.routes[0].handle(n);
    response.end(JSON.stringify({ wrong, calls, unhandled, unawaited, replaced: unchanged(), lookedAt: shop.lookedAt }));
};
function greet(n) { return n; }
app.routes = [{ handle: greet }];
const server = http.createServer(app).listen(0, '127.0.0.1', async () => {
    const { port } = server.address(), count = Number(process.argv[2] || 0);
    if (!count) return console.log(port);
    const ask = (path) => new Promise((resolve) => http.get({ host: '127.0.0.1', port, path, agent: false }, (r) => r.resume().on('end', resolve)));
    // On a busy machine the search takes more than one request.
    for (let i = 0; i < 200 && app.routes[0].handle === greet; i++) {
        await ask('/first');
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await Promise.all(Array.from({ length: count }, (_, i) => ask(`/work/${i}`)));
    await new Promise((resolve) => setTimeout(resolve, 20));
    console.log(JSON.stringify({ wrong, calls, unhandled, unawaited }));
    server.close();
});
