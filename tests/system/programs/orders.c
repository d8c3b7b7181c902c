/* Records a known number of events of many types with LTTng's user-space tracer, from several threads:
 *     orders THREADS ORDERS     each thread records ORDERS orders, and is idle after every hundredth */
/* SPDX-License-Identifier: Apache-2.0 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "orders.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int orders;

static void *take_orders(void *argument)
{
    int thread = (int)(intptr_t)argument;
    const uint16_t items[] = {1, 2, 3, 40000, 5, 6, 7, 8, 9, 10};
    char name[32];
    for (int i = 0; i < orders; i++) {
        snprintf(name, sizeof(name), "order %d of %d", i, thread);
        lttng_ust_tracepoint(orders, order, i, thread, name, items, (size_t)(i % 11));
        if (i % 100 == 99)
            lttng_ust_tracepoint(orders, idle, thread);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc == 3 ? atoi(argv[1]) : 0;
    pthread_t ids[64];
    if (threads < 1 || threads > 64)
        return 2;
    orders = atoi(argv[2]);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, take_orders, (void *)(intptr_t)i) != 0)
            return 1;
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return 0;
}
