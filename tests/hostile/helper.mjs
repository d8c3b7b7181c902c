// What the tests beside hostile and unlucky programs share: their C programs, built on the spot.
// SPDX-License-Identifier: Apache-2.0
import fs from 'node:fs';
import path from 'node:path';
import { finish, root } from '../system/helper.mjs';

export const programs = path.join(root, 'tests', 'hostile', 'programs');

// Compiles programs/NAME.c into folder; its path. By default it exports its functions, so that sonde takes one that defines
// node::Start for Node. A compiler that is missing is an error: sonde cannot be built without one either.
export async function compile(t, folder, name, ...options) {
    const program = path.join(folder, name);
    const { status, stderr } = await finish(t, process.env.CC || 'cc', ['-O1', '-D_GNU_SOURCE', '-rdynamic', '-pthread', '-o', program, path.join(programs, `${name}.c`), ...options]);
    if (status !== 0) throw new Error(`${name}.c: ${stderr}`);
    return program;
}

// Is the process there, and no zombie?
export function isAlive(pid) {
    try {
        const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
        return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
    } catch {
        return false;
    }
}
