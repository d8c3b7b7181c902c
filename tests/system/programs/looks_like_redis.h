/* The functions by which sonde knows a Redis, with nothing behind them. Whoever includes this defines call(),
 * which is hooked, with room for that at its beginning. */
/* SPDX-License-Identifier: Apache-2.0 */
#define SEEN __attribute__((used, visibility("default"), noinline))

SEEN void call(void *client, int flags);
SEEN void readQueryFromClient(void *connection);
SEEN int aeProcessEvents(void *loop, int flags);
SEEN void aeMain(void *loop);
SEEN int RM_GetServerVersion(void);

void readQueryFromClient(void *connection)
{
    (void)connection;
    __asm__ volatile("nop; nop; nop; nop; nop; nop");
}

int aeProcessEvents(void *loop, int flags)
{
    (void)loop;
    __asm__ volatile("nop; nop; nop; nop; nop; nop");
    return flags;
}

void aeMain(void *loop)
{
    aeProcessEvents(loop, 1);
}

int RM_GetServerVersion(void)
{
    return 0x7000f;
}
