/* A library that takes BYTES of the room that the loader keeps for thread-local storage at fixed offsets. */
/* SPDX-License-Identifier: Apache-2.0 */
__attribute__((tls_model("initial-exec"))) __thread char block[BYTES];

char *block_address(void);
char *block_address(void)
{
    return block;
}
