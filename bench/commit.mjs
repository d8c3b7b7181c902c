// The commit that results belong to: "1a2b3c4", or "1a2b3c4-dirty" where files were changed. Results that a run appends are no change
// of what is measured, or no run could go on where the one before it ended.
// SPDX-License-Identifier: Apache-2.0
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '..');
const git = (...args) => execFileSync('git', ['-C', root, ...args], { encoding: 'utf8' }).trim();

export const commit = git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '--untracked-files=no', '--', '.', ':!bench/results') ? '-dirty' : '');
