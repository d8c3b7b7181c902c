// The program's own book (apps/truth.js), which main.js hands over: what is bundled cannot require it.
// SPDX-License-Identifier: Apache-2.0
type Truth = { trouble: string; begin(name: string): () => void };

export const truth = (globalThis as unknown as { truth: Truth }).truth;
