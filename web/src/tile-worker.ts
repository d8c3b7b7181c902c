// Decodes and paints tiles beside the page's own thread.
// SPDX-License-Identifier: Apache-2.0
import { learnQuiet } from './colour';
import { COLUMNS, decode, LINES, paint, type Tile } from './tile';

const port = self as unknown as { onmessage: (message: MessageEvent) => void; postMessage: (data: unknown, transfer: Transferable[]) => void };

port.onmessage = async ({ data: { id, data, heat, quiet } }) => {
    try {
        learnQuiet(quiet);
        const tile: Tile = decode(data);
        if (tile.rows) tile.bitmap = await createImageBitmap(new ImageData(paint(tile, heat) as Uint8ClampedArray<ArrayBuffer>, COLUMNS, LINES * tile.rows));
        port.postMessage({ id, tile }, tile.bitmap ? [tile.bitmap, tile.values.buffer, tile.shares.buffer, tile.changes.buffer, tile.second.buffer, tile.second_shares.buffer] : []);
    } catch (error) {
        port.postMessage({ id, error: String(error) }, []);
    }
};
