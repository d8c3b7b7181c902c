// An HTTP server that checks the query with one of several regular expressions, all of which backtrack without
// end on the right input. Each has matched harmless inputs often enough to be compiled before it listens.
'use strict';
const http = require('http');

const CHECKS = {
    letters: function checkLetters(text) {
        return /^(a+)+$/.test(text);
    },
    address: function checkAddress(text) {
        return /^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*@x$/.exec(text) !== null;
    },
    trim: function checkTrim(text) {
        return text.replace(/(\s|x)*(\s|y)*(x|\s)*$/, '').length > 0;
    },
};
const HARMLESS = { letters: 'aaaa', address: 'a.b@x', trim: 'word' };
for (const [name, check] of Object.entries(CHECKS)) for (let i = 0; i < 1500; i++) check(HARMLESS[name]);

const server = http.createServer((req, res) => {
    const url = new URL(req.url, 'http://host');
    const check = CHECKS[url.pathname.slice(1)];
    res.end(check ? String(check(url.searchParams.get('text'))) : 'hello\n');
});
server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
