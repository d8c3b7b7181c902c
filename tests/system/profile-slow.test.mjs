// At low rates, rows of a file are read when a stack leads into it, and the sampler sleeps until something cannot wait.
// SPDX-License-Identifier: Apache-2.0
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { SONDE, noProfiles, temporary } from './helper.mjs';

const have = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const skip = noProfiles() || (!have('cc') && 'needs a C compiler');

// A program that works in itself, then in a library without frame pointers, then in both.
test('stacks lead into files whose rows were not read before', { skip }, (t) => {
    const folder = temporary(t), at = (name) => path.join(folder, name);
    fs.writeFileSync(at('library.c'), `
volatile unsigned long sink;
__attribute__((noinline)) void in_library(void (*then)(void)) { for (int i = 0; i < 300000; i++) sink += i; if (then) then(); __asm__ volatile(""); }
__attribute__((noinline)) void enter(void (*then)(void)) { in_library(then); __asm__ volatile(""); }
`);
    fs.writeFileSync(at('program.c'), `
#include <time.h>
extern volatile unsigned long sink;
void enter(void (*then)(void));
__attribute__((noinline)) void called_back(void) { for (int i = 0; i < 300000; i++) sink += i; __asm__ volatile(""); }
__attribute__((noinline)) void alone(void) { for (int i = 0; i < 300000; i++) sink += i; __asm__ volatile(""); }
static double spent(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
__attribute__((noinline)) void first(void) { while (spent() < 1) alone(); __asm__ volatile(""); }
__attribute__((noinline)) void second(void) { while (spent() < 2) enter(0); __asm__ volatile(""); }
__attribute__((noinline)) void third(void) { while (spent() < 3) enter(called_back); __asm__ volatile(""); }
int main(void) { first(); second(); third(); return 0; }
`);
    execFileSync('cc', ['-O2', '-fomit-frame-pointer', '-shared', '-fPIC', '-o', at('libentered.so'), at('library.c')]);
    execFileSync('cc', ['-O2', '-fomit-frame-pointer', '-o', at('program'), at('program.c'), at('libentered.so'), `-Wl,-rpath,${folder}`]);
    const { status, stdout, stderr } = spawnSync(SONDE, ['profile', '-F', '49', '-f', 'folded', '--', at('program')], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    for (const stack of ['main;first;alone', 'main;second;enter;in_library', 'main;third;enter;in_library;called_back'])
        assert.match(stdout, new RegExp(`;${stack} \\d+$`, 'm'), stdout + stderr);
    // No file stays unread: of each function, no more than its first stacks could do without rows.
    const lost = stdout.split('\n').filter((line) => line.includes('[truncated: no unwind rule'));
    assert.deepEqual(lost, [], stdout + stderr);
});

// A library with more rows than there is room for: its functions have no frame pointers, and 70,000 others lie behind them.
test('stacks lead through a file whose rows find no room', { skip }, (t) => {
    const folder = temporary(t), at = (name) => path.join(folder, name);
    fs.writeFileSync(at('large.c'), `
volatile unsigned long sink;
__asm__(".text; .rept 70000; .cfi_startproc; nop; .cfi_def_cfa_offset 16; nop; .cfi_endproc; .endr");
__attribute__((noinline)) void in_large(void (*then)(void)) { for (int i = 0; i < 300000; i++) sink += i; if (then) then(); __asm__ volatile(""); }
__attribute__((noinline)) void enter(void (*then)(void)) { in_large(then); __asm__ volatile(""); }
`);
    fs.writeFileSync(at('program.c'), `
#include <time.h>
void enter(void (*then)(void));
static double spent(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
__attribute__((noinline)) void called_back(void) { for (volatile int i = 0; i < 300000; i++); __asm__ volatile(""); }
__attribute__((noinline)) void outer(void) { while (spent() < 3) enter(called_back); __asm__ volatile(""); }
int main(void) { outer(); return 0; }
`);
    execFileSync('cc', ['-O2', '-fomit-frame-pointer', '-shared', '-fPIC', '-o', at('liblarge.so'), at('large.c')]);
    execFileSync('cc', ['-O2', '-fomit-frame-pointer', '-o', at('program'), at('program.c'), at('liblarge.so'), `-Wl,-rpath,${folder}`]);
    const { status, stdout, stderr } = spawnSync(SONDE, ['profile', '-F', '49', '-f', 'folded', '--unwind-mb', '1', '--', at('program')], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    assert.match(stderr, /no room for the rules/, stderr);
    for (const stack of ['main;outer;enter;in_large', 'main;outer;enter;in_large;called_back'])
        assert.match(stdout, new RegExp(`;${stack} \\d+$`, 'm'), stdout + stderr);
    const lost = stdout.split('\n').filter((line) => line.includes('[truncated') && /in_large|called_back/.test(line));
    assert.deepEqual(lost, [], stdout + stderr);
});
