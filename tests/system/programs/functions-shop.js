// What functions.js serves: functions of every sort, as programs export them.
'use strict';
const fs = require('fs');

class Cart {
    #items = 3;
    static made = 0;
    constructor() { Cart.made++; }
    total(n) { return this.#items * n; }
    static merge(a, b) { return a instanceof this && b instanceof this; }
    get size() { return this.#items; }
}
function Old(n) {
    if (!(this instanceof Old)) return new Old(n);
    this.value = n;
    this.target = new.target === Old;
}
Old.prototype.twice = function () { return this.value * 2; };
const failure = new Error('on purpose');

module.exports = {
    Cart, Old, failure, lookedAt: 0,
    compute(n, ms = 1) { const end = Date.now() + ms; while (Date.now() < end); return n * 2; },
    async checkout(n) { await new Promise((resolve) => setTimeout(resolve, 5)); return (await fs.promises.stat(__filename)).size ? module.exports.compute(n) : 0; },
    boom() { throw failure; },
    async fails() { await null; throw failure; },
    async unawaited() { throw failure; },
    late() { return new Promise((resolve) => setTimeout(resolve, 1, 'late')); },
    whose() { return this && this.mark; },
    *numbers() { yield 1; yield 2; },
    hot(n) { return n + 1; },
    get lazy() { module.exports.lookedAt++; return () => 'lazy'; },
    frozen: Object.freeze({ still() { return 'still'; } }),
};
module.exports.whose.own = 'a property';
