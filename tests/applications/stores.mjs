// The data stores and services that the applications ask, on loopback, in a folder of their own: each returns { port, user, pid }.
// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually, finish, freePort, isRoot, start } from '../system/helper.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));

// PostgreSQL refuses to run as root.
function identity(folder) {
    if (!isRoot) return {};
    const [uid, gid] = ['-u', '-g'].map((option) => Number(execFileSync('id', [option, 'nobody'])));
    fs.chownSync(folder, uid, gid);
    for (let above = path.dirname(folder); above.startsWith(os.tmpdir() + '/'); above = path.dirname(above)) fs.chmodSync(above, 0o711);
    return { uid, gid, env: { HOME: folder } };
}

function postgresFolder() {
    const base = '/usr/lib/postgresql';
    const newest = fs.existsSync(base) ? fs.readdirSync(base).sort((a, b) => b - a)[0] : null;
    return newest && path.join(base, newest, 'bin');
}

async function ended(t, command, args, options) {
    const result = await finish(t, command, args, options);
    if (result.status !== 0) throw new Error(`${command}: ${result.describe()}`);
}

const listens = (port) => new Promise((resolve) => net.connect(port, '127.0.0.1').on('connect', function () { this.destroy(); resolve(true); }).on('error', () => resolve(false)));

const STORES = {
    async postgres(t, folder) {
        const bin = postgresFolder(), port = await freePort(), options = identity(folder), data = path.join(folder, 'data');
        await ended(t, path.join(bin, 'initdb'), ['-D', data, '-U', 'shop', '-A', 'trust', '-N', '--locale=C'], { ...options, cwd: folder });
        const server = start(t, path.join(bin, 'postgres'), ['-D', data, '-p', port, '-c', 'listen_addresses=127.0.0.1', '-c', `unix_socket_directories=${folder}`, '-c', 'fsync=off'], { ...options, cwd: folder });
        await server.until(/ready to accept connections/);
        return { port, user: 'shop', pid: server.pid };
    },
    async mariadb(t, folder, tables = '') {
        const port = await freePort(), data = path.join(folder, 'data'), init = path.join(folder, 'init.sql'), user = os.userInfo().username;
        await ended(t, 'mariadb-install-db', ['--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal', `--user=${user}`]);
        fs.writeFileSync(init, "CREATE USER shop@'127.0.0.1' IDENTIFIED VIA mysql_native_password USING PASSWORD('secret');\n" + tables);
        const server = start(t, '/usr/sbin/mariadbd', ['--no-defaults', `--datadir=${data}`, `--port=${port}`, '--bind-address=127.0.0.1', `--socket=${folder}/s`, `--pid-file=${folder}/pid`, `--init-file=${init}`, `--user=${user}`, '--skip-name-resolve', '--innodb-buffer-pool-size=8M']);
        await server.until(/ready for connections/);
        return { port, pid: server.pid };
    },
    async redis(t, folder) {
        const port = await freePort();
        return { port, command: ['redis-server', '--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder, '--enable-debug-command', 'local'] };
    },
    async memcached(t) {
        const port = await freePort();
        const server = start(t, 'memcached', ['-l', '127.0.0.1', '-p', String(port), '-U', '0', '-m', '16', '-v', ...(isRoot ? ['-u', 'nobody'] : [])]);
        await eventually('memcached listens', () => listens(port));
        return { port, pid: server.pid };
    },
    // Erlang's port mapper is started first and ended with it: RabbitMQ would leave one behind.
    async rabbitmq(t, folder) {
        const [port, mapper, distribution] = [await freePort(), await freePort(), await freePort()], home = path.join(folder, 'home');
        fs.mkdirSync(home);
        const env = { HOME: home, ERL_EPMD_PORT: String(mapper), ERL_EPMD_ADDRESS: '127.0.0.1' };
        start(t, 'epmd', ['-address', '127.0.0.1', '-port', String(mapper)], { env });
        await eventually('epmd listens', () => listens(mapper));
        for (const name of ['plugins', 'rabbitmq.conf']) fs.writeFileSync(path.join(folder, name), name === 'plugins' ? '[].' : `listeners.tcp.default = 127.0.0.1:${port}\n`);
        const server = start(t, '/usr/lib/rabbitmq/bin/rabbitmq-server', [], { cwd: folder, env: { ...env, RABBITMQ_NODENAME: `shop${port}@localhost`, RABBITMQ_CONFIG_FILE: path.join(folder, 'rabbitmq.conf'), RABBITMQ_CONF_ENV_FILE: '/dev/null',
            RABBITMQ_DIST_PORT: String(distribution), RABBITMQ_MNESIA_BASE: folder, RABBITMQ_LOG_BASE: folder, RABBITMQ_LOGS: '-', RABBITMQ_ENABLED_PLUGINS_FILE: path.join(folder, 'plugins'), RABBITMQ_PID_FILE: path.join(folder, 'pid'),
            RABBITMQ_GENERATED_CONFIG_DIR: path.join(folder, 'config'), RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none' } });
        await eventually('RabbitMQ listens', () => listens(port), 180_000);
        return { port, pid: server.pid };
    },
    async nats(t) {
        const port = await freePort();
        const server = start(t, 'nats-server', ['-a', '127.0.0.1', '-p', String(port)]);
        await eventually('NATS listens', () => listens(port));
        return { port, pid: server.pid };
    },
    async upstream(t) {
        const server = start(t, process.execPath, [path.join(HERE, 'apps', 'upstream.js')]);
        const [, port] = await server.until(/listening (\d+)/, { stream: 'stdout' });
        return { port: Number(port), pid: server.pid };
    },
};

const PROGRAMS = { postgres: () => postgresFolder(), mariadb: () => fs.existsSync('/usr/sbin/mariadbd'), redis: () => fs.existsSync('/usr/bin/redis-server'), memcached: () => fs.existsSync('/usr/bin/memcached'), rabbitmq: () => fs.existsSync('/usr/lib/rabbitmq/bin/rabbitmq-server'), nats: () => fs.existsSync('/usr/sbin/nats-server') || fs.existsSync('/usr/bin/nats-server'), upstream: () => true };

// Why a store cannot be had; null when it can.
export const missingStore = (name) => (!name || PROGRAMS[name]() ? null : `${name} is not installed (make deps)`);
// tables: what MariaDB executes when it starts.
export const startStore = (t, name, folder, tables) => STORES[name](t, folder, tables);
