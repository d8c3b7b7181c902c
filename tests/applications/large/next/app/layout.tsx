// SPDX-License-Identifier: Apache-2.0
export default function Layout({ children }: { children: React.ReactNode }) {
    return <html lang="en"><body>{children}</body></html>;
}
