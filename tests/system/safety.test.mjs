// Every safety rule of doc/safety.md names a test that exists, and its list of what is read of traced processes is complete.
// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { root } from './helper.mjs';

test('every rule has its test', () => {
    const rows = fs.readFileSync(path.join(root, 'doc', 'safety.md'), 'utf8').split('\n').filter((line) => /^\| (?!rule|-)/.test(line));
    assert.ok(rows.length > 12);
    for (const row of rows) {
        const [, file, name] = /`(tests\/[^`]+)`: ?(.+?) \|$/.exec(row) || [];
        assert.ok(file && name, `no test is named: ${row}`);
        const text = fs.readFileSync(path.join(root, file), 'utf8').replace(/\\'/g, "'");
        assert.ok(text.includes(name), `${file} has no test "${name}"`);
    }
});

// What reads something that a traced process, or who owns it, controls.
const READS = /\b(proc_read(_link|_stat|_name)?|proc_status_number|proc_innermost_pid|proc_file_open|proc_list|process_file_(open|of|read)|process_mapped_open|process_folder_open|process_place_open|process_has_path|memory_read(_some|_string|_through)?|process_vm_readv|elf_open\w*|perfmap_read|modules_read\w*)\s*\(|PTRACE_(GET|PEEK)|"\/proc\/%/;

test('every file that reads something of a traced process is in the list that says how it is bounded', () => {
    const text = fs.readFileSync(path.join(root, 'doc', 'safety.md'), 'utf8');
    const list = text.slice(text.indexOf('## What of a traced process'), text.indexOf('Of these, `src/symbol`'));
    const names = [...list.matchAll(/`([\w/*.]+)`/g)].map(([, name]) => name);
    const matches = (file) => (name) => new RegExp(`(^|/)${name.replace(/\./g, '\\.').replace(/\*/g, '\\w*')}$`).test(file);
    const sources = fs.readdirSync(path.join(root, 'src'), { recursive: true }).map(String).filter((name) => name.endsWith('.c')).map((name) => `src/${name}`);
    const reads = sources.filter((file) => READS.test(fs.readFileSync(path.join(root, file), 'utf8').replace(/\/\*[^]*?\*\//g, '')));
    assert.ok(reads.length > 40, reads.join(' '));
    const missing = reads.filter((file) => !names.some(matches(file)) && !(file.startsWith('src/unwind/') && names.includes('src/unwind/*')));
    assert.deepEqual(missing, []);
    for (const name of names.filter((one) => one.startsWith('src/') && !one.includes('*')))
        assert.ok(fs.existsSync(path.join(root, name)), `doc/safety.md: there is no ${name}`);
});
