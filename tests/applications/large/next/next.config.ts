// SPDX-License-Identifier: Apache-2.0
import path from 'node:path';
import type { NextConfig } from 'next';

// Types are not checked, which takes longer than everything else of the build.
const config: NextConfig = { experimental: { serverSourceMaps: true }, typescript: { ignoreBuildErrors: true }, turbopack: { root: path.join(__dirname, '..') } };
export default config;
