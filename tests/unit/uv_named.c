/* A program that holds all of libuv, with symbols: test_unnamed.c takes them away and looks for them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <uv.h>

int main(void)
{
    return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
