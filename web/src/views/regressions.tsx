// What got slower, since which version, and for whom?
// SPDX-License-Identifier: Apache-2.0
import { Empty, type ViewProps } from '../ui';

export function Regressions(_: ViewProps) {
    return <Empty title="No versions to compare"><p>Send spans to <code>sonde serve</code>, or give files to <code>sonde diagnose --bundle FILE</code>.</p></Empty>;
}
