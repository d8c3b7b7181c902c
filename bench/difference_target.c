/* A program of a dozen functions of about the same cost, for bench/difference.mjs: PLANTED is by how many per
 * cent `parse` does more. ROUNDS are done, then it ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef PLANTED
#define PLANTED 0
#endif

enum { CELLS = 4096, STEPS = 20000 };

static uint32_t table[CELLS];

/* Each walks the table in an order of its own, so that none is folded into another. */
#define WORK(name, factor, more)                                 \
    __attribute__((noinline)) static uint32_t name(uint32_t at)  \
    {                                                            \
        uint32_t sum = 0;                                        \
        for (int i = 0; i < STEPS + STEPS / 100 * (more); i++) { \
            at = at * (factor) + 12345u;                         \
            sum += table[at >> 20] ^ at;                         \
        }                                                        \
        return sum;                                              \
    }

WORK(read_request, 1664525u, 0)
WORK(parse, 22695477u, PLANTED)
WORK(authorise, 1103515245u, 0)
WORK(look_up, 214013u, 0)
WORK(decode, 134775813u, 50)
WORK(validate, 69069u, 0)
WORK(render, 1140671485u, 100)
WORK(escape, 16843009u, 0)
WORK(compress, 2891336453u, 0)
WORK(encrypt, 3935559000u + 1, 30)
WORK(write_reply, 747796405u, 0)
WORK(account, 277803737u, 0)

int main(int argc, char **argv)
{
    static uint32_t (*const STAGES[])(uint32_t) = {read_request, parse,    authorise,   look_up,
                                                   decode,       validate, render,      escape,
                                                   compress,     encrypt,  write_reply, account};
    uint32_t sum = 0;
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    for (uint32_t i = 0; i < CELLS; i++)
        table[i] = i * 2654435761u;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < sizeof(STAGES) / sizeof(*STAGES); i++)
            sum += STAGES[i](sum + (uint32_t)round);
    printf("%u\n", sum);
    return 0;
}
