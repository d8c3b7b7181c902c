// SPDX-License-Identifier: Apache-2.0
import { quoteFor } from '../../lib/quote';

export const dynamic = 'force-dynamic';

export async function GET(): Promise<Response> {
    return Response.json(quoteFor('chair'));
}
