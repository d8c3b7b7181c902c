// A page that is rendered on the server for each request.
// SPDX-License-Identifier: Apache-2.0
import { truth } from '../../lib/truth';

export const dynamic = 'force-dynamic';

type Props = { searchParams: Promise<{ name?: string }> };

function isName(text: string): boolean { // planted search
    const end = truth.begin('search');
    const good = /^(\w+\s?)*$/.test(text);
    end();
    return good;
} // end search

export default async function Search({ searchParams }: Props) {
    const { name = 'anna' } = await searchParams;
    const text: string = truth.trouble === 'search' ? 'a'.repeat(24) + '!' : name;
    return <main>{isName(text) ? <p>Hello {name}</p> : <p>No such name</p>}</main>;
}
