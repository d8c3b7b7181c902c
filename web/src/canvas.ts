// What drawings on a canvas share.
// SPDX-License-Identifier: Apache-2.0

// Gives widths of texts, of contexts that have the same font. They are kept: measuring takes longer than drawing.
export function measurer(): (g: CanvasRenderingContext2D, text: string) => number {
    const widths = new Map<string, number>();
    return (g, text) => {
        let width = widths.get(text);
        if (width === undefined) {
            if (widths.size > 5000) widths.clear();
            widths.set(text, (width = g.measureText(text).width));
        }
        return width;
    };
}

// In pixels of the device. What has that size already keeps what is drawn.
export function resize(canvas: HTMLCanvasElement, width: number, height: number): void {
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
}
