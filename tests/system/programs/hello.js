// An HTTP server without faults; says on stdout where it listens. GET /end ends it in order.
'use strict';
const http = require('http');
const server = http.createServer((req, res) => {
    res.end('hello\n');
    if (req.url === '/end') {
        server.close();
        server.closeAllConnections?.();
    }
});
server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
