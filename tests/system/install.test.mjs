// `make install PREFIX=DIR` installs under DIR, also when the build was made for another prefix. With the Makefile as it is and
// a project of one small program: what Meson does with a larger one is not ours to test.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { finish, root, temporary } from './helper.mjs';

test('a build that was made for one prefix is installed under another', async (t) => {
    const folder = temporary(t), place = (name) => path.join(folder, name);
    fs.copyFileSync(path.join(root, 'Makefile'), place('Makefile'));
    fs.writeFileSync(place('meson.build'), "project('small', 'c')\nexecutable('small', 'small.c', install: true)\n");
    fs.writeFileSync(place('small.c'), 'int main(void) { return 0; }\n');
    const install = async (...given) => {
        const { status, stderr, stdout } = await finish(t, 'make', ['-C', folder, 'install', ...given], { env: { MAKEFLAGS: '', MFLAGS: '', DESTDIR: '' } });
        assert.equal(status, 0, stdout + stderr);
    };
    const there = (name) => fs.existsSync(place(`${name}/bin/small`));
    await install(`PREFIX=${place('first')}`);
    assert.ok(there('first'));
    await install(`PREFIX=${place('second')}`);
    assert.ok(there('second'));
    fs.rmSync(place('first'), { recursive: true });
    fs.rmSync(place('second'), { recursive: true });
    await install(); // the last one is kept
    assert.deepEqual([there('first'), there('second')], [false, true]);
});
